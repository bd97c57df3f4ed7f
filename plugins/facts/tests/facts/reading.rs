//! A model reads exchanges, in the background, where that is wanted.

use std::sync::Arc;

use skymem_core::facts::Origin;
use skymem_models::ScriptedChat;
use sqlx::PgPool;

use crate::world::World;

#[sqlx::test(migrations = false)]
async fn without_being_asked_to_no_model_reads_anything(db: PgPool) {
    let chat = Arc::new(ScriptedChat::saying(["{}"]));
    let world = World::with(db, Some(chat), "").await;
    world.says("talk", "I live in Bremen.").await;

    let pruned = world.layer.prune(world.now()).await.unwrap();

    assert!(!pruned.unfinished);
    assert_eq!(world.count("select count(*) from facts.reading").await, 0);
    assert!(world.everything().await.iter().all(|fact| fact.evidence[0].origin == Origin::Pattern));
}
