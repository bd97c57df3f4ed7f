//! The database: skymem's own Postgres, or the one the configuration names.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use skymem_store::postgres::{PostgresSettings, PrivatePostgres};
use skymem_store::wall::walled;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgPool};
use tokio::time::{Instant, sleep, timeout};

use crate::config::{Config, without_password};

/// An open pool, and the Postgres behind it when it is our own.
pub(crate) struct Database {
    /// The connections.
    pub(crate) pool: PgPool,
    private: Option<PrivatePostgres>,
}

/// How long the database is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// By a server: nobody else may run one on the same data.
    Server,
    /// By a command: beside a server, or for as long as the command runs.
    Command,
}

impl Database {
    /// Opens it; starts the private Postgres when none is configured.
    pub(crate) async fn open(config: &Config, needed: Use) -> Result<Self> {
        let (options, private) = match config.database.external_url()? {
            Some(url) => {
                let options = external(&url)?;
                let patience = match needed {
                    Use::Server => Duration::from_secs(config.database.connect_timeout_seconds),
                    Use::Command => Duration::ZERO,
                };
                knock(&options, patience).await?;
                (options, None)
            }
            None => {
                let settings = private_settings(config)?;
                let postgres = match needed {
                    Use::Server => PrivatePostgres::start(settings).await?,
                    Use::Command => PrivatePostgres::join(settings).await?,
                };
                (postgres.connect_options(), Some(postgres))
            }
        };
        let pool = PgPoolOptions::new()
            .max_connections(config.database.pool_connections)
            .acquire_timeout(Duration::from_secs(config.database.acquire_timeout_seconds));
        let pool = walled(pool)
            .connect_with(options.clone().application_name("skymem"))
            .await
            .map_err(|error| anyhow!("{}", why_not(&options, &error)))?;
        Ok(Self { pool, private })
    }

    /// Closes the connections, then stops what was started for them.
    pub(crate) async fn close(self) -> Result<()> {
        self.pool.close().await;
        if let Some(postgres) = self.private {
            postgres.stop().await?;
        }
        Ok(())
    }
}

/// Tries to come in until it works, an answer says that it never will, or `patience` is at its end: a database may start
/// at the same time as the server. The pool itself would only say that it took too long.
async fn knock(options: &PgConnectOptions, patience: Duration) -> Result<()> {
    let began = Instant::now();
    loop {
        let error = match timeout(patience.max(FIRST_ANSWER), options.connect()).await {
            Ok(Ok(connection)) => return Ok(connection.close().await?),
            Ok(Err(error)) => error,
            Err(_) => sqlx::Error::PoolTimedOut,
        };
        let may_pass = matches!(&error, sqlx::Error::Io(_))
            // cannot_connect_now: it is starting.
            || error.as_database_error().is_some_and(|refusal| refusal.code().as_deref() == Some("57P03"));
        if !may_pass || began.elapsed() >= patience {
            bail!(why_not(options, &error));
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// How long an answer may take when nobody wants to wait.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// Where the private Postgres lives.
pub(crate) fn private_settings(config: &Config) -> Result<PostgresSettings> {
    let database = &config.database;
    Ok(PostgresSettings {
        folder: config.data_dir()?.join("postgres"),
        binaries: Some(database.binaries.clone()).filter(|folder| !folder.as_os_str().is_empty()),
        account: Some(database.account.clone()).filter(|account| !account.is_empty()),
        ephemeral: false,
    })
}

/// Where the private Postgres lives; `None` when the database is another's.
pub(crate) fn own_folder(config: &Config) -> Result<Option<std::path::PathBuf>> {
    match config.database.external_url()? {
        Some(_) => Ok(None),
        None => Ok(Some(private_settings(config)?.folder)),
    }
}

/// How to reach an external Postgres.
pub(crate) fn external(url: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url).map_err(|error| {
        anyhow!(
            "database.url {} cannot be read ({error}): write it like postgres://user:password@host:5432/database",
            without_password(url)
        )
    })?;
    // Without it a filtered search of an HNSW index returns a fraction of the rows there are.
    Ok(options.options([("hnsw.iterative_scan", "relaxed_order")]))
}

/// Why there is no connection, and what to do about it.
pub(crate) fn why_not(options: &PgConnectOptions, error: &sqlx::Error) -> String {
    let place = match options.get_socket() {
        Some(folder) => format!("the socket in {}", folder.display()),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    };
    let user = options.get_username();
    let database = options.get_database().unwrap_or(user);
    match error {
        sqlx::Error::Database(refusal) => match refusal.code().as_deref() {
            Some("28P01" | "28000") => format!(
                "Postgres at {place} does not let {user:?} in ({}): check user and password in database.url",
                refusal.message()
            ),
            Some("3D000") => format!(
                "Postgres at {place} has no database {database:?}: create it (`createdb {database}`) or name another \
                 one in database.url"
            ),
            Some("53300") => format!(
                "Postgres at {place} has no connection to spare: raise its max_connections or lower \
                 database.pool_connections"
            ),
            _ => format!("Postgres at {place} refuses the connection: {}", refusal.message()),
        },
        sqlx::Error::Tls(why) => format!(
            "no encrypted connection to Postgres at {place} ({why}): add ?sslmode=disable to database.url if the \
             network is trusted, or sslrootcert=FILE"
        ),
        sqlx::Error::PoolTimedOut => format!(
            "Postgres at {place} did not answer in time: is it running, and is the address in database.url right?"
        ),
        sqlx::Error::Io(why) => format!(
            "Postgres at {place} cannot be reached ({why}): is it running, and is the address in database.url right? \
             Without database.url skymem runs a Postgres of its own"
        ),
        other => format!("no connection to Postgres at {place}: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_shown_without_its_password() {
        let error = external("postgres://u:hunter2@h:port/d").unwrap_err().to_string();

        assert!(error.contains("write it like") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_unreachable_database_says_where_it_was_looked_for() {
        let options = external("postgres://u@db.example:5433/d").unwrap();
        let refused = sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));

        assert!(why_not(&options, &refused).contains("db.example:5433 cannot be reached"));
        assert!(why_not(&options, &sqlx::Error::PoolTimedOut).contains("in time"));
    }
}
