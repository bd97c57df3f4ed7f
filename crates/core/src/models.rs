//! What skymem asks of language models.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use crate::conversation::Role;

/// Turns texts into vectors whose cosine says how near they are in meaning.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Names the space its vectors are in, for instance `e5-small-q4/384`. Vectors of two ids are never compared.
    fn id(&self) -> &EmbedderId;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// The longest text, in tokens of this model, that [`Embedder::embed`] reads to its end.
    fn longest_text(&self) -> usize;

    /// How many tokens of this model `text` has; an estimate where the tokenizer is not at hand.
    fn count_tokens(&self, text: &str) -> usize;

    /// One unit-length vector per text, in order. A [`Purpose::Query`] is answered before waiting passages.
    ///
    /// Texts longer than [`Embedder::longest_text`] are refused, never cut silently.
    ///
    /// # Errors
    ///
    /// When the provider cannot be reached, refuses, or answers nonsense.
    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError>;

    /// As [`Embedder::embed`], of texts of which nothing may be held afterwards: an embedder that remembers its answers
    /// does not remember these.
    ///
    /// # Errors
    ///
    /// As [`Embedder::embed`].
    async fn embed_once(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        self.embed(texts, purpose).await
    }
}

/// An embedder that many share.
pub type SharedEmbedder = Arc<dyn Embedder>;

/// What a text is embedded for. Some models want to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To be searched with; somebody waits for it.
    Query,
    /// To be found; nobody waits.
    Passage,
}

/// Names an embedder and with it the space of its vectors.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EmbedderId(pub String);

impl fmt::Display for EmbedderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A vector of length one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Embedding(pub Vec<f32>);

impl Embedding {
    /// Cosine of two vectors of one embedder, -1 to 1.
    #[must_use]
    pub fn cosine(&self, other: &Embedding) -> f32 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }
}

/// A language model that answers in words. Nothing in skymem depends on one: whoever asks has something to fall back to.
#[async_trait]
pub trait ChatModel: Send + Sync {
    /// The model and where it runs, for people and for metrics: `llama3.2:3b`.
    fn name(&self) -> &str;

    /// The model's answer. Waits for its turn when more is asked at a time than the model may be; how long the caller
    /// waits is the caller's to bound.
    ///
    /// # Errors
    ///
    /// When the provider cannot be reached, refuses, answers nonsense, or the day's tokens are spent.
    async fn answer(&self, question: &ChatRequest) -> Result<ChatAnswer, ModelError>;

    /// Whether it could answer now, without asking it anything.
    ///
    /// # Errors
    ///
    /// As [`ChatModel::answer`]; says what to do.
    async fn check(&self) -> Result<(), ModelError>;
}

/// A chat model that many share.
pub type SharedChatModel = Arc<dyn ChatModel>;

/// The chat models there are, by what they are asked for. None is a normal state.
#[derive(Clone, Default)]
pub struct ChatModels {
    /// For everything that has no model of its own.
    pub main: Option<SharedChatModel>,
    /// Makes follow-ups self-contained: the main one unless another, smaller one is configured.
    pub rewriter: Option<SharedChatModel>,
}

impl fmt::Debug for ChatModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |model: &Option<SharedChatModel>| model.as_ref().map(|model| model.name().to_owned());
        f.debug_struct("ChatModels").field("main", &name(&self.main)).field("rewriter", &name(&self.rewriter)).finish()
    }
}

/// Keeps what a day's questions to chat models have cost, so that it outlives the process.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Adds `tokens` to what was spent on `day`, UTC, under the limit of a section of the configuration; what that is then,
    /// by all who share the ledger. 0 only looks.
    ///
    /// # Errors
    ///
    /// In words, when it cannot be written down; then nothing was added.
    async fn spend(&self, section: &str, day: NaiveDate, tokens: u64) -> Result<u64, String>;
}

/// A question to a chat model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// What it is asked for, as a word for metrics: `rewrite`, `summary`, ...
    pub purpose: &'static str,
    /// The conversation to answer, oldest first.
    pub messages: Vec<Message>,
    /// 0 for the likeliest answer.
    pub temperature: f32,
    /// The longest answer, in tokens of the model.
    pub most_tokens: u32,
    /// The JSON schema that the answer obeys; `None` for plain words.
    pub schema: Option<serde_json::Value>,
}

/// What a chat model answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatAnswer {
    /// Its words, or JSON when a schema was given.
    pub text: String,
    /// Whether it came to its end by itself; an answer that was cut is a failure for most who ask.
    pub whole: bool,
    /// What it cost, question and answer together, in tokens of the model; an estimate where it does not say.
    pub tokens: u64,
}

/// One message of OpenAI's chat format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Whose part it plays.
    pub role: Role,
    /// What it says.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    #[must_use]
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// Why a model gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// No connection, no answer in time, or no model file. Worth another try when that is mended.
    #[error("cannot reach {model}: {reason}")]
    Unreachable {
        /// Which model.
        model: String,
        /// In words, with what to do.
        reason: String,
    },
    /// It answered with an error. The same request would fail again.
    #[error("refused: {0}")]
    Refused(String),
    /// It answered something that is not what was asked for.
    #[error("unusable answer: {0}")]
    Unusable(String),
}
