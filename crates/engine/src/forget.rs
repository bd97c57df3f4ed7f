//! Forgetting, taking it back, and removing for good.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use skymem_core::wall::acting_for;
use skymem_core::{ExchangeId, Filter, Layer, UserId};
use skymem_store::{Among, Forgotten, Target};

use crate::error::EngineError;
use crate::journal::{Page, PageRequest};
use crate::memory::Memory;
use crate::purge::Aim;

/// What was forgotten, restored or purged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The exchanges that are now otherwise than before. Those that were so already, or are not there, are not named.
    pub exchanges: Vec<ExchangeId>,
}

impl Memory {
    /// Hides exchanges and removes all that was learned from them, at once. They stay in the trash for the trash
    /// period. Idempotent.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was forgotten.
    pub async fn forget(&self, user: UserId, what: &Target) -> Result<Changed, EngineError> {
        let exchanges = self.journal().forget(user, what, self.now()).await?;
        self.tell_layers(user, &exchanges).await;
        Ok(Changed { exchanges })
    }

    /// As [`Memory::forget`], of whatever is aimed at.
    ///
    /// # Errors
    ///
    /// As [`Memory::forget`]; [`EngineError::NotFound`] when there is no such entity.
    pub async fn forget_aim(&self, user: UserId, aim: &Aim) -> Result<Changed, EngineError> {
        let exchanges = self.aimed_at(user, aim, Among::Remembered).await?;
        self.forget(user, &Target::Exchanges(exchanges)).await
    }

    /// What [`Memory::forget_aim`] would change, changing nothing.
    ///
    /// # Errors
    ///
    /// As [`Memory::forget_aim`].
    pub async fn would_forget_aim(&self, user: UserId, aim: &Aim) -> Result<Changed, EngineError> {
        Ok(Changed { exchanges: self.aimed_at(user, aim, Among::Remembered).await? })
    }

    /// As [`Memory::restore`], of whatever is aimed at among what is in the trash.
    ///
    /// # Errors
    ///
    /// As [`Memory::restore`].
    pub async fn restore_aim(&self, user: UserId, aim: &Aim) -> Result<Changed, EngineError> {
        let exchanges = self.aimed_at(user, aim, Among::Trash).await?;
        self.restore(user, &exchanges).await
    }

    /// As [`Memory::forget`] with one exchange; `None` when it is neither there nor in the trash.
    ///
    /// # Errors
    ///
    /// As [`Memory::forget`].
    pub async fn forget_one(&self, user: UserId, id: ExchangeId) -> Result<Option<Changed>, EngineError> {
        if !self.is_there(user, id).await? {
            return Ok(None);
        }
        self.forget(user, &Target::Exchanges(vec![id])).await.map(Some)
    }

    /// What [`Memory::forget`] would change, changing nothing.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn would_forget(&self, user: UserId, what: &Target) -> Result<Changed, EngineError> {
        let journal = &self.inner.journal;
        let mut exchanges = Vec::new();
        let filter = match what {
            Target::Exchanges(ids) => {
                for id in ids {
                    exchanges.extend(journal.exchange(user, *id).await?.map(|exchange| exchange.id));
                }
                exchanges.extend(journal.sealed_meant(user, Some(what), Some(false)).await?);
                return Ok(Changed { exchanges });
            }
            Target::Session(session) => Filter { sessions: vec![session.clone()], ..Filter::default() },
            Target::Collection(collection) => Filter { collections: vec![collection.clone()], ..Filter::default() },
        };
        let mut before = None;
        loop {
            let page = journal.exchanges(user, &filter, before, 200).await?;
            exchanges.extend(page.items.iter().map(|exchange| exchange.id));
            if page.next.is_none() {
                exchanges.extend(journal.sealed_meant(user, Some(what), Some(false)).await?);
                return Ok(Changed { exchanges });
            }
            before = page.next;
        }
    }

    /// Takes exchanges back out of the trash; layers learn them again. Idempotent.
    ///
    /// # Errors
    ///
    /// When the database gave no answer; nothing was restored.
    pub async fn restore(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<Changed, EngineError> {
        let exchanges = self.journal().restore(user, exchanges, self.trash_ends()).await?;
        Ok(Changed { exchanges })
    }

    /// As [`Memory::restore`] with one exchange; `None` when it is neither there nor in the trash.
    ///
    /// # Errors
    ///
    /// As [`Memory::restore`].
    pub async fn restore_one(&self, user: UserId, id: ExchangeId) -> Result<Option<Changed>, EngineError> {
        if !self.is_there(user, id).await? {
            return Ok(None);
        }
        self.restore(user, &[id]).await.map(Some)
    }

    /// What is in the trash, in the journal's order, newest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn trash(&self, user: UserId, page: &PageRequest) -> Result<Page<Forgotten>, EngineError> {
        Ok(Page::by_seq(self.inner.journal.forgotten(user, None, page.seq()?, page.limit).await?))
    }

    /// Removes exchanges from the trash for good: these, or all of it. What is not in the trash stays.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. Of a whole trash, some may be gone by then.
    pub async fn purge(&self, user: UserId, exchanges: Option<&[ExchangeId]>) -> Result<Changed, EngineError> {
        let Some(exchanges) = exchanges else { return self.empty_trash(user, None).await };
        let mut in_trash = Vec::new();
        for id in exchanges {
            in_trash.extend(self.inner.journal.forgotten_one(user, *id).await?.map(|forgotten| forgotten.exchange.id));
        }
        in_trash.extend(self.inner.journal.sealed_trash(user, Some(exchanges), None).await?);
        Ok(Changed { exchanges: self.journal().purge(user, &in_trash, self.now()).await? })
    }

    /// Purges what was forgotten before `until`, or ever.
    pub(crate) async fn empty_trash(&self, user: UserId, until: Option<DateTime<Utc>>) -> Result<Changed, EngineError> {
        let journal = self.journal();
        let mut purged = Vec::new();
        let sealed = journal.sealed_trash(user, None, until).await?;
        if !sealed.is_empty() {
            purged.extend(journal.purge(user, &sealed, self.now()).await?);
        }
        let mut before = None;
        loop {
            let page = journal.forgotten(user, until, before, 200).await?;
            let ids: Vec<ExchangeId> = page.items.iter().map(|forgotten| forgotten.exchange.id).collect();
            if !ids.is_empty() {
                purged.extend(journal.purge(user, &ids, self.now()).await?);
            }
            if page.next.is_none() {
                return Ok(Changed { exchanges: purged });
            }
            before = page.next;
        }
    }

    /// What was forgotten before this can no longer be restored.
    pub(crate) fn trash_ends(&self) -> DateTime<Utc> {
        self.now() - TimeDelta::days(i64::from(self.inner.settings.upkeep.trash_days))
    }

    /// Whether there is such an exchange, in the trash or not, sealed or not: nothing of it is read.
    async fn is_there(&self, user: UserId, id: ExchangeId) -> Result<bool, EngineError> {
        let journal = &self.inner.journal;
        Ok(journal.sealed_home(user, id).await?.is_some() || self.exchange(user, id).await?.is_some())
    }

    /// Tells every layer what was forgotten. The foreign keys have done most of it already; a layer that fails is told
    /// again, behind the caller's back.
    pub(crate) async fn tell_layers(&self, user: UserId, exchanges: &[ExchangeId]) {
        if exchanges.is_empty() {
            return;
        }
        for layer in &self.inner.layers {
            if let Err(error) = layer.forget(user, exchanges).await {
                tracing::warn!(%error, layer = %layer.name(), "A layer could not forget at once; it is told again");
                tokio::spawn(acting_for(user, tell_again(Arc::clone(layer), user, exchanges.to_vec())));
            }
        }
    }
}

async fn tell_again(layer: Arc<dyn Layer>, user: UserId, exchanges: Vec<ExchangeId>) {
    for seconds in [1, 5, 30, 120, 600] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        if layer.forget(user, &exchanges).await.is_ok() {
            return;
        }
    }
    tracing::error!(layer = %layer.name(), "A layer could not forget; reset it to have it learn everything again");
}

#[cfg(test)]
mod tests {
    use skymem_core::Priority;
    use sqlx::PgPool;

    use super::*;
    use crate::testing::{ScriptedLayer, TestMemory};
    use crate::{RememberRequest, TurnFate};

    async fn start(db: PgPool) -> (TestMemory, Arc<ScriptedLayer>) {
        let layer = Arc::new(ScriptedLayer::new("episodes", Priority::Ranked, &[]));
        (TestMemory::start(db, vec![Arc::clone(&layer)]).await, layer)
    }

    fn note(test: &TestMemory, text: &str) -> RememberRequest {
        let text = text.into();
        let user = test.user;
        RememberRequest { user, text, collection: None, session: None, source: None, occurred_at: None, pinned: true }
    }

    #[sqlx::test(migrations = false)]
    async fn what_is_forgotten_can_be_looked_at_restored_and_purged(db: PgPool) {
        let (test, layer) = start(db).await;
        test.says("a", "one", "yes").await;
        test.says("b", "two", "yes").await;
        let session = Target::Session("a".parse().unwrap());
        let would = test.memory.would_forget(test.user, &session).await.unwrap();

        let forgotten = test.memory.forget(test.user, &session).await.unwrap();
        let again = test.memory.forget(test.user, &session).await.unwrap();
        let trash = test.memory.trash(test.user, &PageRequest::default()).await.unwrap();
        let restored = test.memory.restore(test.user, &forgotten.exchanges).await.unwrap();
        let kept = test.memory.purge(test.user, Some(&forgotten.exchanges)).await.unwrap();
        test.memory.forget(test.user, &session).await.unwrap();
        let purged = test.memory.purge(test.user, None).await.unwrap();

        assert_eq!((forgotten.exchanges.len(), &would), (1, &forgotten));
        assert_eq!((again, trash.items.len()), (Changed::default(), 1));
        assert_eq!((&restored, kept, &purged), (&forgotten, Changed::default(), &forgotten));
        assert!(layer.forgotten.lock().unwrap().contains(&forgotten.exchanges[0]));
    }

    #[sqlx::test(migrations = false)]
    async fn upkeep_empties_the_trash_of_what_is_too_old(db: PgPool) {
        let (test, _) = start(db).await;
        test.says("a", "one", "yes").await;
        test.memory.forget(test.user, &Target::Session("a".parse().unwrap())).await.unwrap();
        let in_trash = async || test.memory.trash(test.user, &PageRequest::default()).await.unwrap().items.len();

        test.clock.pass(TimeDelta::days(29));
        test.memory.upkeep().await.unwrap();
        let before = in_trash().await;
        test.clock.pass(TimeDelta::days(2));
        test.memory.upkeep().await.unwrap();

        assert_eq!((before, in_trash().await), (1, 0));
    }

    #[sqlx::test(migrations = false)]
    async fn a_note_is_kept_once_and_comes_back_when_it_is_told_again(db: PgPool) {
        let (test, _) = start(db).await;
        let fate = test.memory.remember(note(&test, "my dog is Rex")).await.unwrap().turns[0];
        let TurnFate::Stored { exchange, .. } = fate else { panic!("{fate:?}") };
        let again = test.memory.remember(note(&test, "my dog is Rex")).await.unwrap();
        assert!(matches!(again.turns[0], TurnFate::Known { .. }));
        test.memory.forget(test.user, &Target::Exchanges(vec![exchange])).await.unwrap();

        test.memory.remember(note(&test, "my dog is Rex")).await.unwrap();

        let view = test.memory.exchange(test.user, exchange).await.unwrap().unwrap();
        assert_eq!((view.forgotten_at, view.exchange.pinned), (None, true));
        assert!(matches!(test.memory.remember(note(&test, " ")).await, Err(EngineError::Refused(_))));
    }
}
