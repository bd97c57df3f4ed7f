//! What a search reads of every passage of a user, held in memory between two questions: reading it from the database
//! for each question costs more than all the rest of a search. The database says at each search whether it is current.

use std::sync::{Arc, Mutex, PoisonError};

use half::f16;
use half::slice::HalfFloatSliceExt;
use lru::LruCache;
use skymem_core::{Embedding, UserId};
use sqlx::PgPool;

use crate::bm25::Sheet;
use crate::fuse::{ByPassage, PassageId};
use crate::sql;

/// The sheets and vectors of the users who asked last, as far as there is room.
#[derive(Debug)]
pub(crate) struct Held {
    users: Mutex<LruCache<UserId, Arc<Known>>>,
    most_bytes: usize,
    /// Of users with more passages the sheet alone is held.
    most_vectors: usize,
}

impl Held {
    pub(crate) fn new(most_bytes: usize, most_vectors: usize) -> Self {
        Self { users: Mutex::new(LruCache::unbounded()), most_bytes, most_vectors }
    }

    /// What is known of a user's passages now: as it is held, or read as far as it has changed.
    pub(crate) async fn of(&self, db: &PgPool, user: UserId, embedder: Option<i16>) -> sqlx::Result<Arc<Known>> {
        let old = self.users().get(&user).cloned();
        if let Some(old) = &old
            && old.embedder == embedder
            && old.version == sql::version(db, user).await?
        {
            return Ok(Arc::clone(old));
        }
        let (version, sheet) = sql::sheet(db, user).await?;
        let vectors = match embedder {
            Some(embedder) if sheet.passages() <= self.most_vectors => {
                let old = old.as_deref().filter(|old| old.embedder == Some(embedder));
                Some(Vectors::of(db, user, embedder, &sheet, old).await?)
            }
            _ => None,
        };
        let known = Arc::new(Known { version, embedder, sheet, vectors });
        self.keep(user, &known);
        Ok(known)
    }

    /// Reads what has changed of a user who asks, before they ask again.
    pub(crate) async fn freshen(&self, db: &PgPool, user: UserId, embedder: Option<i16>) -> sqlx::Result<()> {
        let is_held = self.users().contains(&user);
        if is_held {
            self.of(db, user, embedder).await?;
        }
        Ok(())
    }

    /// Holds nothing more of a user.
    pub(crate) fn let_go(&self, user: UserId) {
        self.users().pop(&user);
    }

    fn keep(&self, user: UserId, known: &Arc<Known>) {
        let mut users = self.users();
        users.put(user, Arc::clone(known));
        let mut bytes: usize = users.iter().map(|(_, known)| known.bytes()).sum();
        while bytes > self.most_bytes
            && let Some((_, oldest)) = users.pop_lru()
        {
            bytes -= oldest.bytes();
        }
    }

    fn users(&self) -> std::sync::MutexGuard<'_, LruCache<UserId, Arc<Known>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of all passages of a user.
#[derive(Debug)]
pub(crate) struct Known {
    version: i64,
    embedder: Option<i16>,
    pub(crate) sheet: Sheet,
    /// `None` of a user who has too many to compare them all.
    pub(crate) vectors: Option<Vectors>,
}

impl Known {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let vectors = self.vectors.as_ref().map_or(0, |vectors| size_of_val(&*vectors.values) + 8 * vectors.ids.len());
        vectors + 48 * self.sheet.passages()
    }
}

/// The vectors of a user's passages, as the database has them, in the order of `ids`.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    ids: Vec<PassageId>,
    values: Vec<f16>,
    dimensions: usize,
}

impl Vectors {
    /// Those of all passages on `sheet` that have one; what `old` holds of them is not read again.
    async fn of(db: &PgPool, user: UserId, embedder: i16, sheet: &Sheet, old: Option<&Known>) -> sqlx::Result<Self> {
        // A passage that was learned anew from other words has another length.
        let held = |id: PassageId| {
            let known = old.filter(|old| old.sheet.words(id) == sheet.words(id))?;
            known.vectors.as_ref()?.get(id)
        };
        let ids = sheet.ids();
        let missing: Vec<PassageId> = ids.iter().copied().filter(|&id| held(id).is_none()).collect();
        let all = missing.len() == ids.len();
        let read = match missing.is_empty() {
            true => ByPassage::default(),
            false => sql::vectors(db, user, embedder, (!all).then_some(&*missing)).await?,
        };
        let mut vectors = Self::default();
        for id in ids {
            if let Some(vector) = held(id).or_else(|| Some(read.get(&id)?.as_slice())) {
                vectors.push(id, vector);
            }
        }
        Ok(vectors)
    }

    fn push(&mut self, id: PassageId, vector: &[f16]) {
        if self.ids.is_empty() {
            self.dimensions = vector.len();
        }
        if vector.len() == self.dimensions {
            self.ids.push(id);
            self.values.extend_from_slice(vector);
        }
    }

    fn get(&self, id: PassageId) -> Option<&[f16]> {
        let place = self.ids.binary_search(&id).ok()? * self.dimensions;
        self.values.get(place..place + self.dimensions)
    }

    /// The cosine of `question` and every passage, or those of `only` that have a vector.
    pub(crate) fn cosines(&self, question: &Embedding, only: Option<&[PassageId]>) -> ByPassage<f32> {
        if question.0.len() != self.dimensions {
            return ByPassage::default();
        }
        // As the database would compare them, which holds halves.
        let question: Vec<f32> = question.0.iter().map(|&value| f16::from_f32(value).to_f32()).collect();
        let mut row = vec![0.0; self.dimensions];
        let mut cosine = |vector: &[f16]| {
            vector.convert_to_f32_slice(&mut row);
            dot(&question, &row)
        };
        match only {
            None => {
                let vectors = self.values.chunks_exact(self.dimensions.max(1));
                self.ids.iter().zip(vectors).map(|(&id, vector)| (id, cosine(vector))).collect()
            }
            Some(only) => only.iter().filter_map(|&id| Some((id, cosine(self.get(id)?)))).collect(),
        }
    }
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

    fn vectors(rows: &[(PassageId, &[f32])]) -> Vectors {
        let mut vectors = Vectors::default();
        for (id, row) in rows {
            vectors.push(*id, &row.iter().map(|&value| f16::from_f32(value)).collect::<Vec<_>>());
        }
        vectors
    }

    #[test]
    fn every_vector_is_compared_or_those_that_are_asked_for() {
        let vectors = vectors(&[(3, &[1.0, 0.0]), (5, &[0.0, 1.0]), (9, &[0.6, 0.8])]);
        let question = Embedding(vec![0.0, 1.0]);

        let all = vectors.cosines(&question, None);
        let some = vectors.cosines(&question, Some(&[9, 4]));

        assert_eq!((all.len(), all[&3], all[&5]), (3, 0.0, 1.0));
        assert_eq!(some.into_iter().collect::<Vec<_>>(), [(9, all[&9])]);
        assert!((all[&9] - 0.8).abs() < 1e-3);
        assert!(vectors.cosines(&Embedding(vec![1.0]), None).is_empty(), "of another model");
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
        let known = |passages: usize| {
            let rows: Vec<(PassageId, Vec<f32>)> = (0..passages).map(|id| (id as i64, vec![0.1; 8])).collect();
            let rows: Vec<(PassageId, &[f32])> = rows.iter().map(|(id, row)| (*id, row.as_slice())).collect();
            let sheet = Sheet::new(ByPassage::default(), Vec::new());
            Arc::new(Known { version: 1, embedder: Some(1), sheet, vectors: Some(vectors(&rows)) })
        };
        let held = Held::new(3 * known(10).bytes(), 100);
        let users: Vec<UserId> = (0..4).map(|n| UserId(uuid::Uuid::from_u128(n))).collect();

        for &user in &users {
            held.keep(user, &known(10));
        }
        held.keep(users[0], &known(1_000));

        assert!(held.users().is_empty(), "what fits in no way is not held");
        for &user in &users {
            held.keep(user, &known(10));
        }
        assert_eq!(held.users().iter().map(|(user, _)| *user).collect::<Vec<_>>(), [users[3], users[2], users[1]]);
        held.let_go(users[2]);
        assert_eq!(held.users().len(), 2);
    }
}
