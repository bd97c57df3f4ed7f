//! Facts: what is told of them goes into the journal ([`state`]); what holds is asked of the layer that keeps them.

mod again;
pub mod export;
pub mod import;
mod look;
mod state;
mod take_over;

use skymem_core::facts::{
    Community, Entity, EntityId, EntityName, Fact, FactGraph, FactId, FactPath, FactsAsked, Predicate, Subgraph,
};
use skymem_core::{Collection, ExchangeId, UserId};

use crate::error::EngineError;
use crate::journal::{Page, PageRequest};
use crate::memory::Memory;

pub use export::ExportFormat;
pub use import::ImportFormat;
pub use look::{Look, Looked};
pub use state::{MOST_STATEMENTS, Retraction, StateRequest};
pub use take_over::{FactsImported, ImportRequest, RefusedLine};

/// The longest walk from one entity.
pub const MOST_HOPS: usize = 6;
/// So many entities come in one part of the graph.
pub const MOST_ENTITIES: usize = 2_000;
/// So many ways from one entity to another are answered.
pub const MOST_PATHS: usize = 20;
/// So many groups of entities are answered.
pub const MOST_COMMUNITIES: usize = 200;

/// Which facts are asked for: every condition that is given must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FactFilter {
    /// Of this entity, as subject or as object: a name, an alias or an id.
    pub about: Option<EntityName>,
    /// Only this predicate.
    pub predicate: Option<Predicate>,
    /// Only supported by this exchange.
    pub exchange: Option<ExchangeId>,
    /// Only from these collections; empty means all.
    pub collections: Vec<Collection>,
}

impl Memory {
    /// A page of the facts that are asked for: those that hold first, then the newest.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity; [`EngineError::Refused`] for a page that cannot be.
    pub async fn facts(
        &self,
        user: UserId,
        filter: FactFilter,
        look: Look,
        page: &PageRequest,
    ) -> Result<Looked<Page<Fact>>, EngineError> {
        let (seen, at) = self.look(look)?;
        let FactFilter { about, predicate, exchange, collections } = filter;
        let (limit, after) = (page.limit + 1, page.mark()?);
        let asked = FactsAsked { seen, about, predicate, exchange, collections, limit, after };
        let facts = self.fact_graph()?.facts(user, &asked).await?;
        Ok(Looked { at, seen: Page::cut(facts, page.limit, |fact| fact.id.to_string()) })
    }

    /// One fact, whether it holds or not.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is none of this id.
    pub async fn fact(&self, user: UserId, id: FactId) -> Result<Looked<Fact>, EngineError> {
        Ok(Looked { at: self.now(), seen: self.fact_graph()?.fact(user, id).await? })
    }

    /// Every fact with the subject and the predicate of one, what was taken back as well.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such fact.
    pub async fn fact_history(
        &self,
        user: UserId,
        id: FactId,
        look: Look,
        page: &PageRequest,
    ) -> Result<Looked<Page<Fact>>, EngineError> {
        let (seen, at) = self.look(Look { ever: true, ..look })?;
        let graph = self.fact_graph()?;
        let of = graph.fact(user, id).await?;
        let subject = of.subject.id;
        // An entity is asked for as subject and as object alike: what it is the object of is left out here.
        let (mut facts, mut after): (Vec<Fact>, Option<FactId>) = (Vec::new(), page.mark()?);
        let limit = page.limit + 1;
        while facts.len() < limit {
            let (about, predicate) = (Some(named(subject)?), Some(of.predicate.clone()));
            let asked = FactsAsked { seen, about, predicate, exchange: None, collections: Vec::new(), limit, after };
            let found = graph.facts(user, &asked).await?;
            let is_last = found.len() < limit;
            after = found.last().map(|fact| fact.id);
            facts.extend(found.into_iter().filter(|fact| fact.subject.id == subject));
            if is_last {
                break;
            }
        }
        Ok(Looked { at, seen: Page::cut(facts, page.limit, |fact| fact.id.to_string()) })
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
        look: Look,
        page: &PageRequest,
    ) -> Result<Page<Entity>, EngineError> {
        let (seen, _) = self.look(look)?;
        let after: Option<EntityId> = page.mark()?;
        let entities = self.fact_graph()?.entities(user, like, seen, page.limit + 1, after).await?;
        Ok(Page::cut(entities, page.limit, |entity| entity.head.id.to_string()))
    }

    /// One entity by its name, an alias or its id.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is none.
    pub async fn entity(&self, user: UserId, name: &EntityName, look: Look) -> Result<Entity, EngineError> {
        let (seen, _) = self.look(look)?;
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
        look: Look,
        limit: usize,
    ) -> Result<Looked<Subgraph>, EngineError> {
        check("hops", hops, MOST_HOPS)?;
        check("limit", limit, MOST_ENTITIES)?;
        let (seen, at) = self.look(look)?;
        Ok(Looked { at, seen: self.fact_graph()?.around(user, centre, hops, seen, limit).await? })
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
        look: Look,
        limit: usize,
    ) -> Result<Looked<Vec<FactPath>>, EngineError> {
        check("hops", hops, MOST_HOPS)?;
        check("limit", limit, MOST_PATHS)?;
        let (seen, at) = self.look(look)?;
        Ok(Looked { at, seen: self.fact_graph()?.paths(user, between, hops, seen, limit).await? })
    }

    /// The entities in groups that are linked among themselves, largest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for too many.
    pub async fn communities(&self, user: UserId, look: Look, limit: usize) -> Result<Vec<Community>, EngineError> {
        check("limit", limit, MOST_COMMUNITIES)?;
        let (seen, _) = self.look(look)?;
        Ok(self.fact_graph()?.communities(user, seen, limit).await?)
    }

    /// The whole graph as a text that other programs read.
    ///
    /// # Errors
    ///
    /// [`EngineError::Off`] when no layer keeps facts.
    pub async fn export_facts(&self, user: UserId, look: Look, format: ExportFormat) -> Result<Vec<u8>, EngineError> {
        let (seen, _) = self.look(look)?;
        let graph = self.fact_graph()?.graph(user, seen).await?;
        // A hundred thousand facts take a while: requests of others go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let mut out = Vec::new();
            export::write(&graph, format, &mut out).map(|()| out)
        });
        let failed = |source: std::io::Error| EngineError::Unavailable {
            what: "the graph could not be written".into(),
            source: Box::new(source),
        };
        written.await.map_err(|error| failed(error.into()))?.map_err(failed)
    }

    pub(crate) fn fact_graph(&self) -> Result<&dyn FactGraph, EngineError> {
        let graph = self.inner.layers.iter().find_map(|layer| layer.facts());
        graph.ok_or_else(|| EngineError::Off("no layer keeps facts: switch on [layers.facts]".into()))
    }
}

/// The name that asks for an entity by its id.
fn named(id: EntityId) -> Result<EntityName, EngineError> {
    id.to_string().parse().map_err(|bad: skymem_core::conversation::BadName| EngineError::Refused(bad.0))
}

fn check(what: &str, number: usize, most: usize) -> Result<(), EngineError> {
    let fine = (1..=most).contains(&number);
    if fine { Ok(()) } else { Err(EngineError::Refused(format!("{what} is from 1 to {most}"))) }
}
