//! Reads facts for the doors.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::facts::{
    Community, Entity, EntityHead, EntityId, EntityName, Fact, FactError, FactGraph, FactId, FactPath, FactsAsked,
    Predicate, Seen, Subgraph,
};
use skymem_core::{LayerError, UserId};

use crate::FactsLayer;
use crate::resolve::normal;
use crate::view::{Glance, Place, Sight, Sighted, Value, View};

/// A part of the graph tells at most so many facts with plain values of each of its entities.
const LITERALS_PER_ENTITY: usize = 32;

#[async_trait]
impl FactGraph for FactsLayer {
    fn is_single(&self, predicate: &Predicate) -> bool {
        self.shelf.predicates().traits(predicate.as_str()).single
    }

    async fn facts(&self, user: UserId, asked: &FactsAsked) -> Result<Vec<Fact>, FactError> {
        let asked = asked.clone();
        self.glance(user, asked.seen, move |glance| facts(glance, &asked)).await
    }

    async fn fact(&self, user: UserId, id: FactId) -> Result<Fact, FactError> {
        let ever = Seen { as_of: None, known_at: None };
        let found = move |glance: &Glance<'_>| {
            glance.find(id).and_then(|sighted| glance.fact(&sighted)).ok_or_else(|| no_fact(id))
        };
        self.glance(user, ever, found).await
    }

    async fn entities(
        &self,
        user: UserId,
        like: Option<&str>,
        seen: Seen,
        limit: usize,
        after: Option<EntityId>,
    ) -> Result<Vec<Entity>, FactError> {
        let like = like.map(normal);
        self.glance(user, seen, move |glance| entities(glance, like.as_deref(), seen.as_of, limit, after)).await
    }

    async fn entity(&self, user: UserId, name: &EntityName, seen: Seen) -> Result<Entity, FactError> {
        let name = name.clone();
        let found = move |glance: &Glance<'_>| {
            let entity = find(glance, &name)?;
            let facts = glance.about(entity).filter(|sighted| sighted.holds(seen.as_of)).count();
            glance.entity(entity).map(|found| Entity { facts, ..found }).ok_or_else(|| no_entity(&name))
        };
        self.glance(user, seen, found).await
    }

    async fn around(
        &self,
        user: UserId,
        centre: &EntityName,
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Subgraph, FactError> {
        let centre = centre.clone();
        let walk = move |glance: &Glance<'_>| {
            let centre = find(glance, &centre)?;
            let walkable = |link| glance.link(link).any(|sighted| sighted.holds(seen.as_of));
            let around = glance.view.net().around(centre, hops, limit, walkable);
            let entities: Vec<u32> = around.entities.iter().map(|reached| reached.entity).collect();
            let links = around.facts.iter().flat_map(|link| glance.link(*link));
            let literals = entities.iter().flat_map(|entity| {
                let own = glance.groups_of(*entity).iter().flat_map(|group| glance.group(*group));
                own.filter(|sighted| is_literal(sighted) && sighted.holds(seen.as_of)).take(LITERALS_PER_ENTITY)
            });
            let facts = links.filter(|sighted| sighted.holds(seen.as_of)).chain(literals);
            Ok(Subgraph {
                entities: heads(glance, entities.iter().copied()),
                facts: facts.filter_map(|sighted| glance.fact(&sighted)).collect(),
                cut: around.cut,
            })
        };
        self.glance(user, seen, walk).await
    }

    async fn paths(
        &self,
        user: UserId,
        between: (&EntityName, &EntityName),
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Vec<FactPath>, FactError> {
        let (from, to) = (between.0.clone(), between.1.clone());
        let walk = move |glance: &Glance<'_>| {
            let (from, to) = (find(glance, &from)?, find(glance, &to)?);
            let walkable = |link| glance.link(link).any(|sighted| sighted.holds(seen.as_of));
            let ways = glance.view.net().paths(from, to, hops, limit, walkable).ways;
            let path = |way: &crate::graph::Way| FactPath {
                entities: heads(glance, way.entities.iter().copied()),
                hops: way.facts.iter().filter_map(|link| newest(glance, *link, seen.as_of)).collect(),
            };
            Ok(ways.iter().map(path).collect())
        };
        self.glance(user, seen, walk).await
    }

    async fn communities(&self, user: UserId, seen: Seen, limit: usize) -> Result<Vec<Community>, FactError> {
        let walk = move |glance: &Glance<'_>| {
            let walkable = |link| glance.link(link).any(|sighted| sighted.holds(seen.as_of));
            let groups = glance.view.net().communities(walkable).into_iter().take(limit);
            let community = |group: crate::graph::Group| Community {
                entities: heads(glance, group.entities.iter().copied()),
                facts: group.facts,
            };
            Ok(groups.map(community).collect())
        };
        self.glance(user, seen, walk).await
    }

    async fn graph(&self, user: UserId, seen: Seen) -> Result<Subgraph, FactError> {
        let all = move |glance: &Glance<'_>| {
            // Of every time also means what was taken back, as in a list.
            let facts = glance.all().filter(|sighted| seen.as_of.is_none() || sighted.holds(seen.as_of));
            Ok(Subgraph {
                facts: facts.filter_map(|sighted| glance.fact(&sighted)).collect(),
                entities: heads(glance, 0..glance.entities()),
                cut: false,
            })
        };
        self.glance(user, seen, all).await
    }
}

impl FactsLayer {
    /// Looks at what is known of a user from a moment, off the threads that serve requests.
    async fn glance<T: Send + 'static>(
        &self,
        user: UserId,
        seen: Seen,
        look: impl FnOnce(&Glance<'_>) -> Result<T, FactError> + Send + 'static,
    ) -> Result<T, FactError> {
        let sight = Sight { known_at: seen.known_at, said_by: None };
        let view: Arc<View> = self.shelf.seen(user, sight).await?;
        let looked = tokio::task::spawn_blocking(move || look(&view.glance(sight)));
        looked.await.unwrap_or_else(|_| Err(LayerError::Database(sqlx::Error::WorkerCrashed).into()))
    }
}

fn facts(glance: &Glance<'_>, asked: &FactsAsked) -> Result<Vec<Fact>, FactError> {
    let about = asked.about.as_ref().map(|name| find(glance, name)).transpose()?;
    let found: Vec<Sighted<'_>> = match (asked.exchange, about) {
        (Some(exchange), _) => glance.supported_by(exchange),
        (None, Some(entity)) => glance.about(entity).collect(),
        (None, None) => glance.all().collect(),
    };
    let wanted = |sighted: &Sighted<'_>| {
        about.is_none_or(|entity| sighted.subject == entity || sighted.value == Value::Entity(entity))
            && asked.predicate.as_ref().is_none_or(|asked| glance.predicate(sighted.predicate) == Some(asked))
            && (asked.seen.as_of.is_none() || sighted.holds(asked.seen.as_of))
            && (asked.collections.is_empty() || glance.stands_in(sighted.held, &asked.collections))
    };
    let mut found: Vec<Sighted<'_>> = found.into_iter().filter(wanted).collect();
    found.sort_by_cached_key(order);
    let begins = match asked.after {
        Some(id) => {
            let last = glance.find(id).ok_or_else(|| no_fact(id))?;
            found.partition_point(|sighted| order(sighted) <= order(&last))
        }
        None => 0,
    };
    Ok(found.iter().skip(begins).take(asked.limit).filter_map(|sighted| glance.fact(sighted)).collect())
}

/// Those that hold first, then the newest.
fn order(sighted: &Sighted<'_>) -> (bool, bool, Reverse<DateTime<Utc>>, Reverse<DateTime<Utc>>, Place) {
    let held = sighted.held;
    let (over, wrong) = (held.to.is_some(), held.retracted_at.is_some());
    (over || wrong, wrong, Reverse(held.from), Reverse(held.recorded_at), sighted.place)
}

fn entities(
    glance: &Glance<'_>,
    like: Option<&str>,
    as_of: Option<DateTime<Utc>>,
    limit: usize,
    after: Option<EntityId>,
) -> Result<Vec<Entity>, FactError> {
    let mut facts = vec![0_usize; glance.entities() as usize];
    for sighted in glance.all().filter(|sighted| sighted.holds(as_of)) {
        let object = if let Value::Entity(entity) = sighted.value { Some(entity) } else { None };
        for entity in std::iter::once(sighted.subject).chain(object.filter(|object| *object != sighted.subject)) {
            if let Some(count) = facts.get_mut(entity as usize) {
                *count += 1;
            }
        }
    }
    let named = (0..glance.entities()).filter(|entity| like.is_none_or(|like| glance.names_have(*entity, like)));
    let mut found: Vec<Entity> = named
        .filter_map(|entity| {
            let facts = facts.get(entity as usize).copied().unwrap_or_default();
            Some(Entity { facts, ..glance.entity(entity)? })
        })
        .collect();
    found.sort_by(|one, other| {
        other
            .facts
            .cmp(&one.facts)
            .then_with(|| one.head.name.cmp(&other.head.name))
            .then(one.head.id.cmp(&other.head.id))
    });
    let begins = match after {
        Some(after) => {
            let last = found.iter().position(|entity| entity.head.id == after);
            last.ok_or_else(|| FactError::NotFound(format!("entity {after} to go on behind")))? + 1
        }
        None => 0,
    };
    Ok(found.into_iter().skip(begins).take(limit).collect())
}

fn find(glance: &Glance<'_>, name: &EntityName) -> Result<u32, FactError> {
    let found = glance.view.find(name).filter(|entity| glance.head(*entity).is_some());
    found.ok_or_else(|| no_entity(name))
}

fn heads(glance: &Glance<'_>, entities: impl IntoIterator<Item = u32>) -> Vec<EntityHead> {
    let mut seen = HashSet::new();
    entities.into_iter().filter(|entity| seen.insert(*entity)).filter_map(|entity| glance.head(entity)).collect()
}

/// The newest fact of a link that holds.
fn newest(glance: &Glance<'_>, link: u32, as_of: Option<DateTime<Utc>>) -> Option<Fact> {
    let holds = glance.link(link).filter(|sighted| sighted.holds(as_of));
    holds.max_by_key(|sighted| sighted.held.from).and_then(|sighted| glance.fact(&sighted))
}

fn is_literal(sighted: &Sighted<'_>) -> bool {
    matches!(sighted.value, Value::Literal(_))
}

fn no_entity(name: &EntityName) -> FactError {
    FactError::NotFound(format!("entity called {name}"))
}

fn no_fact(id: FactId) -> FactError {
    FactError::NotFound(format!("fact {id}"))
}
