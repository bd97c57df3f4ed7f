//! A question put to memory.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::conversation::{BadName, Collection, ExchangeId, Role, SessionId, Source, UserId};
use crate::facts::Seen;
use crate::models::Embedding;

/// A question put to memory: self-contained, embedded and timed by the engine, once, for all layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// Whose memory is asked.
    pub user: UserId,
    /// The question in words, made safe.
    pub text: String,
    /// The question's place in meaning; absent when the embedder gave no answer, and then words must do.
    pub embedding: Option<Embedding>,
    /// The same question made self-contained, when it leans on what was said before it. Searched beside the question
    /// itself, never instead: a model may have taken a new topic for the old one.
    pub rewrite: Option<Phrasing>,
    /// The time the question's own words speak of ("yesterday"), in the user's zone. A hint, not a filter.
    pub time_hint: Option<TimeRange>,
    /// The session that asks, if any.
    pub session: Option<SessionId>,
    /// What may come back at all.
    pub filter: Filter,
    /// What the prompt already holds word for word: never recalled again.
    pub window: Vec<ExchangeId>,
    /// When it was asked: the "now" that ages are counted from.
    pub asked_at: DateTime<Utc>,
    /// As of when the answer must have been true; nothing said later comes back.
    pub as_of: Option<DateTime<Utc>>,
    /// As it was known when; nothing written down later comes back.
    pub known_at: Option<DateTime<Utc>>,
    /// At most this many recalls, 2 to 20 through the doors.
    pub limit: usize,
    /// What one recall is.
    pub unit: Unit,
    /// How many exchanges before and after each recall come with it as its surroundings.
    pub neighbours: usize,
    /// Recalls below this score are left out; 0 keeps all.
    pub least_score: f32,
}

impl Query {
    /// From which moment memory is looked at; over every time when the question names none.
    #[must_use]
    pub fn seen(&self) -> Seen {
        Seen { as_of: self.as_of, known_at: self.known_at }
    }

    /// The words of the rewrite, if there is one.
    #[must_use]
    pub fn rewritten(&self) -> Option<String> {
        self.rewrite.as_ref().map(|rewrite| rewrite.text.clone())
    }
}

/// Another way to put a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phrasing {
    /// In words, made safe.
    pub text: String,
    /// Its place in meaning; absent when words must do.
    pub embedding: Option<Embedding>,
}

/// What may come back: every condition that is given must hold, exactly, inside the search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// Only from these sessions; empty means all.
    pub sessions: Vec<SessionId>,
    /// Only from these collections; empty means all.
    pub collections: Vec<Collection>,
    /// Only from these sources; empty means all.
    pub sources: Vec<Source>,
    /// Only what these roles said; empty means all.
    pub roles: Vec<Role>,
    /// Only what was said in this time.
    pub time: Option<TimeRange>,
    /// Only pinned exchanges, or only those that are not.
    pub pinned: Option<bool>,
}

/// From a moment (included) until another (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRange {
    /// The first moment that is in.
    pub from: DateTime<Utc>,
    /// The first moment that is out.
    pub until: DateTime<Utc>,
}

impl TimeRange {
    /// Whether `moment` is in.
    #[must_use]
    pub fn contains(&self, moment: DateTime<Utc>) -> bool {
        self.from <= moment && moment < self.until
    }
}

/// What one recall is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// An exchange: short ones merged with their neighbours, a long one by its part that answers.
    #[default]
    Exchange,
    /// A single turn.
    Turn,
    /// All consecutive exchanges on one topic.
    Segment,
}

impl FromStr for Unit {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "exchange" => Ok(Unit::Exchange),
            "turn" => Ok(Unit::Turn),
            "segment" => Ok(Unit::Segment),
            _ => Err(BadName("a unit is one of exchange, turn, segment".into())),
        }
    }
}
