//! Whose memory it is, and the keys that open it.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use skymem_core::wall::acting_for_everyone;
use skymem_core::{Collection, User, UserId, UserName};
use skymem_store::{Key, KeyId, NewKey, Scope, SecretPolicy};

use crate::error::EngineError;
use crate::memory::Memory;

/// A user, and the zone their "yesterday" is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Who it is.
    pub user: User,
    /// UTC until it is set.
    pub timezone: Tz,
    /// What is done about secrets in what they tell.
    pub secrets: SecretPolicy,
    /// The sealed collection that they go to when they are sealed.
    pub secrets_collection: Option<Collection>,
}

impl Memory {
    /// The user of that name, made when there is none.
    ///
    /// # Errors
    ///
    /// [`EngineError::Conflict`] for a second user over a role of the database that the wall does not hold.
    pub async fn ensure_user(&self, name: &UserName) -> Result<User, EngineError> {
        Ok(acting_for_everyone(self.journal().make_user(name, self.now())).await?)
    }

    /// The user of that id, and their zone; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn profile(&self, id: UserId) -> Result<Option<Profile>, EngineError> {
        let journal = &self.inner.journal;
        let (user, timezone, secrets) =
            tokio::try_join!(journal.user(id), journal.timezone(id), journal.secret_setting(id))?;
        let policy = secrets.policy.unwrap_or(self.inner.settings.secrets.policy);
        let profile =
            |(user, timezone)| Profile { user, timezone, secrets: policy, secrets_collection: secrets.collection };
        Ok(user.zip(timezone).map(profile))
    }

    /// The user of that name; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn user_named(&self, name: &UserName) -> Result<Option<User>, EngineError> {
        Ok(acting_for_everyone(self.inner.journal.user_named(name)).await?)
    }

    /// All users by name.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn users(&self) -> Result<Vec<User>, EngineError> {
        Ok(acting_for_everyone(self.inner.journal.users()).await?)
    }

    /// Says which zone a user's "yesterday" is in; whether there is such a user.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn set_timezone(&self, user: UserId, zone: Tz) -> Result<bool, EngineError> {
        Ok(self.journal().set_timezone(user, zone).await?)
    }

    /// Makes a key and returns its text, for the only time.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] without scopes, with a name or an end that cannot be; [`EngineError::NotFound`] when
    /// there is no such user.
    pub async fn make_key(
        &self,
        user: UserId,
        name: &str,
        scopes: &[Scope],
        expires_at: Option<DateTime<Utc>>,
    ) -> Result<NewKey, EngineError> {
        Ok(self.keys_by().make(user, name, scopes, self.now(), expires_at).await?)
    }

    /// The key that `presented` is; `None` when it opens nothing: unknown, wrong, expired or revoked.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn verify_key(&self, presented: &str) -> Result<Option<Key>, EngineError> {
        Ok(acting_for_everyone(self.inner.keys.verify(presented, self.now())).await?)
    }

    /// The keys of a user.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn keys(&self, user: UserId) -> Result<Vec<Key>, EngineError> {
        Ok(self.inner.keys.list(user).await?)
    }

    /// Takes a key of a user back, at once; whether there is one of that id.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn revoke_key(&self, user: UserId, id: &KeyId) -> Result<bool, EngineError> {
        Ok(self.keys_by().revoke(user, id, self.now()).await?)
    }

    /// A new key like the one of that id, which opens until `old_until` yet, or no longer; `None` when there is none of
    /// that id that still opens anything.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; the old key is as it was.
    pub async fn rotate_key(
        &self,
        user: UserId,
        id: &KeyId,
        old_until: Option<DateTime<Utc>>,
    ) -> Result<Option<NewKey>, EngineError> {
        let now = self.now();
        Ok(self.keys_by().rotate(user, id, now, old_until.unwrap_or(now)).await?)
    }
}

/// The time zone of a name like `Europe/Berlin`.
///
/// # Errors
///
/// [`EngineError::Refused`] when there is none.
pub fn time_zone(name: &str) -> Result<Tz, EngineError> {
    name.parse().map_err(|_| EngineError::Refused(format!("{name:?} is no time zone; one is Europe/Berlin")))
}
