//! `skymem files`

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::cli::Context;
use crate::client::{CallError, Client};
use crate::output::{Outcome, bytes, list_at, minute, note, table, text_at};

/// The Markdown files that are in every context: NOW.md, MEMORY.md and others. They can be edited in place on the
/// server's disk as well.
#[derive(Subcommand)]
pub(crate) enum Files {
    /// List the files
    List,
    /// Print a file, or one section of it
    Show {
        /// NOW.md, MEMORY.md, ...
        file: String,
        /// Only the section under this heading; repeat for a heading beneath it
        #[arg(long, value_name = "HEADING")]
        section: Vec<String>,
        /// As it was in this revision (its first letters will do)
        #[arg(long, conflicts_with = "section")]
        revision: Option<String>,
    },
    /// Edit a file in $EDITOR, or change a part of it at once
    Edit(Edit),
    /// List the revisions of a file, the newest first
    History {
        /// NOW.md, MEMORY.md, ...
        file: String,
    },
    /// Show what changed between two revisions
    Diff {
        /// NOW.md, MEMORY.md, ...
        file: String,
        /// The older revision (else the one before the newest)
        from: Option<String>,
        /// The newer revision (else the newest)
        to: Option<String>,
    },
    /// Bring back an earlier revision, as a new one
    Restore {
        /// NOW.md, MEMORY.md, ...
        file: String,
        /// The revision to bring back (its first letters will do)
        revision: String,
    },
}

/// Edit a file in $EDITOR, or change a part of it at once.
///
/// Nothing is overwritten silently: when the file has changed meanwhile, nothing is written, and your text is kept.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem files edit NOW.md
  skymem files edit NOW.md --section Today --body \"Write the report\"
  skymem files edit MEMORY.md --section Preferences --append \"- tea, not coffee\"
  skymem files edit MEMORY.md --text - < MEMORY.md")]
pub(crate) struct Edit {
    /// NOW.md, MEMORY.md, ...; a new file is made
    file: String,
    /// The section under this heading; repeat for a heading beneath it; made when it is missing
    #[arg(long, value_name = "HEADING")]
    section: Vec<String>,
    /// What is to stand under the heading; - reads it from standard input
    #[arg(long, requires = "section", conflicts_with_all = ["append", "text"])]
    body: Option<String>,
    /// Add this at the end of the section, or of the file; - reads it from standard input
    #[arg(long, conflicts_with = "text")]
    append: Option<String>,
    /// The whole text, from this file; - reads it from standard input
    #[arg(long, value_name = "FILE", conflicts_with = "section")]
    text: Option<PathBuf>,
}

impl Files {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        match self {
            Files::List => list(&client).await,
            Files::Show { file, section, revision: None } if section.is_empty() => {
                let answer = client.get(&["v1", "files", &file], &[]).await?;
                Ok(text_of(answer))
            }
            Files::Show { file, revision: Some(revision), .. } => {
                let revision = full_name(&client, &file, &revision).await?;
                let answer = client.get(&["v1", "files", &file, "history", &revision], &[]).await?;
                Ok(text_of(answer))
            }
            Files::Show { file, section, revision: None } => {
                let answer = client.get(&of_section(&file, &section), &[]).await?;
                Ok(text_of(answer))
            }
            Files::Edit(edit) => edit.run(&client).await,
            Files::History { file } => history(&client, &file).await,
            Files::Diff { file, from, to } => diff(&client, &file, from, to).await,
            Files::Restore { file, revision } => {
                let revision = full_name(&client, &file, &revision).await?;
                let base = present(&client, &file).await?.map(|file| file.revision);
                let body = json!({ "revision": revision, "base": base });
                let answer = client.post(&["v1", "files", &file, "restore"], &body).await?;
                Ok(written(&file, answer))
            }
        }
    }
}

impl Edit {
    async fn run(self, client: &Client) -> Result<Outcome> {
        let file = &self.file;
        if let Some(addition) = &self.append {
            let body = json!({ "headings": self.section, "text": given(addition)? });
            return Ok(written(file, client.post(&["v1", "files", file, "append"], &body).await?));
        }
        let present = present(client, file).await?;
        let (old, base) = match present {
            Some(Present { text, revision }) => (text, Some(revision)),
            None => (String::new(), None),
        };
        if let Some(body) = &self.body {
            let body = json!({ "body": given(body)?, "base": base });
            let answer = client.call(Method::PUT, &of_section(file, &self.section), &[], Some(&body)).await;
            return answer.map(|answer| written(file, answer)).map_err(|error| conflict(&error, None));
        }
        if !self.section.is_empty() {
            bail!("--section needs --body or --append: what is to stand there?");
        }
        let (new, draft) = match &self.text {
            Some(path) if path.as_os_str() == "-" => (given("-")?, None),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                (text, None)
            }
            None => {
                let draft = draft(file, &old)?;
                let path = draft.path().to_owned();
                // An editor takes the whole thread.
                let text = tokio::task::spawn_blocking(move || in_editor(&path)).await??;
                (text, Some(draft))
            }
        };
        if new == old && base.is_some() {
            return Ok(Outcome::new("Nothing changed.", json!({ "changed": false })));
        }
        let body = json!({ "text": new, "base": base });
        match client.call(Method::PUT, &["v1", "files", file], &[], Some(&body)).await {
            Ok(answer) => Ok(written(file, answer)),
            Err(error) => Err(conflict(&error, draft)),
        }
    }
}

/// The answer, of which people want the text alone.
fn text_of(answer: Value) -> Outcome {
    Outcome::new(text_at(&answer, "/text").to_owned(), answer)
}

fn of_section<'a>(file: &'a str, headings: &'a [String]) -> Vec<&'a str> {
    let mut path = vec!["v1", "files", file, "sections"];
    path.extend(headings.iter().map(String::as_str));
    path
}

/// What was given on the command line, or on standard input for `-`.
fn given(text: &str) -> Result<String> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text).context("cannot read standard input as UTF-8")?;
    Ok(text)
}

struct Present {
    text: String,
    revision: String,
}

/// The file as it is; `None` when there is none.
async fn present(client: &Client, file: &str) -> Result<Option<Present>> {
    match client.get(&["v1", "files", file], &[]).await {
        Ok(answer) => Ok(Some(Present {
            text: text_at(&answer, "/text").to_owned(),
            revision: text_at(&answer, "/revision").to_owned(),
        })),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn written(file: &str, answer: Value) -> Outcome {
    let mut text = format!("{file} is now at revision {}.", short(text_at(&answer, "/revision")));
    for fault in list_at(&answer, "faults").iter().filter_map(Value::as_str) {
        text.push_str(&format!("\n{fault}"));
    }
    Outcome::new(text, answer)
}

/// A file for the editor, with a name that tells it what to colour.
fn draft(file: &str, text: &str) -> Result<tempfile::NamedTempFile> {
    let mut draft = tempfile::Builder::new()
        .prefix("skymem-")
        .suffix(&format!("-{}", file.replace(['/', '\\'], "_")))
        .tempfile()
        .context("cannot make a file for the editor")?;
    draft.write_all(text.as_bytes()).and_then(|()| draft.flush()).context("cannot write the file for the editor")?;
    Ok(draft)
}

fn in_editor(path: &Path) -> Result<String> {
    let editor = editor(|name| std::env::var(name).ok(), std::io::stdin().is_terminal(), is_installed)
        .context("no editor is set: set EDITOR, or give the text with --text, --section and --body, or --append")?;
    // `EDITOR="code --wait"` is common, hence the shell.
    let status = Command::new("sh").arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).status();
    let status = status.with_context(|| format!("cannot run {editor}"))?;
    if !status.success() {
        bail!("{editor} ended with an error, so nothing was written");
    }
    std::fs::read_to_string(path).context("the edited text cannot be read as UTF-8")
}

/// The editor that is set; at a terminal also one that systems come with.
fn editor(
    set: impl Fn(&str) -> Option<String>,
    at_terminal: bool,
    is_installed: impl Fn(&str) -> bool,
) -> Option<String> {
    let usual = || ["editor", "nano", "vim", "vi"].into_iter().find(|name| is_installed(name)).map(str::to_owned);
    let mut set = ["VISUAL", "EDITOR"].into_iter().filter_map(set);
    set.find(|editor| !editor.trim().is_empty()).or_else(|| at_terminal.then(usual).flatten())
}

fn is_installed(program: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|folder| folder.join(program).is_file())
}

/// The error, and for an edit that came too late the difference and where the person's text was kept.
fn conflict(error: &CallError, draft: Option<tempfile::NamedTempFile>) -> anyhow::Error {
    let mut text = error.to_string();
    if let CallError::Refused(refusal) = error
        && refusal.status == StatusCode::CONFLICT
    {
        note(text_at(&refusal.problem, "/conflict/diff"));
    }
    if let Some(draft) = draft {
        match draft.keep() {
            Ok((_, path)) => text.push_str(&format!("; your text is kept in {}", path.display())),
            Err(error) => text.push_str(&format!("; your text could not be kept: {error}")),
        }
    }
    anyhow!(text)
}

async fn list(client: &Client) -> Result<Outcome> {
    let answer = client.get(&["v1", "files"], &[]).await?;
    let files = list_at(&answer, "files");
    let number = |file: &Value, key: &str| file.get(key).and_then(Value::as_u64).unwrap_or(0);
    let rows: Vec<_> = files
        .iter()
        .map(|file| {
            let always = file.get("always").and_then(Value::as_bool).unwrap_or(false);
            [
                text_at(file, "/name").to_owned(),
                number(file, "tokens").to_string(),
                bytes(number(file, "bytes")),
                minute(text_at(file, "/changed_at")),
                if always { "always".into() } else { "no".to_owned() },
                short(text_at(file, "/revision")).to_owned(),
            ]
        })
        .collect();
    let mut text = match rows.is_empty() {
        true => "No memory files yet.".into(),
        false => table(["FILE", "TOKENS", "SIZE", "CHANGED", "IN CONTEXT", "REVISION"], rows),
    };
    for file in files {
        for fault in list_at(file, "faults").iter().filter_map(Value::as_str) {
            text.push_str(&format!("\n{}: {fault}", text_at(file, "/name")));
        }
    }
    Ok(Outcome::new(text, answer))
}

async fn history(client: &Client, file: &str) -> Result<Outcome> {
    let answer = client.get(&["v1", "files", file, "history"], &[]).await?;
    let rows = list_at(&answer, "revisions").iter().map(|revision| {
        [
            short(text_at(revision, "/revision")).to_owned(),
            minute(text_at(revision, "/seen_at")),
            bytes(revision.get("bytes").and_then(Value::as_u64).unwrap_or(0)),
            text_at(revision, "/origin").to_owned(),
        ]
    });
    let text = table(["REVISION", "SEEN", "SIZE", "BY"], rows.collect());
    Ok(Outcome::new(text, answer))
}

async fn diff(client: &Client, file: &str, from: Option<String>, to: Option<String>) -> Result<Outcome> {
    let all = revisions(client, file).await?;
    let to = match to {
        Some(start) => starting_with(&all, &start)?,
        None => all.first().cloned().with_context(|| format!("{file} has no revision"))?,
    };
    let from = match from {
        Some(start) => starting_with(&all, &start)?,
        None => {
            let before = all.iter().skip_while(|one| **one != to).nth(1);
            before.cloned().with_context(|| format!("{file} has no revision before {}", short(&to)))?
        }
    };
    let revision = async |revision: &str| {
        let answer = client.get(&["v1", "files", file, "history", revision], &[]).await?;
        anyhow::Ok(text_at(&answer, "/text").to_owned())
    };
    let (old, new) = (revision(&from).await?, revision(&to).await?);
    let diff = TextDiff::from_lines(&old, &new);
    let shown = diff.unified_diff().header(short(&from), short(&to)).to_string();
    let text = if shown.is_empty() { "No difference.".into() } else { shown.clone() };
    Ok(Outcome::new(text, json!({ "file": file, "from": from, "to": to, "diff": shown })))
}

/// The file's revisions, the newest first.
async fn revisions(client: &Client, file: &str) -> Result<Vec<String>> {
    let answer = client.get(&["v1", "files", file, "history"], &[]).await?;
    Ok(list_at(&answer, "revisions").iter().map(|one| text_at(one, "/revision").to_owned()).collect())
}

async fn full_name(client: &Client, file: &str, start: &str) -> Result<String> {
    starting_with(&revisions(client, file).await?, start)
}

fn starting_with(revisions: &[String], start: &str) -> Result<String> {
    let mut found = revisions.iter().filter(|revision| revision.starts_with(start));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(one), Some(other)) if one == other => Ok(one.clone()),
        (Some(_), Some(_)) => bail!("several revisions begin with {start}: give more of it"),
        (None, _) => bail!("there is no revision {start}: `skymem files history` lists them"),
    }
}

fn short(revision: &str) -> &str {
    revision.get(..10).unwrap_or(revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_named_by_its_first_letters() {
        let all = ["abc1".to_owned(), "abd2".to_owned(), "abc1".to_owned()];

        assert_eq!(starting_with(&all, "abc").unwrap(), "abc1");
        assert_eq!(starting_with(&all, "abd2").unwrap(), "abd2");
        assert!(starting_with(&all, "ab").unwrap_err().to_string().contains("several"));
        assert!(starting_with(&all, "x").unwrap_err().to_string().contains("no revision x"));
    }

    #[test]
    fn without_a_set_editor_a_person_gets_one_that_is_there_and_a_program_none() {
        let check = |set: &[(&str, &str)], at_terminal: bool, expected: Option<&str>| {
            let of = |name: &str| set.iter().find(|(of, _)| *of == name).map(|(_, editor)| (*editor).to_owned());
            assert_eq!(editor(of, at_terminal, |name| name == "vi").as_deref(), expected, "{set:?} {at_terminal}");
        };
        check(&[("EDITOR", "code --wait")], false, Some("code --wait"));
        check(&[("EDITOR", "ed"), ("VISUAL", "emacs")], true, Some("emacs"));
        check(&[("EDITOR", "ed"), ("VISUAL", " ")], true, Some("ed"));
        check(&[], true, Some("vi"));
        check(&[("EDITOR", "")], true, Some("vi"));
        check(&[], false, None);
    }

    #[test]
    fn a_heading_may_hold_any_text() {
        let headings = ["A/B".to_owned(), "C".to_owned()];

        assert_eq!(of_section("NOW.md", &headings), ["v1", "files", "NOW.md", "sections", "A/B", "C"]);
    }
}
