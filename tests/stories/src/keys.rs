//! The promise at the door: nobody comes in without a key, and a key opens what it is for.

use serde_json::json;
use skymem::config::Config;
use skymem_harness::{Client, Delivered, TestServer, Upstream, story, story_with};
use skymem_models::EmbedderKind;

use crate::proxy::{chat_of, through};

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

#[test]
fn a_rotated_key_is_as_it_was_and_the_old_one_opens_for_as_long_as_it_is_given() {
    story(async |server| {
        let made = server.post("/v1/keys", json!({ "name": "laptop", "scopes": ["read", "write"] })).await.expect(201);
        let old = server.with_key(made["text"].as_str().unwrap());
        let rotate = format!("/v1/keys/{}/rotate", made["key"]["id"].as_str().unwrap());
        let old_until = server.now() + chrono::TimeDelta::hours(1);

        let new = server.post(&rotate, json!({ "old_until": old_until.to_rfc3339() })).await.expect(201);

        assert_eq!((&new["key"]["name"], &new["key"]["scopes"]), (&json!("laptop"), &json!(["read", "write"])));
        assert_ne!(new["text"], made["text"]);
        let client = server.with_key(new["text"].as_str().unwrap());
        server.time_passes(chrono::TimeDelta::minutes(59));
        for client in [&old, &client] {
            assert_eq!(client.get("/v1/me").await.status, 200);
        }
        server.time_passes(chrono::TimeDelta::minutes(1));
        assert_eq!(old.get("/v1/me").await.problem(401), "unauthenticated");
        assert_eq!(client.get("/v1/me").await.status, 200);
        assert_eq!(server.post(&rotate, json!({})).await.problem(404), "not-found");

        // At once, unless time is asked for; and whatever comes of it, no log holds a secret.
        let again = format!("/v1/keys/{}/rotate", new["key"]["id"].as_str().unwrap());
        let newest = server.post(&again, json!({})).await.expect(201);
        assert_eq!(client.get("/v1/me").await.problem(401), "unauthenticated");
        let log = server.get("/v1/audit?verb=key_rotated").await;
        for text in [&made["text"], &new["text"], &newest["text"]].map(|text| text.as_str().unwrap()) {
            let (_, secret) = text.rsplit_once('_').unwrap();
            assert!(!log.text.contains(secret), "{}", log.text);
            assert_eq!(server.hits(secret).await, Default::default());
        }
        assert_eq!(log.json["entries"][0]["what"]["instead_of"], new["key"]["id"]);
        assert_eq!(log.json["entries"][0]["what"]["key"], newest["key"]["id"]);
    });
}

#[test]
fn a_key_that_is_taken_back_at_one_server_opens_nothing_at_any() {
    story(async |server| {
        let made = server.post("/v1/keys", json!({ "name": "phone", "scopes": ["read"] })).await.expect(201);
        let here = server.with_key(made["text"].as_str().unwrap());
        let (second, client) = server.one_more().await;
        let there = client.with_key(made["text"].as_str().unwrap());
        for client in [&here, &there] {
            assert_eq!(client.post("/v1/recall", json!({ "query": "x" })).await.status, 200);
        }

        assert_eq!(server.delete(&format!("/v1/keys/{}", made["key"]["id"].as_str().unwrap())).await.status, 204);

        for client in [here, there] {
            assert_eq!(client.post("/v1/recall", json!({ "query": "x" })).await.problem(401), "unauthenticated");
            assert_eq!(client.post("/v1/chat/completions", json!({})).await.status, 401);
        }
        second.stop().await.unwrap();
    });
}

#[test]
fn nobody_learns_from_a_refusal_whether_there_is_such_a_key() {
    story(async |server| {
        let soon = server.now() + chrono::TimeDelta::hours(1);
        let body = json!({ "name": "short", "scopes": ["read"], "expires_at": soon.to_rfc3339() });
        let expired = server.post("/v1/keys", body).await.expect(201);
        let revoked = server.post("/v1/keys", json!({ "name": "gone", "scopes": ["read"] })).await.expect(201);
        server.delete(&format!("/v1/keys/{}", revoked["key"]["id"].as_str().unwrap())).await;
        server.time_passes(chrono::TimeDelta::hours(2));
        let own = server.get("/v1/me").await.expect(200)["key"].as_str().unwrap().to_owned();
        let zeros = "0".repeat(64);
        let presented = [
            expired["text"].as_str().unwrap().to_owned(),
            revoked["text"].as_str().unwrap().to_owned(),
            format!("skm_{own}_{zeros}"),
            format!("skm_0123456789abcdef_{zeros}"),
            "nonsense".to_owned(),
        ];

        let mut answers = std::collections::BTreeSet::new();
        for key in presented {
            let reply = server.with_key(&key).get("/v1/me").await;
            assert_eq!(reply.problem(401), "unauthenticated");
            // All but the id of the request.
            answers.insert(["type", "title", "detail"].map(|field| reply.json[field].to_string()));
        }

        assert_eq!(answers.len(), 1, "{answers:?}");
    });
}

#[test]
fn whoever_guesses_keys_waits_and_who_has_a_good_one_at_the_same_address_does_not() {
    story(async |server| {
        assert_eq!(server.get("/v1/me").await.status, 200);
        let guess = |number: u32| server.with_key(&format!("skm_{number:016x}_{}", "0".repeat(64)));

        let mut refused = None;
        for number in 0..500 {
            let request = guess(number).request("GET", "/v1/me").send().await.unwrap();
            if request.status() == 429 {
                refused = Some(request);
                break;
            }
            assert_eq!(request.status(), 401);
        }

        let refused = refused.expect("a guesser is told to wait");
        let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{seconds}");
        assert_eq!(server.get("/v1/me").await.status, 200, "the good key was known before");
        let metrics = server.get("/metrics").await.text;
        for why in ["wrong_key", "address"] {
            assert!(metrics.contains(&format!("skymem_refused_total{{why=\"{why}\"}}")), "{why}: {metrics}");
        }
    });
}

#[test]
fn a_chat_with_a_key_that_was_good_lately_is_refused_whatever_it_says() {
    let upstream = Upstream::says("Yes.");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.body_limit_kib = 4;
    };
    story_with(change, async |server| {
        let question = chat_of(&["user: What is my dog called?"]);
        let odd = [
            question.clone(),
            json!({ "model": "scripted", "messages": "none" }),
            json!("no chat at all"),
            json!({ "messages": [{ "role": "user", "content": "x".repeat(5_000) }] }),
        ];
        let plain = odd.iter().map(|body| (body, "x-memory", "read"));
        let headers = [("x-memory", "nonsense"), ("x-memory-session", ""), ("x-memory-budget", "-1")];
        let odd = plain.chain(headers.map(|(name, value)| (&question, name, value)));
        let expires_at = (server.now() + chrono::TimeDelta::hours(1)).to_rfc3339();
        // A key each: what is refused once is no longer good lately.
        let mut asked = Vec::new();
        for (number, (body, name, value)) in odd.enumerate() {
            let key = json!({ "name": format!("key {number}"), "scopes": ["read"], "expires_at": expires_at });
            let made = server.post("/v1/keys", key).await.expect(201);
            let client = server.with_key(made["text"].as_str().unwrap());
            let asks = move || client.request("POST", "/v1/chat/completions").header(name, value).json(body);
            assert_ne!(Delivered::from(asks()).await.status, 401, "{number}");
            asked.push(asks);
        }
        let passed_on = upstream.calls();
        assert!(passed_on > 0);

        server.time_passes(chrono::TimeDelta::hours(2));

        for (number, asks) in asked.iter().enumerate() {
            assert_eq!(Delivered::from(asks()).await.status, 401, "{number}");
        }
        assert_eq!(upstream.calls(), passed_on);
    });
}

#[test]
fn for_a_key_that_comes_too_fast_nothing_is_done() {
    let upstream = Upstream::says("Yes.");
    let url = upstream.url();
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.embedder.kind = EmbedderKind::OpenAi;
        (config.embedder.url, config.embedder.model) = (Some(url), Some("scripted".into()));
        config.embedder.dimensions = Some(4);
        config.server.rates.requests_per_second = 1;
        config.server.rates.burst_requests = 6;
    };
    story_with(change, async |server| {
        // At once, so that it does not matter how long each takes.
        let chats = (0..30).map(|number| {
            let body = chat_of(&[&format!("user: What is the name of dog {number}?")]);
            let request = server.request("POST", "/v1/chat/completions").header("x-memory", "read").json(&body);
            Delivered::from(request.header("x-memory-user", "me"))
        });
        let mut served = [0, 0];
        for delivered in futures_util::future::join_all(chats).await {
            match delivered.status {
                200 => served[0] += 1,
                429 => served[1] += 1,
                other => panic!("{other}"),
            }
        }

        assert!(served.iter().all(|&count| count > 0), "{served:?}");
        // Each was embedded and answered, and of the others there was neither.
        let asked = upstream.heard().into_iter().filter(|heard| heard.text().contains("name of dog")).count();
        assert_eq!(asked, 2 * served[0]);
    });
}
