//! What exchanges and files say, as claims.

use skymem_core::facts::{EntityName, Origin, Statement};
use skymem_core::{Exchange, ExchangeKind, Role, Turn};
use uuid::Uuid;

use crate::claim::{Claim, Place};
use crate::sources::{Found, patterns};

/// What an exchange says without a model having read it: a statement that it is, or what patterns find in it.
pub(crate) fn claims_of(exchange: &Exchange, with_patterns: bool) -> Vec<Claim> {
    let mut claims = Vec::new();
    for turn in &exchange.turns {
        if exchange.kind == ExchangeKind::Stated {
            let source = exchange.source.as_str();
            let imported = source == "import" || source.starts_with("import:");
            let origin = if imported { Origin::Import } else { Origin::Asserted };
            let statement = turn.statement.as_deref().cloned();
            claims.extend(statement.and_then(|statement| {
                let confidence = if let Statement::Holds(holds) = &statement { holds.confidence } else { 1.0 };
                claim(exchange, turn, claims.len(), origin, Found { statement, confidence })
            }));
        } else if let Some(subject) = speaker(turn).filter(|_| with_patterns) {
            for found in patterns::find(&turn.text, &subject, turn.occurred_at) {
                claims.extend(claim(exchange, turn, claims.len(), Origin::Pattern, found));
            }
        }
    }
    claims
}

/// What a model found in an exchange. It is taken for said in the first turn of a person.
pub(crate) fn claims_of_model(exchange: &Exchange, found: Vec<Found>) -> Vec<Claim> {
    let Some(turn) = exchange.turns.iter().find(|turn| speaker(turn).is_some()) else { return Vec::new() };
    let mut claims = Vec::new();
    for found in found {
        claims.extend(claim(exchange, turn, claims.len(), Origin::Model, found));
    }
    claims
}

/// Whether there is anything in an exchange for a model.
pub(crate) fn is_worth_reading(exchange: &Exchange) -> bool {
    let says = |turn: &Turn| speaker(turn).is_some() && turn.text.chars().any(char::is_alphabetic);
    exchange.kind != ExchangeKind::Stated && exchange.turns.iter().any(says)
}

/// Tells whether an exchange has changed.
pub(crate) fn digest(exchange: &Exchange) -> Vec<u8> {
    let turns = exchange.turns.iter().flat_map(|turn| {
        [turn.role.as_str(), turn.speaker.as_deref().unwrap_or_default(), &turn.text].map(str::as_bytes)
    });
    let text: Vec<u8> = turns.flat_map(|part| [part, &[0]].concat()).collect();
    Uuid::new_v5(&exchange.id.0, &text).as_bytes().to_vec()
}

/// Who says "I" in a turn: the person, or whoever is named as the speaker. An assistant's words are no evidence.
fn speaker(turn: &Turn) -> Option<EntityName> {
    match (&turn.speaker, turn.role) {
        (Some(speaker), Role::User | Role::Assistant) => speaker.parse().ok(),
        (None, Role::User) => EntityName::SELF.parse().ok(),
        _ => None,
    }
}

/// What was found as a claim; `None` when it contradicts itself.
fn claim(exchange: &Exchange, turn: &Turn, number: usize, origin: Origin, found: Found) -> Option<Claim> {
    let Found { statement, confidence } = found;
    let sure = confidence > 0.0 && confidence <= 1.0;
    if let Some(fault) = statement.check().err() {
        tracing::debug!(exchange = %exchange.id, %fault, "A statement about facts was passed over");
        return None;
    }
    sure.then(|| Claim {
        statement,
        confidence,
        origin,
        place: Place::Turn {
            exchange: exchange.id,
            number: u32::try_from(number).unwrap_or(u32::MAX),
            seq: turn.seq,
            session: exchange.session.clone(),
            collection: exchange.collection.clone(),
        },
        said_at: turn.occurred_at,
        recorded_at: turn.recorded_at,
    })
}
