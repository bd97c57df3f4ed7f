//! A server with a database of its own, and short ways to talk to it.

use std::collections::HashMap;
use std::net::TcpListener;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use skymem_core::files::{Edit, FileError, FileHead, FileName, FileText, MemoryFiles, Revision, RevisionHead};
use skymem_core::wall::acting_for_everyone;
use skymem_core::{ChatModels, Exchange, Layer, LayerError, LayerName, LayerStats, Query, Recall, Tokens, UserId};
use skymem_engine::{EngineSettings, ManualClock, Memory, Parts, Scope};
use skymem_models::Offline;
use skymem_server::{ProxySettings, Running, ServerSettings, UpstreamSettings, serve};
use skymem_store::wall::walled;
use skymem_store::{MigrationLock, migrate};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgPool};

/// A running server and a key of each kind.
pub(crate) struct House {
    pub(crate) memory: Memory,
    pub(crate) user: UserId,
    pub(crate) base: String,
    pub(crate) client: Client,
    /// Opens everything.
    pub(crate) key: String,
    /// Closed, the database is away.
    pub(crate) db: PgPool,
    running: Running,
}

/// Runs `test` in a house of its own, which is torn down however the test ends.
pub(crate) async fn in_a_house<F>(test: impl FnOnce(House) -> F + Send + 'static)
where
    F: Future<Output = House> + Send + 'static,
{
    in_a_house_with(|_| {}, test).await;
}

/// As [`in_a_house`], with chats passed on to the server at `url`.
pub(crate) async fn in_a_house_before<F>(url: String, test: impl FnOnce(House) -> F + Send + 'static)
where
    F: Future<Output = House> + Send + 'static,
{
    let upstream = UpstreamSettings { url, ..UpstreamSettings::default() };
    let proxy = ProxySettings { upstreams: [("one".to_owned(), upstream)].into(), ..ProxySettings::default() };
    in_a_house_of(ServerSettings::default(), proxy, |_| Vec::new(), test).await;
}

/// As [`in_a_house`], with other settings.
pub(crate) async fn in_a_house_with<F>(
    change: impl FnOnce(&mut ServerSettings),
    test: impl FnOnce(House) -> F + Send + 'static,
) where
    F: Future<Output = House> + Send + 'static,
{
    let mut settings = ServerSettings::default();
    change(&mut settings);
    in_a_house_of(settings, ProxySettings::default(), |_| Vec::new(), test).await;
}

/// As [`in_a_house`], with a further layer, which is opened on the house's database.
pub(crate) async fn in_a_house_with_layer<F>(
    open: fn(PgPool) -> Arc<dyn Layer>,
    test: impl FnOnce(House) -> F + Send + 'static,
) where
    F: Future<Output = House> + Send + 'static,
{
    let layers = move |db| vec![open(db)];
    in_a_house_of(ServerSettings::default(), ProxySettings::default(), layers, test).await;
}

async fn in_a_house_of<F>(
    settings: ServerSettings,
    proxy: ProxySettings,
    layers: impl FnOnce(PgPool) -> Vec<Arc<dyn Layer>> + Send + 'static,
    test: impl FnOnce(House) -> F + Send + 'static,
) where
    F: Future<Output = House> + Send + 'static,
{
    let server = database_server();
    let name = format!("server_{:032x}", rand::random::<u128>());
    let mut admin = server.connect().await.unwrap();
    sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await.unwrap();
    let db = walled(PgPoolOptions::new().max_connections(8)).connect_with(server.database(&name)).await.unwrap();
    let settings = ServerSettings { workers: 2, ..settings };

    // What tests ask of the memory themselves; what comes through the doors is for whom they say.
    let outcome = tokio::spawn(acting_for_everyone(async move {
        let layers = layers(db.clone());
        let house = House::open(db, settings, proxy, layers).await;
        let house = test(house).await;
        house.running.stop().await.unwrap();
    }))
    .await;

    sqlx::query(AssertSqlSafe(format!("drop database {name} with (force)"))).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic.into_panic());
    }
}

impl House {
    async fn open(db: PgPool, settings: ServerSettings, proxy: ProxySettings, mut layers: Vec<Arc<dyn Layer>>) -> Self {
        layers.push(Arc::new(Shelf::default()));
        let lock = MigrationLock::take(&db).await.unwrap();
        migrate(&db).await.unwrap();
        lock.release().await.unwrap();
        let memory = Memory::new(Parts {
            db: db.clone(),
            embedder: Arc::new(Offline::new()),
            chat: ChatModels::default(),
            tokenizers: Arc::new(skymem_core::NoTokenizers),
            layers,
            clock: Arc::new(ManualClock::at("2026-02-06T12:00:00Z".parse().unwrap())),
            settings: EngineSettings::default(),
        });
        let user = memory.ensure_user(&"anna".parse().unwrap()).await.unwrap().id;
        let key = make_key(&memory, user, &[Scope::Admin]).await;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let running = serve(memory.clone(), settings, proxy, listener).await.unwrap();
        let base = format!("http://{}", running.address());
        // The client wants to know its cryptography even where there is none.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { memory, user, base, client, key, db, running }
    }

    /// A request without a key.
    pub(crate) fn bare(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(Method::from_bytes(method.as_bytes()).unwrap(), format!("{}{path}", self.base))
    }

    /// A request with the key that opens everything.
    pub(crate) fn ask(&self, method: &str, path: &str) -> RequestBuilder {
        self.bare(method, path).bearer_auth(&self.key)
    }

    /// The answer to a request that is met, with `status`.
    pub(crate) async fn told(&self, request: RequestBuilder, status: u16) -> Value {
        let response = request.send().await.unwrap();
        let (got, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(got.as_u16(), status, "{text}");
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.told(self.ask("GET", path), 200).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value, status: u16) -> Value {
        self.told(self.ask("POST", path).json(&body), status).await
    }

    /// A key of this user with these scopes alone.
    pub(crate) async fn key_with(&self, scopes: &[Scope]) -> String {
        make_key(&self.memory, self.user, scopes).await
    }
}

async fn make_key(memory: &Memory, user: UserId, scopes: &[Scope]) -> String {
    memory.make_key(user, "test", scopes, None).await.unwrap().secret.reveal().to_owned()
}

/// The problem in `response`, which must be told as RFC 9457 wants it.
pub(crate) async fn problem(response: Response) -> Value {
    let status = response.status();
    assert!(status.is_client_error() || status.is_server_error(), "{status} is no error");
    assert_eq!(response.headers()["content-type"], "application/problem+json", "{status}");
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let problem: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
    assert_eq!(problem["status"], status.as_u16(), "{problem}");
    assert_eq!(problem["request_id"], id.as_str(), "{problem}");
    for member in ["type", "title", "detail", "instance"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {problem}");
    }
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{problem}");
    problem
}

fn database_server() -> PgConnectOptions {
    let env = std::env::var("DATABASE_URL").ok().or_else(|| {
        let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.env")).ok()?;
        file.lines().find_map(|line| line.strip_prefix("DATABASE_URL=").map(str::to_owned))
    });
    let url = env.unwrap_or_else(|| panic!("DATABASE_URL names no Postgres to test against, nor does .env"));
    PgConnectOptions::from_str(&url).unwrap()
}

/// A layer that keeps whole files in a map, with the promise of the real one: nothing is overwritten silently.
#[derive(Default)]
struct Shelf(Mutex<HashMap<String, String>>);

#[async_trait]
impl Layer for Shelf {
    fn name(&self) -> LayerName {
        LayerName::of("files")
    }

    async fn observe(&self, _: &[Exchange]) -> Result<(), LayerError> {
        Ok(())
    }

    async fn recall(&self, _: &Query) -> Result<Vec<Recall>, LayerError> {
        Ok(Vec::new())
    }

    async fn stats(&self, _: UserId) -> Result<LayerStats, LayerError> {
        Ok(LayerStats { counts: vec![("files".into(), 1)], bytes: None })
    }

    fn memory_files(&self) -> Option<&dyn MemoryFiles> {
        Some(self)
    }
}

#[async_trait]
impl MemoryFiles for Shelf {
    async fn gone(&self, _: UserId) -> Result<Vec<FileName>, FileError> {
        Ok(Vec::new())
    }

    async fn list(&self, _: UserId) -> Result<Vec<FileHead>, FileError> {
        Ok(self.0.lock().unwrap().iter().map(|(name, text)| file(name, text).head).collect())
    }

    async fn read(&self, _: UserId, name: &FileName) -> Result<FileText, FileError> {
        let files = self.0.lock().unwrap();
        let text = files.get(name.as_str()).ok_or_else(|| FileError::NotFound(name.to_string()))?;
        Ok(file(name.as_str(), text))
    }

    async fn edit(&self, _: UserId, name: &FileName, edit: Edit, _: DateTime<Utc>) -> Result<FileText, FileError> {
        let Edit::Whole { base, text } = edit else { return Err(FileError::Refused("whole files only".into())) };
        let mut files = self.0.lock().unwrap();
        let current = files.get(name.as_str()).map(|text| file(name.as_str(), text));
        if current.as_ref().map(|file| &file.head.revision) != base.as_ref() {
            return Err(FileError::Stale {
                base: base.map_or("none".into(), |base| base.0),
                current: current.map(Box::new),
                yours: text,
                diff: "-old\n+new\n".into(),
            });
        }
        files.insert(name.to_string(), text.clone());
        Ok(file(name.as_str(), &text))
    }

    async fn history(&self, _: UserId, name: &FileName) -> Result<Vec<RevisionHead>, FileError> {
        Err(FileError::NotFound(name.to_string()))
    }

    async fn purge_revisions(&self, _: UserId, _: &FileName, _: &[Revision]) -> Result<usize, FileError> {
        Ok(0)
    }

    async fn revision(&self, _: UserId, name: &FileName, _: &Revision) -> Result<String, FileError> {
        Err(FileError::NotFound(name.to_string()))
    }
}

fn file(name: &str, text: &str) -> FileText {
    let head = FileHead {
        name: name.parse().unwrap(),
        revision: Revision(format!("rev{}", text.len())),
        tokens: Tokens(1),
        bytes: text.len() as u64,
        changed_at: DateTime::UNIX_EPOCH,
        always: true,
        faults: Vec::new(),
    };
    let section = skymem_core::files::FileSection { path: vec!["A/B".into()], level: 1, start: 0, end: text.len() };
    FileText { head, text: text.to_owned(), sections: vec![section] }
}
