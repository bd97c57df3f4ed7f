//! Writing into a sealed collection: as [`super::super::append`] does, with the public half of a key and no secret.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, DurationRound, TimeDelta};
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{ExchangeId, ExchangeKind, UserId};
use skymem_seal::{Place, SealedTurn};

use super::recent::Named;
use super::{Shelf, mark, number, unfit};
use crate::error::StoreError;
use crate::journal::append::{Append, Appended, Fate, Prepared, answers, fates, pair};
use crate::journal::found::{Opens, Stored};
use crate::journal::pairing::Open;
use crate::journal::sessions::SessionChange;
use crate::journal::written::Written;
use crate::journal::{Journal, lock};

impl Journal {
    /// Writes turns into a sealed collection, all or none; returns after the commit.
    pub(in crate::journal) async fn append_sealed(
        &self,
        user: UserId,
        shelf: Shelf,
        append: &Append,
        turns: &[Prepared<'_>],
    ) -> Result<Appended, StoreError> {
        refuse(&shelf, append)?;
        if append.settings.memory.is_some_and(|memory| !memory.writes()) {
            let off = vec![Fate::Off; turns.len()];
            return Ok(Appended { turns: answers(turns, &off, &HashMap::new()), exchanges: Vec::new() });
        }
        let handle = shelf.handles.of(&append.session).map_err(unfit)?;
        let named: Named = (user, shelf.collection.clone(), handle.clone());
        let _turn = self.sealed.turn_of(user).await;
        let stored = self.sealed.stored(&named, append, turns);
        let fates = fates(&stored, &HashSet::new(), turns);
        if !fates.contains(&Fate::New) {
            return Ok(Appended { turns: answers(turns, &fates, &HashMap::new()), exchanges: Vec::new() });
        }

        let mut tx = self.db.begin().await?;
        let base = lock(&mut tx, user, turns.len()).await?;
        let opens = resumed(&mut tx, user, &shelf, &handle).await?;
        let (mut written, opens) = pair(append, turns, &fates, opens, &shelf.collection, base);
        let renamed = nameless(&mut written);
        write(&mut tx, user, &shelf, &handle, append, &written).await?;
        if let Some(open) = written.turns.last().and_then(|last| {
            let before = renamed.iter().find(|(_, new)| **new == last.exchange).map_or(last.exchange, |(old, _)| *old);
            opens.by_id.get(&before)
        }) {
            let id = renamed.get(&open.id).copied().unwrap_or(open.id);
            remember_open(&mut tx, user, &shelf, &handle, id, open).await?;
        }
        tx.commit().await?;

        self.sealed.note(
            named,
            written.turns.iter().map(|turn| Stored {
                seq: turn.seq,
                exchange: turn.exchange,
                client_id: turn.turn.turn.client_id.clone(),
                content_hash: turn.turn.content_hash.clone(),
            }),
        );
        let places = written.turns.iter().map(|turn| (turn.index, (turn.seq, turn.exchange))).collect();
        Ok(Appended { turns: answers(turns, &fates, &places), exchanges: written.exchanges() })
    }
}

/// What cannot be kept sealed is refused, rather than kept in the clear.
fn refuse(shelf: &Shelf, append: &Append) -> Result<(), StoreError> {
    let unset = SessionChange {
        collection: append.settings.collection.clone(),
        memory: append.settings.memory,
        ..SessionChange::default()
    };
    if append.settings != unset {
        return Err(StoreError::Refused(format!(
            "collection {} is sealed: nothing is set about its sessions, for it would stand in the clear",
            shelf.collection
        )));
    }
    if append.kind == ExchangeKind::Stated {
        return Err(StoreError::Refused(format!(
            "collection {} is sealed: tell it as a note, for facts are kept in the clear",
            shelf.collection
        )));
    }
    Ok(())
}

/// The last exchange of the session, as far as is known of it.
async fn resumed(tx: &mut PgTransaction<'_>, user: UserId, shelf: &Shelf, handle: &[u8]) -> Result<Opens, StoreError> {
    let row = sqlx::query!(
        r#"
        select open_exchange, open_turns, open_voices, forgotten_at is not null as "forgotten!"
        from journal.sealed_session
        join journal.sealed_exchange on sealed_exchange.user_id = sealed_session.user_id
                                    and sealed_exchange.id = open_exchange
        where sealed_session.user_id = $1
          and sealed_session.collection = $2
          and sealed_session.handle = $3
        "#,
        user.0,
        shelf.collection.as_str(),
        handle
    )
    .fetch_optional(&mut **tx)
    .await?;
    let mut opens = Opens::default();
    if let Some(row) = row {
        let id = ExchangeId(row.open_exchange);
        let turns = usize::try_from(row.open_turns).unwrap_or(0);
        let mut open = Open::resumed(id, shelf.collection.clone(), turns, &row.open_voices);
        open.forgotten = row.forgotten;
        opens.latest = Some(id);
        opens.by_id.insert(id, open);
    }
    Ok(opens)
}

/// Gives new exchanges names that say nothing of the moment at which they were made; the new names by the old ones.
fn nameless(written: &mut Written<'_>) -> HashMap<ExchangeId, ExchangeId> {
    let renamed: HashMap<ExchangeId, ExchangeId> =
        written.new.iter().map(|old| (*old, ExchangeId(Uuid::new_v4()))).collect();
    let named = |id: &mut ExchangeId| *id = renamed.get(id).copied().unwrap_or(*id);
    written.new.iter_mut().for_each(named);
    written.turns.iter_mut().for_each(|turn| named(&mut turn.exchange));
    renamed
}

async fn write(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    shelf: &Shelf,
    handle: &[u8],
    append: &Append,
    written: &Written<'_>,
) -> Result<(), StoreError> {
    let batch = Uuid::new_v4();
    let mut ids = Vec::with_capacity(written.turns.len());
    let mut ciphertexts = Vec::with_capacity(written.turns.len());
    for (turn, at) in written.turns.iter().zip(0..) {
        let id = Uuid::new_v4();
        let said = turn.turn.turn;
        let sealed = SealedTurn {
            session: append.session.clone(),
            kind: append.kind,
            source: append.source.clone(),
            role: said.role,
            speaker: said.speaker.clone(),
            text: said.text.clone(),
            parts: said.parts.clone(),
            occurred_at: turn.turn.occurred_at,
            recorded_at: append.recorded_at,
            client_id: said.client_id.clone(),
            content_hash: turn.turn.content_hash.clone(),
            batch: (batch, at),
            told_apart: false,
            pinned: false,
        };
        let place = Place { user, collection: &shelf.collection, row: id, column: "", version: shelf.version };
        ciphertexts.push(sealed.seal(&shelf.public, place).map_err(unfit)?);
        ids.push(id);
    }
    let hour = append.recorded_at.duration_trunc(TimeDelta::hours(1)).unwrap_or(DateTime::UNIX_EPOCH);
    let new: Vec<Uuid> = written.new.iter().map(|id| id.0).collect();
    let seqs: Vec<i64> = written.turns.iter().map(|turn| turn.seq.0).collect();
    let exchanges: Vec<Uuid> = written.turns.iter().map(|turn| turn.exchange.0).collect();
    let last = seqs.iter().copied().max().unwrap_or(0);
    sqlx::query!(
        r#"
        with made as (
            insert into journal.sealed_exchange (user_id, id, collection, handle, changed_seq, recorded_hour)
            select $1, id, $2, $3, $4, $5 from unnest($6::uuid[]) as new (id)
        )
        insert into journal.sealed_turn (user_id, seq, id, exchange_id, key_version, ciphertext)
        select $1, seq, id, exchange_id, $7, ciphertext
        from unnest($8::bigint[], $9::uuid[], $10::uuid[], $11::bytea[]) as new (seq, id, exchange_id, ciphertext)
        "#,
        user.0,
        shelf.collection.as_str(),
        handle,
        last,
        hour,
        &new,
        number(shelf.version)?,
        &seqs,
        &ids,
        &exchanges,
        &ciphertexts
    )
    .execute(&mut **tx)
    .await?;
    mark(tx, user, &[shelf.collection.to_string()], &exchanges, last).await
}

async fn remember_open(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    shelf: &Shelf,
    handle: &[u8],
    id: ExchangeId,
    open: &Open,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        insert into journal.sealed_session (user_id, collection, handle, open_exchange, open_turns, open_voices)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (user_id, collection, handle) do update
        set open_exchange = excluded.open_exchange,
            open_turns = excluded.open_turns,
            open_voices = excluded.open_voices
        "#,
        user.0,
        shelf.collection.as_str(),
        handle,
        id.0,
        i32::try_from(open.turns()).unwrap_or(i32::MAX),
        open.voices()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
