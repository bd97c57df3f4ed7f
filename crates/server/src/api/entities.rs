//! Entities: who and what facts are about. Their names are joined and parted by entries of the journal.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, get, patch, post};
use serde::{Deserialize, Serialize};
use skymem_core::ExchangeId;
use skymem_core::facts::{Entity, EntityKind, EntityName, FactId, MOST_EXCHANGES_APART};
use skymem_engine::{Memory, Page};
use utoipa::{IntoParams, ToSchema};

use crate::api::facts::{EntityItem, look};
use crate::api::pages::page_request;
use crate::api::turns::TurnFateAnswer;
use crate::auth::{Reader, Writer};
use crate::body::{Json, Query};
use crate::error::ApiError;
use crate::wire::{Moment, Whole, Words};

/// Lists entities, best known first.
#[utoipa::path(
    operation_id = "list_entities", tag = "facts", security(("key" = ["read"])), params(EntitiesQuery),
    responses((status = 200, description = "A page of entities", body = EntitiesAnswer)),
)]
#[get("/entities")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    query: Query<EntitiesQuery>,
) -> Result<Answer<EntitiesAnswer>, ApiError> {
    let EntitiesQuery { like, as_of, known_at, after, limit } = query.into_inner();
    let like = like.as_ref().map(|like| like.0.as_str());
    let look = look(as_of, known_at, false)?;
    Ok(Answer(memory.entities(who.user, like, look, &page_request(after, limit)).await?.into()))
}

/// Shows one entity, by its name, an alias or its id.
#[utoipa::path(
    operation_id = "get_entity", tag = "facts", security(("key" = ["read"])), params(EntityPath, SeenQuery),
    responses((status = 200, description = "The entity", body = EntityItem)),
)]
#[get("/entities/{entity}")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<EntityPath>,
    query: Query<SeenQuery>,
) -> Result<Answer<EntityItem>, ApiError> {
    let SeenQuery { as_of, known_at } = query.into_inner();
    Ok(Answer(memory.entity(who.user, &path.entity, look(as_of, known_at, false)?).await?.into()))
}

/// Says what an entity is.
///
/// It is an entry of the journal: `POST /v1/forget` with the exchange that is answered undoes it.
#[utoipa::path(
    operation_id = "set_entity_kind", tag = "facts", security(("key" = ["write"])), params(EntityPath),
    responses(
        (status = 201, description = "It is written down", body = TurnFateAnswer),
        (status = 200, description = "That was told before", body = TurnFateAnswer),
    ),
)]
#[patch("/entities/{entity}")]
pub(crate) async fn change(
    who: Writer,
    memory: Data<Memory>,
    path: Path<EntityPath>,
    body: Json<KindBody>,
) -> Result<HttpResponse, ApiError> {
    let fate = memory.set_entity_kind(who.user, &path.entity, body.into_inner().kind).await?;
    Ok(TurnFateAnswer::from(fate).respond())
}

/// Makes two entities one. Their facts are the facts of one from here on, and both names find it.
///
/// It is an entry of the journal: `POST /v1/forget` with the exchange that is answered undoes it.
#[utoipa::path(
    operation_id = "merge_entities", tag = "facts", security(("key" = ["write"])),
    responses(
        (status = 201, description = "It is written down", body = TurnFateAnswer),
        (status = 200, description = "That was told before", body = TurnFateAnswer),
    ),
)]
#[post("/entities/merge")]
pub(crate) async fn merge(who: Writer, memory: Data<Memory>, body: Json<MergeBody>) -> Result<HttpResponse, ApiError> {
    let MergeBody { name, alias } = body.into_inner();
    let fate = memory.merge_entities(who.user, &name, &alias).await?;
    Ok(TurnFateAnswer::from(fate).respond())
}

/// Tells two entities apart that bear one name: what the given exchanges say, or what supports the given facts, is
/// about another from here on.
///
/// It is an entry of the journal: `POST /v1/forget` with the exchange that is answered undoes it.
#[utoipa::path(
    operation_id = "split_entity", tag = "facts", security(("key" = ["write"])),
    responses(
        (status = 201, description = "It is written down", body = TurnFateAnswer),
        (status = 200, description = "That was told before", body = TurnFateAnswer),
    ),
)]
#[post("/entities/split")]
pub(crate) async fn split(who: Writer, memory: Data<Memory>, body: Json<SplitBody>) -> Result<HttpResponse, ApiError> {
    let SplitBody { name, other, exchanges, facts } = body.into_inner().checked()?;
    let fate = memory.split_entity(who.user, &name, &other, exchanges, &facts).await?;
    Ok(TurnFateAnswer::from(fate).respond())
}

/// Names an entity.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EntityPath {
    /// Its name, an alias or its id, percent-encoded.
    #[param(value_type = String, max_length = 200, example = "Anna")]
    entity: EntityName,
}

/// Which entities.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct EntitiesQuery {
    /// Only those with this in their name or in an alias.
    #[param(value_type = Option<String>, max_length = 200)]
    like: Option<Words<200>>,
    /// Known by facts that held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// `next` of the page before; absent for the first page.
    after: Option<String>,
    /// At most so many items; 50 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

/// From when it is looked.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct SeenQuery {
    /// What held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
}

/// A page of entities.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntitiesAnswer {
    /// The entities, best known first.
    entities: Vec<EntityItem>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl From<Page<Entity>> for EntitiesAnswer {
    fn from(page: Page<Entity>) -> Self {
        Self { entities: page.items.into_iter().map(EntityItem::from).collect(), next: page.next }
    }
}

/// What changes about an entity.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct KindBody {
    /// `person`, `organisation`, `place`, `project`, `technology`, `event`, `animal` or `other`.
    #[schema(value_type = String, example = "person")]
    kind: EntityKind,
}

/// Two entities that are one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct MergeBody {
    /// What it is called from here on: a name or an id.
    #[schema(value_type = String, max_length = 200, example = "Robert")]
    name: EntityName,
    /// What it is called too: the other's name or id. Nobody need bear the name yet.
    #[schema(value_type = String, max_length = 200, example = "Bob")]
    alias: EntityName,
}

/// Two entities that bear one name. `exchanges`, `facts` or both say what is about the second.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct SplitBody {
    /// The name that stands for two, an alias or the id.
    #[schema(value_type = String, max_length = 200, example = "Bob")]
    name: EntityName,
    /// What the second is called from here on.
    #[schema(value_type = String, max_length = 200, example = "Bob from work")]
    other: EntityName,
    /// What these exchanges say of the name is about the second: up to 1,000.
    #[serde(default)]
    #[schema(value_type = Vec<Uuid>)]
    exchanges: Vec<ExchangeId>,
    /// What supports these facts is about the second: up to 1,000.
    #[serde(default)]
    #[schema(value_type = Vec<Uuid>)]
    facts: Vec<FactId>,
}

impl SplitBody {
    fn checked(self) -> Result<Self, ApiError> {
        if self.exchanges.is_empty() && self.facts.is_empty() {
            return Err(ApiError::invalid("", "name at least one of `exchanges` or `facts` that is about the second"));
        }
        for (field, count) in [("exchanges", self.exchanges.len()), ("facts", self.facts.len())] {
            if count > MOST_EXCHANGES_APART {
                return Err(ApiError::invalid(field, format!("names at most {MOST_EXCHANGES_APART}")));
            }
        }
        Ok(self)
    }
}
