//! Facts: what is told of them goes into the journal ([`state`]); what holds is asked of the layer that keeps them.

mod again;
mod state;

use skymem_core::UserId;
use skymem_core::facts::{
    Community, Entity, EntityId, EntityName, Fact, FactGraph, FactId, FactPath, FactsAsked, Seen, Subgraph,
};

use crate::error::EngineError;
use crate::journal::{Page, PageRequest};
use crate::memory::Memory;

pub use state::{MOST_STATEMENTS, StateRequest};

/// The longest walk from one entity.
pub const MOST_HOPS: usize = 6;
/// So many entities come in one part of the graph.
pub const MOST_ENTITIES: usize = 2_000;
/// So many ways from one entity to another are answered.
pub const MOST_PATHS: usize = 20;

impl Memory {
    /// A page of the facts that are asked for: those that hold first, then the newest. `asked.limit` and `asked.after` are
    /// those of the page.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity; [`EngineError::Refused`] for a page that cannot be.
    pub async fn facts(&self, user: UserId, asked: FactsAsked, page: &PageRequest) -> Result<Page<Fact>, EngineError> {
        let after: Option<FactId> = page.mark()?;
        let asked = FactsAsked { limit: page.limit + 1, after, ..asked };
        let facts = self.fact_graph()?.facts(user, &asked).await?;
        Ok(Page::cut(facts, page.limit, |fact| fact.id.to_string()))
    }

    /// One fact, whether it holds or not.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is none of this id.
    pub async fn fact(&self, user: UserId, id: FactId) -> Result<Fact, EngineError> {
        Ok(self.fact_graph()?.fact(user, id).await?)
    }

    /// Every fact with the subject and the predicate of one, what was taken back as well, as it is known, or was at
    /// `seen.known_at`.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such fact.
    pub async fn fact_history(
        &self,
        user: UserId,
        id: FactId,
        seen: Seen,
        page: &PageRequest,
    ) -> Result<Page<Fact>, EngineError> {
        let graph = self.fact_graph()?;
        let of = graph.fact(user, id).await?;
        let subject = of.subject.id;
        // An entity is asked for as subject and as object alike: those that it is the object of are left out here.
        let (mut facts, mut after): (Vec<Fact>, Option<FactId>) = (Vec::new(), page.mark()?);
        while facts.len() <= page.limit {
            let asked = FactsAsked {
                seen,
                about: Some(entity_name(subject)?),
                predicate: Some(of.predicate.clone()),
                exchange: None,
                collections: Vec::new(),
                limit: page.limit + 1,
                after,
            };
            let found = graph.facts(user, &asked).await?;
            let is_last = found.len() <= page.limit;
            after = found.last().map(|fact| fact.id);
            facts.extend(found.into_iter().filter(|fact| fact.subject.id == subject));
            if is_last {
                break;
            }
        }
        Ok(Page::cut(facts, page.limit, |fact| fact.id.to_string()))
    }

    /// A page of the entities whose name or alias has `like` in it, best known first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn entities(
        &self,
        user: UserId,
        like: Option<&str>,
        seen: Seen,
        page: &PageRequest,
    ) -> Result<Page<Entity>, EngineError> {
        let after: Option<EntityId> = page.mark()?;
        let entities = self.fact_graph()?.entities(user, like, seen, page.limit + 1, after).await?;
        Ok(Page::cut(entities, page.limit, |entity| entity.head.id.to_string()))
    }

    /// One entity by its name, an alias or its id.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is none.
    pub async fn entity(&self, user: UserId, name: &EntityName, seen: Seen) -> Result<Entity, EngineError> {
        Ok(self.fact_graph()?.entity(user, name, seen).await?)
    }

    /// What is linked to `centre` over at most `hops` facts, up to `limit` entities.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity; [`EngineError::Refused`] for too long a walk.
    pub async fn neighbourhood(
        &self,
        user: UserId,
        centre: &EntityName,
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Subgraph, EngineError> {
        check("hops", hops, MOST_HOPS)?;
        check("limit", limit, MOST_ENTITIES)?;
        Ok(self.fact_graph()?.around(user, centre, hops, seen, limit).await?)
    }

    /// The shortest ways from one entity to another, over at most `hops` facts; none when they are not linked.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity; [`EngineError::Refused`] for too long a walk.
    pub async fn paths(
        &self,
        user: UserId,
        between: (&EntityName, &EntityName),
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Vec<FactPath>, EngineError> {
        check("hops", hops, MOST_HOPS)?;
        check("limit", limit, MOST_PATHS)?;
        Ok(self.fact_graph()?.paths(user, between, hops, seen, limit).await?)
    }

    /// The entities in groups that are linked among themselves, largest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for too many.
    pub async fn communities(&self, user: UserId, seen: Seen, limit: usize) -> Result<Vec<Community>, EngineError> {
        check("limit", limit, 200)?;
        Ok(self.fact_graph()?.communities(user, seen, limit).await?)
    }

    /// The whole graph.
    ///
    /// # Errors
    ///
    /// [`EngineError::Off`] when no layer keeps facts.
    pub async fn graph(&self, user: UserId, seen: Seen) -> Result<Subgraph, EngineError> {
        Ok(self.fact_graph()?.graph(user, seen).await?)
    }

    pub(crate) fn fact_graph(&self) -> Result<&dyn FactGraph, EngineError> {
        let graph = self.inner.layers.iter().find_map(|layer| layer.facts());
        graph.ok_or_else(|| EngineError::Off("no layer keeps facts: switch on [layers.facts]".into()))
    }
}

/// The name that asks for an entity by its id.
fn entity_name(id: EntityId) -> Result<EntityName, EngineError> {
    id.to_string().parse().map_err(|bad: skymem_core::conversation::BadName| EngineError::Refused(bad.0))
}

fn check(what: &str, number: usize, most: usize) -> Result<(), EngineError> {
    let fine = (1..=most).contains(&number);
    if fine { Ok(()) } else { Err(EngineError::Refused(format!("{what} is from 1 to {most}"))) }
}
