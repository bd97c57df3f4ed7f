//! Asking memory.

use std::borrow::Cow;

use actix_web::post;
use actix_web::web::{Data, Json as Answer};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::{
    Collection, Considered, ExchangeId, Fate, Filter, Gap, GapReason, LayerName, Recall, Role, SessionId, Source,
    TimeRange, Unit,
};
use skymem_engine::{Explanation, LayerExplanation, Memory, MemoryMode, RecallReply, RecallRequest, Timing};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Principal, Reader};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Fraction, Moment, Whole, Word, Words, time_range};

/// Finds what is remembered that bears on a question, best first, with its sources. Finding nothing is an answer.
///
/// With `explain`, every candidate comes with its scores and why it is in or out; with `about`, one given exchange
/// does, also when the search did not come across it.
#[utoipa::path(
    operation_id = "recall", tag = "recall", security(("key" = ["read"])),
    responses((status = 200, description = "What was found, and what could not contribute", body = RecallAnswer)),
)]
#[post("/recall")]
pub(crate) async fn recall(
    who: Reader,
    memory: Data<Memory>,
    body: Json<RecallBody>,
) -> Result<Answer<RecallAnswer>, ApiError> {
    let asked = body.into_inner().into_asked(&who)?;
    let explanation = match asked.explain {
        true => memory.explain(&asked.request, asked.about).await?,
        false => Explanation { reply: memory.recall(&asked.request).await?, layers: Vec::new() },
    };
    Ok(Answer(explanation.into()))
}

/// A question to memory.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RecallBody {
    /// The question in words.
    #[schema(value_type = String, max_length = 20_000)]
    query: Words<20_000>,
    /// The session that asks: what stands in its window is not recalled.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// At most so many recalls of each layer; absent for the server's setting, 4 unless changed.
    #[schema(value_type = Option<u32>, minimum = 2, maximum = 20)]
    top_k: Option<Whole<2, 20>>,
    /// What one recall is: `exchange`, `turn` or `segment`.
    #[schema(value_type = Option<String>, example = "exchange")]
    unit: Option<Word<Unit>>,
    /// What may come back at all.
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
    /// Say of every candidate why it is in or out. Nothing counts as used.
    #[serde(default)]
    explain: bool,
    /// Say of this exchange why it is in or out.
    #[schema(value_type = Option<Uuid>)]
    about: Option<ExchangeId>,
}

struct Asked {
    request: RecallRequest,
    explain: bool,
    about: Option<ExchangeId>,
}

impl RecallBody {
    fn into_asked(self, who: &Principal) -> Result<Asked, ApiError> {
        let request = RecallRequest {
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
            ..RecallRequest::new(who.user, self.query.0)
        };
        Ok(Asked { request, explain: self.explain || self.about.is_some(), about: self.about })
    }
}

/// Layers as they are called on the wire.
pub(crate) fn layer_names(names: Vec<Words<64>>) -> Vec<LayerName> {
    names.into_iter().map(|name| LayerName(Cow::Owned(name.0))).collect()
}

/// What may come back at all: every condition that is given must hold.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct FilterBody {
    /// Only from these sessions.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    sessions: Vec<SessionId>,
    /// Only from these collections.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    collections: Vec<Collection>,
    /// Only from these sources.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    sources: Vec<Source>,
    /// Only what these roles said.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    roles: Vec<Word<Role>>,
    /// Only what was said at this moment or later: RFC 3339 with its zone.
    #[schema(value_type = Option<DateTime<Utc>>)]
    from: Option<Moment>,
    /// Only what was said before this moment.
    #[schema(value_type = Option<DateTime<Utc>>)]
    until: Option<Moment>,
    /// Only pinned exchanges, or only others.
    pinned: Option<bool>,
}

impl FilterBody {
    /// As the engine has it; a fault is named beneath `field`.
    pub(crate) fn into_filter(self, field: &str) -> Result<Filter, ApiError> {
        for (name, count) in [
            ("sessions", self.sessions.len()),
            ("collections", self.collections.len()),
            ("sources", self.sources.len()),
            ("roles", self.roles.len()),
        ] {
            if count > MOST_NAMED {
                return Err(ApiError::invalid(format!("{field}.{name}"), format!("names at most {MOST_NAMED}")));
            }
        }
        Ok(Filter {
            sessions: self.sessions,
            collections: self.collections,
            sources: self.sources,
            roles: self.roles.into_iter().map(|role| role.0).collect(),
            time: time_range(self.from, self.until)?,
            pinned: self.pinned,
        })
    }
}

const MOST_NAMED: usize = 1_000;

/// What memory answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecallAnswer {
    /// What was found: every layer's first, then every layer's second, and so on. Empty when nothing bears on it.
    recalls: Vec<RecallItem>,
    /// What could not contribute, and why.
    gaps: Vec<GapItem>,
    /// The time that the question's own words speak of.
    time_hint: Option<TimeSpan>,
    /// How the question was searched beside its own words, when it leaned on what was said before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rewrite: Option<String>,
    /// How long each stage took.
    timings: Vec<TimingItem>,
    /// What each layer weighed, when asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    considered: Vec<LayerConsidered>,
}

impl From<Explanation> for RecallAnswer {
    fn from(Explanation { reply, layers }: Explanation) -> Self {
        let RecallReply { recalls, gaps, time_hint, rewrite, timings } = reply;
        Self {
            recalls: recalls.into_iter().map(RecallItem::from).collect(),
            gaps: gaps.into_iter().map(GapItem::from).collect(),
            time_hint: time_hint.map(TimeSpan::from),
            rewrite,
            timings: timings.into_iter().map(TimingItem::from).collect(),
            considered: layers.into_iter().map(LayerConsidered::from).collect(),
        }
    }
}

/// One remembered thing, and where it comes from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecallItem {
    /// Names it within its layer; stable over time.
    id: String,
    /// Who remembers it.
    layer: String,
    /// What it says.
    text: String,
    /// Relevance within its layer, 0 to 1. Scores of two layers are not comparable.
    score: f32,
    /// How an assistant cites it: `[S: 2026-02-06]`.
    citation: String,
    /// The exchange it was learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<Uuid>,
    /// The exchanges it covers, when there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exchanges: Vec<Uuid>,
    /// The session it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The place of its first turn in your journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_seq: Option<i64>,
    /// The place of its last turn in your journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<i64>,
    /// The collection it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
    /// Where it entered: `session`, `import:<file>`, ...
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// When it was said or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    occurred_at: Option<DateTime<Utc>>,
    /// Who said it, when it is a single turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// The speaker's name, when it is a single turn of a named speaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    speaker: Option<String>,
    /// The number of its topic in the session, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<i32>,
    /// When that topic began.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_began_at: Option<DateTime<Utc>>,
    /// The file it stands in, for layers that read files.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Whether it is pinned.
    pinned: bool,
    /// What stood before and after it, when asked for: oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    neighbours: Vec<String>,
}

impl From<Recall> for RecallItem {
    fn from(found: Recall) -> Self {
        let from = found.provenance;
        let (first_seq, last_seq) = from.seqs.map(|(first, last)| (first.0, last.0)).unzip();
        let (topic, topic_began_at) = from.topic.unzip();
        Self {
            id: found.id.0,
            layer: found.layer.to_string(),
            text: found.text,
            score: found.score.0,
            citation: found.citation.0,
            exchange: from.exchange.map(|id| id.0),
            exchanges: from.exchanges.into_iter().map(|id| id.0).collect(),
            session: from.session.map(String::from),
            first_seq,
            last_seq,
            collection: from.collection.map(String::from),
            source: from.source.map(String::from),
            occurred_at: from.occurred_at,
            role: from.role.map(Role::as_str),
            speaker: from.speaker,
            topic,
            topic_began_at,
            file: from.file,
            pinned: from.pinned,
            neighbours: found.neighbours,
        }
    }
}

/// Something that could not contribute.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GapItem {
    /// The layer or the stage that is missing: `episodes`, `embedder`, `window`, ...
    of: String,
    /// `late`, `failed`, `off`, `locked`, `behind`, `over_budget` or `damaged`.
    reason: &'static str,
    /// In words.
    detail: String,
}

impl From<Gap> for GapItem {
    fn from(gap: Gap) -> Self {
        Self { of: gap.of, reason: GapReason::as_str(gap.reason), detail: gap.detail }
    }
}

/// From a moment (included) until another (excluded).
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TimeSpan {
    /// The first moment that is in.
    from: DateTime<Utc>,
    /// The first moment that is out.
    until: DateTime<Utc>,
}

impl From<TimeRange> for TimeSpan {
    fn from(TimeRange { from, until }: TimeRange) -> Self {
        Self { from, until }
    }
}

/// How long one stage took.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TimingItem {
    /// `window`, `embed`, `rewrite`, `recall`, `pack`, `render`, `total`, or a layer's name. Stages overlap: layers are asked
    /// while the question is embedded.
    stage: String,
    /// In milliseconds.
    ms: f64,
}

impl From<Timing> for TimingItem {
    fn from(Timing { stage, ms }: Timing) -> Self {
        Self { stage, ms }
    }
}

/// What one layer weighed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LayerConsidered {
    /// Which layer.
    layer: String,
    /// Every candidate with its scores and its fate.
    candidates: Vec<Candidate>,
}

impl From<LayerExplanation> for LayerConsidered {
    fn from(LayerExplanation { layer, considered }: LayerExplanation) -> Self {
        Self { layer: layer.to_string(), candidates: considered.into_iter().map(Candidate::from).collect() }
    }
}

/// A candidate and what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Candidate {
    /// Which recall it is or would have been.
    id: String,
    /// The exchange it was learned from.
    exchange: Option<Uuid>,
    /// The beginning of its text.
    excerpt: String,
    /// Every score that was given, in the order in which they were given.
    scores: Vec<NamedScore>,
    /// In or out, and why.
    fate: &'static str,
}

/// A score and what it measures.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamedScore {
    /// `vector`, `words`, `fused`, `decay`, ...
    name: String,
    /// The score itself.
    value: f32,
}

impl From<Considered> for Candidate {
    fn from(considered: Considered) -> Self {
        Self {
            id: considered.id.0,
            exchange: considered.exchange.map(|id| id.0),
            excerpt: considered.excerpt,
            scores: considered.scores.into_iter().map(|(name, value)| NamedScore { name, value }).collect(),
            fate: fate_word(considered.fate),
        }
    }
}

/// The word for a fate on the wire.
pub(crate) fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Recalled => "recalled",
        Fate::OverBudget => "over_budget",
        Fate::Filtered => "filtered",
        Fate::InWindow => "in_window",
        Fate::BelowLimit => "below_limit",
        Fate::BelowThreshold => "below_threshold",
        Fate::Decayed => "decayed",
        Fate::Duplicate => "duplicate",
        Fate::NotFound => "not_found",
        Fate::Locked => "locked",
        Fate::Superseded => "superseded",
        Fate::Forgotten => "forgotten",
        Fate::NotYetLearned => "not_yet_learned",
    }
}

#[cfg(test)]
mod tests {
    use skymem_core::UserId;

    use super::*;
    use crate::body::parse;

    fn check(json: &str, fault: Option<&str>) {
        let who = Principal::without_key(UserId(Uuid::nil()));
        match (parse::<RecallBody>(json).and_then(|body| body.into_asked(&who)), fault) {
            (Ok(_), None) => {}
            (Err(error), Some(fault)) => assert!(error.detail().contains(fault), "{json}: {}", error.detail()),
            (Ok(_), Some(fault)) => panic!("{json} was accepted where {fault:?} was expected"),
            (Err(error), None) => panic!("{json}: {}", error.detail()),
        }
    }

    #[test]
    fn a_question_is_put_with_what_it_may_find() {
        check(r#"{"query": "which database"}"#, None);
        check(r#"{"query": "x", "top_k": 20, "unit": "turn", "neighbours": 1, "least_score": 0.5}"#, None);
        check(r#"{"query": "x", "filter": {"roles": ["user"], "from": "2026-01-01T00:00:00Z"}}"#, None);
        check(r#"{"query": "x", "about": "00000000-0000-7000-8000-000000000000"}"#, None);
    }

    #[test]
    fn a_question_that_cannot_be_put_is_told_why() {
        check("{}", Some("query: missing field"));
        check(r#"{"query": " "}"#, Some("query: must not be blank"));
        check(r#"{"query": "x", "top_k": 1}"#, Some("top_k: is a whole number from 2 to 20, not 1"));
        check(r#"{"query": "x", "top_k": "4"}"#, Some("top_k: invalid type"));
        check(r#"{"query": "x", "unit": "page"}"#, Some("unit: a unit is one of exchange, turn, segment"));
        check(r#"{"query": "x", "least_score": 2}"#, Some("least_score: is a number from 0 to 1"));
        check(r#"{"query": "x", "filter": {"session": "a"}}"#, Some("filter.session: unknown field"));
        check(r#"{"query": "x", "filter": {"roles": ["robot"]}}"#, Some("filter.roles[0]: a role is one of"));
        check(r#"{"query": "x", "about": "7"}"#, Some("about: UUID parsing failed"));
        check(
            r#"{"query": "x", "filter": {"from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}}"#,
            Some("until"),
        );
    }
}
