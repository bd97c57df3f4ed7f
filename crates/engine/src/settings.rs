//! What may be set, with the values a new user gets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::context::MOST_EXCHANGES;
use crate::sealed::MOST_MINUTES;
use crate::secrets::{SecretPolicy, SecretsSettings};

/// `[engine]` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// How a context is put together.
    pub context: ContextSettings,
    /// How a question that leans on what was said before it is made self-contained.
    pub rewrite: RewriteSettings,
    /// How layers learn in the background.
    pub observe: ObserveSettings,
    /// What is done now and then.
    pub upkeep: UpkeepSettings,
    /// What is done about secrets in what is to be remembered.
    pub secrets: SecretsSettings,
    /// How sealed collections are unlocked.
    pub vault: VaultSettings,
}

/// `[engine.context]`: how a context is put together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// Tokens that all messages of a context may cost together, unless the request says otherwise or names a model whose
    /// window is known.
    pub budget_tokens: usize,
    /// The share of a known model's window that a context may take, in hundredths.
    pub model_window_percent: u8,
    /// How many tokens models read at a time, by the beginning of their names, beside those that are known.
    pub model_window_tokens: BTreeMap<String, usize>,
    /// How many of the session's last exchanges stand in the context word for word: 1 to 8.
    pub window_exchanges: usize,
    /// How many recalls are asked for, unless the request says otherwise: 2 to 20.
    pub top_k: usize,
    /// What the embedding of a question may take; later, words alone must do.
    pub embed_deadline_ms: u64,
    /// What all layers together may take to answer, from when the question is embedded or that is given up; who is later is
    /// left out and named.
    pub recall_deadline_ms: u64,
    /// What a single layer may take, by its name and from the same moment, when that is less; with 0 it always counts as
    /// late.
    pub layer_deadline_ms: BTreeMap<String, u64>,
    /// What a single layer may spend of the budget, by its name, in hundredths; 100 for layers that are not named. A
    /// layer that is always loaded spends no more; others may once all have bought.
    pub share_percent: BTreeMap<String, u8>,
    /// Where recalled items stand in the messages.
    pub items: ItemsPlace,
    /// Whether layers are told which recalls were put before an assistant: use brings a memory back up.
    pub note_use: bool,
    /// How many sessions can have their always-loaded part frozen at a time; the longest unused thaws first.
    pub frozen_sessions: usize,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            budget_tokens: 6_000,
            model_window_percent: 25,
            model_window_tokens: BTreeMap::new(),
            window_exchanges: 4,
            top_k: 4,
            embed_deadline_ms: 1_000,
            recall_deadline_ms: 400,
            layer_deadline_ms: BTreeMap::new(),
            share_percent: BTreeMap::from([("files".into(), 75), ("episodes".into(), 50), ("summaries".into(), 20)]),
            items: ItemsPlace::Message,
            note_use: true,
            frozen_sessions: 1_000,
        }
    }
}

/// `[engine.rewrite]`: how a question that leans on what was said before it is made self-contained, for the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewriteSettings {
    /// Whether follow-ups are searched by more than their own words.
    pub enabled: bool,
    /// What the model may take; later, and without one, keywords of the questions before must do.
    pub deadline_ms: u64,
}

impl Default for RewriteSettings {
    fn default() -> Self {
        Self { enabled: true, deadline_ms: 1_500 }
    }
}

/// Where recalled items stand in the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ItemsPlace {
    /// In a system message of their own, before the question.
    #[default]
    Message,
    /// In the question's message, before its words: for models that allow a system message only at the beginning.
    Question,
}

/// `[engine.observe]`: how layers learn in the background.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserveSettings {
    /// How many exchanges a layer is given at once, at most.
    pub batch_exchanges: usize,
    /// How many characters they may have together, at most; a single longer exchange comes alone.
    pub batch_characters: usize,
    /// How often a layer looks for work that nobody announced.
    pub poll_seconds: u64,
    /// For how long a user's work belongs to one server before another may take it over.
    pub lease_seconds: u64,
    /// How often an exchange that a layer cannot learn is tried before it is parked.
    pub attempts: u32,
    /// How long a layer waits after its first failure; each further one doubles it.
    pub backoff_first_seconds: u64,
    /// How long it waits at most.
    pub backoff_longest_seconds: u64,
}

impl Default for ObserveSettings {
    fn default() -> Self {
        Self {
            batch_exchanges: 64,
            batch_characters: 100_000,
            poll_seconds: 10,
            lease_seconds: 60,
            attempts: 5,
            backoff_first_seconds: 1,
            backoff_longest_seconds: 300,
        }
    }
}

/// `[engine.upkeep]`: what is done now and then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpkeepSettings {
    /// How often layers tidy up and the trash is looked through.
    pub every_minutes: u64,
    /// For how long what was forgotten can be restored.
    pub trash_days: u32,
}

impl Default for UpkeepSettings {
    fn default() -> Self {
        Self { every_minutes: 60, trash_days: 30 }
    }
}

/// `[engine.vault]`: how sealed collections are unlocked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VaultSettings {
    /// How long a collection stays unlocked unless said otherwise; 0 until it is locked.
    pub unlock_minutes: u32,
}

impl Default for VaultSettings {
    fn default() -> Self {
        Self { unlock_minutes: 60 }
    }
}

impl EngineSettings {
    /// The first value that cannot be, in words.
    ///
    /// # Errors
    ///
    /// Names the key and says what it may be.
    pub fn check(&self) -> Result<(), String> {
        let context = &self.context;
        let observe = &self.observe;
        let rules = [
            (context.budget_tokens >= 100, "context.budget_tokens is at least 100"),
            ((1..=MOST_EXCHANGES).contains(&context.window_exchanges), "context.window_exchanges is from 1 to 8"),
            ((2..=20).contains(&context.top_k), "context.top_k is from 2 to 20"),
            (context.embed_deadline_ms > 0, "context.embed_deadline_ms is above 0"),
            (context.recall_deadline_ms > 0, "context.recall_deadline_ms is above 0"),
            ((1..=100).contains(&context.model_window_percent), "context.model_window_percent is from 1 to 100"),
            (
                context.model_window_tokens.values().all(|tokens| (1_000..=100_000_000).contains(tokens)),
                "context.model_window_tokens holds values from 1000 to 100000000",
            ),
            (context.share_percent.values().all(|share| *share <= 100), "context.share_percent holds values up to 100"),
            ((1..=60_000).contains(&self.rewrite.deadline_ms), "rewrite.deadline_ms is from 1 to 60000"),
            ((1..=200).contains(&observe.batch_exchanges), "observe.batch_exchanges is from 1 to 200"),
            (observe.batch_characters > 0, "observe.batch_characters is above 0"),
            (observe.poll_seconds > 0, "observe.poll_seconds is above 0"),
            (observe.lease_seconds >= 5, "observe.lease_seconds is at least 5"),
            (observe.attempts > 0, "observe.attempts is above 0"),
            (self.upkeep.every_minutes > 0, "upkeep.every_minutes is above 0"),
            (self.vault.unlock_minutes <= MOST_MINUTES, "vault.unlock_minutes is from 0 to 10080"),
            (self.upkeep.trash_days <= 36_500, "upkeep.trash_days is at most 36500"),
            (
                self.secrets.policy != SecretPolicy::Seal,
                "secrets.policy is `allow` or `redact`: users say `seal` themselves, and where to",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(format!("engine.{rule}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_new_user_gets_is_within_the_rules() {
        assert_eq!(EngineSettings::default().check(), Ok(()));
    }

    #[test]
    fn a_value_that_cannot_be_is_named() {
        let mut settings = EngineSettings::default();
        settings.context.window_exchanges = 9;
        assert_eq!(settings.check(), Err("engine.context.window_exchanges is from 1 to 8".into()));
    }
}
