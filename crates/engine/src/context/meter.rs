//! What texts cost the model that will read them: counted where its tokenizer is at hand, else estimated, and corrected
//! by what the model was seen to count.

use std::fmt;
use std::sync::Arc;

use skymem_core::{Message, TokenCounter, Tokens, estimate_tokens};

use crate::usage::Factor;

/// What a chat template adds around each message, about.
pub(crate) const AROUND_A_MESSAGE: Tokens = Tokens(4);

/// Counts for one model.
#[derive(Clone, Default)]
pub(crate) struct Meter {
    exact: Option<Arc<dyn TokenCounter>>,
    factor: Factor,
}

impl Meter {
    /// Counts as the model does.
    pub(crate) fn exact(counter: Arc<dyn TokenCounter>) -> Self {
        Self { exact: Some(counter), factor: Factor::default() }
    }

    /// Estimates, corrected by a factor.
    pub(crate) fn corrected(factor: Factor) -> Self {
        Self { exact: None, factor }
    }

    pub(crate) fn text(&self, text: &str) -> Tokens {
        match &self.exact {
            Some(counter) => counter.count(text),
            None => self.factor.apply(estimate_tokens(text)),
        }
    }

    /// A text that is a message of its own.
    pub(crate) fn message_of(&self, text: &str) -> Tokens {
        self.text(text) + AROUND_A_MESSAGE
    }

    pub(crate) fn messages(&self, messages: &[Message]) -> Tokens {
        messages.iter().map(|message| self.message_of(&message.content)).sum()
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("exact", &self.exact.is_some()).field("factor", &self.factor).finish()
    }
}
