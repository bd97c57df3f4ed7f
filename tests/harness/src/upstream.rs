//! A model server whose answers a test writes down beforehand, to the byte.
//!
//! It speaks plain TCP, so that it can do what no well-behaved server does: cut a character in two, stop in the middle,
//! never answer, answer garbage. It runs in a thread of its own and needs no runtime of the caller.
//!
//! ```no_run
//! use skymem_harness::{Answer, Gate, Upstream};
//!
//! # async fn test() {
//! let upstream = Upstream::says("Your dog is called Rex.");
//! let gate = Gate::new();
//! upstream.next(Answer::events(&[]).chunk("data: {\"choi").wait(&gate).chunk("ces\":[]}\n\n").then_resets());
//! // … a request to `upstream.url()` …
//! gate.reached().await;
//! gate.open();
//! assert_eq!(upstream.heard_after(1).await[0].said(), "what is my dog called?");
//! # }
//! ```

mod answer;
mod wire;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener as BoundListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

pub use answer::{Answer, cjk};
pub use wire::{Delivered, plain_client};

/// How long a test waits for what should be there at once, before it says that it is not.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scripted model server. Ends with the test that has it.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    script: Arc<Script>,
    server: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Upstream {
    /// A server that answers every question with `text`, in the dialect and the way it was asked: OpenAI or Ollama, as
    /// a stream or whole.
    #[must_use]
    pub fn says(text: &str) -> Self {
        let text = text.to_owned();
        Self::answers(move |_| Answer::says(&text))
    }

    /// A server that answers with the body it was sent, as text.
    #[must_use]
    pub fn echo() -> Self {
        Self::answers(|heard| Answer::says(&heard.text()))
    }

    /// A server that answers what `answer` makes of a request.
    ///
    /// # Panics
    ///
    /// When this machine gives no port.
    pub fn answers(answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().expect("an address"), answer)
    }

    /// As [`Upstream::answers`], on an address of the caller's choice.
    ///
    /// # Panics
    ///
    /// When the address is taken.
    pub fn at(address: SocketAddr, answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static) -> Self {
        let script = Arc::new(Script {
            otherwise: Box::new(answer),
            models: vec!["scripted".to_owned()],
            next: Mutex::default(),
            heard: watch::Sender::new(Vec::new()),
            abandoned: watch::Sender::new(0),
        });
        let mut upstream = Self { address, script, server: None };
        upstream.comes_back();
        upstream
    }

    /// The same server, that lists these models; before it is asked.
    ///
    /// # Panics
    ///
    /// When somebody already uses it.
    #[must_use]
    pub fn with_models(mut self, models: &[&str]) -> Self {
        self.dies();
        let script = Arc::get_mut(&mut self.script).expect("nobody uses the upstream yet");
        script.models = models.iter().map(|&model| model.to_owned()).collect();
        self.comes_back();
        self
    }

    /// Where its OpenAI dialect is: `http://127.0.0.1:port/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where its Ollama dialect is: `http://127.0.0.1:port`.
    #[must_use]
    pub fn ollama_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer to the next POST that has none yet. Answers are given in the order they were written down.
    pub fn next(&self, answer: Answer) {
        self.script.next().push_back((None, answer));
    }

    /// The answer to the next request, of any method, whose path is `path`.
    pub fn next_at(&self, path: &str, answer: Answer) {
        self.script.next().push_back((Some(path.to_owned()), answer));
    }

    /// Every request so far, oldest first.
    #[must_use]
    pub fn heard(&self) -> Vec<Heard> {
        self.script.heard.borrow().clone()
    }

    /// The newest request.
    ///
    /// # Panics
    ///
    /// When there was none.
    #[must_use]
    pub fn last(&self) -> Heard {
        self.script.heard.borrow().last().cloned().expect("the upstream was asked")
    }

    /// How often a model was asked something: chats and embeddings, not lists of models.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.script.heard.borrow().iter().filter(|heard| heard.is_call()).count()
    }

    /// Every request, once there are `count` of them.
    ///
    /// # Panics
    ///
    /// When there are fewer for a minute.
    pub async fn heard_after(&self, count: usize) -> Vec<Heard> {
        let mut heard = self.script.heard.subscribe();
        let enough = tokio::time::timeout(PATIENCE, heard.wait_for(|heard| heard.len() >= count)).await;
        match enough {
            Ok(heard) => heard.expect("the upstream is there").clone(),
            Err(_) => panic!("the upstream heard {} requests, not {count}", self.heard().len()),
        }
    }

    /// Waits until `count` callers have gone away without waiting for the end of their answer.
    ///
    /// # Panics
    ///
    /// When they stay for a minute.
    pub async fn abandoned(&self, count: usize) {
        let mut abandoned = self.script.abandoned.subscribe();
        let enough = tokio::time::timeout(PATIENCE, abandoned.wait_for(|abandoned| *abandoned >= count)).await;
        assert!(enough.is_ok(), "{} callers went away, not {count}", *self.script.abandoned.borrow());
    }

    /// Forgets what it heard and what it was to answer next.
    pub fn begins_anew(&self) {
        self.script.next().clear();
        self.script.heard.send_replace(Vec::new());
        self.script.abandoned.send_replace(0);
    }

    /// The server is killed: connections break, new ones are refused.
    pub fn dies(&mut self) {
        if let Some(Running { stop, thread }) = self.server.take() {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }

    /// The server is there again, where it was.
    ///
    /// # Panics
    ///
    /// When somebody else has taken its address.
    pub fn comes_back(&mut self) {
        self.dies();
        let listener = match BoundListener::bind(self.address) {
            Ok(listener) => listener,
            Err(error) => panic!("the upstream cannot listen on {}: {error}", self.address),
        };
        listener.set_nonblocking(true).expect("a listener can be asked not to block");
        self.address = listener.local_addr().expect("a listener has an address");
        let (stop, stopped) = oneshot::channel();
        let script = Arc::clone(&self.script);
        let thread = std::thread::Builder::new().name("upstream".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener can be shared");
                tokio::select! {
                    () = listen(&listener, &script) => {}
                    _ = stopped => {}
                }
            });
        });
        self.server = Some(Running { stop, thread: thread.expect("a thread can be started") });
    }

    /// What a client gets that asks the server itself, with a chat request as `body`: to be compared with what comes
    /// through somebody between.
    ///
    /// # Panics
    ///
    /// When there is no answer at all.
    pub async fn directly(&self, body: &Value) -> Delivered {
        Delivered::from(plain_client().post(self.url() + "/chat/completions").json(body)).await
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.dies();
    }
}

/// What to answer, and what was asked.
struct Script {
    otherwise: Box<dyn Fn(&Heard) -> Answer + Send + Sync>,
    models: Vec<String>,
    /// By the path that they wait for; any POST when they wait for none.
    next: Mutex<VecDeque<(Option<String>, Answer)>>,
    heard: watch::Sender<Vec<Heard>>,
    abandoned: watch::Sender<usize>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("heard", &self.heard.borrow().len()).finish_non_exhaustive()
    }
}

impl Script {
    fn next(&self) -> MutexGuard<'_, VecDeque<(Option<String>, Answer)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, heard: &Heard) -> Answer {
        let mut next = self.next();
        let fits = |path: &Option<String>| path.as_ref().map_or(heard.method == "POST", |path| *path == heard.path);
        if let Some(at) = next.iter().position(|(path, _)| fits(path)) {
            return next.remove(at).map(|(_, answer)| answer).expect("it was just there");
        }
        drop(next);
        match (heard.method.as_str(), heard.path.as_str()) {
            ("GET", "/v1/models") => Answer::json(&json!({ "object": "list", "data": self.models() })),
            ("GET", "/api/tags") => Answer::json(&json!({ "models": self.ollama_models() })),
            ("GET", "/api/version") => Answer::json(&json!({ "version": "0.0.0-scripted" })),
            ("GET", path) => match path.strip_prefix("/v1/models/") {
                Some(id) => match self.models().into_iter().find(|model| model["id"] == id) {
                    Some(model) => Answer::json(&model),
                    None => Answer::refusal(404, "model_not_found", &format!("The model {id:?} does not exist")),
                },
                None => Answer::refusal(404, "not_found", &format!("There is nothing at {path}")),
            },
            ("POST", "/v1/embeddings") => Answer::embeddings(&heard.json()),
            ("POST", "/v1/chat/completions" | "/api/chat") => (self.otherwise)(heard),
            (_, path) => Answer::refusal(404, "not_found", &format!("There is nothing at {path}")),
        }
    }

    fn models(&self) -> Vec<Value> {
        let model = |id| json!({ "id": id, "object": "model", "created": answer::CREATED, "owned_by": "a test" });
        self.models.iter().map(model).collect()
    }

    fn ollama_models(&self) -> Vec<Value> {
        let model = |name| {
            let details = json!({ "format": "gguf", "family": "scripted", "parameter_size": "1B" });
            json!({
                "name": name, "model": name, "modified_at": answer::CREATED_AT, "size": 1, "digest": "0",
                "details": details,
            })
        };
        self.models.iter().map(model).collect()
    }
}

/// A request that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// `POST`.
    pub method: String,
    /// With the query, if there is one: `/v1/chat/completions`.
    pub path: String,
    /// In the order they came, names in lower case; a value that is no text is lossy.
    pub headers: Vec<(String, String)>,
    /// The body as it came, out of its chunks if it came in chunks.
    pub body: Vec<u8>,
}

impl Heard {
    /// The first header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The messages of a chat.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().cloned().unwrap_or_default()
    }

    /// The text of the newest message of the user; of several text parts, all of them.
    #[must_use]
    pub fn said(&self) -> String {
        let messages = self.messages();
        messages.iter().rev().find(|message| message["role"] == "user").map(text_of).unwrap_or_default()
    }

    /// The texts of all messages, whoever said them, one per line.
    #[must_use]
    pub fn everything(&self) -> String {
        self.messages().iter().map(text_of).collect::<Vec<_>>().join("\n")
    }

    /// The name of the model that was asked.
    #[must_use]
    pub fn model(&self) -> String {
        self.json()["model"].as_str().unwrap_or_default().to_owned()
    }

    fn is_call(&self) -> bool {
        self.method == "POST"
    }
}

/// The text of a message, whose content is a string or a list of parts.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// Where an answer waits until the test lets it go on. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<(watch::Sender<bool>, watch::Sender<usize>)>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new((watch::Sender::new(false), watch::Sender::new(0))))
    }

    /// Lets through who waits, and who comes later.
    pub fn open(&self) {
        self.0.0.send_replace(true);
    }

    /// Waits until an answer stands at the gate: everything before it has been sent.
    ///
    /// # Panics
    ///
    /// When none comes for a minute.
    pub async fn reached(&self) {
        let mut reached = self.0.1.subscribe();
        let reached = tokio::time::timeout(PATIENCE, reached.wait_for(|reached| *reached > 0)).await;
        assert!(reached.is_ok(), "no answer came to the gate");
    }

    /// Stands at the gate.
    async fn pass(&self) {
        self.0.1.send_modify(|reached| *reached += 1);
        let mut open = self.0.0.subscribe();
        open.wait_for(|open| *open).await.expect("a gate outlives who stands at it");
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

async fn listen(listener: &TcpListener, script: &Arc<Script>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, Arc::clone(script)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, until either side ends it.
async fn serve(mut stream: TcpStream, script: Arc<Script>) {
    // Every chunk leaves by itself.
    let _ = stream.set_nodelay(true);
    let mut unread = Vec::new();
    loop {
        let heard = match wire::read(&mut stream, &mut unread).await {
            Ok(Some(heard)) => heard,
            Ok(None) => return,
            Err(reason) => {
                let refusal = Answer::refusal(400, "bad_request", &reason);
                let _ = wire::send(&mut stream, refusal.rendered(&Heard::nothing())).await;
                return;
            }
        };
        // Before it is answered: whoever has the answer finds the request here.
        script.heard.send_modify(|all| all.push(heard.clone()));
        let answer = script.answer(&heard).rendered(&heard);
        match wire::send(&mut stream, answer).await {
            wire::After::Another if !heard.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close")) => {}
            wire::After::Another | wire::After::End => return,
            wire::After::Abandoned => return script.abandoned.send_modify(|abandoned| *abandoned += 1),
        }
    }
}

impl Heard {
    /// A request that could not be read.
    fn nothing() -> Self {
        Self { method: String::new(), path: String::new(), headers: Vec::new(), body: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_come_in_the_dialect_and_the_way_they_were_asked_for() {
        let upstream = Upstream::says("It is Rex.");

        let whole = upstream.directly(&json!({ "model": "m", "messages": [] })).await.json();
        let stream = upstream.directly(&json!({ "model": "m", "messages": [], "stream": true })).await;
        let ollama = ollama(&upstream, &json!({ "model": "m", "messages": [], "stream": false })).await.json();
        let lines = self::ollama(&upstream, &json!({ "model": "m", "messages": [] })).await;

        assert_eq!(whole["choices"][0]["message"]["content"], "It is Rex.");
        assert_eq!(said_in(&stream.text()), "It is Rex.");
        assert!(stream.whole && stream.text().ends_with("\n\ndata: [DONE]\n\n"), "{}", stream.text());
        assert_eq!(ollama["message"]["content"], "It is Rex.");
        assert_eq!(lines.text().lines().count(), 4, "{}", lines.text());
        assert_eq!(upstream.calls(), 4);
    }

    #[tokio::test]
    async fn every_request_is_written_down_to_the_byte_and_echoed() {
        let upstream = Upstream::echo();
        let body = "{\"messages\": [ {\"role\":\"user\",\"content\":\"héron\"} ], \"x\": 1e-7}";

        let http = plain_client();
        let request = http.post(upstream.url() + "/chat/completions").header("X-Odd", "1").body(body);
        let answer = Delivered::from(request).await.json();

        let heard = upstream.last();
        assert_eq!((heard.method.as_str(), heard.path.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!((heard.text().as_str(), heard.said().as_str()), (body, "héron"));
        assert_eq!(heard.header("x-odd"), Some("1"));
        assert_eq!(answer["choices"][0]["message"]["content"], body);
    }

    #[tokio::test]
    async fn a_stream_in_pieces_has_the_same_bytes_whatever_they_cut() {
        let upstream = Upstream::says("");
        let request = json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true } });
        let answer = Answer::says(&cjk(10_000)).with_comments();
        let whole = answer.bytes(&request);

        upstream.next(answer.in_pieces(7));
        let pieces = upstream.directly(&request).await;

        assert!(pieces.whole);
        assert_eq!(String::from_utf8(pieces.body), String::from_utf8(whole.clone()));
        assert_eq!(said_in(&String::from_utf8(whole).unwrap()), cjk(10_000));
    }

    #[tokio::test]
    async fn an_answer_stands_at_a_gate_until_it_is_opened() {
        let upstream = Arc::new(Upstream::says(""));
        let (first, second) = (Gate::new(), Gate::new());
        upstream.next(Answer::chunks(["one ", "two "]).after(&first).wait(&second).chunk("three"));
        let asking = Arc::clone(&upstream);
        let asked = tokio::spawn(async move { asking.directly(&json!({})).await });

        first.reached().await;
        assert!(!asked.is_finished());
        first.open();
        second.reached().await;
        assert!(!asked.is_finished());
        second.open();

        assert_eq!(asked.await.unwrap().text(), "one two three");
    }

    #[tokio::test]
    async fn an_answer_can_stop_break_hang_or_be_nonsense() {
        let upstream = Upstream::says("whole");
        let http = plain_client();
        let ask = async || {
            let request = http.post(upstream.url() + "/chat/completions").json(&json!({ "stream": true }));
            Delivered::try_from(request, PATIENCE).await
        };

        upstream.next(Answer::says("one two three").cut_after(100));
        let cut = ask().await.unwrap();
        assert_eq!((cut.whole, cut.body.len()), (false, 100));

        upstream.next(Answer::chunks(["one"]).then_resets());
        assert!(!ask().await.is_ok_and(|broken| broken.whole));

        upstream.next(Answer::garbage());
        assert!(ask().await.is_err());

        upstream.next(Answer::hangs());
        let heard = upstream.heard().len();
        tokio::select! {
            answer = ask() => panic!("it hangs, and does not answer {answer:?}"),
            _ = upstream.heard_after(heard + 1) => {}
        }

        upstream.next(Answer::too_many_requests(7));
        let refused = ask().await.unwrap();
        assert_eq!((refused.status, refused.header("retry-after"), refused.whole), (429, Some("7"), true));

        assert_eq!(said_in(&ask().await.unwrap().text()), "whole");
    }

    #[tokio::test]
    async fn who_goes_away_in_mid_answer_is_noticed() {
        let upstream = Upstream::says("");
        let gate = Gate::new();
        upstream.next(Answer::chunks(["data: 1\n\n"]).wait(&gate));
        let http = plain_client();

        let mut response = http.post(upstream.url() + "/chat/completions").body("{}").send().await.unwrap();
        response.chunk().await.unwrap();
        drop(response);

        upstream.abandoned(1).await;
    }

    #[tokio::test]
    async fn a_server_that_was_killed_comes_back_where_it_was() {
        let mut upstream = Upstream::says("here");
        let http = plain_client();
        let address = upstream.address();

        upstream.dies();
        assert!(http.get(upstream.url() + "/models").send().await.is_err());

        upstream.comes_back();
        assert_eq!(upstream.address(), address);
        let models = Delivered::from(http.get(upstream.url() + "/models")).await.json();
        assert_eq!(models["data"][0]["id"], "scripted");
    }

    async fn ollama(upstream: &Upstream, body: &Value) -> Delivered {
        let http = plain_client();
        Delivered::from(http.post(upstream.ollama_url() + "/api/chat").json(body)).await
    }

    /// What the deltas of an OpenAI stream say.
    fn said_in(stream: &str) -> String {
        let events = stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok());
        events.filter_map(|event: Value| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect()
    }
}
