//! A database and a folder of their own for each test.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::files::{FileName, FileText, MemoryFiles};
use skymem_core::{
    Embedder, EmbedderId, Embedding, Filter, Host, Layer, LayerError, ModelError, Plugin, Purpose, Query, Unit, UserId,
};
use skymem_files::FilesPlugin;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, PgPool};
use uuid::Uuid;

/// Longer than anything takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) db: PgPool,
    pub(crate) layer: Arc<dyn Layer>,
    pub(crate) anna: UserId,
    home: tempfile::TempDir,
    config: toml::Table,
    _database: Database,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// With settings of `[layers.files]`.
    pub(crate) async fn with(config: &str) -> Self {
        let database = Database::create().await;
        let db = PgPool::connect_with(database.options.clone()).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let config: toml::Table = toml::from_str(config).unwrap();
        let anna = add_user(&db, "anna").await;
        let layer = open(&db, home.path(), &config).await.unwrap();
        Self { db, layer, anna, home, config, _database: database }
    }

    /// Stops the layer and opens it again on what it left.
    pub(crate) async fn restart(&mut self) {
        self.layer = open(&self.db, self.home.path(), &self.config).await.unwrap();
    }

    /// The folder of folders.
    pub(crate) fn root(&self) -> PathBuf {
        self.home.path().join("memory-files")
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root().join("anna")
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder().join(file)
    }

    pub(crate) fn files(&self) -> &dyn MemoryFiles {
        self.layer.memory_files().unwrap()
    }

    pub(crate) async fn file(&self, file: &str) -> FileText {
        self.files().read(self.anna, &name(file)).await.unwrap()
    }

    pub(crate) async fn prompt(&self) -> String {
        self.prompt_of(self.anna).await
    }

    pub(crate) async fn prompt_of(&self, user: UserId) -> String {
        self.layer.render(&self.layer.recall(&query(user)).await.unwrap()).text
    }

    pub(crate) async fn count(&self, what: &str) -> i64 {
        let stats = self.layer.stats(self.anna).await.unwrap();
        stats.counts.iter().find(|(name, _)| name == what).unwrap().1
    }

    pub(crate) fn faults(&self) -> String {
        self.layer.faults(self.anna).join("\n")
    }

    pub(crate) async fn until_prompt_has(&self, words: &str) {
        eventually(&format!("{words:?} in the prompt"), || async { self.prompt().await.contains(words) }).await;
    }

    pub(crate) async fn until_fault_has(&self, words: &str) {
        eventually(&format!("{words:?} in the faults"), || async { self.faults().contains(words) }).await;
    }

    pub(crate) async fn until_history_has(&self, file: &str, texts: usize) {
        let kept = || async { self.files().history(self.anna, &name(file)).await.map_or(0, |all| all.len()) == texts };
        eventually(&format!("{texts} revisions of {file}"), kept).await;
    }

    /// Everything that happened on disk so far has been noticed when this returns; costs one reload.
    pub(crate) async fn caught_up(&self) {
        let marker = Uuid::new_v4().to_string();
        std::fs::write(self.path("marker.md"), format!("---\nalways: true\n---\n{marker}")).unwrap();
        self.until_prompt_has(&marker).await;
    }
}

/// A time for edits; what it is does not matter.
pub(crate) fn noon() -> DateTime<Utc> {
    "2026-02-06T12:00:00Z".parse().unwrap()
}

pub(crate) fn name(file: &str) -> FileName {
    file.parse().unwrap()
}

pub(crate) fn path(headings: &[&str]) -> Vec<String> {
    headings.iter().map(|heading| (*heading).to_owned()).collect()
}

/// Waits until `condition` holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn add_user(db: &PgPool, name: &str) -> UserId {
    let id = Uuid::new_v4();
    let insert = "insert into journal.users (id, name, created_at) values ($1, $2, $3)";
    sqlx::query(insert).bind(id).bind(name).bind(noon()).execute(db).await.unwrap();
    UserId(id)
}

pub(crate) async fn open(db: &PgPool, home: &Path, config: &toml::Table) -> Result<Arc<dyn Layer>, LayerError> {
    let host = Host {
        db: db.clone(),
        embedder: Arc::new(Nothing(EmbedderId("nothing/0".into()))),
        chat: None,
        config: config.clone(),
        memory_files: home.join("memory-files"),
    };
    FilesPlugin.open(host).await
}

fn query(user: UserId) -> Query {
    Query {
        user,
        text: "what now".into(),
        meaning: skymem_core::Meaning::known(None),
        rewrite: None,
        time_hint: None,
        session: None,
        filter: Filter::default(),
        window: Vec::new(),
        asked_at: noon(),
        as_of: None,
        known_at: None,
        limit: 4,
        unit: Unit::Exchange,
        neighbours: 0,
        least_score: 0.0,
    }
}

/// The layer embeds nothing.
struct Nothing(EmbedderId);

#[async_trait]
impl Embedder for Nothing {
    fn id(&self) -> &EmbedderId {
        &self.0
    }

    fn dimensions(&self) -> usize {
        0
    }

    fn longest_text(&self) -> usize {
        0
    }

    fn count_tokens(&self, _text: &str) -> usize {
        0
    }

    async fn embed(&self, _texts: &[&str], _purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        Err(ModelError::Refused("nothing is embedded here".into()))
    }
}

/// A database that is dropped with its test, however that ends.
struct Database {
    server: PgConnectOptions,
    options: PgConnectOptions,
    name: String,
}

impl Database {
    async fn create() -> Self {
        let server: PgConnectOptions = database_url().parse().unwrap();
        let name = format!("skymem_files_{}", Uuid::new_v4().simple());
        let mut connection = server.connect().await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await.unwrap();
        let options = server.clone().database(&name);
        let database = Self { server, options, name };
        let mut connection = database.options.connect().await.unwrap();
        sqlx::raw_sql("create schema journal").execute(&mut connection).await.unwrap();
        for migration in journal_migrations() {
            sqlx::raw_sql(AssertSqlSafe(migration)).execute(&mut connection).await.unwrap();
        }
        database
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("drop database {} with (force)", self.name));
        let work = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut connection = server.connect().await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await.unwrap();
            });
        });
        let _ = work.join();
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn database_url() -> String {
    let line = || {
        let env = std::fs::read_to_string(workspace().join(".env")).ok()?;
        env.lines().find_map(|line| line.strip_prefix("DATABASE_URL=").map(str::to_owned))
    };
    std::env::var("DATABASE_URL").ok().or_else(line).expect("DATABASE_URL names the Postgres server that tests may use")
}

fn journal_migrations() -> Vec<String> {
    let folder = workspace().join("migrations/journal");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "sql"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}
