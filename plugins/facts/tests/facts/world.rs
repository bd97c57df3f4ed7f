//! A memory with this layer alone.

use std::sync::{Arc, Mutex};

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use serde_json::{Value, json};
use skymem_core::facts::{Entity, EntityName, Fact, FactError, FactGraph, FactObject, FactsAsked, Seen, Statement};
use skymem_core::{
    ExchangeId, ExchangeKind, Filter, Host, Layer, Plugin, Query, Recall, Role, SharedChatModel, Unit, UserId,
};
use skymem_facts::FactsPlugin;
use skymem_models::Offline;
use skymem_store::{Append, Journal, NewTurn, SessionChange, Target, migrate};
use sqlx::PgPool;
use uuid::Uuid;

/// One user's memory.
pub(crate) struct World {
    pub(crate) db: PgPool,
    pub(crate) journal: Journal,
    pub(crate) layer: Arc<dyn Layer>,
    pub(crate) user: UserId,
    now: Mutex<DateTime<Utc>>,
}

/// Midnight of a day: `2024-05-01`, or of the first of a month: `2024-05`.
pub(crate) fn day(text: &str) -> DateTime<Utc> {
    let text = if text.len() == 7 { format!("{text}-01") } else { text.to_owned() };
    text.parse::<NaiveDate>().unwrap().and_hms_opt(0, 0, 0).unwrap().and_utc()
}

/// That something holds; a value in small letters or digits is a literal.
pub(crate) fn holds(subject: &str, predicate: &str, object: &str) -> Value {
    let literal = !object.starts_with(char::is_uppercase);
    let object = if literal { json!({"literal": object}) } else { json!({"entity": object}) };
    json!({"says": "holds", "subject": subject, "predicate": predicate, "object": object})
}

/// The same with more that is said.
pub(crate) fn with(mut statement: Value, more: Value) -> Value {
    statement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    statement
}

/// Everything, whenever it held.
pub(crate) fn ever() -> Seen {
    Seen { as_of: None, known_at: None }
}

impl World {
    pub(crate) async fn new(db: PgPool) -> Self {
        Self::with(db, None, "").await
    }

    pub(crate) async fn with(db: PgPool, chat: Option<SharedChatModel>, config: &str) -> Self {
        migrate(&db).await.unwrap();
        let config = toml::from_str(config).unwrap();
        let embedder = Arc::new(Offline::new());
        let host = Host { db: db.clone(), embedder, chat, config, memory_files: "unused".into() };
        let layer = FactsPlugin.open(host).await.unwrap();
        let journal = Journal::new(db.clone());
        let now = day("2026-01-01");
        let user = journal.make_user(&"anna".parse().unwrap(), now).await.unwrap().id;
        Self { db, journal, layer, user, now: Mutex::new(now) }
    }

    /// The same memory of somebody else.
    pub(crate) async fn another(&self, name: &str) -> Self {
        let user = self.journal.make_user(&name.parse().unwrap(), self.now()).await.unwrap().id;
        let (db, journal, layer) = (self.db.clone(), self.journal.clone(), Arc::clone(&self.layer));
        Self { db, journal, layer, user, now: Mutex::new(self.now()) }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    /// It is that day now.
    pub(crate) fn is(&self, date: &str) {
        *self.now.lock().unwrap() = day(date);
    }

    /// A statement is told, and learned; a minute goes by.
    pub(crate) async fn states(&self, statement: Value) -> ExchangeId {
        self.states_in("facts", "default", vec![statement]).await.remove(0)
    }

    pub(crate) async fn states_all(&self, statements: Vec<Value>) -> Vec<ExchangeId> {
        self.states_in("facts", "default", statements).await
    }

    pub(crate) async fn states_in(&self, session: &str, collection: &str, statements: Vec<Value>) -> Vec<ExchangeId> {
        self.append(session, collection, statements, None).await
    }

    /// A statement is told that was made long ago.
    pub(crate) async fn states_said_at(&self, said_at: DateTime<Utc>, statement: Value) -> ExchangeId {
        self.append("facts", "default", vec![statement], Some(said_at)).await.remove(0)
    }

    async fn append(
        &self,
        session: &str,
        collection: &str,
        statements: Vec<Value>,
        occurred_at: Option<DateTime<Utc>>,
    ) -> Vec<ExchangeId> {
        let turn = |statement: Value| {
            let read: Statement = serde_json::from_value(statement).unwrap();
            let client_id = Some(Uuid::new_v4().to_string());
            let parts = Some(serde_json::to_value(&read).unwrap());
            NewTurn { parts, client_id, occurred_at, ..NewTurn::new(Role::User, read.to_string()) }
        };
        let append = Append {
            session: session.parse().unwrap(),
            collection: Some(collection.parse().unwrap()),
            kind: ExchangeKind::Stated,
            source: "facts".parse().unwrap(),
            turns: statements.into_iter().map(turn).collect(),
            recorded_at: self.now(),
            settings: SessionChange::default(),
        };
        let appended = self.journal.append(self.user, append).await.unwrap();
        self.learn().await;
        *self.now.lock().unwrap() += TimeDelta::minutes(1);
        appended.turns.iter().map(|turn| turn.exchange.unwrap()).collect()
    }

    /// Somebody says something, and it is learned; a minute goes by.
    pub(crate) async fn says(&self, session: &str, text: &str) -> ExchangeId {
        self.turns(session, vec![NewTurn::new(Role::User, text), NewTurn::new(Role::Assistant, "I see.")]).await
    }

    pub(crate) async fn turns(&self, session: &str, turns: Vec<NewTurn>) -> ExchangeId {
        let append = Append::said(session.parse().unwrap(), turns, self.now());
        let exchange = self.journal.append(self.user, append).await.unwrap().turns[0].exchange.unwrap();
        self.learn().await;
        *self.now.lock().unwrap() += TimeDelta::minutes(1);
        exchange
    }

    /// The layer reads the journal to its end.
    pub(crate) async fn learn(&self) {
        self.learn_by(7).await;
    }

    async fn learn_by(&self, batch: usize) {
        let (owner, name) = (Uuid::new_v4(), self.layer.name());
        while let Some(mut lease) = self.journal.lease(&name, owner, self.now(), TimeDelta::seconds(60)).await.unwrap()
        {
            let unread = self.journal.unread(&lease, batch).await.unwrap();
            let exchanges: Vec<_> = unread.iter().map(|(_, exchange)| exchange.clone()).collect();
            self.layer.observe(&exchanges).await.unwrap();
            if let Some((to, _)) = unread.last() {
                assert!(self.journal.advance(&mut lease, *to).await.unwrap());
            }
            self.journal.release(&lease).await.unwrap();
        }
    }

    /// The layer reads the journal from its beginning, so many exchanges at a time.
    pub(crate) async fn learns_again(&self, batch: usize) {
        self.journal.reset(self.user, &self.layer.name()).await.unwrap();
        self.learn_by(batch).await;
    }

    pub(crate) async fn forgets(&self, exchanges: &[ExchangeId]) {
        self.journal.forget(self.user, &Target::Exchanges(exchanges.to_vec()), self.now()).await.unwrap();
    }

    pub(crate) async fn restores(&self, exchanges: &[ExchangeId]) {
        self.journal.restore(self.user, exchanges, day("2000-01")).await.unwrap();
        self.learn().await;
    }

    pub(crate) async fn reads(&self, file: &str, text: &str) {
        self.layer.read_file(self.user, &file.parse().unwrap(), text, self.now()).await.unwrap();
        *self.now.lock().unwrap() += TimeDelta::minutes(1);
    }

    pub(crate) fn graph(&self) -> &dyn FactGraph {
        self.layer.facts().unwrap()
    }

    pub(crate) async fn asks(&self, asked: FactsAsked) -> Result<Vec<Fact>, FactError> {
        self.graph().facts(self.user, &asked).await
    }

    /// Every fact about an entity, whenever it held.
    pub(crate) async fn history(&self, about: &str) -> Vec<Fact> {
        self.asks(FactsAsked { about: Some(about.parse().unwrap()), ..all(ever()) }).await.unwrap()
    }

    /// Every fact, whenever it held, in an order of its own.
    pub(crate) async fn everything(&self) -> Vec<Fact> {
        self.everything_known(None).await
    }

    pub(crate) async fn everything_known(&self, known_at: Option<DateTime<Utc>>) -> Vec<Fact> {
        let mut facts = self.asks(all(Seen { as_of: None, known_at })).await.unwrap();
        facts.sort_by_key(|fact| fact.id);
        facts
    }

    /// What holds now, a line each, in order: `Anna lives_in Bremen`.
    pub(crate) async fn holding(&self) -> Vec<String> {
        self.holding_at(self.now(), None).await
    }

    pub(crate) async fn holding_at(&self, at: DateTime<Utc>, known_at: Option<DateTime<Utc>>) -> Vec<String> {
        let facts = self.asks(all(Seen { as_of: Some(at), known_at })).await.unwrap();
        let mut lines: Vec<String> = facts.iter().map(line).collect();
        lines.sort_unstable();
        lines
    }

    pub(crate) async fn entity(&self, name: &str) -> Entity {
        let name: EntityName = name.parse().unwrap();
        self.graph().entity(self.user, &name, ever()).await.unwrap()
    }

    pub(crate) fn query(&self, text: &str) -> Query {
        Query {
            user: self.user,
            text: text.into(),
            meaning: skymem_core::Meaning::known(None),
            rewrite: None,
            time_hint: None,
            session: None,
            filter: Filter::default(),
            window: Vec::new(),
            asked_at: self.now(),
            as_of: None,
            known_at: None,
            limit: 20,
            unit: Unit::Exchange,
            neighbours: 0,
            least_score: 0.0,
        }
    }

    pub(crate) async fn recall(&self, text: &str) -> Vec<Recall> {
        self.layer.recall(&self.query(text)).await.unwrap()
    }

    /// What is recalled for a question, best first.
    pub(crate) async fn texts(&self, text: &str) -> Vec<String> {
        self.recall(text).await.into_iter().map(|recall| recall.text).collect()
    }

    pub(crate) async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.db).await.unwrap()
    }
}

pub(crate) fn all(seen: Seen) -> FactsAsked {
    FactsAsked {
        seen,
        about: None,
        predicate: None,
        exchange: None,
        collections: Vec::new(),
        limit: 10_000,
        after: None,
    }
}

/// `Anna lives_in Bremen`.
pub(crate) fn line(fact: &Fact) -> String {
    let object = match &fact.object {
        FactObject::Entity(head) => head.name.as_str(),
        FactObject::Literal(text) => text,
    };
    format!("{} {} {object}", fact.subject.name, fact.predicate)
}

/// `Anna lives_in Bremen 2024-05-01/2025-01-01`, with `!` before what was taken back.
pub(crate) fn dated(fact: &Fact) -> String {
    let date = |at: DateTime<Utc>| at.format("%Y-%m-%d").to_string();
    let mark = if fact.retracted_at.is_some() { "!" } else { "" };
    let to = fact.valid_to.map(date).unwrap_or_default();
    format!("{mark}{} {}/{to}", line(fact), date(fact.valid_from))
}
