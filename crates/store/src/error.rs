//! Why something could not be kept or read.

use skymem_core::conversation::BadName;

/// Why something could not be kept or read; says what the caller may do.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer from the database, or it asks to be asked again. Worth another try.
    #[error("the database gives no answer")]
    Unreachable(#[source] sqlx::Error),
    /// The disk under the database is full. Nothing was written; make room and try again.
    #[error("the disk of the database is full")]
    Full(#[source] sqlx::Error),
    /// What was given cannot be kept as it is; says which part and why. The same request would fail again.
    #[error("{0}")]
    Refused(String),
    /// It contradicts what is there; says what to change first.
    #[error("{0}")]
    Conflict(String),
    /// There is no such user (any more).
    #[error("there is no such user")]
    NoUser,
    /// The database cannot serve skymem as it is; says what to do about it.
    #[error("{0}")]
    Unsuitable(String),
    /// The tables could not be brought up to date.
    #[error("the tables could not be brought up to date")]
    Migration(#[source] sqlx::migrate::MigrateError),
    /// A row holds something that this program does not understand: was it written by a newer one?
    #[error("a row in the database cannot be understood")]
    Unreadable(#[from] BadName),
    /// The database refused a statement. A defect of skymem, or of the tables; the same request would fail again.
    #[error("the database refuses a statement")]
    Failed(#[source] sqlx::Error),
}

/// `disk_full` among Postgres' error codes.
const DISK_FULL: &str = "53100";

/// Classes of Postgres' error codes that another try may cure: connection, transaction rolled back, resources,
/// operator intervention, system.
const WORTH_ANOTHER_TRY: [&str; 5] = ["08", "40", "53", "57", "58"];

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|answer| answer.code()).unwrap_or_default().into_owned();
        match &error {
            _ if code == DISK_FULL => Self::Full(error),
            _ if WORTH_ANOTHER_TRY.iter().any(|class| code.starts_with(class)) => Self::Unreachable(error),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Self::Unreachable(error),
            _ => Self::Failed(error),
        }
    }
}
