//! Writing turns down: each once, in order, all of a batch or none.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Datelike, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::PgTransaction;

use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, Seq, SessionId, Source, UserId};

use super::found::{Found, Opens, Stored, StoredTurns};
use super::pairing::Open;
use super::sessions::{self, MemoryMode, SessionChange};
use super::written::{Written, WrittenTurn};
use super::{Journal, id_made, lock};
use crate::audit::{Verb, named};
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
        let _passing = self.way.take();
        self.append_now(user, append).await
    }

    /// As [`Journal::append`], for a piece of something long: lets those go first who wait for an answer.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    pub async fn append_piece(&self, user: UserId, append: Append) -> Result<Appended, StoreError> {
        self.way.piece(self.append_now(user, append)).await
    }

    /// As [`Journal::append`], into a sealed collection and into no other: nothing of it is ever written in the clear.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`]; [`StoreError::Refused`] when the collection is not sealed, or not any more.
    pub async fn append_sealed_only(
        &self,
        user: UserId,
        collection: &Collection,
        append: Append,
    ) -> Result<Appended, StoreError> {
        check(&append.turns)?;
        let append = Append { collection: Some(collection.clone()), ..append };
        let turns: Vec<Prepared> = append.turns.iter().map(|turn| Prepared::new(&append, turn)).collect();
        let shelf = self.sealed_shelf(user, &append).await?.ok_or_else(|| {
            StoreError::Refused(format!("collection {collection} is not sealed: nothing was written into it"))
        })?;
        let _passing = self.way.take();
        self.append_sealed(user, shelf, &append, &turns).await
    }

    async fn append_now(&self, user: UserId, append: Append) -> Result<Appended, StoreError> {
        check(&append.turns)?;
        let turns: Vec<Prepared> = append.turns.iter().map(|turn| Prepared::new(&append, turn)).collect();
        if let Some(shelf) = self.sealed_shelf(user, &append).await? {
            return self.append_sealed(user, shelf, &append, &turns).await;
        }

        let mut tx = self.db.begin().await?;
        let base = lock(&mut tx, user, turns.len()).await?;
        let Found { session, stored, purged, mut opens } = Found::look(&mut tx, user, &append, &turns).await?;
        let memory = append.settings.memory.or(session.as_ref().map(|session| session.memory));
        let fates = if memory.unwrap_or(MemoryMode::ReadWrite).writes() {
            fates(&stored, &purged, &turns)
        } else {
            vec![Fate::Off; turns.len()]
        };
        let changes = append.settings != SessionChange::default();
        if !fates.contains(&Fate::New) {
            // Nothing is left behind by a session that is off or was purged: not even that there was one.
            match session {
                Some(session) if changes => {
                    let own = &session.collection;
                    sessions::put(&mut tx, user, &append.session, &append.settings, own, None, append.recorded_at)
                        .await?;
                    tx.commit().await?;
                }
                _ => tx.rollback().await?,
            }
            return Ok(Appended { turns: answers(&turns, &fates, &HashMap::new()), exchanges: Vec::new() });
        }

        let own = append.settings.collection.clone().or(session.as_ref().map(|session| session.collection.clone()));
        let shelf = append.collection.clone().or(own).unwrap_or_default();
        opens.add(&mut tx, user, &append, &fates).await?;
        let (written, _) = pair(&append, &turns, &fates, opens, &shelf, base);

        // Most turns are the next ones of a session that is there, on a shelf that is there.
        let max_turns = match session {
            Some(session) if !changes && session.collection == shelf => session.max_turns,
            _ => {
                let (said, at) = (written.said(), append.recorded_at);
                sessions::put(&mut tx, user, &append.session, &append.settings, &shelf, said, at)
                    .await
                    .map_err(|error| sealed_meanwhile(error, &shelf))?
                    .max_turns
            }
        };
        written.write(&mut tx, user, &append, &shelf).await.map_err(|error| sealed_meanwhile(error, &shelf))?;
        if let Some(max_turns) = max_turns {
            sessions::drop_oldest(&mut tx, user, &append.session, max_turns).await?;
        }
        self.note_appended(&mut tx, user, &append, &written).await?;
        tx.commit().await?;

        let places = written.turns.iter().map(|turn| (turn.index, (turn.seq, turn.exchange))).collect();
        Ok(Appended { turns: answers(&turns, &fates, &places), exchanges: written.exchanges() })
    }
}

impl Journal {
    /// What is told of facts and what is taken over from elsewhere is a change that somebody made; what is said in a
    /// conversation is none.
    async fn note_appended(
        &self,
        tx: &mut PgTransaction<'_>,
        user: UserId,
        append: &Append,
        written: &Written<'_>,
    ) -> Result<(), StoreError> {
        let exchanges = written.exchanges();
        if append.kind == ExchangeKind::Stated {
            let what = || json!({ "exchanges": named(exchanges.iter().map(|id| id.0)) });
            self.note(tx, user, Verb::FactsStated, what).await
        } else if append.source.as_str().starts_with("import") {
            let what = || json!({ "turns": written.turns.len(), "exchanges": exchanges.len() });
            self.note(tx, user, Verb::Imported, what).await
        } else {
            Ok(())
        }
    }
}

/// What the tables refuse of an open append because its collection is sealed since it was looked at.
pub(super) fn sealed_meanwhile(error: StoreError, shelf: &Collection) -> StoreError {
    match &error {
        StoreError::Failed(failed)
            if failed.as_database_error().is_some_and(|error| error.is_foreign_key_violation()) =>
        {
            StoreError::Conflict(format!("collection {shelf} is sealed: nothing is kept in it in the clear"))
        }
        _ => error,
    }
}

/// A turn as it is compared and kept.
pub(super) struct Prepared<'a> {
    pub(super) turn: &'a NewTurn,
    pub(super) occurred_at: DateTime<Utc>,
    pub(super) content_hash: Vec<u8>,
    pub(super) said_hash: Vec<u8>,
}

impl<'a> Prepared<'a> {
    fn new(append: &Append, turn: &'a NewTurn) -> Self {
        let parts = turn.parts.as_ref().map(Value::to_string);
        let role = turn.role.as_str();
        let speaker = turn.speaker.as_deref();
        // Postgres keeps microseconds; a time that went through it must still be the same.
        let told_at = turn.occurred_at.map(|at| at.timestamp_micros().to_string());
        let content_hash = digest(&[Some(role), speaker, Some(&turn.text), parts.as_deref(), told_at.as_deref()]);
        let said_hash = said_hash(&append.session, turn);
        Self { turn, occurred_at: turn.occurred_at.unwrap_or(append.recorded_at), content_hash, said_hash }
    }
}

/// What a tombstone keeps of a turn that was purged from a session.
pub(super) fn said_hash(session: &SessionId, turn: &NewTurn) -> Vec<u8> {
    // What was said counts, not how it was wrapped: parts only when there is nothing else.
    let parts = turn.parts.as_ref().filter(|_| turn.text.is_empty()).map(Value::to_string);
    let said = if turn.text.is_empty() { parts.as_deref() } else { Some(turn.text.as_str()) };
    digest(&[Some(session.as_str()), Some(turn.role.as_str()), turn.speaker.as_deref(), said])
}

/// SHA-256 over fields that cannot run into each other.
pub(crate) fn digest(fields: &[Option<&str>]) -> Vec<u8> {
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
pub(super) enum Fate {
    New,
    Stored(Stored),
    /// The same client id as an earlier turn of the batch.
    SameAs(usize),
    Tombstoned,
    Off,
}

/// What is to become of each turn of the batch.
pub(super) fn fates(stored: &StoredTurns, purged: &HashSet<Vec<u8>>, turns: &[Prepared<'_>]) -> Vec<Fate> {
    let repeated = repeated(&stored.end, turns);
    let mut fates = Vec::with_capacity(turns.len());
    let mut first_with: HashMap<&str, usize> = HashMap::new();
    for (index, turn) in turns.iter().enumerate() {
        let client_id = turn.turn.client_id.as_deref();
        let earlier = client_id.and_then(|id| first_with.get(id).copied());
        let fate = if let Some(stored) = repeated.get(index) {
            Fate::Stored(stored.clone())
        } else if let Some(stored) = client_id.and_then(|id| stored.by_client_id.get(id)) {
            Fate::Stored(stored.clone())
        } else if let Some(earlier) = earlier {
            Fate::SameAs(earlier)
        } else if purged.contains(&turn.said_hash) {
            Fate::Tombstoned
        } else {
            Fate::New
        };
        if let Some(id) = client_id {
            first_with.entry(id).or_insert(index);
        }
        fates.push(fate);
    }
    fates
}

/// The stored turns at the end of the session that the beginning of the batch repeats: as many as possible.
fn repeated<'a>(end: &'a [Stored], turns: &[Prepared<'_>]) -> &'a [Stored] {
    let same = |(stored, turn): (&Stored, &Prepared<'_>)| match &turn.turn.client_id {
        Some(id) => stored.client_id.as_ref() == Some(id),
        None => stored.content_hash == turn.content_hash,
    };
    (0..end.len()).filter_map(|start| end.get(start..)).find(|tail| tail.iter().zip(turns).all(same)).unwrap_or(&[])
}

/// Gives each new turn its place and its exchange; and the exchanges as they are then.
pub(super) fn pair<'a>(
    append: &Append,
    turns: &'a [Prepared<'a>],
    fates: &[Fate],
    mut opens: Opens,
    shelf: &Collection,
    base: Seq,
) -> (Written<'a>, Opens) {
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
    (written, opens)
}

/// What the caller learns of each turn; `places` are those of the new ones, by their index in the batch.
pub(super) fn answers(
    turns: &[Prepared<'_>],
    fates: &[Fate],
    places: &HashMap<usize, (Seq, ExchangeId)>,
) -> Vec<AppendedTurn> {
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures_util::future::poll_immediate;
    use sqlx::PgPool;
    use tokio::time::Instant;
    use uuid::Uuid;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_piece_of_an_import_gives_way_to_an_append_that_somebody_waits_for() {
        // Takes connections and never answers: an append that gets as far as the database is under way.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("postgres://nobody@{}/none", silent.local_addr().unwrap());
        let journal = Journal::new(PgPool::connect_lazy(&url).unwrap());
        let anna = UserId(Uuid::nil());
        let says = |text: &str| {
            let turns = vec![NewTurn::new(Role::User, text)];
            Append::said("s".parse().unwrap(), turns, DateTime::UNIX_EPOCH)
        };
        // What is refused gets as far as the database in no case.
        let how_long = async || {
            let began = Instant::now();
            journal.append_piece(anna, says("nul \0")).await.unwrap_err();
            began.elapsed()
        };

        let mut talking = Box::pin(journal.append(anna, says("hello")));
        assert!(poll_immediate(talking.as_mut()).await.is_none());
        let while_talking = how_long().await;
        drop(talking);
        let afterwards = how_long().await;

        assert!(while_talking > 10 * afterwards, "{while_talking:?} while somebody talks, {afterwards:?} else");
    }
}
