"""LangChain's chat model for OpenAI's API, as it is."""

import json
import unittest

import openai
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from place import BASE_URL, HERON, KEY, THROUGH_SKYMEM, eventually

QUESTION = "When does the heron fly?"


class Dog(BaseModel):
    """A dog."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return {"Zürich": "rain", "東京": "snow"}[city]


def model(name, **settings):
    return ChatOpenAI(model=name, base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60, **settings)


class Chat(unittest.TestCase):
    def test_an_answer_comes_whole(self):
        answer = model("says").invoke(QUESTION)

        self.assertEqual(answer.content, HERON)
        self.assertGreater(answer.usage_metadata["input_tokens"], 0)

    def test_an_answer_comes_as_a_stream(self):
        chunks = list(model("says", stream_usage=True).stream(QUESTION))

        self.assertEqual("".join(chunk.content for chunk in chunks), HERON)
        self.assertGreater(len(chunks), 3)
        self.assertTrue(any(chunk.usage_metadata for chunk in chunks))

    def test_messages_of_all_kinds_reach_the_model(self):
        messages = [
            SystemMessage("Be brief."),
            HumanMessage("Hello."),
            AIMessage("Hello, Alice."),
            HumanMessage([
                {"type": "text", "text": "And on this picture?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]),
        ]

        asked = json.loads(model("echo").invoke(messages).content)["messages"]

        own = [message["role"] for message in asked if message["role"] != "system"]
        self.assertEqual(own, ["user", "assistant", "user"])
        self.assertTrue(asked[0]["content"].startswith("Be brief."))
        self.assertEqual(asked[-1]["content"][-1]["type"], "image_url")

    def test_a_structured_answer_is_read(self):
        for method in ["json_schema", "json_mode"]:
            with self.subTest(method=method):
                dog = model("json").with_structured_output(Dog, method=method).invoke("Which dog, as JSON?")

                self.assertEqual(dog, Dog(name="Rex", age=3))

    def test_tools_are_called_and_their_results_heard(self):
        self.check_tools(lambda bound, messages: bound.invoke(messages))

    def test_tools_are_called_in_a_stream_and_their_results_heard(self):
        def stream(bound, messages):
            chunks = iter(bound.stream(messages))
            whole = next(chunks)
            for chunk in chunks:
                whole += chunk
            return whole

        self.check_tools(stream)

    def check_tools(self, ask):
        bound = model("tools").bind_tools([get_weather])
        messages = [HumanMessage("How is the weather in Zürich and Tokyo?")]

        called = ask(bound, messages)
        messages.append(AIMessage(called.content, tool_calls=called.tool_calls))
        for call in called.tool_calls:
            messages.append(ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"]))
        told = ask(bound, messages)

        self.assertEqual([call["args"]["city"] for call in called.tool_calls], ["Zürich", "東京"])
        self.assertEqual(told.content, "It is rain and snow.")

    def test_a_refusal_is_the_client_s_exception_for_it(self):
        for name, expected in {
            "error-401": openai.AuthenticationError,
            "error-404": openai.NotFoundError,
            "error-429": openai.RateLimitError,
        }.items():
            with self.subTest(name=name), self.assertRaises(expected):
                model(name).invoke(QUESTION)

    def test_texts_become_vectors(self):
        embeddings = OpenAIEmbeddings(
            model="says", base_url=BASE_URL, api_key=KEY, max_retries=0, check_embedding_ctx_length=False
        )

        self.assertEqual(len(embeddings.embed_query("one two")), 4)
        self.assertEqual(len(embeddings.embed_documents(["one", "two"])), 2)

    @unittest.skipUnless(THROUGH_SKYMEM, "a model server has no memory")
    def test_what_was_said_in_a_chain_is_remembered_in_another(self):
        headers = {"X-Memory-Session": "langchain-one"}
        model("says", default_headers=headers).invoke("My parrot Coco speaks Portuguese.")

        headers = {"X-Memory-Session": "langchain-two", "X-Memory": "read"}
        other = model("echo", default_headers=headers)
        wanted = "My parrot Coco speaks Portuguese."
        asked = eventually(lambda: other.invoke("Which language does my parrot Coco speak?").content, wanted)

        self.assertIn(wanted, asked)


class Async(unittest.IsolatedAsyncioTestCase):
    async def test_an_answer_comes_as_a_stream(self):
        chunks = [chunk.content async for chunk in model("says").astream(QUESTION)]

        self.assertEqual("".join(chunks), HERON)


if __name__ == "__main__":
    unittest.main()
