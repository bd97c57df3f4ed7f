//! Whether a passage bears on the question at all. Search gives an order, however far away everything is; this says where
//! the order ends, so that nothing relevant is an answer.

use crate::fuse::Spread;

/// What sharing all of a question's words counts, in standard deviations of nearness. Figures in `tests/bench/README.md`.
const ALL_WORDS: f32 = 5.0;

/// What being said in the time that the question speaks of counts: "what was it yesterday?" has few other words.
const IN_TIME: f32 = 2.5;

/// The bar is never lower: in a memory of a few passages, ...
const LOWEST_BAR: f32 = 2.0;

/// ... nor higher: in a memory of thousands, what answers a question does not come nearer than in a small one.
const HIGHEST_BAR: f32 = 4.0;

/// What speaks for a passage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Its cosine with the question, and what unrelated passages' cosines are; `None` without vectors.
    pub nearness: Option<(f32, Spread)>,
    /// How much of the question's words it shares, rare ones counting more, 0 to 1.
    pub covered: f32,
    /// Whether it was said in the time the question speaks of.
    pub in_time: bool,
}

impl Evidence {
    /// In standard deviations above what is unrelated. Words alone must do without vectors: sharing one is enough then.
    pub fn weight(&self) -> f32 {
        let time = if self.in_time { IN_TIME } else { 0.0 };
        match self.nearness {
            Some((cosine, unrelated)) => unrelated.standard(cosine) + ALL_WORDS * self.covered + time,
            None if self.covered > 0.0 => HIGHEST_BAR,
            None => time,
        }
    }
}

/// What the evidence for a passage must weigh in a memory of so many: what the nearest of as many unrelated ones would
/// hardly reach. It is the universal threshold `sqrt(2 ln n)` of Donoho and Johnstone (1994), within bounds.
pub fn bar(passages: usize) -> f32 {
    (2.0 * (passages.max(1) as f32).ln()).sqrt().clamp(LOWEST_BAR, HIGHEST_BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNRELATED: Spread = Spread { mean: 0.7, deviation: 0.02 };

    fn check(cosine: f32, covered: f32, in_time: bool, passages: usize, related: bool) {
        let evidence = Evidence { nearness: Some((cosine, UNRELATED)), covered, in_time };
        assert_eq!(evidence.weight() >= bar(passages), related, "{evidence:?} among {passages}");
    }

    #[test]
    fn what_is_far_nearer_than_unrelated_passages_are_bears_on_the_question() {
        check(0.80, 0.0, false, 500, true);
        check(0.75, 0.0, false, 500, false);
    }

    #[test]
    fn a_small_memory_asks_for_less_than_a_large_one() {
        check(0.75, 0.0, false, 10, true);
        check(0.77, 0.0, false, 10_000, false);
        assert_eq!(bar(0), LOWEST_BAR);
        assert_eq!(bar(1_000_000), HIGHEST_BAR);
    }

    #[test]
    fn shared_words_and_the_right_time_make_up_for_distance() {
        check(0.72, 0.1, false, 500, false);
        check(0.72, 0.6, false, 500, true);
        check(0.72, 0.1, true, 500, true);
    }

    #[test]
    fn without_vectors_one_shared_word_is_enough() {
        let evidence = |covered| Evidence { nearness: None, covered, in_time: false };
        assert!(evidence(0.01).weight() >= bar(1_000));
        assert!(evidence(0.0).weight() < bar(1_000));
    }
}
