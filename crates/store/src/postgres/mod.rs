//! The private Postgres: found, made, started, watched and stopped, so that nobody has to run a database to run skymem.
//!
//! Everything lies in one folder that belongs to the account the programs run as: `data/` is the cluster, `run/` the
//! socket; the process that looks after them holds a lock on the folder. There is no TCP port and no password: who may
//! enter the folder may connect.

use std::path::{Path, PathBuf};

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::sync::oneshot;

pub use self::binaries::{Binaries, Version, find_binaries};
pub use self::error::PostgresError;
use self::keeper::Keeper;
use self::pidfile::PidFile;

mod account;
mod binaries;
mod cluster;
mod error;
mod keeper;
mod pidfile;
mod process;

/// The role that owns everything skymem writes. No superuser, so that row-level security can bind it.
const ROLE: &str = "skymem";

/// The cluster's superuser; used for a moment at each start.
const SUPERUSER: &str = "postgres";

/// Names the socket; nothing listens on it.
const PORT: u16 = 5432;

/// Where the private Postgres lives and which programs run it.
#[derive(Debug, Clone, Default)]
pub struct PostgresSettings {
    /// The folder that holds cluster and socket. Made when missing.
    pub folder: PathBuf,
    /// The folder of `postgres` and `initdb`; searched for when `None`, as [`find_binaries`] says.
    pub binaries: Option<PathBuf>,
    /// The account to run as when this process is root, which Postgres refuses to be. `None`: the owner of an existing
    /// cluster, else `postgres`, else `nobody`.
    pub account: Option<String>,
    /// Trades the promise that committed rows survive a crash for speed. For tests alone.
    pub ephemeral: bool,
}

/// A running private Postgres. It is restarted when it dies, and stopped when this is dropped.
#[derive(Debug)]
pub struct PrivatePostgres {
    options: PgConnectOptions,
    keeper: Option<Keeper>,
}

impl PrivatePostgres {
    /// Starts the Postgres of `settings.folder`, or adopts one that outlived its server, and readies the database in it.
    /// A new folder takes some seconds.
    ///
    /// # Errors
    ///
    /// [`PostgresError`] says what to do. Nothing is left running.
    pub async fn start(settings: PostgresSettings) -> Result<Self, PostgresError> {
        let (started, ready) = oneshot::channel();
        let keeper = Keeper::start(settings, started)?;
        let ready = ready.await.map_err(|_| PostgresError::Ended("its thread has ended".to_owned()))??;
        match prepare(&ready.socket_folder).await {
            Ok(()) => Ok(Self { options: connect_options(&ready.socket_folder, ROLE, ROLE), keeper: Some(keeper) }),
            Err(error) => {
                keeper.stop().await?;
                Err(error)
            }
        }
    }

    /// For a command beside a server: uses the Postgres that a running server looks after, or starts it for as long as
    /// the command runs.
    ///
    /// # Errors
    ///
    /// As [`PrivatePostgres::start`].
    pub async fn join(settings: PostgresSettings) -> Result<Self, PostgresError> {
        if cluster::is_looked_after(&settings.folder)
            && let Some(ready) = pidfile::read(&cluster::data_folder(&settings.folder)).filter(PidFile::is_ready)
        {
            return Ok(Self { options: connect_options(&ready.socket_folder, ROLE, ROLE), keeper: None });
        }
        Self::start(settings).await.map_err(|error| match error {
            PostgresError::InUse { folder } => PostgresError::Down { folder },
            error => error,
        })
    }

    /// How to reach the database: no superuser, over the socket.
    #[must_use]
    pub fn connect_options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// [`PrivatePostgres::connect_options`] as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.options.to_url_lossy().into()
    }

    /// Stops the Postgres and waits until it has ended. Close the pool first. One that was joined goes on.
    ///
    /// # Errors
    ///
    /// [`PostgresError::StillRunning`] when it does not end; it is never killed, since that could cost data.
    pub async fn stop(self) -> Result<(), PostgresError> {
        match self.keeper {
            Some(keeper) => keeper.stop().await,
            None => Ok(()),
        }
    }
}

/// The folder that skymem keeps its data in unless told otherwise: `/var/lib/skymem` for root, since another account
/// must be able to reach it; `$XDG_DATA_HOME/skymem` or `~/.local/share/skymem` for everybody else. `None` for somebody
/// without a home.
#[must_use]
pub fn default_data_folder() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from("/var/lib/skymem"));
    }
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|share| share.join("skymem"))
}

/// Makes role, database and extension where they are missing, and brings an older extension up to the installed one.
async fn prepare(socket_folder: &Path) -> Result<(), PostgresError> {
    let mut server = PgConnection::connect_with(&connect_options(socket_folder, SUPERUSER, SUPERUSER)).await?;
    let found =
        "select exists(select from pg_roles where rolname = $1), exists(select from pg_database where datname = $1)";
    let (role, database): (bool, bool) = sqlx::query_as(found).bind(ROLE).fetch_one(&mut server).await?;
    if !role {
        sqlx::raw_sql("create role skymem login").execute(&mut server).await?;
    }
    if !database {
        sqlx::raw_sql("create database skymem owner skymem").execute(&mut server).await?;
    }
    server.close().await?;

    let mut server = PgConnection::connect_with(&connect_options(socket_folder, SUPERUSER, ROLE)).await?;
    // A purge has what is gone written to the disk, so that it can be looked for there, and goes on with a new file of the log.
    sqlx::raw_sql("grant pg_checkpoint to skymem; grant execute on function pg_switch_wal() to skymem")
        .execute(&mut server)
        .await?;
    sqlx::raw_sql("create extension if not exists vector").execute(&mut server).await?;
    let outdated = "select extversion <> default_version
                    from pg_extension join pg_available_extensions on name = extname
                    where extname = 'vector'";
    if sqlx::query_scalar(outdated).fetch_one(&mut server).await? {
        sqlx::raw_sql("alter extension vector update").execute(&mut server).await?;
    }
    server.close().await?;
    Ok(())
}

fn connect_options(socket_folder: &Path, role: &str, database: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .socket(socket_folder)
        .port(PORT)
        .username(role)
        .database(database)
        .ssl_mode(PgSslMode::Disable)
        .application_name("skymem")
}
