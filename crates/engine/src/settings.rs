//! What may be set, with the values a new user gets.

use serde::{Deserialize, Serialize};

/// `[engine]` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// How a context is put together.
    pub context: ContextSettings,
    /// How layers learn in the background.
    pub observe: ObserveSettings,
    /// What is done now and then.
    pub upkeep: UpkeepSettings,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            context: ContextSettings::default(),
            observe: ObserveSettings::default(),
            upkeep: UpkeepSettings::default(),
        }
    }
}

/// `[engine.context]`: how a context is put together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// Tokens that all messages of a context may cost together, unless the request says otherwise.
    pub budget_tokens: usize,
    /// How many of the session's last exchanges stand in the context word for word: 1 to 8.
    pub window_exchanges: usize,
    /// How many recalls are asked for, unless the request says otherwise: 2 to 20.
    pub top_k: usize,
    /// What the embedding of a question may take; later, words alone must do.
    pub embed_deadline_ms: u64,
    /// What all layers together may take to answer; who is later is left out and named.
    pub recall_deadline_ms: u64,
    /// What a single layer may spend of the budget, in hundredths; a layer that is not named may spend all of it.
    pub share_percent: std::collections::BTreeMap<String, u8>,
    /// Whether layers are told which recalls were put before an assistant: use brings a memory back up.
    pub note_use: bool,
    /// How many sessions can have their always-loaded part frozen at a time; the longest unused thaws first.
    pub frozen_sessions: usize,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self {
            budget_tokens: 4_000,
            window_exchanges: 4,
            top_k: 4,
            embed_deadline_ms: 1_000,
            recall_deadline_ms: 400,
            share_percent: std::collections::BTreeMap::new(),
            note_use: true,
            frozen_sessions: 1_000,
        }
    }
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
