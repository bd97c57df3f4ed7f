//! The product: record, assemble, forget, upkeep.
//!
//! Start at [`Memory`]: a door calls one method of it per request. The story of the product is [`context`].

mod audit;
mod background;
mod chat;
mod clock;
pub mod context;
mod conversation;
mod error;
pub mod facts;
mod file_news;
mod files;
mod forget;
mod journal;
mod memory;
mod observe;
mod purge;
pub mod reading;
mod record;
mod sealed;
mod sealing;
mod secrets;
mod settings;
mod stats;
mod upkeep;
mod usage;
mod users;

#[cfg(test)]
mod testing;

pub use audit::{LogChecked, LogFilter, LogOf, acting_as};
pub use background::Background;
pub use chat::ChatHealth;
pub use clock::{Clock, ManualClock, SystemClock};
pub use context::{
    Ahead, Blocks, ClientHistory, ContextReply, ContextRequest, Explanation, History, LayerExplanation, LeftOut,
    RecallReply, RecallRequest, Timing, Uses,
};
pub use conversation::{Conversation, HearRequest, HeardTurn, Placed, own_words};
pub use error::{EngineError, Stale};
pub use facts::{
    ExportFormat, FactFilter, FactsImported, ImportFormat, ImportRequest, Look, Looked, MOST_COMMUNITIES,
    MOST_ENTITIES, MOST_HOPS, MOST_PATHS, MOST_STATEMENTS, RefusedLine, Retraction, StateRequest,
};
pub use forget::Changed;
pub use journal::{ExchangeView, Page, PageRequest};
pub use memory::{Memory, Parts};
pub use purge::{Aim, Checked, Folders, PurgeRequest, Purged, Receipt, SignedReceipt};
pub use record::{Content, NewTurn, RecordRequest, Recorded, RememberRequest, TurnFate};
pub use sealed::{MOST_MINUTES, SealedView};
pub use sealing::Sealed;
pub use secrets::{SecretPolicy, SecretsFound, SecretsMet, SecretsSettings};
pub use settings::{
    ContextSettings, EngineSettings, ItemsPlace, ObserveSettings, RewriteSettings, UpkeepSettings, VaultSettings,
};
pub use skymem_store::{Actor, Entry as AuditEntry, Verb};
pub use skymem_store::{
    CollectionSettings, Forgotten, JournalTurn, Key, KeyId, MOST_TURNS_AT_ONCE, MemoryMode, NewKey, Parked, Scope,
    Secret, Session, SessionChange, Shelf, Stats as JournalStats, Target,
};
pub use stats::{Health, LayerHealth, LayerView, Stats};
pub use users::{Profile, time_zone};
