//! The facts of a user as a graph: what is near, what links two, what matters to a question, what belongs together.
//!
//! Entities and facts are numbers here, the places they have in the caller's own lists. Every walk takes a fact in both
//! directions, leaves out those that are not `walkable`, and gives the same answer for the same links in the same order.
//! Nothing here fails: a number that names no entity is one without links.

mod communities;
mod paths;
mod rank;
mod walk;

#[cfg(test)]
mod sample;

use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::EdgeRef;

pub use communities::Group;
pub use paths::{MOST_HOPS, Way, Ways};
pub use walk::{Around, Reached};

/// Entities and the facts that link them; built once, walked often.
#[derive(Debug, Clone)]
pub struct Net {
    graph: UnGraph<(), u32>,
    /// How many facts touch each entity, walkable or not.
    degrees: Notes<u32>,
}

/// A fact between two entities. The same two may be linked by many facts, and an entity with itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its subject.
    pub from: u32,
    /// Its object.
    pub to: u32,
    /// Its number.
    pub fact: u32,
}

impl Net {
    /// The net of `links` between the entities numbered from 0 to `entities`; links to others are left out.
    #[must_use]
    pub fn new(entities: usize, links: &[Link]) -> Self {
        let mut graph = UnGraph::with_capacity(entities, links.len());
        for _ in 0..entities {
            graph.add_node(());
        }
        let mut degrees = Notes::new(entities, 0);
        // The graph gives back the newest links first, so the last one goes in first.
        for Link { from, to, fact } in links.iter().rev() {
            if graph.try_add_edge(NodeIndex::new(*from as usize), NodeIndex::new(*to as usize), *fact).is_err() {
                continue;
            }
            degrees.set(*from, degrees.get(*from) + 1);
            if from != to {
                degrees.set(*to, degrees.get(*to) + 1);
            }
        }
        Self { graph, degrees }
    }

    /// How many entities there are.
    #[must_use]
    pub fn entities(&self) -> usize {
        self.graph.node_count()
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let (nodes, edges) = self.graph.capacity();
        nodes * size_of::<petgraph::graph::Node<()>>()
            + edges * size_of::<petgraph::graph::Edge<u32>>()
            + self.degrees.0.capacity() * size_of::<u32>()
    }

    fn has(&self, entity: u32) -> bool {
        (entity as usize) < self.graph.node_count()
    }

    /// How many facts touch `entity`, walkable or not.
    fn degree(&self, entity: u32) -> u32 {
        self.degrees.get(entity)
    }

    /// The facts of `entity` with what is at their other end: those it is the subject of first, each in the order in which
    /// the links were given. A link of an entity with itself comes once.
    fn links(&self, entity: u32) -> impl Iterator<Item = (u32, u32)> {
        let here = NodeIndex::new(entity as usize);
        self.graph.edges(here).map(move |edge| {
            let other = if edge.source() == here { edge.target() } else { edge.source() };
            (*edge.weight(), short(other.index()))
        })
    }
}

/// The number of an entity; the graph has no more than 32 bits of them.
#[expect(clippy::cast_possible_truncation, reason = "the graph's own indices are of 32 bits")]
fn short(index: usize) -> u32 {
    index as u32
}

/// A note about every entity; of an entity that is not there it says what it says of all at first.
#[derive(Debug, Clone)]
struct Notes<T>(Vec<T>, T);

impl<T: Copy> Notes<T> {
    fn new(entities: usize, first: T) -> Self {
        Self(vec![first; entities], first)
    }

    fn get(&self, entity: u32) -> T {
        self.0.get(entity as usize).copied().unwrap_or(self.1)
    }

    fn set(&mut self, entity: u32, note: T) {
        if let Some(place) = self.0.get_mut(entity as usize) {
            *place = note;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sample::links;
    use super::*;

    #[test]
    fn links_come_in_the_order_given_and_a_link_with_itself_once() {
        let net = Net::new(3, &links(&[(0, 1), (2, 0), (0, 0), (0, 2), (0, 1)]));

        let seen: Vec<_> = net.links(0).collect();
        assert_eq!(seen, [(0, 1), (2, 0), (3, 2), (4, 1), (1, 2)]);
        assert_eq!(net.degree(0), 5);
        assert_eq!(net.degree(1), 2);
    }

    #[test]
    fn links_to_nobody_are_left_out() {
        let net = Net::new(2, &links(&[(0, 7), (9, 9), (0, 1)]));

        assert_eq!(net.links(0).collect::<Vec<_>>(), [(2, 1)]);
        assert_eq!(net.links(9).count(), 0);
        assert_eq!(net.degree(9), 0);
    }
}
