//! After a purge no byte of it lies in the files of the server's own database either, but in the write-ahead log, which the
//! receipt names.

use std::path::Path;

use serde_json::json;
use skymem_harness::{Victim, be_the_victim};

#[test]
#[ignore = "it is the server that the other test looks into"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "purge_at_rest::victim";

/// It stands nowhere else, and neither does a part of it.
const NONCE: &str = "zqpurged88wk";

#[tokio::test(flavor = "multi_thread")]
async fn no_page_of_the_servers_own_database_holds_what_was_purged() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let client = &server.client;
    let id = client.says("a", &format!("The locker code is {NONCE}, and it opens the third door."), "Noted.").await;
    client.says("b", "The bicycle is blue.", "Nice.").await;
    let fact = json!({ "subject": "locker", "predicate": "code", "object": { "literal": NONCE } });
    client.post("/v1/facts", fact).await.expect(201);
    for _ in 0..200 {
        if client.recall("what is the locker code?").await.iter().any(|text| text.contains(NONCE)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }

    let purged = client.post("/v1/purge", json!({ "text": NONCE, "remembered_too": true })).await.expect(200);

    let receipt = &purged["receipt"]["receipt"];
    assert!(purged["ids"].as_array().unwrap().contains(&json!(id)), "{purged}");
    assert_eq!(receipt["clean"], true, "{receipt}");
    let looked = receipt["looked"].as_array().unwrap();
    let pages = looked.iter().find(|here| here["place"] == "pages of the database").unwrap();
    assert!(pages["items"].as_u64().unwrap() > 100, "{pages}");
    assert!(client.recall("which colour is the bicycle?").await.iter().any(|text| text.contains("blue")));
    server.is_killed(folder);
    assert_eq!(holding(folder, false), Vec::<String>::new());
    // The same look does find what is there.
    assert!(!holding(folder, true).is_empty(), "the write-ahead log still holds it, as the receipt says");
    assert!(receipt["unreachable"].to_string().contains("write-ahead log"));
}

/// The files that hold the nonce: in the write-ahead log, or everywhere else.
fn holding(folder: &Path, in_log: bool) -> Vec<String> {
    let mut holding = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return holding };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            holding.extend(self::holding(&path, in_log));
            continue;
        }
        let is_log = path.components().any(|part| part.as_os_str() == "pg_wal");
        let bytes = std::fs::read(&path).unwrap_or_default();
        if is_log == in_log && bytes.windows(NONCE.len()).any(|window| window == NONCE.as_bytes()) {
            holding.push(path.display().to_string());
        }
    }
    holding
}
