//! After a purge no byte of it lies in the files of the server's own database either, nor anywhere else in its data folder; and
//! a purge that is broken off goes on.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use skymem_harness::{Victim, be_the_victim};

#[test]
#[ignore = "it is the server that the other tests look into and kill"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "purge_at_rest::victim";

/// It stands nowhere else, and neither does a part of it.
const NONCE: &str = "zqpurged88wk";

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_the_server_holds_what_was_purged_and_facts_with_other_support_stay() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let client = &server.client;
    let text = format!("I live in Bremen. The locker code is {NONCE}, and it opens the third door.");
    let id = client.says("talk", &text, "Noted.").await;
    let told = json!({ "subject": "locker", "predicate": "code", "object": { "literal": NONCE } });
    client.post("/v1/facts", told).await.expect(201);
    let file = json!({ "text": format!("# Notes\n\nThe locker code is {NONCE}.\n"), "base": null });
    assert!(client.put("/v1/files/NOTES.md", file).await.status < 300);
    let base = client.get("/v1/files/NOTES.md").await.expect(200)["revision"].clone();
    assert!(
        client.put("/v1/files/NOTES.md", json!({ "text": "# Notes\n\nNothing.\n", "base": base })).await.status < 300
    );
    // What is said later has the beginning leave the window.
    client.says("other", "I live in Bremen.", "Nice.").await;
    for number in 0..14 {
        client.says("talk", &format!("And what about question number {number}, is it easy?"), "It is.").await;
    }
    // In a page, what was written last leaves a gap with its bytes in it: only writing the page anew helps.
    client.says("last", &format!("Once more: {NONCE}."), "Noted.").await;
    eventually("it is learned", async || {
        let facts = client.get("/v1/facts").await;
        facts.text.contains(NONCE)
            && lives_in(&facts.json).is_some_and(|fact| fact["evidence"].as_array().is_some_and(|all| all.len() == 2))
            && client.recall("what is the locker code?").await.iter().any(|text| text.contains(NONCE))
            && client.get("/v1/stats").await.text.contains("summaries")
            && client.context_for("talk", "what is the locker code?").await.contains(NONCE)
    })
    .await;
    assert!(!holding(folder).is_empty(), "the look finds what is there");

    let purged = client.post("/v1/purge", json!({ "text": NONCE, "remembered_too": true })).await.expect(200);

    let receipt = &purged["receipt"]["receipt"];
    assert!(purged["ids"].as_array().unwrap().contains(&json!(id)), "{purged}");
    assert_eq!((&purged["count"], &receipt["revisions"]), (&json!(3), &json!(1)), "{receipt}");
    assert_eq!(receipt["clean"], true, "{receipt}");
    assert_eq!(receipt["rewritten"], true, "pages that hold it are written anew without being asked for: {receipt}");
    let looked = receipt["looked"].as_array().unwrap();
    for (place, least) in [("pages of the database", 100), ("write-ahead log of the database", 1), ("data folder", 1)] {
        let here = looked.iter().find(|here| here["place"] == place).unwrap_or_else(|| panic!("{place}: {receipt}"));
        assert!(here["items"].as_u64().unwrap() >= least, "{here}");
    }
    let unreachable = receipt["unreachable"].to_string();
    for beyond in ["backups", "clients", "disk"] {
        assert!(unreachable.contains(beyond), "{unreachable}");
    }
    assert!(!unreachable.contains("write-ahead log"), "it was reached: {unreachable}");
    let facts = client.get("/v1/facts").await;
    let stays = lives_in(&facts.json).unwrap_or_else(|| panic!("{}", facts.text));
    assert_eq!(stays["evidence"].as_array().map(Vec::len), Some(1), "{stays}");
    assert!(!facts.text.contains(NONCE));
    server.is_killed(folder);
    assert_eq!(holding(folder), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_in_the_middle_of_which_everything_is_killed_goes_on() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let client = server.client.clone();
    let turn = |number: usize, role: &str| {
        let content = format!("The locker code number {number} is {NONCE}{number}, and it opens door {number}.");
        json!({ "session": "talk", "role": role, "content": content })
    };
    for batch in 0..6 {
        let turns: Vec<Value> = (batch * 100..(batch + 1) * 100)
            .flat_map(|number| [turn(number, "user"), turn(number, "assistant")])
            .collect();
        client.post("/v1/turns", json!({ "turns": turns })).await.expect(200);
    }
    client.says("other", "The bicycle is blue.", "Nice.").await;
    let all = client.get("/v1/stats").await.expect(200)["turns"].as_u64().unwrap();
    let asking = client.clone();
    let purge = json!({ "text": NONCE, "remembered_too": true });
    let asked = tokio::spawn(async move { asking.try_post("/v1/purge", purge).await });
    eventually("some of it is gone", async || {
        let now = client.get("/v1/stats").await.expect(200)["turns"].as_u64().unwrap();
        now < all || asked.is_finished()
    })
    .await;

    server.is_killed(folder);
    let answered = asked.await.unwrap().is_some_and(|reply| reply.status == 200);
    let server = Victim::start(folder, VICTIM).await;

    assert!(!answered, "it was killed before it was done");
    let receipts = async || server.client.get("/v1/receipts").await.expect(200)["receipts"].as_array().unwrap().clone();
    eventually("there is a receipt", async || !receipts().await.is_empty()).await;
    let receipts = receipts().await;
    let receipt = &receipts[0]["receipt"];
    assert_eq!(receipts.len(), 1);
    assert_eq!((&receipt["exchanges"], &receipt["clean"]), (&json!(600), &json!(true)), "{receipt}");
    assert!(server.client.get("/v1/exchanges").await.text.contains("bicycle"));
    assert_eq!(server.client.get("/v1/stats").await.expect(200)["turns"], 2);
    server.is_killed(folder);
    assert_eq!(holding(folder), Vec::<String>::new(), "{receipt}");
}

/// What is known of where the user lives.
fn lives_in(facts: &Value) -> Option<Value> {
    facts["facts"].as_array()?.iter().find(|fact| fact["predicate"] == "lives_in").cloned()
}

/// Waits until background work has come so far.
async fn eventually(what: &str, mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..1_200 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it does not come to pass that {what}");
}

/// The files that hold the nonce: pages, the write-ahead log, the server's own log, whatever else lies in its folder.
fn holding(folder: &Path) -> Vec<String> {
    let mut holding = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return holding };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            holding.extend(self::holding(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        if bytes.windows(NONCE.len()).any(|window| window == NONCE.as_bytes()) {
            holding.push(path.display().to_string());
        }
    }
    holding
}
