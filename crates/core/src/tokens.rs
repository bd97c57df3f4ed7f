//! Tokens, and what counts them.

use std::ops::{Add, AddAssign};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A number of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub usize);

impl Tokens {
    /// What is left after spending `spent`; nothing when it was more.
    #[must_use]
    pub fn less(self, spent: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(spent.0))
    }
}

impl Add for Tokens {
    type Output = Tokens;

    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(all: I) -> Tokens {
        all.fold(Tokens(0), Add::add)
    }
}

/// Counts what texts cost a model. Fast enough to be asked for every text of a prompt.
pub trait TokenCounter: Send + Sync {
    /// How many tokens `text` has, whatever it says: words that are special to the model count as any other text.
    fn count(&self, text: &str) -> Tokens;
}

/// The tokenizers that are at hand.
pub trait Tokenizers: Send + Sync {
    /// Counts as `model` does; `None` when its tokenizer is not known. The first call for a model may take as long as
    /// its tokenizer takes to load, which is no time to keep others waiting.
    fn of_model(&self, model: &str) -> Option<Arc<dyn TokenCounter>>;
}

/// No tokenizer at all: every count is an estimate.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokenizers;

impl Tokenizers for NoTokenizers {
    fn of_model(&self, _: &str) -> Option<Arc<dyn TokenCounter>> {
        None
    }
}
