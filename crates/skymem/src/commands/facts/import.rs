//! `skymem facts import`

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use skymem_core::{Collection, SessionId};
use skymem_engine::ImportFormat;
use skymem_engine::facts::import::{self, ImportLine, Says};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::send::{Line, Sender, Sent};
use crate::cli::Context;
use crate::client::Client;
use crate::commands::import::wait;
use crate::commands::stats::behind;
use crate::import::Progress;
use crate::output::{Outcome, counted, grouped, note};
use crate::progress::Bar;

/// Take over facts from a file.
///
/// Reads CSV (the first line names the columns: subject,predicate,object and, if wanted, valid_from, valid_to, confidence,
/// subject_kind, object_kind, object_is_literal; also what `skymem facts export --format csv` wrote) and what the MCP memory
/// server keeps (JSON a line at a time). A day, month or year in a file is taken as UTC. Running the same import again adds
/// only what is new: after an interruption, run it again.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts import memory.jsonl --dry-run     count, and list what cannot be read
  skymem facts import facts.csv --collection work --wait
  cat facts.csv | skymem facts import -")]
pub(crate) struct Import {
    /// The files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format (else found out from the file)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The session they are told in (else `facts`)
    #[arg(long)]
    session: Option<SessionId>,
    /// The collection they stand in
    #[arg(long)]
    collection: Option<Collection>,
    /// Send nothing: count, and list what cannot be read
    #[arg(long)]
    dry_run: bool,
    /// Fail when a line could not be read, after importing the others
    #[arg(long)]
    strict: bool,
    /// Wait until everything can be asked for
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to go on trying when the server gives no answer
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

/// The formats that can be read.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A fact on each line, under the names of the columns
    Csv,
    /// What the MCP memory server keeps
    Mcp,
    /// A statement of skymem's own in JSON on each line
    Statements,
}

impl Format {
    fn known(self) -> ImportFormat {
        match self {
            Format::Csv => ImportFormat::Csv,
            Format::Mcp => ImportFormat::Mcp,
            Format::Statements => ImportFormat::Statements,
        }
    }
}

/// So many statements go in one request.
const BATCH: usize = 500;

impl Import {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = match self.dry_run {
            true => None,
            false => {
                let client = context.client()?;
                // Says at once when no server runs or the key opens nothing.
                client.get(&["v1", "me"], &[]).await?;
                Some(client)
            }
        };
        let mut all = Report::default();
        for file in &self.files {
            if let Err(error) = self.file(file, client.as_ref(), &mut all).await {
                if all.statements == 0 {
                    return Err(error);
                }
                // What got through stays; the summary says how much.
                if !self.dry_run {
                    note(&all.summary(false));
                }
                return Err(error.context("the import stopped; run the same command again to go on where it stopped"));
            }
        }
        let left = match &client {
            Some(client) if self.wait => Some(wait(client).await?),
            // All is written down by now: that the server cannot be asked how far it is makes no failure of it.
            Some(client) => client.get(&["v1", "stats"], &[]).await.ok().map(|stats| behind(&stats)),
            None => Some(0),
        };
        let failed = self.strict && all.problem_count > 0;
        Ok(Outcome::new(all.text(self.dry_run, left), all.json(self.dry_run, left)).failed_if(failed))
    }

    async fn file(&self, path: &Path, client: Option<&Client>, all: &mut Report) -> Result<()> {
        let progress = Progress::default();
        let input = progress.open(path)?;
        let name = path.file_name().map_or_else(|| "stdin".into(), |name| name.to_string_lossy().into_owned());
        let (bar, began) = (Bar::new(&name), Instant::now());
        let sender = client.map(|client| self.sender(client, &name));

        // Reading keeps a thread busy; sending waits for the network.
        let (found, mut finds) = mpsc::channel::<ImportLine>(2_000);
        let (format, at) = (self.format.map(Format::known), path.display().to_string());
        let reader = tokio::task::spawn_blocking(move || {
            hand_over(input, format, &found).with_context(|| format!("cannot import {at}"))
        });
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(ImportLine { number, says }) = finds.recv().await {
            match says {
                Says::Statements(statements) => {
                    all.statements += statements.len() as u64;
                    batch.extend(statements.into_iter().map(|stated| Line { number, stated }));
                }
                Says::Nothing(why) => *all.left_out.entry(why).or_default() += 1,
                Says::Unreadable(why) => all.problem(&name, number, &why, &bar),
            }
            if batch.len() >= BATCH {
                all.send(&name, &mut batch, sender.as_ref(), &bar).await?;
            }
            let statements = all.statements;
            bar.set(progress.read(), progress.total(), || {
                let rate = statements as f64 / began.elapsed().as_secs_f64().max(0.001);
                format!("{}, {rate:.0}/s", counted(statements, "statement"))
            });
        }
        all.send(&name, &mut batch, sender.as_ref(), &bar).await?;
        bar.finish();
        reader.await.map_err(|error| anyhow!("reading {name} failed: {error}"))?
    }

    fn sender(&self, client: &Client, file: &str) -> Sender {
        let source: String = format!("import:{file}").chars().filter(|c| !c.is_control()).take(200).collect();
        let mut query = vec![("source", source)];
        query.extend(self.session.clone().map(|session| ("session", session.into())));
        query.extend(self.collection.clone().map(|collection| ("collection", collection.into())));
        Sender::new(client.clone(), query, Duration::from_secs(self.patience))
    }
}

/// Reads `input` to its end and hands over what its lines say, until nobody listens any more.
fn hand_over(
    mut input: Box<dyn BufRead + Send>,
    format: Option<ImportFormat>,
    to: &mpsc::Sender<ImportLine>,
) -> Result<()> {
    let format = match format {
        Some(format) => format,
        None => ImportFormat::of(input.fill_buf()?),
    };
    for line in import::read(format, input)? {
        if to.blocking_send(line?).is_err() {
            break;
        }
    }
    Ok(())
}

/// What came of an import.
#[derive(Default)]
struct Report {
    statements: u64,
    sent: Sent,
    left_out: BTreeMap<&'static str, u64>,
    problem_count: u64,
    problems: Vec<String>,
}

const MOST_SHOWN: usize = 100;

impl Report {
    async fn send(&mut self, file: &str, batch: &mut Vec<Line>, sender: Option<&Sender>, bar: &Bar) -> Result<()> {
        let lines = std::mem::take(batch);
        let Some(sender) = sender else { return Ok(()) };
        if lines.is_empty() {
            return Ok(());
        }
        let mut sent = sender.send(&lines).await?;
        for (line, why) in std::mem::take(&mut sent.refused) {
            self.problem(file, line, &why, bar);
        }
        self.sent.add(sent);
        Ok(())
    }

    /// Says what is wrong as it is found; remembers the first ones for the summary.
    fn problem(&mut self, file: &str, line: u64, why: &str, bar: &Bar) {
        self.problem_count += 1;
        let text = format!("{file}: line {line}: {why}");
        match self.problems.len() {
            0..MOST_SHOWN => bar.note(&text),
            MOST_SHOWN => bar.note("(further problems are counted, not listed)"),
            _ => return,
        }
        self.problems.push(text);
    }

    fn summary(&self, dry_run: bool) -> String {
        let mut text = match dry_run {
            true => format!("{} would be imported", counted(self.statements, "statement")),
            false => format!(
                "{} imported, {} known already",
                counted(self.sent.recorded, "statement"),
                grouped(self.sent.already)
            ),
        };
        if self.sent.not_kept > 0 {
            text.push_str(&format!(", {} not kept", grouped(self.sent.not_kept)));
        }
        for (why, count) in &self.left_out {
            text.push_str(&format!("\nleft out: {} ({why})", grouped(*count)));
        }
        if self.problem_count > 0 {
            text.push_str(&format!("\nnot readable: {}", grouped(self.problem_count)));
        }
        text
    }

    fn text(&self, dry_run: bool, left: Option<u64>) -> String {
        let mut text = self.summary(dry_run);
        if let Some(left) = left.filter(|left| *left > 0) {
            text.push_str(&format!(
                "\n{} still being learned (`skymem stats` shows how far; --wait waits)",
                counted(left, "exchange")
            ));
        }
        text
    }

    fn json(&self, dry_run: bool, left: Option<u64>) -> Value {
        json!({
            "dry_run": dry_run,
            "statements": self.statements,
            "recorded": self.sent.recorded,
            "already": self.sent.already,
            "not_kept": self.sent.not_kept,
            "left_out": self.left_out,
            "problems": self.problem_count,
            "first_problems": self.problems,
            "still_being_learned": left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_an_import_is_summed_up() {
        let mut report = Report { statements: 5, ..Report::default() };
        report.sent.add(Sent { recorded: 3, already: 1, ..Sent::default() });
        report.left_out.insert("was taken back", 2);
        report.problem("facts.csv", 7, "object: must not be blank", &Bar::new("x"));

        assert_eq!(
            report.text(false, Some(1)),
            "3 statements imported, 1 known already\nleft out: 2 (was taken back)\nnot readable: 1\n1 exchange still being \
             learned (`skymem stats` shows how far; --wait waits)"
        );
        assert!(report.text(true, Some(0)).starts_with("5 statements would be imported"));
        assert_eq!(report.json(false, None)["first_problems"][0], "facts.csv: line 7: object: must not be blank");
    }
}
