//! An embedder behind HTTP. What all servers share is here; what they say differently is a [`Dialect`].

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use reqwest::{Client, Response, StatusCode, Url, header, redirect};
use serde_json::Value;
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose, estimate_tokens};
use tokio::sync::Semaphore;

use crate::length;
use crate::settings::{EmbedderSettings, Secret};

/// How long to wait before each further try, when the server does not say.
const WAITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(1_500)];
/// The longest wait that a server may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// No honest answer is longer.
const LONGEST_ANSWER_BYTES: usize = 64 << 20;

/// How a kind of server wants to be asked.
pub(crate) trait Dialect: Send + Sync {
    /// Where such a server is when nothing else is said.
    fn usual_url(&self) -> &'static str;
    /// The last step of the address.
    fn path(&self) -> &'static str;
    /// The body of a request.
    fn request(&self, model: &str, texts: &[String], shorten_to: Option<usize>) -> Value;
    /// The vectors in an answer, in the order of the texts.
    fn vectors(&self, body: &[u8]) -> Result<Vec<Vec<f32>>, String>;
    /// What to do about an answer of `status`.
    fn advice(&self, status: u16, model: &str) -> Option<String>;
}

/// A model on a server.
pub(crate) struct Remote {
    id: EmbedderId,
    dimensions: usize,
    longest_text: usize,
    batch_size: usize,
    prefixes: Prefixes,
    /// Queries have a lane of their own: they never wait behind passages.
    query_lane: Semaphore,
    passage_lane: Semaphore,
    server: Server,
}

impl Remote {
    /// Opens the model that `settings` name; asks the server for its dimensions when they are not configured.
    pub(crate) async fn open(settings: &EmbedderSettings, dialect: Box<dyn Dialect>) -> Result<Self, ModelError> {
        let least = [settings.batch_size, settings.concurrency, settings.longest_text_tokens];
        if least.contains(&0) || settings.timeout_ms == 0 || settings.dimensions == Some(0) {
            return Err(refused("the embedder's numbers must be at least 1"));
        }
        if settings.shorten && settings.dimensions.is_none() {
            return Err(refused("the embedder's `shorten` needs `dimensions`"));
        }
        let server = Server::new(settings, dialect)?;
        let prefixes = Prefixes::new(settings, &server.model);
        let dimensions = match settings.dimensions {
            Some(dimensions) => dimensions,
            None => server.dimensions(&prefixes).await?,
        };
        Ok(Self {
            id: EmbedderId(format!("{}/{dimensions}", server.model)),
            dimensions,
            longest_text: settings.longest_text_tokens,
            batch_size: settings.batch_size,
            prefixes,
            query_lane: Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS)),
            passage_lane: Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS)),
            server,
        })
    }

    fn checked(&self, vector: Vec<f32>) -> Result<Embedding, ModelError> {
        let model = &self.server.model;
        if vector.len() != self.dimensions {
            let (expected, got) = (self.dimensions, vector.len());
            return Err(ModelError::Unusable(format!(
                "{model} sent vectors of {got} numbers, expected are {expected}: another model, or set `dimensions`"
            )));
        }
        let length = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(ModelError::Unusable(format!("{model} sent a vector of zeros or infinities")));
        }
        Ok(Embedding(vector.into_iter().map(|x| (f64::from(x) / length) as f32).collect()))
    }
}

#[async_trait]
impl Embedder for Remote {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn longest_text(&self) -> usize {
        self.longest_text
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimate_tokens(text).0
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        texts.iter().try_for_each(|text| length::check(self, text))?;
        let lane = if purpose == Purpose::Query { &self.query_lane } else { &self.passage_lane };
        let batches = texts.chunks(self.batch_size).map(|batch| async move {
            // Never closed; an error would only mean that nobody is counting.
            let _turn = lane.acquire().await.ok();
            self.server.vectors(&self.prefixes.before(batch, purpose)).await
        });
        let batches = try_join_all(batches).await?;
        batches.into_iter().flatten().map(|vector| self.checked(vector)).collect()
    }
}

/// What is put before texts.
struct Prefixes {
    query: String,
    passage: String,
}

impl Prefixes {
    /// Those of the settings; else those that the model is known to be trained with.
    fn new(settings: &EmbedderSettings, model: &str) -> Self {
        let model = model.to_lowercase();
        let (query, passage) = if model.contains("nomic-embed-text") {
            ("search_query: ", "search_document: ")
        } else if model.contains("e5-") && !model.contains("instruct") {
            ("query: ", "passage: ")
        } else {
            ("", "")
        };
        let choose = |own: &Option<String>, known: &str| own.clone().unwrap_or_else(|| known.to_owned());
        Self { query: choose(&settings.query_prefix, query), passage: choose(&settings.passage_prefix, passage) }
    }

    fn before(&self, texts: &[&str], purpose: Purpose) -> Vec<String> {
        let prefix = if purpose == Purpose::Query { &self.query } else { &self.passage };
        texts.iter().map(|text| [prefix, *text].concat()).collect()
    }
}

/// The server and how to talk to it.
struct Server {
    dialect: Box<dyn Dialect>,
    client: Client,
    url: Url,
    /// The address without anything secret, for messages.
    shown_url: String,
    key: Option<Secret>,
    model: String,
    shorten_to: Option<usize>,
}

/// An answer that is none.
struct Failure {
    error: ModelError,
    /// Whether another try may succeed, and how long the server asks to wait.
    again: Option<Option<Duration>>,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, again: None }
    }
}

impl Server {
    fn new(settings: &EmbedderSettings, dialect: Box<dyn Dialect>) -> Result<Self, ModelError> {
        let model = settings.model.as_deref().unwrap_or_default().trim();
        if model.is_empty() {
            return Err(refused("a remote embedder needs the name of its `model`"));
        }
        let address = settings.url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        let url = address_of(address.unwrap_or(dialect.usual_url()), dialect.path())?;
        let mut shown_url = url.clone();
        // Neither can fail for an address with a host.
        let _ = (shown_url.set_username(""), shown_url.set_password(None));
        shown_url.set_query(None);
        Ok(Self {
            client: client(&url, Duration::from_millis(settings.timeout_ms))?,
            dialect,
            url,
            shown_url: shown_url.into(),
            key: settings.read_key()?,
            model: model.to_owned(),
            shorten_to: settings.dimensions.filter(|_| settings.shorten),
        })
    }

    async fn dimensions(&self, prefixes: &Prefixes) -> Result<usize, ModelError> {
        let answer = self.vectors(&prefixes.before(&["How long is a vector?"], Purpose::Passage)).await;
        match answer {
            Ok(vectors) => match vectors.first().map_or(0, Vec::len) {
                0 => Err(ModelError::Unusable(format!("{} sent an empty vector", self.model))),
                dimensions => Ok(dimensions),
            },
            Err(ModelError::Unreachable { model, reason }) => Err(ModelError::Unreachable {
                model,
                reason: format!("{reason}; with `dimensions` set, the server starts without it"),
            }),
            Err(error) => Err(error),
        }
    }

    /// One vector per text, in order; tries again where that may help.
    async fn vectors(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
        let request = self.dialect.request(&self.model, texts, self.shorten_to);
        for wait in WAITS {
            match self.try_once(&request, texts.len()).await {
                Err(Failure { again: Some(asked), error }) => {
                    tracing::debug!(%error, "The embedder is asked again");
                    tokio::time::sleep(asked.unwrap_or(wait).min(LONGEST_WAIT)).await;
                }
                answer => return answer.map_err(|failure| failure.error),
            }
        }
        self.try_once(&request, texts.len()).await.map_err(|failure| failure.error)
    }

    async fn try_once(&self, request: &Value, count: usize) -> Result<Vec<Vec<f32>>, Failure> {
        let mut call = self.client.post(self.url.clone()).json(request);
        if let Some(Secret(key)) = &self.key {
            call = call.bearer_auth(key);
        }
        let response = call.send().await.map_err(|error| self.no_answer(error))?;
        let status = response.status();
        let wait = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let body = self.body(response).await?;
        if !status.is_success() {
            return Err(self.bad_status(status, &body, wait.map(Duration::from_secs)));
        }
        let vectors = self
            .dialect
            .vectors(&body)
            .map_err(|why| ModelError::Unusable(format!("{} at {}: {why}", self.model, self.shown_url)))?;
        if vectors.len() != count {
            let got = vectors.len();
            return Err(ModelError::Unusable(format!("{} sent {got} vectors for {count} texts", self.model)).into());
        }
        Ok(vectors)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.no_answer(error))? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST_ANSWER_BYTES {
                let error = format!("{} at {} does not stop answering", self.model, self.shown_url);
                return Err(ModelError::Unusable(error).into());
            }
        }
        Ok(body)
    }

    /// No connection, or one that broke.
    fn no_answer(&self, error: reqwest::Error) -> Failure {
        if error.is_builder() {
            return refused(format!(
                "the request to {} cannot be made ({}); check `key`",
                self.shown_url,
                cause(&error)
            ))
            .into();
        }
        let (reason, again) = if error.is_timeout() {
            // It is there and busy: asking again would only make it busier.
            (format!("no answer from {} in time; see `timeout_ms`", self.shown_url), None)
        } else {
            let why = cause(&error);
            (format!("{}: {why}; is it running, and is `url` right?", self.shown_url), Some(None))
        };
        Failure { error: ModelError::Unreachable { model: self.model.clone(), reason }, again }
    }

    fn bad_status(&self, status: StatusCode, body: &[u8], wait: Option<Duration>) -> Failure {
        let mut said = format!("{} at {} answered {status}", self.model, self.shown_url);
        let message = self.without_key(message(body));
        if !message.is_empty() {
            said = format!("{said}: {message}");
        }
        let advice = match status.as_u16() {
            401 | 403 => Some("check `key`".into()),
            300..=399 => Some("`url` must be the final address".into()),
            413 => Some("set `batch_size` lower".into()),
            other => self.dialect.advice(other, &self.model),
        };
        if let Some(advice) = advice {
            said = format!("{said}; {advice}");
        }
        if matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error() {
            Failure { error: ModelError::Unreachable { model: self.model.clone(), reason: said }, again: Some(wait) }
        } else {
            refused(said).into()
        }
    }

    /// Some servers quote the key that they refuse.
    fn without_key(&self, text: String) -> String {
        match &self.key {
            Some(Secret(key)) => text.replace(key.as_str(), "***"),
            None => text,
        }
    }
}

/// `base` with `path` at its end, whether or not it was given with it.
fn address_of(base: &str, path: &str) -> Result<Url, ModelError> {
    let no_address = |why: &str| refused(format!("the embedder's `url` is no http address: {why}"));
    let mut url = Url::parse(base).map_err(|error| no_address(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(no_address("it begins with neither http:// nor https://"));
    }
    let given = url.path().trim_end_matches('/');
    let whole = [given.strip_suffix(path).unwrap_or(given), path].concat();
    url.set_path(&whole);
    Ok(url)
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
fn message(body: &[u8]) -> String {
    let json = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = ["/error/message", "/error", "/message", "/detail"]
        .iter()
        .find_map(|place| json.pointer(place)?.as_str().map(str::to_owned))
        .unwrap_or_else(|| if json.is_null() { String::from_utf8_lossy(body).into_owned() } else { String::new() });
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn refused(why: impl Into<String>) -> ModelError {
    ModelError::Refused(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_may_be_given_with_or_without_its_last_step() {
        for base in ["http://h:1/v1", "http://h:1/v1/", "http://h:1/v1/embeddings", "http://h:1/v1/embeddings/"] {
            assert_eq!(address_of(base, "/embeddings").unwrap().as_str(), "http://h:1/v1/embeddings");
        }
        assert_eq!(address_of("http://h", "/api/embed").unwrap().as_str(), "http://h/api/embed");
        for bad in ["", "localhost:11434", "ftp://h", "h", "http://"] {
            assert!(matches!(address_of(bad, "/x"), Err(ModelError::Refused(_))), "{bad:?}");
        }
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

    #[test]
    fn known_models_have_their_prefixes_and_the_settings_have_the_last_word() {
        let settings = EmbedderSettings::default();
        let prefixes = |settings: &EmbedderSettings, model| {
            let Prefixes { query, passage } = Prefixes::new(settings, model);
            (query, passage)
        };
        assert_eq!(prefixes(&settings, "nomic-embed-text:v1.5").0, "search_query: ");
        assert_eq!(prefixes(&settings, "intfloat/multilingual-e5-large").1, "passage: ");
        assert_eq!(prefixes(&settings, "multilingual-e5-large-instruct").1, "");
        assert_eq!(prefixes(&settings, "text-embedding-3-small").0, "");
        let own = EmbedderSettings { query_prefix: Some(String::new()), ..settings };
        assert_eq!(prefixes(&own, "nomic-embed-text").0, "");
    }
}
