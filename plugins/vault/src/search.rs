//! One question, put to what is unlocked: as the episodic layer does it, with everything in memory.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use skymem_core::wall::carried;
use skymem_core::{Considered, ExchangeId, Fate, LayerError, Query, Recall, Unit};
use skymem_search::bm25::{self, Hit, Sheet};
use skymem_search::calibrate::Background;
use skymem_search::choose::{Candidate, Choice, Passage, choose};
use skymem_search::fuse::{self, Found, Spread};
use skymem_search::places::{ByPlace, PassageId, Place};
use skymem_search::tell::{considered, recall};
use skymem_search::weigh::{Known, Way, Weighing, candidates};

use crate::room::Rooms;
use crate::shelf::Shelf;
use crate::{NAME, sql};

impl Rooms {
    /// See [`skymem_core::Layer::recall`].
    pub(crate) async fn search(self: &Arc<Self>, query: &Query) -> Result<Vec<Recall>, LayerError> {
        if !self.is_open(query.user) {
            return Ok(Vec::new());
        }
        let shelf = self.fresh(query).await?;
        let mut candidates = self.weigh(&shelf, query, &[]).await?;
        let chosen = choose(&mut candidates, self.choice(query));
        Ok(chosen.iter().map(|candidate| told(&shelf, query, candidate)).collect())
    }

    /// See [`skymem_core::Layer::explain`].
    pub(crate) async fn why(
        self: &Arc<Self>,
        query: &Query,
        about: Option<ExchangeId>,
    ) -> Result<Vec<Considered>, LayerError> {
        if !self.is_open(query.user) {
            return Ok(Vec::new());
        }
        let shelf = self.fresh(query).await?;
        let asked_for = about.map(|exchange| shelf.passages_of(exchange)).unwrap_or_default();
        let mut candidates = self.weigh(&shelf, query, &asked_for).await?;
        choose(&mut candidates, self.choice(query));
        let wanted = |candidate: &&Candidate| about.is_none_or(|about| candidate.passage.exchange_id == about.0);
        Ok(candidates.iter().filter(wanted).map(considered).collect())
    }

    /// What is unlocked, as it is once the question has been embedded: until then nothing is kept that may be locked
    /// meanwhile. What is new in it gets its vectors behind the question's back.
    async fn fresh(self: &Arc<Self>, query: &Query) -> Result<Arc<Shelf>, LayerError> {
        query.meaning.get().await;
        let shelf = self.current(query.user).await?;
        if shelf.without_vector() > 0 {
            let (rooms, user) = (Arc::clone(self), query.user);
            tokio::spawn(carried(async move {
                if let Err(error) = rooms.learn(user).await {
                    tracing::debug!(%error, "Vectors are still missing");
                }
            }));
        }
        Ok(shelf)
    }

    fn choice(&self, query: &Query) -> Choice {
        let near_equal = self.settings.near_equal;
        Choice { unit: query.unit, limit: query.limit, least_score: query.least_score, near_equal }
    }

    async fn weigh(&self, shelf: &Shelf, query: &Query, asked_for: &[PassageId]) -> Result<Vec<Candidate>, LayerError> {
        let Some(sheet) = &shelf.sheet else { return Ok(Vec::new()) };
        let rules: HashMap<String, sql::Rule> =
            sql::rules(self.db(), query.user).await?.into_iter().map(|rule| (rule.name.clone(), rule)).collect();
        let background = self.background().await;
        let mut ways = Way::of(query, &shelf.tongues);
        // Known by now: see `fresh`.
        Way::wait_for_meaning(&mut ways, query).await;
        let lets: Vec<bool> =
            sheet.ids().iter().map(|id| shelf.passage(*id).is_some_and(|passage| shelf.lets(passage, query))).collect();
        let found: Vec<Found> = ways.iter().map(|way| find(shelf, sheet, way, background, &lets)).collect();
        let fate = |id: PassageId| match sheet.place(id).and_then(|place| lets.get(place as usize)) {
            Some(true) => Fate::BelowLimit,
            _ => Fate::Filtered,
        };
        let in_window: FxHashSet<uuid::Uuid> = query.window.iter().map(|exchange| exchange.0).collect();
        let eligible = |place: Place| {
            let id = sheet.id(place);
            fate(id) == Fate::BelowLimit
                && shelf.passage(id).is_some_and(|passage| !in_window.contains(&passage.exchange_id))
        };
        let most = candidates(self.settings.candidates, query);
        let (ranked, ranking) = fuse::rank(&found, &self.settings.weights, most, eligible);
        let mut ids: Vec<PassageId> = ranked.into_iter().map(|(place, _)| sheet.id(place)).collect();
        let already: FxHashSet<PassageId> = ids.iter().copied().collect();
        ids.extend(asked_for.iter().filter(|id| !already.contains(id)));
        let known = ids.iter().filter_map(|id| shelf.passage(*id)).map(|passage| {
            let rule = rules.get(&passage.collection);
            Known {
                half_life_days: rule.and_then(|rule| rule.half_life_days),
                decay_floor: rule.and_then(|rule| rule.decay_floor),
                last_used_at: None,
                passage: passage.clone(),
            }
        });
        let weighing = Weighing {
            query,
            ways: &ways,
            found: &found,
            ranking: &ranking,
            sheet,
            background,
            weights: &self.settings.weights,
            decay: self.settings.decay(),
        };
        Ok(weighing.candidates(known.collect(), fate))
    }
}

/// What one way of putting a question finds by meaning and by words.
fn find(shelf: &Shelf, sheet: &Sheet, way: &Way<'_>, background: Option<&Background>, lets: &[bool]) -> Found {
    let hits: Vec<&[Hit]> = shelf.contents.hits(&way.terms).collect();
    let words = bm25::scores(&hits, sheet);
    let (cosines, cosine_spread) = match (way.embedding, background) {
        (Some(question), Some(background)) => {
            let cosines = shelf.contents.cosines(question, None);
            // As the episodic layer has it: of what may come back.
            let all: Vec<f32> = cosines
                .iter()
                .filter(|(place, _)| lets.get(*place as usize) == Some(&true))
                .map(|(_, cosine)| cosine)
                .collect();
            let spread = Spread::of(all.iter().copied(), all.len(), background.around(question));
            (cosines, spread)
        }
        _ => (ByPlace::none(sheet.passages()), Spread::default()),
    };
    Found { cosines, cosine_spread, words, passages: sheet.passages() }
}

/// A recall with its text, its provenance and its surroundings.
fn told(shelf: &Shelf, query: &Query, candidate: &Candidate) -> Recall {
    let hit = &candidate.passage;
    let session: Vec<&Passage> =
        shelf.around(hit).filter(|passage| shelf.lets(passage, query) && !in_window(query, passage)).collect();
    let own: Vec<&Passage> = session.iter().copied().filter(|passage| belongs(query.unit, hit, passage)).collect();
    let mut told = recall(&NAME, query.unit, candidate, &own);
    let topic = session.iter().find(|passage| passage.topic == hit.topic);
    told.provenance.topic = topic.map(|first| (hit.topic, first.occurred_at));
    told.neighbours = neighbours(&session, &own, query.neighbours);
    told
}

fn in_window(query: &Query, passage: &Passage) -> bool {
    query.window.iter().any(|exchange| exchange.0 == passage.exchange_id)
}

/// Whether a passage is part of what is recalled by a hit.
fn belongs(unit: Unit, hit: &Passage, passage: &Passage) -> bool {
    match unit {
        Unit::Turn => passage.id == hit.id,
        Unit::Segment => passage.topic == hit.topic,
        // Each part of a long exchange keeps the question.
        Unit::Exchange if hit.split => {
            passage.id == hit.id
                || (passage.exchange_id == hit.exchange_id
                    && passage.role == skymem_core::Role::User
                    && passage.id % skymem_search::choose::PARTS_PER_TURN == 0)
        }
        Unit::Exchange => passage.episode == hit.episode,
    }
}

/// The passages of so many exchanges before and after.
fn neighbours(session: &[&Passage], own: &[&Passage], exchanges: usize) -> Vec<String> {
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return Vec::new() };
    let mut order: FxHashMap<uuid::Uuid, usize> = FxHashMap::default();
    for passage in session {
        let next = order.len();
        order.entry(passage.exchange_id).or_insert(next);
    }
    let at = |passage: &Passage| order.get(&passage.exchange_id).copied().unwrap_or(0);
    let (from, until) = (at(first).saturating_sub(exchanges), at(last) + exchanges);
    session
        .iter()
        .filter(|passage| (from..=until).contains(&at(passage)) && !own.iter().any(|own| own.id == passage.id))
        .filter(|_| exchanges > 0)
        .map(|passage| passage.line())
        .collect()
}
