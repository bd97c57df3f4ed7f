//! From which moment facts are looked at.

use chrono::{DateTime, Utc};
use skymem_core::facts::Seen;

use crate::error::EngineError;
use crate::memory::Memory;

/// From which moment facts are looked at: now, unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Look {
    /// What held then; `None` for now.
    pub as_of: Option<DateTime<Utc>>,
    /// As it was known then; `None` for all that is known.
    pub known_at: Option<DateTime<Utc>>,
    /// Over every time instead, what was taken back as well.
    pub ever: bool,
}

/// What was seen, and the moment at which its state is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Looked<T> {
    /// The moment looked at; of a whole history, the one it is known at.
    pub at: DateTime<Utc>,
    /// What was seen.
    pub seen: T,
}

impl Memory {
    /// What a layer is asked for, and the moment looked at.
    pub(super) fn look(&self, look: Look) -> Result<(Seen, DateTime<Utc>), EngineError> {
        let Look { as_of, known_at, ever } = look;
        if ever && as_of.is_some() {
            return Err(EngineError::Refused(
                "the whole history goes without `as_of`, which is one moment of it".into(),
            ));
        }
        let at = as_of.unwrap_or_else(|| if ever { known_at.unwrap_or_else(|| self.now()) } else { self.now() });
        Ok((Seen { as_of: (!ever).then_some(at), known_at }, at))
    }
}
