//! Why there is no private Postgres, in words that say what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no private Postgres; says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No fit programs on this machine; says where they were looked for.
    #[error(
        "no PostgreSQL with pgvector 0.8 or newer was found ({looked}); run scripts/setup, or install PostgreSQL and its \
         pgvector package, or give a database of your own"
    )]
    NoBinaries {
        /// The places, and what was wrong with what lies there.
        looked: String,
    },
    /// There is no such account on this machine.
    #[error(
        "there is no account {0:?} on this machine to run PostgreSQL as, which root may not; create it or name another"
    )]
    NoAccount(String),
    /// The account that Postgres runs as is not let into a folder. Nothing was created.
    #[error("the account {account} cannot reach {}: open the folders above it (chmod a+x) or choose another place", path.display())]
    Closed {
        /// Who was not let in.
        account: String,
        /// Where.
        path: PathBuf,
    },
    /// The cluster belongs to somebody else than who would run it.
    #[error(
        "{} belongs to another account than {account}, which would run PostgreSQL: run skymem as its owner, or give the \
         folder to {account} (chown -R)",
        folder.display()
    )]
    NotOurs {
        /// The folder.
        folder: PathBuf,
        /// Who would run it.
        account: String,
    },
    /// Another process looks after this folder's Postgres.
    #[error("another skymem is running on {}; stop it, or give this one a data folder of its own", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process looks after this folder's Postgres and has not got it running.
    #[error(
        "PostgreSQL on {} takes no connections: the skymem that looks after it is starting or repairing it, and its log \
         says why that takes long",
        folder.display()
    )]
    Down {
        /// The folder.
        folder: PathBuf,
    },
    /// What is in the data folder is no cluster.
    #[error("{} holds something that is no PostgreSQL data; move it away or choose another data folder", folder.display())]
    NoCluster {
        /// The folder.
        folder: PathBuf,
    },
    /// The data were written by another major version.
    #[error(
        "the data in {} are of PostgreSQL {data}, the programs in {} of PostgreSQL {programs}: name programs of version \
         {data}, or move the data over with pg_upgrade or pg_dump",
        folder.display(),
        binaries.display()
    )]
    OtherVersion {
        /// The folder of the data.
        folder: PathBuf,
        /// The major version that wrote them.
        data: u32,
        /// The folder of the programs.
        binaries: PathBuf,
        /// The major version of the programs.
        programs: u32,
    },
    /// No room on the disk. What was recorded is safe; make room and start again.
    #[error("the disk of {} is full: make room and start again; what was recorded is safe", folder.display())]
    DiskFull {
        /// A folder on that disk.
        folder: PathBuf,
    },
    /// Making the cluster failed; says what `initdb` said.
    #[error("initdb failed: {0}")]
    NotMade(String),
    /// Postgres ended while starting; says what it said last.
    #[error("PostgreSQL ended while starting: {0}")]
    Ended(String),
    /// Postgres is not ready after a long while. It may still be repairing after a crash: try again.
    #[error("PostgreSQL on {} is not ready after {waited_secs} seconds; it may still be repairing after a crash: try again", folder.display())]
    NotReady {
        /// The folder.
        folder: PathBuf,
        /// How long was waited.
        waited_secs: u64,
    },
    /// Postgres has not ended on request. It is left alone, since killing it could cost data.
    #[error("PostgreSQL on {} has not ended on request; it is left to itself", folder.display())]
    StillRunning {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder could not be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The running Postgres refused what readies the database.
    #[error("cannot ready the database")]
    NotPrepared(#[from] sqlx::Error),
}

impl PostgresError {
    /// For `map_err` at a call that works on `path`.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull => Self::DiskFull { folder: path.to_path_buf() },
            _ => Self::Io { path: path.to_path_buf(), source },
        }
    }
}
