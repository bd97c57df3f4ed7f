//! What matters to a question: personalised PageRank from the entities it names.
//!
//! A walker starts at one of the seeds; at every entity it goes on over one of its facts, any of them alike, or starts anew.
//! How often it is somewhere is the rank. Ranks are found by pushing what the seeds hold to their neighbours, and theirs to
//! theirs, as long as there is enough of it to matter (Andersen, Chung and Lang, "Local Graph Partitioning using PageRank
//! Vectors", FOCS 2006): so only what is near is looked at, however large the graph.

use std::collections::VecDeque;

use super::{Net, Notes};

/// How likely the walker goes on rather than starting anew.
///
/// 0.85 is what the Web was ranked with (Brin and Page, 1998); here what is near the question counts, and half, which is what
/// HippoRAG walks its facts with (Gutiérrez et al., NeurIPS 2024), keeps a single seed before everything else.
const DAMPING: f64 = 0.5;

/// What an entity holds for each of its facts is not worth being pushed on when it is less, except once by a seed. All other
/// pushes together look at no more than `1 / (1 - DAMPING) / WORTH` facts.
const WORTH: f64 = 1e-5;

impl Net {
    /// The entities that a walk from `seeds` comes to, with their share of all its time: highest first, 1 in sum.
    ///
    /// Seeds are entities with their weights; those that are not above zero, or are nobody's, are left out. Without any that
    /// is left there are no ranks.
    #[must_use]
    pub fn rank(&self, seeds: &[(u32, f64)], walkable: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        let usable = |&&(entity, weight): &&(u32, f64)| self.has(entity) && weight > 0.0 && weight.is_finite();
        let largest = seeds.iter().filter(usable).map(|&(_, weight)| weight).fold(0.0, f64::max);
        // By the largest first, so that no sum of weights is beyond what a number can hold.
        let all: f64 = seeds.iter().filter(usable).map(|&(_, weight)| weight / largest).sum();
        let mut push = Push::new(self);
        for &(entity, weight) in seeds.iter().filter(usable) {
            push.receive(entity, weight / largest / all);
            // However many facts a seed has: what it holds goes on at least once.
            push.wait(entity);
        }
        while let Some(entity) = push.waiting.pop_front() {
            push.pass_on(entity, &walkable);
        }
        push.ranks()
    }
}

struct Push<'a> {
    net: &'a Net,
    /// What stays where it is.
    kept: Notes<f64>,
    /// What may still be pushed on.
    held: Notes<f64>,
    waits: Notes<bool>,
    waiting: VecDeque<u32>,
    reached: Vec<u32>,
}

impl<'a> Push<'a> {
    fn new(net: &'a Net) -> Self {
        let entities = net.entities();
        Self {
            net,
            kept: Notes::new(entities, 0.0),
            held: Notes::new(entities, 0.0),
            waits: Notes::new(entities, false),
            waiting: VecDeque::new(),
            reached: Vec::new(),
        }
    }

    fn receive(&mut self, entity: u32, share: f64) {
        let (kept, held) = (self.kept.get(entity), self.held.get(entity));
        if kept == 0.0 && held == 0.0 {
            self.reached.push(entity);
        }
        self.held.set(entity, held + share);
        if held + share >= WORTH * f64::from(self.net.degree(entity)) {
            self.wait(entity);
        }
    }

    fn wait(&mut self, entity: u32) {
        if !self.waits.get(entity) {
            self.waits.set(entity, true);
            self.waiting.push_back(entity);
        }
    }

    fn pass_on(&mut self, entity: u32, walkable: impl Fn(u32) -> bool) {
        self.waits.set(entity, false);
        let held = self.held.get(entity);
        self.held.set(entity, 0.0);
        let ways = self.net.links(entity).filter(|&(fact, _)| walkable(fact));
        let ends: Vec<u32> = ways.map(|(_, other)| other).collect();
        if ends.is_empty() {
            // Nowhere to go: the walker stays until it starts anew, which for a seed is here again.
            self.kept.set(entity, self.kept.get(entity) + held);
            return;
        }
        self.kept.set(entity, self.kept.get(entity) + (1.0 - DAMPING) * held);
        #[expect(clippy::cast_precision_loss, reason = "no entity has so many facts")]
        let each = DAMPING * held / ends.len() as f64;
        for other in ends {
            self.receive(other, each);
        }
    }

    /// What was kept, and what was left where it is; highest first.
    fn ranks(self) -> Vec<(u32, f64)> {
        let Self { kept, held, reached, .. } = self;
        let mut ranks: Vec<(u32, f64)> =
            reached.into_iter().map(|entity| (entity, kept.get(entity) + held.get(entity))).collect();
        ranks.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.total_cmp(of_a).then(a.cmp(b)));
        ranks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{Small, every, net, ring, small};
    use super::*;

    fn order(ranks: &[(u32, f64)]) -> Vec<u32> {
        ranks.iter().map(|&(entity, _)| entity).collect()
    }

    fn sum(ranks: &[(u32, f64)]) -> f64 {
        ranks.iter().map(|&(_, rank)| rank).sum()
    }

    fn star(leaves: u32) -> Net {
        net(leaves as usize + 1, &(1..=leaves).map(|leaf| (0, leaf)).collect::<Vec<_>>())
    }

    #[test]
    fn on_a_star_the_seed_is_first_whether_it_is_the_middle_or_a_leaf() {
        let middle = star(50).rank(&[(0, 1.0)], every);
        assert_eq!(middle[0].0, 0);
        assert!((middle[1].1 - middle[50].1).abs() < 1e-9, "all leaves are alike: {middle:?}");

        let leaf = star(50).rank(&[(7, 1.0)], every);
        assert_eq!(order(&leaf)[..2], [7, 0]);
    }

    #[test]
    fn what_is_nearer_to_the_seed_ranks_higher() {
        let ranks = net(4, &[(0, 1), (1, 2), (2, 3)]).rank(&[(0, 1.0)], every);

        assert_eq!(order(&ranks), [0, 1, 2, 3]);
    }

    #[test]
    fn what_two_seeds_are_linked_with_ranks_above_what_one_is() {
        let ranks = net(5, &[(0, 2), (1, 2), (0, 3), (1, 4)]).rank(&[(0, 1.0), (1, 1.0)], every);

        assert_eq!(order(&ranks), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_heavier_seed_draws_more() {
        let ranks = net(4, &[(0, 2), (1, 3)]).rank(&[(0, 1.0), (1, 3.0)], every);

        assert_eq!(order(&ranks), [1, 3, 0, 2]);
        assert!((ranks[0].1 - 3.0 * ranks[2].1).abs() < 1e-4);
    }

    #[test]
    fn two_facts_draw_more_than_one() {
        let ranks = net(3, &[(0, 1), (0, 2), (2, 0)]).rank(&[(0, 1.0)], every);

        assert_eq!(order(&ranks), [0, 2, 1]);
    }

    #[test]
    fn a_seed_with_very_many_facts_still_ranks_what_it_is_linked_with() {
        let ranks = star(150_000).rank(&[(0, 1.0), (7, 1.0)], every);

        assert_eq!(ranks.len(), 150_001);
        assert!((sum(&ranks) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_seed_without_facts_keeps_all_it_has() {
        assert_eq!(net(3, &[(0, 1)]).rank(&[(2, 5.0)], every), [(2, 1.0)]);
        assert_eq!(net(2, &[(0, 1)]).rank(&[(0, 1.0)], |_| false), [(0, 1.0)]);
    }

    #[test]
    fn without_a_seed_that_is_worth_something_nothing_ranks() {
        let pair = net(2, &[(0, 1)]);
        for seeds in
            [vec![], vec![(0, 0.0)], vec![(0, -1.0)], vec![(0, f64::NAN)], vec![(0, f64::INFINITY)], vec![(2, 1.0)]]
        {
            assert_eq!(pair.rank(&seeds, every), [], "{seeds:?}");
        }
        assert_eq!(net(0, &[]).rank(&[(0, 1.0)], every), []);
        assert!((sum(&pair.rank(&[(0, f64::MAX), (1, f64::MAX)], every)) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_ring_ends() {
        let ranks = ring(30).rank(&[(0, 1.0)], every);

        assert_eq!(order(&ranks)[..3], [0, 1, 29]);
        assert!((sum(&ranks) - 1.0).abs() < 1e-9);
    }

    /// Ranks by walking a hundred steps with everything there is.
    fn by_walking(small: &Small, seeds: &[(u32, f64)]) -> Vec<f64> {
        let all: f64 = seeds.iter().map(|&(_, weight)| weight).sum();
        let mut start = vec![0.0; small.entities as usize];
        for &(entity, weight) in seeds {
            start[entity as usize] += weight / all;
        }
        let (mut at, mut ranks) = (start.clone(), vec![0.0; start.len()]);
        for _ in 0..100 {
            let mut next = vec![0.0; start.len()];
            for entity in 0..small.entities {
                let beside = small.beside(entity);
                let here = at[entity as usize];
                if beside.is_empty() {
                    ranks[entity as usize] += here;
                    continue;
                }
                ranks[entity as usize] += (1.0 - DAMPING) * here;
                for &(_, other) in &beside {
                    next[other as usize] += DAMPING * here / beside.len() as f64;
                }
            }
            at = next;
        }
        ranks
    }

    proptest! {
        #[test]
        fn it_is_what_a_long_walk_gives(small in small(12), first in 0.1_f64..9.0, last in 0.1_f64..9.0) {
            let seeds = [(0, first), (small.entities - 1, last)];

            let ranks = small.net().rank(&seeds, |fact| small.walkable(fact));

            prop_assert!((sum(&ranks) - 1.0).abs() < 1e-9);
            prop_assert!(ranks.iter().is_sorted_by(|(_, a), (_, b)| a >= b));
            let expected = by_walking(&small, &seeds);
            for entity in 0..small.entities {
                let rank = ranks.iter().find(|&&(ranked, _)| ranked == entity).map_or(0.0, |&(_, rank)| rank);
                prop_assert!((rank - expected[entity as usize]).abs() < 1e-3, "{} {}", rank, expected[entity as usize]);
            }
        }
    }
}
