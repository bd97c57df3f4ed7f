//! Reads and edits files for the doors.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use similar::TextDiff;
use skymem_core::files::{Edit, FileError, FileHead, FileName, FileText, MemoryFiles, Revision, RevisionHead};
use skymem_core::{LayerError, UserId};

use crate::FilesLayer;
use crate::disk::{self, NotWritten, Stamp, too_large};
use crate::library::{Look, SETTLE, Shelf, blocking};
use crate::snapshot::{Origin, Page, Snapshot};
use crate::splice;
use crate::sql;

/// How often an edit is tried anew when an editor saves at the same moment.
const ATTEMPTS: usize = 3;

#[async_trait]
impl MemoryFiles for FilesLayer {
    async fn list(&self, user: UserId) -> Result<Vec<FileHead>, FileError> {
        Ok(self.shelf(user).await?.snapshot().heads())
    }

    async fn gone(&self, user: UserId) -> Result<Vec<FileName>, FileError> {
        let shelf = self.shelf(user).await?;
        // What waits for the database first: meanwhile it may get into the history.
        let mut names: BTreeSet<FileName> = shelf.going().into_iter().collect();
        let gone = sql::gone(&self.library.db, user).await.map_err(LayerError::from)?;
        names.extend(gone.into_iter().filter_map(|name| name.parse::<FileName>().ok()));
        let snapshot = shelf.snapshot();
        names.retain(|name| snapshot.page(name).is_none() && snapshot.damage(name).is_none());
        Ok(names.into_iter().collect())
    }

    /// One file as it was last loaded: a request never waits for the disk, which is at most a second ahead.
    async fn read(&self, user: UserId, file: &FileName) -> Result<FileText, FileError> {
        let snapshot = self.shelf(user).await?.snapshot();
        snapshot.file(file).ok_or_else(|| match snapshot.damage(file) {
            Some(fault) => FileError::Refused(fault.to_owned()),
            None => FileError::NotFound(format!("file {file}")),
        })
    }

    async fn edit(&self, user: UserId, file: &FileName, edit: Edit, at: DateTime<Utc>) -> Result<FileText, FileError> {
        let shelf = self.shelf(user).await?;
        let wish = self.wish(user, file, edit).await?;
        let _turn = shelf.turn.lock().await;
        for _ in 0..ATTEMPTS {
            let snapshot = self.catch_up(&shelf, file).await?;
            let old = snapshot.page(file);
            let text = wish.text(old.map(|page| page.text.as_ref()));
            if let (Some(old), Ok(text)) = (old, &text)
                && *old.text == **text
            {
                // Asked for what is there already, perhaps for the second time.
                return found(&snapshot, file);
            }
            if let Base::At(base) = &wish.base
                && base.as_ref() != old.map(|page| &page.revision)
            {
                return Err(self.stale(user, file, &wish, base.as_ref(), &snapshot).await);
            }
            let text = text.map_err(FileError::Refused)?;
            self.check(&snapshot, file, &text)?;
            let old = old.map(|page| Arc::clone(&page.text));
            let page = Page::read(file, text.into(), Stamp::default(), at).map_err(FileError::Refused)?;
            if let Some(stamp) = write(&shelf, file, old, Arc::clone(&page.text)).await? {
                self.library.report(&shelf, vec![page.news(file, Origin::Api)]);
                shelf.put(file, page.at(stamp), &self.library.settings);
                // The file is written, whatever the database says: its history catches up.
                self.library.keep_soon(&shelf);
                return found(&shelf.snapshot(), file);
            }
        }
        Err(FileError::Refused(format!("{file} is being saved by another program again and again; try once more")))
    }

    async fn history(&self, user: UserId, file: &FileName) -> Result<Vec<RevisionHead>, FileError> {
        let shelf = self.shelf(user).await?;
        self.library.keep(&shelf).await?;
        let history = sql::history(&self.library.db, user, file).await.map_err(LayerError::from)?;
        if history.is_empty() { Err(FileError::NotFound(format!("file {file}"))) } else { Ok(history) }
    }

    async fn revision(&self, user: UserId, file: &FileName, revision: &Revision) -> Result<String, FileError> {
        let snapshot = self.shelf(user).await?.snapshot();
        if let Some(page) = snapshot.page(file).filter(|page| page.revision == *revision) {
            return Ok(page.text.to_string());
        }
        let text = sql::text(&self.library.db, user, file, revision).await.map_err(LayerError::from)?;
        text.ok_or_else(|| FileError::NotFound(format!("revision {revision} of {file}")))
    }

    async fn purge_revisions(&self, user: UserId, file: &FileName, revisions: &[Revision]) -> Result<usize, FileError> {
        let shelf = self.shelf(user).await?;
        // Nothing that still waits to be kept comes after.
        self.library.keep(&shelf).await?;
        let snapshot = shelf.snapshot();
        let present = snapshot.page(file).map(|page| page.revision.0.as_str());
        let others: Vec<String> =
            revisions.iter().map(|revision| revision.0.clone()).filter(|one| Some(one.as_str()) != present).collect();
        let removed = sql::purge(&self.library.db, user, file, &others).await.map_err(LayerError::from)?;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }
}

impl FilesLayer {
    async fn shelf(&self, user: UserId) -> Result<Arc<Shelf>, FileError> {
        self.library.shelf(user).await?.ok_or_else(|| FileError::NotFound(format!("user {user}")))
    }

    /// The state to edit: what is on disk now, and in the history, so that nothing is overwritten that is not kept.
    async fn catch_up(&self, shelf: &Arc<Shelf>, file: &FileName) -> Result<Arc<Snapshot>, FileError> {
        while self.library.look(shelf, false).await == Look::Unsettled {
            // An editor seems to be half way through a save.
            tokio::time::sleep(SETTLE).await;
            if self.library.look(shelf, true).await != Look::Unsettled {
                break;
            }
        }
        let snapshot = shelf.snapshot();
        if let Some(fault) = snapshot.folder_is_gone().or_else(|| snapshot.damage(file)) {
            return Err(FileError::Refused(format!("{file} cannot be edited now: {fault}")));
        }
        self.library.keep(shelf).await?;
        Ok(snapshot)
    }

    fn check(&self, snapshot: &Snapshot, file: &FileName, text: &str) -> Result<(), FileError> {
        let settings = &self.library.settings;
        if text.len() as u64 > settings.max_file_bytes {
            let fault = too_large(text.len() as u64, settings.max_file_bytes);
            return Err(FileError::Refused(format!("{file} {fault}")));
        }
        if text.contains('\0') {
            return Err(FileError::Refused("a memory file holds no NUL characters".into()));
        }
        if snapshot.page(file).is_none() && snapshot.count() >= settings.max_files {
            return Err(FileError::Refused(format!(
                "there are {} files already, the most (max_files)",
                snapshot.count()
            )));
        }
        Ok(())
    }

    /// `edit` with the text it brings back.
    async fn wish(&self, user: UserId, file: &FileName, edit: Edit) -> Result<Wish, FileError> {
        Ok(match edit {
            Edit::Whole { base, text } => Wish { base: Base::At(base), change: Change::Whole(text) },
            Edit::Section { base, path, body } => Wish { base: Base::At(base), change: Change::Section { path, body } },
            Edit::Append { path, body } => Wish { base: Base::Any, change: Change::Append { path, body } },
            Edit::Remove { base, path } => Wish { base: Base::At(Some(base)), change: Change::Remove { path } },
            Edit::Restore { base, revision } => {
                let text = self.revision(user, file, &revision).await?;
                Wish { base: Base::At(base), change: Change::Restore(text) }
            }
        })
    }

    /// Both texts and how they differ. Yours is what the edit makes of the revision it started from.
    async fn stale(
        &self,
        user: UserId,
        file: &FileName,
        wish: &Wish,
        base: Option<&Revision>,
        snapshot: &Snapshot,
    ) -> FileError {
        let current = snapshot.file(file);
        let started_from = match base {
            Some(base) => self.revision(user, file, base).await.ok(),
            None => Some(String::new()),
        };
        let now = current.as_ref().map_or("", |current| current.text.as_str());
        let yours = wish
            .text(started_from.as_deref())
            .or_else(|_| wish.text(Some(now)))
            .unwrap_or_else(|_| wish.change.words().to_owned());
        let diff = TextDiff::from_lines(now, yours.as_str()).unified_diff().header("current", "yours").to_string();
        let base = base.map_or_else(|| "none".to_owned(), Revision::to_string);
        FileError::Stale { base, current: current.map(Box::new), yours, diff }
    }
}

/// An edit, ready to be made.
struct Wish {
    base: Base,
    change: Change,
}

/// Which text an edit may be made to.
enum Base {
    /// Whatever is there.
    Any,
    /// That revision alone, or only when there is no file.
    At(Option<Revision>),
}

enum Change {
    Whole(String),
    Restore(String),
    Section { path: Vec<String>, body: String },
    Append { path: Vec<String>, body: String },
    Remove { path: Vec<String> },
}

impl Wish {
    /// What the edit makes of `old`.
    fn text(&self, old: Option<&str>) -> Result<String, splice::Refusal> {
        let old = old.unwrap_or_default();
        match &self.change {
            Change::Whole(text) => Ok(splice::with_line_ends_of(old, text.clone())),
            Change::Restore(text) => Ok(text.clone()),
            Change::Section { path, body } => splice::set_section(old, path, body),
            Change::Append { path, body } => splice::append(old, path, body),
            Change::Remove { path } => splice::remove_section(old, path),
        }
    }
}

impl Change {
    fn words(&self) -> &str {
        match self {
            Change::Whole(text) | Change::Restore(text) => text,
            Change::Section { body, .. } | Change::Append { body, .. } => body,
            Change::Remove { .. } => "",
        }
    }
}

/// Writes `text`, if the file still says `old`: `None` when it does not.
async fn write(
    shelf: &Shelf,
    file: &FileName,
    old: Option<Arc<str>>,
    text: Arc<str>,
) -> Result<Option<Stamp>, FileError> {
    let (folder, name) = (shelf.folder.clone(), file.clone());
    let failed = |source| LayerError::Disk { what: format!("cannot write {file} of {}", shelf.name), source };
    match blocking(move || disk::write(&folder, &name, old.as_deref(), &text)).await {
        Some(Ok(stamp)) => Ok(Some(stamp)),
        Some(Err(NotWritten::Changed)) => Ok(None),
        Some(Err(NotWritten::Failed(error))) => Err(failed(error).into()),
        None => Err(failed(std::io::Error::other("the write broke off")).into()),
    }
}

fn found(snapshot: &Snapshot, file: &FileName) -> Result<FileText, FileError> {
    snapshot.file(file).ok_or_else(|| FileError::NotFound(format!("file {file}")))
}
