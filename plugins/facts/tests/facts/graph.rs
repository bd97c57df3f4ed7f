//! Walks over what holds.

use serde_json::json;
use skymem_core::facts::{EntityHead, EntityName, Fact, Seen};
use sqlx::PgPool;

use crate::world::{World, day, ever, holds, line, with};

async fn world(db: PgPool) -> World {
    let world = World::new(db).await;
    world
        .states_all(vec![
            holds("Skymem", "uses", "PostgreSQL"),
            holds("PostgreSQL", "chosen_in", "Meeting 7"),
            holds("Anna", "works_on", "Skymem"),
            holds("Anna", "attended", "Meeting 7"),
            holds("Anna", "age", "42"),
            with(holds("Anna", "works_at", "ACME"), json!({"from": day("2020-01"), "until": day("2023-01")})),
            holds("Ben", "works_at", "ACME"),
        ])
        .await;
    world
}

fn name(text: &str) -> EntityName {
    text.parse().unwrap()
}

fn names(heads: &[EntityHead]) -> Vec<&str> {
    heads.iter().map(|head| head.name.as_str()).collect()
}

fn lines(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(line).collect()
}

#[sqlx::test(migrations = false)]
async fn what_is_around_an_entity_is_told_with_its_plain_values(db: PgPool) {
    let world = world(db).await;
    let now = Seen { as_of: Some(world.now()), known_at: None };

    let near = world.graph().around(world.user, &name("anna"), 1, now, 50).await.unwrap();

    assert_eq!(names(&near.entities), ["Anna", "Skymem", "Meeting 7"]);
    let mut told = lines(&near.facts);
    told.sort_unstable();
    assert_eq!(told, ["Anna age 42", "Anna attended Meeting 7", "Anna works_on Skymem"], "no more at ACME");
    assert!(!near.cut);
    let then = Seen { as_of: Some(day("2022-01")), known_at: None };
    let then = world.graph().around(world.user, &name("anna"), 2, then, 50).await.unwrap();
    assert_eq!(names(&then.entities), ["Anna", "ACME"]);
}

#[sqlx::test(migrations = false)]
async fn two_entities_are_linked_over_what_holds_with_the_evidence_of_each_hop(db: PgPool) {
    let world = world(db).await;
    let now = Seen { as_of: Some(world.now()), known_at: None };
    let paths = async |from: &str, to: &str, seen| {
        world.graph().paths(world.user, (&name(from), &name(to)), 4, seen, 3).await.unwrap()
    };

    let ways = paths("skymem", "meeting 7", now).await;

    assert_eq!(names(&ways[0].entities), ["Skymem", "PostgreSQL", "Meeting 7"]);
    assert_eq!(lines(&ways[0].hops), ["Skymem uses PostgreSQL", "PostgreSQL chosen_in Meeting 7"]);
    assert!(ways[0].hops.iter().all(|hop| hop.evidence[0].exchange.is_some()));
    assert_eq!(ways.len(), 2, "and over Anna");
    assert!(paths("Anna", "Ben", now).await.is_empty(), "not at ACME together any more");
    assert_eq!(names(&paths("Anna", "Ben", ever()).await[0].entities), ["Anna", "ACME", "Ben"]);
    let nobody = world.graph().paths(world.user, (&name("Anna"), &name("Nobody")), 4, now, 3).await.unwrap_err();
    assert_eq!(nobody.to_string(), "there is no entity called Nobody");
}

#[sqlx::test(migrations = false)]
async fn the_whole_graph_of_every_time_holds_what_was_taken_back_too(db: PgPool) {
    let world = world(db).await;
    world.states(json!({"says": "never_held", "subject": "Anna", "predicate": "attended"})).await;

    let graph = world.graph().graph(world.user, ever()).await.unwrap();

    let taken_back = graph.facts.iter().filter(|fact| fact.retracted_at.is_some()).count();
    assert_eq!((graph.entities.len(), graph.facts.len(), taken_back, graph.cut), (6, 7, 1, false));
    let groups = world.graph().communities(world.user, ever(), 10).await.unwrap();
    assert_eq!(groups.iter().map(|group| group.entities.len()).sum::<usize>(), 6);
}
