//! The person's Markdown files, through the layer that keeps them.

use serde_json::json;
use skymem_core::UserId;
use skymem_core::files::{Edit, FileHead, FileName, FileText, MemoryFiles, Revision, RevisionHead};

use skymem_store::Verb;

use crate::error::EngineError;
use crate::memory::Memory;

impl Memory {
    /// The user's memory files, by name, without their text.
    ///
    /// # Errors
    ///
    /// [`EngineError::Off`] when no layer keeps files.
    pub async fn files(&self, user: UserId) -> Result<Vec<FileHead>, EngineError> {
        Ok(self.memory_files()?.list(user).await?)
    }

    /// One file with its text.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is none of that name.
    pub async fn file(&self, user: UserId, file: &FileName) -> Result<FileText, EngineError> {
        Ok(self.memory_files()?.read(user, file).await?)
    }

    /// Writes an edit into a file and returns the file as it then is.
    ///
    /// # Errors
    ///
    /// [`EngineError::Stale`] when the file has moved on since the revision the edit started from.
    pub async fn edit_file(&self, user: UserId, file: &FileName, edit: Edit) -> Result<FileText, EngineError> {
        let edited = self.memory_files()?.edit(user, file, edit, self.now()).await?;
        let what = json!({ "file": file, "revision": edited.head.revision, "bytes": edited.text.len() });
        self.note(user, Verb::FileEdited, what).await;
        Ok(edited)
    }

    /// Every kept revision of a file, newest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when no such file was ever seen.
    pub async fn file_history(&self, user: UserId, file: &FileName) -> Result<Vec<RevisionHead>, EngineError> {
        Ok(self.memory_files()?.history(user, file).await?)
    }

    /// The text of one revision of a file.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such revision.
    pub async fn file_revision(
        &self,
        user: UserId,
        file: &FileName,
        revision: &Revision,
    ) -> Result<String, EngineError> {
        Ok(self.memory_files()?.revision(user, file, revision).await?)
    }

    fn memory_files(&self) -> Result<&dyn MemoryFiles, EngineError> {
        let files = self.inner.layers.iter().find_map(|layer| layer.memory_files());
        files.ok_or_else(|| EngineError::Off("no layer keeps memory files: switch on [layers.files]".into()))
    }
}
