//! Conversations that pass by whole with every message: which of their turns are in the journal, and in which session.
//!
//! Such a turn bears a client id made of what was said before it (see the engine's `conversation`), so that it is known
//! again in whichever session it stands. Forgotten turns are known too: what is in the trash is not written down anew.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use skymem_core::{ExchangeId, Seq, SessionId, UserId};

use super::Journal;
use super::append::{NewTurn, said_hash};
use crate::error::StoreError;

/// No conversation is known in more places than this: the newest count.
const MOST_TURNS: i64 = 2_000;

/// So many sessions are looked through for a conversation of which the client left the beginning out ...
const MOST_SESSIONS: i64 = 10;
/// ... and so many turns of each.
const LAST_TURNS: i64 = 60;

/// How far an answer is read to tell whether a client quotes it.
const QUOTE_CHARACTERS: i32 = 4_000;

/// A turn that is in the journal under a client id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Where it was said.
    pub session: SessionId,
    /// When something was last said there.
    pub last_at: DateTime<Utc>,
    /// The id it bears.
    pub client_id: String,
    /// The exchange it is part of.
    pub exchange: ExchangeId,
    /// Its place in the journal.
    pub seq: Seq,
    /// Whether an assistant's turn is part of that exchange.
    pub answered: bool,
}

impl Journal {
    /// The turns that bear one of `client_ids`, in one session or in all, the newest first.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn heard(
        &self,
        user: UserId,
        session: Option<&SessionId>,
        client_ids: &[String],
    ) -> Result<Vec<Heard>, StoreError> {
        let rows = sqlx::query_as!(
            HeardRow,
            r#"
            select turn.session_id as "session_id!",
                   session.last_at as "last_at!",
                   turn.client_id as "client_id!",
                   turn.exchange_id as "exchange_id!",
                   turn.seq as "seq!",
                   exists (select
                           from journal.turn as answer
                           where answer.user_id = $1
                             and answer.exchange_id = turn.exchange_id
                             and answer.role = 'assistant') as "answered!"
            from journal.turn
            join journal.session on session.user_id = $1 and session.id = turn.session_id
            where turn.user_id = $1
              and turn.client_id = any($2)
              and ($3::text is null or turn.session_id = $3)
            order by turn.seq desc
            limit $4
            "#,
            user.0,
            client_ids,
            session.map(SessionId::as_str),
            MOST_TURNS
        )
        .fetch_all(&self.db)
        .await?;
        rows.into_iter().map(Heard::try_from).collect()
    }

    /// The newest session that has spoken since `since` and in which a user said nothing but the turn of that client id.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn heard_alone(
        &self,
        user: UserId,
        client_id: &str,
        since: DateTime<Utc>,
    ) -> Result<Option<Heard>, StoreError> {
        let row = sqlx::query_as!(
            HeardRow,
            r#"
            select turn.session_id as "session_id!",
                   session.last_at as "last_at!",
                   turn.client_id as "client_id!",
                   turn.exchange_id as "exchange_id!",
                   turn.seq as "seq!",
                   exists (select
                           from journal.turn as answer
                           where answer.user_id = $1
                             and answer.exchange_id = turn.exchange_id
                             and answer.role = 'assistant') as "answered!"
            from journal.turn
            join journal.session on session.user_id = $1 and session.id = turn.session_id
            where turn.user_id = $1
              and turn.client_id = $2
              and session.last_at >= $3
              and not exists (select
                              from journal.turn as other
                              where other.user_id = $1
                                and other.session_id = turn.session_id
                                and other.role = 'user'
                                and other.seq <> turn.seq)
            order by turn.seq desc
            limit 1
            "#,
            user.0,
            client_id,
            since
        )
        .fetch_optional(&self.db)
        .await?;
        row.map(Heard::try_from).transpose()
    }

    /// What the user last said under client ids that begin with `marked`, in one session or in those that spoke last:
    /// session by session, oldest turn first, each with the SHA-256 of its text.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn heard_lately(
        &self,
        user: UserId,
        session: Option<&SessionId>,
        marked: &str,
    ) -> Result<Vec<(Heard, Vec<u8>)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select recent.id as "session_id!",
                   recent.last_at as "last_at!",
                   said.client_id as "client_id!",
                   said.exchange_id as "exchange_id!",
                   said.seq as "seq!",
                   said.text_hash as "text_hash!",
                   exists (select
                           from journal.turn as answer
                           where answer.user_id = $1
                             and answer.exchange_id = said.exchange_id
                             and answer.role = 'assistant') as "answered!"
            from (select id, last_at
                  from journal.session
                  where user_id = $1
                    and ($2::text is null or id = $2)
                  order by last_at desc, id
                  limit $4) as recent
            cross join lateral (select client_id, exchange_id, seq, sha256(convert_to(text, 'UTF8')) as text_hash
                                from journal.turn
                                where user_id = $1
                                  and session_id = recent.id
                                  and role = 'user'
                                  and starts_with(client_id, $3)
                                order by seq desc
                                limit $5) as said
            order by recent.last_at desc, recent.id, said.seq
            "#,
            user.0,
            session.map(SessionId::as_str),
            marked,
            MOST_SESSIONS,
            LAST_TURNS
        )
        .fetch_all(&self.db)
        .await?;
        let heard = rows.into_iter().map(|row| {
            let heard = Heard {
                session: row.session_id.parse()?,
                last_at: row.last_at,
                client_id: row.client_id,
                exchange: ExchangeId(row.exchange_id),
                seq: Seq(row.seq),
                answered: row.answered,
            };
            Ok((heard, row.text_hash))
        });
        heard.collect()
    }

    /// The beginning of the last answer in each of these exchanges.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn answers(
        &self,
        user: UserId,
        exchanges: &[ExchangeId],
    ) -> Result<HashMap<ExchangeId, String>, StoreError> {
        let exchanges: Vec<Uuid> = exchanges.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            r#"
            select distinct on (exchange_id) exchange_id, left(text, $3) as "text!"
            from journal.turn
            where user_id = $1
              and exchange_id = any($2)
              and role = 'assistant'
            order by exchange_id, seq desc
            "#,
            user.0,
            &exchanges,
            QUOTE_CHARACTERS
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows.into_iter().map(|row| (ExchangeId(row.exchange_id), row.text)).collect())
    }

    /// The exchange that a session begins with; `None` when there is none that is not forgotten.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn begins_with(&self, user: UserId, session: &SessionId) -> Result<Option<ExchangeId>, StoreError> {
        let first = sqlx::query_scalar!(
            r#"
            select id
            from journal.exchange
            where user_id = $1
              and session_id = $2
              and kind = 'said'
              and forgotten_at is null
            order by first_seq
            limit 1
            "#,
            user.0,
            session.as_str()
        )
        .fetch_optional(&self.db)
        .await?;
        Ok(first.map(ExchangeId))
    }

    /// A session called `stem` and a number, in which nothing was said yet. For a conversation that goes on, the one
    /// from which these turns were purged, if there is such: what is purged stays gone. For one that begins, none such.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn free_session(
        &self,
        user: UserId,
        stem: &str,
        turns: &[NewTurn],
        goes_on: bool,
    ) -> Result<SessionId, StoreError> {
        let row = sqlx::query!(
            r#"
            select array(select id from journal.session where user_id = $1 and starts_with(id, $2)) as "taken!",
                   exists (select from journal.tombstone where user_id = $1) as "graves!"
            "#,
            user.0,
            stem
        )
        .fetch_one(&self.db)
        .await?;
        let taken: HashSet<String> = row.taken.into_iter().collect();
        let names = (1..=taken.len() + SPARE_NAMES).map(|number| format!("{stem}{number}"));
        let free: Vec<SessionId> =
            names.filter(|name| !taken.contains(name)).map(|name| name.parse()).collect::<Result<_, _>>()?;
        let hashes: Vec<Vec<Vec<u8>>> =
            free.iter().map(|session| turns.iter().map(|turn| said_hash(session, turn)).collect()).collect();
        let buried = if row.graves { self.buried(user, &hashes.concat()).await? } else { HashSet::new() };
        let has_graves = |of: &&Vec<Vec<u8>>| of.iter().any(|hash| buried.contains(hash));
        let chosen = match goes_on {
            true => hashes.iter().position(|of| has_graves(&of)).or(Some(0)),
            false => hashes.iter().position(|of| !has_graves(&of)),
        };
        let chosen = chosen.and_then(|place| free.get(place)).or(free.last()).cloned();
        chosen.map_or_else(|| Ok(stem.parse()?), Ok)
    }

    /// Which of these turns were purged from that session.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn purged(&self, user: UserId, session: &SessionId, turns: &[NewTurn]) -> Result<Vec<bool>, StoreError> {
        let hashes: Vec<Vec<u8>> = turns.iter().map(|turn| said_hash(session, turn)).collect();
        let buried = self.buried(user, &hashes).await?;
        Ok(hashes.iter().map(|hash| buried.contains(hash)).collect())
    }

    async fn buried(&self, user: UserId, hashes: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>, StoreError> {
        if hashes.is_empty() {
            return Ok(HashSet::new());
        }
        let buried = sqlx::query_scalar!(
            "select content_hash from journal.tombstone where user_id = $1 and content_hash = any($2)",
            user.0,
            hashes
        )
        .fetch_all(&self.db)
        .await?;
        Ok(buried.into_iter().collect())
    }
}

/// So many names of purged sessions are passed over.
const SPARE_NAMES: usize = 16;

struct HeardRow {
    session_id: String,
    last_at: DateTime<Utc>,
    client_id: String,
    exchange_id: Uuid,
    seq: i64,
    answered: bool,
}

impl TryFrom<HeardRow> for Heard {
    type Error = StoreError;

    fn try_from(row: HeardRow) -> Result<Self, StoreError> {
        Ok(Self {
            session: row.session_id.parse()?,
            last_at: row.last_at,
            client_id: row.client_id,
            exchange: ExchangeId(row.exchange_id),
            seq: Seq(row.seq),
            answered: row.answered,
        })
    }
}
