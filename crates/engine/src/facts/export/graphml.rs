//! GraphML: XML that Gephi, yEd and NetworkX read.

use std::fmt;
use std::io::{self, Write};

use skymem_core::facts::{Fact, Subgraph};

use super::{Node, attributes, nodes, target_id};

/// What is told of nodes and edges: for which, name, type.
const KEYS: [(&str, &str, &str); 11] = [
    ("node", "label", "string"),
    ("node", "kind", "string"),
    ("edge", "predicate", "string"),
    ("edge", "sentence", "string"),
    ("edge", "confidence", "float"),
    ("edge", "valid_from", "string"),
    ("edge", "valid_from_is_said", "boolean"),
    ("edge", "valid_to", "string"),
    ("edge", "recorded_at", "string"),
    ("edge", "retracted_at", "string"),
    ("edge", "evidence", "string"),
];

pub(super) fn write(graph: &Subgraph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(out, r#"<graphml xmlns="http://graphml.graphdrawing.org/xmlns">"#)?;
    for (of, name, kind) in KEYS {
        writeln!(out, r#"  <key id="{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>"#)?;
    }
    writeln!(out, r#"  <graph id="facts" edgedefault="directed">"#)?;
    for node in nodes(graph) {
        write_node(&node, out)?;
    }
    for fact in &graph.facts {
        write_fact(fact, out)?;
    }
    writeln!(out, "  </graph>\n</graphml>")
}

fn write_node(node: &Node<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, r#"    <node id="{}">"#, node.id())?;
    write_data("label", node.label(), out)?;
    write_data("kind", node.kind(), out)?;
    writeln!(out, "    </node>")
}

fn write_fact(fact: &Fact, out: &mut dyn Write) -> io::Result<()> {
    let (id, from, to) = (fact.id, fact.subject.id, target_id(fact));
    writeln!(out, r#"    <edge id="{id}" source="{from}" target="{to}">"#)?;
    write_data("predicate", fact.predicate.as_str(), out)?;
    write_data("sentence", &fact.sentence, out)?;
    for (name, value) in attributes(fact) {
        write_data(name, &value, out)?;
    }
    writeln!(out, "    </edge>")
}

fn write_data(key: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, r#"      <data key="{key}">{}</data>"#, Text(value))
}

/// A text between tags.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sign in self.0.chars() {
            match sign {
                '<' => f.write_str("&lt;")?,
                // `]]>` must not stand in a text.
                '>' => f.write_str("&gt;")?,
                '&' => f.write_str("&amp;")?,
                // A reader would make a line feed of it.
                '\r' => f.write_str("&#13;")?,
                // XML has no way to write these.
                '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                    f.write_str("\u{fffd}")?;
                }
                sign => write!(f, "{sign}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use quick_xml::Reader;
    use quick_xml::events::Event;
    use skymem_core::facts::FactObject;

    use super::super::sample::{graph, hard};
    use super::*;

    /// An element with an id, as a reader sees it: its attributes and its data.
    #[derive(Debug, Default)]
    struct Read {
        attributes: HashMap<String, String>,
        data: HashMap<String, String>,
    }

    fn read(graph: &Subgraph) -> Vec<Read> {
        let mut out = Vec::new();
        write(graph, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("]]>"), "readers refuse it outside of CDATA: {text}");
        let mut reader = Reader::from_str(&text);
        let (mut found, mut key) = (Vec::<Read>::new(), None::<String>);
        loop {
            match reader.read_event().unwrap() {
                Event::Start(tag) => {
                    let attributes: HashMap<String, String> = tag
                        .attributes()
                        .map(|attribute| attribute.unwrap())
                        .map(|attribute| (attribute.key.0.to_owned(), attribute.value.into_owned()))
                        .collect();
                    match tag.name().0 {
                        "data" => {
                            key = Some(attributes["key"].clone());
                            found.last_mut().unwrap().data.insert(attributes["key"].clone(), String::new());
                        }
                        "node" | "edge" => found.push(Read { attributes, ..Read::default() }),
                        _ => {}
                    }
                }
                Event::End(tag) if tag.name().0 == "data" => key = None,
                Event::Text(text) => {
                    if let Some(key) = &key {
                        *found.last_mut().unwrap().data.get_mut(key).unwrap() += &text.xml10_content();
                    }
                }
                Event::GeneralRef(reference) => {
                    let sign = match reference.resolve_char_ref().unwrap() {
                        Some(sign) => sign.to_string(),
                        None => quick_xml::escape::resolve_xml_entity(&reference).unwrap().to_owned(),
                    };
                    *found.last_mut().unwrap().data.get_mut(key.as_ref().unwrap()).unwrap() += &sign;
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn an_edge_carries_what_is_known_of_its_fact() {
        let graph = graph(&[("Ann", "lives_in", "Bonn"), ("Ann", "age", "=42")]);

        let read = read(&graph);

        let edge = read.iter().find(|read| read.data.get("predicate").is_some_and(|it| it == "lives_in")).unwrap();
        assert_eq!(edge.attributes["id"], graph.facts[0].id.to_string());
        assert_eq!(edge.data["confidence"], "0.9");
        assert_eq!(edge.data["valid_from"], "2024-05-01T00:00:00Z");
        assert!(!edge.data.contains_key("valid_to"));
        assert!(edge.data["evidence"].ends_with("; my notes.md:12"));
    }

    #[test]
    fn every_edge_leads_from_node_to_node_and_every_name_is_as_it_was() {
        let hard = hard();
        let read = read(&hard);

        let edges: Vec<_> = read.iter().filter(|read| read.attributes.contains_key("source")).collect();
        let label = |id: &String| &read.iter().find(|read| read.attributes["id"] == *id).unwrap().data["label"];
        assert_eq!(edges.len(), hard.facts.len());
        for (edge, fact) in edges.iter().zip(&hard.facts) {
            assert_eq!(label(&edge.attributes["source"]), fact.subject.name.as_str());
            let object = match &fact.object {
                FactObject::Entity(entity) => entity.name.to_string(),
                FactObject::Literal(text) => text.replace('\u{1}', "\u{fffd}"),
            };
            assert_eq!(label(&edge.attributes["target"]), &object);
        }
    }

    #[test]
    fn every_datum_has_a_key() {
        for read in read(&hard()) {
            let of = if read.attributes.contains_key("source") { "edge" } else { "node" };
            for name in read.data.keys() {
                assert!(KEYS.iter().any(|key| (key.0, key.1) == (of, name)), "{of} {name}");
            }
        }
    }
}
