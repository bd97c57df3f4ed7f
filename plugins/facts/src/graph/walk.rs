//! What is around an entity: breadth first, the nearest first.

use std::collections::VecDeque;

use super::{Net, Notes};

/// More facts than this for each entity that was reached are not told.
const FACTS_PER_ENTITY: usize = 32;

/// What is around an entity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Around {
    /// The entities, nearest first; the first is the one in the middle.
    pub entities: Vec<Reached>,
    /// The facts between any two of them, those of the nearest first.
    pub facts: Vec<u32>,
    /// Whether there was more than the limit allows.
    pub cut: bool,
}

/// An entity that a walk came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Which.
    pub entity: u32,
    /// Over how many facts, by the shortest way.
    pub hops: usize,
}

impl Net {
    /// What is linked to `centre` over at most `hops` facts: at most `limit` entities, the middle included, and the facts
    /// between them. Nothing when there is no such entity.
    #[must_use]
    pub fn around(&self, centre: u32, hops: usize, limit: usize, walkable: impl Fn(u32) -> bool) -> Around {
        let mut around = Around::default();
        if !self.has(centre) {
            return around;
        }
        if limit == 0 {
            around.cut = true;
            return around;
        }
        let mut places = Notes::new(self.entities(), usize::MAX);
        let mut next = VecDeque::new();
        let mut reach = |reached: Reached, next: &mut VecDeque<Reached>, around: &mut Around| {
            if places.get(reached.entity) != usize::MAX {
                return true;
            }
            if around.entities.len() == limit {
                around.cut = true;
                return false;
            }
            places.set(reached.entity, around.entities.len());
            around.entities.push(reached);
            next.push_back(reached);
            true
        };
        reach(Reached { entity: centre, hops: 0 }, &mut next, &mut around);
        'walk: while let Some(here) = next.pop_front() {
            if here.hops == hops {
                break;
            }
            for (fact, entity) in self.links(here.entity) {
                if walkable(fact) && !reach(Reached { entity, hops: here.hops + 1 }, &mut next, &mut around) {
                    break 'walk;
                }
            }
        }
        self.facts_between(&mut around, &places, walkable);
        around
    }

    /// Adds the facts between entities that have a place: each with the first of its two ends.
    fn facts_between(&self, around: &mut Around, places: &Notes<usize>, walkable: impl Fn(u32) -> bool) {
        let most = around.entities.len().saturating_mul(FACTS_PER_ENTITY);
        for (place, here) in around.entities.iter().enumerate() {
            for (fact, entity) in self.links(here.entity) {
                let other = places.get(entity);
                if other == usize::MAX || other < place || !walkable(fact) {
                    continue;
                }
                if around.facts.len() == most {
                    around.cut = true;
                    return;
                }
                around.facts.push(fact);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{every, net, ring, small};
    use super::*;

    fn entities(around: &Around) -> Vec<(u32, usize)> {
        around.entities.iter().map(|reached| (reached.entity, reached.hops)).collect()
    }

    #[test]
    fn two_hops_reach_the_neighbours_and_theirs_and_no_further() {
        let chain = net(5, &[(0, 1), (2, 1), (2, 3), (3, 4)]);

        let around = chain.around(0, 2, 100, every);

        assert_eq!(entities(&around), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(around.facts, [0, 1]);
        assert!(!around.cut);
    }

    #[test]
    fn no_hops_reach_the_middle_alone_with_what_it_says_of_itself() {
        let around = net(2, &[(0, 0), (0, 1)]).around(0, 0, 100, every);

        assert_eq!(entities(&around), [(0, 0)]);
        assert_eq!(around.facts, [0]);
    }

    #[test]
    fn a_ring_is_walked_once_around() {
        let around = ring(30).around(0, 100, 100, every);

        assert_eq!(around.entities.len(), 30);
        assert_eq!(around.facts.len(), 30);
        assert_eq!(around.entities.last().unwrap().hops, 15);
        assert!(!around.cut);
    }

    #[test]
    fn parallel_facts_are_all_told_and_each_once() {
        let around = net(2, &[(0, 1), (1, 0), (0, 1)]).around(0, 1, 10, every);

        assert_eq!(around.facts, [0, 2, 1]);
    }

    #[test]
    fn what_is_beyond_the_limit_is_cut_and_said_to_be() {
        let star = net(11, &(1..11).map(|leaf| (0, leaf)).collect::<Vec<_>>());

        let around = star.around(0, 1, 4, every);
        assert_eq!(entities(&around), [(0, 0), (1, 1), (2, 1), (3, 1)]);
        assert_eq!(around.facts, [0, 1, 2]);
        assert!(around.cut);

        assert!(!star.around(0, 1, 11, every).cut);
        assert!(star.around(0, 1, 0, every).cut);
    }

    #[test]
    fn a_thousand_facts_between_two_are_cut() {
        let around = net(2, &[(0, 1); 1_000]).around(0, 1, 10, every);

        assert_eq!(around.facts.len(), 2 * FACTS_PER_ENTITY);
        assert!(around.cut);
    }

    #[test]
    fn nothing_is_around_nobody() {
        assert_eq!(net(0, &[]).around(0, 2, 10, every), Around::default());
        assert_eq!(net(2, &[(0, 1)]).around(2, 2, 10, every), Around::default());
        assert_eq!(entities(&net(1, &[]).around(0, 2, 10, every)), [(0, 0)]);
    }

    #[test]
    fn facts_that_do_not_hold_are_neither_walked_nor_told() {
        let around = net(3, &[(0, 1), (1, 2), (0, 2)]).around(0, 9, 10, |fact| fact != 2);

        assert_eq!(entities(&around), [(0, 0), (1, 1), (2, 2)]);
        assert_eq!(around.facts, [0, 1]);
    }

    proptest! {
        #[test]
        fn it_is_what_growing_rings_of_neighbours_gives(small in small(12), hops in 0_usize..6, limit in 1_usize..14) {
            let around = small.net().around(0, hops, limit, |fact| small.walkable(fact));

            let mut distance = vec![None; small.entities as usize];
            distance[0] = Some(0);
            for hop in 1..=hops {
                for entity in 0..small.entities {
                    if distance[entity as usize] == Some(hop - 1) {
                        for (_, other) in small.beside(entity) {
                            distance[other as usize].get_or_insert(hop);
                        }
                    }
                }
            }
            let mut expected: Vec<usize> = distance.iter().flatten().copied().collect();
            expected.sort_unstable();
            let there = expected.len();
            expected.truncate(limit);
            prop_assert_eq!(around.cut, there > limit);
            prop_assert_eq!(around.entities.iter().map(|reached| reached.hops).collect::<Vec<_>>(), expected);
            for reached in &around.entities {
                prop_assert_eq!(distance[reached.entity as usize], Some(reached.hops));
            }

            let inside = |entity| around.entities.iter().any(|reached| reached.entity == entity);
            let mut between: Vec<u32> = (0..)
                .zip(&small.pairs)
                .filter(|&(fact, &(from, to))| small.walkable(fact) && inside(from) && inside(to))
                .map(|(fact, _)| fact)
                .collect();
            let mut told = around.facts.clone();
            told.sort_unstable();
            between.sort_unstable();
            prop_assert_eq!(told, between);
        }
    }
}
