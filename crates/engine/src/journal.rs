//! Reading the journal, and arranging what stands in it: sessions, turns, exchanges, collections, pins.

use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_core::{Collection, Exchange, ExchangeId, ExchangeKind, SessionId, Source, TimeRange, Turn, UserId};

use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::MemoryMode;

/// Where in a long list to go on, and how far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// [`Page::next`] of the page before; `None` for the first page.
    pub after: Option<String>,
    /// At most this many, 1 to 500.
    pub limit: usize,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { after: None, limit: 50 }
    }
}

/// Part of a long list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Page<T> {
    /// This part.
    pub items: Vec<T>,
    /// Where the next part begins; `None` when this is the last.
    pub next: Option<String>,
}

/// One conversation, as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Session {
    /// The client's name for it.
    pub id: SessionId,
    /// The shelf its exchanges stand on.
    pub collection: Collection,
    /// For people.
    pub title: Option<String>,
    /// What memory may do for it.
    pub memory: MemoryMode,
    /// Only its last so many turns can be recalled; `None` for all.
    pub max_turns: Option<i32>,
    /// What was said longer ago is not recalled; `None` for no limit.
    pub max_age_hours: Option<i32>,
    /// When it was first seen.
    pub created_at: DateTime<Utc>,
    /// When its newest turn was said.
    pub last_at: DateTime<Utc>,
    /// How many turns it has.
    pub turns: i64,
}

/// What to change about a session. What is `None` stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPatch {
    /// A new title; `Some(None)` takes it away.
    pub title: Option<Option<String>>,
    /// What memory may do for it.
    pub memory: Option<MemoryMode>,
    /// The shelf for exchanges to come.
    pub collection: Option<Collection>,
    /// Only its last so many turns can be recalled; `Some(None)` for all.
    pub max_turns: Option<Option<i32>>,
    /// What was said longer ago is not recalled; `Some(None)` for no limit.
    pub max_age_hours: Option<Option<i32>>,
}

/// An exchange and how it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExchangeView {
    /// The exchange itself.
    pub exchange: Exchange,
    /// When it was forgotten, if it is in the trash.
    pub forgotten_at: Option<DateTime<Utc>>,
}

/// Which exchanges: every condition that is given must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExchangeFilter {
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this collection.
    pub collection: Option<Collection>,
    /// Only of this source.
    pub source: Option<Source>,
    /// Only of this kind.
    pub kind: Option<ExchangeKind>,
    /// Only pinned ones, or only others.
    pub pinned: Option<bool>,
    /// Only what was said in this time.
    pub time: Option<TimeRange>,
    /// Only what holds this text, in any case of letters.
    pub text: Option<String>,
    /// What is in the trash instead of what is not.
    pub forgotten: bool,
}

/// A shelf and what stands on it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectionView {
    /// Its name.
    pub name: Collection,
    /// The age in days at which its episodes count half; `None` for the layer's setting.
    pub half_life_days: Option<f32>,
    /// The part of relevance that never fades, 0 to 1; `None` for the layer's setting.
    pub decay_floor: Option<f32>,
    /// How many tokens a part of a long exchange has; `None` for the layer's setting.
    pub part_tokens: Option<i32>,
    /// How many exchanges stand on it.
    pub exchanges: i64,
}

/// How a shelf is kept. What is `None` stays; `Some(None)` goes back to the layer's setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CollectionPatch {
    /// More than 0.
    pub half_life_days: Option<Option<f32>>,
    /// 0 to 1.
    pub decay_floor: Option<Option<f32>>,
    /// 100 to 4,000.
    pub part_tokens: Option<Option<i32>>,
}

impl Memory {
    /// The user's sessions, the most recent first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn sessions(&self, user: UserId, page: &PageRequest) -> Result<Page<Session>, EngineError> {
        todo!()
    }

    /// One session; `None` when there is none of that id.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn session(&self, user: UserId, session: &SessionId) -> Result<Option<Session>, EngineError> {
        todo!()
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
        patch: &SessionPatch,
    ) -> Result<Session, EngineError> {
        todo!()
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
    ) -> Result<Option<Page<Turn>>, EngineError> {
        todo!()
    }

    /// The user's exchanges that match, newest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn exchanges(
        &self,
        user: UserId,
        filter: &ExchangeFilter,
        page: &PageRequest,
    ) -> Result<Page<ExchangeView>, EngineError> {
        todo!()
    }

    /// One exchange, also when it is in the trash; `None` when there is none.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<ExchangeView>, EngineError> {
        todo!()
    }

    /// Pins an exchange, or takes its pin away; `None` when there is no such exchange.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn pin(&self, user: UserId, id: ExchangeId, pinned: bool) -> Result<Option<ExchangeView>, EngineError> {
        todo!()
    }

    /// The user's collections by name.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn collections(&self, user: UserId) -> Result<Vec<CollectionView>, EngineError> {
        todo!()
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
        patch: &CollectionPatch,
    ) -> Result<CollectionView, EngineError> {
        todo!()
    }
}
