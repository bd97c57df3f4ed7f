//! What a model answered, read beside the relay from the bytes that pass. Pure.

use serde::Deserialize;
use serde_json::{Value, json};
use skymem_engine::Content;

use super::sse::Events;

/// Reads an answer while it passes.
#[derive(Debug)]
pub(crate) struct Tee {
    form: Form,
    answer: Answer,
}

#[derive(Debug)]
enum Form {
    /// A stream of events.
    Events(Events),
    /// One JSON object, read when it is whole.
    Whole(Vec<u8>),
    /// Something that is no chat, or too large.
    Unread,
}

/// What a model answered, as far as it got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its words.
    pub(crate) text: String,
    /// Why it would not answer, in its words.
    pub(crate) refusal: String,
    /// The tools it called, in order.
    pub(crate) calls: Vec<Call>,
    /// Whether it came to its end.
    pub(crate) whole: bool,
    /// What the request cost by the provider's count.
    pub(crate) prompt_tokens: Option<u64>,
}

/// A tool that a model called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Call {
    index: u64,
    /// The id its result refers to; empty when the model gave none.
    pub(crate) id: String,
    /// Which tool.
    pub(crate) name: String,
    /// With what, as the model wrote it: JSON, as a rule.
    pub(crate) arguments: String,
}

/// An answer that is one JSON object is read up to this size.
const LARGEST_WHOLE_BYTES: usize = 16 << 20;
/// Of an answer no more than this is remembered.
const LONGEST_TEXT_BYTES: usize = 2 << 20;
/// No answer calls more tools at once.
const MOST_CALLS: usize = 256;

impl Tee {
    /// For an answer with that `Content-Type` and `Content-Encoding`.
    pub(crate) fn of(content_type: &str, content_encoding: Option<&str>) -> Self {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let readable = content_encoding.is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity"));
        let form = match kind.as_str() {
            _ if !readable => Form::Unread,
            "text/event-stream" => Form::Events(Events::default()),
            kind if kind == "application/json" || kind.ends_with("+json") => Form::Whole(Vec::new()),
            _ => Form::Unread,
        };
        Self { form, answer: Answer::default() }
    }

    /// Reads one more piece.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        match &mut self.form {
            Form::Events(events) => events.read(piece, |data| self.answer.read_event(data)),
            Form::Whole(bytes) if bytes.len() + piece.len() <= LARGEST_WHOLE_BYTES => bytes.extend_from_slice(piece),
            Form::Whole(_) => self.form = Form::Unread,
            Form::Unread => {}
        }
    }

    /// The answer, now that nothing more comes.
    pub(crate) fn end(self) -> Answer {
        let Self { form, mut answer } = self;
        match form {
            Form::Events(events) => events.end(|data| answer.read_event(data)),
            Form::Whole(bytes) => answer.read_whole(&bytes),
            Form::Unread => {}
        }
        answer.calls.sort_by_key(|call| call.index);
        answer
    }
}

impl Answer {
    /// Whether anything was said that can be remembered.
    pub(crate) fn says_something(&self) -> bool {
        !self.text.trim().is_empty() || !self.refusal.trim().is_empty() || !self.calls.is_empty()
    }

    /// As a turn: a text, or content parts when tools were called.
    pub(crate) fn content(&self) -> Content {
        let words: Vec<&str> =
            [self.text.as_str(), self.refusal.as_str()].into_iter().filter(|words| !words.is_empty()).collect();
        let text = words.join("\n");
        if self.calls.is_empty() {
            return Content::Text(text);
        }
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(json!({ "type": "text", "text": text }));
        }
        parts.extend(self.calls.iter().map(|call| call_part(&call.id, &call.name, &call.arguments)));
        Content::Parts(parts)
    }

    fn read_event(&mut self, data: &str) {
        if data.trim() == "[DONE]" {
            self.whole = true;
            return;
        }
        // What cannot be read is the client's to complain about.
        let Ok(chunk) = serde_json::from_str::<Chunk>(data) else { return };
        self.note_usage(chunk.usage);
        for choice in chunk.choices.unwrap_or_default() {
            if choice.index.unwrap_or(0) != 0 {
                continue;
            }
            self.whole |= choice.finish_reason.is_some_and(|reason| !reason.is_null());
            if let Some(delta) = choice.delta.or(choice.message) {
                self.add(delta);
            }
        }
    }

    fn read_whole(&mut self, bytes: &[u8]) {
        let Ok(chunk) = serde_json::from_slice::<Chunk>(bytes) else { return };
        self.note_usage(chunk.usage);
        let choices = chunk.choices.unwrap_or_default();
        let Some(first) = choices.into_iter().find(|choice| choice.index.unwrap_or(0) == 0) else { return };
        if let Some(message) = first.message {
            self.whole = true;
            self.add(message);
        }
    }

    fn note_usage(&mut self, usage: Option<Usage>) {
        self.prompt_tokens = usage.and_then(|usage| usage.prompt_tokens).or(self.prompt_tokens);
    }

    fn add(&mut self, said: Said) {
        match said.content {
            Some(Value::String(text)) => push(&mut self.text, &text),
            Some(Value::Array(parts)) => {
                let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
                texts.for_each(|text| push(&mut self.text, text));
            }
            _ => {}
        }
        push(&mut self.refusal, said.refusal.as_deref().unwrap_or_default());
        for (place, call) in said.tool_calls.unwrap_or_default().into_iter().enumerate() {
            self.add_call(call.index.unwrap_or(place as u64), call);
        }
        if let Some(function) = said.function_call {
            self.add_call(0, CallDelta { index: None, id: None, function: Some(function) });
        }
    }

    fn add_call(&mut self, index: u64, delta: CallDelta) {
        let known = self.calls.iter_mut().position(|call| call.index == index);
        let place = match known {
            Some(place) => place,
            None if self.calls.len() >= MOST_CALLS => return,
            None => {
                self.calls.push(Call { index, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(place) else { return };
        if let Some(id) = delta.id.filter(|_| call.id.is_empty()) {
            call.id = id;
        }
        let Some(function) = delta.function else { return };
        if let Some(name) = function.name.filter(|_| call.name.is_empty()) {
            call.name = name;
        }
        match function.arguments {
            Some(Value::String(arguments)) => push(&mut call.arguments, &arguments),
            None | Some(Value::Null) => {}
            Some(arguments) => push(&mut call.arguments, &arguments.to_string()),
        }
    }
}

/// A tool call as one part of a turn's content.
pub(crate) fn call_part(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments })
}

fn push(text: &mut String, more: &str) {
    let room = LONGEST_TEXT_BYTES.saturating_sub(text.len());
    text.push_str(more.get(..more.floor_char_boundary(room)).unwrap_or_default());
}

// Everything may be missing, null or of another kind: a fault in one place must not hide the rest.

#[derive(Deserialize)]
struct Chunk {
    #[serde(default, deserialize_with = "lenient")]
    choices: Option<Vec<Choice>>,
    #[serde(default, deserialize_with = "lenient")]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "lenient")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    delta: Option<Said>,
    #[serde(default, deserialize_with = "lenient")]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<Value>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    refusal: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    tool_calls: Option<Vec<CallDelta>>,
    #[serde(default, deserialize_with = "lenient")]
    function_call: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default, deserialize_with = "lenient")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    #[serde(default, deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default, deserialize_with = "lenient")]
    prompt_tokens: Option<u64>,
}

/// What is of another kind than expected counts as absent.
fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streamed(chunks: &[Value]) -> String {
        chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
    }

    fn delta(delta: Value, finish: Option<&str>) -> Value {
        json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
    }

    fn read(content_type: &str, bytes: &[u8], piece: usize) -> Answer {
        let mut tee = Tee::of(content_type, None);
        bytes.chunks(piece).for_each(|piece| tee.read(piece));
        tee.end()
    }

    fn of_stream(stream: &str) -> Answer {
        let whole = read("text/event-stream; charset=utf-8", stream.as_bytes(), usize::MAX);
        assert_eq!(read("text/event-stream", stream.as_bytes(), 7), whole, "{stream}");
        whole
    }

    #[test]
    fn the_words_of_the_first_choice_are_put_together() {
        let stream = streamed(&[
            delta(json!({ "role": "assistant", "content": "" }), None),
            delta(json!({ "reasoning_content": "hm" }), None),
            delta(json!({ "content": "昨天" }), None),
            json!({ "choices": [{ "index": 1, "delta": { "content": "another" } }] }),
            delta(json!({ "content": " 🎉", "unknown": [1] }), None),
            delta(json!({}), Some("stop")),
            json!({ "choices": [], "usage": { "prompt_tokens": 17 } }),
        ]) + "data: [DONE]\n\n";

        let answer = of_stream(&stream);

        assert_eq!((answer.text.as_str(), answer.whole, answer.prompt_tokens), ("昨天 🎉", true, Some(17)));
        assert_eq!(answer.content(), Content::Text("昨天 🎉".into()));
    }

    #[test]
    fn tool_calls_are_put_together_by_their_index() {
        let call = |index: u64, rest: Value| {
            let mut call = rest;
            call["index"] = json!(index);
            delta(json!({ "tool_calls": [call] }), None)
        };
        let stream = streamed(&[
            call(1, json!({ "id": "b", "function": { "name": "time", "arguments": "{}" } })),
            call(0, json!({ "id": "a", "type": "function", "function": { "name": "weather", "arguments": "" } })),
            call(0, json!({ "function": { "arguments": "{\"city\":" } })),
            call(0, json!({ "function": { "arguments": "\"Rom\"}" } })),
            delta(json!({}), Some("tool_calls")),
        ]);

        let answer = of_stream(&stream);

        assert_eq!(answer.calls.len(), 2);
        let Content::Parts(parts) = answer.content() else { panic!("{answer:?}") };
        assert_eq!(parts[0], call_part("a", "weather", "{\"city\":\"Rom\"}"));
        assert_eq!(parts[1], call_part("b", "time", "{}"));
    }

    #[test]
    fn an_answer_that_is_not_streamed_is_read_when_it_is_whole() {
        let whole = json!({
            "choices": [{ "index": 0, "finish_reason": "stop", "message": { "content": "Rex.", "refusal": null } }],
            "usage": { "prompt_tokens": 9, "completion_tokens": 2 },
        });

        let answer = read("application/json", whole.to_string().as_bytes(), 5);
        assert_eq!((answer.text.as_str(), answer.whole, answer.prompt_tokens), ("Rex.", true, Some(9)));

        let refused = json!({ "choices": [{ "message": { "content": null, "refusal": "I would rather not." } }] });
        let answer = read("application/json", refused.to_string().as_bytes(), 5);
        assert_eq!(answer.content(), Content::Text("I would rather not.".into()));
        assert!(answer.says_something());
    }

    #[test]
    fn half_an_answer_is_what_was_said_so_far() {
        let stream =
            streamed(&[delta(json!({ "content": "The answer" }), None), delta(json!({ "content": " is" }), None)]);

        let answer = of_stream(&stream[..stream.len() - 9]);

        assert_eq!((answer.text.as_str(), answer.whole), ("The answer", false));
        assert!(!read("application/json", b"{\"choices\": [{\"message\": {\"cont", 5).says_something());
    }

    #[test]
    fn what_is_no_chat_says_nothing() {
        for (kind, body) in [
            ("text/html", "<html>"),
            ("application/json", "nonsense"),
            ("application/json", r#"{"choices": 7}"#),
            ("application/json", r#"{"error": {"message": "no"}}"#),
            ("application/json", r#"{"choices": [{"message": {"content": {"a": 1}, "tool_calls": "x"}}]}"#),
            ("text/event-stream", "data: {\"choices\": [{\"delta\": 7}]}\n\ndata: {\n\n"),
            ("", ""),
        ] {
            assert!(!read(kind, body.as_bytes(), 3).says_something(), "{body}");
        }
        let mut packed = Tee::of("application/json", Some("gzip"));
        packed.read(br#"{"choices": [{"message": {"content": "a"}}]}"#);
        assert!(!packed.end().says_something());
    }

    #[test]
    fn an_answer_without_end_fills_no_memory() {
        let mut tee = Tee::of("text/event-stream", None);
        let event = streamed(&[delta(json!({ "content": "é".repeat(10_000) }), None)]);
        for _ in 0..300 {
            tee.read(event.as_bytes());
        }

        assert_eq!(tee.end().text.len(), LONGEST_TEXT_BYTES);
    }

    proptest! {
        #[test]
        fn words_survive_every_cut(words in prop::collection::vec("[a-z昨天é🎉\"\\\\ \n]{0,9}", 0..12), piece in 1_usize..40) {
            let chunks: Vec<Value> = words.iter().map(|word| delta(json!({ "content": word }), None)).collect();

            let answer = read("text/event-stream", streamed(&chunks).as_bytes(), piece);

            prop_assert_eq!(answer.text, words.concat());
        }
    }
}
