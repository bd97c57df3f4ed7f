//! The promise at the door: nobody comes in without a key, and a key opens what it is for.

use serde_json::json;
use skymem_harness::{Client, TestServer, story};

async fn client_with(server: &TestServer, scopes: &[&str]) -> Client {
    let made = server.post("/v1/keys", json!({ "name": "test", "scopes": scopes })).await.expect(201);
    server.with_key(made["text"].as_str().unwrap())
}

#[test]
fn without_a_key_or_with_a_wrong_one_nothing_opens() {
    story(async |server| {
        let strangers =
            [server.without_key(), server.with_key("skm_0000000000000000_nonsense"), server.with_key("nonsense")];
        for stranger in strangers {
            for path in ["/v1/sessions", "/v1/exchanges", "/v1/files", "/v1/stats", "/v1/nosuch"] {
                assert_eq!(stranger.get(path).await.problem(401), "unauthenticated", "{path}");
            }
            let question = json!({ "question": "x" });
            assert_eq!(stranger.post("/v1/context", question).await.problem(401), "unauthenticated");
        }
        assert_eq!(server.without_key().get("/health/live").await.status, 200);
        assert_eq!(server.without_key().get("/health/ready").await.status, 200);
    });
}

#[test]
fn a_key_opens_what_its_scopes_say() {
    story(async |server| {
        let reader = client_with(server, &["read"]).await;
        let writer = client_with(server, &["write"]).await;

        assert_eq!(reader.post("/v1/recall", json!({ "query": "x" })).await.status, 200);
        assert_eq!(reader.tells("a", "user", "hello").await.problem(403), "forbidden");
        assert_eq!(writer.tells("a", "user", "hello").await.status, 201);
        assert_eq!(writer.post("/v1/recall", json!({ "query": "x" })).await.problem(403), "forbidden");
        for client in [reader, writer] {
            assert_eq!(client.get("/v1/keys").await.problem(403), "forbidden");
            assert_eq!(client.post("/v1/purge", json!({ "all": true })).await.problem(403), "forbidden");
            assert_eq!(client.for_user("me").get("/v1/sessions").await.problem(403), "forbidden");
        }
    });
}

#[test]
fn a_key_that_was_taken_back_or_is_too_old_opens_nothing() {
    story(async |server| {
        let until = server.now() + chrono::TimeDelta::days(1);
        let body = json!({ "name": "short", "scopes": ["read"], "expires_at": until.to_rfc3339() });
        let made = server.post("/v1/keys", body).await.expect(201);
        let short = server.with_key(made["text"].as_str().unwrap());
        let made = server.post("/v1/keys", json!({ "name": "taken", "scopes": ["read"] })).await.expect(201);
        let taken = server.with_key(made["text"].as_str().unwrap());
        for client in [&short, &taken] {
            assert_eq!(client.get("/v1/sessions").await.status, 200);
        }

        assert_eq!(server.delete(&format!("/v1/keys/{}", made["key"]["id"].as_str().unwrap())).await.status, 204);
        server.days_pass(2);

        for client in [short, taken] {
            assert_eq!(client.get("/v1/sessions").await.problem(401), "unauthenticated");
        }
    });
}

#[test]
fn one_user_never_sees_what_is_anothers() {
    story(async |server| {
        let secret = server.says("a", "My safe's code is 4711.", "Noted.").await;
        let bob = server.other_user("bob").await;
        bob.says("a", "What is the code of the safe?", "I do not know.").await;
        server.catches_up().await;

        let recalls = bob.recall("code of the safe 4711").await;
        let context = bob.context_for("b", "What is the code of the safe?").await;
        let turns = bob.get("/v1/sessions/a/turns").await.expect(200);

        assert!(recalls.iter().all(|text| !text.contains("4711")), "{recalls:?}");
        assert!(!context.contains("4711"), "{context}");
        assert!(!turns.to_string().contains("4711"));
        assert_eq!(bob.get(&format!("/v1/exchanges/{secret}")).await.problem(404), "not-found");
        let forget = bob.post("/v1/forget", json!({ "ids": [secret] })).await;
        assert_eq!(forget.expect(200)["count"], 0);
        assert!(server.context_for("b", "code of the safe?").await.contains("4711"));
    });
}
