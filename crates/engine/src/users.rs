//! Whose memory it is, and the keys that open it.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::{User, UserId, UserName};

use crate::error::EngineError;
use crate::memory::Memory;

/// A user as a list shows them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserView {
    /// Who.
    pub user: User,
    /// The zone their "yesterday" is in: `Europe/Berlin`.
    pub timezone: String,
    /// When they were made.
    pub created_at: DateTime<Utc>,
}

/// What a key may do. Each includes nothing but itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Recall, context, and every listing.
    Read,
    /// Record, remember, edit, pin, forget, restore.
    Write,
    /// Users, keys, purge, layers.
    Admin,
}

/// A key to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// Whose memory it opens.
    pub user: UserId,
    /// For people: "laptop".
    pub name: String,
    /// What it may do; not empty.
    pub scopes: Vec<Scope>,
    /// When it stops opening anything; `None` for never.
    pub expires_at: Option<DateTime<Utc>>,
}

/// A key just made: the only time its text is seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeKey {
    /// What is known of it from now on.
    pub key: KeyView,
    /// `skm_<id>_<secret>`: to be shown once and kept by the client.
    pub text: String,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyView {
    /// Its name for ever; in logs too.
    pub id: String,
    /// Whose memory it opens.
    pub user: UserId,
    /// For people.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it stops opening anything.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it last opened something, to the minute or so.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Who stands at the door with a key that opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose memory the key opens.
    pub user: User,
    /// The key's id.
    pub key: String,
    /// What the key may do.
    pub scopes: Vec<Scope>,
}

impl Memory {
    /// The user of that name, made when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn ensure_user(&self, name: &UserName) -> Result<User, EngineError> {
        todo!()
    }

    /// The user of that name; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn user(&self, name: &UserName) -> Result<Option<UserView>, EngineError> {
        todo!()
    }

    /// All users by name.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn users(&self) -> Result<Vec<UserView>, EngineError> {
        todo!()
    }

    /// Says which zone a user's "yesterday" is in.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when there is no zone of that name, [`EngineError::NotFound`] when no such user.
    pub async fn set_timezone(&self, user: UserId, timezone: &str) -> Result<(), EngineError> {
        todo!()
    }

    /// Makes a key and returns its text, for the only time.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] without scopes or with an end in the past, [`EngineError::NotFound`] when no such user.
    pub async fn make_key(&self, key: &NewKey) -> Result<MadeKey, EngineError> {
        todo!()
    }

    /// Who `presented` lets in; `None` when it opens nothing: unknown, wrong, expired or revoked.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn verify_key(&self, presented: &str) -> Result<Option<Caller>, EngineError> {
        todo!()
    }

    /// The keys of a user, or of all users, newest first.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn keys(&self, user: Option<UserId>) -> Result<Vec<KeyView>, EngineError> {
        todo!()
    }

    /// Takes a key back, at once; `None` when there is none of that id. Idempotent.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn revoke_key(&self, id: &str) -> Result<Option<KeyView>, EngineError> {
        todo!()
    }

    /// A new key like the one of that id, which is taken back; `None` when there is none that still opens anything.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; the old key is as it was.
    pub async fn rotate_key(&self, id: &str) -> Result<Option<MadeKey>, EngineError> {
        todo!()
    }
}
