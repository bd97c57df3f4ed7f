//! What is done now and then: layers tidy up, purges that were broken off go on, the trash is emptied of what is too old to
//! restore, and what was sealed when the server was stopped is looked for in the clear.

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
            match layer.prune(self.now()).await {
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
        for user in self.inner.journal.users().await? {
            let purged = self.empty_trash(user.id, Some(self.trash_ends())).await?.exchanges.len();
            if purged > 0 {
                tracing::info!(user = %user.id, purged, "The trash was emptied of what is too old to restore");
            }
            for sealed in self.inner.journal.sealed_collections(user.id).await? {
                if sealed.unchecked {
                    self.look_after_sealing(user.id, &sealed.collection).await?;
                }
            }
        }
        Ok(finished)
    }
}
