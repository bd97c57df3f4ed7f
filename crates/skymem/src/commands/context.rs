//! `skymem context`

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::{Map, Value};
use std::path::PathBuf;

use super::recall::{Ask, considered, gaps};
use crate::cli;
use crate::output::{Outcome, list_at, note, text_at};

/// Assemble what an assistant should know for its next answer, ready to be sent to a model.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem context \"what should I cook tonight\"
  skymem context \"and the second one?\" --session chat-17 --budget 2000 --json")]
pub(crate) struct Context {
    /// The question, in the user's words
    question: String,
    #[command(flatten)]
    ask: Ask,
    /// Tokens that all messages may cost together (else the server's setting)
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    budget: Option<u32>,
    /// Exchanges of the session that stand word for word, 0 to 8 (else the server's setting)
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=8))]
    window: Option<u8>,
    /// A file with the system prompt that stands first
    #[arg(long, value_name = "FILE")]
    system: Option<PathBuf>,
    /// Keep the always-loaded part as it was when the session first asked for it
    #[arg(long, requires = "session")]
    freeze: bool,
    /// Say of every candidate why it is in or out
    #[arg(long)]
    explain: bool,
}

impl Context {
    pub(crate) async fn run(self, context: &cli::Context) -> Result<Outcome> {
        let mut body = Map::new();
        body.insert("question".into(), self.question.into());
        if let Some(path) = &self.system {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            body.insert("system".into(), text.into());
        }
        body.extend(self.budget.map(|tokens| ("budget_tokens".into(), tokens.into())));
        body.extend(self.window.map(|window| ("window".into(), window.into())));
        body.insert("freeze".into(), self.freeze.into());
        body.insert("explain".into(), self.explain.into());
        let client = context.client()?;
        self.ask.write(&client, &mut body).await?;
        let answer = client.post(&["v1", "context"], &Value::Object(body)).await?;

        let messages = list_at(&answer, "messages").iter();
        let messages: Vec<String> = messages
            .map(|message| format!("--- {} ---\n{}", text_at(message, "/role"), text_at(message, "/content")))
            .collect();
        if !context.json() {
            // Beside the messages, so that `skymem context ... > prompt.txt` holds nothing else.
            note(&spent(&answer));
            for more in [considered(&answer), gaps(&answer)].into_iter().flatten() {
                note(&more);
            }
        }
        Ok(Outcome::new(messages.join("\n\n"), answer))
    }
}

fn spent(answer: &Value) -> String {
    let number = |pointer: &str| answer.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let parts = answer.pointer("/spent/parts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let parts: Vec<String> = parts
        .iter()
        .map(|part| format!("{} {}", text_at(part, "/part"), part.get("tokens").and_then(Value::as_u64).unwrap_or(0)))
        .collect();
    let left_out = list_at(answer, "left_out").len();
    let mut line = format!("tokens: {} of {} ({})", number("/spent/total"), number("/spent/budget"), parts.join(", "));
    if left_out > 0 {
        line.push_str(&format!("; {left_out} left out for want of room"));
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_spent_is_told_in_one_line() {
        let answer = json!({"spent": {"budget": 4000, "total": 120, "parts": [{"part": "files", "tokens": 80}]},
                            "left_out": [{}]});

        assert_eq!(spent(&answer), "tokens: 120 of 4000 (files 80); 1 left out for want of room");
    }
}
