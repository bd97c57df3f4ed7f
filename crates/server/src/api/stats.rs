//! How much is remembered.

use actix_web::get;
use actix_web::web::{Data, Json as Answer};
use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_engine::{Memory, Stats};
use utoipa::ToSchema;

use crate::api::layers::LayerAnswer;
use crate::auth::Reader;
use crate::error::ApiError;

/// Counts what is kept of you, in the journal and in every layer.
#[utoipa::path(
    operation_id = "stats", tag = "server", security(("key" = ["read"])),
    responses((status = 200, description = "The counts", body = StatsAnswer)),
)]
#[get("/stats")]
pub(crate) async fn stats(who: Reader, memory: Data<Memory>) -> Result<Answer<StatsAnswer>, ApiError> {
    Ok(Answer(memory.stats(who.user).await?.into()))
}

/// What is kept of you.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StatsAnswer {
    /// How many sessions.
    sessions: i64,
    /// How many exchanges that are not forgotten.
    exchanges: i64,
    /// How many turns, those of forgotten exchanges included.
    turns: i64,
    /// How many exchanges in the trash.
    forgotten: i64,
    /// How many exchanges that are pinned.
    pinned: i64,
    /// When the oldest exchange was said.
    oldest_at: Option<DateTime<Utc>>,
    /// When the newest exchange was said.
    newest_at: Option<DateTime<Utc>>,
    /// Bytes of the journal's tables and indexes, over all users.
    journal_bytes: i64,
    /// Every layer, in reading order.
    layers: Vec<LayerAnswer>,
}

impl From<Stats> for StatsAnswer {
    fn from(Stats { journal, layers }: Stats) -> Self {
        Self {
            sessions: journal.sessions,
            exchanges: journal.exchanges,
            turns: journal.turns,
            forgotten: journal.forgotten,
            pinned: journal.pinned,
            oldest_at: journal.first_at,
            newest_at: journal.last_at,
            journal_bytes: journal.bytes,
            layers: layers.into_iter().map(LayerAnswer::from).collect(),
        }
    }
}
