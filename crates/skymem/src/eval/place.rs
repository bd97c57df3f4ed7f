//! Where scripts are played: on a server of their own, or on one that runs.

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::client::Client;
use crate::config::{Config, local_url};
use crate::serve::{Server, Start};

/// Where scripts are played.
pub(crate) enum Place {
    /// A server of their own, which can be restarted and of which nothing is left.
    Own(Box<OwnServer>),
    /// A server that others use too: throw-away users of it, emptied afterwards.
    Running(Client),
}

impl Place {
    /// A connection to it that may do everything.
    pub(crate) fn client(&self) -> &Client {
        match self {
            Place::Own(own) => &own.client,
            Place::Running(client) => client,
        }
    }

    /// Restarts it; `false` when it is not ours to restart.
    ///
    /// # Errors
    ///
    /// When it does not come back.
    pub(crate) async fn restart(&mut self) -> Result<bool> {
        match self {
            Place::Own(own) => own.restart().await.map(|()| true),
            Place::Running(_) => Ok(false),
        }
    }

    /// Whether what is done there stays when the scripts are over.
    pub(crate) fn outlives(&self) -> bool {
        matches!(self, Place::Running(_))
    }
}

/// A server in this process with a private Postgres, on a temporary folder, with everything else as configured.
pub(crate) struct OwnServer {
    config: Config,
    server: Option<Server>,
    client: Client,
    key: String,
    /// Goes away when it is dropped.
    _folder: TempDir,
}

impl OwnServer {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When it cannot start; says what to do.
    pub(crate) async fn start(configured: &Config) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("skymem-eval-").tempdir().context("cannot make a folder")?;
        let mut config = configured.clone();
        config.data.dir = folder.path().to_owned();
        config.data.memory_files.clear();
        config.database.url.0.clear();
        config.database.url_file.clear();
        config.server.listen = ([127, 0, 0, 1], 0).into();
        config.server.auth.enabled = true;
        config.server.rates.requests_per_second = 0;
        // What is asked here is what is known, not how fast: that depends on what else the machine does.
        config.engine.context.embed_deadline_ms = PATIENT_MS.max(config.engine.context.embed_deadline_ms);
        config.engine.context.recall_deadline_ms = PATIENT_MS.max(config.engine.context.recall_deadline_ms);
        config.engine.context.layer_deadline_ms.clear();
        let server = Server::start(&config, Start::default()).await.context("no server to play scripts on")?;
        let key = server.first_key.clone().context("a new server made no key")?;
        let client = Client::new(&local_url(server.address), Some(key.clone()))?;
        Ok(Self { config, server: Some(server), client, key, _folder: folder })
    }

    async fn restart(&mut self) -> Result<()> {
        self.halt().await?;
        let server = Server::start(&self.config, Start::default()).await.context("the server does not start again")?;
        self.client = Client::new(&local_url(server.address), Some(self.key.clone()))?;
        self.server = Some(server);
        Ok(())
    }

    /// Stops it; nothing of it is left.
    ///
    /// # Errors
    ///
    /// When Postgres does not stop in order.
    pub(crate) async fn stop(mut self) -> Result<()> {
        self.halt().await
    }

    async fn halt(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => server.stop().await.context("the server does not stop in order"),
            None => Ok(()),
        }
    }
}

/// Half a minute: longer than anything takes on a machine that still works.
const PATIENT_MS: u64 = 30_000;
