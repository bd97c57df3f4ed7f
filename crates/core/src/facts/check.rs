//! Whether a statement can be one, beyond what its types say.

use chrono::{DateTime, Datelike, Utc};

use super::{EntityName, Holds, LONGEST_LITERAL, Object, Statement};

/// So many exchanges may be told apart at once.
pub const MOST_EXCHANGES_APART: usize = 1_000;

/// A statement that cannot be one: which part of it, and what that may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct BadStatement {
    /// The part at fault: `object`, `until`, ...
    pub field: &'static str,
    /// What it may be.
    pub reason: String,
}

impl Statement {
    /// Refuses what contradicts itself, and what could not be kept as it is.
    ///
    /// # Errors
    ///
    /// The first part at fault.
    pub fn check(&self) -> Result<(), BadStatement> {
        match self {
            Statement::Holds(holds) => holds.check(),
            Statement::Ends { subject, object, at, .. } => {
                object.as_ref().map_or(Ok(()), |object| check_object(subject, object))?;
                check_moment("at", *at)
            }
            Statement::NeverHeld { subject, object, from, .. } => {
                object.as_ref().map_or(Ok(()), |object| check_object(subject, object))?;
                check_moment("from", *from)
            }
            Statement::Same { name, alias } => check_differ("alias", name, alias),
            Statement::Apart { name, other, exchanges } => {
                check_differ("other", name, other)?;
                if exchanges.is_empty() || exchanges.len() > MOST_EXCHANGES_APART {
                    return Err(bad("exchanges", format!("names 1 to {MOST_EXCHANGES_APART} exchanges")));
                }
                Ok(())
            }
            Statement::Kind { .. } => Ok(()),
        }
    }
}

impl Holds {
    fn check(&self) -> Result<(), BadStatement> {
        check_object(&self.subject, &self.object)?;
        check_moment("from", self.from)?;
        check_moment("until", self.until)?;
        if self.from.zip(self.until).is_some_and(|(from, until)| until <= from) {
            return Err(bad("until", "must be later than `from`"));
        }
        // A number that is none is not in the range either.
        if !(self.confidence > 0.0 && self.confidence <= 1.0) {
            return Err(bad("confidence", "is a number above 0, at most 1"));
        }
        Ok(())
    }
}

fn check_object(subject: &EntityName, object: &Object) -> Result<(), BadStatement> {
    match object {
        Object::Entity(name) if same(subject, name) => {
            Err(bad("object", "is the subject itself: a fact links an entity to another one, or to a value"))
        }
        Object::Entity(_) => Ok(()),
        Object::Literal(text) if text.trim().is_empty() => Err(bad("object", "must not be blank")),
        Object::Literal(text) if text.contains('\0') => Err(bad("object", "must not hold the character NUL (U+0000)")),
        // Counting characters is only needed where there may be too many.
        Object::Literal(text) if text.len() > LONGEST_LITERAL && text.chars().count() > LONGEST_LITERAL => {
            Err(bad("object", format!("has at most {LONGEST_LITERAL} characters")))
        }
        Object::Literal(_) => Ok(()),
    }
}

fn check_differ(field: &'static str, name: &EntityName, other: &EntityName) -> Result<(), BadStatement> {
    if same(name, other) { Err(bad(field, "is the same name: give another one")) } else { Ok(()) }
}

fn check_moment(field: &'static str, at: Option<DateTime<Utc>>) -> Result<(), BadStatement> {
    let fine = at.is_none_or(|at| (1..=9999).contains(&at.year()));
    if fine { Ok(()) } else { Err(bad(field, "is a moment in a year from 1 to 9999")) }
}

fn same(name: &EntityName, other: &EntityName) -> bool {
    name.as_str().to_lowercase() == other.as_str().to_lowercase()
}

fn bad(field: &'static str, reason: impl Into<String>) -> BadStatement {
    BadStatement { field, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    #[track_caller]
    fn check(says: &str, rest: Value, fault: Option<&str>) {
        let mut statement = rest;
        statement["says"] = says.into();
        let read: Statement = serde_json::from_value(statement.clone()).unwrap();
        let outcome = read.check().map_err(|bad| bad.to_string());
        match (&outcome, fault) {
            (Ok(()), None) => {}
            (Err(bad), Some(fault)) => assert!(bad.contains(fault), "{statement}: {bad}"),
            _ => panic!("{statement}: {outcome:?} where {fault:?} was expected"),
        }
    }

    fn holds(changes: Value) -> Value {
        let mut holds = json!({ "subject": "Ann", "predicate": "lives_in", "object": { "entity": "Bonn" } });
        if let (Some(holds), Value::Object(changes)) = (holds.as_object_mut(), changes) {
            holds.extend(changes);
        }
        holds
    }

    #[test]
    fn a_fact_runs_forward_and_says_something_of_another() {
        check("holds", holds(json!({})), None);
        check("holds", holds(json!({ "from": "2024-05-01T00:00:00Z", "until": "2025-05-01T00:00:00Z" })), None);
        let backward = json!({ "from": "2025-05-01T00:00:00Z", "until": "2024-05-01T00:00:00Z" });
        check("holds", holds(backward), Some("until must be later"));
        let empty = json!({ "from": "2025-05-01T00:00:00Z", "until": "2025-05-01T00:00:00Z" });
        check("holds", holds(empty), Some("until must be later"));
        check("holds", holds(json!({ "from": "-0001-05-01T00:00:00Z" })), Some("from is a moment in a year"));
        check("holds", holds(json!({ "until": "+12000-05-01T00:00:00Z" })), Some("until is a moment in a year"));
        check("holds", holds(json!({ "object": { "entity": "ANN" } })), Some("object is the subject itself"));
        check("holds", holds(json!({ "object": { "literal": "Ann" } })), None);
        check("holds", holds(json!({ "object": { "literal": " \n" } })), Some("object must not be blank"));
        check("holds", holds(json!({ "object": { "literal": "a\u{0}b" } })), Some("NUL"));
        check("holds", holds(json!({ "object": { "literal": "ä".repeat(2_000) } })), None);
        check("holds", holds(json!({ "object": { "literal": "ä".repeat(2_001) } })), Some("at most 2000"));
    }

    #[test]
    fn a_confidence_is_above_nothing_and_no_more_than_certain() {
        check("holds", holds(json!({ "confidence": 0.001 })), None);
        check("holds", holds(json!({ "confidence": 1 })), None);
        for bad in [json!(0), json!(-0.5), json!(1.01), json!(1e40)] {
            check("holds", holds(json!({ "confidence": bad })), Some("confidence is a number above 0"));
        }
        let mut nan = Holds {
            subject: "Ann".parse().unwrap(),
            predicate: "age".parse().unwrap(),
            object: Object::Literal("30".into()),
            from: None,
            until: None,
            confidence: f32::NAN,
            corrects: false,
        };
        assert_eq!(Statement::Holds(nan.clone()).check().unwrap_err().field, "confidence");
        nan.confidence = 0.5;
        assert!(Statement::Holds(nan).check().is_ok());
    }

    #[test]
    fn an_end_and_a_retraction_name_a_value_that_can_be_one() {
        let of = |rest: Value| {
            let mut body = json!({ "subject": "Ann", "predicate": "lives_in" });
            body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            body
        };
        for says in ["ends", "never_held"] {
            check(says, of(json!({})), None);
            check(says, of(json!({ "object": { "literal": "" } })), Some("object must not be blank"));
            check(says, of(json!({ "object": { "entity": "ann" } })), Some("object is the subject itself"));
        }
        check("ends", of(json!({ "at": "+10000-01-01T00:00:00Z" })), Some("at is a moment"));
        check("never_held", of(json!({ "from": "+10000-01-01T00:00:00Z" })), Some("from is a moment"));
    }

    #[test]
    fn a_name_has_something_to_be_seen() {
        for bad in ["", " ", "...", "\u{301}", "\u{200f}\u{200b}", "\u{3164}", "a\u{0}", &"a".repeat(201)] {
            assert!(bad.parse::<EntityName>().is_err(), "{bad:?}");
        }
        for good in ["a", "漢", "\u{3164}7", "\u{202e}Ann", &"a".repeat(200)] {
            assert!(good.parse::<EntityName>().is_ok(), "{good:?}");
        }
    }

    #[test]
    fn names_are_joined_and_parted_with_others() {
        let id = Uuid::nil();
        check("same", json!({ "name": "Ann", "alias": "Annie" }), None);
        check("same", json!({ "name": "Ann", "alias": "ANN" }), Some("alias is the same name"));
        check("apart", json!({ "name": "Ann", "other": "Ann B", "exchanges": [id] }), None);
        check("apart", json!({ "name": "Ann", "other": " ann ", "exchanges": [id] }), Some("other is the same name"));
        check("apart", json!({ "name": "Ann", "other": "Ann B", "exchanges": [] }), Some("exchanges names 1 to 1000"));
        let many = vec![id; 1_001];
        check("apart", json!({ "name": "Ann", "other": "Ann B", "exchanges": many }), Some("exchanges names 1 to"));
        check("kind", json!({ "name": "Ann", "kind": "person" }), None);
    }
}
