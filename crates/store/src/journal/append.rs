//! Writing turns down: each once, in order, all of a batch or none.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Datelike, Utc};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, Seq, SessionId, Source, UserId};

use super::pairing::Open;
use super::sessions::{self, MemoryMode, Said, SessionChange};
use super::{Journal, id_made, lock, wake};
use crate::error::StoreError;

/// So many turns may come in one append. The journal of the user is locked while they are written: an import that sends
/// about a hundred at a time keeps no chat waiting.
pub const MOST_TURNS_AT_ONCE: usize = 5_000;

/// A client's own id of a turn, and a speaker's name, have at most this many characters.
const LONGEST_NAME: usize = 200;

/// Turns of one session to be written down, oldest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The conversation they were said in; made when it is new.
    pub session: SessionId,
    /// The shelf they go to; the session's own when not given, or else the default one.
    pub collection: Option<Collection>,
    /// Said in a conversation, or told to memory directly: then each turn is an exchange of its own.
    pub kind: ExchangeKind,
    /// Where they come from.
    pub source: Source,
    /// The turns, oldest first.
    pub turns: Vec<NewTurn>,
    /// When they are written down; also when they were said, unless they say so themselves.
    pub recorded_at: DateTime<Utc>,
    /// What changes about the session itself.
    pub settings: SessionChange,
}

impl Append {
    /// Turns said in `session`, for its own shelf.
    #[must_use]
    pub fn said(session: SessionId, turns: Vec<NewTurn>, recorded_at: DateTime<Utc>) -> Self {
        Self {
            session,
            collection: None,
            kind: ExchangeKind::Said,
            source: Source::default(),
            turns,
            recorded_at,
            settings: SessionChange::default(),
        }
    }
}

/// A turn that is not written down yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people or agents.
    pub speaker: Option<String>,
    /// What was said, as plain text. May be empty when there are `parts`.
    pub text: String,
    /// The content as it came, when it was not plain text.
    pub parts: Option<Value>,
    /// When it was said, if that is known.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The client's own id for it, unique in the session: with one, a turn can be sent again at any time.
    pub client_id: Option<String>,
}

impl NewTurn {
    /// A turn of plain text, said just now.
    #[must_use]
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, speaker: None, text: text.into(), parts: None, occurred_at: None, client_id: None }
    }
}

/// What became of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// What became of each turn, in the order in which they were given.
    pub turns: Vec<AppendedTurn>,
    /// The exchanges that appeared or grew, in order.
    pub exchanges: Vec<ExchangeId>,
}

/// What became of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendedTurn {
    /// Whether it was written down.
    pub recorded: Recorded,
    /// Its place in the journal, or that of the turn that was there before; absent when there is none.
    pub seq: Option<Seq>,
    /// The exchange it is part of.
    pub exchange: Option<ExchangeId>,
}

/// Whether a turn was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// Now.
    New,
    /// Before: this is a repetition.
    Already,
    /// Not at all: its client id belongs to a turn that says something else, which stays as it is.
    Differs,
    /// Not at all: it was purged, and does not come back.
    Tombstoned,
    /// Not at all: the session's memory is off, or for reading only.
    Off,
}

impl Journal {
    /// Writes turns down, all or none; returns after the commit.
    ///
    /// A turn is written once, however often it comes:
    /// - With a client id, it is known by that id within its session.
    /// - Without one, a batch whose beginning repeats the end of the session is a repetition as far as it repeats. So
    ///   the same question twice in a row without an answer is one question; whoever means two gives them ids. Two
    ///   turns are the same when role, speaker, content and, if given, the time they were said at are the same.
    ///
    /// What was purged is not written again into its session (see [`Journal::purge`]).
    ///
    /// A turn that follows a repeated turn in the batch belongs to the same exchange as if both were new.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] names the first turn that cannot be kept; [`StoreError::NoUser`] when there is no such
    /// user. After any error nothing is written and the same append can be sent again.
    pub async fn append(&self, user: UserId, append: Append) -> Result<Appended, StoreError> {
        check(&append.turns)?;
        let turns: Vec<Prepared> = append.turns.iter().map(|turn| Prepared::new(&append, turn)).collect();

        let mut tx = self.db.begin().await?;
        let base = lock(&mut tx, user, turns.len()).await?;
        let session = sessions::stored(&mut tx, user, &append.session).await?;
        let memory = append.settings.memory.or(session.as_ref().map(|session| session.memory));
        let fates = if memory.unwrap_or(MemoryMode::ReadWrite).writes() {
            fates(&mut tx, user, &append, &turns).await?
        } else {
            vec![Fate::Off; turns.len()]
        };
        if !fates.contains(&Fate::New) {
            // Nothing is left behind by a session that is off or was purged: not even that there was one.
            match session {
                Some(session) if append.settings != SessionChange::default() => {
                    let own = &session.collection;
                    sessions::put(&mut tx, user, &append.session, &append.settings, own, None, append.recorded_at)
                        .await?;
                    tx.commit().await?;
                }
                _ => tx.rollback().await?,
            }
            return Ok(Appended { turns: answers(&turns, &fates, &HashMap::new()), exchanges: Vec::new() });
        }

        let own = append.settings.collection.clone().or(session.map(|session| session.collection));
        let shelf = append.collection.clone().or(own).unwrap_or_default();
        let opens = opens(&mut tx, user, &append, &fates).await?;
        let written = pair(&append, &turns, &fates, opens, &shelf, base);

        let (said, at) = (written.said(), append.recorded_at);
        let max_turns =
            sessions::put(&mut tx, user, &append.session, &append.settings, &shelf, said, at).await?.max_turns;
        insert_exchanges(&mut tx, user, &append, &shelf, &written).await?;
        grow_exchanges(&mut tx, user, &written).await?;
        insert_turns(&mut tx, user, &append, &written).await?;
        if let Some(max_turns) = max_turns {
            sessions::drop_oldest(&mut tx, user, &append.session, max_turns).await?;
        }
        wake(&mut tx, user).await?;
        tx.commit().await?;

        let places = written.turns.iter().map(|turn| (turn.index, (turn.seq, turn.exchange))).collect();
        Ok(Appended { turns: answers(&turns, &fates, &places), exchanges: written.exchanges() })
    }
}

/// A turn as it is compared and kept.
struct Prepared<'a> {
    turn: &'a NewTurn,
    occurred_at: DateTime<Utc>,
    content_hash: Vec<u8>,
    said_hash: Vec<u8>,
}

impl<'a> Prepared<'a> {
    fn new(append: &Append, turn: &'a NewTurn) -> Self {
        let parts = turn.parts.as_ref().map(Value::to_string);
        let role = turn.role.as_str();
        let speaker = turn.speaker.as_deref();
        // Postgres keeps microseconds; a time that went through it must still be the same.
        let told_at = turn.occurred_at.map(|at| at.timestamp_micros().to_string());
        let content_hash = digest(&[Some(role), speaker, Some(&turn.text), parts.as_deref(), told_at.as_deref()]);
        // What was said counts, not how it was wrapped: parts only when there is nothing else.
        let said = if turn.text.is_empty() { parts.as_deref() } else { Some(turn.text.as_str()) };
        let said_hash = digest(&[Some(append.session.as_str()), Some(role), speaker, said]);
        Self { turn, occurred_at: turn.occurred_at.unwrap_or(append.recorded_at), content_hash, said_hash }
    }
}

/// SHA-256 over fields that cannot run into each other.
fn digest(fields: &[Option<&str>]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for field in fields {
        match field {
            None => hash.update([0]),
            Some(text) => {
                hash.update([1]);
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text);
            }
        }
    }
    hash.finalize().to_vec()
}

/// Refuses what Postgres could not give back as it was given.
fn check(turns: &[NewTurn]) -> Result<(), StoreError> {
    if turns.len() > MOST_TURNS_AT_ONCE {
        return Err(StoreError::Refused(format!("at most {MOST_TURNS_AT_ONCE} turns in one append")));
    }
    for (index, turn) in turns.iter().enumerate() {
        fault(turn).map_or(Ok(()), |fault| Err(StoreError::Refused(format!("turn {}: {fault}", index + 1))))?;
    }
    Ok(())
}

fn fault(turn: &NewTurn) -> Option<String> {
    let named = [("the speaker", &turn.speaker), ("the client id", &turn.client_id)];
    for (what, name) in named.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?))) {
        if name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Some(format!("{what} has 1 to {LONGEST_NAME} characters"));
        }
        if name.contains('\0') {
            return Some(format!("{what} holds a NUL character, which cannot be kept"));
        }
    }
    if turn.text.contains('\0') {
        return Some("the text holds a NUL character, which cannot be kept".into());
    }
    if turn.parts.as_ref().is_some_and(holds_nul) {
        return Some("the content parts hold a NUL character (\\u0000), which cannot be kept".into());
    }
    if turn.text.is_empty() && turn.parts.is_none() {
        return Some("it says nothing: there is neither text nor content parts".into());
    }
    turn.occurred_at
        .filter(|at| !(1..=9999).contains(&at.year()))
        .map(|_| "it was said in a year from 1 to 9999".into())
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_nul(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// What is to become of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    New,
    Stored(Stored),
    /// The same client id as an earlier turn of the batch.
    SameAs(usize),
    Tombstoned,
    Off,
}

/// A turn that is in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    seq: Seq,
    exchange: ExchangeId,
    client_id: Option<String>,
    content_hash: Vec<u8>,
}

async fn fates(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    append: &Append,
    turns: &[Prepared<'_>],
) -> Result<Vec<Fate>, StoreError> {
    let end = end_of_session(tx, user, append).await?;
    let repeated = repeated(&end, turns);
    let known = known_by_client_id(tx, user, append).await?;

    let mut fates = Vec::with_capacity(turns.len());
    let mut first_with: HashMap<&str, usize> = HashMap::new();
    for (index, turn) in turns.iter().enumerate() {
        let client_id = turn.turn.client_id.as_deref();
        let earlier = client_id.and_then(|id| first_with.get(id).copied());
        let fate = if let Some(stored) = repeated.get(index) {
            Fate::Stored(stored.clone())
        } else if let Some(stored) = client_id.and_then(|id| known.get(id)) {
            Fate::Stored(stored.clone())
        } else if let Some(earlier) = earlier {
            Fate::SameAs(earlier)
        } else {
            Fate::New
        };
        if let Some(id) = client_id {
            first_with.entry(id).or_insert(index);
        }
        fates.push(fate);
    }

    let buried = tombstones(tx, user, turns, &fates).await?;
    for (fate, turn) in fates.iter_mut().zip(turns) {
        if *fate == Fate::New && buried.contains(&turn.said_hash) {
            *fate = Fate::Tombstoned;
        }
    }
    Ok(fates)
}

/// The stored turns at the end of the session that the beginning of the batch repeats: as many as possible.
fn repeated<'a>(end: &'a [Stored], turns: &[Prepared<'_>]) -> &'a [Stored] {
    let same = |(stored, turn): (&Stored, &Prepared<'_>)| match &turn.turn.client_id {
        Some(id) => stored.client_id.as_ref() == Some(id),
        None => stored.content_hash == turn.content_hash,
    };
    (0..end.len()).filter_map(|start| end.get(start..)).find(|tail| tail.iter().zip(turns).all(same)).unwrap_or(&[])
}

/// The last turns of the session, oldest first, as many as the batch has: what told to memory directly and what said
/// are two strands.
async fn end_of_session(tx: &mut PgTransaction<'_>, user: UserId, append: &Append) -> Result<Vec<Stored>, StoreError> {
    let mut end: Vec<Stored> = sqlx::query!(
        r#"
        select seq, exchange_id, client_id, content_hash
        from journal.turn
        join journal.exchange on exchange.user_id = turn.user_id and exchange.id = turn.exchange_id
        where turn.user_id = $1
          and turn.session_id = $2
          and kind = $3
        order by seq desc
        limit $4
        "#,
        user.0,
        append.session.as_str(),
        append.kind.as_str(),
        i64::try_from(append.turns.len()).unwrap_or(i64::MAX)
    )
    .map(|row| Stored {
        seq: Seq(row.seq),
        exchange: ExchangeId(row.exchange_id),
        client_id: row.client_id,
        content_hash: row.content_hash,
    })
    .fetch_all(&mut **tx)
    .await?;
    end.reverse();
    Ok(end)
}

/// The turns of the session that bear client ids of the batch, by those.
async fn known_by_client_id(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    append: &Append,
) -> Result<HashMap<String, Stored>, StoreError> {
    let ids: Vec<String> = append.turns.iter().filter_map(|turn| turn.client_id.clone()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let known = sqlx::query!(
        r#"
        select seq, exchange_id, client_id as "client_id!", content_hash
        from journal.turn
        where user_id = $1
          and session_id = $2
          and client_id = any($3)
        "#,
        user.0,
        append.session.as_str(),
        &ids
    )
    .map(|row| {
        let stored = Stored {
            seq: Seq(row.seq),
            exchange: ExchangeId(row.exchange_id),
            client_id: Some(row.client_id.clone()),
            content_hash: row.content_hash,
        };
        (row.client_id, stored)
    })
    .fetch_all(&mut **tx)
    .await?;
    Ok(known.into_iter().collect())
}

/// The hashes among those of the new turns that were purged.
async fn tombstones(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    turns: &[Prepared<'_>],
    fates: &[Fate],
) -> Result<HashSet<Vec<u8>>, StoreError> {
    let new = turns.iter().zip(fates).filter(|(_, fate)| **fate == Fate::New);
    let hashes: Vec<Vec<u8>> = new.map(|(turn, _)| turn.said_hash.clone()).collect();
    let buried = sqlx::query_scalar!(
        "select content_hash from journal.tombstone where user_id = $1 and content_hash = any($2)",
        user.0,
        &hashes
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(buried.into_iter().collect())
}

/// The exchanges that new turns may join.
#[derive(Default)]
struct Opens {
    by_id: HashMap<ExchangeId, Open>,
    latest: Option<ExchangeId>,
}

/// The last exchange of the session, and those whose stored turns are followed by new ones in the batch.
async fn opens(tx: &mut PgTransaction<'_>, user: UserId, append: &Append, fates: &[Fate]) -> Result<Opens, StoreError> {
    let mut opens = Opens::default();
    if append.kind == ExchangeKind::Asserted {
        return Ok(opens);
    }
    let followed: HashSet<Uuid> = fates
        .iter()
        .zip(fates.iter().skip(1))
        .filter_map(|(fate, next)| match (fate, next) {
            (Fate::Stored(_), Fate::Stored(_)) => None,
            (Fate::Stored(stored), _) => Some(stored.exchange.0),
            _ => None,
        })
        .collect();
    let followed: Vec<Uuid> = followed.into_iter().collect();
    let heard = sqlx::query!(
        r#"
        with latest as (
            select id
            from journal.exchange
            where user_id = $1
              and session_id = $2
              and kind = 'said'
            order by first_seq desc
            limit 1
        ), wanted as (
            select id, true as latest from latest
            union all
            select id, false from unnest($3::uuid[]) as followed (id) where id not in (select id from latest)
        )
        select exchange.id,
               exchange.collection,
               exchange.forgotten_at is not null as "forgotten!",
               wanted.latest as "latest!",
               turn.role,
               turn.speaker
        from wanted
        join journal.exchange on exchange.user_id = $1 and exchange.id = wanted.id
        join journal.turn on turn.user_id = $1 and turn.exchange_id = exchange.id
        where exchange.kind = 'said'
        order by turn.seq
        "#,
        user.0,
        append.session.as_str(),
        &followed
    )
    .fetch_all(&mut **tx)
    .await?;
    for row in heard {
        let id = ExchangeId(row.id);
        let collection: Collection = row.collection.parse()?;
        let open = opens.by_id.entry(id).or_insert_with(|| Open::new(id, collection));
        open.forgotten = row.forgotten;
        open.hear(row.role.parse()?, row.speaker.as_deref());
        if row.latest {
            opens.latest = Some(id);
        }
    }
    Ok(opens)
}

/// What an append writes.
#[derive(Default)]
struct Written<'a> {
    turns: Vec<WrittenTurn<'a>>,
    new: Vec<ExchangeId>,
}

struct WrittenTurn<'a> {
    index: usize,
    seq: Seq,
    exchange: ExchangeId,
    turn: &'a Prepared<'a>,
}

impl Written<'_> {
    /// The first and last moment at which something new was said.
    fn said(&self) -> Option<Said> {
        let times = || self.turns.iter().map(|turn| turn.turn.occurred_at);
        Some(Said { first: times().min()?, last: times().max()? })
    }

    /// The exchanges that appear or grow, by the place of their first new turn.
    fn exchanges(&self) -> Vec<ExchangeId> {
        let mut seen = HashSet::new();
        self.turns.iter().map(|turn| turn.exchange).filter(|id| seen.insert(*id)).collect()
    }
}

/// Gives each new turn its place and its exchange.
fn pair<'a>(
    append: &Append,
    turns: &'a [Prepared<'a>],
    fates: &[Fate],
    mut opens: Opens,
    shelf: &Collection,
    base: Seq,
) -> Written<'a> {
    let mut written = Written::default();
    let mut current = opens.latest;
    for ((index, turn), (fate, seq)) in turns.iter().enumerate().zip(fates.iter().zip(base.0 + 1..)) {
        let NewTurn { role, speaker, .. } = turn.turn;
        match fate {
            Fate::Stored(stored) => current = Some(stored.exchange),
            // An answer to a purged question is no answer to the question before.
            Fate::Tombstoned if *role == Role::User => current = None,
            Fate::Tombstoned | Fate::SameAs(_) | Fate::Off => {}
            Fate::New => {
                let joins = current
                    .and_then(|id| opens.by_id.get_mut(&id))
                    .filter(|open| open.takes(append.kind, *role, speaker.as_deref(), append.collection.as_ref()));
                let open = match joins {
                    Some(open) => open,
                    None => {
                        let id = ExchangeId(id_made(append.recorded_at));
                        written.new.push(id);
                        opens.by_id.entry(id).or_insert_with(|| Open::new(id, shelf.clone()))
                    }
                };
                open.hear(*role, speaker.as_deref());
                current = Some(open.id);
                written.turns.push(WrittenTurn { index, seq: Seq(seq), exchange: open.id, turn });
            }
        }
    }
    written
}

/// The new exchanges, and that layers may know them.
async fn insert_exchanges(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    append: &Append,
    shelf: &Collection,
    written: &Written<'_>,
) -> Result<(), StoreError> {
    if written.new.is_empty() {
        return Ok(());
    }
    let mut first: HashMap<ExchangeId, (Seq, DateTime<Utc>)> = HashMap::new();
    let mut last: HashMap<ExchangeId, Seq> = HashMap::new();
    for turn in &written.turns {
        first.entry(turn.exchange).or_insert((turn.seq, turn.turn.occurred_at));
        last.insert(turn.exchange, turn.seq);
    }
    let (mut ids, mut firsts, mut lasts, mut times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for id in &written.new {
        if let (Some((seq, occurred_at)), Some(end)) = (first.get(id), last.get(id)) {
            ids.push(id.0);
            firsts.push(seq.0);
            lasts.push(end.0);
            times.push(*occurred_at);
        }
    }
    sqlx::query!(
        r#"
        with made as (
            insert into journal.exchange
                (user_id, id, session_id, collection, kind, source, first_seq, last_seq, changed_seq, occurred_at)
            select $1, id, $2, $3, $4, $5, first_seq, last_seq, last_seq, occurred_at
            from unnest($6::uuid[], $7::bigint[], $8::bigint[], $9::timestamptz[])
                as new (id, first_seq, last_seq, occurred_at)
            returning user_id, id
        )
        insert into journal.remembered (user_id, exchange_id)
        select user_id, id from made
        "#,
        user.0,
        append.session.as_str(),
        shelf.as_str(),
        append.kind.as_str(),
        append.source.as_str(),
        &ids,
        &firsts,
        &lasts,
        &times
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// The exchanges that were there and grew: layers meet them again.
async fn grow_exchanges(tx: &mut PgTransaction<'_>, user: UserId, written: &Written<'_>) -> Result<(), StoreError> {
    let new: HashSet<ExchangeId> = written.new.iter().copied().collect();
    let grown: HashMap<ExchangeId, Seq> = written
        .turns
        .iter()
        .filter(|turn| !new.contains(&turn.exchange))
        .map(|turn| (turn.exchange, turn.seq))
        .collect();
    if grown.is_empty() {
        return Ok(());
    }
    let (ids, seqs): (Vec<Uuid>, Vec<i64>) = grown.into_iter().map(|(id, seq)| (id.0, seq.0)).unzip();
    sqlx::query!(
        r#"
        update journal.exchange
        set last_seq = grown.seq, changed_seq = grown.seq
        from unnest($2::uuid[], $3::bigint[]) as grown (id, seq)
        where exchange.user_id = $1
          and exchange.id = grown.id
        "#,
        user.0,
        &ids,
        &seqs
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn insert_turns(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    append: &Append,
    written: &Written<'_>,
) -> Result<(), StoreError> {
    let turns = &written.turns;
    let seqs: Vec<i64> = turns.iter().map(|turn| turn.seq.0).collect();
    let exchanges: Vec<Uuid> = turns.iter().map(|turn| turn.exchange.0).collect();
    let roles: Vec<&str> = turns.iter().map(|turn| turn.turn.turn.role.as_str()).collect();
    let speakers: Vec<Option<&str>> = turns.iter().map(|turn| turn.turn.turn.speaker.as_deref()).collect();
    let texts: Vec<&str> = turns.iter().map(|turn| turn.turn.turn.text.as_str()).collect();
    let parts: Vec<Option<&Value>> = turns.iter().map(|turn| turn.turn.turn.parts.as_ref()).collect();
    let times: Vec<DateTime<Utc>> = turns.iter().map(|turn| turn.turn.occurred_at).collect();
    let client_ids: Vec<Option<&str>> = turns.iter().map(|turn| turn.turn.turn.client_id.as_deref()).collect();
    let content_hashes: Vec<&[u8]> = turns.iter().map(|turn| turn.turn.content_hash.as_slice()).collect();
    let said_hashes: Vec<&[u8]> = turns.iter().map(|turn| turn.turn.said_hash.as_slice()).collect();
    sqlx::query!(
        r#"
        insert into journal.turn
            (user_id, seq, session_id, exchange_id, role, speaker, text, parts, occurred_at, recorded_at, client_id,
             content_hash, said_hash)
        select $1, seq, $2, exchange_id, role, speaker, text, parts, occurred_at, $3, client_id,
               content_hash, said_hash
        from unnest($4::bigint[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::jsonb[], $10::timestamptz[],
                    $11::text[], $12::bytea[], $13::bytea[])
            as new (seq, exchange_id, role, speaker, text, parts, occurred_at, client_id, content_hash, said_hash)
        "#,
        user.0,
        append.session.as_str(),
        append.recorded_at,
        &seqs,
        &exchanges,
        &roles as &[&str],
        &speakers as &[Option<&str>],
        &texts as &[&str],
        &parts as &[Option<&Value>],
        &times,
        &client_ids as &[Option<&str>],
        &content_hashes as &[&[u8]],
        &said_hashes as &[&[u8]]
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// What the caller learns of each turn; `places` are those of the new ones, by their index in the batch.
fn answers(turns: &[Prepared<'_>], fates: &[Fate], places: &HashMap<usize, (Seq, ExchangeId)>) -> Vec<AppendedTurn> {
    let mut answers: Vec<AppendedTurn> = Vec::with_capacity(turns.len());
    for (index, (turn, fate)) in turns.iter().zip(fates).enumerate() {
        let repeats = |same: bool| if same { Recorded::Already } else { Recorded::Differs };
        let answer = match fate {
            Fate::New => {
                let (seq, exchange) = places.get(&index).copied().unzip();
                AppendedTurn { recorded: Recorded::New, seq, exchange }
            }
            Fate::Stored(stored) => AppendedTurn {
                recorded: repeats(stored.content_hash == turn.content_hash),
                seq: Some(stored.seq),
                exchange: Some(stored.exchange),
            },
            Fate::SameAs(earlier) => {
                let first = turns.get(*earlier).map(|first| &first.content_hash);
                let same = first == Some(&turn.content_hash);
                match answers.get(*earlier) {
                    Some(answer) if answer.seq.is_some() => AppendedTurn { recorded: repeats(same), ..*answer },
                    Some(answer) => *answer,
                    None => AppendedTurn { recorded: Recorded::Differs, seq: None, exchange: None },
                }
            }
            Fate::Tombstoned => AppendedTurn { recorded: Recorded::Tombstoned, seq: None, exchange: None },
            Fate::Off => AppendedTurn { recorded: Recorded::Off, seq: None, exchange: None },
        };
        answers.push(answer);
    }
    answers
}
