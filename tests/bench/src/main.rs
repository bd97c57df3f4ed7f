//! The benchmarks: they start the real program, go through its real doors, and stand beside a baseline in the same run.

mod facts;
mod followups;
mod graph;
mod ingest;
mod invent;
mod latency;
mod locomo;
mod proxy;
mod retrieval;
mod server;
mod times;
mod vault;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};

/// Measures skymem. Figures belong into tests/bench/README.md, with machine and command.
#[derive(Parser)]
#[command(name = "skymem-bench")]
struct Cli {
    /// The program to measure
    #[arg(long, global = true, default_value = "target/release/skymem")]
    program: PathBuf,
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// How much of the evidence is found: imports LoCoMo files through the CLI, asks their questions through /v1/recall
    Retrieval {
        /// Files in LoCoMo's format
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Write every question with what was found and what was missed to this file, a JSON object a line
        #[arg(long)]
        details: Option<PathBuf>,
    },
    /// Whether follow-ups find what they mean: asks the questions of CAsT 2021 in their conversations through /v1/context
    Followups {
        /// A file in CAsT's format of 2021
        file: PathBuf,
        /// The address of a real model's OpenAI-compatible server, without the last step, to measure it too
        #[arg(long, requires = "model")]
        model_url: Option<String>,
        /// The name that server knows the model by
        #[arg(long, requires = "model_url")]
        model: Option<String>,
        /// Write every question with what was made of it to this file, a JSON object a line
        #[arg(long)]
        details: Option<PathBuf>,
    },
    /// How many of the facts that people state in passing are found: says utterances through the API, reads /v1/facts
    Facts {
        /// Utterances with the facts that stand in them, a JSON object a line; the ones that come along unless said otherwise
        file: Option<PathBuf>,
        /// The address of a real model's OpenAI-compatible server, without the last step, to measure it too
        #[arg(long, requires = "model")]
        model_url: Option<String>,
        /// The name that server knows the model by
        #[arg(long, requires = "model_url")]
        model: Option<String>,
        /// Write every utterance with what was found and what was missed to this file, a JSON object a line
        #[arg(long)]
        details: Option<PathBuf>,
    },
    /// How long recall and context take, beside the bare embedding and the bare exact search
    Latency {
        /// Exchanges in the memory of the one user
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
        exchanges: Vec<usize>,
        /// Questions asked at each size
        #[arg(long, default_value_t = 200)]
        questions: usize,
    },
    /// What a chat waits longer because it goes through the proxy, beside the model itself
    Proxy {
        /// Exchanges in the memory of the one user
        #[arg(long, default_value_t = 10_000)]
        exchanges: usize,
        /// Questions asked each way
        #[arg(long, default_value_t = 200)]
        questions: usize,
    },
    /// How long it takes to walk a large graph of facts: in process, beside what a library does, and through the doors
    Graph {
        /// Facts in the memory of the one user
        #[arg(long, default_value_t = 100_000)]
        facts: usize,
        /// Questions of each kind
        #[arg(long, default_value_t = 500)]
        questions: usize,
        /// Only in process, without the program
        #[arg(long)]
        in_process: bool,
    },
    /// How long it takes to unlock a sealed collection, and to recall from it, beside the same memory in the open
    Vault {
        /// Exchanges in the memory of the one user, open and sealed
        #[arg(long, default_value_t = 10_000)]
        exchanges: usize,
        /// Questions asked of each
        #[arg(long, default_value_t = 200)]
        questions: usize,
    },
    /// How fast a bulk import is learned, and how long a turn waits to be accepted meanwhile
    Ingest {
        /// Exchanges to import
        #[arg(long, default_value_t = 10_000)]
        exchanges: usize,
    },
}

#[tokio::main]
async fn main() -> Result<()> {
    // A provider that is there already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Cli { program, bench } = Cli::parse();
    if let Bench::Graph { facts, questions, in_process: true } = bench {
        return graph::run(None, facts, questions).await;
    }
    let program = program
        .canonicalize()
        .with_context(|| format!("no program at {}: build it with `cargo build --release`", program.display()))?;
    let measured = measure(bench, &program);
    // What was started is stopped with it.
    tokio::select! {
        measured = measured => measured,
        () = told_to_end() => bail!("ended before everything was measured"),
    }
}

/// Until the terminal or the system wants it to end.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut term) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
        }
        Err(_) => std::future::pending().await,
    }
}

async fn measure(bench: Bench, program: &Path) -> Result<()> {
    match bench {
        Bench::Retrieval { files, details } => retrieval::run(program, &files, details.as_deref()).await,
        Bench::Followups { file, model_url, model, details } => {
            let model = model_url.zip(model).map(|(url, name)| followups::RealModel { url, name });
            followups::run(program, &file, model.as_ref(), details.as_deref()).await
        }
        Bench::Facts { file, model_url, model, details } => {
            let model = model_url.zip(model).map(|(url, name)| followups::RealModel { url, name });
            facts::run(program, file.as_deref(), model.as_ref(), details.as_deref()).await
        }
        Bench::Latency { exchanges, questions } => latency::run(program, &exchanges, questions).await,
        Bench::Proxy { exchanges, questions } => proxy::run(program, exchanges, questions).await,
        Bench::Graph { facts, questions, .. } => graph::run(Some(program), facts, questions).await,
        Bench::Vault { exchanges, questions } => vault::run(program, exchanges, questions).await,
        Bench::Ingest { exchanges } => ingest::run(program, exchanges).await,
    }
}
