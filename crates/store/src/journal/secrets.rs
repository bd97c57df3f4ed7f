//! What a user wants done about secrets in what they tell.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use skymem_core::conversation::BadName;
use skymem_core::{Collection, UserId};

use super::Journal;
use crate::audit::Verb;
use crate::error::StoreError;

/// What is done about secrets in what is to be remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretPolicy {
    /// They are kept as they are.
    Allow,
    /// `[secret: ...]` is kept in their place.
    #[default]
    Redact,
    /// They go to a sealed collection.
    Seal,
}

impl SecretPolicy {
    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Redact => "redact",
            Self::Seal => "seal",
        }
    }
}

impl FromStr for SecretPolicy {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "allow" => Ok(Self::Allow),
            "redact" => Ok(Self::Redact),
            "seal" => Ok(Self::Seal),
            _ => Err(BadName("a policy about secrets is one of allow, redact, seal".into())),
        }
    }
}

/// What a user said is to be done about secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretSetting {
    /// What is done; `None` for what the server's configuration says.
    pub policy: Option<SecretPolicy>,
    /// The sealed collection that they go to when they are sealed.
    pub collection: Option<Collection>,
}

impl Journal {
    /// What the user said is to be done about secrets.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn secret_setting(&self, user: UserId) -> Result<SecretSetting, StoreError> {
        let row = sqlx::query!("select secrets, secrets_collection from journal.users where id = $1", user.0)
            .fetch_optional(&self.db)
            .await?;
        let Some(row) = row else { return Ok(SecretSetting::default()) };
        Ok(SecretSetting {
            policy: row.secrets.map(|word| word.parse()).transpose()?,
            collection: row.secrets_collection.map(|name| name.parse()).transpose()?,
        })
    }

    /// Sets what is to be done about secrets.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn set_secret_setting(&self, user: UserId, setting: &SecretSetting) -> Result<(), StoreError> {
        let word = setting.policy.map(SecretPolicy::as_str);
        let collection = setting.collection.as_ref().map(Collection::as_str);
        let mut tx = self.db.begin().await?;
        let set = sqlx::query!(
            "update journal.users set secrets = $2, secrets_collection = $3 where id = $1",
            user.0,
            word,
            collection
        )
        .execute(&mut *tx)
        .await?;
        if set.rows_affected() == 0 {
            return Err(StoreError::NoUser);
        }
        let what = || json!({ "secrets": word, "secrets_collection": collection });
        self.note(&mut tx, user, Verb::UserSet, what).await?;
        tx.commit().await?;
        Ok(())
    }
}
