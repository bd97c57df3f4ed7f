//! What is unlocked, and how it stays current: what is written, forgotten or restored meanwhile is seen at the next question.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use skymem_core::{Collection, Embedder, ExchangeId, LayerError, Seq, UserId};
use skymem_seal::{SealError, SecretKey};
use skymem_search::calibrate::Background;
use sqlx::PgPool;
use tokio::sync::{OnceCell, Semaphore};
use uuid::Uuid;

use crate::cores::{in_background, on_every_core};
use crate::digest::TurnWords;
use crate::fold::{self, Opened};
use crate::learned::{Before, Learned, Topics, Ways, reach, with_vectors};
use crate::open::{Known, Read, damaged, open_all};
use crate::shelf::{Shelf, strand};
use crate::vectors::Vectors;
use crate::{PART_TOKENS, Settings, sql};

/// So many passphrases are tried at once.
const AT_ONCE: usize = 2;

/// What is unlocked of all users.
pub(crate) struct Rooms {
    db: PgPool,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) settings: Settings,
    /// The right to try a passphrase.
    pub(crate) slow: Arc<Semaphore>,
    rooms: Mutex<HashMap<UserId, Room>>,
    background: OnceCell<Background>,
}

/// What is unlocked of one user.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) doors: BTreeMap<Collection, Door>,
    shelf: Arc<Shelf>,
    /// Whether the shelf is that of the doors.
    pub(crate) stale: bool,
    /// Who reads what has changed, and who learns from it: one at a time each.
    reading: Arc<tokio::sync::Mutex<()>>,
    pub(crate) learning: bool,
    /// Who tries a passphrase: one at a time.
    pub(crate) trying: Arc<tokio::sync::Mutex<()>>,
}

/// A collection that is unlocked.
pub(crate) struct Door {
    pub(crate) keys: BTreeMap<u32, SecretKey>,
    pub(crate) until: Option<DateTime<Utc>>,
    /// Up to which change it was read.
    seen: i64,
    pub(crate) turns: BTreeMap<i64, Arc<Opened>>,
    pub(crate) words: Known<TurnWords>,
    pub(crate) vectors: Known<Vectors>,
    /// The turns that have a digest, and whether it was made just now.
    pub(crate) digested: HashMap<Seq, Made>,
    unreadable: BTreeMap<i64, (ExchangeId, SealError)>,
}

/// When a digest was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Before,
    JustNow,
}

impl Door {
    pub(crate) fn new(keys: BTreeMap<u32, SecretKey>, until: Option<DateTime<Utc>>) -> Self {
        Self {
            keys,
            until,
            seen: -1,
            turns: BTreeMap::new(),
            words: Known::default(),
            vectors: Known::default(),
            digested: HashMap::new(),
            unreadable: BTreeMap::new(),
        }
    }

    /// How many exchanges can be read.
    pub(crate) fn exchanges(&self) -> usize {
        self.turns.values().map(|opened| opened.exchange).collect::<HashSet<_>>().len()
    }

    /// What is wrong with the rows that cannot be read.
    pub(crate) fn unreadable(&self) -> Vec<String> {
        self.unreadable.iter().map(|(seq, (_, error))| format!("the turn at {seq}: {error}")).collect()
    }
}

impl Rooms {
    pub(crate) fn new(db: PgPool, embedder: Arc<dyn Embedder>, settings: Settings) -> Self {
        let slow = Arc::new(Semaphore::new(AT_ONCE));
        Self { db, embedder, settings, slow, rooms: Mutex::default(), background: OnceCell::new() }
    }

    pub(crate) fn db(&self) -> &PgPool {
        &self.db
    }

    pub(crate) fn rooms(&self) -> MutexGuard<'_, HashMap<UserId, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything is unlocked of a user.
    pub(crate) fn is_open(&self, user: UserId) -> bool {
        self.rooms().get(&user).is_some_and(|room| !room.doors.is_empty())
    }

    /// Shuts a collection; whether it was open. What is left of the user is laid out anew at the next question.
    pub(crate) fn shut(&self, user: UserId, collection: &Collection) -> bool {
        let mut rooms = self.rooms();
        let Some(room) = rooms.get_mut(&user) else { return false };
        let was_open = room.doors.remove(collection).is_some();
        if was_open {
            room.shelf = Arc::default();
            room.stale = true;
            // Somebody who waits for their turn goes on waiting.
            if room.doors.is_empty() && Arc::strong_count(&room.trying) == 1 {
                rooms.remove(&user);
            }
        }
        was_open
    }

    /// What is unlocked of a user, as it is now.
    pub(crate) async fn current(self: &Arc<Self>, user: UserId) -> Result<Arc<Shelf>, LayerError> {
        let Some(reading) = self.rooms().get(&user).map(|room| Arc::clone(&room.reading)) else {
            return Ok(Arc::default());
        };
        let _reading = reading.lock().await;
        let sealed: HashMap<String, i64> = sql::sealed(&self.db, user).await?.into_iter().collect();
        let behind: Vec<(Collection, i64, BTreeMap<u32, SecretKey>)> = {
            let mut rooms = self.rooms();
            let Some(room) = rooms.get_mut(&user) else { return Ok(Arc::default()) };
            // What was shredded is no longer there.
            let before = room.doors.len();
            room.doors.retain(|collection, _| sealed.contains_key(collection.as_str()));
            room.stale |= before != room.doors.len();
            let changed = |(collection, door): (&Collection, &Door)| {
                let now = sealed.get(collection.as_str()).copied().unwrap_or(0);
                (door.seen != now).then(|| (collection.clone(), door.seen, door.keys.clone()))
            };
            room.doors.iter().filter_map(changed).collect()
        };
        for (collection, seen, keys) in behind {
            let now = sealed.get(collection.as_str()).copied().unwrap_or(0);
            self.read(user, &collection, seen, now, keys).await?;
        }
        self.laid_out(user).await
    }

    /// Reads what has changed in a collection since `seen`.
    async fn read(
        &self,
        user: UserId,
        collection: &Collection,
        seen: i64,
        now: i64,
        keys: BTreeMap<u32, SecretKey>,
    ) -> Result<(), LayerError> {
        let rows = sql::turns(&self.db, user, collection, seen, &self.embedder.id().0).await?;
        let alive: HashSet<ExchangeId> =
            sql::alive(&self.db, user, collection).await?.into_iter().map(ExchangeId).collect();
        let (mut opened, lost) = open_rows(user, collection, rows, keys.clone()).await;
        if !lost.is_empty() {
            let again = sql::turns_as_written(&self.db, user, &lost).await?;
            let (again, _) = open_rows(user, collection, again, keys).await;
            opened.extend(again);
        }
        let mut rooms = self.rooms();
        // Locked meanwhile: then what was read is let go.
        let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
        let Some(door) = room.doors.get_mut(collection).filter(|door| door.seen == seen) else { return Ok(()) };
        door.turns.retain(|_, opened| alive.contains(&opened.exchange));
        door.unreadable.retain(|_, (exchange, _)| alive.contains(exchange));
        for read in opened {
            match read.turn {
                Ok(turn) => {
                    door.unreadable.remove(&read.seq);
                    let seq = Seq(read.seq);
                    if let Some(words) = read.words {
                        door.words.insert(seq, Arc::new(words));
                        door.digested.insert(seq, Made::Before);
                    }
                    if let Some(vectors) = read.vectors {
                        door.vectors.insert(seq, Arc::new(vectors));
                    }
                    door.turns.insert(read.seq, Arc::new(turn));
                }
                Err(error) => drop(door.unreadable.insert(read.seq, (read.exchange, error))),
            }
        }
        door.seen = now;
        room.stale = true;
        Ok(())
    }

    /// The shelf of what the doors hold.
    async fn laid_out(self: &Arc<Self>, user: UserId) -> Result<Arc<Shelf>, LayerError> {
        let (turns, words, vectors, before) = {
            let mut rooms = self.rooms();
            let Some(room) = rooms.get_mut(&user) else { return Ok(Arc::default()) };
            // Before it is laid out: what is learned meanwhile makes it stale again.
            if !std::mem::replace(&mut room.stale, false) {
                return Ok(Arc::clone(&room.shelf));
            }
            let turns: Vec<(Collection, Vec<Arc<Opened>>)> = room
                .doors
                .iter()
                .map(|(collection, door)| (collection.clone(), door.turns.values().cloned().collect()))
                .collect();
            let words: Known<TurnWords> = room.doors.values().flat_map(|door| door.words.clone()).collect();
            let vectors: Known<Vectors> = room.doors.values().flat_map(|door| door.vectors.clone()).collect();
            (turns, words, vectors, Arc::clone(&room.shelf))
        };
        let laid_out = self.lay_out_anew(user, turns, words, vectors, before).await;
        if laid_out.is_err()
            && let Some(room) = self.rooms().get_mut(&user)
        {
            room.stale = true;
        }
        laid_out
    }

    async fn lay_out_anew(
        self: &Arc<Self>,
        user: UserId,
        turns: Vec<(Collection, Vec<Arc<Opened>>)>,
        words: Known<TurnWords>,
        vectors: Known<Vectors>,
        before: Arc<Shelf>,
    ) -> Result<Arc<Shelf>, LayerError> {
        let zone = self.zone(user).await?;
        let parts: HashMap<String, usize> = sql::rules(&self.db, user)
            .await?
            .into_iter()
            .filter_map(|rule| Some((rule.name, usize::try_from(rule.part_tokens?).ok()?)))
            .collect();
        let names: Vec<Collection> = turns.iter().map(|(collection, _)| collection.clone()).collect();
        let rooms = Arc::clone(self);
        let background = self.background().await.cloned();
        let shelf = in_background(move || {
            let ways = Ways {
                embedder: rooms.embedder.as_ref(),
                shape: rooms.settings.shape(),
                zone,
                topics: Topics { threshold: rooms.settings.topic_threshold, background: background.as_ref() },
            };
            lay_out(user, &turns, Before { words: &words, vectors: &vectors }, &before, ways, &parts)
        })
        .await;
        let shelf = Arc::new(shelf);
        let mut rooms = self.rooms();
        let Some(room) = rooms.get_mut(&user) else { return Ok(Arc::default()) };
        if room.doors.keys().ne(names.iter()) {
            // One was locked meanwhile: what it held must not come back.
            return Ok(Arc::clone(&room.shelf));
        }
        room.shelf = Arc::clone(&shelf);
        Ok(shelf)
    }

    /// Where days begin and end for a user.
    pub(crate) async fn zone(&self, user: UserId) -> Result<Tz, LayerError> {
        Ok(sql::timezone(&self.db, user).await?.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC))
    }

    /// What unrelated means to the embedder; `None` as long as it gives no answer.
    pub(crate) async fn background(&self) -> Option<&Background> {
        self.background.get_or_try_init(|| Background::of(self.embedder.as_ref())).await.ok()
    }
}

fn lay_out(
    user: UserId,
    turns: &[(Collection, Vec<Arc<Opened>>)],
    before: Before<'_>,
    shelf: &Shelf,
    ways: Ways<'_>,
    parts: &HashMap<String, usize>,
) -> Shelf {
    let mut exchanges = BTreeMap::new();
    for (collection, turns) in turns {
        exchanges.append(&mut fold::exchanges(user, collection, turns));
    }
    let mut sessions: BTreeMap<String, Vec<&skymem_core::Exchange>> = BTreeMap::new();
    for exchange in exchanges.values() {
        let name = strand(exchange.collection.as_str(), exchange.session.as_str());
        sessions.entry(name).or_default().push(exchange);
    }
    let part_tokens =
        |exchange: &skymem_core::Exchange| parts.get(exchange.collection.as_str()).copied().unwrap_or(PART_TOKENS);
    let sessions: Vec<(String, Vec<&skymem_core::Exchange>)> = sessions.into_iter().collect();
    let learn = |(name, said): &(String, Vec<&skymem_core::Exchange>)| {
        let same = shelf.learned.get(name).filter(|learned| {
            learned.reach == reach(said) && learned.with_vectors == with_vectors(said, before.vectors)
        });
        let learned = same.cloned().unwrap_or_else(|| Arc::new(Learned::of(said, before, ways, part_tokens)));
        (name.clone(), learned)
    };
    let learned = on_every_core(&sessions, learn).into_iter().collect();
    Shelf::new(exchanges, learned)
}

/// Opens rows where it keeps nobody waiting; and the turns whose digest does not open.
async fn open_rows(
    user: UserId,
    collection: &Collection,
    rows: Vec<sql::Row>,
    keys: BTreeMap<u32, SecretKey>,
) -> (Vec<Read>, Vec<Uuid>) {
    let collection = collection.clone();
    in_background(move || {
        let read = open_all(user, &collection, &rows, &keys);
        let lost = damaged(&read, &rows);
        (read, lost)
    })
    .await
}
