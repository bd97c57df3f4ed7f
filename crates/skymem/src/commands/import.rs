//! `skymem import`

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::{Value, json};
use skymem_core::Collection;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::cli::Context;
use crate::client::Client;
use crate::import::{Batcher, Choices, Format, Found, Input, Problem, Progress, Sender, SentSoFar, Tally, read};
use crate::output::{Outcome, counted, grouped, note};
use crate::progress::Bar;

use super::stats::behind;

/// Take over conversations from a file.
///
/// Reads OpenAI-style JSONL (each line a conversation with "messages", or one message with "role" and "content";
/// "session", "name", "created_at", "collection" and "title" are taken over) and ChatGPT's data export
/// (conversations.json, or the .zip it comes in). Running the same import again adds only what is new: after an
/// interruption, run it again.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem import conversations.json --dry-run     count, and list what cannot be read
  skymem import chatgpt-export.zip --wait        until everything can be recalled
  skymem import *.jsonl --collection work --since 2025-01-01
  zcat chats.jsonl.gz | skymem import -")]
pub(crate) struct Import {
    /// The files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format (else found out from the file)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The collection of turns that name none
    #[arg(long)]
    collection: Option<Collection>,
    /// Put before every session id
    #[arg(long, value_name = "TEXT", default_value = "")]
    session_prefix: String,
    /// Only what was said then or later, e.g. 2025-01-01 or 2025-01-01T08:00:00Z; what has no time is taken
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<DateTime<Utc>>,
    /// Also keep what tools were asked and answered in a ChatGPT export
    #[arg(long)]
    tools: bool,
    /// Send nothing: count, and list what cannot be read
    #[arg(long)]
    dry_run: bool,
    /// Fail when a line could not be read, after importing the others
    #[arg(long)]
    strict: bool,
    /// Wait until everything can be recalled
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to go on trying when the server gives no answer
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
}

fn since(text: &str) -> Result<DateTime<Utc>, String> {
    crate::import::moment(&Value::from(text))
}

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
        let choices = Choices {
            session_prefix: self.session_prefix.clone(),
            collection: self.collection.clone().map(Into::into),
            since: self.since,
            tools: self.tools,
        };
        let mut all = Report::default();
        let mut broken = None;
        for file in &self.files {
            if let Err(error) = self.file(file, &choices, client.as_ref(), &mut all).await {
                broken = Some(error);
                break;
            }
        }
        if let Some(error) = broken {
            if all.found.turns == 0 {
                return Err(error);
            }
            // What got through stays; the summary says how much.
            if !self.dry_run {
                note(&all.summary(false));
            }
            return Err(error.context("the import stopped; run the same command again to go on where it stopped"));
        }
        let left = match &client {
            Some(client) if self.wait => Some(wait(client).await?),
            // All is written down by now: that the server cannot be asked how far it is makes no failure of it.
            Some(client) => client.get(&["v1", "stats"], &[]).await.ok().map(|stats| behind(&stats)),
            None => Some(0),
        };
        let failed = self.strict && all.problem_count() > 0;
        Ok(Outcome::new(all.text(self.dry_run, left, self.wait), all.json(self.dry_run, left)).failed_if(failed))
    }

    async fn file(&self, path: &Path, choices: &Choices, client: Option<&Client>, all: &mut Report) -> Result<()> {
        let progress = Progress::default();
        let input = Input::open(path, self.format, &progress)?;
        let name = path.file_name().map_or_else(|| "stdin".into(), |name| name.to_string_lossy().into_owned());
        let (bar, began) = (Bar::new(&name), Instant::now());
        let sender = client.map(|client| {
            let source: String = format!("import:{name}").chars().filter(|c| !c.is_control()).take(200).collect();
            Sender::new(client.clone(), source, Duration::from_secs(self.patience))
        });

        // Reading and unpacking keep a thread busy; sending waits for the network.
        let (found, mut finds) = mpsc::channel::<Found>(1_000);
        let reader = tokio::task::spawn_blocking({
            let choices = choices.clone();
            move || {
                read(input, &choices, &mut |one| match found.blocking_send(one) {
                    Ok(()) => ControlFlow::Continue(()),
                    // Nobody listens any more: sending has failed.
                    Err(_) => ControlFlow::Break(()),
                })
            }
        });
        let mut batcher = Batcher::default();
        while let Some(one) = finds.recv().await {
            all.found.count(&one);
            match one {
                Found::Turn(turn) => {
                    if batcher.add(*turn) {
                        all.send(&name, &mut batcher, sender.as_ref(), &bar).await?;
                    }
                }
                Found::Problem(problem) => all.problem(&name, &problem, &bar),
                Found::LeftOut(_) => {}
            }
            let turns = all.found.turns;
            bar.set(progress.read(), progress.total(), || {
                let rate = turns as f64 / began.elapsed().as_secs_f64().max(0.001);
                format!("{}, {rate:.0}/s", counted(turns, "turn"))
            });
        }
        all.send(&name, &mut batcher, sender.as_ref(), &bar).await?;
        bar.finish();
        reader.await.map_err(|error| anyhow!("reading {name} failed: {error}"))?
    }
}

/// What came of an import.
#[derive(Default)]
struct Report {
    found: Tally,
    sent: SentSoFar,
    problems: Vec<String>,
}

impl Report {
    async fn send(&mut self, file: &str, batcher: &mut Batcher, sender: Option<&Sender>, bar: &Bar) -> Result<()> {
        let turns = batcher.take();
        let Some(sender) = sender else { return Ok(()) };
        if turns.is_empty() {
            return Ok(());
        }
        let sent = sender.send(&turns).await?;
        for problem in &sent.refused {
            self.problem(file, problem, bar);
        }
        self.sent.add(sent);
        Ok(())
    }

    /// Says what is wrong as it is found; remembers the first ones for the summary.
    fn problem(&mut self, file: &str, problem: &Problem, bar: &Bar) {
        let text = format!("{file}: {problem}");
        match self.problems.len() {
            0..MOST_SHOWN => bar.note(&text),
            MOST_SHOWN => bar.note("(further problems are counted, not listed)"),
            _ => return,
        }
        self.problems.push(text);
    }

    fn problem_count(&self) -> u64 {
        self.found.problems + self.sent.refused.len() as u64
    }

    fn summary(&self, dry_run: bool) -> String {
        let sessions = counted(self.found.sessions.len() as u64, "session");
        let mut text = match dry_run {
            true => format!("{} in {sessions} would be imported", counted(self.found.turns, "turn")),
            false => format!(
                "{} imported, {} known already ({sessions})",
                counted(self.sent.recorded, "turn"),
                grouped(self.sent.already)
            ),
        };
        if self.sent.differing > 0 {
            text.push_str(&format!(", {} unlike what is kept under their ids", grouped(self.sent.differing)));
        }
        if self.sent.not_kept > 0 {
            text.push_str(&format!(", {} not kept", grouped(self.sent.not_kept)));
        }
        if let (Some(oldest), Some(newest)) = (self.found.oldest, self.found.newest) {
            text.push_str(&format!("\nsaid from {} to {}", oldest.format("%Y-%m-%d"), newest.format("%Y-%m-%d")));
        }
        for (why, count) in &self.found.left_out {
            text.push_str(&format!("\nleft out: {} ({why})", grouped(*count)));
        }
        if self.problem_count() > 0 {
            text.push_str(&format!("\nnot readable: {}", grouped(self.problem_count())));
        }
        let secrets: u64 = self.sent.secrets.values().sum();
        if secrets > 0 {
            let kinds = self.sent.secrets.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let fate = match self.sent.secret_policy.as_str() {
                "allow" => "kept",
                "seal" => "sealed",
                _ => "left out",
            };
            text.push_str(&format!("\n{} {fate}: {kinds} (`skymem secrets` says why)", counted(secrets, "secret")));
        }
        text
    }

    fn text(&self, dry_run: bool, left: Option<u64>, waited: bool) -> String {
        let mut text = self.summary(dry_run);
        match (left, waited) {
            (Some(0), _) => {}
            (None, _) => text.push_str("\nthe server does not say how much is still to be learned: `skymem stats` shows it"),
            (Some(left), false) => text.push_str(&format!(
                "\n{} still being learned: they can be recalled as it goes on (`skymem stats` shows how far; --wait waits)",
                counted(left, "exchange")
            )),
            (Some(left), true) => text.push_str(&format!(
                "\n{} could not be learned yet: `skymem doctor` says why",
                counted(left, "exchange")
            )),
        }
        text
    }

    fn json(&self, dry_run: bool, left: Option<u64>) -> Value {
        json!({
            "dry_run": dry_run,
            "turns": self.found.turns,
            "sessions": self.found.sessions.len(),
            "recorded": self.sent.recorded,
            "already": self.sent.already,
            "differing": self.sent.differing,
            "not_kept": self.sent.not_kept,
            "left_out": self.found.left_out,
            "secrets": { "policy": self.sent.secret_policy, "found": self.sent.secrets },
            "problems": self.problem_count(),
            "first_problems": self.problems,
            "still_being_learned": left,
        })
    }
}

const MOST_SHOWN: usize = 100;

/// Waits until no layer is behind, or none gets on any more; answers how many exchanges are left.
pub(super) async fn wait(client: &Client) -> Result<u64> {
    let bar = Bar::new("learning");
    let (mut most, mut least, mut moved) = (0, u64::MAX, Instant::now());
    loop {
        let left = match client.get(&["v1", "stats"], &[]).await {
            Ok(stats) => behind(&stats),
            // It may be starting again.
            Err(error) if error.may_pass() && moved.elapsed() <= STUCK_AFTER => {
                sleep(Duration::from_millis(500)).await;
                continue;
            }
            Err(error) => {
                return Err(error).context("everything is imported, but how far the layers are cannot be told");
            }
        };
        if left < least {
            least = left;
            moved = Instant::now();
        }
        if left == 0 || moved.elapsed() > STUCK_AFTER {
            bar.finish();
            return Ok(left);
        }
        most = left.max(most);
        bar.set(most - left, most, || format!("{} to go", counted(left, "exchange")));
        sleep(Duration::from_millis(500)).await;
    }
}

/// A layer that has learned nothing for so long will not do so while somebody waits.
const STUCK_AFTER: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_to_be_learned_is_told_as_far_as_it_is_known() {
        let text = |left, waited| Report::default().text(false, left, waited);
        assert!(!text(Some(0), false).contains("learn"));
        assert!(text(Some(2), false).contains("2 exchanges still being learned"));
        assert!(text(Some(2), true).contains("could not be learned"));
        assert!(text(None, false).contains("does not say"));
        assert_eq!(Report::default().json(false, None)["still_being_learned"], Value::Null);
    }

    #[test]
    fn secrets_are_told_with_what_became_of_them() {
        let mut report = Report::default();
        assert!(!report.summary(false).contains("secret"));
        for (policy, kind) in [("redact", "card"), ("redact", "password"), ("seal", "card")] {
            let secrets = [(kind.to_owned(), 2)].into_iter().collect();
            report.sent.add(SentSoFar { secrets, secret_policy: policy.into(), ..SentSoFar::default() });
            report.sent.add(SentSoFar::default());
        }
        assert!(report.summary(false).contains("6 secrets sealed: card, password"), "{}", report.summary(false));
        assert_eq!(report.json(false, None)["secrets"]["found"], json!({ "card": 4, "password": 2 }));
    }
}
