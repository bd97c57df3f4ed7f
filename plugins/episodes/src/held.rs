//! What a search reads of every passage of a user, held in memory between two questions: reading it from the database
//! for each question costs more than all the rest of a search. The database says at each search whether it is current.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use half::f16;
use half::slice::HalfFloatSliceExt;
use lru::LruCache;
use rustc_hash::FxHashMap;
use skymem_core::{Embedding, UserId};
use sqlx::PgPool;

use crate::bm25::{Hit, Sheet};
use crate::places::{ByPlace, PassageId, Place};
use crate::sql::{self, Posting};

/// So many passages may be new for a question to wait until they are read. It does not wait for more, and has the database
/// search meanwhile.
const FEW: usize = 512;

/// About what the words of a passage take.
const BYTES_OF_WORDS: usize = 400;

/// What is known of the passages of the users who asked last, as far as there is room.
#[derive(Debug, Clone)]
pub(crate) struct Held(Arc<Shared>);

/// The space that vectors are in: the embedder's id in the database, and how many numbers a vector has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) embedder: i16,
    pub(crate) dimensions: usize,
}

#[derive(Debug)]
struct Shared {
    users: Mutex<LruCache<UserId, Slot>>,
    most_bytes: usize,
    /// Of users with more passages only the sheet is held.
    most_passages: usize,
}

#[derive(Debug, Default)]
struct Slot {
    known: Option<Arc<Known>>,
    /// Whether somebody is reading what is missing.
    filling: bool,
}

impl Held {
    pub(crate) fn new(most_bytes: usize, most_passages: usize) -> Self {
        Self(Arc::new(Shared { users: Mutex::new(LruCache::unbounded()), most_bytes, most_passages }))
    }

    /// What is known of a user's passages now: as it is held, or read as far as it has changed.
    pub(crate) async fn of(&self, db: &PgPool, user: UserId, space: Option<Space>) -> sqlx::Result<Arc<Known>> {
        let id = space.map(|space| space.embedder);
        let old = self.users().get(&user).and_then(|slot| slot.known.clone());
        if let Some(old) = old
            && old.embedder == id
            && old.version == sql::version(db, user).await?
        {
            return Ok(old);
        }
        let (version, sheet) = sql::sheet(db, user).await?;
        let sheet = Arc::new(sheet);
        let bare = Known { version, embedder: id, sheet: Arc::clone(&sheet), contents: None };
        if sheet.passages() > self.0.most_passages {
            return Ok(self.keep(user, bare));
        }
        let bytes = sheet.passages() * (space.map_or(0, |space| 2 * space.dimensions) + BYTES_OF_WORDS);
        let Some(filling) = Filling::begin(self, user).filter(|_| bytes <= self.0.most_bytes) else {
            return Ok(Arc::new(bare));
        };
        let old = filling.take().filter(|old| old.embedder == id);
        let few = old.as_ref().is_some_and(|old| old.sheet.passages().abs_diff(sheet.passages()) <= FEW);
        // In a task of its own, which ends also when the question waits no longer.
        let filled = tokio::spawn({
            let (held, db) = (self.clone(), db.clone());
            async move {
                let contents = match old.map(Arc::unwrap_or_clone) {
                    Some(Known { sheet: old, contents: Some(contents), .. }) => contents.carried_over(&old, &sheet),
                    _ => Contents::default(),
                };
                let contents = contents.with_what_is_missing(&db, user, id, &sheet).await?;
                let known = held.keep(user, Known { version, embedder: id, sheet, contents: Some(contents) });
                drop(filling);
                Ok(known)
            }
        });
        if !few {
            return Ok(Arc::new(bare));
        }
        filled.await.unwrap_or_else(|_| Ok(Arc::new(bare)))
    }

    /// Reads what has changed of a user who asks, before they ask again.
    pub(crate) async fn freshen(&self, db: &PgPool, user: UserId, space: Option<Space>) -> sqlx::Result<()> {
        let is_held = self.users().contains(&user);
        if is_held {
            self.of(db, user, space).await?;
        }
        Ok(())
    }

    /// Holds nothing more of a user.
    pub(crate) fn let_go(&self, user: UserId) {
        self.users().pop(&user);
    }

    fn keep(&self, user: UserId, known: Known) -> Arc<Known> {
        let known = Arc::new(known);
        let mut users = self.users();
        users.get_or_insert_mut(user, Slot::default).known = Some(Arc::clone(&known));
        let mut bytes: usize = users.iter().map(|(_, slot)| slot.bytes()).sum();
        while bytes > self.0.most_bytes
            && let Some((_, oldest)) = users.pop_lru()
        {
            bytes -= oldest.bytes();
        }
        known
    }

    fn users(&self) -> MutexGuard<'_, LruCache<UserId, Slot>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn bytes(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.bytes())
    }
}

/// The right to read what is missing of a user, which one has at a time.
struct Filling {
    held: Held,
    user: UserId,
}

impl Filling {
    fn begin(held: &Held, user: UserId) -> Option<Self> {
        let mut users = held.users();
        let slot = users.get_or_insert_mut(user, Slot::default);
        let is_free = !std::mem::replace(&mut slot.filling, true);
        is_free.then(|| Self { held: held.clone(), user })
    }

    /// What is held so far; nobody else has it then, so that it need not be copied.
    fn take(&self) -> Option<Arc<Known>> {
        self.held.users().get_mut(&self.user)?.known.take()
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        if let Some(slot) = self.held.users().peek_mut(&self.user) {
            slot.filling = false;
        }
    }
}

/// What is known of all passages of a user.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    version: i64,
    embedder: Option<i16>,
    pub(crate) sheet: Arc<Sheet>,
    /// `None` where the database must search: too many passages, or not read yet.
    pub(crate) contents: Option<Contents>,
}

impl Known {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let contents = self.contents.as_ref().map_or(0, Contents::bytes);
        contents + 32 * self.sheet.passages()
    }
}

/// The vectors and words of a user's passages, by their places on a sheet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    /// A row for each place, zeros where there is no vector.
    vectors: Vec<f16>,
    has_vector: Vec<bool>,
    dimensions: usize,
    /// Where each word stands. Of a passage either all words are here, or none.
    words: FxHashMap<Box<str>, Vec<Hit>>,
    has_words: Vec<bool>,
}

impl Contents {
    /// The same at the places of another sheet, as far as the passages are the same.
    fn carried_over(mut self, from: &Sheet, to: &Sheet) -> Self {
        // A passage that was learned anew from other words has another length.
        let length = |sheet: &Sheet, place: Place| sheet.measure(place).map(|measure| measure.words);
        let moved: Vec<Option<Place>> = (0..)
            .zip(from.ids())
            .map(|(old, &id)| to.place(id).filter(|&new| length(to, new) == length(from, old)))
            .collect();
        let mut carried = Self::of(to.passages(), self.dimensions);
        for (old, new) in moved.iter().enumerate() {
            let Some(new) = new.map(|new| new as usize) else { continue };
            carried
                .put(new, row(&self.vectors, self.dimensions, old).filter(|_| self.has_vector.get(old) == Some(&true)));
            carried.has_words[new] = self.has_words.get(old) == Some(&true);
        }
        self.words.retain(|_, hits| {
            hits.retain_mut(|hit| match moved.get(hit.place as usize).copied().flatten() {
                Some(place) => {
                    hit.place = place;
                    true
                }
                None => false,
            });
            !hits.is_empty()
        });
        Self { words: self.words, ..carried }
    }

    fn of(places: usize, dimensions: usize) -> Self {
        Self {
            vectors: vec![f16::ZERO; places * dimensions],
            has_vector: vec![false; places],
            dimensions,
            words: FxHashMap::default(),
            has_words: vec![false; places],
        }
    }

    fn put(&mut self, place: usize, vector: Option<&[f16]>) {
        let at = place * self.dimensions;
        if let (Some(vector), Some(row)) = (vector, self.vectors.get_mut(at..at + self.dimensions))
            && vector.len() == row.len()
        {
            row.copy_from_slice(vector);
            self.has_vector[place] = true;
        }
    }

    /// With what the database has of the passages on `sheet`, and is not here.
    async fn with_what_is_missing(
        mut self,
        db: &PgPool,
        user: UserId,
        embedder: Option<i16>,
        sheet: &Sheet,
    ) -> sqlx::Result<Self> {
        let lacking = |has: &[bool]| -> Vec<PassageId> {
            let ids = sheet.ids().iter().enumerate();
            ids.filter(|(place, _)| has.get(*place) != Some(&true)).map(|(_, &id)| id).collect()
        };
        let some = |ids: &[PassageId]| (ids.len() < sheet.passages()).then(|| ids.to_vec());
        let without_vector = lacking(&self.has_vector);
        if let Some(embedder) = embedder
            && !without_vector.is_empty()
        {
            let read = sql::vectors(db, user, embedder, some(&without_vector).as_deref()).await?;
            let dimensions = read.values().next().map(|vector| vector.as_slice().len());
            if let Some(dimensions) = dimensions.filter(|_| self.has_vector.is_empty() || self.dimensions == 0) {
                let has_words = std::mem::take(&mut self.has_words);
                self = Self { words: self.words, has_words, ..Self::of(sheet.passages(), dimensions) };
            }
            for (id, vector) in read {
                if let Some(place) = sheet.place(id) {
                    self.put(place as usize, Some(vector.as_slice()));
                }
            }
        }
        let without_words = lacking(&self.has_words);
        if !without_words.is_empty() {
            let read = sql::postings(db, user, some(&without_words).as_deref()).await?;
            self.has_words.resize(sheet.passages(), false);
            self.add_words(&read, sheet);
        }
        Ok(self)
    }

    fn add_words(&mut self, read: &[Posting], sheet: &Sheet) {
        let already = self.has_words.clone();
        for posting in read {
            let hits = self.words.entry(posting.term.as_str().into()).or_default();
            // What is known already is counted once.
            hits.extend(posting.hits(sheet).filter(|hit| already.get(hit.place as usize) == Some(&false)));
        }
        self.has_words.fill(true);
    }

    /// Where those of `terms` stand that stand anywhere.
    pub(crate) fn hits<'a>(&'a self, terms: &'a [String]) -> impl Iterator<Item = &'a [Hit]> {
        terms.iter().filter_map(|term| self.words.get(term.as_str())).map(Vec::as_slice)
    }

    /// The cosine of `question` and the passage at each of `only`, or of all, that has a vector.
    pub(crate) fn cosines(&self, question: &Embedding, only: Option<&[Place]>) -> ByPlace<f32> {
        let mut cosines = ByPlace::none(self.has_vector.len());
        if question.0.len() != self.dimensions {
            return cosines;
        }
        // As the database would compare them, which holds halves.
        let question: Vec<f32> = question.0.iter().map(|&value| f16::from_f32(value).to_f32()).collect();
        let mut wide = vec![0.0; self.dimensions];
        let mut compare = |place: Place| {
            let at = place as usize;
            if self.has_vector.get(at) == Some(&true)
                && let Some(vector) = row(&self.vectors, self.dimensions, at)
            {
                vector.convert_to_f32_slice(&mut wide);
                cosines.put(place, dot(&question, &wide));
            }
        };
        match only {
            None => (0..).take(self.has_vector.len()).for_each(compare),
            Some(only) => only.iter().copied().for_each(&mut compare),
        }
        cosines
    }

    fn bytes(&self) -> usize {
        let hits: usize = self.words.values().map(|hits| hits.capacity() * size_of::<Hit>()).sum();
        size_of_val(&*self.vectors) + hits + 96 * self.words.len()
    }
}

fn row(vectors: &[f16], dimensions: usize, place: usize) -> Option<&[f16]> {
    vectors.get(place * dimensions..(place + 1) * dimensions)
}

/// How many sums run side by side, so that the compiler takes vector instructions: it may not reorder one sum of floats.
const LANES: usize = 16;

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bm25::Measure;
    use crate::words::Count;

    fn sheet(ids: &[PassageId]) -> Arc<Sheet> {
        let measure = |id: PassageId| Measure { words: (id % 100) as f32, weight: 1.0 };
        Arc::new(Sheet::new(ids.iter().map(|&id| (id, None, measure(id))).collect()))
    }

    fn contents(sheet: &Sheet, rows: &[(PassageId, &[f32])]) -> Contents {
        let mut contents = Contents::of(sheet.passages(), 2);
        for (id, row) in rows {
            let row: Vec<f16> = row.iter().map(|&value| f16::from_f32(value)).collect();
            contents.put(sheet.place(*id).unwrap() as usize, Some(&row));
        }
        contents
    }

    fn cosines(contents: &Contents, sheet: &Sheet, question: &[f32], only: Option<&[Place]>) -> Vec<(PassageId, f32)> {
        let cosines = contents.cosines(&Embedding(question.to_vec()), only);
        cosines.iter().map(|(place, cosine)| (sheet.id(place), cosine)).collect()
    }

    #[test]
    fn every_vector_is_compared_or_those_that_are_asked_for() {
        let sheet = sheet(&[3, 5, 7, 9]);
        let contents = contents(&sheet, &[(3, &[1.0, 0.0]), (5, &[0.0, 1.0]), (9, &[0.5, 0.75])]);

        assert_eq!(cosines(&contents, &sheet, &[0.0, 1.0], None), [(3, 0.0), (5, 1.0), (9, 0.75)]);
        assert_eq!(cosines(&contents, &sheet, &[0.0, 1.0], Some(&[2, 3, 8])), [(9, 0.75)]);
        assert_eq!(cosines(&contents, &sheet, &[1.0], None), [], "of another model");
    }

    #[test]
    fn what_is_known_moves_with_its_passage_and_what_is_gone_or_other_now_is_dropped() {
        let before = sheet(&[3, 5, 9]);
        let mut known = contents(&before, &[(3, &[1.0, 0.0]), (5, &[0.0, 1.0]), (9, &[0.5, 0.5])]);
        let hit = |place| Hit { place, count: Count { all: 1, head: 0 } };
        known.words = [("tea".into(), vec![hit(0), hit(2)]), ("milk".into(), vec![hit(1)])].into_iter().collect();
        known.has_words = vec![true; 3];
        let mut passages: Vec<_> = [1, 3, 9].map(|id| (id, None, Measure { words: id as f32, weight: 1.0 })).to_vec();
        passages[1].2.words = 77.0;
        let after = Sheet::new(passages);

        let carried = known.carried_over(&before, &after);

        assert_eq!(cosines(&carried, &after, &[1.0, 1.0], None), [(9, 1.0)]);
        assert_eq!(carried.has_words, [false, false, true]);
        let places: Vec<Place> = carried.words["tea"].iter().map(|hit| hit.place).collect();
        assert_eq!((places, carried.words.len()), (vec![2], 1));
    }

    #[test]
    fn a_sum_of_many_is_the_sum_of_each() {
        for length in [0, 1, 15, 16, 17, 384, 500] {
            let values: Vec<f32> = (0..length).map(|n| f32::from(n as u16 % 7)).collect();
            let expected: f32 = values.iter().map(|value| value * value).sum();
            assert!((dot(&values, &values) - expected).abs() <= expected * 1e-6, "{length}");
        }
    }

    #[test]
    fn the_users_who_asked_last_are_held_as_far_as_there_is_room() {
        let known = |passages: PassageId| {
            let sheet = sheet(&(0..passages).collect::<Vec<_>>());
            let contents = Some(Contents::of(sheet.passages(), 8));
            Known { version: 1, embedder: Some(1), sheet, contents }
        };
        let held = Held::new(3 * known(10).bytes(), 100);
        let users: Vec<UserId> = (0..4).map(|n| UserId(uuid::Uuid::from_u128(n))).collect();

        for &user in &users {
            held.keep(user, known(10));
        }
        held.keep(users[0], known(1_000));

        assert!(held.users().is_empty(), "what fits in no way is not held");
        for &user in &users {
            held.keep(user, known(10));
        }
        assert_eq!(held.users().iter().map(|(user, _)| *user).collect::<Vec<_>>(), [users[3], users[2], users[1]]);
        held.let_go(users[2]);
        assert_eq!(held.users().len(), 2);
    }

    #[test]
    fn one_at_a_time_reads_what_is_missing_of_a_user() {
        let held = Held::new(0, 100);
        let (anna, berta) = (UserId(uuid::Uuid::from_u128(1)), UserId(uuid::Uuid::from_u128(2)));

        let first = Filling::begin(&held, anna);

        assert!(first.is_some() && Filling::begin(&held, anna).is_none());
        assert!(Filling::begin(&held, berta).is_some());
        drop(first);
        assert!(Filling::begin(&held, anna).is_some());
    }
}
