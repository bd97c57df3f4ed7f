//! What lies on the disk, in the write-ahead log, in the server's log, in a dump and in the server's memory.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use skymem_core::{Embedder, Purpose};
use skymem_harness::{Victim, be_the_victim};
use skymem_models::Offline;

use super::{identity, says};

#[test]
#[ignore = "it is the server that the other tests look into"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "vault::at_rest::victim";

/// A word that stands nowhere else. That of what is sealed is drawn anew: it does not stand in this program either, which is
/// the server's too.
const OPEN: &str = "qzopenlyw77";

fn sentence(nonce: &str) -> String {
    format!("The word of the day is {nonce}, remember it.")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sealed_collection_lies_anywhere_on_the_disk_and_nothing_in_memory_once_it_is_locked() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start_logging(folder, VICTIM, "trace").await;
    let client = &server.client;
    let sealed = format!("qz{}w77", &uuid::Uuid::new_v4().simple().to_string()[..12]);
    let sealed = sealed.as_str();
    let (secret, recipient) = identity();
    client.post("/v1/collections/health/seal", json!({ "recipients": [recipient] })).await.expect(201);
    says(client, "default", "open-session", &sentence(OPEN), "Noted.").await;
    says(client, "health", sealed, &sentence(sealed), "Noted.").await;
    client.post("/v1/collections/health/unlock", json!({ "identity": secret })).await.expect(200);
    let (asked, knowing) = ("what is the word of the day?", format!("what is {sealed}?"));
    for question in [asked, &knowing] {
        assert!(
            client.recall(question).await.iter().any(|text| text.contains(sealed)),
            "it is there while it is unlocked"
        );
        client.context("asking", question).await;
    }
    client.get(&format!("/v1/sessions/{sealed}/turns")).await.expect(200);
    eventually(async || client.recall(&format!("what is {OPEN}?")).await.iter().any(|text| text.contains(OPEN))).await;
    eventually(async || held(folder, &vector(OPEN).await)).await;
    let unlocked = core_of(folder, &server);
    let dump_unlocked = dump(folder);

    client.post("/v1/vault/lock", json!({})).await.expect(200);

    assert!(client.recall(asked).await.iter().all(|text| !text.contains(sealed)));
    let dump_locked = dump(folder);
    for (name, path) in [("facts.csv", "/v1/facts/export?format=csv&history=true"), ("metrics", "/metrics")] {
        std::fs::write(folder.join(name), client.get(path).await.text).unwrap();
    }
    // What the last requests were stands in the buffer of their connection until that is closed.
    let mut locked = core_of(folder, &server);
    for _ in 0..20 {
        if locked.as_ref().is_none_or(|core| times(core, sealed.as_bytes()) == 0) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        locked = core_of(folder, &server);
    }
    server.is_killed(folder);

    assert!(held(folder, OPEN.as_bytes()), "the scan finds what is open");
    assert!(held(folder, &vector(OPEN).await), "also its vector");
    for dump in [&dump_unlocked, &dump_locked] {
        assert!(
            dump.contains(OPEN) && !dump.contains(sealed),
            "a dump holds what is open, and nothing of what is sealed"
        );
    }
    assert_eq!(files_holding(folder, sealed.as_bytes()), Vec::<String>::new(), "what is sealed");
    assert!(!held(folder, &vector(sealed).await), "and its vector");
    let line = secret.lines().last().unwrap_or_default();
    assert!(!held(folder, line.as_bytes()), "and the identity");
    match (unlocked, locked) {
        (Some(unlocked), Some(locked)) => {
            assert!(times(&unlocked, sealed.as_bytes()) > 0, "the scan finds what is unlocked");
            assert!(times(&unlocked, &vector(sealed).await) > 0, "also its vector");
            assert_eq!(around(&locked, sealed.as_bytes()), Vec::<String>::new(), "what is locked");
            assert_eq!(times(&locked, &vector(sealed).await), 0, "and its vector");
            assert_eq!(around(&locked, &line.as_bytes()[20..]), Vec::<String>::new(), "and the identity");
        }
        _ => eprintln!("no core dump was taken: gcore is not here, or may not look into the server"),
    }
}

/// What stands around some bytes wherever they stand: it says which buffer that is.
fn around(content: &[u8], bytes: &[u8]) -> Vec<String> {
    let mut places = Vec::new();
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&content[from..], bytes).map(|at| from + at) {
        let about = &content[at.saturating_sub(60)..(at + 100).min(content.len())];
        places.push(String::from_utf8_lossy(about).replace('\0', "."));
        from = at + bytes.len();
    }
    places
}

/// The vector of what was said, as the database would keep it: a beginning that is long enough to be no accident.
async fn vector(nonce: &str) -> Vec<u8> {
    let embedded = Offline::new().embed(&[&sentence(nonce)], Purpose::Passage).await.unwrap();
    let halves = embedded[0].0.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes());
    halves.collect()
}

/// Waits until background work has come so far.
async fn eventually(mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..200 {
        if done().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("it does not come to pass");
}

/// Whether a file of a folder holds some bytes.
fn held(folder: &Path, bytes: &[u8]) -> bool {
    !files_holding(folder, bytes).is_empty()
}

/// The files of a folder that hold some bytes: tables, indexes, the write-ahead log, temporary files, the server's log.
pub(super) fn files_holding(folder: &Path, bytes: &[u8]) -> Vec<String> {
    let mut holding = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return holding };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            holding.extend(files_holding(&path, bytes));
        // A socket cannot be read, and a file may be gone.
        } else if std::fs::read(&path).is_ok_and(|content| times(&content, bytes) > 0) {
            holding.push(path.display().to_string());
        }
    }
    holding
}

fn times(content: &[u8], bytes: &[u8]) -> usize {
    memchr::memmem::find_iter(content, bytes).count()
}

/// All of the database as a program for backups sees it.
fn dump(folder: &Path) -> String {
    let file = find(folder, "postmaster.pid").unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (port, socket) = (lines[3], lines[4]);
    let program = [".pg/bin/pg_dump", "/usr/bin/pg_dump"]
        .map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path))
        .into_iter()
        .find(|path| path.exists())
        .unwrap();
    // As the administrator: the server's own role cannot see all that is everybody's.
    let dumped = Command::new(program).args(["-h", socket, "-p", port, "-U", "postgres", "skymem"]).output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let paths = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    let found = files.into_iter().find(|file| file.file_name().is_some_and(|found| found == name));
    found.or_else(|| folders.iter().find_map(|folder| find(folder, name)))
}

/// A core dump of the server; `None` when none can be taken.
fn core_of(folder: &Path, server: &Victim) -> Option<Vec<u8>> {
    let place = tempfile::tempdir_in(folder.parent()?).ok()?;
    let prefix = place.path().join("core");
    let pid = server.pid().to_string();
    let taken = Command::new("gcore").arg("-o").arg(&prefix).arg(&pid).output().ok()?;
    std::fs::read(place.path().join(format!("core.{pid}"))).ok().filter(|_| taken.status.success())
}
