//! A database for one test, and short ways to say things to a journal.

use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::{Exchange, LayerName, Role, Seq, SessionId, UserId};
use skymem_store::wall::for_everyone;
use skymem_store::{Append, Appended, Journal, Lease, MigrationLock, NewTurn, Recorded, migrate};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgPool};
use uuid::Uuid;

/// The layer that learns in these tests.
pub(crate) const LAYER: LayerName = LayerName::of("test");

/// Runs `test` in a fresh database with the journal's tables, and drops that database however the test ends.
pub(crate) async fn in_a_database<F>(test: impl FnOnce(PgPool) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let server = server();
    let name = format!("journal_{:032x}", rand::random::<u128>());
    let mut admin = server.connect().await.unwrap();
    sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await.unwrap();
    let db = PgPoolOptions::new().max_connections(16).connect_with(for_everyone(server.database(&name))).await.unwrap();
    let lock = MigrationLock::take(&db).await.unwrap();
    migrate(&db).await.unwrap();
    lock.release().await.unwrap();

    let outcome = tokio::spawn(test(db)).await;

    sqlx::query(AssertSqlSafe(format!("drop database {name} with (force)"))).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic.into_panic());
    }
}

/// As [`in_a_database`], with the user anna.
pub(crate) async fn in_a_journal<F>(test: impl FnOnce(Journal, UserId) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_a_database(|db| async move {
        let journal = Journal::new(db);
        let anna = a_user(&journal, "anna").await;
        test(journal, anna).await;
    })
    .await;
}

pub(crate) async fn a_user(journal: &Journal, name: &str) -> UserId {
    journal.make_user(&name.parse().unwrap(), minute(0)).await.unwrap().id
}

fn server() -> PgConnectOptions {
    let url = std::env::var("DATABASE_URL").ok().or_else(|| {
        let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.env")).ok()?;
        file.lines().find_map(|line| line.strip_prefix("DATABASE_URL=").map(str::to_owned))
    });
    let url = url.unwrap_or_else(|| panic!("neither DATABASE_URL nor .env names a Postgres to test against"));
    PgConnectOptions::from_str(&url).unwrap()
}

/// A moment: so many minutes after the tests' beginning of time.
pub(crate) fn minute(minutes: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_770_000_000, 0).unwrap() + TimeDelta::minutes(minutes)
}

pub(crate) fn session(id: &str) -> SessionId {
    id.parse().unwrap()
}

/// Turns from words: `u:hello` is said by the user, `a:`, `s:` and `t:` by the assistant, the system and a tool.
pub(crate) fn turns(said: &[&str]) -> Vec<NewTurn> {
    said.iter()
        .map(|turn| {
            let (role, text) = turn.split_once(':').unwrap();
            let role = match role {
                "u" => Role::User,
                "a" => Role::Assistant,
                "s" => Role::System,
                "t" => Role::Tool,
                other => panic!("no role {other}"),
            };
            NewTurn::new(role, text)
        })
        .collect()
}

/// The same turns, each with its text as the client's id.
pub(crate) fn with_ids(mut turns: Vec<NewTurn>) -> Vec<NewTurn> {
    for turn in &mut turns {
        turn.client_id = Some(turn.text.clone());
    }
    turns
}

/// Says `said` in session `id`.
pub(crate) async fn say(journal: &Journal, user: UserId, id: &str, said: &[&str]) -> Appended {
    journal.append(user, Append::said(session(id), turns(said), minute(0))).await.unwrap()
}

pub(crate) fn recorded(appended: &Appended) -> Vec<Recorded> {
    appended.turns.iter().map(|turn| turn.recorded).collect()
}

/// What is said in each exchange.
pub(crate) fn texts(exchanges: &[Exchange]) -> Vec<Vec<&str>> {
    exchanges.iter().map(|exchange| exchange.turns.iter().map(|turn| turn.text.as_str()).collect()).collect()
}

/// All exchanges of a session in order, through the window.
pub(crate) async fn exchanges(journal: &Journal, user: UserId, id: &str) -> Vec<Exchange> {
    journal.window(user, &session(id), 200).await.unwrap()
}

pub(crate) fn worker() -> Uuid {
    Uuid::from_u128(rand::random())
}

pub(crate) async fn lease(journal: &Journal, owner: Uuid, minutes: i64) -> Option<Lease> {
    journal.lease(&LAYER, owner, minute(minutes), TimeDelta::minutes(10)).await.unwrap()
}

/// Learns all there is to learn, of all users, and says what it was.
pub(crate) async fn learn(journal: &Journal) -> Vec<Exchange> {
    let mut learned = Vec::new();
    while let Some(mut lease) = lease(journal, worker(), 0).await {
        while let Some(last) = learn_some(journal, &lease, 50, &mut learned).await {
            assert!(journal.advance(&mut lease, last).await.unwrap());
        }
        assert!(journal.release(&lease).await.unwrap());
    }
    learned
}

async fn learn_some(journal: &Journal, lease: &Lease, limit: usize, learned: &mut Vec<Exchange>) -> Option<Seq> {
    let unread = journal.unread(lease, limit).await.unwrap();
    let last = unread.last().map(|(seq, _)| *seq);
    learned.extend(unread.into_iter().map(|(_, exchange)| exchange));
    last
}
