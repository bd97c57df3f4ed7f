//! How long recall and context take in a memory of many exchanges, through HTTP, beside what they cannot do without: one
//! embedding of the question and one bare exact search.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use chrono::{DateTime, TimeDelta, Utc};
use pgvector::HalfVector;
use reqwest::Method;
use serde_json::json;
use skymem_core::{Embedder, Host, Layer, Plugin, Purpose, User};
use skymem_episodes::EpisodesPlugin;
use skymem_models::EmbedderSettings;
use skymem_store::postgres::{PostgresSettings, PrivatePostgres};
use skymem_store::wall::for_everyone;
use skymem_store::{Append, Journal};
use skymem_summaries::SummariesPlugin;
use sqlx::PgPool;
use uuid::Uuid;

use crate::invent::{self, StandIn};
use crate::server::Server;
use crate::times::{Times, table};

/// Exchanges recorded and learned at a time while a memory is filled.
const TOGETHER: usize = 100;

/// Questions asked before any is timed.
const WARM_UP: usize = 10;

/// Fills a memory of each size, asks it `questions` questions through every door, prints a table per size.
pub(crate) async fn run(program: &Path, sizes: &[usize], questions: usize) -> Result<()> {
    let embedder = skymem_models::open(&EmbedderSettings::default()).await?;
    for &exchanges in sizes {
        let folder = tempfile::tempdir()?;
        crate::server::make_passable(folder.path())?;
        let data = folder.path().join("data");
        // The first start makes tables; they are filled while no server learns from the journal at its own pace.
        Server::start(program, &data).await?.stop().await?;
        let user = fill(&data, embedder.as_ref(), exchanges).await?;
        let server = Server::start(program, &data).await?;
        let db = server.database().await?;
        server.has_learned(user.name.as_str()).await?;
        sqlx::query("vacuum analyze").execute(&db).await?;
        let learned: i64 = sqlx::query_scalar("select count(*) from episodes.vector").fetch_one(&db).await?;
        anyhow::ensure!(learned >= i64::try_from(exchanges * 2)?, "only {learned} passages have vectors");

        let mut embedding = Times::default();
        let mut exact = Times::default();
        let mut both = Times::default();
        let mut recall = Times::default();
        let mut context = Times::default();
        for n in 0..WARM_UP + questions {
            // Each door gets questions of its own, so that none finds an embedding another has asked for.
            let of = |door: usize| invent::question(n * 3 + door, exchanges);
            let began = Instant::now();
            let vectors = embedder.embed(&[&of(0)], Purpose::Query).await?;
            let embedded = began.elapsed();
            let vector = HalfVector::from_f32_slice(&vectors.first().context("no embedding")?.0);
            let began = Instant::now();
            bare_search(&db, &user, &vector).await?;
            let searched = began.elapsed();
            let began = Instant::now();
            let body = json!({"query": of(1)});
            server.call(Method::POST, "/v1/recall", user.name.as_str(), Some(&body)).await?;
            let recalled = began.elapsed();
            let began = Instant::now();
            let body = json!({"question": of(2), "session": "invented-0"});
            let pack = server.call(Method::POST, "/v1/context", user.name.as_str(), Some(&body)).await?;
            let assembled = began.elapsed();
            anyhow::ensure!(pack["gaps"].as_array().is_none_or(Vec::is_empty), "a context with gaps: {}", pack["gaps"]);
            if n >= WARM_UP {
                embedding.note(embedded);
                exact.note(searched);
                both.note(embedded + searched);
                recall.note(recalled);
                context.note(assembled);
            }
        }
        server.stop().await?;
        let mut table = table();
        table.add_row(embedding.row("one embedding of the question"));
        table.add_row(exact.row("one bare exact search"));
        table.add_row(both.row("both, one after the other"));
        table.add_row(recall.row("POST /v1/recall"));
        table.add_row(context.row("POST /v1/context"));
        println!("{exchanges} exchanges of one user");
        println!("{table}");
        println!("context / (embedding + search), p50: {:.2}\n", context.quantile_ms(0.5) / both.quantile_ms(0.5));
    }
    Ok(())
}

/// Puts invented exchanges into the memory of a new user, through journal and layer, with vectors of a stand-in.
pub(crate) async fn fill(data: &Path, embedder: &dyn Embedder, exchanges: usize) -> Result<User> {
    let settings = PostgresSettings { folder: data.join("postgres"), ..PostgresSettings::default() };
    let postgres = PrivatePostgres::start(settings).await?;
    let db = PgPool::connect_with(for_everyone(postgres.connect_options())).await?;
    let journal = Journal::new(db.clone());
    let (_, [first, _]) = invent::exchange(0);
    let now = first.occurred_at.context("an invented turn without a time")?;
    let user = journal.make_user(&"filled".parse()?, now).await?;
    let stand_in = Arc::new(StandIn::of(embedder));
    let host = || Host {
        db: db.clone(),
        embedder: Arc::clone(&stand_in) as Arc<dyn Embedder>,
        chat: None,
        config: toml::Table::new(),
        memory_files: "unused".into(),
    };
    // Whatever would be learned with the embedder: at the pace of the stand-in.
    let layers = [EpisodesPlugin.open(host()).await?, SummariesPlugin.open(host()).await?];
    for from in (0..exchanges).step_by(TOGETHER) {
        for n in from..(from + TOGETHER).min(exchanges) {
            let (session, turns) = invent::exchange(n);
            journal.append(user.id, Append::said(session.parse()?, turns.to_vec(), now)).await?;
        }
        for layer in &layers {
            learn(&journal, layer.as_ref(), now).await?;
        }
    }
    for layer in &layers {
        layer.prune(now).await?;
    }
    db.close().await;
    postgres.stop().await?;
    Ok(user)
}

/// Has `layer` learn all that it has not yet.
async fn learn(journal: &Journal, layer: &dyn Layer, now: DateTime<Utc>) -> Result<()> {
    let (name, owner) = (layer.name(), Uuid::new_v4());
    while let Some(mut lease) = journal.lease(&name, owner, now, TimeDelta::hours(1)).await? {
        loop {
            let unread = journal.unread(&lease, TOGETHER).await?;
            let Some((to, _)) = unread.last() else { break };
            let to = *to;
            let exchanges: Vec<_> = unread.into_iter().map(|(_, exchange)| exchange).collect();
            layer.observe(&exchanges).await?;
            journal.advance(&mut lease, to).await?;
        }
        journal.release(&lease).await?;
    }
    Ok(())
}

/// What any memory with vectors must do at least.
async fn bare_search(db: &PgPool, user: &User, vector: &HalfVector) -> Result<()> {
    let nearest: Vec<i64> = sqlx::query_scalar(
        "select passage_id from episodes.vector where user_id = $1 and embedder_id = 1 order by embedding <=> $2 limit 10",
    )
    .bind(user.id.0)
    .bind(vector)
    .fetch_all(db)
    .await?;
    anyhow::ensure!(nearest.len() == 10, "the search found {} of 10", nearest.len());
    Ok(())
}
