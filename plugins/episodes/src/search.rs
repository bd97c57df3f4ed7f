//! One question: found by meaning and by words, weighed, chosen, told. When it comes with a rewrite, both are searched.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use pgvector::HalfVector;
use rustc_hash::{FxHashMap, FxHashSet};
use skymem_core::{Considered, Embedding, ExchangeId, Fate, LayerError, Query, Recall, RecallId, Unit, UserId};
use tokio::try_join;
use uuid::Uuid;

use crate::bm25::{self, Hit, Words};
use crate::choose::{Candidate, Choice, Passage, choose};
use crate::fuse::{self, Found, Spread};
use crate::held::Known;
use crate::places::{ByPlace, PassageId, Place};
use crate::sql::Told;
use crate::tell::{considered, recall};
use crate::weigh::{Way, Weighing, best_words, in_window};
use crate::{EpisodesLayer, NAME, sql, tongues};

/// How many of the nearest passages the index is asked for, and how many others tell what average is.
const NEAREST: i64 = 400;
const SAMPLE: i64 = 400;

impl EpisodesLayer {
    /// See [`skymem_core::Layer::recall`].
    pub(crate) async fn search(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        let (mut candidates, barred) = self.weigh(query, &[]).await?;
        let chosen = choose(&mut candidates, self.choice(query));
        self.tell(query, &chosen, &barred).await
    }

    /// See [`skymem_core::Layer::explain`].
    pub(crate) async fn why(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        let asked_for = match about {
            Some(exchange) => sql::passages_of_exchange(&self.db, query.user, exchange.0).await?,
            None => Vec::new(),
        };
        let (mut candidates, _) = self.weigh(query, &asked_for).await?;
        choose(&mut candidates, self.choice(query));
        let Some(exchange) = about else { return Ok(candidates.iter().map(considered).collect()) };
        if asked_for.is_empty() {
            return Ok(self.why_unknown(query, exchange).await?.into_iter().collect());
        }
        Ok(candidates.iter().filter(|candidate| candidate.passage.exchange_id == exchange.0).map(considered).collect())
    }

    /// Why an exchange without passages is not recalled; nothing when the journal has no such exchange.
    async fn why_unknown(&self, query: &Query, exchange: ExchangeId) -> Result<Option<Considered>, LayerError> {
        let remembered = sql::is_remembered(&self.db, query.user, exchange.0).await?;
        Ok(remembered.map(|remembered| Considered {
            id: RecallId(format!("exchange:{exchange}")),
            exchange: Some(exchange),
            excerpt: String::new(),
            scores: Vec::new(),
            fate: if remembered { Fate::NotYetLearned } else { Fate::Forgotten },
        }))
    }

    fn choice(&self, query: &Query) -> Choice {
        Choice {
            unit: query.unit,
            limit: query.limit,
            least_score: query.least_score,
            near_equal: self.settings.near_equal,
        }
    }

    /// The passages that might be recalled, and those of `asked_for` in any case, with all their scores; and those that
    /// must not be shown, whatever the question.
    async fn weigh(
        &self,
        query: &Query,
        asked_for: &[PassageId],
    ) -> Result<(Vec<Candidate>, FxHashMap<PassageId, Fate>), LayerError> {
        let user = query.user;
        let window: Vec<Uuid> = query.window.iter().map(|exchange| exchange.0).collect();
        let (ground, allowed, embedder) = try_join!(
            async { Ok(sql::ground(&self.db, user, &window, query.asked_at).await?) },
            async { Ok(sql::allowed(&self.db, user, &query.filter, query.as_of, query.known_at).await?) },
            self.known_embedder(),
        )?;
        let mut ways = Way::of(query, &tongues(&ground.tongues));
        let held = || self.held.of(&self.db, user, self.space(embedder), ground.version);
        // Brought up to date while the question is being embedded, and not kept meanwhile: who learns would have to copy it.
        drop(held().await?);
        Way::wait_for_meaning(&mut ways, query).await;
        let known = held().await?;
        let found = self.find(query, &ways, embedder, allowed.as_deref(), asked_for, &known).await?;
        let sheet = &known.sheet;
        let expired = ground.expired.into_iter().map(|id| (id, Fate::Filtered));
        let in_window = ground.in_window.into_iter().map(|id| (id, Fate::InWindow));
        let barred: FxHashMap<PassageId, Fate> = expired.chain(in_window).collect();
        let allowed: Option<FxHashSet<PassageId>> = allowed.map(|ids| ids.into_iter().collect());
        let fate = |id: PassageId| match (barred.get(&id), &allowed) {
            (Some(&fate), _) => fate,
            (None, Some(allowed)) if !allowed.contains(&id) => Fate::Filtered,
            _ => Fate::BelowLimit,
        };
        let (ranked, ranking) = fuse::rank(&found, &self.settings.weights, self.settings.candidates, |place| {
            fate(sheet.id(place)) == Fate::BelowLimit
        });
        let mut ids: Vec<PassageId> = ranked.into_iter().map(|(place, _)| sheet.id(place)).collect();
        ids.extend_from_slice(asked_for);
        let known = sql::passages(&self.db, user, &ids).await?;
        let weighing = Weighing {
            query,
            ways: &ways,
            found: &found,
            ranking: &ranking,
            sheet,
            background: embedder.map(|known| &known.background),
            weights: &self.settings.weights,
            decay: self.settings.decay(),
        };
        let candidates = weighing.candidates(known, fate);
        Ok((candidates, barred))
    }

    /// Searches by meaning and by words at once, in every way the question is put; what each found, in their order.
    async fn find(
        &self,
        query: &Query,
        ways: &[Way<'_>],
        embedder: Option<&sql::KnownEmbedder>,
        allowed: Option<&[PassageId]>,
        asked_for: &[PassageId],
        known: &Known,
    ) -> Result<Vec<Found>, LayerError> {
        let allowed: Option<Vec<Place>> =
            allowed.map(|ids| ids.iter().filter_map(|&id| known.sheet.place(id)).collect());
        let mut found = Vec::with_capacity(ways.len());
        for way in ways {
            let by_words = self.by_words(query.user, way, known);
            let by_meaning = self.by_meaning(query.user, embedder, way.embedding, allowed.as_deref(), known);
            let (words, (cosines, cosine_spread)) = try_join!(by_words, by_meaning)?;
            found.push(Found { cosines, cosine_spread, words, passages: known.sheet.passages() });
        }
        // What one way found is weighed on the scale of the others too.
        let mut to_weigh: FxHashSet<Place> = asked_for.iter().filter_map(|&id| known.sheet.place(id)).collect();
        to_weigh.extend(found.iter().flat_map(|found| best_words(&found.words, self.settings.candidates)));
        if found.len() > 1 {
            to_weigh.extend(found.iter().flat_map(|found| found.cosines.iter()).map(|(place, _)| place));
        }
        for (way, found) in ways.iter().zip(&mut found) {
            let (Some(embedding), Some(embedder)) = (way.embedding, embedder) else { continue };
            let missing: Vec<Place> =
                to_weigh.iter().copied().filter(|&place| found.cosines.get(place).is_none()).collect();
            if !missing.is_empty() {
                let more = self.cosines(query.user, embedder, embedding, Some(&missing), known).await?;
                more.iter().for_each(|(place, cosine)| found.cosines.put(place, cosine));
            }
        }
        Ok(found)
    }

    /// What the words of one way of putting the question say of each passage.
    async fn by_words(&self, user: UserId, way: &Way<'_>, known: &Known) -> Result<ByPlace<Words>, LayerError> {
        if let Some(contents) = &known.contents {
            return Ok(bm25::scores(&contents.hits(&way.terms).collect::<Vec<_>>(), &known.sheet));
        }
        let mut found = sql::hits(&self.db, user, &way.terms).await?;
        // Sums are the same to the last digit wherever the words were looked up.
        found.sort_by_key(|posting| way.terms.iter().position(|term| *term == posting.term));
        let hits: Vec<Vec<Hit>> = found.iter().map(|posting| posting.hits(&known.sheet).collect()).collect();
        Ok(bm25::scores(&hits.iter().map(Vec::as_slice).collect::<Vec<_>>(), &known.sheet))
    }

    /// Cosines and how they are spread: of every passage that may come back, as long as comparing all of them is quick;
    /// of the nearest ones by the index, above that.
    async fn by_meaning(
        &self,
        user: UserId,
        embedder: Option<&sql::KnownEmbedder>,
        question: Option<&Embedding>,
        allowed: Option<&[Place]>,
        known: &Known,
    ) -> Result<(ByPlace<f32>, Spread), LayerError> {
        let sheet = &known.sheet;
        let (Some(question), Some(embedder)) = (question, embedder) else {
            return Ok((ByPlace::none(sheet.passages()), Spread::default()));
        };
        let far = embedder.background.around(question);
        let spread = |cosines: &[f32]| Spread::of(cosines.iter().copied(), cosines.len(), far);
        let to_compare = allowed.map_or(sheet.passages(), <[Place]>::len);
        if to_compare <= self.settings.exact_up_to || !sql::has_near_index(&self.db, embedder.id).await? {
            let cosines = self.cosines(user, embedder, question, allowed, known).await?;
            let all: Vec<f32> = cosines.iter().map(|(_, cosine)| cosine).collect();
            return Ok((cosines, spread(&all)));
        }
        let embedding = &HalfVector::from_f32_slice(&question.0);
        let dimensions = self.embedder.dimensions();
        let allowed = allowed.map(|places| sheet.ids_at(places));
        let sample = sql::sample(&self.db, user, embedder.id, embedding, SAMPLE);
        let nearest = sql::nearest(&self.db, user, embedder.id, embedding, dimensions, allowed.as_deref(), NEAREST);
        let (sample, nearest) = try_join!(sample, nearest)?;
        let sample: Vec<f32> = sample.into_iter().map(|(_, cosine)| cosine).collect();
        Ok((sheet.by_place(nearest), spread(&sample)))
    }

    /// The cosine of `question` and every passage, or those of `only`: of the vectors that are held, else in the database.
    async fn cosines(
        &self,
        user: UserId,
        embedder: &sql::KnownEmbedder,
        question: &Embedding,
        only: Option<&[Place]>,
        known: &Known,
    ) -> Result<ByPlace<f32>, LayerError> {
        if let Some(contents) = &known.contents {
            return Ok(contents.cosines(question, only));
        }
        let embedding = HalfVector::from_f32_slice(&question.0);
        let only = only.map(|places| known.sheet.ids_at(places));
        let cosines = sql::cosines(&self.db, user, embedder.id, &embedding, only.as_deref()).await?;
        Ok(known.sheet.by_place(cosines))
    }

    /// Recalls with their texts, provenance and surroundings, in the order of `chosen`.
    async fn tell(
        &self,
        query: &Query,
        chosen: &[Candidate],
        barred: &FxHashMap<PassageId, Fate>,
    ) -> Result<Vec<Recall>, LayerError> {
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let user = query.user;
        let made_of = self.made_of(query, chosen).await?;
        let episodes: Vec<PassageId> = made_of.iter().filter_map(MadeOf::episode).collect();
        let ids: Vec<PassageId> = made_of.iter().flat_map(MadeOf::ids).copied().collect();
        let mut told = sql::told(&self.db, user, &episodes, &ids).await?;
        let members: Vec<Vec<PassageId>> = made_of.iter().map(|made_of| made_of.members(&told)).collect();
        let around = self.around(query, chosen, &members).await?;
        let beside: Vec<PassageId> = around.iter().flatten().copied().collect();
        if !beside.is_empty() {
            told.extend(sql::told(&self.db, user, &[], &beside).await?);
        }
        let began_at: FxHashMap<PassageId, DateTime<Utc>> =
            told.iter().map(|told| (told.passage.id, told.topic_began_at)).collect();
        if let Some(known_at) = query.known_at {
            let all: Vec<PassageId> = told.iter().map(|told| told.passage.id).collect();
            let known = sql::known_by(&self.db, user, &all, known_at).await?;
            told.retain(|told| known.contains(&told.passage.id));
        }
        let passages: FxHashMap<PassageId, Passage> = told
            .into_iter()
            .map(|told| (told.passage.id, told.passage))
            // Nor may they stand beside what was found: in a merge, a segment, among the neighbours.
            .filter(|(id, passage)| {
                let barred = barred.contains_key(id) || in_window(query, passage);
                !barred && query.as_of.is_none_or(|as_of| passage.occurred_at <= as_of)
            })
            .collect();
        let told = |ids: &[PassageId]| ids.iter().filter_map(|id| passages.get(id)).collect::<Vec<&Passage>>();
        let recalls = chosen.iter().zip(members).zip(around).map(|((candidate, members), around)| {
            let Passage { id, topic, .. } = candidate.passage;
            let mut recall = recall(&NAME, query.unit, candidate, &told(&members));
            recall.provenance.topic = began_at.get(&id).map(|&at| (topic, at));
            recall.neighbours = told(&around).into_iter().map(Passage::line).collect();
            recall
        });
        Ok(recalls.collect())
    }

    /// Which passages each recall is made of.
    async fn made_of(&self, query: &Query, chosen: &[Candidate]) -> Result<Vec<MadeOf>, LayerError> {
        let user = query.user;
        let passages = chosen.iter().map(|candidate| &candidate.passage);
        match query.unit {
            Unit::Turn => Ok(passages.map(|passage| MadeOf::Passages(vec![passage.id])).collect()),
            Unit::Segment => {
                let mut all = Vec::with_capacity(chosen.len());
                for passage in passages {
                    let ids = sql::passages_of_segment(&self.db, user, &passage.session_id, passage.topic).await?;
                    all.push(MadeOf::Passages(ids));
                }
                Ok(all)
            }
            Unit::Exchange => {
                let split: Vec<Uuid> = passages.clone().filter(|p| p.split).map(|p| p.exchange_id).collect();
                let questions = match split.is_empty() {
                    true => HashMap::new(),
                    false => sql::questions(&self.db, user, &split).await?,
                };
                let made_of = |passage: &Passage| {
                    if !passage.split {
                        return MadeOf::Episode(passage.episode);
                    }
                    let question = questions.get(&passage.exchange_id).copied().filter(|&id| id != passage.id);
                    MadeOf::Passages(question.into_iter().chain([passage.id]).collect())
                };
                Ok(passages.map(made_of).collect())
            }
        }
    }

    /// The passages around each recall, as far as the query asks for them.
    async fn around(
        &self,
        query: &Query,
        chosen: &[Candidate],
        members: &[Vec<PassageId>],
    ) -> Result<Vec<Vec<PassageId>>, LayerError> {
        let exchanges = i64::try_from(query.neighbours).unwrap_or(i64::MAX);
        let mut all = vec![Vec::new(); chosen.len()];
        if exchanges == 0 {
            return Ok(all);
        }
        for ((candidate, members), around) in chosen.iter().zip(members).zip(&mut all) {
            if let (Some(&first), Some(&last)) = (members.first(), members.last()) {
                let session = &candidate.passage.session_id;
                *around = sql::around(&self.db, query.user, session, first, last, exchanges).await?;
            }
        }
        Ok(all)
    }
}

/// The passages that a recall is made of.
enum MadeOf {
    /// All of an episode.
    Episode(PassageId),
    /// These, in order.
    Passages(Vec<PassageId>),
}

impl MadeOf {
    fn episode(&self) -> Option<PassageId> {
        match self {
            Self::Episode(episode) => Some(*episode),
            Self::Passages(_) => None,
        }
    }

    fn ids(&self) -> &[PassageId] {
        match self {
            Self::Episode(_) => &[],
            Self::Passages(ids) => ids,
        }
    }

    /// In order, as far as they are among `told`, which stand in order.
    fn members(&self, told: &[Told]) -> Vec<PassageId> {
        match self {
            Self::Episode(episode) => {
                let of_it = told.iter().filter(|told| told.passage.episode == *episode);
                of_it.map(|told| told.passage.id).collect()
            }
            Self::Passages(ids) => ids.clone(),
        }
    }
}
