//! Collections: shelves of exchanges that are kept, recalled and pruned together.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, delete, get, put};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::Collection;
use skymem_engine::{CollectionSettings, Memory, Shelf};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Reader, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Days, Fraction, Whole};

/// Lists your collections, by name.
#[utoipa::path(
    operation_id = "list_collections", tag = "collections", security(("key" = ["read"])),
    responses((status = 200, description = "The collections", body = CollectionsAnswer)),
)]
#[get("/collections")]
pub(crate) async fn list(who: Reader, memory: Data<Memory>) -> Result<Answer<CollectionsAnswer>, ApiError> {
    let collections = memory.collections(who.user).await?;
    Ok(Answer(CollectionsAnswer { collections: collections.into_iter().map(CollectionAnswer::from).collect() }))
}

/// Says how a collection is kept; it is made when it is new. What is absent is as the server's settings have it.
#[utoipa::path(
    operation_id = "set_collection", tag = "collections", security(("key" = ["write"])), params(CollectionPath),
    responses((status = 200, description = "The collection as it then is", body = CollectionAnswer)),
)]
#[put("/collections/{collection}")]
pub(crate) async fn set(
    who: Writer,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
    body: Json<CollectionBody>,
) -> Result<Answer<CollectionAnswer>, ApiError> {
    let collection = memory.set_collection(who.user, &path.collection, body.into_inner().into()).await?;
    Ok(Answer(collection.into()))
}

/// Removes an empty collection. One that holds something is emptied first: `POST /v1/forget` with its name.
#[utoipa::path(
    operation_id = "delete_collection", tag = "collections", security(("key" = ["write"])), params(CollectionPath),
    responses((status = 204, description = "It is gone")),
)]
#[delete("/collections/{collection}")]
pub(crate) async fn remove(
    who: Writer,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
) -> Result<HttpResponse, ApiError> {
    match memory.delete_collection(who.user, &path.collection).await? {
        true => Ok(HttpResponse::NoContent().finish()),
        false => Err(ApiError::not_found(format!("collection {}", path.collection))),
    }
}

/// Names a collection.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct CollectionPath {
    /// Its name: lower-case letters, digits, `-` and `_`.
    #[param(value_type = String, max_length = 64)]
    pub(crate) collection: Collection,
}

/// How a collection is kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct CollectionBody {
    /// The age in days at which its episodes count half.
    #[schema(value_type = Option<f32>, exclusive_minimum = 0, maximum = 100_000)]
    half_life_days: Option<Days>,
    /// The part of relevance that never fades.
    #[schema(value_type = Option<f32>, minimum = 0, maximum = 1)]
    decay_floor: Option<Fraction>,
    /// The size, in tokens, of the parts that a long exchange is split into.
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 4_000)]
    part_tokens: Option<Whole<100, 4_000>>,
}

impl From<CollectionBody> for CollectionSettings {
    fn from(body: CollectionBody) -> Self {
        Self {
            half_life_days: body.half_life_days.map(|days| days.0),
            decay_floor: body.decay_floor.map(|floor| floor.0),
            part_tokens: body.part_tokens.map(|tokens| tokens.0),
        }
    }
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CollectionAnswer {
    /// Its name.
    name: String,
    /// The age in days at which its episodes count half; null as the server's settings have it.
    half_life_days: Option<f32>,
    /// The part of relevance that never fades; null as the server's settings have it.
    decay_floor: Option<f32>,
    /// The size, in tokens, of the parts that a long exchange is split into; null as the server's settings have it.
    part_tokens: Option<u32>,
    /// How many exchanges stand in it.
    exchanges: i64,
    /// When it was made.
    created_at: DateTime<Utc>,
}

impl From<Shelf> for CollectionAnswer {
    fn from(shelf: Shelf) -> Self {
        Self {
            name: shelf.name.into(),
            half_life_days: shelf.settings.half_life_days,
            decay_floor: shelf.settings.decay_floor,
            part_tokens: shelf.settings.part_tokens,
            exchanges: shelf.exchanges,
            created_at: shelf.created_at,
        }
    }
}

/// Your collections.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CollectionsAnswer {
    /// The collections, by name.
    collections: Vec<CollectionAnswer>,
}
