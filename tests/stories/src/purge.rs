//! The promise of a purge: gone from everywhere it can reach, looked for afterwards, and a receipt that says so.

use serde_json::{Value, json};
use skymem_harness::{TestServer, story};

/// Nobody else ever said it.
const NONCE: &str = "zq7blorp93kx";

/// Tells memory the nonce in every way there is: turns, episodes, facts, a summary, the history of a file.
async fn tells_everything(server: &TestServer) -> Vec<String> {
    let mut ids = Vec::new();
    ids.push(server.says("talk", &format!("My locker code is {NONCE}, Anna wrote it down."), "I noted it.").await);
    for number in 0..12 {
        server.says("talk", &format!("And what about question number {number}, is it easy?"), "It is.").await;
    }
    let fact = json!({ "subject": "locker", "predicate": "code", "object": { "literal": NONCE } });
    let told = server.post("/v1/facts", fact).await.expect(201);
    ids.push(told["statements"][0]["exchange"].as_str().unwrap().parse().unwrap());
    let first = format!("# Notes\n\nThe locker code is {NONCE}.\n");
    let made = server.put("/v1/files/NOTES.md", json!({ "text": first, "base": null })).await;
    assert!(made.status < 300, "{}", made.text);
    let base = server.get("/v1/files/NOTES.md").await.expect(200)["revision"].clone();
    let second = json!({ "text": "# Notes\n\nNothing.\n", "base": base });
    let changed = server.put("/v1/files/NOTES.md", second).await;
    assert!(changed.status < 300, "{}", changed.text);
    server.catches_up().await;
    ids.iter().map(ToString::to_string).collect()
}

fn left(receipt: &Value) -> Vec<&Value> {
    let looked = receipt["receipt"]["looked"].as_array().unwrap();
    looked.iter().filter(|here| here["words"] != 0 || here["ids"] != 0).collect()
}

#[test]
fn a_purge_leaves_no_byte_of_it_in_tables_and_folders_and_what_others_support_stays() {
    story(async |server| {
        let ids = tells_everything(server).await;
        server.says("other", "Anna lives in Bremen.", "Nice.").await;
        let before = server.hits(NONCE).await;
        for table in ["journal.turn", "episodes.passage", "facts.claim", "files.revision", "summaries.version"] {
            assert!(before.contains_key(table), "{table} is looked into: {before:?}");
        }

        let dry = json!({ "text": "ZQ7BLORP93kx", "remembered_too": true, "dry_run": true });
        let would = server.post("/v1/purge", dry).await.expect(200);
        assert_eq!((&would["count"], &would["receipt"]), (&json!(2), &Value::Null), "{would}");
        let purged = server.post("/v1/purge", json!({ "text": NONCE, "remembered_too": true })).await.expect(200);

        assert_eq!(purged["count"], 2);
        for id in &ids {
            assert!(purged["ids"].as_array().unwrap().contains(&json!(id)), "{purged}");
        }
        let receipt = &purged["receipt"];
        assert_eq!((left(receipt), &receipt["receipt"]["clean"]), (Vec::new(), &json!(true)), "{receipt}");
        assert_eq!(receipt["receipt"]["revisions"], 1, "{receipt}");
        assert!(
            receipt["receipt"]["kept_ids"].as_array().unwrap().iter().any(|here| here["place"] == "journal.tombstone")
        );
        assert!(receipt["receipt"]["unreachable"].as_array().unwrap().len() >= 4);
        assert!(!receipt.to_string().contains(NONCE), "a receipt says nothing of what was said");
        server.catches_up().await;
        assert_eq!(server.hits(NONCE).await, Default::default());
        assert!(!server.get("/v1/facts").await.text.contains(NONCE));
        assert!(server.context_for("b", "Where does Anna live?").await.contains("Bremen"));
        assert!(server.get("/v1/files/NOTES.md").await.text.contains("Nothing."));

        let id = receipt["receipt"]["id"].as_str().unwrap();
        let kept = server.get(&format!("/v1/receipts/{id}")).await.expect(200);
        assert_eq!(&kept, receipt);
        assert_eq!(
            server.post("/v1/receipts/verify", kept.clone()).await.expect(200),
            json!({ "valid": true, "fault": null })
        );
        let mut forged = kept;
        forged["receipt"]["exchanges"] = json!(1);
        assert_eq!(server.post("/v1/receipts/verify", forged).await.expect(200)["valid"], false);
    });
}

#[test]
fn what_another_exchange_says_too_stays_with_it() {
    story(async |server| {
        let one = server.says("a", &format!("The locker code is {NONCE}."), "Noted.").await;
        server.says("b", &format!("I changed my mind about {NONCE}: it is too long."), "It is.").await;

        let purged = server.post("/v1/purge", json!({ "ids": [one], "remembered_too": true })).await.expect(200);

        assert_eq!(purged["receipt"]["receipt"]["clean"], true, "{purged}");
        assert!(server.context_for("c", &format!("what about {NONCE}?")).await.contains("too long"));
        assert!(!server.get("/v1/exchanges").await.text.contains("locker code"));
    });
}

#[test]
fn whatever_is_aimed_at_is_forgotten_and_comes_back() {
    story(async |server| {
        let anna = server.says("a", "Anna lives in Bremen.", "Nice.").await;
        let fact = json!({ "subject": "Anna", "predicate": "works_at", "object": "Borealis" });
        server.post("/v1/facts", fact).await.expect(201);
        server.says("b", "Ｂｌｕｅ   HERON is the hint.", "Noted.").await;
        server.catches_up().await;

        let by_entity = server.post("/v1/forget", json!({ "entity": "Anna" })).await.expect(200);
        let by_text = server.post("/v1/forget", json!({ "text": "blue heron" })).await.expect(200);

        assert!(by_entity["count"].as_u64().unwrap() >= 1, "{by_entity}");
        assert_eq!(by_text["count"], 1);
        assert!(!server.context_for("c", "what is the hint?").await.contains("HERON"));
        assert_eq!(server.post("/v1/restore", json!({ "text": "blue heron" })).await.expect(200)["count"], 1);
        server.post("/v1/restore", json!({ "ids": by_entity["ids"] })).await.expect(200);
        server.catches_up().await;
        assert!(server.get(&format!("/v1/exchanges/{anna}")).await.text.contains("Bremen"));
        assert_eq!(server.post("/v1/forget", json!({ "entity": "Nobody" })).await.problem(404), "not-found");
        assert_eq!(server.post("/v1/forget", json!({ "text": "ab" })).await.status, 422);
    });
}

#[test]
fn only_what_is_in_the_trash_goes_unless_more_is_asked_for() {
    story(async |server| {
        let kept = server.says("a", "one thing that stays here", "yes").await;
        let gone = server.says("a", "another thing that goes away", "yes").await;
        server.post("/v1/forget", json!({ "ids": [gone] })).await.expect(200);

        let purged = server.post("/v1/purge", json!({ "session": "a" })).await.expect(200);

        assert_eq!(purged["ids"], json!([gone]));
        assert_eq!(server.get(&format!("/v1/exchanges/{kept}")).await.status, 200);
        let nothing = server.post("/v1/purge", json!({ "all": true })).await.expect(200);
        assert_eq!((&nothing["count"], &nothing["receipt"]), (&json!(0), &Value::Null));
    });
}

#[test]
fn a_user_is_removed_with_everything_and_nobody_else_is_touched() {
    story(async |server| {
        let anna = server.other_user("anna").await;
        anna.says("a", &format!("The locker code is {NONCE}."), "Noted.").await;
        let file = anna.put("/v1/files/NOTES.md", json!({ "text": format!("{NONCE}\n"), "base": null })).await;
        assert!(file.status < 300, "{}", file.text);
        server.says("mine", "My own locker is green.", "Fine.").await;
        assert!(server.memory_files("anna").is_dir());
        assert_eq!(anna.delete("/v1/users/nobody").await.problem(404), "not-found");

        let receipt = server.delete("/v1/users/anna").await.expect(200);

        assert_eq!((left(&receipt), &receipt["receipt"]["clean"]), (Vec::new(), &json!(true)), "{receipt}");
        assert_eq!(server.hits(NONCE).await, Default::default());
        assert!(!server.memory_files("anna").exists());
        assert_eq!(anna.get("/v1/me").await.status, 401, "the key opens nothing any more");
        assert!(server.context_for("b", "which colour is the locker?").await.contains("green"));
        let log = server.get("/v1/audit?of=server&verb=user_removed").await.expect(200);
        assert_eq!(log["entries"][0]["what"]["user"], receipt["receipt"]["user"]);
        assert_eq!(server.get("/v1/audit/verify?of=server").await.expect(200)["whole"], true);
        let kept = server.get("/v1/receipts?of=server").await.expect(200);
        assert_eq!(kept["receipts"][0], receipt);
    });
}

#[test]
fn an_export_that_lies_in_the_data_folder_is_found_and_named() {
    story(async |server| {
        let id = server.says("a", &format!("The locker code is {NONCE}."), "Noted.").await;
        let files = server.memory_files("me");
        let data = files.ancestors().nth(2).unwrap();
        std::fs::write(data.join("export.jsonl"), format!("{{\"text\": \"The locker code is {NONCE}.\"}}\n")).unwrap();

        let purged = server.post("/v1/purge", json!({ "ids": [id], "remembered_too": true })).await.expect(200);

        let receipt = &purged["receipt"];
        assert_eq!(receipt["receipt"]["clean"], false, "{receipt}");
        let left = left(receipt);
        assert_eq!(
            (left.len(), &left[0]["place"], &left[0]["words"]),
            (1, &json!("data folder"), &json!(1)),
            "{receipt}"
        );
        let unreachable = receipt["receipt"]["unreachable"].to_string();
        for beyond in ["backups", "write-ahead log", "clients", "exports"] {
            assert!(unreachable.contains(beyond), "{unreachable}");
        }
    });
}

#[test]
fn a_purge_that_was_begun_elsewhere_and_broken_off_is_ended_with_the_next_round_of_upkeep() {
    story(async |server| {
        let one = server.says("a", &format!("The locker code is {NONCE}."), "Noted.").await;
        let kept = server.says("b", "The bicycle is blue.", "Nice.").await;
        let begun = format!(
            "insert into journal.purge (user_id, id, of_user, aim, actor, exchanges, begun_at) \
             select id, gen_random_uuid(), id, 'text', 'anyone', array['{one}'::uuid], '{}' from journal.users",
            server.now().to_rfc3339()
        );
        server.sql(&begun).await.unwrap();

        server.memory().upkeep().await.unwrap();
        assert_eq!(server.get("/v1/receipts").await.expect(200)["receipts"], json!([]), "it may be at work yet");
        server.time_passes(chrono::TimeDelta::minutes(61));
        server.memory().upkeep().await.unwrap();
        server.memory().upkeep().await.unwrap();

        let receipts = server.get("/v1/receipts").await.expect(200);
        let receipt = &receipts["receipts"][0]["receipt"];
        assert_eq!(receipts["receipts"].as_array().map(Vec::len), Some(1), "{receipts}");
        assert_eq!((&receipt["exchanges"], &receipt["actor"]), (&json!(1), &json!("anyone")), "{receipt}");
        assert_eq!((&receipt["clean"], &receipt["rewritten"]), (&json!(true), &json!(true)), "{receipt}");
        assert_eq!(server.get(&format!("/v1/exchanges/{one}")).await.problem(404), "not-found");
        assert_eq!(server.get(&format!("/v1/exchanges/{kept}")).await.status, 200);
        assert_eq!(server.hits(NONCE).await, Default::default());
    });
}
