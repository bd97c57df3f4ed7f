//! Whatever comes in, the doors of facts say what is wrong with it and go on.

use serde_json::{Value, json};
use skymem_harness::{story, story_with};

use super::told;

#[test]
fn a_fact_that_cannot_be_is_refused_with_its_field() {
    story(async |server| {
        let fact = |changes: Value| {
            let mut fact = json!({ "subject": "Anna", "predicate": "lives_in", "object": "Bremen" });
            for (key, value) in changes.as_object().into_iter().flatten() {
                fact[key] = value.clone();
            }
            fact
        };
        for (body, field) in [
            (json!({}), "subject"),
            (json!({ "subject": "Anna" }), "predicate"),
            (json!({ "subject": "Anna", "predicate": "lives_in" }), "object"),
            (fact(json!({ "subject": "" })), "subject"),
            (fact(json!({ "subject": "!!" })), "subject"),
            (fact(json!({ "subject": "x".repeat(201) })), "subject"),
            (fact(json!({ "subject": 5 })), "subject"),
            (fact(json!({ "predicate": "" })), "predicate"),
            (fact(json!({ "predicate": "lives; drop table" })), "predicate"),
            (fact(json!({ "predicate": "x".repeat(65) })), "predicate"),
            (fact(json!({ "object": "" })), "object"),
            (fact(json!({ "object": "anna" })), "object"),
            (fact(json!({ "object": ["Bremen"] })), "object"),
            (fact(json!({ "object": { "place": "Bremen" } })), "object"),
            (fact(json!({ "object": { "literal": "" } })), "object"),
            (fact(json!({ "object": { "literal": "a\u{0}b" } })), "object"),
            (fact(json!({ "object": { "literal": "x".repeat(2_001) } })), "object"),
            (fact(json!({ "from": "yesterday" })), "from"),
            (fact(json!({ "from": "2026-02-30T00:00:00Z" })), "from"),
            (fact(json!({ "from": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z" })), "until"),
            (fact(json!({ "confidence": 0 })), "confidence"),
            (fact(json!({ "confidence": 1.5 })), "confidence"),
            (fact(json!({ "confidence": "high" })), "confidence"),
            (fact(json!({ "corrects": "yes" })), "corrects"),
            (fact(json!({ "session": "" })), "session"),
            (fact(json!({ "collection": "../../etc" })), "collection"),
            (fact(json!({ "occurred_at": "soon" })), "occurred_at"),
            (fact(json!({ "surprise": 1 })), "surprise"),
            (json!({ "facts": [] }), "facts"),
            (json!({ "facts": vec![fact(json!({})); 1_001] }), "facts"),
            (json!({ "facts": [fact(json!({})), fact(json!({ "subject": "" }))] }), "facts[1].subject"),
        ] {
            let reply = server.post("/v1/facts", body.clone()).await;
            assert_eq!(reply.problem(422), "invalid", "{body}: {}", reply.text);
            let told = reply.json["errors"][0]["field"].as_str().unwrap_or_default();
            assert!(told.starts_with(field), "{field} of {body}: {}", reply.text);
        }
        assert_eq!(server.get("/v1/exchanges").await.expect(200)["exchanges"], json!([]), "nothing was written");
    });
}

#[test]
fn a_question_that_cannot_be_put_is_refused() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bremen", json!({})).await;
        let nobody = "00000000-0000-5000-8000-000000000000";
        for (path, status, says) in [
            ("/v1/facts?limit=0", 422, "from 1 to 200"),
            ("/v1/facts?limit=201", 422, "from 1 to 200"),
            ("/v1/facts?limit=many", 422, "limit: is a whole number"),
            ("/v1/facts?after=page2", 422, "UUID"),
            ("/v1/facts?about=", 422, "has a letter"),
            ("/v1/facts?about=nobody", 404, "nobody"),
            ("/v1/facts?predicate=%2A", 422, "letters, digits"),
            ("/v1/facts?exchange=1", 422, "UUID"),
            ("/v1/facts?collection=A%2FB", 422, "collection"),
            ("/v1/facts?as_of=2024", 422, "RFC 3339"),
            ("/v1/facts?known_at=now", 422, "RFC 3339"),
            ("/v1/facts?history=maybe", 422, "history: is true or false"),
            ("/v1/facts?history=true&as_of=2024-01-01T00:00:00Z", 422, "goes without"),
            ("/v1/facts?colour=red", 422, "unknown field"),
            ("/v1/facts/1", 422, "UUID"),
            (&format!("/v1/facts/{nobody}"), 404, "there is no"),
            (&format!("/v1/facts/{nobody}/history"), 404, "there is no"),
            ("/v1/entities?limit=0", 422, "from 1 to 200"),
            ("/v1/entities?like=", 422, "blank"),
            ("/v1/entities?after=x", 422, "UUID"),
            ("/v1/entities/%21", 422, "has a letter"),
            ("/v1/entities/nobody", 404, "nobody"),
            ("/v1/entities/Anna?as_of=x", 422, "RFC 3339"),
            ("/v1/graph/neighbourhood", 422, "missing field `of`"),
            ("/v1/graph/neighbourhood?of=nobody", 404, "nobody"),
            ("/v1/graph/neighbourhood?of=Anna&hops=0", 422, "from 1 to 6"),
            ("/v1/graph/neighbourhood?of=Anna&hops=7", 422, "from 1 to 6"),
            ("/v1/graph/neighbourhood?of=Anna&limit=2001", 422, "from 1 to 2000"),
            ("/v1/graph/path?from=Anna", 422, "missing field `to`"),
            ("/v1/graph/path?from=Anna&to=nobody", 404, "nobody"),
            ("/v1/graph/path?from=Anna&to=Bremen&hops=-1", 422, "hops"),
            ("/v1/graph/path?from=Anna&to=Bremen&limit=21", 422, "from 1 to 20"),
            ("/v1/graph/communities?limit=201", 422, "from 1 to 200"),
            ("/v1/graph/export", 422, "missing field `format`"),
            ("/v1/graph/export?format=png", 422, "a format is one of"),
            ("/v1/graph/export?format=csv&history=true&as_of=2024-01-01T00:00:00Z", 422, "goes without"),
        ] {
            let reply = server.get(path).await;
            assert!(!reply.problem(status).is_empty());
            assert!(reply.json["detail"].as_str().unwrap_or_default().contains(says), "{path}: {}", reply.text);
        }
    });
}

#[test]
fn a_change_that_cannot_be_made_is_refused() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bremen", json!({})).await;
        let nobody = "00000000-0000-5000-8000-000000000000";
        for (path, body, status, says) in [
            ("/v1/entities/merge", json!({}), 422, "name"),
            ("/v1/entities/merge", json!({ "name": "Anna", "alias": "ANNA" }), 422, "is the same name"),
            ("/v1/entities/merge", json!({ "name": "Anna", "alias": "" }), 422, "alias"),
            ("/v1/entities/merge", json!({ "name": nobody, "alias": "Anna" }), 404, "there is no"),
            ("/v1/entities/split", json!({ "name": "Anna", "other": "Anne" }), 422, "at least one"),
            ("/v1/entities/split", json!({ "name": "Anna", "other": "Anne", "exchanges": ["1"] }), 422, "exchanges"),
            ("/v1/entities/split", json!({ "name": "Anna", "other": "Anne", "exchanges": [nobody] }), 404, "exchange"),
            ("/v1/entities/split", json!({ "name": "Anna", "other": "Anne", "facts": [nobody] }), 404, "there is no"),
            ("/v1/entities/split", json!({ "name": "no", "other": "Anne", "facts": [nobody] }), 404, "there is no"),
            (
                "/v1/entities/split",
                json!({ "name": "Anna", "other": "Anne", "facts": vec![nobody; 1_001] }),
                422,
                "1000",
            ),
        ] {
            let reply = server.post(path, body.clone()).await;
            assert!(!reply.problem(status).is_empty());
            assert!(reply.json["detail"].as_str().unwrap_or_default().contains(says), "{path} {body}: {}", reply.text);
        }
        for body in [json!({}), json!({ "kind": "robot" }), json!({ "kind": "person", "name": "x" })] {
            assert_eq!(server.patch("/v1/entities/Anna", body.clone()).await.problem(422), "invalid", "{body}");
        }
        let fact = server.get("/v1/facts").await.expect(200)["facts"][0]["id"].as_str().unwrap().to_owned();
        for query in ["ended_at=2024", "ended_at=", "until=now"] {
            assert_eq!(server.delete(&format!("/v1/facts/{fact}?{query}")).await.problem(422), "invalid", "{query}");
        }
        assert_eq!(server.delete(&format!("/v1/facts/{nobody}")).await.problem(404), "not-found");
        assert_eq!(server.get("/v1/exchanges").await.expect(200)["exchanges"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn a_key_that_may_only_read_changes_no_fact() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bremen", json!({})).await;
        let made = server.post("/v1/keys", json!({ "name": "r", "scopes": ["read"] })).await.expect(201);
        let reader = server.with_key(made["text"].as_str().unwrap());
        let fact = reader.get("/v1/facts").await.expect(200)["facts"][0]["id"].as_str().unwrap().to_owned();

        let body = json!({ "subject": "Anna", "predicate": "uses", "object": "Rust" });
        assert_eq!(reader.post("/v1/facts", body).await.problem(403), "forbidden");
        assert_eq!(reader.delete(&format!("/v1/facts/{fact}")).await.problem(403), "forbidden");
        let csv = "subject,predicate,object\na,b,c\n";
        assert_eq!(reader.post_text("/v1/facts/import", "text/csv", csv).await.problem(403), "forbidden");
        let merge = json!({ "name": "Anna", "alias": "Anne" });
        assert_eq!(reader.post("/v1/entities/merge", merge).await.problem(403), "forbidden");
        assert_eq!(reader.patch("/v1/entities/Anna", json!({ "kind": "person" })).await.problem(403), "forbidden");
    });
}

#[test]
fn without_its_layer_facts_are_switched_off_and_the_rest_goes_on() {
    story_with(
        |config| drop(config.layers.remove("facts")),
        async |server| {
            for path in ["/v1/facts", "/v1/entities", "/v1/graph/communities", "/v1/graph/export?format=csv"] {
                assert_eq!(server.get(path).await.problem(404), "switched-off", "{path}");
            }
            let body = json!({ "subject": "Anna", "predicate": "uses", "object": "Rust" });
            assert_eq!(server.post("/v1/facts", body).await.problem(404), "switched-off");
            server.says("a", "my dog is Rex", "nice").await;
            assert!(server.context_for("b", "what is my dog called?").await.contains("Rex"));
        },
    );
}
