//! A view is made of all claims of a user.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Predicate, Statement};
use skymem_core::{ExchangeId, UserId};

use super::numbers::{Normals, Numbers, number};
use super::{Being, Folded, Group, Latest, Literal, Said, SaidWhat, Source, Value, View, Written};
use crate::claim::{self, Claim};
use crate::predicates::{Predicates, Traits};
use crate::question::first_word;
use crate::resolve::{Names, Naming, Says, entity_id, normal};
use crate::timeline::{self, Told, What};

/// The predicate whose values are names of its subject.
const NAME: &str = "name";

impl View {
    /// What `claims` come to, in whichever order they are.
    pub(crate) fn build(user: UserId, mut claims: Vec<Claim>, predicates: &Arc<Predicates>) -> Self {
        claims.sort_by(|one, other| one.order().cmp(&other.order()));
        let mut builder = Builder::of(user, &claims, predicates);
        for claim in claims {
            builder.take(claim);
        }
        builder.finish()
    }
}

struct Builder<'a> {
    known: &'a Arc<Predicates>,
    names: Names,
    /// How names are compared, and the number of each.
    normals: Normals,
    /// By the number of a name: how it is written.
    written: Vec<Vec<Written>>,
    /// By the number that [`Names`] gives: the entity.
    entities: HashMap<usize, u32>,
    /// The other way round.
    owners: Vec<usize>,
    predicates: Numbers<Predicate>,
    traits: Vec<Traits>,
    literals: Numbers<String>,
    group_of: HashMap<(u32, u32), u32>,
    sessions: Numbers<skymem_core::SessionId>,
    collections: Numbers<skymem_core::Collection>,
    files: Numbers<String>,
    turns: HashMap<(ExchangeId, i64), u32>,
    next_turn: u32,
    view: View,
}

impl<'a> Builder<'a> {
    /// Knows who is meant by each name that occurs in `claims`, which are in the order in which they were said.
    fn of(user: UserId, claims: &[Claim], known: &'a Arc<Predicates>) -> Self {
        let mut normals = Normals::default();
        let mut naming = Latest::default();
        let mut told = Vec::new();
        for claim in claims {
            let names = match &claim.statement {
                Statement::Same { name, alias: other } | Statement::Apart { name, other, .. } => (name, Some(other)),
                Statement::Kind { name, .. } => (name, None),
                _ => continue,
            };
            naming.note(claim.said_at, claim.recorded_at);
            told.push((claim, normals.of(names.0.as_str()), names.1.map(|name| normals.of(name.as_str()))));
        }
        let mut names = Names::of(told.iter().filter_map(|(claim, name, other)| {
            let name = normals.text(*name);
            let other = other.map(|other| normals.text(other)).unwrap_or_default();
            let says = match &claim.statement {
                Statement::Same { .. } => Says::Same { name, alias: other },
                Statement::Apart { exchanges, .. } => Says::Apart { name, other, exchanges },
                Statement::Kind { kind, .. } => Says::Kind { name, kind: *kind },
                _ => return None,
            };
            let exchange = match &claim.place {
                claim::Place::Turn { exchange, .. } => Some(*exchange),
                claim::Place::Line { .. } => None,
            };
            Some(Naming { exchange, says })
        }));
        names.meant(EntityName::SELF, None);
        let mut builder = Self {
            known,
            names,
            normals,
            written: Vec::new(),
            entities: HashMap::new(),
            owners: Vec::new(),
            predicates: Numbers::default(),
            traits: Vec::new(),
            literals: Numbers::default(),
            group_of: HashMap::new(),
            sessions: Numbers::default(),
            collections: Numbers::default(),
            files: Numbers::default(),
            turns: HashMap::new(),
            next_turn: 0,
            view: View::empty(user, naming, known),
        };
        builder.learn_own_names(claims);
        builder
    }

    /// The person whose memory it is has the names that they say they have.
    fn learn_own_names(&mut self, claims: &[Claim]) {
        let mut told = Vec::new();
        let mut values = Numbers::default();
        for claim in claims {
            let (subject, predicate) = match &claim.statement {
                Statement::Holds(Holds { subject, predicate, .. })
                | Statement::Ends { subject, predicate, .. }
                | Statement::NeverHeld { subject, predicate, .. } => (subject, predicate),
                _ => continue,
            };
            if predicate.as_str() != NAME || !self.is_self(subject, exchange_of(claim)) {
                continue;
            }
            let turn = self.turn(claim);
            if let Statement::Holds(Holds { object, .. }) = &claim.statement
                && let Ok(name) = object.as_str().parse::<EntityName>()
            {
                let id = self.normals.of(name.as_str());
                self.note_written(id, &name, claim.recorded_at);
            }
            let mut number = |object: &Object| values.of(&normal(object.as_str()));
            let what = match &claim.statement {
                Statement::Holds(Holds { object, from, until, corrects, .. }) => {
                    What::Holds { object: number(object), from: *from, until: *until, corrects: *corrects }
                }
                Statement::Ends { object, at, .. } => What::Ends { object: object.as_ref().map(number), at: *at },
                Statement::NeverHeld { object, from, .. } => {
                    What::NeverHeld { object: object.as_ref().map(number), from: *from }
                }
                _ => continue,
            };
            let withdrawn_at = withdrawn_at(claim);
            let recorded_at = claim.recorded_at.max(withdrawn_at.unwrap_or(claim.recorded_at));
            self.view.naming.note(claim.said_at, recorded_at);
            let (said_at, recorded_at) = (claim.said_at, claim.recorded_at);
            told.push(Told { claim: 0, turn, what, said_at, recorded_at, withdrawn_at });
        }
        for held in timeline::fold(&told, self.known.traits(NAME).single) {
            if let Some(name) = values.get(held.object).filter(|_| held.retracted_at.is_none()) {
                self.names.join(EntityName::SELF, name);
            }
        }
    }

    fn is_self(&mut self, name: &EntityName, exchange: Option<ExchangeId>) -> bool {
        let normal = self.normals.of(name.as_str());
        let meant = self.names.meant(self.normals.text(normal), exchange);
        self.names.known(EntityName::SELF) == Some(meant)
    }

    fn take(&mut self, claim: Claim) {
        let exchange = exchange_of(&claim);
        let turn = self.turn(&claim);
        let (subject, predicate, what) = match &claim.statement {
            Statement::Holds(Holds { subject, predicate, object, from, until, corrects, .. }) => {
                let object = self.value(object, exchange, &claim);
                (subject, predicate, SaidWhat::Holds { object, from: *from, until: *until, corrects: *corrects })
            }
            Statement::Ends { subject, predicate, object, at } => {
                let object = object.as_ref().map(|object| self.value(object, exchange, &claim));
                (subject, predicate, SaidWhat::Ends { object, at: *at })
            }
            Statement::NeverHeld { subject, predicate, object, from } => {
                let object = object.as_ref().map(|object| self.value(object, exchange, &claim));
                (subject, predicate, SaidWhat::NeverHeld { object, from: *from })
            }
            Statement::Same { name, alias: other } | Statement::Apart { name, other, .. } => {
                self.entity(name, None, &claim);
                self.entity(other, None, &claim);
                return;
            }
            Statement::Kind { name, .. } => {
                self.entity(name, None, &claim);
                return;
            }
        };
        let subject = self.entity(subject, exchange, &claim);
        let predicate = self.predicate(predicate);
        let group = self.group(subject, predicate);
        let number = number(self.view.claims.len());
        let recorded_at = claim.recorded_at.max(withdrawn_at(&claim).unwrap_or(claim.recorded_at));
        if let Some(group) = self.view.groups.get_mut(group as usize) {
            group.claims.push(number);
            group.latest.note(claim.said_at, recorded_at);
        }
        if let SaidWhat::Holds { object, .. } = what {
            self.guess_kinds(subject, predicate, object, claim.recorded_at);
        }
        let source = match claim.place {
            claim::Place::Turn { exchange, seq, session, collection, .. } => {
                self.view.by_exchange.entry(exchange).or_default().push(number);
                let (session, collection) = (self.sessions.of(&session), self.collections.of(&collection));
                Source::Turn { exchange, seq, session, collection }
            }
            claim::Place::Line { file, line, withdrawn_at, .. } => {
                Source::Line { file: self.files.of(&file), line, withdrawn_at }
            }
        };
        self.view.claims.push(Said {
            group,
            what,
            turn,
            origin: claim.origin,
            confidence: claim.confidence,
            said_at: claim.said_at,
            recorded_at: claim.recorded_at,
            source,
        });
    }

    /// The number of the turn something was said in. Each line of a file is one of its own.
    fn turn(&mut self, claim: &Claim) -> u32 {
        let next = self.next_turn;
        let turn = match &claim.place {
            claim::Place::Turn { exchange, seq, .. } => *self.turns.entry((*exchange, seq.0)).or_insert(next),
            claim::Place::Line { .. } => next,
        };
        self.next_turn += u32::from(turn == next);
        turn
    }

    /// The entity that is meant, and how it was written.
    fn entity(&mut self, name: &EntityName, exchange: Option<ExchangeId>, claim: &Claim) -> u32 {
        let id = self.normals.of(name.as_str());
        self.note_written(id, name, claim.recorded_at);
        let meant = self.names.meant(self.normals.text(id), exchange);
        let next = number(self.owners.len());
        let entity = *self.entities.entry(meant).or_insert(next);
        if entity == next {
            self.owners.push(meant);
            self.view.beings.push(Being::new());
        }
        entity
    }

    fn note_written(&mut self, id: u32, name: &EntityName, since: DateTime<Utc>) {
        let place = id as usize;
        if self.written.len() <= place {
            self.written.resize_with(place + 1, Vec::new);
        }
        let Some(known) = self.written.get_mut(place) else { return };
        match known.iter_mut().find(|written| written.name == *name) {
            Some(written) => written.since = written.since.min(since),
            None => known.push(Written { name: name.clone(), since }),
        }
    }

    fn value(&mut self, object: &Object, exchange: Option<ExchangeId>, claim: &Claim) -> Value {
        match object {
            Object::Entity(name) => Value::Entity(self.entity(name, exchange, claim)),
            Object::Literal(text) => Value::Literal(self.literals.of(text)),
        }
    }

    fn predicate(&mut self, predicate: &Predicate) -> u32 {
        let number = self.predicates.of(predicate);
        if self.traits.len() <= number as usize {
            self.traits.push(self.known.traits(predicate.as_str()));
        }
        number
    }

    fn group(&mut self, subject: u32, predicate: u32) -> u32 {
        let next = number(self.view.groups.len());
        let group = *self.group_of.entry((subject, predicate)).or_insert(next);
        if group == next {
            let (latest, folded) = (Latest::default(), Folded::default());
            self.view.groups.push(Group { subject, predicate, claims: Vec::new(), latest, folded });
            if let Some(being) = self.view.beings.get_mut(subject as usize) {
                being.groups.push(group);
            }
        }
        group
    }

    /// Whoever works at something is a person: the first fact that tells, by when it was recorded, counts.
    fn guess_kinds(&mut self, subject: u32, predicate: u32, object: Value, since: DateTime<Utc>) {
        let Some(kinds) = self.traits.get(predicate as usize).map(|traits| traits.kinds) else { return };
        let object = if let Value::Entity(object) = object { Some((object, kinds.1)) } else { None };
        for (entity, kind) in std::iter::once((subject, kinds.0)).chain(object) {
            if kind != EntityKind::Other
                && let Some(being) = self.view.beings.get_mut(entity as usize)
                && being.guess.is_none_or(|(_, known)| since < known)
            {
                being.guess = Some((kind, since));
            }
        }
    }

    fn finish(mut self) -> View {
        self.name_beings();
        let mut compared = Numbers::default();
        for text in std::mem::take(&mut self.literals).all {
            let normal = normal(&text);
            let entity = self.view.names.get(&normal).copied();
            self.view.literals.push(Literal { normal: compared.of(&normal), text, entity });
        }
        self.view.predicates = self.predicates.all.into_iter().zip(self.traits).collect();
        self.view.sessions = self.sessions.all;
        self.view.collections = self.collections.all;
        self.view.files = self.files.all;
        self.view.fold();
        self.view.link();
        self.view
    }

    fn name_beings(&mut self) {
        let user = self.view.user;
        // The number of a name to `Names` is not the one it has here.
        let mut normals = vec![""; self.names.names()];
        for (text, place) in self.names.all() {
            if let Some(normal) = normals.get_mut(place) {
                *normal = text;
            }
        }
        for (entity, (being, owner)) in self.view.beings.iter_mut().zip(&self.owners).enumerate() {
            let mut called = self.names.names_of(*owner).filter_map(|name| normals.get(name).copied());
            let Some(own) = called.next() else { continue };
            let written = |normal: &str| -> Vec<Written> {
                let known = self.normals.find(normal).and_then(|id| self.written.get(id as usize));
                known.filter(|written| !written.is_empty()).cloned().unwrap_or_else(|| {
                    let name = normal.parse().into_iter();
                    name.map(|name| Written { name, since: DateTime::<Utc>::MIN_UTC }).collect()
                })
            };
            own.clone_into(&mut being.normal);
            being.id = entity_id(user, own);
            being.names = written(own);
            being.kind = self.names.kind_of(*owner);
            being.joined_by = self.names.joined_by(*owner).to_vec();
            self.view.names.insert(own.to_owned(), number(entity));
            self.view.ids.insert(being.id, number(entity));
            for alias in called {
                being.aliases.push(written(alias));
                self.view.names.insert(alias.to_owned(), number(entity));
            }
        }
        self.view.first_words = self.view.names.keys().map(|name| first_word(name)).collect();
        let words = |name: &String| name.split(' ').count();
        self.view.longest_name = self.view.names.keys().map(words).max().unwrap_or(0);
    }
}

fn exchange_of(claim: &Claim) -> Option<ExchangeId> {
    match claim.place {
        claim::Place::Turn { exchange, .. } => Some(exchange),
        claim::Place::Line { .. } => None,
    }
}

fn withdrawn_at(claim: &Claim) -> Option<DateTime<Utc>> {
    match claim.place {
        claim::Place::Turn { .. } => None,
        claim::Place::Line { withdrawn_at, .. } => withdrawn_at,
    }
}
