//! A server in a process of its own, with a private Postgres, that can be killed.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use skymem::config::Config;
use skymem::serve::{Server, Start};
use skymem_models::EmbedderKind;

use crate::Client;

/// Names the folder that a victim lives in.
const FOLDER: &str = "SKYMEM_STORY_FOLDER";
/// What its log lets through: more than a server writes by itself, for those who look for what must not be in it.
const FILTER: &str = "SKYMEM_STORY_FILTER";
/// Where it writes down its address and its key.
const READY: &str = "ready";

/// A server in a process of its own.
pub struct Victim {
    process: Child,
    /// The first user's client.
    pub client: Client,
}

impl Victim {
    /// Starts a server on what is in `folder`. `test` is the path of an ignored test in the calling program that does
    /// nothing but [`be_the_victim`].
    ///
    /// # Panics
    ///
    /// When it does not start within two minutes.
    pub async fn start(folder: &Path, test: &str) -> Self {
        Self::start_logging(folder, test, "debug").await
    }

    /// As [`Victim::start`], with a log of what `filter` lets through: it stands in `server.log`.
    ///
    /// # Panics
    ///
    /// As [`Victim::start`].
    pub async fn start_logging(folder: &Path, test: &str, filter: &str) -> Self {
        let ready = folder.join(READY);
        let _ = std::fs::remove_file(&ready);
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .args([test, "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(FILTER, filter)
            .stdout(Stdio::null())
            .spawn()
            .expect("this program can be started again");
        let patience = Instant::now();
        loop {
            if let Some((address, key)) =
                std::fs::read_to_string(&ready).ok().as_deref().and_then(|ready| ready.split_once(' '))
            {
                let client = Client::new(address.parse().expect("an address"), key.to_owned());
                return Self { process, client };
            }
            let ended = process.try_wait().expect("a child can be asked");
            assert!(
                ended.is_none() && patience.elapsed() < Duration::from_secs(120),
                "the victim does not start: {ended:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The process of the server.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills Postgres, then the server: neither can put anything in order.
    ///
    /// # Panics
    ///
    /// When they cannot be killed.
    pub fn is_killed(mut self, folder: &Path) {
        let file = find(folder, "postmaster.pid").expect("Postgres runs");
        let text = std::fs::read_to_string(file).expect("its pid can be read");
        let pid = text.lines().next().unwrap_or_default().trim();
        let killed = Command::new("kill").args(["-9", pid]).status().expect("there is a program to kill with");
        assert!(killed.success(), "Postgres could not be killed");
        self.process.kill().expect("the server can be killed");
        self.process.wait().expect("the server has ended");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The keeper of its Postgres notices.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the server of a [`Victim`] until it is killed; returns at once when the test is run by itself.
///
/// # Panics
///
/// When the server does not start.
pub fn be_the_victim() {
    let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = Config::built_in().expect("the built-in configuration is right");
    config.data.dir.clone_from(&folder);
    config.database.binaries = binaries();
    config.server.listen = "127.0.0.1:0".parse().expect("an address");
    config.server.workers = 1;
    config.embedder.kind = EmbedderKind::Offline;
    let filter = std::env::var(FILTER).unwrap_or_else(|_| "debug".into());
    let log = std::fs::File::create(folder.join("server.log")).expect("a log can be written");
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(log).with_ansi(false);
    let _ = log.try_init();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let server = match Server::start(&config, Start::default()).await {
            Ok(server) => server,
            Err(error) => panic!("the victim does not start: {error:#}"),
        };
        let keys = folder.join("key");
        if let Some(key) = &server.first_key {
            std::fs::write(&keys, key).expect("the key can be written down");
        }
        let key = std::fs::read_to_string(&keys).expect("the key was written down");
        std::fs::write(folder.join("draft"), format!("{} {key}", server.address)).expect("the address can be written");
        std::fs::rename(folder.join("draft"), folder.join(READY)).expect("the address can be written");
        std::future::pending::<()>().await;
    });
}

/// The Postgres programs: where they are set, or as set-up leaves them; otherwise the server looks for itself.
fn binaries() -> std::path::PathBuf {
    if let Some(set) = std::env::var_os("SKYMEM_POSTGRES_BIN") {
        return set.into();
    }
    let left = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.pg/bin");
    left.canonicalize().unwrap_or_default()
}

/// A file of that name somewhere in a folder.
fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let found = files.into_iter().find(|file| file.file_name().is_some_and(|found| found == name));
    found.or_else(|| folders.iter().find_map(|folder| find(folder, name)))
}
