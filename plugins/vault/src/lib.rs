//! The vault: what was said in sealed collections, searched in memory while they are unlocked.
//!
//! It is told of no exchange: a sealed exchange is none to the engine. It reads the sealed rows itself, with keys that are
//! in memory alone, and searches them as the episodic layer searches what is open. Reading order: `doors.rs` (unlocking and
//! locking), `room.rs` (what is unlocked, and how it stays current), `open.rs`, `fold.rs`, `learned.rs`, `shelf.rs` (the
//! thinking), `behind.rs` (what is kept for the next unlocking), `search.rs`.
//!
//! ```toml
//! [layers.vault]
//! passphrase_work = 16     # a try of a passphrase costs about 2^16 steps and 64 MB; 10 to 20
//! half_life_days = 30.0    # as the episodic layer's settings of the same names
//! decay_floor = 0.8
//! topic_threshold = 0.70
//! ```

mod behind;
mod cores;
mod digest;
mod doors;
mod fold;
mod learned;
mod open;
mod room;
mod search;
mod shelf;
mod sql;
mod vectors;

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use skymem_core::{
    Considered, Exchange, ExchangeId, Host, Layer, LayerError, LayerName, LayerStats, Plugin, Query, Recall, UserId,
    Vault,
};
use skymem_search::decay::Decay;
use skymem_search::draft::Shape;
use skymem_search::fuse::Weights;

use crate::room::Rooms;

const NAME: LayerName = LayerName::of("vault");

/// Opens the vault.
#[derive(Debug, Clone, Copy, Default)]
pub struct VaultPlugin;

#[async_trait]
impl Plugin for VaultPlugin {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError> {
        let settings = Settings::of(host.config)?;
        sqlx::migrate!("../../migrations/vault").run(&host.db).await?;
        Ok(Arc::new(VaultLayer(Arc::new(Rooms::new(host.db, host.embedder, settings)))))
    }
}

/// `[layers.vault]`, as the head of this file describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) passphrase_work: u8,
    half_life_days: f32,
    decay_floor: f32,
    pub(crate) near_equal: f32,
    pub(crate) topic_threshold: f32,
    pub(crate) candidates: usize,
    pub(crate) weights: Weights,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            passphrase_work: 16,
            half_life_days: 30.0,
            decay_floor: 0.8,
            near_equal: 0.2,
            topic_threshold: 0.70,
            candidates: 100,
            weights: Weights::default(),
        }
    }
}

impl Settings {
    fn of(table: toml::Table) -> Result<Self, LayerError> {
        let settings: Settings =
            table.try_into().map_err(|error: toml::de::Error| LayerError::Settings(error.message().to_owned()))?;
        let rules: [(bool, &str); 6] = [
            ((2..=20).contains(&settings.passphrase_work), "passphrase_work must be from 2 to 20"),
            (settings.half_life_days > 0.0, "half_life_days must be above 0"),
            ((0.0..=1.0).contains(&settings.decay_floor), "decay_floor must be from 0 to 1"),
            ((0.0..=1.0).contains(&settings.near_equal), "near_equal must be from 0 to 1"),
            ((-1.0..=1.0).contains(&settings.topic_threshold), "topic_threshold must be from -1 to 1"),
            ((20..=5_000).contains(&settings.candidates), "candidates must be from 20 to 5000"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(LayerError::Settings(format!("[layers.vault] {rule}"))),
            None => Ok(settings),
        }
    }

    pub(crate) fn decay(&self) -> Decay {
        Decay { half_life_days: self.half_life_days, floor: self.decay_floor }
    }

    /// As the episodic layer's own.
    pub(crate) fn shape(&self) -> Shape {
        Shape { merge_below_tokens: 60, merge_most: 3, split_above_tokens: 500, user_words: 2.0 }
    }
}

/// The size of a part of a long exchange, in tokens, where its collection has no rule of its own.
pub(crate) const PART_TOKENS: usize = 300;

/// The vault.
pub(crate) struct VaultLayer(pub(crate) Arc<Rooms>);

#[async_trait]
impl Layer for VaultLayer {
    fn name(&self) -> LayerName {
        NAME
    }

    /// Nothing: what the engine knows of is not sealed.
    async fn observe(&self, _exchanges: &[Exchange]) -> Result<(), LayerError> {
        Ok(())
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        self.0.search(query).await
    }

    async fn explain(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        self.0.why(query, about).await
    }

    async fn forget(&self, user: UserId, _exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        self.0.current(user).await?;
        Ok(())
    }

    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError> {
        let (counts, bytes) = sql::stats(self.0.db(), user).await?;
        Ok(LayerStats { counts, bytes: Some(bytes) })
    }

    fn vault(&self) -> Option<&dyn Vault> {
        Some(self)
    }
}
