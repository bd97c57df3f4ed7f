//! Writing down what was said, and what memory is told directly.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::conversation::BadName;
use skymem_core::{Collection, ExchangeId, Role, Seq, SessionId, Source, UserId};

use crate::error::EngineError;
use crate::memory::Memory;

/// Some turns of one session, to be written down in order.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// The conversation; made when it is new.
    pub session: SessionId,
    /// The turns, oldest first: one or many.
    pub turns: Vec<NewTurn>,
    /// The shelf they stand on; `None` for the session's own.
    pub collection: Option<Collection>,
    /// Where they come from; `None` when they are said now.
    pub source: Option<Source>,
    /// What memory may do with them; `None` for what the session says.
    pub memory: Option<MemoryMode>,
}

/// A turn that is to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people or agents.
    pub speaker: Option<String>,
    /// What was said: a text, or OpenAI content parts as they came.
    pub content: Content,
    /// When it was said; `None` for now.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The client's own id for it: the same id in the same session is stored once.
    pub client_id: Option<String>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// OpenAI content parts. The text ones are read; all are kept as they came.
    Parts(Vec<serde_json::Value>),
}

/// What memory may do for a session or a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryMode {
    /// Neither remember nor recall.
    Off,
    /// Recall only: the session leaves nothing behind.
    Read,
    /// Remember only.
    Write,
    /// Remember and recall.
    #[default]
    ReadWrite,
}

impl MemoryMode {
    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MemoryMode::Off => "off",
            MemoryMode::Read => "read",
            MemoryMode::Write => "write",
            MemoryMode::ReadWrite => "readwrite",
        }
    }

    /// Whether memory may be asked.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, MemoryMode::Read | MemoryMode::ReadWrite)
    }

    /// Whether memory may be written to.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, MemoryMode::Write | MemoryMode::ReadWrite)
    }
}

impl FromStr for MemoryMode {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "off" => Ok(MemoryMode::Off),
            "read" => Ok(MemoryMode::Read),
            "write" => Ok(MemoryMode::Write),
            "readwrite" => Ok(MemoryMode::ReadWrite),
            _ => Err(BadName("memory is one of off, read, write, readwrite".into())),
        }
    }
}

/// What became of the turns of a [`RecordRequest`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded {
    /// What became of each turn, in the order of the request.
    pub turns: Vec<TurnFate>,
}

/// What became of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum TurnFate {
    /// Written down.
    Stored {
        /// Its place in the user's journal.
        seq: Seq,
        /// The exchange it belongs to.
        exchange: ExchangeId,
    },
    /// It was written down before: same client id, or same words at the same place.
    Known {
        /// Its place in the user's journal.
        seq: Seq,
        /// The exchange it belongs to.
        exchange: ExchangeId,
    },
    /// Not written down: the session or the request says so.
    NotKept,
    /// Not written down: it was purged once, and what is purged stays gone.
    Purged,
    /// Not written down: nothing is left of it without what skymem itself had put into the prompt.
    Injected,
}

/// Something memory is told directly: "remember this".
#[derive(Debug, Clone, PartialEq)]
pub struct RememberRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// What to remember.
    pub text: String,
    /// The shelf it stands on; `None` for the default one.
    pub collection: Option<Collection>,
    /// The session it came up in; `None` for a session of its own kind.
    pub session: Option<SessionId>,
    /// Where it comes from; `None` for `remember`.
    pub source: Option<Source>,
    /// When it was so; `None` for now.
    pub occurred_at: Option<DateTime<Utc>>,
    /// Pinned from the start: does not decay, is spared by pruning.
    pub pinned: bool,
}

impl Memory {
    /// Writes turns down and returns after commit: what was answered here survives a crash. Idempotent.
    /// Layers learn of them soon after.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for an empty, overlong or contradictory request; nothing was written.
    pub async fn record(&self, request: RecordRequest) -> Result<Recorded, EngineError> {
        todo!()
    }

    /// Writes a note down that was told to memory directly. Idempotent like [`Memory::record`].
    ///
    /// # Errors
    ///
    /// As [`Memory::record`].
    pub async fn remember(&self, request: RememberRequest) -> Result<TurnFate, EngineError> {
        todo!()
    }
}
