//! The contract of a layer: one way of remembering.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

use crate::context::Section;
use crate::conversation::{Exchange, ExchangeId, Seq, SessionId, UserId};
use crate::facts::FactGraph;
use crate::files::{FileName, MemoryFiles};
use crate::models::{Embedder, ModelError, SharedChatModel};
use crate::query::Query;
use crate::recall::{Considered, Recall, RecallId};
use crate::vault::Vault;

/// One way of remembering. Derived state: everything in it can be learned again from the journal.
///
/// Arguments and results are plain owned data, so that a layer could live in another process without a change here; of a
/// question's embedding, which may come later, one would be told in a message of its own.
#[async_trait]
pub trait Layer: Send + Sync {
    /// Names the layer, its config table and its Postgres schema.
    fn name(&self) -> LayerName;

    /// How the layer's recalls get into the pack.
    fn priority(&self) -> Priority {
        Priority::Ranked
    }

    /// Learns from `exchanges` of one user, oldest first. Idempotent: the same exchange may come again, grown, and
    /// then replaces what had been learned from it.
    ///
    /// # Errors
    ///
    /// When nothing, or not everything, could be learned. The same exchanges come again later.
    async fn observe(&self, exchanges: &[Exchange]) -> Result<(), LayerError>;

    /// What is remembered that bears on `query`, best first, at most `query.limit` of it. Its deadline counts from when
    /// `query.meaning` is known, which a layer waits for when it needs it.
    ///
    /// # Errors
    ///
    /// When the layer cannot answer. The context is assembled without it and names the gap.
    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError>;

    /// Up to which turn of the session the layer holds an account that stands in for the turns themselves; `None` when
    /// it holds none. The window reaches back to there, so that nothing falls between.
    ///
    /// # Errors
    ///
    /// As [`Layer::recall`].
    async fn accounts_for(&self, user: UserId, session: &SessionId) -> Result<Option<Seq>, LayerError> {
        let _ = (user, session);
        Ok(None)
    }

    /// Every candidate that `recall` would weigh, with its scores and its fate; of `about` alone when given, which is
    /// then in the answer even if the search did not come across it. Never marks anything as used.
    ///
    /// # Errors
    ///
    /// As [`Layer::recall`].
    async fn explain(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        let _ = (query, about);
        Ok(Vec::new())
    }

    /// Lays the recalls that fit the budget out as one section.
    fn render(&self, chosen: &[Recall]) -> Section {
        Section::bullets(self.name(), chosen)
    }

    /// Learns that `recalls` were put before an assistant at `at`: use brings a memory back up.
    ///
    /// # Errors
    ///
    /// When it could not be noted, which costs nothing but the note.
    async fn used(&self, user: UserId, recalls: &[RecallId], at: DateTime<Utc>) -> Result<(), LayerError> {
        let _ = (user, recalls, at);
        Ok(())
    }

    /// Drops what a foreign key cannot reach: a summary to be told anew, a graph held in memory.
    ///
    /// # Errors
    ///
    /// When it could not be dropped. It is told again.
    async fn forget(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        let _ = (user, exchanges);
        Ok(())
    }

    /// Upkeep: expire, merge, compact. Called now and then, with the time it is.
    ///
    /// # Errors
    ///
    /// When it could not be finished. It is called again.
    async fn prune(&self, now: DateTime<Utc>) -> Result<Pruned, LayerError> {
        let _ = now;
        Ok(Pruned::default())
    }

    /// What the layer holds of one user, for people.
    ///
    /// # Errors
    ///
    /// When it cannot be counted.
    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError>;

    /// The faults of the user's own material that people should know of, in words: a file that does not parse, ...
    fn faults(&self, user: UserId) -> Vec<String> {
        let _ = user;
        Vec::new()
    }

    /// What the layer set aside by itself, in learning that goes on after an exchange was observed; the engine knows of what
    /// could not be observed.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    async fn set_aside(&self, user: UserId) -> Result<Vec<SetAside>, LayerError> {
        let _ = user;
        Ok(Vec::new())
    }

    /// Tries again what it had set aside by itself; how many exchanges.
    ///
    /// # Errors
    ///
    /// When nothing will be tried.
    async fn retry(&self, user: UserId) -> Result<usize, LayerError> {
        let _ = user;
        Ok(0)
    }

    /// Reads one of the user's memory files as it is now; empty when it is gone. Idempotent: told again after a restart,
    /// and whenever the file changes. Not told to the layer that keeps the files.
    ///
    /// # Errors
    ///
    /// As [`Layer::observe`].
    async fn read_file(
        &self,
        user: UserId,
        file: &FileName,
        text: &str,
        read_at: DateTime<Utc>,
    ) -> Result<(), LayerError> {
        let _ = (user, file, text, read_at);
        Ok(())
    }

    /// What holds, since when, and how we know, from the layer that keeps facts.
    fn facts(&self) -> Option<&dyn FactGraph> {
        None
    }

    /// The sealed collections, from the layer that keeps them.
    fn vault(&self) -> Option<&dyn Vault> {
        None
    }

    /// The person's Markdown files, from the layer that keeps them.
    fn memory_files(&self) -> Option<&dyn MemoryFiles> {
        None
    }
}

/// A layer that can be opened.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// The name of the layer it opens.
    fn name(&self) -> LayerName;

    /// Brings the layer's schema up to date and opens it. Runs while the server holds the migration lock.
    ///
    /// # Errors
    ///
    /// When its settings are wrong or its schema cannot be brought up to date: the server does not start.
    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError>;
}

/// What the server lends a layer.
#[derive(Clone)]
pub struct Host {
    /// The database: the layer's own schema to write, `journal` to read.
    pub db: PgPool,
    /// The embedder that the engine embeds queries with.
    pub embedder: Arc<dyn Embedder>,
    /// The chat model, when there is one. A layer that asks it has something to fall back to.
    pub chat: Option<SharedChatModel>,
    /// `[layers.<name>]` of the configuration.
    pub config: toml::Table,
    /// The folder that holds a folder of memory files per user.
    pub memory_files: std::path::PathBuf,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("embedder", self.embedder.id()).finish_non_exhaustive()
    }
}

/// Names a layer, its config table and its Postgres schema.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerName(pub std::borrow::Cow<'static, str>);

impl LayerName {
    /// A name known when the program is written.
    #[must_use]
    pub const fn of(name: &'static str) -> Self {
        Self(std::borrow::Cow::Borrowed(name))
    }

    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a layer's recalls get into the pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Priority {
    /// Whole, first, stable: part of the system prompt.
    Always,
    /// Whole, between what is always loaded and the window: an account of what left the window of this session.
    Account,
    /// By rank, as far as the budget goes: part of the context block.
    Ranked,
}

/// What upkeep did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// How many rows were removed or merged away.
    pub rows: u64,
    /// Whether something could not be done now, a model being away, and is worth another call before the usual time.
    #[serde(default)]
    pub unfinished: bool,
}

/// An exchange that a layer could not get all out of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Which exchange.
    pub exchange: ExchangeId,
    /// Why, in words.
    pub reason: String,
    /// How often it was tried.
    pub attempts: u32,
    /// Since when it is set aside.
    pub since: DateTime<Utc>,
}

/// What a layer holds of one user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerStats {
    /// Counts by name, in the order to show them.
    pub counts: Vec<(String, i64)>,
    /// Bytes in its tables and indexes over all users, when it has any.
    pub bytes: Option<i64>,
}

/// Why a layer could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The database gave no answer. Worth another try.
    #[error("the database gave no answer")]
    Database(#[from] sqlx::Error),
    /// The layer's schema could not be brought up to date.
    #[error("its tables could not be brought up to date")]
    Migration(#[from] sqlx::migrate::MigrateError),
    /// A model gave no answer. Worth another try.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Its settings are wrong; says which and what they may be.
    #[error("bad setting: {0}")]
    Settings(String),
    /// The memory was made by another embedder; says the command that mends it.
    #[error("{0}")]
    OtherEmbedder(String),
    /// The disk gave an error.
    #[error("{what}")]
    Disk {
        /// What was tried, with the path.
        what: String,
        /// The system's word.
        #[source]
        source: std::io::Error,
    },
}
