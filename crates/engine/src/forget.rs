//! Forgetting, taking it back, and removing for good.

use serde::Serialize;
use skymem_core::{Collection, ExchangeId, SessionId, UserId};

use crate::error::EngineError;
use crate::journal::{ExchangeView, Page, PageRequest};
use crate::memory::Memory;

/// What to forget.
#[derive(Debug, Clone, PartialEq)]
pub enum ForgetRequest {
    /// These exchanges.
    Exchanges(Vec<ExchangeId>),
    /// All exchanges of a session.
    Session(SessionId),
    /// All exchanges on a shelf.
    Collection(Collection),
}

/// What was forgotten, restored or purged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The exchanges that are now otherwise than before. Those that were so already, or are not there, are not named.
    pub exchanges: Vec<ExchangeId>,
}

impl Memory {
    /// Hides exchanges and removes all that was learned from them, at once. They stay in the trash for the trash
    /// period. Idempotent.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was forgotten.
    pub async fn forget(&self, user: UserId, what: &ForgetRequest) -> Result<Changed, EngineError> {
        todo!()
    }

    /// Takes exchanges back out of the trash; layers learn them again. Idempotent.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was restored.
    pub async fn restore(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<Changed, EngineError> {
        todo!()
    }

    /// What is in the trash, last forgotten first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn trash(&self, user: UserId, page: &PageRequest) -> Result<Page<ExchangeView>, EngineError> {
        todo!()
    }

    /// Removes exchanges from the trash for good: these, or all of it. What is not in the trash stays.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was removed.
    pub async fn purge(&self, user: UserId, exchanges: Option<&[ExchangeId]>) -> Result<Changed, EngineError> {
        todo!()
    }
}
