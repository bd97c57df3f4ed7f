//! The keys of sealed collections, wrapped; and shredding a collection.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgTransaction;
use uuid::Uuid;

use skymem_core::{Collection, UserId};

use super::{number, version};
use crate::audit::Verb;
use crate::error::StoreError;
use crate::journal::{Journal, lock};

/// A version of a collection's key.
#[derive(Clone)]
pub struct NewVersion {
    /// Counts from 1.
    pub version: u32,
    /// The half that writes.
    pub public: Vec<u8>,
    /// The half that reads, wrapped to each recipient.
    pub wrappings: Vec<Wrapping>,
}

/// The half of a key that reads, wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapping {
    /// Which version of the key.
    pub version: u32,
    /// The recipient, or `passphrase`.
    pub recipient: String,
    /// As age wraps it.
    pub wrapped: Vec<u8>,
}

/// A sealed collection as it can be seen while it is locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedCollection {
    /// What it is called.
    pub collection: Collection,
    /// The version of the key that is written with.
    pub key_version: u32,
    /// Since when it is sealed.
    pub sealed_at: DateTime<Utc>,
    /// Whether something was taken under the seal of which nobody has looked yet whether anything is left in the clear.
    pub unchecked: bool,
    /// Who can open it: recipients, and `passphrase`.
    pub recipients: Vec<String>,
    /// How many exchanges stand in it, without the forgotten ones.
    pub exchanges: i64,
    /// How many turns are written with an older version of the key.
    pub behind: i64,
}

impl Journal {
    /// The sealed collections of a user, by name.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_collections(&self, user: UserId) -> Result<Vec<SealedCollection>, StoreError> {
        let rows = sqlx::query!(
            r#"
            select collection, key_version, sealed_at, unchecked,
                   array(select recipient
                         from journal.sealed_wrapping
                         where sealed_wrapping.user_id = sealed.user_id
                           and sealed_wrapping.collection = sealed.collection
                           and sealed_wrapping.version = sealed.key_version
                         order by recipient) as "recipients!",
                   (select count(*)
                    from journal.sealed_exchange
                    where sealed_exchange.user_id = sealed.user_id
                      and sealed_exchange.collection = sealed.collection
                      and forgotten_at is null) as "exchanges!",
                   (select count(*)
                    from journal.sealed_exchange
                    join journal.sealed_turn on sealed_turn.user_id = sealed_exchange.user_id
                                            and sealed_turn.exchange_id = sealed_exchange.id
                    where sealed_exchange.user_id = sealed.user_id
                      and sealed_exchange.collection = sealed.collection
                      and sealed_turn.key_version < sealed.key_version) as "behind!"
            from journal.sealed
            where user_id = $1
            order by collection
            "#,
            user.0
        )
        .fetch_all(&self.db)
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(SealedCollection {
                    collection: row.collection.parse()?,
                    key_version: version(row.key_version)?,
                    sealed_at: row.sealed_at,
                    unchecked: row.unchecked,
                    recipients: row.recipients,
                    exchanges: row.exchanges,
                    behind: row.behind,
                })
            })
            .collect()
    }

    /// Adds wrappings of keys that are there: another recipient. Those of keys that nothing needs any more are left out.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when the key was rotated meanwhile.
    pub async fn add_wrappings(
        &self,
        user: UserId,
        collection: &Collection,
        wrappings: &[Wrapping],
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        insert(&mut tx, user, collection, wrappings, at).await?;
        let missing = sqlx::query_scalar!(
            r#"
            select count(*) as "missing!"
            from journal.sealed_key
            where user_id = $1
              and collection = $2
              and not version = any($3)
            "#,
            user.0,
            collection.as_str(),
            &wrappings.iter().map(|wrapping| number(wrapping.version)).collect::<Result<Vec<_>, _>>()?
        )
        .fetch_one(&mut *tx)
        .await?;
        if missing > 0 {
            return Err(StoreError::Conflict("the key was rotated meanwhile: try again".into()));
        }
        self.note(&mut tx, user, Verb::Sealed, || told(collection, "recipient added")).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Removes a recipient; whether there was one. What they have unwrapped already they can still read, until the key is
    /// rotated.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when it is the last one: nobody could open the collection again.
    pub async fn remove_recipient(
        &self,
        user: UserId,
        collection: &Collection,
        recipient: &str,
    ) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let gone = sqlx::query!(
            "delete from journal.sealed_wrapping where user_id = $1 and collection = $2 and recipient = $3",
            user.0,
            collection.as_str(),
            recipient
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        let unopenable = sqlx::query_scalar!(
            r#"
            select count(*) as "versions!"
            from journal.sealed_key
            where user_id = $1
              and collection = $2
              and not exists (select
                              from journal.sealed_wrapping
                              where sealed_wrapping.user_id = sealed_key.user_id
                                and sealed_wrapping.collection = sealed_key.collection
                                and sealed_wrapping.version = sealed_key.version)
            "#,
            user.0,
            collection.as_str()
        )
        .fetch_one(&mut *tx)
        .await?;
        if unopenable > 0 {
            return Err(StoreError::Conflict(format!(
                "nobody could open collection {collection} without that recipient: add another one first, or shred it"
            )));
        }
        if gone > 0 {
            self.note(&mut tx, user, Verb::Sealed, || told(collection, "recipient removed")).await?;
        }
        tx.commit().await?;
        Ok(gone > 0)
    }

    /// Writes with another key from now on, for the same recipients; what was written before is still read with the old one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Conflict`] when it was rotated meanwhile, or its recipients have changed: who was removed must not read
    /// on with the new key.
    pub async fn rotate_key(
        &self,
        user: UserId,
        collection: &Collection,
        new: &NewVersion,
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let version = number(new.version)?;
        let rotated = sqlx::query!(
            r#"
            update journal.sealed
            set key_version = $3
            where user_id = $1
              and collection = $2
              and key_version = $3 - 1
            "#,
            user.0,
            collection.as_str(),
            version
        )
        .execute(&mut *tx)
        .await?;
        if rotated.rows_affected() == 0 {
            return Err(StoreError::Conflict("the key was rotated meanwhile: try again".into()));
        }
        let recipients = sqlx::query_scalar!(
            r#"
            select recipient
            from journal.sealed_wrapping
            where user_id = $1
              and collection = $2
              and version = $3 - 1
            "#,
            user.0,
            collection.as_str(),
            version
        )
        .fetch_all(&mut *tx)
        .await?;
        let wrapped: BTreeSet<&str> = new.wrappings.iter().map(|wrapping| wrapping.recipient.as_str()).collect();
        if wrapped != recipients.iter().map(String::as_str).collect() {
            return Err(StoreError::Conflict("the recipients have changed meanwhile: try again".into()));
        }
        add_version(&mut tx, user, collection, new, at).await?;
        self.note(&mut tx, user, Verb::Sealed, || told(collection, "key rotated")).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Puts turns in their rows that were encrypted with a newer key; what was so meanwhile stays.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn reseal(&self, user: UserId, version: u32, turns: &[(Uuid, Vec<u8>)]) -> Result<(), StoreError> {
        let (ids, ciphertexts): (Vec<Uuid>, Vec<&[u8]>) = turns.iter().map(|(id, text)| (*id, text.as_slice())).unzip();
        sqlx::query!(
            r#"
            update journal.sealed_turn
            set key_version = $2, ciphertext = resealed.ciphertext
            from unnest($3::uuid[], $4::bytea[]) as resealed (id, ciphertext)
            where sealed_turn.user_id = $1
              and sealed_turn.id = resealed.id
              and key_version < $2
            "#,
            user.0,
            number(version)?,
            &ids,
            &ciphertexts as &[&[u8]]
        )
        .execute(&self.db)
        .await?;
        Ok(())
    }

    /// Removes the keys of a collection that nothing is written with any more.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn drop_old_keys(&self, user: UserId, collection: &Collection) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        sqlx::query!(
            r#"
            delete from journal.sealed_key
            using journal.sealed
            where sealed_key.user_id = $1
              and sealed_key.collection = $2
              and sealed.user_id = $1
              and sealed.collection = $2
              and sealed_key.version < sealed.key_version
              and not exists (select
                              from journal.sealed_exchange
                              join journal.sealed_turn on sealed_turn.user_id = sealed_exchange.user_id
                                                      and sealed_turn.exchange_id = sealed_exchange.id
                              where sealed_exchange.user_id = $1
                                and sealed_exchange.collection = $2
                                and sealed_turn.key_version = sealed_key.version)
            "#,
            user.0,
            collection.as_str()
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        Ok(())
    }

    /// Removes a sealed collection for good: its keys, so that no copy of what was said in it can be read any more, and
    /// what was said in it. How many exchanges; `None` when it is not sealed.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; then all of it is still there.
    pub async fn shred(&self, user: UserId, collection: &Collection) -> Result<Option<i64>, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let exchanges = sqlx::query_scalar!(
            r#"
            select count(*) as "exchanges!"
            from journal.sealed_exchange
            where user_id = $1
              and collection = $2
            "#,
            user.0,
            collection.as_str()
        )
        .fetch_one(&mut *tx)
        .await?;
        let gone = sqlx::query!(
            "delete from journal.sealed where user_id = $1 and collection = $2",
            user.0,
            collection.as_str()
        )
        .execute(&mut *tx)
        .await?;
        if gone.rows_affected() == 0 {
            return Ok(None);
        }
        sqlx::query!("delete from journal.collection where user_id = $1 and name = $2", user.0, collection.as_str())
            .execute(&mut *tx)
            .await?;
        self.note(&mut tx, user, Verb::Sealed, || told(collection, "shredded")).await?;
        tx.commit().await?;
        self.sealed.let_go(user);
        Ok(Some(exchanges))
    }
}

/// An entry of the audit log about a collection.
pub(super) fn told(collection: &Collection, what: &str) -> Value {
    json!({ "collection": collection, "what": what })
}

pub(super) async fn add_version(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    collection: &Collection,
    new: &NewVersion,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    if new.wrappings.is_empty() {
        return Err(StoreError::Refused(
            "a sealed collection has a recipient or a passphrase: nobody could open it".into(),
        ));
    }
    sqlx::query!(
        "insert into journal.sealed_key (user_id, collection, version, public_key, made_at) values ($1, $2, $3, $4, $5)",
        user.0,
        collection.as_str(),
        number(new.version)?,
        new.public,
        at
    )
    .execute(&mut **tx)
    .await?;
    insert(tx, user, collection, &new.wrappings, at).await
}

async fn insert(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    collection: &Collection,
    wrappings: &[Wrapping],
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    for wrapping in wrappings {
        sqlx::query!(
            r#"
            insert into journal.sealed_wrapping (user_id, collection, version, recipient, wrapped, added_at)
            select user_id, collection, version, $4, $5, $6
            from journal.sealed_key
            where user_id = $1
              and collection = $2
              and version = $3
            on conflict (user_id, collection, version, recipient) do update
            set wrapped = excluded.wrapped, added_at = excluded.added_at
            "#,
            user.0,
            collection.as_str(),
            number(wrapping.version)?,
            wrapping.recipient,
            wrapping.wrapped,
            at
        )
        .execute(&mut **tx)
        .await?;
    }
    Ok(())
}
