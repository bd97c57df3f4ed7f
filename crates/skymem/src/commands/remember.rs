//! `skymem remember`

use std::io::Read;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;

use crate::cli::Context;
use crate::output::{Outcome, text_at};

/// Tell memory something.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  skymem remember \"I am allergic to peanuts\" --pin\n  git log -1 | skymem remember -"
)]
pub(crate) struct Remember {
    /// What to remember; - reads it from standard input
    text: String,
    /// The collection it belongs to
    #[arg(long)]
    collection: Option<String>,
    /// When it was so, e.g. 2026-02-06T18:30:00Z (else now)
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// It never fades and is spared by pruning
    #[arg(long)]
    pin: bool,
}

impl Remember {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let mut text = self.text;
        if text == "-" {
            text.clear();
            std::io::stdin().lock().read_to_string(&mut text).context("cannot read standard input as UTF-8")?;
        }
        if text.trim().is_empty() {
            bail!("there is nothing to remember");
        }
        let mut note = json!({ "text": text.trim_end(), "pinned": self.pin });
        for (key, value) in [("collection", self.collection), ("occurred_at", self.at)] {
            if let (Some(value), Some(note)) = (value, note.as_object_mut()) {
                note.insert(key.into(), value.into());
            }
        }
        let answer = context.client()?.post(&["v1", "remember"], &note).await?;
        let exchange = text_at(&answer, "/exchange");
        let text = match text_at(&answer, "/fate") {
            "stored" => format!("Remembered as {exchange}."),
            "known" => format!("Known already, as {exchange}."),
            other => format!("Not kept: {}.", other.replace('_', " ")),
        };
        Ok(Outcome::new(text, answer))
    }
}
