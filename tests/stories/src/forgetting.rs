//! The promise of forgetting: gone at once, back while it can be regretted, and then gone for good.

use serde_json::json;
use skymem_harness::story;

const QUESTION: &str = "What is the code of the safe?";

#[test]
fn what_is_forgotten_is_gone_everywhere_at_once_and_can_be_restored() {
    story(async |server| {
        let id = server.says("a", "The code of the safe is 4711.", "Noted, 4711.").await;
        assert!(server.context_for("b", QUESTION).await.contains("4711"));

        let forgotten = server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);

        assert_eq!(forgotten["ids"], json!([id]));
        for session in ["a", "b"] {
            assert!(!server.context_for(session, QUESTION).await.contains("4711"), "also not in the window");
        }
        assert!(server.recall("safe 4711").await.iter().all(|text| !text.contains("4711")));
        assert!(!server.get("/v1/exchanges").await.text.contains("4711"));
        assert!(!server.get("/v1/sessions/a/turns").await.text.contains("4711"));
        assert!(server.get("/v1/trash").await.text.contains("4711"), "that is what the trash is for");
        let again = server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);
        assert_eq!(again["count"], 0);

        server.days_pass(20);
        server.post("/v1/restore", json!({ "ids": [id] })).await.expect(200);
        server.catches_up().await;

        assert!(server.context_for("b", QUESTION).await.contains("4711"));
        assert!(server.get("/v1/exchanges").await.text.contains("4711"));
    });
}

#[test]
fn what_is_purged_does_not_come_back_by_an_import() {
    story(async |server| {
        let id = server.says("a", "The code of the safe is 4711.", "Noted, 4711.").await;
        assert_eq!(server.post("/v1/purge", json!({ "ids": [id] })).await.expect(200)["count"], 0, "not in the trash");
        server.post("/v1/forget", json!({ "session": "a" })).await.expect(200);

        assert_eq!(server.post("/v1/purge", json!({ "ids": [id] })).await.expect(200)["count"], 1);

        let turns = json!([
            { "role": "user", "content": "The code of the safe is 4711." },
            { "role": "assistant", "content": "Noted, 4711." },
        ]);
        let again = server.post("/v1/sessions/a/turns", json!({ "turns": turns })).await;
        assert_eq!(again.json["turns"][0]["fate"], "purged", "{}", again.text);
        server.catches_up().await;
        assert!(!server.context_for("b", QUESTION).await.contains("4711"));
        assert_eq!(server.get("/v1/trash").await.expect(200)["exchanges"], json!([]));
        assert_eq!(server.post("/v1/restore", json!({ "ids": [id] })).await.expect(200)["count"], 0);
    });
}

#[test]
fn the_trash_is_emptied_when_its_time_is_over() {
    story(async |server| {
        let id = server.says("a", "The code of the safe is 4711.", "Noted, 4711.").await;
        server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);

        server.days_pass(31);
        server.memory().upkeep().await.unwrap();

        assert_eq!(server.get(&format!("/v1/exchanges/{id}")).await.problem(404), "not-found");
        assert!(!server.get("/v1/trash").await.text.contains("4711"));
    });
}

#[test]
fn what_would_be_forgotten_is_told_before_it_is() {
    story(async |server| {
        let ids = [server.says("a", "one", "yes").await, server.says("a", "two", "yes").await];

        let would = server.post("/v1/forget", json!({ "session": "a", "dry_run": true })).await.expect(200);

        assert_eq!(would["count"], 2, "{would}");
        assert!(ids.iter().all(|id| would["ids"].as_array().unwrap().contains(&json!(id))));
        assert_eq!(server.get("/v1/sessions/a").await.expect(200)["exchanges"], 2);
    });
}
