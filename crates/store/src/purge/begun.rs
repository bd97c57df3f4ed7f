//! Purges that were begun and have no receipt yet.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use skymem_core::{ExchangeId, UserId, UserName};

use super::Purger;
use crate::audit::SERVER;
use crate::error::StoreError;

/// A purge that was begun. What is purged is named, nothing of what it said is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunPurge {
    /// Names it.
    pub id: Uuid,
    /// Whose memory is purged.
    pub user: UserId,
    /// The name of that user, when they are to be removed.
    pub removes: Option<UserName>,
    /// What was aimed at, in a word.
    pub aim: String,
    /// Who asked for it, as the audit log names them.
    pub actor: String,
    /// What is purged.
    pub exchanges: Vec<ExchangeId>,
    /// When it was begun.
    pub begun_at: DateTime<Utc>,
}

impl BegunPurge {
    /// Whose receipt there will be: of a user who is removed, the server's.
    #[must_use]
    pub fn kept_for(&self) -> UserId {
        if self.removes.is_some() { SERVER } else { self.user }
    }
}

impl Purger {
    /// Notes that a purge begins.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn begin(&self, purge: &BegunPurge) -> Result<(), StoreError> {
        let exchanges: Vec<Uuid> = purge.exchanges.iter().map(|id| id.0).collect();
        sqlx::query!(
            r#"
            insert into journal.purge (user_id, id, of_user, removes, aim, actor, exchanges, begun_at)
            values ($1, $2, $3, $4, $5, $6, $7, $8)
            "#,
            purge.kept_for().0,
            purge.id,
            purge.user.0,
            purge.removes.as_ref().map(UserName::as_str),
            purge.aim,
            purge.actor,
            &exchanges,
            purge.begun_at
        )
        .execute(&self.db)
        .await?;
        Ok(())
    }

    /// The purges of a user, or the removals by the server, that were begun before `until` and have no receipt yet.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn begun(&self, kept_for: UserId, until: DateTime<Utc>) -> Result<Vec<BegunPurge>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select id, of_user, removes, aim, actor, exchanges, begun_at
            from journal.purge
            where user_id = $1
              and begun_at <= $2
            order by begun_at, id
            "#,
            kept_for.0,
            until
        )
        .fetch_all(&self.db)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(BegunPurge {
                    id: row.id,
                    user: UserId(row.of_user),
                    removes: row.removes.map(|name| name.parse()).transpose()?,
                    aim: row.aim,
                    actor: row.actor,
                    exchanges: row.exchanges.into_iter().map(ExchangeId).collect(),
                    begun_at: row.begun_at,
                })
            })
            .collect()
    }

    /// Notes that a purge has its receipt.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn end(&self, purge: &BegunPurge) -> Result<(), StoreError> {
        sqlx::query!("delete from journal.purge where user_id = $1 and id = $2", purge.kept_for().0, purge.id)
            .execute(&self.db)
            .await?;
        Ok(())
    }
}
