//! One question: found by meaning and by words, weighed, chosen. When it comes with a rewrite, both are searched.

use std::sync::Arc;

use futures_util::future::OptionFuture;
use pgvector::HalfVector;
use rustc_hash::{FxHashMap, FxHashSet};
use skymem_core::{Considered, Embedding, ExchangeId, Fate, LayerError, Query, Recall, RecallId, UserId};
use sqlx::Postgres;
use sqlx::pool::PoolConnection;
use tokio::task::spawn_blocking;
use tokio::try_join;
use uuid::Uuid;

use crate::bm25::{self, Hit, Words};
use crate::choose::{Candidate, Choice, choose};
use crate::fuse::{self, Found, Spread};
use crate::held::Known;
use crate::places::{ByPlace, PassageId, Place};
use crate::recalls::tell;
use crate::tell::considered;
use crate::weigh::{Way, Weighing, best_words, candidates};
use crate::{EpisodesLayer, sql, tongues};

/// Candidates with all their scores.
struct Weighed {
    candidates: Vec<Candidate>,
    /// What must not be shown, whatever the question.
    barred: FxHashMap<PassageId, Fate>,
    /// What they were read through: borrowing one takes a way to the database and back.
    connection: PoolConnection<Postgres>,
}

/// How many of the nearest passages the index is asked for, and how many others tell what average is.
const NEAREST: i64 = 400;
const SAMPLE: i64 = 400;

impl EpisodesLayer {
    /// See [`skymem_core::Layer::recall`].
    pub(crate) async fn search(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        let Weighed { mut candidates, barred, connection } = self.weigh(query, &[]).await?;
        let chosen = choose(&mut candidates, self.choice(query));
        tell(connection, query, &chosen, &barred).await
    }

    /// See [`skymem_core::Layer::explain`].
    pub(crate) async fn why(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        let asked_for = match about {
            Some(exchange) => sql::passages_of_exchange(&self.db, query.user, exchange.0).await?,
            None => Vec::new(),
        };
        let mut candidates = self.weigh(query, &asked_for).await?.candidates;
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

    /// Weighs the passages that might be recalled, and those of `asked_for` in any case.
    async fn weigh(&self, query: &Query, asked_for: &[PassageId]) -> Result<Weighed, LayerError> {
        let user = query.user;
        let window: Vec<Uuid> = query.window.iter().map(|exchange| exchange.0).collect();
        let (ground, allowed, embedder) = try_join!(
            async { Ok(sql::ground(&self.db, user, &window, query.asked_at).await?) },
            async { Ok(sql::allowed(&self.db, user, &query.filter, query.as_of, query.known_at).await?) },
            self.known_embedder(),
        )?;
        let mut ways = Way::of(query, &tongues(&ground.tongues));
        let held = || self.held.of(&self.db, user, self.space(embedder), ground.version);
        // Searched by words while the question is still being embedded.
        let known = held().await?;
        let (sheet, words) = (Arc::clone(&known.sheet), self.by_words(user, &ways, &known).await?);
        // What is held is let go of meanwhile: who learns would have to copy it.
        let bare = known.contents.is_none().then_some(known);
        Way::wait_for_meaning(&mut ways, query).await;
        let known = match bare {
            Some(bare) => bare,
            None => held().await?,
        };
        let words = match Arc::ptr_eq(&known.sheet, &sheet) {
            true => words,
            false => self.by_words(user, &ways, &known).await?,
        };
        // What is held is compared without the database, which lends a connection meanwhile if it has one to spare.
        let lends = known.contents.is_some() && self.db.num_idle() > 1;
        let lent = OptionFuture::from(lends.then(|| self.db.acquire()));
        let find = self.find(query, &ways, words, embedder, allowed.as_deref(), asked_for, &known);
        let (found, lent) = try_join!(find, async { Ok(lent.await.transpose()?) })?;
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
        let most = candidates(self.settings.candidates, query);
        let (ranked, ranking) =
            fuse::rank(&found, &self.settings.weights, most, |place| fate(sheet.id(place)) == Fate::BelowLimit);
        let mut ids: Vec<PassageId> = ranked.into_iter().map(|(place, _)| sheet.id(place)).collect();
        ids.extend_from_slice(asked_for);
        let mut connection = match lent {
            Some(lent) => lent,
            None => self.db.acquire().await?,
        };
        let known = sql::passages(&mut *connection, user, &ids).await?;
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
        Ok(Weighed { candidates: weighing.candidates(known, fate), barred, connection })
    }

    /// Searches by meaning, in every way the question is put; what each found, by `words` too, in their order.
    #[expect(clippy::too_many_arguments, reason = "what a search is made of")]
    async fn find(
        &self,
        query: &Query,
        ways: &[Way<'_>],
        words: Vec<ByPlace<Words>>,
        embedder: Option<&sql::KnownEmbedder>,
        allowed: Option<&[PassageId]>,
        asked_for: &[PassageId],
        known: &Arc<Known>,
    ) -> Result<Vec<Found>, LayerError> {
        let allowed: Option<Vec<Place>> =
            allowed.map(|ids| ids.iter().filter_map(|&id| known.sheet.place(id)).collect());
        let mut found = Vec::with_capacity(ways.len());
        for (way, words) in ways.iter().zip(words) {
            let meaning = self.by_meaning(query.user, embedder, way.embedding, allowed.as_deref(), known).await?;
            let (cosines, cosine_spread) = meaning;
            found.push(Found { cosines, cosine_spread, words, passages: known.sheet.passages() });
        }
        // What one way found is weighed on the scale of the others too.
        let mut to_weigh: FxHashSet<Place> = asked_for.iter().filter_map(|&id| known.sheet.place(id)).collect();
        let most = candidates(self.settings.candidates, query);
        to_weigh.extend(found.iter().flat_map(|found| best_words(&found.words, most)));
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

    /// What the words of each way of putting the question say of each passage.
    async fn by_words(&self, user: UserId, ways: &[Way<'_>], known: &Known) -> Result<Vec<ByPlace<Words>>, LayerError> {
        let mut words = Vec::with_capacity(ways.len());
        for Way { terms, .. } in ways {
            words.push(match &known.contents {
                Some(contents) => bm25::scores(&contents.hits(terms).collect::<Vec<_>>(), &known.sheet),
                None => {
                    let mut found = sql::hits(&self.db, user, terms).await?;
                    // Sums are the same to the last digit wherever the words were looked up.
                    found.sort_by_key(|posting| terms.iter().position(|term| *term == posting.term));
                    let hits: Vec<Vec<Hit>> =
                        found.iter().map(|posting| posting.hits(&known.sheet).collect()).collect();
                    bm25::scores(&hits.iter().map(Vec::as_slice).collect::<Vec<_>>(), &known.sheet)
                }
            });
        }
        Ok(words)
    }

    /// Cosines and how they are spread: of every passage that may come back, as long as comparing all of them is quick;
    /// of the nearest ones by the index, above that.
    async fn by_meaning(
        &self,
        user: UserId,
        embedder: Option<&sql::KnownEmbedder>,
        question: Option<&Embedding>,
        allowed: Option<&[Place]>,
        known: &Arc<Known>,
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
        known: &Arc<Known>,
    ) -> Result<ByPlace<f32>, LayerError> {
        if known.contents.is_some() {
            return compared(known, question, only).await;
        }
        let embedding = HalfVector::from_f32_slice(&question.0);
        let only = only.map(|places| known.sheet.ids_at(places));
        let cosines = sql::cosines(&self.db, user, embedder.id, &embedding, only.as_deref()).await?;
        Ok(known.sheet.by_place(cosines))
    }
}

/// The cosine of `question` and every passage, or those of `only`, by the vectors that are held: in a thread of its own,
/// since this one has others to answer.
async fn compared(
    known: &Arc<Known>,
    question: &Embedding,
    only: Option<&[Place]>,
) -> Result<ByPlace<f32>, LayerError> {
    let (known, question, only) = (Arc::clone(known), question.clone(), only.map(<[Place]>::to_vec));
    let compared = spawn_blocking(move || match &known.contents {
        Some(contents) => contents.cosines(&question, only.as_deref()),
        None => ByPlace::none(known.sheet.passages()),
    });
    compared.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The program stops.
        Err(_) => LayerError::Database(sqlx::Error::WorkerCrashed),
    })
}
