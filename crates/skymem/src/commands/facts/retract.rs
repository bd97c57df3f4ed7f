//! `skymem facts retract`, `end`

use anyhow::Result;
use clap::Args;
use reqwest::Method;

use super::{When, told, when, wire};
use crate::cli::Context;
use crate::output::Outcome;

/// Take a fact back: it never held. What was known stays in the history.
#[derive(Args)]
#[command(after_help = "Example:\n  skymem facts retract 0198c0de-0000-5000-8000-000000000000")]
pub(crate) struct Retract {
    /// The fact's id, as `skymem facts list` shows it
    id: String,
}

impl Retract {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let answer = context.client()?.call(Method::DELETE, &["v1", "facts", &self.id], &[], None).await?;
        Ok(Outcome::new(told(&answer), answer))
    }
}

/// Say that a fact holds no longer.
#[derive(Args)]
#[command(after_help = "Examples:
  skymem facts end 0198c0de-0000-5000-8000-000000000000
  skymem facts end 0198c0de-0000-5000-8000-000000000000 --at 2026-05")]
pub(crate) struct End {
    /// The fact's id, as `skymem facts list` shows it
    id: String,
    /// Since when it holds no longer (else now)
    #[arg(long, value_name = "TIME", value_parser = when)]
    at: Option<When>,
}

impl End {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let [at] = wire(&client, [self.at.as_ref()]).await?;
        let query = [("ended_at", at.unwrap_or_else(|| "now".into()))];
        let answer = client.call(Method::DELETE, &["v1", "facts", &self.id], &query, None).await?;
        Ok(Outcome::new(told(&answer), answer))
    }
}
