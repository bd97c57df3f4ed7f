//! What skymem asks of language models.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

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
