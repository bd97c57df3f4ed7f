//! Forgetting in sealed collections, which works while they are locked.

use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgTransaction};
use uuid::Uuid;

use skymem_core::{ExchangeId, UserId};

use super::{handles, mark, shelves};
use crate::error::StoreError;
use crate::journal::forget::Target;
use crate::journal::{Journal, lock};

/// What is done to sealed exchanges in the transaction of a forget, a restore or a purge.
pub(in crate::journal) struct Sealing;

impl Sealing {
    /// Hides them; the ids of those that were not forgotten before.
    pub(in crate::journal) async fn forget(
        tx: &mut PgTransaction<'_>,
        user: UserId,
        target: &Target,
        at: DateTime<Utc>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let (ids, handles, collection) = named(&mut **tx, user, Some(target)).await?;
        let hidden = sqlx::query!(
            r#"
            update journal.sealed_exchange
            set forgotten_at = $5
            where user_id = $1
              and forgotten_at is null
              and (id = any($2) or handle = any($3) or collection = $4)
            returning id, collection
            "#,
            user.0,
            &ids,
            &handles,
            collection,
            at
        )
        .fetch_all(&mut **tx)
        .await?;
        changed_now(tx, user, hidden.into_iter().map(|row| (row.id, row.collection)).collect()).await
    }

    /// Takes a forget back, of what was forgotten at or after `since`; the ids of what is back.
    pub(in crate::journal) async fn restore(
        tx: &mut PgTransaction<'_>,
        user: UserId,
        exchanges: &[ExchangeId],
        since: DateTime<Utc>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let back = sqlx::query!(
            r#"
            update journal.sealed_exchange
            set forgotten_at = null
            where user_id = $1
              and id = any($2)
              and forgotten_at >= $3
            returning id, collection
            "#,
            user.0,
            &exchanges.iter().map(|id| id.0).collect::<Vec<_>>(),
            since
        )
        .fetch_all(&mut **tx)
        .await?;
        changed_now(tx, user, back.into_iter().map(|row| (row.id, row.collection)).collect()).await
    }

    /// Removes them for good; the ids of those there were. No hash of what was said remains: who sends it again has it
    /// written again.
    pub(in crate::journal) async fn purge(
        tx: &mut PgTransaction<'_>,
        user: UserId,
        exchanges: &[ExchangeId],
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let gone = sqlx::query!(
            r#"
            with gone as (
                delete from journal.sealed_exchange
                where user_id = $1
                  and id = any($2)
                returning id, collection, handle
            ), sessions as (
                delete from journal.sealed_session
                using gone
                where sealed_session.user_id = $1
                  and sealed_session.open_exchange = gone.id
            )
            select id, collection from gone
            "#,
            user.0,
            &exchanges.iter().map(|id| id.0).collect::<Vec<_>>()
        )
        .fetch_all(&mut **tx)
        .await?;
        changed_now(tx, user, gone.into_iter().map(|row| (row.id, row.collection)).collect()).await
    }
}

/// What a target names: exchanges, handles of sessions, a collection.
async fn named<'a>(
    db: impl PgExecutor<'_>,
    user: UserId,
    target: Option<&'a Target>,
) -> Result<(Vec<Uuid>, Vec<Vec<u8>>, Option<&'a str>), StoreError> {
    Ok(match target {
        None => (Vec::new(), Vec::new(), None),
        Some(Target::Exchanges(ids)) => (ids.iter().map(|id| id.0).collect(), Vec::new(), None),
        Some(Target::Session(session)) => (Vec::new(), handles(&shelves(db, user).await?, session)?, None),
        Some(Target::Collection(collection)) => (Vec::new(), Vec::new(), Some(collection.as_str())),
    })
}

async fn changed_now(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    changed: Vec<(Uuid, String)>,
) -> Result<Vec<ExchangeId>, StoreError> {
    if changed.is_empty() {
        return Ok(Vec::new());
    }
    let seq = lock(tx, user, 1).await?.0 + 1;
    let (ids, mut collections): (Vec<Uuid>, Vec<String>) = changed.into_iter().unzip();
    collections.sort_unstable();
    collections.dedup();
    mark(tx, user, &collections, &ids, seq).await?;
    Ok(ids.into_iter().map(ExchangeId).collect())
}

impl Journal {
    /// The sealed exchanges that are meant, or all: the forgotten ones, the others, or both.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_meant(
        &self,
        user: UserId,
        target: Option<&Target>,
        forgotten: Option<bool>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let (ids, handles, collection) = named(&self.db, user, target).await?;
        let rows = sqlx::query_scalar!(
            r#"
            select id
            from journal.sealed_exchange
            where user_id = $1
              and ($5 or id = any($2) or handle = any($3) or collection = $4)
              and ($6::boolean is null or $6 = (forgotten_at is not null))
            order by changed_seq
            "#,
            user.0,
            &ids,
            &handles,
            collection,
            target.is_none(),
            forgotten
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows.into_iter().map(ExchangeId).collect())
    }

    /// The sealed exchanges in the trash, those of `ids` or all: what was forgotten before `until`, or ever.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_trash(
        &self,
        user: UserId,
        ids: Option<&[ExchangeId]>,
        until: Option<DateTime<Utc>>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let ids: Option<Vec<Uuid>> = ids.map(|ids| ids.iter().map(|id| id.0).collect());
        let rows = sqlx::query_scalar!(
            r#"
            select id
            from journal.sealed_exchange
            where user_id = $1
              and forgotten_at is not null
              and ($2::uuid[] is null or id = any($2))
              and ($3::timestamptz is null or forgotten_at < $3)
            order by changed_seq
            "#,
            user.0,
            ids.as_deref(),
            until
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows.into_iter().map(ExchangeId).collect())
    }
}
