//! What is aimed at when something is to be forgotten, restored or purged.

use skymem_core::facts::{EntityName, FactsAsked, Seen};
use skymem_core::{Collection, ExchangeId, SessionId, UserId};
use skymem_store::{Among, Meant};

use crate::error::EngineError;
use crate::memory::Memory;

/// So many facts are read at a time.
const PIECE: usize = 1_000;

/// What is aimed at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aim {
    /// These exchanges.
    Exchanges(Vec<ExchangeId>),
    /// All of a session.
    Session(SessionId),
    /// All in a collection.
    Collection(Collection),
    /// All that anything is known of an entity from; a name, an alias or an id.
    Entity(EntityName),
    /// All in which this text stands, whatever its case, width and spaces.
    Text(String),
    /// Everything.
    Everything,
}

impl Aim {
    /// The word for what kind of aim it is: what is written down of it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Aim::Exchanges(_) => "exchanges",
            Aim::Session(_) => "session",
            Aim::Collection(_) => "collection",
            Aim::Entity(_) => "entity",
            Aim::Text(_) => "text",
            Aim::Everything => "everything",
        }
    }
}

impl Memory {
    /// The exchanges that are aimed at, in the journal's order.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a text that is too short to mean anything; [`EngineError::NotFound`] when there is no
    /// such entity.
    pub(crate) async fn aimed_at(&self, user: UserId, aim: &Aim, among: Among) -> Result<Vec<ExchangeId>, EngineError> {
        let meant = match aim {
            Aim::Exchanges(ids) => Meant::Ids(ids.clone()),
            Aim::Session(session) => Meant::Session(session.clone()),
            Aim::Collection(collection) => Meant::Collection(collection.clone()),
            Aim::Entity(name) => Meant::Ids(self.evidence_of(user, name).await?),
            Aim::Text(text) => {
                let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                if text.chars().count() < SHORTEST_TEXT {
                    let why = format!("a text to look for has at least {SHORTEST_TEXT} characters");
                    return Err(EngineError::Refused(why));
                }
                Meant::Text(text)
            }
            Aim::Everything => Meant::Every,
        };
        let mut found = self.inner.purger.meant(user, &meant, among).await?;
        found.extend(self.sealed_meant(user, aim, among).await?);
        Ok(found)
    }

    /// The exchanges that support any fact of an entity, those that are no longer believed as well.
    async fn evidence_of(&self, user: UserId, name: &EntityName) -> Result<Vec<ExchangeId>, EngineError> {
        let graph = self.fact_graph()?;
        let (mut exchanges, mut after) = (Vec::new(), None);
        loop {
            let asked = FactsAsked {
                seen: Seen::default(),
                about: Some(name.clone()),
                predicate: None,
                exchange: None,
                collections: Vec::new(),
                limit: PIECE,
                after,
            };
            let facts = graph.facts(user, &asked).await?;
            after = facts.last().map(|fact| fact.id);
            exchanges.extend(facts.iter().flat_map(|fact| &fact.evidence).filter_map(|evidence| evidence.exchange));
            if facts.len() < PIECE {
                exchanges.sort_unstable();
                exchanges.dedup();
                return Ok(exchanges);
            }
        }
    }
}

/// A shorter text stands everywhere.
const SHORTEST_TEXT: usize = 3;
