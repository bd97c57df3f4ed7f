//! Graphs for the tests of all walks.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Link, Net};

/// The links between `pairs`; a link's fact is its place.
pub(super) fn links(pairs: &[(u32, u32)]) -> Vec<Link> {
    (0..).zip(pairs).map(|(fact, &(from, to))| Link { from, to, fact }).collect()
}

/// A net of `entities` linked in `pairs`.
pub(super) fn net(entities: usize, pairs: &[(u32, u32)]) -> Net {
    Net::new(entities, &links(pairs))
}

/// Entities in a ring.
pub(super) fn ring(entities: u32) -> Net {
    net(entities as usize, &(0..entities).map(|n| (n, (n + 1) % entities)).collect::<Vec<_>>())
}

/// Every entity, every fact.
pub(super) fn every(_: u32) -> bool {
    true
}

/// A small graph with some facts that do not hold.
#[derive(Debug, Clone)]
pub(super) struct Small {
    pub(super) entities: u32,
    pub(super) pairs: Vec<(u32, u32)>,
    pub(super) holds: Vec<bool>,
}

impl Small {
    pub(super) fn net(&self) -> Net {
        net(self.entities as usize, &self.pairs)
    }

    pub(super) fn walkable(&self, fact: u32) -> bool {
        self.holds[fact as usize]
    }

    /// The neighbours of `entity` over facts that hold, by looking at all of them: fact, other end.
    pub(super) fn beside(&self, entity: u32) -> Vec<(u32, u32)> {
        (0..)
            .zip(&self.pairs)
            .filter(|&(fact, _)| self.walkable(fact))
            .filter_map(|(fact, &(from, to))| match entity {
                _ if entity == from => Some((fact, to)),
                _ if entity == to => Some((fact, from)),
                _ => None,
            })
            .collect()
    }
}

/// Graphs of up to `most` entities: loose, dense, with parallel facts and facts of an entity with itself.
pub(super) fn small(most: u32) -> impl Strategy<Value = Small> {
    (1..=most).prop_flat_map(|entities| {
        vec(((0..entities, 0..entities), prop::bool::weighted(0.85)), 0..=(entities as usize * 2)).prop_map(
            move |facts| {
                let (pairs, holds) = facts.into_iter().unzip();
                Small { entities, pairs, holds }
            },
        )
    })
}
