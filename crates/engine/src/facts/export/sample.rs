//! Graphs for the tests of all formats.

use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::ExchangeId;
use skymem_core::facts::{EntityHead, EntityId, EntityKind, Evidence, Fact, FactId, FactObject, Origin, Subgraph};
use uuid::Uuid;

/// Names and values that are hard to write down.
pub(in super::super) const HARD: [&str; 12] = [
    r#"the "big" one"#,
    r"back\slash\",
    "a < b && c > d",
    "semi;colon, comma",
    "emoji 🦊 and 漢字",
    "]]> <![CDATA[ x",
    "=1+2",
    "@SUM(A1:A9)",
    "AT&amp;T &#38; R&D",
    "it's 100 % 'quoted'",
    "{ [json] : \"\\u0041\" }",
    "<b>bold</b> \\N \\G \\n",
];

/// A value with line ends of all kinds and other signs that names cannot have.
pub(in super::super) const LINES: &str = "first\nsecond\r\nthird\rfourth\ttab \u{1} \u{7f} end \"";

pub(in super::super) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

/// The facts of these subjects, predicates and objects; an object that begins with `=` is a literal, without it.
pub(in super::super) fn graph(facts: &[(&str, &str, &str)]) -> Subgraph {
    let mut graph = Subgraph::default();
    for (number, &(subject, predicate, object)) in (0_u128..).zip(facts) {
        let object = match object.strip_prefix('=') {
            Some(text) => FactObject::Literal(text.to_owned()),
            None => FactObject::Entity(entity(object, EntityKind::Place)),
        };
        graph.facts.push(fact(number, entity(subject, EntityKind::Person), predicate, object));
    }
    graph.entities = graph.facts.iter().map(|fact| fact.subject.clone()).collect();
    graph
}

/// A graph in which everything is hard to write down.
pub(in super::super) fn hard() -> Subgraph {
    let mut graph = graph(&[]);
    for (number, &text) in (0_u128..).zip(&HARD) {
        let next = HARD[(number as usize + 1) % HARD.len()];
        let object = FactObject::Entity(entity(next, EntityKind::Project));
        graph.facts.push(fact(2 * number, entity(text, EntityKind::Technology), "links", object));
        let value = FactObject::Literal(text.to_owned());
        graph.facts.push(fact(2 * number + 1, entity(text, EntityKind::Technology), "note", value));
    }
    let lines = FactObject::Literal(LINES.to_owned());
    graph.facts.push(fact(100, entity(HARD[0], EntityKind::Technology), "note", lines));
    graph
}

fn entity(name: &str, kind: EntityKind) -> EntityHead {
    let id = EntityId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
    EntityHead { id, name: name.parse().unwrap(), kind }
}

fn fact(number: u128, subject: EntityHead, predicate: &str, object: FactObject) -> Fact {
    let valid_from = at("2024-05-01T00:00:00Z") + TimeDelta::days(number as i64);
    let recorded_at = at("2024-06-01T10:20:30.123456Z");
    Fact {
        id: FactId(Uuid::from_u128(0xfac7_0000 + number)),
        sentence: format!("{} {predicate}", subject.name),
        subject,
        predicate: predicate.parse().unwrap(),
        object,
        single: predicate == "lives_in",
        valid_from,
        from_is_said: true,
        valid_to: (number % 2 == 1).then(|| valid_from + TimeDelta::milliseconds(1_500)),
        recorded_at,
        retracted_at: None,
        confidence: 0.9,
        evidence: vec![
            Evidence {
                origin: Origin::Asserted,
                exchange: Some(ExchangeId(Uuid::from_u128(0xe8c0 + number))),
                seq: None,
                session: None,
                file: None,
                said_at: recorded_at,
                recorded_at,
                confidence: 0.9,
            },
            Evidence {
                origin: Origin::Markdown,
                exchange: None,
                seq: None,
                session: None,
                file: Some("my notes.md:12".into()),
                said_at: recorded_at,
                recorded_at,
                confidence: 0.9,
            },
        ],
    }
}
