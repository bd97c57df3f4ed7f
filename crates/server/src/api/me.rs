//! Who is asking, and in which zone their "yesterday" is.

use actix_web::web::{Data, Json as Answer};
use actix_web::{get, patch};
use serde::{Deserialize, Serialize};
use skymem_engine::{Memory, Scope};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Anyone, Principal, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::Words;

/// Shows whose memory your key opens, and what it may do with it.
#[utoipa::path(
    operation_id = "get_me", tag = "users", security(("key" = [])),
    responses((status = 200, description = "Whose memory it is", body = MeAnswer)),
)]
#[get("/me")]
pub(crate) async fn show(who: Anyone, memory: Data<Memory>) -> Result<Answer<MeAnswer>, ApiError> {
    me(&memory, &who).await
}

/// Says in which zone your "yesterday" is.
#[utoipa::path(
    operation_id = "change_me", tag = "users", security(("key" = ["write"])),
    responses((status = 200, description = "Whose memory it is", body = MeAnswer)),
)]
#[patch("/me")]
pub(crate) async fn change(
    who: Writer,
    memory: Data<Memory>,
    body: Json<MeBody>,
) -> Result<Answer<MeAnswer>, ApiError> {
    memory.set_timezone(who.user, &body.into_inner().timezone.0).await?;
    me(&memory, &who).await
}

async fn me(memory: &Memory, who: &Principal) -> Result<Answer<MeAnswer>, ApiError> {
    let user = memory.user(who.user).await?.ok_or_else(|| ApiError::not_found("such user"))?;
    let timezone = memory.timezone(who.user).await?;
    Ok(Answer(MeAnswer {
        user: user.name.into(),
        user_id: user.id.0,
        timezone,
        key: who.key.as_ref().map(ToString::to_string),
        scopes: who.scopes.iter().copied().map(Scope::as_str).collect(),
    }))
}

/// What to change about you.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct MeBody {
    /// The name of a zone: `Europe/Berlin`.
    #[schema(value_type = String, example = "Europe/Berlin")]
    timezone: Words<64>,
}

/// Whose memory it is, and what may be done with it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeAnswer {
    /// The user's name.
    user: String,
    /// The user's id.
    user_id: Uuid,
    /// The zone their "yesterday" is in.
    timezone: Option<String>,
    /// The id of the key; null when no key is asked for.
    key: Option<String>,
    /// What it may do: `read`, `write`, `admin`; the last stands for all.
    scopes: Vec<&'static str>,
}
