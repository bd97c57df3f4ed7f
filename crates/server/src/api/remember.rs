//! Telling memory something directly.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use serde::{Deserialize, Serialize};
use skymem_core::{Collection, SessionId, Source};
use skymem_engine::{Memory, Recorded, RememberRequest, TurnFate};
use utoipa::ToSchema;

use crate::api::secrets::SecretsAnswer;
use crate::api::turns::TurnFateAnswer;
use crate::auth::{Principal, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Moment, Words};

/// Writes down a note that memory is told directly: "remember that ...". Idempotent: the same note is stored once.
#[utoipa::path(
    operation_id = "remember", tag = "turns", security(("key" = ["write"])),
    responses(
        (status = 201, description = "The note is stored", body = NoteAnswer),
        (status = 200, description = "It was stored before, or is not kept: `fate` says which", body = NoteAnswer),
    ),
)]
#[post("/remember")]
pub(crate) async fn remember(
    who: Writer,
    memory: Data<Memory>,
    note: Json<NoteBody>,
) -> Result<HttpResponse, ApiError> {
    Ok(NoteAnswer::from(memory.remember(note.into_inner().into_request(&who)).await?).respond())
}

/// What became of the note.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NoteAnswer {
    /// As with every turn.
    #[serde(flatten)]
    fate: TurnFateAnswer,
    /// What secrets were in it; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretsAnswer>,
}

impl NoteAnswer {
    fn respond(&self) -> HttpResponse {
        let status = if self.fate.is_new() { StatusCode::CREATED } else { StatusCode::OK };
        HttpResponse::build(status).json(self)
    }
}

impl From<Recorded> for NoteAnswer {
    fn from(recorded: Recorded) -> Self {
        let fate = recorded.turns.first().copied().unwrap_or(TurnFate::NotKept);
        Self { fate: fate.into(), secrets: SecretsAnswer::of(recorded.secrets) }
    }
}

/// What to remember.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct NoteBody {
    /// The note itself.
    #[schema(value_type = String, max_length = 100_000)]
    text: Words<100_000>,
    /// The collection it stands in; absent for the default one.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// The session it came up in.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Where it comes from; absent for `remember`.
    #[schema(value_type = Option<String>)]
    source: Option<Source>,
    /// When it was so, in RFC 3339 with its zone; absent for now.
    #[schema(value_type = Option<DateTime<Utc>>)]
    occurred_at: Option<Moment>,
    /// Pinned from the start.
    #[serde(default)]
    pinned: bool,
}

impl NoteBody {
    fn into_request(self, who: &Principal) -> RememberRequest {
        RememberRequest {
            user: who.user,
            text: self.text.0,
            collection: self.collection,
            session: self.session,
            source: self.source,
            occurred_at: self.occurred_at.map(|moment| moment.0),
            pinned: self.pinned,
        }
    }
}
