//! What may be asked of memory, and what it answers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_core::{
    Considered, ExchangeId, Fate, Filter, Gap, LayerName, Message, Recall, RecallId, Section, SessionId, Spent,
    TimeRange, Tokens, Unit, UserId,
};
use skymem_store::MemoryMode;

use super::window::MOST_EXCHANGES;
use crate::error::EngineError;

/// At most this many recalls of one layer.
const MOST_RECALLS: usize = 100;
/// At most this many exchanges before and after a recall.
const MOST_NEIGHBOURS: usize = 5;

/// A question to memory.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallRequest {
    /// Whose memory is asked.
    pub user: UserId,
    /// The question in words.
    pub text: String,
    /// The session that asks, if any: its window is not recalled.
    pub session: Option<SessionId>,
    /// What may come back at all.
    pub filter: Filter,
    /// Only these layers; empty for all in a context, and for all that rank what they know in a recall.
    pub layers: Vec<LayerName>,
    /// At most this many recalls of each layer, 1 to 100; `None` for the setting `top_k`.
    pub limit: Option<usize>,
    /// What one recall is.
    pub unit: Unit,
    /// How many exchanges before and after come with each recall, at most 5.
    pub neighbours: usize,
    /// Recalls below this score are left out, 0 to 1.
    pub least_score: f32,
    /// Nothing said later comes back.
    pub as_of: Option<DateTime<Utc>>,
    /// Nothing written down later comes back.
    pub known_at: Option<DateTime<Utc>>,
    /// When it is asked, if not now: ages and time words count from then.
    pub asked_at: Option<DateTime<Utc>>,
    /// What memory may do; `None` for what the session says, which is never exceeded. Where it may not write, no use is
    /// noted either.
    pub memory: Option<MemoryMode>,
}

impl RecallRequest {
    /// The plainest question: `text`, to all layers, with every setting as it is.
    #[must_use]
    pub fn new(user: UserId, text: impl Into<String>) -> Self {
        Self {
            user,
            text: text.into(),
            session: None,
            filter: Filter::default(),
            layers: Vec::new(),
            limit: None,
            unit: Unit::default(),
            neighbours: 0,
            least_score: 0.0,
            as_of: None,
            known_at: None,
            asked_at: None,
            memory: None,
        }
    }

    /// Refuses what is no question.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let rules = [
            (!self.text.trim().is_empty(), "the question is empty".to_owned()),
            (
                self.limit.is_none_or(|limit| (1..=MOST_RECALLS).contains(&limit)),
                format!("limit is from 1 to {MOST_RECALLS}"),
            ),
            (self.neighbours <= MOST_NEIGHBOURS, format!("neighbours is from 0 to {MOST_NEIGHBOURS}")),
            ((0.0..=1.0).contains(&self.least_score), "the least score is from 0 to 1".to_owned()),
            (
                self.filter.time.is_none_or(|time| time.from < time.until),
                "the time to look in ends before it begins".to_owned(),
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(EngineError::Refused(rule)),
            None => Ok(()),
        }
    }
}

/// What memory answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallReply {
    /// What was found: every layer's first, then every layer's second, and so on.
    pub recalls: Vec<Recall>,
    /// What could not contribute.
    pub gaps: Vec<Gap>,
    /// The time that the question's own words speak of.
    pub time_hint: Option<TimeRange>,
    /// How the question was searched beside its own words, when it leaned on what was said before it.
    pub rewrite: Option<String>,
    /// How long each stage took.
    pub timings: Vec<Timing>,
}

/// What memory answered, and everything it weighed on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What was found.
    pub reply: RecallReply,
    /// What each layer weighed.
    pub layers: Vec<LayerExplanation>,
}

/// What one layer weighed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerExplanation {
    /// Which layer.
    pub layer: LayerName,
    /// Every candidate with its scores and its fate.
    pub considered: Vec<Considered>,
}

/// What the assistant is about to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextRequest {
    /// The question, and how memory is to be asked.
    pub ask: RecallRequest,
    /// The client's own system prompt, to stand first.
    pub system: Option<String>,
    /// What all messages may cost together; `None` for the setting `budget_tokens`.
    pub budget: Option<Tokens>,
    /// Where the turns before the question come from.
    pub history: History,
    /// The model that will read it: its window and its tokenizer, where they are known, decide what fits.
    pub model: Option<String>,
    /// Keep the always-loaded part as it was when this session first asked for it frozen.
    pub freeze: bool,
    /// Say what every layer weighed.
    pub explain: bool,
}

impl ContextRequest {
    /// The plainest request: `question`, with every setting as it is.
    #[must_use]
    pub fn new(user: UserId, question: impl Into<String>) -> Self {
        Self {
            ask: RecallRequest::new(user, question),
            system: None,
            budget: None,
            history: History::default(),
            model: None,
            freeze: false,
            explain: false,
        }
    }

    /// Refuses what is no request for a context.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        self.ask.check()?;
        if self.budget == Some(Tokens(0)) {
            return Err(EngineError::Refused("the budget is at least 1 token".into()));
        }
        if matches!(self.history, History::Journal { exchanges: Some(window) } if window > MOST_EXCHANGES) {
            return Err(EngineError::Refused(format!("the window has 0 to {MOST_EXCHANGES} exchanges")));
        }
        Ok(())
    }
}

/// Where the turns before the question come from.
#[derive(Debug, Clone, PartialEq)]
pub enum History {
    /// The journal: its session's last exchanges stand in the messages word for word.
    Journal {
        /// How many, 0 to 8; `None` for the setting `window_exchanges`.
        exchanges: Option<usize>,
    },
    /// The client, which sends them itself, as chat clients do: they are read to understand the question, and neither
    /// put into the messages nor recalled.
    Client(ClientHistory),
}

impl Default for History {
    fn default() -> Self {
        Self::Journal { exchanges: None }
    }
}

/// What a client sends of the conversation itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientHistory {
    /// The turns before the question, oldest first; the last three exchanges are enough.
    pub messages: Vec<Message>,
    /// The exchanges of the journal that stand in it: not recalled.
    pub exchanges: Vec<ExchangeId>,
    /// Whether it goes back to the beginning of the session: then no account of earlier turns is needed.
    pub whole: bool,
}

/// What memory adds to a conversation, a block each; absent when there is nothing to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Blocks {
    /// What is always loaded. The same from one question to the next, for as long as the files are.
    pub memory: Option<String>,
    /// The account of what left the window.
    pub account: Option<String>,
    /// What was found for this question.
    pub found: Option<String>,
}

/// Everything the assistant should know for its next answer, ready to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextReply {
    /// The messages in the order to send them; the question is last.
    pub messages: Vec<Message>,
    /// What memory adds, apart, for a door that puts it into a conversation itself.
    pub blocks: Blocks,
    /// What was recalled and is in the messages, in reading order, without the always-loaded part.
    pub items: Vec<Recall>,
    /// Each layer's part, in reading order.
    pub sections: Vec<Section>,
    /// What could not contribute.
    pub gaps: Vec<Gap>,
    /// Where the budget went.
    pub spent: Spent,
    /// What would have been in a larger budget.
    pub left_out: Vec<LeftOut>,
    /// The time that the question's own words speak of.
    pub time_hint: Option<TimeRange>,
    /// How the question was searched beside its own words, when it leaned on what was said before it.
    pub rewrite: Option<String>,
    /// How long each stage took.
    pub timings: Vec<Timing>,
    /// What each layer weighed, when the request asked for it.
    pub considered: Vec<LayerExplanation>,
}

/// Something that is not in the messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// `window`, or a layer.
    pub of: String,
    /// The recall, when it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<RecallId>,
    /// The exchange, when it comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeId>,
    /// What it would have cost.
    pub tokens: Tokens,
    /// Why it is out.
    pub why: Fate,
}

/// How long one stage took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// `embed`, `window`, `rewrite`, `recall`, `pack`, a layer's name, and last `total`. Stages overlap: layers are asked
    /// while the question is embedded, and those that need its embedding wait for it.
    pub stage: String,
    /// In milliseconds.
    pub ms: f64,
}

impl Timing {
    pub(super) fn of(stage: &str, time: Duration) -> Self {
        Self { stage: stage.to_owned(), ms: time.as_secs_f64() * 1_000.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::user;

    #[test]
    fn what_is_no_question_is_refused() {
        let fine = RecallRequest::new(user(), "what?");
        assert!(fine.check().is_ok());
        for bad in [
            RecallRequest { text: " \n".into(), ..fine.clone() },
            RecallRequest { limit: Some(0), ..fine.clone() },
            RecallRequest { limit: Some(101), ..fine.clone() },
            RecallRequest { neighbours: 6, ..fine.clone() },
            RecallRequest { least_score: f32::NAN, ..fine.clone() },
        ] {
            assert!(matches!(bad.check(), Err(EngineError::Refused(_))), "{bad:?}");
        }
    }
}
