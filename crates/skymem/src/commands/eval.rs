//! `skymem eval`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;
use sha2::{Digest, Sha256};
use skymem_core::SharedChatModel;
use skymem_engine::{Clock, SystemClock};

use crate::cli::Context;
use crate::eval::{Options, OwnServer, Place, Report, Script, read_all, run};
use crate::output::{Outcome, counted, note, table};
use crate::progress::Bar;
use crate::serve::open_chat;

/// Play scripted conversations and check what is remembered of them.
///
/// Scripts are Markdown or YAML: what is said, then questions with what must be recalled and what must not. They are
/// played on a private server with a folder of its own and the settings in force, of which nothing is left; or, with
/// --url or --running, on a running server, for throw-away users whose memory is purged afterwards (their names remain).
/// A running server is not restarted: what scripts say about that is skipped, and said so.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem eval tests/eval                          every script of a folder
  skymem eval my-scripts --junit result.xml       for a CI server
  skymem eval tests/eval --without episodes       what is lost without a layer
  skymem eval tests/eval --running --filter dog   on the server of this machine

Exit codes: 0 all is as expected, 1 it could not be run, 2 it was called wrongly, 3 something was missed.")]
pub(crate) struct Eval {
    /// Scripts, or folders of scripts (.md, .yaml, .yml; a README.md is none)
    #[arg(required = true, value_name = "FILE|FOLDER")]
    scripts: Vec<PathBuf>,
    /// Only scripts whose name holds this; repeat for several
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// Ask without this layer, or without the window; repeat for several
    #[arg(long, value_name = "LAYER")]
    without: Vec<String>,
    /// Play them on the running server instead of one of their own; --url does so too
    #[arg(long)]
    running: bool,
    /// Leave what was said on the running server, to look at it
    #[arg(long)]
    keep: bool,
    /// Read the scripts and say what is in them; play nothing
    #[arg(long)]
    dry_run: bool,
    /// Also write the outcome to this file as JUnit's XML
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    junit: Option<PathBuf>,
    /// How long to wait for layers that learn nothing more
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    patience: u64,
}

/// The exit code when memory did not do as expected.
const MISSED: u8 = 3;

impl Eval {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let scripts = self.chosen()?;
        if self.dry_run {
            return Ok(listed(&scripts));
        }
        if context.user().is_some() {
            bail!("scripts are played for users of their own: leave --user out");
        }
        let on_running = self.running || context.names_server();
        if self.keep && !on_running {
            bail!("--keep leaves things on a running server: add --running, or name one with --url");
        }
        if let Some(path) = &self.junit {
            // Found out now rather than after minutes.
            std::fs::write(path, "").with_context(|| format!("cannot write {}", path.display()))?;
        }
        let chat = chat_model(context)?;
        let mut place = match on_running {
            true => Place::Running(context.client()?),
            false => Place::Own(Box::new(OwnServer::start(&context.loaded()?.config).await?)),
        };
        let played = self.play(&scripts, &mut place, chat.as_ref()).await;
        if let Place::Own(own) = place {
            own.stop().await?;
        }
        let report = played?;
        if let Some(path) = &self.junit {
            std::fs::write(path, report.junit()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(outcome(&report))
    }

    /// The scripts, all of them read before the first is played.
    fn chosen(&self) -> Result<Vec<Script>> {
        let mut scripts = read_all(&self.scripts)?;
        if !self.filter.is_empty() {
            scripts.retain(|script| self.filter.iter().any(|part| script.name.contains(part.as_str())));
            if scripts.is_empty() {
                bail!("no script's name holds {}: `--dry-run` lists them", self.filter.join(" or "));
            }
        }
        Ok(scripts)
    }

    async fn play(&self, scripts: &[Script], place: &mut Place, chat: Option<&SharedChatModel>) -> Result<Report> {
        let run_name = run_name();
        let options = Options {
            run: run_name.clone(),
            without: self.without.clone(),
            patience: Duration::from_secs(self.patience),
            keep: self.keep,
            chat: chat.map(|chat| &**chat),
        };
        if self.keep {
            note(&format!("What is said stays with the users eval-{run_name}-..."));
        }
        let bar = Bar::new("eval");
        let total = scripts.iter().map(|script| script.steps.len()).sum::<usize>() as u64;
        let stop = async {
            if tokio::signal::ctrl_c().await.is_err() {
                // Nobody can ask for it, then.
                std::future::pending::<()>().await;
            }
        };
        let mut progress = |done: usize, name: &str| bar.set(done as u64, total, || name.to_owned());
        let report = run(scripts, place, &options, &mut progress, stop).await;
        bar.finish();
        report
    }
}

/// The model that answers what scripts want answered, if one is configured.
fn chat_model(context: &Context) -> Result<Option<SharedChatModel>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Ok(open_chat(&context.loaded()?.config, &clock, None)?.main)
}

/// Unlike that of any other run on the same server.
fn run_name() -> String {
    let now = SystemClock.now().to_rfc3339();
    let digest = Sha256::digest(format!("{now} {}", std::process::id()));
    hex::encode(digest.get(..4).unwrap_or_default())
}

fn outcome(report: &Report) -> Outcome {
    let outcome = Outcome::new(report.text(), report.json());
    if report.failed() { outcome.ending_with(MISSED) } else { outcome }
}

fn listed(scripts: &[Script]) -> Outcome {
    let rows = scripts.iter().map(|script| {
        [script.name.clone(), script.turns().to_string(), script.questions().to_string(), script.file.clone()]
    });
    let total = scripts.iter().map(Script::questions).sum::<usize>();
    let mut text = table(["SCRIPT", "TURNS", "QUESTIONS", "FILE"], rows.collect());
    let all = counted(scripts.len() as u64, "script");
    text.push_str(&format!("\n\n{all}, {}", counted(total as u64, "question")));
    let script = |script: &Script| {
        json!({ "name": script.name, "about": script.about, "file": script.file,
                "turns": script.turns(), "questions": script.questions() })
    };
    Outcome::new(text, json!({ "scripts": scripts.iter().map(script).collect::<Vec<_>>() }))
}
