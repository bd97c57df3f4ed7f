//! All layers are asked at once, each with its deadline. Whoever is late, fails or panics leaves a gap.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skymem_core::wall::carried;
use skymem_core::{Gap, GapReason, Layer, LayerError, LayerName, Meaning};
use tokio::task::JoinSet;

use super::Timing;

/// What one layer answered.
pub(crate) struct Answer<T> {
    pub(crate) layer: Arc<dyn Layer>,
    pub(crate) value: T,
}

/// How long layers may take, from when the question's place in meaning is known: a layer may need that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines<'a> {
    /// All of them together.
    pub(crate) whole: Duration,
    /// What single layers may take, by name, when that is less.
    pub(crate) own: Option<&'a BTreeMap<String, u64>>,
}

/// The answers of `layers` to one question, in their order; and what is missing, and how long each took. Their time counts
/// from when its place in `meaning` is known.
pub(crate) async fn ask<T, F>(
    layers: &[Arc<dyn Layer>],
    deadlines: Deadlines<'_>,
    meaning: &Meaning,
    question: impl Fn(Arc<dyn Layer>) -> F,
) -> (Vec<Answer<T>>, Vec<Gap>, Vec<Timing>)
where
    T: Send + 'static,
    F: Future<Output = Result<T, LayerError>> + Send + 'static,
{
    // A task each: one that blocks or panics harms nobody else. Those still at work when the set is dropped are stopped.
    let mut asked = JoinSet::new();
    let mut places = HashMap::new();
    for (place, layer) in layers.iter().enumerate() {
        let own = deadlines.own.and_then(|own| own.get(layer.name().as_str()));
        let own = own.map_or(deadlines.whole, |ms| Duration::from_millis(*ms));
        let answer = question(Arc::clone(layer));
        let started = Instant::now();
        let too_late = over(own, meaning.clone());
        let in_time = async move {
            // Timers are coarser than some answers are quick.
            if own.is_zero() {
                return None;
            }
            tokio::select! {
                biased;
                answer = answer => Some(answer),
                () = too_late => None,
            }
        };
        let task = asked.spawn(carried(async move {
            match in_time.await {
                Some(Ok(value)) => Outcome::Answered(value, started.elapsed()),
                Some(Err(error)) => Outcome::Failed(error, started.elapsed()),
                None => Outcome::Late(own),
            }
        }));
        places.insert(task.id(), place);
    }
    let mut outcomes: Vec<Outcome<T>> = layers.iter().map(|_| Outcome::Late(deadlines.whole)).collect();
    let too_late = over(deadlines.whole, meaning.clone());
    tokio::pin!(too_late);
    loop {
        let ended = tokio::select! {
            biased;
            ended = asked.join_next_with_id() => ended,
            () = &mut too_late => None,
        };
        let Some(ended) = ended else { break };
        let (id, outcome) = ended.unwrap_or_else(|error| (error.id(), Outcome::Panicked));
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
            Outcome::Late(limit) => {
                timings.push(Timing::of(name.as_str(), limit));
                tracing::warn!(layer = %name, ms = limit.as_millis(), "A layer was too late");
                gaps.push(gap(&name, GapReason::Late, format!("no answer within {} ms", limit.as_millis())));
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

/// Until `time` is over, from when `meaning` is known.
async fn over(time: Duration, meaning: Meaning) {
    meaning.get().await;
    tokio::time::sleep(time).await;
}

enum Outcome<T> {
    Answered(T, Duration),
    Failed(LayerError, Duration),
    /// What it might have taken.
    Late(Duration),
    Panicked,
}

fn gap(layer: &LayerName, reason: GapReason, detail: String) -> Gap {
    Gap { of: layer.to_string(), reason, detail }
}

#[cfg(test)]
mod tests {
    use skymem_core::{Embedding, Priority};

    use super::*;
    use crate::testing::ScriptedLayer;

    const DEADLINES: Deadlines<'static> = Deadlines { whole: Duration::from_millis(400), own: None };

    fn layers() -> Vec<Arc<dyn Layer>> {
        vec![Arc::new(ScriptedLayer::new("one", Priority::Ranked, &[]))]
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_layer_counts_from_when_it_is_known_what_the_question_means() {
        let (meaning, teller) = Meaning::on_its_way();
        let told = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            teller.tell(Some(Embedding(vec![1.0])));
        });

        let (answers, gaps, _) = ask(&layers(), DEADLINES, &meaning, |_| {
            let meaning = meaning.clone();
            async move { Ok(meaning.get().await.cloned()) }
        })
        .await;
        told.await.unwrap();

        assert_eq!((answers[0].value.clone(), gaps), (Some(Embedding(vec![1.0])), Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn also_what_a_single_layer_may_take_counts_from_then() {
        let own = BTreeMap::from([("one".to_owned(), 20)]);
        let deadlines = Deadlines { own: Some(&own), ..DEADLINES };
        for (works_for, gaps_expected) in [(10, 0), (30, 1)] {
            let (meaning, teller) = Meaning::on_its_way();
            let told = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                drop(teller);
            });

            let (_, gaps, _) = ask(&layers(), deadlines, &meaning, |_| {
                let meaning = meaning.clone();
                async move {
                    meaning.get().await;
                    tokio::time::sleep(Duration::from_millis(works_for)).await;
                    Ok(())
                }
            })
            .await;
            told.await.unwrap();

            assert_eq!(gaps.len(), gaps_expected, "{gaps:?}");
            assert!(gaps.iter().all(|gap| gap.detail == "no answer within 20 ms"), "{gaps:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_layer_that_needs_no_meaning_answers_before_it_is_known() {
        let (meaning, teller) = Meaning::on_its_way();

        let (answers, _, _) = ask(&layers(), DEADLINES, &meaning, async |_| Ok(7)).await;

        assert_eq!(answers[0].value, 7);
        drop(teller);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_answer_once_the_time_is_over_is_late() {
        let (answers, gaps, _) =
            ask(&layers(), DEADLINES, &Meaning::known(None), |_| std::future::pending::<Result<(), _>>()).await;

        assert_eq!((answers.len(), gaps[0].reason), (0, GapReason::Late));
    }
}
