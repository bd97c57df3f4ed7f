//! Search by words: BM25 over each passage and the first words of the one it follows.

use crate::fuse::{ByPassage, PassageId};
use crate::words::Count;

/// How fast more of the same word stops counting.
const K1: f32 = 1.5;

/// How much long passages are held back.
const B: f32 = 0.75;

/// As many rare words are enough to cover a question: one with a page pasted before it is not covered by its own words
/// either.
const ENOUGH_WORDS: f32 = 5.0;

/// The score of every passage that shares a word with the question; `hits` holds, for each of its terms, where it stands.
///
/// A passage is searched by its own words and by the first ones of the passage it follows, so that "Yes, on Monday" is
/// found by the question it answers. Lucene's formula: `idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, k1 = 1.5, b = 0.75.
pub(crate) fn scores(hits: &[Vec<Hit>], sheet: &Sheet) -> ByPassage<Words> {
    let mut scores: ByPassage<Words> = ByPassage::default();
    let mut counts: ByPassage<f32> = ByPassage::default();
    let mut asked_for = 0.0;
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
        let rarity = rarity(counts.len(), sheet.passages());
        asked_for += rarity;
        for (&id, &count) in &counts {
            let Some(measure) = sheet.measures.get(&id) else { continue };
            let length = 1.0 - B + B * measure.words / sheet.mean_words;
            let words = scores.entry(id).or_default();
            words.score += measure.weight * rarity * count * (K1 + 1.0) / (count + K1 * length);
            words.covered += rarity;
        }
    }
    let enough = asked_for.min(ENOUGH_WORDS * rarity(1, sheet.passages()));
    if enough > 0.0 {
        scores.values_mut().for_each(|words| words.covered = (words.covered / enough).min(1.0));
    }
    scores
}

/// How much a word counts that so many of all passages hold.
fn rarity(holders: usize, passages: usize) -> f32 {
    let (holders, passages) = (holders as f32, passages as f32);
    (1.0 + (passages - holders + 0.5).max(0.0) / (holders + 0.5)).ln()
}

/// What the question's words say of a passage.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Words {
    /// BM25.
    pub(crate) score: f32,
    /// How much of the question's words it shares, rare ones counting more, 0 to 1.
    pub(crate) covered: f32,
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

    /// All of them, in order.
    pub(crate) fn ids(&self) -> Vec<PassageId> {
        let mut ids: Vec<PassageId> = self.measures.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many words a passage is searched by; `None` for one that is not there.
    pub(crate) fn words(&self, id: PassageId) -> Option<f32> {
        self.measures.get(&id).map(|measure| measure.words)
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
        assert!((scores[&1].score - expected).abs() < 1e-5);
        assert_eq!(scores.len(), 1);
    }

    #[test]
    fn a_rare_word_counts_more_than_a_common_one_and_a_short_passage_more_than_a_long_one() {
        let sheet = sheet(&[10.0, 10.0, 40.0, 10.0], &[]);

        let scores = scores(&[vec![hit(1, 1, 0)], vec![hit(2, 1, 0), hit(3, 1, 0), hit(4, 1, 0)]], &sheet);

        assert!(scores[&1].score > scores[&2].score);
        assert!(scores[&2].score > scores[&3].score);
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
    fn a_question_is_covered_by_the_words_it_shares_and_rare_ones_cover_more() {
        let sheet = sheet(&[10.0; 20], &[]);
        let common = (2..=11).map(|id| hit(id, 1, 0)).collect::<Vec<_>>();

        let both = scores(&[vec![hit(1, 3, 0)], vec![hit(1, 1, 0)]], &sheet);
        let rare = scores(&[vec![hit(1, 1, 0)], common.clone()], &sheet);
        let unheard = scores(&[vec![hit(1, 1, 0)], Vec::new(), Vec::new()], &sheet);

        assert!((both[&1].covered - 1.0).abs() < 1e-6, "a word is shared or not, however often");
        assert!(rare[&1].covered > rare[&2].covered && rare[&1].covered < 1.0);
        assert!(unheard[&1].covered < 0.4, "words that nobody ever said were asked for too");
    }

    #[test]
    fn some_rare_words_cover_a_question_however_long_it_is() {
        let sheet = sheet(&[10.0; 20], &[]);
        let mut hits = vec![Vec::new(); 500];
        hits.extend((0..3).map(|_| vec![hit(1, 1, 0)]));

        assert!(scores(&hits, &sheet)[&1].covered > 0.5);
    }

    #[test]
    fn a_passage_that_is_gone_has_no_score() {
        assert!(scores(&[vec![hit(9, 1, 1)]], &sheet(&[10.0], &[])).is_empty());
    }
}
