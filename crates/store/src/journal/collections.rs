//! Shelves of exchanges that are kept, recalled and pruned together.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::PgTransaction;

use skymem_core::{Collection, UserId};

use super::{Journal, lock};
use crate::audit::Verb;
use crate::error::StoreError;

/// One collection and what stands in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shelf {
    /// What it is called.
    pub name: Collection,
    /// What is set about it.
    pub settings: CollectionSettings,
    /// How many exchanges stand in it, without the forgotten ones.
    pub exchanges: i64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

/// What is set about a collection; `None` means as the server's configuration has it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CollectionSettings {
    /// The age in days at which what fades counts half; above 0.
    pub half_life_days: Option<f32>,
    /// The part of the relevance that never fades, 0 to 1.
    pub decay_floor: Option<f32>,
    /// The size, in tokens, of the parts that a long exchange is split into, 100 to 4,000.
    pub part_tokens: Option<u32>,
}

impl Journal {
    /// The collections of a user, by name.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn collections(&self, user: UserId) -> Result<Vec<Shelf>, StoreError> {
        let rows = sqlx::query_as!(
            ShelfRow,
            r#"
            select name, half_life_days, decay_floor, part_tokens, created_at,
                   (select count(*)
                    from journal.exchange
                    where exchange.user_id = collection.user_id
                      and exchange.collection = collection.name
                      and forgotten_at is null) as "exchanges!"
            from journal.collection
            where user_id = $1
            order by name
            "#,
            user.0
        )
        .fetch_all(&self.db)
        .await?;
        rows.into_iter().map(Shelf::try_from).collect()
    }

    /// Makes a collection, unless it is there.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn make_collection(
        &self,
        user: UserId,
        name: &Collection,
        at: DateTime<Utc>,
    ) -> Result<Shelf, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        make(&mut tx, user, name, at).await?;
        let shelf = shelf(&mut tx, user, name).await?.ok_or(StoreError::NoUser)?;
        tx.commit().await?;
        Ok(shelf)
    }

    /// Sets all that can be set about a collection; `None` when there is no such.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for a value that cannot be.
    pub async fn set_collection(
        &self,
        user: UserId,
        name: &Collection,
        settings: CollectionSettings,
    ) -> Result<Option<Shelf>, StoreError> {
        let part_tokens = check(settings)?;
        let mut tx = self.db.begin().await?;
        sqlx::query!(
            r#"
            update journal.collection
            set half_life_days = $3, decay_floor = $4, part_tokens = $5
            where user_id = $1
              and name = $2
            "#,
            user.0,
            name.as_str(),
            settings.half_life_days,
            settings.decay_floor,
            part_tokens
        )
        .execute(&mut *tx)
        .await?;
        let shelf = shelf(&mut tx, user, name).await?;
        if shelf.is_some() {
            let CollectionSettings { half_life_days, decay_floor, part_tokens } = settings;
            let set =
                json!({ "half_life_days": half_life_days, "decay_floor": decay_floor, "part_tokens": part_tokens });
            self.note(&mut tx, user, Verb::CollectionSet, || json!({ "collection": name, "set": set })).await?;
        }
        tx.commit().await?;
        Ok(shelf)
    }

    /// Deletes a collection in which nothing stands; whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when an exchange stands in it, forgotten ones included, or a session uses it.
    pub async fn delete_collection(&self, user: UserId, name: &Collection) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let deleted =
            sqlx::query!("delete from journal.collection where user_id = $1 and name = $2", user.0, name.as_str())
                .execute(&mut *tx)
                .await;
        match deleted {
            Ok(deleted) => {
                let is_gone = deleted.rows_affected() > 0;
                if is_gone {
                    self.note(&mut tx, user, Verb::CollectionRemoved, || json!({ "collection": name })).await?;
                }
                tx.commit().await?;
                Ok(is_gone)
            }
            // The tables' own references say whether anything stands in it: no moment between looking and deleting.
            Err(error) if error.as_database_error().is_some_and(|error| error.is_foreign_key_violation()) => {
                Err(StoreError::Conflict(format!(
                    "collection {name} is in use: move its sessions and purge its exchanges first"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes a collection, unless it is there.
pub(super) async fn make(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    name: &Collection,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into journal.collection (user_id, name, created_at) values ($1, $2, $3) on conflict do nothing",
        user.0,
        name.as_str(),
        at
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

async fn shelf(tx: &mut PgTransaction<'_>, user: UserId, name: &Collection) -> Result<Option<Shelf>, StoreError> {
    let row = sqlx::query_as!(
        ShelfRow,
        r#"
        select name, half_life_days, decay_floor, part_tokens, created_at,
               (select count(*)
                from journal.exchange
                where exchange.user_id = collection.user_id
                  and exchange.collection = collection.name
                  and forgotten_at is null) as "exchanges!"
        from journal.collection
        where user_id = $1
          and name = $2
        "#,
        user.0,
        name.as_str()
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(Shelf::try_from).transpose()
}

fn check(settings: CollectionSettings) -> Result<Option<i32>, StoreError> {
    let refuse = |why: &str| Err(StoreError::Refused(why.into()));
    if settings.half_life_days.is_some_and(|days| !(days.is_finite() && days > 0.0)) {
        return refuse("half_life_days is above 0");
    }
    if settings.decay_floor.is_some_and(|floor| !(0.0..=1.0).contains(&floor)) {
        return refuse("decay_floor is from 0 to 1");
    }
    match settings.part_tokens.map(|tokens| (i32::try_from(tokens), (100..=4000).contains(&tokens))) {
        None => Ok(None),
        Some((Ok(tokens), true)) => Ok(Some(tokens)),
        Some(_) => refuse("part_tokens is from 100 to 4000"),
    }
}

struct ShelfRow {
    name: String,
    half_life_days: Option<f32>,
    decay_floor: Option<f32>,
    part_tokens: Option<i32>,
    created_at: DateTime<Utc>,
    exchanges: i64,
}

impl TryFrom<ShelfRow> for Shelf {
    type Error = StoreError;

    fn try_from(row: ShelfRow) -> Result<Self, StoreError> {
        let settings = CollectionSettings {
            half_life_days: row.half_life_days,
            decay_floor: row.decay_floor,
            part_tokens: row.part_tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        };
        Ok(Self { name: row.name.parse()?, settings, exchanges: row.exchanges, created_at: row.created_at })
    }
}
