//! Facts: what holds, since when, and how we know. What is told of them is an entry of the journal ([`tell`]).

pub(crate) mod import;
mod items;
pub(crate) mod tell;

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, delete, get};
use serde::de::{Deserializer, IntoDeserializer};
use serde::{Deserialize, Serialize};
use skymem_core::facts::{EntityName, Fact, FactId, Predicate};
use skymem_core::{Collection, ExchangeId};
use skymem_engine::{FactFilter, Look, Looked, Memory, Page, PageRequest, Retraction};
use utoipa::{IntoParams, ToSchema};

use crate::api::pages::page_request;
use crate::api::turns::TurnFateAnswer;
use crate::auth::{Reader, Writer};
use crate::body::Query;
use crate::error::ApiError;
use crate::wire::{Moment, Whole};

pub(crate) use items::{EntityHeadItem, EntityItem, FactItem};

/// Lists facts: those that hold first, then the newest. Now, unless said otherwise.
#[utoipa::path(
    operation_id = "list_facts", tag = "facts", security(("key" = ["read"])), params(FactsQuery),
    responses((status = 200, description = "A page of facts", body = FactsAnswer)),
)]
#[get("/facts")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    query: Query<FactsQuery>,
) -> Result<Answer<FactsAnswer>, ApiError> {
    let (filter, look, page) = query.into_inner().into_asked()?;
    Ok(Answer(memory.facts(who.user, filter, look, &page).await?.into()))
}

/// Shows one fact with all that supports it, whether it holds or not.
#[utoipa::path(
    operation_id = "get_fact", tag = "facts", security(("key" = ["read"])), params(FactPath),
    responses((status = 200, description = "The fact", body = FactItem)),
)]
#[get("/facts/{fact}")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<FactPath>,
) -> Result<Answer<FactItem>, ApiError> {
    let Looked { at, seen } = memory.fact(who.user, path.fact).await?;
    Ok(Answer(FactItem::new(seen, at)))
}

/// Lists every fact with the subject and predicate of this one: what held before and after, and what was taken back.
#[utoipa::path(
    operation_id = "get_fact_history", tag = "facts", security(("key" = ["read"])), params(FactPath, HistoryQuery),
    responses((status = 200, description = "A page of facts", body = FactsAnswer)),
)]
#[get("/facts/{fact}/history")]
pub(crate) async fn history(
    who: Reader,
    memory: Data<Memory>,
    path: Path<FactPath>,
    query: Query<HistoryQuery>,
) -> Result<Answer<FactsAnswer>, ApiError> {
    let HistoryQuery { known_at, after, limit } = query.into_inner();
    let look = look(None, known_at, true)?;
    Ok(Answer(memory.fact_history(who.user, path.fact, look, &page_request(after, limit)).await?.into()))
}

/// Takes a fact back: it never held. With `ended_at` it did, until then. What was known stays in the history.
///
/// It is an entry of the journal like any other: `POST /v1/forget` with the exchange that is answered undoes it.
#[utoipa::path(
    operation_id = "retract_fact", tag = "facts", security(("key" = ["write"])), params(FactPath, RetractQuery),
    responses(
        (status = 201, description = "It is written down that it does not hold", body = TurnFateAnswer),
        (status = 200, description = "That was told before", body = TurnFateAnswer),
    ),
)]
#[delete("/facts/{fact}")]
pub(crate) async fn retract(
    who: Writer,
    memory: Data<Memory>,
    path: Path<FactPath>,
    query: Query<RetractQuery>,
) -> Result<HttpResponse, ApiError> {
    let how = query.into_inner().ended_at.map_or(Retraction::NeverHeld, |ended| ended.0);
    let fate = memory.retract(who.user, path.fact, how).await?;
    Ok(TurnFateAnswer::from(fate).respond())
}

/// Names a fact.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct FactPath {
    /// The fact's id.
    #[param(value_type = Uuid)]
    fact: FactId,
}

/// Which facts: every condition that is given must hold.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct FactsQuery {
    /// Only about this entity, as subject or as object: its name, an alias or its id.
    #[param(value_type = Option<String>, example = "Anna")]
    about: Option<EntityName>,
    /// Only with this predicate.
    #[param(value_type = Option<String>, example = "lives_in")]
    predicate: Option<Predicate>,
    /// Only supported by this exchange.
    #[param(value_type = Option<Uuid>)]
    exchange: Option<ExchangeId>,
    /// Only from this collection.
    #[param(value_type = Option<String>)]
    collection: Option<Collection>,
    /// What held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// Of every time, what was taken back as well.
    #[serde(default)]
    history: bool,
    /// `next` of the page before; absent for the first page.
    after: Option<String>,
    /// At most so many items; 50 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

impl FactsQuery {
    fn into_asked(self) -> Result<(FactFilter, Look, PageRequest), ApiError> {
        let filter = FactFilter {
            about: self.about,
            predicate: self.predicate,
            exchange: self.exchange,
            collections: self.collection.into_iter().collect(),
        };
        Ok((filter, look(self.as_of, self.known_at, self.history)?, page_request(self.after, self.limit)))
    }
}

/// From when it is looked: now unless said otherwise, or over the whole history.
pub(crate) fn look(as_of: Option<Moment>, known_at: Option<Moment>, ever: bool) -> Result<Look, ApiError> {
    if ever && as_of.is_some() {
        return Err(ApiError::invalid("history", "goes without `as_of`: that is one moment of it"));
    }
    let moment = |moment: Option<Moment>| moment.map(|moment| moment.0);
    Ok(Look { as_of: moment(as_of), known_at: moment(known_at), ever })
}

/// Which part of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// As it was known then, in RFC 3339 with its zone; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// `next` of the page before; absent for the first page.
    after: Option<String>,
    /// At most so many items; 50 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

/// How a fact is taken back.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct RetractQuery {
    /// It held, until this moment: RFC 3339 with its zone, or `now`. Absent when it never did.
    #[param(value_type = Option<String>, example = "2026-05-01T00:00:00+02:00")]
    ended_at: Option<Ended>,
}

/// Until when a fact held.
#[derive(Debug)]
struct Ended(Retraction);

impl<'de> Deserialize<'de> for Ended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "now" {
            return Ok(Self(Retraction::EndedNow));
        }
        let moment = Moment::deserialize(text.into_deserializer())?;
        Ok(Self(Retraction::EndedAt(moment.0)))
    }
}

/// A page of facts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactsAnswer {
    /// The facts: those that hold first, then the newest.
    facts: Vec<FactItem>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl From<Looked<Page<Fact>>> for FactsAnswer {
    fn from(Looked { at, seen }: Looked<Page<Fact>>) -> Self {
        Self { facts: seen.items.into_iter().map(|fact| FactItem::new(fact, at)).collect(), next: seen.next }
    }
}
