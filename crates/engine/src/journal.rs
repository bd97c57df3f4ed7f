//! Reading the journal, and arranging what stands in it: sessions, turns, exchanges, collections, pins.

use std::fmt::Display;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use skymem_core::conversation::BadName;
use skymem_core::{Collection, Exchange, ExchangeId, Filter, Seq, SessionId, UserId};
use skymem_store::{CollectionSettings, JournalTurn, Session, SessionChange, SessionMark, Shelf};

use crate::error::EngineError;
use crate::memory::Memory;
use crate::sealed::{session_of, turns_of};

/// Where in a long list to go on, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// [`Page::next`] of the page before; `None` for the first page.
    pub after: Option<String>,
    /// At most this many, 1 to 200.
    pub limit: usize,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { after: None, limit: 50 }
    }
}

impl PageRequest {
    /// The place of a page that begins after `mark`.
    pub(crate) fn mark<Mark: FromStr<Err = BadName>>(&self) -> Result<Option<Mark>, EngineError> {
        if !(1..=200).contains(&self.limit) {
            return Err(EngineError::Refused("a page has 1 to 200 items".into()));
        }
        self.after.as_deref().map(str::parse).transpose().map_err(|bad: BadName| EngineError::Refused(bad.0))
    }

    /// The place of a page of a list in the journal's order.
    pub(crate) fn seq(&self) -> Result<Option<Seq>, EngineError> {
        Ok(self.mark::<SeqMark>()?.map(|mark| mark.0))
    }
}

/// A place in the journal as a page token.
pub(crate) struct SeqMark(Seq);

impl FromStr for SeqMark {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let seq = text.parse().map_err(|_| BadName("a page token is one that an earlier page gave".into()))?;
        Ok(Self(Seq(seq)))
    }
}

/// Part of a long list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// This part.
    pub items: Vec<T>,
    /// Where the next part begins; `None` when this is the last.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// Of `items`, which were asked for with one more than `limit`: the first `limit`, and where to go on.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, mark: impl Fn(&T) -> String) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(mark);
        Self { items, next }
    }

    pub(crate) fn marked<Mark: Display>(page: skymem_store::Page<T, Mark>) -> Self {
        Self { items: page.items, next: page.next.map(|mark| mark.to_string()) }
    }

    pub(crate) fn by_seq(page: skymem_store::Page<T, Seq>) -> Self {
        Self { items: page.items, next: page.next.map(|seq| seq.0.to_string()) }
    }
}

/// An exchange and how it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct ExchangeView {
    /// The exchange itself.
    pub exchange: Exchange,
    /// When it was forgotten, if it is in the trash.
    pub forgotten_at: Option<DateTime<Utc>>,
}

impl Memory {
    /// The user's sessions, the most recent first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn sessions(&self, user: UserId, page: &PageRequest) -> Result<Page<Session>, EngineError> {
        let after: Option<SessionMark> = page.mark()?;
        Ok(Page::marked(self.inner.journal.sessions(user, after.as_ref(), page.limit).await?))
    }

    /// One session; `None` when there is none of that id.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn session(&self, user: UserId, session: &SessionId) -> Result<Option<Session>, EngineError> {
        if let Some(open) = self.inner.journal.session(user, session).await? {
            return Ok(Some(open));
        }
        let sealed = self.sealed_session(user, session).await?;
        Ok(sealed.and_then(|(collection, said)| session_of(session, collection, &said)))
    }

    /// Changes a session, which is made when it is new, and returns it.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for values that cannot be.
    pub async fn set_session(
        &self,
        user: UserId,
        session: &SessionId,
        mut change: SessionChange,
    ) -> Result<Session, EngineError> {
        if let Some(Some(title)) = &mut change.title {
            // A title stands in the clear, also where what was said is sealed.
            *title = self.name_without_secrets(user, std::mem::take(title)).await?;
        }
        Ok(self.journal().set_session(user, session, change, self.now()).await?)
    }

    /// The turns of a session, oldest first; `None` when there is no such session. Forgotten ones are not shown.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn turns(
        &self,
        user: UserId,
        session: &SessionId,
        page: &PageRequest,
    ) -> Result<Option<Page<JournalTurn>>, EngineError> {
        let after = page.seq()?;
        let turns = self.inner.journal.turns(user, session, after, page.limit).await?;
        if !turns.items.is_empty() || self.inner.journal.session(user, session).await?.is_some() {
            return Ok(Some(Page::by_seq(turns)));
        }
        let Some((_, said)) = self.sealed_session(user, session).await? else { return Ok(None) };
        let mut turns = turns_of(said);
        turns.retain(|turn| after.is_none_or(|after| turn.turn.seq > after));
        Ok(Some(Page::cut(turns, page.limit, |turn| turn.turn.seq.0.to_string())))
    }

    /// The user's exchanges that match, newest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn exchanges(
        &self,
        user: UserId,
        filter: &Filter,
        page: &PageRequest,
    ) -> Result<Page<Exchange>, EngineError> {
        Ok(Page::by_seq(self.inner.journal.exchanges(user, filter, page.seq()?, page.limit).await?))
    }

    /// One exchange, also when it is in the trash; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<ExchangeView>, EngineError> {
        if let Some(exchange) = self.inner.journal.exchange(user, id).await? {
            return Ok(Some(ExchangeView { exchange, forgotten_at: None }));
        }
        let forgotten = self.inner.journal.forgotten_one(user, id).await?;
        if forgotten.is_none() {
            let sealed = self.sealed_exchange(user, id).await?;
            return Ok(sealed.map(|exchange| ExchangeView { exchange, forgotten_at: None }));
        }
        Ok(forgotten
            .map(|forgotten| ExchangeView { exchange: forgotten.exchange, forgotten_at: Some(forgotten.forgotten_at) }))
    }

    /// Pins an exchange, or takes its pin away, and returns it; `None` when there is no such exchange.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn pin(&self, user: UserId, id: ExchangeId, pinned: bool) -> Result<Option<ExchangeView>, EngineError> {
        if self.inner.journal.sealed_home(user, id).await?.is_some() {
            return Err(EngineError::Conflict("a sealed exchange has no pin: it would stand in the clear".into()));
        }
        self.inner.journal.pin(user, &[id], pinned).await?;
        self.exchange(user, id).await
    }

    /// The user's collections by name.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn collections(&self, user: UserId) -> Result<Vec<Shelf>, EngineError> {
        Ok(self.inner.journal.collections(user).await?)
    }

    /// Says how a collection is kept, which is made when it is new, and returns it.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for values that cannot be.
    pub async fn set_collection(
        &self,
        user: UserId,
        collection: &Collection,
        settings: CollectionSettings,
    ) -> Result<Shelf, EngineError> {
        let journal = self.journal();
        journal.make_collection(user, collection, self.now()).await?;
        let set = journal.set_collection(user, collection, settings).await?;
        set.ok_or_else(|| EngineError::NotFound(format!("collection {collection}")))
    }

    /// Removes a collection on which nothing stands; whether there was one.
    ///
    /// # Errors
    ///
    /// [`EngineError::Conflict`] when something stands on it.
    pub async fn delete_collection(&self, user: UserId, collection: &Collection) -> Result<bool, EngineError> {
        Ok(self.journal().delete_collection(user, collection).await?)
    }
}
