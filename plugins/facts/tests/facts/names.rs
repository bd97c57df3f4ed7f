//! Who is meant by a name.

use serde_json::json;
use skymem_core::facts::{EntityKind, EntityName, FactError};
use sqlx::PgPool;

use crate::world::{World, ever, holds};

#[sqlx::test(migrations = false)]
async fn joined_names_are_one_entity_until_the_statement_is_forgotten(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "lives_in", "Bonn")).await;
    world.states(holds("Annie", "works_at", "ACME")).await;
    let before = world.everything().await;

    let joined = world.states(json!({"says": "same", "name": "Anna Schmidt", "alias": "Annie"})).await;
    let also = world.states(json!({"says": "same", "name": "Anna Schmidt", "alias": "anna"})).await;

    let entity = world.entity("ANNIE").await;
    assert_eq!(entity.head.name.as_str(), "Anna Schmidt");
    assert_eq!(entity.aliases.iter().map(EntityName::as_str).collect::<Vec<_>>(), ["Anna", "Annie"]);
    assert_eq!((entity.facts, entity.joined_by.clone()), (2, vec![joined, also]));
    assert_eq!(world.holding().await, ["Anna Schmidt lives_in Bonn", "Anna Schmidt works_at ACME"]);
    assert_eq!(world.entity(&entity.head.id.to_string()).await, entity);
    world.forgets(&[joined, also]).await;
    assert_eq!(world.everything().await, before);
}

#[sqlx::test(migrations = false)]
async fn what_exchanges_say_can_be_told_apart_and_put_together_again(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "lives_in", "Bonn")).await;
    let other = world.states(holds("Anna", "lives_in", "Bremen")).await;
    let before = world.everything().await;

    let apart =
        world.states(json!({"says": "apart", "name": "Anna", "other": "Anna from work", "exchanges": [other]})).await;

    assert_eq!(world.holding().await, ["Anna from work lives_in Bremen", "Anna lives_in Bonn"], "both hold now");
    assert_eq!(world.entity("Anna from work").await.joined_by, [apart]);
    world.forgets(&[apart]).await;
    assert_eq!(world.everything().await, before);
}

#[sqlx::test(migrations = false)]
async fn the_person_is_known_by_the_name_they_give(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("user", "lives_in", "Bremen")).await;
    world.states(holds("Max", "works_at", "ACME")).await;
    assert_eq!(world.entity("Max").await.facts, 1);

    let named = world.states(holds("user", "name", "Max")).await;

    let own = world.entity("max").await;
    assert_eq!((own.head.name.as_str(), own.head.kind, own.facts), ("user", EntityKind::Person, 3));
    assert_eq!(own.aliases.iter().map(EntityName::as_str).collect::<Vec<_>>(), ["Max"]);
    world.forgets(&[named]).await;
    assert_eq!(world.entity("Max").await.facts, 1);
}

#[sqlx::test(migrations = false)]
async fn a_name_that_was_taken_back_is_nobodys(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("user", "name", "max")).await;
    world.states(json!({"says": "holds", "subject": "user", "predicate": "name", "object": {"literal": "moritz"}, "corrects": true})).await;

    assert_eq!(world.entity("Moritz").await.head.name.as_str(), "user");
    let name: EntityName = "Max".parse().unwrap();
    let unknown = world.graph().entity(world.user, &name, ever()).await.unwrap_err();
    assert!(matches!(unknown, FactError::NotFound(_)), "{unknown}");
}

#[sqlx::test(migrations = false)]
async fn kinds_are_said_or_follow_from_what_is_told(db: PgPool) {
    let world = World::new(db).await;
    world.states_all(vec![holds("Anna", "works_at", "ACME"), holds("Skymem", "written_in", "Rust")]).await;
    let kind = async |name: &str| world.entity(name).await.head.kind;
    assert_eq!(
        [kind("Anna").await, kind("ACME").await, kind("Skymem").await, kind("Rust").await],
        [EntityKind::Person, EntityKind::Organisation, EntityKind::Project, EntityKind::Technology]
    );

    world.states(json!({"says": "kind", "name": "Rust", "kind": "event"})).await;

    assert_eq!(kind("Rust").await, EntityKind::Event);
}

#[sqlx::test(migrations = false)]
async fn entities_are_listed_best_known_first_and_found_by_a_part_of_a_name(db: PgPool) {
    let world = World::new(db).await;
    world
        .states_all(vec![
            holds("Anna", "likes", "tea"),
            holds("Anna", "likes", "coffee"),
            holds("Hanna", "likes", "tea"),
            holds("Ben", "knows", "Anna"),
            json!({"says": "same", "name": "Ben", "alias": "Johanna's brother"}),
        ])
        .await;
    let names = async |like: Option<&str>, limit| {
        let found = world.graph().entities(world.user, like, ever(), limit, None).await.unwrap();
        found.iter().map(|entity| format!("{} {}", entity.head.name, entity.facts)).collect::<Vec<_>>()
    };

    assert_eq!(names(None, 10).await, ["Anna 3", "Ben 1", "Hanna 1"]);
    assert_eq!(names(Some("ANNA"), 10).await, ["Anna 3", "Ben 1", "Hanna 1"], "a part of a name");
    let first = world.graph().entities(world.user, None, ever(), 1, None).await.unwrap();
    let rest = world.graph().entities(world.user, None, ever(), 9, Some(first[0].head.id)).await.unwrap();
    assert_eq!((first.len(), rest.len()), (1, 2));
}

#[sqlx::test(migrations = false)]
async fn names_mean_whom_they_meant_when_it_was_known(db: PgPool) {
    let world = World::new(db).await;
    world.states_all(vec![holds("Anna", "lives_in", "bonn"), holds("Annie", "likes", "tea")]).await;
    let then = world.now();
    let before = world.everything().await;
    world.is("2026-02-01");

    world.states(json!({"says": "same", "name": "Annie", "alias": "Anna"})).await;
    world.states(holds("annie", "likes", "Bonn")).await;

    assert_eq!(world.everything_known(Some(then)).await, before);
    assert_eq!(world.holding().await, ["Annie likes Bonn", "Annie likes tea", "Annie lives_in bonn"]);
}
