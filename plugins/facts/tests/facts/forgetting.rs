//! Forgetting removes exactly what nothing else supports, and restoring brings it back.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use skymem_core::ExchangeId;
use sqlx::PgPool;

use crate::world::{World, dated, day, holds, with};

#[sqlx::test(migrations = false)]
async fn what_one_exchange_alone_supports_goes_with_it_and_comes_back(db: PgPool) {
    let world = World::new(db).await;
    let first = world.states(holds("Anna", "likes", "tea")).await;
    let second = world.states(holds("Anna", "likes", "tea")).await;
    let coffee = world.states(holds("Anna", "likes", "coffee")).await;
    let before = world.everything().await;

    world.forgets(&[second]).await;
    assert_eq!(world.holding().await, ["Anna likes coffee", "Anna likes tea"], "the first still says so");
    world.forgets(&[first]).await;
    assert_eq!(world.holding().await, ["Anna likes coffee"]);
    world.forgets(&[coffee]).await;
    assert_eq!(world.holding().await, [""; 0]);
    assert!(world.graph().entities(world.user, None, crate::world::ever(), 10, None).await.unwrap().is_empty());

    world.restores(&[second, coffee, first]).await;
    assert_eq!(world.everything().await, before);
}

#[sqlx::test(migrations = false)]
async fn forgetting_a_move_opens_the_home_it_closed(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "lives_in", "Bonn")).await;
    world.is("2026-02-01");
    let moved = world.states(holds("Anna", "lives_in", "Bremen")).await;
    let before = world.everything().await;
    assert_eq!(world.holding().await, ["Anna lives_in Bremen"]);

    world.forgets(&[moved]).await;

    assert_eq!(world.everything().await.iter().map(dated).collect::<Vec<_>>(), ["Anna lives_in Bonn 2026-01-01/"]);
    world.restores(&[moved]).await;
    assert_eq!(world.everything().await, before);
}

#[sqlx::test(migrations = false)]
async fn forgetting_a_retraction_takes_it_back(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "works_at", "ACME")).await;
    let never = json!({"says": "never_held", "subject": "Anna", "predicate": "works_at", "object": {"entity": "ACME"}});
    let retraction = world.states(never).await;
    assert_eq!(world.holding().await, [""; 0]);

    world.forgets(&[retraction]).await;

    assert_eq!(world.holding().await, ["Anna works_at ACME"]);
    assert!(world.everything().await[0].retracted_at.is_none());
}

#[sqlx::test(migrations = false)]
async fn what_is_forgotten_before_it_was_learned_is_never_known(db: PgPool) {
    let world = World::new(db).await;
    let said = world.says("talk", "I live in Bremen.").await;
    world.journal.reset(world.user, &world.layer.name()).await.unwrap();
    world.forgets(&[said]).await;

    world.learn().await;

    assert_eq!(world.holding().await, [""; 0]);
}

/// Something that may be told, of a small world.
fn anything() -> impl Strategy<Value = Value> {
    let object = prop_oneof![Just("Bonn"), Just("Bremen"), Just("Kiel"), Just("red")];
    let predicate = prop_oneof![Just("lives_in"), Just("likes"), Just("works_at")];
    let month = prop::option::of((1..12_u32).prop_map(|month| day(&format!("2025-{month:02}"))));
    (prop_oneof![Just("Anna"), Just("Ben"), Just("user")], predicate, object, month, 0..12_u8).prop_map(
        |(subject, predicate, object, from, kind)| {
            let said = with(holds(subject, predicate, object), json!({"from": from, "corrects": kind == 7}));
            let (value, object_name) = (said["object"].clone(), said["object"].clone());
            match kind {
                0 => json!({"says": "ends", "subject": subject, "predicate": predicate, "object": value, "at": from}),
                1 => json!({"says": "ends", "subject": subject, "predicate": predicate}),
                2 => json!({"says": "never_held", "subject": subject, "predicate": predicate, "object": object_name}),
                3 => json!({"says": "same", "name": "Anna", "alias": "Annie"}),
                4 => json!({"says": "kind", "name": subject, "kind": "person"}),
                5 => json!({"says": "holds", "subject": "user", "predicate": "name", "object": {"literal": "Anna"}}),
                _ => said,
            }
        },
    )
}

/// Random tales, each of which is forgotten in part and restored: all is as before, whatever happened between.
#[sqlx::test(migrations = false)]
async fn forgetting_and_restoring_anything_changes_nothing(db: PgPool) {
    let world = World::new(db).await;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for number in 0..12 {
        let tale = prop::collection::vec(anything(), 1..14).new_tree(&mut runner).unwrap().current();
        let chosen = prop::collection::vec(any::<bool>(), tale.len()).new_tree(&mut runner).unwrap().current();
        let teller = world.another(&format!("teller-{number}")).await;
        let mut told: Vec<ExchangeId> = Vec::new();
        let mut without: Vec<Value> = Vec::new();
        for (statement, forgotten) in tale.iter().zip(&chosen) {
            told.push(teller.states(statement.clone()).await);
            if !forgotten {
                without.push(statement.clone());
            }
        }
        let before = teller.everything().await;
        let some: Vec<ExchangeId> =
            told.iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(id, _)| *id).collect();

        teller.forgets(&some).await;
        let left = teller.everything().await;
        for fact in &left {
            let evidence: Vec<ExchangeId> = fact.evidence.iter().filter_map(|one| one.exchange).collect();
            assert!(!evidence.is_empty() && evidence.iter().all(|one| !some.contains(one)), "{tale:#?}: {fact:#?}");
        }
        teller.restores(&some).await;

        assert_eq!(teller.everything().await, before, "{tale:#?}, without {chosen:?}");
    }
}
