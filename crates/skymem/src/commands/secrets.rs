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
#[command(after_help = "Examples:\n  skymem secrets\n  skymem secrets allow")]
pub(crate) struct Secrets {
    /// What is to be done
    #[arg(value_enum)]
    policy: Option<PolicyWord>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyWord {
    /// Keep `[secret: aws access key]` and the like in their place
    Redact,
    /// Keep them as they are
    Allow,
    /// As the server's configuration has it
    Default,
}

impl Secrets {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let answer = match self.policy {
            None => client.get(&["v1", "me"], &[]).await?,
            Some(policy) => {
                let word = match policy {
                    PolicyWord::Redact => json!("redact"),
                    PolicyWord::Allow => json!("allow"),
                    PolicyWord::Default => Value::Null,
                };
                client.call(Method::PATCH, &["v1", "me"], &[], Some(&json!({ "secrets": word }))).await?
            }
        };
        let text = match text_at(&answer, "/secrets") {
            "allow" => "Secrets in what is told are kept as they are.",
            _ => "Secrets in what is told are left out: [secret: ...] is kept in their place.",
        };
        Ok(Outcome::new(text, answer))
    }
}
