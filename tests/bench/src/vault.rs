//! How long it takes to unlock a large sealed collection, and to recall from it, beside the same memory in the open.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde_json::json;
use skymem_core::vault::{SecretText, UnlockWith, WrapTo};
use skymem_core::{Collection, Embedder, Host, Plugin, User};
use skymem_models::EmbedderSettings;
use skymem_store::postgres::{PostgresSettings, PrivatePostgres};
use skymem_store::wall::for_everyone;
use skymem_store::{Append, Journal, NewSeal, NewVersion, Wrapping};
use skymem_vault::VaultPlugin;
use sqlx::{AssertSqlSafe, PgPool};

use crate::invent::{self, StandIn};
use crate::latency;
use crate::server::Server;
use crate::times::{Times, table};

/// Questions asked before any is timed.
const WARM_UP: usize = 10;

/// So often is the collection unlocked.
const UNLOCKED: usize = 5;

/// Fills a memory with `exchanges`, once open and once sealed, and asks both `questions` questions.
pub(crate) async fn run(program: &Path, exchanges: usize, questions: usize) -> Result<()> {
    let embedder = skymem_models::open(&EmbedderSettings::default()).await?;
    let folder = tempfile::tempdir()?;
    crate::server::make_passable(folder.path())?;
    let data = folder.path().join("data");
    Server::start(program, &data).await?.stop().await?;
    let user = latency::fill(&data, embedder.as_ref(), exchanges).await?;
    let identity = fill_sealed(&data, embedder.as_ref(), &user, exchanges).await?;

    let server = Server::start(program, &data).await?;
    server.has_learned(user.name.as_str()).await?;
    sqlx::query("vacuum analyze").execute(&server.database().await?).await?;
    let db = server.database().await?;
    let name = user.name.as_str();
    let (mut first, mut unlock, mut open, mut sealed) =
        (Times::default(), Times::default(), Times::default(), Times::default());
    for n in 0..=UNLOCKED {
        // Nothing was read before the first time.
        let times = match n {
            0 => {
                sqlx::query("truncate vault.digest").execute(&db).await?;
                &mut first
            }
            _ => &mut unlock,
        };
        let body = json!({ "identity": identity, "minutes": 0 });
        let began = Instant::now();
        let unlocked = server.call(Method::POST, "/v1/collections/sealed/unlock", name, Some(&body)).await?;
        times.note(began.elapsed());
        ensure!(unlocked["exchanges"] == exchanges, "not all of it can be read: {unlocked}");
        all_there(&db, "digest", exchanges * 2).await?;
        if n < UNLOCKED {
            server.call(Method::POST, "/v1/vault/lock", name, Some(&json!({}))).await?;
        }
    }
    for n in 0..WARM_UP + questions {
        for (layer, times, door) in [("episodes", &mut open, 0), ("vault", &mut sealed, 1)] {
            let body = json!({ "query": invent::question(n * 2 + door, exchanges), "layers": [layer] });
            let began = Instant::now();
            let answer = server.call(Method::POST, "/v1/recall", name, Some(&body)).await?;
            if n >= WARM_UP {
                times.note(began.elapsed());
            }
            ensure!(answer["gaps"].as_array().is_none_or(Vec::is_empty), "a gap: {}", answer["gaps"]);
        }
    }
    server.stop().await?;
    let mut table = table();
    table.add_row(first.row("unlock, the first time"));
    table.add_row(unlock.row("unlock again"));
    table.add_row(open.row("POST /v1/recall, open"));
    table.add_row(sealed.row("POST /v1/recall, sealed"));
    println!("{exchanges} exchanges of one user, open and sealed");
    println!("{table}");
    println!("sealed / open, p50: {:.2}", sealed.quantile_ms(0.5) / open.quantile_ms(0.5));
    Ok(())
}

/// Puts the same exchanges into a sealed collection, with vectors of a stand-in; the identity that unlocks it.
async fn fill_sealed(data: &Path, embedder: &dyn Embedder, user: &User, exchanges: usize) -> Result<String> {
    let settings = PostgresSettings { folder: data.join("postgres"), ..PostgresSettings::default() };
    let postgres = PrivatePostgres::start(settings).await?;
    let db = PgPool::connect_with(for_everyone(postgres.connect_options())).await?;
    let journal = Journal::new(db.clone());
    let host = Host {
        db: db.clone(),
        embedder: Arc::new(StandIn::of(embedder)),
        chat: None,
        config: toml::Table::new(),
        memory_files: "unused".into(),
    };
    let layer = VaultPlugin.open(host).await?;
    let vault = layer.vault().context("the vault is a vault")?;
    let collection: Collection = "sealed".parse()?;
    let (identity, recipient) = skymem_seal::make_identity();
    let key = vault.new_key(user.id, &collection, 1, vec![WrapTo::Recipient(recipient.to_string())]).await?;
    let wrappings =
        key.wrappings.into_iter().map(|(recipient, wrapped)| Wrapping { version: 1, recipient, wrapped }).collect();
    let first = NewVersion { version: 1, public: key.public, wrappings };
    let (_, [turn, _]) = invent::exchange(0);
    let now = turn.occurred_at.context("an invented turn without a time")?;
    journal.seal_collection(user.id, &collection, &NewSeal { handles: key.handles, first }, now).await?;
    for n in 0..exchanges {
        let (session, turns) = invent::exchange(n);
        let append = Append::said(format!("sealed-{session}").parse()?, turns.to_vec(), now);
        journal.append(user.id, Append { collection: Some(collection.clone()), ..append }).await?;
    }
    let with = UnlockWith::Identity(SecretText::new(identity.to_string()));
    vault.unlock(user.id, &collection, &with, None).await?;
    all_there(&db, "vector", exchanges * 2).await?;
    db.close().await;
    postgres.stop().await?;
    Ok(identity.to_string())
}

/// Waits for what is learned behind the unlocking's back.
async fn all_there(db: &PgPool, table: &str, rows: usize) -> Result<()> {
    for _ in 0..6_000 {
        let count = sqlx::query_scalar(AssertSqlSafe(format!("select count(*) from vault.{table}")));
        let learned: i64 = count.fetch_one(db).await?;
        if learned >= i64::try_from(rows)? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("vault.{table} does not fill")
}
