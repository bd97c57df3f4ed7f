//! The server, wired from top to bottom.

use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use chrono::{DateTime, Utc};
use skymem_core::wall::acting_for_everyone;
use skymem_core::{ChatModels, Embedder, Host, Layer, LayerName, Ledger, User, UserName};
use skymem_engine::{Background, Clock, Folders, Memory, Parts, SystemClock};
use skymem_models::{EmbedderKind, EmbedderSettings};
use skymem_store::{Acting, Actor, Journal, Keys, MigrationLock, Scope, wall};
use sqlx::PgPool;
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, local_url};
use crate::database::{Database, Use};
use crate::door::LocalDoor;
use crate::output::{note, say};
use crate::plugins;
use crate::unlock::unlock_all;

/// Runs a server until it is told to stop.
///
/// # Errors
///
/// When it cannot start, or does not end in order; says what to do.
pub async fn serve(config: &Config) -> Result<()> {
    let mut stop = Stop::listen()?;
    let server = tokio::select! {
        started = Server::start(config, Start::default()) => started?,
        // Nothing was answered yet: there is nothing to put in order but Postgres, which stops when it is dropped.
        () = stop.asked() => return Ok(()),
    };
    say(&server.welcome(config));

    let mut server = server;
    let ended = tokio::select! {
        () = stop.asked() => Ok(()),
        ended = server.ended() => ended,
    };
    tracing::info!("Stopping");
    tokio::select! {
        stopped = server.stop() => stopped.and(ended),
        () = stop.asked() => bail!("stopped in a hurry: a second signal came before everything was put away"),
    }
}

/// A whole server in this process.
pub struct Server {
    /// What is behind its doors.
    pub memory: Memory,
    /// Where it listens.
    pub address: SocketAddr,
    /// The key of the first user, when this start made it: the only time it can be seen.
    pub first_key: Option<String>,
    doors: skymem_server::Running,
    background: Option<Background>,
    local: LocalDoor,
    data_dir: PathBuf,
    database: Database,
}

/// What a server is started with beside its configuration.
pub struct Start {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Whether layers learn in the background; tests have them learn by hand.
    pub background: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self { clock: Arc::new(SystemClock), background: true }
    }
}

impl Server {
    /// Starts everything, in order: database, tables, embedder, layers, first user and keys, doors, background work.
    ///
    /// # Errors
    ///
    /// When a part cannot start; what had been started is stopped again.
    pub async fn start(config: &Config, start: Start) -> Result<Self> {
        // First, so that a second server says so at once and touches nothing.
        let listener = listen(config.server.listen)?;
        let address = listener.local_addr().context("cannot tell the port")?;
        config.server.check(address).map_err(anyhow::Error::msg)?;

        let database = Database::open(config, Use::Server).await?;
        // Tables, the first user and keys: nothing of this is one user's.
        match acting_for_everyone(Self::open(config, start, listener, &database.pool)).await {
            Ok((memory, first_key, doors, background, local)) => {
                let data_dir = config.data_dir()?;
                Ok(Self { memory, address, first_key, doors, background, local, data_dir, database })
            }
            Err(error) => {
                if let Err(also) = database.close().await {
                    tracing::warn!(error = %also, "Postgres did not stop in order");
                }
                Err(error)
            }
        }
    }

    async fn open(
        config: &Config,
        start: Start,
        listener: TcpListener,
        pool: &PgPool,
    ) -> Result<(Memory, Option<String>, skymem_server::Running, Option<Background>, LocalDoor)> {
        let address = listener.local_addr().context("cannot tell the port")?;
        let now = start.clock.now();
        let memory = open_memory(config, start.clock, pool).await?;
        let (first_key, local) = let_in(config, pool, address, now).await?;
        unlock_all(config, &memory).await;
        let background = start.background.then(|| memory.start());
        let doors = skymem_server::serve(memory.clone(), config.server.clone(), config.proxy.clone(), listener)
            .await
            .context("the doors cannot be opened")?;
        Ok((memory, first_key, doors, background, local))
    }

    /// Waits until everything that was said through the proxy so far is written down.
    pub async fn remembers(&self) {
        self.doors.remembers().await;
    }

    /// Waits until the doors close by themselves, which they should not.
    async fn ended(&mut self) -> Result<()> {
        self.doors.wait().await.context("the HTTP server failed")?;
        bail!("the HTTP server ended by itself; the log says why")
    }

    /// Lets the layers finish what they are at, answers what is in flight, and stops the database.
    ///
    /// # Errors
    ///
    /// When Postgres does not stop in order. What was acknowledged is safe nonetheless.
    pub async fn stop(self) -> Result<()> {
        if let Err(error) = self.local.close(&self.data_dir) {
            tracing::warn!(error = format!("{error:#}"), "Commands on this machine still look for this server");
        }
        // The layers before the doors: a connection that a door's thread opened ends with that thread, and a layer that
        // was at work with it would keep its lease until it runs out.
        if let Some(background) = self.background {
            background.stop().await;
        }
        let shut = self.doors.stop().await.context("the HTTP server had failed");
        // The memory holds connections of the pool, which waits for them.
        drop(self.memory);
        self.database.close().await.and(shut)
    }

    /// What a person wants to know when it has started.
    fn welcome(&self, config: &Config) -> String {
        let url = local_url(self.address);
        let mut lines = vec![format!("skymem {} listens on {url}", env!("CARGO_PKG_VERSION")), String::new()];
        let mut line = |name: &str, value: &str| lines.push(format!("  {name:<14}{value}"));
        line("API and docs", &format!("{url}/docs"));
        line("OpenAPI", &format!("{url}/openapi.json"));
        if let Ok(folder) = config.memory_files() {
            line("memory files", &folder.join(&config.server.auth.user_without_key).display().to_string());
        }
        if let Ok(folder) = config.data_dir() {
            line("data", &folder.display().to_string());
        }
        if let Some(key) = &self.first_key {
            line("your key", key);
            lines.push(format!(
                "\nThe key is shown this once: keep it. On this machine `skymem recall ...` works without it.\nTry it:\n\n  \
                 curl -s {url}/v1/context -H 'authorization: Bearer {key}' \\\n    \
                 -H 'content-type: application/json' -d '{{\"question\": \"What do you know about me?\"}}'"
            ));
        } else if config.server.auth.enabled {
            lines.push("\nKeys: `skymem key list`, `skymem key create`. On this machine no key is needed.".into());
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// A memory over an open database: tables brought up to date, embedder and layers opened.
pub(crate) async fn open_memory(config: &Config, clock: Arc<dyn Clock>, pool: &PgPool) -> Result<Memory> {
    let embedder = open_embedder(config).await?;
    let chat = open_chat(config, &clock, Some(Arc::new(Journal::new(pool.clone()))))?;
    private_folder(&config.memory_files()?)?;
    let lock = MigrationLock::take(pool).await.context("cannot bring the database's tables up to date")?;
    let opened = open_layers(config, pool, &embedder, &chat, clock.now()).await;
    lock.release().await.context("cannot let go of the lock on the database's tables")?;
    let memory = Memory::new(Parts {
        db: pool.clone(),
        embedder,
        chat,
        tokenizers: Arc::new(skymem_models::OpenAiTokenizers),
        layers: opened?,
        clock,
        settings: config.engine.clone(),
    });
    memory.lives_in(Folders {
        data: Some(config.data_dir()?),
        memory_files: Some(config.memory_files()?),
        database: crate::database::own_folder(config)?,
    });
    Ok(memory)
}

async fn open_layers(
    config: &Config,
    pool: &PgPool,
    embedder: &Arc<dyn Embedder>,
    chat: &ChatModels,
    now: DateTime<Utc>,
) -> Result<Vec<Arc<dyn Layer>>> {
    skymem_store::migrate(pool).await.context("the journal's tables cannot be brought up to date")?;
    check_role(pool).await?;
    // Before the layers, which make folders for the users they meet.
    first_user(config, pool, now).await?;
    let mut layers = Vec::new();
    for plugin in plugins::all() {
        let name = plugin.name();
        let Some(table) = config.layers.get(name.as_str()) else { continue };
        let host = Host {
            db: pool.clone(),
            embedder: Arc::clone(embedder),
            chat: chat.main.clone(),
            config: table.clone(),
            memory_files: config.memory_files()?,
        };
        layers.push(plugin.open(host).await.with_context(|| format!("the layer {name} cannot be opened"))?);
    }
    // Also of layers that are switched off now: what they hold is somebody's.
    let schemas: Vec<String> = plugins::all().iter().map(|plugin| plugin.name().to_string()).collect();
    wall::raise(pool, &schemas).await.context("the layers' tables cannot be walled in")?;
    if layers.is_empty() {
        note("Every layer is switched off: turns are written down, and nothing is recalled.");
    }
    Ok(layers)
}

/// Refuses a role of the database that the wall does not hold, when it is needed: with more than one user.
async fn check_role(pool: &PgPool) -> Result<()> {
    let Some(role) = wall::bypassed_by(pool).await.context("cannot tell what the database's role may do")? else {
        return Ok(());
    };
    let users = Journal::new(pool.clone()).users().await.context("cannot count the users")?.len();
    if users > 1 {
        bail!("{users} users have a memory here, and {}", wall::needs_a_plain_role(&role));
    }
    tracing::warn!("{}", wall::needs_a_plain_role(&role));
    Ok(())
}

/// Makes a folder that other accounts cannot look into.
fn private_folder(folder: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Opens the configured embedder.
pub(crate) async fn open_embedder(config: &Config) -> Result<Arc<dyn Embedder>> {
    skymem_models::open(&embedder_settings(config)).await.context("the embedder cannot be opened")
}

/// Opens the configured chat models, if any; asks them nothing. What they cost is kept in `ledger`.
pub(crate) fn open_chat(
    config: &Config,
    clock: &Arc<dyn Clock>,
    ledger: Option<Arc<dyn Ledger>>,
) -> Result<ChatModels> {
    let clock = Arc::clone(clock);
    skymem_models::open_chat(&config.chat, move || clock.now(), ledger).context("the chat model cannot be opened")
}

/// The embedder's settings with the folder of models found.
pub(crate) fn embedder_settings(config: &Config) -> EmbedderSettings {
    let mut settings = config.embedder.clone();
    if settings.kind == EmbedderKind::Local && settings.folder.is_relative() {
        settings.folder = find_above(&settings.folder);
    }
    settings
}

/// `folder` in the current folder, or above the executable as set-up leaves it; as it is when it is nowhere.
fn find_above(folder: &Path) -> PathBuf {
    let here = std::env::current_dir().ok();
    let executable = std::env::current_exe().ok();
    let above = executable.iter().flat_map(|path| path.ancestors().skip(1).take(4));
    here.as_deref()
        .into_iter()
        .chain(above)
        .map(|place| place.join(folder))
        .find(|path| path.is_dir())
        .unwrap_or_else(|| here.map_or_else(|| folder.to_owned(), |here| here.join(folder)))
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow!(
            "{address} is taken by another program, perhaps by a skymem that runs already: stop that one, or choose \
             another port with server.listen (SKYMEM_SERVER__LISTEN=127.0.0.1:8766)"
        ),
        std::io::ErrorKind::PermissionDenied => {
            anyhow!("this account may not listen on {address}: choose a port above 1023 with server.listen")
        }
        std::io::ErrorKind::AddrNotAvailable => {
            anyhow!("{address} is no address of this machine: set server.listen to 127.0.0.1:{}", address.port())
        }
        _ => anyhow!("cannot listen on {address}: {error}"),
    })
}

/// Makes the first user, the first key, and the door for commands on this machine. Returns the first key when it was
/// made now, and that door.
async fn let_in(
    config: &Config,
    pool: &PgPool,
    address: SocketAddr,
    now: DateTime<Utc>,
) -> Result<(Option<String>, LocalDoor)> {
    let user = first_user(config, pool, now).await?;
    let keys = Keys::new(pool.clone()).by(Acting { actor: Actor::server(), at: now });
    let first = keys.first_key(user.id, now).await.context("cannot make the first key")?;

    let folder = config.data_dir()?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the data folder {}", folder.display()))?;
    let left = match LocalDoor::left_in(&folder)? {
        Some(door) if keys.verify(&door.key, now).await.context("cannot look at the keys")?.is_some() => Some(door.key),
        _ => None,
    };
    let key = match left {
        Some(key) => key,
        None => {
            let made = keys.make(user.id, "commands on the server's machine", &[Scope::Admin], now, None).await;
            made.context("cannot make a key")?.secret.reveal().to_owned()
        }
    };
    let door = LocalDoor { url: local_url(address), key };
    door.write(&folder)?;
    Ok((first.map(|made| made.secret.reveal().to_owned()), door))
}

/// The user that the configuration names, made when there is none.
pub(crate) async fn first_user(config: &Config, pool: &PgPool, now: DateTime<Utc>) -> Result<User> {
    let name = &config.server.auth.user_without_key;
    let name: UserName = name.parse().map_err(|bad| anyhow!("server.auth.user_without_key: {bad}"))?;
    ensure_user(&Journal::new(pool.clone()).by(Acting { actor: Actor::server(), at: now }), &name, now).await
}

/// The user of that name, made when there is none.
pub(crate) async fn ensure_user(journal: &Journal, name: &UserName, now: DateTime<Utc>) -> Result<User> {
    match journal.user_named(name).await.context("cannot look for the user")? {
        Some(user) => Ok(user),
        None => journal.make_user(name, now).await.context("cannot make the user"),
    }
}

/// Brings the journal's tables up to date, for commands that need no layer.
pub(crate) async fn migrate_journal(pool: &PgPool) -> Result<()> {
    let lock = MigrationLock::take(pool).await.context("cannot bring the database's tables up to date")?;
    let migrated = skymem_store::migrate(pool).await;
    lock.release().await.context("cannot let go of the lock on the database's tables")?;
    Ok(migrated?)
}

/// Empties a layer: its schema goes, and its cursors go back to the beginning. All it held is learned again from the
/// journal when it is opened next. Returns how many exchanges that are.
pub(crate) async fn reset_layer(pool: &PgPool, layer: &LayerName) -> Result<u64> {
    let lock = MigrationLock::take(pool).await.context("cannot lock the database's tables")?;
    let reset = async {
        skymem_store::migrate(pool).await?;
        let journal = Journal::new(pool.clone());
        // The cursors first: a layer that is empty and behind learns again, one that is empty and ahead would not.
        journal.reset_all(layer).await?;
        let drop = format!("drop schema if exists {} cascade", quoted(layer.as_str()));
        sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(pool).await?;
        let behind = journal.lag(None).await?.into_iter().filter(|lag| lag.layer == *layer).map(|lag| lag.behind);
        anyhow::Ok(behind.sum::<i64>())
    }
    .await;
    lock.release().await.context("cannot let go of the lock on the database's tables")?;
    Ok(u64::try_from(reset.with_context(|| format!("the layer {layer} cannot be emptied"))?).unwrap_or(0))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The signals that ask a server to stop.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        let catch = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_told_with_a_way_out() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();

        let error = listen(taken.local_addr().unwrap()).unwrap_err().to_string();

        assert!(error.contains("is taken") && error.contains("server.listen"), "{error}");
    }

    #[test]
    fn an_address_of_another_machine_is_told() {
        let error = listen("192.0.2.1:0".parse().unwrap()).unwrap_err().to_string();

        assert!(error.contains("is no address of this machine"), "{error}");
    }
}
