//! The graph of facts: what is around an entity, how two are linked, which belong together.

use actix_web::http::header;
use actix_web::web::{Data, Json as Answer};
use actix_web::{HttpResponse, get};
use serde::{Deserialize, Serialize};
use skymem_core::facts::{Community, EntityName, FactPath, Subgraph};
use skymem_engine::{ExportFormat, Looked, Memory};
use utoipa::{IntoParams, ToSchema};

use crate::api::facts::{EntityHeadItem, FactItem, look};
use crate::auth::Reader;
use crate::body::Query;
use crate::error::ApiError;
use crate::wire::{Moment, Whole, Word};

/// Shows what is linked to an entity over a few facts, nearest first.
#[utoipa::path(
    operation_id = "get_neighbourhood", tag = "facts", security(("key" = ["read"])), params(AroundQuery),
    responses((status = 200, description = "The part of the graph", body = SubgraphAnswer)),
)]
#[get("/graph/neighbourhood")]
pub(crate) async fn neighbourhood(
    who: Reader,
    memory: Data<Memory>,
    query: Query<AroundQuery>,
) -> Result<Answer<SubgraphAnswer>, ApiError> {
    let AroundQuery { of, hops, as_of, known_at, limit } = query.into_inner();
    let (hops, limit) = (hops.map_or(2, Whole::size), limit.map_or(200, Whole::size));
    Ok(Answer(memory.neighbourhood(who.user, &of, hops, look(as_of, known_at, false)?, limit).await?.into()))
}

/// Shows how one entity is linked to another: the shortest ways, each hop a fact with what supports it. None when they
/// are not linked.
#[utoipa::path(
    operation_id = "get_paths", tag = "facts", security(("key" = ["read"])), params(PathQuery),
    responses((status = 200, description = "The ways, the shortest first", body = PathsAnswer)),
)]
#[get("/graph/path")]
pub(crate) async fn paths(
    who: Reader,
    memory: Data<Memory>,
    query: Query<PathQuery>,
) -> Result<Answer<PathsAnswer>, ApiError> {
    let PathQuery { from, to, hops, as_of, known_at, limit } = query.into_inner();
    let (hops, limit) = (hops.map_or(4, Whole::size), limit.map_or(5, Whole::size));
    Ok(Answer(memory.paths(who.user, (&from, &to), hops, look(as_of, known_at, false)?, limit).await?.into()))
}

/// Lists groups of entities that are linked among themselves more than to others, the largest first.
#[utoipa::path(
    operation_id = "list_communities", tag = "facts", security(("key" = ["read"])), params(CommunitiesQuery),
    responses((status = 200, description = "The groups", body = CommunitiesAnswer)),
)]
#[get("/graph/communities")]
pub(crate) async fn communities(
    who: Reader,
    memory: Data<Memory>,
    query: Query<CommunitiesQuery>,
) -> Result<Answer<CommunitiesAnswer>, ApiError> {
    let CommunitiesQuery { as_of, known_at, limit } = query.into_inner();
    let limit = limit.map_or(20, Whole::size);
    let communities = memory.communities(who.user, look(as_of, known_at, false)?, limit).await?;
    Ok(Answer(CommunitiesAnswer { communities: communities.into_iter().map(CommunityItem::from).collect() }))
}

/// Writes the whole graph as other programs read it: Graphviz, GraphML, Cytoscape, or CSV, which can be imported again.
#[utoipa::path(
    operation_id = "export_graph", tag = "facts", security(("key" = ["read"])), params(ExportQuery),
    responses((status = 200, description = "The graph", content(
        (String = "text/csv"), (String = "text/vnd.graphviz"), (String = "application/graphml+xml"),
        (Object = "application/json"),
    ))),
)]
#[get("/graph/export")]
pub(crate) async fn export(
    who: Reader,
    memory: Data<Memory>,
    query: Query<ExportQuery>,
) -> Result<HttpResponse, ApiError> {
    let ExportQuery { format: Word(format), as_of, known_at, history } = query.into_inner();
    let text = memory.export_facts(who.user, look(as_of, known_at, history)?, format).await?;
    let name = format!("attachment; filename=\"facts.{}\"", format.as_str());
    Ok(HttpResponse::Ok()
        .content_type(format.media_type())
        .insert_header((header::CONTENT_DISPOSITION, name))
        .body(text))
}

/// What is around which entity.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct AroundQuery {
    /// The entity in the middle: its name, an alias or its id.
    #[param(value_type = String, example = "Anna")]
    of: EntityName,
    /// Over at most so many facts; 2 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 6)]
    hops: Option<Whole<1, 6>>,
    /// Over facts that held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// At most so many entities; 200 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 2000)]
    limit: Option<Whole<1, 2000>>,
}

/// From where to where.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct PathQuery {
    /// The entity at one end: its name, an alias or its id.
    #[param(value_type = String, example = "Anna")]
    from: EntityName,
    /// The entity at the other end.
    #[param(value_type = String, example = "PostgreSQL")]
    to: EntityName,
    /// Over at most so many facts; 4 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 6)]
    hops: Option<Whole<1, 6>>,
    /// Over facts that held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// At most so many ways; 5 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 20)]
    limit: Option<Whole<1, 20>>,
}

/// Which groups.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct CommunitiesQuery {
    /// Over facts that held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// At most so many groups; 20 unless said otherwise.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

/// How the graph is written.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `dot`, `graphml`, `cytoscape` or `csv`.
    #[param(value_type = String, example = "dot")]
    format: Word<ExportFormat>,
    /// Facts that held then, in RFC 3339 with its zone; absent for now.
    #[param(value_type = Option<DateTime<Utc>>)]
    as_of: Option<Moment>,
    /// As it was known then; absent for all that is known.
    #[param(value_type = Option<DateTime<Utc>>)]
    known_at: Option<Moment>,
    /// Facts of every time, what was taken back as well.
    #[serde(default)]
    history: bool,
}

/// A part of the graph.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubgraphAnswer {
    /// The entities, nearest first.
    entities: Vec<EntityHeadItem>,
    /// The facts between them, and their literal facts.
    facts: Vec<FactItem>,
    /// Whether there was more than the limit allows.
    cut: bool,
}

impl From<Looked<Subgraph>> for SubgraphAnswer {
    fn from(Looked { at, seen }: Looked<Subgraph>) -> Self {
        Self {
            entities: seen.entities.into_iter().map(EntityHeadItem::from).collect(),
            facts: seen.facts.into_iter().map(|fact| FactItem::new(fact, at)).collect(),
            cut: seen.cut,
        }
    }
}

/// How two entities are linked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PathsAnswer {
    /// The ways, the shortest first; empty when they are not linked.
    paths: Vec<PathItem>,
}

/// A way from one entity to another.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PathItem {
    /// The entities on the way, both ends included.
    entities: Vec<EntityHeadItem>,
    /// The fact of each hop, in order. It may point either way.
    hops: Vec<FactItem>,
}

impl From<Looked<Vec<FactPath>>> for PathsAnswer {
    fn from(Looked { at, seen }: Looked<Vec<FactPath>>) -> Self {
        let item = |FactPath { entities, hops }: FactPath| PathItem {
            entities: entities.into_iter().map(EntityHeadItem::from).collect(),
            hops: hops.into_iter().map(|fact| FactItem::new(fact, at)).collect(),
        };
        Self { paths: seen.into_iter().map(item).collect() }
    }
}

/// Groups of entities.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommunitiesAnswer {
    /// The groups, the largest first.
    communities: Vec<CommunityItem>,
}

/// Entities that are linked among themselves more than to others.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CommunityItem {
    /// Its members, best linked first.
    entities: Vec<EntityHeadItem>,
    /// How many facts link members to each other.
    facts: usize,
}

impl From<Community> for CommunityItem {
    fn from(community: Community) -> Self {
        let entities = community.entities.into_iter().map(EntityHeadItem::from).collect();
        Self { entities, facts: community.facts }
    }
}
