//! What is unlocked, and how it stays current: what is written, forgotten or restored meanwhile is seen at the next question.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use half::f16;
use rustc_hash::FxHashMap;
use skymem_core::{Collection, Embedder, ExchangeId, LayerError, Purpose, Seq, UserId};
use skymem_seal::{Place, SealError, SealedTurn, SecretKey};
use skymem_search::calibrate::Background;
use skymem_search::choose::PARTS_PER_TURN;
use skymem_search::draft::embedded_text;
use sqlx::PgPool;
use tokio::sync::OnceCell;
use zeroize::Zeroizing;

use crate::fold::{self, Opened};
use crate::learned::{Learned, Topics, Ways, reach, with_vectors};
use crate::shelf::{Shelf, strand};
use crate::{PART_TOKENS, Settings, sql};

/// The column that vectors are sealed for.
const VECTORS: &str = "vectors";

/// So many passages are embedded at once.
const EMBED_TOGETHER: usize = 64;

/// What is unlocked of all users.
pub(crate) struct Rooms {
    db: PgPool,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) settings: Settings,
    rooms: Mutex<HashMap<UserId, Room>>,
    background: OnceCell<Background>,
}

/// What is unlocked of one user.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) doors: BTreeMap<Collection, Door>,
    shelf: Arc<Shelf>,
    /// Whether the shelf is that of the doors.
    stale: bool,
    /// Who reads what has changed, and who embeds: one at a time each.
    reading: Arc<tokio::sync::Mutex<()>>,
    embedding: bool,
}

/// A collection that is unlocked.
pub(crate) struct Door {
    pub(crate) keys: BTreeMap<u32, SecretKey>,
    pub(crate) until: Option<DateTime<Utc>>,
    /// Up to which change it was read.
    seen: i64,
    turns: BTreeMap<i64, Arc<Opened>>,
    vectors: FxHashMap<Seq, Vec<Vec<f16>>>,
    unreadable: BTreeMap<i64, (ExchangeId, SealError)>,
}

impl Door {
    pub(crate) fn new(keys: BTreeMap<u32, SecretKey>, until: Option<DateTime<Utc>>) -> Self {
        Self {
            keys,
            until,
            seen: -1,
            turns: BTreeMap::new(),
            vectors: FxHashMap::default(),
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

impl Drop for Door {
    fn drop(&mut self) {
        for vector in self.vectors.values_mut().flatten() {
            vector.fill(f16::ZERO);
            std::hint::black_box(vector);
        }
    }
}

impl Rooms {
    pub(crate) fn new(db: PgPool, embedder: Arc<dyn Embedder>, settings: Settings) -> Self {
        Self { db, embedder, settings, rooms: Mutex::default(), background: OnceCell::new() }
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
            if room.doors.is_empty() {
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
        let shelf = collection.clone();
        let opened = in_background(move || open_all(user, &shelf, &rows, &keys)).await;
        let mut rooms = self.rooms();
        // Locked meanwhile: then what was read is let go.
        let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
        let Some(door) = room.doors.get_mut(collection) else { return Ok(()) };
        door.turns.retain(|_, opened| alive.contains(&opened.exchange));
        door.unreadable.retain(|_, (exchange, _)| alive.contains(exchange));
        for read in opened {
            match read.turn {
                Ok(turn) => {
                    door.unreadable.remove(&read.seq);
                    if let Some(vectors) = read.vectors {
                        door.vectors.insert(Seq(read.seq), vectors);
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
        let (turns, vectors, before) = {
            let rooms = self.rooms();
            let Some(room) = rooms.get(&user) else { return Ok(Arc::default()) };
            if !room.stale {
                return Ok(Arc::clone(&room.shelf));
            }
            let turns: Vec<(Collection, Vec<Arc<Opened>>)> = room
                .doors
                .iter()
                .map(|(collection, door)| (collection.clone(), door.turns.values().cloned().collect()))
                .collect();
            let vectors: FxHashMap<Seq, Vec<Vec<f16>>> =
                room.doors.values().flat_map(|door| door.vectors.clone()).collect();
            (turns, vectors, Arc::clone(&room.shelf))
        };
        let zone =
            sql::timezone(&self.db, user).await?.and_then(|name| name.parse().ok()).unwrap_or(chrono_tz::Tz::UTC);
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
            lay_out(user, &turns, &vectors, &before, ways, &parts)
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
        room.stale = false;
        Ok(shelf)
    }

    /// What unrelated means to the embedder; `None` as long as it gives no answer.
    pub(crate) async fn background(&self) -> Option<&Background> {
        self.background.get_or_try_init(|| Background::of(self.embedder.as_ref())).await.ok()
    }

    /// Embeds what has no vectors yet, and keeps them sealed. Ends at once when somebody is at it already.
    pub(crate) async fn embed(self: &Arc<Self>, user: UserId) -> Result<(), LayerError> {
        {
            let mut rooms = self.rooms();
            let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
            if std::mem::replace(&mut room.embedding, true) {
                return Ok(());
            }
        }
        let embedded = self.embed_all(user).await;
        if let Some(room) = self.rooms().get_mut(&user) {
            room.embedding = false;
        }
        embedded
    }

    async fn embed_all(self: &Arc<Self>, user: UserId) -> Result<(), LayerError> {
        let mut tried: HashSet<Seq> = HashSet::new();
        loop {
            let shelf = self.current(user).await?;
            let lacking = lacking(&shelf, &tried);
            if lacking.is_empty() {
                return Ok(());
            }
            for some in lacking.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>().chunks(EMBED_TOGETHER / 2) {
                let texts: Vec<&str> =
                    some.iter().flat_map(|turn| turn.iter().map(|(_, text)| text.as_str())).collect();
                tried.extend(some.iter().filter_map(|turn| turn.first()).map(|(seq, _)| *seq));
                let mut vectors = self.embedder.embed(&texts, Purpose::Passage).await?.into_iter();
                let learned: Vec<(Seq, Vec<Vec<f16>>)> = some
                    .iter()
                    .filter_map(|turn| {
                        let seq = turn.first()?.0;
                        let own = turn.iter().map(|_| {
                            let vector = vectors.next()?;
                            Some(vector.0.iter().map(|value| f16::from_f32(*value)).collect())
                        });
                        Some((seq, own.collect::<Option<Vec<Vec<f16>>>>()?))
                    })
                    .collect();
                self.keep(user, learned).await?;
            }
        }
    }

    /// Keeps vectors: in memory, and sealed in the database.
    async fn keep(&self, user: UserId, learned: Vec<(Seq, Vec<Vec<f16>>)>) -> Result<(), LayerError> {
        let (mut ids, mut versions, mut sealed) = (Vec::new(), Vec::new(), Vec::new());
        {
            let mut rooms = self.rooms();
            // Locked meanwhile: nothing more is learned.
            let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
            for (seq, vectors) in learned {
                for (collection, door) in &mut room.doors {
                    let Some(row) = door.turns.get(&seq.0).map(|opened| opened.row) else { continue };
                    let Some((version, key)) = door.keys.last_key_value() else { continue };
                    let place = Place { user, collection, row, column: VECTORS, version: *version };
                    if let Ok(bytes) = key.learned().and_then(|key| key.seal(&place, &to_bytes(&vectors))) {
                        ids.push(row);
                        versions.push(i32::try_from(*version).unwrap_or(i32::MAX));
                        sealed.push(bytes);
                    }
                    door.vectors.insert(seq, vectors);
                    break;
                }
            }
            room.stale = true;
        }
        Ok(sql::keep_vectors(&self.db, user, &self.embedder.id().0, &ids, &versions, &sealed).await?)
    }
}

/// Each passage without a vector, by its turn, in order, as it is embedded.
fn lacking(shelf: &Shelf, tried: &HashSet<Seq>) -> Vec<(Seq, Zeroizing<String>)> {
    let entries = shelf.learned.values().flat_map(|session| &session.entries);
    entries
        .filter(|entry| entry.vector.is_none())
        .map(|entry| (Seq(entry.passage.id / PARTS_PER_TURN), &entry.passage))
        .filter(|(seq, _)| !tried.contains(seq))
        .map(|(seq, passage)| (seq, Zeroizing::new(embedded_text(passage.speaker.as_deref(), &passage.text))))
        .collect()
}

fn lay_out(
    user: UserId,
    turns: &[(Collection, Vec<Arc<Opened>>)],
    vectors: &FxHashMap<Seq, Vec<Vec<f16>>>,
    before: &Shelf,
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
        let same = before
            .learned
            .get(name)
            .filter(|learned| learned.reach == reach(said) && learned.with_vectors == with_vectors(said, vectors));
        let learned = same.cloned().unwrap_or_else(|| Arc::new(Learned::of(said, vectors, ways, part_tokens)));
        (name.clone(), learned)
    };
    let learned = on_every_core(&sessions, learn).into_iter().collect();
    Shelf::new(exchanges, learned)
}

/// A row as far as it can be read.
struct Read {
    seq: i64,
    exchange: ExchangeId,
    turn: Result<Opened, SealError>,
    vectors: Option<Vec<Vec<f16>>>,
}

fn open_all(user: UserId, collection: &Collection, rows: &[sql::Row], keys: &BTreeMap<u32, SecretKey>) -> Vec<Read> {
    on_every_core(rows, |row| {
        let version = u32::try_from(row.key_version).unwrap_or(0);
        let exchange = ExchangeId(row.exchange_id);
        let place = |version| Place { user, collection, row: row.id, column: VECTORS, version };
        let turn = match keys.get(&version) {
            Some(key) => SealedTurn::open(key, place(version), &row.ciphertext),
            None => {
                let tried = keys.keys().next_back().copied().unwrap_or(0);
                Err(SealError::OtherVersion { written: version, tried })
            }
        };
        let turn = turn.map(|turn| Opened { seq: row.seq, row: row.id, exchange, turn });
        Read { seq: row.seq, exchange, turn, vectors: vectors(row, keys, place) }
    })
}

/// The vectors of a row; `None` when there are none or they cannot be read: then they are learned anew.
fn vectors<'a>(
    row: &sql::Row,
    keys: &BTreeMap<u32, SecretKey>,
    place: impl Fn(u32) -> Place<'a>,
) -> Option<Vec<Vec<f16>>> {
    let version = u32::try_from(row.vectors_version?).ok()?;
    let bytes = keys.get(&version)?.learned().ok()?.open(&place(version), row.vectors.as_deref()?).ok()?;
    from_bytes(&bytes)
}

/// How many vectors, how many numbers each, and the numbers.
fn to_bytes(vectors: &[Vec<f16>]) -> Zeroizing<Vec<u8>> {
    let dimensions = vectors.first().map_or(0, Vec::len);
    let mut bytes = Zeroizing::new(Vec::with_capacity(8 + 2 * dimensions * vectors.len()));
    for length in [vectors.len(), dimensions] {
        bytes.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
    }
    for value in vectors.iter().flatten() {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<Vec<Vec<f16>>> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let (dimensions, rest) = rest.split_first_chunk::<4>()?;
    let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
    let dimensions = usize::try_from(u32::from_le_bytes(*dimensions)).ok()?;
    if dimensions == 0 || rest.len() != count.checked_mul(dimensions)?.checked_mul(2)? {
        return None;
    }
    let vector = |row: &[u8]| row.as_chunks::<2>().0.iter().map(|value| f16::from_le_bytes(*value)).collect();
    Some(rest.chunks_exact(2 * dimensions).map(vector).collect())
}

/// `work` on each of `items`, in their order, on all cores.
fn on_every_core<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if items.len() < 64 || cores == 1 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    std::thread::scope(|scope| {
        let parts: Vec<_> = items
            .chunks(items.len().div_ceil(cores))
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        parts
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Does what takes long where it keeps nobody waiting.
async fn in_background<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_back_as_they_were_and_a_cut_row_gives_none() {
        let vectors = vec![vec![f16::from_f32(0.5), f16::from_f32(-1.0)], vec![f16::ZERO, f16::ONE]];
        let bytes = to_bytes(&vectors);

        assert_eq!(from_bytes(&bytes), Some(vectors));
        assert_eq!(from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(from_bytes(&[]), None);
    }

    #[test]
    fn work_on_all_cores_comes_back_in_order() {
        let items: Vec<usize> = (0..1_000).collect();
        assert_eq!(on_every_core(&items, |item| item + 1), (1..=1_000).collect::<Vec<_>>());
    }
}
