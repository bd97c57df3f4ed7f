//! Why the engine did not do what it was asked, by what the caller can do about it.

use skymem_core::LayerError;
use skymem_core::facts::FactError;
use skymem_core::files::{FileError, FileText};
use skymem_store::StoreError;

/// Why the engine did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The request cannot be met as it stands; says what may be. Mend the request.
    #[error("{0}")]
    Refused(String),
    /// What the request names is not there; says which. Nothing was changed.
    #[error("there is no {0}")]
    NotFound(String),
    /// What was to be changed has changed meanwhile. Look at it and try again.
    #[error("the file has changed since revision {}", .0.base)]
    Stale(Box<Stale>),
    /// The request contradicts what is there; says what to change first.
    #[error("{0}")]
    Conflict(String),
    /// What is asked for is in a sealed collection that is locked; says which and how it is unlocked.
    #[error("{0}")]
    Locked(String),
    /// The part of memory that is asked for is not switched on; says which.
    #[error("{0}")]
    Off(String),
    /// The database or a layer gave no answer. Worth another try.
    #[error("{what}")]
    Unavailable {
        /// What could not be done.
        what: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// An edit that started from a revision that is no longer the present one. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The revision the edit started from, `none` when it was to be a new file.
    pub base: String,
    /// The file as it is now; `None` when it is gone.
    pub current: Option<FileText>,
    /// The text the edit would have written.
    pub yours: String,
    /// Unified diff from the current text to the edit's.
    pub diff: String,
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(why) => EngineError::Refused(why),
            StoreError::Conflict(why) => EngineError::Conflict(why),
            StoreError::NoUser => EngineError::NotFound("such user".into()),
            error => EngineError::Unavailable { what: error.to_string(), source: Box::new(error) },
        }
    }
}

impl From<FileError> for EngineError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotFound(what) => EngineError::NotFound(what),
            FileError::Refused(why) => EngineError::Refused(why),
            FileError::Stale { base, current, yours, diff } => {
                EngineError::Stale(Box::new(Stale { base, current: current.map(|file| *file), yours, diff }))
            }
            FileError::Layer(error) => EngineError::from(error),
        }
    }
}

impl From<FactError> for EngineError {
    fn from(error: FactError) -> Self {
        match error {
            FactError::NotFound(what) => EngineError::NotFound(what),
            FactError::Refused(why) => EngineError::Refused(why),
            FactError::Layer(error) => EngineError::from(error),
        }
    }
}

impl From<LayerError> for EngineError {
    fn from(error: LayerError) -> Self {
        EngineError::Unavailable { what: "a layer gave no answer".into(), source: Box::new(error) }
    }
}
