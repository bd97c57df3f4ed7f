//! The contract of the layer that keeps sealed collections: what can be read of them while they are unlocked.

use std::fmt;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::conversation::{Collection, Exchange, ExchangeId, Seq, SessionId, UserId};
use crate::layer::LayerError;

/// Sealed collections. What is unlocked is in memory alone, and is overwritten when it is locked.
#[async_trait]
pub trait Vault: Send + Sync {
    /// Unlocks a collection until `until`, or until it is locked; unlocks it for another time when it is unlocked.
    ///
    /// # Errors
    ///
    /// [`VaultError::Refused`] when `with` does not open it; says which of the two is wrong.
    async fn unlock(
        &self,
        user: UserId,
        collection: &Collection,
        with: &UnlockWith,
        until: Option<DateTime<Utc>>,
    ) -> Result<Unlocked, VaultError>;

    /// Locks a collection, or all of a user: keys and texts are overwritten. Which were unlocked.
    fn lock(&self, user: UserId, collection: Option<&Collection>) -> Vec<Collection>;

    /// Locks what was unlocked until `now` or before. Which it was.
    fn expire(&self, now: DateTime<Utc>) -> Vec<(UserId, Collection)>;

    /// What is unlocked of a user.
    fn unlocked(&self, user: UserId) -> Vec<Unlocked>;

    /// The sealed collections of a user that are locked.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    async fn locked(&self, user: UserId) -> Result<Vec<Collection>, VaultError>;

    /// One exchange of an unlocked collection; `None` when there is no such.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    async fn exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<Exchange>, VaultError>;

    /// What was said in a session, in collections that are unlocked, oldest first.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    async fn session(&self, user: UserId, session: &SessionId) -> Result<Vec<Exchange>, VaultError>;

    /// Whether `with` opens what is sealed now, without unlocking it.
    ///
    /// # Errors
    ///
    /// [`VaultError::Refused`] when it does not; [`VaultError::NotSealed`].
    async fn opens(&self, user: UserId, collection: &Collection, with: &UnlockWith) -> Result<(), VaultError>;

    /// A new key for a collection, wrapped to each of `to`.
    ///
    /// # Errors
    ///
    /// [`VaultError::Refused`] when `to` is empty, or holds what is no recipient.
    async fn new_key(
        &self,
        user: UserId,
        collection: &Collection,
        version: u32,
        to: Vec<WrapTo>,
    ) -> Result<NewKey, VaultError>;

    /// Reads with a new key too, if the collection is unlocked.
    fn keep_key(&self, user: UserId, collection: &Collection, version: u32, key: NewKey);

    /// Some turns of an unlocked collection that were written with an older key, behind the place `after`, encrypted with the
    /// newest one: at most `most` are looked at.
    ///
    /// # Errors
    ///
    /// [`VaultError::Locked`].
    async fn reseal(
        &self,
        user: UserId,
        collection: &Collection,
        after: Seq,
        most: usize,
    ) -> Result<Resealed, VaultError>;

    /// The keys of an unlocked collection wrapped for one more recipient, or under a passphrase: what that recipient is called
    /// in [`NewKey::wrappings`], and version and bytes of each.
    ///
    /// # Errors
    ///
    /// [`VaultError::Locked`]; [`VaultError::Refused`] for what is no recipient.
    async fn wrap(
        &self,
        user: UserId,
        collection: &Collection,
        to: WrapTo,
    ) -> Result<(String, Vec<(u32, Vec<u8>)>), VaultError>;
}

/// What unlocks a collection.
#[derive(Debug)]
pub enum UnlockWith {
    /// The text of an age identity file.
    Identity(SecretText),
    /// The passphrase.
    Passphrase(SecretText),
}

/// Who shall be able to unlock a collection.
#[derive(Debug)]
pub enum WrapTo {
    /// An age recipient.
    Recipient(String),
    /// Whoever knows a passphrase.
    Passphrase(SecretText),
}

/// Turns that were encrypted with another key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resealed {
    /// The version of that key.
    pub version: u32,
    /// The rows, and what is to stand in them.
    pub turns: Vec<(Uuid, Vec<u8>)>,
    /// Up to which place was looked; `None` when there is nothing more.
    pub reached: Option<Seq>,
    /// How many rows could not be read: they stay as they are.
    pub unreadable: usize,
}

/// A key that was just made.
pub struct NewKey {
    /// The half that writes.
    pub public: Vec<u8>,
    /// What makes handles of sessions; made with the first key of a collection.
    pub handles: Vec<u8>,
    /// The half that reads, wrapped: by recipient, or `passphrase`.
    pub wrappings: Vec<(String, Vec<u8>)>,
    /// The half that reads. Overwritten when it is let go.
    pub secret: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewKey(not shown)")
    }
}

/// A text that is overwritten when it is let go, and never printed.
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes a text over.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The text itself: to be used, not to be shown.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(not shown)")
    }
}

/// A collection that is unlocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlocked {
    /// Which.
    pub collection: Collection,
    /// Until when; `None` until it is locked.
    pub until: Option<DateTime<Utc>>,
    /// How many exchanges can be read.
    pub exchanges: usize,
    /// What is wrong with the rows that cannot, in words; they lose nothing else.
    pub unreadable: Vec<String>,
}

/// Why the vault did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// It does not open, or cannot be done so; says why.
    #[error("{0}")]
    Refused(String),
    /// The collection is locked.
    #[error("collection {0} is sealed and locked")]
    Locked(Collection),
    /// There is no such sealed collection.
    #[error("there is no sealed collection {0}")]
    NotSealed(Collection),
    /// The database gave no answer. Worth another try.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

impl From<sqlx::Error> for VaultError {
    fn from(error: sqlx::Error) -> Self {
        Self::Layer(LayerError::from(error))
    }
}
