//! The file of the MCP memory server: JSON, an entity or a relation on each line.

use std::collections::VecDeque;
use std::io::BufRead;

use serde_json::{Map, Value};
use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Predicate, Statement};

use super::{ImportError, ImportLine, LONGEST_LINE, Says, Stated, until_it_breaks};
use crate::reading::{Line, next_line};

/// An entity with more observations than this comes in several pieces.
const MOST_AT_ONCE: usize = 100;
/// What that server's instructions call the person it talks with.
const ITS_USER: &str = "default_user";
/// What an observation is to its entity.
const NOTE: &str = "note";
/// What a type that is none of our kinds is to its entity.
const IS_A: &str = "is_a";

/// The lines of `input`.
pub(super) fn read(mut input: impl BufRead) -> impl Iterator<Item = Result<ImportLine, ImportError>> {
    let (mut number, mut buffer, mut waiting) = (0, Vec::new(), VecDeque::new());
    until_it_breaks(move || {
        while waiting.is_empty() {
            number += 1;
            match next_line(&mut input, &mut buffer, LONGEST_LINE)? {
                Line::End => return Ok(None),
                Line::Read if buffer.trim_ascii().is_empty() => {}
                Line::Read => waiting.extend(parse(&buffer)),
                Line::TooLong(bytes) => {
                    let most = LONGEST_LINE / (1024 * 1024);
                    waiting.push_back(Says::Unreadable(format!("has {bytes} bytes; a line has at most {most} MiB")));
                }
            }
        }
        Ok(waiting.pop_front().map(|says| ImportLine { number, says }))
    })
}

/// What a line says: one thing, or what can be read of it and then what cannot.
fn parse(line: &[u8]) -> Vec<Says> {
    let parsed = object(line).and_then(|object| match object.get("type").and_then(Value::as_str) {
        Some("entity") => entity(&object),
        Some("relation") => relation(&object).map(|holds| vec![Says::Statements(vec![holds.into()])]),
        _ => Err("has no `type`: it is \"entity\" or \"relation\"".into()),
    });
    parsed.unwrap_or_else(|why| vec![Says::Unreadable(why)])
}

fn object(line: &[u8]) -> Result<Map<String, Value>, String> {
    let line = str::from_utf8(line).map_err(|_| "is not UTF-8".to_owned())?;
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("is not a JSON object".into()),
        // The parser counts lines too, and would always speak of the first.
        Err(bad) => Err(format!("is not JSON: {}", bad.to_string().replace("at line 1 column", "at column"))),
    }
}

fn entity(object: &Map<String, Value>) -> Result<Vec<Says>, String> {
    let name = name(object, "name")?;
    let (mut told, mut bad) = (Vec::new(), Vec::new());
    match object.get("entityType") {
        None | Some(Value::Null) => {}
        Some(Value::String(word)) if word.trim().is_empty() => {}
        Some(Value::String(word)) => match kind(word) {
            Some(kind) => told.push(Statement::Kind { name: name.clone(), kind }),
            None => match literal(&name, IS_A, word) {
                Ok(holds) => told.push(holds),
                Err(why) => bad.push(format!("entityType: {why}")),
            },
        },
        Some(_) => bad.push("entityType: is not a text".into()),
    }
    match object.get("observations") {
        None | Some(Value::Null) => {}
        Some(Value::Array(observations)) => {
            for (index, observation) in (1..).zip(observations) {
                let holds = match observation {
                    Value::String(text) => literal(&name, NOTE, text),
                    _ => Err("is not a text".into()),
                };
                match holds {
                    Ok(holds) => told.push(holds),
                    Err(why) => bad.push(format!("observation {index}: {why}")),
                }
            }
        }
        Some(_) => bad.push("observations: is not a list".into()),
    }
    let nothing = told.is_empty() && bad.is_empty();
    let told = told.chunks(MOST_AT_ONCE).map(|told| Says::Statements(told.iter().cloned().map(Stated::from).collect()));
    let nothing = nothing.then_some(Says::Nothing("says nothing of the entity"));
    Ok(told.chain(bad.into_iter().map(Says::Unreadable)).chain(nothing).collect())
}

fn relation(object: &Map<String, Value>) -> Result<Statement, String> {
    let (from, to) = (name(object, "from")?, name(object, "to")?);
    let predicate = text(object, "relationType")?.parse().map_err(|bad| format!("relationType: {bad}"))?;
    fact(from, predicate, Object::Entity(to))
}

fn literal(subject: &EntityName, predicate: &str, text: &str) -> Result<Statement, String> {
    let predicate = predicate.parse().map_err(|bad| format!("{bad}"))?;
    fact(subject.clone(), predicate, Object::Literal(text.trim().to_owned()))
}

fn fact(subject: EntityName, predicate: Predicate, object: Object) -> Result<Statement, String> {
    let holds = Holds { subject, predicate, object, from: None, until: None, confidence: 1.0, corrects: false };
    let holds = Statement::Holds(holds);
    holds.check().map_err(|bad| bad.to_string())?;
    Ok(holds)
}

fn name(object: &Map<String, Value>, field: &str) -> Result<EntityName, String> {
    let name = text(object, field)?;
    let name = if name.trim() == ITS_USER { EntityName::SELF } else { name };
    name.parse().map_err(|bad| format!("{field}: {bad}"))
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a str, String> {
    match object.get(field) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{field}: is not a text")),
        None => Err(format!("has no `{field}`")),
    }
}

/// The kind that people mean by `word`.
fn kind(word: &str) -> Option<EntityKind> {
    Some(match word.trim().to_lowercase().as_str() {
        "person" | "people" | "human" | "user" | "contact" => EntityKind::Person,
        "organisation" | "organization" | "company" | "team" | "institution" => EntityKind::Organisation,
        "place" | "location" | "city" | "country" => EntityKind::Place,
        "project" => EntityKind::Project,
        "technology" | "tool" | "library" | "framework" | "language" | "software" => EntityKind::Technology,
        "event" | "meeting" | "decision" | "bug" => EntityKind::Event,
        "animal" | "pet" => EntityKind::Animal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ImportFormat;
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut seen = Vec::new();
        for line in super::super::read(ImportFormat::Mcp, text.as_bytes()).unwrap() {
            let ImportLine { number, says } = line.unwrap();
            match says {
                Says::Statements(all) => seen.extend(all.iter().map(|told| format!("{number}: {}", told.statement))),
                Says::Nothing(why) => seen.push(format!("{number} left out: {why}")),
                Says::Unreadable(why) => seen.push(format!("{number} unreadable: {why}")),
            }
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn entities_observations_and_relations_are_statements() {
        check(
            concat!(
                r#"{"type":"entity","name":"John_Smith","entityType":"person","observations":["Speaks Spanish"," Likes tea "]}"#,
                "\n",
                r#"{"type":"entity","name":"skymem","entityType":"memory server","observations":[],"version":3}"#,
                "\r\n\r\n",
                r#"{"type":"relation","from":"John_Smith","to":"skymem","relationType":"works-on"}"#,
            ),
            &[
                "1: John_Smith is of the kind person.",
                "1: John_Smith note Speaks Spanish.",
                "1: John_Smith note Likes tea.",
                "2: skymem is a memory server.",
                "4: John_Smith works on skymem.",
            ],
        );
    }

    #[test]
    fn its_user_is_the_person_whose_memory_it_is() {
        check(
            r#"{"type":"relation","from":"default_user","to":"Bonn","relationType":"lives in"}"#,
            &["1: user lives in Bonn."],
        );
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_and_lines_are_counted_with_it() {
        check(
            "\u{feff}{\"type\":\"entity\",\"name\":\"a\",\"entityType\":\"pet\"}\n{",
            &["1: a is of the kind animal.", "2 unreadable: is not JSON: EOF while parsing an object at column 1"],
        );
    }

    #[test]
    fn an_observation_that_cannot_be_kept_does_not_cost_the_others() {
        let text = format!(
            r#"{{"type":"entity","name":"a","entityType":7,"observations":["{}",3,"","fine"]}}"#,
            "x".repeat(2_001)
        );
        check(
            &text,
            &[
                "1: a note fine.",
                "1 unreadable: entityType: is not a text",
                "1 unreadable: observation 1: object has at most 2000 characters",
                "1 unreadable: observation 2: is not a text",
                "1 unreadable: observation 3: object must not be blank",
            ],
        );
    }

    #[test]
    fn an_entity_with_very_many_observations_comes_in_pieces() {
        let notes: Vec<_> = (0..250).map(|n| format!("note {n}")).collect();
        let line = serde_json::json!({ "type": "entity", "name": "a", "observations": notes }).to_string();

        let pieces: Vec<_> = read(line.as_bytes())
            .map(|line| match line.unwrap() {
                ImportLine { number: 1, says: Says::Statements(statements) } => statements.len(),
                other => panic!("{other:?}"),
            })
            .collect();

        assert_eq!(pieces, [100, 100, 50]);
    }

    #[test]
    fn a_line_that_cannot_be_read_says_why_and_the_rest_goes_on() {
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        check(
            &[
                "not json",
                "[1]",
                "{}",
                r#"{"type":"thing"}"#,
                r#"{"type":"entity"}"#,
                r#"{"type":"entity","name":7}"#,
                r#"{"type":"entity","name":"..."}"#,
                r#"{"type":"entity","name":"a","observations":"b"}"#,
                r#"{"type":"entity","name":"a"}"#,
                r#"{"type":"relation","from":"a","to":"b"}"#,
                r#"{"type":"relation","from":"a","to":"A","relationType":"is"}"#,
                r#"{"type":"relation","from":"a","to":"b","relationType":"a/b"}"#,
                &deep,
                r#"{"type":"relation","from":"a","to":"b","relationType":"uses"}"#,
            ]
            .join("\n"),
            &[
                "1 unreadable: is not JSON: expected ident at column 2",
                "2 unreadable: is not a JSON object",
                "3 unreadable: has no `type`: it is \"entity\" or \"relation\"",
                "4 unreadable: has no `type`: it is \"entity\" or \"relation\"",
                "5 unreadable: has no `name`",
                "6 unreadable: name: is not a text",
                "7 unreadable: name: the name of an entity has a letter or a digit",
                "8 unreadable: observations: is not a list",
                "9 left out: says nothing of the entity",
                "10 unreadable: has no `relationType`",
                "11 unreadable: object is the subject itself: a fact links an entity to another one, or to a value",
                "12 unreadable: relationType: a predicate is made of letters, digits and '_'",
                "13 unreadable: is not JSON: recursion limit exceeded at column 128",
                "14: a uses b.",
            ],
        );
    }

    #[test]
    fn lines_that_are_not_utf_8_or_too_long_are_unreadable_alone() {
        let mut text = b"{\"type\":\"\xff\"}\n".to_vec();
        text.extend(vec![b'x'; LONGEST_LINE + 1]);
        text.extend(b"\n{\"type\":\"relation\",\"from\":\"a\",\"to\":\"b\",\"relationType\":\"uses\"}");

        let lines: Vec<_> = read(text.as_slice()).map(Result::unwrap).collect();

        assert_eq!(lines[0], ImportLine { number: 1, says: Says::Unreadable("is not UTF-8".into()) });
        let long = "has 1048577 bytes; a line has at most 1 MiB".into();
        assert_eq!(lines[1], ImportLine { number: 2, says: Says::Unreadable(long) });
        assert!(matches!(lines[2], ImportLine { number: 3, says: Says::Statements(_) }));
    }

    #[test]
    fn a_hundred_thousand_lines_are_read() {
        let line = |n: u32| {
            format!("{{\"type\":\"relation\",\"from\":\"e{n}\",\"to\":\"e{}\",\"relationType\":\"uses\"}}\n", n + 1)
        };
        let text: String = (0..100_000).map(line).collect();

        let lines = read(text.as_bytes()).filter(|line| matches!(line.as_ref().unwrap().says, Says::Statements(_)));

        assert_eq!(lines.count(), 100_000);
    }
}
