//! The product: record, assemble, forget, upkeep.
//!
//! Start at [`Memory`]: a door calls one method of it per request. The story of the product is [`context`].

pub mod background;
pub mod clock;
pub mod context;
pub mod error;
pub mod files;
pub mod forget;
pub mod journal;
mod memory;
pub mod record;
pub mod settings;
pub mod stats;
pub mod users;

pub use background::Background;
pub use clock::{Clock, ManualClock, SystemClock};
pub use context::{
    ContextReply, ContextRequest, Explanation, LayerExplanation, LeftOut, Message, RecallReply, RecallRequest, Timing,
};
pub use error::{EngineError, Stale};
pub use forget::{Changed, ForgetRequest};
pub use journal::{
    CollectionPatch, CollectionView, ExchangeFilter, ExchangeView, Page, PageRequest, Session, SessionPatch,
};
pub use memory::{Memory, Parts};
pub use record::{Content, MemoryMode, NewTurn, RecordRequest, Recorded, RememberRequest, TurnFate};
pub use settings::{ContextSettings, EngineSettings, ObserveSettings, UpkeepSettings};
pub use stats::{Health, LayerHealth, LayerView, Parked, Stats};
pub use users::{Caller, KeyView, MadeKey, NewKey, Scope, UserView};
