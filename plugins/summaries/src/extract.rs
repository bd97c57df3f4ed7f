//! Choosing sentences that stand for all: the most central ones that do not repeat each other. Pure.

use std::collections::BTreeMap;

use skymem_core::{Embedding, Tokens};

/// How much it counts to stand for many; the rest is how much it counts to say something new.
const CENTRALITY: f32 = 0.7;

/// Nearer than this, a line says nothing that the other does not say.
const SAME: f32 = 0.97;

/// A line that may be chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) price: Tokens,
    /// How much it counts by who said it and how, about 1.
    pub(crate) weight: f32,
}

/// How near the candidates are to each other: a cosine for each pair.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Nearness {
    cosines: Vec<Vec<f32>>,
}

impl Nearness {
    /// By meaning. Some embedders find all texts near each other: what is farthest apart here is not near at all.
    pub(crate) fn of_meanings(meanings: &[&Embedding]) -> Self {
        let cosine = |one: usize, other: usize| match (meanings.get(one), meanings.get(other)) {
            (Some(one), Some(other)) => one.cosine(other).min(1.0),
            _ => 0.0,
        };
        let raw = Self::of(meanings.len(), cosine);
        let pairs = (0..meanings.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
        let least = pairs.map(|(one, other)| raw.between(one, other)).fold(1.0_f32, f32::min);
        let range = (1.0 - least).max(f32::EPSILON);
        Self::of(meanings.len(), |one, other| (raw.between(one, other) - least) / range)
    }

    /// By the words they share; rare ones count more.
    pub(crate) fn of_words(texts: &[BTreeMap<String, f32>]) -> Self {
        let mut within: BTreeMap<&str, f32> = BTreeMap::new();
        for word in texts.iter().flat_map(BTreeMap::keys) {
            *within.entry(word).or_insert(0.0) += 1.0;
        }
        let rarity = |word: &str| (1.0 + texts.len() as f32 / within.get(word).copied().unwrap_or(1.0)).ln();
        let weighed: Vec<BTreeMap<&str, f32>> = texts
            .iter()
            .map(|words| {
                let weighed: BTreeMap<&str, f32> =
                    words.iter().map(|(word, count)| (word.as_str(), (1.0 + count.ln()) * rarity(word))).collect();
                let length = weighed.values().map(|weight| weight * weight).sum::<f32>().sqrt().max(f32::EPSILON);
                weighed.into_iter().map(|(word, weight)| (word, weight / length)).collect()
            })
            .collect();
        Self::of(texts.len(), |one, other| match (weighed.get(one), weighed.get(other)) {
            (Some(one), Some(other)) => {
                one.iter().map(|(word, weight)| weight * other.get(word).copied().unwrap_or(0.0)).sum()
            }
            _ => 0.0,
        })
    }

    fn of(count: usize, cosine: impl Fn(usize, usize) -> f32) -> Self {
        let mut cosines = vec![vec![0.0; count]; count];
        for one in 0..count {
            for other in 0..one {
                let value = cosine(one, other);
                for (row, column) in [(one, other), (other, one)] {
                    if let Some(cell) = cosines.get_mut(row).and_then(|row| row.get_mut(column)) {
                        *cell = value;
                    }
                }
            }
        }
        Self { cosines }
    }

    fn between(&self, one: usize, other: usize) -> f32 {
        self.cosines.get(one).and_then(|row| row.get(other)).copied().unwrap_or(0.0)
    }

    /// How near a candidate is to all others on the average, the nearest of all having 1.
    fn centrality(&self) -> Vec<f32> {
        let sums: Vec<f32> = self.cosines.iter().map(|row| row.iter().sum()).collect();
        let most = sums.iter().copied().fold(f32::EPSILON, f32::max);
        sums.into_iter().map(|sum| sum / most).collect()
    }
}

/// The places of the candidates to keep, in order; together they cost `most` at the most. All, when all fit; else none
/// that says the same as another.
#[must_use]
pub(crate) fn choose(candidates: &[Candidate], nearness: &Nearness, most: Tokens) -> Vec<usize> {
    if candidates.iter().map(|candidate| candidate.price).sum::<Tokens>() <= most {
        return (0..candidates.len()).collect();
    }
    let centrality = nearness.centrality();
    let mut left = most;
    let mut chosen: Vec<usize> = Vec::new();
    let mut open: Vec<usize> = (0..candidates.len()).collect();
    let mut repeats = vec![0.0_f32; candidates.len()];
    loop {
        open.retain(|place| candidates.get(*place).is_some_and(|candidate| candidate.price <= left));
        let worth = |place: usize| {
            let weight = candidates.get(place).map_or(0.0, |candidate| candidate.weight);
            let central = centrality.get(place).copied().unwrap_or(0.0);
            CENTRALITY * central * weight - (1.0 - CENTRALITY) * repeats.get(place).copied().unwrap_or(0.0)
        };
        // Of two that are worth the same the earlier: the same every time.
        let best = open.iter().copied().rev().max_by(|one, other| worth(*one).total_cmp(&worth(*other)));
        let Some(best) = best else { break };
        left = left.less(candidates.get(best).map_or(Tokens(0), |candidate| candidate.price));
        chosen.push(best);
        for (place, repeat) in repeats.iter_mut().enumerate() {
            *repeat = repeat.max(nearness.between(place, best));
        }
        open.retain(|place| *place != best && repeats.get(*place).is_some_and(|repeat| *repeat < SAME));
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::said::words;

    fn chosen(lines: &[&str], most: usize) -> Vec<usize> {
        let candidates: Vec<Candidate> = lines.iter().map(|_| Candidate { price: Tokens(10), weight: 1.0 }).collect();
        let nearness = Nearness::of_words(&lines.iter().map(|line| words(line)).collect::<Vec<_>>());
        choose(&candidates, &nearness, Tokens(most))
    }

    #[test]
    fn what_fits_is_kept_whole() {
        assert_eq!(chosen(&["a b", "c d"], 20), [0, 1]);
    }

    #[test]
    fn the_sentence_that_shares_most_with_all_comes_first() {
        let lines = ["bread and salt", "a ship sails to Oslo", "Oslo is cold", "a cold ship"];
        assert_eq!(chosen(&lines, 10), [3]);
    }

    #[test]
    fn what_says_the_same_again_makes_room_for_something_else() {
        let lines = ["the old ship sails to Oslo", "the old ship sails to Oslo", "Oslo has a harbour"];
        assert_eq!(chosen(&lines, 20), [0, 2]);
    }

    #[test]
    fn meanings_are_compared_like_words() {
        let meanings = [Embedding(vec![1.0, 0.0]), Embedding(vec![0.8, 0.6]), Embedding(vec![0.0, 1.0])];
        let nearness = Nearness::of_meanings(&meanings.iter().collect::<Vec<_>>());
        let candidates = [Candidate { price: Tokens(5), weight: 1.0 }; 3];

        assert_eq!(choose(&candidates, &nearness, Tokens(5)), [1], "it stands between the two");
    }

    proptest! {
        #[test]
        fn a_choice_is_in_order_affordable_and_always_the_same(
            lines in prop::collection::vec("[a-e]( [a-e]){0,5}", 0..12),
            prices in prop::collection::vec(1_usize..30, 12),
            most in 0_usize..120,
        ) {
            let candidates: Vec<Candidate> =
                lines.iter().zip(&prices).map(|(_, price)| Candidate { price: Tokens(*price), weight: 1.0 }).collect();
            let nearness = Nearness::of_words(&lines.iter().map(|line| words(line)).collect::<Vec<_>>());

            let chosen = choose(&candidates, &nearness, Tokens(most));

            prop_assert!(chosen.is_sorted_by(|one, other| one < other));
            prop_assert!(chosen.iter().map(|place| candidates[*place].price).sum::<Tokens>() <= Tokens(most));
            prop_assert_eq!(&chosen, &choose(&candidates, &nearness, Tokens(most)));
            let rest = Tokens(most).less(chosen.iter().map(|place| candidates[*place].price).sum());
            for place in (0..candidates.len()).filter(|place| !chosen.contains(place)) {
                let said = chosen.iter().any(|other| nearness.between(place, *other) >= SAME);
                prop_assert!(said || candidates[place].price > rest, "there was room for {}", place);
            }
        }
    }
}
