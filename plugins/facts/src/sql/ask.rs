//! What recalls and explanations read besides claims: where something was said, and what became of an exchange.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use skymem_core::{Collection, ExchangeId, Filter, Role, Seq, SessionId, Source, UserId};
use sqlx::PgPool;

/// Where and when a turn was said.
#[derive(Debug, Clone)]
pub(crate) struct SaidIn {
    pub(crate) exchange: ExchangeId,
    pub(crate) session: Option<SessionId>,
    pub(crate) seqs: (Seq, Seq),
    pub(crate) collection: Option<Collection>,
    pub(crate) source: Option<Source>,
    pub(crate) occurred_at: DateTime<Utc>,
    pub(crate) pinned: bool,
}

/// Of turns of a user, by their places, those that `filter` lets through.
pub(crate) async fn said_in(
    db: &PgPool,
    user: UserId,
    seqs: &[i64],
    filter: &Filter,
) -> sqlx::Result<HashMap<Seq, SaidIn>> {
    let words = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<String>>();
    let rows = sqlx::query!(
        r#"
        select turn.seq, exchange.id, exchange.session_id, first_seq, last_seq, collection, source, pinned,
               turn.occurred_at
        from journal.turn
        join journal.exchange on exchange.user_id = turn.user_id and exchange.id = turn.exchange_id
        where turn.user_id = $1
          and turn.seq = any($2)
          and forgotten_at is null
          and (cardinality($3::text[]) = 0 or exchange.session_id = any($3))
          and (cardinality($4::text[]) = 0 or collection = any($4))
          and (cardinality($5::text[]) = 0 or source = any($5))
          and (cardinality($6::text[]) = 0 or role = any($6))
          and ($7::timestamptz is null or turn.occurred_at >= $7)
          and ($8::timestamptz is null or turn.occurred_at < $8)
          and ($9::boolean is null or pinned = $9)
        "#,
        user.0,
        seqs,
        &words(filter.sessions.iter().map(SessionId::as_str).collect()),
        &words(filter.collections.iter().map(Collection::as_str).collect()),
        &words(filter.sources.iter().map(Source::as_str).collect()),
        &words(filter.roles.iter().map(|role: &Role| role.as_str()).collect()),
        filter.time.map(|time| time.from),
        filter.time.map(|time| time.until),
        filter.pinned,
    )
    .map(|row| {
        let said = SaidIn {
            exchange: ExchangeId(row.id),
            session: row.session_id.parse().ok(),
            seqs: (Seq(row.first_seq), Seq(row.last_seq)),
            collection: row.collection.parse().ok(),
            source: row.source.parse().ok(),
            occurred_at: row.occurred_at,
            pinned: row.pinned,
        };
        (Seq(row.seq), said)
    })
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().collect())
}

/// How an exchange begins, and whether it is forgotten; `None` when there is no such.
pub(crate) async fn beginning(db: &PgPool, user: UserId, exchange: ExchangeId) -> sqlx::Result<Option<(String, bool)>> {
    let row = sqlx::query!(
        r#"
        select left(text, 200) as "text!", forgotten_at is not null as "forgotten!"
        from journal.exchange
        join journal.turn on turn.user_id = exchange.user_id and turn.exchange_id = exchange.id
        where exchange.user_id = $1 and exchange.id = $2
        order by seq
        limit 1
        "#,
        user.0,
        exchange.0,
    )
    .map(|row| (row.text, row.forgotten));
    row.fetch_optional(db).await
}

/// How many claims there are of a user, how many exchanges wait for a model, how many it could not read; and the bytes of
/// all users.
pub(crate) async fn stats(db: &PgPool, user: UserId) -> sqlx::Result<(i64, i64, i64, i64)> {
    let row = sqlx::query!(
        r#"
        select (select count(*) from facts.claim where user_id = $1)
               + (select count(*) from facts.line where user_id = $1 and withdrawn_at is null)     as "claims!",
               (select count(*) from facts.reading where user_id = $1 and state = 'waiting')       as "waiting!",
               (select count(*) from facts.reading where user_id = $1 and state = 'parked')        as "parked!",
               pg_total_relation_size('facts.claim') + pg_total_relation_size('facts.line')
               + pg_total_relation_size('facts.reading') + pg_total_relation_size('facts.version') as "bytes!"
        "#,
        user.0,
    )
    .fetch_one(db)
    .await?;
    Ok((row.claims, row.waiting, row.parked, row.bytes))
}
