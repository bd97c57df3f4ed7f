//! What is inside the ciphertext of a turn: all of it.

use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::{ExchangeKind, Role, SessionId, Source};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::{Place, PublicKey, SealError, SecretKey};

/// The column that turns are sealed for.
const COLUMN: &str = "turn";

/// One message of a sealed collection, and everything that is known of it. Not printed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct SealedTurn {
    /// The session it was said in.
    pub session: SessionId,
    /// Said in a conversation, or told to memory directly.
    pub kind: ExchangeKind,
    /// Where it came from.
    pub source: Source,
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// What was said.
    pub text: String,
    /// The content as it came, when it was not plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<serde_json::Value>,
    /// When it was said.
    pub occurred_at: DateTime<Utc>,
    /// When it was written down.
    pub recorded_at: DateTime<Utc>,
    /// The client's own id for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// What it is told from a repetition by, where it has no client id.
    pub content_hash: Vec<u8>,
    /// The write it came with, and which of its turns it was: whoever reads leaves out what one write repeats of another.
    pub batch: (Uuid, u32),
    /// Whether it was told apart from repetitions before it was sealed: then it is none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub told_apart: bool,
    /// Whether the exchange is never forgotten by a rule.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pinned: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl SealedTurn {
    /// Sealed for a row. The column of `place` is that of turns.
    ///
    /// # Errors
    ///
    /// As [`PublicKey::seal`].
    pub fn seal(&self, key: &PublicKey, place: Place<'_>) -> Result<Vec<u8>, SealError> {
        let text = Zeroizing::new(serde_json::to_vec(self).map_err(|_| SealError::Failed)?);
        key.seal(&Place { column: COLUMN, ..place }, &text)
    }

    /// What was sealed for a row.
    ///
    /// # Errors
    ///
    /// As [`SecretKey::open`]; [`SealError::UnknownForm`] when a newer program wrote it.
    pub fn open(key: &SecretKey, place: Place<'_>, sealed: &[u8]) -> Result<Self, SealError> {
        let text = key.open(&Place { column: COLUMN, ..place }, sealed)?;
        serde_json::from_slice(&text).map_err(|_| SealError::UnknownForm)
    }
}

impl fmt::Debug for SealedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedTurn(not shown)")
    }
}
