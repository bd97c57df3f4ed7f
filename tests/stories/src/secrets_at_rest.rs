//! A secret that is sealed lies nowhere in the clear: not in the database's files, its write-ahead log, the server's log.

use std::path::Path;

use serde_json::json;
use skymem_harness::{Victim, be_the_victim};

#[test]
#[ignore = "it is the server that the other test looks into"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "secrets_at_rest::victim";

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_sealed_secret_lies_anywhere_on_the_disk() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let client = &server.client;
    let (_, recipient) = skymem_seal::make_identity();
    let recipients = json!({ "recipients": [recipient.to_string()] });
    client.post("/v1/collections/private/seal", recipients).await.expect(201);
    let change = json!({ "secrets": "seal", "secrets_collection": "private" });
    client.patch("/v1/me", change).await.expect(200);
    let token = format!("gh{}_{}", "p", "q7Zr2LmX9cVb4NtK8wYs1DfG6hJp3RaE5uTo");
    let (open, hidden) = ("zqopenword5k", "zqhiddenword5k");

    client.says("talk", &format!("The {open} is on the table."), "Noted.").await;
    client.says("talk", &format!("The {hidden} is {token}."), "Noted.").await;
    client.tells("talk", "user", &format!("The {hidden} is {token}, I said.")).await.expect(201);
    client.tells("talk", "assistant", &format!("Yes, the {hidden}.")).await.expect(201);
    let turn = |text: String| json!({ "session": "bulk", "role": "user", "content": text });
    let turns = json!({ "turns": [turn(format!("{hidden}: {token}")), turn("The dog is Rex.".into())] });
    client.post("/v1/turns", turns).await.expect(200);
    client.post("/v1/remember", json!({ "text": format!("{hidden}: {token}") })).await.expect(201);
    let fact = json!({ "subject": "github", "predicate": "token", "object": { "literal": token } });
    client.post("/v1/facts", fact).await.expect(201);
    for _ in 0..200 {
        if client.recall("what is on the table?").await.iter().any(|text| text.contains(open)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    client.context("talk", "what is on the table?").await;

    server.is_killed(folder);

    assert!(held(folder, open), "the look finds what is open");
    assert!(!held(folder, &token), "the token");
    assert!(!held(folder, hidden), "and what was said with it");
}

/// Whether a file of a folder holds a word.
fn held(folder: &Path, word: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return held(&path, word);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}
