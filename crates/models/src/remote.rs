//! An embedder behind HTTP. What all embedders share is here; what they say differently is a [`Dialect`].

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use serde_json::Value;
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose, estimate_tokens};
use tokio::sync::Semaphore;

use crate::http::{Place, Request, Server, refused};
use crate::length;
use crate::settings::EmbedderSettings;

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
    source: Source,
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
        let source = Source::new(settings, dialect)?;
        let prefixes = Prefixes::new(settings, &source.model);
        let dimensions = match settings.dimensions {
            Some(dimensions) => dimensions,
            None => source.dimensions(&prefixes).await?,
        };
        Ok(Self {
            id: EmbedderId(format!("{}/{dimensions}", source.model)),
            dimensions,
            longest_text: settings.longest_text_tokens,
            batch_size: settings.batch_size,
            prefixes,
            query_lane: Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS)),
            passage_lane: Semaphore::new(settings.concurrency.min(Semaphore::MAX_PERMITS)),
            source,
        })
    }

    fn checked(&self, vector: Vec<f32>) -> Result<Embedding, ModelError> {
        let model = &self.source.model;
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
            self.source.vectors(&self.prefixes.before(batch, purpose)).await
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

/// The server, and how it wants to be asked.
struct Source {
    dialect: Box<dyn Dialect>,
    server: Server,
    model: String,
    shorten_to: Option<usize>,
}

impl Source {
    fn new(settings: &EmbedderSettings, dialect: Box<dyn Dialect>) -> Result<Self, ModelError> {
        let model = settings.model.as_deref().unwrap_or_default().trim();
        if model.is_empty() {
            return Err(refused("a remote embedder needs the name of its `model`"));
        }
        let address = settings.url.as_deref().map(str::trim).filter(|url| !url.is_empty());
        let server = Server::new(Place {
            of: "the embedder",
            url: address.unwrap_or(dialect.usual_url()),
            tail: dialect.path(),
            key: settings.read_key()?,
            model,
            timeout: Duration::from_millis(settings.timeout_ms),
            longest_answer_bytes: LONGEST_ANSWER_BYTES,
        })?;
        let shorten_to = settings.dimensions.filter(|_| settings.shorten);
        Ok(Self { server, model: model.to_owned(), shorten_to, dialect })
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
        let path = self.dialect.path();
        let request = self.dialect.request(&self.model, texts, self.shorten_to);
        let advice = |status| match status {
            413 => Some("set `batch_size` lower".into()),
            other => self.dialect.advice(other, &self.model),
        };
        let private: Vec<&str> = texts.iter().map(String::as_str).collect();
        let request = Request { path, body: &request, private: &private };
        let body = self.server.post(&request, &advice).await.map_err(|failure| failure.error)?;
        let vectors = self.dialect.vectors(&body).map_err(|why| self.server.unusable(path, &why, &private))?;
        if vectors.len() != texts.len() {
            let (got, count) = (vectors.len(), texts.len());
            return Err(ModelError::Unusable(format!("{} sent {got} vectors for {count} texts", self.model)));
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
