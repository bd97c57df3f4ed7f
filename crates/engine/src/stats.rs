//! How memory is doing: counts, lag, faults, and what is set aside.

use std::time::Duration;

use skymem_core::wall::acting_for_everyone;
use skymem_core::{Layer, LayerName, LayerStats, Purpose, SetAside, UserId};
use skymem_store::{LayerLag, Parked, Stats as JournalStats};
use tokio::time::timeout;

use crate::chat::ChatHealth;
use crate::error::EngineError;
use crate::memory::Memory;

/// What is kept of one user.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    /// What the journal holds.
    pub journal: JournalStats,
    /// Every layer, in reading order.
    pub layers: Vec<LayerView>,
}

/// One layer, as it stands for one user.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerView {
    /// Its name.
    pub name: LayerName,
    /// What it holds; `None` when it gave no answer.
    pub stats: Option<LayerStats>,
    /// How many exchanges it has not learned yet, or not as they are now.
    pub behind: i64,
    /// The exchanges it could not learn from.
    pub parked: Vec<Parked>,
    /// What is wrong with the user's own material, in words.
    pub faults: Vec<String>,
}

/// Whether the server can do its work.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// Whether the database answers.
    pub database: bool,
    /// The embedder's id.
    pub embedder: String,
    /// Whether the embedder answers.
    pub embedder_answers: bool,
    /// The chat models there are; none is a normal state.
    pub chat: Vec<ChatHealth>,
    /// Each layer, over all users; empty when the database does not answer.
    pub layers: Vec<LayerHealth>,
    /// What is wrong, in words; empty when all is well.
    pub faults: Vec<String>,
}

impl Health {
    /// Whether requests can be served. An embedder, chat model or layer that is away does not make it unready: memory
    /// fails open.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.database
    }
}

/// How far one layer is, over all users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerHealth {
    /// Its name.
    pub name: LayerName,
    /// How many exchanges it has not learned yet, or not as they are now.
    pub behind: i64,
    /// How many exchanges are parked.
    pub parked: i64,
    /// How often it failed in a row, where it failed most.
    pub failures: i64,
}

/// How long a health check waits for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

impl Memory {
    /// What is kept of a user, in the journal and in every layer.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. A layer that gives none is in the reply without counts.
    pub async fn stats(&self, user: UserId) -> Result<Stats, EngineError> {
        let journal = self.inner.journal.stats(user).await?;
        Ok(Stats { journal, layers: self.layers(user).await? })
    }

    /// The layers as they stand for a user, in reading order.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. A layer that gives none is in the reply without counts.
    pub async fn layers(&self, user: UserId) -> Result<Vec<LayerView>, EngineError> {
        let lags = self.inner.journal.lag(Some(user)).await?;
        let parked = self.inner.journal.parked(user).await?;
        let mut views = Vec::new();
        for layer in &self.inner.layers {
            let name = layer.name();
            let behind = match lags.iter().find(|lag| lag.layer == name) {
                Some(lag) => lag.behind,
                // It has read nothing of anybody yet.
                None => self.inner.journal.stats(user).await?.exchanges,
            };
            let mut own: Vec<Parked> = parked.iter().filter(|parked| parked.layer == name).cloned().collect();
            own.extend(set_aside(layer.as_ref(), user).await);
            views.push(LayerView {
                stats: counts(layer.as_ref(), user).await,
                behind,
                parked: own,
                faults: layer.faults(user),
                name,
            });
        }
        Ok(views)
    }

    /// Gives a layer the exchanges again that it could not learn; says how many.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such layer.
    pub async fn retry_parked(&self, user: UserId, layer: &str) -> Result<usize, EngineError> {
        let layer = self.layer(layer)?;
        let by_itself = layer.retry(user).await?;
        Ok(self.inner.journal.retry_parked(user, &layer.name()).await? + by_itself)
    }

    /// Has a layer learn a user's journal again from the beginning; whether it had read any of it.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such layer.
    pub async fn reset_layer(&self, user: UserId, layer: &str) -> Result<bool, EngineError> {
        Ok(self.inner.journal.reset(user, &self.layer(layer)?.name()).await?)
    }

    /// Sets the gauges `skymem_observe_behind` and `skymem_parked` of every layer. They stay as they are when the
    /// database gives no answer.
    pub async fn gauge(&self) {
        match self.lag().await {
            Ok(lags) => lags.iter().for_each(gauge),
            Err(why) => tracing::warn!(why, "What layers have still to learn could not be counted"),
        }
    }

    /// How far each layer is behind, over all users; why not, in words, when the database gives no answer in time.
    async fn lag(&self) -> Result<Vec<LayerLag>, String> {
        match timeout(PATIENCE, acting_for_everyone(self.inner.journal.lag(None))).await {
            Ok(lags) => lags.map_err(|error| error.to_string()),
            Err(_) => Err("the database takes too long to answer".into()),
        }
    }

    /// What is wrong with the embedder; `None` when it answers.
    async fn embedder_fault(&self) -> Option<String> {
        match timeout(PATIENCE, self.inner.embedder.embed(&["health"], Purpose::Query)).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("the embedder gives no answer: {error}")),
            Err(_) => Some("the embedder takes too long to answer".into()),
        }
    }

    /// Whether the server can do its work. Takes a few seconds at most, whatever is broken.
    pub async fn health(&self) -> Health {
        let (lags, embedder_fault, chat) =
            tokio::join!(self.lag(), self.embedder_fault(), self.inner.chat_watch.health());
        let (lags, database_fault) = match lags {
            Ok(lags) => (Some(lags), None),
            Err(why) => (None, Some(why)),
        };
        let embedder_answers = embedder_fault.is_none();
        let mut faults: Vec<String> = database_fault.into_iter().chain(embedder_fault).collect();
        faults.extend(chat.iter().filter_map(|chat| {
            let ChatHealth { role, model, fault, .. } = chat;
            fault.as_ref().map(|fault| format!("the chat model {model} ({role}) gives no answer: {fault}"))
        }));
        let layers = lags.iter().flatten().filter(|lag| self.layer(lag.layer.as_str()).is_ok()).map(LayerHealth::from);
        let layers: Vec<LayerHealth> = layers.collect();
        faults.extend(
            layers
                .iter()
                .filter(|layer| layer.parked > 0)
                .map(|layer| format!("{} could not learn {} exchanges: see its parked ones", layer.name, layer.parked)),
        );
        Health {
            database: lags.is_some(),
            embedder: self.inner.embedder.id().to_string(),
            embedder_answers,
            chat,
            layers,
            faults,
        }
    }
}

impl From<&LayerLag> for LayerHealth {
    fn from(lag: &LayerLag) -> Self {
        Self { name: lag.layer.clone(), behind: lag.behind, parked: lag.parked, failures: lag.failures }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; counts are far below 2^53")]
fn gauge(lag: &LayerLag) {
    let layer = lag.layer.to_string();
    metrics::gauge!("skymem_observe_behind", "layer" => layer.clone()).set(lag.behind as f64);
    metrics::gauge!("skymem_parked", "layer" => layer).set(lag.parked as f64);
}

/// What a layer set aside by itself; nothing when it gives no answer.
async fn set_aside(layer: &dyn Layer, user: UserId) -> Vec<Parked> {
    let aside = match layer.set_aside(user).await {
        Ok(aside) => aside,
        Err(error) => {
            tracing::warn!(%error, layer = %layer.name(), "What a layer set aside could not be read");
            return Vec::new();
        }
    };
    let parked = aside.into_iter().map(|SetAside { exchange, reason, attempts, since }| Parked {
        layer: layer.name(),
        exchange,
        reason,
        attempts,
        parked_at: since,
    });
    parked.collect()
}

async fn counts(layer: &dyn Layer, user: UserId) -> Option<LayerStats> {
    match layer.stats(user).await {
        Ok(stats) => Some(stats),
        Err(error) => {
            tracing::warn!(%error, layer = %layer.name(), "A layer could not be counted");
            None
        }
    }
}
