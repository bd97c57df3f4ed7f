//! Everyone's files: loads them, swaps what requests read, keeps their history.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use skymem_core::files::FileName;
use skymem_core::wall::{acting_for, acting_for_everyone};
use skymem_core::{LayerError, UserId, UserName};
use sqlx::PgPool;
use tokio::sync::Mutex as Turn;

use crate::disk;
use crate::settings::Settings;
use crate::snapshot::{KeptTexts, News, Next, Page, Snapshot, next};
use crate::sql;

/// How long to wait before an empty or missing file is believed to be so.
pub(crate) const SETTLE: Duration = Duration::from_millis(250);

/// How often a folder is read at first when it changes under the reader,
const ATTEMPTS: usize = 10;
/// and how long after each other.
const MOMENT: Duration = Duration::from_millis(20);

/// Everyone's files.
pub(crate) struct Library {
    pub(crate) db: PgPool,
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
    /// Whether the disk is polled instead of watched.
    pub(crate) polling: AtomicBool,
    shelves: RwLock<HashMap<UserId, Arc<Shelf>>>,
    /// One user at a time is met for the first time.
    meeting: Turn<()>,
}

/// One person's files.
pub(crate) struct Shelf {
    pub(crate) user: UserId,
    /// Of the user and of the folder.
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    /// Held by whoever compares disk and snapshot, or writes: so that our own writes are never taken for another's.
    pub(crate) turn: Turn<()>,
    /// How often texts from disk went live since the start.
    pub(crate) reloads: AtomicU64,
    snapshot: RwLock<Arc<Snapshot>>,
    /// What is still to be kept in the database, oldest first.
    news: Mutex<VecDeque<News>>,
    /// Held by whoever keeps it, so that the order stays.
    keeping: Turn<()>,
}

/// What a look at the disk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing new.
    Same,
    /// New texts are live.
    Reloaded,
    /// A save seems to be under way: look again.
    Unsettled,
}

impl Library {
    pub(crate) fn new(db: PgPool, root: PathBuf, settings: Settings) -> Self {
        Self {
            db,
            root,
            settings,
            polling: AtomicBool::new(false),
            shelves: RwLock::default(),
            meeting: Turn::default(),
        }
    }

    /// The files of `user`, from memory; from disk and database when the user is met for the first time. `None` when
    /// there is no such user.
    pub(crate) async fn shelf(&self, user: UserId) -> Result<Option<Arc<Shelf>>, LayerError> {
        if let Some(shelf) = self.known(user) {
            return Ok(Some(shelf));
        }
        match sql::user(&self.db, user).await? {
            Some(row) => self.meet(row).await.map(Some),
            None => Ok(None),
        }
    }

    /// The files of the user whose folder is called `name`; `None` when there is no such user.
    pub(crate) async fn shelf_named(&self, name: &str) -> Result<Option<Arc<Shelf>>, LayerError> {
        if let Some(shelf) = self.shelves().into_iter().find(|shelf| shelf.name == name) {
            return Ok(Some(shelf));
        }
        match acting_for_everyone(sql::user_named(&self.db, name)).await? {
            Some(row) => acting_for(row.id, self.meet(row)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Loads the files of everyone there is. One user's broken folder is not everyone's: their requests name it.
    pub(crate) async fn meet_everyone(&self) -> Result<(), LayerError> {
        for row in acting_for_everyone(sql::users(&self.db)).await? {
            let name = row.name.clone();
            match acting_for(row.id, self.meet(row)).await {
                Err(LayerError::Database(error)) => return Err(error.into()),
                Err(error) => {
                    let cause = error.source().map(ToString::to_string).unwrap_or_default();
                    tracing::error!(user = %name, %error, cause, "Memory files cannot be loaded");
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// The files of everyone met so far.
    pub(crate) fn shelves(&self) -> Vec<Arc<Shelf>> {
        read(&self.shelves).values().cloned().collect()
    }

    /// The files of `user`, if met already.
    pub(crate) fn known(&self, user: UserId) -> Option<Arc<Shelf>> {
        read(&self.shelves).get(&user).cloned()
    }

    /// Compares disk and snapshot, and makes live what is new. The caller has the shelf's turn.
    pub(crate) async fn look(&self, shelf: &Arc<Shelf>, certain: bool) -> Look {
        let before = shelf.snapshot();
        let (folder, settings) = (shelf.folder.clone(), self.settings.clone());
        let seen = blocking(move || {
            let folder = disk::look(&folder, &before.stamps(), &settings);
            next(&before, folder, certain, settings.budget())
        });
        let Next { snapshot, news, faults } = match seen.await {
            Some(Some(next)) => next,
            Some(None) => return Look::Unsettled,
            None => return Look::Same,
        };
        shelf.publish(snapshot);
        for fault in &faults {
            tracing::warn!(user = %shelf.name, %fault, "A memory file cannot be used; the last good text stays");
        }
        if news.is_empty() {
            return Look::Same;
        }
        let files: Vec<_> = news.iter().map(|news| news.file.as_str()).collect();
        tracing::info!(user = %shelf.name, ?files, "Memory files changed on disk");
        shelf.reloads.fetch_add(1, Ordering::Relaxed);
        self.report(shelf, news);
        Look::Reloaded
    }

    /// Whether the disk differs from the snapshot, or was left half read; reads no file. The caller has the turn.
    pub(crate) async fn is_behind(&self, shelf: &Arc<Shelf>) -> bool {
        let (folder, known, settings) = (shelf.folder.clone(), shelf.snapshot().stamps(), self.settings.clone());
        blocking(move || disk::differs(&folder, &known, &settings)).await.unwrap_or(false)
    }

    /// Notes `news` for the history. They wait in memory while the database gives no answer.
    pub(crate) fn report(&self, shelf: &Shelf, news: Vec<News>) {
        let mut waiting = lock(&shelf.news);
        waiting.extend(news);
        let most = self.settings.keep_revisions as usize;
        let lost = waiting.len().saturating_sub(most);
        if lost > 0 {
            waiting.drain(..lost);
            tracing::warn!(user = %shelf.name, lost, "The database is away for long; the oldest unsaved revisions are dropped");
        }
    }

    /// Keeps what waits for the history.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; the rest still waits.
    pub(crate) async fn keep(&self, shelf: &Shelf) -> Result<(), LayerError> {
        let _keeping = shelf.keeping.lock().await;
        loop {
            let Some(news) = lock(&shelf.news).front().cloned() else { return Ok(()) };
            match sql::keep(&self.db, shelf.user, &news).await {
                Ok(()) => {}
                // The user is gone, and the history with them.
                Err(sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
                    write(&self.shelves).remove(&shelf.user);
                }
                Err(error) => return Err(error.into()),
            }
            lock(&shelf.news).pop_front();
            sql::trim(&self.db, shelf.user, &news.file, self.settings.keep_revisions).await?;
        }
    }

    /// Keeps what waits for the history, in the background: nobody waits for the database.
    pub(crate) fn keep_soon(self: &Arc<Self>, shelf: &Arc<Shelf>) {
        // Whoever keeps already will come to it.
        if lock(&shelf.news).is_empty() || shelf.keeping.try_lock().is_err() {
            return;
        }
        let (library, shelf) = (Arc::clone(self), Arc::clone(shelf));
        tokio::spawn(acting_for(shelf.user, async move {
            if let Err(error) = library.keep(&shelf).await {
                tracing::warn!(user = %shelf.name, %error, "Revisions of memory files wait for the database");
            }
        }));
    }

    /// Loads a user's files for the first time; makes their folder when there is none: from the database when it was
    /// there once, else from the templates.
    async fn meet(&self, row: sql::UserRow) -> Result<Arc<Shelf>, LayerError> {
        let _meeting = self.meeting.lock().await;
        if let Some(shelf) = self.known(row.id) {
            return Ok(shelf);
        }
        let kept: BTreeMap<FileName, sql::Kept> = sql::newest_texts(&self.db, row.id)
            .await?
            .into_iter()
            .filter_map(|kept| kept.file.parse().ok().map(|name| (name, kept)))
            .collect();
        let texts: BTreeMap<_, _> =
            kept.iter().map(|(name, kept)| (name.clone(), (kept.text.clone(), kept.seen_at))).collect();
        let name: UserName = row.name.parse().map_err(|bad| {
            LayerError::Settings(format!("{:?} cannot have a folder of memory files: {bad}", row.name))
        })?;
        let folder = self.root.join(name.as_str());
        let (home, settings) = (folder.clone(), self.settings.clone());
        let loaded = blocking(move || load(&home, &texts, &settings)).await.unwrap_or(Ok(None)).map_err(|source| {
            LayerError::Disk { what: format!("cannot make the folder {}", folder.display()), source }
        })?;
        let (snapshot, news) = match loaded {
            Some(Next { snapshot, mut news, faults }) => {
                for fault in &faults {
                    tracing::warn!(user = %name, %fault, "A memory file cannot be used");
                }
                let lost = |file: &FileName| snapshot.page(file).is_none() && snapshot.damage(file).is_none();
                let gone = kept.iter().filter(|(file, _)| snapshot.folder_is_gone().is_none() && lost(file));
                news.extend(gone.map(|(file, kept)| News::gone(file.clone(), kept.seen_at)));
                (snapshot, news)
            }
            // Being written to without a pause; the watcher or the next heartbeat comes back to it.
            None => (Snapshot::default(), Vec::new()),
        };
        let shelf = Arc::new(Shelf {
            user: row.id,
            name: name.to_string(),
            folder,
            turn: Turn::default(),
            reloads: AtomicU64::new(0),
            snapshot: RwLock::new(Arc::new(snapshot)),
            news: Mutex::new(news.into()),
            keeping: Turn::default(),
        });
        write(&self.shelves).insert(row.id, Arc::clone(&shelf));
        if let Err(error) = self.keep(&shelf).await {
            tracing::warn!(user = %shelf.name, %error, "Revisions of memory files wait for the database");
        }
        Ok(shelf)
    }
}

impl Shelf {
    /// What requests read.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&read(&self.snapshot))
    }

    /// The files that are gone without the history knowing it yet.
    pub(crate) fn going(&self) -> Vec<FileName> {
        lock(&self.news).iter().filter(|news| news.text.is_none()).map(|news| news.file.clone()).collect()
    }

    /// Makes `snapshot` what requests read.
    pub(crate) fn publish(&self, snapshot: Snapshot) {
        *write(&self.snapshot) = Arc::new(snapshot);
    }

    /// Makes `page` the text of `name`.
    pub(crate) fn put(&self, name: &FileName, page: Page, settings: &Settings) {
        let next = self.snapshot().with(name, page, settings.budget());
        self.publish(next);
    }
}

/// What is in `folder`, which is made when there is none; `None` when it is written to without a pause.
fn load(folder: &Path, texts: &KeptTexts, settings: &Settings) -> std::io::Result<Option<Next>> {
    if !disk::exists(folder) {
        disk::make(folder, &first_files(texts))?;
    }
    for _ in 0..ATTEMPTS {
        let found = disk::look(folder, &BTreeMap::new(), settings);
        if let Some(next) = next(&Snapshot::default(), found, true, settings.budget()) {
            let snapshot = next.snapshot.with_last_good(texts, settings.budget());
            return Ok(Some(Next { snapshot, ..next }));
        }
        std::thread::sleep(MOMENT);
    }
    Ok(None)
}

/// What a new folder holds: the last texts of one that was lost, else the templates.
fn first_files(texts: &KeptTexts) -> BTreeMap<FileName, String> {
    if texts.is_empty() {
        let templates = [
            ("NOW.md", include_str!("../../../memory-files/NOW.md")),
            ("MEMORY.md", include_str!("../../../memory-files/MEMORY.md")),
        ];
        let named = templates.into_iter().filter_map(|(name, text)| Some((name.parse().ok()?, text.to_owned())));
        named.collect()
    } else {
        texts.iter().map(|(name, (text, _))| (name.clone(), text.clone())).collect()
    }
}

/// What `work` gives, done where it may block; `None` when it broke off.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(error) => {
            tracing::error!(%error, "Work on memory files broke off");
            None
        }
    }
}

// A lock is only poisoned by a panic, and what these hold is whole at every moment.
fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
