//! What a model server answers: words in whatever dialect it was asked in, or bytes as they are.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::wire::{Rendered, Step};
use super::{Gate, Heard};

/// When every answer was made: the same script gives the same bytes.
pub(super) const CREATED: u64 = 1_770_021_000;
/// The same moment in Ollama's way.
pub(super) const CREATED_AT: &str = "2026-02-02T08:30:00Z";
const ID: &str = "chatcmpl-scripted";

/// One answer of a scripted model server.
#[derive(Debug, Clone)]
pub struct Answer {
    before: Option<Gate>,
    content: Content,
    /// What happens after the content, or, in an answer of chunks, within it.
    steps: Vec<Step>,
    pieces: Option<usize>,
    comments: bool,
}

#[derive(Debug, Clone)]
enum Content {
    /// Said in the dialect of the question.
    Said { text: String, reasoning: String, calls: Vec<Call>, finish: &'static str },
    /// Sent as it is.
    Http { status: u16, headers: Vec<(String, String)>, chunked: bool },
    /// Sent in place of an answer.
    Raw,
}

/// A call of a tool.
#[derive(Debug, Clone)]
struct Call {
    id: String,
    name: String,
    arguments: Value,
}

impl Answer {
    /// Words, in the dialect and the way that was asked for: a stream has an event for every word.
    #[must_use]
    pub fn says(text: &str) -> Self {
        Self::said(text, Vec::new(), "stop")
    }

    /// One call per tool and arguments, with ids `call_0`, `call_1`, …; a stream has the arguments in small pieces.
    #[must_use]
    pub fn calls(tools: &[(&str, Value)]) -> Self {
        let call = |(at, (name, arguments)): (usize, &(&str, Value))| Call {
            id: format!("call_{at}"),
            name: (*name).to_owned(),
            arguments: arguments.clone(),
        };
        Self::said("", tools.iter().enumerate().map(call).collect(), "tool_calls")
    }

    /// The same answer with a different reason for its end, as `length` is.
    #[must_use]
    pub fn finishing_with(mut self, reason: &'static str) -> Self {
        if let Content::Said { finish, .. } = &mut self.content {
            *finish = reason;
        }
        self
    }

    /// The same answer with what was thought before: `reasoning_content`.
    #[must_use]
    pub fn thinking(mut self, thought: &str) -> Self {
        if let Content::Said { reasoning, .. } = &mut self.content {
            thought.clone_into(reasoning);
        }
        self
    }

    /// JSON with status 200.
    #[must_use]
    pub fn json(body: &Value) -> Self {
        Self::status(200, "application/json", body.to_string())
    }

    /// A body with a status, whole.
    #[must_use]
    pub fn status(status: u16, content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        Self::new(Content::Http { status, headers, chunked: false }).chunk(body)
    }

    /// An error in OpenAI's shape.
    #[must_use]
    pub fn refusal(status: u16, code: &str, message: &str) -> Self {
        let error = json!({ "message": message, "type": "invalid_request_error", "param": null, "code": code });
        Self::status(status, "application/json", json!({ "error": error }).to_string())
    }

    /// 429 with `retry-after`, in seconds.
    #[must_use]
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        Self::refusal(429, "rate_limit_exceeded", "Rate limit reached")
            .header("retry-after", &retry_after_seconds.to_string())
    }

    /// 500 with a page for people.
    #[must_use]
    pub fn breaks() -> Self {
        Self::status(500, "text/html", "<html><body><h1>500 Internal Server Error</h1></body></html>")
    }

    /// An event stream, an event and a chunk per value, without an end: add [`Answer::done`].
    #[must_use]
    pub fn events(events: &[Value]) -> Self {
        let headers = vec![
            ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
            ("cache-control".to_owned(), "no-cache".to_owned()),
        ];
        let stream = Self::new(Content::Http { status: 200, headers, chunked: true });
        events.iter().fold(stream, |stream, event| stream.chunk(format!("data: {event}\n\n")))
    }

    /// An event stream of exactly these chunks.
    #[must_use]
    pub fn chunks<B: AsRef<[u8]>>(chunks: impl IntoIterator<Item = B>) -> Self {
        chunks.into_iter().fold(Self::events(&[]), Self::chunk)
    }

    /// Bytes in place of an answer in HTTP; the connection ends after them.
    #[must_use]
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::new(Content::Raw).chunk(bytes).then_closes()
    }

    /// Bytes that are no HTTP.
    #[must_use]
    pub fn garbage() -> Self {
        Self::raw(b"\x00\xff\xfe\x16\x03\x01 this is no HTTP\r\n\r\n\x80\x80")
    }

    /// Nothing, for as long as the caller waits.
    #[must_use]
    pub fn hangs() -> Self {
        Self::says("").after(&Gate::new())
    }

    /// The same answer, which begins when the gate opens: not even a status comes before.
    #[must_use]
    pub fn after(mut self, gate: &Gate) -> Self {
        self.before = Some(gate.clone());
        self
    }

    /// The same answer with one header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Content::Http { headers, .. } = &mut self.content {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        self
    }

    /// The same answer with another status.
    #[must_use]
    pub fn with_status(mut self, code: u16) -> Self {
        if let Content::Http { status, .. } = &mut self.content {
            *status = code;
        }
        self
    }

    /// Then these bytes, as a chunk of their own.
    #[must_use]
    pub fn chunk(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(Step::Send(bytes.as_ref().to_vec()));
        self
    }

    /// Then a comment that keeps the connection alive.
    #[must_use]
    pub fn comment(self) -> Self {
        self.chunk(": keep-alive\n\n")
    }

    /// Then nothing until the gate opens.
    #[must_use]
    pub fn wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// Then the end of an event stream.
    #[must_use]
    pub fn done(self) -> Self {
        self.chunk("data: [DONE]\n\n")
    }

    /// Then the connection ends, though the body does not. For words that are said, see
    /// [`Answer::cut_after`].
    #[must_use]
    pub fn then_closes(mut self) -> Self {
        self.steps.push(Step::Close);
        self
    }

    /// Then the connection breaks; what the caller has not read yet may be lost.
    #[must_use]
    pub fn then_resets(mut self) -> Self {
        self.steps.push(Step::Reset);
        self
    }

    /// The same words as the bytes of an OpenAI stream, which stops after `bytes` of them.
    ///
    /// # Panics
    ///
    /// When it is no answer of words, or has fewer bytes.
    #[must_use]
    pub fn cut_after(self, bytes: usize) -> Self {
        let whole = self.bytes(&json!({ "stream": true }));
        assert!(bytes < whole.len(), "the stream has only {} bytes", whole.len());
        Self::chunks([&whole[..bytes]]).then_closes()
    }

    /// The same body in chunks of `size` bytes, whatever they cut in two.
    #[must_use]
    pub fn in_pieces(mut self, size: usize) -> Self {
        self.pieces = Some(size.max(1));
        self
    }

    /// The same stream with a comment before every event.
    #[must_use]
    pub fn with_comments(mut self) -> Self {
        self.comments = true;
        self
    }

    /// All bytes of the body for a chat request.
    #[must_use]
    pub fn bytes(&self, request: &Value) -> Vec<u8> {
        let body = request.to_string().into_bytes();
        let heard = Heard { method: "POST".to_owned(), path: "/v1/chat/completions".to_owned(), headers: vec![], body };
        let sent = self.clone().rendered(&heard).steps.into_iter().filter_map(|step| match step {
            Step::Send(bytes) => Some(bytes),
            _ => None,
        });
        sent.collect::<Vec<_>>().concat()
    }

    /// One vector of four numbers per text, in the encoding that was asked for.
    pub(super) fn embeddings(request: &Value) -> Self {
        let texts = match &request["input"] {
            Value::Array(texts) if texts.iter().all(Value::is_number) => vec![request["input"].to_string()],
            Value::Array(texts) => texts.iter().map(ToString::to_string).collect(),
            text => vec![text.to_string()],
        };
        let vector = |text: &String| {
            let numbers = [text.len(), text.chars().count(), text.split(' ').count(), 1].map(|number| number as f32);
            match request["encoding_format"].as_str() {
                Some("base64") => json!(STANDARD.encode(numbers.map(f32::to_le_bytes).concat())),
                _ => json!(numbers),
            }
        };
        let item = |(at, text)| json!({ "object": "embedding", "index": at, "embedding": vector(text) });
        let tokens = texts.iter().map(String::len).sum::<usize>() / 4;
        Self::json(&json!({
            "object": "list",
            "data": texts.iter().enumerate().map(item).collect::<Vec<_>>(),
            "model": request["model"],
            "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        }))
    }

    fn said(text: &str, calls: Vec<Call>, finish: &'static str) -> Self {
        Self::new(Content::Said { text: text.to_owned(), reasoning: String::new(), calls, finish })
    }

    fn new(content: Content) -> Self {
        Self { before: None, content, steps: Vec::new(), pieces: None, comments: false }
    }

    /// The answer to a request, as bytes.
    pub(super) fn rendered(self, heard: &Heard) -> Rendered {
        let Self { before, content, steps, pieces, comments } = self;
        let (head, chunked, body) = match content {
            Content::Raw => (Vec::new(), false, Vec::new()),
            Content::Http { status, headers, chunked } => (head(status, &headers), chunked, Vec::new()),
            Content::Said { text, reasoning, calls, finish } => {
                let said = Said { text: &text, reasoning: &reasoning, calls: &calls, finish, request: &heard.json() };
                let (kind, chunked, body) = said.as_asked(&heard.path);
                (head(200, &[("content-type".to_owned(), kind.to_owned())]), chunked, body)
            }
        };
        let mut all: Vec<_> = body.into_iter().map(|text| Step::Send(text.into_bytes())).chain(steps).collect();
        if comments {
            let comment = |step: &Step| matches!(step, Step::Send(_)).then(|| Step::Send(b": keep-alive\n\n".to_vec()));
            all = all.into_iter().flat_map(|step| comment(&step).into_iter().chain([step])).collect();
        }
        if let Some(size) = pieces {
            all = in_pieces(all, size);
        }
        let head = match (head.is_empty(), chunked) {
            (true, _) => head,
            (false, true) => [head, b"transfer-encoding: chunked\r\n\r\n".to_vec()].concat(),
            (false, false) => [head, format!("content-length: {}\r\n\r\n", length(&all)).into_bytes()].concat(),
        };
        Rendered { before, head, chunked, steps: all }
    }
}

/// The status line and the headers, without those that say how long the body is.
fn head(status: u16, headers: &[(String, String)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
    for (name, value) in headers {
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    head
}

/// How many bytes a body has; one that is to be cut short promises one more than it keeps.
fn length(steps: &[Step]) -> usize {
    let length = |step: &Step| match step {
        Step::Send(bytes) => bytes.len(),
        Step::Close | Step::Reset => 1,
        Step::Wait(_) => 0,
    };
    steps.iter().map(length).sum()
}

/// The same bytes in pieces of `size`; pieces do not reach over a gate.
fn in_pieces(steps: Vec<Step>, size: usize) -> Vec<Step> {
    let mut pieces = Vec::new();
    let mut waiting = VecDeque::new();
    for step in steps {
        match step {
            Step::Send(bytes) => {
                waiting.extend(bytes);
                while waiting.len() >= size {
                    pieces.push(Step::Send(waiting.drain(..size).collect()));
                }
            }
            other => {
                pieces.push(Step::Send(waiting.drain(..).collect()));
                pieces.push(other);
            }
        }
    }
    pieces.push(Step::Send(waiting.into_iter().collect()));
    pieces
}

/// Words that somebody asked for.
struct Said<'a> {
    text: &'a str,
    reasoning: &'a str,
    calls: &'a [Call],
    finish: &'static str,
    request: &'a Value,
}

impl Said<'_> {
    /// The kind of content, whether it comes in chunks, and the pieces.
    fn as_asked(&self, path: &str) -> (&'static str, bool, Vec<String>) {
        let ollama = path == "/api/chat";
        let stream = self.request["stream"].as_bool().unwrap_or(ollama);
        match (ollama, stream) {
            (false, false) => ("application/json", false, vec![self.completion().to_string()]),
            (false, true) => {
                let mut events: Vec<_> = self.chunks().iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
                events.push("data: [DONE]\n\n".to_owned());
                ("text/event-stream; charset=utf-8", true, events)
            }
            (true, false) => ("application/json", false, vec![self.ollama(self.text, true).to_string()]),
            (true, true) => {
                let mut lines: Vec<_> =
                    words(self.text).map(|word| format!("{}\n", self.ollama(word, false))).collect();
                lines.push(format!("{}\n", self.ollama("", true)));
                ("application/x-ndjson", true, lines)
            }
        }
    }

    /// OpenAI's whole answer.
    fn completion(&self) -> Value {
        let call = |call: &Call| {
            let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        let mut message = json!({ "role": "assistant", "content": self.text, "refusal": null });
        if !self.calls.is_empty() {
            message["content"] = Value::Null;
            message["tool_calls"] = self.calls.iter().map(call).collect();
        }
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        let choice = json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": self.finish });
        json!({
            "id": ID, "object": "chat.completion", "created": CREATED, "model": self.request["model"],
            "choices": [choice], "usage": self.usage(), "system_fingerprint": "fp_scripted",
        })
    }

    /// OpenAI's stream, without its end.
    fn chunks(&self) -> Vec<Value> {
        let mut deltas = vec![json!({ "role": "assistant", "content": "" })];
        deltas.extend(words(self.reasoning).map(|word| json!({ "reasoning_content": word })));
        deltas.extend(words(self.text).map(|word| json!({ "content": word })));
        for (at, call) in self.calls.iter().enumerate() {
            let function = json!({ "name": call.name, "arguments": "" });
            let begins = json!({ "index": at, "id": call.id, "type": "function", "function": function });
            deltas.push(json!({ "tool_calls": [begins] }));
            let arguments: Vec<char> = call.arguments.to_string().chars().collect();
            deltas.extend(arguments.chunks(5).map(|piece| {
                let piece = piece.iter().collect::<String>();
                json!({ "tool_calls": [{ "index": at, "function": { "arguments": piece } }] })
            }));
        }
        let chunk = |choices: Value, usage: Value| {
            let mut chunk = json!({
                "id": ID, "object": "chat.completion.chunk", "created": CREATED, "model": self.request["model"],
                "system_fingerprint": "fp_scripted", "choices": choices,
            });
            if self.wants_usage() {
                chunk["usage"] = usage;
            }
            chunk
        };
        let with_delta = |delta, finish: Value| {
            let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
            chunk(json!([choice]), Value::Null)
        };
        let mut chunks: Vec<_> = deltas.into_iter().map(|delta| with_delta(delta, Value::Null)).collect();
        chunks.push(with_delta(json!({}), json!(self.finish)));
        if self.wants_usage() {
            chunks.push(chunk(json!([]), self.usage()));
        }
        chunks
    }

    /// Ollama's answer, or a line of its stream.
    fn ollama(&self, text: &str, last: bool) -> Value {
        let mut message = json!({ "role": "assistant", "content": text });
        if last && !self.calls.is_empty() {
            let call = |call: &Call| json!({ "function": { "name": call.name, "arguments": call.arguments } });
            message["tool_calls"] = self.calls.iter().map(call).collect();
        }
        let mut line = json!({
            "model": self.request["model"], "created_at": CREATED_AT, "message": message, "done": last,
        });
        if last {
            let usage = self.usage();
            // Ollama knows no other reason for a call of a tool.
            line["done_reason"] = json!(if self.finish == "tool_calls" { "stop" } else { self.finish });
            line["prompt_eval_count"] = usage["prompt_tokens"].clone();
            line["eval_count"] = usage["completion_tokens"].clone();
            for duration in ["total_duration", "load_duration", "prompt_eval_duration", "eval_duration"] {
                line[duration] = json!(1_000_000);
            }
        }
        line
    }

    fn wants_usage(&self) -> bool {
        self.request["stream_options"]["include_usage"] == true
    }

    /// Four characters are a token.
    fn usage(&self) -> Value {
        let asked = self.request["messages"].to_string().chars().count() / 4;
        let answered = self.text.chars().count() / 4 + 1;
        json!({ "prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered })
    }
}

/// The words of a text, each with the white space after it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

/// A text of `count` characters of three bytes each, of many kinds, with a full stop now and then.
#[must_use]
pub fn cjk(count: usize) -> String {
    let character = |at: usize| match at % 40 {
        39 => '。',
        _ => char::from_u32(0x4E00 + (at as u32 * 37) % 5_000).unwrap_or('漢'),
    };
    (0..count).map(character).collect()
}
