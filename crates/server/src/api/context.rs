//! Everything the assistant should know for its next answer.

use actix_web::post;
use actix_web::web::{Data, Json as Answer};
use serde::{Deserialize, Serialize};
use skymem_core::{Message, Role, SessionId, Spent, Tokens, Unit};
use skymem_engine::{ClientHistory, ContextReply, ContextRequest, History, LeftOut, Memory, MemoryMode, RecallRequest};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::recall::{
    FilterBody, GapItem, LayerConsidered, RecallItem, TimeSpan, TimingItem, fate_word, layer_names,
};
use crate::auth::{Principal, Reader};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Fraction, Moment, Prose, Whole, Word, Words};

/// Puts together the messages to send to a model: system prompt, memory files, the session's last exchanges, what is
/// recalled with its sources, and the question, within a token budget. What could not contribute is named in `gaps`.
#[utoipa::path(
    operation_id = "context", tag = "recall", security(("key" = ["read"])),
    responses((status = 200, description = "The messages, ready to send, and where they come from", body = ContextAnswer)),
)]
#[post("/context")]
pub(crate) async fn context(
    who: Reader,
    memory: Data<Memory>,
    body: Json<ContextBody>,
) -> Result<Answer<ContextAnswer>, ApiError> {
    let request = body.into_inner().into_request(&who)?;
    Ok(Answer(memory.context(&request).await?.into()))
}

/// What the assistant is about to be asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ContextBody {
    /// The user's question, in their own words.
    #[schema(value_type = String, max_length = 200_000)]
    question: Words<200_000>,
    /// The session it is asked in: its last exchanges stand in the context word for word.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Your own system prompt, to stand first.
    #[schema(value_type = Option<String>, max_length = 200_000)]
    system: Option<Prose<200_000>>,
    /// What all messages may cost together; absent for the server's setting.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 10_000_000)]
    budget_tokens: Option<Whole<1, 10_000_000>>,
    /// How many exchanges of the session stand word for word; absent for the server's setting, 4 unless changed.
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 8)]
    window: Option<Whole<0, 8>>,
    /// The turns before the question, oldest first, when you keep the conversation yourself: they are read to understand
    /// the question, and neither put into the messages nor recalled. The last three exchanges are enough; absent for the
    /// session's own.
    #[schema(max_items = 200)]
    history: Option<Vec<HistoryItem>>,
    /// The model that will read it, as its provider calls it: decides what fits where its window is known.
    #[schema(value_type = Option<String>, max_length = 200)]
    model: Option<Words<200>>,
    /// Keep the always-loaded files as they were when this session first asked for it, so that a provider's prompt
    /// cache keeps its prefix.
    #[serde(default)]
    freeze: bool,
    /// At most so many recalls of each layer; absent for the server's setting, 4 unless changed.
    #[schema(value_type = Option<u32>, minimum = 2, maximum = 20)]
    top_k: Option<Whole<2, 20>>,
    /// What one recall is: `exchange`, `turn` or `segment`.
    #[schema(value_type = Option<String>, example = "exchange")]
    unit: Option<Word<Unit>>,
    /// What may be recalled at all.
    #[serde(default)]
    filter: FilterBody,
    /// Only these layers; absent for all.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    layers: Vec<Words<64>>,
    /// How many exchanges before and after come with each recall.
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 5)]
    neighbours: Option<Whole<0, 5>>,
    /// Recalls below this score are left out.
    #[schema(value_type = Option<f32>, minimum = 0, maximum = 1)]
    least_score: Option<Fraction>,
    /// Nothing said later comes back: RFC 3339 with its zone.
    #[schema(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As memory was then: nothing written down later comes back, whenever it was said.
    #[schema(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// The moment to ask at: ages and words like "yesterday" count from it; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    asked_at: Option<Moment>,
    /// What memory may do: `off`, `read`, `write` or `readwrite`, but no more than the session allows.
    #[schema(value_type = Option<String>)]
    memory: Option<Word<MemoryMode>>,
    /// Say of every candidate why it is in or out.
    #[serde(default)]
    explain: bool,
}

impl ContextBody {
    fn into_request(self, who: &Principal) -> Result<ContextRequest, ApiError> {
        let ask = RecallRequest {
            session: self.session,
            filter: self.filter.into_filter("filter")?,
            layers: layer_names(self.layers),
            limit: self.top_k.map(Whole::size),
            unit: self.unit.map_or_else(Unit::default, |unit| unit.0),
            neighbours: self.neighbours.map_or(0, Whole::size),
            least_score: self.least_score.map_or(0.0, |score| score.0),
            as_of: self.as_of.map(|moment| moment.0),
            known_at: self.known_at.map(|moment| moment.0),
            asked_at: self.asked_at.map(|moment| moment.0),
            memory: self.memory.map(|memory| memory.0),
            ..RecallRequest::new(who.user, self.question.0)
        };
        let history = match (self.history, self.window) {
            (Some(_), Some(_)) => {
                return Err(ApiError::invalid("window", "goes without history: that is not put into it"));
            }
            (Some(turns), None) => into_history(turns)?,
            (None, window) => History::Journal { exchanges: window.map(Whole::size) },
        };
        Ok(ContextRequest {
            ask,
            system: self.system.map(|system| system.0).filter(|system| !system.trim().is_empty()),
            budget: self.budget_tokens.map(|tokens| Tokens(tokens.size())),
            history,
            model: self.model.map(|model| model.0),
            freeze: self.freeze,
            explain: self.explain,
        })
    }
}

/// A turn before the question, as the client keeps it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct HistoryItem {
    /// `user`, `assistant`, `system` or `tool`.
    #[schema(value_type = String, example = "user")]
    role: Word<Role>,
    /// What was said.
    #[schema(value_type = String, max_length = 200_000)]
    content: Prose<200_000>,
}

/// The most turns of a history.
const MOST_TURNS: usize = 200;

fn into_history(turns: Vec<HistoryItem>) -> Result<History, ApiError> {
    if turns.len() > MOST_TURNS {
        return Err(ApiError::invalid("history", format!("has at most {MOST_TURNS} turns; the last ones are enough")));
    }
    let messages = turns.into_iter().map(|turn| Message::new(turn.role.0, turn.content.0)).collect();
    Ok(History::Client(ClientHistory { messages, ..ClientHistory::default() }))
}

/// Everything the assistant should know for its next answer, ready to send.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ContextAnswer {
    /// The messages in the order to send them; the question is last.
    messages: Vec<MessageItem>,
    /// What was recalled and is in the messages, in reading order. Empty when nothing relevant is remembered.
    items: Vec<RecallItem>,
    /// Each layer's part as it stands in the messages, in reading order.
    sections: Vec<SectionItem>,
    /// What could not contribute, and why.
    gaps: Vec<GapItem>,
    /// Where the tokens went.
    spent: SpentItem,
    /// What would have been in a larger budget.
    left_out: Vec<LeftOutItem>,
    /// The time that the question's own words speak of.
    time_hint: Option<TimeSpan>,
    /// How the question was searched beside its own words, when it leaned on what was said before it. The question in the
    /// messages is as it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewrite: Option<String>,
    /// How long each stage took.
    timings: Vec<TimingItem>,
    /// What each layer weighed, when asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    considered: Vec<LayerConsidered>,
}

impl From<ContextReply> for ContextAnswer {
    fn from(reply: ContextReply) -> Self {
        Self {
            messages: reply.messages.into_iter().map(MessageItem::from).collect(),
            items: reply.items.into_iter().map(RecallItem::from).collect(),
            sections: reply
                .sections
                .into_iter()
                .map(|section| SectionItem { layer: section.layer.to_string(), text: section.text })
                .collect(),
            gaps: reply.gaps.into_iter().map(GapItem::from).collect(),
            spent: reply.spent.into(),
            left_out: reply.left_out.into_iter().map(LeftOutItem::from).collect(),
            time_hint: reply.time_hint.map(TimeSpan::from),
            rewrite: reply.rewrite,
            timings: reply.timings.into_iter().map(TimingItem::from).collect(),
            considered: reply.considered.into_iter().map(LayerConsidered::from).collect(),
        }
    }
}

/// One message of OpenAI's chat format.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageItem {
    /// `system`, `user`, `assistant` or `tool`.
    role: &'static str,
    /// What it says.
    content: String,
}

impl From<Message> for MessageItem {
    fn from(Message { role, content }: Message) -> Self {
        Self { role: role.as_str(), content }
    }
}

/// One layer's part of the context.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SectionItem {
    /// Whose part it is.
    layer: String,
    /// As the assistant reads it.
    text: String,
}

/// Where the tokens went.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SpentItem {
    /// What was allowed.
    budget: usize,
    /// What the messages cost together.
    total: usize,
    /// By part.
    parts: Vec<PartItem>,
}

/// What one part of the context costs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartItem {
    /// `system`, `files`, `window`, `episodes`, `question`, ...
    part: String,
    /// Its tokens.
    tokens: usize,
}

impl From<Spent> for SpentItem {
    fn from(spent: Spent) -> Self {
        let parts = spent.parts.into_iter().map(|(part, tokens)| PartItem { part, tokens: tokens.0 });
        Self { budget: spent.budget.0, total: spent.total.0, parts: parts.collect() }
    }
}

/// Something that did not fit.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeftOutItem {
    /// `window`, or a layer.
    of: String,
    /// The recall, when it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<String>,
    /// The exchange, when it comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<Uuid>,
    /// What it would have cost.
    tokens: usize,
    /// Why it is out.
    why: &'static str,
}

impl From<LeftOut> for LeftOutItem {
    fn from(left: LeftOut) -> Self {
        Self {
            of: left.of,
            recall: left.recall.map(|id| id.0),
            exchange: left.exchange.map(|id| id.0),
            tokens: left.tokens.0,
            why: fate_word(left.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use skymem_core::UserId;

    use super::*;
    use crate::body::parse;

    fn check(json: &str, fault: Option<&str>) {
        let who = Principal::without_key(UserId(Uuid::nil()));
        match (parse::<ContextBody>(json).and_then(|body| body.into_request(&who)), fault) {
            (Ok(_), None) => {}
            (Err(error), Some(fault)) => assert!(error.detail().contains(fault), "{json}: {}", error.detail()),
            (Ok(_), Some(fault)) => panic!("{json} was accepted where {fault:?} was expected"),
            (Err(error), None) => panic!("{json}: {}", error.detail()),
        }
    }

    #[test]
    fn a_client_may_send_the_turns_before_the_question() {
        check(r#"{"question": "x", "history": []}"#, None);
        check(r#"{"question": "x", "history": [{"role": "user", "content": "My dog is Rex"}]}"#, None);
        check(r#"{"question": "x", "history": [{"role": "assistant", "content": ""}], "session": "a"}"#, None);
    }

    #[test]
    fn a_history_that_cannot_be_is_told_why() {
        check(r#"{"question": "x", "history": "My dog is Rex"}"#, Some("history: invalid type"));
        check(r#"{"question": "x", "history": ["My dog is Rex"]}"#, Some("history[0]: invalid type"));
        check(
            r#"{"question": "x", "history": [{"role": "robot", "content": "x"}]}"#,
            Some("history[0].role: a role is"),
        );
        check(r#"{"question": "x", "history": [{"role": "user"}]}"#, Some("history[0].content: missing field"));
        check(
            r#"{"question": "x", "history": [{"role": "user", "content": "x", "name": "y"}]}"#,
            Some("history[0].name"),
        );
        check(r#"{"question": "x", "history": [], "window": 2}"#, Some("window: goes without history"));
        let turns = vec![r#"{"role": "user", "content": "x"}"#; MOST_TURNS + 1].join(",");
        check(&format!(r#"{{"question": "x", "history": [{turns}]}}"#), Some("history: has at most 200 turns"));
    }
}
