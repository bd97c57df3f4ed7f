"""OpenAI's own client, as it is."""

import asyncio
import json
import unittest

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from place import ASK, BASE_URL, HERON, KEY, THROUGH_SKYMEM, WEATHER, text_of


class Dog(BaseModel):
    """What a structured answer is read into."""

    name: str
    age: int


def echoed(text):
    """The request that the model got, from the answer of the model `echo`."""
    return json.loads(text)


class Chat(unittest.TestCase):
    """Questions and answers."""

    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def ask(self, model, messages=ASK, **settings):
        return self.client.chat.completions.create(model=model, messages=messages, **settings)

    def stream(self, model, messages=ASK, **settings):
        with self.ask(model, messages, stream=True, **settings) as stream:
            return list(stream)

    def test_an_answer_comes_whole(self):
        answer = self.ask("says")

        self.assertEqual(answer.choices[0].message.content, HERON)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertGreater(answer.usage.prompt_tokens, 0)

    def test_an_answer_comes_as_a_stream(self):
        chunks = self.stream("says")

        self.assertEqual(text_of(chunks), HERON)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")
        self.assertTrue(all(chunk.usage is None for chunk in chunks))

    def test_usage_comes_with_a_stream_that_asks_for_it(self):
        chunks = self.stream("says", stream_options={"include_usage": True})

        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.total_tokens, 0)

    def test_characters_survive_however_the_stream_is_cut(self):
        whole = self.ask("unicode").choices[0].message.content

        self.assertEqual(len(whole), 2000)
        self.assertEqual(text_of(self.stream("unicode")), whole)

    def test_comments_in_a_stream_are_no_events(self):
        self.assertEqual(text_of(self.stream("comments")), HERON)

    def test_thoughts_come_through(self):
        whole = self.ask("thinks").choices[0].message
        deltas = [chunk.choices[0].delta for chunk in self.stream("thinks")]

        self.assertEqual((whole.content, whole.reasoning_content), ("At midnight.", "Herons are night birds."))
        thoughts = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        self.assertEqual(thoughts, "Herons are night birds.")

    def test_the_reason_for_an_early_end_comes_through(self):
        self.assertEqual(self.ask("length").choices[0].finish_reason, "length")
        self.assertEqual(self.stream("length")[-1].choices[0].finish_reason, "length")

    def test_what_no_client_knows_comes_through_both_ways(self):
        answer = self.ask("unknown-fields", extra_body={"mood": "glad", "tiny": 1e-7, "big": 12345678901234567890})

        extra = answer.model_extra
        self.assertEqual(extra["big"], 12345678901234567890)
        self.assertEqual(answer.choices[0].message.mood, "glad")
        self.assertEqual(answer.choices[0].certainty, 1e-7)
        asked = extra["asked"]
        self.assertEqual((asked["mood"], asked["tiny"], asked["big"]), ("glad", 1e-7, 12345678901234567890))

    def test_settings_reach_the_model(self):
        settings = {
            "temperature": 0.25, "top_p": 0.5, "seed": 7, "max_tokens": 99, "stop": ["END"], "n": 1,
            "logit_bias": {"50256": -100}, "presence_penalty": 0.5, "user": "alice",
            "metadata": {"purpose": "contract"}, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [WEATHER],
        }

        asked = echoed(self.ask("echo", **settings).choices[0].message.content)

        self.assertEqual({name: asked[name] for name in settings}, settings)

    def test_pictures_and_other_parts_reach_the_model(self):
        parts = [
            {"type": "text", "text": "What is on this picture?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        ]

        asked = echoed(self.ask("echo", [{"role": "user", "content": parts}]).choices[0].message.content)

        kept = asked["messages"][-1]["content"]
        self.assertEqual([part for part in kept if part["type"] != "text"], parts[1:])
        self.assertIn("What is on this picture?", [part.get("text") for part in kept])

    def test_roles_of_all_kinds_reach_the_model_in_their_order(self):
        messages = [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Hello.", "name": "alice"},
            {"role": "assistant", "content": "Hello, Alice."},
            {"role": "user", "content": "And the heron?"},
        ]

        asked = echoed(self.ask("echo", messages).choices[0].message.content)["messages"]

        # Memory may add to the client's own instructions, and messages of its own beside.
        kept = [message for message in asked if message["content"].startswith(tuple(m["content"] for m in messages))]
        self.assertTrue(kept[0].pop("content").startswith("Be brief."))
        self.assertEqual(kept, [{"role": "developer"}, *messages[1:]])

    def test_a_model_that_is_bound_to_a_schema_is(self):
        answer = self.client.chat.completions.parse(model="json", messages=ASK, response_format=Dog)
        schema = {"name": "dog", "strict": True, "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}
        response_format = {"type": "json_schema", "json_schema": schema}
        asked = echoed(self.ask("echo", response_format=response_format).choices[0].message.content)

        self.assertEqual(answer.choices[0].message.parsed, Dog(name="Rex", age=3))
        self.assertEqual(asked["response_format"], response_format)

    def test_headers_of_the_answer_can_be_read(self):
        raw = self.client.chat.completions.with_raw_response.create(model="says", messages=ASK)

        self.assertEqual(raw.parse().choices[0].message.content, HERON)
        if THROUGH_SKYMEM:
            self.assertIn(raw.headers["x-memory-status"], {"used", "empty"})
            self.assertTrue(raw.headers["x-memory-session"])
            self.assertGreaterEqual(float(raw.headers["x-memory-ms"]), 0)

    def test_a_very_long_question_is_answered(self):
        question = "Herons stand in the water. " * 2_000 + "When do they fly?"

        self.assertEqual(self.ask("says", [{"role": "user", "content": question}]).choices[0].message.content, HERON)


class Tools(unittest.TestCase):
    """A model calls, a client answers, the model goes on."""

    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addCleanup(self.client.close)
        self.messages = [{"role": "user", "content": "How is the weather in Zürich and Tokyo?"}]

    def ask(self, **settings):
        return self.client.chat.completions.create(
            model="tools", messages=self.messages, tools=[WEATHER], **settings
        )

    def answer(self, message, calls):
        """The client's side: what each call gives."""
        self.messages.append(message)
        for call, weather in zip(calls, ["rain", "snow"], strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call, "content": weather})

    def test_tools_are_called_and_their_results_heard(self):
        message = self.ask().choices[0].message
        cities = [json.loads(call.function.arguments)["city"] for call in message.tool_calls]
        self.answer(message, [call.id for call in message.tool_calls])
        told = self.ask().choices[0]

        self.assertIsNone(message.content)
        self.assertEqual(cities, ["Zürich", "東京"])
        self.assertEqual((told.message.content, told.finish_reason), ("It is rain and snow.", "stop"))

    def test_tools_are_called_in_a_stream_and_their_results_heard(self):
        calls = {}
        for chunk in self.ask(stream=True):
            for delta in chunk.choices[0].delta.tool_calls or []:
                call = calls.setdefault(delta.index, {"id": delta.id, "name": delta.function.name, "arguments": ""})
                call["arguments"] += delta.function.arguments or ""
            finish = chunk.choices[0].finish_reason
        functions = [{"name": call["name"], "arguments": call["arguments"]} for call in calls.values()]
        ids = [call["id"] for call in calls.values()]
        tool_calls = [{"id": id, "type": "function", "function": function} for id, function in zip(ids, functions)]
        self.answer({"role": "assistant", "tool_calls": tool_calls}, ids)
        told = text_of(self.ask(stream=True))

        self.assertEqual(finish, "tool_calls")
        self.assertEqual([json.loads(call["arguments"]) for call in functions], [{"city": "Zürich"}, {"city": "東京"}])
        self.assertEqual(told, "It is rain and snow.")

    def test_the_client_s_own_helper_puts_a_stream_together(self):
        with self.client.chat.completions.stream(model="tools", messages=self.messages, tools=[WEATHER]) as stream:
            message = stream.get_final_completion().choices[0].message

        self.assertEqual([call.id for call in message.tool_calls], ["call_0", "call_1"])


class Errors(unittest.TestCase):
    """What goes wrong goes wrong in the client's own words."""

    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def refused(self, expected, model, **settings):
        with self.assertRaises(expected) as refused:
            self.client.chat.completions.create(model=model, messages=ASK, **settings)
        return refused.exception

    def test_every_refusal_of_the_model_is_the_client_s_exception_for_it(self):
        for status, expected in {
            400: openai.BadRequestError,
            401: openai.AuthenticationError,
            403: openai.PermissionDeniedError,
            404: openai.NotFoundError,
            429: openai.RateLimitError,
            500: openai.InternalServerError,
        }.items():
            for stream in [False, True]:
                with self.subTest(status=status, stream=stream):
                    error = self.refused(expected, f"error-{status}", stream=stream)

                    self.assertEqual(error.status_code, status)

    def test_a_refusal_says_what_the_model_said(self):
        self.assertEqual(self.refused(openai.BadRequestError, "error-400").code, "context_length_exceeded")
        limited = self.refused(openai.RateLimitError, "error-429")
        self.assertEqual(limited.response.headers["retry-after"], "7")
        self.assertIn("<h1>500", self.refused(openai.InternalServerError, "error-500").response.text)

    def test_there_is_no_such_model(self):
        self.assertEqual(self.refused(openai.NotFoundError, "nobody").code, "model_not_found")

    def test_half_a_stream_is_half_an_answer_and_an_error(self):
        heard = []
        with self.assertRaises(Exception) as broken:
            for chunk in self.client.chat.completions.create(model="half", messages=ASK, stream=True):
                heard.append(chunk)

        self.assertNotIsInstance(broken.exception, AssertionError)
        self.assertTrue(text_of(heard))
        self.assertTrue(HERON.startswith(text_of(heard)))

    @unittest.skipUnless(THROUGH_SKYMEM, "the scripted server asks for no key")
    def test_a_wrong_key_is_refused(self):
        client = OpenAI(base_url=BASE_URL, api_key="skm_wrong", max_retries=0, timeout=60)
        self.addCleanup(client.close)

        with self.assertRaises(openai.AuthenticationError) as refused:
            client.chat.completions.create(model="says", messages=ASK)

        self.assertTrue(refused.exception.body["message"])

    @unittest.skipUnless(THROUGH_SKYMEM, "a model server has no memory")
    def test_what_memory_cannot_be_told_is_refused_and_says_why(self):
        for headers in [{"X-Memory": "sideways"}, {"X-Memory-Budget": "-1"}, {"X-Memory-Budget": "lots"}]:
            with self.subTest(headers=headers):
                error = self.refused(openai.BadRequestError, "says", extra_headers=headers)

                self.assertTrue(error.body["message"])


class Others(unittest.TestCase):
    """What is no chat."""

    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def test_models_are_listed(self):
        models = [model.id for model in self.client.models.list()]

        self.assertIn("says", models)
        self.assertIn("error-429", models)

    def test_a_model_can_be_looked_up(self):
        self.assertEqual(self.client.models.retrieve("says").id, "says")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nobody")

    def test_texts_become_vectors(self):
        # The client asks for base64 by itself, and unpacks it.
        vectors = self.client.embeddings.create(model="says", input=["one two", "three"]).data
        numbers = self.client.embeddings.create(model="says", input="one two", encoding_format="float").data

        self.assertEqual([len(vector.embedding) for vector in vectors], [4, 4])
        self.assertEqual(vectors[0].embedding, numbers[0].embedding)


class Async(unittest.IsolatedAsyncioTestCase):
    """The same, many at once."""

    async def asyncSetUp(self):
        self.client = AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addAsyncCleanup(self.client.close)

    async def test_many_streams_at_once_do_not_mix(self):
        async def one(at):
            chunks = []
            question = [{"role": "user", "content": f"Say {at}."}]
            stream = await self.client.chat.completions.create(model="echo", messages=question, stream=True)
            async for chunk in stream:
                chunks.append(chunk)
            return json.loads(text_of(chunks))["messages"][-1]["content"]

        answers = await asyncio.gather(*(one(at) for at in range(16)))

        for at, answer in enumerate(answers):
            self.assertTrue(answer.endswith(f"Say {at}."), answer)

    async def test_who_hangs_up_early_does_no_harm(self):
        stream = await self.client.chat.completions.create(model="unicode", messages=ASK, stream=True)
        async for _ in stream:
            break
        await stream.close()

        answer = await self.client.chat.completions.create(model="says", messages=ASK)

        self.assertEqual(answer.choices[0].message.content, HERON)


if __name__ == "__main__":
    unittest.main()
