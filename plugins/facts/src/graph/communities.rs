//! Entities that are linked among themselves more than to others: communities, by modularity.
//!
//! The Louvain method (Blondel et al., 2008): each entity goes where it is linked best, measured by how many facts would link
//! it to others by chance; then each community counts as one entity, and so on until nothing moves. Entities are asked in the
//! order of their numbers, and the arithmetic is in whole numbers: the same graph gives the same communities.

use std::collections::BTreeMap;

use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef;

use super::{Net, Notes, short};

/// How often all entities are asked before communities are taken as they are.
const MOST_ROUNDS: usize = 32;

/// How often communities are joined.
const MOST_LEVELS: usize = 16;

/// Entities that are linked among themselves more than to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its members, best linked first; at least two.
    pub entities: Vec<u32>,
    /// How many facts link members to each other.
    pub facts: usize,
}

impl Net {
    /// The entities in groups, largest first. Those without a fact that links them to another are in none.
    #[must_use]
    pub fn communities(&self, walkable: impl Fn(u32) -> bool) -> Vec<Group> {
        let pairs = self.pairs(walkable);
        let mut level = Level::new(pairs.iter().flat_map(|&(a, b)| [(a, b, 1), (b, a, 1)]).collect());
        let mut homes = Homes::alone(self.entities());
        for _ in 0..MOST_LEVELS {
            let Some(moved) = level.settle(homes.count) else { break };
            level = level.joined(&moved);
            homes = homes.then(&moved);
        }
        self.groups(&pairs, &homes)
    }

    /// The two ends of each fact that links two entities.
    fn pairs(&self, walkable: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        self.graph
            .edge_references()
            .filter(|edge| walkable(*edge.weight()))
            .map(|edge| (short(edge.source().index()), short(edge.target().index())))
            .filter(|(a, b)| a != b)
            .collect()
    }

    /// The groups that `homes` makes, each of which hangs together.
    fn groups(&self, pairs: &[(u32, u32)], homes: &Homes) -> Vec<Group> {
        // A community can lose the member that held it together to another one; its pieces are groups of their own.
        let mut pieces = UnionFind::<u32>::new(self.entities());
        let mut inside = Notes::new(self.entities(), 0_usize);
        for &(a, b) in pairs.iter().filter(|&&(a, b)| homes.of.get(a) == homes.of.get(b)) {
            pieces.union(a, b);
            inside.set(a, inside.get(a) + 1);
            inside.set(b, inside.get(b) + 1);
        }
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for entity in homes.members().filter(|&entity| inside.get(entity) > 0) {
            groups.entry(pieces.find(entity)).or_default().push(entity);
        }
        let mut groups: Vec<Group> = groups
            .into_values()
            .map(|mut entities| {
                entities.sort_by_key(|&entity| (std::cmp::Reverse(inside.get(entity)), entity));
                // Each fact was counted at both ends.
                let facts = entities.iter().map(|&entity| inside.get(entity)).sum::<usize>() / 2;
                Group { entities, facts }
            })
            .collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.entities.len()), group.entities.iter().min().copied()));
        groups
    }
}

/// To which community each belongs; communities are numbered from 0 on.
struct Homes {
    of: Notes<u32>,
    count: usize,
}

impl Homes {
    /// Each on its own.
    fn alone(count: usize) -> Self {
        let mut of = Notes::new(count, 0);
        for entity in (0..count).map(short) {
            of.set(entity, entity);
        }
        Self { of, count }
    }

    fn members(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.of.0.len()).map(short)
    }

    /// The same with the communities numbered without gaps, in the order of their first members.
    fn numbered(mut self) -> Self {
        let mut numbers = Notes::new(self.of.0.len(), u32::MAX);
        self.count = 0;
        for member in self.members() {
            let home = self.of.get(member);
            if numbers.get(home) == u32::MAX {
                numbers.set(home, short(self.count));
                self.count += 1;
            }
            self.of.set(member, numbers.get(home));
        }
        self
    }

    /// Where each belongs when the communities themselves belong to `larger` ones.
    fn then(mut self, larger: &Self) -> Self {
        for member in self.members() {
            self.of.set(member, larger.of.get(self.of.get(member)));
        }
        self.count = larger.count;
        self
    }
}

/// A graph of entities, or of communities of them, with the number of facts from each to each; both directions count.
struct Level {
    /// From, to, how many; sorted, each pair once.
    links: Vec<(u32, u32, u64)>,
    all: u64,
}

impl Level {
    fn new(mut links: Vec<(u32, u32, u64)>) -> Self {
        links.sort_unstable();
        links.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let all = links.iter().map(|&(_, _, count)| count).sum();
        Self { links, all }
    }

    /// Moves each of `count` to where it is linked best until nothing moves; `None` when nothing moved at all.
    fn settle(&self, count: usize) -> Option<Homes> {
        let mut homes = Homes::alone(count);
        // How many facts the members of each community have, wherever they lead.
        let mut totals = Notes::new(count, 0_u64);
        for &(from, _, count) in &self.links {
            totals.set(from, totals.get(from) + count);
        }
        let mut towards = Notes::new(count, 0_u64);
        let mut moved = false;
        for _ in 0..MOST_ROUNDS {
            let mut moved_now = false;
            for links in self.links.chunk_by(|a, b| a.0 == b.0) {
                moved_now |= self.move_one(links, &mut homes, &mut totals, &mut towards);
            }
            moved |= moved_now;
            if !moved_now {
                break;
            }
        }
        moved.then(|| homes.numbered())
    }

    /// Moves the one whose `links` these are to the community it is linked best with; whether it moved.
    fn move_one(
        &self,
        links: &[(u32, u32, u64)],
        homes: &mut Homes,
        totals: &mut Notes<u64>,
        towards: &mut Notes<u64>,
    ) -> bool {
        let Some(&(this, ..)) = links.first() else { return false };
        let own: u64 = links.iter().map(|&(_, _, count)| count).sum();
        let home = homes.of.get(this);
        totals.set(home, totals.get(home) - own);
        let mut near = Vec::new();
        for &(_, other, count) in links.iter().filter(|&&(_, other, _)| other != this) {
            let community = homes.of.get(other);
            if towards.get(community) == 0 {
                near.push(community);
            }
            towards.set(community, towards.get(community) + count);
        }
        // What links it there, beyond what would by chance; times the number of all facts, so that it is a whole number.
        let gain = |community| {
            i128::from(self.all) * i128::from(towards.get(community))
                - i128::from(own) * i128::from(totals.get(community))
        };
        near.sort_unstable();
        let mut best = (gain(home), home);
        for &community in &near {
            if gain(community) > best.0 {
                best = (gain(community), community);
            }
        }
        for community in near {
            towards.set(community, 0);
        }
        totals.set(best.1, totals.get(best.1) + own);
        homes.of.set(this, best.1);
        best.1 != home
    }

    /// The graph of the communities.
    fn joined(&self, homes: &Homes) -> Self {
        let home = |member| homes.of.get(member);
        Self::new(self.links.iter().map(|&(from, to, count)| (home(from), home(to), count)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{every, net, ring, small};
    use super::*;

    fn clique(of: std::ops::Range<u32>) -> Vec<(u32, u32)> {
        of.clone().flat_map(|a| of.clone().filter(move |&b| a < b).map(move |b| (a, b))).collect()
    }

    fn members(groups: &[Group]) -> Vec<Vec<u32>> {
        let sorted = |group: &Group| {
            let mut entities = group.entities.clone();
            entities.sort_unstable();
            entities
        };
        groups.iter().map(sorted).collect()
    }

    #[test]
    fn two_cliques_with_one_fact_between_them_are_two_communities() {
        let pairs = [clique(0..5), clique(5..11), vec![(4, 5)]].concat();

        let groups = net(11, &pairs).communities(every);

        assert_eq!(members(&groups), [(5..11).collect::<Vec<_>>(), (0..5).collect()]);
        assert_eq!(groups.iter().map(|group| group.facts).collect::<Vec<_>>(), [15, 10]);
    }

    #[test]
    fn eight_cliques_in_a_ring_are_eight_communities() {
        let cliques = (0..8).flat_map(|n| clique(n * 5..n * 5 + 5));
        let bridges = (0..8).map(|n| (n * 5, (n * 5 + 6) % 40));

        let groups = net(40, &cliques.chain(bridges).collect::<Vec<_>>()).communities(every);

        assert_eq!(members(&groups), (0..8).map(|n| (n * 5..n * 5 + 5).collect()).collect::<Vec<Vec<u32>>>());
    }

    #[test]
    fn the_best_linked_member_comes_first() {
        let groups = net(4, &[clique(0..4), vec![(3, 0), (3, 2)]].concat()).communities(every);

        assert_eq!(groups[0].entities, [3, 0, 2, 1]);
        assert_eq!(groups[0].facts, 8);
    }

    #[test]
    fn entities_without_a_link_to_another_are_in_no_community() {
        assert_eq!(net(0, &[]).communities(every), []);
        assert_eq!(net(3, &[(0, 0)]).communities(every), []);
        assert_eq!(members(&net(5, &[(1, 3), (2, 2)]).communities(every)), [[1, 3]]);
    }

    #[test]
    fn a_community_that_fell_apart_is_as_many_groups_as_it_has_pieces() {
        let pairs = [(0, 1), (1, 2), (3, 4)];
        // All in one, as if a sixth had held them together before it went elsewhere.
        let together = Homes { of: Notes::new(5, 0), count: 1 };

        let groups = net(5, &pairs).groups(&pairs, &together);

        assert_eq!(members(&groups), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(groups.iter().map(|group| group.facts).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn facts_that_do_not_hold_link_nothing() {
        let groups = net(4, &[(0, 1), (1, 2), (2, 3)]).communities(|fact| fact != 1);

        assert_eq!(members(&groups), [[0, 1], [2, 3]]);
    }

    #[test]
    fn all_facts_between_two_are_counted() {
        assert_eq!(net(2, &[(0, 1), (1, 0), (0, 1), (0, 0)]).communities(every)[0].facts, 3);
    }

    #[test]
    fn a_ring_falls_into_arcs_that_hang_together() {
        let groups = ring(30).communities(every);

        assert!(groups.len() > 1, "{groups:?}");
        for group in &groups {
            assert_eq!(group.facts + 1, group.entities.len(), "{group:?}");
        }
    }

    /// How much better than by chance the entities are grouped, 0 for all in one.
    fn modularity(pairs: &[(u32, u32)], home: impl Fn(u32) -> u32) -> f64 {
        let pairs: Vec<_> = pairs.iter().filter(|(a, b)| a != b).collect();
        let all = 2.0 * pairs.len() as f64;
        let degree = |of: u32| pairs.iter().map(|(a, b)| usize::from(*a == of) + usize::from(*b == of)).sum::<usize>();
        let inside = pairs.iter().filter(|(a, b)| home(*a) == home(*b)).count() as f64 * 2.0;
        let mut totals = BTreeMap::<u32, usize>::new();
        for entity in 0..64 {
            *totals.entry(home(entity)).or_default() += degree(entity);
        }
        inside / all - totals.values().map(|&total| (total as f64 / all).powi(2)).sum::<f64>()
    }

    proptest! {
        #[test]
        fn each_entity_is_in_one_group_and_grouping_is_never_worse_than_one_or_none(small in small(14)) {
            let groups = small.net().communities(|fact| small.walkable(fact));

            let mut home = vec![u32::MAX; 64];
            for (number, group) in (0..).zip(&groups) {
                prop_assert!(group.entities.len() > 1);
                for &entity in &group.entities {
                    prop_assert_eq!(home[entity as usize], u32::MAX);
                    home[entity as usize] = number;
                }
            }
            // Each hangs together: from its first member one comes to all others without leaving it.
            for group in &groups {
                let mut reached = vec![group.entities[0]];
                let mut next = 0;
                while let Some(&here) = reached.get(next) {
                    for (_, other) in small.beside(here) {
                        if group.entities.contains(&other) && !reached.contains(&other) {
                            reached.push(other);
                        }
                    }
                    next += 1;
                }
                prop_assert_eq!(reached.len(), group.entities.len());
            }
            let holding: Vec<(u32, u32)> =
                (0..).zip(&small.pairs).filter(|&(fact, _)| small.walkable(fact)).map(|(_, &pair)| pair).collect();
            prop_assume!(holding.iter().any(|(a, b)| a != b));
            let found = modularity(&holding, |entity| match home[entity as usize] {
                u32::MAX => 1_000 + entity,
                group => group,
            });
            prop_assert!(found >= modularity(&holding, |_| 0) - 1e-9);
            prop_assert!(found >= modularity(&holding, |entity| entity) - 1e-9);
        }
    }
}
