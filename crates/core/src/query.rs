//! A question put to memory.

use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::sync::SetOnce;

use crate::conversation::{BadName, Collection, ExchangeId, Role, SessionId, Source, UserId};
use crate::facts::Seen;
use crate::models::Embedding;

/// A question put to memory: made self-contained, embedded and timed by the engine, once, for all layers. It is embedded
/// while layers are asked already.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Whose memory is asked.
    pub user: UserId,
    /// The question in words, made safe.
    pub text: String,
    /// The question's place in meaning.
    pub meaning: Meaning,
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

/// A question's place in meaning. It may still be on its way: who needs it waits for it, and all others go on.
#[derive(Debug, Clone)]
pub struct Meaning(Arc<SetOnce<Option<Embedding>>>);

/// Who is to say what a [`Meaning`] is. Dropped without a word, it is none.
#[derive(Debug)]
pub struct MeaningTeller(Meaning);

impl Meaning {
    /// One that is known; `None` when the embedder gave no answer, and then words must do.
    #[must_use]
    pub fn known(embedding: Option<Embedding>) -> Self {
        Self(Arc::new(SetOnce::new_with(Some(embedding))))
    }

    /// One that somebody is finding out.
    #[must_use]
    pub fn on_its_way() -> (Self, MeaningTeller) {
        let meaning = Self(Arc::new(SetOnce::new()));
        (meaning.clone(), MeaningTeller(meaning))
    }

    /// What it is, as soon as that is known; `None` when words must do. The engine sees to it that it is known in time:
    /// a layer's own time counts from then on.
    pub async fn get(&self) -> Option<&Embedding> {
        self.0.wait().await.as_ref()
    }
}

/// As far as it is known.
impl PartialEq for Meaning {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl MeaningTeller {
    /// Says what it is.
    pub fn tell(self, embedding: Option<Embedding>) {
        // Nobody else can have said it.
        let _ = self.0.0.set(embedding);
    }
}

impl Drop for MeaningTeller {
    fn drop(&mut self) {
        // Too late when it was told.
        let _ = self.0.0.set(None);
    }
}

/// Another way to put a question.
#[derive(Debug, Clone, PartialEq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_question_means_is_waited_for_and_is_none_when_nobody_says_it() {
        let (meaning, teller) = Meaning::on_its_way();
        let waiting = tokio::spawn(async move { meaning.get().await.cloned() });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        teller.tell(Some(Embedding(vec![1.0])));
        assert_eq!(waiting.await.unwrap(), Some(Embedding(vec![1.0])));

        let (meaning, teller) = Meaning::on_its_way();
        drop(teller);
        assert_eq!(meaning.get().await, None);
        assert_eq!(meaning, Meaning::known(None));
    }
}
