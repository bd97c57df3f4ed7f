//! From what two searches found to one order: standard scores summed, small bonuses for what measurement has shown to
//! matter (figures in `tests/bench/README.md`).

use std::collections::HashMap;

use serde::Deserialize;

use crate::bm25::Words;
use crate::places::{ByPlace, Place};

/// What the searches by meaning and by words found among a user's passages, for one way of putting a question.
#[derive(Debug)]
pub struct Found {
    /// Cosines to the question, of every passage or of the nearest ones.
    pub cosines: ByPlace<f32>,
    /// Mean and standard deviation of the cosines over all of the user's passages, however many are in `cosines`.
    pub cosine_spread: Spread,
    /// BM25 scores of every passage that shares a word with the question.
    pub words: ByPlace<Words>,
    /// How many passages the user has.
    pub passages: usize,
}

/// Mean and standard deviation of a score over many passages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f32,
    /// The standard deviation.
    pub deviation: f32,
}

/// How strongly each sign of relevance counts.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Weights {
    /// Of the standard score of the cosine; that of the words counts 1.
    pub vector: f32,
    /// Of the score of the passage that follows: the answer to a question that matches.
    pub next: f32,
    /// Of the mean of the three best scores of the session.
    pub session: f32,
    /// Added when the speaker is named in the question.
    pub speaker: f32,
    /// Added when it was said in the time the question speaks of.
    pub time: f32,
    /// Of the score that a rewrite gives; that which the question's own words give counts 1.
    pub rewrite: f32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { vector: 1.3, next: 0.3, session: 0.5, speaker: 1.0, time: 0.5, rewrite: 2.0 }
    }
}

/// How many imagined passages, far from the question and without its words, stand beside the real ones: with three
/// memories, a standard score of their own would call the least bad one outstanding.
const IMAGINED: f32 = 20.0;

impl Spread {
    /// The spread of `scores` among `all` passages (the others score 0), with [`IMAGINED`] ones that are spread like
    /// `prior` beside them.
    pub fn of(scores: impl Iterator<Item = f32>, all: usize, prior: Spread) -> Spread {
        let (mut sum, mut squares) = (0.0_f64, 0.0_f64);
        for score in scores {
            sum += f64::from(score);
            squares += f64::from(score) * f64::from(score);
        }
        let imagined = f64::from(IMAGINED);
        let (prior_mean, prior_deviation) = (f64::from(prior.mean), f64::from(prior.deviation));
        let count = all as f64 + imagined;
        let mean = (sum + imagined * prior_mean) / count;
        let square = (squares + imagined * (prior_mean * prior_mean + prior_deviation * prior_deviation)) / count;
        Spread { mean: mean as f32, deviation: (square - mean * mean).max(0.0).sqrt() as f32 }
    }

    /// How many standard deviations `score` is above the mean; 0 where nothing differs.
    pub fn standard(self, score: f32) -> f32 {
        if self.deviation > 1e-6 { (score - self.mean) / self.deviation } else { 0.0 }
    }
}

/// The `eligible` passages with their standard scores summed, best first, at most `most`, and a way to look any other one
/// up. Those that are not eligible still tell what the average is.
///
/// `found` holds what the question's own words found and then, when there is a rewrite, what that found: the scores of the
/// two are averaged, so that neither a question that leans on what was said before nor a rewrite that missed the topic
/// decides alone.
pub fn rank<'a>(
    found: &'a [Found],
    weights: &Weights,
    most: usize,
    eligible: impl Fn(Place) -> bool,
) -> (Vec<(Place, f32)>, Ranking<'a>) {
    let ranking = Ranking::of(found, weights);
    let passages = found.iter().map(|found| found.passages).max().and_then(|most| Place::try_from(most).ok());
    let is_found = |place: &Place| found.iter().any(|found| found.has(*place)) && eligible(*place);
    let mut ranked: Vec<(Place, f32)> =
        (0..passages.unwrap_or(0)).filter(is_found).map(|place| (place, ranking.score(place))).collect();
    let by_score = |a: &(Place, f32), b: &(Place, f32)| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0));
    if ranked.len() > most && most > 0 {
        ranked.select_nth_unstable_by(most - 1, by_score);
        ranked.truncate(most);
    }
    ranked.sort_unstable_by(by_score);
    (ranked, ranking)
}

impl Found {
    fn has(&self, place: Place) -> bool {
        self.cosines.get(place).is_some() || self.words.get(place).is_some()
    }
}

/// The scale on which one question's passages are weighed.
#[derive(Debug)]
pub struct Ranking<'a>(Vec<Scale<'a>>);

/// The scale of one way of putting the question.
#[derive(Debug)]
struct Scale<'a> {
    found: &'a Found,
    /// What it counts of all; the shares of all scales sum to 1.
    share: f32,
    words: Spread,
    vector_weight: f32,
}

impl<'a> Ranking<'a> {
    fn of(found: &'a [Found], weights: &Weights) -> Self {
        let weight = |at: usize| if at == 0 { 1.0 } else { weights.rewrite };
        let all: f32 = (0..found.len()).map(weight).sum();
        let scale = |(at, found): (usize, &'a Found)| Scale {
            found,
            share: weight(at) / all,
            words: Spread::of(found.words.iter().map(|(_, words)| words.score), found.passages, Spread::default()),
            vector_weight: weights.vector,
        };
        Self(found.iter().enumerate().map(scale).collect())
    }

    /// The sum of a passage's standard scores, averaged over the ways of putting the question.
    pub fn score(&self, place: Place) -> f32 {
        self.0.iter().map(|scale| scale.share * scale.score(place)).sum()
    }
}

impl Scale<'_> {
    /// A passage without a vector counts as average in meaning.
    fn score(&self, place: Place) -> f32 {
        let Found { cosines, cosine_spread, words, .. } = self.found;
        let meaning = cosines.get(place).map_or(0.0, |cosine| cosine_spread.standard(cosine));
        let words = self.words.standard(words.get(place).map_or(0.0, |words| words.score));
        self.vector_weight * meaning + words
    }
}

/// What is known of a candidate when the bonuses are given.
#[derive(Debug, Clone, Copy)]
pub struct Sign<'a> {
    /// The session it was said in.
    pub session: &'a str,
    /// Its own score, from [`rank`].
    pub score: f32,
    /// The best score among the passages that follow it, if any.
    pub next: Option<f32>,
    /// Whether the question names its speaker.
    pub speaker_is_named: bool,
    /// Whether it was said in the time the question speaks of.
    pub in_time: bool,
}

/// The scores of `signs` with their bonuses, in the same order.
pub fn with_bonuses(signs: &[Sign<'_>], weights: &Weights) -> Vec<f32> {
    let mut sessions: HashMap<&str, Vec<f32>> = HashMap::new();
    for sign in signs {
        sessions.entry(sign.session).or_default().push(sign.score);
    }
    let best_of_session: HashMap<&str, f32> = sessions
        .into_iter()
        .map(|(session, mut scores)| {
            scores.sort_unstable_by(|a, b| b.total_cmp(a));
            scores.truncate(3);
            (session, scores.iter().sum::<f32>() / scores.len().max(1) as f32)
        })
        .collect();
    let bonus = |is: bool, weight: f32| if is { weight } else { 0.0 };
    signs
        .iter()
        .map(|sign| {
            sign.score
                + weights.next * sign.next.unwrap_or(0.0)
                + weights.session * best_of_session.get(sign.session).copied().unwrap_or(0.0)
                + bonus(sign.speaker_is_named, weights.speaker)
                + bonus(sign.in_time, weights.time)
        })
        .collect()
}

/// `fused` scores as relevance, 0 to 1: 1 is the best one, 0 is what an average passage has, or less.
pub fn relevance(fused: &[f32]) -> Vec<f32> {
    let best = fused.iter().copied().fold(f32::MIN, f32::max);
    let share = |score: f32| if best > 0.0 { (score / best).clamp(0.0, 1.0) } else { 0.0 };
    fused.iter().map(|&score| share(score)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 4;
    const FAR: Spread = Spread { mean: 0.8, deviation: 0.02 };

    fn found(cosines: &[(Place, f32)], words: &[(Place, f32)]) -> Found {
        let mut found = Found {
            cosines: ByPlace::none(PLACES),
            cosine_spread: Spread::of(cosines.iter().map(|c| c.1), cosines.len(), FAR),
            words: ByPlace::none(PLACES),
            passages: PLACES,
        };
        cosines.iter().for_each(|&(place, cosine)| found.cosines.put(place, cosine));
        words.iter().for_each(|&(place, score)| found.words.put(place, Words { score, covered: 0.0 }));
        found
    }

    #[test]
    fn a_passage_near_in_meaning_and_in_words_comes_first() {
        let found = [found(&[(1, 0.82), (2, 0.88), (3, 0.87)], &[(3, 5.0)])];

        let (ranked, _) = rank(&found, &Weights::default(), 10, |_| true);

        assert_eq!(ranked.iter().map(|r| r.0).collect::<Vec<_>>(), [3, 2, 1]);
    }

    #[test]
    fn words_alone_rank_when_there_is_no_vector() {
        let found = [found(&[], &[(1, 1.0), (2, 3.0)])];

        let (ranked, _) = rank(&found, &Weights::default(), 1, |_| true);

        assert_eq!(ranked[0].0, 2);
        assert_eq!(ranked.len(), 1);
    }

    #[test]
    fn a_single_memory_is_not_called_outstanding_for_being_alone() {
        let far = [found(&[(1, 0.80)], &[])];
        let (ranked, _) = rank(&far, &Weights::default(), 10, |_| true);

        assert!(ranked[0].1.abs() < 0.1, "{ranked:?}");
    }

    #[test]
    fn a_rewrite_counts_for_more_than_the_questions_own_words_and_never_alone() {
        let found = [found(&[], &[(1, 4.0), (3, 3.0)]), found(&[], &[(2, 4.0), (3, 3.0)])];
        let order = |rewrite| {
            let (ranked, _) = rank(&found, &Weights { rewrite, ..Weights::default() }, 10, |_| true);
            ranked.iter().map(|r| r.0).collect::<Vec<_>>()
        };

        assert_eq!(order(2.0), [3, 2, 1], "what both find comes first");
        assert_eq!(order(0.0), [1, 3, 2], "a rewrite that counts for nothing changes nothing");
    }

    #[test]
    fn a_question_without_a_rewrite_is_weighed_by_its_own_words() {
        let found = [found(&[(1, 0.82), (2, 0.88)], &[(2, 5.0), (3, 1.0)])];

        let (ranked, ranking) = rank(&found, &Weights::default(), 10, |_| true);

        let words = Spread::of([5.0_f32, 1.0].into_iter(), PLACES, Spread::default());
        let expected = 1.3 * found[0].cosine_spread.standard(0.88) + words.standard(5.0);
        assert_eq!((ranked[0], ranked.len()), ((2, expected), 3));
        assert_eq!(ranking.score(2), expected);
    }

    #[test]
    fn an_answer_lifts_the_question_before_it() {
        let sign = |score, next| Sign { session: "a", score, next, speaker_is_named: false, in_time: false };

        let fused = with_bonuses(&[sign(1.0, Some(5.0)), sign(1.0, None)], &Weights::default());

        assert!(fused[0] > fused[1]);
    }

    #[test]
    fn relevance_is_between_nought_and_one() {
        assert_eq!(relevance(&[4.0, 2.0, -3.0]), [1.0, 0.5, 0.0]);
        assert_eq!(relevance(&[-4.0, -2.0]), [0.0, 0.0]);
        assert!(relevance(&[]).is_empty());
    }
}
