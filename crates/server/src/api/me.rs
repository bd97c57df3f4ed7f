//! Who is asking, and in which zone their "yesterday" is.

use actix_web::web::{Data, Json as Answer};
use actix_web::{get, patch};
use serde::{Deserialize, Serialize};
use skymem_core::Collection;
use skymem_engine::{Memory, Profile, Scope, SecretPolicy, time_zone};
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
    let MeBody { timezone, secrets, secrets_collection } = body.into_inner();
    let (policy, collection) = (secrets.into_patch(|policy| policy.0), secrets_collection.into_patch(|name| name));
    if timezone.is_none() && policy.is_none() && collection.is_none() {
        return Err(ApiError::invalid("", "give `timezone`, `secrets` or `secrets_collection`, or several of them"));
    }
    // Before anything is changed: what is refused is refused whole.
    let zone = timezone.map(|timezone| time_zone(&timezone.0)).transpose()?;
    if policy.is_some() || collection.is_some() {
        memory.set_secrets(who.user, policy, collection).await?;
    }
    if let Some(zone) = zone {
        memory.set_timezone(who.user, zone).await?;
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
    /// `[secret: ...]` in their place, `allow` keeps them as they are, `seal` has each exchange that holds one written into
    /// `secrets_collection`; null for the server's setting.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "redact")]
    secrets: Change<Word<SecretPolicy>>,
    /// The sealed collection that secrets go to when they are sealed; null for none.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 64)]
    secrets_collection: Change<Collection>,
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
    /// What is done about secrets in what they tell: `redact`, `allow` or `seal`.
    secrets: &'static str,
    /// The sealed collection that they go to when they are sealed.
    secrets_collection: Option<String>,
    /// The id of the key; null when no key is asked for.
    key: Option<String>,
    /// What it may do: `read`, `write`, `admin`; the last stands for all.
    scopes: Vec<&'static str>,
}

impl MeAnswer {
    fn found(profile: Option<Profile>, who: &Principal) -> Result<Answer<Self>, ApiError> {
        let Profile { user, timezone, secrets, secrets_collection } =
            profile.ok_or_else(|| ApiError::not_found("such user"))?;
        Ok(Answer(Self {
            user: user.name.into(),
            user_id: user.id.0,
            timezone: timezone.name(),
            secrets: secrets.as_str(),
            secrets_collection: secrets_collection.map(String::from),
            key: who.key.as_ref().map(ToString::to_string),
            scopes: who.scopes.iter().copied().map(Scope::as_str).collect(),
        }))
    }
}
