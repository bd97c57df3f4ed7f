//! From decrypted turns to exchanges: pure.
//!
//! A locked server cannot tell all repetitions, so that something may be written twice (see the journal's `sealed/recent`).
//! The rules by which the journal leaves repetitions out are applied here, over all that was written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use skymem_core::{Collection, Exchange, ExchangeId, ExchangeKind, Seq, SessionId, Turn, UserId};
use skymem_seal::SealedTurn;
use uuid::Uuid;
use zeroize::Zeroize;

/// A turn that was decrypted.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) seq: i64,
    /// The row it stands in.
    pub(crate) row: Uuid,
    /// The version of the key it was written with.
    pub(crate) version: u32,
    pub(crate) exchange: ExchangeId,
    pub(crate) turn: SealedTurn,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.turn.text.zeroize();
        self.turn.speaker.zeroize();
        self.turn.client_id.zeroize();
    }
}

/// The exchanges of a collection, by the place of their first turn. `turns` come in the order of their places.
pub(crate) fn exchanges(user: UserId, collection: &Collection, turns: &[Arc<Opened>]) -> BTreeMap<i64, Exchange> {
    let mut strands: HashMap<(&SessionId, ExchangeKind), Strand<'_>> = HashMap::new();
    let mut exchanges: BTreeMap<i64, Exchange> = BTreeMap::new();
    let mut first: HashMap<ExchangeId, i64> = HashMap::new();
    for batch in turns.chunk_by(|a, b| a.turn.batch.0 == b.turn.batch.0) {
        let Some(opening) = batch.first() else { continue };
        let strand = strands.entry((&opening.turn.session, opening.turn.kind)).or_default();
        for opened in strand.news(batch) {
            let at = *first.entry(opened.exchange).or_insert(opened.seq);
            let exchange = exchanges.entry(at).or_insert_with(|| Exchange {
                user,
                id: opened.exchange,
                session: opened.turn.session.clone(),
                collection: collection.clone(),
                kind: opened.turn.kind,
                source: opened.turn.source.clone(),
                pinned: opened.turn.pinned,
                turns: Vec::new(),
            });
            exchange.turns.push(Turn {
                seq: Seq(opened.seq),
                role: opened.turn.role,
                speaker: opened.turn.speaker.clone(),
                text: opened.turn.text.clone(),
                occurred_at: opened.turn.occurred_at,
                recorded_at: opened.turn.recorded_at,
                statement: None,
            });
        }
    }
    exchanges
}

/// What was said so far in a session.
#[derive(Default)]
struct Strand<'a> {
    said: Vec<&'a SealedTurn>,
    client_ids: HashSet<&'a str>,
}

impl<'a> Strand<'a> {
    /// The turns of a batch that are no repetitions.
    fn news(&mut self, batch: &'a [Arc<Opened>]) -> Vec<&'a Opened> {
        let end = self.said.get(self.said.len().saturating_sub(batch.len())..).unwrap_or_default();
        let same = |(said, turn): (&&SealedTurn, &Arc<Opened>)| match &turn.turn.client_id {
            Some(id) => said.client_id.as_ref() == Some(id),
            None => said.content_hash == turn.turn.content_hash,
        };
        let told_apart = batch.iter().any(|opened| opened.turn.told_apart);
        let repeated = (0..end.len())
            .filter(|_| !told_apart)
            .filter_map(|start| end.get(start..))
            .find(|tail| tail.iter().zip(batch).all(same))
            .map_or(0, |tail| tail.len().min(batch.len()));
        let mut news = Vec::new();
        for opened in batch.iter().skip(repeated) {
            let is_new = opened.turn.client_id.as_deref().is_none_or(|id| self.client_ids.insert(id));
            if is_new || opened.turn.told_apart {
                self.said.push(&opened.turn);
                news.push(opened.as_ref());
            }
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use skymem_core::Role;

    use super::*;

    /// Batches from this number on were told apart from repetitions before they were sealed.
    const TOLD_APART: u128 = 100;

    /// Turns of one session: `batch/exchange/text`, with `#id` when they have a client id.
    fn said(turns: &[(u128, u128, &str, Option<&str>)]) -> Vec<Arc<Opened>> {
        let opened = |(seq, (batch, exchange, text, id)): (usize, &(u128, u128, &str, Option<&str>))| Opened {
            seq: i64::try_from(seq).unwrap(),
            row: Uuid::from_u128(seq as u128),
            version: 1,
            exchange: ExchangeId(Uuid::from_u128(*exchange)),
            turn: SealedTurn {
                session: "s".parse().unwrap(),
                kind: ExchangeKind::Said,
                source: "session".parse().unwrap(),
                role: Role::User,
                speaker: None,
                text: (*text).into(),
                parts: None,
                occurred_at: DateTime::UNIX_EPOCH,
                recorded_at: DateTime::UNIX_EPOCH,
                client_id: id.map(str::to_owned),
                content_hash: text.as_bytes().to_vec(),
                batch: (Uuid::from_u128(*batch), 0),
                told_apart: *batch >= TOLD_APART,
                pinned: false,
            },
        };
        turns.iter().enumerate().map(opened).map(Arc::new).collect()
    }

    fn check(turns: &[(u128, u128, &str, Option<&str>)], expected: &[&[&str]]) {
        let (turns, health) = (said(turns), "health".parse().unwrap());
        let exchanges = exchanges(UserId(Uuid::nil()), &health, &turns);
        let texts: Vec<Vec<&str>> =
            exchanges.values().map(|exchange| exchange.turns.iter().map(|turn| turn.text.as_str()).collect()).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn turns_of_one_exchange_stand_together_however_they_came() {
        check(&[(1, 1, "hi", None), (2, 1, "hello", None), (3, 2, "bye", None)], &[&["hi", "hello"], &["bye"]]);
    }

    #[test]
    fn what_one_write_repeats_of_another_is_there_once() {
        check(&[(1, 1, "a", None), (1, 1, "b", None), (2, 2, "a", None), (2, 2, "b", None)], &[&["a", "b"]]);
        check(&[(1, 1, "a", None), (1, 1, "b", None), (2, 2, "b", None), (2, 2, "c", None)], &[&["a", "b"], &["c"]]);
        check(&[(1, 1, "a", Some("x")), (2, 2, "b", None), (3, 3, "a", Some("x"))], &[&["a"], &["b"]]);
    }

    #[test]
    fn what_was_no_repetition_before_it_was_sealed_is_none_after_it() {
        check(
            &[(101, 1, "a", None), (102, 1, "b", None), (103, 2, "a", None), (104, 2, "b", None)],
            &[&["a", "b"], &["a", "b"]],
        );
        check(&[(101, 1, "a", Some("x")), (2, 2, "a", Some("x"))], &[&["a"]]);
    }

    #[test]
    fn what_is_said_again_later_is_said_again() {
        check(&[(1, 1, "a", None), (2, 2, "b", None), (3, 3, "a", None)], &[&["a"], &["b"], &["a"]]);
    }
}
