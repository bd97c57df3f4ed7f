//! Facts as an assistant reads them, and where they come from.

use std::collections::HashMap;

use chrono::{DateTime, NaiveTime, Utc};
use skymem_core::facts::Evidence;
use skymem_core::{Citation, Provenance, Recall, RecallId, Score, Seq};

use super::weigh::Weighed;
use crate::NAME;
use crate::sql::ask::SaidIn;
use crate::view::{Glance, Place, Sighted};

/// So many exchanges a recall names as its origin, the newest.
const MOST_ROOTS: usize = 32;

/// What was weighed as a recall; `said` tells of the turns that may be named.
pub(crate) fn recall(weighed: &Weighed, glance: &Glance<'_>, said: &HashMap<Seq, SaidIn>) -> Option<Recall> {
    let facts: Vec<Sighted<'_>> = weighed.facts.iter().filter_map(|place| glance.at(*place)).collect();
    let first = facts.first()?;
    let subject = weighed.way.first().copied().unwrap_or(first.subject);
    let text = if weighed.way.is_empty() { sentence(glance, first) } else { way(glance, &facts, &weighed.way) };
    Some(Recall {
        id: id(glance, &weighed.facts),
        layer: NAME,
        text,
        score: Score(weighed.score),
        citation: Citation::fact(glance.head(subject)?.name.as_str()),
        provenance: provenance(glance, &facts, said),
        neighbours: Vec::new(),
    })
}

/// Names a recall: the facts it tells.
pub(crate) fn id(glance: &Glance<'_>, facts: &[Place]) -> RecallId {
    let ids = facts.iter().filter_map(|place| glance.at(*place)).map(|sighted| glance.id(&sighted).to_string());
    let kind = if facts.len() > 1 { "path" } else { "fact" };
    RecallId(format!("{kind}:{}", ids.collect::<Vec<_>>().join("+")))
}

/// A fact as a sentence, with the times that were said.
pub(crate) fn sentence(glance: &Glance<'_>, sighted: &Sighted<'_>) -> String {
    format!("{}{}.", glance.sentence(sighted), times(sighted))
}

fn times(sighted: &Sighted<'_>) -> String {
    let held = sighted.held;
    match (Some(held.from).filter(|_| held.from_is_said), held.to) {
        (Some(from), Some(to)) => format!(" (from {} until {})", day(from), day(to)),
        (Some(from), None) => format!(" (since {})", day(from)),
        (None, Some(to)) => format!(" (until {})", day(to)),
        (None, None) => String::new(),
    }
}

/// A day, with the time when it is not the day's beginning.
fn day(at: DateTime<Utc>) -> String {
    let form = if at.time() == NaiveTime::MIN { "%Y-%m-%d" } else { "%Y-%m-%d %H:%M UTC" };
    at.format(form).to_string()
}

/// Each hop as a sentence, in the order of the way, which passes `entities`.
fn way(glance: &Glance<'_>, facts: &[Sighted<'_>], entities: &[u32]) -> String {
    let hops = facts.iter().zip(entities).map(|(sighted, from)| {
        let forwards = sighted.subject == *from;
        let told = if forwards { glance.sentence(sighted) } else { glance.inverse(sighted) };
        told + &times(sighted)
    });
    format!("{}.", hops.collect::<Vec<_>>().join("; "))
}

fn provenance(glance: &Glance<'_>, facts: &[Sighted<'_>], said: &HashMap<Seq, SaidIn>) -> Provenance {
    let evidence: Vec<Evidence> = facts.iter().flat_map(|sighted| glance.evidence(sighted.held)).collect();
    let mut turns: Vec<(Seq, &SaidIn)> =
        evidence.iter().filter_map(|one| one.seq).filter_map(|seq| Some((seq, said.get(&seq)?))).collect();
    turns.sort_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    turns.dedup_by_key(|(_, said)| said.exchange);
    let Some((_, newest)) = turns.first() else {
        let lines = evidence.iter().filter_map(|one| Some((one.file.clone()?, one.said_at)));
        let newest = lines.max_by_key(|(_, said_at)| *said_at);
        let (file, occurred_at) = newest.map_or((None, None), |(file, said_at)| (Some(file), Some(said_at)));
        return Provenance { file, occurred_at, ..Provenance::default() };
    };
    let several = turns.len() > 1;
    let exchanges = turns.iter().filter(|_| several).take(MOST_ROOTS).map(|(_, said)| said.exchange);
    Provenance {
        exchange: Some(newest.exchange),
        exchanges: exchanges.collect(),
        session: newest.session.clone(),
        seqs: Some(newest.seqs),
        collection: newest.collection.clone(),
        source: newest.source.clone(),
        occurred_at: Some(newest.occurred_at),
        pinned: newest.pinned,
        ..Provenance::default()
    }
}
