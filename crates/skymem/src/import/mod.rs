//! Reads conversations out of other programs' files, turn by turn, without loading a file whole.
//!
//! A reader hands everything it comes across to one function: turns, what it left out on purpose, and what it could
//! not read. Only what makes the rest of a file unreadable is an error.

mod chatgpt;
mod jsonl;
mod send;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use clap::ValueEnum;
use serde_json::Value;
use skymem_core::{Role, SessionId};

pub(crate) use send::{Batcher, Sender, SentSoFar, patiently};
pub(crate) use times::moment;

/// Reads `input` to its end and hands what it finds to `sink`, until that says stop.
///
/// # Errors
///
/// When the file cannot be read, is empty, or is not of the format. What was handed over before stands.
pub(crate) fn read(input: Input, choices: &Choices, sink: &mut Sink<'_>) -> Result<()> {
    let Input { name, stem, kind, format } = input;
    let mut sink = |found: Found| match choices.apply(found) {
        Some(found) => sink(found),
        None => ControlFlow::Continue(()),
    };
    match (format, kind) {
        (Format::Jsonl, Kind::Zip(_)) => bail!("{name} is a zip file, not JSONL: leave --format out, or unpack it"),
        (Format::Jsonl, Kind::Text(reader)) => jsonl::read(reader, &stem, &mut sink),
        (Format::Chatgpt, Kind::Text(reader)) => chatgpt::read(reader, choices.tools, &mut sink),
        (Format::Chatgpt, Kind::Zip(file)) => chatgpt::read_zip(file, choices.tools, &mut sink),
    }
    .with_context(|| format!("cannot import {name}"))
}

/// The longest line that is read. Longer ones are skipped, not held.
const LONGEST_LINE: usize = 100 * 1024 * 1024;

/// Takes what is found in a file; answers whether to go on.
pub(crate) type Sink<'a> = dyn FnMut(Found) -> ControlFlow<()> + 'a;

/// What a reader comes across.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Found {
    /// A turn to be recorded.
    Turn(Box<ImportedTurn>),
    /// Something that is no part of the conversation as people saw it; says what in a word or two.
    LeftOut(&'static str),
    /// Something that cannot be read; the rest goes on.
    Problem(Problem),
}

/// One turn as it goes to the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImportedTurn {
    pub(crate) session: String,
    pub(crate) title: Option<String>,
    pub(crate) collection: Option<String>,
    pub(crate) role: Role,
    pub(crate) speaker: Option<String>,
    /// A text, or OpenAI content parts as they came.
    pub(crate) content: Value,
    /// `None` when the file does not say: then it counts as said now.
    pub(crate) occurred_at: Option<DateTime<Utc>>,
    /// The same for the same turn whenever the file is imported again.
    pub(crate) client_id: String,
    pub(crate) place: Place,
}

/// Something that could not be read, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// Where in a file something stands, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Line(u64),
    Conversation(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Conversation(number) => write!(f, "conversation {number}"),
        }
    }
}

/// The formats that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// OpenAI-style JSONL: a conversation with `messages`, or one message, per line
    Jsonl,
    /// ChatGPT's data export: conversations.json, or the .zip it comes in
    Chatgpt,
}

/// What the person asked for beyond the file itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choices {
    /// Put before every session id.
    pub(crate) session_prefix: String,
    /// The collection of turns that name none.
    pub(crate) collection: Option<String>,
    /// Turns said before this are left out.
    pub(crate) since: Option<DateTime<Utc>>,
    /// Keep what tools were asked and answered in a ChatGPT export.
    pub(crate) tools: bool,
}

/// The longest title a server takes, in characters. A cut title is no reason to lose a conversation.
const LONGEST_TITLE: usize = 500;

impl Choices {
    fn apply(&self, found: Found) -> Option<Found> {
        let Found::Turn(mut turn) = found else { return Some(found) };
        if let (Some(since), Some(at)) = (self.since, turn.occurred_at)
            && at < since
        {
            return Some(Found::LeftOut("said before --since"));
        }
        turn.session.insert_str(0, &self.session_prefix);
        if turn.collection.is_none() {
            turn.collection.clone_from(&self.collection);
        }
        turn.title = turn.title.map(|title| title.chars().take(LONGEST_TITLE).collect());
        Some(match turn.session.parse::<SessionId>() {
            Ok(_) => Found::Turn(turn),
            Err(bad) => Found::Problem(Problem { place: turn.place, reason: bad.to_string() }),
        })
    }
}

/// A file to be read, its format known.
pub(crate) struct Input {
    name: String,
    stem: String,
    kind: Kind,
    format: Format,
}

enum Kind {
    Text(Box<dyn BufRead + Send>),
    Zip(Box<dyn ReadSeek + Send>),
}

/// What a zip archive is read from.
trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

impl Input {
    /// Opens `path` (`-` is standard input) and finds out its format from its first bytes unless told.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, is empty, or looks like nothing that can be imported.
    pub(crate) fn open(path: &Path, format: Option<Format>, progress: &Progress) -> Result<Self> {
        if path.as_os_str() == "-" {
            let reader = BufReader::with_capacity(BUFFER, Counted { inner: io::stdin(), read: progress.read.clone() });
            return Self::of_text("standard input".into(), "stdin".into(), Box::new(reader), format);
        }
        let name = path.display().to_string();
        let stem = path.file_stem().map_or_else(|| "import".into(), |stem| stem.to_string_lossy().into_owned());
        let mut file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
        if about.is_dir() {
            bail!("{name} is a folder: name the file in it that holds the conversations, e.g. conversations.json");
        }
        progress.total.store(about.len(), Ordering::Relaxed);

        let mut head = Vec::new();
        (&mut file).take(4).read_to_end(&mut head).with_context(|| format!("cannot read {name}"))?;
        file.rewind().with_context(|| format!("cannot read {name}"))?;
        let counted = Counted { inner: file, read: progress.read.clone() };
        if head.starts_with(b"PK\x03\x04") {
            let kind = Kind::Zip(Box::new(counted));
            return Ok(Self { name, stem, kind, format: format.unwrap_or(Format::Chatgpt) });
        }
        Self::of_text(name, stem, Box::new(BufReader::with_capacity(BUFFER, counted)), format)
    }

    fn of_text(
        name: String,
        stem: String,
        mut reader: Box<dyn BufRead + Send>,
        format: Option<Format>,
    ) -> Result<Self> {
        let format = match (detect(&mut *reader).with_context(|| format!("cannot import {name}"))?, format) {
            (_, Some(told)) => told,
            (Some(detected), None) => detected,
            (None, None) => bail!(
                "{name} is neither JSONL (its lines begin with '{{') nor a ChatGPT export (a JSON list, or the .zip): \
                 nothing was imported"
            ),
        };
        Ok(Self { name, stem, kind: Kind::Text(reader), format })
    }
}

/// Skips a byte order mark and the white space before the first character, and judges by that.
fn detect(reader: &mut dyn BufRead) -> Result<Option<Format>> {
    let head = reader.fill_buf()?;
    if head.starts_with(&[0xFF, 0xFE]) || head.starts_with(&[0xFE, 0xFF]) {
        bail!("it is UTF-16, not UTF-8: convert it first, e.g. `iconv -f UTF-16 -t UTF-8`");
    }
    if head.starts_with(&[0xEF, 0xBB, 0xBF]) {
        reader.consume(3);
    }
    loop {
        let head = reader.fill_buf()?;
        if head.is_empty() {
            bail!("it is empty");
        }
        // Line ends stay, so that lines keep their numbers.
        match head.iter().copied().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => return Ok(Some(Format::Jsonl)),
            Some(b'[') => return Ok(Some(Format::Chatgpt)),
            Some(_) => return Ok(None),
            None => {
                let blank = head.len();
                reader.consume(blank);
            }
        }
    }
}

/// One megabyte: large enough that the first look sees past any white space, small beside the file.
const BUFFER: usize = 1 << 20;

/// How far a file has been read; shared with whoever draws it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    read: Arc<AtomicU64>,
    total: Arc<AtomicU64>,
}

impl Progress {
    /// Bytes read so far. Of a zip, compressed ones.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes in the file; 0 when nobody knows.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Opens `path` (`-` is standard input) to be read line by line.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or is a folder.
    pub(crate) fn open(&self, path: &Path) -> Result<Box<dyn BufRead + Send>> {
        let counted = |inner: Box<dyn Read + Send>| {
            Box::new(BufReader::with_capacity(BUFFER, Counted { inner, read: self.read.clone() }))
        };
        if path.as_os_str() == "-" {
            return Ok(counted(Box::new(io::stdin())));
        }
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        let about = file.metadata().with_context(|| format!("cannot read {name}"))?;
        if about.is_dir() {
            bail!("{name} is a folder: name a file in it");
        }
        self.total.store(about.len(), Ordering::Relaxed);
        Ok(counted(Box::new(file)))
    }
}

struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let place = self.inner.seek(to)?;
        self.read.store(place, Ordering::Relaxed);
        Ok(place)
    }
}

/// What was found in the files of one import.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) turns: u64,
    pub(crate) sessions: BTreeSet<String>,
    pub(crate) left_out: BTreeMap<&'static str, u64>,
    pub(crate) problems: u64,
    pub(crate) oldest: Option<DateTime<Utc>>,
    pub(crate) newest: Option<DateTime<Utc>>,
}

impl Tally {
    /// Counts one find.
    pub(crate) fn count(&mut self, found: &Found) {
        match found {
            Found::Turn(turn) => {
                self.turns += 1;
                if !self.sessions.contains(&turn.session) {
                    self.sessions.insert(turn.session.clone());
                }
                if let Some(at) = turn.occurred_at {
                    self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
                    self.newest = Some(self.newest.map_or(at, |newest| newest.max(at)));
                }
            }
            Found::LeftOut(why) => *self.left_out.entry(why).or_default() += 1,
            Found::Problem(_) => self.problems += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_detected(head: &[u8], expected: Result<Option<Format>, &str>) {
        let detected = detect(&mut BufReader::new(head)).map_err(|error| error.to_string());
        match (&detected, expected) {
            (Ok(format), Ok(expected)) => assert_eq!(*format, expected, "{head:?}"),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            _ => panic!("{head:?}: {detected:?}"),
        }
    }

    #[test]
    fn the_first_character_tells_the_format() {
        check_detected(b"{\"role\":", Ok(Some(Format::Jsonl)));
        check_detected(b"\n\n  {\"role\":", Ok(Some(Format::Jsonl)));
        check_detected(b"\xEF\xBB\xBF[{", Ok(Some(Format::Chatgpt)));
        check_detected(b"role,content\n", Ok(None));
        check_detected(b"", Err("empty"));
        check_detected(b"  \n ", Err("empty"));
        check_detected(b"\xFF\xFE{\0", Err("UTF-16"));
    }

    fn turn(session: &str, at: Option<&str>) -> Found {
        Found::Turn(Box::new(ImportedTurn {
            session: session.into(),
            title: None,
            collection: None,
            role: Role::User,
            speaker: None,
            content: "hello".into(),
            occurred_at: at.map(|at| at.parse().unwrap()),
            client_id: "1".into(),
            place: Place::Line(3),
        }))
    }

    #[test]
    fn choices_name_and_filter_what_is_found() {
        let choices = Choices {
            session_prefix: "old-".into(),
            collection: Some("work".into()),
            since: Some("2024-01-01T00:00:00Z".parse().unwrap()),
            tools: false,
        };

        let Some(Found::Turn(kept)) = choices.apply(turn("a", Some("2024-01-01T00:00:00Z"))) else { panic!() };
        assert_eq!((kept.session.as_str(), kept.collection.as_deref()), ("old-a", Some("work")));
        assert!(matches!(choices.apply(turn("a", None)), Some(Found::Turn(_))));
        assert!(matches!(choices.apply(turn("a", Some("2023-12-31T23:59:59Z"))), Some(Found::LeftOut(_))));
        assert!(matches!(choices.apply(turn(&"x".repeat(200), None)), Some(Found::Problem(_))));
    }
}
