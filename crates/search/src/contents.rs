//! What a search reads of every passage, in memory: its vector and its words.

use half::f16;
use rustc_hash::FxHashMap;
use skymem_core::Embedding;
use skymem_core::machine::roomy;
use zeroize::Zeroize;

use crate::bm25::{Hit, Sheet};
use crate::compare::{Rows, compare, compare_all};
use crate::places::{ByPlace, PassageId, Place};

/// The vectors and words of a user's passages, by their places on a sheet.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// A row for each place, zeros where there is no vector.
    vectors: Vec<f16>,
    has_vector: Vec<bool>,
    dimensions: usize,
    /// Where each word stands. Of a passage either all words are here, or none.
    words: FxHashMap<Box<str>, Vec<Hit>>,
    has_words: Vec<bool>,
}

/// What is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lacking {
    /// The passages without a vector.
    pub vectors: Vec<PassageId>,
    /// The passages without words.
    pub words: Vec<PassageId>,
}

impl Contents {
    /// The same at the places of another sheet, as far as the passages are the same.
    #[must_use]
    pub fn carried_over(mut self, from: &Sheet, to: &Sheet) -> Self {
        if to.begins_with(from) {
            self.grow(to.passages());
            return self;
        }
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

    /// Makes room for the passages that came after all others, without copying what is there each time.
    fn grow(&mut self, places: usize) {
        let (numbers, held) = (places * self.dimensions, self.vectors.len());
        if numbers > self.vectors.capacity() {
            let mut larger = roomy(numbers + held / 16);
            larger.extend_from_slice(&self.vectors);
            self.vectors = larger;
        }
        self.vectors.resize(numbers, f16::ZERO);
        self.has_vector.resize(places, false);
        self.has_words.resize(places, false);
    }

    /// Of so many passages, without anything yet.
    #[must_use]
    pub fn of(places: usize, dimensions: usize) -> Self {
        let mut vectors = roomy(places * dimensions);
        vectors.resize(places * dimensions, f16::ZERO);
        Self {
            vectors,
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

    /// Those of the passages on `sheet` that have no vector here, and those that have no words.
    #[must_use]
    pub fn lacking(&self, sheet: &Sheet) -> Lacking {
        let lacking = |has: &[bool]| -> Vec<PassageId> {
            let ids = sheet.ids().iter().enumerate();
            ids.filter(|(place, _)| has.get(*place) != Some(&true)).map(|(_, &id)| id).collect()
        };
        Lacking { vectors: lacking(&self.has_vector), words: lacking(&self.has_words) }
    }

    /// Adds vectors of passages on `sheet`.
    pub fn add_vectors<'a>(&mut self, read: impl IntoIterator<Item = (PassageId, &'a [f16])>, sheet: &Sheet) {
        for (id, vector) in read {
            if self.has_vector.is_empty() || self.dimensions == 0 {
                let (words, has_words) = (std::mem::take(&mut self.words), std::mem::take(&mut self.has_words));
                *self = Self { words, has_words, ..Self::of(sheet.passages(), vector.len()) };
            }
            if let Some(place) = sheet.place(id) {
                self.put(place as usize, Some(vector));
            }
        }
    }

    /// Adds where words stand, of all the passages on `sheet` that had none here: what is known already is counted once.
    pub fn add_words<'a, H>(&mut self, read: impl IntoIterator<Item = (&'a str, H)>, sheet: &Sheet)
    where
        H: IntoIterator<Item = Hit>,
    {
        self.has_words.resize(sheet.passages(), false);
        let already = self.has_words.clone();
        for (term, hits) in read {
            let new = hits.into_iter().filter(|hit| already.get(hit.place as usize) == Some(&false));
            // Most words are there already: only a new one is copied.
            match self.words.get_mut(term) {
                Some(known) => known.extend(new),
                None => drop(self.words.insert(term.into(), new.collect())),
            }
        }
        self.has_words.fill(true);
    }

    /// Where those of `terms` stand that stand anywhere.
    pub fn hits<'a>(&'a self, terms: &'a [String]) -> impl Iterator<Item = &'a [Hit]> {
        terms.iter().filter_map(|term| self.words.get(term.as_str())).map(Vec::as_slice)
    }

    /// The cosine of `question` and the passage at each of `only`, or of all, that has a vector.
    pub fn cosines(&self, question: &Embedding, only: Option<&[Place]>) -> ByPlace<f32> {
        let mut cosines = ByPlace::none(self.has_vector.len());
        if question.0.len() != self.dimensions {
            return cosines;
        }
        // As the database would compare them, which holds halves.
        let question: Vec<f32> = question.0.iter().map(|&value| f16::from_f32(value).to_f32()).collect();
        let rows = Rows { vectors: &self.vectors, has_vector: &self.has_vector, dimensions: self.dimensions };
        match only {
            None => compare_all(&question, rows, &mut cosines),
            Some(only) => compare(&question, rows, only.iter().copied(), |place, cosine| cosines.put(place, cosine)),
        }
        cosines
    }

    /// Overwrites everything: for what must not stay in memory.
    pub fn wipe(&mut self) {
        self.vectors.fill(f16::ZERO);
        std::hint::black_box(&self.vectors);
        self.has_vector.clear();
        self.has_words.clear();
        for (term, mut hits) in self.words.drain() {
            String::from(term).zeroize();
            hits.clear();
        }
    }

    /// About how much memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let hits: usize = self.words.values().map(|hits| hits.capacity() * size_of::<Hit>()).sum();
        self.vectors.capacity() * size_of::<f16>() + hits + 96 * self.words.len()
    }
}

fn row(vectors: &[f16], dimensions: usize, place: usize) -> Option<&[f16]> {
    vectors.get(place * dimensions..(place + 1) * dimensions)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
    fn what_comes_after_all_others_moves_nothing() {
        let before = sheet(&[3, 5]);
        let mut known = contents(&before, &[(3, &[1.0, 0.0]), (5, &[0.0, 1.0])]);
        known.add_words([("tea", [Hit { place: 1, count: Count { all: 1, head: 0 } }])], &before);
        let after = sheet(&[3, 5, 9]);
        assert!(after.begins_with(&before) && !before.begins_with(&after));

        let mut carried = known.clone().carried_over(&before, &after);

        assert_eq!(carried.lacking(&after), Lacking { vectors: vec![9], words: vec![9] });
        assert_eq!(carried.hits(&["tea".to_owned()]).map(<[Hit]>::len).sum::<usize>(), 1);
        carried.add_vectors([(9, [f16::ONE, f16::ONE].as_slice())], &after);
        assert_eq!(cosines(&carried, &after, &[1.0, 2.0], None), [(3, 1.0), (5, 2.0), (9, 3.0)]);

        // The same ids of other words are another beginning.
        let measure = |words: f32| Measure { words, weight: 1.0 };
        let other = Sheet::new(vec![(3, None, measure(3.0)), (5, None, measure(77.0)), (9, None, measure(9.0))]);
        assert!(!other.begins_with(&before));
        assert_eq!(known.carried_over(&before, &other).lacking(&other).vectors, [5, 9]);
    }
}
