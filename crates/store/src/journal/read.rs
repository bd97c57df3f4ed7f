//! Reading what was written down. What is forgotten is not read here, but in `forget.rs`.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;
use uuid::Uuid;

use skymem_core::{Collection, Exchange, ExchangeId, Filter, Seq, SessionId, Source, Turn, UserId};

use super::Journal;
use crate::error::StoreError;

/// A page, and a window, hold at most this many items.
const MOST_ITEMS: usize = 200;

/// Some items, and where the next ones begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, Mark> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Ask for what follows this; `None` when nothing does.
    pub next: Option<Mark>,
}

impl<T, Mark> Page<T, Mark> {
    /// The first `limit` of `items`, which hold one more when there is a next page.
    pub(super) fn cut(mut items: Vec<T>, limit: i64, mark: impl Fn(&T) -> Mark) -> Self {
        let limit = usize::try_from(limit).unwrap_or(MOST_ITEMS);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(mark);
        Self { items, next }
    }
}

/// A limit within reason.
pub(super) fn bounded(limit: usize) -> i64 {
    i64::try_from(limit.clamp(1, MOST_ITEMS)).unwrap_or(1)
}

/// A turn with all that the journal knows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalTurn {
    /// The turn itself.
    pub turn: Turn,
    /// The exchange it is part of.
    pub exchange: ExchangeId,
    /// The content as it came, when it was not plain text.
    pub parts: Option<Value>,
    /// The client's own id for it.
    pub client_id: Option<String>,
    /// When it was written down.
    pub recorded_at: DateTime<Utc>,
}

/// What the journal of a user holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Conversations.
    pub sessions: i64,
    /// Turns, those of forgotten exchanges included.
    pub turns: i64,
    /// Exchanges, without the forgotten ones.
    pub exchanges: i64,
    /// Exchanges that are forgotten and not purged yet.
    pub forgotten: i64,
    /// Exchanges that are pinned and not forgotten.
    pub pinned: i64,
    /// When the first exchange that is not forgotten was said.
    pub first_at: Option<DateTime<Utc>>,
    /// When the last exchange that is not forgotten was said.
    pub last_at: Option<DateTime<Utc>>,
    /// Bytes of the journal's tables and indexes, over all users.
    pub bytes: i64,
}

impl Journal {
    /// The last exchanges of a session, word for word, oldest first; at most `exchanges` and 200 of them. What was
    /// told to memory directly is not part of the conversation.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn window(
        &self,
        user: UserId,
        session: &SessionId,
        exchanges: usize,
    ) -> Result<Vec<Exchange>, StoreError> {
        if exchanges == 0 {
            return Ok(Vec::new());
        }
        let mut ids = sqlx::query_scalar!(
            r#"
            select id
            from journal.exchange
            where user_id = $1
              and session_id = $2
              and kind = 'said'
              and forgotten_at is null
            order by first_seq desc
            limit $3
            "#,
            user.0,
            session.as_str(),
            bounded(exchanges)
        )
        .fetch_all(&self.db)
        .await?;
        ids.reverse();
        load(&self.db, user, &ids).await
    }

    /// One exchange; `None` when there is no such, or it is forgotten.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<Exchange>, StoreError> {
        let id = sqlx::query_scalar!(
            "select id from journal.exchange where user_id = $1 and id = $2 and forgotten_at is null",
            user.0,
            id.0
        )
        .fetch_optional(&self.db)
        .await?;
        Ok(load(&self.db, user, id.as_slice()).await?.pop())
    }

    /// The exchanges that `filter` lets through, the newest place in the journal first, from before `before`, at most
    /// `limit` and 200 of them. An exchange has a role when one of its turns has it, and the time of its first turn.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn exchanges(
        &self,
        user: UserId,
        filter: &Filter,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Page<Exchange, Seq>, StoreError> {
        let limit = bounded(limit);
        let ids = sqlx::query_scalar!(
            r#"
            select id
            from journal.exchange
            where user_id = $1
              and forgotten_at is null
              and ($2::bigint is null or first_seq < $2)
              and (cardinality($3::text[]) = 0 or session_id = any($3))
              and (cardinality($4::text[]) = 0 or collection = any($4))
              and (cardinality($5::text[]) = 0 or source = any($5))
              and (cardinality($6::text[]) = 0
                   or exists (select from journal.turn
                              where turn.user_id = $1
                                and turn.exchange_id = exchange.id
                                and role = any($6)))
              and ($7::timestamptz is null or occurred_at >= $7)
              and ($8::timestamptz is null or occurred_at < $8)
              and ($9::boolean is null or pinned = $9)
            order by first_seq desc
            limit $10
            "#,
            user.0,
            before.map(|seq| seq.0),
            &words(&filter.sessions, SessionId::as_str),
            &words(&filter.collections, Collection::as_str),
            &words(&filter.sources, Source::as_str),
            &words(&filter.roles, |role| role.as_str()),
            filter.time.map(|time| time.from),
            filter.time.map(|time| time.until),
            filter.pinned,
            limit + 1
        )
        .fetch_all(&self.db)
        .await?;
        Ok(Page::cut(load(&self.db, user, &ids).await?, limit, Exchange::first_seq))
    }

    /// The turns of a session in order, from after `after`, at most `limit` and 200 of them.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn turns(
        &self,
        user: UserId,
        session: &SessionId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<JournalTurn, Seq>, StoreError> {
        let limit = bounded(limit);
        let rows = sqlx::query!(
            r#"
            select seq, role, speaker, text, turn.occurred_at, exchange_id, parts, client_id, recorded_at
            from journal.turn
            join journal.exchange on exchange.user_id = turn.user_id and exchange.id = turn.exchange_id
            where turn.user_id = $1
              and turn.session_id = $2
              and ($3::bigint is null or seq > $3)
              and forgotten_at is null
            order by seq
            limit $4
            "#,
            user.0,
            session.as_str(),
            after.map(|seq| seq.0),
            limit + 1
        )
        .fetch_all(&self.db)
        .await?;
        let turns = rows
            .into_iter()
            .map(|row| {
                Ok(JournalTurn {
                    turn: Turn {
                        seq: Seq(row.seq),
                        role: row.role.parse()?,
                        speaker: row.speaker,
                        text: row.text,
                        occurred_at: row.occurred_at,
                        recorded_at: row.recorded_at,
                        statement: None,
                    },
                    exchange: ExchangeId(row.exchange_id),
                    parts: row.parts,
                    client_id: row.client_id,
                    recorded_at: row.recorded_at,
                })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(Page::cut(turns, limit, |last| last.turn.seq))
    }

    /// What the journal of a user holds.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn stats(&self, user: UserId) -> Result<Stats, StoreError> {
        let stats = sqlx::query_as!(
            Stats,
            r#"
            select (select count(*) from journal.session where user_id = $1) as "sessions!",
                   (select count(*) from journal.turn where user_id = $1) as "turns!",
                   count(*) filter (where forgotten_at is null) as "exchanges!",
                   count(*) filter (where forgotten_at is not null) as "forgotten!",
                   count(*) filter (where pinned and forgotten_at is null) as "pinned!",
                   min(occurred_at) filter (where forgotten_at is null) as first_at,
                   max(occurred_at) filter (where forgotten_at is null) as last_at,
                   (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
                    from pg_class
                    where relnamespace = 'journal'::regnamespace
                      and relkind = 'r') as "bytes!"
            from journal.exchange
            where user_id = $1
            "#,
            user.0
        )
        .fetch_one(&self.db)
        .await?;
        Ok(stats)
    }

    /// Pins exchanges, so that they neither fade nor are pruned, or lets them go: those that exist, not forgotten.
    /// Layers read the pin where it is; they need not learn anything again.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn pin(
        &self,
        user: UserId,
        exchanges: &[ExchangeId],
        pinned: bool,
    ) -> Result<Vec<ExchangeId>, StoreError> {
        let ids: Vec<Uuid> = exchanges.iter().map(|id| id.0).collect();
        let ids = sqlx::query_scalar!(
            r#"
            update journal.exchange
            set pinned = $3
            where user_id = $1
              and id = any($2)
              and forgotten_at is null
            returning id
            "#,
            user.0,
            &ids,
            pinned
        )
        .fetch_all(&self.db)
        .await?;
        Ok(ids.into_iter().map(ExchangeId).collect())
    }
}

/// Whole exchanges in the order of `ids`, forgotten ones too; those that do not exist are left out.
pub(super) async fn load(db: impl PgExecutor<'_>, user: UserId, ids: &[Uuid]) -> Result<Vec<Exchange>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"
        select exchange.id, exchange.session_id, collection, kind, source, pinned,
               seq, role, speaker, text, turn.occurred_at, recorded_at,
               case kind when 'stated' then parts end as statement
        from unnest($2::uuid[]) with ordinality as wanted (id, place)
        join journal.exchange on exchange.user_id = $1 and exchange.id = wanted.id
        join journal.turn on turn.user_id = $1 and turn.exchange_id = exchange.id
        order by place, seq
        "#,
        user.0,
        ids
    )
    .fetch_all(db)
    .await?;
    let mut exchanges: Vec<Exchange> = Vec::with_capacity(ids.len());
    let mut places: HashMap<Uuid, usize> = HashMap::with_capacity(ids.len());
    for row in rows {
        let turn = Turn {
            seq: Seq(row.seq),
            role: row.role.parse()?,
            speaker: row.speaker,
            text: row.text,
            occurred_at: row.occurred_at,
            recorded_at: row.recorded_at,
            // What a newer version wrote stays in the journal, and says nothing to this one.
            statement: row.statement.and_then(|parts| serde_json::from_value(parts).ok()).map(Box::new),
        };
        match places.get(&row.id).and_then(|place| exchanges.get_mut(*place)) {
            Some(exchange) => exchange.turns.push(turn),
            None => {
                places.insert(row.id, exchanges.len());
                exchanges.push(Exchange {
                    user,
                    id: ExchangeId(row.id),
                    session: row.session_id.parse()?,
                    collection: row.collection.parse()?,
                    kind: row.kind.parse()?,
                    source: row.source.parse()?,
                    pinned: row.pinned,
                    turns: vec![turn],
                });
            }
        }
    }
    Ok(exchanges)
}

fn words<T>(names: &[T], as_str: impl Fn(&T) -> &str) -> Vec<String> {
    names.iter().map(|name| as_str(name).to_owned()).collect()
}
