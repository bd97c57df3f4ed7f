//! Somebody at the doors, with a key.

use std::net::SocketAddr;

use serde_json::{Value, json};
use uuid::Uuid;

/// Somebody at the doors of a server, with a key.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    address: SocketAddr,
    key: Option<String>,
    user: Option<String>,
}

/// What a door answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The kind of content, without its parameters.
    pub content_type: String,
    /// The revision of what was answered, when the door says it.
    pub etag: Option<String>,
    /// The body as text.
    pub text: String,
    /// The body as JSON; null when it is none.
    pub json: Value,
}

impl Reply {
    /// The body of an answer with the status that was to be expected.
    ///
    /// # Panics
    ///
    /// When the status is another.
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// The kind of a problem, from the end of its `type`.
    ///
    /// # Panics
    ///
    /// When the answer is no problem of that status.
    #[must_use]
    pub fn problem(&self, status: u16) -> String {
        assert_eq!((self.status, self.content_type.as_str()), (status, "application/problem+json"), "{}", self.text);
        assert_eq!(self.json["status"], json!(status), "{}", self.text);
        assert!(self.json["title"].is_string() && self.json["detail"].is_string(), "{}", self.text);
        let kind = self.json["type"].as_str().unwrap_or_default();
        kind.rsplit(['/', ':']).next().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, key: String) -> Self {
        let http = reqwest::Client::builder().no_proxy().build().expect("a client can be made");
        Self { http, address, key: Some(key), user: None }
    }

    pub(crate) fn moves_to(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// The same client with another key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), user: None, ..self.clone() }
    }

    /// The same client without any key.
    #[must_use]
    pub fn without_key(&self) -> Self {
        Self { key: None, user: None, ..self.clone() }
    }

    /// The same client, acting for another user as an admin may.
    #[must_use]
    pub fn for_user(&self, name: &str) -> Self {
        Self { user: Some(name.to_owned()), ..self.clone() }
    }

    /// Reads.
    pub async fn get(&self, path: &str) -> Reply {
        self.send(self.http.get(self.url(path))).await
    }

    /// Sends a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(self.http.post(self.url(path)).json(&body)).await
    }

    /// Sends a JSON body to a server that may be gone; `None` when it is.
    pub async fn try_post(&self, path: &str, body: Value) -> Option<Reply> {
        self.try_send(self.http.post(self.url(path)).json(&body)).await.ok()
    }

    /// Sends any body.
    pub async fn post_text(&self, path: &str, content_type: &str, body: impl Into<reqwest::Body>) -> Reply {
        self.send(self.http.post(self.url(path)).header("content-type", content_type).body(body)).await
    }

    /// Puts a JSON body.
    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(self.http.put(self.url(path)).json(&body)).await
    }

    /// Changes by a JSON body.
    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(self.http.patch(self.url(path)).json(&body)).await
    }

    /// Removes.
    pub async fn delete(&self, path: &str) -> Reply {
        self.send(self.http.delete(self.url(path))).await
    }

    /// Records a question and its answer; layers have not learned it yet.
    pub async fn says(&self, session: &str, text: &str, answer: &str) -> Uuid {
        let turns = json!([{ "role": "user", "content": text }, { "role": "assistant", "content": answer }]);
        let reply = self.post(&turns_of(session), json!({ "turns": turns })).await;
        assert!(matches!(reply.status, 200..=202), "{}", reply.text);
        let exchange = reply.json["turns"][0]["exchange"].as_str().unwrap_or_default();
        exchange.parse().unwrap_or_else(|_| panic!("no exchange: {}", reply.text))
    }

    /// Records one turn; layers have not learned it yet.
    pub async fn tells(&self, session: &str, role: &str, text: &str) -> Reply {
        self.post(&turns_of(session), json!({ "role": role, "content": text })).await
    }

    /// The context for a question: the answer of the door.
    pub async fn context(&self, session: &str, question: &str) -> Value {
        self.context_as(json!({ "session": session, "question": question })).await
    }

    /// The context for a request.
    pub async fn context_as(&self, request: Value) -> Value {
        self.post("/v1/context", request).await.expect(200)
    }

    /// All messages of the context for a question, as one text.
    pub async fn context_for(&self, session: &str, question: &str) -> String {
        texts_of(&self.context(session, question).await["messages"], "content").join("\n---\n")
    }

    /// The texts of what is recalled for a question, best first.
    pub async fn recall(&self, query: &str) -> Vec<String> {
        texts_of(&self.recall_as(json!({ "query": query })).await["recalls"], "text")
    }

    /// What is recalled for a request: the answer of the door.
    pub async fn recall_as(&self, request: Value) -> Value {
        self.post("/v1/recall", request).await.expect(200)
    }

    /// A request that the caller completes and sends itself; method, address and key are set.
    ///
    /// # Panics
    ///
    /// When there is no such method.
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.signed(self.http.request(method, self.url(path)))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        self.try_send(request).await.expect("the server answers")
    }

    fn signed(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        match &self.user {
            Some(user) => request.header("x-memory-user", user),
            None => request,
        }
    }

    async fn try_send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Reply> {
        let response = self.signed(request).send().await?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let content_type = header("content-type").unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().to_owned();
        let etag = header("etag");
        let status = response.status().as_u16();
        let text = response.text().await?;
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Reply { status, content_type, etag, text, json })
    }
}

/// One field of every item of a list.
fn texts_of(items: &Value, field: &str) -> Vec<String> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
}

fn turns_of(session: &str) -> String {
    let mut path = String::from("/v1/sessions/");
    for byte in session.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(char::from(byte)),
            byte => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path + "/turns"
}
