//! The episodic layer: past exchanges, found by meaning and by words, faded by time.
//!
//! What is searched are *passages* (turns, or parts of long ones), what is recalled are exchanges, turns or segments.
//! Reading order: [`EpisodesLayer::observe`] and `search/draft.rs` (how passages come to be), `search.rs` (how they are found
//! and weighed), the crate `search` (the thinking), `sql/` (every statement).
//!
//! ```toml
//! [layers.episodes]
//! half_life_days = 30.0        # the age at which the fading part of a memory counts half; a collection may have its own
//! decay_floor = 0.8            # the share of its relevance that never fades, 0 to 1
//! near_equal = 0.2             # recalls within this share of the best score are near-equals: the newest comes first
//! merge_below_tokens = 60      # consecutive exchanges that cost less than this together become one episode
//! merge_most = 3               # at most this many
//! split_above_tokens = 500     # an exchange that costs more is split, each part with its question
//! part_tokens = 300            # the size of a part; a collection may have its own
//! topic_threshold = 0.70       # nearness below which a new topic begins; higher means more topics
//! user_words = 2.0             # weight of a person's words over an assistant's
//! candidates = 100             # how many passages are weighed closely; at least three for each recall that is asked for
//! exact_up_to = 50000          # up to this many passages of a user every one is compared; above, an index is used
//!
//! [layers.episodes.weights]    # how strongly each sign of relevance counts: see `Weights`
//! ```

mod held;
mod recalls;
mod search;
mod sql;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Deserialize;
use skymem_core::wall::acting_for;
use skymem_core::{
    Considered, Embedder, EmbedderId, Embedding, Exchange, ExchangeId, ExchangeKind, Host, Layer, LayerError,
    LayerName, LayerStats, ModelError, Plugin, Pruned, Purpose, Query, Recall, RecallId, UserId,
};
use skymem_search::{bm25, calibrate, choose, contents, decay, draft as learn, fuse, places, tell, weigh, words};
use sqlx::PgPool;
use tokio::sync::OnceCell;

use crate::calibrate::Background;
use crate::choose::PARTS_PER_TURN;
use crate::decay::Decay;
pub use crate::fuse::Weights;
use crate::held::{Held, Space};
use crate::learn::{Place, Setting, Shape};
use crate::words::Language;

const NAME: LayerName = LayerName::of("episodes");

/// Opens the episodic layer.
#[derive(Debug, Clone, Copy, Default)]
pub struct EpisodesPlugin;

#[async_trait]
impl Plugin for EpisodesPlugin {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError> {
        let settings = Settings::of(host.config)?;
        sqlx::migrate!("../../migrations/episodes").run(&host.db).await?;
        if let Some(old) = sql::other_embedder(&host.db, &host.embedder.id().0).await? {
            let new = host.embedder.id();
            return Err(LayerError::OtherEmbedder(format!(
                "this memory was embedded by {old}, the configuration says {new}: run `skymem reembed` to learn it \
                 again, or set the embedder back to {old}"
            )));
        }
        Ok(Arc::new(EpisodesLayer {
            db: host.db,
            embedder: host.embedder,
            held: Held::new(settings.held_megabytes << 20, settings.exact_up_to),
            settings,
            met: OnceCell::new(),
        }))
    }
}

/// The name of another embedder than `embedder` that the memory in `db` was embedded by, if there is one; changes nothing.
///
/// # Errors
///
/// When the database gives no answer.
pub async fn other_embedder(db: &PgPool, embedder: &EmbedderId) -> Result<Option<String>, LayerError> {
    if !sql::has_tables(db).await? {
        return Ok(None);
    }
    Ok(sql::other_embedder(db, &embedder.0).await?)
}

/// `[layers.episodes]`, as the head of this file describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    half_life_days: f32,
    decay_floor: f32,
    near_equal: f32,
    merge_below_tokens: usize,
    merge_most: usize,
    split_above_tokens: usize,
    part_tokens: usize,
    topic_threshold: f32,
    user_words: f32,
    candidates: usize,
    exact_up_to: usize,
    held_megabytes: usize,
    weights: Weights,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            half_life_days: 30.0,
            decay_floor: 0.8,
            near_equal: 0.2,
            merge_below_tokens: 60,
            merge_most: 3,
            split_above_tokens: 500,
            part_tokens: 300,
            topic_threshold: 0.70,
            user_words: 2.0,
            candidates: 100,
            exact_up_to: 50_000,
            held_megabytes: 256,
            weights: Weights::default(),
        }
    }
}

impl Settings {
    fn of(table: toml::Table) -> Result<Self, LayerError> {
        let settings: Settings =
            table.try_into().map_err(|error: toml::de::Error| LayerError::Settings(error.message().to_owned()))?;
        let rules: [(bool, &str); 9] = [
            (settings.half_life_days > 0.0, "half_life_days must be above 0"),
            ((0.0..=1.0).contains(&settings.decay_floor), "decay_floor must be from 0 to 1"),
            ((0.0..=1.0).contains(&settings.near_equal), "near_equal must be from 0 to 1"),
            ((100..=4_000).contains(&settings.part_tokens), "part_tokens must be from 100 to 4000"),
            (settings.split_above_tokens >= settings.part_tokens, "split_above_tokens must not be below part_tokens"),
            ((-1.0..=1.0).contains(&settings.topic_threshold), "topic_threshold must be from -1 to 1"),
            ((20..=5_000).contains(&settings.candidates), "candidates must be from 20 to 5000"),
            (settings.user_words > 0.0, "user_words must be above 0"),
            (settings.held_megabytes <= 1_000_000, "held_megabytes must be at most 1000000"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(LayerError::Settings(format!("[layers.episodes] {rule}"))),
            None => Ok(settings),
        }
    }

    fn decay(&self) -> Decay {
        Decay { half_life_days: self.half_life_days, floor: self.decay_floor }
    }

    fn shape(&self) -> Shape {
        Shape {
            merge_below_tokens: self.merge_below_tokens,
            merge_most: self.merge_most,
            split_above_tokens: self.split_above_tokens,
            user_words: self.user_words,
        }
    }
}

/// The episodic layer.
pub(crate) struct EpisodesLayer {
    db: PgPool,
    embedder: Arc<dyn Embedder>,
    settings: Settings,
    /// The embedder as the database knows it, once it has answered for the first time.
    met: OnceCell<sql::KnownEmbedder>,
    /// What the searches of those who asked last read of all their passages.
    held: Held,
}

/// How many texts go to the embedder at once.
const EMBED_TOGETHER: usize = 64;

/// How many passages without a vector are embedded at a time in upkeep.
const CATCH_UP: i64 = 512;

#[async_trait]
impl Layer for EpisodesLayer {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn observe(&self, exchanges: &[Exchange]) -> Result<(), LayerError> {
        let Some(user) = exchanges.first().map(|exchange| exchange.user) else { return Ok(()) };
        let embedder = self.met_embedder().await;
        let tongues = self.tongues(user).await?;
        let zone = self.zone(user).await?;
        let part_tokens = sql::part_tokens(&self.db, user).await?;

        // In the order in which they were said: one that grew or came back may come after later ones.
        let said = |exchange: &&Exchange| exchange.kind != ExchangeKind::Stated;
        let mut exchanges: Vec<&Exchange> = exchanges.iter().filter(said).collect();
        exchanges.sort_by_key(|exchange| exchange.first_seq());
        let ids: Vec<uuid::Uuid> = exchanges.iter().map(|exchange| exchange.id.0).collect();
        let firsts: Vec<(&str, i64)> = exchanges
            .iter()
            .map(|exchange| (exchange.session.as_str(), exchange.first_seq().0 * PARTS_PER_TURN))
            .collect();
        let learned_before = sql::last_before(&self.db, user, &firsts, &ids).await?;

        let mut places: HashMap<&str, (Option<i64>, Place)> = HashMap::new();
        let mut drafted = Vec::new();
        for ((exchange, (session, first)), learned) in exchanges.into_iter().zip(firsts).zip(learned_before) {
            let (met, mut place) = places.remove(session).unwrap_or_default();
            let mut topic_before = None;
            if learned > met {
                // Something learned earlier stands between this exchange and what comes before it here.
                let (found, topic) =
                    sql::place_before(&self.db, user, session, first, embedder.map(|known| known.id)).await?;
                place = found;
                topic_before = topic;
            }
            let setting = Setting {
                embedder: self.embedder.as_ref(),
                shape: self.settings.shape(),
                zone,
                tongues: &tongues,
                part_tokens: part_tokens
                    .get(exchange.collection.as_str())
                    .copied()
                    .unwrap_or(self.settings.part_tokens),
            };
            let (drafts, after) = learn::draft(exchange, &place, &setting);
            places.insert(session, (drafts.last().map(|draft| draft.id).max(met).max(learned), after));
            drafted.push((exchange, drafts, topic_before));
        }

        let texts: Vec<String> =
            drafted.iter().flat_map(|(_, drafts, _)| drafts.iter().map(learn::Draft::embedded_text)).collect();
        let vectors = self.embed_passages(&texts).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "Learned by words alone; vectors follow when the embedder answers");
            Vec::new()
        });
        let mut vectors = vectors.into_iter();

        let mut topics: HashMap<&str, (i32, Option<Vec<f32>>)> = HashMap::new();
        let mut rows = Vec::with_capacity(texts.len());
        for (exchange, drafts, topic_before) in drafted {
            let session = exchange.session.as_str();
            if let Some((topic, vectors)) = topic_before {
                topics.insert(session, (topic, learn::mean(vectors.iter().map(|vector| vector.0.as_slice()))));
            }
            let own: Vec<Option<Embedding>> = drafts.iter().map(|_| vectors.next().flatten()).collect();
            let meaning = learn::mean(own.iter().flatten().map(|vector| vector.0.as_slice()));
            let topic = learn::topic(topics.get(session), meaning.as_deref(), self.same_topic_above(embedder));
            if !drafts.is_empty() {
                topics.insert(session, (topic, meaning));
            }
            rows.extend(drafts.into_iter().zip(own).map(|(draft, vector)| sql::Row {
                exchange: exchange.id,
                session,
                collection: exchange.collection.as_str(),
                source: exchange.source.as_str(),
                topic,
                draft,
                vector,
            }));
        }
        let changed = sql::replace(&self.db, user, embedder.map(|known| known.id), &ids, rows).await?;
        // A hint: the next question reads what is missing.
        if let Some(change) = changed
            && let Err(error) = self.held.freshen(&self.db, user, self.space(embedder), &change).await
        {
            tracing::debug!(%error, "What is held of the passages is not current");
        }
        Ok(())
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        self.search(query).await
    }

    async fn explain(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        self.why(query, about).await
    }

    async fn used(&self, user: UserId, recalls: &[RecallId], at: DateTime<Utc>) -> Result<(), LayerError> {
        let of_kind = |kind: &str| -> Vec<i64> {
            recalls.iter().filter_map(|id| id.0.strip_prefix(kind)?.strip_prefix(':')?.parse().ok()).collect()
        };
        let (passages, episodes, segments) = (of_kind("passage"), of_kind("episode"), of_kind("segment"));
        Ok(sql::note_use(&self.db, user, &passages, &episodes, &segments, at).await?)
    }

    async fn forget(&self, user: UserId, _exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        self.held.let_go(user);
        Ok(())
    }

    /// Embeds what was learned while the embedder was away, and builds the index when a user has outgrown exact search.
    async fn prune(&self, _now: DateTime<Utc>) -> Result<Pruned, LayerError> {
        let Some(embedder) = self.met_embedder().await else {
            return Ok(Pruned { unfinished: true, ..Pruned::default() });
        };
        let unfinished = !self.embed_the_unembedded(embedder).await?;
        let most = i64::try_from(self.settings.exact_up_to).unwrap_or(i64::MAX);
        if !sql::has_near_index(&self.db, embedder.id).await?
            && sql::any_user_above(&self.db, embedder.id, most).await?
        {
            tracing::info!("A memory has outgrown exact search: building an index, which may take minutes");
            sql::build_near_index(&self.db, embedder.id, self.embedder.dimensions()).await?;
        }
        Ok(Pruned { unfinished, ..Pruned::default() })
    }

    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError> {
        let (counts, bytes) = sql::stats(&self.db, user).await?;
        Ok(LayerStats { counts, bytes: Some(bytes) })
    }
}

impl EpisodesLayer {
    /// The embedder as the database knows it, met now if it never was; `None` as long as it gives no answer. Then passages
    /// are found by words alone, and get their vectors later.
    async fn met_embedder(&self) -> Option<&sql::KnownEmbedder> {
        let met = self.met.get_or_try_init(|| async {
            let name = &self.embedder.id().0;
            if sql::embedder(&self.db, name).await?.is_none() {
                let background = Background::of(self.embedder.as_ref()).await?;
                sql::meet_embedder(&self.db, name, self.embedder.dimensions(), &background).await?;
            }
            sql::embedder(&self.db, name).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
        });
        met.await
            .inspect_err(|error: &LayerError| {
                tracing::warn!(%error, "The embedder gives no answer: passages are found by words alone until it does");
            })
            .ok()
    }

    /// The embedder as the database knows it; `None` when it was never met. A question does not wait for the meeting.
    pub(crate) async fn known_embedder(&self) -> Result<Option<&sql::KnownEmbedder>, LayerError> {
        if self.met.get().is_none()
            && let Some(known) = sql::embedder(&self.db, &self.embedder.id().0).await?
        {
            // Somebody else may have been faster, with the same.
            let _ = self.met.set(known);
        }
        Ok(self.met.get())
    }

    pub(crate) fn space(&self, embedder: Option<&sql::KnownEmbedder>) -> Option<Space> {
        embedder.map(|known| Space { embedder: known.id, dimensions: self.embedder.dimensions() })
    }

    /// A vector for each text. None for one that the embedder refuses, as it does no other: words must do for that.
    ///
    /// # Errors
    ///
    /// When the embedder is away, or has no fit answer to any text: a wrong key, another model under its name.
    async fn embed_passages(&self, texts: &[String]) -> Result<Vec<Option<Embedding>>, ModelError> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut waiting: Vec<&[String]> = texts.chunks(EMBED_TOGETHER).rev().collect();
        let mut is_there = false;
        while let Some(some) = waiting.pop() {
            let asked: Vec<&str> = some.iter().map(String::as_str).collect();
            let error = match self.embedder.embed(&asked, Purpose::Passage).await {
                Ok(embedded) => {
                    vectors.extend(embedded.into_iter().map(Some));
                    continue;
                }
                Err(error @ ModelError::Unreachable { .. }) => return Err(error),
                Err(error) => error,
            };
            if !is_there {
                // A text of its own each time, so that no cache answers for the embedder.
                self.embedder.embed(&[&format!("Hello {}", uuid::Uuid::new_v4())], Purpose::Passage).await?;
                is_there = true;
            }
            // It answers: the fault is in one of these texts.
            if some.len() == 1 {
                tracing::warn!(%error, "A passage cannot be embedded and is found by words alone");
                vectors.push(None);
            } else {
                let (first, second) = some.split_at(some.len() / 2);
                waiting.extend([second, first]);
            }
        }
        Ok(vectors)
    }

    /// Embeds what has no vector. Whether all was tried: not when the embedder is away.
    async fn embed_the_unembedded(&self, embedder: &sql::KnownEmbedder) -> Result<bool, LayerError> {
        let mut after = (UserId(uuid::Uuid::nil()), 0);
        loop {
            let lacking = sql::unembedded(&self.db, embedder.id, after, CATCH_UP).await?;
            let Some(last) = lacking.last() else { return Ok(true) };
            after = (last.user, last.id);
            for some in lacking.chunk_by(|a, b| a.user == b.user) {
                let texts: Vec<String> = some
                    .iter()
                    .map(|passage| learn::embedded_text(passage.speaker.as_deref(), &passage.text))
                    .collect();
                let vectors = match self.embed_passages(&texts).await {
                    Ok(vectors) => vectors,
                    Err(error) => {
                        tracing::debug!(%error, "Vectors are still missing");
                        return Ok(false);
                    }
                };
                let found = some.iter().zip(&vectors);
                let pairs: Vec<(i64, &Embedding)> =
                    found.filter_map(|(passage, vector)| Some((passage.id, vector.as_ref()?))).collect();
                if let Some(user) = some.first().map(|passage| passage.user) {
                    acting_for(user, async {
                        let mut connection = self.db.acquire().await?;
                        sql::insert_vectors(&mut connection, user, embedder.id, &pairs).await
                    })
                    .await?;
                }
            }
        }
    }

    /// The cosine above which two exchanges are on one topic. The setting speaks of models whose unrelated texts have a
    /// cosine near 0; others are measured by what unrelated means to them.
    fn same_topic_above(&self, embedder: Option<&sql::KnownEmbedder>) -> f32 {
        let nearness = self.settings.topic_threshold;
        embedder.map_or(nearness, |known| known.background.cosine_as_near_as(nearness))
    }

    /// The languages a user is known to write in; English when nothing is known.
    async fn tongues(&self, user: UserId) -> Result<Vec<Language>, LayerError> {
        Ok(tongues(&sql::tongues(&self.db, user).await?))
    }

    async fn zone(&self, user: UserId) -> Result<Tz, LayerError> {
        let name = sql::timezone(&self.db, user).await?;
        Ok(name.and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC))
    }
}

/// The languages of these ISO codes; English when there is none.
fn tongues(codes: &[String]) -> Vec<Language> {
    let known: Vec<Language> = codes.iter().filter_map(|code| Language::of(code)).collect();
    if known.is_empty() { vec![Language::ENGLISH] } else { known }
}
