//! Exchanges: what is remembered, forgotten and pinned.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{delete, get, post, put};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use skymem_core::{Collection, Exchange, ExchangeId, Filter, Role, SessionId, Source, Turn};
use skymem_engine::{ExchangeView, Forgotten, Memory, Page, PageRequest};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::api::forget::ChangedAnswer;
use crate::api::pages::page_request;
use crate::auth::{Reader, Writer};
use crate::body::Query;
use crate::error::ApiError;
use crate::wire::{Moment, Whole, Word, time_range};

/// Lists your exchanges, newest first.
#[utoipa::path(
    operation_id = "list_exchanges", tag = "exchanges", security(("key" = ["read"])), params(ExchangesQuery),
    responses((status = 200, description = "A page of exchanges", body = ExchangesAnswer)),
)]
#[get("/exchanges")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    query: Query<ExchangesQuery>,
) -> Result<Answer<ExchangesAnswer>, ApiError> {
    let (filter, page) = query.into_inner().into_request()?;
    Ok(Answer(memory.exchanges(who.user, &filter, &page).await?.into()))
}

/// Shows one exchange, also when it is in the trash.
#[utoipa::path(
    operation_id = "get_exchange", tag = "exchanges", security(("key" = ["read"])), params(ExchangePath),
    responses((status = 200, description = "The exchange", body = ExchangeAnswer)),
)]
#[get("/exchanges/{exchange}")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<ExchangePath>,
) -> Result<Answer<ExchangeAnswer>, ApiError> {
    let view = memory.exchange(who.user, path.exchange).await?;
    path.found(view)
}

/// Forgets one exchange. It can be restored within the trash period. Idempotent.
#[utoipa::path(
    operation_id = "forget_exchange", tag = "exchanges", security(("key" = ["write"])), params(ExchangePath),
    responses((status = 200, description = "The exchange, when it is forgotten by this", body = ChangedAnswer)),
)]
#[delete("/exchanges/{exchange}")]
pub(crate) async fn forget(
    who: Writer,
    memory: Data<Memory>,
    path: Path<ExchangePath>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let changed = memory.forget_one(who.user, path.exchange).await?;
    path.found(changed)
}

/// Takes one exchange back out of the trash. Idempotent.
#[utoipa::path(
    operation_id = "restore_exchange", tag = "exchanges", security(("key" = ["write"])), params(ExchangePath),
    responses((status = 200, description = "The exchange, when it is restored by this", body = ChangedAnswer)),
)]
#[post("/exchanges/{exchange}/restore")]
pub(crate) async fn restore(
    who: Writer,
    memory: Data<Memory>,
    path: Path<ExchangePath>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let changed = memory.restore_one(who.user, path.exchange).await?;
    path.found(changed)
}

/// Pins one exchange: it does not fade and is spared by pruning. Idempotent.
#[utoipa::path(
    operation_id = "pin_exchange", tag = "exchanges", security(("key" = ["write"])), params(ExchangePath),
    responses((status = 200, description = "The exchange as it then is", body = ExchangeAnswer)),
)]
#[put("/exchanges/{exchange}/pin")]
pub(crate) async fn pin(
    who: Writer,
    memory: Data<Memory>,
    path: Path<ExchangePath>,
) -> Result<Answer<ExchangeAnswer>, ApiError> {
    let view = memory.pin(who.user, path.exchange, true).await?;
    path.found(view)
}

/// Takes the pin of one exchange away. Idempotent.
#[utoipa::path(
    operation_id = "unpin_exchange", tag = "exchanges", security(("key" = ["write"])), params(ExchangePath),
    responses((status = 200, description = "The exchange as it then is", body = ExchangeAnswer)),
)]
#[delete("/exchanges/{exchange}/pin")]
pub(crate) async fn unpin(
    who: Writer,
    memory: Data<Memory>,
    path: Path<ExchangePath>,
) -> Result<Answer<ExchangeAnswer>, ApiError> {
    let view = memory.pin(who.user, path.exchange, false).await?;
    path.found(view)
}

/// Names an exchange.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ExchangePath {
    /// The exchange's id.
    #[param(value_type = Uuid)]
    exchange: ExchangeId,
}

impl ExchangePath {
    fn found<T, A: From<T>>(&self, found: Option<T>) -> Result<Answer<A>, ApiError> {
        let missing = || ApiError::not_found(format!("exchange {}", self.exchange));
        found.map(|found| Answer(found.into())).ok_or_else(missing)
    }
}

/// Which exchanges: every condition that is given must hold.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct ExchangesQuery {
    /// Only of this session.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Only in this collection.
    #[param(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Only from this source.
    #[param(value_type = Option<String>)]
    source: Option<Source>,
    /// Only those in which this role says something: `user`, `assistant`, `system` or `tool`.
    #[param(value_type = Option<String>)]
    role: Option<Word<Role>>,
    /// Only pinned ones, or only others.
    pinned: Option<bool>,
    /// Only what was said at this moment or later: RFC 3339 with its zone.
    #[param(value_type = Option<DateTime<Utc>>)]
    from: Option<Moment>,
    /// Only what was said before this moment.
    #[param(value_type = Option<DateTime<Utc>>)]
    until: Option<Moment>,
    /// `next` of the page before; absent for the first page.
    after: Option<String>,
    /// At most so many items; 50 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

impl ExchangesQuery {
    fn into_request(self) -> Result<(Filter, PageRequest), ApiError> {
        let filter = Filter {
            sessions: self.session.into_iter().collect(),
            collections: self.collection.into_iter().collect(),
            sources: self.source.into_iter().collect(),
            roles: self.role.into_iter().map(|role| role.0).collect(),
            time: time_range(self.from, self.until)?,
            pinned: self.pinned,
        };
        Ok((filter, page_request(self.after, self.limit)))
    }
}

/// An exchange: a user turn and what follows it up to the next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExchangeAnswer {
    /// Its name for ever.
    id: Uuid,
    /// The session it was said in.
    session: String,
    /// The collection it stands in.
    collection: String,
    /// `said` in a conversation, `asserted` to memory directly, or `stated` about facts.
    kind: &'static str,
    /// Where it came from: `session`, `import:<file>`, ...
    source: String,
    /// Whether it is pinned.
    pinned: bool,
    /// When it was forgotten, if it is in the trash.
    forgotten_at: Option<DateTime<Utc>>,
    /// Its turns, oldest first.
    turns: Vec<TurnAnswer>,
}

impl From<ExchangeView> for ExchangeAnswer {
    fn from(ExchangeView { exchange, forgotten_at }: ExchangeView) -> Self {
        Self::new(exchange, forgotten_at)
    }
}

impl From<Exchange> for ExchangeAnswer {
    fn from(exchange: Exchange) -> Self {
        Self::new(exchange, None)
    }
}

impl From<Forgotten> for ExchangeAnswer {
    fn from(Forgotten { exchange, forgotten_at }: Forgotten) -> Self {
        Self::new(exchange, Some(forgotten_at))
    }
}

impl ExchangeAnswer {
    fn new(exchange: Exchange, forgotten_at: Option<DateTime<Utc>>) -> Self {
        Self {
            id: exchange.id.0,
            session: exchange.session.into(),
            collection: exchange.collection.into(),
            kind: exchange.kind.as_str(),
            source: exchange.source.into(),
            pinned: exchange.pinned,
            forgotten_at,
            turns: exchange.turns.into_iter().map(TurnAnswer::from).collect(),
        }
    }
}

/// One message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TurnAnswer {
    /// Its place in your journal.
    seq: i64,
    /// `user`, `assistant`, `system` or `tool`.
    role: &'static str,
    /// The speaker's name, in a conversation between named people.
    speaker: Option<String>,
    /// What was said.
    text: String,
    /// When it was said.
    occurred_at: DateTime<Utc>,
}

impl From<Turn> for TurnAnswer {
    fn from(turn: Turn) -> Self {
        Self {
            seq: turn.seq.0,
            role: turn.role.as_str(),
            speaker: turn.speaker,
            text: turn.text,
            occurred_at: turn.occurred_at,
        }
    }
}

/// A page of exchanges.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExchangesAnswer {
    /// The exchanges, newest first.
    exchanges: Vec<ExchangeAnswer>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl<T: Into<ExchangeAnswer>> From<Page<T>> for ExchangesAnswer {
    fn from(page: Page<T>) -> Self {
        Self { exchanges: page.items.into_iter().map(Into::into).collect(), next: page.next }
    }
}
