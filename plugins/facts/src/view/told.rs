//! What is seen is told: entities as they are called, facts in full with what supports them.

use std::cmp::Reverse;
use std::collections::HashMap;

use skymem_core::facts::{Entity, EntityHead, EntityKind, EntityName, Evidence, Fact, FactObject, Predicate};
use skymem_core::{Collection, ExchangeId, Seq};

use super::numbers::number;
use super::{Being, Glance, Said, Sighted, Source, Value, Written};
use crate::predicates::Traits;
use crate::timeline::Held;

/// The person whose memory it is, in sentences.
const THE_USER: &str = "the user";

impl<'a> Glance<'a> {
    /// How many predicates there are.
    pub(crate) fn predicates(&self) -> u32 {
        number(self.view.predicates.len())
    }

    /// The person whose memory it is, when anything was said of them.
    pub(crate) fn oneself(&self) -> Option<u32> {
        self.view.named(EntityName::SELF)
    }

    pub(crate) fn traits(&self, predicate: u32) -> Option<&'a Traits> {
        self.view.predicates.get(predicate as usize).map(|(_, traits)| traits)
    }

    pub(crate) fn predicate(&self, predicate: u32) -> Option<&'a Predicate> {
        self.view.predicates.get(predicate as usize).map(|(predicate, _)| predicate)
    }

    /// How many entities there are, those that cannot be seen from here included.
    pub(crate) fn entities(&self) -> u32 {
        number(self.view.beings.len())
    }

    /// An entity as it is seen; `None` when nobody had named it yet.
    pub(crate) fn head(&self, entity: u32) -> Option<EntityHead> {
        let being = self.view.being(entity)?;
        let name = self.written(&being.names).or_else(|| being.aliases.iter().find_map(|alias| self.written(alias)))?;
        Some(EntityHead { id: being.id, name: name.clone(), kind: self.kind(being) })
    }

    fn kind(&self, being: &Being) -> EntityKind {
        let guess = being.guess.filter(|(_, since)| self.sight.known_at.is_none_or(|known| *since <= known));
        let own = (being.normal == EntityName::SELF).then_some(EntityKind::Person);
        being.kind.or(own).or(guess.map(|(kind, _)| kind)).unwrap_or_default()
    }

    /// How a name was written first by whoever minds capitals; of two that were written down at once, `Anna` before `ANNA`.
    fn written<'w>(&self, written: &'w [Written]) -> Option<&'w EntityName> {
        let seen = || written.iter().filter(|written| self.sight.known_at.is_none_or(|known| written.since <= known));
        let first = |written: &&'w Written| {
            (!written.name.as_str().chars().any(char::is_uppercase), written.since, Reverse(&written.name))
        };
        seen().min_by_key(first).map(|written| &written.name)
    }

    /// An entity with what else it is called, without the number of its facts.
    pub(crate) fn entity(&self, entity: u32) -> Option<Entity> {
        let head = self.head(entity)?;
        let being = self.view.being(entity)?;
        let aliases = being.aliases.iter().filter_map(|alias| self.written(alias)).cloned();
        let mut aliases: Vec<EntityName> = aliases.filter(|alias| *alias != head.name).collect();
        aliases.sort_unstable();
        Some(Entity { head, aliases, facts: 0, joined_by: being.joined_by.clone() })
    }

    /// Whether it is the person whose memory it is.
    pub(crate) fn is_self(&self, entity: u32) -> bool {
        self.view.being(entity).is_some_and(|being| being.normal == EntityName::SELF)
    }

    /// What an entity is called, in all the ways in which that is written.
    pub(crate) fn names(&self, entity: u32) -> impl Iterator<Item = &'a EntityName> {
        let being = self.view.being(entity);
        let written = being.into_iter().flat_map(|being| being.names.iter().chain(being.aliases.iter().flatten()));
        written.map(|written| &written.name)
    }

    /// Whether a name of an entity, normalised, has `part` in it.
    pub(crate) fn names_have(&self, entity: u32, part: &str) -> bool {
        let Some(being) = self.view.being(entity) else { return false };
        let has = |written: &[Written]| {
            self.written(written).is_some_and(|name| crate::resolve::normal(name.as_str()).contains(part))
        };
        has(&being.names) || being.aliases.iter().any(|alias| has(alias))
    }

    /// The words of a value.
    pub(crate) fn text(&self, value: Value) -> String {
        match value {
            Value::Entity(entity) => self.called(entity),
            Value::Literal(literal) => self.literal(literal).to_owned(),
        }
    }

    fn literal(&self, literal: u32) -> &'a str {
        self.view.literals.get(literal as usize).map(|literal| literal.text.as_str()).unwrap_or_default()
    }

    /// An entity as it is named within a sentence.
    pub(crate) fn called(&self, entity: u32) -> String {
        if self.is_self(entity) {
            return THE_USER.to_owned();
        }
        self.head(entity).map(|head| head.name.as_str().to_owned()).unwrap_or_default()
    }

    /// A fact as a sentence, without the full stop.
    pub(crate) fn sentence(&self, sighted: &Sighted<'_>) -> String {
        self.told(sighted, Traits::sentence)
    }

    /// The same, told from its value's side.
    pub(crate) fn inverse(&self, sighted: &Sighted<'_>) -> String {
        self.told(sighted, Traits::inverse)
    }

    fn told(&self, sighted: &Sighted<'_>, form: fn(&Traits, &str, &str) -> String) -> String {
        let Some(traits) = self.traits(sighted.predicate) else { return String::new() };
        let sentence = form(traits, &self.called(sighted.subject), &self.text(sighted.value));
        match sentence.strip_prefix(THE_USER) {
            Some(rest) => format!("The user{rest}"),
            None => sentence,
        }
    }

    /// A fact in full.
    pub(crate) fn fact(&self, sighted: &Sighted<'_>) -> Option<Fact> {
        let held = sighted.held;
        let evidence = self.evidence(held);
        Some(Fact {
            id: self.id(sighted),
            subject: self.head(sighted.subject)?,
            predicate: self.predicate(sighted.predicate)?.clone(),
            object: match sighted.value {
                Value::Entity(entity) => FactObject::Entity(self.head(entity)?),
                Value::Literal(literal) => FactObject::Literal(self.literal(literal).to_owned()),
            },
            single: self.traits(sighted.predicate)?.single,
            valid_from: held.from,
            from_is_said: held.from_is_said,
            valid_to: held.to,
            recorded_at: held.recorded_at,
            retracted_at: held.retracted_at,
            confidence: together(&evidence),
            sentence: format!("{}.", self.sentence(sighted)),
            evidence,
        })
    }

    /// What supports a fact, oldest first. What an exchange says twice counts once, and as much as the surer of the two.
    pub(crate) fn evidence(&self, held: &Held) -> Vec<Evidence> {
        let mut evidence: Vec<Evidence> = Vec::with_capacity(held.claims.len());
        let mut by_exchange: HashMap<ExchangeId, usize> = HashMap::new();
        for said in held.claims.iter().filter_map(|claim| self.view.said(*claim)) {
            let one = self.evidence_of(said);
            let place = one.exchange.map(|exchange| *by_exchange.entry(exchange).or_insert(evidence.len()));
            match place.and_then(|place| evidence.get_mut(place)) {
                Some(known) if known.confidence < one.confidence => {
                    (known.confidence, known.origin) = (one.confidence, one.origin);
                }
                Some(_) => {}
                None => evidence.push(one),
            }
        }
        evidence
    }

    fn evidence_of(&self, said: &Said) -> Evidence {
        let Said { origin, confidence, said_at, recorded_at, source, .. } = *said;
        let (exchange, seq, session, file) = match source {
            Source::Turn { exchange, seq, session, .. } => {
                (Some(exchange), Some(seq), self.view.sessions.get(session as usize).cloned(), None)
            }
            Source::Line { file, line, .. } => {
                let file = self.view.files.get(file as usize).map(|file| format!("{file}:{line}"));
                (None, None, None, file)
            }
        };
        Evidence { origin, exchange, seq, session, file, said_at, recorded_at, confidence }
    }

    /// Whether some of what supports a fact stands in one of these collections.
    pub(crate) fn stands_in(&self, held: &Held, collections: &[Collection]) -> bool {
        held.claims.iter().filter_map(|claim| self.view.said(*claim)).any(|said| match said.source {
            Source::Turn { collection, .. } => {
                self.view.collections.get(collection as usize).is_some_and(|own| collections.contains(own))
            }
            Source::Line { .. } => false,
        })
    }

    /// The turns that support a fact, and whether lines of files do.
    pub(crate) fn seqs(&self, held: &Held) -> impl Iterator<Item = Seq> {
        held.claims.iter().filter_map(|claim| match self.view.said(*claim)?.source {
            Source::Turn { seq, .. } => Some(seq),
            Source::Line { .. } => None,
        })
    }
}

/// How sure several say to make it: as if each could err on its own.
fn together(evidence: &[Evidence]) -> f32 {
    match evidence {
        [one] => one.confidence,
        _ => 1.0 - evidence.iter().map(|one| 1.0 - one.confidence).product::<f32>(),
    }
}
