//! The one check on the length of texts.

use skymem_core::{Embedder, ModelError};

/// Refuses a text that `embedder` would not read to its end.
pub(crate) fn check(embedder: &dyn Embedder, text: &str) -> Result<(), ModelError> {
    let (tokens, longest) = (embedder.count_tokens(text), embedder.longest_text());
    if tokens <= longest { Ok(()) } else { Err(too_long(embedder, tokens)) }
}

/// The refusal of a text of `tokens`.
pub(crate) fn too_long(embedder: &dyn Embedder, tokens: usize) -> ModelError {
    ModelError::Refused(format!(
        "a text has {tokens} tokens, {} reads at most {}: split it first",
        embedder.id(),
        embedder.longest_text()
    ))
}
