//! Walks through the doors of the real server, in the memory of one user who told it all facts.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use reqwest::{Client, StatusCode};
use sqlx::PgPool;

use super::world::World;
use super::{megabytes, resident_bytes};
use crate::server::{Server, make_passable};
use crate::times::{Times, table};

/// Lines of one import.
const PIECE: usize = 20_000;

/// When no claim was learned for so long, nothing more is to come.
const STILL: Duration = Duration::from_secs(60);

/// How often what takes long is done.
const FEW: usize = 5;

/// How often the server is started anew.
const STARTS: usize = 3;

/// Whose memory it is: of a new server's first user.
const USER: &str = "me";

/// Imports `world`, waits until it is learned, starts the server anew, and asks it.
pub(super) async fn run(program: &Path, world: &World, questions: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let data = folder.path().join("data");
    let server = Server::start(program, &data).await?;
    let lines: Vec<String> = world.csv().collect();
    let began = Instant::now();
    for piece in lines.chunks(PIECE) {
        import(&server, World::COLUMNS.to_owned() + &piece.concat()).await?;
    }
    let accepted = began.elapsed();
    // The same fact twice is one.
    let distinct = lines.iter().collect::<HashSet<_>>().len();
    learned(&server.database().await?, distinct).await?;
    let facts = lines.len() as f64;
    println!(
        "{facts} facts accepted in {:.0} s, {:.0} a second, learned {:.0} s after that",
        accepted.as_secs_f64(),
        facts / accepted.as_secs_f64(),
        (began.elapsed() - accepted).as_secs_f64()
    );
    sqlx::query("vacuum analyze").execute(&server.database().await?).await?;
    server.stop().await?;

    let (hub, _) = world.most_linked();
    let around = |entity| format!("/v1/graph/neighbourhood?of={}", escaped(entity));
    let between = |a, b| format!("/v1/graph/path?from={}&to={}", escaped(a), escaped(b));
    let client = Client::builder().no_proxy().build()?;
    for _ in 1..STARTS {
        start_cold(program, &data, &client, &around(world.some(0))).await?.stop().await?;
    }
    let server = start_cold(program, &data, &client, &around(world.some(0))).await?;

    let mut table = table();
    let near = |n| around(world.some(n));
    table.add_row(time(&server, &client, questions, near).await?.row("around an entity: 2 hops, 200 entities"));
    let linked = |_| around(hub);
    table.add_row(time(&server, &client, questions, linked).await?.row("around the most linked entity, alike"));
    let way = |n| between(world.some(2 * n), world.some(2 * n + 1));
    table.add_row(time(&server, &client, questions, way).await?.row("between two: 4 hops, 5 ways"));
    let far = |n| way(n) + "&hops=6&limit=20";
    table.add_row(time(&server, &client, questions, far).await?.row("between two: 6 hops, 20 ways"));
    let then = |n| way(n) + "&as_of=2024-01-01T00:00:00Z";
    table.add_row(time(&server, &client, questions, then).await?.row("between two, as it was then"));
    let of = |n| format!("/v1/facts?about={}", escaped(world.some(n)));
    table.add_row(time(&server, &client, questions, of).await?.row("the facts of an entity"));
    let groups = |_| "/v1/graph/communities".to_owned();
    table.add_row(time(&server, &client, FEW, groups).await?.row("communities"));
    let export = |_| "/v1/graph/export?format=csv".to_owned();
    table.add_row(time(&server, &client, FEW, export).await?.row("the whole graph as CSV"));
    println!("{table}");
    server.stop().await
}

/// Starts a server, which has read nothing yet, asks `question` twice, and prints how much longer the first answer takes:
/// for it all facts are read and put in order.
async fn start_cold(program: &Path, data: &Path, client: &Client, question: &str) -> Result<Server> {
    let server = Server::start(program, data).await?;
    // The key is looked up, connections are there; no layer is asked.
    ask(&server, client, "/v1/me").await?;
    let before = resident_bytes(server.process());
    let took = async || {
        let began = Instant::now();
        ask(&server, client, question).await.map(|()| began.elapsed().as_secs_f64())
    };
    let (first, second) = (took().await?, took().await?);
    let held = before.zip(resident_bytes(server.process()));
    let held = held.map_or_else(
        || "unknown memory".to_owned(),
        |(before, after)| format!("{} of memory, {} before", megabytes(after), megabytes(before)),
    );
    println!(
        "after a start, the first question takes {first:.2} s, the same again {second:.3} s; then the server has {held}"
    );
    Ok(server)
}

async fn import(server: &Server, text: String) -> Result<()> {
    let client = Client::builder().no_proxy().build()?;
    let request = client.post(server.url("/v1/facts/import")).header("content-type", "text/csv").body(text);
    let answer = server.signed(request, USER).send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    ensure!(status == StatusCode::OK, "an import: {status}: {text}");
    Ok(())
}

/// Waits until so many claims are there.
async fn learned(db: &PgPool, claims: usize) -> Result<()> {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        let now: i64 = sqlx::query_scalar("select count(*) from facts.claim").fetch_one(db).await?;
        if now >= i64::try_from(claims)? {
            return Ok(());
        }
        if now > last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > STILL {
            bail!("only {now} of {claims} facts were learned");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// How long the answers to so many questions took.
async fn time(server: &Server, client: &Client, times: usize, question: impl Fn(usize) -> String) -> Result<Times> {
    let mut all = Times::default();
    for n in 0..times {
        let question = question(n);
        let began = Instant::now();
        ask(server, client, &question).await?;
        all.note(began.elapsed());
    }
    Ok(all)
}

/// Asks and reads the answer to its end.
async fn ask(server: &Server, client: &Client, path: &str) -> Result<()> {
    let answer = server.signed(client.get(server.url(path)), USER).send().await?;
    let (status, body) = (answer.status(), answer.bytes().await?);
    ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

/// The name of an entity, as an address holds it.
fn escaped(entity: u32) -> String {
    World::name(entity).replace(' ', "%20")
}
