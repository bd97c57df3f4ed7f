//! From what was found to candidates with all their scores.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use skymem_core::{Embedding, Fate, Query};

use crate::bm25::{Sheet, Words};
use crate::calibrate::Background;
use crate::choose::{Candidate, Near, Passage};
use crate::decay::Decay;
use crate::fuse::{self, Found, Ranking, Sign, Spread, Weights};
use crate::places::{ByPlace, PassageId, Place};
use crate::related::{self, Evidence};
use crate::words::{Language, plain_words, question_terms};

/// What one question's passages are weighed by.
#[derive(Clone, Copy)]
pub struct Weighing<'a> {
    /// The question.
    pub query: &'a Query,
    /// The ways in which it is put.
    pub ways: &'a [Way<'a>],
    /// What each way found.
    pub found: &'a [Found],
    /// Their scale.
    pub ranking: &'a Ranking<'a>,
    /// All passages.
    pub sheet: &'a Sheet,
    /// What unrelated means to the embedder, if it was ever met.
    pub background: Option<&'a Background>,
    /// How strongly each sign counts.
    pub weights: &'a Weights,
    /// How what has no rule of its own fades.
    pub decay: Decay,
}

impl Weighing<'_> {
    /// The passages of `known` as candidates with all their scores. `fate` says what keeps one out whatever its score;
    /// [`Fate::BelowLimit`] for what may be chosen.
    pub fn candidates(&self, known: Vec<Known>, fate: impl Fn(PassageId) -> Fate) -> Vec<Candidate> {
        let Self { query, ways, found, ranking, sheet, background, weights, decay } = *self;
        // One that was learned since stands at no place, and was found by nothing.
        let places: Vec<Option<Place>> = known.iter().map(|known| sheet.place(known.passage.id)).collect();
        let named: HashSet<String> = ways.iter().flat_map(|way| plain_words(way.text)).collect();
        let signs: Vec<Sign<'_>> = known
            .iter()
            .zip(&places)
            .map(|(known, place)| Sign {
                session: &known.passage.session_id,
                score: place.map_or(0.0, |place| ranking.score(place)),
                next: place.and_then(|place| sheet.followers(place).map(|next| ranking.score(next)).reduce(f32::max)),
                speaker_is_named: known.passage.speaker.as_deref().is_some_and(|name| is_named(name, &named)),
                in_time: query.time_hint.is_some_and(|time| time.contains(known.passage.occurred_at)),
            })
            .collect();
        let fused = fuse::with_bonuses(&signs, weights);
        let relevance = fuse::relevance(&fused);
        let unrelated: Vec<Option<Spread>> = ways.iter().map(|way| Some(background?.around(way.embedding?))).collect();
        let bar = related::bar(sheet.passages());
        let in_time: Vec<bool> = signs.iter().map(|sign| sign.in_time).collect();
        known
            .into_iter()
            .zip(places)
            .zip(in_time)
            .zip(fused.into_iter().zip(relevance))
            .map(|(((known, place), in_time), (fused, relevance))| {
                let id = known.passage.id;
                let near = |(found, unrelated): (&Found, &Option<Spread>)| {
                    let cosine = place.and_then(|place| found.cosines.get(place));
                    let words = place.and_then(|place| found.words.get(place)).unwrap_or_default();
                    let nearness = cosine.zip(*unrelated);
                    let evidence = Evidence { nearness, covered: words.covered, in_time }.weight();
                    Near { cosine, words: words.score, evidence }
                };
                let near: Vec<Near> = found.iter().zip(&unrelated).map(near).collect();
                let related = near.iter().any(|near| near.evidence >= bar);
                let decay = if known.passage.pinned {
                    1.0
                } else {
                    let fresh_at = known
                        .last_used_at
                        .map_or(known.passage.occurred_at, |used| used.max(known.passage.occurred_at));
                    known.decay(decay).factor(fresh_at, query.asked_at)
                };
                let fate = match fate(id) {
                    // Learned since what must not be shown was looked up.
                    _ if in_window(query, &known.passage) => Fate::InWindow,
                    Fate::BelowLimit if !related => Fate::NotFound,
                    fate => fate,
                };
                Candidate {
                    passage: known.passage,
                    near,
                    fused,
                    relevance,
                    in_time,
                    decay,
                    score: relevance * decay,
                    fate,
                }
            })
            .collect()
    }
}

/// A passage with what bears on its rank.
pub struct Known {
    /// The passage.
    pub passage: Passage,
    /// When it was last put before an assistant.
    pub last_used_at: Option<DateTime<Utc>>,
    /// How its collection fades, where it has a rule of its own.
    pub half_life_days: Option<f32>,
    /// The share that its collection keeps, where it has a rule of its own.
    pub decay_floor: Option<f32>,
}

impl Known {
    /// How it fades, by its collection's rule or else by `default`.
    #[must_use]
    pub fn decay(&self, default: Decay) -> Decay {
        Decay {
            half_life_days: self.half_life_days.unwrap_or(default.half_life_days),
            floor: self.decay_floor.unwrap_or(default.floor),
        }
    }
}

/// One way of putting a question: its own words, or its rewrite.
pub struct Way<'a> {
    /// As it is put.
    pub text: &'a str,
    /// Its place in meaning, if that is known.
    pub embedding: Option<&'a Embedding>,
    /// The terms it is searched by.
    pub terms: Vec<String>,
}

impl<'a> Way<'a> {
    /// The question's own words first, then its rewrite when there is one. What the question itself means is not waited for.
    #[must_use]
    pub fn of(query: &'a Query, tongues: &[Language]) -> Vec<Self> {
        let way = |text: &'a str, embedding: Option<&'a Embedding>| Way {
            text,
            embedding,
            terms: question_terms(text, tongues),
        };
        let rewrite = query.rewrite.iter().map(|rewrite| way(&rewrite.text, rewrite.embedding.as_ref()));
        std::iter::once(way(&query.text, None)).chain(rewrite).collect()
    }

    /// Waits until it is known what the question itself means.
    pub async fn wait_for_meaning(ways: &mut [Self], query: &'a Query) {
        let embedding = query.meaning.get().await;
        if let Some(own) = ways.first_mut() {
            own.embedding = embedding;
        }
    }
}

/// How many passages are weighed closely for a question: `least`, and so many that its limit can be met, since several of
/// them make one recall, and others say the same.
#[must_use]
pub fn candidates(least: usize, query: &Query) -> usize {
    const FOR_A_RECALL: usize = 3;
    query.limit.saturating_mul(FOR_A_RECALL).max(least)
}

/// The passages with the best scores by words, at most `most`, in any order.
#[must_use]
pub fn best_words(words: &ByPlace<Words>, most: usize) -> Vec<Place> {
    let mut best: Vec<(Place, f32)> = words.iter().map(|(place, words)| (place, words.score)).collect();
    if best.len() > most && most > 0 {
        best.select_nth_unstable_by(most - 1, |a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    }
    best.into_iter().take(most).map(|(place, _)| place).collect()
}

/// Whether the prompt holds the exchange of a passage already.
#[must_use]
pub fn in_window(query: &Query, passage: &Passage) -> bool {
    query.window.iter().any(|exchange| exchange.0 == passage.exchange_id)
}

/// Whether a question that has these words names a speaker: by any word of the name that is one's own.
fn is_named(name: &str, words: &HashSet<String>) -> bool {
    let parts = plain_words(name);
    let alone = parts.len() == 1;
    parts.iter().any(|part| words.contains(part) && (alone || is_own(part)))
}

/// Whether a word of a name of several words tells people apart: no "the", "Dr" or initial.
fn is_own(part: &str) -> bool {
    const TITLES: [&str; 8] = ["dr", "mr", "mrs", "ms", "prof", "sir", "herr", "frau"];
    part.chars().nth(1).is_some() && !TITLES.contains(&part) && !Language::ENGLISH.stops(part)
}

#[cfg(test)]
mod tests {
    use skymem_core::{ExchangeId, Filter, Meaning, Role, Unit, UserId};

    use super::*;

    fn check(name: &str, question: &str, expected: bool) {
        assert_eq!(is_named(name, &plain_words(question)), expected, "{name}: {question}");
    }

    #[test]
    fn a_speaker_is_named_by_any_word_that_is_their_own() {
        check("Ann", "What is Ann's dog called?", true);
        check("Dr. Ann Lee", "Where does Ann live?", true);
        check("Dr. Ann Lee", "did DR. LEE call?", true);
        check("Dr. Ann Lee", "Which dr. was it?", false);
        check("The Boss", "What is the plan?", false);
        check("J. R. Moss", "Is r a language?", false);
        check("Will", "Where did Will go?", true);
        check("王小明", "小明住在哪里", true);
        check("🎉", "What is it?", false);
    }

    fn question() -> Query {
        Query {
            user: UserId(uuid::Uuid::nil()),
            text: "heron".into(),
            meaning: Meaning::known(None),
            rewrite: None,
            time_hint: None,
            session: None,
            filter: Filter::default(),
            window: Vec::new(),
            asked_at: DateTime::UNIX_EPOCH,
            as_of: None,
            known_at: None,
            limit: 4,
            unit: Unit::Exchange,
            neighbours: 0,
            least_score: 0.0,
        }
    }

    #[test]
    fn who_asks_for_many_has_more_weighed() {
        let most = |limit| candidates(100, &Query { limit, ..question() });

        assert_eq!((most(0), most(10), most(100), most(usize::MAX)), (100, 100, 300, usize::MAX));
    }

    #[test]
    fn the_best_by_words_are_kept_and_of_equals_the_later() {
        let mut words = ByPlace::none(5);
        for (place, score) in [(0, 1.0), (1, 3.0), (2, 2.0), (3, 2.0)] {
            words.put(place, Words { score, covered: 0.0 });
        }
        let best = |most| {
            let mut best = best_words(&words, most);
            best.sort_unstable();
            best
        };

        assert_eq!(best(2), [1, 3]);
        assert_eq!(best(3), [1, 2, 3]);
        assert_eq!((best(4), best(9)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
        assert!(best(0).is_empty());
    }

    #[test]
    fn what_the_prompt_holds_is_kept_out_also_when_it_was_learned_after_that_was_looked_up() {
        let in_prompt = uuid::Uuid::from_u128(7);
        let query = Query { window: vec![ExchangeId(in_prompt)], ..question() };
        let passage = |id: PassageId, exchange_id| Known {
            passage: Passage {
                id,
                exchange_id,
                session_id: "a".into(),
                collection: "default".into(),
                source: "session".into(),
                role: Role::User,
                speaker: None,
                text: "heron".into(),
                occurred_at: DateTime::UNIX_EPOCH,
                episode: id,
                split: false,
                topic: 0,
                pinned: false,
            },
            last_used_at: None,
            half_life_days: None,
            decay_floor: None,
        };
        let (sheet, weights) = (Sheet::new(Vec::new()), Weights::default());
        let weighing = Weighing {
            query: &query,
            ways: &[],
            found: &[],
            ranking: &fuse::rank(&[], &weights, 1, |_| true).1,
            sheet: &sheet,
            background: None,
            weights: &weights,
            decay: Decay { half_life_days: 30.0, floor: 0.8 },
        };

        // Nothing was known of either when it was looked up what is kept out.
        let known = vec![passage(1, in_prompt), passage(2, uuid::Uuid::from_u128(8))];
        let fates: Vec<Fate> = weighing.candidates(known, |_| Fate::BelowLimit).iter().map(|one| one.fate).collect();

        assert_eq!(fates, [Fate::InWindow, Fate::NotFound]);
    }
}
