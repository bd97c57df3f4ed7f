//! Forgetting hides at once and is final later.
//!
//! To forget is to delete the row in `journal.remembered`; all that layers learned from the exchange refers to that row
//! and goes with it, in the same transaction.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, Exchange, ExchangeId, Seq, SessionId, UserId};

use super::read::{Page, bounded, load};
use super::sealed::Sealing;
use super::{Journal, lock, sessions, wake};
use crate::audit::{Verb, named};
use crate::error::StoreError;

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// These exchanges.
    Exchanges(Vec<ExchangeId>),
    /// All that was said in a session so far.
    Session(SessionId),
    /// All that stands in a collection so far.
    Collection(Collection),
}

/// An exchange in the trash.
#[derive(Debug, Clone, PartialEq)]
pub struct Forgotten {
    /// What was forgotten.
    pub exchange: Exchange,
    /// When.
    pub forgotten_at: DateTime<Utc>,
}

impl Journal {
    /// Hides exchanges and removes all that was learned from them; the ids of those that were not forgotten before.
    /// Tell the layers of these, for what a foreign key cannot reach.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user. After any error nothing is forgotten.
    pub async fn forget(
        &self,
        user: UserId,
        target: &Target,
        at: DateTime<Utc>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let (ids, session, collection) = match target {
            Target::Exchanges(ids) => (raw(ids), None, None),
            Target::Session(session) => (Vec::new(), Some(session.as_str()), None),
            Target::Collection(collection) => (Vec::new(), None, Some(collection.as_str())),
        };
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let hidden = sqlx::query_scalar!(
            r#"
            with hidden as (
                update journal.exchange
                set forgotten_at = $5
                where user_id = $1
                  and forgotten_at is null
                  and (id = any($2) or session_id = $3 or collection = $4)
                returning id
            ), unlearned as (
                delete from journal.remembered
                where user_id = $1
                  and exchange_id in (select id from hidden)
            )
            select id as "id!" from hidden
            "#,
            user.0,
            &ids,
            session,
            collection,
            at
        )
        .fetch_all(&mut *tx)
        .await?;
        let sealed = Sealing::forget(&mut tx, user, target, at).await?;
        let open = hidden.len();
        let changed: Vec<ExchangeId> = hidden.into_iter().map(ExchangeId).chain(sealed).collect();
        self.note_changed(&mut tx, user, Verb::Forgot, &changed, open).await?;
        wake(&mut tx, user).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Takes a forget back, for what was forgotten at or after `forgotten_since`; the ids of what is back. Layers learn
    /// it again as if it were new.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user. After any error nothing is restored.
    pub async fn restore(
        &self,
        user: UserId,
        exchanges: &[ExchangeId],
        forgotten_since: DateTime<Utc>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let back = sqlx::query_scalar!(
            r#"
            update journal.exchange
            set forgotten_at = null
            where user_id = $1
              and id = any($2)
              and forgotten_at >= $3
            returning id
            "#,
            user.0,
            &raw(exchanges),
            forgotten_since
        )
        .fetch_all(&mut *tx)
        .await?;
        remember_again(&mut tx, user, &back).await?;
        // What is back must not lift its session over the cap.
        let capped = sqlx::query!(
            r#"
            select distinct session.id, max_turns as "max_turns!"
            from journal.exchange
            join journal.session on session.user_id = exchange.user_id and session.id = exchange.session_id
            where exchange.user_id = $1
              and exchange.id = any($2)
              and max_turns is not null
            "#,
            user.0,
            &back
        )
        .fetch_all(&mut *tx)
        .await?;
        for session in capped {
            sessions::drop_oldest(&mut tx, user, &session.id.parse()?, session.max_turns).await?;
        }
        let sealed = Sealing::restore(&mut tx, user, exchanges, forgotten_since).await?;
        let open = back.len();
        let changed: Vec<ExchangeId> = back.into_iter().map(ExchangeId).chain(sealed).collect();
        self.note_changed(&mut tx, user, Verb::Restored, &changed, open).await?;
        wake(&mut tx, user).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// The trash, newest place in the journal first, from before `before`, at most `limit` and 200 items: all, or what
    /// was forgotten before `until`.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn forgotten(
        &self,
        user: UserId,
        until: Option<DateTime<Utc>>,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Page<Forgotten, Seq>, StoreError> {
        let limit = bounded(limit);
        let rows = sqlx::query!(
            r#"
            select id, forgotten_at as "forgotten_at!"
            from journal.exchange
            where user_id = $1
              and forgotten_at is not null
              and ($2::timestamptz is null or forgotten_at < $2)
              and ($3::bigint is null or first_seq < $3)
            order by first_seq desc
            limit $4
            "#,
            user.0,
            until,
            before.map(|seq| seq.0),
            limit + 1
        )
        .map(|row| (row.id, row.forgotten_at))
        .fetch_all(&self.db)
        .await?;
        let trash = self.with_times(user, &rows).await?;
        Ok(Page::cut(trash, limit, |last| last.exchange.first_seq()))
    }

    /// One exchange of the trash; `None` when there is no such, or it is not forgotten.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn forgotten_one(&self, user: UserId, id: ExchangeId) -> Result<Option<Forgotten>, StoreError> {
        let row = sqlx::query!(
            r#"
            select id, forgotten_at as "forgotten_at!"
            from journal.exchange
            where user_id = $1
              and id = $2
              and forgotten_at is not null
            "#,
            user.0,
            id.0
        )
        .map(|row| (row.id, row.forgotten_at))
        .fetch_optional(&self.db)
        .await?;
        Ok(self.with_times(user, row.as_slice()).await?.pop())
    }

    async fn with_times(&self, user: UserId, rows: &[(Uuid, DateTime<Utc>)]) -> Result<Vec<Forgotten>, StoreError> {
        let ids: Vec<Uuid> = rows.iter().map(|(id, _)| *id).collect();
        let mut exchanges = load(&self.db, user, &ids).await?.into_iter().peekable();
        // Both are in the order of `rows`; what was purged in between is missing from the exchanges.
        Ok(rows
            .iter()
            .filter_map(|(id, forgotten_at)| {
                let exchange = exchanges.next_if(|exchange| exchange.id.0 == *id)?;
                Some(Forgotten { exchange, forgotten_at: *forgotten_at })
            })
            .collect())
    }

    /// Removes exchanges for good, forgotten or not; the ids of those there were. A tombstone remains of each turn, so
    /// that the same words of the same speaker are not written into the same session again. A session in which nothing
    /// is left goes too, unless something is set about it; then its title goes.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user. After any error nothing is removed.
    pub async fn purge(
        &self,
        user: UserId,
        exchanges: &[ExchangeId],
        at: DateTime<Utc>,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let ids = raw(exchanges);
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        sqlx::query!(
            r#"
            insert into journal.tombstone (user_id, content_hash, exchange_id, purged_at)
            select user_id, said_hash, exchange_id, $3
            from journal.turn
            where user_id = $1
              and exchange_id = any($2)
            on conflict do nothing
            "#,
            user.0,
            &ids,
            at
        )
        .execute(&mut *tx)
        .await?;
        let gone = sqlx::query!(
            "delete from journal.exchange where user_id = $1 and id = any($2) returning id, session_id",
            user.0,
            &ids
        )
        .fetch_all(&mut *tx)
        .await?;
        let sessions: Vec<String> = gone.iter().map(|exchange| exchange.session_id.clone()).collect();
        forget_empty_sessions(&mut tx, user, &sessions).await?;
        let sealed = Sealing::purge(&mut tx, user, exchanges).await?;
        let open = gone.len();
        let changed: Vec<ExchangeId> = gone.into_iter().map(|exchange| ExchangeId(exchange.id)).chain(sealed).collect();
        self.note_changed(&mut tx, user, Verb::Purged, &changed, open).await?;
        wake(&mut tx, user).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Writes down which exchanges are otherwise than before, `open` of them readable, and how many of those there are;
    /// nothing when none is.
    async fn note_changed(
        &self,
        tx: &mut PgTransaction<'_>,
        user: UserId,
        verb: Verb,
        changed: &[ExchangeId],
        open: usize,
    ) -> Result<(), StoreError> {
        if changed.is_empty() || self.acting.is_none() {
            return Ok(());
        }
        let now = sqlx::query!(
            r#"
            select count(*) filter (where forgotten_at is null)      as "remembered!",
                   count(*) filter (where forgotten_at is not null)  as "in_trash!"
            from journal.exchange
            where user_id = $1
            "#,
            user.0
        )
        .fetch_one(&mut **tx)
        .await?;
        let count = i64::try_from(open).unwrap_or(i64::MAX);
        // What was purged was remembered or in the trash: only both together are known from before.
        let (remembered, in_trash) = match verb {
            Verb::Forgot => (now.remembered + count, now.in_trash - count),
            Verb::Restored => (now.remembered - count, now.in_trash + count),
            _ => (now.remembered, now.in_trash + count),
        };
        let what = || {
            json!({
                "exchanges": named(changed.iter().map(|id| id.0)),
                "before": { "remembered": remembered, "in_trash": in_trash },
                "after": { "remembered": now.remembered, "in_trash": now.in_trash },
            })
        };
        self.note(tx, user, verb, what).await
    }
}

/// Nothing of what was said outlives a purge, a title neither.
async fn forget_empty_sessions(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    sessions: &[String],
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        delete from journal.session
        where user_id = $1
          and id = any($2)
          and memory = 'readwrite'
          and max_turns is null
          and max_age_hours is null
          and not exists (select from journal.exchange
                          where exchange.user_id = $1
                            and exchange.session_id = session.id)
        "#,
        user.0,
        sessions
    )
    .execute(&mut **tx)
    .await?;
    sqlx::query!(
        r#"
        update journal.session
        set title = null
        where user_id = $1
          and id = any($2)
          and not exists (select from journal.exchange
                          where exchange.user_id = $1
                            and exchange.session_id = session.id)
        "#,
        user.0,
        sessions
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Puts exchanges into the index, and at the end of what layers have to learn.
pub(super) async fn remember_again(tx: &mut PgTransaction<'_>, user: UserId, ids: &[Uuid]) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into journal.remembered (user_id, exchange_id)
        select $1, id from unnest($2::uuid[]) as back (id)
        on conflict do nothing
        "#,
        user.0,
        ids
    )
    .execute(&mut **tx)
    .await?;
    learn_again(tx, user, ids).await
}

/// Puts exchanges at the end of what layers have to learn, in the order in which they were said.
pub(super) async fn learn_again(tx: &mut PgTransaction<'_>, user: UserId, ids: &[Uuid]) -> Result<(), StoreError> {
    let base = lock(tx, user, ids.len()).await?;
    sqlx::query!(
        r#"
        update journal.exchange
        set changed_seq = $3 + place
        from (select id, row_number() over (order by first_seq) as place
              from journal.exchange
              where user_id = $1
                and id = any($2)) as again
        where exchange.user_id = $1
          and exchange.id = again.id
        "#,
        user.0,
        ids,
        base.0
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn raw(ids: &[ExchangeId]) -> Vec<Uuid> {
    ids.iter().map(|id| id.0).collect()
}
