//! `skymem reembed`

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::json;
use skymem_core::wall::acting_for_everyone;
use skymem_core::{LayerName, Purpose};

use crate::cli::Context;
use crate::database::{Database, Use};
use crate::output::{Outcome, counted};
use crate::serve::{open_embedder, reset_layer};

/// Learn everything again with the configured embedder.
///
/// A memory belongs to the embedder that made it. After a change of [embedder] this empties the episodes layer; the
/// server then learns it again from the journal, in the background. Nothing that was said is lost. The server must not
/// run meanwhile.
#[derive(Args)]
pub(crate) struct Reembed {}

impl Reembed {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        if let Ok(client) = context.client()
            && client.get(&["health", "live"], &[]).await.is_ok()
        {
            bail!("a server runs and would not know of it: stop it first, then run `skymem reembed` again");
        }
        let config = &context.loaded()?.config;
        let embedder = open_embedder(config).await?;
        // Nothing is thrown away before its replacement can be made.
        embedder
            .embed(&["ready?"], Purpose::Passage)
            .await
            .with_context(|| format!("the embedder {} does not work yet, so nothing was changed", embedder.id()))?;

        let database = Database::open(config, Use::Server).await?;
        let reset = acting_for_everyone(reset_layer(&database.pool, &LayerName::of("episodes"))).await;
        database.close().await?;
        let exchanges = reset?;
        Ok(Outcome::new(
            format!(
                "{} will be learned again with {}: start the server with `skymem serve`; `skymem stats` shows how far \
                 it is.",
                counted(exchanges, "exchange"),
                embedder.id()
            ),
            json!({ "embedder": embedder.id(), "exchanges": exchanges }),
        ))
    }
}
