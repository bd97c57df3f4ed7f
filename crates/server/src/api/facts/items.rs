//! Facts and entities as they go over the wire.

use chrono::{DateTime, Utc};
use serde::Serialize;
use skymem_core::facts::{Entity, EntityHead, EntityKind, Evidence, Fact, FactObject, Origin};
use utoipa::ToSchema;
use uuid::Uuid;

/// A fact: what holds or held, from when until when, since when it is known, and how.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactItem {
    /// Stays the same while subject, predicate, object and start do.
    id: Uuid,
    /// As a short sentence.
    sentence: String,
    /// At the moment looked at: `holds`, `ended`, `coming`, or `retracted` when it is known that it never held.
    state: &'static str,
    /// Of whom or what.
    subject: EntityHeadItem,
    /// What holds.
    predicate: String,
    /// Its value.
    object: ObjectItem,
    /// Whether a subject has one value of this at a time.
    single: bool,
    /// Since when it holds.
    valid_from: DateTime<Utc>,
    /// Whether somebody said since when; else it is only known to hold since it was said.
    from_is_said: bool,
    /// Until when it held; null while it does.
    valid_to: Option<DateTime<Utc>>,
    /// Since when it is known.
    recorded_at: DateTime<Utc>,
    /// Since when it is known that it never held.
    retracted_at: Option<DateTime<Utc>>,
    /// How sure, above 0 to 1.
    confidence: f32,
    /// What supports it, oldest first; never empty.
    evidence: Vec<EvidenceItem>,
}

impl FactItem {
    /// As it stands at `at`.
    pub(crate) fn new(fact: Fact, at: DateTime<Utc>) -> Self {
        let state = match &fact {
            Fact { retracted_at: Some(_), .. } => "retracted",
            Fact { valid_to: Some(until), .. } if *until <= at => "ended",
            Fact { valid_from, .. } if *valid_from > at => "coming",
            _ => "holds",
        };
        Self {
            id: fact.id.0,
            sentence: fact.sentence,
            state,
            subject: fact.subject.into(),
            predicate: fact.predicate.into(),
            object: fact.object.into(),
            single: fact.single,
            valid_from: fact.valid_from,
            from_is_said: fact.from_is_said,
            valid_to: fact.valid_to,
            recorded_at: fact.recorded_at,
            retracted_at: fact.retracted_at,
            confidence: fact.confidence,
            evidence: fact.evidence.into_iter().map(EvidenceItem::from).collect(),
        }
    }
}

/// The value of a fact.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ObjectItem {
    /// Another entity.
    Entity(EntityHeadItem),
    /// A value that is nothing to walk to.
    Literal(String),
}

impl From<FactObject> for ObjectItem {
    fn from(object: FactObject) -> Self {
        match object {
            FactObject::Entity(entity) => Self::Entity(entity.into()),
            FactObject::Literal(text) => Self::Literal(text),
        }
    }
}

/// What supports a fact.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EvidenceItem {
    /// `asserted`, `import`, `pattern`, `model` or `markdown`.
    #[schema(value_type = String)]
    origin: Origin,
    /// The exchange it was learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<Uuid>,
    /// The place of that exchange in your journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<i64>,
    /// The session it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The memory file it stands in, with the line: `MEMORY.md:12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// When it was said or first read.
    said_at: DateTime<Utc>,
    /// When it was written down.
    recorded_at: DateTime<Utc>,
    /// How sure it makes the fact, above 0 to 1.
    confidence: f32,
}

impl From<Evidence> for EvidenceItem {
    fn from(evidence: Evidence) -> Self {
        Self {
            origin: evidence.origin,
            exchange: evidence.exchange.map(|id| id.0),
            seq: evidence.seq.map(|seq| seq.0),
            session: evidence.session.map(String::from),
            file: evidence.file,
            said_at: evidence.said_at,
            recorded_at: evidence.recorded_at,
            confidence: evidence.confidence,
        }
    }
}

/// An entity in short.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntityHeadItem {
    /// Names it.
    id: Uuid,
    /// What it is called.
    name: String,
    /// `person`, `organisation`, `place`, `project`, `technology`, `event`, `animal` or `other`.
    kind: &'static str,
}

impl From<EntityHead> for EntityHeadItem {
    fn from(head: EntityHead) -> Self {
        Self { id: head.id.0, name: head.name.into(), kind: EntityKind::as_str(head.kind) }
    }
}

/// An entity with what is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntityItem {
    /// Its id, name and kind.
    #[serde(flatten)]
    head: EntityHeadItem,
    /// What else it is called.
    aliases: Vec<String>,
    /// How many facts name it that hold at the moment looked at.
    facts: usize,
    /// The statements that joined or parted its names: `POST /v1/forget` with one undoes it.
    joined_by: Vec<Uuid>,
}

impl From<Entity> for EntityItem {
    fn from(entity: Entity) -> Self {
        Self {
            head: entity.head.into(),
            aliases: entity.aliases.into_iter().map(String::from).collect(),
            facts: entity.facts,
            joined_by: entity.joined_by.into_iter().map(|id| id.0).collect(),
        }
    }
}
