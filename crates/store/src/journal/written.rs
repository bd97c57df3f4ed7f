//! What an append writes down.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, Seq, UserId};

use super::append::{Append, Prepared};
use super::sessions::Said;
use super::wakeups::CHANNEL;
use crate::error::StoreError;

/// What an append writes.
#[derive(Default)]
pub(super) struct Written<'a> {
    pub(super) turns: Vec<WrittenTurn<'a>>,
    pub(super) new: Vec<ExchangeId>,
}

pub(super) struct WrittenTurn<'a> {
    pub(super) index: usize,
    pub(super) seq: Seq,
    pub(super) exchange: ExchangeId,
    pub(super) turn: &'a Prepared<'a>,
}

impl Written<'_> {
    /// The first and last moment at which something new was said.
    pub(super) fn said(&self) -> Option<Said> {
        let times = || self.turns.iter().map(|turn| turn.turn.occurred_at);
        Some(Said { first: times().min()?, last: times().max()? })
    }

    /// The exchanges that appear or grow, by the place of their first new turn.
    pub(super) fn exchanges(&self) -> Vec<ExchangeId> {
        let mut seen = HashSet::new();
        self.turns.iter().map(|turn| turn.exchange).filter(|id| seen.insert(*id)).collect()
    }

    /// Writes it: new exchanges, which layers may know; exchanges that were there and grew, which layers meet again; the
    /// turns. Observers of every server wake once this is committed.
    ///
    /// The session, its shelf and that of the exchanges are there.
    pub(super) async fn write(
        &self,
        tx: &mut PgTransaction<'_>,
        user: UserId,
        append: &Append,
        shelf: &Collection,
    ) -> Result<(), StoreError> {
        let Exchanges { ids, firsts, lasts, times, grown, grown_to } = self.exchange_columns();
        let turns = &self.turns;
        let seqs: Vec<i64> = turns.iter().map(|turn| turn.seq.0).collect();
        let exchanges: Vec<Uuid> = turns.iter().map(|turn| turn.exchange.0).collect();
        let roles: Vec<&str> = turns.iter().map(|turn| turn.turn.turn.role.as_str()).collect();
        let speakers: Vec<Option<&str>> = turns.iter().map(|turn| turn.turn.turn.speaker.as_deref()).collect();
        let texts: Vec<&str> = turns.iter().map(|turn| turn.turn.turn.text.as_str()).collect();
        let parts: Vec<Option<&Value>> = turns.iter().map(|turn| turn.turn.turn.parts.as_ref()).collect();
        let said_at: Vec<DateTime<Utc>> = turns.iter().map(|turn| turn.turn.occurred_at).collect();
        let client_ids: Vec<Option<&str>> = turns.iter().map(|turn| turn.turn.turn.client_id.as_deref()).collect();
        let content_hashes: Vec<&[u8]> = turns.iter().map(|turn| turn.turn.content_hash.as_slice()).collect();
        let said_hashes: Vec<&[u8]> = turns.iter().map(|turn| turn.turn.said_hash.as_slice()).collect();
        let said = self.said();
        // One statement, as in `Found::look`. References between the rows are checked at its end.
        sqlx::query!(
            r#"
            with made as (
                insert into journal.exchange
                    (user_id, id, session_id, collection, kind, source, first_seq, last_seq, changed_seq, occurred_at)
                select $1, id, $2, $3, $4, $5, first_seq, last_seq, last_seq, occurred_at
                from unnest($6::uuid[], $7::bigint[], $8::bigint[], $9::timestamptz[])
                    as new (id, first_seq, last_seq, occurred_at)
                returning user_id, id
            ), remembered as (
                insert into journal.remembered (user_id, exchange_id)
                select user_id, id from made
            ), grown as (
                update journal.exchange
                set last_seq = grown.seq, changed_seq = grown.seq
                from unnest($10::uuid[], $11::bigint[]) as grown (id, seq)
                where exchange.user_id = $1
                  and exchange.id = grown.id
            ), spoken as (
                update journal.session
                set created_at = least(created_at, $12), last_at = greatest(last_at, $13)
                where user_id = $1
                  and id = $2
                  and (created_at > $12 or last_at < $13)
            ), told as (
                insert into journal.turn
                    (user_id, seq, session_id, exchange_id, role, speaker, text, parts, occurred_at, recorded_at,
                     client_id, content_hash, said_hash)
                select $1, seq, $2, exchange_id, role, speaker, text, parts, occurred_at, $14,
                       client_id, content_hash, said_hash
                from unnest($15::bigint[], $16::uuid[], $17::text[], $18::text[], $19::text[], $20::jsonb[],
                            $21::timestamptz[], $22::text[], $23::bytea[], $24::bytea[])
                    as new (seq, exchange_id, role, speaker, text, parts, occurred_at, client_id, content_hash, said_hash)
            )
            select pg_notify($25, $26)::text as "sent"
            "#,
            user.0,
            append.session.as_str(),
            shelf.as_str(),
            append.kind.as_str(),
            append.source.as_str(),
            &ids,
            &firsts,
            &lasts,
            &times,
            &grown,
            &grown_to,
            said.map(|said| said.first),
            said.map(|said| said.last),
            append.recorded_at,
            &seqs,
            &exchanges,
            &roles as &[&str],
            &speakers as &[Option<&str>],
            &texts as &[&str],
            &parts as &[Option<&Value>],
            &said_at,
            &client_ids as &[Option<&str>],
            &content_hashes as &[&[u8]],
            &said_hashes as &[&[u8]],
            CHANNEL,
            user.to_string(),
        )
        .fetch_one(&mut **tx)
        .await?;
        Ok(())
    }

    fn exchange_columns(&self) -> Exchanges {
        let new: HashSet<ExchangeId> = self.new.iter().copied().collect();
        let mut first: HashMap<ExchangeId, (Seq, DateTime<Utc>)> = HashMap::new();
        let mut last: HashMap<ExchangeId, Seq> = HashMap::new();
        for turn in &self.turns {
            first.entry(turn.exchange).or_insert((turn.seq, turn.turn.occurred_at));
            last.insert(turn.exchange, turn.seq);
        }
        let mut columns = Exchanges::default();
        for id in &self.new {
            if let (Some((seq, occurred_at)), Some(end)) = (first.get(id), last.get(id)) {
                columns.ids.push(id.0);
                columns.firsts.push(seq.0);
                columns.lasts.push(end.0);
                columns.times.push(*occurred_at);
            }
        }
        for (id, end) in last.iter().filter(|(id, _)| !new.contains(id)) {
            columns.grown.push(id.0);
            columns.grown_to.push(end.0);
        }
        columns
    }
}

/// Exchanges that appear, and those that grow, column by column.
#[derive(Default)]
struct Exchanges {
    ids: Vec<Uuid>,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
    times: Vec<DateTime<Utc>>,
    grown: Vec<Uuid>,
    grown_to: Vec<i64>,
}
