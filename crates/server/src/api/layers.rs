//! The layers: what each holds, how far it is, and what it could not learn.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, get, post};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_engine::{LayerView, Memory, Parked};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::auth::{Admin, Reader};
use crate::error::ApiError;

/// Lists the layers as they stand for you, in reading order.
#[utoipa::path(
    operation_id = "list_layers", tag = "layers", security(("key" = ["read"])),
    responses((status = 200, description = "The layers", body = LayersAnswer)),
)]
#[get("/layers")]
pub(crate) async fn list(who: Reader, memory: Data<Memory>) -> Result<Answer<LayersAnswer>, ApiError> {
    let layers = memory.layers(who.user).await?;
    Ok(Answer(LayersAnswer { layers: layers.into_iter().map(LayerAnswer::from).collect() }))
}

/// Gives a layer the exchanges again that it could not learn from.
#[utoipa::path(
    operation_id = "retry_layer", tag = "layers", security(("key" = ["admin"])), params(LayerPath),
    responses((status = 200, description = "How many exchanges it gets again", body = RetriedAnswer)),
)]
#[post("/layers/{layer}/retry")]
pub(crate) async fn retry(
    who: Admin,
    memory: Data<Memory>,
    path: Path<LayerPath>,
) -> Result<Answer<RetriedAnswer>, ApiError> {
    let retried = memory.retry_parked(who.user, &path.layer).await?;
    Ok(Answer(RetriedAnswer { retried }))
}

/// Has a layer learn your journal again from the beginning, in the background.
#[utoipa::path(
    operation_id = "reset_layer", tag = "layers", security(("key" = ["admin"])), params(LayerPath),
    responses((status = 202, description = "It has begun; `behind` in GET /v1/layers says how far it is")),
)]
#[post("/layers/{layer}/reset")]
pub(crate) async fn reset(who: Admin, memory: Data<Memory>, path: Path<LayerPath>) -> Result<HttpResponse, ApiError> {
    memory.reset_layer(who.user, &path.layer).await?;
    Ok(HttpResponse::Accepted().finish())
}

/// Names a layer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct LayerPath {
    /// Its name: `episodes`, `files`, ...
    layer: String,
}

/// The layers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LayersAnswer {
    /// Every layer, in reading order.
    layers: Vec<LayerAnswer>,
}

/// A layer as it stands for you.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LayerAnswer {
    /// Its name.
    name: String,
    /// What it holds, in the order to show it; null when it gave no answer.
    counts: Option<Vec<CountItem>>,
    /// Bytes in its tables and indexes over all users, when it has any.
    bytes: Option<i64>,
    /// How many exchanges it has not learned yet.
    behind: i64,
    /// The exchanges it could not learn from.
    parked: Vec<ParkedItem>,
    /// What is wrong with your own material, in words.
    faults: Vec<String>,
}

/// How many of something.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountItem {
    /// Of what.
    name: String,
    /// How many.
    count: i64,
}

impl From<LayerView> for LayerAnswer {
    fn from(view: LayerView) -> Self {
        let (counts, bytes) = view.stats.map(|stats| (stats.counts, stats.bytes)).unzip();
        Self {
            name: view.name.to_string(),
            counts: counts.map(|counts| counts.into_iter().map(|(name, count)| CountItem { name, count }).collect()),
            bytes: bytes.flatten(),
            behind: view.behind,
            parked: view.parked.into_iter().map(ParkedItem::from).collect(),
            faults: view.faults,
        }
    }
}

/// An exchange that a layer could not learn from.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedItem {
    /// Which exchange.
    exchange: Uuid,
    /// Why, in words.
    reason: String,
    /// How often it was tried.
    attempts: i64,
    /// When it was set aside.
    parked_at: DateTime<Utc>,
}

impl From<Parked> for ParkedItem {
    fn from(parked: Parked) -> Self {
        Self {
            exchange: parked.exchange.0,
            reason: parked.reason,
            attempts: i64::from(parked.attempts),
            parked_at: parked.parked_at,
        }
    }
}

/// How many exchanges a layer gets again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetriedAnswer {
    /// How many.
    retried: usize,
}
