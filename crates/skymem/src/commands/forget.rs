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
    after_help = "Examples:\n  skymem forget 0198c0de-0000-7000-8000-000000000000\n  skymem forget --session test --yes"
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
    /// All that anything is known of somebody or something from
    #[arg(long, group = "what", value_name = "NAME")]
    entity: Option<String>,
    /// All in which this text stands
    #[arg(long, group = "what")]
    text: Option<String>,
    /// Only say how many there are
    #[arg(long)]
    dry_run: bool,
    /// Do it: what is forgotten by --session, --collection, --entity or --text is only counted without
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

impl Forget {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        // Ids were looked up; what stands behind anything else may be more than one thinks.
        let dry_run = self.dry_run || (self.ids.is_empty() && !self.yes);
        let body = match (self.session, self.collection, self.entity, self.text) {
            (Some(session), ..) => json!({ "session": session, "dry_run": dry_run }),
            (_, Some(collection), ..) => json!({ "collection": collection, "dry_run": dry_run }),
            (_, _, Some(entity), _) => json!({ "entity": entity, "dry_run": dry_run }),
            (.., Some(text)) => json!({ "text": text, "dry_run": dry_run }),
            _ => json!({ "ids": self.ids, "dry_run": dry_run }),
        };
        let answer = context.client()?.post(&["v1", "forget"], &body).await?;
        let how_many = counted(answer.get("count").and_then(Value::as_u64).unwrap_or(0), "exchange");
        let text = match dry_run {
            true if self.dry_run => format!("{how_many} would be forgotten."),
            true => format!("{how_many} would be forgotten. --yes does it."),
            false => format!(
                "{how_many} forgotten. `skymem exchanges --trash` lists them, `skymem restore` takes them back."
            ),
        };
        Ok(Outcome::new(text, answer))
    }
}
