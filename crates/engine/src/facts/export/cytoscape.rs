//! The JSON of Cytoscape: nodes and edges, each with its data.

use std::io::{self, Write};

use serde::Serialize;
use skymem_core::facts::{Fact, Subgraph};

use super::{Node, evidence, moment, nodes, target_id};

pub(super) fn write(graph: &Subgraph, out: &mut dyn Write) -> io::Result<()> {
    let nodes = nodes(graph);
    let elements = Elements {
        nodes: nodes.iter().map(|node| Element { data: NodeData::of(node), classes: class(node) }).collect(),
        edges: graph.facts.iter().map(|fact| Element { data: EdgeData::of(fact), classes: "fact" }).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &Network { data: About { name: "facts" }, elements })?;
    out.write_all(b"\n")
}

fn class(node: &Node<'_>) -> &'static str {
    match node {
        Node::Entity(_) => "entity",
        Node::Literal(..) => "literal",
    }
}

#[derive(Serialize)]
struct Network<'a> {
    data: About,
    elements: Elements<'a>,
}

#[derive(Serialize)]
struct About {
    name: &'static str,
}

#[derive(Serialize)]
struct Elements<'a> {
    nodes: Vec<Element<NodeData<'a>>>,
    edges: Vec<Element<EdgeData<'a>>>,
}

#[derive(Serialize)]
struct Element<D> {
    data: D,
    classes: &'static str,
}

#[derive(Serialize)]
struct NodeData<'a> {
    id: String,
    label: &'a str,
    /// Cytoscape on the desktop shows this one.
    name: &'a str,
    kind: &'static str,
}

impl<'a> NodeData<'a> {
    fn of(node: &'a Node<'_>) -> Self {
        Self { id: node.id(), label: node.label(), name: node.label(), kind: node.kind() }
    }
}

#[derive(Serialize)]
struct EdgeData<'a> {
    id: String,
    source: String,
    target: String,
    label: &'a str,
    sentence: &'a str,
    confidence: f32,
    valid_from: String,
    valid_from_is_said: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_to: Option<String>,
    recorded_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retracted_at: Option<String>,
    evidence: Vec<String>,
}

impl<'a> EdgeData<'a> {
    fn of(fact: &'a Fact) -> Self {
        Self {
            id: fact.id.to_string(),
            source: fact.subject.id.to_string(),
            target: target_id(fact),
            label: fact.predicate.as_str(),
            sentence: &fact.sentence,
            confidence: fact.confidence,
            valid_from: moment(fact.valid_from),
            valid_from_is_said: fact.from_is_said,
            valid_to: fact.valid_to.map(moment),
            recorded_at: moment(fact.recorded_at),
            retracted_at: fact.retracted_at.map(moment),
            evidence: evidence(fact).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::sample::{graph, hard};
    use super::*;

    fn read(graph: &Subgraph) -> Value {
        let mut out = Vec::new();
        write(graph, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn an_edge_carries_what_is_known_of_its_fact() {
        let graph = graph(&[("Ann", "lives_in", "Bonn")]);

        let data = &read(&graph)["elements"]["edges"][0]["data"];

        assert_eq!(data["label"], "lives_in");
        assert_eq!(data["source"], graph.facts[0].subject.id.to_string());
        assert_eq!(data["confidence"].to_string(), "0.9");
        assert_eq!(data["valid_from"], "2024-05-01T00:00:00Z");
        assert_eq!(data.get("valid_to"), None);
        assert_eq!(data["recorded_at"], "2024-06-01T10:20:30.123456Z");
        assert_eq!(
            data["evidence"],
            json!([graph.facts[0].evidence[0].exchange.unwrap().to_string(), "my notes.md:12"])
        );
    }

    #[test]
    fn every_edge_leads_from_node_to_node_and_every_name_is_as_it_was() {
        let hard = hard();
        let read = read(&hard);

        let nodes = read["elements"]["nodes"].as_array().unwrap();
        let edges = read["elements"]["edges"].as_array().unwrap();
        let label = |id: &Value| &nodes.iter().find(|node| node["data"]["id"] == *id).unwrap()["data"]["label"];
        assert_eq!(edges.len(), hard.facts.len());
        for (edge, fact) in edges.iter().zip(&hard.facts) {
            assert_eq!(*label(&edge["data"]["source"]), json!(fact.subject.name));
            let object = match &fact.object {
                skymem_core::facts::FactObject::Entity(entity) => entity.name.to_string(),
                skymem_core::facts::FactObject::Literal(text) => text.clone(),
            };
            assert_eq!(*label(&edge["data"]["target"]), json!(object));
        }
    }

    #[test]
    fn nothing_is_a_network_without_elements() {
        assert_eq!(read(&Subgraph::default())["elements"], json!({ "nodes": [], "edges": [] }));
    }
}
