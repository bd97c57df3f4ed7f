//! `skymem remember`

use std::io::Read;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

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

/// A note has at most 100,000 characters, which are at most so many bytes.
const MOST_BYTES: u64 = 400_000;

/// The text of `input`, which may have no end.
fn note_from(input: impl Read) -> Result<String> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes).context("cannot read standard input")?;
    if bytes.len() as u64 > MOST_BYTES {
        bail!("standard input has more than the 100,000 characters of a note: `skymem import -` takes conversations");
    }
    String::from_utf8(bytes).context("cannot read standard input as UTF-8")
}

impl Remember {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let mut text = self.text;
        if text == "-" {
            text = note_from(std::io::stdin().lock())?;
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
        let mut text = match text_at(&answer, "/fate") {
            "stored" => format!("Remembered as {exchange}."),
            "known" => format!("Known already, as {exchange}."),
            other => format!("Not kept: {}.", other.replace('_', " ")),
        };
        let kinds = answer.pointer("/secrets/found").and_then(Value::as_object);
        let kinds = kinds.into_iter().flatten().map(|(kind, _)| kind.as_str()).collect::<Vec<&str>>().join(", ");
        match text_at(&answer, "/secrets/policy") {
            "redact" => text.push_str(&format!(" Left out: {kinds}. `skymem secrets` says why.")),
            "seal" => {
                let collection = text_at(&answer, "/secrets/collection");
                text.push_str(&format!(" Sealed in {collection}, for it holds: {kinds}."));
            }
            _ => {}
        }
        Ok(Outcome::new(text, answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_an_end_and_is_text() {
        assert_eq!(note_from("tea\n".as_bytes()).unwrap(), "tea\n");
        assert!(note_from(std::io::repeat(0)).unwrap_err().to_string().contains("100,000"));
        assert!(note_from(&b"\xff"[..]).unwrap_err().to_string().contains("UTF-8"));
    }
}
