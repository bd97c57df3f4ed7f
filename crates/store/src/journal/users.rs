//! Whose memory is kept.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde_json::json;

use skymem_core::conversation::BadName;
use skymem_core::{User, UserId, UserName};

use super::{Journal, id_made};
use crate::audit::{self, Verb};
use crate::error::StoreError;
use crate::wall;

impl Journal {
    /// Whether the database answers.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query_scalar!(r#"select 1 as "one!""#).fetch_one(&self.db).await?;
        Ok(())
    }

    /// The user of that name, made when there is none yet.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] for a second user over a role that the wall does not hold.
    pub async fn make_user(&self, name: &UserName, at: DateTime<Utc>) -> Result<User, StoreError> {
        if let Some(user) = self.user_named(name).await? {
            return Ok(user);
        }
        let mut tx = self.db.begin().await?;
        let new = id_made(at);
        // The update changes nothing, but lets the row be returned that was there.
        let id = sqlx::query_scalar!(
            r#"
            insert into journal.users (id, name, created_at)
            values ($1, $2, $3)
            on conflict (name) do update set name = excluded.name
            returning id
            "#,
            new,
            name.as_str(),
            at
        )
        .fetch_one(&mut *tx)
        .await?;
        if id == new {
            if let Some(role) = wall::bypassed_by(&mut *tx).await?
                && sqlx::query_scalar!(r#"select count(*) > 1 as "more!" from journal.users"#)
                    .fetch_one(&mut *tx)
                    .await?
            {
                return Err(StoreError::Conflict(wall::needs_a_plain_role(&role)));
            }
            let what = || json!({ "user": id });
            self.note(&mut tx, UserId(id), Verb::UserMade, what).await?;
            self.note(&mut tx, audit::SERVER, Verb::UserMade, what).await?;
        }
        tx.commit().await?;
        Ok(User { id: UserId(id), name: name.clone() })
    }

    /// The user of that name.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn user_named(&self, name: &UserName) -> Result<Option<User>, StoreError> {
        let id = sqlx::query_scalar!("select id from journal.users where name = $1", name.as_str())
            .fetch_optional(&self.db)
            .await?;
        Ok(id.map(|id| User { id: UserId(id), name: name.clone() }))
    }

    /// The user with that id.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, StoreError> {
        let name =
            sqlx::query_scalar!("select name from journal.users where id = $1", id.0).fetch_optional(&self.db).await?;
        name.map(|name| Ok(User { id, name: name.parse()? })).transpose()
    }

    /// All users, by name.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn users(&self) -> Result<Vec<User>, StoreError> {
        let rows = sqlx::query!("select id, name from journal.users order by name").fetch_all(&self.db).await?;
        rows.into_iter().map(|row| Ok(User { id: UserId(row.id), name: row.name.parse()? })).collect()
    }

    /// The zone in which the user means "yesterday"; UTC until set.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn timezone(&self, user: UserId) -> Result<Option<Tz>, StoreError> {
        let zone = sqlx::query_scalar!("select timezone from journal.users where id = $1", user.0)
            .fetch_optional(&self.db)
            .await?;
        zone.map(|name| self::zone(&name)).transpose()
    }

    /// Sets the zone in which the user means "yesterday"; whether there is such a user.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn set_timezone(&self, user: UserId, zone: Tz) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let set = sqlx::query!("update journal.users set timezone = $2 where id = $1", user.0, zone.name())
            .execute(&mut *tx)
            .await?;
        if set.rows_affected() == 0 {
            return Ok(false);
        }
        self.note(&mut tx, user, Verb::UserSet, || json!({ "timezone": zone.name() })).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// A zone as it is kept.
pub(super) fn zone(name: &str) -> Result<Tz, StoreError> {
    name.parse().map_err(|_| BadName(format!("{name} is no time zone")).into())
}
