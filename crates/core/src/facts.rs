//! Facts: who, what, since when, how we know. What is told of them, what is asked, and what is answered.
//!
//! A fact is never stored as such by a door: a [`Statement`] goes into the journal, and the layer that keeps facts makes
//! of all statements, and of what was said in passing, what holds. So forgetting the entry undoes it.

mod check;
mod words;

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::conversation::{BadName, Collection, ExchangeId, Seq, SessionId, UserId};
use crate::layer::LayerError;

pub use check::{BadStatement, MOST_EXCHANGES_APART};

/// Something told to memory about facts and entities, as it stands in the journal: one to a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case", deny_unknown_fields)]
pub enum Statement {
    /// Something holds.
    Holds(Holds),
    /// Something that held does so no longer.
    Ends {
        /// Of whom or what.
        subject: EntityName,
        /// What held.
        predicate: Predicate,
        /// Which value; `None` for whichever holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<Object>,
        /// Since when; `None` for when it was said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<DateTime<Utc>>,
    },
    /// Something that was taken for true never was.
    NeverHeld {
        /// Of whom or what.
        subject: EntityName,
        /// What did not hold.
        predicate: Predicate,
        /// Which value; `None` for all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<Object>,
        /// Of which start; `None` for every time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<DateTime<Utc>>,
    },
    /// Two names are of one entity: an alias, or a merge. The entity is called `name`.
    Same {
        /// What it is called.
        name: EntityName,
        /// What it is called too.
        alias: EntityName,
    },
    /// What some exchanges say of `name` is about another entity, which is called `other` from here on: a split.
    Apart {
        /// The name that stands for two.
        name: EntityName,
        /// A name for the second.
        other: EntityName,
        /// What was said of the second.
        exchanges: Vec<ExchangeId>,
    },
    /// What kind of thing an entity is.
    Kind {
        /// Which entity.
        name: EntityName,
        /// What it is.
        kind: EntityKind,
    },
}

/// A statement that something holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    /// Of whom or what.
    pub subject: EntityName,
    /// What holds.
    pub predicate: Predicate,
    /// Its value.
    pub object: Object,
    /// Since when; `None` for no later than it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<DateTime<Utc>>,
    /// Until when; `None` for as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<DateTime<Utc>>,
    /// How sure, above 0 to 1.
    #[serde(default = "sure")]
    pub confidence: f32,
    /// It takes back what was last said of the same subject and predicate: that was a mistake, not a change.
    #[serde(default)]
    pub corrects: bool,
}

fn sure() -> f32 {
    1.0
}

/// What an entity is called, with single spaces. Names that differ in case, width or accents written otherwise are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EntityName(String);

/// The longest name of an entity, in characters.
pub const LONGEST_ENTITY_NAME: usize = 200;

impl EntityName {
    /// The person whose memory it is, in statements made of what they said of themselves.
    pub const SELF: &'static str = "user";

    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EntityName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Unicode has letters that nobody sees: they fill the place of a missing part of a Korean syllable.
        let is_seen = |c: char| !matches!(c, '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}');
        let bad = if !text.chars().any(|c| c.is_alphanumeric() && is_seen(c)) {
            "has a letter or a digit"
        } else if text.chars().count() > LONGEST_ENTITY_NAME {
            "has at most 200 characters"
        } else if text.chars().any(char::is_control) {
            "has no control characters"
        } else {
            return Ok(Self(text));
        };
        Err(BadName(format!("the name of an entity {bad}")))
    }
}

/// What is said of a subject: `lives_in`, `uses`, `caused_by`. Letters, digits and `_`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Predicate(String);

impl Predicate {
    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Predicate {
    type Err = BadName;

    /// Takes `Lives in` for `lives_in`.
    fn from_str(text: &str) -> Result<Self, BadName> {
        let words: Vec<String> = text
            .split(|c: char| c.is_whitespace() || c == '-' || c == '_')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let name = words.join("_");
        let bad = if name.is_empty() {
            "must not be empty"
        } else if name.chars().count() > 64 {
            "has at most 64 characters"
        } else if !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            "is made of letters, digits and '_'"
        } else {
            return Ok(Self(name));
        };
        Err(BadName(format!("a predicate {bad}")))
    }
}

/// What a fact says of its subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// Another entity.
    Entity(EntityName),
    /// A value that is nothing to walk to: a date, a number, a phrase. Up to 2,000 characters.
    Literal(String),
}

/// The longest literal, in characters.
pub const LONGEST_LITERAL: usize = 2_000;

impl Object {
    /// Its words, whatever it is.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Object::Entity(name) => name.as_str(),
            Object::Literal(text) => text,
        }
    }
}

/// What kind of thing an entity is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntityKind {
    /// Somebody.
    Person,
    /// A company, team, club, authority.
    Organisation,
    /// Somewhere.
    Place,
    /// Something that is worked on.
    Project,
    /// A tool, language, product, program.
    Technology,
    /// Something that happened: a decision, a bug, a meeting.
    Event,
    /// An animal that has a name.
    Animal,
    /// Anything else, or nobody knows.
    #[default]
    Other,
}

/// From which moment facts are looked at: over every time, as all is known, unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What held then; `None` for every time.
    pub as_of: Option<DateTime<Utc>>,
    /// As it was known then; `None` for all that is known.
    pub known_at: Option<DateTime<Utc>>,
}

/// Which facts are asked for; every condition that is given must hold.
#[derive(Debug, Clone, PartialEq)]
pub struct FactsAsked {
    /// From when it is looked. With `as_of: None` the whole history is answered, what was taken back as well.
    pub seen: Seen,
    /// Of this entity, as subject or as object: a name, an alias or an id.
    pub about: Option<EntityName>,
    /// Only this predicate.
    pub predicate: Option<Predicate>,
    /// Only supported by this exchange.
    pub exchange: Option<ExchangeId>,
    /// Only from these collections; empty means all.
    pub collections: Vec<Collection>,
    /// At most so many.
    pub limit: usize,
    /// Goes on behind this fact.
    pub after: Option<FactId>,
}

/// A fact: what holds or held, from when until when, since when it is known, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Stays the same while subject, predicate, object and start do.
    pub id: FactId,
    /// Of whom or what.
    pub subject: EntityHead,
    /// What holds.
    pub predicate: Predicate,
    /// Its value.
    pub object: FactObject,
    /// Whether a subject has one value of this at a time.
    pub single: bool,
    /// Since when it holds.
    pub valid_from: DateTime<Utc>,
    /// Whether anybody said since when, or it is only known to hold since it was said.
    pub from_is_said: bool,
    /// Until when it held; `None` while it does.
    pub valid_to: Option<DateTime<Utc>>,
    /// Since when it is known.
    pub recorded_at: DateTime<Utc>,
    /// Since when it is known that it never held.
    pub retracted_at: Option<DateTime<Utc>>,
    /// How sure, above 0 to 1.
    pub confidence: f32,
    /// What supports it, oldest first; never empty.
    pub evidence: Vec<Evidence>,
    /// As a short sentence.
    pub sentence: String,
}

/// Names a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactId(pub Uuid);

/// Names an entity; made of the user and its normalised name, so it is the same whenever all is learned again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntityId(pub Uuid);

impl FromStr for FactId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        text.parse().map(Self).map_err(|_| BadName("the id of a fact is a UUID, as lists of facts show it".into()))
    }
}

impl FromStr for EntityId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        text.parse()
            .map(Self)
            .map_err(|_| BadName("the id of an entity is a UUID, as lists of entities show it".into()))
    }
}

impl fmt::Display for FactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactObject {
    /// Another entity.
    Entity(EntityHead),
    /// A value that is nothing to walk to.
    Literal(String),
}

/// An entity in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityHead {
    /// Names it.
    pub id: EntityId,
    /// What it is called.
    pub name: EntityName,
    /// What it is.
    pub kind: EntityKind,
}

/// What supports a fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How it came to be known.
    pub origin: Origin,
    /// The exchange it was learned from; `None` for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeId>,
    /// The place of that exchange in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// The session it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The memory file it stands in, with the line: `MEMORY.md:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// When it was said or first read.
    pub said_at: DateTime<Utc>,
    /// When it was written down here.
    pub recorded_at: DateTime<Utc>,
    /// How sure it makes the fact, above 0 to 1.
    pub confidence: f32,
}

/// How a fact came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Told to memory as such.
    Asserted,
    /// Told to memory as such, from a file of another program.
    Import,
    /// Said in a conversation, and found by a pattern.
    Pattern,
    /// Said in a conversation, and found by a model.
    Model,
    /// Written in a memory file.
    Markdown,
}

/// An entity with what is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// Its id, name and kind.
    #[serde(flatten)]
    pub head: EntityHead,
    /// What else it is called.
    pub aliases: Vec<EntityName>,
    /// How many facts name it that hold at the moment looked at.
    pub facts: usize,
    /// The statements of the journal that joined or parted its names: forgetting one undoes it.
    pub joined_by: Vec<ExchangeId>,
}

/// A part of the graph: what a walk came across.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Subgraph {
    /// The entities, nearest first where there is a middle.
    pub entities: Vec<EntityHead>,
    /// The facts between them, and their literal facts.
    pub facts: Vec<Fact>,
    /// Whether there was more than the limit allows.
    pub cut: bool,
}

/// A way from one entity to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactPath {
    /// The entities on the way, the two ends included.
    pub entities: Vec<EntityHead>,
    /// The fact of each hop, in order: one less than there are entities. It may point either way.
    pub hops: Vec<Fact>,
}

/// Entities that are linked among themselves more than to others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Community {
    /// Its members, best linked first.
    pub entities: Vec<EntityHead>,
    /// How many facts link members to each other.
    pub facts: usize,
}

/// Reads facts. Written they are through the journal, by [`Statement`]s.
#[async_trait]
pub trait FactGraph: Send + Sync {
    /// Whether a subject has one value of `predicate` at a time, so that a new one ends the old.
    fn is_single(&self, predicate: &Predicate) -> bool;

    /// The facts that are asked for: those that hold first, then the newest.
    ///
    /// # Errors
    ///
    /// [`FactError::NotFound`] when there is no such entity.
    async fn facts(&self, user: UserId, asked: &FactsAsked) -> Result<Vec<Fact>, FactError>;

    /// One fact, whether it holds or not.
    ///
    /// # Errors
    ///
    /// [`FactError::NotFound`] when there is none of this id.
    async fn fact(&self, user: UserId, id: FactId) -> Result<Fact, FactError>;

    /// The entities whose name or alias has `like` in it, best known first; at most `limit`, behind `after`.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    async fn entities(
        &self,
        user: UserId,
        like: Option<&str>,
        seen: Seen,
        limit: usize,
        after: Option<EntityId>,
    ) -> Result<Vec<Entity>, FactError>;

    /// One entity by its name, an alias or its id.
    ///
    /// # Errors
    ///
    /// [`FactError::NotFound`] when there is none.
    async fn entity(&self, user: UserId, name: &EntityName, seen: Seen) -> Result<Entity, FactError>;

    /// What is linked to `centre` over at most `hops` facts that hold.
    ///
    /// # Errors
    ///
    /// [`FactError::NotFound`] when there is no such entity.
    async fn around(
        &self,
        user: UserId,
        centre: &EntityName,
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Subgraph, FactError>;

    /// The shortest ways from one entity to another over facts that hold, at most `limit` ways of at most `hops`;
    /// none when they are not linked.
    ///
    /// # Errors
    ///
    /// [`FactError::NotFound`] when there is no such entity.
    async fn paths(
        &self,
        user: UserId,
        between: (&EntityName, &EntityName),
        hops: usize,
        seen: Seen,
        limit: usize,
    ) -> Result<Vec<FactPath>, FactError>;

    /// The entities in groups that are linked among themselves, largest first.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    async fn communities(&self, user: UserId, seen: Seen, limit: usize) -> Result<Vec<Community>, FactError>;

    /// The whole graph: what held at a moment, or, of every time, all there is and what was taken back as well.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    async fn graph(&self, user: UserId, seen: Seen) -> Result<Subgraph, FactError>;
}

/// Why facts could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FactError {
    /// There is no such entity or fact; says which.
    #[error("there is no {0}")]
    NotFound(String),
    /// It cannot be asked like this; says what may be.
    #[error("{0}")]
    Refused(String),
    /// The database.
    #[error(transparent)]
    Layer(#[from] LayerError),
}

macro_rules! text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text!(EntityName);
text!(Predicate);
