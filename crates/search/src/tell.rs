//! Recalls as they are read.

use skymem_core::{Citation, Considered, ExchangeId, LayerName, Provenance, Recall, RecallId, Score, Unit};

use crate::choose::{Candidate, Passage};

/// How much of a text an explanation shows.
const EXCERPT: usize = 120;

/// A recall of `layer` that stands for a candidate; `own` are the passages it is made of, in order.
#[must_use]
pub fn recall(layer: &LayerName, unit: Unit, candidate: &Candidate, own: &[&Passage]) -> Recall {
    let hit = &candidate.passage;
    let first = own.first().copied().unwrap_or(hit);
    let last = own.last().copied().unwrap_or(hit);
    let id = match unit {
        Unit::Turn => format!("passage:{}", hit.id),
        Unit::Exchange if hit.split => format!("passage:{}", hit.id),
        Unit::Exchange => format!("episode:{}", hit.episode),
        Unit::Segment => format!("segment:{}", first.id),
    };
    let mut exchanges: Vec<ExchangeId> = own.iter().map(|passage| ExchangeId(passage.exchange_id)).collect();
    exchanges.dedup();
    let lines: Vec<String> = own.iter().map(|passage| passage.line()).collect();
    Recall {
        id: RecallId(id),
        layer: layer.clone(),
        text: lines.join("\n"),
        // Further decimals differ with who compared, the database or this program.
        score: Score((candidate.score * 10_000.0).round() / 10_000.0),
        citation: Citation::session(hit.occurred_at),
        provenance: Provenance {
            exchange: Some(ExchangeId(hit.exchange_id)),
            exchanges: if exchanges.len() > 1 { exchanges } else { Vec::new() },
            session: hit.session_id.parse().ok(),
            seqs: Some((first.seq(), last.seq())),
            collection: hit.collection.parse().ok(),
            source: hit.source.parse().ok(),
            occurred_at: Some(hit.occurred_at),
            role: (unit == Unit::Turn).then_some(hit.role),
            speaker: if unit == Unit::Turn { hit.speaker.clone() } else { None },
            topic: None,
            file: None,
            pinned: hit.pinned,
        },
        neighbours: Vec::new(),
    }
}

/// A candidate and what became of it.
#[must_use]
pub fn considered(candidate: &Candidate) -> Considered {
    let passage = &candidate.passage;
    let score = |name: &str, value: f32| (name.to_owned(), value);
    let mut scores: Vec<(String, f32)> = Vec::new();
    let names = [["vector", "words", "evidence"], ["rewrite_vector", "rewrite_words", "rewrite_evidence"]];
    for (near, [vector, words, evidence]) in candidate.near.iter().zip(names) {
        scores.extend(near.cosine.map(|cosine| score(vector, cosine)));
        scores.push(score(words, near.words));
        scores.push(score(evidence, near.evidence));
    }
    scores.extend([
        score("fused", candidate.fused),
        score("relevance", candidate.relevance),
        score("decay", candidate.decay),
        score("score", candidate.score),
    ]);
    Considered {
        id: RecallId(format!("passage:{}", passage.id)),
        exchange: Some(ExchangeId(passage.exchange_id)),
        excerpt: passage.line().chars().take(EXCERPT).collect(),
        scores,
        fate: candidate.fate,
    }
}
