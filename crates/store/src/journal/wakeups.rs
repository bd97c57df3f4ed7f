//! Observers learn at once that a journal changed, whichever server changed it.

use std::fmt;

use sqlx::postgres::PgListener;
use uuid::Uuid;

use skymem_core::UserId;

use super::Journal;
use crate::error::StoreError;

/// Where changes are announced: the payload is the user's id.
pub(super) const CHANNEL: &str = "skymem_journal";

/// News of journals that changed.
pub struct Wakeups {
    listener: PgListener,
}

impl Journal {
    /// Begins to listen. Holds one connection of the pool for as long as it lives.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn wakeups(&self) -> Result<Wakeups, StoreError> {
        let mut listener = PgListener::connect_with(&self.db).await?;
        listener.listen(CHANNEL).await?;
        Ok(Wakeups { listener })
    }
}

impl Wakeups {
    /// Waits for the next change: whose journal it was, or `None` when the connection was lost for a moment and any
    /// journal may have changed.
    ///
    /// # Errors
    ///
    /// When the database is still away. Wait a little, look at every journal, and call again.
    pub async fn next(&mut self) -> Result<Option<UserId>, StoreError> {
        let notification = self.listener.try_recv().await?;
        Ok(notification.and_then(|news| Uuid::parse_str(news.payload()).ok()).map(UserId))
    }
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups").finish_non_exhaustive()
    }
}
