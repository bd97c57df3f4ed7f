//! `skymem recall`

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::when::{When, when, wire};
use crate::cli::Context;
use crate::client::Client;
use crate::output::{Outcome, excerpt, list_at, minute, text_at};

/// Ask memory: what is remembered that bears on a question, best first, with its sources.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem recall \"which database did we choose\"
  skymem recall \"what did Anna say yesterday\" --top-k 10 --unit turn --json
  skymem recall \"peanuts\" --explain              every candidate, its scores, and why it is in or out")]
pub(crate) struct Recall {
    /// The question, in words
    question: String,
    #[command(flatten)]
    ask: Ask,
    /// Say of every candidate why it is in or out
    #[arg(long)]
    explain: bool,
    /// Say of this exchange why it is in or out
    #[arg(long, value_name = "ID")]
    about: Option<String>,
}

/// How memory is asked; shared by `recall` and `context`.
#[derive(Args)]
pub(super) struct Ask {
    /// At most so many recalls of each layer, 2 to 20 (else the server's setting)
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=20))]
    top_k: Option<u8>,
    /// What one recall is
    #[arg(long, value_enum, default_value = "exchange")]
    unit: UnitWord,
    /// The session that asks: what it has word for word already does not come again
    #[arg(long)]
    session: Option<String>,
    /// Only these layers; repeat for several
    #[arg(long = "layer", value_name = "LAYER")]
    layers: Vec<String>,
    /// Only what was said in these collections; repeat for several
    #[arg(long = "collection", value_name = "COLLECTION")]
    collections: Vec<String>,
    /// Only what was said in these sessions; repeat for several
    #[arg(long = "from-session", value_name = "SESSION")]
    sessions: Vec<String>,
    /// Only what was said then or later, e.g. 2025-01 or 2025-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    from: Option<When>,
    /// Only what was said before
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
    /// Exchanges before and after each recall that come with it, up to 5
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=5))]
    neighbours: Option<u8>,
    /// As memory stood then: nothing said later comes back
    #[arg(long, value_name = "TIME", value_parser = when)]
    as_of: Option<When>,
    /// As memory was then: nothing written down later comes back, whenever it was said
    #[arg(long, value_name = "TIME", value_parser = when)]
    known_at: Option<When>,
}

/// What one recall is.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnitWord {
    /// What was asked and what was answered
    Exchange,
    /// A single message
    Turn,
    /// All that was said on one topic
    Segment,
}

impl Ask {
    /// Adds what was chosen to the body of a request.
    pub(super) async fn write(self, client: &Client, body: &mut Map<String, Value>) -> Result<()> {
        let moments = [&self.from, &self.until, &self.as_of, &self.known_at].map(Option::as_ref);
        let [from, until, as_of, known_at] = wire(client, moments).await?;
        let unit = match self.unit {
            UnitWord::Exchange => "exchange",
            UnitWord::Turn => "turn",
            UnitWord::Segment => "segment",
        };
        let filter = json!({
            "sessions": self.sessions, "collections": self.collections, "from": from, "until": until,
        });
        let options = json!({
            "top_k": self.top_k, "unit": unit, "session": self.session, "layers": self.layers, "filter": filter,
            "neighbours": self.neighbours, "as_of": as_of, "known_at": known_at,
        });
        if let Value::Object(options) = options {
            body.extend(options.into_iter().filter(|(_, value)| !value.is_null()));
        }
        Ok(())
    }
}

impl Recall {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let mut body = Map::new();
        body.insert("query".into(), self.question.into());
        body.insert("explain".into(), self.explain.into());
        body.extend(self.about.map(|about| ("about".into(), about.into())));
        let client = context.client()?;
        self.ask.write(&client, &mut body).await?;
        let answer = client.post(&["v1", "recall"], &Value::Object(body)).await?;

        let recalls = list_at(&answer, "recalls");
        let mut parts: Vec<String> = recalls.iter().enumerate().map(|(place, one)| recall(place + 1, one)).collect();
        if parts.is_empty() {
            parts.push("Nothing is remembered that bears on this.".into());
        }
        parts.extend(considered(&answer));
        parts.extend(gaps(&answer));
        Ok(Outcome::new(parts.join("\n\n"), answer))
    }
}

fn recall(place: usize, recall: &Value) -> String {
    let score = recall.get("score").and_then(Value::as_f64).unwrap_or(0.0);
    let from = match (text_at(recall, "/session"), text_at(recall, "/file")) {
        ("", "") => String::new(),
        ("", file) => format!("  {file}"),
        (session, _) => format!("  session {session}"),
    };
    let when = minute(text_at(recall, "/occurred_at"));
    let head =
        format!("{place}. {}  {} {score:.2}  {when}{from}", text_at(recall, "/citation"), text_at(recall, "/layer"));
    let mut lines = vec![head.trim_end().to_owned()];
    lines.extend(text_at(recall, "/text").lines().map(|line| format!("   {line}")));
    let around = list_at(recall, "neighbours").iter().filter_map(Value::as_str);
    lines.extend(around.map(|text| format!("   … {}", excerpt(text, 200))));
    lines.join("\n")
}

/// What could not contribute, if anything: nobody should take the answer for complete.
pub(super) fn gaps(answer: &Value) -> Option<String> {
    let lines: Vec<String> = list_at(answer, "gaps")
        .iter()
        .map(|gap| {
            format!("missing: {} ({}) {}", text_at(gap, "/of"), text_at(gap, "/reason"), text_at(gap, "/detail"))
        })
        .collect();
    if lines.is_empty() { None } else { Some(lines.join("\n")) }
}

/// What every layer weighed, when it was asked for.
pub(super) fn considered(answer: &Value) -> Option<String> {
    let mut lines = Vec::new();
    for layer in list_at(answer, "considered") {
        lines.push(format!("weighed by {}:", text_at(layer, "/layer")));
        for candidate in list_at(layer, "candidates") {
            let scores: Vec<String> = list_at(candidate, "scores")
                .iter()
                .map(|score| {
                    let value = score.get("value").and_then(Value::as_f64).unwrap_or(0.0);
                    format!("{} {value:.3}", text_at(score, "/name"))
                })
                .collect();
            lines.push(format!(
                "  {:<15} {}\n                  {}",
                text_at(candidate, "/fate").replace('_', " "),
                excerpt(text_at(candidate, "/excerpt"), 90),
                scores.join(", ")
            ));
        }
    }
    if lines.is_empty() { None } else { Some(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recall_is_shown_with_its_citation_and_its_source() {
        let shown = recall(
            1,
            &json!({"citation": "[S: 2026-02-06]", "layer": "episodes", "score": 0.834, "text": "User: a\nAssistant: b",
                    "session": "trip", "occurred_at": "2026-02-06T18:30:00Z"}),
        );

        assert_eq!(
            shown,
            "1. [S: 2026-02-06]  episodes 0.83  2026-02-06 18:30  session trip\n   User: a\n   Assistant: b"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let answer = json!({"gaps": [{"of": "episodes", "reason": "late", "detail": "took longer than 400 ms"}]});

        assert_eq!(gaps(&answer).unwrap(), "missing: episodes (late) took longer than 400 ms");
        assert_eq!(gaps(&json!({"gaps": []})), None);
    }
}
