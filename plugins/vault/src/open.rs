//! From sealed rows to turns, their words and their vectors: pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use skymem_core::{Collection, ExchangeId, UserId};
use skymem_seal::{LearnedKey, Place, SealError, SealedTurn, SecretKey};

use crate::cores::on_every_core;
use crate::digest::{self, TurnWords};
use crate::fold::Opened;
use crate::sql;
use crate::vectors::Vectors;

/// The column that vectors are sealed for.
pub(crate) const VECTORS: &str = "vectors";

/// A row as far as it can be read.
pub(crate) struct Read {
    pub(crate) seq: i64,
    pub(crate) exchange: ExchangeId,
    pub(crate) turn: Result<Opened, SealError>,
    /// `None` when they are not known yet, or cannot be read: then they are told anew.
    pub(crate) words: Option<TurnWords>,
    /// As `words`.
    pub(crate) vectors: Option<Vectors>,
}

/// A key, and the one for what was learned with it.
struct Keys {
    secret: SecretKey,
    learned: Option<LearnedKey>,
}

/// Opens rows on all cores, in their order.
pub(crate) fn open_all(
    user: UserId,
    collection: &Collection,
    rows: &[sql::Row],
    keys: &BTreeMap<u32, SecretKey>,
) -> Vec<Read> {
    let of = |(version, key): (&u32, &SecretKey)| (*version, Keys { secret: key.clone(), learned: key.learned().ok() });
    let keys: BTreeMap<u32, Keys> = keys.iter().map(of).collect();
    on_every_core(rows, |row| {
        let version = u32::try_from(row.key_version).unwrap_or(0);
        let exchange = ExchangeId(row.exchange_id);
        let place = |version| Place { user, collection, row: row.id, column: VECTORS, version };
        let (turn, words) = match keys.get(&version) {
            Some(keys) => turn(row, keys, place(version)),
            None => {
                let tried = keys.keys().next_back().copied().unwrap_or(0);
                (Err(SealError::OtherVersion { written: version, tried }), None)
            }
        };
        let vectors = row.vectors.as_deref().and_then(|sealed| {
            let version = u32::try_from(row.vectors_version?).ok()?;
            Vectors::from_bytes(&keys.get(&version)?.learned.as_ref()?.open(&place(version), sealed).ok()?)
        });
        let opened = |turn| Opened { seq: row.seq, row: row.id, version, exchange, turn };
        Read { seq: row.seq, exchange, turn: turn.map(opened), words, vectors }
    })
}

/// The turn of a row, from its digest where there is one: a key agreement takes as long as twenty of those.
fn turn(row: &sql::Row, keys: &Keys, place: Place<'_>) -> (Result<SealedTurn, SealError>, Option<TurnWords>) {
    let digest = row.digest.as_deref().zip(keys.learned.as_ref());
    match (digest.map(|(sealed, key)| digest::open(key, place, sealed)), &row.ciphertext) {
        (Some(Ok((turn, words))), _) => (Ok(turn), Some(words)),
        (_, Some(ciphertext)) => (SealedTurn::open(&keys.secret, place, ciphertext), None),
        (Some(Err(error)), None) => (Err(error), None),
        (None, None) => (Err(SealError::Tampered), None),
    }
}

/// The rows whose digest does not open: they are read again from what was written first.
pub(crate) fn damaged(read: &[Read], rows: &[sql::Row]) -> Vec<uuid::Uuid> {
    let rows = read.iter().zip(rows).filter(|(read, row)| read.turn.is_err() && row.ciphertext.is_none());
    rows.map(|(_, row)| row.id).collect()
}

/// What is kept of a turn beside what was said.
pub(crate) type Known<T> = rustc_hash::FxHashMap<skymem_core::Seq, Arc<T>>;
