//! Exchanges that wait for a model, and those it could not read.

use chrono::{DateTime, Utc};
use skymem_core::{Exchange, ExchangeId, ExchangeKind, Role, Seq, SetAside, Turn, UserId};
use sqlx::PgPool;

/// An exchange that waits for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) user: UserId,
    pub(crate) exchange: ExchangeId,
    pub(crate) digest: Vec<u8>,
}

/// The exchanges of all users that have waited longest, at most `limit`.
pub(crate) async fn waiting(db: &PgPool, limit: i64) -> sqlx::Result<Vec<Waiting>> {
    let waiting = sqlx::query!(
        r#"
        select user_id, exchange_id, digest
        from facts.reading
        where state = 'waiting'
        order by changed_at, user_id, exchange_id
        limit $1
        "#,
        limit,
    )
    .map(|row| Waiting { user: UserId(row.user_id), exchange: ExchangeId(row.exchange_id), digest: row.digest });
    waiting.fetch_all(db).await
}

/// Whether any exchange waits for a model.
pub(crate) async fn any_waiting(db: &PgPool) -> sqlx::Result<bool> {
    let any = sqlx::query_scalar!(r#"select exists(select from facts.reading where state = 'waiting') as "any!""#);
    any.fetch_one(db).await
}

/// Sets an exchange aside that a model has no usable answer for, and says why.
pub(crate) async fn park(db: &PgPool, waiting: &Waiting, reason: &str, at: DateTime<Utc>) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        update facts.reading
        set state = 'parked', reason = $4, tries = tries + 1, changed_at = $5
        where user_id = $1 and exchange_id = $2 and digest = $3
        "#,
        waiting.user.0,
        waiting.exchange.0,
        waiting.digest,
        reason,
        at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Notes that a model refused an exchange, which then waits behind the others; after `most` times it is set aside.
pub(crate) async fn refused(
    db: &PgPool,
    waiting: &Waiting,
    reason: &str,
    most: i32,
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        update facts.reading
        set state = case when tries + 1 >= $6 then 'parked' else 'waiting' end,
            reason = $4, tries = tries + 1, changed_at = $5
        where user_id = $1 and exchange_id = $2 and digest = $3
        "#,
        waiting.user.0,
        waiting.exchange.0,
        waiting.digest,
        reason,
        at,
        most,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// An exchange as it stands in the journal; `None` when it is not remembered.
pub(crate) async fn exchange(db: &PgPool, user: UserId, id: ExchangeId) -> sqlx::Result<Option<Exchange>> {
    let rows = sqlx::query!(
        r#"
        select exchange.session_id, collection, kind, source, pinned, seq, role, speaker, text, turn.occurred_at,
               recorded_at
        from journal.exchange
        join journal.remembered on remembered.user_id = exchange.user_id and remembered.exchange_id = exchange.id
        join journal.turn on turn.user_id = exchange.user_id and turn.exchange_id = exchange.id
        where exchange.user_id = $1 and exchange.id = $2
        order by seq
        "#,
        user.0,
        id.0,
    )
    .fetch_all(db)
    .await?;
    let mut exchange: Option<Exchange> = None;
    for row in rows {
        let turn = Turn {
            seq: Seq(row.seq),
            // The database allows no other words.
            role: row.role.parse().unwrap_or(Role::System),
            speaker: row.speaker,
            text: row.text,
            occurred_at: row.occurred_at,
            recorded_at: row.recorded_at,
            statement: None,
        };
        match &mut exchange {
            Some(exchange) => exchange.turns.push(turn),
            None => {
                let named = row.session_id.parse().ok().zip(row.collection.parse().ok()).zip(row.source.parse().ok());
                let Some(((session, collection), source)) = named else { return Ok(None) };
                exchange = Some(Exchange {
                    user,
                    id,
                    session,
                    collection,
                    kind: row.kind.parse().unwrap_or(ExchangeKind::Said),
                    source,
                    pinned: row.pinned,
                    turns: vec![turn],
                });
            }
        }
    }
    Ok(exchange)
}

/// Tries what is parked of a user again; how many exchanges.
pub(crate) async fn retry(db: &PgPool, user: UserId) -> sqlx::Result<u64> {
    let retried = sqlx::query!(
        "update facts.reading set state = 'waiting', reason = null, tries = 0 where user_id = $1 and state = 'parked'",
        user.0
    );
    Ok(retried.execute(db).await?.rows_affected())
}

/// What is parked of a user, longest first.
pub(crate) async fn parked(db: &PgPool, user: UserId) -> sqlx::Result<Vec<SetAside>> {
    let parked = sqlx::query!(
        r#"
        select exchange_id, coalesce(reason, '') as "reason!", tries, changed_at
        from facts.reading
        where user_id = $1 and state = 'parked'
        order by changed_at, exchange_id
        "#,
        user.0,
    )
    .map(|row| SetAside {
        exchange: ExchangeId(row.exchange_id),
        reason: row.reason,
        attempts: u32::try_from(row.tries).unwrap_or_default(),
        since: row.changed_at,
    });
    parked.fetch_all(db).await
}
