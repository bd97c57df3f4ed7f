"""Where the model server under test is: the model server itself, or skymem in front of it.

Every promise of the contract holds for both: what fails directly is no fault of skymem's.
"""

import logging
import os
import time

BASE_URL = os.environ["CONTRACT_BASE_URL"]
THROUGH_SKYMEM = "CONTRACT_KEY" in os.environ
KEY = os.environ.get("CONTRACT_KEY", "none")

# A slow machine is no fault.
logging.getLogger("asyncio").setLevel(logging.ERROR)

HERON = "The heron flies at midnight."
ASK = [{"role": "user", "content": "When does the heron fly?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def text_of(chunks):
    """What a stream says."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def eventually(ask, wanted):
    """The first answer with `wanted` in it; the last one when there is none for a minute.

    What was said is learned a moment after it was answered.
    """
    patience = time.monotonic() + 60
    while True:
        answer = ask()
        if wanted in answer or time.monotonic() > patience:
            return answer
        time.sleep(0.1)
