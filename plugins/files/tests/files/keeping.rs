//! History, restarts, and a database that is away.

use std::fs;

use skymem_core::files::{Edit, FileError};

use super::world::{World, name, noon};

async fn texts(world: &World, file: &str) -> Vec<String> {
    let mut texts = Vec::new();
    for head in world.files().history(world.anna, &name(file)).await.unwrap() {
        texts.push(world.files().revision(world.anna, &name(file), &head.revision).await.unwrap());
    }
    texts
}

async fn save(world: &World, text: &str) {
    fs::write(world.path("NOW.md"), text).unwrap();
    world.until_prompt_has(text.trim()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_text_is_kept_in_the_order_in_which_it_was_seen() {
    let world = World::new().await;
    let template = fs::read_to_string(world.path("NOW.md")).unwrap();

    for text in ["one\n", "two\n", "one\n"] {
        save(&world, text).await;
    }

    world.until_history_has("NOW.md", 4).await;
    assert_eq!(texts(&world, "NOW.md").await, ["one\n", "two\n", "one\n", &template]);
    let never = world.files().history(world.anna, &name("never.md")).await;
    assert!(matches!(never, Err(FileError::NotFound(_))), "{never:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_revisions_are_kept_of_a_file() {
    let world = World::with("keep_revisions = 3").await;

    for number in 0..6 {
        let edit = Edit::Append { path: Vec::new(), body: format!("line {number}") };
        world.files().edit(world.anna, &name("NOW.md"), edit, noon()).await.unwrap();
    }

    world.until_history_has("NOW.md", 3).await;
    assert!(texts(&world, "NOW.md").await[0].ends_with("line 5\n"));
    world.until_history_has("MEMORY.md", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_all_is_as_before_and_what_changed_meanwhile_is_noticed() {
    let mut world = World::new().await;
    save(&world, "one\n").await;
    world.until_history_has("NOW.md", 2).await;
    let prompt = world.prompt().await;

    world.restart().await;
    assert_eq!(world.prompt().await, prompt);
    world.until_history_has("NOW.md", 2).await;

    fs::write(world.path("NOW.md"), "two\n").unwrap();
    world.restart().await;
    world.until_prompt_has("two").await;
    world.until_history_has("NOW.md", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_folder_is_made_anew_from_the_history() {
    let mut world = World::new().await;
    save(&world, "one\n").await;
    fs::write(world.path("plans.md"), "plans\n").unwrap();
    fs::write(world.path("gone.md"), "gone\n").unwrap();
    world.until_history_has("plans.md", 1).await;
    world.until_history_has("gone.md", 1).await;
    fs::remove_file(world.path("gone.md")).unwrap();
    world.caught_up().await;
    world.until_history_has("marker.md", 1).await;
    world.until_history_has("NOW.md", 2).await;

    fs::remove_dir_all(world.root()).unwrap();
    world.restart().await;

    assert!(world.prompt().await.contains("one"));
    assert_eq!(fs::read_to_string(world.path("plans.md")).unwrap(), "plans\n");
    assert!(!world.path("gone.md").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_damaged_at_the_start_is_used_as_it_last_was() {
    let mut world = World::new().await;
    save(&world, "one\n").await;
    world.until_history_has("NOW.md", 2).await;

    fs::write(world.path("NOW.md"), b"\xff\xfe").unwrap();
    world.restart().await;

    assert!(world.prompt().await.contains("one"));
    assert!(world.faults().contains("not UTF-8 in line 1"), "{}", world.faults());
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_edits_on_disk_go_live_and_are_kept_later() {
    let world = World::with("heartbeat_seconds = 1").await;
    world.until_history_has("NOW.md", 1).await;
    sqlx::raw_sql("alter table files.revision rename to away").execute(&world.db).await.unwrap();

    save(&world, "one\n").await;
    save(&world, "two\n").await;
    // What is not in the history yet is not overwritten.
    let edit = Edit::Append { path: Vec::new(), body: "three".into() };
    let result = world.files().edit(world.anna, &name("NOW.md"), edit, noon()).await;
    assert!(matches!(result, Err(FileError::Layer(_))), "{result:?}");
    assert_eq!(fs::read_to_string(world.path("NOW.md")).unwrap(), "two\n");

    sqlx::raw_sql("alter table files.away rename to revision").execute(&world.db).await.unwrap();
    world.until_history_has("NOW.md", 3).await;
    assert_eq!(texts(&world, "NOW.md").await[..2], ["two\n", "one\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn that_a_file_went_is_known_before_the_history_knows() {
    let mut world = World::new().await;
    fs::write(world.path("old.md"), "old\n").unwrap();
    world.until_history_has("old.md", 1).await;
    let refuse = "alter table files.revision add constraint away check (text is not null) not valid";
    sqlx::raw_sql(refuse).execute(&world.db).await.unwrap();

    fs::remove_file(world.path("old.md")).unwrap();
    world.restart().await;

    assert_eq!(world.files().gone(world.anna).await.unwrap(), [name("old.md")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_goes_with_its_user() {
    let world = World::new().await;
    world.until_history_has("NOW.md", 1).await;

    sqlx::query("delete from journal.users where id = $1").bind(world.anna.0).execute(&world.db).await.unwrap();

    let left: i64 = sqlx::query_scalar("select count(*) from files.revision").fetch_one(&world.db).await.unwrap();
    assert_eq!(left, 0);
    fs::write(world.path("NOW.md"), "still there\n").unwrap();
    super::world::eventually("that nobody is there", || async { world.prompt().await.is_empty() }).await;
}
