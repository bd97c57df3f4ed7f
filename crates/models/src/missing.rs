//! What stands in for a model whose file is not there: the server starts, searches by words, and says what to do.

use async_trait::async_trait;
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose, estimate_tokens};

/// An embedder that answers every request with the reason why it cannot.
pub(crate) struct Missing {
    id: EmbedderId,
    model: String,
    dimensions: usize,
    reason: String,
}

impl Missing {
    /// Stands in for `model`; `reason` says what is wrong and what to do.
    pub(crate) fn new(model: &str, dimensions: usize, reason: String) -> Self {
        Self { id: EmbedderId(format!("{model}/{dimensions}")), model: model.to_owned(), dimensions, reason }
    }
}

#[async_trait]
impl Embedder for Missing {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn longest_text(&self) -> usize {
        500
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimate_tokens(text).0
    }

    async fn embed(&self, _texts: &[&str], _purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        Err(ModelError::Unreachable { model: self.model.clone(), reason: self.reason.clone() })
    }
}
