//! What an append finds in the journal: everything that its turns are compared with or may join.

use std::collections::{HashMap, HashSet};

use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, ExchangeKind, Seq, UserId};

use super::append::{Append, Fate, Prepared};
use super::pairing::Open;
use super::sessions;
use crate::error::StoreError;

/// What there is before an append writes.
pub(super) struct Found {
    /// What is set about the session; `None` when it is new.
    pub(super) session: Option<sessions::Stored>,
    /// The turns that those of the batch may repeat.
    pub(super) stored: StoredTurns,
    /// The hashes of turns of the batch that were purged once.
    pub(super) purged: HashSet<Vec<u8>>,
    /// The last exchange of the session.
    pub(super) opens: Opens,
}

/// Turns of a session that are in the journal.
#[derive(Default)]
pub(super) struct StoredTurns {
    /// Its last ones, oldest first, as many as the batch has: what told to memory directly and what said are two strands.
    pub(super) end: Vec<Stored>,
    /// Those that bear client ids of the batch, by those.
    pub(super) by_client_id: HashMap<String, Stored>,
}

/// A turn that is in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) seq: Seq,
    pub(super) exchange: ExchangeId,
    pub(super) client_id: Option<String>,
    pub(super) content_hash: Vec<u8>,
}

impl Found {
    /// Looks, under the lock of the journal.
    pub(super) async fn look(
        tx: &mut PgTransaction<'_>,
        user: UserId,
        append: &Append,
        turns: &[Prepared<'_>],
    ) -> Result<Self, StoreError> {
        let client_ids: Vec<&str> = append.turns.iter().filter_map(|turn| turn.client_id.as_deref()).collect();
        let said_hashes: Vec<&[u8]> = turns.iter().map(|turn| turn.said_hash.as_slice()).collect();
        // One statement: the journal of the user is locked meanwhile, and each further one is a way to the database and
        // back that everybody else waits for.
        let row = sqlx::query!(
            r#"
            with ending as (
                select seq, exchange_id, client_id, content_hash
                from journal.turn
                join journal.exchange on exchange.user_id = turn.user_id and exchange.id = turn.exchange_id
                where turn.user_id = $1
                  and turn.session_id = $2
                  and kind = $3
                order by seq desc
                limit $4
            ), stored as (
                select seq, exchange_id, client_id, content_hash, true as at_end from ending
                union all
                select seq, exchange_id, client_id, content_hash, false
                from journal.turn
                where user_id = $1
                  and session_id = $2
                  and client_id = any($5)
            ), turns as (
                select coalesce(array_agg(seq order by seq), '{}')          as seqs,
                       coalesce(array_agg(exchange_id order by seq), '{}')  as exchanges,
                       coalesce(array_agg(client_id order by seq), '{}')    as client_ids,
                       coalesce(array_agg(content_hash order by seq), '{}') as content_hashes,
                       coalesce(array_agg(at_end order by seq), '{}')       as at_end
                from stored
            ), latest as (
                select id, collection, forgotten_at is not null as forgotten
                from journal.exchange
                where user_id = $1
                  and session_id = $2
                  and kind = 'said'
                  and $3 = 'said'
                order by first_seq desc
                limit 1
            ), heard as (
                select coalesce(array_agg(role order by seq), '{}')    as roles,
                       coalesce(array_agg(speaker order by seq), '{}') as speakers
                from latest
                join journal.turn on turn.user_id = $1 and turn.exchange_id = latest.id
            )
            select session.collection          as "collection?",
                   session.memory              as "memory?",
                   session.max_turns           as "max_turns?",
                   turns.seqs                  as "seqs!",
                   turns.exchanges             as "exchanges!",
                   turns.client_ids            as "client_ids!: Vec<Option<String>>",
                   turns.content_hashes        as "content_hashes!",
                   turns.at_end                as "at_end!",
                   latest.id                   as "latest?",
                   latest.collection           as "latest_collection?",
                   latest.forgotten            as "latest_forgotten?",
                   heard.roles                 as "roles!",
                   heard.speakers              as "speakers!: Vec<Option<String>>",
                   array(select content_hash
                         from journal.tombstone
                         where user_id = $1
                           and content_hash = any($6)) as "purged!"
            from turns
            cross join heard
            left join journal.session on session.user_id = $1 and session.id = $2
            left join latest on true
            "#,
            user.0,
            append.session.as_str(),
            append.kind.as_str(),
            i64::try_from(append.turns.len()).unwrap_or(i64::MAX),
            &client_ids as &[&str],
            &said_hashes as &[&[u8]],
        )
        .fetch_one(&mut **tx)
        .await?;

        let session = match row.collection.zip(row.memory) {
            None => None,
            Some((collection, memory)) => Some(sessions::Stored {
                collection: collection.parse()?,
                memory: memory.parse()?,
                max_turns: row.max_turns,
            }),
        };
        let mut stored = StoredTurns::default();
        let turns = row.seqs.into_iter().zip(row.exchanges).zip(row.client_ids).zip(row.content_hashes);
        for ((((seq, exchange), client_id), content_hash), at_end) in turns.zip(row.at_end) {
            let turn = Stored { seq: Seq(seq), exchange: ExchangeId(exchange), client_id, content_hash };
            match &turn.client_id {
                Some(id) if !at_end => drop(stored.by_client_id.insert(id.clone(), turn)),
                _ => stored.end.push(turn),
            }
        }
        let mut opens = Opens::default();
        if let Some((id, collection)) = row.latest.zip(row.latest_collection) {
            opens.latest = Some(ExchangeId(id));
            for (role, speaker) in row.roles.iter().zip(&row.speakers) {
                opens.hear(id, &collection, row.latest_forgotten == Some(true), role, speaker.as_deref())?;
            }
        }
        Ok(Self { session, stored, purged: row.purged.into_iter().collect(), opens })
    }
}

/// The exchanges that new turns may join.
#[derive(Default)]
pub(super) struct Opens {
    pub(super) by_id: HashMap<ExchangeId, Open>,
    pub(super) latest: Option<ExchangeId>,
}

impl Opens {
    /// Adds those whose stored turns are followed by new ones in the batch.
    pub(super) async fn add(
        &mut self,
        tx: &mut PgTransaction<'_>,
        user: UserId,
        append: &Append,
        fates: &[Fate],
    ) -> Result<(), StoreError> {
        let followed: HashSet<Uuid> = fates
            .iter()
            .zip(fates.iter().skip(1))
            .filter_map(|(fate, next)| match (fate, next) {
                (Fate::Stored(_), Fate::Stored(_)) => None,
                (Fate::Stored(stored), _) if !self.by_id.contains_key(&stored.exchange) => Some(stored.exchange.0),
                _ => None,
            })
            .collect();
        if followed.is_empty() || append.kind != ExchangeKind::Said {
            return Ok(());
        }
        let followed: Vec<Uuid> = followed.into_iter().collect();
        let heard = sqlx::query!(
            r#"
            select exchange.id,
                   exchange.collection,
                   exchange.forgotten_at is not null as "forgotten!",
                   turn.role,
                   turn.speaker
            from journal.exchange
            join journal.turn on turn.user_id = exchange.user_id and turn.exchange_id = exchange.id
            where exchange.user_id = $1
              and exchange.id = any($2)
              and exchange.kind = 'said'
            order by turn.seq
            "#,
            user.0,
            &followed
        )
        .fetch_all(&mut **tx)
        .await?;
        for row in heard {
            self.hear(row.id, &row.collection, row.forgotten, &row.role, row.speaker.as_deref())?;
        }
        Ok(())
    }

    /// Hears one more turn, as the tables have it, of the exchange `id`.
    fn hear(
        &mut self,
        id: Uuid,
        collection: &str,
        forgotten: bool,
        role: &str,
        speaker: Option<&str>,
    ) -> Result<(), StoreError> {
        let id = ExchangeId(id);
        let collection: Collection = collection.parse()?;
        let open = self.by_id.entry(id).or_insert_with(|| Open::new(id, collection));
        open.forgotten = forgotten;
        open.hear(role.parse()?, speaker);
        Ok(())
    }
}
