//! What is learned of a session: passages, their words and their vectors. Overwritten when it is let go.

use std::cell::RefCell;
use std::sync::Arc;

use chrono_tz::Tz;
use half::f16;
use rustc_hash::FxHashSet;
use skymem_core::{Embedder, Exchange, Seq};
use skymem_search::calibrate::Background;
use skymem_search::choose::{PARTS_PER_TURN, Passage};
use skymem_search::draft::{self, Place, Setting, Shape};
use skymem_search::places::PassageId;
use skymem_search::words::{Count, Language};
use zeroize::Zeroize;

use crate::digest::TurnWords;
use crate::open::Known;
use crate::vectors::Vectors;

/// How near two exchanges are that are on one topic, and what far means.
#[derive(Clone, Copy)]
pub(crate) struct Topics<'a> {
    pub(crate) threshold: f32,
    pub(crate) background: Option<&'a Background>,
}

/// What the passages of a user have in common.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'a> {
    pub(crate) embedder: &'a dyn Embedder,
    pub(crate) shape: Shape,
    pub(crate) zone: Tz,
    pub(crate) topics: Topics<'a>,
}

/// A passage with what it is found by.
pub(crate) struct Entry {
    pub(crate) passage: Passage,
    pub(crate) follows: Option<PassageId>,
    pub(crate) words: usize,
    pub(crate) word_weight: f32,
    pub(crate) language: Language,
    pub(crate) postings: Vec<(String, Count)>,
    /// Whether its words were known already.
    pub(crate) was_known: bool,
    vectors: Option<Arc<Vectors>>,
}

impl Entry {
    /// Its vector, if it is known.
    pub(crate) fn vector(&self) -> Option<&[f16]> {
        self.vectors.as_ref()?.part(part(self.passage.id))
    }
}

/// The turn that a passage is of, and which of its passages it is.
pub(crate) fn turn(id: PassageId) -> Seq {
    Seq(id / PARTS_PER_TURN)
}

fn part(id: PassageId) -> usize {
    usize::try_from(id % PARTS_PER_TURN).unwrap_or(usize::MAX)
}

/// What is known of turns from before.
#[derive(Clone, Copy)]
pub(crate) struct Before<'a> {
    pub(crate) words: &'a Known<TurnWords>,
    pub(crate) vectors: &'a Known<Vectors>,
}

/// The passages of one session, in order.
pub(crate) struct Learned {
    /// The last turn, and how many there are: whether anything was said since.
    pub(crate) reach: (Seq, usize),
    /// Of how many of its turns the vectors are known.
    pub(crate) with_vectors: usize,
    pub(crate) entries: Vec<Entry>,
    /// The languages that are spoken in it.
    pub(crate) tongues: Vec<Language>,
}

/// How far a session reaches.
pub(crate) fn reach(exchanges: &[&Exchange]) -> (Seq, usize) {
    let last = exchanges.iter().map(|exchange| exchange.last_seq()).max().unwrap_or(Seq(0));
    (last, exchanges.iter().map(|exchange| exchange.turns.len()).sum())
}

/// Of how many turns the vectors are known.
pub(crate) fn with_vectors(exchanges: &[&Exchange], vectors: &Known<Vectors>) -> usize {
    exchanges.iter().flat_map(|exchange| &exchange.turns).filter(|turn| vectors.contains_key(&turn.seq)).count()
}

impl Learned {
    /// What is learned of a session.
    pub(crate) fn of(
        exchanges: &[&Exchange],
        before: Before<'_>,
        ways: Ways<'_>,
        part_tokens: impl Fn(&Exchange) -> usize,
    ) -> Self {
        let told = |id: PassageId, text: &str| {
            before.words.get(&turn(id)).and_then(|words| words.part(part(id), text, ways.zone))
        };
        let mut entries: Vec<Entry> = Vec::new();
        let mut place = Place::default();
        let mut tongues: Vec<Language> = vec![Language::ENGLISH];
        let mut topic: Option<(i32, Option<Vec<f32>>)> = None;
        let same_above = ways
            .topics
            .background
            .map_or(ways.topics.threshold, |background| background.cosine_as_near_as(ways.topics.threshold));
        for exchange in exchanges {
            let setting = Setting {
                embedder: ways.embedder,
                shape: ways.shape,
                zone: ways.zone,
                tongues: &tongues,
                part_tokens: part_tokens(exchange),
            };
            let known: RefCell<FxHashSet<PassageId>> = RefCell::default();
            let tell = |id: PassageId, text: &str| {
                let words = told(id, text)?;
                known.borrow_mut().insert(id);
                Some(words)
            };
            let (drafts, after) = draft::draft_known(exchange, &place, &setting, &tell);
            let known = known.into_inner();
            place = after;
            for draft in &drafts {
                if !tongues.contains(&draft.language) {
                    tongues.push(draft.language);
                }
            }
            let own = entries.len();
            for draft in drafts {
                entries.push(Entry {
                    follows: draft.follows,
                    words: draft.words,
                    word_weight: draft.word_weight,
                    language: draft.language,
                    was_known: known.contains(&draft.id),
                    vectors: before.vectors.get(&turn(draft.id)).cloned(),
                    passage: Passage {
                        id: draft.id,
                        exchange_id: exchange.id.0,
                        session_id: exchange.session.to_string(),
                        collection: exchange.collection.to_string(),
                        source: exchange.source.to_string(),
                        role: draft.role,
                        speaker: draft.speaker,
                        text: draft.text,
                        occurred_at: draft.occurred_at,
                        episode: draft.episode,
                        split: draft.split,
                        topic: 0,
                        pinned: exchange.pinned,
                    },
                    postings: draft.postings.into_iter().collect(),
                });
            }
            let Some(new) = entries.get_mut(own..).filter(|new| !new.is_empty()) else { continue };
            let wide: Vec<Vec<f32>> = new.iter().filter_map(Entry::vector).map(widened).collect();
            let meaning = draft::mean(wide.iter().map(Vec::as_slice));
            let number = draft::topic(topic.as_ref(), meaning.as_deref(), same_above);
            new.iter_mut().for_each(|entry| entry.passage.topic = number);
            topic = Some((number, meaning));
        }
        Self { reach: reach(exchanges), with_vectors: with_vectors(exchanges, before.vectors), entries, tongues }
    }
}

fn widened(vector: &[f16]) -> Vec<f32> {
    vector.iter().map(|value| value.to_f32()).collect()
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.passage.text.zeroize();
        self.passage.session_id.zeroize();
        self.passage.source.zeroize();
        self.passage.speaker.zeroize();
        self.postings.iter_mut().for_each(|(term, _)| term.zeroize());
    }
}
