//! Where the program is called: a folder, a database, a server.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::str::FromStr;

use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

/// A database and a data folder, both gone afterwards, and how the program is called with them.
pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) database: String,
    pub(crate) port: u16,
    pub(crate) settings: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let database = format!("skymem_cli_{name}_{}", std::process::id());
        admin(&[format!("drop database if exists {database} with (force)"), format!("create database {database}")]);
        let folder = tempfile::tempdir().unwrap();
        // Free now, and given to nobody else soon.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Self { folder, database, port, settings: Vec::new() }
    }

    pub(crate) fn url(&self) -> String {
        let options = PgConnectOptions::from_str(&admin_url()).unwrap().database(&self.database);
        options.to_url_lossy().to_string()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skymem"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SKYMEM_")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env("SKYMEM_DATA__DIR", self.folder.path().join("data"))
            .env("SKYMEM_DATABASE__URL", self.url())
            .env("SKYMEM_DATABASE__CONNECT_TIMEOUT_SECONDS", "10")
            .env("SKYMEM_EMBEDDER__KIND", "offline")
            .env("SKYMEM_SERVER__LISTEN", format!("127.0.0.1:{}", self.port))
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command that works prints as JSON.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", shown(&output)))
    }

    /// Standard output of a command that works.
    #[track_caller]
    pub(crate) fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Standard error of a command that ends with `code`.
    #[track_caller]
    pub(crate) fn error(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", shown(&output));
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn serve(&self) -> Server {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut child = self.command(&["serve"]).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut welcome = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The welcome ends with an empty line after one that says how to come in.
        let mut told = false;
        loop {
            let Some(line) = lines.next() else {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
                panic!("the server did not start: {:?} {log}", child.wait());
            };
            let line = line.unwrap();
            told |= line.contains("curl") || line.starts_with("Keys: ");
            welcome.push_str(&line);
            welcome.push('\n');
            if told && (line.contains("-d '") || line.starts_with("Keys: ")) {
                break;
            }
        }
        Server { child, welcome }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        admin(&[format!("drop database if exists {} with (force)", self.database)]);
    }
}

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) welcome: String,
}

impl Server {
    pub(crate) fn signal(&self, name: &str) {
        Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn shown(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n--- out\n{out}\n--- err\n{err}", output.status)
}

/// The database server that tests may make databases in: `DATABASE_URL`, also from `.env`.
fn admin_url() -> String {
    std::env::var("DATABASE_URL").ok().or_else(from_env_file).expect("set DATABASE_URL to a Postgres with pgvector")
}

fn from_env_file() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.env");
    let text = std::fs::read_to_string(root).ok()?;
    text.lines().find_map(|line| line.strip_prefix("DATABASE_URL=")).map(|url| url.trim_matches('"').to_owned())
}

fn admin(statements: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = PgConnectOptions::from_str(&admin_url()).unwrap();
        let mut connection = options.connect().await.unwrap();
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&mut connection).await.unwrap();
        }
        connection.close().await.unwrap();
    });
}
