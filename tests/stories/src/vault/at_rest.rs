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

/// Two words that stand nowhere else, in sentences that are as long as each other.
const OPEN: &str = "qzopenlyw77";
const SEALED: &str = "qzsealedw77";

fn sentence(nonce: &str) -> String {
    format!("The word of the day is {nonce}, remember it.")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sealed_collection_lies_anywhere_on_the_disk() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let client = &server.client;
    let (secret, recipient) = identity();
    client.post("/v1/collections/health/seal", json!({ "recipients": [recipient] })).await.expect(201);
    says(client, "default", "open-session", &sentence(OPEN), "Noted.").await;
    says(client, "health", SEALED, &sentence(SEALED), "Noted.").await;
    client.post("/v1/collections/health/unlock", json!({ "identity": secret })).await.expect(200);
    let asked = format!("what is {SEALED}?");
    assert!(client.recall(&asked).await.iter().any(|text| text.contains(SEALED)), "it is there while it is unlocked");
    client.context("asking", &asked).await;
    eventually(async || client.recall(&format!("what is {OPEN}?")).await.iter().any(|text| text.contains(OPEN))).await;
    eventually(async || held(folder, &vector(OPEN).await)).await;
    let dump = dump(folder);
    // A second of traffic more, so that what is asked about is written wherever it is written.
    client.post("/v1/vault/lock", json!({})).await.expect(200);
    assert!(client.recall(&asked).await.iter().all(|text| !text.contains(SEALED)));
    let core = core_of(folder, &server);

    server.is_killed(folder);

    assert!(held(folder, OPEN.as_bytes()), "the scan finds what is open");
    assert!(dump.contains(OPEN), "and so does a dump hold it");
    assert!(held(folder, &vector(OPEN).await), "also its vector");
    assert!(!dump.contains(SEALED));
    assert!(!held(folder, SEALED.as_bytes()), "what is sealed");
    assert!(!held(folder, &vector(SEALED).await), "and its vector");
    let line = secret.lines().last().unwrap_or_default();
    assert!(!held(folder, line.as_bytes()), "and the identity");
    match core {
        Some(times) => eprintln!("after locking, a core dump of the server holds the sealed word {times} times"),
        None => eprintln!("no core dump was taken: gcore is not here, or may not look into the server"),
    }
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

/// Whether a file of a folder holds some bytes: tables, indexes, the write-ahead log, temporary files, the server's log.
fn held(folder: &Path, bytes: &[u8]) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return held(&path, bytes);
        }
        // A socket cannot be read, and a file may be gone.
        std::fs::read(&path).is_ok_and(|content| times(&content, bytes) > 0)
    })
}

fn times(content: &[u8], bytes: &[u8]) -> usize {
    let Some(first) = bytes.first() else { return 0 };
    let places = content.iter().enumerate().filter(|(_, byte)| *byte == first);
    places.filter(|(at, _)| content[*at..].starts_with(bytes)).count()
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

/// How often a core dump of the locked server holds the sealed word; `None` when none can be taken.
fn core_of(folder: &Path, server: &Victim) -> Option<usize> {
    let place = tempfile::tempdir_in(folder.parent()?).ok()?;
    let prefix = place.path().join("core");
    let pid = server.pid().to_string();
    let taken = Command::new("gcore").arg("-o").arg(&prefix).arg(&pid).output().ok()?;
    let core = std::fs::read(place.path().join(format!("core.{pid}"))).ok().filter(|_| taken.status.success())?;
    Some(times(&core, SEALED.as_bytes()))
}
