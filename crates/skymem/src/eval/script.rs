//! A script: what is said, by whom and when, and what memory is asked about it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use chrono::{DateTime, Utc};
use skymem_core::Role;

use super::{markdown, yaml};

/// Reads the scripts of `paths`, which are files or folders of files, in order of their paths.
///
/// # Errors
///
/// When a file cannot be read or is no script, in words with file and line, every file's first fault at once; when two
/// have one name; when there is none.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Script>> {
    let (mut scripts, mut faults) = (Vec::new(), Vec::new());
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for path in files_of(paths)? {
        match read(&path) {
            Ok(script) => match named.get(&script.name) {
                Some(other) => faults.push(format!(
                    "{}: the name {:?} is taken by {other}: give one of them another `name`",
                    script.file, script.name
                )),
                None => {
                    named.insert(script.name.clone(), script.file.clone());
                    scripts.push(script);
                }
            },
            Err(error) => faults.push(format!("{error:#}")),
        }
    }
    match faults.len() {
        0 => Ok(scripts),
        1 => bail!("{}", faults.join("")),
        many => bail!("{many} scripts cannot be read:\n{}", faults.join("\n")),
    }
}

/// A scripted conversation and its questions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    /// What it is called: unlike any other of a run.
    pub(crate) name: String,
    /// What it is for.
    pub(crate) about: Option<String>,
    /// The file it was read from, for people.
    pub(crate) file: String,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

impl Script {
    /// How many questions it asks.
    pub(crate) fn questions(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.act, Act::Ask(_))).count()
    }

    /// How many turns it has said.
    pub(crate) fn turns(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.act, Act::Say(_))).count()
    }
}

/// Something that happens, and the line it is written in, from 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) act: Act,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    /// Somebody says something.
    Say(Said),
    /// Memory is told something directly.
    Note(Note),
    /// Everything said so far is learned before the script goes on.
    Learn,
    /// The server stops and starts again.
    Restart,
    /// A user has something forgotten.
    Forget { user: String, what: Target },
    /// A user's memory file gets this text.
    File { user: String, name: String, text: String },
    /// Memory is asked.
    Ask(Box<Question>),
}

/// A turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    /// Whose memory, as the script calls them.
    pub(crate) user: String,
    pub(crate) session: String,
    pub(crate) role: Role,
    pub(crate) speaker: Option<String>,
    pub(crate) text: String,
    pub(crate) at: DateTime<Utc>,
}

/// Something told to memory directly.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) user: String,
    pub(crate) text: String,
    pub(crate) at: DateTime<Utc>,
}

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    /// Every exchange in which this is said.
    Saying(String),
    /// All of this session.
    Session(String),
}

/// A question, and what is expected of memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) user: String,
    /// `None` asks outside of any session.
    pub(crate) session: Option<String>,
    pub(crate) at: DateTime<Utc>,
    pub(crate) text: String,
    /// How many exchanges stand word for word; `None` leaves it to the server.
    pub(crate) window: Option<u8>,
    /// What stands before the assistant.
    pub(crate) recalls: Vec<Wanted>,
    /// What does not.
    pub(crate) lacks: Vec<Wanted>,
    /// Each of `recalls` is among the first so many recalls of its layer.
    pub(crate) rank: Option<usize>,
    /// Nothing is recalled at all; what is always loaded does not count.
    pub(crate) nothing: bool,
    /// What a model answers from what stands before it, when there is a model.
    pub(crate) answer: Vec<Wanted>,
    /// What it does not answer.
    pub(crate) answer_lacks: Vec<Wanted>,
    /// What is true of its answer, as another question to the model finds.
    pub(crate) judge: Option<String>,
}

/// Texts of which one is enough.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted(Vec<String>);

impl Wanted {
    /// `a | b` is one or the other; `None` when there is nothing on a side.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let either: Vec<String> = text.split(" | ").map(|one| one.trim().to_owned()).collect();
        either.iter().all(|one| !one.is_empty()).then_some(Self(either))
    }

    /// Whether one of them stands in `text`, which is [`plain`].
    pub(crate) fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|one| text.contains(&plain(one)))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" | "))
    }
}

/// `text` in lower case, its white space single: how texts are compared.
pub(crate) fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

/// What is wrong with a script, and in which line, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn at(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

/// The largest script: so much is no longer written by hand.
const MOST_BYTES: u64 = 1_000_000;
/// The most files of one run.
const MOST_FILES: usize = 2_000;

/// How a script is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Markdown,
    Yaml,
}

impl Form {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "md" => Some(Form::Markdown),
            "yaml" | "yml" => Some(Form::Yaml),
            _ => None,
        }
    }
}

fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let shown = path.display();
        let about = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
        if !about.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut inside = Vec::new();
        for entry in std::fs::read_dir(path).with_context(|| format!("cannot read {shown}"))? {
            let entry = entry.with_context(|| format!("cannot read {shown}"))?.path();
            let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_script = Form::of(&entry).is_some() && name != "README.md" && !name.starts_with('.');
            if is_script && entry.is_file() {
                inside.push(entry);
            }
        }
        if inside.is_empty() {
            bail!("there is no script in {shown}: scripts end in .md, .yaml or .yml");
        }
        inside.sort();
        files.extend(inside);
    }
    if files.len() > MOST_FILES {
        bail!("{} scripts are more than the {MOST_FILES} of a run", files.len());
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Script> {
    let shown = path.display().to_string();
    let form = Form::of(path).with_context(|| format!("{shown}: a script ends in .md, .yaml or .yml"))?;
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {shown}"))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&bytes, form, &stem)
        .map(|script| Script { file: shown.clone(), ..script })
        .map_err(|Fault { line, reason }| anyhow::anyhow!("{shown}:{line}: {reason}"))
}

fn parse(bytes: &[u8], form: Form, stem: &str) -> Result<Script, Fault> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Fault::at(1, "it is larger than 1 MB, which is no script any more"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
        Err(error) => {
            let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            return Err(Fault::at(line, "it is not UTF-8"));
        }
    };
    if text.trim().is_empty() {
        return Err(Fault::at(1, "it is empty"));
    }
    match form {
        Form::Markdown => markdown::parse(text, stem),
        Form::Yaml => yaml::parse(text, stem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "## a\nUser: x\n? y\n+ x\n";

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[track_caller]
    fn refused(files: &[(&str, &[u8])], parts: &[&str]) {
        let folder = folder(files);
        let error = read_all(&[folder.path().to_owned()]).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }

    #[test]
    fn a_folder_is_read_in_order_and_its_readme_is_no_script() {
        let yaml = b"steps:\n  - session: a\n    user: x\n  - ask: y\n    recalls: [x]\n";
        let files: [(&str, &[u8]); 5] = [
            ("b.yaml", yaml),
            ("a.md", ONE.as_bytes()),
            ("README.md", b"# not a script"),
            ("notes.txt", b"x"),
            (".hidden.md", b"x"),
        ];
        let folder = folder(&files);

        let scripts = read_all(&[folder.path().to_owned()]).unwrap();

        let names: Vec<&str> = scripts.iter().map(|script| script.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_file_that_is_no_script_is_told_with_its_line_and_all_files_at_once() {
        refused(&[("a.md", b"")], &["a.md:1: it is empty"]);
        refused(&[("a.md", b" \n\t\n")], &["a.md:1: it is empty"]);
        refused(&[("a.md", b"## a\n\xff\n")], &["a.md:2: it is not UTF-8"]);
        refused(&[("a.md", &vec![b'x'; 1_000_001])], &["larger than 1 MB"]);
        refused(&[("a.md", b""), ("b.yaml", b"- x")], &["2 scripts", "a.md:1", "b.yaml:1"]);
        refused(&[("a.txt", b"x")], &["no script in", ".yaml"]);
    }

    #[test]
    fn a_name_belongs_to_one_script() {
        refused(&[("a.md", ONE.as_bytes()), ("a.yaml", b"name: a\nsteps: [{ask: x, recalls: [y]}]")], &["taken by"]);
        let folder = folder(&[("a.txt", b"x")]);
        let error = read_all(&[folder.path().join("a.txt")]).unwrap_err().to_string();
        assert!(error.contains("a script ends in .md"), "{error}");
        let error = read_all(&[folder.path().join("none.md")]).unwrap_err();
        assert!(format!("{error:#}").contains("none.md"), "{error:#}");
    }

    #[test]
    fn one_of_several_texts_is_enough_whatever_its_case_and_white_space() {
        let wanted = Wanted::parse("eight  hundred | 800").unwrap();

        assert!(wanted.is_in(&plain("it costs 800")));
        assert!(wanted.is_in(&plain("it costs EIGHT\n hundred")));
        assert!(!wanted.is_in(&plain("it costs eighty")));
        assert_eq!(Wanted::parse("a | "), None);
        assert_eq!(Wanted::parse(" "), None);
    }
}
