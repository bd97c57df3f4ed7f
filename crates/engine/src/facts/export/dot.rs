//! Graphviz: `dot -Tsvg facts.dot`.

use std::fmt;
use std::io::{self, Write};

use skymem_core::facts::{Fact, Subgraph};

use super::{Node, attributes, nodes, target_id};

pub(super) fn write(graph: &Subgraph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph facts {{")?;
    writeln!(out, "  node [shape=box, style=rounded];")?;
    for node in nodes(graph) {
        write_node(&node, out)?;
    }
    for fact in &graph.facts {
        write_fact(fact, out)?;
    }
    writeln!(out, "}}")
}

fn write_node(node: &Node<'_>, out: &mut dyn Write) -> io::Result<()> {
    let shape = match node {
        Node::Entity(_) => "",
        Node::Literal(..) => ", shape=plaintext",
    };
    writeln!(out, "  {} [label={}, kind={}{shape}];", Quoted(&node.id()), Quoted(node.label()), Quoted(node.kind()))
}

fn write_fact(fact: &Fact, out: &mut dyn Write) -> io::Result<()> {
    let shown =
        [("label", fact.predicate.to_string()), ("id", fact.id.to_string()), ("tooltip", fact.sentence.clone())];
    let attributes: Vec<String> =
        shown.into_iter().chain(attributes(fact)).map(|(name, value)| format!("{name}={}", Quoted(&value))).collect();
    let (from, to) = (fact.subject.id.to_string(), target_id(fact));
    writeln!(out, "  {} -> {} [{}];", Quoted(&from), Quoted(&to), attributes.join(", "))
}

/// A text in quotes that Graphviz shows as it is.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        let mut rest = self.0.chars();
        while let Some(sign) = rest.next() {
            match sign {
                '"' => f.write_str("\\\"")?,
                // `\N`, `\G` and the like would be names of other things.
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => {
                    // Together with a line feed it is one line end.
                    if !rest.as_str().starts_with('\n') {
                        f.write_str("\\n")?;
                    }
                }
                '\t' => f.write_str("\t")?,
                // A text ends at the first of these for Graphviz; the others it would write into SVG, which has none.
                '\0'..' ' | '\u{fffe}' | '\u{ffff}' => f.write_str("\u{fffd}")?,
                '&' if names_a_sign(rest.as_str()) => f.write_str("&amp;")?,
                sign => write!(f, "{sign}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Whether `&` with `rest` behind it would be shown as another sign, as in HTML: `lt;`, `#38;`.
fn names_a_sign(rest: &str) -> bool {
    rest.split_once(';').is_some_and(|(name, _)| {
        !name.is_empty() && name.strip_prefix('#').unwrap_or(name).chars().all(|c| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample::{HARD, LINES, graph, hard};
    use super::*;

    fn text(graph: &Subgraph) -> String {
        let mut out = Vec::new();
        write(graph, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What Graphviz takes a quoted text for, with the quoted text's end: its grammar first, then its labels.
    fn unquoted(text: &str) -> (String, &str) {
        let text = text.strip_prefix('"').unwrap();
        let (mut value, mut at) = (String::new(), text.char_indices());
        while let Some((index, sign)) = at.next() {
            match sign {
                '"' => return (value.replace("&amp;", "&"), &text[index + 1..]),
                '\\' => match at.next().unwrap().1 {
                    'n' => value.push('\n'),
                    escaped @ ('"' | '\\') => value.push(escaped),
                    other => panic!("\\{other} means something else"),
                },
                sign => value.push(sign),
            }
        }
        panic!("a quote is left open: {text}");
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Quoted(text).to_string(), expected);
    }

    #[test]
    fn a_text_is_shown_as_it_is() {
        check("Ann", r#""Ann""#);
        check(r#"a "b" \"#, r#""a \"b\" \\""#);
        check("one\r\ntwo\nthree\rfour", r#""one\ntwo\nthree\nfour""#);
        check("R&D; AT&T &lt; &#38; &;", r#""R&D; AT&T &amp;lt; &amp;#38; &;""#.replace("R&D;", "R&amp;D;").as_str());
        check("a\0b", "\"a\u{fffd}b\"");
        check("a\u{1}\u{1b}\tb\u{ffff}", "\"a\u{fffd}\u{fffd}\tb\u{fffd}\"");
    }

    #[test]
    fn a_fact_is_an_arrow_with_what_is_known_of_it() {
        let graph = graph(&[("Ann", "lives_in", "Bonn"), ("Ann", "age", "=42")]);
        let text = text(&graph);

        assert!(text.starts_with("digraph facts {\n") && text.ends_with("}\n"), "{text}");
        let ann = graph.facts[0].subject.id;
        assert!(text.contains(&format!("  \"{ann}\" [label=\"Ann\", kind=\"person\"];\n")), "{text}");
        let arrow = text.lines().find(|line| line.contains("lives_in")).unwrap();
        assert!(arrow.starts_with(&format!("  \"{ann}\" -> \"")), "{arrow}");
        assert!(arrow.contains(r#"confidence="0.9", valid_from="2024-05-01T00:00:00Z""#), "{arrow}");
        assert!(!arrow.contains("valid_to"), "{arrow}");
        assert!(text.contains(&format!("\"literal-{}\" [label=\"42\"", graph.facts[1].id)), "{text}");
    }

    #[test]
    fn hard_names_stay_in_their_line_and_in_their_quotes() {
        let text = text(&hard());

        let mut labels = Vec::new();
        for line in text.lines().skip(2).take_while(|line| *line != "}") {
            // Every line is quoted texts with nothing but words, signs and spaces between them.
            let mut rest = line;
            while let Some(quote) = rest.find('"') {
                let between = &rest[..quote];
                assert!(between.chars().all(|c| c.is_ascii_lowercase() || "_ [],=->".contains(c)), "{between}");
                let (value, behind) = unquoted(&rest[quote..]);
                if between == " [label=" {
                    labels.push(value);
                }
                rest = behind;
            }
            assert!(rest.ends_with("];"), "{line}");
        }
        for name in HARD {
            assert!(labels.contains(&name.to_owned()), "{name} is not in {labels:?}");
        }
        assert!(labels.contains(&LINES.replace("\r\n", "\n").replace('\r', "\n").replace('\u{1}', "\u{fffd}")));
    }
}
