//! A memory for one test: layers and an embedder that do what the test says, a clock that stands still.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::files::FileName;
use skymem_core::{
    ChatModels, Citation, Embedder, EmbedderId, Embedding, Exchange, ExchangeId, Layer, LayerError, LayerName,
    LayerStats, ModelError, Priority, Provenance, Purpose, Query, Recall, RecallId, Role, Score, Section, SessionId,
    UserId, estimate_tokens,
};
use skymem_store::migrate;
use sqlx::PgPool;

use crate::{Content, EngineSettings, ManualClock, Memory, NewTurn, Parts, RecordRequest, Recorded};

/// Somebody.
pub(crate) fn user() -> UserId {
    UserId(uuid::Uuid::from_u128(7))
}

/// A moment.
pub(crate) fn moment() -> DateTime<Utc> {
    DateTime::from_timestamp(1_770_000_000, 0).unwrap()
}

/// A memory in an empty database, with a user.
pub(crate) struct TestMemory {
    pub(crate) memory: Memory,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) user: UserId,
}

impl TestMemory {
    pub(crate) async fn start(db: PgPool, layers: Vec<Arc<ScriptedLayer>>) -> Self {
        Self::start_with(db, layers, EngineSettings::default()).await
    }

    pub(crate) async fn start_with(db: PgPool, layers: Vec<Arc<ScriptedLayer>>, settings: EngineSettings) -> Self {
        Self::start_of(db, layers.into_iter().map(|layer| layer as Arc<dyn Layer>).collect(), settings).await
    }

    /// With any layers.
    pub(crate) async fn start_of(db: PgPool, layers: Vec<Arc<dyn Layer>>, settings: EngineSettings) -> Self {
        migrate(&db).await.unwrap();
        let clock = Arc::new(ManualClock::at(moment()));
        let parts = Parts {
            db,
            embedder: Arc::new(ScriptedEmbedder::default()),
            chat: ChatModels::default(),
            tokenizers: Arc::new(skymem_core::NoTokenizers),
            layers,
            clock: clock.clone(),
            settings,
        };
        let memory = Memory::new(parts);
        let user = memory.ensure_user(&"anna".parse().unwrap()).await.unwrap().id;
        Self { memory, clock, user }
    }

    /// The user says something in a session, and is answered.
    pub(crate) async fn says(&self, session: &str, text: &str, answer: &str) -> Recorded {
        self.records(session, vec![turn(Role::User, text), turn(Role::Assistant, answer)]).await
    }

    pub(crate) async fn records(&self, session: &str, turns: Vec<NewTurn>) -> Recorded {
        let session = session.parse().unwrap();
        let request = RecordRequest { user: self.user, session, turns, collection: None, source: None, memory: None };
        self.memory.record(request).await.unwrap()
    }
}

pub(crate) fn turn(role: Role, text: &str) -> NewTurn {
    NewTurn { role, speaker: None, content: Content::Text(text.into()), occurred_at: None, client_id: None }
}

pub(crate) fn session(id: &str) -> Option<SessionId> {
    Some(id.parse().unwrap())
}

/// What a layer does when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    Answers,
    IsLate,
    /// Blocks its thread until it is let go, or for a minute.
    Blocks,
    /// Answers, and lays several recalls out with many more words than each alone.
    Elaborates,
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
    /// What was put before an assistant, and when.
    pub(crate) used: Mutex<Vec<(RecallId, DateTime<Utc>)>>,
    /// How often each exchange was learned.
    pub(crate) learned: Mutex<HashMap<ExchangeId, usize>>,
    pub(crate) forgotten: Mutex<Vec<ExchangeId>>,
    /// What it read of memory files, by their names.
    pub(crate) read: Mutex<Vec<(String, String)>>,
    /// Whether it blocks its thread no longer.
    pub(crate) let_go: AtomicBool,
    stuck: AtomicBool,
    healed: AtomicBool,
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
            learned: Mutex::default(),
            forgotten: Mutex::default(),
            read: Mutex::default(),
            let_go: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            healed: AtomicBool::new(false),
        }
    }

    pub(crate) fn that(self, habit: Habit) -> Self {
        Self { habit, ..self }
    }

    /// From now on it learns everything.
    pub(crate) fn heals(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// Whether it is at something it never comes to the end of.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    fn learned(&self, exchange: &Exchange) {
        *self.learned.lock().unwrap().entry(exchange.id).or_default() += 1;
    }

    /// How many exchanges it has learned.
    pub(crate) fn knows(&self) -> usize {
        self.learned.lock().unwrap().len()
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

    /// Refuses what says "poison", breaks down at "bomb", is away while "away" is said, and never done with "endless".
    async fn observe(&self, exchanges: &[Exchange]) -> Result<(), LayerError> {
        for exchange in exchanges {
            match exchange.turns.first().map_or("", |turn| turn.text.as_str()) {
                _ if self.healed.load(Ordering::Relaxed) => self.learned(exchange),
                "poison" => return Err(LayerError::Model(ModelError::Refused("poison".into()))),
                "bomb" => panic!("bomb"),
                "endless" => {
                    self.stuck.store(true, Ordering::Relaxed);
                    std::future::pending().await
                }
                "away" => {
                    let reason = "away".into();
                    return Err(LayerError::Model(ModelError::Unreachable { model: "scripted".into(), reason }));
                }
                _ => self.learned(exchange),
            }
        }
        Ok(())
    }

    async fn forget(&self, _: UserId, exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        self.forgotten.lock().unwrap().extend_from_slice(exchanges);
        Ok(())
    }

    /// As it observes.
    async fn read_file(&self, _: UserId, file: &FileName, text: &str, _: DateTime<Utc>) -> Result<(), LayerError> {
        match text {
            "poison" if !self.healed.load(Ordering::Relaxed) => Err(LayerError::Settings("poison".into())),
            "bomb" => panic!("bomb"),
            text => {
                self.read.lock().unwrap().push((file.to_string(), text.to_owned()));
                Ok(())
            }
        }
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        self.asked.lock().unwrap().push(query.clone());
        match self.habit {
            Habit::Answers | Habit::Elaborates => {}
            Habit::IsLate => tokio::time::sleep(Duration::from_secs(3_600)).await,
            Habit::Blocks => {
                for _ in 0..6_000 {
                    if self.let_go.load(Ordering::SeqCst) {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
                self.let_go.store(true, Ordering::SeqCst);
            }
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

    fn render(&self, chosen: &[Recall]) -> Section {
        let mut section = Section::bullets(self.name(), chosen);
        if self.habit == Habit::Elaborates && chosen.len() > 1 {
            section.text.push_str(&"\nand so on and so forth".repeat(50));
        }
        section
    }

    async fn used(&self, _: UserId, recalls: &[RecallId], at: DateTime<Utc>) -> Result<(), LayerError> {
        self.used.lock().unwrap().extend(recalls.iter().map(|recall| (recall.clone(), at)));
        Ok(())
    }

    async fn stats(&self, _: UserId) -> Result<LayerStats, LayerError> {
        Ok(LayerStats::default())
    }
}

/// What the scripted embedder breaks down over.
pub(crate) const UNBEARABLE: &str = "what breaks the embedder?";

/// An embedder that knows one direction, and reads 512 tokens.
#[derive(Debug, Default)]
pub(crate) struct ScriptedEmbedder {
    pub(crate) delay: Duration,
    pub(crate) asked: Mutex<Vec<String>>,
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
        assert!(!texts.contains(&UNBEARABLE), "as scripted");
        self.asked.lock().unwrap().extend(texts.iter().map(|text| (*text).to_owned()));
        Ok(texts.iter().map(|_| Embedding(vec![1.0])).collect())
    }
}
