//! What runs beside the requests: layers learning, upkeep.

use crate::error::EngineError;
use crate::memory::Memory;

/// The background work of one [`Memory`]. Dropping it lets the work be: stop it instead.
#[derive(Debug)]
pub struct Background {}

impl Background {
    /// Lets every worker finish the batch it is in, gives its lease back, and returns when all are still.
    pub async fn stop(self) {
        todo!()
    }
}

impl Memory {
    /// Starts the background work: one worker per layer, and upkeep.
    #[must_use]
    pub fn start(&self) -> Background {
        todo!()
    }

    /// Has every layer learn what was recorded up to now, in the calling task, and returns when there is nothing left
    /// but what is parked: for tests and for commands that must not return early.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn catch_up(&self) -> Result<(), EngineError> {
        todo!()
    }

    /// One round of upkeep: layers tidy up, and what was forgotten longer ago than the trash period is purged.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. A layer that fails is logged and called again next time.
    pub async fn upkeep(&self) -> Result<(), EngineError> {
        todo!()
    }
}
