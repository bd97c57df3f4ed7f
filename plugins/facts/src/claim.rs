//! Claims: what an exchange, or a line of a file, says about facts.

use chrono::{DateTime, SubsecRound, Utc};
use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Origin, Predicate, Statement};
use skymem_core::{Collection, ExchangeId, Seq, SessionId};
use uuid::Uuid;

/// Something that was said once, where and when.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claim {
    pub(crate) statement: Statement,
    pub(crate) confidence: f32,
    pub(crate) origin: Origin,
    pub(crate) place: Place,
    pub(crate) said_at: DateTime<Utc>,
    pub(crate) recorded_at: DateTime<Utc>,
}

/// Where something was said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Place {
    /// In a turn of an exchange, of which it is the claim of this number and origin.
    Turn { exchange: ExchangeId, number: u32, seq: Seq, session: SessionId, collection: Collection },
    /// In a memory file, until it was no longer there.
    Line { file: String, line: u32, number: u32, withdrawn_at: Option<DateTime<Utc>> },
}

impl Claim {
    /// The order in which claims were said. What stands in a file follows what was said at the same moment.
    pub(crate) fn order(&self) -> impl Ord + use<'_> {
        let place = match &self.place {
            Place::Turn { number, seq, exchange, .. } => (0, seq.0, exchange.0, "", 0, *number),
            Place::Line { file, line, number, .. } => (1, 0, Uuid::nil(), file.as_str(), *line, *number),
        };
        (self.said_at, place, self.origin)
    }
}

/// The columns of a statement, as both tables of claims have them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Columns {
    pub(crate) says: String,
    pub(crate) subject: String,
    pub(crate) predicate: Option<String>,
    pub(crate) object: Option<String>,
    pub(crate) literal: bool,
    pub(crate) since_at: Option<DateTime<Utc>>,
    pub(crate) until_at: Option<DateTime<Utc>>,
    pub(crate) corrects: bool,
    pub(crate) exchanges: Option<Vec<Uuid>>,
}

impl Columns {
    pub(crate) fn of(statement: &Statement) -> Self {
        let fact = |says: &str, subject: &EntityName, predicate: &Predicate, object: Option<&Object>, since_at| Self {
            says: says.to_owned(),
            subject: subject.as_str().to_owned(),
            predicate: Some(predicate.as_str().to_owned()),
            object: object.map(|object| object.as_str().to_owned()),
            literal: matches!(object, Some(Object::Literal(_))),
            since_at: as_kept(since_at),
            until_at: None,
            corrects: false,
            exchanges: None,
        };
        let naming = |says: &str, name: &EntityName, object: &str, exchanges| Self {
            says: says.to_owned(),
            subject: name.as_str().to_owned(),
            predicate: None,
            object: Some(object.to_owned()),
            literal: false,
            since_at: None,
            until_at: None,
            corrects: false,
            exchanges,
        };
        match statement {
            Statement::Holds(Holds { subject, predicate, object, from, until, corrects, .. }) => Self {
                until_at: as_kept(*until),
                corrects: *corrects,
                ..fact("holds", subject, predicate, Some(object), *from)
            },
            Statement::Ends { subject, predicate, object, at } => {
                fact("ends", subject, predicate, object.as_ref(), *at)
            }
            Statement::NeverHeld { subject, predicate, object, from } => {
                fact("never_held", subject, predicate, object.as_ref(), *from)
            }
            Statement::Same { name, alias } => naming("same", name, alias.as_str(), None),
            Statement::Apart { name, other, exchanges } => {
                let exchanges = exchanges.iter().map(|exchange| exchange.0).collect();
                naming("apart", name, other.as_str(), Some(exchanges))
            }
            Statement::Kind { name, kind } => naming("kind", name, kind.as_str(), None),
        }
    }

    /// The statement that has these columns; `None` when none has.
    pub(crate) fn statement(self, confidence: f32) -> Option<Statement> {
        let name: EntityName = self.subject.parse().ok()?;
        let object = match self.object {
            Some(text) if self.literal => Some(Object::Literal(text)),
            Some(text) if self.says != "kind" => Some(Object::Entity(text.parse().ok()?)),
            other => other.map(Object::Literal),
        };
        if matches!(self.says.as_str(), "same" | "apart" | "kind") {
            return match (self.says.as_str(), object?) {
                ("same", Object::Entity(alias)) => Some(Statement::Same { name, alias }),
                ("apart", Object::Entity(other)) => {
                    let exchanges = self.exchanges.unwrap_or_default().into_iter().map(ExchangeId).collect();
                    Some(Statement::Apart { name, other, exchanges })
                }
                (_, Object::Literal(kind)) => Some(Statement::Kind { name, kind: kind_named(&kind) }),
                _ => None,
            };
        }
        let predicate: Predicate = self.predicate?.parse().ok()?;
        match self.says.as_str() {
            "holds" => Some(Statement::Holds(Holds {
                subject: name,
                predicate,
                object: object?,
                from: self.since_at,
                until: self.until_at,
                confidence,
                corrects: self.corrects,
            })),
            "ends" => Some(Statement::Ends { subject: name, predicate, object, at: self.since_at }),
            "never_held" => Some(Statement::NeverHeld { subject: name, predicate, object, from: self.since_at }),
            _ => None,
        }
    }
}

/// A moment as Postgres keeps it.
fn as_kept(moment: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    moment.map(|moment| moment.trunc_subsecs(6))
}

/// The kind that a word names; what is no kind is of the kind of all else.
fn kind_named(word: &str) -> EntityKind {
    let all = [
        EntityKind::Person,
        EntityKind::Organisation,
        EntityKind::Place,
        EntityKind::Project,
        EntityKind::Technology,
        EntityKind::Event,
        EntityKind::Animal,
    ];
    all.into_iter().find(|kind| kind.as_str() == word).unwrap_or_default()
}

/// The word for an origin in SQL.
pub(crate) fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Asserted => "asserted",
        Origin::Import => "import",
        Origin::Pattern => "pattern",
        Origin::Model => "model",
        Origin::Markdown => "markdown",
    }
}

/// The origin that a word of SQL names.
pub(crate) fn origin_named(word: &str) -> Origin {
    match word {
        "asserted" => Origin::Asserted,
        "import" => Origin::Import,
        "model" => Origin::Model,
        "markdown" => Origin::Markdown,
        _ => Origin::Pattern,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_statement_comes_back_from_its_columns_as_it_was() {
        let moment = "2024-05-01T00:00:00Z";
        let all = [
            json!({"says": "holds", "subject": "Anna", "predicate": "lives_in", "object": {"entity": "Bremen"}, "from": moment, "until": "2025-05-01T00:00:00Z", "confidence": 0.5, "corrects": true}),
            json!({"says": "holds", "subject": "Anna", "predicate": "age", "object": {"literal": " 42 "}}),
            json!({"says": "ends", "subject": "Anna", "predicate": "uses", "object": {"entity": "Vim"}, "at": moment}),
            json!({"says": "ends", "subject": "Anna", "predicate": "uses"}),
            json!({"says": "never_held", "subject": "Anna", "predicate": "age", "object": {"literal": "41"}, "from": moment}),
            json!({"says": "same", "name": "Anna", "alias": "Annie"}),
            json!({"says": "apart", "name": "Anna", "other": "Anna B", "exchanges": [Uuid::from_u128(7)]}),
            json!({"says": "kind", "name": "Heron", "kind": "technology"}),
            json!({"says": "kind", "name": "Heron", "kind": "other"}),
        ];
        for json in all {
            let statement: Statement = serde_json::from_value(json).unwrap();
            let confidence = if let Statement::Holds(holds) = &statement { holds.confidence } else { 1.0 };
            assert_eq!(Columns::of(&statement).statement(confidence), Some(statement));
        }
    }
}
