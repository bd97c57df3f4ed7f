//! Chat models: behind OpenAI's interface, behind Ollama's, and a scripted one for tests.
//!
//! Start at [`open_chat`]. Neither `async-openai` nor `ollama-rs` stands behind it. The first has no bound on the length of
//! an answer and no time-out of its own, and drops the status of an error whose body is not OpenAI's, which is how a
//! wrong key of many other servers shows; what would be left of it is one POST. The second brings a second `reqwest`.
//! Both dialects go through the client that embedders use too ([`crate::http`]).

mod answer;
mod guard;
mod ollama;
mod openai;
mod remote;
mod scripted;
mod settings;

use std::sync::Arc;

use chrono::{DateTime, Utc};
use skymem_core::{ChatModels, ModelError, SharedChatModel};
use tokio::sync::Semaphore;

use crate::http::refused;
use guard::{Guarded, Purse};
use ollama::Ollama;
use openai::OpenAi;
use remote::RemoteChat;
use settings::OneModel;

pub use scripted::{ScriptedAnswer, ScriptedChat};
pub use settings::{ChatKind, ChatSettings, RewriterSettings};

/// Opens the chat models that `settings` ask for; asks them nothing. `now` tells when a day of tokens is over.
///
/// When nothing is configured for the rewriter, it is the main model: one GPU, one model, one limit. A restart begins the
/// count of the day's tokens anew.
///
/// # Errors
///
/// When the settings make no sense, or a file with a key cannot be read.
pub fn open_chat(
    settings: &ChatSettings,
    now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
) -> Result<ChatModels, ModelError> {
    settings.check().map_err(refused)?;
    let now: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync> = Arc::new(now);
    let new_turns = |concurrency| Arc::new(Semaphore::new(concurrency));
    let new_purse = |one: &OneModel| Arc::new(Purse::new(one.section, one.daily_tokens, Arc::clone(&now)));

    let main = match settings.main() {
        Some(one) => Some((open_one(&one)?, new_turns(one.concurrency), new_purse(&one))),
        None => None,
    };
    let guarded = |(model, turns, purse)| Arc::new(Guarded::new(model, turns, purse)) as SharedChatModel;
    let rewriter = match (settings.own_rewriter(), &main) {
        (None, _) => None,
        (Some(one), Some((_, turns, purse))) => {
            let turns = if one.shares.turns { Arc::clone(turns) } else { new_turns(one.concurrency) };
            let purse = if one.shares.tokens { Arc::clone(purse) } else { new_purse(&one) };
            Some(guarded((open_one(&one)?, turns, purse)))
        }
        (Some(one), None) => Some(guarded((open_one(&one)?, new_turns(one.concurrency), new_purse(&one)))),
    };
    let main = main.map(guarded);
    Ok(ChatModels { rewriter: if settings.rewriter_is_main() { main.clone() } else { rewriter }, main })
}

fn open_one(one: &OneModel) -> Result<RemoteChat, ModelError> {
    match one.kind {
        settings::ChatKind::Ollama => RemoteChat::open(one, Box::new(Ollama)),
        settings::ChatKind::OpenAi | settings::ChatKind::None => RemoteChat::open(one, Box::new(OpenAi)),
    }
}
