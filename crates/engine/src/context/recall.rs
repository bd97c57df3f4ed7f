//! All layers are asked at once, each with its deadline. Whoever is late, fails or panics leaves a gap.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skymem_core::wall::carried;
use skymem_core::{Gap, GapReason, Layer, LayerError, LayerName};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::Timing;

/// What one layer answered.
pub(crate) struct Answer<T> {
    pub(crate) layer: Arc<dyn Layer>,
    pub(crate) value: T,
}

/// How long layers may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines<'a> {
    /// All of them together.
    pub(crate) whole: Duration,
    /// What single layers may take, by name, when that is less.
    pub(crate) own: Option<&'a BTreeMap<String, u64>>,
}

/// The answers of `layers` to one question, in their order; and what is missing, and how long each took.
pub(crate) async fn ask<T, F>(
    layers: &[Arc<dyn Layer>],
    deadlines: Deadlines<'_>,
    question: impl Fn(Arc<dyn Layer>) -> F,
) -> (Vec<Answer<T>>, Vec<Gap>, Vec<Timing>)
where
    T: Send + 'static,
    F: Future<Output = Result<T, LayerError>> + Send + 'static,
{
    let end = tokio::time::Instant::now() + deadlines.whole;
    // A task each: one that blocks or panics harms nobody else. Those still at work when the set is dropped are stopped.
    let mut asked = JoinSet::new();
    let mut places = HashMap::new();
    for (place, layer) in layers.iter().enumerate() {
        let own = deadlines.own.and_then(|own| own.get(layer.name().as_str()));
        let own = own.map_or(deadlines.whole, |ms| Duration::from_millis(*ms));
        let answer = question(Arc::clone(layer));
        let started = Instant::now();
        let in_time = async move {
            // Timers are coarser than some answers are quick.
            if own.is_zero() { None } else { timeout(own, answer).await.ok() }
        };
        let task = asked.spawn(carried(async move { (in_time.await, started.elapsed()) }));
        places.insert(task.id(), place);
    }
    let mut outcomes: Vec<Outcome<T>> = layers.iter().map(|_| Outcome::Late(deadlines.whole)).collect();
    while let Ok(Some(ended)) = timeout_at(end, asked.join_next_with_id()).await {
        let (id, outcome) = match ended {
            Ok((id, (Some(Ok(value)), took))) => (id, Outcome::Answered(value, took)),
            Ok((id, (Some(Err(error)), took))) => (id, Outcome::Failed(error, took)),
            Ok((id, (None, took))) => (id, Outcome::Late(took)),
            Err(error) => (error.id(), Outcome::Panicked),
        };
        if let Some(place) = places.get(&id).and_then(|place| outcomes.get_mut(*place)) {
            *place = outcome;
        }
    }
    let mut answers = Vec::new();
    let mut gaps = Vec::new();
    let mut timings = Vec::new();
    for (layer, outcome) in layers.iter().zip(outcomes) {
        let name = layer.name();
        match outcome {
            Outcome::Answered(value, took) => {
                timings.push(Timing::of(name.as_str(), took));
                answers.push(Answer { layer: Arc::clone(layer), value });
            }
            Outcome::Late(took) => {
                timings.push(Timing::of(name.as_str(), took));
                tracing::warn!(layer = %name, ms = took.as_millis(), "A layer was too late");
                gaps.push(gap(&name, GapReason::Late, format!("no answer within {} ms", took.as_millis())));
            }
            Outcome::Failed(error, took) => {
                timings.push(Timing::of(name.as_str(), took));
                tracing::warn!(%error, layer = %name, "A layer stayed silent");
                gaps.push(gap(&name, GapReason::Failed, error.to_string()));
            }
            Outcome::Panicked => {
                tracing::error!(layer = %name, "A layer panicked");
                gaps.push(gap(&name, GapReason::Failed, "it broke down; see the log".into()));
            }
        }
    }
    (answers, gaps, timings)
}

enum Outcome<T> {
    Answered(T, Duration),
    Failed(LayerError, Duration),
    Late(Duration),
    Panicked,
}

fn gap(layer: &LayerName, reason: GapReason, detail: String) -> Gap {
    Gap { of: layer.to_string(), reason, detail }
}
