//! The program under measurement, in a data folder of its own, with the settings a new user gets.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use skymem_store::wall::for_everyone;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::process::{Child, Command};

/// A running server and the way in.
pub(crate) struct Server {
    program: PathBuf,
    data: PathBuf,
    child: Child,
    door: Door,
    client: reqwest::Client,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the server leaves in its data folder for commands on its own machine.
#[derive(Deserialize)]
struct Door {
    url: String,
    key: String,
}

/// How often it is looked whether everything is learned, 20 ms and more apart.
const MOST_LOOKS: usize = 100_000;

impl Server {
    /// Starts it on `data` and waits until it is ready.
    pub(crate) async fn start(program: &Path, data: &Path) -> Result<Self> {
        Self::start_with(program, data, &[]).await
    }

    /// As [`Server::start`], with settings of its own, by the names of their environment variables.
    pub(crate) async fn start_with(program: &Path, data: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let _ = std::fs::remove_file(data.join("local-door.json"));
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new(program)
            .arg("serve")
            .env("SKYMEM_DATA__DIR", data)
            .env("SKYMEM_SERVER__LISTEN", format!("127.0.0.1:{port}"))
            .envs(settings.iter().copied())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(data.with_extension("log"))?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let client = reqwest::Client::builder().timeout(Duration::from_secs(120)).build()?;
        for _ in 0..600 {
            if let Ok(door) = std::fs::read(data.join("local-door.json")) {
                let door: Door = serde_json::from_slice(&door)?;
                let ready = client.get(format!("{}/health/ready", door.url)).send().await;
                if ready.is_ok_and(|answer| answer.status().is_success()) {
                    return Ok(Self { program: program.to_owned(), data: data.to_owned(), child, door, client });
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("the server was not ready within a minute; see {}", data.with_extension("log").display())
    }

    /// Tells it to stop and waits until it has.
    pub(crate) async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.child.id() {
            let killed = Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
            ensure!(killed.success(), "cannot stop the server");
        }
        self.child.wait().await?;
        Ok(())
    }

    /// Asks a server that is still there to stop, and gives it a while: whatever went wrong, it is not left behind.
    fn end(&mut self) {
        // More than it takes at most to stop.
        const LOOKS: usize = 600;
        let Some(pid) = self.child.id() else { return };
        let asked = std::process::Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        for _ in 0..LOOKS {
            if !asked.as_ref().is_ok_and(ExitStatus::success)
                || self.child.try_wait().is_ok_and(|ended| ended.is_some())
            {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.start_kill();
    }

    /// Sends a request as `user` and returns the answer's JSON.
    pub(crate) async fn call(&self, method: Method, path: &str, user: &str, body: Option<&Value>) -> Result<Value> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.door.url))
            .bearer_auth(&self.door.key)
            .header("X-Memory-User", user);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        ensure!(status.is_success(), "{path}: {status}: {text}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Waits until every layer has learned all that `user` has said: what it still learns takes time from what is measured.
    pub(crate) async fn has_learned(&self, user: &str) -> Result<()> {
        for _ in 0..MOST_LOOKS {
            // What was said through the proxy is written down after the answer.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let answer = self.call(Method::GET, "/v1/layers", user, None).await?;
            let layers = answer["layers"].as_array().context("no layers in the answer")?;
            let behind =
                layers.iter().map(|layer| layer["behind"].as_u64().context("a layer that does not say how far it is"));
            if behind.sum::<Result<u64>>()? == 0 {
                return Ok(());
            }
        }
        bail!("the server has not learned everything after {MOST_LOOKS} looks")
    }

    /// The id of its process, while it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// An address of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.door.url)
    }

    /// A request with this server's key, as `user`.
    pub(crate) fn signed(&self, request: reqwest::RequestBuilder, user: &str) -> reqwest::RequestBuilder {
        request.bearer_auth(&self.door.key).header("X-Memory-User", user)
    }

    /// Runs a command of the program against this server and waits for it.
    pub(crate) async fn command(&self, args: &[&str]) -> Result<()> {
        let done = Command::new(&self.program)
            .args(args)
            .env("SKYMEM_DATA__DIR", &self.data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .await?;
        ensure!(done.success(), "skymem {} failed", args.join(" "));
        Ok(())
    }

    /// Its private Postgres, for what is to be compared with it.
    pub(crate) async fn database(&self) -> Result<PgPool> {
        database(&self.data).await
    }
}

/// Lets the account that the database runs under get to its folder.
pub(crate) fn make_passable(folder: &Path) -> Result<()> {
    Ok(std::fs::set_permissions(folder, Permissions::from_mode(0o755))?)
}

/// The private Postgres of a data folder, while it runs.
async fn database(data: &Path) -> Result<PgPool> {
    let options = PgConnectOptions::new_without_pgpass()
        .socket(data.join("postgres/run"))
        .port(5432)
        .username("skymem")
        .database("skymem");
    Ok(PgPoolOptions::new().max_connections(4).connect_with(for_everyone(options)).await?)
}
