//! A whole server in one process, for stories: real doors, real layers, a database of its own, an embedder that needs
//! no model, and a clock that moves when it is told to.
//!
//! ```no_run
//! use skymem_harness::story;
//!
//! #[test]
//! fn what_was_said_is_recalled() {
//!     story(async |server| {
//!         server.says("a", "my dog is Rex", "nice").await;
//!
//!         let context = server.context_for("b", "what is my dog called?").await;
//!
//!         assert!(context.contains("Rex"), "{context}");
//!     });
//! }
//! ```
//!
//! Layers learn by hand: [`TestServer::says`] and [`TestServer::catches_up`] wait until they have.
#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot be set up has failed")]

mod client;
mod database;
mod upstream;
mod victim;

use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use skymem::config::Config;
use skymem::serve::{Server, Start};
use skymem_core::UserId;
use skymem_core::wall::acting_for_everyone;
use skymem_engine::{Clock, ManualClock, Memory};
use skymem_models::EmbedderKind;
use tempfile::TempDir;

pub use client::{Client, Reply};
pub use database::Held;
use database::Scratch;
pub use upstream::{Answer, Delivered, Gate, Heard, Upstream, cjk, plain_client};
pub use victim::{Victim, be_the_victim};

/// Runs `test` with a server of its own, and puts everything away however the test ends.
pub fn story(test: impl AsyncFnOnce(&mut TestServer)) {
    story_with(|_| {}, test);
}

/// As [`story`], with a server that `change` configures.
pub fn story_with(change: impl FnOnce(&mut Config), test: impl AsyncFnOnce(&mut TestServer)) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let database = Scratch::make().await;
        let mut server = TestServer::start(&database, change).await;
        // What tests ask of the memory themselves; what comes through the doors is for whom they say.
        let outcome = AssertUnwindSafe(acting_for_everyone(test(&mut server))).catch_unwind().await;
        server.stop().await;
        database.drop().await;
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A server under test, and the first user's client.
pub struct TestServer {
    server: Option<Server>,
    client: Client,
    config: Config,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl TestServer {
    async fn start(database: &Scratch, change: impl FnOnce(&mut Config)) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let mut config = Config::built_in().expect("the built-in configuration is right");
        config.data.dir = folder.path().to_owned();
        config.database.url.0 = database.url().to_owned();
        config.database.pool_connections = 8;
        config.server.listen = "127.0.0.1:0".parse().expect("an address");
        config.server.workers = 1;
        config.embedder.kind = EmbedderKind::Offline;
        // A busy machine must not fail a test that is not about deadlines.
        config.engine.context.recall_deadline_ms = 30_000;
        config.engine.context.embed_deadline_ms = 30_000;
        change(&mut config);
        let clock = Arc::new(ManualClock::at(beginning()));
        let server = start(&config, &clock).await;
        let key = server.first_key.clone().expect("a new server makes a key");
        let client = Client::new(server.address, key);
        Self { server: Some(server), client, config, clock, folder }
    }

    /// The memory behind the doors.
    ///
    /// # Panics
    ///
    /// While the server is stopped.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.server.as_ref().expect("the server runs").memory
    }

    /// What time it is for the server.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Lets days go by.
    pub fn days_pass(&self, days: i64) {
        self.time_passes(TimeDelta::days(days));
    }

    /// Lets time go by.
    pub fn time_passes(&self, span: TimeDelta) {
        self.clock.pass(span);
    }

    /// The folder of a user's memory files.
    #[must_use]
    pub fn memory_files(&self, user: &str) -> PathBuf {
        self.folder.path().join("memory-files").join(user)
    }

    /// Waits until what was said through the proxy so far is written down.
    ///
    /// # Panics
    ///
    /// While the server is stopped.
    pub async fn remembers(&self) {
        self.server.as_ref().expect("the server runs").remembers().await;
    }

    /// Has every layer learn what was recorded so far, through the proxy too.
    ///
    /// # Panics
    ///
    /// When the database gives no answer.
    pub async fn catches_up(&self) {
        self.remembers().await;
        self.memory().catch_up().await.expect("layers learn");
    }

    /// Somebody says something and is answered; every layer has learned it when this returns. A minute goes by.
    pub async fn says(&self, session: &str, text: &str, answer: &str) -> uuid::Uuid {
        let exchange = self.client.says(session, text, answer).await;
        self.catches_up().await;
        self.time_passes(TimeDelta::minutes(1));
        exchange
    }

    /// Nothing is written into any journal until what this returns is dropped; reading goes on.
    ///
    /// # Panics
    ///
    /// When the database gives no answer.
    pub async fn holds_the_journals(&self) -> Held {
        Held::of(&self.config.database.url.0).await
    }

    /// Connections to the story's database like the server's own: they act for whom the work is done.
    ///
    /// # Panics
    ///
    /// When the database gives no answer.
    pub async fn walled_pool(&self) -> sqlx::PgPool {
        database::walled_pool(&self.config.database.url.0).await
    }

    /// Runs statements on the story's database, as somebody would who goes around the server.
    ///
    /// # Errors
    ///
    /// What the database says against it.
    pub async fn sql(&self, statements: &str) -> Result<(), sqlx::Error> {
        database::sql(&self.config.database.url.0, statements).await
    }

    /// In how many rows of which tables, and in how many files of the data folder, a word stands.
    ///
    /// # Panics
    ///
    /// When the database gives no answer.
    pub async fn hits(&self, word: &str) -> std::collections::BTreeMap<String, i64> {
        let url = &self.config.database.url.0;
        database::hits(url, word, self.folder.path()).await.expect("the database can be read")
    }

    /// How many rows a user has in each table, and a sum over all that stands in them; but for when a key was used last, and
    /// who is at work on a journal.
    ///
    /// # Panics
    ///
    /// When the database gives no answer.
    pub async fn rows_of(&self, user: UserId) -> std::collections::BTreeMap<String, (i64, String)> {
        database::rows_of(&self.config.database.url.0, user).await.expect("the database can be read")
    }

    /// The server ends in order and starts again on the same data, and the same clock.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub async fn restarts(&mut self) {
        self.stop().await;
        let server = start(&self.config, &self.clock).await;
        assert_eq!(server.first_key, None, "a server that has keys makes none");
        self.client.moves_to(server.address);
        self.server = Some(server);
    }

    /// One more server on the same database, by the same clock; and the first user's client at its doors. It is to be
    /// stopped.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub async fn one_more(&self) -> (Server, Client) {
        let server = start(&self.config, &self.clock).await;
        let mut client = self.client.clone();
        client.moves_to(server.address);
        (server, client)
    }

    /// A client of another user, who is made when they are new.
    ///
    /// # Panics
    ///
    /// When the server does not make them.
    pub async fn other_user(&self, name: &str) -> Client {
        self.client.post("/v1/users", serde_json::json!({ "name": name })).await.expect(200);
        let body = serde_json::json!({ "name": "test", "scopes": ["read", "write", "admin"] });
        let made = self.client.for_user(name).post("/v1/keys", body).await.expect(201);
        let key = made["text"].as_str().expect("the key's text").to_owned();
        self.client.with_key(&key)
    }

    async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await.expect("the server stops in order");
        }
    }
}

impl Deref for TestServer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

async fn start(config: &Config, clock: &Arc<ManualClock>) -> Server {
    let start = Start { clock: Arc::clone(clock) as Arc<dyn Clock>, background: false };
    match Server::start(config, start).await {
        Ok(server) => server,
        Err(error) => panic!("the server does not start: {error:#}"),
    }
}

/// When stories begin: a Monday.
#[must_use]
pub fn beginning() -> DateTime<Utc> {
    DateTime::from_timestamp(1_770_021_000, 0).expect("a moment")
}
