//! Whether the server lives, and whether it can do its work.

use actix_web::get;
use actix_web::web::{Data, Json as Answer};
use serde::Serialize;
use skymem_engine::{ChatHealth, Health, LayerHealth, Memory};
use utoipa::ToSchema;

use crate::auth::Reader;
use crate::error::{ApiError, Kind};

/// Whether the process answers at all. Asks nothing of anyone.
#[utoipa::path(
    operation_id = "live", tag = "server", security(()),
    responses((status = 200, description = "It does", body = LiveAnswer)),
)]
#[get("/health/live")]
pub(crate) async fn live() -> Answer<LiveAnswer> {
    Answer(LiveAnswer { live: true, version: env!("CARGO_PKG_VERSION") })
}

/// Whether requests can be served. When they cannot, the answer is 503 and names what is missing.
#[utoipa::path(
    operation_id = "ready", tag = "server", security(()),
    responses((status = 200, description = "They can; `faults` says what is not as it should be", body = ReadyAnswer)),
)]
#[get("/health/ready")]
pub(crate) async fn ready(memory: Data<Memory>) -> Result<Answer<ReadyAnswer>, ApiError> {
    let health = memory.health().await;
    if health.is_ready() {
        let chat = health.chat.into_iter().map(ChatHealthItem::from).collect();
        Ok(Answer(ReadyAnswer { ready: true, chat, faults: health.faults }))
    } else {
        Err(ApiError::new(Kind::Unavailable, health.faults.join("; ")))
    }
}

/// How the server is, in full.
#[utoipa::path(
    operation_id = "health", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "How it is", body = HealthAnswer)),
)]
#[get("/health")]
pub(crate) async fn full(_: Reader, memory: Data<Memory>) -> Answer<HealthAnswer> {
    Answer(memory.health().await.into())
}

/// The process answers.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveAnswer {
    /// Always.
    live: bool,
    /// The version of skymem.
    version: &'static str,
}

/// Requests can be served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadyAnswer {
    /// Whether they can.
    ready: bool,
    /// The chat models and how they are; memory works without any.
    chat: Vec<ChatHealthItem>,
    /// What is not as it should be, in words; memory works without it.
    faults: Vec<String>,
}

/// How the server is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthAnswer {
    /// Whether the database answers.
    database: bool,
    /// The embedder's id.
    embedder: String,
    /// Whether the embedder answers.
    embedder_answers: bool,
    /// The chat models and how they are; none is a normal state.
    chat: Vec<ChatHealthItem>,
    /// Each layer, over all users.
    layers: Vec<LayerHealthItem>,
    /// What is wrong, in words; empty when all is well.
    faults: Vec<String>,
}

impl From<Health> for HealthAnswer {
    fn from(health: Health) -> Self {
        Self {
            database: health.database,
            embedder: health.embedder,
            embedder_answers: health.embedder_answers,
            chat: health.chat.into_iter().map(ChatHealthItem::from).collect(),
            layers: health.layers.into_iter().map(LayerHealthItem::from).collect(),
            faults: health.faults,
        }
    }
}

/// How one chat model is, as it was seen within the last seconds.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChatHealthItem {
    /// What it is asked for: `main`, or `rewriter` when that is another one.
    role: &'static str,
    /// Its name.
    model: String,
    /// Whether it could answer.
    answers: bool,
    /// Why not, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

impl From<ChatHealth> for ChatHealthItem {
    fn from(ChatHealth { role, model, answers, fault }: ChatHealth) -> Self {
        Self { role, model, answers, fault }
    }
}

/// How far a layer is, over all users.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LayerHealthItem {
    /// Its name.
    name: String,
    /// How many exchanges it has not learned yet.
    behind: i64,
    /// How many exchanges are parked.
    parked: i64,
    /// How often it failed since it last got on.
    failures: i64,
}

impl From<LayerHealth> for LayerHealthItem {
    fn from(LayerHealth { name, behind, parked, failures }: LayerHealth) -> Self {
        Self { name: name.to_string(), behind, parked, failures }
    }
}
