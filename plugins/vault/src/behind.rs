//! What is learned behind the unlocking's back, and kept sealed: digests, so that the next unlocking is quick, and vectors.
//!
//! It may be broken off at any time: what is not kept yet is learned after the next unlocking.

use std::collections::HashSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use skymem_core::{Collection, LayerError, Purpose, Seq, UserId};
use skymem_seal::{LearnedKey, Place};
use skymem_search::draft::embedded_text;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::cores::{in_background, on_every_core};
use crate::digest::{self, TurnWords};
use crate::fold::Opened;
use crate::learned::{Entry, turn};
use crate::open::VECTORS;
use crate::room::{Made, Rooms};
use crate::shelf::Shelf;
use crate::sql;
use crate::vectors::Vectors;

/// So many passages are embedded at once.
const EMBED_TOGETHER: usize = 64;

/// So many digests are made at once.
const DIGEST_TOGETHER: usize = 500;

/// What was sealed to be kept: rows, versions of their keys, ciphertexts.
#[derive(Default)]
struct Sealed {
    rows: Vec<Uuid>,
    versions: Vec<i32>,
    ciphertexts: Vec<Vec<u8>>,
}

impl Sealed {
    fn push(&mut self, row: Uuid, version: u32, ciphertext: Vec<u8>) {
        self.rows.push(row);
        self.versions.push(i32::try_from(version).unwrap_or(i32::MAX));
        self.ciphertexts.push(ciphertext);
    }
}

/// A turn that has no digest, and the key to make it with.
#[derive(Clone)]
struct Undigested {
    collection: Collection,
    key: LearnedKey,
    opened: Arc<Opened>,
}

impl Rooms {
    /// Makes digests and vectors of what has none yet, and keeps them sealed. Ends at once when somebody is at it already.
    pub(crate) async fn learn(self: &Arc<Self>, user: UserId) -> Result<(), LayerError> {
        {
            let mut rooms = self.rooms();
            let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
            if std::mem::replace(&mut room.learning, true) {
                return Ok(());
            }
        }
        let learned = async {
            self.digest_all(user).await?;
            self.embed_all(user).await
        }
        .await;
        if let Some(room) = self.rooms().get_mut(&user) {
            room.learning = false;
        }
        learned
    }

    async fn digest_all(self: &Arc<Self>, user: UserId) -> Result<(), LayerError> {
        let shelf = self.current(user).await?;
        let zone = self.zone(user).await?;
        let undigested = self.undigested(user, &shelf);
        let passages = by_turn(&shelf);
        for some in undigested.chunks(DIGEST_TOGETHER) {
            let words = |turn: &Undigested| {
                // A turn that is not searched, as what a tool said, has none.
                let own = passages.get(&Seq(turn.opened.seq)).map(Vec::as_slice).unwrap_or_default();
                TurnWords::of(own.iter().copied(), zone)
            };
            let some: Vec<(Undigested, TurnWords)> = some.iter().map(|turn| (turn.clone(), words(turn))).collect();
            let (some, ciphertexts) = in_background(move || {
                let sealed = on_every_core(&some, |(Undigested { collection, key, opened }, words)| {
                    let (row, version) = (opened.row, opened.version);
                    digest::seal(key, Place { user, collection, row, column: "", version }, &opened.turn, words)
                });
                (some, sealed)
            })
            .await;
            let mut sealed = Sealed::default();
            for ((turn, _), ciphertext) in some.iter().zip(ciphertexts) {
                if let Ok(ciphertext) = ciphertext {
                    sealed.push(turn.opened.row, turn.opened.version, ciphertext);
                }
            }
            sql::keep_digests(self.db(), user, &sealed.rows, &sealed.versions, &sealed.ciphertexts).await?;
            let mut rooms = self.rooms();
            // Locked meanwhile: nothing more is learned.
            let Some(room) = rooms.get_mut(&user) else { return Ok(()) };
            for (turn, words) in some {
                if let Some(door) = room.doors.get_mut(&turn.collection) {
                    let seq = Seq(turn.opened.seq);
                    door.digested.insert(seq, Made::JustNow);
                    door.words.insert(seq, Arc::new(words));
                }
            }
        }
        Ok(())
    }

    /// The turns without a digest, or with one that has other words than the shelf.
    fn undigested(&self, user: UserId, shelf: &Shelf) -> Vec<Undigested> {
        let entries = shelf.learned.values().flat_map(|session| &session.entries);
        let other: HashSet<Seq> =
            entries.filter(|entry| !entry.was_known).map(|entry| turn(entry.passage.id)).collect();
        let rooms = self.rooms();
        let Some(room) = rooms.get(&user) else { return Vec::new() };
        let mut undigested = Vec::new();
        for (collection, door) in &room.doors {
            for (seq, opened) in &door.turns {
                let is_due = match door.digested.get(&Seq(*seq)) {
                    None => true,
                    Some(Made::Before) => other.contains(&Seq(*seq)),
                    Some(Made::JustNow) => false,
                };
                let key = door.keys.get(&opened.version).filter(|_| is_due).and_then(|key| key.learned().ok());
                if let Some(key) = key {
                    undigested.push(Undigested { collection: collection.clone(), key, opened: Arc::clone(opened) });
                }
            }
        }
        undigested
    }

    async fn embed_all(self: &Arc<Self>, user: UserId) -> Result<(), LayerError> {
        let mut tried: HashSet<Seq> = HashSet::new();
        loop {
            let shelf = self.current(user).await?;
            let lacking = lacking(&shelf, &tried);
            if lacking.is_empty() {
                return Ok(());
            }
            for some in lacking.chunk_by(|a, b| a.0 == b.0).collect::<Vec<_>>().chunks(EMBED_TOGETHER / 2) {
                let texts: Vec<&str> =
                    some.iter().flat_map(|turn| turn.iter().map(|(_, text)| text.as_str())).collect();
                tried.extend(some.iter().filter_map(|turn| turn.first()).map(|(seq, _)| *seq));
                let embedded = self.embedder.embed_once(&texts, Purpose::Passage).await?;
                let mut embedded = embedded.as_slice();
                let mut learned = Vec::with_capacity(some.len());
                for turn in some {
                    let Some((own, rest)) = embedded.split_at_checked(turn.len()) else { break };
                    embedded = rest;
                    learned.extend(turn.first().map(|(seq, _)| (*seq, Vectors::of(own))));
                }
                if !self.keep(user, learned).await? {
                    // One was locked meanwhile: nothing of it is held any longer.
                    break;
                }
            }
        }
    }

    /// Keeps vectors: in memory, and sealed in the database. Whether all of it is still unlocked.
    async fn keep(&self, user: UserId, learned: Vec<(Seq, Vectors)>) -> Result<bool, LayerError> {
        let (mut sealed, turns) = (Sealed::default(), learned.len());
        {
            let mut rooms = self.rooms();
            let Some(room) = rooms.get_mut(&user) else { return Ok(false) };
            for (seq, vectors) in learned {
                for (collection, door) in &mut room.doors {
                    let Some(row) = door.turns.get(&seq.0).map(|opened| opened.row) else { continue };
                    let Some((version, key)) = door.keys.last_key_value() else { continue };
                    let place = Place { user, collection, row, column: VECTORS, version: *version };
                    if let Ok(bytes) = key.learned().and_then(|key| key.seal(&place, &vectors.to_bytes())) {
                        sealed.push(row, *version, bytes);
                    }
                    door.vectors.insert(seq, Arc::new(vectors));
                    break;
                }
            }
            room.stale = true;
        }
        let Sealed { rows, versions, ciphertexts } = sealed;
        sql::keep_vectors(self.db(), user, &self.embedder.id().0, &rows, &versions, &ciphertexts).await?;
        Ok(rows.len() == turns)
    }
}

/// The passages of each turn, in order.
fn by_turn(shelf: &Shelf) -> FxHashMap<Seq, Vec<&Entry>> {
    let mut passages: FxHashMap<Seq, Vec<&Entry>> = FxHashMap::default();
    for entry in shelf.learned.values().flat_map(|session| &session.entries) {
        passages.entry(turn(entry.passage.id)).or_default().push(entry);
    }
    passages
}

/// Each passage of the turns that lack a vector, by its turn, in order, as it is embedded.
fn lacking(shelf: &Shelf, tried: &HashSet<Seq>) -> Vec<(Seq, Zeroizing<String>)> {
    let entries = || shelf.learned.values().flat_map(|session| &session.entries);
    let without: HashSet<Seq> = entries()
        .filter(|entry| entry.vector().is_none())
        .map(|entry| turn(entry.passage.id))
        .filter(|seq| !tried.contains(seq))
        .collect();
    entries()
        .map(|entry| (turn(entry.passage.id), &entry.passage))
        .filter(|(seq, _)| without.contains(seq))
        .map(|(seq, passage)| (seq, Zeroizing::new(embedded_text(passage.speaker.as_deref(), &passage.text))))
        .collect()
}
