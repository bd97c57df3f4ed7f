//! Which layers are asked, and what is done with their answers before anything else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use skymem_core::{Considered, ExchangeId, Gap, GapReason, Layer, LayerName, Priority, Query, Recall};

use super::recall::{self, Answer, Deadlines};
use super::{LayerExplanation, Notes, render};
use crate::error::EngineError;
use crate::memory::Memory;

/// How long an explanation may take: somebody who debugs waits for it, no chat does.
const PATIENCE_FOR_REASONS: Duration = Duration::from_secs(10);

impl Memory {
    /// Every layer's answer to the query. What is always loaded may be frozen, and is then not asked for again.
    pub(super) async fn offers(
        &self,
        layers: &[Arc<dyn Layer>],
        freeze: bool,
        query: &Query,
        notes: &mut Notes,
    ) -> Vec<Answer<Vec<Recall>>> {
        let Some(session) = &query.session else { return self.ask(layers, query, notes).await };
        if !freeze {
            self.inner.frozen.thaw(query.user, session);
            return self.ask(layers, query, notes).await;
        }
        let mut frozen = self.inner.frozen.get(query.user, session);
        let (kept, asked): (Vec<_>, Vec<_>) =
            layers.iter().cloned().partition(|layer| frozen.contains_key(&layer.name()));
        let mut offers = self.ask(&asked, query, notes).await;
        let always = offers.iter().filter(|offer| offer.layer.priority() == Priority::Always);
        frozen.extend(always.map(|offer| (offer.layer.name(), offer.value.clone())));
        for layer in kept {
            let value = frozen.get(&layer.name()).cloned().unwrap_or_default();
            offers.push(Answer { layer, value });
        }
        offers.sort_by_key(|offer| layers.iter().position(|layer| layer.name() == offer.layer.name()));
        self.inner.frozen.keep(query.user, session, frozen);
        offers
    }

    /// The layers of these names or, when there are none, those that rank what they know: what is always loaded answers
    /// every question and would take the places of finds.
    pub(super) fn ranked(&self, names: &[LayerName]) -> Result<Vec<Arc<dyn Layer>>, EngineError> {
        let mut layers = self.named(names)?;
        if names.is_empty() {
            layers.retain(|layer| layer.priority() == Priority::Ranked);
        }
        Ok(layers)
    }

    /// The layers of these names, each once however often it is named, or, when there are none, all.
    pub(super) fn named(&self, names: &[LayerName]) -> Result<Vec<Arc<dyn Layer>>, EngineError> {
        if names.is_empty() {
            return Ok(self.inner.layers.clone());
        }
        let mut named: Vec<Arc<dyn Layer>> = Vec::new();
        for name in names {
            let layer = self.layer(name.as_str()).map_err(|unknown| EngineError::Refused(unknown.to_string()))?;
            if !named.iter().any(|known| known.name() == layer.name()) {
                named.push(Arc::clone(layer));
            }
        }
        Ok(named)
    }

    /// Asks layers and makes safe what they answer.
    pub(super) async fn ask(
        &self,
        layers: &[Arc<dyn Layer>],
        query: &Query,
        notes: &mut Notes,
    ) -> Vec<Answer<Vec<Recall>>> {
        let started = Instant::now();
        let shared = Arc::new(query.clone());
        let (mut answers, gaps, timings) = recall::ask(layers, self.deadlines(), &query.meaning, |layer| {
            let query = Arc::clone(&shared);
            async move { layer.recall(&query).await }
        })
        .await;
        notes.took("recall", started.elapsed());
        notes.gaps.extend(gaps);
        notes.timings.extend(timings);
        for answer in &mut answers {
            let recalls = std::mem::take(&mut answer.value);
            answer.value = recalls.into_iter().map(render::safe).collect();
            if answer.layer.priority() == Priority::Ranked {
                answer.value.truncate(query.limit);
            }
            let faults = answer.layer.faults(query.user);
            if !faults.is_empty() {
                notes.gap(answer.layer.name().as_str(), GapReason::Damaged, faults.join("; "));
            }
        }
        answers
    }

    /// What each layer weighed; of one exchange alone when it is `about` one.
    pub(super) async fn weighed(
        &self,
        layers: &[Arc<dyn Layer>],
        query: &Query,
        about: Option<ExchangeId>,
    ) -> (Vec<LayerExplanation>, Vec<Gap>) {
        let shared = Arc::new(query.clone());
        let deadlines = Deadlines { whole: PATIENCE_FOR_REASONS, own: None };
        let (answers, gaps, _) = recall::ask(layers, deadlines, &query.meaning, |layer| {
            let query = Arc::clone(&shared);
            async move { layer.explain(&query, about).await }
        })
        .await;
        let explained =
            |answer: Answer<Vec<Considered>>| LayerExplanation { layer: answer.layer.name(), considered: answer.value };
        (answers.into_iter().map(explained).collect(), gaps)
    }

    fn deadlines(&self) -> Deadlines<'_> {
        let settings = &self.inner.settings.context;
        Deadlines { whole: Duration::from_millis(settings.recall_deadline_ms), own: Some(&settings.layer_deadline_ms) }
    }
}
