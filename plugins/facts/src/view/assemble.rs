//! What was numbered is folded and linked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use skymem_core::UserId;

use super::numbers::number;
use super::{Being, Folded, Latest, Link, Place, SaidWhat, Sight, Value, View};
use crate::graph::{self, Net};
use crate::predicates::Predicates;

impl View {
    pub(super) fn empty(user: UserId, naming: Latest, known: &Arc<Predicates>) -> Self {
        Self {
            user,
            claims: Vec::new(),
            beings: Vec::new(),
            predicates: Vec::new(),
            known: Arc::clone(known),
            literals: Vec::new(),
            groups: Vec::new(),
            links: Vec::new(),
            net: Net::new(0, &[]),
            names: HashMap::new(),
            longest_name: 0,
            first_words: HashSet::new(),
            ids: HashMap::new(),
            facts: HashMap::new(),
            by_exchange: HashMap::new(),
            sessions: Vec::new(),
            collections: Vec::new(),
            files: Vec::new(),
            naming,
        }
    }

    pub(super) fn fold(&mut self) {
        let all: Vec<Folded> = self.groups.iter().map(|group| self.fold_group(group, Sight::default())).collect();
        let mut facts = HashMap::new();
        for (place, (group, folded)) in self.groups.iter().zip(&all).enumerate() {
            for (fact, held) in folded.held.iter().enumerate() {
                let id = self.fact_id(group, folded, held);
                facts.insert(id, Place { group: number(place), fact: number(fact) });
            }
        }
        self.facts = facts;
        for (group, folded) in self.groups.iter_mut().zip(all) {
            group.folded = folded;
        }
    }

    /// Links each subject to all entities that were ever said to be its values.
    pub(super) fn link(&mut self) {
        let mut links = Vec::new();
        for (place, group) in self.groups.iter().enumerate() {
            let mut objects: Vec<u32> = group
                .claims
                .iter()
                .filter_map(|claim| match self.said(*claim)?.what {
                    SaidWhat::Holds { object: Value::Entity(object), .. }
                    | SaidWhat::Ends { object: Some(Value::Entity(object)), .. } => Some(object),
                    _ => None,
                })
                .collect();
            objects.sort_unstable();
            objects.dedup();
            let group = number(place);
            links.extend(objects.into_iter().map(|to| Link { group, to }));
        }
        let mut edges = Vec::with_capacity(links.len());
        for (place, link) in links.iter().enumerate() {
            if let Some(being) = self.beings.get_mut(link.to as usize) {
                being.pointed_at.push(number(place));
            }
            if let Some(group) = self.groups.get(link.group as usize) {
                edges.push(graph::Link { from: group.subject, to: link.to, fact: number(place) });
            }
        }
        self.net = Net::new(self.beings.len(), &edges);
        self.links = links;
    }
}

impl Being {
    pub(super) fn new() -> Self {
        Self {
            id: skymem_core::facts::EntityId(uuid::Uuid::nil()),
            normal: String::new(),
            names: Vec::new(),
            aliases: Vec::new(),
            kind: None,
            guess: None,
            joined_by: Vec::new(),
            groups: Vec::new(),
            pointed_at: Vec::new(),
        }
    }
}
