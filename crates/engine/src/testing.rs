//! Layers and an embedder that do what a test says.

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::{
    Citation, Embedder, EmbedderId, Embedding, Exchange, Layer, LayerError, LayerName, LayerStats, ModelError,
    Priority, Provenance, Purpose, Query, Recall, RecallId, Score, UserId, estimate_tokens,
};

/// Somebody.
pub(crate) fn user() -> UserId {
    UserId(uuid::Uuid::from_u128(7))
}

/// A moment.
pub(crate) fn moment() -> DateTime<Utc> {
    DateTime::from_timestamp(1_770_000_000, 0).unwrap()
}

/// What a layer does when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Answers,
    IsLate,
    Fails,
    Panics,
}

/// A layer that answers the same to every question, in its way.
#[derive(Debug)]
pub(crate) struct ScriptedLayer {
    pub(crate) name: &'static str,
    pub(crate) priority: Priority,
    pub(crate) texts: Mutex<Vec<String>>,
    pub(crate) habit: Habit,
    pub(crate) asked: Mutex<Vec<Query>>,
    pub(crate) used: Mutex<Vec<RecallId>>,
}

impl ScriptedLayer {
    pub(crate) fn new(name: &'static str, priority: Priority, texts: &[&str]) -> Self {
        Self {
            name,
            priority,
            texts: Mutex::new(texts.iter().map(|text| (*text).to_owned()).collect()),
            habit: Habit::Answers,
            asked: Mutex::default(),
            used: Mutex::default(),
        }
    }

    pub(crate) fn that(self, habit: Habit) -> Self {
        Self { habit, ..self }
    }
}

#[async_trait]
impl Layer for ScriptedLayer {
    fn name(&self) -> LayerName {
        LayerName::of(self.name)
    }

    fn priority(&self) -> Priority {
        self.priority
    }

    async fn observe(&self, _: &[Exchange]) -> Result<(), LayerError> {
        Ok(())
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        self.asked.lock().unwrap().push(query.clone());
        match self.habit {
            Habit::Answers => {}
            Habit::IsLate => tokio::time::sleep(Duration::from_secs(3_600)).await,
            Habit::Fails => return Err(LayerError::Settings("as scripted".into())),
            Habit::Panics => panic!("as scripted"),
        }
        let recall = |(place, text): (usize, &String)| Recall {
            id: RecallId(format!("{}-{place}", self.name)),
            layer: self.name(),
            text: text.clone(),
            score: Score(0.5),
            citation: Citation::session(moment()),
            provenance: Provenance::default(),
            neighbours: Vec::new(),
        };
        Ok(self.texts.lock().unwrap().iter().enumerate().map(recall).collect())
    }

    async fn used(&self, _: UserId, recalls: &[RecallId], _: DateTime<Utc>) -> Result<(), LayerError> {
        self.used.lock().unwrap().extend_from_slice(recalls);
        Ok(())
    }

    async fn stats(&self, _: UserId) -> Result<LayerStats, LayerError> {
        Ok(LayerStats::default())
    }
}

/// An embedder that knows one direction, and reads 512 tokens.
#[derive(Debug, Default)]
pub(crate) struct ScriptedEmbedder {
    pub(crate) delay: Duration,
    asked: Mutex<Vec<String>>,
}

impl ScriptedEmbedder {
    /// What it was asked.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

static ID: LazyLock<EmbedderId> = LazyLock::new(|| EmbedderId("scripted/1".into()));

#[async_trait]
impl Embedder for ScriptedEmbedder {
    fn id(&self) -> &EmbedderId {
        &ID
    }

    fn dimensions(&self) -> usize {
        1
    }

    fn longest_text(&self) -> usize {
        512
    }

    fn count_tokens(&self, text: &str) -> usize {
        estimate_tokens(text).0
    }

    async fn embed(&self, texts: &[&str], _: Purpose) -> Result<Vec<Embedding>, ModelError> {
        tokio::time::sleep(self.delay).await;
        self.asked.lock().unwrap().extend(texts.iter().map(|text| (*text).to_owned()));
        Ok(texts.iter().map(|_| Embedding(vec![1.0])).collect())
    }
}
