//! How fast a bulk import is accepted and learned, and how long a single turn waits to be accepted meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use reqwest::Method;
use serde_json::json;
use sqlx::PgPool;
use tokio::sync::watch;

use crate::invent;
use crate::server::{Server, make_passable};
use crate::times::{Times, table};

/// Between two single turns: somebody who talks, not a second import.
const PAUSE: Duration = Duration::from_millis(20);

/// How long learning is watched once all is accepted.
const WATCHED: Duration = Duration::from_secs(30);

/// Imports invented conversations through the CLI and records single turns of the same user and of another: while the
/// import is accepted, and while it is learned.
pub(crate) async fn run(program: &Path, exchanges: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let server = Server::start(program, &folder.path().join("data")).await?;
    let db = server.database().await?;
    let path = folder.path().join("invented.jsonl");
    std::fs::write(&path, jsonl(exchanges))?;
    let path = path.to_str().context("the temporary folder's name is not UTF-8")?;
    server.call(Method::POST, "/v1/users", "me", Some(&json!({"name": "other"}))).await?;

    let began = Instant::now();
    let import = ["import", path];
    let (accepting, imported) = while_recording(&server, server.command(&import)).await?;
    imported?;
    let accepted = began.elapsed();

    let before = passages(&db).await?;
    let (learning, ()) = while_recording(&server, tokio::time::sleep(WATCHED)).await?;
    let learned = passages(&db).await? - before;
    server.stop().await?;

    println!(
        "{} turns accepted at {:.0} turns/s, learned at {:.1} turns/s",
        exchanges * 2,
        (exchanges * 2) as f64 / accepted.as_secs_f64(),
        learned as f64 / WATCHED.as_secs_f64()
    );
    let mut table = table();
    let rows = [("while an import is accepted", accepting), ("while it is learned", learning)];
    for (when, [same, other]) in rows {
        table.add_row(same.row(&format!("a turn of the same user, {when}")));
        table.add_row(other.row(&format!("a turn of another user, {when}")));
    }
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

/// How long single turns of the importing user and of another took to be accepted while `work` was done.
async fn while_recording<T>(server: &Server, work: impl Future<Output = T>) -> Result<([Times; 2], T)> {
    let (done, over) = watch::channel(false);
    let work = async {
        let result = work.await;
        // Nobody listens any more when both have failed, which they say themselves.
        let _ = done.send(true);
        result
    };
    let (result, same, other) = tokio::join!(work, record(server, "me", over.clone()), record(server, "other", over));
    Ok(([same?, other?], result))
}

async fn record(server: &Server, user: &str, over: watch::Receiver<bool>) -> Result<Times> {
    let mut times = Times::default();
    let mut n = 0;
    while !*over.borrow() {
        let body = json!({"role": "user", "content": format!("A remark in passing, number {n}")});
        let began = Instant::now();
        server.call(Method::POST, "/v1/sessions/meanwhile/turns", user, Some(&body)).await?;
        times.note(began.elapsed());
        tokio::time::sleep(PAUSE).await;
        n += 1;
    }
    Ok(times)
}

/// How many turns are learned.
async fn passages(db: &PgPool) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from episodes.passage").fetch_one(db).await?)
}
