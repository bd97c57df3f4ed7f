//! Conversations and what is set about them.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde_json::json;
use sqlx::PgTransaction;

use skymem_core::conversation::BadName;
use skymem_core::{Collection, SessionId, UserId};

use super::append::sealed_meanwhile;
use super::read::{Page, bounded};
use super::users::zone;
use super::{Journal, forget, lock, wake};
use crate::audit::{self, Verb};
use crate::error::StoreError;

/// A title has at most this many characters.
const LONGEST_TITLE: usize = 500;

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The client's id for it.
    pub id: SessionId,
    /// The shelf its exchanges go to.
    pub collection: Collection,
    /// What people call it.
    pub title: Option<String>,
    /// Whether it is remembered, and reminded.
    pub memory: MemoryMode,
    /// Only this many of its newest turns can be recalled.
    pub max_turns: Option<u32>,
    /// Only what was said in it in the last so many hours can be recalled.
    pub max_age_hours: Option<u32>,
    /// When it began.
    pub created_at: DateTime<Utc>,
    /// When its newest turn was said.
    pub last_at: DateTime<Utc>,
    /// How many exchanges it has, without the forgotten ones.
    pub exchanges: i64,
}

/// Whether a session is remembered (`write`) and reminded of what is remembered (`read`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemoryMode {
    /// Neither.
    Off,
    /// Reminded only: it leaves nothing behind.
    Read,
    /// Remembered only.
    Write,
    /// Both.
    #[default]
    ReadWrite,
}

impl MemoryMode {
    /// Whether memory may be read for the session.
    #[must_use]
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::ReadWrite)
    }

    /// Whether what is said in the session is written down.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::ReadWrite)
    }

    /// What both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.reads() && other.reads(), self.writes() && other.writes()) {
            (true, true) => Self::ReadWrite,
            (true, false) => Self::Read,
            (false, true) => Self::Write,
            (false, false) => Self::Off,
        }
    }

    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "readwrite",
        }
    }
}

impl FromStr for MemoryMode {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "off" => Ok(Self::Off),
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "readwrite" => Ok(Self::ReadWrite),
            _ => Err(BadName("memory is one of off, read, write, readwrite".into())),
        }
    }
}

/// What changes about a session: what is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// The shelf that exchanges go to from now on.
    pub collection: Option<Collection>,
    /// What people call it; `Some(None)` takes the title away.
    pub title: Option<Option<String>>,
    /// Whether it is remembered, and reminded.
    pub memory: Option<MemoryMode>,
    /// How many of its newest turns can be recalled, at least 1; `Some(None)` lifts the cap.
    pub max_turns: Option<Option<u32>>,
    /// For how many hours what was said can be recalled, at least 1; `Some(None)` lifts the cap.
    pub max_age_hours: Option<Option<u32>>,
}

/// Where a page of sessions ends and the next begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMark {
    last_at: DateTime<Utc>,
    id: SessionId,
}

impl fmt::Display for SessionMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.last_at.timestamp_micros(), self.id)
    }
}

impl FromStr for SessionMark {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName("a page token is one that an earlier page gave".into());
        let (micros, id) = text.split_once(':').ok_or_else(bad)?;
        let last_at = micros.parse().ok().and_then(DateTime::from_timestamp_micros).ok_or_else(bad)?;
        Ok(Self { last_at, id: id.parse()? })
    }
}

impl Journal {
    /// One session; `None` when there is no such.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn session(&self, user: UserId, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let row = sqlx::query_as!(
            SessionRow,
            r#"
            select id, collection, title, memory, max_turns, max_age_hours, created_at, last_at,
                   (select count(*)
                    from journal.exchange
                    where exchange.user_id = session.user_id
                      and exchange.session_id = session.id
                      and forgotten_at is null) as "exchanges!"
            from journal.session
            where user_id = $1
              and id = $2
            "#,
            user.0,
            id.as_str()
        )
        .fetch_optional(&self.db)
        .await?;
        row.map(Session::try_from).transpose()
    }

    /// What a question needs to know of a user: the zone in which they mean "yesterday", and what memory may do in the
    /// session it is asked in. `None` for a user or a session that there is not.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn setting_of(
        &self,
        user: UserId,
        session: Option<&SessionId>,
    ) -> Result<(Option<Tz>, Option<MemoryMode>), StoreError> {
        let row = sqlx::query!(
            r#"
            select timezone, (select memory from journal.session where user_id = $1 and session.id = $2) as memory
            from journal.users
            where users.id = $1
            "#,
            user.0,
            session.map(SessionId::as_str)
        )
        .fetch_optional(&self.db)
        .await?;
        let Some(row) = row else { return Ok((None, None)) };
        let memory = row.memory.map(|word| word.parse()).transpose()?;
        Ok((Some(zone(&row.timezone)?), memory))
    }

    /// The sessions of a user, the one that spoke last first, from after `after`, at most `limit` and 200 of them.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn sessions(
        &self,
        user: UserId,
        after: Option<&SessionMark>,
        limit: usize,
    ) -> Result<Page<Session, SessionMark>, StoreError> {
        let limit = bounded(limit);
        let rows = sqlx::query_as!(
            SessionRow,
            r#"
            select id, collection, title, memory, max_turns, max_age_hours, created_at, last_at,
                   (select count(*)
                    from journal.exchange
                    where exchange.user_id = session.user_id
                      and exchange.session_id = session.id
                      and forgotten_at is null) as "exchanges!"
            from journal.session
            where user_id = $1
              and ($2::timestamptz is null or last_at < $2 or (last_at = $2 and id > $3))
            order by last_at desc, id
            limit $4
            "#,
            user.0,
            after.map(|mark| mark.last_at),
            after.map(|mark| mark.id.as_str()),
            limit + 1
        )
        .fetch_all(&self.db)
        .await?;
        let sessions = rows.into_iter().map(Session::try_from).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::cut(sessions, limit, |last| SessionMark { last_at: last.last_at, id: last.id.clone() }))
    }

    /// Changes what is set about a session, which is made when it is new. A changed cap works backwards too: what is
    /// beyond it leaves the index, what is within it again is learned again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for a value that cannot be, [`StoreError::NoUser`] when there is no such user.
    pub async fn set_session(
        &self,
        user: UserId,
        id: &SessionId,
        change: SessionChange,
        at: DateTime<Utc>,
    ) -> Result<Session, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user, 0).await?;
        let own = stored(&mut tx, user, id).await?.map(|session| session.collection);
        let own = own.unwrap_or_default();
        let kept = put(&mut tx, user, id, &change, &own, None, at)
            .await
            .map_err(|error| sealed_meanwhile(error, change.collection.as_ref().unwrap_or(&own)))?;
        if change.max_turns.is_some() {
            match kept.max_turns {
                Some(max_turns) => drop_oldest(&mut tx, user, id, max_turns).await?,
                None => 0,
            };
            let within = left_out(&mut tx, user, id, kept.max_turns).await?;
            forget::remember_again(&mut tx, user, &within).await?;
            wake(&mut tx, user).await?;
        }
        let limits = change.max_turns.is_some() || change.max_age_hours.is_some();
        if limits || change.memory.is_some() {
            let what = || {
                json!({
                    "session": audit::unnamed(id.as_str()),
                    "memory": change.memory.map(MemoryMode::as_str),
                    "max_turns": change.max_turns.flatten(),
                    "max_age_hours": change.max_age_hours.flatten(),
                })
            };
            self.note(&mut tx, user, Verb::SessionSet, what).await?;
        }
        tx.commit().await?;
        // Just made or found under the lock; only the removal of the whole user can come between.
        self.session(user, id).await?.ok_or(StoreError::NoUser)
    }
}

/// What an append must know of a session.
pub(super) struct Stored {
    pub(super) collection: Collection,
    pub(super) memory: MemoryMode,
    pub(super) max_turns: Option<i32>,
}

/// The first and last moment at which something was said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) first: DateTime<Utc>,
    pub(super) last: DateTime<Utc>,
}

/// What is set about a session; `None` when it is new.
pub(super) async fn stored(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    id: &SessionId,
) -> Result<Option<Stored>, StoreError> {
    let row = sqlx::query!(
        "select collection, memory, max_turns from journal.session where user_id = $1 and id = $2",
        user.0,
        id.as_str()
    )
    .fetch_optional(&mut **tx)
    .await?;
    row.map(|row| {
        Ok(Stored { collection: row.collection.parse()?, memory: row.memory.parse()?, max_turns: row.max_turns })
    })
    .transpose()
}

/// Makes or changes a session; `shelf` is that of a new one unless the change says otherwise. Both shelves are made.
pub(super) async fn put(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    id: &SessionId,
    change: &SessionChange,
    shelf: &Collection,
    said: Option<Said>,
    at: DateTime<Utc>,
) -> Result<Stored, StoreError> {
    let max_turns = cap("max_turns", change.max_turns)?;
    let max_age_hours = cap("max_age_hours", change.max_age_hours)?;
    let title = change.title.clone().flatten();
    if let Some(title) = &title {
        let printable = !title.chars().any(|c| c == '\0') && title.chars().count() <= LONGEST_TITLE;
        printable.then_some(()).ok_or_else(|| {
            StoreError::Refused(format!("a title has at most {LONGEST_TITLE} characters, and no NUL among them"))
        })?;
    }
    let shelves: Vec<&str> =
        [Some(shelf), change.collection.as_ref()].into_iter().flatten().map(Collection::as_str).collect();
    let row = sqlx::query!(
        r#"
        with shelf as (
            insert into journal.collection (user_id, name, created_at)
            select distinct $1::uuid, name, $11::timestamptz from unnest($15::text[]) as shelf (name)
            on conflict do nothing
        )
        insert into journal.session
            (user_id, id, collection, title, memory, max_turns, max_age_hours, created_at, last_at)
        values ($1, $2, coalesce($3, $4), $5, coalesce($6, 'readwrite'), $7, $8,
                coalesce($9, $11::timestamptz), coalesce($10, $11::timestamptz))
        on conflict (user_id, id) do update
        set collection = coalesce($3, session.collection),
            title = case when $12 then $5 else session.title end,
            memory = coalesce($6, session.memory),
            max_turns = case when $13 then $7 else session.max_turns end,
            max_age_hours = case when $14 then $8 else session.max_age_hours end,
            created_at = least(session.created_at, $9),
            last_at = greatest(session.last_at, $10)
        returning collection, memory, max_turns
        "#,
        user.0,
        id.as_str(),
        change.collection.as_ref().map(Collection::as_str),
        shelf.as_str(),
        title,
        change.memory.map(MemoryMode::as_str),
        max_turns,
        max_age_hours,
        said.map(|said| said.first),
        said.map(|said| said.last),
        at,
        change.title.is_some(),
        change.max_turns.is_some(),
        change.max_age_hours.is_some(),
        &shelves as &[&str]
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(Stored { collection: row.collection.parse()?, memory: row.memory.parse()?, max_turns: row.max_turns })
}

/// The exchanges of a session that lie wholly before its newest `max_turns` turns leave the index: layers drop them.
pub(super) async fn drop_oldest(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    id: &SessionId,
    max_turns: i32,
) -> Result<u64, StoreError> {
    let dropped = sqlx::query!(
        r#"
        delete from journal.remembered
        using journal.exchange
        where remembered.user_id = $1
          and exchange.user_id = $1
          and exchange.id = remembered.exchange_id
          and exchange.session_id = $2
          and exchange.last_seq < (
              select min(seq)
              from (select seq
                    from journal.turn
                    where user_id = $1
                      and session_id = $2
                    order by seq desc
                    limit $3) as newest
          )
        "#,
        user.0,
        id.as_str(),
        i64::from(max_turns)
    )
    .execute(&mut **tx)
    .await?;
    Ok(dropped.rows_affected())
}

/// The exchanges of a session that are neither forgotten nor beyond its cap, and yet not in the index.
async fn left_out(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    id: &SessionId,
    max_turns: Option<i32>,
) -> Result<Vec<uuid::Uuid>, StoreError> {
    let ids = sqlx::query_scalar!(
        r#"
        select exchange.id
        from journal.exchange
        where user_id = $1
          and session_id = $2
          and forgotten_at is null
          and not exists (select from journal.remembered
                          where remembered.user_id = $1
                            and remembered.exchange_id = exchange.id)
          and last_seq >= (
              select min(seq)
              from (select seq
                    from journal.turn
                    where user_id = $1
                      and session_id = $2
                    order by seq desc
                    limit $3) as newest
          )
        "#,
        user.0,
        id.as_str(),
        max_turns.map(i64::from)
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(ids)
}

/// A cap as Postgres keeps it.
fn cap(what: &str, cap: Option<Option<u32>>) -> Result<Option<i32>, StoreError> {
    match cap.flatten().map(i32::try_from) {
        None => Ok(None),
        Some(Ok(cap)) if cap > 0 => Ok(Some(cap)),
        Some(_) => Err(StoreError::Refused(format!("{what} is at least 1 and at most {}", i32::MAX))),
    }
}

struct SessionRow {
    id: String,
    collection: String,
    title: Option<String>,
    memory: String,
    max_turns: Option<i32>,
    max_age_hours: Option<i32>,
    created_at: DateTime<Utc>,
    last_at: DateTime<Utc>,
    exchanges: i64,
}

impl TryFrom<SessionRow> for Session {
    type Error = StoreError;

    fn try_from(row: SessionRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.parse()?,
            collection: row.collection.parse()?,
            title: row.title,
            memory: row.memory.parse()?,
            // The table holds positive numbers only.
            max_turns: row.max_turns.and_then(|cap| u32::try_from(cap).ok()),
            max_age_hours: row.max_age_hours.and_then(|cap| u32::try_from(cap).ok()),
            created_at: row.created_at,
            last_at: row.last_at,
            exchanges: row.exchanges,
        })
    }
}
