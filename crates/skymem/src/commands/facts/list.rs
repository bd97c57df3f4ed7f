//! `skymem facts list`, `show`, `history`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::super::sessions::with_next;
use super::{Seen, line, span};
use crate::cli::Context;
use crate::output::{Outcome, list_at, minute, text_at};

/// List facts: those that hold first, then the newest. `~` marks a beginning that nobody said: it holds since then at
/// the latest.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts list Anna
  skymem facts list --predicate uses --limit 200
  skymem facts list Anna --as-of 2024-06          what held then
  skymem facts list Anna --known-at 2024-06       what is true now, as far as was known then
  skymem facts list Anna --history                every time, what was taken back as well")]
pub(crate) struct List {
    /// Only about this entity: its name, an alias or its id
    about: Option<String>,
    /// Only with this predicate, e.g. lives_in
    #[arg(long)]
    predicate: Option<String>,
    /// Only supported by this exchange
    #[arg(long, value_name = "ID")]
    exchange: Option<String>,
    /// Only from this collection
    #[arg(long)]
    collection: Option<String>,
    #[command(flatten)]
    seen: Seen,
    /// Of every time, what was taken back as well
    #[arg(long, conflicts_with = "as_of")]
    history: bool,
    #[command(flatten)]
    page: Page,
}

/// Which part of a list.
#[derive(Args)]
struct Page {
    /// How many to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the page before ended
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
}

impl Page {
    fn query(self) -> Vec<(&'static str, String)> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.after.map(|after| ("after", after)));
        query
    }
}

impl List {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = self.page.query();
        let history = self.history.then(|| "true".to_owned());
        for (key, value) in [
            ("about", self.about),
            ("predicate", self.predicate),
            ("exchange", self.exchange),
            ("collection", self.collection),
            ("history", history),
        ] {
            query.extend(value.map(|value| (key, value)));
        }
        self.seen.write(&client, &mut query).await?;
        let answer = client.get(&["v1", "facts"], &query).await?;
        Ok(Outcome::new(with_next(facts(&answer), &answer), answer))
    }
}

fn facts(answer: &Value) -> String {
    let lines: Vec<String> =
        list_at(answer, "facts").iter().map(|fact| format!("{}  {}", text_at(fact, "/id"), line(fact))).collect();
    if lines.is_empty() { "No facts.".into() } else { lines.join("\n") }
}

/// Show one fact with all that supports it.
#[derive(Args)]
pub(crate) struct Show {
    /// The fact's id, as `skymem facts list` shows it
    id: String,
}

impl Show {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let answer = context.client()?.get(&["v1", "facts", &self.id], &[]).await?;
        Ok(Outcome::new(fact(&answer), answer))
    }
}

fn fact(fact: &Value) -> String {
    let known = match text_at(fact, "/retracted_at") {
        "" => minute(text_at(fact, "/recorded_at")),
        taken_back => format!("{}, taken back {}", minute(text_at(fact, "/recorded_at")), minute(taken_back)),
    };
    let confidence = fact.get("confidence").and_then(Value::as_f64).unwrap_or(0.0);
    let state = text_at(fact, "/state");
    let mut lines = vec![
        text_at(fact, "/sentence").to_owned(),
        format!("  id          {}", text_at(fact, "/id")),
        format!("  when        {} ({state})", span(fact).trim()),
        format!("  known since {known}"),
        format!("  confidence  {confidence:.2}"),
    ];
    lines.extend(list_at(fact, "evidence").iter().map(|one| format!("  {}", evidence(one))));
    lines.join("\n")
}

/// Where a fact is from.
pub(super) fn evidence(evidence: &Value) -> String {
    let from = match (text_at(evidence, "/exchange"), text_at(evidence, "/file")) {
        ("", file) => file.to_owned(),
        (exchange, _) => format!("exchange {exchange}, session {}", text_at(evidence, "/session")),
    };
    format!("{}: {} {from}", text_at(evidence, "/origin"), minute(text_at(evidence, "/said_at")))
}

/// List what held before and after a fact: everything with its subject and predicate, what was taken back as well.
#[derive(Args)]
pub(crate) struct History {
    /// The fact's id, as `skymem facts list` shows it
    id: String,
    /// As it was known then (else all that is known)
    #[arg(long, value_name = "TIME", value_parser = super::when)]
    known_at: Option<super::When>,
    #[command(flatten)]
    page: Page,
}

impl History {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut query = self.page.query();
        let [known_at] = super::wire(&client, [self.known_at.as_ref()]).await?;
        query.extend(known_at.map(|at| ("known_at", at)));
        let answer = client.get(&["v1", "facts", &self.id, "history"], &query).await?;
        Ok(Outcome::new(with_next(facts(&answer), &answer), answer))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fact_is_shown_with_where_it_is_from() {
        let shown = fact(&json!({
            "id": "f1", "sentence": "Anna lives in Bremen", "state": "holds", "valid_from": "2026-05-01T00:00:00Z",
            "from_is_said": true, "valid_to": null, "recorded_at": "2026-05-03T10:20:30Z", "retracted_at": null,
            "confidence": 0.9,
            "evidence": [
                { "origin": "pattern", "exchange": "e1", "session": "chat", "said_at": "2026-05-03T10:20:00Z" },
                { "origin": "markdown", "file": "NOW.md:12", "said_at": "2026-05-04T08:00:00Z" },
            ],
        }));

        assert_eq!(
            shown,
            "Anna lives in Bremen\n  id          f1\n  when        2026-05-01 – … (holds)\n  known since 2026-05-03 10:20\n  \
             confidence  0.90\n  pattern: 2026-05-03 10:20 exchange e1, session chat\n  markdown: 2026-05-04 08:00 NOW.md:12"
        );
    }

    #[test]
    fn no_facts_are_an_answer() {
        assert_eq!(facts(&json!({ "facts": [] })), "No facts.");
    }
}
