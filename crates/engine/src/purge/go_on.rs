//! Purges that were broken off: by a server that was killed, by a database that went away. They go on.

use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::UserId;
use skymem_core::wall::{acting_for, acting_for_everyone};
use skymem_store::{Actor, BegunPurge, SERVER, Target};

use crate::audit::acting_as;
use crate::error::EngineError;
use crate::memory::Memory;

/// A purge that takes longer than this is taken for broken off: its server may be another one. If it is not, the same is done
/// twice, which changes nothing.
const LONGEST: TimeDelta = TimeDelta::hours(1);

impl Memory {
    /// Goes on with every purge that was broken off; how many. With `at_start`, with those that others may be at work on too.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn go_on_with_purges(&self, at_start: bool) -> Result<usize, EngineError> {
        let until = if at_start { self.now() } else { self.now() - LONGEST };
        // Removals of users: of tables that know nothing of them, and in the server's own log.
        let mut ended = acting_for_everyone(self.go_on_purging(SERVER, until)).await?;
        for user in self.users().await? {
            ended += acting_for(user.id, self.go_on_purging(user.id, until)).await?;
        }
        Ok(ended)
    }

    /// Goes on with the purges of one user that were begun before `until`, or with removals of users; how many.
    pub(super) async fn go_on_purging(&self, kept_for: UserId, until: DateTime<Utc>) -> Result<usize, EngineError> {
        let begun = self.inner.purger.begun(kept_for, until).await?;
        let ended = begun.len();
        for purge in begun {
            tracing::warn!(purge = %purge.id, begun_at = %purge.begun_at, "A purge was broken off: it goes on");
            let actor = Actor::named(&purge.actor);
            acting_as(actor, Box::pin(self.end_purge(purge))).await?;
        }
        Ok(ended)
    }

    async fn end_purge(&self, begun: BegunPurge) -> Result<(), EngineError> {
        // What it said may be gone already, and then cannot be looked for in the pages: they are written anew.
        let rewrite = true;
        if begun.removes.is_some() {
            self.carry_out_removal(begun, rewrite).await?;
        } else {
            self.forget(begun.user, &Target::Exchanges(begun.exchanges.clone())).await?;
            self.carry_out(begun, rewrite).await?;
        }
        Ok(())
    }
}
