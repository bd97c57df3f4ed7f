//! What is done now and then: layers tidy up, purges that were broken off go on, the trash is emptied of what is too old to
//! restore, and what was sealed when the server was stopped is looked for in the clear.

use skymem_core::UserId;
use skymem_core::wall::{acting_for, acting_for_everyone};

use crate::error::EngineError;
use crate::memory::Memory;

impl Memory {
    /// One round of upkeep; whether all was done, or some of it is worth another round soon. Harmless when several
    /// servers do it at the same time.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. A layer that fails is logged and called again next time.
    pub async fn upkeep(&self) -> Result<bool, EngineError> {
        let mut finished = true;
        for layer in &self.inner.layers {
            match acting_for_everyone(layer.prune(self.now())).await {
                Ok(pruned) => {
                    finished &= !pruned.unfinished;
                    tracing::debug!(layer = %layer.name(), rows = pruned.rows, "A layer tidied up");
                }
                Err(error) => {
                    finished = false;
                    tracing::warn!(%error, layer = %layer.name(), "A layer could not tidy up");
                }
            }
        }
        self.go_on_with_purges(false).await?;
        for user in self.users().await? {
            acting_for(user.id, self.upkeep_of(user.id)).await?;
        }
        Ok(finished)
    }

    /// What is done for one user.
    async fn upkeep_of(&self, user: UserId) -> Result<(), EngineError> {
        let purged = self.empty_trash(user, Some(self.trash_ends())).await?.exchanges.len();
        if purged > 0 {
            tracing::info!(%user, purged, "The trash was emptied of what is too old to restore");
        }
        for sealed in self.inner.journal.sealed_collections(user).await? {
            if sealed.unchecked {
                self.look_after_sealing(user, &sealed.collection).await?;
            }
        }
        Ok(())
    }
}
