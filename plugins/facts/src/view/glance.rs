//! A view, looked at from a moment: as it was known then, of what had been said by then.
//!
//! Only what was told later has to be folded anew without it; all else is as it stands in the view.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use chrono::{DateTime, Utc};
use skymem_core::facts::{Entity, EntityHead, EntityKind, EntityName, Evidence, Fact, FactId, FactObject, Predicate};
use skymem_core::{Collection, ExchangeId, Seq};
use uuid::Uuid;

use super::{Being, Folded, Group, Said, SaidWhat, Source, Value, View, Written};
use crate::predicates::Traits;
use crate::timeline::{self, Held, Told, What};

/// The person whose memory it is, in sentences.
const THE_USER: &str = "the user";

/// What may be seen of what was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    /// Only what was recorded by then; `None` for all.
    pub(crate) known_at: Option<DateTime<Utc>>,
    /// Only what was said by then; `None` for all.
    pub(crate) said_by: Option<DateTime<Utc>>,
}

impl Sight {
    fn sees(self, said_at: DateTime<Utc>, recorded_at: DateTime<Utc>) -> bool {
        self.said_by.is_none_or(|by| said_at <= by) && self.known_at.is_none_or(|at| recorded_at <= at)
    }
}

/// Where a fact stands: its group, and its number there as it is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: u32,
    pub(crate) fact: u32,
}

/// A view as it is seen from a moment.
#[derive(Debug)]
pub(crate) struct Glance<'a> {
    pub(crate) view: &'a View,
    sight: Sight,
    /// Of groups that look otherwise from here.
    folded: Vec<OnceCell<Box<Folded>>>,
}

impl View {
    /// Whether the view, looked at so, would take others for whom a name means than were known then: then what was known
    /// has to be read anew.
    pub(crate) fn misnames(&self, sight: Sight) -> bool {
        !sight.sees(self.naming.said_at, self.naming.recorded_at)
    }

    /// As it is seen from a moment.
    pub(crate) fn glance(&self, sight: Sight) -> Glance<'_> {
        let restricted = sight != Sight::default();
        let folded = if restricted { self.groups.iter().map(|_| OnceCell::new()).collect() } else { Vec::new() };
        Glance { view: self, sight, folded }
    }

    /// What the claims of a group that can be seen come to.
    pub(super) fn fold_group(&self, group: &Group, sight: Sight) -> Folded {
        let said = || group.claims.iter().filter_map(|claim| Some((*claim, self.said(*claim)?)));
        let seen: Vec<(u32, &Said)> = said().filter(|(_, said)| sight.sees(said.said_at, said.recorded_at)).collect();
        let mut numbers = Values::of(self, seen.iter().filter_map(|(_, said)| said.value()));
        let told: Vec<Told> = seen
            .iter()
            .map(|(claim, said)| Told {
                claim: *claim,
                turn: said.turn,
                what: match said.what {
                    SaidWhat::Holds { object, from, until, corrects } => {
                        What::Holds { object: numbers.number(object), from, until, corrects }
                    }
                    SaidWhat::Ends { object, at } => {
                        What::Ends { object: object.map(|object| numbers.number(object)), at }
                    }
                    SaidWhat::NeverHeld { object, from } => {
                        What::NeverHeld { object: object.map(|object| numbers.number(object)), from }
                    }
                },
                said_at: said.said_at,
                recorded_at: said.recorded_at,
                withdrawn_at: said.withdrawn_at().filter(|at| sight.known_at.is_none_or(|known| *at <= known)),
            })
            .collect();
        let single = self.predicates.get(group.predicate as usize).is_some_and(|(_, traits)| traits.single);
        Folded::of(timeline::fold(&told, single), numbers.values)
    }

    /// Names a fact: stays the same while subject, predicate, value and start do.
    pub(super) fn fact_id(&self, group: &Group, folded: &Folded, held: &Held) -> FactId {
        let subject = self.being(group.subject).map_or(Uuid::nil(), |being| being.id.0);
        let predicate = self.predicates.get(group.predicate as usize).map(|(predicate, _)| predicate.as_str());
        let object = folded.value(held).map_or(Cow::Borrowed(""), |value| self.compared(value));
        let from = held.from.timestamp_micros();
        let parts = format!("fact\0{subject}\0{}\0{object}\0{from}", predicate.unwrap_or_default());
        FactId(Uuid::new_v5(&self.user.0, parts.as_bytes()))
    }

    /// A value as it is compared.
    pub(crate) fn compared(&self, value: Value) -> Cow<'_, str> {
        match value {
            Value::Entity(entity) => {
                Cow::Borrowed(self.being(entity).map(|being| being.normal.as_str()).unwrap_or_default())
            }
            Value::Literal(literal) => {
                let text = self.literals.get(literal as usize).map(|literal| literal.text.as_str()).unwrap_or_default();
                Cow::Owned(crate::resolve::normal(text))
            }
        }
    }
}

impl Said {
    fn value(&self) -> Option<Value> {
        match self.what {
            SaidWhat::Holds { object, .. } => Some(object),
            SaidWhat::Ends { object, .. } | SaidWhat::NeverHeld { object, .. } => object,
        }
    }

    fn withdrawn_at(&self) -> Option<DateTime<Utc>> {
        if let Source::Line { withdrawn_at, .. } = self.source { withdrawn_at } else { None }
    }
}

impl Folded {
    fn of(held: Vec<Held>, values: Vec<Value>) -> Self {
        let entity = |held: &Held| match values.get(held.object as usize) {
            Some(Value::Entity(entity)) => Some(*entity),
            _ => None,
        };
        let places = held.iter().enumerate();
        let mut entities: Vec<(u32, u32)> =
            places.filter_map(|(place, held)| Some((entity(held)?, super::build::number(place)))).collect();
        entities.sort_unstable();
        Self { held, values, entities }
    }

    pub(crate) fn value(&self, held: &Held) -> Option<Value> {
        self.values.get(held.object as usize).copied()
    }
}

/// The numbers of the values of a group: the same value, however it is written, has the same number. Text that is the name
/// of an entity that is a value here as well is that entity.
struct Values {
    values: Vec<Value>,
    numbers: HashMap<Value, u32>,
}

impl Values {
    fn of(view: &View, all: impl Iterator<Item = Value> + Clone) -> Self {
        let mut values = Self { values: Vec::new(), numbers: HashMap::new() };
        let mut texts: HashMap<u32, u32> = HashMap::new();
        for value in all.clone().filter(|value| matches!(value, Value::Entity(_))) {
            values.number(value);
        }
        for value in all {
            let Value::Literal(literal) = value else { continue };
            let Some(text) = view.literals.get(literal as usize) else { continue };
            let entity = text.entity.and_then(|entity| values.numbers.get(&Value::Entity(entity)).copied());
            let number = match entity.or_else(|| texts.get(&text.normal).copied()) {
                Some(number) => {
                    values.numbers.insert(value, number);
                    number
                }
                None => values.number(value),
            };
            texts.insert(text.normal, number);
        }
        values
    }

    fn number(&mut self, value: Value) -> u32 {
        let next = super::build::number(self.values.len());
        let number = *self.numbers.entry(value).or_insert(next);
        if number == next {
            self.values.push(value);
        }
        number
    }
}

/// What is seen of a fact, before it is told in full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sighted<'g> {
    pub(crate) place: Place,
    pub(crate) held: &'g Held,
    pub(crate) subject: u32,
    pub(crate) predicate: u32,
    pub(crate) value: Value,
}

impl Sighted<'_> {
    /// Whether it holds at a moment, or ever did, and was not taken back.
    pub(crate) fn holds(&self, as_of: Option<DateTime<Utc>>) -> bool {
        let held = self.held;
        held.retracted_at.is_none() && as_of.is_none_or(|at| held.from <= at && held.to.is_none_or(|to| at < to))
    }
}

impl<'a> Glance<'a> {
    fn folded(&self, number: u32) -> Option<&Folded> {
        let group = self.view.group(number)?;
        match self.folded.get(number as usize) {
            Some(cell) if !self.sight.sees(group.latest.said_at, group.latest.recorded_at) => {
                Some(cell.get_or_init(|| Box::new(self.view.fold_group(group, self.sight))))
            }
            _ => Some(&group.folded),
        }
    }

    /// What a group comes to, oldest start first.
    pub(crate) fn group(&self, number: u32) -> impl Iterator<Item = Sighted<'_>> {
        let folded = self.folded(number);
        let facts = 0..folded.map_or(0, |folded| super::build::number(folded.held.len()));
        facts.filter_map(move |fact| self.sighted(folded?, Place { group: number, fact }))
    }

    fn sighted<'g>(&'g self, folded: &'g Folded, place: Place) -> Option<Sighted<'g>> {
        let Group { subject, predicate, .. } = *self.view.group(place.group)?;
        let held = folded.held.get(place.fact as usize)?;
        Some(Sighted { place, held, subject, predicate, value: folded.value(held)? })
    }

    /// Everything that is seen.
    pub(crate) fn all(&self) -> impl Iterator<Item = Sighted<'_>> {
        (0..super::build::number(self.view.groups.len())).flat_map(|group| self.group(group))
    }

    /// The facts that a link stands for.
    pub(crate) fn link(&self, link: u32) -> impl Iterator<Item = Sighted<'_>> {
        let link = self.view.links.get(link as usize);
        link.and_then(|link| Some((link, self.folded(link.group)?))).into_iter().flat_map(move |(link, folded)| {
            let begins = folded.entities.partition_point(|(entity, _)| *entity < link.to);
            let facts = folded.entities.iter().skip(begins).take_while(|(entity, _)| *entity == link.to);
            facts.filter_map(move |(_, fact)| self.sighted(folded, Place { group: link.group, fact: *fact }))
        })
    }

    /// The groups whose subject an entity is.
    pub(crate) fn groups_of(&self, entity: u32) -> &'a [u32] {
        self.view.being(entity).map(|being| being.groups.as_slice()).unwrap_or_default()
    }

    /// The links whose object an entity is.
    pub(crate) fn links_to(&self, entity: u32) -> &'a [u32] {
        self.view.being(entity).map(|being| being.pointed_at.as_slice()).unwrap_or_default()
    }

    /// What is said of an entity, and then what is said of others with it as the value. Nothing comes twice.
    pub(crate) fn about(&self, entity: u32) -> impl Iterator<Item = Sighted<'_>> {
        let own = self.groups_of(entity).iter().flat_map(|group| self.group(*group));
        let others = self.links_to(entity).iter().flat_map(|link| self.link(*link));
        own.chain(others.filter(move |sighted| sighted.subject != entity))
    }

    /// What an exchange supports.
    pub(crate) fn supported_by(&self, exchange: ExchangeId) -> Vec<Sighted<'_>> {
        let claims = self.view.by_exchange.get(&exchange).map(Vec::as_slice).unwrap_or_default();
        let mut groups: Vec<u32> =
            claims.iter().filter_map(|claim| self.view.said(*claim)).map(|said| said.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let supported = |sighted: &Sighted<'_>| sighted.held.claims.iter().any(|claim| claims.contains(claim));
        groups.into_iter().flat_map(|group| self.group(group)).filter(supported).collect()
    }

    /// The fact that stands at a place, as it is seen.
    pub(crate) fn at(&self, place: Place) -> Option<Sighted<'_>> {
        self.sighted(self.folded(place.group)?, place)
    }

    /// The fact of this id, as it is seen.
    pub(crate) fn find(&self, id: FactId) -> Option<Sighted<'_>> {
        let known =
            self.view.facts.get(&id).and_then(|place| self.group(place.group).find(|sighted| self.id(sighted) == id));
        // From an earlier moment facts may have begun at other times, and so have other ids.
        known.or_else(|| self.all().filter(|_| !self.folded.is_empty()).find(|sighted| self.id(sighted) == id))
    }

    pub(crate) fn id(&self, sighted: &Sighted<'_>) -> FactId {
        match self.view.group(sighted.place.group).zip(self.folded(sighted.place.group)) {
            Some((group, folded)) => self.view.fact_id(group, folded, sighted.held),
            None => FactId(Uuid::nil()),
        }
    }

    /// How many predicates there are.
    pub(crate) fn predicates(&self) -> u32 {
        super::build::number(self.view.predicates.len())
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
        super::build::number(self.view.beings.len())
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

    /// How a name was written first by whoever minds capitals.
    fn written<'w>(&self, written: &'w [Written]) -> Option<&'w EntityName> {
        let seen = || written.iter().filter(|written| self.sight.known_at.is_none_or(|known| written.since <= known));
        let first = |written: &&Written| (!written.name.as_str().chars().any(char::is_uppercase), written.since);
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
