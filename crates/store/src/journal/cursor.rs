//! How far each layer has read each journal. A cursor is also the lease on that work: several servers share it.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use skymem_core::{Exchange, ExchangeId, LayerName, Seq, UserId};

use super::forget::learn_again;
use super::read::{bounded, load};
use super::{Journal, lock, wake, wakeups};
use crate::error::StoreError;

/// The reason why an exchange is parked is kept up to this length.
const LONGEST_REASON: usize = 2_000;

/// The right to let one layer learn from one journal, until it runs out.
///
/// Whoever holds it renews it in time, and drops it as soon as [`Journal::advance`] or [`Journal::renew`] says that it
/// is another's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Whose journal.
    pub user: UserId,
    /// Which layer.
    pub layer: LayerName,
    /// Who holds the lease: one worker, not one server.
    pub owner: Uuid,
    /// How far the layer has read.
    pub after: Seq,
    /// How often it failed in a row here.
    pub failures: u32,
}

/// An exchange that a layer could not learn from, set aside so that the rest goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// Which layer.
    pub layer: LayerName,
    /// Which exchange.
    pub exchange: ExchangeId,
    /// Why, in the layer's words.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was set aside.
    pub parked_at: DateTime<Utc>,
}

/// How far a layer is behind a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerLag {
    /// Which layer.
    pub layer: LayerName,
    /// Exchanges it has not learned, or not as they are now. Parked ones do not count.
    pub behind: i64,
    /// Exchanges it could not learn.
    pub parked: i64,
    /// How often it failed in a row; where it failed most, when several journals are asked about.
    pub failures: i64,
    /// When it is tried again, if it waits after a failure.
    pub retry_at: Option<DateTime<Utc>>,
}

impl Journal {
    /// The lease on a journal from which `layer` has something to learn, for `ttl`; `None` when there is nothing to
    /// do, or others do it. The journal that is least behind comes first, so that a chat never waits for an import.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn lease(
        &self,
        layer: &LayerName,
        owner: Uuid,
        now: DateTime<Utc>,
        ttl: TimeDelta,
    ) -> Result<Option<Lease>, StoreError> {
        sqlx::query!(
            r#"
            insert into journal.cursor (user_id, layer)
            select id, $1
            from journal.users
            where not exists (select from journal.cursor where user_id = users.id and layer = $1)
            on conflict do nothing
            "#,
            layer.as_str()
        )
        .execute(&self.db)
        .await?;
        let leased = sqlx::query!(
            r#"
            update journal.cursor
            set leased_by = $2, leased_until = $4
            where layer = $1
              and user_id = (
                  select cursor.user_id
                  from journal.cursor
                  join journal.users on users.id = cursor.user_id
                  where layer = $1
                    and seq < last_seq
                    and (leased_until is null or leased_until <= $3)
                    and (retry_at is null or retry_at <= $3)
                    and exists (select from journal.exchange
                                join journal.remembered
                                  on remembered.user_id = exchange.user_id
                                 and remembered.exchange_id = exchange.id
                                where exchange.user_id = cursor.user_id
                                  and changed_seq > cursor.seq)
                  order by last_seq - seq, cursor.user_id
                  limit 1
                  for update of cursor skip locked)
            returning user_id, seq, failures
            "#,
            layer.as_str(),
            owner,
            now,
            now + ttl
        )
        .fetch_optional(&self.db)
        .await?;
        Ok(leased.map(|row| Lease {
            user: UserId(row.user_id),
            layer: layer.clone(),
            owner,
            after: Seq(row.seq),
            failures: count(row.failures),
        }))
    }

    /// The next exchanges to learn, each with the place up to which the cursor has come when it is learned; at most
    /// `limit` and 200 of them. What is forgotten is passed over.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn unread(&self, lease: &Lease, limit: usize) -> Result<Vec<(Seq, Exchange)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select id, changed_seq
            from journal.exchange
            join journal.remembered
              on remembered.user_id = exchange.user_id
             and remembered.exchange_id = exchange.id
            where exchange.user_id = $1
              and changed_seq > $2
            order by changed_seq
            limit $3
            "#,
            lease.user.0,
            lease.after.0,
            bounded(limit)
        )
        .fetch_all(&self.db)
        .await?;
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut exchanges = load(&self.db, lease.user, &ids).await?.into_iter().peekable();
        // An exchange that grew since comes as it is now, and once more later. One purged since is missing.
        Ok(rows
            .iter()
            .filter_map(|row| {
                let exchange = exchanges.next_if(|exchange| exchange.id.0 == row.id)?;
                Some((Seq(row.changed_seq), exchange))
            })
            .collect())
    }

    /// Notes that all up to `to` is learned or parked. Whether the lease was still held: if not, another has taken the
    /// work over, and nothing is noted.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn advance(&self, lease: &mut Lease, to: Seq) -> Result<bool, StoreError> {
        // A parked exchange that was met again at a later place, and not parked again there, is learned after all.
        let moved = sqlx::query_scalar!(
            r#"
            with moved as (
                update journal.cursor
                set seq = greatest(seq, $4), failures = 0, retry_at = null
                where user_id = $1
                  and layer = $2
                  and leased_by = $3
                returning seq
            ), learned as (
                delete from journal.parked
                using journal.exchange
                where parked.user_id = $1
                  and parked.layer = $2
                  and exchange.user_id = $1
                  and exchange.id = parked.exchange_id
                  and exchange.changed_seq > parked.changed_seq
                  and exchange.changed_seq <= $4
                  and exists (select from moved)
            )
            select seq as "seq!" from moved
            "#,
            lease.user.0,
            lease.layer.as_str(),
            lease.owner,
            to.0
        )
        .fetch_optional(&self.db)
        .await?;
        let Some(seq) = moved else { return Ok(false) };
        lease.after = Seq(seq);
        lease.failures = 0;
        Ok(true)
    }

    /// Keeps the lease until `until`. Whether it was still held.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn renew(&self, lease: &Lease, until: DateTime<Utc>) -> Result<bool, StoreError> {
        let renewed = sqlx::query!(
            "update journal.cursor set leased_until = $4 where user_id = $1 and layer = $2 and leased_by = $3",
            lease.user.0,
            lease.layer.as_str(),
            lease.owner,
            until
        )
        .execute(&self.db)
        .await?;
        Ok(renewed.rows_affected() > 0)
    }

    /// Gives the lease back. Whether it was still held.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; then it runs out by itself.
    pub async fn release(&self, lease: &Lease) -> Result<bool, StoreError> {
        let released = sqlx::query!(
            r#"
            update journal.cursor
            set leased_by = null, leased_until = null
            where user_id = $1
              and layer = $2
              and leased_by = $3
            "#,
            lease.user.0,
            lease.layer.as_str(),
            lease.owner
        )
        .execute(&self.db)
        .await?;
        Ok(released.rows_affected() > 0)
    }

    /// Notes a failure and gives the lease back; nobody gets it before `retry_at`. Whether it was still held.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; then the lease runs out by itself.
    pub async fn failed(&self, lease: &Lease, retry_at: DateTime<Utc>) -> Result<bool, StoreError> {
        let noted = sqlx::query!(
            r#"
            update journal.cursor
            set leased_by = null, leased_until = null, failures = failures + 1, retry_at = $4
            where user_id = $1
              and layer = $2
              and leased_by = $3
            "#,
            lease.user.0,
            lease.layer.as_str(),
            lease.owner,
            retry_at
        )
        .execute(&self.db)
        .await?;
        Ok(noted.rows_affected() > 0)
    }

    /// Sets an exchange aside; then [`Journal::advance`] past it. Whether it was parked: not when it was forgotten
    /// meanwhile, or the lease is another's.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn park(
        &self,
        lease: &Lease,
        exchange: ExchangeId,
        reason: &str,
        attempts: u32,
        at: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let reason: String = reason.chars().filter(|c| *c != '\0').take(LONGEST_REASON).collect();
        let parked = sqlx::query!(
            r#"
            insert into journal.parked (user_id, layer, exchange_id, changed_seq, reason, attempts, parked_at)
            select $1, $2, exchange.id, changed_seq, $5, $6, $7
            from journal.exchange
            join journal.remembered
              on remembered.user_id = exchange.user_id
             and remembered.exchange_id = exchange.id
            where exchange.user_id = $1
              and exchange.id = $4
              and exists (select from journal.cursor where user_id = $1 and layer = $2 and leased_by = $3)
            on conflict (user_id, layer, exchange_id) do update
            set changed_seq = excluded.changed_seq,
                reason = excluded.reason,
                attempts = excluded.attempts,
                parked_at = excluded.parked_at
            "#,
            lease.user.0,
            lease.layer.as_str(),
            lease.owner,
            exchange.0,
            reason,
            i32::try_from(attempts).unwrap_or(i32::MAX),
            at
        )
        .execute(&self.db)
        .await?;
        Ok(parked.rows_affected() > 0)
    }

    /// The exchanges of a user that layers could not learn, oldest first.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn parked(&self, user: UserId) -> Result<Vec<Parked>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select layer, exchange_id, reason, attempts, parked_at
            from journal.parked
            where user_id = $1
            order by parked_at, layer, exchange_id
            "#,
            user.0
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Parked {
                layer: LayerName(row.layer.into()),
                exchange: ExchangeId(row.exchange_id),
                reason: row.reason,
                attempts: count(row.attempts),
                parked_at: row.parked_at,
            })
            .collect())
    }

    /// Lets `layer` try again what it could not learn; how many exchanges. Each is listed as parked until it is
    /// learned.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn retry_parked(&self, user: UserId, layer: &LayerName) -> Result<usize, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let ids = sqlx::query_scalar!(
            "select exchange_id from journal.parked where user_id = $1 and layer = $2",
            user.0,
            layer.as_str()
        )
        .fetch_all(&mut *tx)
        .await?;
        learn_again(&mut tx, user, &ids).await?;
        wake(&mut tx, user).await?;
        tx.commit().await?;
        Ok(ids.len())
    }

    /// Lets `layer` learn all of a user's journal again. Whether it had read any of it.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn reset(&self, user: UserId, layer: &LayerName) -> Result<bool, StoreError> {
        Ok(self.reset_where(Some(user), layer).await? > 0)
    }

    /// Lets `layer` learn all journals again; how many it had read.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn reset_all(&self, layer: &LayerName) -> Result<u64, StoreError> {
        self.reset_where(None, layer).await
    }

    async fn reset_where(&self, user: Option<UserId>, layer: &LayerName) -> Result<u64, StoreError> {
        // The leases are taken away: whoever is at work must not move the cursor past what is to be learned again.
        let reset = sqlx::query_scalar!(
            r#"
            with reset as (
                update journal.cursor
                set seq = 0, leased_by = null, leased_until = null, failures = 0, retry_at = null
                where layer = $2
                  and ($1::uuid is null or user_id = $1)
                returning user_id
            ), unparked as (
                delete from journal.parked
                where layer = $2
                  and ($1::uuid is null or user_id = $1)
            )
            select pg_notify($3, user_id::text)::text as sent from reset
            "#,
            user.map(|user| user.0),
            layer.as_str(),
            wakeups::CHANNEL
        )
        .fetch_all(&self.db)
        .await?;
        Ok(reset.len() as u64)
    }

    /// How far each layer that ever read a journal is behind: that of one user, or all journals together.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn lag(&self, user: Option<UserId>) -> Result<Vec<LayerLag>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select layers.layer as "layer!",
                   coalesce(sum((
                       select count(*)
                       from journal.exchange
                       join journal.remembered
                         on remembered.user_id = exchange.user_id
                        and remembered.exchange_id = exchange.id
                       where exchange.user_id = users.id
                         and changed_seq > coalesce(cursor.seq, 0)
                   )), 0)::bigint as "behind!",
                   coalesce(sum((
                       select count(*)
                       from journal.parked
                       where parked.user_id = users.id
                         and parked.layer = layers.layer
                   )), 0)::bigint as "parked!",
                   coalesce(max(failures), 0)::bigint as "failures!",
                   max(retry_at) as retry_at
            from (select distinct layer from journal.cursor) as layers
            cross join journal.users
            left join journal.cursor on cursor.user_id = users.id and cursor.layer = layers.layer
            where $1::uuid is null or users.id = $1
            group by layers.layer
            order by layers.layer
            "#,
            user.map(|user| user.0)
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| LayerLag {
                layer: LayerName(row.layer.into()),
                behind: row.behind,
                parked: row.parked,
                failures: row.failures,
                retry_at: row.retry_at,
            })
            .collect())
    }
}

/// A count as the table keeps it, which is never below zero.
fn count(kept: i32) -> u32 {
    u32::try_from(kept).unwrap_or(0)
}
