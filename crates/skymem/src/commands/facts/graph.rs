//! `skymem facts path`, `around`, `groups`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::list::evidence;
use super::{Seen, line, names, object};
use crate::cli::Context;
use crate::output::{Outcome, counted, list_at, text_at};

/// Show how one entity is linked to another: the shortest ways, with where each hop is from.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts path Anna PostgreSQL
  skymem facts path Anna PostgreSQL --hops 6 --limit 1 --as-of 2024")]
pub(crate) struct Path {
    /// The entity at one end: its name, an alias or its id
    from: String,
    /// The entity at the other end
    to: String,
    /// Over at most so many facts
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=6))]
    hops: u8,
    #[command(flatten)]
    seen: Seen,
    /// At most so many ways
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=20))]
    limit: u8,
}

impl Path {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = vec![
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("hops", self.hops.to_string()),
            ("limit", self.limit.to_string()),
        ];
        self.seen.write(&client, &mut query).await?;
        let answer = client.get(&["v1", "graph", "path"], &query).await?;
        let ways: Vec<String> = list_at(&answer, "paths").iter().map(way).collect();
        let text = match ways.is_empty() {
            true => format!("{} and {} are not linked over {} facts.", self.from, self.to, self.hops),
            false => ways.join("\n\n"),
        };
        Ok(Outcome::new(text, answer))
    }
}

/// A way as an arrow from entity to entity, and the facts of its hops.
fn way(path: &Value) -> String {
    let names = names(path, "entities");
    let hops = list_at(path, "hops");
    let mut arrow = names.first().copied().unwrap_or_default().to_owned();
    for (hop, (from, to)) in hops.iter().zip(names.iter().zip(names.iter().skip(1))) {
        let predicate = text_at(hop, "/predicate");
        let forward = text_at(hop, "/subject/name") == *from && object(hop) == *to;
        arrow.push_str(&if forward { format!(" —{predicate}→ {to}") } else { format!(" ←{predicate}— {to}") });
    }
    let mut lines = vec![arrow];
    for hop in hops {
        lines.push(format!("  {}", line(hop)));
        lines.extend(list_at(hop, "evidence").last().map(|one| format!("      {}", evidence(one))));
    }
    lines.join("\n")
}

/// Show what is linked to an entity over a few facts, nearest first.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts around skymem
  skymem facts around Anna --hops 1 --as-of 2024-06")]
pub(crate) struct Around {
    /// The entity in the middle: its name, an alias or its id
    of: String,
    /// Over at most so many facts
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=6))]
    hops: u8,
    #[command(flatten)]
    seen: Seen,
    /// At most so many entities
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=2_000))]
    limit: u16,
}

impl Around {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = vec![("of", self.of), ("hops", self.hops.to_string()), ("limit", self.limit.to_string())];
        self.seen.write(&client, &mut query).await?;
        let answer = client.get(&["v1", "graph", "neighbourhood"], &query).await?;
        let mut lines: Vec<String> = list_at(&answer, "facts").iter().map(line).collect();
        if lines.is_empty() {
            lines.push("Nothing is linked to it.".into());
        }
        if answer.get("cut").and_then(Value::as_bool) == Some(true) {
            lines.push("There is more: --limit".into());
        }
        Ok(Outcome::new(lines.join("\n"), answer))
    }
}

/// List groups of entities that are linked among themselves more than to others, the largest first.
#[derive(Args)]
pub(crate) struct Groups {
    #[command(flatten)]
    seen: Seen,
    /// At most so many groups
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=200))]
    limit: u8,
}

impl Groups {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = vec![("limit", self.limit.to_string())];
        self.seen.write(&client, &mut query).await?;
        let answer = client.get(&["v1", "graph", "communities"], &query).await?;
        let groups: Vec<String> = list_at(&answer, "communities").iter().map(group).collect();
        let text = if groups.is_empty() { "No groups.".into() } else { groups.join("\n") };
        Ok(Outcome::new(text, answer))
    }
}

/// So many members of a group are named.
const MOST_NAMED: usize = 12;

fn group(group: &Value) -> String {
    let names = names(group, "entities");
    let links = counted(group.get("facts").and_then(Value::as_u64).unwrap_or(0), "link");
    let shown = names.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{links}: {shown}{more}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_way_is_an_arrow_that_points_as_the_facts_do() {
        let hop = |subject: &str, predicate: &str, object: &str| {
            json!({ "subject": { "name": subject }, "predicate": predicate, "object": { "entity": { "name": object } },
                    "sentence": format!("{subject} {predicate} {object}"), "state": "holds", "from_is_said": true,
                    "valid_from": "2026-05-01T00:00:00Z",
                    "evidence": [{ "origin": "asserted", "exchange": "e1", "session": "facts",
                                   "said_at": "2026-05-01T10:00:00Z" }] })
        };
        let shown = way(&json!({
            "entities": [{ "name": "Anna" }, { "name": "skymem" }, { "name": "Ben" }],
            "hops": [hop("Anna", "works_on", "skymem"), hop("Ben", "reviews", "skymem")],
        }));

        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "Anna —works_on→ skymem ←reviews— Ben");
        assert_eq!(lines[1], "   2026-05-01 – …           Anna works_on skymem");
        assert_eq!(lines[2], "      asserted: 2026-05-01 10:00 exchange e1, session facts");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn a_large_group_is_named_by_its_first_members() {
        let entities: Vec<Value> = (0..14).map(|number| json!({ "name": format!("e{number}") })).collect();

        let shown = group(&json!({ "entities": entities, "facts": 1 }));

        assert!(shown.starts_with("1 link: e0, e1, ") && shown.ends_with("e11 and 2 more"), "{shown}");
    }
}
