//! Sealed collections: what is said in them is encrypted before it is written down, and nothing here can read it.
//!
//! A sealed exchange has no row in `journal.exchange` and none in `journal.remembered`: no layer is told of it, and no flag
//! has to be looked at. The vault reads [`crate::journal::sealed`]'s tables itself, with a key that is not here.

mod append;
mod forget;
mod keys;
mod recent;
mod take_in;

use sqlx::{PgExecutor, PgTransaction};
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, SessionId, UserId};
use skymem_seal::{HandleKey, PublicKey, SealError};

use super::Journal;
use super::append::Append;
use crate::error::StoreError;

pub(super) use forget::Sealing;
pub use keys::{NewVersion, SealedCollection, Wrapping};
pub(super) use recent::Recent;
pub use take_in::{NewSeal, TakenIn};

/// What writing into a sealed collection needs: no secret.
#[derive(Clone)]
pub(super) struct Shelf {
    pub(super) collection: Collection,
    pub(super) version: u32,
    pub(super) public: PublicKey,
    pub(super) handles: HandleKey,
}

impl Journal {
    /// The sealed collection that an append goes to; `None` when it goes to an open one.
    pub(super) async fn sealed_shelf(&self, user: UserId, append: &Append) -> Result<Option<Shelf>, StoreError> {
        let mut shelves = shelves(&self.db, user).await?;
        if shelves.is_empty() {
            return Ok(None);
        }
        let named = append.collection.as_ref().or(append.settings.collection.as_ref());
        let collection = match named {
            Some(named) => Some(named.clone()),
            None => known_by(&self.db, user, &shelves, &append.session).await?,
        };
        let at = shelves.iter().position(|shelf| Some(&shelf.collection) == collection.as_ref());
        Ok(at.map(|at| shelves.swap_remove(at)))
    }

    /// The sealed collection that an append would go to by itself; `None` when it would go to an open one.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_home_of_append(&self, user: UserId, append: &Append) -> Result<Option<Collection>, StoreError> {
        Ok(self.sealed_shelf(user, append).await?.map(|shelf| shelf.collection))
    }

    /// Whether something was said in a session of a sealed collection since anything was said in an open one.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_since(
        &self,
        user: UserId,
        collection: &Collection,
        sealed: &SessionId,
        open: &SessionId,
    ) -> Result<bool, StoreError> {
        let shelves = shelves(&self.db, user).await?;
        let Some(shelf) = shelves.iter().find(|shelf| shelf.collection == *collection) else { return Ok(false) };
        let handle = shelf.handles.of(sealed).map_err(unfit)?;
        let since = sqlx::query_scalar!(
            r#"
            select coalesce((select max(seq)
                             from journal.sealed_exchange
                             join journal.sealed_turn on sealed_turn.user_id = sealed_exchange.user_id
                                                     and sealed_turn.exchange_id = sealed_exchange.id
                             where sealed_exchange.user_id = $1
                               and sealed_exchange.collection = $2
                               and sealed_exchange.handle = $3), 0)
                   > coalesce((select max(seq)
                               from journal.turn
                               where user_id = $1
                                 and session_id = $4), 0) as "since!"
            "#,
            user.0,
            collection.as_str(),
            &handle,
            open.as_str()
        );
        Ok(since.fetch_one(&self.db).await?)
    }

    /// The sealed collection that an exchange stands in, forgotten or not; `None` when there is no such sealed exchange.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_home(&self, user: UserId, exchange: ExchangeId) -> Result<Option<Collection>, StoreError> {
        let row = sqlx::query_scalar!(
            "select collection from journal.sealed_exchange where user_id = $1 and id = $2",
            user.0,
            exchange.0
        );
        Ok(row.fetch_optional(&self.db).await?.map(|name| name.parse()).transpose()?)
    }

    /// The sealed collection that something was said in, in that session; `None` when nothing was.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sealed_home_of_session(
        &self,
        user: UserId,
        session: &SessionId,
    ) -> Result<Option<Collection>, StoreError> {
        let shelves = shelves(&self.db, user).await?;
        if shelves.is_empty() {
            return Ok(None);
        }
        known_by(&self.db, user, &shelves, session).await
    }
}

/// The sealed collections of a user, as far as writing needs to know them.
async fn shelves(db: impl PgExecutor<'_>, user: UserId) -> Result<Vec<Shelf>, StoreError> {
    let rows = sqlx::query!(
        r#"
        select sealed.collection, key_version, handle_key, public_key
        from journal.sealed
        join journal.sealed_key on sealed_key.user_id = sealed.user_id
                               and sealed_key.collection = sealed.collection
                               and sealed_key.version = sealed.key_version
        where sealed.user_id = $1
        order by sealed.collection
        "#,
        user.0
    )
    .fetch_all(db)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Shelf {
                collection: row.collection.parse()?,
                version: version(row.key_version)?,
                public: PublicKey::from_bytes(&row.public_key).map_err(unfit)?,
                handles: HandleKey::from_bytes(&row.handle_key).map_err(unfit)?,
            })
        })
        .collect()
}

/// Which of `shelves` knows the session.
async fn known_by(
    db: impl PgExecutor<'_>,
    user: UserId,
    shelves: &[Shelf],
    session: &SessionId,
) -> Result<Option<Collection>, StoreError> {
    let handles = handles(shelves, session)?;
    let row = sqlx::query_scalar!(
        r#"
        select sealed_session.collection
        from journal.sealed_session
        join unnest($2::text[], $3::bytea[]) as asked (collection, handle)
          on asked.collection = sealed_session.collection and asked.handle = sealed_session.handle
        where user_id = $1
        order by sealed_session.collection
        limit 1
        "#,
        user.0,
        &shelves.iter().map(|shelf| shelf.collection.to_string()).collect::<Vec<_>>(),
        &handles
    );
    Ok(row.fetch_optional(db).await?.map(|name| name.parse()).transpose()?)
}

/// The handles that a session has in each of `shelves`.
fn handles(shelves: &[Shelf], session: &SessionId) -> Result<Vec<Vec<u8>>, StoreError> {
    shelves.iter().map(|shelf| shelf.handles.of(session).map_err(unfit)).collect()
}

/// Says that exchanges of a collection have changed: whoever holds them in memory looks.
async fn mark(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    collections: &[String],
    changed: &[Uuid],
    seq: i64,
) -> Result<(), StoreError> {
    sqlx::query!(
        r#"
        with marked as (
            update journal.sealed_exchange
            set changed_seq = $4
            where user_id = $1
              and id = any($3)
        )
        update journal.sealed
        set changed_seq = $4
        where user_id = $1
          and collection = any($2)
        "#,
        user.0,
        collections,
        changed,
        seq
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn version(number: i32) -> Result<u32, StoreError> {
    u32::try_from(number).map_err(|_| StoreError::Unsuitable("a key has a version below nought".into()))
}

fn number(version: u32) -> Result<i32, StoreError> {
    i32::try_from(version).map_err(|_| StoreError::Refused("that key was rotated too often".into()))
}

fn unfit(error: SealError) -> StoreError {
    StoreError::Unsuitable(format!("a sealed collection cannot be written to: {error}"))
}
