//! Layers are told what the person's memory files say: after the start, and whenever one has changed.
//!
//! The layer that keeps the files answers from memory, so that looking is cheap; no request waits for it. What a layer
//! could not take in is told again with the next look.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use skymem_core::files::{FileHead, FileName, MemoryFiles, Revision};
use skymem_core::wall::{acting_for, carried};
use skymem_core::{Layer, UserId};
use tokio::sync::Mutex;

use crate::error::EngineError;
use crate::memory::Memory;

/// What every layer was told since the start.
#[derive(Debug, Default)]
pub(crate) struct FileNews {
    /// Held by whoever looks, so that nobody is told an old text after a new one.
    told: Mutex<HashMap<UserId, Told>>,
}

/// What was told of one user's files.
#[derive(Debug, Default)]
struct Told {
    /// The revision of each file that all layers have taken in.
    files: BTreeMap<FileName, Revision>,
    /// What some layer could not take in, so that it is said once in the log: a revision, or that the file is gone.
    failed: BTreeMap<FileName, Option<Revision>>,
}

impl Memory {
    /// Tells the layers of every memory file that has changed since they were last told.
    ///
    /// # Errors
    ///
    /// When the users could not be read. What a layer could not take in is told again next time.
    pub(crate) async fn tell_files(&self) -> Result<(), EngineError> {
        let Some(files) = self.inner.layers.iter().find_map(|layer| layer.memory_files()) else { return Ok(()) };
        let readers: Vec<&Arc<dyn Layer>> =
            self.inner.layers.iter().filter(|layer| layer.memory_files().is_none()).collect();
        let users = self.users().await?;
        let mut told = self.inner.file_news.told.lock().await;
        told.retain(|user, _| users.iter().any(|there| there.id == *user));
        for user in users {
            if let Err(error) = acting_for(user.id, self.tell_files_of(user.id, files, &readers, &mut told)).await {
                // One user's broken folder keeps nobody else's news back.
                tracing::debug!(user = %user.id, %error, "Memory files could not be read; they are read again later");
            }
        }
        Ok(())
    }

    async fn tell_files_of(
        &self,
        user: UserId,
        files: &dyn MemoryFiles,
        readers: &[&Arc<dyn Layer>],
        told: &mut HashMap<UserId, Told>,
    ) -> Result<(), EngineError> {
        let heads = files.list(user).await?;
        let is_first = !told.contains_key(&user);
        // What went while no server ran is known to the history alone.
        let lost = if is_first { files.gone(user).await? } else { Vec::new() };
        let told = told.entry(user).or_default();
        let is_there = |name: &FileName| heads.iter().any(|head| head.name == *name);
        let went: Vec<FileName> = told.files.keys().chain(told.failed.keys()).chain(&lost).cloned().collect();
        for name in went.into_iter().filter(|name| !is_there(name)) {
            if self.tell_one(user, &name, "", None, readers, told).await {
                told.files.remove(&name);
            }
        }
        for FileHead { name, revision, .. } in heads {
            if told.files.get(&name) == Some(&revision) {
                continue;
            }
            let file = files.read(user, &name).await?;
            // It may have changed since it was listed: what is told is what was read.
            let revision = file.head.revision;
            if self.tell_one(user, &name, &file.text, Some(&revision), readers, told).await {
                told.files.insert(name, revision);
            }
        }
        Ok(())
    }

    /// Whether every layer has taken it in.
    async fn tell_one(
        &self,
        user: UserId,
        name: &FileName,
        text: &str,
        revision: Option<&Revision>,
        readers: &[&Arc<dyn Layer>],
        told: &mut Told,
    ) -> bool {
        let mut all = true;
        for layer in readers {
            let (reader, file, text, now) = (Arc::clone(layer), name.clone(), text.to_owned(), self.now());
            // A task of its own: a layer that panics must not take the others' news with it.
            let reading = tokio::spawn(carried(async move { reader.read_file(user, &file, &text, now).await }));
            let why = match reading.await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error.to_string(),
                Err(_) => "the layer panicked".to_owned(),
            };
            all = false;
            if told.failed.get(name).map(Option::as_ref) != Some(revision) {
                tracing::warn!(layer = %layer.name(), file = %name, why, "A layer could not read a memory file; it is told again");
            }
        }
        if all {
            told.failed.remove(name);
        } else {
            told.failed.insert(name.clone(), revision.cloned());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use chrono::{DateTime, Utc};
    use skymem_core::files::{Edit, FileError, FileText, RevisionHead};
    use skymem_core::{Exchange, LayerError, LayerName, LayerStats, Priority, Query, Recall, Tokens};
    use sqlx::PgPool;

    use super::*;
    use crate::EngineSettings;
    use crate::testing::{ScriptedLayer, TestMemory};

    async fn start(db: PgPool) -> (TestMemory, Arc<Shelf>, Arc<ScriptedLayer>) {
        let layer = Arc::new(ScriptedLayer::new("facts", Priority::Ranked, &[]));
        let files = Arc::new(Shelf::default());
        let layers: Vec<Arc<dyn Layer>> = vec![Arc::clone(&files) as _, Arc::clone(&layer) as _];
        (TestMemory::start_of(db, layers, EngineSettings::default()).await, files, layer)
    }

    fn read(layer: &ScriptedLayer) -> Vec<(String, String)> {
        std::mem::take(&mut *layer.read.lock().unwrap())
    }

    fn news(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[sqlx::test(migrations = false)]
    async fn each_revision_of_a_file_is_told_once_and_that_it_is_gone(db: PgPool) {
        let (test, files, layer) = start(db).await;
        files.write("NOW.md", "one");
        files.write("MEMORY.md", "me");
        test.memory.tell_files().await.unwrap();
        test.memory.tell_files().await.unwrap();
        assert_eq!(read(&layer), [news("MEMORY.md", "me"), news("NOW.md", "one")]);

        files.write("NOW.md", "two");
        test.memory.catch_up().await.unwrap();
        assert_eq!(read(&layer), [news("NOW.md", "two")]);

        files.remove("NOW.md");
        test.memory.tell_files().await.unwrap();
        test.memory.tell_files().await.unwrap();
        assert_eq!(read(&layer), [news("NOW.md", "")]);
    }

    #[sqlx::test(migrations = false)]
    async fn what_went_before_the_start_is_told_once(db: PgPool) {
        let (test, files, layer) = start(db).await;
        files.write("NOW.md", "one");
        files.lose("OLD.md");

        test.memory.tell_files().await.unwrap();
        test.memory.tell_files().await.unwrap();

        assert_eq!(read(&layer), [news("OLD.md", ""), news("NOW.md", "one")]);
    }

    #[sqlx::test(migrations = false)]
    async fn what_a_layer_could_not_read_is_told_again(db: PgPool) {
        let (test, files, layer) = start(db).await;
        files.write("NOW.md", "poison");
        files.write("MEMORY.md", "bomb");
        test.memory.tell_files().await.unwrap();
        files.remove("MEMORY.md");
        test.memory.tell_files().await.unwrap();
        read(&layer);

        layer.heals();
        test.memory.tell_files().await.unwrap();
        test.memory.tell_files().await.unwrap();

        assert_eq!(read(&layer), [news("NOW.md", "poison")]);
    }

    /// Files in memory: those that are there, and those that are gone.
    #[derive(Default)]
    struct Shelf(std::sync::Mutex<BTreeMap<String, Option<String>>>);

    impl Shelf {
        fn write(&self, name: &str, text: &str) {
            self.0.lock().unwrap().insert(name.to_owned(), Some(text.to_owned()));
        }

        fn remove(&self, name: &str) {
            self.0.lock().unwrap().remove(name);
        }

        /// It was there before the start.
        fn lose(&self, name: &str) {
            self.0.lock().unwrap().insert(name.to_owned(), None);
        }
    }

    #[async_trait]
    impl Layer for Shelf {
        fn name(&self) -> LayerName {
            LayerName::of("files")
        }

        async fn observe(&self, _: &[Exchange]) -> Result<(), LayerError> {
            Ok(())
        }

        async fn recall(&self, _: &Query) -> Result<Vec<Recall>, LayerError> {
            Ok(Vec::new())
        }

        async fn stats(&self, _: UserId) -> Result<LayerStats, LayerError> {
            Ok(LayerStats::default())
        }

        fn memory_files(&self) -> Option<&dyn MemoryFiles> {
            Some(self)
        }
    }

    #[async_trait]
    impl MemoryFiles for Shelf {
        async fn list(&self, _: UserId) -> Result<Vec<FileHead>, FileError> {
            let files = self.0.lock().unwrap();
            Ok(files.iter().filter_map(|(name, text)| Some(file(name, text.as_deref()?).head)).collect())
        }

        async fn gone(&self, _: UserId) -> Result<Vec<FileName>, FileError> {
            let files = self.0.lock().unwrap();
            Ok(files.iter().filter(|(_, text)| text.is_none()).map(|(name, _)| name.parse().unwrap()).collect())
        }

        async fn read(&self, _: UserId, name: &FileName) -> Result<FileText, FileError> {
            let text = self.0.lock().unwrap().get(name.as_str()).cloned().flatten();
            text.map(|text| file(name.as_str(), &text)).ok_or_else(|| FileError::NotFound(name.to_string()))
        }

        async fn edit(&self, _: UserId, _: &FileName, _: Edit, _: DateTime<Utc>) -> Result<FileText, FileError> {
            Err(FileError::Refused("not here".into()))
        }

        async fn history(&self, _: UserId, _: &FileName) -> Result<Vec<RevisionHead>, FileError> {
            Ok(Vec::new())
        }

        async fn purge_revisions(&self, _: UserId, _: &FileName, _: &[Revision]) -> Result<usize, FileError> {
            Ok(0)
        }

        async fn revision(&self, _: UserId, name: &FileName, _: &Revision) -> Result<String, FileError> {
            Err(FileError::NotFound(name.to_string()))
        }
    }

    fn file(name: &str, text: &str) -> FileText {
        let head = FileHead {
            name: name.parse().unwrap(),
            revision: Revision(text.to_owned()),
            tokens: Tokens(1),
            bytes: text.len() as u64,
            changed_at: DateTime::UNIX_EPOCH,
            always: true,
            faults: Vec::new(),
        };
        FileText { head, text: text.to_owned(), sections: Vec::new() }
    }
}
