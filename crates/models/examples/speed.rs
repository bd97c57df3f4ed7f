//! How fast the local embedder is: `cargo run --release -p skymem-models --example speed [model]`.

use std::path::Path;
use std::time::{Duration, Instant};

use skymem_core::{Embedder, ModelError, Purpose};
use skymem_models::{EmbedderSettings, open};

const SENTENCE: &str = "We talked about the garden, the price of tomatoes and what the new neighbour said. ";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ModelError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let settings = EmbedderSettings {
        model: std::env::args().nth(1),
        folder: std::env::var_os("SKYMEM_MODEL_DIR").map_or(folder, Into::into),
        threads: 1,
        cache_entries: 0,
        ..EmbedderSettings::default()
    };
    let start = Instant::now();
    let embedder = open(&settings).await?;
    println!("{}: opened in {} ms", embedder.id(), start.elapsed().as_millis());

    let question = text(&*embedder, 12);
    let passage = text(&*embedder, 60);
    let long = text(&*embedder, 200);
    embedder.embed(&[&question], Purpose::Query).await?;
    let one = |text: &str, times| best(&*embedder, vec![text.to_owned()], Purpose::Query, times);
    println!("a query of 12 tokens: {:.1} ms", one(&question, 30).await?.as_secs_f64() * 1e3);
    println!("a text of 200 tokens: {:.1} ms", one(&long, 8).await?.as_secs_f64() * 1e3);
    let passages = vec![passage.clone(); 64];
    let time = best(&*embedder, passages, Purpose::Passage, 3).await?;
    println!("passages of 60 tokens: {:.1} a second", 64.0 / time.as_secs_f64());
    let passages = keep_embedding(&*embedder, &passage);
    tokio::pin!(passages);
    let mut waits = Vec::new();
    while waits.len() < 40 {
        let start = Instant::now();
        let texts = [question.as_str()];
        let query = embedder.embed(&texts, Purpose::Query);
        tokio::pin!(query);
        tokio::select! {
            answer = &mut query => { answer?; waits.push(start.elapsed()) }
            ended = &mut passages => ended?,
        }
    }
    waits.sort();
    let [middle, longest] = [waits[20], waits[39]].map(|wait| wait.as_secs_f64() * 1e3);
    println!("a query while passages are embedded: {middle:.1} ms, at most {longest:.1} ms");
    let book = SENTENCE.repeat(10_000);
    let start = Instant::now();
    embedder.count_tokens(&book);
    println!("counting tokens: {:.1} MB a second", book.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
    if let Some(memory) = std::fs::read_to_string("/proc/self/status").ok().as_deref().and_then(resident) {
        println!("memory: {memory}");
    }
    Ok(())
}

/// Embeds `passage` over and over; ends only by an error.
async fn keep_embedding(embedder: &dyn Embedder, passage: &str) -> Result<(), ModelError> {
    loop {
        embedder.embed(&[passage; 256], Purpose::Passage).await?;
    }
}

/// A text of about `tokens`.
fn text(embedder: &dyn Embedder, tokens: usize) -> String {
    let mut text = String::new();
    for word in SENTENCE.split_inclusive(' ').cycle() {
        if embedder.count_tokens(&text) >= tokens {
            break;
        }
        text.push_str(word);
    }
    text
}

/// The shortest of several times: the others were disturbed.
async fn best(
    embedder: &dyn Embedder,
    texts: Vec<String>,
    purpose: Purpose,
    times: usize,
) -> Result<Duration, ModelError> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut best = Duration::MAX;
    for _ in 0..times {
        let start = Instant::now();
        embedder.embed(&texts, purpose).await?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn resident(status: &str) -> Option<&str> {
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")).map(str::trim)
}
