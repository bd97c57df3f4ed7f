//! `skymem sessions`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use crate::cli::Context;
use crate::output::{Outcome, excerpt, list_at, minute, table, text_at};

/// Conversations, the most recent first; or what was said in one of them.
#[derive(Args)]
pub(crate) struct Sessions {
    /// Show what was said in this session
    id: Option<String>,
    /// How many to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the page before ended
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
}

impl Sessions {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.after.map(|after| ("after", after)));
        let client = context.client()?;
        let answer = match &self.id {
            Some(id) => client.get(&["v1", "sessions", id, "turns"], &query).await?,
            None => client.get(&["v1", "sessions"], &query).await?,
        };
        let text = if self.id.is_some() { turns(list_at(&answer, "turns")) } else { sessions(&answer) };
        Ok(Outcome::new(with_next(text, &answer), answer))
    }
}

fn sessions(answer: &Value) -> String {
    let rows: Vec<_> = list_at(answer, "sessions")
        .iter()
        .map(|session| {
            [
                minute(text_at(session, "/last_at")),
                text_at(session, "/id").to_owned(),
                text_at(session, "/collection").to_owned(),
                excerpt(text_at(session, "/title"), 60),
            ]
        })
        .collect();
    match rows.is_empty() {
        true => "No sessions yet.".into(),
        false => table(["LAST", "SESSION", "COLLECTION", "TITLE"], rows),
    }
}

/// Turns as a script: who, when, what.
pub(super) fn turns(turns: &[Value]) -> String {
    let lines = turns.iter().map(|turn| {
        let speaker = text_at(turn, "/speaker");
        let who = if speaker.is_empty() { text_at(turn, "/role") } else { speaker };
        format!("[{}] {who}: {}", minute(text_at(turn, "/occurred_at")), text_at(turn, "/text"))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The list, and how to see more of it.
pub(super) fn with_next(text: String, answer: &Value) -> String {
    match answer.get("next").and_then(Value::as_str) {
        Some(next) => format!("{text}\n\nThere is more: --after {next}"),
        None => text,
    }
}
