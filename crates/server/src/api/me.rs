//! Who is asking, and in which zone their "yesterday" is.

use actix_web::web::{Data, Json as Answer};
use actix_web::{get, patch};
use serde::{Deserialize, Serialize};
use skymem_engine::{Memory, Profile, Scope, SecretPolicy};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::auth::{Anyone, Principal, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Change, Word, Words};

/// Shows whose memory your key opens, and what it may do with it.
#[utoipa::path(
    operation_id = "get_me", tag = "users", security(("key" = [])),
    responses((status = 200, description = "Whose memory it is", body = MeAnswer)),
)]
#[get("/me")]
pub(crate) async fn show(who: Anyone, memory: Data<Memory>) -> Result<Answer<MeAnswer>, ApiError> {
    MeAnswer::found(memory.profile(who.user).await?, &who)
}

/// Says in which zone your "yesterday" is, and what is done about secrets in what you tell.
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
    let MeBody { timezone, secrets } = body.into_inner();
    if timezone.is_none() && secrets == Change::Leave {
        return Err(ApiError::invalid("", "give `timezone` or `secrets`, or both"));
    }
    if let Some(timezone) = timezone {
        memory.set_timezone(who.user, &timezone.0).await?;
    }
    if let Some(policy) = secrets.into_patch(|policy| policy.0) {
        memory.set_secret_policy(who.user, policy).await?;
    }
    MeAnswer::found(memory.profile(who.user).await?, &who)
}

/// What to change about you.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct MeBody {
    /// The name of a zone: `Europe/Berlin`.
    #[schema(value_type = Option<String>, example = "Europe/Berlin")]
    timezone: Option<Words<64>>,
    /// What is done about tokens, private keys, card numbers and passwords in what you tell from now on: `redact` keeps
    /// `[secret: ...]` in their place, `allow` keeps them as they are; null for the server's setting.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "redact")]
    secrets: Change<Word<SecretPolicy>>,
}

/// Whose memory it is, and what may be done with it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MeAnswer {
    /// The user's name.
    user: String,
    /// The user's id.
    user_id: Uuid,
    /// The zone their "yesterday" is in.
    timezone: &'static str,
    /// What is done about secrets in what they tell: `redact` or `allow`.
    secrets: &'static str,
    /// The id of the key; null when no key is asked for.
    key: Option<String>,
    /// What it may do: `read`, `write`, `admin`; the last stands for all.
    scopes: Vec<&'static str>,
}

impl MeAnswer {
    fn found(profile: Option<Profile>, who: &Principal) -> Result<Answer<Self>, ApiError> {
        let Profile { user, timezone, secrets } = profile.ok_or_else(|| ApiError::not_found("such user"))?;
        Ok(Answer(Self {
            user: user.name.into(),
            user_id: user.id.0,
            timezone: timezone.name(),
            secrets: secrets.as_str(),
            key: who.key.as_ref().map(ToString::to_string),
            scopes: who.scopes.iter().copied().map(Scope::as_str).collect(),
        }))
    }
}
