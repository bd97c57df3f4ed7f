//! What an assistant reads.

use std::fs;

use skymem_core::Priority;

use super::world::{World, eventually, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_user_costs_nothing() {
    let world = World::new().await;

    assert_eq!(world.prompt().await, "");
    assert_eq!((world.count("files").await, world.count("tokens").await), (2, 0));
    assert_eq!(world.layer.priority(), Priority::Always);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_stable_file_comes_first_and_what_is_not_always_loaded_stays_out() {
    let world = World::new().await;
    fs::write(world.path("MEMORY.md"), "# Me\n<!-- hint -->\nI am Anna.\n").unwrap();
    fs::write(world.path("NOW.md"), "\u{FEFF}# Now\r\nMoving to Berlin.\r\n").unwrap();
    fs::write(world.path("garden.md"), "---\nalways: true\n---\n# Garden\nRoses.\n").unwrap();
    fs::write(world.path("diary.md"), "Dear diary.\n").unwrap();

    let expected =
        "[D: MEMORY.md]\n# Me\nI am Anna.\n\n[D: garden.md]\n# Garden\nRoses.\n\n[D: NOW.md]\n# Now\nMoving to Berlin.";
    eventually("all files", || async { world.prompt().await == expected }).await;

    let heads = world.files().list(world.anna).await.unwrap();
    let listed: Vec<_> = heads.iter().map(|head| (head.name.as_str(), head.always, head.tokens.0 > 0)).collect();
    assert_eq!(
        listed,
        [("MEMORY.md", true, true), ("NOW.md", true, true), ("diary.md", false, false), ("garden.md", true, true)]
    );
    assert_eq!(world.file("diary.md").await.text, "Dear diary.\n");
    assert_eq!(world.prompt().await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_budget_sections_stay_out_of_the_prompt_but_in_the_file() {
    let world = World::with("budget_tokens = 200").await;
    let section = |title: &str| format!("# {title}\n{}\n", "some words to fill it. ".repeat(12));
    let text = ["First", "Second", "Third"].map(section).join("\n");
    fs::write(world.path("NOW.md"), "Short.\n").unwrap();
    fs::write(world.path("MEMORY.md"), &text).unwrap();
    world.until_prompt_has("Left out").await;
    world.until_prompt_has("Short.").await;

    let prompt = world.prompt().await;
    assert!(prompt.contains("# First") && !prompt.contains("# Third"), "{prompt}");
    assert!(prompt.contains("\"Third\".)") && prompt.ends_with("[D: NOW.md]\nShort."), "{prompt}");
    assert!(world.faults().contains("MEMORY.md is over the token budget"), "{}", world.faults());
    let file = world.file("MEMORY.md").await;
    assert_eq!(file.text, text);
    assert!(file.head.faults[0].contains("\"Third\""), "{:?}", file.head.faults);
    assert!(world.count("tokens").await <= 200);
    assert_eq!(fs::read_to_string(world.path("MEMORY.md")).unwrap(), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_can_be_kept_out() {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "in\n").unwrap();
    world.until_prompt_has("in").await;

    fs::write(world.path("NOW.md"), "---\nalways: false\n---\nin\n").unwrap();

    eventually("an empty prompt", || async { world.prompt().await.is_empty() }).await;
    assert!(
        !world.files().list(world.anna).await.unwrap().iter().any(|head| head.name == name("NOW.md") && head.always)
    );
}
