"""A small real model. It knows next to nothing: only what any model keeps to is asserted."""

import json
import unittest
import uuid

import openai
from openai import OpenAI

from place import BASE_URL, KEY, THROUGH_SKYMEM, text_of

MODEL = "smollm2"


class Real(unittest.TestCase):
    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=300)
        self.addCleanup(self.client.close)

    def ask(self, text, before=(), **settings):
        settings = {"max_tokens": 48, "temperature": 0, **settings}
        messages = [*before, {"role": "user", "content": text}]
        return self.client.chat.completions.create(model=MODEL, messages=messages, **settings)

    def test_an_answer_comes_whole(self):
        answer = self.ask("Say hello.")

        self.assertTrue(answer.choices[0].message.content.strip())
        self.assertIn(answer.choices[0].finish_reason, {"stop", "length"})
        self.assertGreater(answer.usage.prompt_tokens, 0)

    def test_a_stream_comes_to_its_end(self):
        chunks = list(self.ask("Say hello.", stream=True, stream_options={"include_usage": True}))

        self.assertTrue(text_of(chunks).strip())
        finishes = [choice.finish_reason for chunk in chunks for choice in chunk.choices]
        self.assertIn(finishes[-1], {"stop", "length"})
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_an_answer_that_is_bound_to_a_schema_parses(self):
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}},
            "required": ["name", "age"],
            "additionalProperties": False,
        }
        response_format = {"type": "json_schema", "json_schema": {"name": "dog", "strict": True, "schema": schema}}

        answer = self.ask("A dog called Rex, three years old, as JSON.", response_format=response_format, max_tokens=200)

        dog = json.loads(answer.choices[0].message.content)
        self.assertEqual(set(dog), {"name", "age"})

    def test_too_long_a_question_is_refused_in_words(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.ask("Herons stand in the water. " * 2_000)

        self.assertTrue(refused.exception.message)

    def test_models_are_listed(self):
        self.assertIn(MODEL, [model.id for model in self.client.models.list()])

    @unittest.skipUnless(THROUGH_SKYMEM, "a model server has no memory")
    def test_a_long_conversation_with_follow_ups_goes_on(self):
        headers = {"X-Memory-Session": uuid.uuid4().hex, "X-Memory-Budget": "1000"}
        before = []
        for question in [
            "My dog is called Rex, and my ticket is HZ-4471.",
            "How old can he become?",
            "Where does he sleep best?",
            "What should I feed him?",
            "And how often?",
            "Is that too much?",
            "What was my ticket?",
            "And what is his name?",
        ]:
            answer = self.ask(question, before, extra_headers=headers)
            text = answer.choices[0].message.content
            self.assertTrue(text.strip(), question)
            before += [{"role": "user", "content": question}, {"role": "assistant", "content": text}]

        other = {"X-Memory-Session": uuid.uuid4().hex, "X-Memory-Budget": "1000"}
        raw = self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=[{"role": "user", "content": "What is my ticket?"}], max_tokens=16, extra_headers=other
        )
        self.assertIn(raw.headers["x-memory-status"], {"used", "empty"})
        self.assertTrue(raw.parse().choices[0].message.content)


if __name__ == "__main__":
    unittest.main()
