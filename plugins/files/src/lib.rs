//! The layer of a person's Markdown files: NOW.md, MEMORY.md and what else is to be before the assistant always.
//!
//! People edit their files in their own editor; [`watch`] notices within a second, [`markdown`] reads, [`library`]
//! swaps the [`snapshot`] that requests answer from. No request touches the disk, but for an edit through a door
//! ([`doors`], [`splice`]). Each text that was ever seen is in the history (schema `files`). When the database is away,
//! new texts go live all the same and wait in memory for their place in it.
//!
//! A folder is made when its user is met for the first time: at the start, or at their first request. It then holds the
//! templates, or, when the user's files were there once and are lost, their last texts from the database.
//!
//! Times of what people do on disk are the times of the files: there is no clock here. So a file moved into place can
//! be older than the one it replaces; the order of the history is the order in which texts were seen.
//!
//! With several servers on one database, the one whose disk holds the files notices edits at once; give all of them the
//! same folder (and `watch = "poll"` when it is on a network).
//!
//! # Settings
//!
//! ```toml
//! [layers.files]
//! # What all always-loaded files of a user may cost in a prompt together, in tokens. Over it, sections are left out of
//! # the prompt from the end of the longest file, never out of the file, and the reply names them.
//! budget_tokens = 4000
//! # "auto": the system tells of changes; polling takes over when that does not work. "poll": for network folders.
//! watch = "auto"
//! # How often the disk is looked at when polling.
//! poll_seconds = 2
//! # How often it is checked that the watcher missed nothing.
//! heartbeat_seconds = 10
//! # How many revisions of each file are kept.
//! keep_revisions = 200
//! # The largest file that is read or written, in bytes.
//! max_file_bytes = 1000000
//! # The most files of a user that are read.
//! max_files = 500
//! ```

mod disk;
mod doors;
mod library;
mod markdown;
mod prompt;
mod settings;
mod snapshot;
mod splice;
mod sql;
mod watch;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use skymem_core::files::MemoryFiles;
use skymem_core::{
    Exchange, Host, Layer, LayerError, LayerName, LayerStats, Plugin, Priority, Query, Recall, Section, UserId,
};
use tokio::task::JoinHandle;

use crate::library::{Library, blocking};
use crate::settings::Settings;

/// The name of the layer, of its configuration table and of its schema.
pub const NAME: LayerName = LayerName::of("files");

/// Opens the layer of memory files.
#[derive(Debug, Clone, Copy, Default)]
pub struct FilesPlugin;

#[async_trait]
impl Plugin for FilesPlugin {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError> {
        let settings = Settings::read(&host.config)?;
        sqlx::migrate!("../../migrations/files").run(&host.db).await?;
        let root = prepared(host.memory_files).await?;
        let library = Arc::new(Library::new(host.db, root, settings));
        // The watcher first: what changes while the files are loaded is noticed.
        let watching = watch::start(Arc::clone(&library));
        let layer = FilesLayer { library, watching };
        layer.library.meet_everyone().await?;
        Ok(Arc::new(layer))
    }
}

/// People's Markdown files, live.
pub struct FilesLayer {
    library: Arc<Library>,
    watching: JoinHandle<()>,
}

#[async_trait]
impl Layer for FilesLayer {
    fn name(&self) -> LayerName {
        NAME
    }

    fn priority(&self) -> Priority {
        Priority::Always
    }

    /// Files are written by people; nothing is learned from what is said.
    async fn observe(&self, _exchanges: &[Exchange]) -> Result<(), LayerError> {
        Ok(())
    }

    /// One recall per file that is loaded, whatever the question: limits and filters of the query are for what was
    /// said. The same bytes as long as the files are the same.
    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        Ok(self.library.shelf(query.user).await?.map(|shelf| shelf.snapshot().recalls()).unwrap_or_default())
    }

    fn render(&self, chosen: &[Recall]) -> Section {
        let texts: Vec<_> = chosen.iter().map(|recall| format!("{}\n{}", recall.citation.0, recall.text)).collect();
        Section { layer: NAME, text: texts.join("\n\n"), recalls: chosen.to_vec() }
    }

    /// Files, their sections, what they cost in a prompt, kept revisions; how often a change on disk went live since
    /// the start, and whether the disk is polled (1) or watched (0).
    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError> {
        let Some(shelf) = self.library.shelf(user).await? else { return Ok(LayerStats::default()) };
        let snapshot = shelf.snapshot();
        let counts = [
            ("files", number(snapshot.count())),
            ("sections", number(snapshot.sections())),
            ("tokens", number(snapshot.tokens().0)),
            ("revisions", sql::count(&self.library.db, user).await?),
            ("reloads", i64::try_from(shelf.reloads.load(Ordering::Relaxed)).unwrap_or(i64::MAX)),
            ("polling", i64::from(self.library.polling.load(Ordering::Relaxed))),
        ];
        Ok(LayerStats {
            counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
            bytes: Some(sql::bytes(&self.library.db).await?),
        })
    }

    fn faults(&self, user: UserId) -> Vec<String> {
        self.library.known(user).map(|shelf| shelf.snapshot().faults()).unwrap_or_default()
    }

    fn memory_files(&self) -> Option<&dyn MemoryFiles> {
        Some(self)
    }
}

impl Drop for FilesLayer {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// `root`, made when it is not there, as the system knows it: watchers tell of paths below that.
async fn prepared(root: std::path::PathBuf) -> Result<std::path::PathBuf, LayerError> {
    let shown = root.display().to_string();
    let made = blocking(move || make_root(&root)).await;
    made.unwrap_or_else(|| Err(std::io::Error::other("the work broke off")))
        .map_err(|source| LayerError::Disk { what: format!("cannot make the folder of memory files, {shown}"), source })
}

fn make_root(root: &Path) -> std::io::Result<std::path::PathBuf> {
    if !root.exists() {
        std::fs::create_dir_all(root)?;
        std::fs::write(root.join("README.md"), include_str!("../../../memory-files/README.md"))?;
    }
    root.canonicalize()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
