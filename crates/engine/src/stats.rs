//! How memory is doing: counts, lag, faults, and what is set aside.

use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_core::{ExchangeId, LayerName, LayerStats, UserId};

use crate::error::EngineError;
use crate::memory::Memory;

/// What is kept of one user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// How many sessions.
    pub sessions: i64,
    /// How many exchanges that are not forgotten.
    pub exchanges: i64,
    /// How many turns that are not forgotten.
    pub turns: i64,
    /// How many exchanges in the trash.
    pub forgotten: i64,
    /// When the oldest exchange was said.
    pub oldest_at: Option<DateTime<Utc>>,
    /// When the newest exchange was said.
    pub newest_at: Option<DateTime<Utc>>,
    /// Every layer, in reading order.
    pub layers: Vec<LayerView>,
}

/// One layer, as it stands for one user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerView {
    /// Its name.
    pub name: LayerName,
    /// What it holds; `None` when it gave no answer.
    pub stats: Option<LayerStats>,
    /// How many exchanges it has not learned yet.
    pub behind: i64,
    /// The exchanges it could not learn from.
    pub parked: Vec<Parked>,
    /// What is wrong with the user's own material, in words.
    pub faults: Vec<String>,
}

/// An exchange that a layer could not learn from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parked {
    /// Which exchange.
    pub exchange: ExchangeId,
    /// Why, in words.
    pub reason: String,
    /// How often it was tried.
    pub attempts: i32,
    /// When it was set aside.
    pub parked_at: DateTime<Utc>,
}

/// Whether the server can do its work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Health {
    /// Whether the database answers.
    pub database: bool,
    /// The embedder's id.
    pub embedder: String,
    /// Whether the embedder answers.
    pub embedder_answers: bool,
    /// Whether the background work runs in this process.
    pub background: bool,
    /// Each layer, over all users.
    pub layers: Vec<LayerHealth>,
    /// What is wrong, in words; empty when all is well.
    pub faults: Vec<String>,
}

impl Health {
    /// Whether requests can be served. A slow layer or embedder does not make it unready: memory fails open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.database
    }
}

/// How far one layer is, over all users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerHealth {
    /// Its name.
    pub name: LayerName,
    /// How many exchanges it has not learned yet.
    pub behind: i64,
    /// How many exchanges are parked.
    pub parked: i64,
}

impl Memory {
    /// What is kept of a user, in the journal and in every layer.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. A layer that gives none is in the reply without counts.
    pub async fn stats(&self, user: UserId) -> Result<Stats, EngineError> {
        todo!()
    }

    /// The layers as they stand for a user, in reading order.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn layers(&self, user: UserId) -> Result<Vec<LayerView>, EngineError> {
        todo!()
    }

    /// Gives a layer the exchanges again that it could not learn; says how many.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such layer.
    pub async fn retry_parked(&self, user: UserId, layer: &str) -> Result<u64, EngineError> {
        todo!()
    }

    /// Has a layer learn a user's journal again from the beginning.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such layer.
    pub async fn reset_layer(&self, user: UserId, layer: &str) -> Result<(), EngineError> {
        todo!()
    }

    /// Whether the server can do its work.
    pub async fn health(&self) -> Health {
        todo!()
    }
}
