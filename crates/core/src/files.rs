//! The doors of the layer that keeps a person's Markdown files.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::conversation::{BadName, UserId};
use crate::layer::LayerError;
use crate::tokens::Tokens;

/// Reads and edits the Markdown files of a person. Nothing is ever overwritten silently: each write names the revision
/// it started from.
#[async_trait]
pub trait MemoryFiles: Send + Sync {
    /// The files of `user` that are loaded, by name, without their text.
    ///
    /// # Errors
    ///
    /// When disk or database gave no answer.
    async fn list(&self, user: UserId) -> Result<Vec<FileHead>, FileError>;

    /// The files of `user` that were there once and are gone.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    async fn gone(&self, user: UserId) -> Result<Vec<FileName>, FileError>;

    /// One file as it was last loaded; a change on disk is loaded within a second.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`] when there is none of that name.
    async fn read(&self, user: UserId, file: &FileName) -> Result<FileText, FileError>;

    /// Writes `edit` into a file, atomically, and returns the file as it then is.
    ///
    /// # Errors
    ///
    /// [`FileError::Stale`] when the file is no longer at the revision the edit started from; nothing was written.
    async fn edit(&self, user: UserId, file: &FileName, edit: Edit, at: DateTime<Utc>) -> Result<FileText, FileError>;

    /// Every kept revision of a file, newest first, without text.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`] when no such file was ever seen.
    async fn history(&self, user: UserId, file: &FileName) -> Result<Vec<RevisionHead>, FileError>;

    /// The text of one revision.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`] when there is no such revision.
    async fn revision(&self, user: UserId, file: &FileName, revision: &Revision) -> Result<String, FileError>;

    /// Removes revisions of a file from its history for good; how many. The present text stays: it is the person's.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was removed.
    async fn purge_revisions(&self, user: UserId, file: &FileName, revisions: &[Revision]) -> Result<usize, FileError>;
}

/// What is known of a file without reading it out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHead {
    /// `NOW.md`, `MEMORY.md`, ...
    pub name: FileName,
    /// The revision of its present text.
    pub revision: Revision,
    /// What it costs in the prompt.
    pub tokens: Tokens,
    /// Bytes on disk.
    pub bytes: u64,
    /// When its present revision was first seen.
    pub changed_at: DateTime<Utc>,
    /// Whether it goes into every prompt.
    pub always: bool,
    /// What is wrong with it, in words, if anything: then the last good text is in use.
    pub faults: Vec<String>,
}

/// A file with its text and its sections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileText {
    /// What is known of it.
    pub head: FileHead,
    /// Its text, byte for byte.
    pub text: String,
    /// Its sections in order. They cover the text from the first heading on, without overlap.
    pub sections: Vec<FileSection>,
}

/// A heading and what stands under it up to the next heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSection {
    /// The headings above it and its own, outermost first; empty for what stands before the first heading.
    pub path: Vec<String>,
    /// Its own heading's level, 1 to 6; 0 for what stands before the first heading.
    pub level: u8,
    /// The first byte of its heading line.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
}

/// One change to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// The whole text. `base` is the revision it started from, `None` to make a file that is not there yet.
    Whole {
        /// The revision the edit started from.
        base: Option<Revision>,
        /// The text to be.
        text: String,
    },
    /// The body of the section at `path`, without its heading line; the section is made at the end when it is missing.
    Section {
        /// The revision the edit started from; `None` for a file that is not there yet.
        base: Option<Revision>,
        /// The headings down to the section.
        path: Vec<String>,
        /// The body to be.
        body: String,
    },
    /// Adds a line or paragraph at the end of the section at `path` (made when missing), whatever the revision.
    Append {
        /// The headings down to the section; empty for the end of the file.
        path: Vec<String>,
        /// What to add.
        body: String,
    },
    /// Removes the section at `path` with its heading and all under it.
    Remove {
        /// The revision the edit started from.
        base: Revision,
        /// The headings down to the section.
        path: Vec<String>,
    },
    /// Brings back the text of an earlier revision, as a new one.
    Restore {
        /// The revision the edit started from; `None` when the file is gone.
        base: Option<Revision>,
        /// The revision to bring back.
        revision: Revision,
    },
}

/// A kept revision without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionHead {
    /// Names the revision.
    pub revision: Revision,
    /// When it was first seen.
    pub seen_at: DateTime<Utc>,
    /// Bytes.
    pub bytes: u64,
    /// `disk` when a person edited the file, `api` when a door did.
    pub origin: String,
}

/// Names a text: the SHA-256 of its bytes in hex.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub String);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a Markdown file in a person's folder: `NOW.md`; never a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

impl FileName {
    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FileName {
    type Err = BadName;

    fn from_str(name: &str) -> Result<Self, BadName> {
        let fine = name.len() <= 100
            && name.len() > 3
            && name.ends_with(".md")
            && !name.starts_with('.')
            && !name.contains(['/', '\\', '\0', ':'])
            && !name.chars().any(char::is_control);
        if fine {
            Ok(Self(name.to_owned()))
        } else {
            Err(BadName(
                "a memory file's name ends in .md, has at most 100 bytes, and holds no / \\ : and no leading dot"
                    .into(),
            ))
        }
    }
}

impl TryFrom<String> for FileName {
    type Error = BadName;

    fn try_from(name: String) -> Result<Self, BadName> {
        name.parse()
    }
}

impl From<FileName> for String {
    fn from(name: FileName) -> String {
        name.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file, section or revision; says which.
    #[error("there is no {0}")]
    NotFound(String),
    /// The file has moved on since the revision the edit started from. Look at the diff and try again.
    #[error("the file has changed since revision {base}")]
    Stale {
        /// The revision the edit started from, `none` when it was to be a new file.
        base: String,
        /// The file as it is now; `None` when it is gone.
        current: Option<Box<FileText>>,
        /// The text the edit would have written.
        yours: String,
        /// Unified diff from the current text to the edit's.
        diff: String,
    },
    /// The edit cannot be made: too large, a heading in a body, ...; says what may be.
    #[error("{0}")]
    Refused(String),
    /// Database or disk.
    #[error(transparent)]
    Layer(#[from] LayerError),
}
