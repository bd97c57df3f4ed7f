//! Statements in words, as they stand in the journal for people to read.

use std::fmt;

use chrono::{DateTime, NaiveTime, Utc};

use super::{EntityKind, EntityName, Holds, Object, Predicate, Statement};

impl fmt::Display for Statement {
    /// One sentence in English. Names and values stand as they were given.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::Holds(Holds { subject, predicate, object, from, until, corrects, .. }) => {
                if *corrects {
                    f.write_str("Correction: ")?;
                }
                write!(f, "{}", Said(subject, predicate, Some(object)))?;
                if let Some(from) = from {
                    write!(f, ", since {}", Day(*from))?;
                }
                if let Some(until) = until {
                    write!(f, ", until {}", Day(*until))?;
                }
            }
            Statement::Ends { subject, predicate, object, at } => {
                write!(f, "No longer: {}", Said(subject, predicate, object.as_ref()))?;
                if let Some(at) = at {
                    write!(f, ", since {}", Day(*at))?;
                }
            }
            Statement::NeverHeld { subject, predicate, object, from } => {
                write!(f, "Never so: {}", Said(subject, predicate, object.as_ref()))?;
                if let Some(from) = from {
                    write!(f, ", since {}", Day(*from))?;
                }
            }
            Statement::Same { name, alias } => write!(f, "{alias} is {name}")?,
            Statement::Apart { name, other, exchanges } => {
                let what = if exchanges.len() == 1 { "1 exchange says" } else { "some exchanges say" };
                write!(f, "{other} is not {name}: what {what} of {name} is about {other}")?;
            }
            Statement::Kind { name, kind } => write!(f, "{name} is of the kind {}", kind.as_str())?,
        }
        f.write_str(".")
    }
}

impl EntityKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Person,
        Self::Organisation,
        Self::Place,
        Self::Project,
        Self::Technology,
        Self::Event,
        Self::Animal,
        Self::Other,
    ];

    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            EntityKind::Person => "person",
            EntityKind::Organisation => "organisation",
            EntityKind::Place => "place",
            EntityKind::Project => "project",
            EntityKind::Technology => "technology",
            EntityKind::Event => "event",
            EntityKind::Animal => "animal",
            EntityKind::Other => "other",
        }
    }
}

/// What is said of whom, with whatever value when there is none.
struct Said<'a>(&'a EntityName, &'a Predicate, Option<&'a Object>);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Said(subject, predicate, object) = self;
        write!(f, "{subject} {}", predicate.as_str().replace('_', " "))?;
        match object {
            Some(object) => write!(f, " {}", object.as_str()),
            None => f.write_str(" anything"),
        }
    }
}

/// A day, or a minute of it when it is not its beginning.
struct Day(DateTime<Utc>);

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.0.time() == NaiveTime::MIN { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M UTC" };
        self.0.format(form).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(statement: Value, words: &str) {
        let read: Statement = serde_json::from_value(statement).unwrap();
        assert_eq!(read.to_string(), words);
    }

    #[test]
    fn a_statement_is_a_sentence() {
        let ann = |says: &str, rest: Value| {
            let mut body = json!({ "says": says, "subject": "Ann", "predicate": "lives_in" });
            body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            body
        };
        check(ann("holds", json!({ "object": { "entity": "Bonn" } })), "Ann lives in Bonn.");
        check(
            ann(
                "holds",
                json!({ "object": { "literal": "a boat" }, "corrects": true, "from": "2024-05-01T00:00:00Z",
                        "until": "2025-05-01T12:30:00Z" }),
            ),
            "Correction: Ann lives in a boat, since 2024-05-01, until 2025-05-01 12:30 UTC.",
        );
        check(
            ann("ends", json!({ "at": "2024-05-01T00:00:00Z" })),
            "No longer: Ann lives in anything, since 2024-05-01.",
        );
        check(ann("never_held", json!({ "object": { "entity": "Bonn" } })), "Never so: Ann lives in Bonn.");
        check(json!({ "says": "same", "name": "Robert", "alias": "Bob" }), "Bob is Robert.");
        check(json!({ "says": "kind", "name": "Rex", "kind": "animal" }), "Rex is of the kind animal.");
        check(
            json!({ "says": "apart", "name": "Bob", "other": "Bob Two", "exchanges": [uuid::Uuid::nil()] }),
            "Bob Two is not Bob: what 1 exchange says of Bob is about Bob Two.",
        );
    }

    #[test]
    fn a_kind_is_called_as_it_is_on_the_wire() {
        for kind in [
            EntityKind::Person,
            EntityKind::Organisation,
            EntityKind::Place,
            EntityKind::Project,
            EntityKind::Technology,
            EntityKind::Event,
            EntityKind::Animal,
            EntityKind::Other,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
