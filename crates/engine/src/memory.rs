//! [`Memory`]: everything a door can ask for. A door calls one method of it per request.

use std::fmt;
use std::sync::{Arc, OnceLock};

use chrono::{DateTime, Utc};
use skymem_core::{ChatModels, Embedder, Layer, Tokenizers};
use skymem_store::{Audit, Journal, Keys, Purger};
use sqlx::PgPool;

use crate::chat::ChatWatch;
use crate::clock::Clock;
use crate::context::{Frozen, Meters};
use crate::error::EngineError;
use crate::file_news::FileNews;
use crate::purge::{Folders, Signer};
use crate::settings::EngineSettings;

/// A memory server without doors. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Memory {
    pub(crate) inner: Arc<Inner>,
}

/// What a [`Memory`] is made of.
pub struct Parts {
    /// The database, with every schema up to date.
    pub db: PgPool,
    /// Embeds questions. The layers were opened with the same one.
    pub embedder: Arc<dyn Embedder>,
    /// The language models there are. The layers were opened with the main one.
    pub chat: ChatModels,
    /// Counts tokens as the models that read contexts do, where it can.
    pub tokenizers: Arc<dyn Tokenizers>,
    /// The layers, in the order in which the assistant should read their sections.
    pub layers: Vec<Arc<dyn Layer>>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// `[engine]` of the configuration.
    pub settings: EngineSettings,
}

pub(crate) struct Inner {
    pub(crate) journal: Journal,
    pub(crate) keys: Keys,
    pub(crate) audit: Audit,
    pub(crate) purger: Purger,
    pub(crate) signer: OnceLock<Signer>,
    pub(crate) folders: OnceLock<Folders>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) chat: ChatModels,
    pub(crate) tokenizers: Arc<dyn Tokenizers>,
    pub(crate) chat_watch: ChatWatch,
    pub(crate) layers: Vec<Arc<dyn Layer>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: EngineSettings,
    pub(crate) frozen: Frozen,
    pub(crate) meters: Meters,
    pub(crate) file_news: FileNews,
}

impl Memory {
    /// A memory made of `parts`. Nothing runs in the background until [`Memory::start`].
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { db, embedder, chat, tokenizers, layers, clock, settings } = parts;
        let frozen = Frozen::new(settings.context.frozen_sessions);
        let chat_watch = ChatWatch::new(&chat);
        let (journal, keys, audit) = (Journal::new(db.clone()), Keys::new(db.clone()), Audit::new(db.clone()));
        let (purger, signer, folders) = (Purger::new(db), OnceLock::new(), OnceLock::new());
        let file_news = FileNews::default();
        let inner = Inner {
            journal,
            keys,
            audit,
            purger,
            signer,
            folders,
            embedder,
            chat,
            tokenizers,
            chat_watch,
            layers,
            clock,
            settings,
            frozen,
            meters: Meters::default(),
            file_news,
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.inner.clock.now()
    }

    pub(crate) fn layer(&self, name: &str) -> Result<&Arc<dyn Layer>, EngineError> {
        let found = self.inner.layers.iter().find(|layer| layer.name().as_str() == name);
        found.ok_or_else(|| {
            let known: Vec<String> = self.inner.layers.iter().map(|layer| layer.name().to_string()).collect();
            EngineError::NotFound(format!("layer {name:?}; there are: {}", known.join(", ")))
        })
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("layers", &self.inner.layers.len()).finish_non_exhaustive()
    }
}
