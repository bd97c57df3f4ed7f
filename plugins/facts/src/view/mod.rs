//! All facts of a user in memory, to be read without the database: entities, what was said of each, what it comes to, and
//! the graph. Made of the claims anew whenever one of them changed.
//!
//! `build.rs` and `assemble.rs` make a view, `glance.rs` looks at it from a moment, `told.rs` tells what is seen, `shelf.rs`
//! keeps views.

mod assemble;
mod build;
mod glance;
mod numbers;
mod shelf;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use skymem_core::facts::{EntityId, EntityKind, EntityName, FactId, Origin, Predicate};
use skymem_core::{Collection, ExchangeId, Seq, SessionId, UserId};

use crate::graph::Net;
use crate::predicates::{Predicates, Traits};
use crate::timeline::Held;

pub(crate) use self::glance::{Glance, Place, Sight, Sighted};
pub(crate) use self::shelf::{Room, Shelf};

/// All that is known of one user, as it was when it was read.
#[derive(Debug)]
pub(crate) struct View {
    user: UserId,
    /// In the order in which they were said.
    claims: Vec<Said>,
    beings: Vec<Being>,
    predicates: Vec<(Predicate, Traits)>,
    /// What is known of all predicates there are.
    known: Arc<Predicates>,
    literals: Vec<Literal>,
    groups: Vec<Group>,
    /// Who is linked to whom by which group.
    links: Vec<Link>,
    net: Net,
    names: HashMap<String, u32>,
    /// The longest name, in words.
    longest_name: usize,
    /// The words that names begin with.
    first_words: HashSet<String>,
    ids: HashMap<EntityId, u32>,
    facts: HashMap<FactId, Place>,
    by_exchange: HashMap<ExchangeId, Vec<u32>>,
    sessions: Vec<SessionId>,
    collections: Vec<Collection>,
    files: Vec<String>,
    /// The last moments at which something was said that decides who is meant by a name, and at which it was recorded.
    naming: Latest,
}

/// A claim about a subject and a predicate.
#[derive(Debug)]
struct Said {
    group: u32,
    what: SaidWhat,
    turn: u32,
    origin: Origin,
    confidence: f32,
    said_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
    source: Source,
}

#[derive(Debug, Clone, Copy)]
enum SaidWhat {
    Holds { object: Value, from: Option<DateTime<Utc>>, until: Option<DateTime<Utc>>, corrects: bool },
    Ends { object: Option<Value>, at: Option<DateTime<Utc>> },
    NeverHeld { object: Option<Value>, from: Option<DateTime<Utc>> },
}

/// A value as it was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    Entity(u32),
    Literal(u32),
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Turn { exchange: ExchangeId, seq: Seq, session: u32, collection: u32 },
    Line { file: u32, line: u32, withdrawn_at: Option<DateTime<Utc>> },
}

/// An entity.
#[derive(Debug)]
struct Being {
    id: EntityId,
    /// What it is called, normalised.
    normal: String,
    /// How that is written, and since when it is known to be written so.
    names: Vec<Written>,
    aliases: Vec<Vec<Written>>,
    /// What it was said to be.
    kind: Option<EntityKind>,
    /// What the first fact about it that tells takes it for, and since when that is known.
    guess: Option<(EntityKind, DateTime<Utc>)>,
    joined_by: Vec<ExchangeId>,
    /// The groups whose subject it is.
    groups: Vec<u32>,
    /// The links whose object it is.
    pointed_at: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Written {
    name: EntityName,
    since: DateTime<Utc>,
}

/// Text that is nothing to walk to; the number of the text as it is compared, and the entity that is called so.
#[derive(Debug)]
struct Literal {
    text: String,
    normal: u32,
    entity: Option<u32>,
}

/// All that was said of one subject and predicate, and what it comes to.
#[derive(Debug)]
struct Group {
    subject: u32,
    predicate: u32,
    /// In the order in which they were said.
    claims: Vec<u32>,
    latest: Latest,
    folded: Folded,
}

/// What the claims of a group come to.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) held: Vec<Held>,
    /// What the values of `held` are.
    values: Vec<Value>,
    /// Entities that are values, with the places of their facts in `held`; in order.
    entities: Vec<(u32, u32)>,
}

/// The last moments at which something was said, and at which something was recorded or withdrawn.
#[derive(Debug, Clone, Copy)]
struct Latest {
    said_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
}

impl Default for Latest {
    fn default() -> Self {
        Self { said_at: DateTime::<Utc>::MIN_UTC, recorded_at: DateTime::<Utc>::MIN_UTC }
    }
}

impl Latest {
    fn note(&mut self, said_at: DateTime<Utc>, recorded_at: DateTime<Utc>) {
        self.said_at = self.said_at.max(said_at);
        self.recorded_at = self.recorded_at.max(recorded_at);
    }
}

/// A group that links its subject to an entity.
#[derive(Debug, Clone, Copy)]
struct Link {
    group: u32,
    to: u32,
}

impl View {
    /// How many claims it holds: what it costs.
    pub(crate) fn size(&self) -> usize {
        self.claims.len()
    }

    /// The longest name of an entity, in words.
    pub(crate) fn longest_name(&self) -> usize {
        self.longest_name
    }

    /// Whether a word of a question asks for any predicate there is.
    pub(crate) fn asks_for_something(&self, word: &str) -> bool {
        self.known.all().chain(self.predicates.iter().map(|(_, traits)| traits)).any(|traits| traits.meets(word))
    }

    /// Whether a word says who somebody is to somebody: "brother".
    pub(crate) fn asks_for_a_relation(&self, word: &str) -> bool {
        self.known.all().any(|traits| traits.relation && traits.meets(word))
    }

    /// Whether a name begins with this word.
    pub(crate) fn begins_a_name(&self, word: &str) -> bool {
        self.first_words.contains(word)
    }

    /// Who or what is called so, by name, alias or id.
    pub(crate) fn find(&self, name: &EntityName) -> Option<u32> {
        let by_name = self.named(&crate::resolve::normal(name.as_str()));
        by_name.or_else(|| self.ids.get(&EntityId(name.as_str().parse().ok()?)).copied())
    }

    /// Who or what has this normalised name.
    pub(crate) fn named(&self, normal: &str) -> Option<u32> {
        self.names.get(normal).copied()
    }

    /// The graph; the numbers of its facts are those of links.
    pub(crate) fn net(&self) -> &Net {
        &self.net
    }

    fn being(&self, entity: u32) -> Option<&Being> {
        self.beings.get(entity as usize)
    }

    fn group(&self, group: u32) -> Option<&Group> {
        self.groups.get(group as usize)
    }

    fn said(&self, claim: u32) -> Option<&Said> {
        self.claims.get(claim as usize)
    }
}
