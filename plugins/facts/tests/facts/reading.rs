//! A model reads exchanges, in the background, where that is wanted.

use std::sync::Arc;

use serde_json::json;
use skymem_core::facts::Origin;
use skymem_core::{Role, SharedChatModel};
use skymem_models::{ScriptedAnswer, ScriptedChat};
use skymem_store::NewTurn;
use sqlx::PgPool;

use crate::world::World;

const WITH_MODEL: &str = "extract_with_model = true\npatterns = false\nmodel_per_upkeep = 2";

/// What a model answers that found one fact.
fn found(predicate: &str, object: &str) -> ScriptedAnswer {
    let fact = json!({"subject": "user", "predicate": predicate, "object": object, "how": "holds", "from": null, "until": null});
    ScriptedAnswer::Says(json!({ "facts": [fact] }).to_string())
}

async fn reading(db: PgPool, answers: Vec<ScriptedAnswer>) -> (World, ScriptedChat) {
    let chat = ScriptedChat::saying(answers);
    (World::with(db, Some(Arc::new(chat.clone()) as SharedChatModel), WITH_MODEL).await, chat)
}

#[sqlx::test(migrations = false)]
async fn without_being_asked_to_no_model_reads_anything(db: PgPool) {
    let chat = ScriptedChat::saying(["{}"]);
    let world = World::with(db, Some(Arc::new(chat.clone())), "").await;
    world.says("talk", "I live in Bremen.").await;

    let pruned = world.layer.prune(world.now()).await.unwrap();

    assert!(!pruned.unfinished);
    assert_eq!((chat.calls(), world.count("select count(*) from facts.reading").await), (0, 0));
    assert!(world.everything().await.iter().all(|fact| fact.evidence[0].origin == Origin::Pattern));
}

#[sqlx::test(migrations = false)]
async fn what_a_model_finds_is_a_fact_of_the_exchange_it_read(db: PgPool) {
    let (world, chat) = reading(db, vec![found("lives_in", "Bremen"), found("likes", "tea")]).await;
    let first = world.says("talk", "Bremen has been home for ages.").await;
    world.says("talk", "There is nothing like tea.").await;
    assert_eq!((world.holding().await.len(), chat.calls()), (0, 0), "nobody waits for it while learning");

    let pruned = world.layer.prune(world.now()).await.unwrap();

    assert!(!pruned.unfinished);
    assert_eq!(world.holding().await, ["user likes tea", "user lives_in Bremen"]);
    let home = world.history("Bremen").await;
    assert_eq!((home[0].evidence[0].origin, home[0].evidence[0].exchange), (Origin::Model, Some(first)));
    world.learns_again(1).await;
    world.layer.prune(world.now()).await.unwrap();
    assert_eq!((world.holding().await.len(), chat.calls()), (2, 2), "what was read is not read again");
    world.forgets(&[first]).await;
    assert_eq!(world.holding().await, ["user likes tea"]);
    assert_eq!(world.count("select count(*) from facts.reading").await, 1);
}

#[sqlx::test(migrations = false)]
async fn an_exchange_that_grew_is_read_again(db: PgPool) {
    let (world, chat) = reading(db, vec![found("lives_in", "Bonn"), found("lives_in", "Bremen")]).await;
    let question =
        NewTurn { client_id: Some("one".into()), ..NewTurn::new(Role::User, "Bonn or Bremen, that is where I live.") };
    world.turns("talk", vec![question.clone()]).await;
    world.layer.prune(world.now()).await.unwrap();
    assert_eq!(world.holding().await, ["user lives_in Bonn"]);

    world.turns("talk", vec![question, NewTurn::new(Role::Assistant, "Bremen, then?")]).await;
    assert_eq!(world.holding().await, [""; 0], "what it found was in something else");
    world.layer.prune(world.now()).await.unwrap();

    assert_eq!(world.holding().await, ["user lives_in Bremen"]);
    assert_eq!((world.everything().await.len(), chat.calls()), (1, 2));
}

#[sqlx::test(migrations = false)]
async fn what_a_model_has_no_usable_answer_for_is_parked_and_tried_again_when_told(db: PgPool) {
    let answers = vec!["What?".into(), "{}".into(), found("likes", "tea"), found("lives_in", "Bremen")];
    let (world, chat) = reading(db, answers).await;
    let said = world.says("talk", "Bremen has been home for ages.").await;
    world.says("talk", "There is nothing like tea.").await;

    assert!(!world.layer.prune(world.now()).await.unwrap().unfinished);

    assert_eq!(world.holding().await, ["user likes tea"], "the rest goes on");
    let aside = world.layer.set_aside(world.user).await.unwrap();
    assert_eq!((aside.len(), aside[0].exchange, aside[0].attempts, aside[0].since), (1, said, 1, world.now()));
    assert!(!aside[0].reason.is_empty());
    assert_eq!(chat.calls(), 3, "asked twice, then parked");
    let counts = world.layer.stats(world.user).await.unwrap().counts;
    assert!(counts.contains(&("a model could not read".to_owned(), 1)), "{counts:?}");
    assert_eq!(world.layer.retry(world.user).await.unwrap(), 1);
    world.layer.prune(world.now()).await.unwrap();
    assert_eq!(world.holding().await, ["user likes tea", "user lives_in Bremen"]);
    assert!(world.layer.set_aside(world.user).await.unwrap().is_empty());
}

#[sqlx::test(migrations = false)]
async fn exchanges_wait_for_a_model_that_is_away(db: PgPool) {
    let answers =
        vec![ScriptedAnswer::Unreachable, found("likes", "tea"), found("likes", "tea"), found("likes", "tea")];
    let (world, chat) = reading(db, answers).await;
    for number in 0..3 {
        world.says("talk", &format!("There is nothing like tea, {number}.")).await;
    }

    assert!(world.layer.prune(world.now()).await.unwrap().unfinished);
    assert_eq!(chat.calls(), 1, "it is not asked any more");
    assert!(world.layer.prune(world.now()).await.unwrap().unfinished, "two at a time");
    assert!(!world.layer.prune(world.now()).await.unwrap().unfinished);

    assert_eq!(world.holding().await, ["user likes tea"]);
    assert_eq!(world.everything().await[0].evidence.len(), 3);
}

#[sqlx::test(migrations = false)]
async fn an_exchange_that_a_model_refuses_goes_behind_the_others_and_is_parked_at_last(db: PgPool) {
    let refuses = || ScriptedAnswer::Refuses("too rude".into());
    let (world, _) = reading(db, vec![refuses(), found("likes", "tea"), refuses(), refuses()]).await;
    let rude = world.says("talk", "Something rude.").await;
    world.says("talk", "There is nothing like tea.").await;
    for _ in 0..3 {
        world.is("2026-02-01");
        world.layer.prune(world.now()).await.unwrap();
    }

    let aside = world.layer.set_aside(world.user).await.unwrap();

    assert_eq!(world.holding().await, ["user likes tea"]);
    assert_eq!((aside.len(), aside[0].exchange, aside[0].attempts), (1, rude, 3));
    assert!(aside[0].reason.contains("too rude"), "{aside:?}");
}

#[sqlx::test(migrations = false)]
async fn what_is_forgotten_while_a_model_thinks_is_not_learned(db: PgPool) {
    let (world, _) = reading(db, vec![found("lives_in", "Bremen")]).await;
    let said = world.says("talk", "Bremen has been home for ages.").await;
    world.forgets(&[said]).await;

    world.layer.prune(world.now()).await.unwrap();

    assert_eq!(world.holding().await, [""; 0]);
}
