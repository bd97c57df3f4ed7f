//! Keys: the ways into a user's memory. An admin arranges another user's with the header `X-Memory-User`.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, delete, get, post};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_engine::{Key, KeyId, Memory, NewKey, Scope};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Admin, Door};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Moment, Word, Words};

/// Lists the keys of a user, oldest first. Their secrets are not known.
#[utoipa::path(
    operation_id = "list_keys", tag = "keys", security(("key" = ["admin"])),
    responses((status = 200, description = "The keys", body = KeysAnswer)),
)]
#[get("/keys")]
pub(crate) async fn list(who: Admin, memory: Data<Memory>) -> Result<Answer<KeysAnswer>, ApiError> {
    let keys = memory.keys(who.user).await?;
    Ok(Answer(KeysAnswer { keys: keys.into_iter().map(KeyAnswer::from).collect() }))
}

/// Makes a key. Its text is in the answer, for the only time.
#[utoipa::path(
    operation_id = "make_key", tag = "keys", security(("key" = ["admin"])),
    responses((status = 201, description = "The key, with its text", body = NewKeyAnswer)),
)]
#[post("/keys")]
pub(crate) async fn make(who: Admin, memory: Data<Memory>, body: Json<KeyBody>) -> Result<HttpResponse, ApiError> {
    let KeyBody { name, scopes, expires_at } = body.into_inner();
    let scopes: Vec<Scope> = scopes.into_iter().map(|scope| scope.0).collect();
    let key = memory.make_key(who.user, &name.0, &scopes, expires_at.map(|moment| moment.0)).await?;
    Ok(HttpResponse::Created().json(NewKeyAnswer::from(key)))
}

/// Takes a key back, at once and for good. Idempotent.
#[utoipa::path(
    operation_id = "revoke_key", tag = "keys", security(("key" = ["admin"])), params(KeyPath),
    responses((status = 204, description = "It opens nothing any more")),
)]
#[delete("/keys/{key}")]
pub(crate) async fn revoke(
    who: Admin,
    memory: Data<Memory>,
    door: Data<Door>,
    path: Path<KeyPath>,
) -> Result<HttpResponse, ApiError> {
    let id = path.into_inner().key.0;
    let revoked = memory.revoke_key(who.user, &id).await?;
    door.keys.clear();
    match revoked {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(not_found(&id)),
    }
}

/// Makes a new key like this one, which is taken back: at once, or at `old_until`, so that clients can change over.
#[utoipa::path(
    operation_id = "rotate_key", tag = "keys", security(("key" = ["admin"])), params(KeyPath),
    responses((status = 201, description = "The new key, with its text", body = NewKeyAnswer)),
)]
#[post("/keys/{key}/rotate")]
pub(crate) async fn rotate(
    who: Admin,
    memory: Data<Memory>,
    door: Data<Door>,
    path: Path<KeyPath>,
    body: Json<RotateKeyBody>,
) -> Result<HttpResponse, ApiError> {
    let id = path.into_inner().key.0;
    let old_until = body.into_inner().old_until.map(|moment| moment.0);
    let key = memory.rotate_key(who.user, &id, old_until).await?.ok_or_else(|| not_found(&id))?;
    door.keys.clear();
    Ok(HttpResponse::Created().json(NewKeyAnswer::from(key)))
}

fn not_found(id: &KeyId) -> ApiError {
    ApiError::not_found(format!("key {id}"))
}

/// Names a key.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct KeyPath {
    /// The key's id: the part of its text between `skm_` and the next `_`.
    #[param(value_type = String)]
    key: Word<KeyId>,
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct KeyBody {
    /// For people: `laptop`.
    #[schema(value_type = String, max_length = 200)]
    name: Words<200>,
    /// What it may do: `read` (recall, context, every listing), `write` (record, edit, forget), `admin` (everything).
    #[schema(value_type = Vec<String>, example = json!(["read", "write"]))]
    scopes: Vec<Word<Scope>>,
    /// When it stops opening anything, in RFC 3339 with its zone; absent for never.
    #[schema(value_type = Option<DateTime<Utc>>)]
    expires_at: Option<Moment>,
}

/// How a key is exchanged for a new one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RotateKeyBody {
    /// Until when the old one opens, in RFC 3339 with its zone; absent for no longer.
    #[schema(value_type = Option<DateTime<Utc>>)]
    old_until: Option<Moment>,
}

/// What is known of a key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeyAnswer {
    /// Its name for ever, in logs too.
    id: String,
    /// For people.
    name: String,
    /// What it may do.
    scopes: Vec<&'static str>,
    /// When it was made.
    created_at: DateTime<Utc>,
    /// When it stops opening anything.
    expires_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    revoked_at: Option<DateTime<Utc>>,
    /// When it last opened something, to the minute.
    last_used_at: Option<DateTime<Utc>>,
}

impl From<Key> for KeyAnswer {
    fn from(key: Key) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name,
            scopes: key.scopes.into_iter().map(Scope::as_str).collect(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// The keys of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct KeysAnswer {
    /// The keys, oldest first.
    keys: Vec<KeyAnswer>,
}

/// A key just made.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewKeyAnswer {
    /// What is known of it from now on.
    key: KeyAnswer,
    /// Its text, `skm_<id>_<secret>`: shown this once.
    text: String,
}

impl From<NewKey> for NewKeyAnswer {
    fn from(new: NewKey) -> Self {
        Self { text: new.secret.reveal().to_owned(), key: new.key.into() }
    }
}
