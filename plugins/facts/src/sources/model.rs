//! Facts that a chat model finds in an exchange.

use skymem_core::{ChatModel, Exchange};

use super::Found;

/// Why a model told no facts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// It could not be reached. Worth another try whenever it is there again.
    #[error("the model gave no answer: {0}")]
    Unreachable(String),
    /// It refused: a wrong key, an exchange it does not accept, or the day's tokens are spent. Worth some more tries.
    #[error("the model refused: {0}")]
    Refused(String),
    /// Twice it answered what is not what was asked for. The same question would hardly do better.
    #[error("the model's answer will not do: {0}")]
    Unusable(String),
}

/// The facts that `chat` finds in `exchange`.
///
/// # Errors
///
/// When the model gave no answer that will do; says whether to try again.
pub(crate) async fn ask(chat: &dyn ChatModel, exchange: &Exchange) -> Result<Vec<Found>, AskError> {
    let _ = (chat, exchange);
    Ok(Vec::new())
}
