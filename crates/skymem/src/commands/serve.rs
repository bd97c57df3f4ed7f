//! `skymem serve`

use anyhow::Result;
use serde_json::Value;

use crate::cli::Context;
use crate::logging;
use crate::output::Outcome;

/// Runs the server until it is told to stop.
pub(crate) async fn run(context: &Context) -> Result<Outcome> {
    let config = &context.loaded()?.config;
    logging::start(&config.log)?;
    crate::serve::serve(config).await?;
    Ok(Outcome::new("", Value::Null))
}
