//! `skymem secrets`

use anyhow::Result;
use clap::{Args, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::output::{Outcome, text_at};

/// What is done about tokens, private keys, card numbers and passwords in what you tell from now on; without a word, what it
/// is at present.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  skymem secrets\n  skymem secrets allow\n  skymem secrets seal --collection private"
)]
pub(crate) struct Secrets {
    /// What is to be done
    #[arg(value_enum)]
    policy: Option<PolicyWord>,
    /// The sealed collection that they go to when they are sealed
    #[arg(long)]
    collection: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyWord {
    /// Keep `[secret: aws access key]` and the like in their place
    Redact,
    /// Keep them as they are
    Allow,
    /// Write each exchange that holds one into a sealed collection, and nowhere else
    Seal,
    /// As the server's configuration has it
    Default,
}

impl Secrets {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let mut change = serde_json::Map::new();
        if let Some(policy) = self.policy {
            let word = match policy {
                PolicyWord::Redact => json!("redact"),
                PolicyWord::Allow => json!("allow"),
                PolicyWord::Seal => json!("seal"),
                PolicyWord::Default => Value::Null,
            };
            change.insert("secrets".into(), word);
        }
        change.extend(self.collection.map(|name| ("secrets_collection".to_owned(), json!(name))));
        let answer = match change.is_empty() {
            true => client.get(&["v1", "me"], &[]).await?,
            false => client.call(Method::PATCH, &["v1", "me"], &[], Some(&Value::Object(change))).await?,
        };
        let text = match text_at(&answer, "/secrets") {
            "allow" => "Secrets in what is told are kept as they are.".to_owned(),
            "seal" => format!(
                "What holds a secret is written into the sealed collection {} alone.",
                text_at(&answer, "/secrets_collection")
            ),
            _ => "Secrets in what is told are left out: [secret: ...] is kept in their place.".to_owned(),
        };
        Ok(Outcome::new(text, answer))
    }
}
