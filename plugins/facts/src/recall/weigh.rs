//! Which facts bear on a question, and how much. Pure.
//!
//! Candidates are the facts of the entities that the question is about, and of those one hop further. A fact counts when the
//! question's words ask for its predicate, or name its value; all facts of an entity count a little when the question asks
//! for nothing in particular. Among equals the one nearer to what was asked about comes first, by personalised PageRank.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use skymem_core::{Fate, TimeRange};

use crate::question::{self, Oneself, Question};
use crate::view::{Glance, Place, Sighted, Value};

/// The most facts that are weighed for a question.
const MOST_CANDIDATES: usize = 2_000;

/// The longest way that is told between two entities of a question.
const LONGEST_WAY: usize = 4;

/// So many pairs of a question's entities are looked at for a way.
const MOST_PAIRS: usize = 3;

/// The share of a question's words that must ask for what is known of the person who only says "I".
const LEAST_SHARE: f32 = 0.3;

/// Facts that count less than this share of the best are passed over.
const LEAST_OF_BEST: f32 = 0.6;

/// A fact, or a way over several, and how much it bears on the question.
#[derive(Debug, Clone)]
pub(crate) struct Weighed {
    /// The facts: one, or those of the way in order.
    pub(crate) facts: Vec<Place>,
    /// The entities that are passed, when it is a way.
    pub(crate) way: Vec<u32>,
    pub(crate) score: f32,
    /// What the score is made of.
    pub(crate) parts: Vec<(&'static str, f32)>,
    /// Why it stays out, when it does.
    pub(crate) fate: Option<Fate>,
}

/// The moments a question may mean.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When {
    /// The present of the question.
    pub(crate) at: DateTime<Utc>,
    /// A time in the past that its words speak of.
    pub(crate) hint: Option<TimeRange>,
}

/// What bears on `question`, best first, and what would have if it still held.
pub(crate) fn weigh(question: &Question, glance: &Glance<'_>, when: When) -> Vec<Weighed> {
    let scales = Scales::of(question, glance, when);
    let mut weighed = scales.facts();
    let ways = scales.ways();
    let told: HashSet<Place> = ways.iter().flat_map(|way| way.facts.iter().copied()).collect();
    weighed.retain(|one| !one.facts.iter().any(|fact| told.contains(fact)));
    weighed.extend(ways);
    sort(&mut weighed);
    let best = weighed.iter().filter(|one| one.fate.is_none()).map(|one| one.score).fold(0.0, f32::max);
    for one in &mut weighed {
        if one.fate.is_none() && one.score < best * LEAST_OF_BEST {
            one.fate = Some(Fate::NotFound);
        }
    }
    weighed
}

/// Best first, in an order that does not depend on chance.
pub(crate) fn sort(weighed: &mut [Weighed]) {
    weighed.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.facts.cmp(&other.facts)));
}

/// Who is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    /// Only "I" or "you": something must ask for the fact.
    Oneself,
    /// By being related to who is asked about: "my sister".
    Related,
    /// By name, or as a whole.
    Named,
}

struct Scales<'a, 'g> {
    question: &'a Question,
    glance: &'a Glance<'g>,
    when: When,
    asked: BTreeMap<u32, Asked>,
    /// Entities of whom only relations are asked for: "my sister" is not me.
    only_related: BTreeSet<u32>,
    /// By predicate: the share of the question's words that ask for it.
    met: HashMap<u32, f32>,
    /// By entity: how near it is to what is asked about, 0 to 1.
    ranks: HashMap<u32, f32>,
}

impl<'a, 'g> Scales<'a, 'g> {
    fn of(question: &'a Question, glance: &'a Glance<'g>, when: When) -> Self {
        let mut asked: BTreeMap<u32, Asked> = question.named.iter().map(|entity| (*entity, Asked::Named)).collect();
        let met = met(question, glance);
        if let Some(own) = glance.oneself() {
            let all_asked = || {
                let known = |word: &String| glance.view.asks_for_something(word);
                !met.is_empty() && !question.content.is_empty() && question.content.iter().all(known)
            };
            match question.oneself {
                Oneself::Whole => asked.insert(own, Asked::Named),
                Oneself::Yes => asked.insert(own, Asked::Oneself),
                // Whoever is only spoken to, or not even that, is meant when there is nothing else it could be about.
                Oneself::Perhaps | Oneself::No if question.named.is_empty() && all_asked() => {
                    asked.insert(own, Asked::Oneself)
                }
                Oneself::Perhaps | Oneself::No => None,
            };
        }
        let mut scales =
            Self { question, glance, when, asked, only_related: BTreeSet::new(), met, ranks: HashMap::new() };
        scales.follow_relations();
        scales.rank();
        scales
    }

    /// "My sister", "Annas Schwester": whoever that is is asked about, and not who has the sister.
    fn follow_relations(&mut self) {
        let relations: Vec<u32> = self.met.keys().copied().filter(|predicate| self.is_relation(*predicate)).collect();
        let speaks_of_one = self.question.words.iter().any(|word| self.glance.view.asks_for_a_relation(word));
        if relations.is_empty() && !speaks_of_one {
            return;
        }
        let mut related = Vec::new();
        for entity in self.asked.keys() {
            let own = self.glance.groups_of(*entity).iter().flat_map(|group| self.glance.group(*group));
            let meant = own.filter(|sighted| relations.contains(&sighted.predicate) && self.holds(sighted));
            related.extend(meant.filter_map(|sighted| entity_of(sighted.value)));
        }
        self.only_related =
            self.asked.iter().filter(|(_, asked)| **asked == Asked::Oneself).map(|(own, _)| *own).collect();
        if !related.is_empty() {
            self.only_related.extend(self.asked.keys());
        }
        for entity in related {
            self.asked.entry(entity).or_insert(Asked::Related);
            self.only_related.remove(&entity);
        }
    }

    fn rank(&mut self) {
        let seeds: Vec<(u32, f64)> = self
            .asked
            .iter()
            .map(|(entity, asked)| (*entity, if *asked == Asked::Oneself { 0.5 } else { 1.0 }))
            .collect();
        let walkable = |link| self.glance.link(link).any(|sighted| self.holds(&sighted));
        let ranks = self.glance.view.net().rank(&seeds, walkable);
        let most = ranks.first().map_or(1.0, |(_, rank)| *rank);
        #[expect(clippy::cast_possible_truncation, reason = "a share needs no more digits")]
        let share = |rank: f64| (rank / most) as f32;
        self.ranks = ranks.into_iter().map(|(entity, rank)| (entity, share(rank))).collect();
    }

    fn is_relation(&self, predicate: u32) -> bool {
        self.glance.traits(predicate).is_some_and(|traits| traits.relation)
    }

    /// Whether a word of the question asks for a predicate.
    fn asks(&self, predicate: u32, word: &str) -> bool {
        self.met.contains_key(&predicate) && self.glance.traits(predicate).is_some_and(|traits| traits.meets(word))
    }

    /// Whether it is the person's own, of whom somebody related is spoken: who that is, or "my address".
    fn is_own(&self, predicate: u32) -> bool {
        self.is_relation(predicate) || self.question.own.iter().any(|word| self.asks(predicate, word))
    }

    /// Whether the question asks for something else than for who somebody is to somebody.
    fn asks_for_more(&self) -> bool {
        self.met.keys().any(|predicate| !self.is_relation(*predicate))
    }

    /// Whether a fact holds when it is asked about: now, or in the time that the question speaks of.
    fn holds(&self, sighted: &Sighted<'_>) -> bool {
        sighted.holds(Some(self.when.at)) || self.held_in_the_past(sighted)
    }

    fn held_in_the_past(&self, sighted: &Sighted<'_>) -> bool {
        let held = sighted.held;
        let in_time =
            self.when.hint.is_some_and(|time| held.from < time.until && held.to.is_none_or(|to| time.from < to));
        let before = self.question.past && held.from < self.when.at;
        held.retracted_at.is_none() && (in_time || before)
    }

    fn facts(&self) -> Vec<Weighed> {
        let mut weighed = Vec::new();
        let mut seen: HashSet<Place> = HashSet::new();
        let mut answered: BTreeSet<u32> = BTreeSet::new();
        let mut further: BTreeSet<u32> = BTreeSet::new();
        for (entity, asked, sighted) in self.candidates() {
            let met = self.met.contains_key(&sighted.predicate);
            if (met || asked != Asked::Oneself) && self.holds(&sighted) {
                let other = if sighted.subject == entity { sighted.value } else { Value::Entity(sighted.subject) };
                further.extend(entity_of(other).filter(|other| !self.asked.contains_key(other)));
            }
            if seen.insert(sighted.place)
                && let Some(one) = self.near(&sighted)
            {
                if met && one.fate.is_none() {
                    answered.insert(sighted.predicate);
                }
                weighed.push(one);
            }
        }
        // What the question asks for beyond that may be said of those next to them.
        let open = |predicate: u32| {
            let asks = |word: &String| self.asks(predicate, word) && !answered.iter().any(|one| self.asks(*one, word));
            self.question.words.iter().any(asks)
        };
        let own = further.iter().flat_map(|entity| self.glance.groups_of(*entity));
        let facts = own.flat_map(|group| self.glance.group(*group)).take(MOST_CANDIDATES);
        let facts = facts.filter(|sighted| open(sighted.predicate) && seen.insert(sighted.place));
        weighed.extend(facts.filter_map(|sighted| self.further(&sighted)));
        weighed
    }

    /// The facts of whoever is asked about: those first that are asked for.
    fn candidates(&self) -> impl Iterator<Item = (u32, Asked, Sighted<'_>)> {
        let of = |met: bool| {
            let facts = self.asked.iter().flat_map(move |(entity, asked)| {
                let about = self.glance.about(*entity);
                about
                    .filter(move |sighted| self.met.contains_key(&sighted.predicate) == met)
                    .map(|sighted| (*entity, *asked, sighted))
            });
            facts.take(MOST_CANDIDATES)
        };
        of(true).chain(of(false))
    }

    /// A fact of somebody who is asked about.
    fn near(&self, sighted: &Sighted<'_>) -> Option<Weighed> {
        let object = entity_of(sighted.value).and_then(|object| self.asked.get(&object));
        let subject = self.asked.get(&sighted.subject);
        let both = subject.is_some() && object.is_some();
        let asked = subject.max(object).copied()?;
        let met = self.met.get(&sighted.predicate).copied().unwrap_or_default();
        let named = self.words_of(sighted);
        let held_back =
            self.only_related.contains(&sighted.subject) && object.is_none() && !self.is_own(sighted.predicate);
        let enough = asked != Asked::Oneself || met.max(named) >= LEAST_SHARE;
        let base = match () {
            () if held_back => 0.0,
            // Who the sister is helps; where she lives was asked.
            () if met > 0.0 && enough && self.is_relation(sighted.predicate) && self.asks_for_more() => 0.75,
            () if both && (met > 0.0 || asked == Asked::Named) => 0.95,
            () if met > 0.0 && enough => 0.9,
            () if named > 0.0 && enough => 0.8,
            () if asked == Asked::Named => 0.5,
            () => 0.0,
        };
        self.weighed(sighted, base, met, named)
    }

    /// A fact of somebody next to who is asked about, which must be asked for.
    fn further(&self, sighted: &Sighted<'_>) -> Option<Weighed> {
        let met = self.met.get(&sighted.predicate).copied().unwrap_or_default();
        let named = self.words_of(sighted);
        self.weighed(sighted, if met > 0.0 { 0.7 } else { 0.0 }, met, named)
    }

    fn weighed(&self, sighted: &Sighted<'_>, base: f32, met: f32, named: f32) -> Option<Weighed> {
        let rank_of = |entity: u32| self.ranks.get(&entity).copied().unwrap_or_default();
        let rank = match sighted.value {
            Value::Entity(object) => (rank_of(sighted.subject) + rank_of(object)) / 2.0,
            Value::Literal(_) => rank_of(sighted.subject) / 2.0,
        };
        let now = sighted.holds(Some(self.when.at));
        let then = self.held_in_the_past(sighted);
        // Of a time in the past, what held then is asked for.
        let time = match (now, then) {
            (true, false) if self.when.hint.is_some() => 0.8,
            (true, _) => 1.0,
            (false, _) => 0.95,
        };
        let score = base * time * (0.85 + 0.05 * met + 0.03 * named + 0.07 * rank);
        let fate = match () {
            () if base == 0.0 => return None,
            () if !now && !then => Some(Fate::Superseded),
            () => None,
        };
        let parts = vec![("asked", base), ("predicate", met), ("words", named), ("rank", rank)];
        Some(Weighed { facts: vec![sighted.place], way: Vec::new(), score: score.clamp(0.0, 1.0), parts, fate })
    }

    /// The share of the words of what the fact says, beyond who is asked about, that the question has.
    fn words_of(&self, sighted: &Sighted<'_>) -> f32 {
        let value = match sighted.value {
            Value::Entity(object) if self.asked.contains_key(&object) => self.glance.called(sighted.subject),
            value => self.glance.text(value),
        };
        let words = question::content_words(&value);
        let had = words.iter().filter(|word| self.question.content.contains(*word)).count();
        share(had, words.len())
    }

    /// How entities of the question are linked over others.
    fn ways(&self) -> Vec<Weighed> {
        let mut ends: Vec<u32> = self.question.named.clone();
        if self.question.links && self.question.oneself >= Oneself::Perhaps {
            ends.extend(self.glance.oneself());
        }
        let pairs = ends
            .iter()
            .enumerate()
            .flat_map(|(place, one)| ends.iter().skip(place + 1).map(move |other| (*one, *other)));
        pairs.take(MOST_PAIRS).filter_map(|(one, other)| self.way(one, other)).collect()
    }

    fn way(&self, one: u32, other: u32) -> Option<Weighed> {
        let walkable = |link| self.glance.link(link).any(|sighted| self.holds(&sighted));
        let found = self.glance.view.net().paths(one, other, LONGEST_WAY, 1, walkable);
        let way = found.ways.into_iter().next().filter(|way| way.facts.len() > 1)?;
        let hop = |link: &u32| {
            let holds = self.glance.link(*link).filter(|sighted| self.holds(sighted));
            holds.max_by_key(|sighted| sighted.held.from).map(|sighted| sighted.place)
        };
        let facts: Vec<Place> = way.facts.iter().map(hop).collect::<Option<_>>()?;
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let hops = facts.len() as f32;
        let (score, parts) = (0.97 - 0.02 * hops, vec![("hops", hops)]);
        Some(Weighed { facts, way: way.entities, score, parts, fate: None })
    }
}

/// By predicate, the share of the question's words that ask for it; 0 for words that mean too much, unless they are all it
/// has.
fn met(question: &Question, glance: &Glance<'_>) -> HashMap<u32, f32> {
    let words = question.content.len().max(1);
    let all = (0..glance.predicates()).filter_map(|predicate| {
        let traits = glance.traits(predicate)?;
        let met = traits.met(&question.words);
        let plain = met.clone().filter(|(_, vague)| !vague).count();
        let vague = met.count() - plain;
        let others = question.content.iter().any(|word| !traits.meets(word));
        let count = if vague > 0 && plain == 0 && others { 0 } else { plain + vague };
        (count > 0).then(|| (predicate, share(count.min(words), words)))
    });
    all.collect()
}

fn entity_of(value: Value) -> Option<u32> {
    if let Value::Entity(entity) = value { Some(entity) } else { None }
}

fn share(some: usize, all: usize) -> f32 {
    #[expect(clippy::cast_precision_loss, reason = "words of a question")]
    let share = some as f32 / all.max(1) as f32;
    share
}
