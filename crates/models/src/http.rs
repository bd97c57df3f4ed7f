//! A model server behind HTTP: its address, its key, what went wrong. What is asked of it is the business of the callers.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, header, redirect};
use serde_json::Value;
use skymem_core::ModelError;

use crate::settings::Secret;

/// How long to wait before each further try, when the server does not say.
const WAITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1_500)];
/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Stands for what a server said.
const LEFT_OUT: &str = "its words are left out, they quote what was asked";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What to do about an answer of this status, as the callers know their servers; `None` when there is nothing to say.
pub(crate) type Advice<'a> = &'a (dyn Fn(u16) -> Option<String> + Send + Sync);

/// What is sent to a server.
pub(crate) struct Request<'a> {
    /// The last step of the address.
    pub(crate) path: &'a str,
    pub(crate) body: &'a Value,
    /// What somebody said, in it: an error that quotes it is not passed on.
    pub(crate) private: &'a [&'a str],
}

/// Where a server is and how it is to be talked to.
pub(crate) struct Place<'a> {
    /// Whose settings these are, for messages: `the embedder`.
    pub(crate) of: &'static str,
    /// The address, with or without `tail` at its end.
    pub(crate) url: &'a str,
    /// The last step of the address that people may have left on it.
    pub(crate) tail: &'static str,
    pub(crate) key: Option<Secret>,
    /// The model that is asked, for messages.
    pub(crate) model: &'a str,
    pub(crate) timeout: Duration,
    /// No honest answer is longer.
    pub(crate) longest_answer_bytes: usize,
}

/// The server and how to reach it.
pub(crate) struct Server {
    client: Client,
    base: Url,
    key: Option<Secret>,
    model: String,
    longest_answer_bytes: usize,
}

/// An answer that is none.
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    /// What the server answered, when it did.
    pub(crate) status: Option<StatusCode>,
    /// The server's own words about it, in one short line; empty when it has none. Not to be passed on: they may quote
    /// what somebody said.
    pub(crate) message: String,
    /// Whether another try may succeed, and how long the server asks to wait.
    again: Option<Option<Duration>>,
}

/// An answer that says what went wrong.
struct BadStatus {
    status: StatusCode,
    body: Vec<u8>,
    /// How long the server asks to wait.
    wait: Option<Duration>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, status: None, message: String::new(), again: None }
    }
}

impl Server {
    pub(crate) fn new(place: Place<'_>) -> Result<Self, ModelError> {
        let base = base_of(place.of, place.url, place.tail)?;
        Ok(Self {
            client: client(&base, place.timeout)?,
            base,
            key: place.key,
            model: place.model.to_owned(),
            longest_answer_bytes: place.longest_answer_bytes,
        })
    }

    /// What it answers to `request`; tries again where that may help.
    pub(crate) async fn post(&self, request: &Request<'_>, advice: Advice<'_>) -> Result<Vec<u8>, Failure> {
        for wait in WAITS {
            match self.post_once(request, advice).await {
                Err(Failure { again: Some(asked), error, .. }) => {
                    tracing::debug!(%error, "A model is asked again");
                    tokio::time::sleep(asked.unwrap_or(wait).min(LONGEST_WAIT)).await;
                }
                answer => return answer,
            }
        }
        self.post_once(request, advice).await
    }

    async fn post_once(&self, request: &Request<'_>, advice: Advice<'_>) -> Result<Vec<u8>, Failure> {
        let call = self.client.post(step(&self.base, request.path)).json(request.body);
        let answered = self.call(request.path, call, "in time; see `timeout_ms`").await?;
        answered.map_err(|bad| self.bad_status(request.path, bad, request.private, advice))
    }

    /// What lies at `path`; one try of at most `patience`.
    pub(crate) async fn get(&self, path: &str, patience: Duration, advice: Advice<'_>) -> Result<Vec<u8>, Failure> {
        let call = self.client.get(step(&self.base, path)).timeout(patience);
        let answered = self.call(path, call, &format!("within {} ms", patience.as_millis())).await?;
        answered.map_err(|bad| self.bad_status(path, bad, &[], advice))
    }

    async fn call(&self, path: &str, call: RequestBuilder, late: &str) -> Result<Result<Vec<u8>, BadStatus>, Failure> {
        let call = match &self.key {
            Some(Secret(key)) => call.bearer_auth(key),
            None => call,
        };
        let response = call.send().await.map_err(|error| self.no_answer(path, late, error))?;
        let status = response.status();
        let wait = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = self.body(path, late, response).await?;
        Ok(if status.is_success() {
            Ok(body)
        } else {
            Err(BadStatus { status, body, wait: wait.map(Duration::from_secs) })
        })
    }

    async fn body(&self, path: &str, late: &str, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.no_answer(path, late, error))? {
            body.extend_from_slice(&chunk);
            if body.len() > self.longest_answer_bytes {
                return Err(self.unusable(path, "it does not stop answering", &[]).into());
            }
        }
        Ok(body)
    }

    /// The server answered, and not what was asked for: `why`, unless that quotes something `private`.
    pub(crate) fn unusable(&self, path: &str, why: &str, private: &[&str]) -> ModelError {
        let why = if quotes(why, private) { LEFT_OUT.to_owned() } else { self.without_key(why.to_owned()) };
        ModelError::Unusable(format!("{} at {}: {why}", self.model, self.shown(path)))
    }

    /// The address of `path` without anything secret, for messages.
    pub(crate) fn shown(&self, path: &str) -> String {
        let mut url = step(&self.base, path);
        // Neither can fail for an address with a host.
        let _ = (url.set_username(""), url.set_password(None));
        url.set_query(None);
        url.into()
    }

    /// No connection, or one that broke.
    fn no_answer(&self, path: &str, late: &str, error: reqwest::Error) -> Failure {
        let shown = self.shown(path);
        if error.is_builder() {
            let why = cause(&error);
            return refused(format!("the request to {shown} cannot be made ({why}); check `key`")).into();
        }
        let (reason, again) = if error.is_timeout() {
            // It is there and busy: asking again would only make it busier.
            (format!("no answer from {shown} {late}"), None)
        } else {
            (format!("{shown}: {}; is it running, and is `url` right?", cause(&error)), Some(None))
        };
        let error = ModelError::Unreachable { model: self.model.clone(), reason };
        Failure { error, status: None, message: String::new(), again }
    }

    fn bad_status(&self, path: &str, bad: BadStatus, private: &[&str], advice: Advice<'_>) -> Failure {
        let BadStatus { status, body, wait } = bad;
        let mut said = format!("{} at {} answered {status}", self.model, self.shown(path));
        let message = self.without_key(message(&body));
        if quotes(&message, private) {
            said = format!("{said}: {LEFT_OUT}");
        } else if !message.is_empty() {
            said = format!("{said}: {message}");
        }
        let advice = match status.as_u16() {
            401 | 403 => Some("check `key`".into()),
            300..=399 => Some("`url` must be the final address".into()),
            other => advice(other),
        };
        if let Some(advice) = advice {
            said = format!("{said}; {advice}");
        }
        let busy = matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error();
        let (error, again) = if busy {
            (ModelError::Unreachable { model: self.model.clone(), reason: said }, Some(wait))
        } else {
            (refused(said), None)
        };
        Failure { error, status: Some(status), message, again }
    }

    /// Some servers quote the key that they refuse.
    fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(Secret(key)) => text.replace(key.as_str(), "***"),
            None => text,
        }
    }
}

/// `url` without `tail`, whether or not it was given with it.
fn base_of(of: &str, url: &str, tail: &str) -> Result<Url, ModelError> {
    let no_address = |why: &str| refused(format!("{of}'s `url` is no http address: {why}"));
    let mut url = Url::parse(url).map_err(|error| no_address(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(no_address("it begins with neither http:// nor https://"));
    }
    let given = url.path().trim_end_matches('/');
    let base = given.strip_suffix(tail).unwrap_or(given).to_owned();
    url.set_path(&base);
    Ok(url)
}

/// The address of `path` below `base`.
fn step(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&[base.path().trim_end_matches('/'), path].concat());
    url
}

fn client(url: &Url, timeout: Duration) -> Result<Client, ModelError> {
    // Whoever comes first decides; both would choose ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(concat!("skymem/", env!("CARGO_PKG_VERSION")))
        .timeout(timeout)
        .connect_timeout(CONNECT_TIMEOUT.min(timeout))
        // A redirected POST loses its body.
        .redirect(redirect::Policy::none());
    if url.scheme() == "http" {
        // Without this, a machine without certificates could not even talk to itself.
        builder = builder.tls_certs_only([]);
    }
    if matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| {
        refused(format!("no secure connection can be made ({}); install ca-certificates", cause(&error)))
    })
}

/// The innermost reason: the outer ones say "error sending request" and the address, which may hold a secret.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let text = cause.to_string();
    if std::ptr::eq(cause, error as &dyn Error) { "no further reason".into() } else { text }
}

/// What an error's body says, in one short line.
pub(crate) fn message(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = ["/error/message", "/error", "/message", "/detail"]
        .iter()
        .find_map(|place| json.pointer(place)?.as_str().map(str::to_owned))
        .unwrap_or_else(|| if json.is_null() { String::from_utf8_lossy(body).into_owned() } else { String::new() });
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Whether an error's `message` repeats a piece of what somebody said. Errors are logged; what was said is not.
fn quotes(message: &str, private: &[&str]) -> bool {
    /// Shorter pieces are words that any error might use.
    const PIECE: usize = 20;
    let letters: Vec<char> = message.chars().collect();
    let pieces: Vec<String> = letters.windows(PIECE).map(|piece| piece.iter().collect()).collect();
    !pieces.is_empty()
        && private.iter().any(|text| {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            pieces.iter().any(|piece| line.contains(piece.as_str()))
        })
}

pub(crate) fn refused(why: impl Into<String>) -> ModelError {
    ModelError::Refused(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_may_be_given_with_or_without_its_last_step() {
        let whole = |base: &str, path| base_of("x", base, path).map(|base| step(&base, path).to_string());
        for base in ["http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/embeddings", "http://h:1/v1/embeddings/"] {
            assert_eq!(whole(base, "/embeddings").unwrap(), "http://h:1/v1/embeddings");
        }
        assert_eq!(whole("http://h", "/api/embed").unwrap(), "http://h/api/embed");
        assert_eq!(whole("http://h/v1?version=2", "/models").unwrap(), "http://h/v1/models?version=2");
        for bad in ["", "localhost:11434", "ftp://h", "h", "http://"] {
            assert!(matches!(whole(bad, "/x"), Err(ModelError::Refused(_))), "{bad:?}");
        }
    }

    #[test]
    fn an_error_that_quotes_what_was_said_is_noticed() {
        let said = ["short", "my  salary is\n4,200 euros a month"];
        assert!(quotes("invalid input: 'my salary is 4,200 euros a month'", &said));
        assert!(!quotes("the salary is out of range of this model", &said));
        assert!(!quotes("short", &said));
        assert!(!quotes("", &said));
    }

    #[test]
    fn an_error_is_one_short_line() {
        let long = "x".repeat(1_000);
        for (body, expected) in [
            (r#"{"error":{"message":"no\nsuch model"}}"#, "no such model"),
            (r#"{"error":"plain"}"#, "plain"),
            (r#"{"message":"bare"}"#, "bare"),
            (r#"{"detail":"fastapi"}"#, "fastapi"),
            (r#"{"detail":[{"input":"what was said"}]}"#, ""),
            ("<h1>Bad\u{7} gateway</h1>", "<h1>Bad gateway</h1>"),
            ("", ""),
            (long.as_str(), &long[..200]),
        ] {
            assert_eq!(message(body.as_bytes()), expected, "{body:?}");
        }
    }
}
