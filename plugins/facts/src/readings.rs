//! A chat model reads exchanges for facts, some at a time, in the background.

use chrono::{DateTime, Utc};
use skymem_core::{LayerError, Pruned};
use tokio::time::timeout;

use crate::sources::model::{AskError, ask};
use crate::sql::readings::{self, Waiting};
use crate::{FactsLayer, learn, sql};

/// So often an exchange is tried that the model refuses.
const MOST_REFUSALS: i32 = 3;

impl FactsLayer {
    /// Has the model read the exchanges that have waited longest. It is not asked any more when it is away or too slow;
    /// what it has no usable answer for is parked.
    pub(crate) async fn read_some(&self, now: DateTime<Utc>) -> Result<Pruned, LayerError> {
        let Some(model) = &self.model else { return Ok(Pruned::default()) };
        for waiting in readings::waiting(&self.db, self.settings.readings()).await? {
            let Some(exchange) = readings::exchange(&self.db, waiting.user, waiting.exchange).await? else { continue };
            if learn::digest(&exchange) != waiting.digest {
                // It has grown, and is about to be observed again.
                continue;
            }
            let answer = timeout(self.settings.deadline(), ask(model.as_ref(), &exchange)).await;
            let Waiting { user, exchange: id, digest, .. } = &waiting;
            let status = match answer {
                Ok(Ok(found)) => {
                    let claims = learn::claims_of_model(&exchange, found);
                    sql::learn::keep_reading(&self.db, *user, *id, digest, &claims, now).await?;
                    "ok"
                }
                Ok(Err(AskError::Unusable(reason))) => {
                    tracing::warn!(exchange = %id, "A model could not read an exchange for facts; it is parked");
                    readings::park(&self.db, &waiting, &reason, now).await?;
                    "rejected"
                }
                Ok(Err(AskError::Refused(reason))) => {
                    readings::refused(&self.db, &waiting, &reason, MOST_REFUSALS, now).await?;
                    "refused"
                }
                Ok(Err(AskError::Unreachable(_))) => "error",
                Err(_) => "timeout",
            };
            metrics::counter!("skymem_fact_readings_total", "status" => status).increment(1);
            if matches!(status, "refused" | "error" | "timeout") {
                tracing::warn!(status, "No facts from the model; exchanges wait for it");
                break;
            }
        }
        Ok(Pruned { unfinished: readings::any_waiting(&self.db).await?, ..Pruned::default() })
    }
}
