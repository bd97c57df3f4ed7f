//! `skymem version`

use anyhow::Result;
use serde_json::json;

use crate::cli::Context;
use crate::output::{Outcome, text_at};

/// This program's version, and the server's when one answers.
pub(crate) async fn run(context: &Context) -> Result<Outcome> {
    let own = env!("CARGO_PKG_VERSION");
    let server = match context.client() {
        Ok(client) => client.get(&["health", "live"], &[]).await.ok(),
        Err(_) => None,
    };
    let server = server.as_ref().map(|live| text_at(live, "/version")).filter(|version| !version.is_empty());
    let mut text = format!("skymem {own}");
    if let Some(server) = server {
        text.push_str(&format!("\nserver {server}"));
    }
    Ok(Outcome::new(text, json!({ "version": own, "server": server })))
}
