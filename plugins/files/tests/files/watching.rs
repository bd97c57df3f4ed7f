//! What people do to files in their editors, step by step as those do it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use super::world::{World, add_user, eventually, name, noon, path};
use skymem_core::files::Edit;

/// Between the steps of one save.
const MOMENT: Duration = Duration::from_millis(20);

/// After `save`, which works on the folder, "the new text" is live after exactly one reload, and nothing but the old
/// and the new text was ever seen.
async fn check(save: impl FnOnce(&Path) + Send + 'static) {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "the old text\n").unwrap();
    world.until_prompt_has("the old text").await;
    world.caught_up().await;
    let before = world.count("reloads").await;
    let seen = Arc::new(Mutex::new(Vec::<String>::new()));
    let sampler = {
        let (layer, seen, user) = (Arc::clone(&world.layer), Arc::clone(&seen), world.anna);
        tokio::spawn(async move {
            loop {
                let heads = layer.memory_files().unwrap().read(user, &name("NOW.md")).await;
                let text = heads.map_or_else(|error| error.to_string(), |file| file.text);
                note(&seen, text);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };

    let folder = world.folder();
    tokio::task::spawn_blocking(move || save(&folder)).await.unwrap();
    world.until_prompt_has("the new text").await;
    sampler.abort();
    let reloads = world.count("reloads").await - before;
    if world.folder().exists() {
        world.caught_up().await;
        assert_eq!(world.count("reloads").await - before, reloads + 1);
    }

    assert_eq!(reloads, 1);
    let texts = seen.lock().unwrap().clone();
    assert!(texts.iter().all(|text| text == "the old text\n" || text == "the new text\n"), "{texts:?}");
    assert_eq!(world.count("polling").await, 0);
    assert_eq!(world.layer.faults(world.anna), Vec::<String>::new());
}

fn note(seen: &Mutex<Vec<String>>, text: String) {
    let mut seen = seen.lock().unwrap();
    if seen.last() != Some(&text) {
        seen.push(text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vim_renames_to_a_backup_and_writes_anew() {
    check(|folder| {
        let (file, backup) = (folder.join("NOW.md"), folder.join("NOW.md~"));
        fs::write(folder.join(".NOW.md.swp"), "swap").unwrap();
        fs::write(folder.join("4913"), "").unwrap();
        fs::remove_file(folder.join("4913")).unwrap();
        fs::rename(&file, &backup).unwrap();
        sleep(MOMENT);
        let mut open = File::create(&file).unwrap();
        sleep(MOMENT);
        open.write_all(b"the new text\n").unwrap();
        open.sync_all().unwrap();
        drop(open);
        fs::remove_file(&backup).unwrap();
        fs::remove_file(folder.join(".NOW.md.swp")).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vim_copies_to_a_backup_and_writes_in_place() {
    check(|folder| {
        fs::copy(folder.join("NOW.md"), folder.join("NOW.md~")).unwrap();
        fs::write(folder.join("NOW.md"), "the new text\n").unwrap();
        fs::remove_file(folder.join("NOW.md~")).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn vim_itself_saves_once_where_it_is_installed() {
    for how in ["set backupcopy=no backup", "set backupcopy=yes nobackup", "set backupcopy=no nowritebackup"] {
        let Ok(version) = std::process::Command::new("vi").arg("--version").output() else { return };
        if !String::from_utf8_lossy(&version.stdout).starts_with("VIM") {
            return;
        }
        check(move |folder| {
            let mut vim = std::process::Command::new("vi");
            vim.args(["-u", "NONE", "-es", "-c", how, "-c", "%s/.*/the new text/", "-c", "wq", "NOW.md"]);
            assert!(vim.current_dir(folder).status().unwrap().success());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vs_code_writes_in_place() {
    check(|folder| {
        let mut open = OpenOptions::new().write(true).open(folder.join("NOW.md")).unwrap();
        open.set_len(0).unwrap();
        open.write_all(b"the new text\n").unwrap();
        open.sync_data().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_file_is_renamed_over_it() {
    check(|folder| {
        let draft = folder.join(".NOW.md.tmp-1234");
        fs::write(&draft, "the new text\n").unwrap();
        fs::rename(draft, folder.join("NOW.md")).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_from_elsewhere_is_moved_over_it() {
    check(|folder| {
        let elsewhere = folder.parent().unwrap().parent().unwrap().join("draft.md");
        fs::write(&elsewhere, "the new text\n").unwrap();
        let moved = std::process::Command::new("mv").arg(&elsewhere).arg(folder.join("NOW.md")).status().unwrap();
        assert!(moved.success());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_emptied_and_written_a_while_later() {
    check(|folder| {
        let mut open = File::create(folder.join("NOW.md")).unwrap();
        sleep(Duration::from_millis(200));
        open.write_all(b"the new text\n").unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_written_in_many_small_pieces() {
    check(|folder| {
        let mut open = File::create(folder.join("NOW.md")).unwrap();
        for letter in "the new text\n".chars() {
            open.write_all(letter.to_string().as_bytes()).unwrap();
            sleep(Duration::from_millis(10));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_deleted_and_made_anew() {
    check(|folder| {
        fs::remove_file(folder.join("NOW.md")).unwrap();
        sleep(MOMENT);
        fs::write(folder.join("NOW.md"), "the new text\n").unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_is_renamed_away_changed_and_brought_back() {
    check(|folder| {
        let away = folder.with_file_name("away");
        fs::rename(folder, &away).unwrap();
        sleep(MOMENT);
        fs::write(away.join("NOW.md"), "the new text\n").unwrap();
        fs::rename(&away, folder).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_is_renamed_away_and_another_takes_its_place() {
    check(|folder| {
        fs::rename(folder, folder.with_file_name("away")).unwrap();
        fs::create_dir(folder).unwrap();
        sleep(MOMENT);
        fs::write(folder.join("NOW.md"), "the new text\n").unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_the_same_text_is_no_reload() {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.until_prompt_has("the text").await;
    let before = world.count("reloads").await;

    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    fs::remove_file(world.path("NOW.md")).unwrap();
    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.caught_up().await;

    assert_eq!(world.count("reloads").await, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_writes_are_no_reload() {
    let world = World::new().await;
    world.caught_up().await;
    let before = world.count("reloads").await;

    for number in 0..5 {
        let edit = Edit::Append { path: path(&["Now"]), body: format!("- item {number}") };
        world.files().edit(world.anna, &name("NOW.md"), edit, noon()).await.unwrap();
    }
    assert!(world.prompt().await.contains("- item 4"));
    world.caught_up().await;

    assert_eq!(world.count("reloads").await, before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_leaves_the_prompt() {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.until_prompt_has("the text").await;

    fs::remove_file(world.path("NOW.md")).unwrap();

    eventually("an empty prompt", || async { world.prompt().await.is_empty() }).await;
    assert_eq!(world.faults(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_file_is_empty_in_the_end() {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.until_prompt_has("the text").await;

    fs::write(world.path("NOW.md"), "").unwrap();

    eventually("an empty prompt", || async { world.prompt().await.is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_gone_leaves_its_last_texts_in_use() {
    let world = World::new().await;
    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.until_prompt_has("the text").await;

    fs::rename(world.folder(), world.root().join("away")).unwrap();
    world.until_fault_has("folder of the memory files is gone").await;
    assert!(world.prompt().await.contains("the text"));

    fs::create_dir(world.folder()).unwrap();
    eventually("a fresh start", || async { world.prompt().await.is_empty() && world.faults().is_empty() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_notices_too() {
    let world = World::with("watch = 'poll'\npoll_seconds = 1").await;
    assert_eq!(world.count("polling").await, 1);

    fs::write(world.path("NOW.md"), "the text\n").unwrap();

    world.until_prompt_has("the text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_takes_over_when_the_watcher_hears_nothing() {
    let world = World::with("heartbeat_seconds = 1\npoll_seconds = 1").await;
    world.caught_up().await;
    assert_eq!(world.count("polling").await, 0);
    // The watcher goes with the folder it watches; what takes its place is unknown to it.
    fs::rename(world.root(), world.root().with_file_name("away")).unwrap();
    fs::create_dir_all(world.folder()).unwrap();

    fs::write(world.path("NOW.md"), "the text\n").unwrap();
    world.until_prompt_has("the text").await;
    eventually("polling", || async { world.count("polling").await == 1 }).await;

    fs::write(world.path("NOW.md"), "and more\n").unwrap();
    world.until_prompt_has("and more").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_user_gets_a_folder_at_the_first_request_or_brings_one() {
    let world = World::new().await;

    let ben = add_user(&world.db, "ben").await;
    assert_eq!(world.prompt_of(ben).await, "");
    assert!(world.root().join("ben/NOW.md").exists() && world.root().join("ben/MEMORY.md").exists());

    let cleo = add_user(&world.db, "cleo").await;
    fs::create_dir(world.root().join("cleo")).unwrap();
    fs::write(world.root().join("cleo/NOW.md"), "her own text").unwrap();
    eventually("the text of cleo", || async { world.prompt_of(cleo).await.contains("her own text") }).await;
    assert!(!world.prompt_of(ben).await.contains("her own text"));
}
