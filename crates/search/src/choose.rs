//! From weighed candidates to what is recalled: near-duplicates dropped, one recall per unit, the newest first among
//! near-equals.

use std::collections::HashSet;
use std::hash::BuildHasher;

use chrono::{DateTime, Utc};
use rustc_hash::FxBuildHasher;
use skymem_core::{Fate, Role, Seq, Unit};

use crate::places::PassageId;

/// A passage that might be recalled, with all that was found out about it.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The passage.
    pub passage: Passage,
    /// How near each way of putting the question finds it: the question's own words, then the rewrite.
    pub near: Vec<Near>,
    /// Sum of standard scores and bonuses.
    pub fused: f32,
    /// 0 to 1, before fading.
    pub relevance: f32,
    /// Whether it was said in the time the question speaks of.
    pub in_time: bool,
    /// What fading leaves of it, as a factor.
    pub decay: f32,
    /// Relevance after fading, 0 to 1.
    pub score: f32,
    /// What became of it. Candidates begin as [`Fate::BelowLimit`].
    pub fate: Fate,
}

/// How near a passage is to one way of putting the question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// Its cosine, if both have a vector.
    pub cosine: Option<f32>,
    /// BM25 score; 0 when it shares no word.
    pub words: f32,
    /// What speaks for its bearing on the question at all.
    pub evidence: f32,
}

/// A turn, or a part of a long one.
#[derive(Debug, Clone)]
pub struct Passage {
    /// Its name.
    pub id: PassageId,
    /// The exchange it is part of.
    pub exchange_id: uuid::Uuid,
    /// The session it was said in.
    pub session_id: String,
    /// The collection it stands in.
    pub collection: String,
    /// Where it came from.
    pub source: String,
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, between named people.
    pub speaker: Option<String>,
    /// What was said.
    pub text: String,
    /// When.
    pub occurred_at: DateTime<Utc>,
    /// Names the passage that opens its episode.
    pub episode: PassageId,
    /// Whether its exchange was too long to stay whole.
    pub split: bool,
    /// The number of its topic in the session.
    pub topic: i32,
    /// Pinned by the person.
    pub pinned: bool,
}

impl Passage {
    /// The place of its turn in the journal.
    pub fn seq(&self) -> Seq {
        Seq(self.id / PARTS_PER_TURN)
    }

    /// `speaker: text`, as it is read.
    pub fn line(&self) -> String {
        format!("{}: {}", self.speaker_name(), self.text)
    }

    fn speaker_name(&self) -> &str {
        match (&self.speaker, self.role) {
            (Some(name), _) => name,
            (None, Role::User) => "User",
            (None, Role::Assistant) => "Assistant",
            (None, Role::System) => "System",
            (None, Role::Tool) => "Tool",
        }
    }
}

/// How many parts a turn can have: the step between the passages of two turns.
pub const PARTS_PER_TURN: i64 = 4096;

/// What one recall stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A passage alone.
    Passage(PassageId),
    /// An episode, by the passage that opens it.
    Episode(PassageId),
    /// A topic of a session.
    Segment(String, i32),
}

impl Key {
    fn of(passage: &Passage, unit: Unit) -> Key {
        match unit {
            Unit::Turn => Key::Passage(passage.id),
            Unit::Exchange if passage.split => Key::Passage(passage.id),
            Unit::Exchange => Key::Episode(passage.episode),
            Unit::Segment => Key::Segment(passage.session_id.clone(), passage.topic),
        }
    }
}

/// How candidates become recalls.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// What one recall is.
    pub unit: Unit,
    /// At most so many.
    pub limit: usize,
    /// Candidates below this score stay out.
    pub least_score: f32,
    /// Recalls whose score is within this share of the best one's are near-equals.
    pub near_equal: f32,
}

/// Sets the fate of each candidate and returns the best one of each chosen unit, in the order in which they are recalled.
/// `candidates` come in any order and leave best first.
pub fn choose(candidates: &mut [Candidate], choice: Choice) -> Vec<Candidate> {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.passage.id.cmp(&a.passage.id)));
    let mut chosen: Vec<usize> = Vec::new();
    let mut keys: HashSet<Key> = HashSet::new();
    let mut contents: Vec<Content> = Vec::new();
    for at in 0..candidates.len() {
        let candidate = &candidates[at];
        if candidate.fate != Fate::BelowLimit {
            continue;
        }
        let key = Key::of(&candidate.passage, choice.unit);
        let fate = if keys.contains(&key) {
            // Part of what is recalled already.
            Fate::Recalled
        } else if candidate.score < choice.least_score {
            Fate::BelowThreshold
        } else {
            let content = Content::of(&candidate.passage.text);
            if contents.iter().any(|other| other.is_nearly(&content)) {
                Fate::Duplicate
            } else if chosen.len() < choice.limit {
                keys.insert(key);
                contents.push(content);
                chosen.push(at);
                Fate::Recalled
            } else if candidate.decay < 1.0
                && chosen.last().is_some_and(|&last| candidate.relevance > candidates[last].score)
            {
                Fate::Decayed
            } else {
                Fate::BelowLimit
            }
        };
        candidates[at].fate = fate;
    }
    newest_first_among_near_equals(chosen.into_iter().map(|at| candidates[at].clone()).collect(), choice.near_equal)
}

/// What is true now was said last; but a question that names a time asks for that time.
fn newest_first_among_near_equals(mut chosen: Vec<Candidate>, near_equal: f32) -> Vec<Candidate> {
    let Some(best) = chosen.first().map(|candidate| candidate.score) else { return chosen };
    let near = chosen.partition_point(|candidate| candidate.score >= best * (1.0 - near_equal));
    chosen[..near].sort_by(|a, b| {
        let newest = b.passage.occurred_at.cmp(&a.passage.occurred_at);
        b.in_time.cmp(&a.in_time).then(newest).then(b.score.total_cmp(&a.score))
    });
    chosen
}

/// The words of a passage, which is what two passages that say the same share: a hash of each, once, in order, and whether
/// there is a number in it. Every candidate of every question is looked at, so that words are not copied.
struct Content(Vec<(u64, bool)>);

impl Content {
    /// Signs inside and before words count: C++ is not C#, and -5 not 5.
    fn of(text: &str) -> Self {
        let closes = |c: char| c.is_whitespace() || ".,;:!?…\"'“”‘’«»()[]{}<>*_`。，、；：！？「」『』（）".contains(c);
        let lower = text.to_lowercase();
        let words = lower.split_whitespace().map(|word| word.trim_matches(closes)).filter(|word| !word.is_empty());
        let mut hashes: Vec<(u64, bool)> =
            words.map(|word| (FxBuildHasher.hash_one(word), word.chars().any(char::is_numeric))).collect();
        hashes.sort_unstable();
        hashes.dedup();
        Self(hashes)
    }

    /// Whether both say the same: nine words in ten shared, and every number. "Room 12" does not repeat "room 14".
    fn is_nearly(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.0.as_slice(), other.0.as_slice());
        let (mut shared, mut either) = (0_usize, 0_usize);
        loop {
            let apart = match (a, b) {
                ([], []) => return shared * 10 >= either * 9,
                ([x, rest @ ..], [y, others @ ..]) if x == y => {
                    (a, b) = (rest, others);
                    shared += 1;
                    None
                }
                ([x, rest @ ..], [y, ..]) if x < y => {
                    a = rest;
                    Some(x)
                }
                ([x, rest @ ..], []) => {
                    a = rest;
                    Some(x)
                }
                (_, [y, others @ ..]) => {
                    b = others;
                    Some(y)
                }
            };
            either += 1;
            if apart.is_some_and(|(_, has_number)| *has_number) {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(id: i64, score: f32, days: i64, text: &str) -> Candidate {
        Candidate {
            passage: Passage {
                id: id * PARTS_PER_TURN,
                exchange_id: uuid::Uuid::nil(),
                session_id: "s".into(),
                collection: "default".into(),
                source: "session".into(),
                role: Role::User,
                speaker: None,
                text: text.into(),
                occurred_at: DateTime::UNIX_EPOCH + chrono::TimeDelta::days(days),
                episode: id * PARTS_PER_TURN,
                split: false,
                topic: 0,
                pinned: false,
            },
            near: vec![Near { cosine: None, words: 1.0, evidence: 9.0 }],
            fused: score,
            relevance: score,
            in_time: false,
            decay: 1.0,
            score,
            fate: Fate::BelowLimit,
        }
    }

    fn choice(limit: usize) -> Choice {
        Choice { unit: Unit::Exchange, limit, least_score: 0.0, near_equal: 0.2 }
    }

    fn seqs(chosen: &[Candidate]) -> Vec<i64> {
        chosen.iter().map(|candidate| candidate.passage.seq().0).collect()
    }

    #[test]
    fn among_near_equals_the_newest_comes_first_and_only_there() {
        let mut all = vec![candidate(1, 1.0, 1, "red"), candidate(2, 0.85, 9, "blue"), candidate(3, 0.5, 99, "green")];

        assert_eq!(seqs(&choose(&mut all, choice(3))), [2, 1, 3]);
    }

    #[test]
    fn among_near_equals_one_from_the_time_asked_about_comes_before_newer_ones() {
        let asked_about = Candidate { in_time: true, ..candidate(1, 0.9, 1, "red") };
        let mut all = vec![asked_about, candidate(2, 1.0, 9, "blue")];

        assert_eq!(seqs(&choose(&mut all, choice(3))), [1, 2]);
    }

    #[test]
    fn what_says_the_same_comes_once_but_another_number_is_another_thing() {
        let mut all = vec![
            candidate(1, 1.0, 1, "The code is 4711, remember"),
            candidate(2, 0.9, 1, "the code is 4711 remember"),
            candidate(3, 0.7, 1, "The code is 4712, remember"),
        ];

        assert_eq!(seqs(&choose(&mut all, choice(3))), [1, 3]);
        assert_eq!(all[1].fate, Fate::Duplicate);
    }

    #[test]
    fn signs_tell_apart_what_letters_do_not() {
        for (one, other) in [("I like C++", "I like C#"), ("It is -5 here", "It is 5 here"), ("🎉", "😢")] {
            let mut all = vec![candidate(1, 1.0, 1, one), candidate(2, 0.9, 1, other)];

            assert_eq!(choose(&mut all, choice(3)).len(), 2, "{one} / {other}");
        }
    }

    #[test]
    fn one_that_only_its_age_keeps_out_is_called_decayed() {
        let mut old = candidate(2, 0.72, 1, "old");
        (old.relevance, old.decay) = (0.9, 0.8);
        let mut all = vec![candidate(1, 0.8, 9, "new"), old, candidate(3, 0.1, 9, "far")];

        choose(&mut all, choice(1));

        assert_eq!(all.iter().map(|c| c.fate).collect::<Vec<_>>(), [Fate::Recalled, Fate::Decayed, Fate::BelowLimit]);
    }

    proptest! {
        #[test]
        fn never_more_than_asked_for_and_never_one_below_the_threshold(
            scores in proptest::collection::vec(0.0_f32..1.0, 0..40), limit in 1_usize..20, least in 0.0_f32..1.0,
        ) {
            let mut all: Vec<_> = scores.iter().enumerate()
                .map(|(at, &score)| candidate(at as i64, score, at as i64, &format!("text number {at}")))
                .collect();
            let chosen = choose(&mut all, Choice { least_score: least, ..choice(limit) });
            let fit = scores.iter().filter(|&&score| score >= least).count();
            prop_assert_eq!(chosen.len(), limit.min(fit));
            prop_assert!(chosen.iter().all(|candidate| candidate.score >= least));
        }
    }
}
