//! `skymem doctor`: says in words what is wrong, and what to do about it. Mends nothing by itself.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use skymem_core::wall::acting_for_everyone;
use skymem_core::{ChatModels, Purpose, SharedChatModel};
use skymem_engine::{Clock, SystemClock};
use skymem_models::{ChatKind, EmbedderKind};
use skymem_store::postgres::find_binaries;
use skymem_store::{Journal, wall};
use sqlx::PgPool;
use tokio::time::timeout;

use crate::cli::Context;
use crate::client::{CallError, Client};
use crate::config::Config;
use crate::database::{Database, Use, private_settings};
use crate::output::{Outcome, bytes, counted, list_at, text_at};
use crate::serve::{open_chat, open_embedder, open_memory};
use crate::unlock::read_identity;

/// Looks at everything that can go wrong; fails when something has.
pub(crate) async fn run(context: &Context) -> Result<Outcome> {
    let mut report = Report::default();
    if let Some(config) = configuration(context, &mut report) {
        let data = config.data_dir();
        match &data {
            Ok(folder) => data_folder(folder, &mut report),
            Err(error) => report.fail("data folder", format!("{error:#}"), ""),
        }
        let server = server(context, config, &mut report).await;
        acting_for_everyone(database(config, server.is_some(), &mut report)).await;
        embedder(config, server.as_ref(), &mut report).await;
        chat(config, server.as_ref(), &mut report).await;
        unlocked_at_start(config, server.as_ref(), &mut report).await;
        if let Some(client) = &server {
            memory(client, &mut report).await;
        }
    }
    Ok(report.outcome())
}

/// Whether what the configuration unlocks at the start can be unlocked, and is.
async fn unlocked_at_start(config: &Config, server: Option<&Client>, report: &mut Report) {
    for (name, settings) in &config.unlock {
        let of = "unlocking";
        let readable = settings.resolved(name, config).and_then(|unlock| {
            let identity = read_identity(&unlock.file)?;
            let whole = identity.expose().parse::<skymem_seal::Identities>();
            whole.with_context(|| unlock.file.display().to_string())?;
            Ok(unlock)
        });
        let unlock = match readable {
            Ok(unlock) => unlock,
            Err(error) => {
                let remedy = "put the identity there, and restart the server or run `skymem vault unlock`";
                report.warn(of, format!("[unlock.{name}] {error:#}"), remedy);
                continue;
            }
        };
        let Some(client) = server else {
            report.ok(of, format!("[unlock.{name}] the identity can be read"));
            continue;
        };
        let collection = unlock.collection.as_str();
        let mine = client.clone().acting_for(Some(unlock.user.to_string()));
        match mine.get(&["v1", "collections", collection, "seal"], &[]).await {
            Ok(sealed) if sealed.get("unlocked").and_then(Value::as_bool) == Some(true) => {
                report.ok(of, format!("collection {collection} is unlocked"));
            }
            Ok(_) => report.warn(
                of,
                format!("collection {collection} is locked"),
                format!(
                    "its time is over, it was locked, or the identity is none of its recipients: `skymem vault unlock \
                     {collection} --identity {}` says which",
                    unlock.file.display()
                ),
            ),
            Err(error) => report.warn(of, format!("[unlock.{name}] {error:#}"), "seal it, or take the section out"),
        }
    }
}

/// What was found, in the order in which it was looked at.
#[derive(Default)]
struct Report {
    checks: Vec<Check>,
}

#[derive(Debug, Serialize)]
struct Check {
    of: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Report {
    fn ok(&mut self, of: &'static str, found: impl Into<String>) {
        self.add(of, State::Ok, found.into(), String::new());
    }

    fn warn(&mut self, of: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(of, State::Warn, found.into(), remedy.into());
    }

    fn fail(&mut self, of: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.add(of, State::Fail, found.into(), remedy.into());
    }

    fn add(&mut self, of: &'static str, state: State, found: String, remedy: String) {
        self.checks.push(Check { of, state, found, remedy });
    }

    fn outcome(&self) -> Outcome {
        let count = |state| self.checks.iter().filter(|check| check.state == state).count();
        let (failed, warned) = (count(State::Fail), count(State::Warn));
        let mut lines: Vec<String> = self.checks.iter().map(Check::text).collect();
        lines.push(String::new());
        lines.push(match (failed, warned) {
            (0, 0) => "All is well.".into(),
            (0, warned) => format!("It works; {warned} to look at."),
            (failed, _) => format!("{failed} to mend."),
        });
        let json = json!({ "ok": failed == 0, "failed": failed, "warned": warned, "checks": self.checks });
        Outcome::new(lines.join("\n"), json).failed_if(failed > 0)
    }
}

impl Check {
    fn text(&self) -> String {
        let mark = match self.state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        let mut text = format!("{mark}  {:<14}{}", self.of, self.found);
        if !self.remedy.is_empty() {
            text.push_str(&format!("\n      {:<14}-> {}", "", self.remedy));
        }
        text
    }
}

fn configuration<'a>(context: &'a Context, report: &mut Report) -> Option<&'a Config> {
    match context.loaded() {
        Ok(loaded) => {
            let file = match &loaded.file {
                Some(file) => format!("built-in settings, {}, environment", file.display()),
                None => "built-in settings and environment".into(),
            };
            report.ok("configuration", file);
            Some(&loaded.config)
        }
        Err(error) => {
            report.fail("configuration", format!("{error:#}"), "`skymem config explain` prints every setting there is");
            None
        }
    }
}

fn data_folder(folder: &Path, report: &mut Report) {
    let shown = folder.display();
    let Some(there) = folder.ancestors().find(|path| path.exists()) else { return };
    match disk_free(there) {
        Some(free) if free < DISK_FULL => report.fail(
            "disk",
            format!("{} are left on the disk of {shown}", bytes(free)),
            "make room, or move the folder and set data.dir: Postgres stops writing when the disk is full",
        ),
        Some(free) if free < DISK_NEARLY_FULL => {
            report.warn("disk", format!("{} are left on the disk of {shown}", bytes(free)), "make room soon");
        }
        Some(free) => report.ok("disk", format!("{} are left on the disk of {shown}", bytes(free))),
        None => report.warn("disk", format!("cannot tell how much room is left at {shown}"), ""),
    }
    let probe = if folder.exists() { folder } else { there };
    match tempfile::Builder::new().prefix(".skymem-doctor-").tempfile_in(probe) {
        Ok(_) if folder.exists() => report.ok("data folder", format!("{shown}")),
        Ok(_) => report.ok("data folder", format!("{shown} is made at the first start")),
        Err(error) if !folder.is_dir() && folder.exists() => {
            report.fail("data folder", format!("{shown} is no folder ({error})"), "move it away, or set data.dir");
        }
        Err(error) => report.fail(
            "data folder",
            format!("this account cannot write to {} ({error})", probe.display()),
            "run skymem as the account that owns it, change its owner with chown, or set data.dir to a folder of yours",
        ),
    }
}

const DISK_FULL: u64 = 200_000_000;
const DISK_NEARLY_FULL: u64 = 2_000_000_000;

fn disk_free(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// How long a server may take to say that it is ready: it has less to do for that than for anything else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Finds out whether the server runs; a client to it when it does and lets us in.
async fn server(context: &Context, config: &Config, report: &mut Report) -> Option<Client> {
    let client = match context.client() {
        Ok(client) => client,
        Err(error) => {
            report.fail("server", format!("{error:#}"), "");
            return None;
        }
    };
    let Ok(ready) = timeout(PATIENCE, client.get(&["health", "ready"], &[])).await else {
        let found = format!("what listens on {} says nothing for {} s", config.server.listen, PATIENCE.as_secs());
        report.fail("server", found, "stop what listens there if it is no skymem; else its log says more");
        return None;
    };
    match ready {
        Ok(_) => report.ok("server", "runs and is ready"),
        Err(CallError::NoServer { .. }) => {
            not_running(config, report);
            return None;
        }
        Err(error) => {
            report.fail("server", format!("it runs and is not ready: {error}"), "its log says more");
            return None;
        }
    }
    match client.get(&["v1", "me"], &[]).await {
        Ok(me) => {
            report.ok("key", format!("opens the memory of {}", text_at(&me, "/user")));
            Some(client)
        }
        Err(error) => {
            report.fail("key", error.to_string(), "");
            None
        }
    }
}

fn not_running(config: &Config, report: &mut Report) {
    let address = config.server.listen;
    match TcpListener::bind(address) {
        Ok(_) => report.warn("server", format!("none runs; {address} is free"), "start it with `skymem serve`"),
        Err(error) => report.fail(
            "server",
            format!("none runs, and it could not listen on {address} ({error})"),
            "stop the program that has the port (`ss -ltnp` shows it), or set server.listen to another one",
        ),
    }
}

async fn database(config: &Config, server_runs: bool, report: &mut Report) {
    let external = match config.database.external_url() {
        Ok(url) => url.is_some(),
        Err(error) => return report.fail("database", format!("{error:#}"), "mend database.url_file"),
    };
    if !external && !private_postgres(config, server_runs, report) {
        return;
    }
    let database = match Database::open(config, Use::Command).await {
        Ok(database) => database,
        Err(error) => return report.fail("database", format!("{error:#}"), ""),
    };
    let whose = if external { "the Postgres of database.url" } else { "the private Postgres" };
    match tables(&database.pool).await {
        Ok(Tables { vector: Some(vector), journal, .. }) => {
            let journal = if journal { "" } else { "; its tables are made at the first start" };
            report.ok("database", format!("{whose} answers, pgvector {vector}{journal}"));
        }
        Ok(Tables { vector: None, version, .. }) => report.fail(
            "database",
            format!("{whose} (version {version}) has no pgvector"),
            "install it on the database's machine (on Debian: apt install postgresql-NN-pgvector), or leave database.url \
             out and skymem runs a Postgres of its own",
        ),
        Err(error) => report.fail("database", format!("{whose} gives no answer: {error}"), ""),
    }
    if let Err(error) = wall(&database.pool, report).await {
        report.warn("wall", format!("cannot tell whether it holds: {error:#}"), "");
    }
    if !server_runs {
        if let Err(error) = lag(&database.pool, report).await {
            report.warn("layers", format!("cannot tell how far they are: {error:#}"), "");
        }
        // Opening the layers brings their tables up to date, as the next start does anyhow. Another server may use an
        // external database right now: there a mere look must change nothing.
        if !external && let Err(error) = open_memory(config, Arc::new(SystemClock), &database.pool).await {
            report.fail("layers", format!("the server would not start: {error:#}"), "");
        }
    }
    if let Err(error) = database.close().await {
        report.warn("database", format!("it did not close in order: {error:#}"), "");
    }
}

/// Whether there is a private Postgres to be asked; looking at one must not make one.
fn private_postgres(config: &Config, server_runs: bool, report: &mut Report) -> bool {
    let settings = match private_settings(config) {
        Ok(settings) => settings,
        Err(error) => {
            report.fail("database", format!("{error:#}"), "");
            return false;
        }
    };
    let made = settings.folder.exists();
    match find_binaries(settings.binaries.as_deref(), None) {
        Ok(binaries) => report.ok("postgres", binaries.to_string()),
        Err(error) if server_runs => {
            report.warn(
                "postgres",
                error.to_string(),
                "the server that runs has found one; a start from here would not",
            );
        }
        Err(error) => {
            report.fail("postgres", error.to_string(), "");
            return false;
        }
    }
    if !made {
        report.ok("database", "a private Postgres is made at the first start");
    }
    made
}

struct Tables {
    version: String,
    vector: Option<String>,
    journal: bool,
}

/// What the database has of what is needed.
async fn tables(pool: &PgPool) -> sqlx::Result<Tables> {
    sqlx::query_as!(
        Tables,
        r#"
        select current_setting('server_version')                                            as "version!",
               (select default_version from pg_available_extensions where name = 'vector')  as vector,
               to_regclass('journal.turn') is not null                                      as "journal!"
        "#
    )
    .fetch_one(pool)
    .await
}

/// Whether row-level security keeps users apart, whatever a statement forgets.
async fn wall(pool: &PgPool, report: &mut Report) -> Result<()> {
    if !tables(pool).await?.journal {
        return Ok(());
    }
    let users = Journal::new(pool.clone()).users().await?.len();
    match wall::bypassed_by(pool).await? {
        None => report.ok("wall", "row-level security keeps users apart"),
        Some(role) if users > 1 => report.fail("wall", "users are not kept apart", wall::needs_a_plain_role(&role)),
        Some(role) => report.warn("wall", "good for one user only", wall::needs_a_plain_role(&role)),
    }
    Ok(())
}

async fn lag(pool: &PgPool, report: &mut Report) -> Result<()> {
    if !tables(pool).await?.journal {
        return Ok(());
    }
    for layer in Journal::new(pool.clone()).lag(None).await? {
        progress(layer.layer.as_str(), layer.behind, layer.parked, report);
    }
    Ok(())
}

fn progress(layer: &str, behind: i64, parked: i64, report: &mut Report) {
    if parked > 0 {
        report.warn(
            "layers",
            format!("{layer} could not learn {}: parked", counted(parked.unsigned_abs(), "exchange")),
            format!("`skymem stats` says why; when that is mended, `skymem stats --retry {layer}` tries again"),
        );
    }
    match behind {
        0 => report.ok("layers", format!("{layer} is up to date")),
        behind => report.warn(
            "layers",
            format!("{layer} has {} still to learn", counted(behind.unsigned_abs(), "exchange")),
            "a running server learns them in the background; until then they are not recalled",
        ),
    }
}

async fn embedder(config: &Config, server: Option<&Client>, report: &mut Report) {
    match (answering_embedder(config, server).await, config.embedder.kind) {
        (Ok(_), EmbedderKind::Offline) => report.warn(
            "embedder",
            "offline: it knows words, not meaning",
            "set embedder.kind to local, openai or ollama, then run `skymem reembed`",
        ),
        (Ok(id), _) => report.ok("embedder", id),
        (Err(error), EmbedderKind::Local) => {
            report.fail("embedder", format!("{error:#}"), "until then memory is searched by words alone")
        }
        (Err(error), _) => report.fail("embedder", format!("{error:#}"), "check [embedder]: url, model, key"),
    }
}

/// The id of the embedder that answers. The one of the running server counts: it may have been started in another folder,
/// and it knows nothing of a model that was fetched since. Without a server, the one that a start from here would get.
async fn answering_embedder(config: &Config, server: Option<&Client>) -> Result<String> {
    if let Some(server) = server
        && let Ok(health) = server.get(&["v1", "health"], &[]).await
    {
        if health.get("embedder_answers") == Some(&Value::Bool(true)) {
            return Ok(text_at(&health, "/embedder").to_owned());
        }
        let fault =
            list_at(&health, "faults").iter().filter_map(Value::as_str).find(|fault| fault.contains("embedder"));
        bail!(fault.unwrap_or("the embedder gives no answer").to_owned());
    }
    let embedder = open_embedder(config).await?;
    embedder.embed(&["ready?"], Purpose::Query).await?;
    Ok(embedder.id().to_string())
}

/// The chat models. Whatever is wrong with them, memory works: nothing here is a failure.
async fn chat(config: &Config, server: Option<&Client>, report: &mut Report) {
    let models = match server {
        Some(server) => match server.get(&["v1", "health"], &[]).await {
            Ok(health) => list_at(&health, "chat").iter().map(ChatState::of_server).collect(),
            Err(error) => return report.warn("chat model", format!("cannot tell how it is: {error}"), ""),
        },
        None => match configured_chat(config).await {
            Ok(models) => models,
            Err(error) => return report.fail("chat model", format!("the server would not start: {error:#}"), ""),
        },
    };
    chat_states(&models, config, report);
}

/// How a chat model was found.
#[derive(Debug)]
struct ChatState {
    role: String,
    model: String,
    fault: Option<String>,
}

impl ChatState {
    fn of_server(item: &Value) -> Self {
        let text = |key| text_at(item, key).to_owned();
        let answers = item.get("answers") == Some(&Value::Bool(true));
        Self { role: text("/role"), model: text("/model"), fault: (!answers).then(|| text("/fault")) }
    }

    async fn of_model(role: &str, model: &SharedChatModel) -> Self {
        let fault = model.check().await.err().map(|error| error.to_string());
        Self { role: role.into(), model: model.name().into(), fault }
    }
}

/// The models that a server started from here would ask.
async fn configured_chat(config: &Config) -> Result<Vec<ChatState>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ChatModels { main, rewriter } = open_chat(config, &clock, None)?;
    let mut states = Vec::new();
    if let Some(main) = &main {
        states.push(ChatState::of_model("main", main).await);
    }
    if let Some(rewriter) = rewriter.filter(|rewriter| main.as_ref().is_none_or(|main| !Arc::ptr_eq(main, rewriter))) {
        states.push(ChatState::of_model("rewriter", &rewriter).await);
    }
    Ok(states)
}

fn chat_states(models: &[ChatState], config: &Config, report: &mut Report) {
    if models.is_empty() {
        let chat = &config.chat;
        let found = "none: follow-ups are searched by keywords, summaries are made of sentences that were said";
        // Somebody meant to have one.
        return match chat.kind == ChatKind::None && (chat.model.is_some() || chat.url.is_some()) {
            true => {
                report.warn("chat model", found, "chat.model or chat.url is set: set chat.kind to openai or ollama too")
            }
            false => report.ok("chat model", found),
        };
    }
    for ChatState { role, model, fault } in models {
        let shown = if role == "main" { model.clone() } else { format!("{model}, the {role}") };
        match fault {
            None => report.ok("chat model", format!("{shown} answers")),
            Some(fault) => report.warn(
                "chat model",
                format!("{shown} gives no answer: {fault}"),
                "until then memory works without it: follow-ups and summaries are simpler",
            ),
        }
    }
}

/// What the running server says of the memory that our key opens.
async fn memory(client: &Client, report: &mut Report) {
    let stats = match client.get(&["v1", "stats"], &[]).await {
        Ok(stats) => stats,
        Err(error) => return report.fail("layers", error.to_string(), ""),
    };
    for layer in list_at(&stats, "layers") {
        let name = text_at(layer, "/name");
        let behind = layer.get("behind").and_then(Value::as_i64).unwrap_or(0);
        let parked = i64::try_from(list_at(layer, "parked").len()).unwrap_or(i64::MAX);
        progress(name, behind, parked, report);
        let polls = |count: &Value| text_at(count, "/name") == "polling" && count.get("count") == Some(&json!(1));
        if list_at(layer, "counts").iter().any(polls) {
            report.warn(
                "files",
                "the system does not tell of changes, so the disk is looked at every few seconds",
                "raise fs.inotify.max_user_watches, or set layers.files.watch to \"poll\" on a network folder",
            );
        }
        for fault in list_at(layer, "faults").iter().filter_map(Value::as_str) {
            report.warn("files", fault, "the last good text stays in use until it is mended");
        }
    }
}

/// The folder whose disk matters, for tests of the wording.
#[cfg(test)]
fn check_of(folder: &Path) -> Vec<(State, String)> {
    let mut report = Report::default();
    data_folder(folder, &mut report);
    report.checks.into_iter().map(|check| (check.state, check.found)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_is_no_fault() {
        let folder = tempfile::tempdir().unwrap();

        let checks = check_of(&folder.path().join("a/b"));

        assert_eq!(checks[1].0, State::Ok);
        assert!(checks[1].1.contains("at the first start"), "{checks:?}");
    }

    #[test]
    fn a_file_where_the_folder_should_be_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "").unwrap();

        let checks = check_of(&path);

        assert_eq!(checks[1].0, State::Fail);
        assert!(checks[1].1.contains("is no folder"), "{checks:?}");
    }

    #[test]
    fn one_exchange_is_one() {
        let mut report = Report::default();
        progress("episodes", 1, 1_200, &mut report);

        let found: Vec<_> = report.checks.iter().map(|check| check.found.as_str()).collect();
        assert_eq!(
            found,
            ["episodes could not learn 1,200 exchanges: parked", "episodes has 1 exchange still to learn"]
        );
    }

    #[test]
    fn a_chat_model_may_be_there_or_not_and_nothing_about_it_is_a_failure() {
        let found = |models: &[ChatState], change: fn(&mut Config)| {
            let mut config = Config::built_in().unwrap();
            change(&mut config);
            let mut report = Report::default();
            chat_states(models, &config, &mut report);
            report.checks.iter().map(|check| (check.state, check.text())).collect::<Vec<_>>()
        };
        let state = |role: &str, fault: Option<&str>| ChatState {
            role: role.into(),
            model: "llama3.2:3b".into(),
            fault: fault.map(str::to_owned),
        };

        let none = found(&[], |_| {});
        assert_eq!(none[0].0, State::Ok);
        let forgotten = found(&[], |config| config.chat.model = Some("x".into()));
        assert!(forgotten[0].0 == State::Warn && forgotten[0].1.contains("chat.kind"), "{forgotten:?}");
        let both = found(&[state("main", None), state("rewriter", Some("run `ollama pull x`"))], |_| {});
        assert!(both[0].0 == State::Ok && both[0].1.contains("llama3.2:3b answers"), "{both:?}");
        assert!(
            both[1].0 == State::Warn && both[1].1.contains("the rewriter gives no answer: run `ollama"),
            "{both:?}"
        );
    }

    #[test]
    fn what_a_server_says_of_its_chat_models_is_read_whatever_is_missing() {
        let full = ChatState::of_server(&json!({ "role": "main", "model": "m", "answers": true }));
        assert_eq!((full.role.as_str(), full.model.as_str(), full.fault), ("main", "m", None));
        assert_eq!(ChatState::of_server(&json!({})).fault.as_deref(), Some(""));
    }

    #[test]
    fn what_is_to_be_mended_decides_the_outcome() {
        let mut report = Report::default();
        report.ok("a", "fine");
        report.warn("b", "hm", "look");
        assert_eq!(report.outcome().print(true), 0);

        report.fail("c", "no", "mend");
        assert_eq!(report.outcome().print(true), 1);
    }
}
