//! Files that cannot be used change nothing and are named.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use skymem_core::files::{Edit, FileError};

use super::world::{World, add_user, name, noon};

/// After `damage`, which works on NOW.md, the last good text is still in use, the fault has `words`, an edit is
/// refused, and the file is as `damage` left it. When it is mended, its text is live.
async fn check(words: &str, damage: impl FnOnce(&Path)) {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "good text\n").unwrap();
    world.until_prompt_has("good text").await;

    let file = world.path("NOW.md");
    fs::remove_file(&file).unwrap();
    damage(&file);
    world.until_fault_has(words).await;

    assert!(world.prompt().await.contains("good text"), "{words}");
    let head = world.file("NOW.md").await.head;
    assert!(head.faults.iter().any(|fault| fault.contains(words) && fault.contains("last good text")), "{head:?}");
    let edit = Edit::Append { path: Vec::new(), body: "more".into() };
    let result = world.files().edit(world.anna, &name("NOW.md"), edit, noon()).await;
    assert!(matches!(&result, Err(FileError::Refused(why)) if why.contains(words)), "{result:?}");

    if file.is_dir() {
        fs::remove_dir(&file).unwrap();
    } else {
        fs::remove_file(&file).unwrap();
    }
    fs::write(&file, "mended\n").unwrap();
    world.until_prompt_has("mended").await;
    assert_eq!(world.faults(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_is_not_utf8() {
    check("NOW.md is not UTF-8 in line 2", |file| fs::write(file, b"one\ncaf\xe9\n").unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_a_nul_byte() {
    check("NOW.md holds a NUL byte in line 3", |file| fs::write(file, b"\n\na\0b").unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_fifty_megabytes() {
    check("NOW.md has 50000000 bytes; the most is 1000000", |file| {
        File::create(file).unwrap().set_len(50_000_000).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_out_of_the_folder() {
    check("NOW.md is a link out of its folder", |file| symlink("/etc/passwd", file).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_to_another_users_file() {
    check("NOW.md is a link out of its folder", |file| {
        let ben = file.parent().unwrap().with_file_name("ben");
        fs::create_dir(&ben).unwrap();
        fs::write(ben.join("NOW.md"), "of ben").unwrap();
        symlink("../ben/NOW.md", file).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_leads_nowhere() {
    check("NOW.md is a link that leads nowhere", |file| symlink("nothing.md", file).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn front_matter_that_does_not_parse() {
    check("NOW.md has front matter that does not parse, in line 3", |file| {
        fs::write(file, "---\ntitle: x\nalways: [\n---\ntext\n").unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_a_files_name() {
    check("NOW.md is a folder", |file| fs::create_dir(file).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_with_a_files_name() {
    check("NOW.md is no ordinary file", |file| {
        assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_may_not_be_read() {
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        // Root may read everything.
        return;
    }
    check("NOW.md cannot be read: give the server permission", |file| {
        fs::write(file, "secret").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o000)).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_that_was_never_good_is_named_and_not_listed() {
    let world = World::new().await;

    fs::write(world.path("plans.md"), b"\xff").unwrap();
    fs::write(world.path("a:b.md"), "odd name").unwrap();
    fs::write(world.path("notes.txt"), b"\xff").unwrap();
    world.until_fault_has("plans.md is not UTF-8").await;

    assert!(world.faults().contains("it is not loaded"), "{}", world.faults());
    assert!(world.faults().contains("\"a:b.md\" is not read: give it a plainer name"), "{}", world.faults());
    assert!(!world.faults().contains("notes.txt"));
    let names: Vec<_> = world.files().list(world.anna).await.unwrap().into_iter().map(|head| head.name).collect();
    assert_eq!(names, [name("MEMORY.md"), name("NOW.md")]);
    let result = world.files().read(world.anna, &name("plans.md")).await;
    assert!(matches!(result, Err(FileError::Refused(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_files_than_are_read_is_said() {
    let world = World::with("max_files = 3").await;

    for number in 0..4 {
        fs::write(world.path(&format!("{number}.md")), "x").unwrap();
    }

    world.until_fault_has("there are 6 Markdown files; only the first 3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_users_broken_folder_is_not_everyones() {
    let mut world = World::new().await;
    fs::write(world.root().join("ben"), "no folder").unwrap();
    let ben = add_user(&world.db, "ben").await;

    world.restart().await;

    assert_eq!(world.prompt().await, "");
    let error = world.files().list(ben).await.unwrap_err().to_string();
    assert!(error.contains("cannot make the folder") && error.ends_with("ben"), "{error}");
    fs::remove_file(world.root().join("ben")).unwrap();
    assert_eq!(world.files().list(ben).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_keep_the_server_from_starting() {
    let world = World::new().await;
    let home = tempfile::tempdir().unwrap();

    let result = super::world::open(&world.db, home.path(), &toml::from_str("wach = 'poll'").unwrap()).await;

    let error = result.err().unwrap().to_string();
    assert!(error.contains("layers.files") && error.contains("wach"), "{error}");
}
