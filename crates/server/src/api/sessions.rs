//! Sessions: one conversation each, named by the client.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{delete, get, patch};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::{Collection, SessionId};
use skymem_engine::{Memory, MemoryMode, Page, Session, SessionChange, Target};
use utoipa::{IntoParams, ToSchema};

use crate::api::forget::ChangedAnswer;
use crate::api::pages::PageQuery;
use crate::auth::{Reader, Writer};
use crate::body::{Json, Query};
use crate::error::ApiError;
use crate::wire::{Change, Whole, Word, Words};

/// Lists your sessions, the most recent first.
#[utoipa::path(
    operation_id = "list_sessions", tag = "sessions", security(("key" = ["read"])), params(PageQuery),
    responses((status = 200, description = "A page of sessions", body = SessionsAnswer)),
)]
#[get("/sessions")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    page: Query<PageQuery>,
) -> Result<Answer<SessionsAnswer>, ApiError> {
    let page = memory.sessions(who.user, &page.into_inner().into()).await?;
    Ok(Answer(page.into()))
}

/// Shows one session.
#[utoipa::path(
    operation_id = "get_session", tag = "sessions", security(("key" = ["read"])), params(SessionPath),
    responses((status = 200, description = "The session", body = SessionAnswer)),
)]
#[get("/sessions/{session}")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<SessionPath>,
) -> Result<Answer<SessionAnswer>, ApiError> {
    let session = memory.session(who.user, &path.session).await?;
    session.map(|session| Answer(session.into())).ok_or_else(|| path.not_found())
}

/// Changes what is known of a session, which is made when it is new. What is absent stays; null takes away.
#[utoipa::path(
    operation_id = "change_session", tag = "sessions", security(("key" = ["write"])), params(SessionPath),
    responses((status = 200, description = "The session as it then is", body = SessionAnswer)),
)]
#[patch("/sessions/{session}")]
pub(crate) async fn change(
    who: Writer,
    memory: Data<Memory>,
    path: Path<SessionPath>,
    body: Json<SessionBody>,
) -> Result<Answer<SessionAnswer>, ApiError> {
    let session = memory.set_session(who.user, &path.session, body.into_inner().into()).await?;
    Ok(Answer(session.into()))
}

/// Forgets every exchange of a session. They can be restored within the trash period. Idempotent.
#[utoipa::path(
    operation_id = "forget_session", tag = "sessions", security(("key" = ["write"])), params(SessionPath),
    responses((status = 200, description = "The exchanges that are forgotten by this", body = ChangedAnswer)),
)]
#[delete("/sessions/{session}")]
pub(crate) async fn forget(
    who: Writer,
    memory: Data<Memory>,
    path: Path<SessionPath>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let changed = memory.forget(who.user, &Target::Session(path.into_inner().session)).await?;
    Ok(Answer(changed.into()))
}

/// Names a session.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SessionPath {
    /// The client's own id of the conversation: up to 200 printable characters, percent-encoded.
    #[param(value_type = String, max_length = 200)]
    pub(crate) session: SessionId,
}

impl SessionPath {
    /// There is no session of that id.
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(format!("session {:?}", self.session.as_str()))
    }
}

/// What to change about a session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct SessionBody {
    /// For people; null takes it away.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500)]
    title: Change<Words<500>>,
    /// What memory may do for the session: `off`, `read`, `write` or `readwrite`.
    #[schema(value_type = Option<String>, example = "readwrite")]
    memory: Option<Word<MemoryMode>>,
    /// The collection that exchanges to come stand in.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Only its last so many turns can be recalled; null for all.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    max_turns: Change<Whole<1, 1_000_000>>,
    /// What was said longer ago is not recalled; null for no limit.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000_000)]
    max_age_hours: Change<Whole<1, 1_000_000>>,
}

impl From<SessionBody> for SessionChange {
    fn from(body: SessionBody) -> Self {
        Self {
            title: body.title.into_patch(|title| title.0),
            memory: body.memory.map(|memory| memory.0),
            collection: body.collection,
            max_turns: body.max_turns.into_patch(|most| most.0),
            max_age_hours: body.max_age_hours.into_patch(|most| most.0),
        }
    }
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionAnswer {
    /// The client's name for it.
    id: String,
    /// The collection its exchanges stand in.
    collection: String,
    /// For people.
    title: Option<String>,
    /// What memory may do for it: `off`, `read`, `write` or `readwrite`.
    memory: &'static str,
    /// Only its last so many turns can be recalled; null for all.
    max_turns: Option<u32>,
    /// What was said longer ago is not recalled; null for no limit.
    max_age_hours: Option<u32>,
    /// When it was first seen.
    created_at: DateTime<Utc>,
    /// When its newest turn was said.
    last_at: DateTime<Utc>,
    /// How many exchanges it has that are not forgotten.
    exchanges: i64,
}

impl From<Session> for SessionAnswer {
    fn from(session: Session) -> Self {
        Self {
            id: session.id.into(),
            collection: session.collection.into(),
            title: session.title,
            memory: session.memory.as_str(),
            max_turns: session.max_turns,
            max_age_hours: session.max_age_hours,
            created_at: session.created_at,
            last_at: session.last_at,
            exchanges: session.exchanges,
        }
    }
}

/// A page of sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionsAnswer {
    /// The sessions, the most recent first.
    sessions: Vec<SessionAnswer>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl From<Page<Session>> for SessionsAnswer {
    fn from(page: Page<Session>) -> Self {
        Self { sessions: page.items.into_iter().map(SessionAnswer::from).collect(), next: page.next }
    }
}
