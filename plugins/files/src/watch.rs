//! Notices what people change on disk.
//!
//! The system tells of changes; a folder is looked at when it has been quiet for a moment, so that the many steps of one
//! save are one change. Now and then a heartbeat compares all folders with memory: when it finds something that the
//! watcher did not tell of (a network folder, a watcher that died), polling takes over until the next start.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::library::{Library, Look, SETTLE};
use crate::settings::Watch;

/// A folder is looked at when nothing has happened in it for so long,
const QUIET: Duration = Duration::from_millis(150);
/// and at the latest so long after the first change.
const PATIENCE: Duration = Duration::from_millis(600);
/// A folder that is being written to by a door is looked at so much later.
const BUSY: Duration = Duration::from_millis(50);

/// Begins to watch the folders of `library`; the watcher is there when this returns. Ends when the handle is aborted.
pub(crate) fn start(library: Arc<Library>) -> JoinHandle<()> {
    let (sender, signals) = unbounded_channel();
    let watcher = match library.settings.watch {
        Watch::Poll => None,
        Watch::Auto => watcher(&library.root, sender)
            .inspect_err(|error| tracing::warn!(%error, "Memory files cannot be watched; polling instead"))
            .ok(),
    };
    library.polling.store(watcher.is_none(), Ordering::Relaxed);
    tokio::spawn(Watching { library, watcher, signals, due: HashMap::new() }.run())
}

/// What the watcher tells of.
enum Signal {
    /// Something happened in the folder of that name.
    Changed(String),
    /// Anything may have happened.
    Overflow,
}

struct Watching {
    library: Arc<Library>,
    /// `None` when polling.
    watcher: Option<RecommendedWatcher>,
    signals: UnboundedReceiver<Signal>,
    /// The folders to look at, by name.
    due: HashMap<String, Due>,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    first: Instant,
    at: Instant,
    /// Whether the watcher told of it; else the heartbeat found it.
    told: bool,
    /// Whether it was looked at since the last signal, and seemed half saved.
    looked: bool,
}

impl Watching {
    async fn run(mut self) {
        let mut heartbeat = self.heartbeat();
        loop {
            let next = self.due.values().map(|due| due.at).min();
            tokio::select! {
                // Signals first: what the watcher has told of is not taken for missed.
                biased;
                Some(signal) = self.signals.recv() => self.note(signal),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                    if self.look_at_due().await {
                        self.poll_from_now_on();
                        heartbeat = self.heartbeat();
                    }
                }
                _ = heartbeat.tick() => self.beat().await,
            }
        }
    }

    fn heartbeat(&self) -> tokio::time::Interval {
        let settings = &self.library.settings;
        let mut beat = interval(if self.watcher.is_some() { settings.heartbeat() } else { settings.poll() });
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat
    }

    fn note(&mut self, signal: Signal) {
        match signal {
            Signal::Changed(name) => self.mark(name, true),
            Signal::Overflow => {
                for shelf in self.library.shelves() {
                    self.mark(shelf.name.clone(), true);
                }
            }
        }
    }

    fn mark(&mut self, name: String, told: bool) {
        let now = Instant::now();
        let due = self.due.entry(name).or_insert(Due { first: now, at: now, told, looked: false });
        due.at = (now + QUIET).min(due.first + PATIENCE);
        due.told |= told;
        due.looked = false;
    }

    /// Looks at the folders whose time has come. Answers whether one has changed that the watcher did not tell of.
    async fn look_at_due(&mut self) -> bool {
        let now = Instant::now();
        let names: Vec<String> =
            self.due.iter().filter(|(_, due)| due.at <= now).map(|(name, _)| name.clone()).collect();
        let mut missed = false;
        for name in names {
            let Some(due) = self.due.remove(&name) else { continue };
            let shelf = match self.library.shelf_named(&name).await {
                Ok(Some(shelf)) => shelf,
                Ok(None) => continue,
                Err(error) => {
                    tracing::debug!(user = %name, %error, "A new folder of memory files waits for the database");
                    continue;
                }
            };
            // Whoever has the turn may have to wait for the database: the other folders do not.
            let Ok(_turn) = shelf.turn.try_lock() else {
                self.due.insert(name, Due { at: now + BUSY, ..due });
                continue;
            };
            let certain = due.looked || now >= due.first + PATIENCE;
            match self.library.look(&shelf, certain).await {
                Look::Same => {}
                Look::Reloaded => {
                    missed |= !due.told;
                    self.library.keep_soon(&shelf);
                }
                Look::Unsettled => {
                    self.due.insert(name, Due { at: Instant::now() + SETTLE, looked: true, ..due });
                }
            }
        }
        missed && self.watcher.is_some()
    }

    /// Compares all folders with memory, and tries again to keep what waits for the database.
    async fn beat(&mut self) {
        for shelf in self.library.shelves() {
            self.library.keep_soon(&shelf);
            let Ok(_turn) = shelf.turn.try_lock() else { continue };
            if !self.due.contains_key(&shelf.name) && self.library.is_behind(&shelf).await {
                self.mark(shelf.name.clone(), false);
            }
        }
    }

    fn poll_from_now_on(&mut self) {
        let seconds = self.library.settings.poll_seconds;
        tracing::warn!(seconds, "The watcher missed a change of memory files; polling takes over");
        self.watcher = None;
        self.library.polling.store(true, Ordering::Relaxed);
    }
}

/// A watcher on everything below `root` that sends the names of the folders in which something happens.
fn watcher(root: &Path, signals: UnboundedSender<Signal>) -> notify::Result<RecommendedWatcher> {
    let home = root.to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        for signal in heard(&home, event) {
            // Nobody listens any more when the layer is being closed.
            let _ = signals.send(signal);
        }
    })?;
    watcher.watch(root, RecursiveMode::Recursive)?;
    Ok(watcher)
}

/// What `event` says about the folders in `root`.
fn heard(root: &Path, event: notify::Result<Event>) -> Vec<Signal> {
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            tracing::warn!(%error, "The watcher of memory files has trouble");
            return vec![Signal::Overflow];
        }
    };
    if event.need_rescan() {
        return vec![Signal::Overflow];
    }
    // Reading is no change, least of all our own.
    if matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write)) {
        return Vec::new();
    }
    let inside = event.paths.iter().filter_map(|path| path.strip_prefix(root).ok());
    inside
        .filter_map(|path| {
            let mut names = path.components().map(|name| name.as_os_str().to_string_lossy());
            let folder = names.next()?;
            // Swap files, drafts, version control.
            let hidden = folder.starts_with('.') || names.any(|name| name.starts_with('.'));
            (!hidden).then(|| Signal::Changed(folder.into_owned()))
        })
        .collect()
}
