//! A view says the same however it comes to be looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use skymem_core::facts::{EntityKind, Evidence, Fact, FactId, Holds, Object, Origin, Statement};
use skymem_core::{ExchangeId, Seq, UserId};
use uuid::Uuid;

use super::{Sight, View};
use crate::claim::{Claim, Place};
use crate::predicates::Predicates;

fn day(day: i64) -> DateTime<Utc> {
    DateTime::<Utc>::UNIX_EPOCH + TimeDelta::days(20_000 + day)
}

fn predicates() -> Arc<Predicates> {
    Arc::new(Predicates::of(&BTreeMap::new()).unwrap())
}

fn view(claims: Vec<Claim>) -> View {
    View::build(UserId(Uuid::from_u128(1)), claims, &predicates())
}

/// A claim of an exchange of its own, the `number`th of the journal.
fn claim(number: u32, said: i64, recorded: i64, statement: Statement) -> Claim {
    Claim {
        statement,
        confidence: 1.0,
        origin: Origin::Asserted,
        place: Place::Turn {
            exchange: ExchangeId(Uuid::from_u128(u128::from(number))),
            number: 0,
            seq: Seq(i64::from(number)),
            session: "s".parse().unwrap(),
            collection: "default".parse().unwrap(),
        },
        said_at: day(said),
        recorded_at: day(recorded),
    }
}

fn holds(subject: &str, predicate: &str, object: &str, literal: bool) -> Holds {
    let object = if literal { Object::Literal(object.into()) } else { Object::Entity(object.parse().unwrap()) };
    let (subject, predicate) = (subject.parse().unwrap(), predicate.parse().unwrap());
    Holds { subject, predicate, object, from: None, until: None, confidence: 1.0, corrects: false }
}

fn facts(view: &View, sight: Sight) -> Vec<Fact> {
    let glance = view.glance(sight);
    let mut facts: Vec<Fact> = glance.all().filter_map(|sighted| glance.fact(&sighted)).collect();
    facts.sort_by_key(|fact| fact.id);
    facts
}

/// What may be told of a few people, without names being joined.
fn anything() -> impl Strategy<Value = Statement> {
    let name = || prop::sample::select(&["Anna", "ANNA", "Ben", "user", "Bonn", "bonn", "Bremen"][..]);
    let predicate = prop::sample::select(&["lives_in", "likes", "knows", "works_at"][..]);
    (name(), predicate, name(), any::<bool>(), prop::option::of(0..30_i64), 0..9_u8).prop_map(
        |(subject, predicate, object, literal, from, kind)| {
            let said = holds(subject, predicate, object, literal);
            let (from, object) = (from.map(day), Some(said.object.clone()));
            let Holds { subject, predicate, .. } = said.clone();
            match kind {
                0 => Statement::Ends { subject, predicate, object, at: from },
                1 => Statement::NeverHeld { subject, predicate, object, from: None },
                2 => Statement::Holds(Holds { corrects: true, from, ..said }),
                _ => Statement::Holds(Holds { from, ..said }),
            }
        },
    )
}

/// The same with statements about names.
fn anything_at_all() -> impl Strategy<Value = Statement> {
    let name = || prop::sample::select(&["Anna", "Annie", "Ben", "user", "Bonn"][..]);
    prop_oneof![
        8 => anything(),
        1 => (name(), name()).prop_map(|(name, alias)| Statement::Same { name: name.parse().unwrap(), alias: alias.parse().unwrap() }),
        1 => (name(), name(), prop::collection::vec(0..20_u128, 0..4)).prop_map(|(name, other, exchanges)| Statement::Apart {
            name: name.parse().unwrap(),
            other: other.parse().unwrap(),
            exchanges: exchanges.into_iter().map(|id| ExchangeId(Uuid::from_u128(id))).collect(),
        }),
        1 => name().prop_map(|name| Statement::Kind { name: name.parse().unwrap(), kind: EntityKind::Event }),
        1 => name().prop_map(|name| Statement::Holds(holds("user", "name", name, true))),
    ]
}

fn tales(of: impl Strategy<Value = Statement>) -> impl Strategy<Value = Vec<Claim>> {
    let one = (of, 0..30_i64, 0..30_i64);
    prop::collection::vec(one, 0..20).prop_map(|tale| {
        let numbered = tale.into_iter().zip(0..);
        numbered.map(|((statement, said, late), number)| claim(number, said, said + late, statement)).collect()
    })
}

fn known(claims: &[Claim], sight: Sight) -> Vec<Claim> {
    let sees = |claim: &&Claim| {
        sight.known_at.is_none_or(|at| claim.recorded_at <= at) && sight.said_by.is_none_or(|by| claim.said_at <= by)
    };
    claims.iter().filter(sees).cloned().collect()
}

#[test]
fn a_name_is_written_as_it_was_first_whatever_was_said_first() {
    let likes = |number, said, recorded, name| {
        claim(number, said, recorded, Statement::Holds(holds(name, "likes", "tea", true)))
    };
    let called = |claims, known_at: Option<i64>| {
        let facts = facts(&view(claims), Sight { known_at: known_at.map(day), said_by: None });
        facts[0].subject.name.to_string()
    };

    assert_eq!(called(vec![likes(0, 1, 2, "anna"), likes(1, 3, 4, "ANNA"), likes(2, 5, 6, "Anna")], None), "ANNA");
    assert_eq!(called(vec![likes(0, 1, 2, "anna"), likes(1, 3, 4, "ANNA"), likes(2, 5, 6, "Anna")], Some(3)), "anna");
    // What is said earlier and written down later decides nothing among what was written down at once.
    let late = likes(2, 0, 9, "ANNA");
    assert_eq!(called(vec![likes(0, 1, 2, "ANNA"), likes(1, 1, 2, "Anna"), late.clone()], None), "Anna");
    assert_eq!(called(vec![likes(0, 1, 2, "Anna"), likes(1, 1, 2, "ANNA"), late], Some(5)), "Anna");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn looked_at_from_a_moment_it_is_as_if_nothing_had_been_told_since(
        claims in tales(anything()), known_at in prop::option::of(0..60_i64), said_by in prop::option::of(0..30_i64),
    ) {
        let sight = Sight { known_at: known_at.map(day), said_by: said_by.map(day) };
        let all = view(claims.clone());
        prop_assert!(!all.misnames(sight));

        let then = view(known(&claims, sight));

        let essences = |view: &View, sight: Sight| facts(view, sight).iter().map(essence).collect::<Vec<_>>();
        prop_assert_eq!(essences(&all, sight), essences(&then, Sight::default()));
        if sight.said_by.is_none() {
            prop_assert_eq!(facts(&all, sight), facts(&then, Sight::default()));
        }
    }

    #[test]
    fn the_order_in_which_claims_are_read_does_not_matter(claims in tales(anything_at_all()).prop_shuffle()) {
        let mut sorted = claims.clone();
        sorted.sort_by_key(|claim| claim.recorded_at);
        prop_assert_eq!(facts(&view(claims), Sight::default()), facts(&view(sorted), Sight::default()));
    }

    #[test]
    fn every_fact_can_be_found_by_its_id_and_is_about_its_entities(claims in tales(anything_at_all())) {
        let view = view(claims);
        let glance = view.glance(Sight::default());
        for fact in facts(&view, Sight::default()) {
            let found = glance.find(fact.id).and_then(|sighted| glance.fact(&sighted));
            prop_assert_eq!(found.as_ref(), Some(&fact));
            let subject = view.find(&fact.subject.id.to_string().parse().unwrap()).unwrap();
            prop_assert!(glance.about(subject).any(|sighted| glance.id(&sighted) == fact.id));
        }
    }
}

/// A fact without how its entities are written.
fn essence(fact: &Fact) -> (FactId, [Option<DateTime<Utc>>; 3], Vec<Evidence>) {
    (fact.id, [Some(fact.valid_from), fact.valid_to, fact.retracted_at], fact.evidence.clone())
}
