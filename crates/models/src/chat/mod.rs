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
use skymem_core::{ChatModel, ChatModels, Ledger, ModelError, SharedChatModel};
use tokio::sync::Semaphore;

use crate::http::refused;
use guard::{Guarded, Purse};
use ollama::Ollama;
use openai::OpenAi;
use remote::RemoteChat;
use settings::OneModel;

pub use scripted::{ScriptedAnswer, ScriptedChat};
pub use settings::{ChatKind, ChatSettings, RewriterSettings};

/// Opens the chat models that `settings` ask for; asks them nothing. `now` tells when a day of tokens is over; `ledger`
/// keeps what was spent of it. Without one a restart begins the count anew.
///
/// When nothing is configured for the rewriter, it is the main model: one GPU, one model, one limit.
///
/// # Errors
///
/// When the settings make no sense, or a file with a key cannot be read.
pub fn open_chat(
    settings: &ChatSettings,
    now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
    ledger: Option<Arc<dyn Ledger>>,
) -> Result<ChatModels, ModelError> {
    settings.check().map_err(refused)?;
    assemble(settings, Arc::new(now), ledger, open_one)
}

type Now = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// Puts the models that `open` opens behind the limits they have together and apart.
fn assemble<M: ChatModel + 'static>(
    settings: &ChatSettings,
    now: Now,
    ledger: Option<Arc<dyn Ledger>>,
    open: impl Fn(&OneModel) -> Result<M, ModelError>,
) -> Result<ChatModels, ModelError> {
    let new_turns = |one: &OneModel| Arc::new(Semaphore::new(one.concurrency));
    let new_purse =
        |one: &OneModel| Arc::new(Purse::new(one.section, one.daily_tokens, Arc::clone(&now), ledger.clone()));
    let guarded = |one: &OneModel, turns: &Arc<Semaphore>, purse: &Arc<Purse>| {
        Ok(Arc::new(Guarded::new(open(one)?, Arc::clone(turns), Arc::clone(purse))) as SharedChatModel)
    };

    let (main, rewriter) = (settings.main(), settings.own_rewriter());
    let limits = main.as_ref().map(|one| (new_turns(one), new_purse(one)));
    let main = match (&main, &limits) {
        (Some(one), Some((turns, purse))) => Some(guarded(one, turns, purse)?),
        _ => None,
    };
    let rewriter = match rewriter {
        Some(one) => {
            let shared = limits.as_ref();
            let turns = shared.filter(|_| one.shares.turns).map_or_else(|| new_turns(&one), |(it, _)| Arc::clone(it));
            let purse = shared.filter(|_| one.shares.tokens).map_or_else(|| new_purse(&one), |(_, it)| Arc::clone(it));
            Some(guarded(&one, &turns, &purse)?)
        }
        None if settings.rewriter_is_main() => main.clone(),
        None => None,
    };
    Ok(ChatModels { main, rewriter })
}

fn open_one(one: &OneModel) -> Result<RemoteChat, ModelError> {
    match one.kind {
        ChatKind::Ollama => RemoteChat::open(one, Box::new(Ollama)),
        ChatKind::OpenAi | ChatKind::None => RemoteChat::open(one, Box::new(OpenAi)),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;
    use skymem_core::{ChatRequest, Message, Role};

    use super::*;

    /// Whether the rewriter has to wait while the main model has all the turns it may have.
    async fn rewriter_waits(rewriter: RewriterSettings) -> bool {
        let settings = ChatSettings {
            kind: ChatKind::Ollama,
            model: Some("large".into()),
            concurrency: 1,
            rewriter,
            ..ChatSettings::default()
        };
        let scripted = ScriptedChat::saying([ScriptedAnswer::Hangs]);
        let now: Now = Arc::new(|| DateTime::<Utc>::UNIX_EPOCH);
        let ChatModels { main, rewriter } = assemble(&settings, now, None, |_| Ok(scripted.clone())).unwrap();
        let (main, rewriter) = (main.unwrap(), rewriter.unwrap());
        let question = ChatRequest {
            purpose: "test",
            messages: vec![Message::new(Role::User, "hello")],
            temperature: 0.0,
            most_tokens: 10,
            schema: None,
        };
        let mut busy = main.answer(&question);
        assert!(poll_immediate(&mut busy).await.is_none());
        assert!(poll_immediate(rewriter.answer(&question)).await.is_none());
        scripted.calls() == 1
    }

    #[tokio::test]
    async fn models_on_one_server_take_turns_and_those_on_two_do_not() {
        let rewriter = RewriterSettings::default();
        let small = RewriterSettings { model: Some("small".into()), ..rewriter.clone() };
        let elsewhere = RewriterSettings { url: Some("http://elsewhere".into()), ..small.clone() };
        let counted = RewriterSettings { concurrency: Some(1), ..small.clone() };

        assert!(rewriter_waits(rewriter).await);
        assert!(rewriter_waits(small).await);
        assert!(!rewriter_waits(elsewhere).await);
        assert!(!rewriter_waits(counted).await);
    }
}
