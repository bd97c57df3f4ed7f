//! Telling the layers which of their recalls were put before an assistant: what is used fades more slowly.

use std::time::Duration;

use chrono::{DateTime, Utc};
use skymem_core::{LayerName, Priority, Query, RecallId, UserId};
use tokio::time::timeout;

use super::ContextReply;
use crate::memory::Memory;

/// How long layers may take to note what was used of them: a server that stops waits for that.
const PATIENCE: Duration = Duration::from_secs(2);

/// The recalls of a context that layers are to be told were used.
#[derive(Debug, Default)]
#[must_use = "what was used is to be noted"]
pub struct Uses(Vec<Use>);

/// What was used of one layer.
#[derive(Debug)]
struct Use {
    layer: LayerName,
    user: UserId,
    recalls: Vec<RecallId>,
    at: DateTime<Utc>,
}

impl Uses {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Memory {
    /// What `reply` puts before an assistant, as far as uses count.
    pub(super) fn uses(&self, reply: &ContextReply, query: &Query) -> Uses {
        if !self.inner.settings.context.note_use {
            return Uses::default();
        }
        let of_section = reply.sections.iter().filter_map(|section| {
            let layer = self.layer(section.layer.as_str()).ok()?;
            let recalls: Vec<RecallId> = section.recalls.iter().map(|recall| recall.id.clone()).collect();
            let counts = layer.priority() == Priority::Ranked && !recalls.is_empty();
            counts.then(|| Use { layer: section.layer.clone(), user: query.user, recalls, at: query.asked_at })
        });
        Uses(of_section.collect())
    }

    /// Tells the layers what was used. What cannot be noted, or not in time, is let be: it fades as if it had not been
    /// used.
    pub async fn note_uses(&self, uses: Uses) {
        let noting = async {
            for Use { layer, user, recalls, at } in uses.0 {
                let Ok(of) = self.layer(layer.as_str()) else { continue };
                if let Err(error) = of.used(user, &recalls, at).await {
                    tracing::debug!(%error, %layer, "A use could not be noted");
                }
            }
        };
        if timeout(PATIENCE, noting).await.is_err() {
            tracing::warn!("What was used could not be noted in time");
        }
    }
}
