"""What skymem adds for a client that was not changed by a line."""

import json
import unittest
import uuid

from openai import OpenAI

from place import BASE_URL, KEY, THROUGH_SKYMEM, eventually, text_of


@unittest.skipUnless(THROUGH_SKYMEM, "a model server has no memory")
class Memory(unittest.TestCase):
    def setUp(self):
        self.client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0, timeout=60)
        self.addCleanup(self.client.close)
        # Nobody has said it before.
        self.word = "word" + uuid.uuid4().hex[:12]

    def ask(self, text, model="echo", before=(), **settings):
        messages = [*before, {"role": "user", "content": text}]
        raw = self.client.chat.completions.with_raw_response.create(model=model, messages=messages, **settings)
        return raw.headers, raw.parse().choices[0].message.content

    def looks_up(self, wanted=None):
        """What the model is sent with a question about the word, by somebody in a new session."""
        headers = {"X-Memory": "read", "X-Memory-Session": uuid.uuid4().hex}
        question = f"What do you know about {self.word}?"
        return eventually(lambda: self.ask(question, extra_headers=headers)[1], wanted or question)

    def test_a_second_session_recalls_what_the_first_one_said(self):
        said = f"The heron {self.word} lives in Windhoek."

        headers, _ = self.ask(said, "says")
        asked = self.looks_up(said)

        self.assertIn("x-memory-session", headers)
        self.assertIn(said, asked)

    def test_what_was_said_in_a_stream_is_recalled(self):
        said = f"The osprey {self.word} lives in Bergen."
        with self.client.chat.completions.create(
            model="says", messages=[{"role": "user", "content": said}], stream=True
        ) as stream:
            self.assertTrue(text_of(stream))

        self.assertIn(said, self.looks_up(said))

    def test_what_a_client_asked_that_hung_up_is_recalled(self):
        said = f"The ibis {self.word} lives in Cairo."
        stream = self.client.chat.completions.create(
            model="unicode", messages=[{"role": "user", "content": said}], stream=True
        )
        for chunk in stream:
            if text_of([chunk]):
                break
        stream.close()

        self.assertIn(said, self.looks_up(said))

    def test_a_conversation_that_sends_its_history_is_one_session(self):
        first = f"The crane {self.word} lives in Kyoto."
        headers, answer = self.ask(first, "says")
        before = [{"role": "user", "content": first}, {"role": "assistant", "content": answer}]

        later, asked = self.ask("And what does it eat?", before=before)

        self.assertEqual(later["x-memory-session"], headers["x-memory-session"])
        own = [message for message in json.loads(asked)["messages"] if message["role"] != "system"]
        self.assertEqual([message["role"] for message in own], ["user", "assistant", "user"])
        self.assertEqual(asked.count(first), 1, asked)

    def test_memory_can_be_switched_off_for_a_request(self):
        for settings in [
            {"extra_headers": {"X-Memory": "off"}},
            {"metadata": {"memory": "off"}},
            {"model": "echo:nomem"},
        ]:
            with self.subTest(settings=settings):
                headers, asked = self.ask(f"Hello, {self.word}.", **settings)

                self.assertEqual(headers["x-memory-status"], "off")
                sent = json.loads(asked)
                self.assertEqual(sent["messages"], [{"role": "user", "content": f"Hello, {self.word}."}])
                self.assertEqual(sent["model"], "echo")

    def test_what_was_said_with_memory_off_or_for_a_title_is_not_recalled(self):
        secret = f"The stork {self.word} lives in Ulm."
        self.ask(secret, "says", extra_headers={"X-Memory": "off"})
        task = f"### Task:\nGenerate a concise, 3-5 word title.\n<chat_history>\nUSER: {secret}\n</chat_history>"
        headers, _ = self.ask(task, "says")
        known = f"The egret {self.word} lives in Porto."
        self.ask(known, "says")

        asked = self.looks_up(known)

        self.assertEqual(headers["x-memory-status"], "utility")
        self.assertIn(known, asked)
        self.assertNotIn(secret, asked)


if __name__ == "__main__":
    unittest.main()
