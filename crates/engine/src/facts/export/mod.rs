//! A part of the graph as a text that other programs read.
//!
//! Names and values stand as they are, escaped as the format wants it. A spreadsheet may take a value that begins with `=`,
//! `+`, `-` or `@` for a formula: values are not changed for its sake, since they would not be the same when read again;
//! import the CSV as text where its content is not trusted.

mod csv;
mod cytoscape;
mod dot;
mod graphml;

#[cfg(test)]
pub(super) mod sample;

use std::collections::HashSet;
use std::io::{self, Write};
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use skymem_core::conversation::BadName;
use skymem_core::facts::{EntityHead, EntityId, Evidence, Fact, FactObject, Subgraph};

/// The columns of a CSV export.
pub(super) use csv::COLUMNS;

/// Writes `graph` to `out` as `format`, in UTF-8.
///
/// # Errors
///
/// When `out` takes no more.
pub fn write(graph: &Subgraph, format: ExportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::Dot => dot::write(graph, out),
        ExportFormat::Graphml => graphml::write(graph, out),
        ExportFormat::Cytoscape => cytoscape::write(graph, out),
        ExportFormat::Csv => csv::write(graph, out),
    }
}

/// The formats a graph can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Graphviz.
    Dot,
    /// GraphML, for Gephi, yEd and NetworkX.
    Graphml,
    /// The JSON of Cytoscape and Cytoscape.js.
    Cytoscape,
    /// A line for each fact (RFC 4180); the import reads it again. Entities without a fact are not in it.
    Csv,
}

impl ExportFormat {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dot, Self::Graphml, Self::Cytoscape, Self::Csv];

    /// The word for it on the wire; also the end of a file's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::Graphml => "graphml",
            Self::Cytoscape => "cytoscape",
            Self::Csv => "csv",
        }
    }

    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Dot => "text/vnd.graphviz; charset=utf-8",
            Self::Graphml => "application/graphml+xml; charset=utf-8",
            Self::Cytoscape => "application/json",
            Self::Csv => "text/csv; charset=utf-8; header=present",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        let found = Self::ALL.into_iter().find(|format| format.as_str() == word);
        found.ok_or_else(|| BadName(format!("a format is one of {}", Self::ALL.map(Self::as_str).join(", "))))
    }
}

/// Something that is drawn as a node.
enum Node<'a> {
    Entity(&'a EntityHead),
    /// The value of this fact.
    Literal(&'a Fact, &'a str),
}

impl Node<'_> {
    fn id(&self) -> String {
        match self {
            Self::Entity(entity) => entity.id.to_string(),
            Self::Literal(fact, _) => literal_id(fact),
        }
    }

    fn label(&self) -> &str {
        match self {
            Self::Entity(entity) => entity.name.as_str(),
            Self::Literal(_, text) => text,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Entity(entity) => entity.kind.as_str(),
            Self::Literal(..) => "literal",
        }
    }
}

/// Every entity that is listed or named by a fact, each once, and then every literal.
fn nodes(graph: &Subgraph) -> Vec<Node<'_>> {
    let mut seen: HashSet<EntityId> = HashSet::new();
    let ends = graph.facts.iter().flat_map(|fact| [Some(&fact.subject), object_entity(fact)]).flatten();
    let entities = graph.entities.iter().chain(ends).filter(|entity| seen.insert(entity.id)).map(Node::Entity);
    let literals = graph.facts.iter().filter_map(|fact| match &fact.object {
        FactObject::Literal(text) => Some(Node::Literal(fact, text)),
        FactObject::Entity(_) => None,
    });
    entities.chain(literals).collect()
}

fn object_entity(fact: &Fact) -> Option<&EntityHead> {
    match &fact.object {
        FactObject::Entity(entity) => Some(entity),
        FactObject::Literal(_) => None,
    }
}

/// The node to which a fact leads.
fn target_id(fact: &Fact) -> String {
    object_entity(fact).map_or_else(|| literal_id(fact), |entity| entity.id.to_string())
}

/// Literals are nothing to walk to: two that read alike are two nodes.
fn literal_id(fact: &Fact) -> String {
    format!("literal-{}", fact.id)
}

fn moment(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// What is known of a fact beyond its subject, predicate and object, by the names that formats give it.
fn attributes(fact: &Fact) -> impl Iterator<Item = (&'static str, String)> {
    let known = [
        ("confidence", Some(fact.confidence.to_string())),
        ("valid_from", Some(moment(fact.valid_from))),
        ("valid_from_is_said", Some(fact.from_is_said.to_string())),
        ("valid_to", fact.valid_to.map(moment)),
        ("recorded_at", Some(moment(fact.recorded_at))),
        ("retracted_at", fact.retracted_at.map(moment)),
        ("evidence", Some(evidence(fact).collect::<Vec<_>>().join("; "))),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name, value?)))
}

/// Where a fact is known from: the ids of exchanges, and lines of memory files.
fn evidence(fact: &Fact) -> impl Iterator<Item = String> {
    let source = |evidence: &Evidence| match (&evidence.exchange, &evidence.file) {
        (Some(exchange), _) => Some(exchange.to_string()),
        (None, file) => file.clone(),
    };
    fact.evidence.iter().filter_map(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_its_word() {
        for format in ExportFormat::ALL {
            assert_eq!(format.as_str().parse::<ExportFormat>().unwrap(), format);
        }
        let error = "xml".parse::<ExportFormat>().unwrap_err();
        assert_eq!(error.0, "a format is one of dot, graphml, cytoscape, csv");
    }

    #[test]
    fn every_end_of_a_fact_is_a_node_once_even_if_it_is_not_listed() {
        let mut graph = sample::graph(&[("Ann", "lives_in", "Bonn"), ("Ann", "likes", "Bonn"), ("Ann", "age", "=42")]);
        graph.entities.clear();

        let nodes: Vec<_> = nodes(&graph).iter().map(|node| (node.label().to_owned(), node.kind())).collect();

        assert_eq!(nodes, [("Ann".into(), "person"), ("Bonn".into(), "place"), ("42".into(), "literal")]);
    }
}
