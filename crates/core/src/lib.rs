//! The words and the contracts of skymem. No I/O, no clock.
//!
//! Start at [`layer::Layer`]: one way of remembering. It learns from [`conversation::Exchange`]s and answers a
//! [`query::Query`] with [`recall::Recall`]s, which the engine packs into [`context::Section`]s.

pub mod context;
pub mod conversation;
pub mod estimate;
pub mod facts;
pub mod files;
pub mod layer;
pub mod machine;
pub mod models;
pub mod prompts;
pub mod query;
pub mod recall;
pub mod tokens;
pub mod vault;
pub mod wall;

pub use context::{Gap, GapReason, Section, Spent};
pub use conversation::{
    Collection, Exchange, ExchangeId, ExchangeKind, Role, Seq, SessionId, Source, Turn, User, UserId, UserName,
};
pub use estimate::estimate_tokens;
pub use layer::{Host, Layer, LayerError, LayerName, LayerStats, Plugin, Priority, Pruned, SetAside};
pub use models::{
    ChatAnswer, ChatModel, ChatModels, ChatRequest, Embedder, EmbedderId, Embedding, Ledger, Message, ModelError,
    Purpose, SharedChatModel,
};
pub use query::{Filter, Meaning, MeaningTeller, Phrasing, Query, TimeRange, Unit};
pub use recall::{Citation, Considered, Fate, Provenance, Recall, RecallId, Score};
pub use tokens::{NoTokenizers, TokenCounter, Tokenizers, Tokens};
pub use vault::Vault;
