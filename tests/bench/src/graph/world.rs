//! An invented graph, always the same: entities that are linked the more often the more links they have, as people's are;
//! the person whose memory it is, with whom one in ten facts has to do; a long ring, and many short ways around.

use crate::invent::mix;

/// Facts that each new entity brings: their other ends are chosen by how often they are linked already.
const EACH: usize = 2;

/// One entity in so many stands in the ring.
const IN_RING: usize = 10;

/// One fact in so many is about the person whose memory it is.
const OF_PERSON: usize = 10;

/// One fact in so many is over.
const OVER: u64 = 10;

const PREDICATES: [&str; 5] = ["uses", "knows", "depends_on", "works_with", "likes"];

pub(super) struct World {
    pub(super) entities: u32,
    /// Subject and object of each fact.
    pub(super) facts: Vec<(u32, u32)>,
}

impl World {
    pub(super) fn of(facts: usize) -> Self {
        // Two facts in three bring an entity with them; the rest closes rings.
        let entities = (facts / 3).max(3);
        let mut links = Vec::with_capacity(facts);
        let mut ends: Vec<u32> = vec![0, 1];
        for entity in 2..entities as u32 {
            for n in 0..EACH {
                let other = ends[chance(entity as usize, n, ends.len())];
                if other != entity && links.len() < facts {
                    links.push((entity, other));
                    ends.extend([entity, other]);
                }
            }
        }
        let ring = entities / IN_RING;
        let stands = |n: usize| (n % ring.max(1) * IN_RING) as u32;
        links.extend((0..ring).map(|n| (stands(n), stands(n + 1))).take(facts.saturating_sub(links.len())));
        let person = facts / OF_PERSON;
        links.extend((0..person).map(|n| (0, 1 + chance(1, n, entities - 1) as u32)).take(facts - links.len()));
        let mut n = 0;
        while links.len() < facts {
            let (a, b) = (chance(facts, 2 * n, entities) as u32, chance(facts, 2 * n + 1, entities) as u32);
            if a != b {
                links.push((a, b));
            }
            n += 1;
        }
        Self { entities: entities as u32, facts: links }
    }

    /// An entity, another for each `n`.
    pub(super) fn some(&self, n: usize) -> u32 {
        chance(usize::MAX, n, self.entities as usize) as u32
    }

    /// The entity with the most facts, and how many these are.
    pub(super) fn most_linked(&self) -> (u32, usize) {
        let mut counts = vec![0; self.entities as usize];
        for &(a, b) in &self.facts {
            counts[a as usize] += 1;
            counts[b as usize] += 1;
        }
        (0..).zip(counts).max_by_key(|&(_, count)| count).unwrap_or_default()
    }

    /// Whether a fact still holds.
    pub(super) fn holds(&self, fact: u32) -> bool {
        !mix(u64::from(fact), 7).is_multiple_of(OVER)
    }

    pub(super) fn name(entity: u32) -> String {
        format!("thing {entity}")
    }

    /// All facts as CSV: the import's format.
    pub(super) fn csv(&self) -> impl Iterator<Item = String> {
        (0..).zip(&self.facts).map(|(fact, &(subject, object))| {
            let predicate = PREDICATES[fact as usize % PREDICATES.len()];
            let until = if self.holds(fact) { "" } else { "2024-06-01" };
            format!("{},{predicate},{},2020-01-01,{until}\n", Self::name(subject), Self::name(object))
        })
    }

    pub(super) const COLUMNS: &str = "subject,predicate,object,valid_from,valid_to\n";
}

fn chance(seed: usize, at: usize, below: usize) -> usize {
    (mix(seed as u64, at as u64) % below.max(1) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_facts_as_wanted_and_some_entities_are_linked_far_more_than_most() {
        for facts in [5, 100, 10_000] {
            let world = World::of(facts);
            assert_eq!(world.facts.len(), facts);
            assert!(world.facts.iter().all(|&(a, b)| a != b && a.max(b) < world.entities));
            assert_eq!(world.csv().count(), facts);
        }
        assert!(World::of(10_000).most_linked().1 > 1_000);
    }
}
