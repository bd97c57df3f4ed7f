//! The thread that looks after a running Postgres until it is told to stop.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::cluster::{Cluster, Running};
use super::{PostgresError, PostgresSettings, process};

/// How often it looks whether Postgres lives.
const LOOK: Duration = Duration::from_millis(200);

/// Between two looks whether it has ended.
const GLANCE: Duration = Duration::from_millis(10);

/// Before the first restart; doubled with each that follows soon.
const SHORTEST_BREAK: Duration = Duration::from_millis(100);

/// The longest time between two restarts.
const LONGEST_BREAK: Duration = Duration::from_secs(30);

/// A Postgres that has lived this long is taken for a healthy one.
const HEALTHY: Duration = Duration::from_secs(60);

/// How long Postgres may take to end in order, and then in disorder.
const STOP_PATIENCE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(15)];

type Stopped = Result<(), PostgresError>;

/// A hold on that thread. Letting go of it stops Postgres without waiting.
#[derive(Debug)]
pub(super) struct Keeper {
    orders: Sender<oneshot::Sender<Stopped>>,
}

/// A Postgres that takes connections.
#[derive(Debug)]
pub(super) struct Ready {
    /// Where its socket is; the same after each restart.
    pub(super) socket_folder: PathBuf,
}

impl Keeper {
    /// Starts the thread, which says in `started` when Postgres is ready or why it is not.
    ///
    /// Postgres needs a thread of its own: the system ends it with the thread that has spawned it.
    pub(super) fn start(
        settings: PostgresSettings,
        started: oneshot::Sender<Result<Ready, PostgresError>>,
    ) -> Result<Self, PostgresError> {
        let (orders, inbox) = mpsc::channel();
        let folder = settings.folder.clone();
        std::thread::Builder::new()
            .name("postgres".to_owned())
            .spawn(move || keep(&settings, started, &inbox))
            .map_err(PostgresError::io(&folder))?;
        Ok(Self { orders })
    }

    /// Stops Postgres and waits until it has ended.
    pub(super) async fn stop(self) -> Stopped {
        let (stopped, end) = oneshot::channel();
        // A thread that has ended has stopped Postgres.
        if self.orders.send(stopped).is_ok() { end.await.unwrap_or(Ok(())) } else { Ok(()) }
    }
}

/// The life of the thread.
fn keep(
    settings: &PostgresSettings,
    started: oneshot::Sender<Result<Ready, PostgresError>>,
    inbox: &Receiver<oneshot::Sender<Stopped>>,
) {
    let begun = Cluster::open(settings).and_then(|cluster| cluster.start().map(|running| (cluster, running)));
    let (cluster, running) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // Whoever asked may have gone away; then nobody wants to know.
            let _ = started.send(Err(error));
            return;
        }
    };
    // If nobody waits any more, nobody holds the other end of `inbox` either: it is stopped below.
    let _ = started.send(Ok(Ready { socket_folder: running.socket_folder.clone() }));

    let mut watch = Watch { cluster, running: Some(running), since: Instant::now(), pause: SHORTEST_BREAK };
    let mut wait = LOOK;
    loop {
        match inbox.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => wait = watch.look(),
            Ok(stopped) => {
                let result = watch.stop();
                // The folder is free before the caller hears of it.
                drop(watch);
                let _ = stopped.send(result);
                return;
            }
            Err(RecvTimeoutError::Disconnected) => {
                if let Err(error) = watch.stop() {
                    tracing::error!(%error, "PostgreSQL goes on without its server");
                }
                return;
            }
        }
    }
}

/// A cluster and how its Postgres fares.
struct Watch {
    cluster: Cluster,
    running: Option<Running>,
    since: Instant,
    pause: Duration,
}

impl Watch {
    /// Restarts Postgres when it has died. Returns the time until the next look.
    fn look(&mut self) -> Duration {
        let Some(running) = &mut self.running else { return self.restart() };
        if self.cluster.is_alive(running) {
            if self.since.elapsed() > HEALTHY {
                self.pause = SHORTEST_BREAK;
            }
            return LOOK;
        }
        tracing::warn!("PostgreSQL has died and is started again");
        self.running = None;
        self.next_pause()
    }

    fn restart(&mut self) -> Duration {
        match self.cluster.start() {
            Ok(running) => {
                tracing::info!("PostgreSQL is back");
                self.running = Some(running);
                self.since = Instant::now();
                LOOK
            }
            Err(error) => {
                tracing::error!(%error, "PostgreSQL could not be started; trying on");
                self.next_pause()
            }
        }
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_BREAK);
        pause
    }

    /// Ends Postgres in order; when that takes too long, in disorder, which costs a repair but no data.
    fn stop(&mut self) -> Stopped {
        let Some(mut running) = self.running.take() else { return Ok(()) };
        for (signal, patience) in [process::FAST, process::IMMEDIATE].into_iter().zip(STOP_PATIENCE) {
            process::signal(running.pid, signal);
            let asked = Instant::now();
            while asked.elapsed() < patience {
                if !self.cluster.is_alive(&mut running) {
                    self.cluster.tidy();
                    return Ok(());
                }
                std::thread::sleep(GLANCE);
            }
        }
        Err(PostgresError::StillRunning { folder: self.cluster.folder().to_path_buf() })
    }
}
