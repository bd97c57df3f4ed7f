//! Telling memory something directly.

use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use serde::Deserialize;
use skymem_core::{Collection, SessionId, Source};
use skymem_engine::{Memory, RememberRequest};
use utoipa::ToSchema;

use crate::api::turns::TurnFateAnswer;
use crate::auth::{Principal, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Moment, Words};

/// Writes down a note that memory is told directly: "remember that ...". Idempotent: the same note is stored once.
#[utoipa::path(
    operation_id = "remember", tag = "turns", security(("key" = ["write"])),
    responses(
        (status = 201, description = "The note is stored", body = TurnFateAnswer),
        (status = 200, description = "It was stored before, or is not kept: `fate` says which", body = TurnFateAnswer),
    ),
)]
#[post("/remember")]
pub(crate) async fn remember(
    who: Writer,
    memory: Data<Memory>,
    note: Json<NoteBody>,
) -> Result<HttpResponse, ApiError> {
    let fate = memory.remember(note.into_inner().into_request(&who)).await?;
    Ok(TurnFateAnswer::from(fate).respond())
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
