//! Brings the tables up to date, one server at a time.
//!
//! Every schema has migrations of its own: the journal's are run by [`migrate`], a layer's when the layer is opened.
//! Whoever does either holds the [`MigrationLock`] meanwhile.

use sqlx::migrate::MigrateError;
use sqlx::{Connection, PgConnection, PgPool};

use crate::error::StoreError;
use crate::wall;

/// One lock for all schemas of a database: "skymem" in bytes.
const LOCK: i64 = 0x736b_796d_656d;

/// The oldest pgvector that can search with filters (iterative scans).
const OLDEST_VECTOR: (u32, u32) = (0, 8);

/// The right to change tables. Held by a connection of its own: it ends with the process, however that ends.
#[derive(Debug)]
pub struct MigrationLock {
    connection: PgConnection,
}

impl MigrationLock {
    /// Waits until no other server is changing tables, then keeps others from it.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn take(db: &PgPool) -> Result<Self, StoreError> {
        let mut connection = db.acquire().await?.detach();
        let free = sqlx::query_scalar!(r#"select pg_try_advisory_lock($1) as "free!""#, LOCK)
            .fetch_one(&mut connection)
            .await?;
        if !free {
            tracing::info!("Waiting for another server that is bringing the tables up to date");
            sqlx::query!("select pg_advisory_lock($1)", LOCK).execute(&mut connection).await?;
        }
        Ok(Self { connection })
    }

    /// Lets others change tables.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; the lock is gone then too.
    pub async fn release(self) -> Result<(), StoreError> {
        // The server drops the lock of a session that ends.
        Ok(self.connection.close().await?)
    }
}

/// Brings the journal's tables up to date, and walls them in. Run it while holding the [`MigrationLock`].
///
/// # Errors
///
/// [`StoreError::Unsuitable`] says what is wrong with the database and what to do; [`StoreError::Migration`] when a
/// migration fails.
pub async fn migrate(db: &PgPool) -> Result<(), StoreError> {
    ensure_utf8(db).await?;
    ensure_vector(db).await?;
    sqlx::migrate!("../../migrations/journal").run(db).await.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) if is_forbidden(&error) => {
            StoreError::Unsuitable(
                "skymem's role may not make tables: run this once in the database as its administrator: \
                 grant create on database <its name> to <the role>"
                    .into(),
            )
        }
        MigrateError::Execute(error) => error.into(),
        MigrateError::VersionMissing(version) => StoreError::Unsuitable(format!(
            "the database was brought up to date by a newer skymem (migration {version} is unknown to this one): \
             start that one, or restore a backup from before"
        )),
        other => StoreError::Migration(other),
    })?;
    wall::raise(db, &["journal".to_owned()]).await?;
    Ok(())
}

/// Makes sure that pgvector is there and new enough.
///
/// # Errors
///
/// [`StoreError::Unsuitable`] says what to do when it is not.
pub async fn ensure_vector(db: &PgPool) -> Result<(), StoreError> {
    let found = sqlx::query!(
        r#"
        select (select extversion from pg_extension where extname = 'vector') as installed,
               (select default_version from pg_available_extensions where name = 'vector') as available,
               current_setting('server_version') as "server!"
        "#
    )
    .fetch_one(db)
    .await?;
    let statement = match (found.installed.as_deref(), found.available.as_deref()) {
        (Some(installed), _) if new_enough(installed) => return Ok(()),
        (Some(_), Some(available)) if new_enough(available) => "alter extension vector update",
        (None, Some(available)) if new_enough(available) => "create extension if not exists vector",
        (_, Some(old)) | (Some(old), None) => {
            return Err(StoreError::Unsuitable(format!(
                "the database has pgvector {old}, and skymem needs {}.{} or newer: upgrade the package on the \
                 database's machine, then run: alter extension vector update",
                OLDEST_VECTOR.0, OLDEST_VECTOR.1
            )));
        }
        (None, None) => {
            let server = found.server;
            let major = server.split(['.', ' ']).next().unwrap_or_default();
            return Err(StoreError::Unsuitable(format!(
                "the database (Postgres {server}) has no pgvector: install it on the database's machine (on Debian: \
                 apt install postgresql-{major}-pgvector), or leave the database's URL out of the configuration and \
                 skymem runs one of its own"
            )));
        }
    };
    sqlx::query(statement).execute(db).await.map(|_| ()).map_err(|error| {
        if is_forbidden(&error) {
            StoreError::Unsuitable(format!(
                "skymem's role may not set up pgvector: run this once in the database as its administrator: {statement}"
            ))
        } else {
            error.into()
        }
    })
}

/// What people say does not fit into any other encoding.
async fn ensure_utf8(db: &PgPool) -> Result<(), StoreError> {
    let encoding =
        sqlx::query_scalar!(r#"select current_setting('server_encoding') as "encoding!""#).fetch_one(db).await?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(StoreError::Unsuitable(format!(
        "the database's encoding is {encoding}, and skymem needs UTF8: \
         create database <name> encoding 'UTF8' template template0"
    )))
}

/// Whether the database says that the role has no right to do this.
fn is_forbidden(error: &sqlx::Error) -> bool {
    const INSUFFICIENT_PRIVILEGE: &str = "42501";
    error.as_database_error().and_then(|answer| answer.code()).is_some_and(|code| code == INSUFFICIENT_PRIVILEGE)
}

fn new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST_VECTOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_by_its_numbers() {
        for (version, expected) in
            [("0.8.0", true), ("0.8", true), ("0.10.1", true), ("1.0", true), ("0.7.4", false), ("", false)]
        {
            assert_eq!(new_enough(version), expected, "{version}");
        }
    }
}
