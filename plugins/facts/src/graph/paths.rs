//! How two entities are linked: the shortest ways first.
//!
//! Distances are learned from both ends, ring by ring, always on the side that is cheaper, until the two together reach as
//! far as the ways that are looked for are long. Each way is then followed from its middle to both ends, and only where the
//! distances say that the end can still be reached: no step is taken blindly.

use std::ops::ControlFlow;

use super::{Net, Notes};

/// The longest ways that are looked for, in facts; what asks for longer ones gets these.
pub const MOST_HOPS: usize = 32;

/// When so many facts were looked at while ways were followed, the search ends: there may be billions of detours.
const MOST_LOOKS: usize = 1_000_000;

/// The distance of an entity nobody has come to.
const UNKNOWN: usize = usize::MAX;

/// Ways from one entity to another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ways {
    /// The ways, shortest first.
    pub ways: Vec<Way>,
    /// Whether the search was ended, by the limit or because it took too long: there may be more ways.
    pub cut: bool,
}

/// A way that comes through no entity twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The entities, the two ends included.
    pub entities: Vec<u32>,
    /// The fact of each hop: one less than there are entities.
    pub facts: Vec<u32>,
}

impl Net {
    /// The shortest ways from `a` to `b`, at most `limit` of at most `hops` facts.
    ///
    /// Two entities that several facts link directly have a way for each. Longer ways differ in the entities they come
    /// through, and where several facts link two of these, the lowest number is told. None from an entity to itself.
    #[must_use]
    pub fn paths(&self, a: u32, b: u32, hops: usize, limit: usize, walkable: impl Fn(u32) -> bool) -> Ways {
        if a == b || !self.has(a) || !self.has(b) {
            return Ways::default();
        }
        let mut search = Search {
            net: self,
            walkable,
            from: Ball::new(self, a),
            to: Ball::new(self, b),
            limit,
            looks: 0,
            found: Ways::default(),
        };
        for length in 1..=hops.min(MOST_HOPS) {
            if search.reach(length).is_break() || search.ways_of(length).is_break() {
                break;
            }
        }
        search.found
    }
}

struct Search<'a, F> {
    net: &'a Net,
    walkable: F,
    from: Ball,
    to: Ball,
    limit: usize,
    looks: usize,
    found: Ways,
}

/// A part of a way: entities with the fact that led to each; the first entity was led to by none.
type Steps = Vec<Step>;
type Step = (u32, Option<u32>);

impl<F: Fn(u32) -> bool> Search<'_, F> {
    /// Learns distances from both ends until they reach `length` together; stops when the ends are not linked.
    fn reach(&mut self, length: usize) -> ControlFlow<()> {
        while self.from.radius + self.to.radius < length && !self.from.whole && !self.to.whole {
            let side = if self.from.cost <= self.to.cost { &mut self.from } else { &mut self.to };
            side.grow(self.net, &self.walkable);
        }
        let apart = (self.from.whole && self.from.distances.get(self.to.centre) == UNKNOWN)
            || (self.to.whole && self.to.distances.get(self.from.centre) == UNKNOWN);
        if apart { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Finds the ways of exactly `length`; stops when there is enough.
    fn ways_of(&mut self, length: usize) -> ControlFlow<()> {
        if length == 1 {
            return self.direct();
        }
        // A side that is known wholly reaches as far as one likes.
        let behind = if self.to.whole { self.from.radius.min(length) } else { length - self.to.radius.min(length) };
        let ahead = length - behind;
        let smaller = if self.from.members.len() <= self.to.members.len() { &self.from } else { &self.to };
        let middles: Vec<u32> = smaller
            .members
            .iter()
            .copied()
            .filter(|&entity| self.from.distances.get(entity) <= behind && self.to.distances.get(entity) <= ahead)
            .collect();
        let looks = smaller.members.len();
        self.look(looks)?;
        for middle in middles {
            // The ends of a way are in its middle only when nothing is to be followed on their side.
            if (middle == self.from.centre) != (behind == 0) || (middle == self.to.centre) != (ahead == 0) {
                continue;
            }
            self.back(&mut vec![(middle, None)], behind, ahead)?;
        }
        ControlFlow::Continue(())
    }

    /// A way for each fact that links the two ends.
    fn direct(&mut self) -> ControlFlow<()> {
        let (a, b) = (self.from.centre, self.to.centre);
        let (near, far) = if self.net.degree(a) <= self.net.degree(b) { (a, b) } else { (b, a) };
        let links = self.net.links(near).filter(|&(fact, other)| other == far && (self.walkable)(fact));
        let mut facts: Vec<u32> = links.map(|(fact, _)| fact).collect();
        facts.sort_unstable();
        facts.into_iter().try_for_each(|fact| self.add(Way { entities: vec![a, b], facts: vec![fact] }))
    }

    /// Follows all ways of `left` facts from the last of `steps` back to the beginning, and each of them on to the end.
    fn back(&mut self, steps: &mut Steps, left: usize, ahead: usize) -> ControlFlow<()> {
        if left == 0 {
            let middle = steps.iter().take(1).map(|&(entity, _)| (entity, None)).collect();
            return self.onward(steps, &mut { middle }, ahead);
        }
        for (entity, fact) in self.nearer(Side::From, steps, &[], left - 1)? {
            steps.push((entity, Some(fact)));
            self.back(steps, left - 1, ahead)?;
            steps.pop();
        }
        ControlFlow::Continue(())
    }

    /// Follows all ways of `left` facts from the last of `steps` on to the end, through none of `passed`.
    fn onward(&mut self, passed: &[Step], steps: &mut Steps, left: usize) -> ControlFlow<()> {
        if left == 0 {
            return self.add(Way::joined(passed, steps));
        }
        for (entity, fact) in self.nearer(Side::To, steps, passed, left - 1)? {
            steps.push((entity, Some(fact)));
            self.onward(passed, steps, left - 1)?;
            steps.pop();
        }
        ControlFlow::Continue(())
    }

    /// The neighbours of the last of `steps` that are not on the way yet and from which the end on `side` can be reached
    /// over `left` more facts, each with the lowest fact that leads to it; by their numbers.
    fn nearer(&mut self, side: Side, steps: &[Step], passed: &[Step], left: usize) -> ControlFlow<(), Vec<(u32, u32)>> {
        let Some(&(here, _)) = steps.last() else { return ControlFlow::Continue(Vec::new()) };
        self.look(self.net.degree(here) as usize)?;
        let ends = [self.from.centre, self.to.centre];
        let ball = match side {
            Side::From => &self.from,
            Side::To => &self.to,
        };
        let mut next: Vec<(u32, u32)> = self
            .net
            .links(here)
            .filter(|&(_, entity)| ball.distances.get(entity) <= left)
            .filter(|&(_, entity)| if left == 0 { entity == ball.centre } else { !ends.contains(&entity) })
            .filter(|&(_, entity)| !steps.iter().chain(passed).any(|&(on, _)| on == entity))
            .filter(|&(fact, _)| (self.walkable)(fact))
            .map(|(fact, entity)| (entity, fact))
            .collect();
        next.sort_unstable();
        next.dedup_by_key(|&mut (entity, _)| entity);
        ControlFlow::Continue(next)
    }

    fn add(&mut self, way: Way) -> ControlFlow<()> {
        if self.found.ways.len() == self.limit {
            self.found.cut = true;
            return ControlFlow::Break(());
        }
        self.found.ways.push(way);
        ControlFlow::Continue(())
    }

    /// Counts `looks`; stops when there were too many.
    fn look(&mut self, looks: usize) -> ControlFlow<()> {
        self.looks += looks;
        if self.looks > MOST_LOOKS {
            self.found.cut = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Towards which end a way is followed.
#[derive(Clone, Copy)]
enum Side {
    From,
    To,
}

impl Way {
    /// The way that comes back to its beginning over `back` and goes on over `onward`; both start in its middle.
    fn joined(back: &[Step], onward: &[Step]) -> Self {
        let beginning = back.iter().rev();
        let rest = onward.iter().skip(1);
        Self {
            entities: beginning.clone().chain(rest.clone()).map(|&(entity, _)| entity).collect(),
            facts: beginning.chain(rest).filter_map(|&(_, fact)| fact).collect(),
        }
    }
}

/// What is known of the distances to one end.
struct Ball {
    centre: u32,
    distances: Notes<usize>,
    /// All that were reached, nearest first.
    members: Vec<u32>,
    /// Where in `members` those begin that are farthest away.
    ring: usize,
    radius: usize,
    /// How many facts are to be looked at for the next ring.
    cost: u64,
    /// Whether there is nothing beyond.
    whole: bool,
}

impl Ball {
    fn new(net: &Net, centre: u32) -> Self {
        let mut distances = Notes::new(net.entities(), UNKNOWN);
        distances.set(centre, 0);
        let cost = net.degree(centre).into();
        Self { centre, distances, members: vec![centre], ring: 0, radius: 0, cost, whole: false }
    }

    /// Learns of those one fact further away.
    fn grow(&mut self, net: &Net, walkable: impl Fn(u32) -> bool) {
        let ring = self.members.split_off(self.ring);
        self.ring += ring.len();
        let mut next = Vec::new();
        self.cost = 0;
        for &here in &ring {
            for (fact, entity) in net.links(here) {
                if self.distances.get(entity) == UNKNOWN && walkable(fact) {
                    self.distances.set(entity, self.radius + 1);
                    self.cost += u64::from(net.degree(entity));
                    next.push(entity);
                }
            }
        }
        self.whole = next.is_empty();
        self.radius += 1;
        self.members.extend(ring);
        self.members.extend(next);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::sample::{Small, every, net, ring, small};
    use super::*;

    fn entities(ways: &Ways) -> Vec<Vec<u32>> {
        ways.ways.iter().map(|way| way.entities.clone()).collect()
    }

    #[test]
    fn facts_are_followed_in_both_directions() {
        let ways = net(4, &[(1, 0), (1, 2), (3, 2)]).paths(0, 3, 5, 10, every);

        assert_eq!(entities(&ways), [[0, 1, 2, 3]]);
        assert_eq!(ways.ways[0].facts, [0, 1, 2]);
        assert!(!ways.cut);
    }

    #[test]
    fn shorter_ways_come_first_and_longer_ones_follow() {
        let ways = net(5, &[(0, 3), (3, 4), (4, 1), (0, 2), (2, 1), (0, 1)]).paths(0, 1, 5, 10, every);

        assert_eq!(entities(&ways), [vec![0, 1], vec![0, 2, 1], vec![0, 3, 4, 1]]);
    }

    #[test]
    fn the_limit_keeps_the_shortest() {
        let linked = net(5, &[(0, 3), (3, 4), (4, 1), (0, 2), (2, 1), (0, 1)]);

        let ways = linked.paths(0, 1, 5, 2, every);
        assert_eq!(entities(&ways), [vec![0, 1], vec![0, 2, 1]]);
        assert!(ways.cut);

        assert!(!linked.paths(0, 1, 5, 3, every).cut);
        assert!(linked.paths(0, 1, 5, 0, every).ways.is_empty());
    }

    #[test]
    fn both_ways_around_a_ring_are_found() {
        let ways = ring(30).paths(0, 10, 29, 10, every);

        assert_eq!(ways.ways.iter().map(|way| way.facts.len()).collect::<Vec<_>>(), [10, 20]);
        assert_eq!(entities(&ways)[0], (0..=10).collect::<Vec<_>>());
        assert!(!ways.cut);
    }

    #[test]
    fn ways_longer_than_asked_for_are_not_told() {
        assert_eq!(ring(30).paths(0, 10, 19, 10, every).ways.len(), 1);
        assert_eq!(ring(30).paths(0, 10, 9, 10, every).ways.len(), 0);
        assert_eq!(ring(30).paths(0, 10, 0, 10, every).ways.len(), 0);
        assert_eq!(ring(100).paths(0, 40, usize::MAX, 10, every).ways.len(), 0);
    }

    #[test]
    fn each_fact_that_links_two_directly_is_a_way_of_its_own() {
        let ways = net(3, &[(0, 1), (1, 0), (0, 1), (0, 2), (2, 1), (2, 1)]).paths(0, 1, 2, 10, every);

        let facts: Vec<_> = ways.ways.iter().map(|way| way.facts.clone()).collect();
        assert_eq!(facts, [vec![0], vec![1], vec![2], vec![3, 4]]);
    }

    #[test]
    fn what_a_thing_says_of_itself_is_no_way() {
        assert!(net(1, &[(0, 0)]).paths(0, 0, 5, 10, every).ways.is_empty());
        assert_eq!(entities(&net(2, &[(0, 0), (0, 1), (1, 1)]).paths(0, 1, 5, 10, every)), [[0, 1]]);
    }

    #[test]
    fn those_that_are_not_linked_have_no_way() {
        let apart = net(6, &[(0, 1), (1, 2), (3, 4)]);

        assert_eq!(apart.paths(0, 4, 9, 10, every), Ways::default());
        assert_eq!(apart.paths(0, 5, 9, 10, every), Ways::default());
        assert_eq!(apart.paths(0, 6, 9, 10, every), Ways::default());
        assert_eq!(net(0, &[]).paths(0, 1, 9, 10, every), Ways::default());
    }

    #[test]
    fn a_fact_that_does_not_hold_bars_the_way() {
        let ways = net(4, &[(0, 1), (1, 3), (0, 2), (2, 3)]).paths(0, 3, 5, 10, |fact| fact != 1);

        assert_eq!(entities(&ways), [[0, 2, 3]]);
    }

    #[test]
    fn an_entity_that_everything_is_linked_with_does_not_hold_the_search_up() {
        // Each leaf is a dead end that looks like the beginning of a detour.
        let mut pairs: Vec<(u32, u32)> = (1..50_000).map(|leaf| (0, leaf)).collect();
        pairs.push((1, 50_000));
        let star = net(50_001, &pairs);

        let ways = star.paths(50_000, 49_999, 8, 10, every);

        assert_eq!(entities(&ways), [[50_000, 1, 0, 49_999]]);
    }

    #[test]
    fn billions_of_detours_end_the_search_and_it_says_so() {
        // Twelve layers of twelve, each linked with the next, and the ends with the first and the last but one.
        let layer = |n: u32| (n * 12)..(n * 12 + 12);
        let mut pairs: Vec<(u32, u32)> =
            (0..11).flat_map(|n| layer(n).flat_map(move |from| layer(n + 1).map(move |to| (from, to)))).collect();
        pairs.extend(layer(0).map(|first| (144, first)));
        pairs.extend(layer(11).map(|last| (last, 145)));

        let ways = net(146, &pairs).paths(144, 145, 32, usize::MAX, every);

        assert!(ways.cut);
        assert!(ways.ways.iter().all(|way| way.facts.len() == 13));
        assert!(!ways.ways.is_empty());
    }

    /// All ways by trying everything.
    fn all_ways(small: &Small, way: &mut Vec<u32>, to: u32, hops: usize, found: &mut Vec<Vec<u32>>) {
        let here = *way.last().unwrap();
        if here == to {
            found.push(way.clone());
            return;
        }
        if way.len() > hops {
            return;
        }
        let mut next: Vec<u32> = small.beside(here).into_iter().map(|(_, other)| other).collect();
        next.sort_unstable();
        next.dedup();
        for other in next {
            if !way.contains(&other) {
                way.push(other);
                all_ways(small, way, to, hops, found);
                way.pop();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn they_are_the_ways_that_trying_everything_finds(small in small(9), hops in 0_usize..9, limit in 1_usize..6) {
            let (a, b) = (0, small.entities - 1);
            prop_assume!(a != b);
            let net = small.net();
            let mut expected = Vec::new();
            all_ways(&small, &mut vec![a], b, hops, &mut expected);
            expected.sort_by_key(|way| (way.len(), way.clone()));
            // A way for each fact that links them directly.
            let direct = small.beside(a).iter().filter(|&&(_, other)| other == b).count();
            let copies = if hops == 0 { 0 } else { direct.saturating_sub(1) };
            expected.splice(0..0, vec![vec![a, b]; copies]);

            let ways = net.paths(a, b, hops, usize::MAX, |fact| small.walkable(fact));

            prop_assert!(!ways.cut);
            let mut found = entities(&ways);
            prop_assert!(found.is_sorted_by_key(Vec::len));
            found.sort_by_key(|way| (way.len(), way.clone()));
            prop_assert_eq!(&found, &expected);
            for way in &ways.ways {
                prop_assert_eq!(way.facts.len() + 1, way.entities.len());
                for (hop, &fact) in way.entities.windows(2).zip(&way.facts) {
                    prop_assert!(small.walkable(fact));
                    prop_assert!(small.beside(hop[0]).contains(&(fact, hop[1])));
                }
            }

            let few = net.paths(a, b, hops, limit, |fact| small.walkable(fact));
            prop_assert_eq!(few.cut, expected.len() > limit);
            prop_assert_eq!(&few.ways[..], &ways.ways[..limit.min(ways.ways.len())]);
        }
    }
}
