//! Search by words: BM25 over each passage and the first words of the one it follows.

use crate::fuse::{ByPassage, PassageId};
use crate::words::Count;

/// How fast more of the same word stops counting.
const K1: f32 = 1.5;

/// How much long passages are held back.
const B: f32 = 0.75;

/// The score of every passage that shares a word with the question; `hits` holds, for each of its terms, where it stands.
///
/// A passage is searched by its own words and by the first ones of the passage it follows, so that "Yes, on Monday" is
/// found by the question it answers. Lucene's formula: `idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, k1 = 1.5, b = 0.75.
pub(crate) fn scores(hits: &[Vec<Hit>], sheet: &Sheet) -> ByPassage<f32> {
    let mut scores: ByPassage<f32> = ByPassage::default();
    let mut counts: ByPassage<f32> = ByPassage::default();
    for hits in hits {
        counts.clear();
        for hit in hits {
            *counts.entry(hit.id).or_default() += f32::from(hit.count.all);
            if hit.count.head > 0 {
                for follower in sheet.followers(hit.id) {
                    *counts.entry(follower).or_default() += f32::from(hit.count.head);
                }
            }
        }
        let holders = counts.len() as f32;
        let rarity = (1.0 + (sheet.passages() as f32 - holders + 0.5).max(0.0) / (holders + 0.5)).ln();
        for (&id, &count) in &counts {
            let Some(measure) = sheet.measures.get(&id) else { continue };
            let length = 1.0 - B + B * measure.words / sheet.mean_words;
            *scores.entry(id).or_default() += measure.weight * rarity * count * (K1 + 1.0) / (count + K1 * length);
        }
    }
    scores
}

/// A term in a passage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) id: PassageId,
    pub(crate) count: Count,
}

/// What bears on a passage's score besides its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measure {
    /// How many words it is searched by.
    pub(crate) words: f32,
    /// What its score is multiplied with.
    pub(crate) weight: f32,
}

/// All passages of a user: how long they are, and which follows which.
#[derive(Debug)]
pub(crate) struct Sheet {
    measures: ByPassage<Measure>,
    mean_words: f32,
    /// Pairs of a passage and one that follows it, sorted.
    follows: Vec<(PassageId, PassageId)>,
}

impl Sheet {
    /// `follows` are pairs of a passage and one that follows it, in any order.
    pub(crate) fn new(measures: ByPassage<Measure>, mut follows: Vec<(PassageId, PassageId)>) -> Self {
        follows.sort_unstable();
        let all: f32 = measures.values().map(|measure| measure.words).sum();
        let mean_words = (all / measures.len().max(1) as f32).max(1.0);
        Self { measures, mean_words, follows }
    }

    /// How many passages there are.
    pub(crate) fn passages(&self) -> usize {
        self.measures.len()
    }

    /// The passages that follow one: the answer to a question, in all its parts.
    pub(crate) fn followers(&self, id: PassageId) -> impl Iterator<Item = PassageId> + '_ {
        let first = self.follows.partition_point(|(followed, _)| *followed < id);
        self.follows[first..].iter().take_while(move |(followed, _)| *followed == id).map(|(_, follower)| *follower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(words: &[f32], follows: &[(PassageId, PassageId)]) -> Sheet {
        let measures = words.iter().zip(1..).map(|(&words, id)| (id, Measure { words, weight: 1.0 })).collect();
        Sheet::new(measures, follows.to_vec())
    }

    fn hit(id: PassageId, all: i16, head: i16) -> Hit {
        Hit { id, count: Count { all, head } }
    }

    #[test]
    fn the_score_is_lucenes() {
        let sheet = sheet(&[10.0, 20.0, 30.0], &[]);

        let scores = scores(&[vec![hit(1, 2, 2)]], &sheet);

        let idf = (1.0_f32 + 2.5 / 1.5).ln();
        let expected = idf * 2.0 * 2.5 / (2.0 + 1.5 * (0.25 + 0.75 * 0.5));
        assert!((scores[&1] - expected).abs() < 1e-5);
        assert_eq!(scores.len(), 1);
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one_and_a_short_passage_more_than_a_long_one() {
        let sheet = sheet(&[10.0, 10.0, 40.0, 10.0], &[]);

        let scores = scores(&[vec![hit(1, 1, 0)], vec![hit(2, 1, 0), hit(3, 1, 0), hit(4, 1, 0)]], &sheet);

        assert!(scores[&1] > scores[&2]);
        assert!(scores[&2] > scores[&3]);
    }

    #[test]
    fn an_answer_is_found_by_the_first_words_of_its_question() {
        let sheet = sheet(&[10.0, 10.0], &[(1, 2)]);

        let by_head = scores(&[vec![hit(1, 1, 1)]], &sheet);
        let by_tail = scores(&[vec![hit(1, 1, 0)]], &sheet);

        assert!(by_head.contains_key(&2));
        assert!(!by_tail.contains_key(&2));
    }

    #[test]
    fn a_passage_that_is_gone_has_no_score() {
        assert!(scores(&[vec![hit(9, 1, 1)]], &sheet(&[10.0], &[])).is_empty());
    }
}
