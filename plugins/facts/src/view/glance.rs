//! A view, looked at from a moment: as it was known then, of what had been said by then.
//!
//! Only what was told later has to be folded anew without it; all else is as it stands in the view.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use chrono::{DateTime, Utc};
use skymem_core::ExchangeId;
use skymem_core::facts::FactId;
use uuid::Uuid;

use super::numbers::number;
use super::{Folded, Group, Said, SaidWhat, Source, Value, View};
use crate::timeline::{self, Held, Told, What};

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
    pub(super) sight: Sight,
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
            places.filter_map(|(place, held)| Some((entity(held)?, number(place)))).collect();
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
        let next = number(self.values.len());
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
    pub(crate) fn group(&self, group: u32) -> impl Iterator<Item = Sighted<'_>> {
        let folded = self.folded(group);
        let facts = 0..folded.map_or(0, |folded| number(folded.held.len()));
        facts.filter_map(move |fact| self.sighted(folded?, Place { group, fact }))
    }

    fn sighted<'g>(&'g self, folded: &'g Folded, place: Place) -> Option<Sighted<'g>> {
        let Group { subject, predicate, .. } = *self.view.group(place.group)?;
        let held = folded.held.get(place.fact as usize)?;
        Some(Sighted { place, held, subject, predicate, value: folded.value(held)? })
    }

    /// Everything that is seen.
    pub(crate) fn all(&self) -> impl Iterator<Item = Sighted<'_>> {
        (0..number(self.view.groups.len())).flat_map(|group| self.group(group))
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
}
