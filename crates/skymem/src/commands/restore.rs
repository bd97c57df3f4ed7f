//! `skymem restore`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::output::{Outcome, counted};

/// Take forgotten exchanges back; they are learned again.
#[derive(Args)]
pub(crate) struct Restore {
    /// These exchanges, by id, as `skymem exchanges --trash` lists them
    #[arg(required = true)]
    ids: Vec<String>,
}

impl Restore {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let answer = context.client()?.post(&["v1", "restore"], &json!({ "ids": self.ids })).await?;
        let count = answer.get("count").and_then(Value::as_u64).unwrap_or(0);
        Ok(Outcome::new(format!("{} restored.", counted(count, "exchange")), answer))
    }
}
