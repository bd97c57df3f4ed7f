//! Sealing a collection, and taking what stands in it in the clear under its seal, in one transaction: whoever looks sees all
//! of it in the clear, or none.

use std::collections::HashMap;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use serde_json::Value;
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, Role, UserId};
use skymem_seal::{HandleKey, Place, PublicKey, SealError, SealedTurn};

use super::keys::{NewVersion, add_version, told};
use super::{Shelf, number, unfit};
use crate::audit::Verb;
use crate::error::StoreError;
use crate::journal::collections::make;
use crate::journal::pairing::Open;
use crate::journal::{Journal, lock, wake};

/// So many turns are read, encrypted and written at a time.
const PIECE: usize = 500;

/// A collection that is to be sealed.
#[derive(Clone)]
pub struct NewSeal {
    /// Makes handles of its sessions.
    pub handles: Vec<u8>,
    /// Its first key.
    pub first: NewVersion,
}

/// What was taken under a seal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenIn {
    /// The exchanges that are no longer there in the clear. Sealed, they have other names, which say nothing of when they
    /// were made.
    pub exchanges: Vec<ExchangeId>,
    /// How many turns were said in them.
    pub turns: usize,
}

impl Journal {
    /// Seals a collection, which is made when it is new, and takes all that stands in it in the clear under the seal: what was
    /// taken. All or nothing of it is done. Whoever writes for that user waits meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when it is sealed already, or a session of it has settings, which cannot be kept sealed.
    pub async fn seal_collection(
        &self,
        user: UserId,
        collection: &Collection,
        seal: &NewSeal,
        at: DateTime<Utc>,
    ) -> Result<TakenIn, StoreError> {
        let shelf = Shelf {
            collection: collection.clone(),
            version: seal.first.version,
            public: PublicKey::from_bytes(&seal.first.public).map_err(unfit)?,
            handles: HandleKey::from_bytes(&seal.handles).map_err(unfit)?,
        };
        let mut tx = self.db.begin().await?;
        let changed = lock(&mut tx, user, 1).await?.0 + 1;
        make(&mut tx, user, collection, at).await?;
        let made = sqlx::query!(
            r#"
            insert into journal.sealed (user_id, collection, key_version, handle_key, changed_seq, sealed_at)
            values ($1, $2, $3, $4, $5, $6)
            on conflict do nothing
            "#,
            user.0,
            collection.as_str(),
            number(seal.first.version)?,
            seal.handles,
            changed,
            at
        )
        .execute(&mut *tx)
        .await?;
        if made.rows_affected() == 0 {
            return Err(StoreError::Conflict(format!("collection {collection} is sealed already")));
        }
        add_version(&mut tx, user, collection, &seal.first, at).await?;
        let taken = take_in(&mut tx, user, &shelf, changed).await?;
        // The tables' own references refuse it as long as anything stands there in the clear.
        sqlx::query!(
            r#"
            with sealed as (
                update journal.collection
                set sealed = true
                where user_id = $1
                  and name = $2
            )
            update journal.sealed
            set unchecked = $3
            where user_id = $1
              and collection = $2
            "#,
            user.0,
            collection.as_str(),
            !taken.exchanges.is_empty()
        )
        .execute(&mut *tx)
        .await?;
        wake(&mut tx, user).await?;
        self.note(&mut tx, user, Verb::Sealed, || told(collection, "sealed")).await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Notes that it was looked whether anything is left in the clear of what was taken under a seal.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn note_checked(&self, user: UserId, collection: &Collection) -> Result<(), StoreError> {
        sqlx::query!(
            "update journal.sealed set unchecked = false where user_id = $1 and collection = $2",
            user.0,
            collection.as_str()
        )
        .execute(&self.db)
        .await?;
        Ok(())
    }
}

/// A turn that stands in the clear.
struct Clear {
    exchange_id: Uuid,
    session_id: String,
    kind: String,
    source: String,
    pinned: bool,
    forgotten_at: Option<DateTime<Utc>>,
    seq: i64,
    role: String,
    speaker: Option<String>,
    text: String,
    parts: Option<Value>,
    occurred_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
    client_id: Option<String>,
    content_hash: Vec<u8>,
}

/// The exchanges of one user as they become sealed ones.
#[derive(Default)]
struct Exchanges {
    /// The sealed ones, by the names they had.
    sealed: HashMap<Uuid, Open>,
    /// The last of each session that is on this shelf.
    last: HashMap<String, Uuid>,
}

/// Takes everything in the collection of `shelf` under its seal; `changed` is the seq at which that is.
async fn take_in(tx: &mut PgTransaction<'_>, user: UserId, shelf: &Shelf, changed: i64) -> Result<TakenIn, StoreError> {
    refuse_settings(tx, user, &shelf.collection).await?;
    let mut exchanges = Exchanges::default();
    let (mut taken, mut after) = (TakenIn::default(), i64::MIN);
    loop {
        let piece = clear(tx, user, &shelf.collection, after).await?;
        let Some(last) = piece.last() else { break };
        after = last.seq;
        taken.turns += piece.len();
        write(tx, user, shelf, changed, piece, &mut exchanges, &mut taken.exchanges).await?;
    }
    remember_sessions(tx, user, shelf, &exchanges).await?;
    clear_away(tx, user, &shelf.collection).await?;
    Ok(taken)
}

/// What is set about a session would stand in the clear, as when something is said in a sealed collection.
async fn refuse_settings(tx: &mut PgTransaction<'_>, user: UserId, collection: &Collection) -> Result<(), StoreError> {
    let set = sqlx::query_scalar!(
        r#"
        select id
        from journal.session
        where user_id = $1
          and collection = $2
          and (memory <> 'readwrite' or max_turns is not null or max_age_hours is not null)
        order by id
        limit 1
        "#,
        user.0,
        collection.as_str()
    );
    match set.fetch_optional(&mut **tx).await? {
        None => Ok(()),
        Some(session) => Err(StoreError::Conflict(format!(
            "session {session:?} of collection {collection} has settings of its own, which cannot be kept sealed: take \
             them back (memory, max_turns, max_age_hours), or put the session on another shelf"
        ))),
    }
}

async fn clear(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    collection: &Collection,
    after: i64,
) -> Result<Vec<Clear>, StoreError> {
    let rows = sqlx::query_as!(
        Clear,
        r#"
        select exchange_id, exchange.session_id, kind, source, pinned, forgotten_at, seq, role, speaker, text,
               parts as "parts: Value", turn.occurred_at, recorded_at, client_id, content_hash
        from journal.exchange
        join journal.turn on turn.user_id = exchange.user_id and turn.exchange_id = exchange.id
        where exchange.user_id = $1
          and collection = $2
          and seq > $3
        order by seq
        limit $4
        "#,
        user.0,
        collection.as_str(),
        after,
        i64::try_from(PIECE).unwrap_or(i64::MAX)
    );
    Ok(rows.fetch_all(&mut **tx).await?)
}

async fn write(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    shelf: &Shelf,
    changed: i64,
    piece: Vec<Clear>,
    exchanges: &mut Exchanges,
    taken: &mut Vec<ExchangeId>,
) -> Result<(), StoreError> {
    let (mut new, mut handles, mut hours, mut forgotten) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut seqs, mut owners) = (Vec::new(), Vec::new());
    for turn in &piece {
        let open = exchanges.sealed.entry(turn.exchange_id).or_insert_with(|| {
            let id = ExchangeId(Uuid::new_v4());
            taken.push(ExchangeId(turn.exchange_id));
            new.push(id.0);
            hours.push(turn.recorded_at.duration_trunc(TimeDelta::hours(1)).unwrap_or(DateTime::UNIX_EPOCH));
            forgotten.push(turn.forgotten_at);
            handles.push(
                turn.session_id
                    .parse()
                    .map_err(StoreError::from)
                    .and_then(|session| shelf.handles.of(&session).map_err(unfit)),
            );
            Open::new(id, shelf.collection.clone())
        });
        open.hear(turn.role.parse::<Role>()?, turn.speaker.as_deref());
        exchanges.last.insert(turn.session_id.clone(), turn.exchange_id);
        seqs.push(turn.seq);
        owners.push(open.id.0);
    }
    let handles = handles.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (rows, ciphertexts): (Vec<Uuid>, Vec<Vec<u8>>) = encrypted(user, shelf, piece).await?.into_iter().unzip();
    sqlx::query!(
        r#"
        with made as (
            insert into journal.sealed_exchange
                (user_id, id, collection, handle, changed_seq, recorded_hour, forgotten_at)
            select $1, id, $2, handle, $3, recorded_hour, forgotten_at
            from unnest($4::uuid[], $5::bytea[], $6::timestamptz[], $7::timestamptz[])
                as new (id, handle, recorded_hour, forgotten_at)
        )
        insert into journal.sealed_turn (user_id, seq, id, exchange_id, key_version, ciphertext)
        select $1, seq, id, exchange_id, $8, ciphertext
        from unnest($9::bigint[], $10::uuid[], $11::uuid[], $12::bytea[]) as new (seq, id, exchange_id, ciphertext)
        "#,
        user.0,
        shelf.collection.as_str(),
        changed,
        &new,
        &handles,
        &hours,
        &forgotten as &[Option<DateTime<Utc>>],
        number(shelf.version)?,
        &seqs,
        &rows,
        &owners,
        &ciphertexts
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The turns as they are written: rows and ciphertexts. To agree on a key for each takes long, and is done where it keeps
/// nobody else waiting.
async fn encrypted(user: UserId, shelf: &Shelf, piece: Vec<Clear>) -> Result<Vec<(Uuid, Vec<u8>)>, StoreError> {
    let shelf = shelf.clone();
    let work = move || piece.into_iter().map(|turn| seal(user, &shelf, turn)).collect::<Result<Vec<_>, _>>();
    match tokio::task::spawn_blocking(work).await {
        Ok(sealed) => sealed,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn seal(user: UserId, shelf: &Shelf, turn: Clear) -> Result<(Uuid, Vec<u8>), StoreError> {
    let row = Uuid::new_v4();
    let sealed = SealedTurn {
        session: turn.session_id.parse()?,
        kind: turn.kind.parse()?,
        source: turn.source.parse()?,
        role: turn.role.parse()?,
        speaker: turn.speaker,
        text: turn.text,
        parts: turn.parts,
        occurred_at: turn.occurred_at,
        recorded_at: turn.recorded_at,
        client_id: turn.client_id,
        content_hash: turn.content_hash,
        batch: (row, 0),
        told_apart: true,
        pinned: turn.pinned,
    };
    let place = Place { user, collection: &shelf.collection, row, column: "", version: shelf.version };
    let ciphertext = sealed.seal(&shelf.public, place).map_err(|error: SealError| unfit(error))?;
    Ok((row, ciphertext))
}

/// What is said next in a session of this shelf joins what was said before.
async fn remember_sessions(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    shelf: &Shelf,
    exchanges: &Exchanges,
) -> Result<(), StoreError> {
    let own = sqlx::query_scalar!(
        "select id from journal.session where user_id = $1 and collection = $2",
        user.0,
        shelf.collection.as_str()
    );
    let (mut handles, mut open, mut turns, mut voices) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for session in own.fetch_all(&mut **tx).await? {
        let last = exchanges.last.get(&session).and_then(|id| exchanges.sealed.get(id));
        handles.push(shelf.handles.of(&session.parse()?).map_err(unfit)?);
        // A session in which nothing stands yet has no exchange that anything could join.
        open.push(last.map_or_else(Uuid::new_v4, |last| last.id.0));
        turns.push(last.map_or(0, |last| i32::try_from(last.turns()).unwrap_or(i32::MAX)));
        voices.push(last.map_or("nobody", Open::voices));
    }
    sqlx::query!(
        r#"
        insert into journal.sealed_session (user_id, collection, handle, open_exchange, open_turns, open_voices)
        select $1, $2, handle, open_exchange, open_turns, open_voices
        from unnest($3::bytea[], $4::uuid[], $5::integer[], $6::text[])
            as own (handle, open_exchange, open_turns, open_voices)
        "#,
        user.0,
        shelf.collection.as_str(),
        &handles,
        &open,
        &turns,
        &voices as &[&str]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Removes what stands in the clear, and with it all that layers have made of it. No hash remains of what was said, as of
/// nothing that is sealed. A session that has something open elsewhere stays, without its title, on the default shelf.
async fn clear_away(tx: &mut PgTransaction<'_>, user: UserId, collection: &Collection) -> Result<(), StoreError> {
    sqlx::query!("delete from journal.exchange where user_id = $1 and collection = $2", user.0, collection.as_str())
        .execute(&mut **tx)
        .await?;
    sqlx::query!(
        r#"
        delete from journal.session
        where user_id = $1
          and collection = $2
          and not exists (select from journal.exchange
                          where exchange.user_id = $1
                            and exchange.session_id = session.id)
        "#,
        user.0,
        collection.as_str()
    )
    .execute(&mut **tx)
    .await?;
    let default = Collection::default();
    sqlx::query!(
        r#"
        with kept as (
            insert into journal.collection (user_id, name, created_at)
            select $1, $3, created_at from journal.collection where user_id = $1 and name = $2
            on conflict do nothing
        )
        update journal.session
        set collection = $3, title = null
        where user_id = $1
          and collection = $2
        "#,
        user.0,
        collection.as_str(),
        default.as_str()
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}
