//! All that is unlocked of a user, as it is searched. Overwritten when it is let go.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rustc_hash::FxHashMap;
use skymem_core::{Exchange, ExchangeId, Filter, Query, Seq, SessionId};
use skymem_search::bm25::{Hit, Measure, Sheet};
use skymem_search::choose::{PARTS_PER_TURN, Passage};
use skymem_search::contents::Contents;
use skymem_search::places::PassageId;
use skymem_search::words::Language;
use zeroize::Zeroize;

use crate::learned::{Entry, Learned};

/// All that is unlocked of a user.
#[derive(Default)]
pub(crate) struct Shelf {
    /// By the place of the first turn.
    exchanges: BTreeMap<i64, Exchange>,
    by_id: HashMap<ExchangeId, i64>,
    recorded_at: HashMap<Seq, DateTime<Utc>>,
    pub(crate) learned: BTreeMap<String, Arc<Learned>>,
    at: FxHashMap<PassageId, (String, usize)>,
    pub(crate) sheet: Option<Sheet>,
    pub(crate) contents: Contents,
    pub(crate) tongues: Vec<Language>,
}

impl Shelf {
    pub(crate) fn new(exchanges: BTreeMap<i64, Exchange>, learned: BTreeMap<String, Arc<Learned>>) -> Self {
        let entries = || learned.values().flat_map(|session| &session.entries);
        let measure = |entry: &Entry| Measure { words: entry.words as f32, weight: entry.word_weight };
        let sheet = Sheet::new(entries().map(|entry| (entry.passage.id, entry.follows, measure(entry))).collect());
        let mut contents = Contents::default();
        let vectors = entries().filter_map(|entry| Some((entry.passage.id, entry.vector()?)));
        contents.add_vectors(vectors, &sheet);
        let words =
            entries().filter_map(|entry| Some((sheet.place(entry.passage.id)?, entry))).flat_map(|(place, entry)| {
                entry.postings.iter().map(move |(term, count)| (term.as_str(), [Hit { place, count: *count }]))
            });
        contents.add_words(words, &sheet);
        let mut at = FxHashMap::default();
        for (name, session) in &learned {
            let places = session.entries.iter().enumerate();
            at.extend(places.map(|(place, entry)| (entry.passage.id, (name.clone(), place))));
        }
        let mut tongues = vec![Language::ENGLISH];
        for tongue in learned.values().flat_map(|session| &session.tongues) {
            if !tongues.contains(tongue) {
                tongues.push(*tongue);
            }
        }
        Self {
            by_id: exchanges.iter().map(|(at, exchange)| (exchange.id, *at)).collect(),
            recorded_at: exchanges
                .values()
                .flat_map(|exchange| exchange.turns.iter().map(|turn| (turn.seq, turn.recorded_at)))
                .collect(),
            exchanges,
            learned,
            at,
            sheet: Some(sheet),
            contents,
            tongues,
        }
    }

    /// How many passages are not searched by their meaning yet.
    pub(crate) fn without_vector(&self) -> usize {
        let entries = self.learned.values().flat_map(|session| &session.entries);
        entries.filter(|entry| entry.vector().is_none()).count()
    }

    /// One exchange.
    pub(crate) fn exchange(&self, id: ExchangeId) -> Option<&Exchange> {
        self.exchanges.get(self.by_id.get(&id)?)
    }

    /// What was said in a session, oldest first.
    pub(crate) fn session(&self, session: &SessionId) -> Vec<Exchange> {
        self.exchanges.values().filter(|exchange| exchange.session == *session).cloned().collect()
    }

    /// A passage.
    pub(crate) fn passage(&self, id: PassageId) -> Option<&Passage> {
        let (session, place) = self.at.get(&id)?;
        Some(&self.learned.get(session)?.entries.get(*place)?.passage)
    }

    /// The passages of the session that a passage was said in, in order.
    pub(crate) fn around(&self, passage: &Passage) -> impl Iterator<Item = &Passage> {
        let session = self.learned.get(&strand(&passage.collection, &passage.session_id));
        session.into_iter().flat_map(|session| session.entries.iter().map(|entry| &entry.passage))
    }

    /// The passages of an exchange.
    pub(crate) fn passages_of(&self, exchange: ExchangeId) -> Vec<PassageId> {
        let session = self
            .exchange(exchange)
            .and_then(|exchange| self.learned.get(&strand(exchange.collection.as_str(), exchange.session.as_str())));
        let entries = session.into_iter().flat_map(|session| &session.entries);
        entries.filter(|entry| entry.passage.exchange_id == exchange.0).map(|entry| entry.passage.id).collect()
    }

    /// Whether a passage may come back.
    pub(crate) fn lets(&self, passage: &Passage, query: &Query) -> bool {
        let Filter { sessions, collections, sources, roles, time, pinned } = &query.filter;
        let recorded = self.recorded_at.get(&Seq(passage.id / PARTS_PER_TURN));
        (sessions.is_empty() || sessions.iter().any(|session| session.as_str() == passage.session_id))
            && (collections.is_empty() || collections.iter().any(|name| name.as_str() == passage.collection))
            && (sources.is_empty() || sources.iter().any(|source| source.as_str() == passage.source))
            && (roles.is_empty() || roles.contains(&passage.role))
            && time.is_none_or(|time| time.contains(passage.occurred_at))
            && pinned.is_none_or(|pinned| pinned == passage.pinned)
            && query.as_of.is_none_or(|as_of| passage.occurred_at <= as_of)
            && query.known_at.is_none_or(|known_at| recorded.is_some_and(|recorded| *recorded <= known_at))
    }
}

/// A session of a collection: two collections may hold sessions of one id.
pub(crate) fn strand(collection: &str, session: &str) -> String {
    format!("{collection}/{session}")
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.contents.wipe();
        for exchange in self.exchanges.values_mut() {
            for turn in &mut exchange.turns {
                turn.text.zeroize();
                turn.speaker.zeroize();
            }
        }
    }
}
