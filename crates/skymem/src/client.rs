//! Talks to a running server on behalf of a command.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde_json::Value;

/// A connection to one server, with one key.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    url: Url,
    key: Option<String>,
    key_is_local: bool,
    user: Option<String>,
}

impl Client {
    /// A client of the server at `url`, like `http://127.0.0.1:8765`.
    ///
    /// # Errors
    ///
    /// When `url` is none.
    pub(crate) fn new(url: &str, key: Option<String>) -> Result<Self> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host() && !url.cannot_be_a_base())
            .with_context(|| format!("{url:?} is no address of a server: write it like http://127.0.0.1:8765"))?;
        let mut http = reqwest::Client::builder()
            .user_agent(concat!("skymem/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .timeout(Duration::from_secs(120));
        if is_this_machine(&parsed) {
            // A company's proxy cannot reach this machine's own loopback.
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().context("cannot make an HTTP client")?,
            url: parsed,
            key,
            key_is_local: false,
            user: None,
        })
    }

    /// The same client, whose key is the one that the server left for commands on its machine.
    pub(crate) fn with_local_key(mut self) -> Self {
        self.key_is_local = true;
        self
    }

    /// The same client acting for another user, which an admin's key may do.
    pub(crate) fn acting_for(mut self, user: Option<String>) -> Self {
        self.user = user;
        self
    }

    /// Asks for what is at `path`, given in steps that may hold any text.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Value, CallError> {
        self.call(Method::GET, path, query, None).await
    }

    /// Sends `body` to `path`.
    pub(crate) async fn post(&self, path: &[&str], body: &Value) -> Result<Value, CallError> {
        self.call(Method::POST, path, &[], Some(body)).await
    }

    /// Sends `body`, which is of the media type `kind`, to `path`.
    ///
    /// # Errors
    ///
    /// When no answer came, or one that says no.
    pub(crate) async fn upload(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        kind: &'static str,
        body: Vec<u8>,
    ) -> Result<Value, CallError> {
        let request = self.request(Method::POST, path, query).header("content-type", kind).body(body);
        Ok(read(self.answer(request).await?))
    }

    /// Asks for what is at `path`, as it is.
    ///
    /// # Errors
    ///
    /// When no answer came, or one that says no.
    pub(crate) async fn download(&self, path: &[&str], query: &[(&str, String)]) -> Result<Vec<u8>, CallError> {
        self.answer(self.request(Method::GET, path, query)).await
    }

    /// Calls any method.
    ///
    /// # Errors
    ///
    /// When no answer came, or one that says no.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let mut request = self.request(method, path, query);
        if let Some(body) = body {
            request = request.json(body);
        }
        Ok(read(self.answer(request).await?))
    }

    /// A request with address and key.
    fn request(&self, method: Method, path: &[&str], query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.url.clone();
        if let Ok(mut steps) = url.path_segments_mut() {
            steps.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http.request(method, url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(user) = &self.user {
            request = request.header("x-memory-user", user);
        }
        request
    }

    /// The body of the answer, which is no no.
    async fn answer(&self, request: RequestBuilder) -> Result<Vec<u8>, CallError> {
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        let status = answer.status();
        let retry_after = answer
            .headers()
            .get("retry-after")
            .and_then(|seconds| seconds.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let bytes = answer.bytes().await.map_err(|error| self.lost(&error))?;
        if status.is_success() {
            return Ok(bytes.into());
        }
        let problem = serde_json::from_slice::<Value>(&bytes).unwrap_or(Value::Null);
        let key = match (&self.key, self.key_is_local) {
            (None, _) => KeySent::None,
            (Some(_), true) => KeySent::Local,
            (Some(_), false) => KeySent::Given,
        };
        Err(CallError::Refused(Box::new(Refusal { status, problem, retry_after, key })))
    }

    fn lost(&self, error: &reqwest::Error) -> CallError {
        let server = self.url.as_str().trim_end_matches('/').to_owned();
        if error.is_connect() {
            return CallError::NoServer { server, reason: innermost(error) };
        }
        let reason = if error.is_timeout() { "it took too long".into() } else { innermost(error) };
        CallError::Lost { server, reason }
    }
}

/// An answer as JSON; as text when it is none.
fn read(bytes: Vec<u8>) -> Value {
    match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(_) if bytes.is_empty() => Value::Null,
        Err(_) => Value::String(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host_str() {
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        None => false,
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Why a call brought nothing.
#[derive(Debug)]
pub(crate) enum CallError {
    /// Nobody listens there.
    NoServer { server: String, reason: String },
    /// The connection broke, or took too long. The server may have done what was asked.
    Lost { server: String, reason: String },
    /// The server says no.
    Refused(Box<Refusal>),
}

/// A server's no.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// The problem in the shape of RFC 9457, or null.
    pub(crate) problem: Value,
    pub(crate) retry_after: Option<Duration>,
    key: KeySent,
}

/// The key that a call was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeySent {
    None,
    Given,
    /// The one that the server left for commands on its machine.
    Local,
}

impl CallError {
    /// Whether the same call may succeed in a while.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            CallError::NoServer { .. } | CallError::Lost { .. } => true,
            CallError::Refused(refusal) => matches!(refusal.status.as_u16(), 408 | 429 | 502 | 503 | 504),
        }
    }

    /// Whether the server has no such thing.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, CallError::Refused(refusal) if refusal.status == StatusCode::NOT_FOUND)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoServer { server, reason } => write!(
                f,
                "no server answers at {server} ({reason}): start it with `skymem serve`, \
                 or name another one with --url or SKYMEM_URL"
            ),
            CallError::Lost { server, reason } => write!(f, "the server at {server} gave no answer: {reason}"),
            CallError::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let detail = ["detail", "title"].iter().find_map(|key| self.problem.get(key)?.as_str());
        match (self.status, self.key) {
            (StatusCode::UNAUTHORIZED, KeySent::None) => f.write_str(
                "the server asks for a key: give it with --key or SKYMEM_KEY \
                 (`skymem key create` makes one on the server's machine)",
            ),
            (StatusCode::UNAUTHORIZED, KeySent::Local) => f.write_str(
                "the server no longer knows the key that it left for commands on this machine, perhaps because it was \
                 revoked: restart the server, which makes a new one, or give another key with --key or SKYMEM_KEY",
            ),
            (StatusCode::UNAUTHORIZED, KeySent::Given) => f.write_str(
                "the server does not know this key, or it has expired or was revoked: \
                 make a new one with `skymem key create` on the server's machine",
            ),
            (status, _) => match detail {
                Some(detail) => f.write_str(detail),
                None => write!(f, "the server answered {status}"),
            },
        }
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_refused_in_words() {
        for bad in ["", "localhost:8765", "ftp://x", "http://"] {
            let error = Client::new(bad, None).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("is no address of a server"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_key_that_opens_nothing_is_explained_by_where_it_is_from() {
        let check = |key, expected: &str| {
            let status = StatusCode::UNAUTHORIZED;
            let refusal = Refusal { status, problem: Value::Null, retry_after: None, key }.to_string();
            assert!(refusal.contains(expected), "{refusal}");
        };
        check(KeySent::None, "asks for a key");
        check(KeySent::Given, "`skymem key create`");
        check(KeySent::Local, "restart the server");
    }

    #[test]
    fn this_machine_is_reached_without_a_proxy() {
        let check = |url: &str| is_this_machine(&Url::parse(url).unwrap());
        assert!(check("http://127.0.0.1:1") && check("http://[::1]:1") && check("http://localhost"));
        assert!(!check("https://memory.example.org"));
    }
}
