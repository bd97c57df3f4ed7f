//! Invented conversations: as many as wanted, always the same, with words as rare and as common as people's are.

use std::hash::{DefaultHasher, Hash, Hasher};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::{Embedder, EmbedderId, Embedding, ModelError, Purpose, Role};
use skymem_store::NewTurn;

/// Exchanges in one session.
const SESSION: usize = 20;

/// Different words.
const WORDS: u64 = 8_000;

/// The exchange number `n`: its session, and what was said by whom. One exchange every hour.
pub(crate) fn exchange(n: usize) -> (String, [NewTurn; 2]) {
    let said_at =
        DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(19_700) + TimeDelta::hours(i64::try_from(n).unwrap_or(0));
    let turn = |role, seed, words| NewTurn { occurred_at: Some(said_at), ..NewTurn::new(role, sentence(seed, words)) };
    let seed = n as u64 * 2;
    let session = format!("invented-{}", n / SESSION);
    (session, [turn(Role::User, seed, 8 + n % 20), turn(Role::Assistant, seed + 1, 20 + n % 40)])
}

/// A question that is like what was said in some exchange; each `n` has another.
pub(crate) fn question(n: usize, exchanges: usize) -> String {
    question_of(n, exchanges, 8)
}

/// As [`question`], of so many of the words of an exchange. Invented words are several tokens each: two make a question as
/// long as people's are.
pub(crate) fn question_of(n: usize, exchanges: usize, words: usize) -> String {
    let about = (n * 7_919) % exchanges.max(1);
    let words = sentence(about as u64 * 2, words);
    format!("What did we say on {words} number {n}?")
}

fn sentence(seed: u64, words: usize) -> String {
    (0..words as u64).map(|at| word(mix(seed, at))).collect::<Vec<_>>().join(" ")
}

/// Rank by Zipf's law: the word of rank r is about r times rarer than the first one.
fn word(chance: u64) -> String {
    let uniform = (chance % 1_000_003) as f64 / 1_000_003.0;
    let rank = (WORDS as f64).powf(uniform) as u64;
    let letters = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu"];
    let mut rest = rank * 7 + 11;
    let mut word = String::new();
    while rest > 0 {
        word.push_str(letters[(rest % 10) as usize]);
        rest /= 10;
    }
    word
}

/// A number by chance, always the same for the same two.
pub(crate) fn mix(seed: u64, at: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, at).hash(&mut hasher);
    hasher.finish()
}

/// Stands in for the real embedder while a large memory is filled: vectors of its space and size, in no time, of texts
/// nobody will ask about by meaning.
pub(crate) struct StandIn {
    id: EmbedderId,
    dimensions: usize,
    longest_text: usize,
}

impl StandIn {
    /// One for `embedder`.
    pub(crate) fn of(embedder: &dyn Embedder) -> Self {
        Self { id: embedder.id().clone(), dimensions: embedder.dimensions(), longest_text: embedder.longest_text() }
    }
}

#[async_trait]
impl Embedder for StandIn {
    fn id(&self) -> &EmbedderId {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn longest_text(&self) -> usize {
        self.longest_text
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len() / 4
    }

    async fn embed(&self, texts: &[&str], _purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        Ok(texts.iter().map(|text| direction(text, self.dimensions)).collect())
    }
}

fn direction(text: &str, dimensions: usize) -> Embedding {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let seed = hasher.finish();
    let mut values: Vec<f32> =
        (0..dimensions as u64).map(|at| (mix(seed, at) % 2_001) as f32 / 1_000.0 - 1.0).collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(1e-6);
    values.iter_mut().for_each(|value| *value /= length);
    Embedding(values)
}
