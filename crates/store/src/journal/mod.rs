//! The ground state: what was said, by whom, in which order.
//!
//! Turns are written down by [`Journal::append`] and paired into exchanges. Layers read the exchanges through cursors
//! that are leases ([`Journal::lease`], [`Journal::unread`], [`Journal::advance`]). Forgetting ([`Journal::forget`])
//! hides an exchange and removes all that was learned from it in one transaction.
//!
//! Whoever changes a user's journal locks the user's row first. So seqs are handed out in commit order, and a cursor
//! that has passed a seq never meets a smaller one.

mod append;
mod collections;
mod cursor;
mod factors;
mod forget;
mod found;
mod heard;
mod pairing;
mod read;
mod right_of_way;
mod sealed;
mod secrets;
mod sessions;
mod spent;
mod stated;
mod users;
mod wakeups;
mod written;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgPool, PgTransaction};
use uuid::{Timestamp, Uuid};

use skymem_core::{Seq, UserId};

use self::right_of_way::RightOfWay;
use crate::audit::{self, Acting, Verb};
use crate::error::StoreError;

pub(crate) use append::digest;
pub use append::{Append, Appended, AppendedTurn, MOST_TURNS_AT_ONCE, NewTurn, Recorded};
pub use collections::{CollectionSettings, Shelf};
pub use cursor::{LayerLag, Lease, Parked};
pub use forget::{Forgotten, Target};
pub use heard::Heard;
pub use read::{JournalTurn, Page, Stats};
pub use sealed::{NewSeal, NewVersion, SealedCollection, TakenIn, Wrapping};
pub use secrets::{SecretPolicy, SecretSetting};
pub use sessions::{MemoryMode, Session, SessionChange, SessionMark};
pub use stated::StatedTurn;
pub use wakeups::Wakeups;

/// All turns of all users, in order. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {
    db: PgPool,
    /// Who talks goes before who imports.
    way: RightOfWay,
    /// What was written into sealed collections lately.
    sealed: sealed::Recent,
    /// Who changes something with it, for the audit log.
    acting: Option<Acting>,
}

impl Journal {
    /// The journal in `db`, whose tables are up to date (see [`crate::migrate::migrate`]).
    #[must_use]
    pub fn new(db: PgPool) -> Self {
        Self { db, way: RightOfWay::default(), sealed: sealed::Recent::default(), acting: None }
    }
}

impl Journal {
    /// The same journal for somebody who changes something in it: that is written down in the audit log.
    #[must_use]
    pub fn by(&self, acting: Acting) -> Self {
        Self { acting: Some(acting), ..self.clone() }
    }

    /// Adds to the audit log of `user`, within the transaction of the change and last in it.
    async fn note(
        &self,
        tx: &mut PgTransaction<'_>,
        user: UserId,
        verb: Verb,
        what: impl FnOnce() -> Value,
    ) -> Result<(), StoreError> {
        audit::note(tx, user, self.acting.as_ref(), verb, what).await
    }
}

/// Locks the journal of `user` until the transaction ends and reserves `count` seqs: the one before the first of them.
/// Those that stay unused are gaps.
async fn lock(tx: &mut PgTransaction<'_>, user: UserId, count: usize) -> Result<Seq, StoreError> {
    let count = i64::try_from(count).map_err(|_| StoreError::Refused("too many at once".into()))?;
    let last = sqlx::query_scalar!(
        "update journal.users set last_seq = last_seq + $2 where id = $1 returning last_seq",
        user.0,
        count
    )
    .fetch_optional(&mut **tx)
    .await?;
    last.map(|last| Seq(last - count)).ok_or(StoreError::NoUser)
}

/// Wakes the observers of every server, once this transaction is committed.
async fn wake(tx: &mut PgTransaction<'_>, user: UserId) -> Result<(), StoreError> {
    sqlx::query_scalar!(r#"select pg_notify($1, $2)::text as "sent""#, wakeups::CHANNEL, user.to_string())
        .fetch_one(&mut **tx)
        .await?;
    Ok(())
}

/// An id for something made at `at`; what was made before 1970 counts as made then.
fn id_made(at: DateTime<Utc>) -> Uuid {
    let seconds = u64::try_from(at.timestamp()).unwrap_or(0);
    Uuid::new_v7(Timestamp::from_unix_time(seconds, at.timestamp_subsec_nanos().min(999_999_999), 0, 0))
}
