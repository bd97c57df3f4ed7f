//! The promise about secrets: a token that was pasted into a chat is not what memory recalls.

use serde_json::json;
use skymem_harness::{Answer, TestServer, Upstream, story, story_with};

use crate::proxy::through;
use crate::proxy_memory::chat_in;

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
        let title = json!({ "title": format!("on {token}") });
        let title = server.patch("/v1/sessions/a", title).await.expect(200);
        assert_eq!(title["title"], "on [secret: github token]");
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

/// Has the user's secrets sealed; the identity that unlocks them.
async fn seals_secrets(server: &TestServer) -> String {
    let (secret, recipient) = skymem_seal::make_identity();
    let recipients = json!({ "recipients": [recipient.to_string()] });
    server.post("/v1/collections/private/seal", recipients).await.expect(201);
    let change = json!({ "secrets": "seal", "secrets_collection": "private" });
    let me = server.patch("/v1/me", change).await.expect(200);
    assert_eq!((&me["secrets"], &me["secrets_collection"]), (&json!("seal"), &json!("private")));
    secret.to_string()
}

/// What is sealed, once it is unlocked, of a session.
async fn sealed_of(server: &TestServer, session: &str) -> Vec<String> {
    let turns = server.get(&format!("/v1/sessions/secrets%3A{session}/turns")).await;
    let turns = turns.json["turns"].as_array().cloned().unwrap_or_default();
    turns.iter().filter_map(|turn| turn["text"].as_str().map(str::to_owned)).collect()
}

async fn unlock(server: &TestServer, identity: &str) {
    server.post("/v1/collections/private/unlock", json!({ "identity": identity })).await.expect(200);
}

#[test]
fn secrets_are_sealed_only_into_a_sealed_collection_that_is_named() {
    story(async |server| {
        let nowhere = server.patch("/v1/me", json!({ "secrets": "seal" })).await;
        assert!(nowhere.problem(422) == "invalid" && nowhere.text.contains("secrets_collection"), "{}", nowhere.text);
        let half = json!({ "timezone": "Asia/Tokyo", "secrets": "seal" });
        assert_eq!(server.patch("/v1/me", half).await.status, 422);
        assert_eq!(server.get("/v1/me").await.expect(200)["timezone"], "UTC", "what is refused is refused whole");
        let open = json!({ "secrets": "seal", "secrets_collection": "work" });
        let open = server.patch("/v1/me", open).await;
        assert!(open.problem(422) == "invalid" && open.text.contains("not sealed"), "{}", open.text);

        seals_secrets(server).await;
        assert_eq!(server.patch("/v1/me", json!({ "secrets_collection": null })).await.status, 422);
        server.post("/v1/collections/private/shred", json!({ "confirm": "private" })).await.expect(200);

        let refused = server.tells("a", "user", &format!("my token is {}", token())).await;

        assert!(refused.problem(422) == "invalid" && refused.text.contains("not sealed"), "{}", refused.text);
        assert_eq!(server.hits(&token().to_lowercase()).await, Default::default());
        server.tells("a", "user", "my dog is Rex").await.expect(201);
        // The collection that was named is gone: that bars no other change.
        server.patch("/v1/me", json!({ "secrets": "redact" })).await.expect(200);
        server.tells("a", "user", &format!("my token is {}", token())).await.expect(201);
        server.patch("/v1/me", json!({ "secrets_collection": null })).await.expect(200);
    });
}

#[test]
fn an_exchange_with_a_secret_is_sealed_by_every_door_and_the_reply_says_where() {
    story(async |server| {
        let identity = seals_secrets(server).await;
        let token = token();
        let said = format!("my token is {token}, use it");
        let sealed = json!({ "policy": "seal", "found": { "github token": 1 }, "collection": "private" });

        // One by one: the answer comes later, by itself, and goes where its question went.
        server.tells("a", "user", "My dog is Rex.").await.expect(201);
        server.tells("a", "assistant", "A fine name.").await.expect(201);
        assert_eq!(server.tells("a", "user", &said).await.expect(201)["secrets"], sealed);
        server.tells("a", "assistant", "I will keep your github login in mind.").await.expect(201);
        server.tells("a", "user", "My cat is Tom.").await.expect(201);
        // Many at once, with a secret in the answer only.
        let turn = |role: &str, text: &str| json!({ "session": "b", "role": role, "content": text });
        let turns = [turn("user", "what was my token?"), turn("assistant", &said), turn("user", "My horse is Max.")];
        let bulk = server.post("/v1/turns", json!({ "turns": turns })).await.expect(200);
        assert_eq!((&bulk["secrets"], &bulk["recorded"]), (&sealed, &json!(3)), "{bulk}");
        let note = server.post("/v1/remember", json!({ "text": said, "session": "c" })).await.expect(201);
        assert_eq!(note["secrets"], sealed);
        let again = server.post("/v1/remember", json!({ "text": said, "session": "c" })).await.expect(200);
        assert_eq!(again["fate"], "known", "{again}");
        let fact = json!({ "subject": "github", "predicate": "password", "object": { "literal": "hunter2!" } });
        let fact = server.post("/v1/facts", fact).await.expect(201);
        assert_eq!((&fact["secrets"]["policy"], &fact["secrets"]["collection"]), (&json!("seal"), &json!("private")));

        server.catches_up().await;
        for secret in [&token.to_lowercase(), "hunter2!"] {
            assert_eq!(server.hits(secret).await, Default::default(), "nothing of it lies anywhere in the clear");
        }
        let open = server.get("/v1/sessions/a/turns").await.text;
        assert!(open.contains("Rex") && open.contains("Tom") && !open.contains("login"), "{open}");
        let open = server.get("/v1/sessions/b/turns").await.text;
        assert!(open.contains("Max") && !open.contains("what was my token"), "{open}");
        assert!(server.get("/v1/facts").await.text.contains("[secret: password]"));
        assert_eq!(server.get("/v1/sessions/secrets%3Aa/turns").await.status, 423);

        unlock(server, &identity).await;

        assert_eq!(sealed_of(server, "a").await, [said.as_str(), "I will keep your github login in mind."]);
        assert_eq!(sealed_of(server, "b").await, ["what was my token?", said.as_str()]);
        assert_eq!(sealed_of(server, "c").await, [said.as_str()]);
        let stated = sealed_of(server, "facts").await;
        assert!(stated.len() == 1 && stated[0].contains("hunter2!"), "{stated:?}");
        assert!(server.recall("what is my token?").await.iter().any(|text| text.contains(&token)));
    });
}

#[test]
fn a_chat_with_a_secret_is_sealed_and_goes_on_in_the_clear() {
    let upstream = Upstream::answers(|heard| Answer::says(&format!("You said: {}", heard.said())));
    story_with(through(&upstream), async |server| {
        let identity = seals_secrets(server).await;
        let token = token();
        let said = format!("user: my token is {token}, use it");
        let other = said.replace(&token, &format!("{}X", &token[..token.len() - 1]));
        let answer = format!("assistant: You said: {}", &said[6..]);

        let first = chat_in(server, "a", &[&said]).await;
        server.remembers().await;
        chat_in(server, "a", &[&said, &answer, "user: My dog is Rex."]).await;
        server.remembers().await;
        // Only the secret was edited.
        chat_in(server, "a", &[&other]).await;
        server.remembers().await;
        server.catches_up().await;

        assert_eq!(first.status, 200);
        assert_eq!(server.hits(&token.to_lowercase()).await, Default::default());
        let open = server.get("/v1/exchanges").await.text;
        assert!(open.contains("Rex") && !open.contains("my token is"), "{open}");
        unlock(server, &identity).await;
        let sealed = sealed_of(server, "a").await;
        assert_eq!(sealed.iter().filter(|text| text.starts_with("my token is")).count(), 2, "{sealed:?}");
        assert_eq!(sealed.iter().filter(|text| text.starts_with("You said: my token is")).count(), 2, "{sealed:?}");
    });
}

#[test]
fn a_session_that_is_off_keeps_no_secret_and_one_that_is_sealed_keeps_its_own() {
    story(async |server| {
        let identity = seals_secrets(server).await;
        let recipients = json!({ "recipients": [skymem_seal::make_identity().1.to_string()] });
        server.post("/v1/collections/health/seal", recipients).await.expect(201);
        let said = format!("my token is {}", token());
        server.patch("/v1/sessions/quiet", json!({ "memory": "off" })).await.expect(200);

        let off = server.tells("quiet", "user", &said).await;
        let turns = json!([{ "role": "user", "content": said }]);
        server.post("/v1/sessions/clinic/turns", json!({ "collection": "health", "turns": turns })).await.expect(201);

        assert!(off.text.contains("not_kept"), "{}", off.text);
        unlock(server, &identity).await;
        assert_eq!(server.get("/v1/collections/private/seal").await.expect(200)["exchanges"], 0);
        assert_eq!(server.get("/v1/collections/health/seal").await.expect(200)["exchanges"], 1);
        assert_eq!(server.hits(&token().to_lowercase()).await, Default::default());
    });
}
