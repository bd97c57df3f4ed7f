//! Assembling a context: the story of the product.

use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_core::{
    Considered, ExchangeId, Fate, Filter, Gap, LayerName, Recall, RecallId, Role, Section, SessionId, Spent, TimeRange,
    Tokens, Unit, UserId,
};

use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::MemoryMode;

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
    /// Only these layers; empty for all.
    pub layers: Vec<LayerName>,
    /// At most this many recalls of each layer, 1 to 200; `None` for the setting `top_k`.
    pub limit: Option<usize>,
    /// What one recall is.
    pub unit: Unit,
    /// How many exchanges before and after come with each recall, at most 5.
    pub neighbours: usize,
    /// Recalls below this score are left out, 0 to 1.
    pub least_score: f32,
    /// Nothing said later comes back.
    pub as_of: Option<DateTime<Utc>>,
    /// What memory may do; `None` for what the session says.
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
            memory: None,
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
    /// How many exchanges stand word for word, 0 to 8; `None` for the setting `window_exchanges`.
    pub window: Option<usize>,
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
            window: None,
            freeze: false,
            explain: false,
        }
    }
}

/// Everything the assistant should know for its next answer, ready to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextReply {
    /// The messages in the order to send them; the question is last.
    pub messages: Vec<Message>,
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
    /// How long each stage took.
    pub timings: Vec<Timing>,
    /// What each layer weighed, when the request asked for it.
    pub considered: Vec<LayerExplanation>,
}

/// One message of OpenAI's chat format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Whose part it plays.
    pub role: Role,
    /// What it says.
    pub content: String,
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
    /// `query`, `embed`, `window`, `recall`, `pack`, `render`, `total`, or a layer's name.
    pub stage: String,
    /// In milliseconds.
    pub ms: f64,
}

impl Memory {
    /// What is remembered that bears on the question, from all layers, best first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a question that cannot be put. A fault in memory is a gap, never an error.
    pub async fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        todo!()
    }

    /// As [`Memory::recall`], with everything that was weighed on the way; of `about` alone when given, also when the
    /// search did not come across it. Nothing counts as used.
    ///
    /// # Errors
    ///
    /// As [`Memory::recall`].
    pub async fn explain(&self, request: &RecallRequest, about: Option<ExchangeId>) -> Result<Explanation, EngineError> {
        todo!()
    }

    /// Everything the assistant should know for its next answer, within the token budget, with its sources.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a request that cannot be. A fault in memory is a gap, never an error.
    pub async fn context(&self, request: &ContextRequest) -> Result<ContextReply, EngineError> {
        todo!()
    }
}
