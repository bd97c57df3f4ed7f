//! Edits through the doors.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use skymem_core::UserId;
use skymem_core::files::{Edit, FileError, Revision};
use uuid::Uuid;

use super::world::{World, add_user, name, noon, path};

async fn world_with(text: &str) -> World {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), text).unwrap();
    world.until_prompt_has(text.lines().last().unwrap()).await;
    world
}

async fn edit(world: &World, edit: Edit) -> Result<String, FileError> {
    world.files().edit(world.anna, &name("NOW.md"), edit, noon()).await.map(|file| file.text)
}

fn on_disk(world: &World) -> String {
    fs::read_to_string(world.path("NOW.md")).unwrap()
}

fn refused(result: Result<String, FileError>, complaint: &str) {
    match result {
        Err(FileError::Refused(why)) => assert!(why.contains(complaint), "{why}"),
        other => panic!("{other:?} should be refused: {complaint}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_is_edited_and_all_else_stays_byte_for_byte() {
    let world = world_with("\u{FEFF}intro\r\n# A\r\nold\r\n\r\n\r\n#  B  #\r\n\ttext without end").await;
    let base = Some(world.file("NOW.md").await.head.revision);

    let text = edit(&world, Edit::Section { base, path: path(&["A"]), body: "new\nlines".into() }).await.unwrap();

    assert_eq!(text, "\u{FEFF}intro\r\n# A\r\nnew\r\nlines\r\n\r\n\r\n#  B  #\r\n\ttext without end");
    assert_eq!(on_disk(&world), text);
    let file = world.file("NOW.md").await;
    assert_eq!(file.head.changed_at, noon());
    let sections: Vec<_> = file.sections.iter().map(|section| (section.path.join("/"), section.level)).collect();
    assert_eq!(sections, [(String::new(), 0), ("A".into(), 1), ("B".into(), 1)]);
    assert!(world.prompt().await.contains("new\nlines"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_edit_writes_nothing_and_shows_both_texts() {
    let world = world_with("# A\none\n").await;
    let base = Some(world.file("NOW.md").await.head.revision);
    // Saved by an editor a moment ago; the watcher may not have told yet.
    fs::write(world.path("NOW.md"), "# A\ntwo\n").unwrap();

    let result = edit(&world, Edit::Section { base: base.clone(), path: path(&["A"]), body: "three".into() }).await;

    let Err(FileError::Stale { base: named, current, yours, diff }) = result else { panic!("{result:?}") };
    assert_eq!(Some(Revision(named)), base);
    assert_eq!(current.unwrap().text, "# A\ntwo\n");
    assert_eq!(yours, "# A\nthree\n");
    assert!(diff.contains("\n-two\n+three\n"), "{diff}");
    assert_eq!(on_disk(&world), "# A\ntwo\n");
    // What the editor had saved in between is in the history.
    world.until_history_has("NOW.md", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_is_only_made_where_there_is_none() {
    let world = world_with("# A\n").await;
    let whole = |base| Edit::Whole { base, text: "mine".into() };

    let result = edit(&world, whole(None)).await;
    assert!(matches!(&result, Err(FileError::Stale { base, .. }) if base == "none"), "{result:?}");

    let plans = name("plans.md");
    let made = world.files().edit(world.anna, &plans, whole(None), noon()).await.unwrap();
    assert!(!made.head.always);
    assert_eq!(fs::read_to_string(world.path("plans.md")).unwrap(), "mine");

    fs::remove_file(world.path("plans.md")).unwrap();
    let result = world.files().edit(world.anna, &plans, whole(Some(Revision("0".into()))), noon()).await;
    assert!(matches!(result, Err(FileError::Stale { current: None, .. })), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_added_goes_after_what_an_editor_saved_meanwhile() {
    let world = world_with("# A\n- one\n").await;
    fs::write(world.path("NOW.md"), "# A\n- one\n- two\n").unwrap();

    edit(&world, Edit::Append { path: path(&["A"]), body: "- three".into() }).await.unwrap();

    assert_eq!(on_disk(&world), "# A\n- one\n- two\n- three\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_edits_at_once_none_is_lost_and_none_is_mixed() {
    let world = world_with("# A\n- start\n").await;
    let base = Some(world.file("NOW.md").await.head.revision);

    let appends = (0..20).map(|number| Edit::Append { path: path(&["A"]), body: format!("- item {number}.") });
    let wholes = (0..5).map(|number| Edit::Whole { base: base.clone(), text: format!("# A\n- whole {number}\n") });
    let mut tasks = tokio::task::JoinSet::new();
    for change in wholes.chain(appends) {
        let (layer, user) = (std::sync::Arc::clone(&world.layer), world.anna);
        tasks.spawn(async move {
            let whole = matches!(change, Edit::Whole { .. });
            let done = layer.memory_files().unwrap().edit(user, &name("NOW.md"), change, noon()).await;
            (whole, done)
        });
    }
    let done = tasks.join_all().await;

    let wholes = done.iter().filter(|(whole, done)| *whole && done.is_ok()).count();
    assert!(wholes <= 1);
    let stale = done.iter().filter(|(_, done)| matches!(done, Err(FileError::Stale { .. }))).count();
    assert_eq!(stale, 5 - wholes);
    let text = on_disk(&world);
    for number in 0..20 {
        // A whole text only goes in before the first of them.
        assert!(text.contains(&format!("- item {number}.\n")), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_earlier_text_is_brought_back_as_a_new_revision() {
    let world = world_with("one\n").await;
    let first = world.file("NOW.md").await.head.revision;
    edit(&world, Edit::Whole { base: Some(first.clone()), text: "two\n".into() }).await.unwrap();
    let second = world.file("NOW.md").await.head.revision;

    let text = edit(&world, Edit::Restore { base: Some(second.clone()), revision: first.clone() }).await.unwrap();

    assert_eq!((text.as_str(), on_disk(&world).as_str()), ("one\n", "one\n"));
    world.until_history_has("NOW.md", 4).await;
    let history = world.files().history(world.anna, &name("NOW.md")).await.unwrap();
    let told: Vec<_> = history.iter().map(|head| (&head.revision, head.origin.as_str(), head.bytes)).collect();
    assert_eq!(&told[..3], &[(&first, "api", 4), (&second, "api", 4), (&first, "disk", 4)]);
    assert_eq!(world.files().revision(world.anna, &name("NOW.md"), &second).await.unwrap(), "two\n");
    let unknown = world.files().revision(world.anna, &name("NOW.md"), &Revision("0".into())).await;
    assert!(matches!(unknown, Err(FileError::NotFound(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_can_be_brought_back() {
    let world = world_with("one\n").await;
    let revision = world.file("NOW.md").await.head.revision;
    fs::remove_file(world.path("NOW.md")).unwrap();

    edit(&world, Edit::Restore { base: None, revision }).await.unwrap();

    assert_eq!(on_disk(&world), "one\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_twice_for_the_same_text_is_asking_once() {
    let world = world_with("one\n").await;
    let base = Some(world.file("NOW.md").await.head.revision);
    let whole = Edit::Whole { base, text: "two\n".into() };

    edit(&world, whole.clone()).await.unwrap();
    edit(&world, whole).await.unwrap();

    world.until_history_has("NOW.md", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_cannot_be_made_says_why() {
    let world = world_with("# A\nx\n# B\ny\n").await;
    let base = Some(world.file("NOW.md").await.head.revision);
    let section = |body: &str| Edit::Section { base: base.clone(), path: path(&["A"]), body: body.into() };
    let whole = |text: String| Edit::Whole { base: base.clone(), text };

    refused(edit(&world, section("# C")).await, "only deeper");
    refused(edit(&world, section("```\nopen")).await, "not closed");
    refused(edit(&world, section("a\0b")).await, "NUL");
    refused(edit(&world, whole("x".repeat(1_000_001))).await, "max_file_bytes");
    refused(edit(&world, whole("---\nalways: [\n---\n".into())).await, "line 2");
    assert_eq!(on_disk(&world), "# A\nx\n# B\ny\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn mode_and_links_stay() {
    let world = world_with("one\n").await;
    fs::set_permissions(world.path("NOW.md"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::rename(world.path("MEMORY.md"), world.path("real.txt")).unwrap();
    symlink("real.txt", world.path("MEMORY.md")).unwrap();
    fs::write(world.path("real.txt"), "linked\n").unwrap();
    world.until_prompt_has("linked").await;
    let add = |body: &str| Edit::Append { path: Vec::new(), body: body.into() };

    edit(&world, add("two")).await.unwrap();
    world.files().edit(world.anna, &name("MEMORY.md"), add("more"), noon()).await.unwrap();

    assert_eq!(fs::metadata(world.path("NOW.md")).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(world.path("MEMORY.md")).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(world.path("real.txt")).unwrap(), "linked\n\nmore\n");
    let left: Vec<_> = fs::read_dir(world.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_waits_for_an_editor_that_is_half_way_through_a_save() {
    let world = world_with("one\n").await;
    let file = world.path("NOW.md");
    let mut open = fs::File::create(&file).unwrap();
    let editor = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::io::Write::write_all(&mut open, b"saved\n").unwrap();
    });

    edit(&world, Edit::Append { path: Vec::new(), body: "added".into() }).await.unwrap();
    editor.join().unwrap();

    assert_eq!(on_disk(&world), "saved\n\nadded\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_reaches_anothers_files() {
    let world = world_with("of anna\n").await;
    let ben = add_user(&world.db, "ben").await;
    let nobody = UserId(Uuid::new_v4());
    let revision = world.file("NOW.md").await.head.revision;

    assert!(!world.prompt_of(ben).await.contains("anna"));
    let text = world.files().revision(ben, &name("NOW.md"), &revision).await;
    assert!(matches!(text, Err(FileError::NotFound(_))), "{text:?}");
    let list = world.files().list(nobody).await;
    assert!(matches!(list, Err(FileError::NotFound(_))), "{list:?}");
    assert_eq!(world.prompt_of(nobody).await, "");
}
