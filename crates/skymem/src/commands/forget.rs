//! `skymem forget`

use anyhow::Result;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};

use crate::cli::Context;
use crate::output::{Outcome, counted};

/// Forget exchanges: at once, and with all that was learned from them. They can be restored for a while.
#[derive(Args)]
#[command(group = ArgGroup::new("what").required(true))]
#[command(
    after_help = "Examples:\n  skymem forget 0198c0de-0000-7000-8000-000000000000\n  skymem forget --session test --dry-run"
)]
pub(crate) struct Forget {
    /// These exchanges, by id
    #[arg(group = "what")]
    ids: Vec<String>,
    /// All of this session
    #[arg(long, group = "what")]
    session: Option<String>,
    /// All in this collection
    #[arg(long, group = "what")]
    collection: Option<String>,
    /// Only say how many there are
    #[arg(long)]
    dry_run: bool,
}

impl Forget {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let body = match (self.session, self.collection) {
            (Some(session), _) => json!({ "session": session, "dry_run": self.dry_run }),
            (_, Some(collection)) => json!({ "collection": collection, "dry_run": self.dry_run }),
            _ => json!({ "ids": self.ids, "dry_run": self.dry_run }),
        };
        let answer = context.client()?.post(&["v1", "forget"], &body).await?;
        let how_many = counted(answer.get("count").and_then(Value::as_u64).unwrap_or(0), "exchange");
        let text = match self.dry_run {
            true => format!("{how_many} would be forgotten."),
            false => format!(
                "{how_many} forgotten. `skymem exchanges --trash` lists them, `skymem restore` takes them back."
            ),
        };
        Ok(Outcome::new(text, answer))
    }
}
