//! `skymem facts`

mod add;
mod entities;
mod export;
mod graph;
mod import;
mod list;
mod retract;
mod send;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::Context;
use crate::client::Client;
use crate::output::{Outcome, list_at, text_at};

use super::when::{When, when, wire};

/// What holds of whom, since when, and how we know.
///
/// Times are written 2024-05-01, 2024-05, 2024, 2024-05-01 18:30 or 2024-05-01T18:30:00+02:00; without a zone they are in
/// yours, and a day, a month or a year stands for its beginning.
#[derive(Subcommand)]
#[command(after_help = "Examples:
  skymem facts add Anna lives_in Bremen --from 2026-05
  skymem facts list Anna --as-of 2024
  skymem facts path Anna PostgreSQL
  skymem facts import memory.jsonl --wait
  skymem facts export --format dot | dot -Tsvg > facts.svg")]
pub(crate) enum Facts {
    /// Tell memory that something holds
    Add(add::Add),
    /// List facts: those that hold first, then the newest
    List(list::List),
    /// Show one fact with all that supports it
    Show(list::Show),
    /// List what held before and after a fact, and what was taken back
    History(list::History),
    /// Take a fact back: it never held
    Retract(retract::Retract),
    /// Say that a fact holds no longer
    End(retract::End),
    /// Show how one entity is linked to another
    Path(graph::Path),
    /// Show what is linked to an entity
    Around(graph::Around),
    /// List groups of entities that are linked among themselves
    Groups(graph::Groups),
    /// Take over facts from a file
    Import(import::Import),
    /// Write all facts as other programs read them
    Export(export::Export),
    /// List who and what facts are about
    Entities(entities::Entities),
    /// Say what an entity is
    Kind(entities::Kind),
    /// Make two entities one
    Merge(entities::Merge),
    /// Tell two entities apart that bear one name
    Split(entities::Split),
}

impl Facts {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        match self {
            Facts::Add(add) => add.run(context).await,
            Facts::List(list) => list.run(context).await,
            Facts::Show(show) => show.run(context).await,
            Facts::History(history) => history.run(context).await,
            Facts::Retract(retract) => retract.run(context).await,
            Facts::End(end) => end.run(context).await,
            Facts::Path(path) => path.run(context).await,
            Facts::Around(around) => around.run(context).await,
            Facts::Groups(groups) => groups.run(context).await,
            Facts::Import(import) => import.run(context).await,
            Facts::Export(export) => export.run(context).await,
            Facts::Entities(entities) => entities.run(context).await,
            Facts::Kind(kind) => kind.run(context).await,
            Facts::Merge(merge) => merge.run(context).await,
            Facts::Split(split) => split.run(context).await,
        }
    }
}

/// From which moment facts are looked at.
#[derive(Args)]
struct Seen {
    /// What held then (else now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    as_of: Option<When>,
    /// As it was known then (else all that is known)
    #[arg(long, value_name = "TIME", value_parser = when)]
    known_at: Option<When>,
}

impl Seen {
    /// Adds what was chosen to a query string.
    async fn write(&self, client: &Client, query: &mut Vec<(&'static str, String)>) -> Result<()> {
        let [as_of, known_at] = wire(client, [self.as_of.as_ref(), self.known_at.as_ref()]).await?;
        query.extend(as_of.map(|at| ("as_of", at)));
        query.extend(known_at.map(|at| ("known_at", at)));
        Ok(())
    }
}

/// What became of a statement, and how to undo it.
fn told(answer: &Value) -> String {
    let exchange = text_at(answer, "/exchange");
    match text_at(answer, "/fate") {
        "stored" => format!("Told as {exchange}. `skymem forget {exchange}` undoes it."),
        "known" => format!("Told before, as {exchange}."),
        other => format!("Not kept: {}.", other.replace('_', " ")),
    }
}

/// A fact as a line of a list: since when, until when, what; and how it stands when it does not hold.
fn line(fact: &Value) -> String {
    let mut line = format!("{}  {}", span(fact), text_at(fact, "/sentence"));
    match text_at(fact, "/state") {
        "holds" | "ended" | "" => {}
        other => line.push_str(&format!("  ({other})")),
    }
    line
}

/// When a fact holds or held: `2024-05-01 …`; `~` where nobody said since when.
fn span(fact: &Value) -> String {
    let said = fact.get("from_is_said").and_then(Value::as_bool).unwrap_or(true);
    let until = day(text_at(fact, "/valid_to"));
    let until = if until.is_empty() { "…         " } else { until };
    format!("{}{} – {until}", if said { " " } else { "~" }, day(text_at(fact, "/valid_from")))
}

fn day(moment: &str) -> &str {
    moment.get(..10).unwrap_or(moment)
}

/// The name of the value of a fact.
fn object(fact: &Value) -> &str {
    match text_at(fact, "/object/entity/name") {
        "" => text_at(fact, "/object/literal"),
        name => name,
    }
}

/// The names of entities in a list.
fn names<'a>(item: &'a Value, key: &str) -> Vec<&'a str> {
    list_at(item, key).iter().map(|entity| text_at(entity, "/name")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fact_is_a_line_with_its_time() {
        let fact = json!({ "sentence": "Anna lives in Bremen", "state": "holds", "valid_from": "2026-05-01T00:00:00Z",
                           "from_is_said": true, "valid_to": null });
        assert_eq!(line(&fact), " 2026-05-01 – …           Anna lives in Bremen");
        let mut ended = fact.clone();
        ended["valid_to"] = json!("2027-01-01T00:00:00Z");
        ended["from_is_said"] = json!(false);
        ended["state"] = json!("retracted");
        assert_eq!(line(&ended), "~2026-05-01 – 2027-01-01  Anna lives in Bremen  (retracted)");
    }

    #[test]
    fn what_was_told_can_be_undone() {
        assert!(told(&json!({ "fate": "stored", "exchange": "e1" })).contains("`skymem forget e1` undoes it"));
        assert_eq!(told(&json!({ "fate": "known", "exchange": "e1" })), "Told before, as e1.");
        assert_eq!(told(&json!({ "fate": "not_kept" })), "Not kept: not kept.");
    }
}
