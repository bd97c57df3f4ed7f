//! Facts out of files: CSV, and what the MCP memory server keeps.
//!
//! A file is read line by line, so that memory does not depend on its size. A line that cannot be read is told with its
//! number, and the rest goes on: the caller decides whether that is good enough. Telling the same line twice is harmless:
//! what is made of it is the same statement.

mod columns;
mod csv;
mod mcp;
mod records;
mod statements;
mod times;

use std::io::{self, BufRead, Cursor, Read};
use std::str::FromStr;

use chrono::{DateTime, Datelike, Utc};
use skymem_core::conversation::BadName;
use skymem_core::facts::Statement;

pub use statements::write_stated;

/// The longest line of a file, and the longest line of CSV together with the lines that belong to it: in bytes.
pub const LONGEST_LINE: usize = 1024 * 1024;

/// What a file is made of, line by line. After an error there is nothing more.
pub type Lines<'a> = Box<dyn Iterator<Item = Result<ImportLine, ImportError>> + Send + 'a>;

/// Reads `input`, which is of `format`.
///
/// # Errors
///
/// When `input` cannot be read at all: it is empty, not text, or its first line does not name the columns that are needed.
pub fn read<'a>(format: ImportFormat, input: impl BufRead + Send + 'a) -> Result<Lines<'a>, ImportError> {
    let (head, input) = begin(input)?;
    Ok(match format {
        ImportFormat::Csv => Box::new(csv::read(&head, input)?),
        ImportFormat::Mcp => Box::new(mcp::read(input)),
        ImportFormat::Statements => Box::new(statements::read(input)),
    })
}

/// A line of a file, and what it says. One line can come more than once: when it says very much, or only a part of it can be
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportLine {
    /// Its number, counted from 1.
    pub number: u64,
    /// What it says.
    pub says: Says,
}

/// What a line of a file says.
#[derive(Debug, Clone, PartialEq)]
pub enum Says {
    /// These; each can be told to memory as it is.
    Statements(Vec<Stated>),
    /// Nothing that memory is to be told; says why.
    Nothing(&'static str),
    /// Something that cannot be read; says what is wrong.
    Unreadable(String),
}

/// A statement of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Stated {
    /// What is stated.
    pub statement: Statement,
    /// When it was said, where the file tells; `None` for when it is told to memory.
    pub occurred_at: Option<DateTime<Utc>>,
}

impl Stated {
    /// Refuses what memory cannot be told.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn check(&self) -> Result<(), String> {
        self.statement.check().map_err(|bad| bad.to_string())?;
        let fine = self.occurred_at.is_none_or(|at| (1..=9999).contains(&at.year()));
        if fine { Ok(()) } else { Err("occurred_at is a moment in a year from 1 to 9999".into()) }
    }
}

impl From<Statement> for Stated {
    fn from(statement: Statement) -> Self {
        Self { statement, occurred_at: None }
    }
}

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// A line for each fact, under the names of the columns (RFC 4180; also with `;` or tabs between the columns).
    ///
    /// `subject`, `predicate` and `object` must be there. `valid_from` and `valid_to` are moments, days, months or years;
    /// `confidence` is above 0, at most 1; `subject_kind` and `object_kind` say what an entity is; `object_is_literal` is
    /// `true` or `false`: without it, an object that has a letter and can be a name is an entity. `from` and `until` are
    /// understood for `valid_from` and `valid_to`. Where `valid_from_is_said` is `false`, nobody said since when: the line is
    /// taken for said at `valid_from`. The other columns of our own export are passed over, and so are its lines of facts
    /// that were taken back.
    Csv,
    /// The file of the MCP memory server: an entity or a relation in JSON on each line.
    ///
    /// A relation is a fact between two entities. An observation is a `note` of its entity, a literal. A type that is none
    /// of ours is what the entity `is_a`, a literal. `default_user` is the person whose memory it is.
    Mcp,
    /// A [`Statement`] in JSON on each line, as it stands in the journal: `{"says": "holds", ...}`. `occurred_at` may stand
    /// beside it: when it was said.
    Statements,
}

impl ImportFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Mcp, Self::Statements];

    /// The word for it on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Mcp => "mcp",
            Self::Statements => "statements",
        }
    }

    /// The format of a file that begins with `start`: JSON is the MCP memory server's, unless its first line says something
    /// as our own statements do.
    #[must_use]
    pub fn of(start: &[u8]) -> Self {
        let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
        if !start.starts_with(b"{") {
            return Self::Csv;
        }
        let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let says = serde_json::from_slice::<serde_json::Value>(first).is_ok_and(|line| line.get("says").is_some());
        if says { Self::Statements } else { Self::Mcp }
    }
}

impl FromStr for ImportFormat {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == word);
        found.ok_or_else(|| BadName(format!("a format is one of {}", Self::ALL.map(Self::as_str).join(", "))))
    }
}

/// Why a file is not read, or not further.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is not what it is said to be; says what it should be. Mend the file.
    #[error("{0}")]
    Refused(String),
    /// It gave no more bytes.
    #[error("cannot read on")]
    Broken(#[from] io::Error),
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What `input` begins with, up to the end of its first line that is not blank, and all of it without its byte order mark.
fn begin<'a>(mut input: impl BufRead + Send + 'a) -> Result<(Vec<u8>, impl BufRead + Send + 'a), ImportError> {
    let mut head = Vec::new();
    while head.len() < LONGEST_LINE {
        let before = head.len();
        if input.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut head)? == 0 {
            break;
        }
        if before == 0 && head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        let line = head.get(before..).unwrap_or_default();
        if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") || line.contains(&0) {
            return Err(ImportError::Refused("the file is not UTF-8 text: save it as UTF-8".into()));
        }
        if !line.trim_ascii().is_empty() {
            return Ok((head.clone(), Cursor::new(head).chain(input)));
        }
    }
    Err(ImportError::Refused("the file is empty".into()))
}

/// The items of `next` up to the first error.
fn until_it_breaks<T>(
    mut next: impl FnMut() -> Result<Option<T>, ImportError>,
) -> impl Iterator<Item = Result<T, ImportError>> {
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken {
            return None;
        }
        let item = next().transpose();
        broken = matches!(item, Some(Err(_)));
        item
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(format: ImportFormat, text: &[u8]) -> String {
        match read(format, text) {
            Err(ImportError::Refused(why)) => why,
            Err(other) => panic!("{other}"),
            Ok(lines) => panic!("{:?}", lines.collect::<Vec<_>>()),
        }
    }

    #[test]
    fn a_file_without_anything_in_it_is_refused() {
        for format in ImportFormat::ALL {
            for empty in [&b""[..], b"\n", b" \r\n\t\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"] {
                assert_eq!(refused(format, empty), "the file is empty", "{empty:?}");
            }
        }
    }

    #[test]
    fn a_file_in_utf_16_is_refused() {
        let utf_16: Vec<u8> = "\u{feff}subject".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for format in ImportFormat::ALL {
            assert_eq!(refused(format, &utf_16), "the file is not UTF-8 text: save it as UTF-8");
            assert_eq!(refused(format, &utf_16[2..]), "the file is not UTF-8 text: save it as UTF-8");
        }
    }

    #[test]
    fn a_file_of_blank_lines_alone_is_not_read_for_ever() {
        let blank = io::BufReader::new(io::repeat(b'\n'));

        assert!(matches!(read(ImportFormat::Csv, blank), Err(ImportError::Refused(_))));
    }

    #[test]
    fn the_format_is_seen_from_the_beginning() {
        assert_eq!(ImportFormat::of(b"\xef\xbb\xbf\n {\"type\""), ImportFormat::Mcp);
        assert_eq!(ImportFormat::of(b"subject,predicate,object"), ImportFormat::Csv);
        assert_eq!(ImportFormat::of(b"{\"says\": \"kind\"}\n{\"ty"), ImportFormat::Statements);
        assert_eq!(ImportFormat::of(b""), ImportFormat::Csv);
    }

    #[test]
    fn a_file_that_breaks_off_ends_with_its_error() {
        struct Breaks(bool);
        impl Read for Breaks {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if std::mem::replace(&mut self.0, true) {
                    return Err(io::Error::other("gone"));
                }
                let text = b"{\"type\":\"relation\",\"from\":\"a\",\"to\":\"b\",\"relationType\":\"uses\"}\n";
                buffer[..text.len()].copy_from_slice(text);
                Ok(text.len())
            }
        }

        let lines: Vec<_> = read(ImportFormat::Mcp, io::BufReader::new(Breaks(false))).unwrap().collect();

        assert_eq!(lines.len(), 2);
        assert!(matches!(&lines[0], Ok(ImportLine { number: 1, says: Says::Statements(_) })));
        assert!(matches!(&lines[1], Err(ImportError::Broken(_))));
    }
}
