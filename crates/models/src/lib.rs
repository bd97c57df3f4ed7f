//! Embedders: in this process, behind OpenAI's interface, behind Ollama's, and one without any model; and chat models,
//! which there may be.
//!
//! Start at [`open`] for the first, at [`open_chat`] for the second.

mod cache;
mod chat;
mod http;
mod length;
mod local;
mod missing;
mod offline;
mod ollama;
mod openai;
mod remote;
mod settings;
mod tokens;

use std::num::NonZeroUsize;
use std::sync::Arc;

use skymem_core::{Embedder, ModelError};

use cache::Cached;
use local::{Local, LocalModel};
use missing::Missing;
use ollama::Ollama;
use openai::OpenAi;
use remote::Remote;

pub use chat::{ChatKind, ChatSettings, RewriterSettings, ScriptedAnswer, ScriptedChat, open_chat};
pub use offline::Offline;
pub use settings::{EmbedderKind, EmbedderSettings, Secret};
pub use tokens::OpenAiTokenizers;

/// The most embeddings that are kept in memory, whatever the settings say: about 2 GB.
const MOST_CACHE_ENTRIES: usize = 1_000_000;

/// Opens the embedder that `settings` ask for, with a cache in front of it.
///
/// A local model whose file is missing or damaged opens too: it answers each request with the reason and the command that
/// mends it, so that the server starts and searches by words.
///
/// # Errors
///
/// When the settings make no sense, or a remote model's dimensions are not configured and it cannot be asked for them.
pub async fn open(settings: &EmbedderSettings) -> Result<Arc<dyn Embedder>, ModelError> {
    let embedder: Arc<dyn Embedder> = match settings.kind {
        EmbedderKind::Local => open_local(settings).await?,
        EmbedderKind::OpenAi => Arc::new(Remote::open(settings, Box::new(OpenAi)).await?),
        EmbedderKind::Ollama => Arc::new(Remote::open(settings, Box::new(Ollama)).await?),
        EmbedderKind::Offline => Arc::new(Offline::new()),
    };
    Ok(match NonZeroUsize::new(settings.cache_entries.min(MOST_CACHE_ENTRIES)) {
        Some(entries) => Arc::new(Cached::new(embedder, entries)),
        None => embedder,
    })
}

async fn open_local(settings: &EmbedderSettings) -> Result<Arc<dyn Embedder>, ModelError> {
    let model = LocalModel::named(settings)?;
    let file = model.file(settings);
    let threads = local::passage_threads(settings.threads);
    let (shown, remedy) = (file.display().to_string(), model.fetched_by());
    let reason = if file.is_file() {
        match tokio::task::spawn_blocking(move || Local::open(model, &file, threads)).await {
            Ok(Ok(local)) => return Ok(Arc::new(local)),
            Ok(Err(error)) => format!("{shown} cannot be used ({error}); remove it, run `{remedy}` and start again"),
            Err(error) => format!("{shown} cannot be used ({error}); remove it, run `{remedy}` and start again"),
        }
    } else {
        format!("the model file {shown} is not there; run `{remedy}` and start again")
    };
    tracing::warn!(model = model.name(), %reason, "No embedder: memory is searched by words only");
    Ok(Arc::new(Missing::new(model.name(), model.dimensions(), reason)))
}
