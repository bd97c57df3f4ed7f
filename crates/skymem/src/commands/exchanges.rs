//! `skymem exchanges`

use anyhow::Result;
use clap::Args;
use serde_json::Value;

use super::sessions::{turns, with_next};
use crate::cli::Context;
use crate::output::{Outcome, list_at, text_at};

/// What was said, the newest first.
#[derive(Args)]
#[command(after_help = "Examples:\n  skymem exchanges --session trip --limit 5\n  skymem exchanges --trash\n  \
                        skymem exchanges 0198c0de-0000-7000-8000-000000000000")]
pub(crate) struct Exchanges {
    /// Show this one alone, also when it is in the trash
    id: Option<String>,
    /// Only of this session
    #[arg(long)]
    session: Option<String>,
    /// Only in this collection
    #[arg(long)]
    collection: Option<String>,
    /// Only from this source, e.g. import:chat.jsonl
    #[arg(long)]
    source: Option<String>,
    /// Only pinned ones
    #[arg(long)]
    pinned: bool,
    /// What is in the trash instead
    #[arg(long, conflicts_with_all = ["session", "collection", "source", "pinned"])]
    trash: bool,
    /// How many to list
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the page before ended
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
}

impl Exchanges {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        if let Some(id) = &self.id {
            let answer = client.get(&["v1", "exchanges", id], &[]).await?;
            return Ok(Outcome::new(exchange(&answer), answer));
        }
        let mut query = vec![("limit", self.limit.to_string())];
        let pinned = self.pinned.then(|| "true".to_owned());
        for (key, value) in [
            ("session", self.session),
            ("collection", self.collection),
            ("source", self.source),
            ("pinned", pinned),
            ("after", self.after),
        ] {
            query.extend(value.map(|value| (key, value)));
        }
        let door = if self.trash { "trash" } else { "exchanges" };
        let answer = client.get(&["v1", door], &query).await?;
        let shown: Vec<_> = list_at(&answer, "exchanges").iter().map(exchange).collect();
        let text = if shown.is_empty() { "Nothing.".into() } else { shown.join("\n\n") };
        Ok(Outcome::new(with_next(text, &answer), answer))
    }
}

fn exchange(exchange: &Value) -> String {
    let mut head = format!("{}  session {}", text_at(exchange, "/id"), text_at(exchange, "/session"));
    if exchange.get("pinned").and_then(Value::as_bool) == Some(true) {
        head.push_str("  pinned");
    }
    if !text_at(exchange, "/forgotten_at").is_empty() {
        head.push_str("  forgotten");
    }
    format!("{head}\n{}", turns(list_at(exchange, "turns")))
}
