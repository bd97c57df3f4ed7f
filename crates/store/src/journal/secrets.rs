//! What a user wants done about secrets in what they tell.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use skymem_core::UserId;
use skymem_core::conversation::BadName;

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

impl Journal {
    /// What the user said is to be done about secrets; `None` when they said nothing.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn secret_policy(&self, user: UserId) -> Result<Option<SecretPolicy>, StoreError> {
        let word = sqlx::query_scalar!("select secrets from journal.users where id = $1", user.0)
            .fetch_optional(&self.db)
            .await?;
        Ok(word.flatten().map(|word| word.parse()).transpose()?)
    }

    /// Sets what is to be done about secrets; `None` for what the server's configuration says.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn set_secret_policy(&self, user: UserId, policy: Option<SecretPolicy>) -> Result<(), StoreError> {
        let word = policy.map(SecretPolicy::as_str);
        let mut tx = self.db.begin().await?;
        let set =
            sqlx::query!("update journal.users set secrets = $2 where id = $1", user.0, word).execute(&mut *tx).await?;
        if set.rows_affected() == 0 {
            return Err(StoreError::NoUser);
        }
        self.note(&mut tx, user, Verb::UserSet, || json!({ "secrets": word })).await?;
        tx.commit().await?;
        Ok(())
    }
}
