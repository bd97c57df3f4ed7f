//! How fast a bulk import is learned, and how long a single turn waits to be accepted while it runs.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::{Value, json};

use crate::invent;
use crate::server::{Server, make_passable};
use crate::times::{Times, table};

/// Between two single turns: somebody who talks, not a second import.
const PAUSE: Duration = Duration::from_millis(20);

/// Imports invented conversations through the CLI and records single turns of the same user and of another meanwhile.
pub(crate) async fn run(program: &Path, exchanges: usize, turns: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let server = Server::start(program, &folder.path().join("data")).await?;
    let path = folder.path().join("invented.jsonl");
    std::fs::write(&path, jsonl(exchanges))?;
    let path = path.to_str().context("the temporary folder's name is not UTF-8")?;
    server.call(Method::POST, "/v1/users", "me", Some(&json!({"name": "other"}))).await?;

    let began = Instant::now();
    let import = async {
        server.command(&["import", path]).await?;
        let accepted = began.elapsed();
        server.command(&["import", path, "--wait"]).await?;
        Ok::<_, anyhow::Error>((accepted, began.elapsed()))
    };
    let (imported, [same, other]) = tokio::join!(import, record(&server, turns));
    let (accepted, learned) = imported?;
    let (same, other) = (same?, other?);
    server.stop().await?;

    let rate = |time: Duration| (exchanges * 2) as f64 / time.as_secs_f64();
    println!(
        "{} turns imported: accepted at {:.0} turns/s, learned at {:.1} turns/s",
        exchanges * 2,
        rate(accepted),
        rate(learned)
    );
    let mut table = table();
    table.add_row(same.row("a turn of the same user accepted"));
    table.add_row(other.row("a turn of another user accepted"));
    println!("{table}");
    Ok(())
}

fn jsonl(exchanges: usize) -> String {
    let lines = (0..exchanges).flat_map(|n| {
        let (session, turns) = invent::exchange(n);
        turns.map(|turn| {
            let occurred_at = turn.occurred_at.map(|at| at.to_rfc3339());
            json!({"session": session, "role": turn.role, "content": turn.text, "occurred_at": occurred_at}).to_string()
        })
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How long `turns` single turns took to be accepted, of the importing user and of another.
async fn record(server: &Server, turns: usize) -> [Result<Times>; 2] {
    let one = |user: &'static str| async move {
        let mut times = Times::default();
        for n in 0..turns {
            let body: Value = json!({"role": "user", "content": format!("A remark in passing, number {n}")});
            let began = Instant::now();
            server.call(Method::POST, "/v1/sessions/meanwhile/turns", user, Some(&body)).await?;
            times.note(began.elapsed());
            tokio::time::sleep(PAUSE).await;
        }
        Ok(times)
    };
    let (same, other) = tokio::join!(one("me"), one("other"));
    [same, other]
}
