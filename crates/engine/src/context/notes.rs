//! What is written down on the way to a reply.

use std::time::{Duration, Instant};

use skymem_core::{Gap, GapReason};
use skymem_store::StoreError;
use tokio::time::error::Elapsed;

use super::Timing;

/// What is written down on the way: gaps, and how long each stage took.
pub(crate) struct Notes {
    /// The histogram that the timings go to.
    metric: &'static str,
    began: Instant,
    pub(super) gaps: Vec<Gap>,
    pub(super) timings: Vec<Timing>,
}

impl Notes {
    pub(super) fn begin(metric: &'static str) -> Self {
        Self { metric, began: Instant::now(), gaps: Vec::new(), timings: Vec::new() }
    }

    pub(super) fn took(&mut self, stage: &str, time: Duration) {
        self.timings.push(Timing::of(stage, time));
    }

    pub(crate) fn gap(&mut self, of: &str, reason: GapReason, detail: impl Into<String>) {
        self.gaps.push(Gap { of: of.to_owned(), reason, detail: detail.into() });
    }

    /// The value, or nothing and a gap.
    pub(super) fn or_gap<T>(&mut self, of: &str, value: Result<Result<T, StoreError>, Elapsed>) -> Option<T> {
        match value {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => {
                tracing::warn!(%error, of, "The journal could not be read; the context goes on without it");
                self.gap(of, GapReason::Failed, error.to_string());
            }
            Err(_) => self.gap(of, GapReason::Late, "the database took too long"),
        }
        None
    }

    /// The gaps and the timings, counted for the operator.
    pub(super) fn end(mut self) -> (Vec<Gap>, Vec<Timing>) {
        let total = self.began.elapsed();
        self.took("total", total);
        for gap in &self.gaps {
            metrics::counter!("skymem_gaps_total", "of" => gap.of.clone(), "reason" => gap.reason.as_str())
                .increment(1);
        }
        for timing in &self.timings {
            metrics::histogram!(self.metric, "stage" => timing.stage.clone()).record(timing.ms / 1_000.0);
        }
        (self.gaps, self.timings)
    }
}
