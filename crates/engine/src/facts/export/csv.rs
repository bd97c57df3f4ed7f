//! CSV as RFC 4180 has it: a line for each fact, names of the columns first.

use std::io::{self, Write};

use ::csv::{Terminator, WriterBuilder};
use skymem_core::facts::{Fact, FactObject, Subgraph};

use super::{evidence, moment, object_entity};

/// The columns, in order. The import reads those up to `valid_from_is_said`, and leaves out what was taken back.
pub(in super::super) const COLUMNS: [&str; 17] = [
    "subject",
    "predicate",
    "object",
    "object_is_literal",
    "valid_from",
    "valid_to",
    "confidence",
    "subject_kind",
    "object_kind",
    "valid_from_is_said",
    "recorded_at",
    "retracted_at",
    "fact_id",
    "subject_id",
    "object_id",
    "evidence",
    "sentence",
];

pub(super) fn write(graph: &Subgraph, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
    writer.write_record(COLUMNS)?;
    for fact in &graph.facts {
        writer.write_record(row(fact))?;
    }
    writer.flush()
}

fn row(fact: &Fact) -> [String; COLUMNS.len()] {
    let (object, object_is_literal) = match &fact.object {
        FactObject::Entity(entity) => (entity.name.as_str(), false),
        FactObject::Literal(text) => (text.as_str(), true),
    };
    [
        fact.subject.name.to_string(),
        fact.predicate.to_string(),
        object.to_owned(),
        object_is_literal.to_string(),
        moment(fact.valid_from),
        fact.valid_to.map(moment).unwrap_or_default(),
        fact.confidence.to_string(),
        fact.subject.kind.as_str().to_owned(),
        object_entity(fact).map_or("", |entity| entity.kind.as_str()).to_owned(),
        fact.from_is_said.to_string(),
        moment(fact.recorded_at),
        fact.retracted_at.map(moment).unwrap_or_default(),
        fact.id.to_string(),
        fact.subject.id.to_string(),
        object_entity(fact).map(|entity| entity.id.to_string()).unwrap_or_default(),
        evidence(fact).collect::<Vec<_>>().join("; "),
        fact.sentence.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::sample::{graph, hard};
    use super::*;

    fn text(graph: &Subgraph) -> String {
        let mut out = Vec::new();
        write(graph, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_fact_is_a_line_under_the_names_of_the_columns() {
        let text = text(&graph(&[("Ann", "lives_in", "Bonn"), ("Ann", "age", "=42")]));

        let lines: Vec<_> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[0], COLUMNS.join(","));
        assert!(lines[1].starts_with("Ann,lives_in,Bonn,false,2024-05-01T00:00:00Z,,0.9,person,place,true,"), "{text}");
        assert!(
            lines[2].starts_with("Ann,age,42,true,2024-05-02T00:00:00Z,2024-05-02T00:00:01.500Z,0.9,person,,true,"),
            "{text}"
        );
        assert_eq!(lines[3], "");
    }

    #[test]
    fn no_facts_are_the_names_of_the_columns() {
        assert_eq!(text(&Subgraph::default()), COLUMNS.join(",") + "\r\n");
    }

    #[test]
    fn any_value_is_read_back_as_it_was() {
        let hard = hard();
        let written = text(&hard);

        let mut reader = ::csv::Reader::from_reader(written.as_bytes());
        let rows: Vec<Vec<String>> =
            reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
        assert_eq!(rows, hard.facts.iter().map(|fact| row(fact).to_vec()).collect::<Vec<_>>());
    }
}
