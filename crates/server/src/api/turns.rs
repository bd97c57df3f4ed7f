//! Turns: what was said, written down as it came.

use std::collections::HashMap;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, get, post};
use chrono::{DateTime, Utc};
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use skymem_core::{Collection, Role, SessionId, Source};
use skymem_engine::{
    Content, EngineError, JournalTurn, MOST_TURNS_AT_ONCE, Memory, MemoryMode, NewTurn, Page, RecordRequest, Recorded,
    SessionChange, TurnFate,
};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::exchanges::TurnAnswer;
use crate::api::pages::PageQuery;
use crate::api::secrets::SecretsAnswer;
use crate::api::sessions::SessionPath;
use crate::auth::{Principal, Reader, Writer};
use crate::body::{Bulk, Query, Text, parse, parse_object};
use crate::error::{ApiError, FieldError};
use crate::wire::{Moment, Word, Words, check_text};

/// Writes turns of one session down, in order, and answers once they are safe. One turn, or `{"turns": [...]}`.
///
/// Idempotent: the same `client_id`, or the same words at the same place of the session, is stored once. All or
/// nothing: when one turn cannot be accepted, none is stored.
#[utoipa::path(
    operation_id = "record_turns", tag = "turns", security(("key" = ["write"])), params(SessionPath),
    request_body(content = RecordBody, description = "One turn, or several"),
    responses(
        (status = 201, description = "Stored, at least one for the first time", body = RecordedAnswer),
        (status = 200, description = "All were stored before, or are not kept: `fate` says which", body = RecordedAnswer),
    ),
)]
#[post("/sessions/{session}/turns")]
pub(crate) async fn record(
    who: Writer,
    memory: Data<Memory>,
    path: Path<SessionPath>,
    body: Text,
) -> Result<HttpResponse, ApiError> {
    let request = RecordBody::read(&body)?.into_request(&who, path.into_inner().session)?;
    Ok(RecordedAnswer::from(memory.record(request).await?).respond())
}

/// Lists the turns of a session, oldest first. Forgotten ones are not shown.
#[utoipa::path(
    operation_id = "list_turns", tag = "turns", security(("key" = ["read"])), params(SessionPath, PageQuery),
    responses((status = 200, description = "A page of turns", body = TurnsAnswer)),
)]
#[get("/sessions/{session}/turns")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    path: Path<SessionPath>,
    page: Query<PageQuery>,
) -> Result<Answer<TurnsAnswer>, ApiError> {
    let turns = memory.turns(who.user, &path.session, &page.into_inner().into()).await?;
    turns.map(|page| Answer(page.into())).ok_or_else(|| path.not_found())
}

/// Writes many turns of many sessions down: `{"turns": [...]}`, a bare array, or a turn a line (NDJSON).
///
/// A turn that cannot be accepted is named by its number and does not keep the others out. Idempotent, so that a
/// batch without an answer is sent again as it was. Up to 10,000 turns, of up to 1,000 sessions.
#[utoipa::path(
    operation_id = "record_bulk", tag = "turns", security(("key" = ["write"])),
    request_body(content((BulkBody = "application/json"), (BulkTurnBody = "application/x-ndjson"))),
    responses(
        (status = 200, description = "None was refused", body = BulkAnswer),
        (status = 207, description = "Some were refused, and are named; the others are stored", body = BulkAnswer),
    ),
)]
#[post("/turns")]
pub(crate) async fn record_bulk(who: Writer, memory: Data<Memory>, body: Bulk) -> Result<HttpResponse, ApiError> {
    let batch = Batch::read(&body.0)?;
    batch.record(&memory, &who).await?.respond()
}

/// One turn, or several.
#[derive(Debug, ToSchema)]
#[schema(title = "RecordBody")]
#[serde(untagged)]
pub(crate) enum RecordBody {
    /// One turn.
    One(OneTurnBody),
    /// Several turns, oldest first.
    Many(ManyTurnsBody),
}

impl RecordBody {
    /// Told apart by `turns` before anything else, so that a fault is reported at its field.
    fn read(body: &Text) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        struct Peek {
            turns: Option<IgnoredAny>,
        }
        let has_turns = serde_json::from_str::<Peek>(body.as_str()).is_ok_and(|peek| peek.turns.is_some());
        let json = body.as_str();
        if has_turns { parse_object(json).map(Self::Many) } else { parse_object(json).map(Self::One) }
    }

    fn into_request(self, who: &Principal, session: SessionId) -> Result<RecordRequest, ApiError> {
        let (turns, collection, source, memory) = match self {
            RecordBody::One(one) => {
                let turn = NewTurn {
                    role: one.role.0,
                    speaker: one.speaker.map(|speaker| speaker.0),
                    content: one.content.0,
                    occurred_at: one.occurred_at.map(|moment| moment.0),
                    client_id: one.client_id.map(|id| id.0),
                };
                (vec![turn], one.collection, one.source, one.memory)
            }
            RecordBody::Many(many) => {
                if many.turns.is_empty() || many.turns.len() > MOST_TURNS_AT_ONCE {
                    return Err(ApiError::invalid("turns", format!("holds 1 to {MOST_TURNS_AT_ONCE} turns")));
                }
                let turns = many.turns.into_iter().map(NewTurn::from).collect();
                (turns, many.collection, many.source, many.memory)
            }
        };
        Ok(RecordRequest { user: who.user, session, turns, collection, source, memory: memory.map(|memory| memory.0) })
    }
}

/// One turn of a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct OneTurnBody {
    /// `user`, `assistant`, `system` or `tool`.
    #[schema(value_type = String, example = "user")]
    role: Word<Role>,
    /// What was said: a text, or OpenAI content parts.
    content: Said,
    /// The speaker's name, in a conversation between named people; `name` is understood too.
    #[serde(alias = "name")]
    #[schema(value_type = Option<String>, max_length = 200)]
    speaker: Option<Words<200>>,
    /// When it was said, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
    /// Your own id for the turn: the same id in the same session is stored once.
    #[schema(value_type = Option<String>, max_length = 200)]
    client_id: Option<Words<200>>,
    /// The collection it stands in; absent for the session's own.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where it comes from; absent for `session`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// What memory may do with it: `off`, `read`, `write` or `readwrite`, but no more than the session allows.
    #[schema(value_type = Option<String>)]
    memory: Option<Word<MemoryMode>>,
}

/// Several turns of a session, oldest first.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ManyTurnsBody {
    /// The turns, oldest first: 1 to 5,000.
    turns: Vec<TurnBody>,
    /// The collection they stand in; absent for the session's own.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where they come from; absent for `session`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// What memory may do with them: `off`, `read`, `write` or `readwrite`, but no more than the session allows.
    #[schema(value_type = Option<String>)]
    memory: Option<Word<MemoryMode>>,
}

/// A turn among others of its session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct TurnBody {
    /// `user`, `assistant`, `system` or `tool`.
    #[schema(value_type = String, example = "user")]
    role: Word<Role>,
    /// What was said: a text, or OpenAI content parts.
    content: Said,
    /// The speaker's name, in a conversation between named people; `name` is understood too.
    #[serde(alias = "name")]
    #[schema(value_type = Option<String>, max_length = 200)]
    speaker: Option<Words<200>>,
    /// When it was said, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
    /// Your own id for the turn: the same id in the same session is stored once.
    #[schema(value_type = Option<String>, max_length = 200)]
    client_id: Option<Words<200>>,
}

impl From<TurnBody> for NewTurn {
    fn from(turn: TurnBody) -> Self {
        Self {
            role: turn.role.0,
            speaker: turn.speaker.map(|speaker| speaker.0),
            content: turn.content.0,
            occurred_at: turn.occurred_at.map(|moment| moment.0),
            client_id: turn.client_id.map(|id| id.0),
        }
    }
}

/// What a message says: a text, or OpenAI content parts. All parts are kept; the text ones are read.
#[derive(Debug, ToSchema)]
#[schema(value_type = SaidSchema)]
pub(crate) struct Said(Content);

/// A text, or OpenAI content parts such as `{"type": "text", "text": "..."}`.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `Said` to readers of the API")]
enum SaidSchema {
    /// A text.
    Text(String),
    /// Content parts.
    Parts(Vec<Value>),
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrParts;

        impl<'de> Visitor<'de> for TextOrParts {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of content parts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                self.visit_string(text.to_owned())
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                check_text(&text, MOST_CHARACTERS).map_err(E::custom)?;
                if text.trim().is_empty() { Err(E::custom("must not be blank")) } else { Ok(Content::Text(text)) }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
                let mut parts = Vec::new();
                while let Some(Part(part)) = items.next_element()? {
                    parts.push(part);
                }
                if parts.is_empty() { Err(de::Error::custom("must not be empty")) } else { Ok(Content::Parts(parts)) }
            }
        }

        deserializer.deserialize_any(TextOrParts).map(Self)
    }
}

const MOST_CHARACTERS: usize = 1_000_000;

/// One content part: an object with a `type`, of which only `text` is looked into.
struct Part(Value);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = Value::deserialize(deserializer)?;
        check_part(&part).map_err(de::Error::custom)?;
        Ok(Self(part))
    }
}

fn check_part(part: &Value) -> Result<(), String> {
    let Some(kind) = part.get("type").and_then(Value::as_str) else {
        return Err("a content part is an object with a `type`, such as {\"type\": \"text\", \"text\": \"...\"}".into());
    };
    if kind == "text" && !part.get("text").is_some_and(Value::is_string) {
        return Err("a content part of type text has its `text`".into());
    }
    check_texts_within(part)
}

fn check_texts_within(value: &Value) -> Result<(), String> {
    match value {
        Value::String(text) => check_text(text, usize::MAX),
        Value::Array(items) => items.iter().try_for_each(check_texts_within),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
            check_text(name, usize::MAX)?;
            check_texts_within(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// What became of the turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordedAnswer {
    /// What became of each turn, in the order of the request.
    turns: Vec<TurnFateAnswer>,
    /// What secrets were in them; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretsAnswer>,
}

impl RecordedAnswer {
    fn respond(&self) -> HttpResponse {
        let any_new = self.turns.iter().any(TurnFateAnswer::is_new);
        HttpResponse::build(if any_new { StatusCode::CREATED } else { StatusCode::OK }).json(self)
    }
}

impl From<Recorded> for RecordedAnswer {
    fn from(recorded: Recorded) -> Self {
        let turns = recorded.turns.into_iter().map(TurnFateAnswer::from).collect();
        Self { turns, secrets: SecretsAnswer::of(recorded.secrets) }
    }
}

/// What became of one turn.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnFateAnswer {
    /// `stored` now; `known` when it was stored before; `differs` when its client id belongs
    /// to a turn that says something else, which stays; `not_kept` when the session or the request says so; `purged`
    /// when it was removed for good once; `injected` when it says nothing but what skymem itself had put into a prompt.
    fate: &'static str,
    /// Its place in your journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    /// The exchange it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<Uuid>,
}

impl TurnFateAnswer {
    /// Whether it was not there before.
    pub(crate) fn is_new(&self) -> bool {
        self.fate == "stored"
    }

    /// The answer to a request for this alone.
    pub(crate) fn respond(&self) -> HttpResponse {
        HttpResponse::build(if self.is_new() { StatusCode::CREATED } else { StatusCode::OK }).json(self)
    }
}

impl From<TurnFate> for TurnFateAnswer {
    fn from(fate: TurnFate) -> Self {
        let without_place = |fate| Self { fate, seq: None, exchange: None };
        match fate {
            TurnFate::Stored { seq, exchange } => Self { fate: "stored", seq: Some(seq.0), exchange: Some(exchange.0) },
            TurnFate::Known { seq, exchange } => Self { fate: "known", seq: Some(seq.0), exchange: Some(exchange.0) },
            TurnFate::Differs { seq, exchange } => {
                Self { fate: "differs", seq: Some(seq.0), exchange: Some(exchange.0) }
            }
            TurnFate::NotKept => without_place("not_kept"),
            TurnFate::Purged => without_place("purged"),
            TurnFate::Injected => without_place("injected"),
        }
    }
}

/// A page of turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnsAnswer {
    /// The turns, oldest first.
    turns: Vec<JournalTurnAnswer>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl From<Page<JournalTurn>> for TurnsAnswer {
    fn from(page: Page<JournalTurn>) -> Self {
        Self { turns: page.items.into_iter().map(JournalTurnAnswer::from).collect(), next: page.next }
    }
}

/// A turn with all that the journal knows of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JournalTurnAnswer {
    /// The turn itself.
    #[serde(flatten)]
    turn: TurnAnswer,
    /// The exchange it belongs to.
    exchange: Uuid,
    /// The content parts as they came, when it was not plain text.
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Value>,
    /// The client's own id for it.
    client_id: Option<String>,
    /// When it was written down.
    recorded_at: DateTime<Utc>,
}

impl From<JournalTurn> for JournalTurnAnswer {
    fn from(turn: JournalTurn) -> Self {
        Self {
            turn: turn.turn.into(),
            exchange: turn.exchange.0,
            parts: turn.parts,
            client_id: turn.client_id,
            recorded_at: turn.recorded_at,
        }
    }
}

/// Many turns of many sessions, those of one session oldest first.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body, which is read turn by turn")]
pub(crate) struct BulkBody {
    /// The turns: 1 to 10,000, of 1,000 sessions at most.
    turns: Vec<BulkTurnBody>,
}

/// A turn that names its session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct BulkTurnBody {
    /// The conversation it was said in.
    #[schema(value_type = String, max_length = 200)]
    session: SessionId,
    /// The session's title, for people; taken over when the turn is new.
    #[schema(value_type = Option<String>, max_length = 500)]
    title: Option<Words<500>>,
    /// `user`, `assistant`, `system` or `tool`.
    #[schema(value_type = String, example = "user")]
    role: Word<Role>,
    /// What was said: a text, or OpenAI content parts.
    content: Said,
    /// The speaker's name, in a conversation between named people; `name` is understood too.
    #[serde(alias = "name")]
    #[schema(value_type = Option<String>, max_length = 200)]
    speaker: Option<Words<200>>,
    /// When it was said, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
    /// Your own id for the turn: the same id in the same session is stored once.
    #[schema(value_type = Option<String>, max_length = 200)]
    client_id: Option<Words<200>>,
    /// The collection it stands in; absent for the session's own.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where it comes from; absent for `session`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
}

/// What became of many turns.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct BulkAnswer {
    /// How many are stored by this.
    recorded: usize,
    /// How many were stored before.
    already: usize,
    /// How many are not stored because their client id belongs to a turn that says something else, which stays.
    differing: usize,
    /// How many are not kept: their session says so, they were purged once, or skymem itself had put them into a prompt.
    not_kept: usize,
    /// What secrets were in them; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretsAnswer>,
    /// The turns that cannot be accepted.
    refused: Vec<RefusedTurn>,
    /// What became of the others, in the order of the request.
    turns: Vec<BulkTurnFate>,
}

/// A turn that cannot be accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedTurn {
    /// Its place in the request, from 0.
    index: usize,
    /// Its line in the request, from 1, when it came a line at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    /// The field that cannot be accepted; empty when it is the turn as a whole.
    field: String,
    /// What it may be.
    reason: String,
}

/// What became of one turn of many.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkTurnFate {
    /// Its place in the request, from 0.
    index: usize,
    /// What became of it.
    #[serde(flatten)]
    fate: TurnFateAnswer,
}

impl BulkAnswer {
    fn note(&mut self, index: usize, fate: TurnFate) {
        match fate {
            TurnFate::Stored { .. } => self.recorded += 1,
            TurnFate::Known { .. } => self.already += 1,
            TurnFate::Differs { .. } => self.differing += 1,
            TurnFate::NotKept | TurnFate::Purged | TurnFate::Injected => self.not_kept += 1,
        }
        self.turns.push(BulkTurnFate { index, fate: fate.into() });
    }

    fn respond(mut self) -> Result<HttpResponse, ApiError> {
        self.turns.sort_by_key(|turn| turn.index);
        self.refused.sort_by_key(|turn| turn.index);
        if self.turns.is_empty() {
            let errors = self.refused.into_iter().take(MOST_ERRORS).map(FieldError::from).collect();
            return Err(ApiError::invalid_fields(errors));
        }
        let status = if self.refused.is_empty() { StatusCode::OK } else { StatusCode::MULTI_STATUS };
        Ok(HttpResponse::build(status).json(self))
    }
}

/// So many faults say what is wrong with a whole batch.
const MOST_ERRORS: usize = 100;

impl From<RefusedTurn> for FieldError {
    fn from(RefusedTurn { index, line, field, reason }: RefusedTurn) -> Self {
        let place = line.map_or_else(|| format!("turns[{index}]"), |line| format!("line {line}"));
        let field = if field.is_empty() { place } else { format!("{place}.{field}") };
        Self { field, reason }
    }
}

/// So many turns go into one bulk request.
const MOST_TURNS: usize = 10_000;

/// And of so many sessions; of fewer when collection or source change within one. Each is written down by itself, so that
/// more would not be done before the request's time is up.
const MOST_GROUPS: usize = 1_000;

/// Many turns, sorted by session without changing the order within one.
#[derive(Debug, Default)]
struct Batch {
    groups: Vec<Group>,
    refused: Vec<RefusedTurn>,
    /// The last group of each session.
    last: HashMap<SessionId, usize>,
}

/// Turns of one session that can be written down together.
#[derive(Debug)]
struct Group {
    session: SessionId,
    collection: Option<Collection>,
    source: Option<Source>,
    title: Option<String>,
    turns: Vec<(usize, NewTurn)>,
}

impl Batch {
    fn read(body: &Text) -> Result<Self, ApiError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = "an object")]
        struct Envelope {
            turns: Vec<Box<RawValue>>,
        }
        let mut batch = Batch::default();
        if body.is_lines {
            let lines = body.as_str().lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            for (index, (number, line)) in lines.enumerate() {
                batch.add(index, Some(number + 1), line)?;
            }
        } else {
            let turns: Vec<Box<RawValue>> = match body.as_str().trim_start().starts_with('[') {
                true => parse(body.as_str())?,
                false => parse_object::<Envelope>(body.as_str())?.turns,
            };
            for (index, turn) in turns.iter().enumerate() {
                batch.add(index, None, turn.get())?;
            }
        }
        if batch.groups.is_empty() && batch.refused.is_empty() {
            return Err(ApiError::invalid("turns", format!("holds 1 to {MOST_TURNS} turns")));
        }
        Ok(batch)
    }

    fn add(&mut self, index: usize, line: Option<usize>, json: &str) -> Result<(), ApiError> {
        if index >= MOST_TURNS {
            return Err(ApiError::invalid("turns", format!("holds 1 to {MOST_TURNS} turns: send the rest in another")));
        }
        match parse_object::<BulkTurnBody>(json) {
            Ok(turn) => self.sort_in(index, turn)?,
            Err(error) => {
                let FieldError { field, reason } = error.into_first_fault();
                self.refused.push(RefusedTurn { index, line, field, reason });
            }
        }
        Ok(())
    }

    fn sort_in(&mut self, index: usize, turn: BulkTurnBody) -> Result<(), ApiError> {
        let BulkTurnBody { session, title, role, content, speaker, occurred_at, client_id, collection, source } = turn;
        let title = title.map(|title| title.0);
        let new = NewTurn::from(TurnBody { role, content, speaker, occurred_at, client_id });
        let full = self.groups.len() == MOST_GROUPS;
        let last = self.last.get(&session).and_then(|&place| self.groups.get_mut(place));
        match last {
            Some(group) if group.takes(collection.as_ref(), source.as_ref()) => {
                group.title = title.or(group.title.take());
                group.turns.push((index, new));
            }
            _ if full => {
                let reason = format!(
                    "are of at most {MOST_GROUPS} sessions, of fewer where collection or source change within one: \
                     send the rest in another"
                );
                return Err(ApiError::invalid("turns", reason));
            }
            _ => {
                self.last.insert(session.clone(), self.groups.len());
                self.groups.push(Group { session, collection, source, title, turns: vec![(index, new)] });
            }
        }
        Ok(())
    }

    async fn record(self, memory: &Memory, who: &Principal) -> Result<BulkAnswer, ApiError> {
        let mut answer = BulkAnswer { refused: self.refused, ..BulkAnswer::default() };
        for group in self.groups {
            group.record(memory, who, &mut answer).await?;
        }
        Ok(answer)
    }
}

impl Group {
    /// Whether one more turn, of that collection and source, can be written down with these.
    fn takes(&self, collection: Option<&Collection>, source: Option<&Source>) -> bool {
        self.turns.len() < MOST_TURNS_AT_ONCE
            && self.collection.as_ref() == collection
            && self.source.as_ref() == source
    }

    async fn record(self, memory: &Memory, who: &Principal, answer: &mut BulkAnswer) -> Result<(), ApiError> {
        let stored_before = answer.recorded;
        match memory.record_piece(self.request(who, &self.turns)).await {
            Ok(recorded) => {
                for ((index, _), fate) in self.turns.iter().zip(recorded.turns) {
                    answer.note(*index, fate);
                }
                SecretsAnswer::add(&mut answer.secrets, recorded.secrets);
            }
            // One of them cannot be accepted: each by itself, then, so that it keeps none of the others out.
            Err(EngineError::Refused(_)) => self.record_each(memory, who, answer).await?,
            Err(error) => return Err(error.into()),
        }
        if let Some(title) = self.title.filter(|_| answer.recorded > stored_before) {
            let change = SessionChange { title: Some(Some(title)), ..SessionChange::default() };
            memory.set_session(who.user, &self.session, change).await?;
        }
        Ok(())
    }

    async fn record_each(&self, memory: &Memory, who: &Principal, answer: &mut BulkAnswer) -> Result<(), ApiError> {
        for turn in &self.turns {
            let index = turn.0;
            match memory.record_piece(self.request(who, std::slice::from_ref(turn))).await {
                Ok(recorded) => {
                    recorded.turns.into_iter().for_each(|fate| answer.note(index, fate));
                    SecretsAnswer::add(&mut answer.secrets, recorded.secrets);
                }
                Err(EngineError::Refused(reason)) => {
                    answer.refused.push(RefusedTurn { index, line: None, field: String::new(), reason });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn request(&self, who: &Principal, turns: &[(usize, NewTurn)]) -> RecordRequest {
        RecordRequest {
            user: who.user,
            session: self.session.clone(),
            turns: turns.iter().map(|(_, turn)| turn.clone()).collect(),
            collection: self.collection.clone(),
            source: self.source.clone(),
            memory: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str, is_lines: bool) -> Text {
        Text::new(json, is_lines)
    }

    fn check(json: &str, fault: Option<&str>) {
        match (RecordBody::read(&text(json, false)), fault) {
            (Ok(_), None) => {}
            (Err(error), Some(fault)) => assert!(error.detail().contains(fault), "{json}: {}", error.detail()),
            (outcome, fault) => panic!("{json}: {outcome:?} where {fault:?} was expected"),
        }
    }

    #[test]
    fn a_turn_comes_alone_or_with_others() {
        check(r#"{"role": "user", "content": "hello"}"#, None);
        check(r#"{"turns": [{"role": "user", "content": "hello", "name": "Anna"}], "memory": "read"}"#, None);
        check(r#"{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url"}]}"#, None);
        check(r#"{"role": "user", "content": "hi", "occurred_at": "2026-02-06T09:30:00+01:00"}"#, None);
    }

    #[test]
    fn a_session_of_a_batch_is_written_down_in_pieces_that_the_journal_takes() {
        let turn = r#"{"session": "s", "role": "user", "content": "hello"}"#;
        let lines = [turn; MOST_TURNS_AT_ONCE + 1].join("\n");

        let batch = Batch::read(&text(&lines, true)).unwrap();

        let pieces: Vec<usize> = batch.groups.iter().map(|group| group.turns.len()).collect();
        assert_eq!(pieces, [MOST_TURNS_AT_ONCE, 1]);
        assert_eq!(batch.groups[1].turns[0].0, MOST_TURNS_AT_ONCE);
    }

    #[test]
    fn a_turn_that_cannot_be_accepted_is_told_where() {
        check(r#"{"role": "robot", "content": "hello"}"#, Some("role: a role is one of"));
        check(r#"{"role": "user"}"#, Some("content: missing field"));
        check(r#"{"role": "user", "content": ""}"#, Some("content: must not be blank"));
        check(r#"{"role": "user", "content": null}"#, Some("content: invalid type: null, expected a text or a list"));
        check(r#"{"role": "user", "content": 7}"#, Some("expected a text or a list of content parts"));
        check(r#"{"role": "user", "content": []}"#, Some("content: must not be empty"));
        check(r#"{"role": "user", "content": [{"text": "x"}]}"#, Some("content[0]: a content part is an object"));
        check(r#"{"role": "user", "content": [{"type": "text"}]}"#, Some("content[0]: a content part of type text"));
        check(r#"{"role": "user", "content": [{"type": "x", "a": ["\u0000"]}]}"#, Some("NUL"));
        check(r#"{"role": "user", "content": "a\u0000"}"#, Some("content: must not hold the character NUL"));
        check(r#"{"role": "user", "content": "a", "colour": 1}"#, Some("colour: unknown field `colour`"));
        check(r#"{"role": "user", "content": "a", "occurred_at": "2026-02-06"}"#, Some("occurred_at: is a moment"));
        check(r#"{"turns": [{"role": "user", "content": "a"}, {"role": 1}]}"#, Some("turns[1].role: invalid type"));
        check(r#"{"turns": 7}"#, Some("turns: invalid type"));
        check(r#"{"role": "user", "content": "a", "client_id": ""}"#, Some("client_id: must not be blank"));
        check("[]", Some("invalid type"));
        check("nonsense", Some("not JSON"));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_keeps_no_other_out() {
        let lines = concat!(
            "{\"session\": \"a\", \"role\": \"user\", \"content\": \"1\"}\n",
            "\n",
            "{\"session\": \"a\", \"role\": \"user\"}\n",
            "nonsense\n",
            "{\"session\": \"b\", \"role\": \"user\", \"content\": \"2\"}\r\n",
            "{\"session\": \"a\", \"role\": \"assistant\", \"content\": \"3\"}",
        );

        let batch = Batch::read(&text(lines, true)).unwrap();

        let refused: Vec<_> = batch.refused.iter().map(|turn| (turn.index, turn.line, turn.field.as_str())).collect();
        assert_eq!(refused, [(1, Some(3), "content"), (2, Some(4), "")]);
        let groups: Vec<Vec<usize>> =
            batch.groups.iter().map(|group| group.turns.iter().map(|(index, _)| *index).collect()).collect();
        assert_eq!(groups, [vec![0, 4], vec![3]]);
    }

    #[test]
    fn turns_of_a_session_stay_in_order_when_their_collection_changes() {
        let turn = |collection| format!(r#"{{"session":"a","role":"user","content":"x","collection":"{collection}"}}"#);
        let json = format!("[{},{},{}]", turn("one"), turn("two"), turn("one"));

        let batch = Batch::read(&text(&json, false)).unwrap();

        let order: Vec<usize> = batch.groups.iter().flat_map(|group| group.turns.iter().map(|(i, _)| *i)).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn a_batch_of_more_sessions_than_can_be_written_down_in_time_is_refused_with_the_limit() {
        let turn = |n: usize| format!(r#"{{"session": "{n}", "role": "user", "content": "hello"}}"#);
        let lines = |count: usize| (0..count).map(turn).collect::<Vec<_>>().join("\n");

        assert!(Batch::read(&text(&lines(MOST_GROUPS), true)).is_ok());
        let error = Batch::read(&text(&lines(MOST_GROUPS + 1), true)).unwrap_err();

        assert!(error.detail().contains("at most 1000 sessions"), "{}", error.detail());
    }

    #[test]
    fn a_batch_without_turns_is_refused() {
        for (json, is_lines) in [("[]", false), (r#"{"turns": []}"#, false), ("", true), ("\n\n", true), ("{}", false)]
        {
            assert!(Batch::read(&text(json, is_lines)).is_err(), "{json:?}");
        }
    }
}
