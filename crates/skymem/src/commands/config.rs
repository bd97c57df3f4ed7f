//! `skymem config`

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;

use crate::cli::Context;
use crate::config::DEFAULT;
use crate::output::{Outcome, table};

/// The settings in force.
#[derive(Subcommand)]
pub(crate) enum Config {
    /// Print every setting, its value, and where the value comes from; secrets are masked
    Show,
    /// Print the built-in file that explains every setting
    Explain,
}

impl Config {
    pub(crate) fn run(self, context: &Context) -> Result<Outcome> {
        match self {
            Config::Show => {
                let loaded = context.loaded()?;
                let shown = loaded.shown()?;
                let rows = shown.iter().map(|one| [one.key.clone(), one.value.clone(), one.source.clone()]).collect();
                let json = json!({ "file": loaded.file, "settings": shown });
                Ok(Outcome::new(table(["SETTING", "VALUE", "FROM"], rows), json))
            }
            Config::Explain => Ok(Outcome::new(DEFAULT, json!({ "toml": DEFAULT }))),
        }
    }
}
