//! Telling, listing, correcting, taking back; and taking that back.

use serde_json::{Value, json};
use skymem_harness::story;

use super::{brief, exchange, id, listed, only, told};

#[test]
fn what_is_told_is_known_with_where_it_is_from() {
    story(async |server| {
        let said = told(server, "Anna", "lives in", "Bremen", json!({ "from": "2026-01-01T00:00:00Z" })).await;

        let fact = only(server, "/v1/facts?about=Anna").await;

        assert_eq!(brief(std::slice::from_ref(&fact)), ["Anna lives_in Bremen (holds)"]);
        assert_eq!((&fact["valid_from"], &fact["valid_to"]), (&json!("2026-01-01T00:00:00Z"), &Value::Null));
        assert_eq!((&fact["from_is_said"], &fact["single"]), (&json!(true), &json!(true)));
        assert_eq!(fact["evidence"].as_array().unwrap().len(), 1);
        let evidence = &fact["evidence"][0];
        assert_eq!((&evidence["exchange"], &evidence["origin"]), (&json!(said), &json!("asserted")));
        assert_eq!(evidence["session"], "facts");
        assert_eq!(server.get(&format!("/v1/facts/{}", id(&fact))).await.expect(200), fact);
        let entry = server.get(&format!("/v1/exchanges/{said}")).await.expect(200);
        assert_eq!((&entry["kind"], &entry["source"]), (&json!("stated"), &json!("facts")));
        assert_eq!(entry["turns"][0]["text"], "Anna lives in Bremen, since 2026-01-01.");
    });
}

#[test]
fn a_new_value_ends_the_old_one_and_touches_nothing_else() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bonn", json!({ "from": "2020-01-01T00:00:00Z" })).await;
        told(server, "Anna", "uses", "Rust", json!({})).await;
        told(server, "Ben", "lives_in", "Bonn", json!({ "from": "2021-01-01T00:00:00Z" })).await;
        server.days_pass(1);
        let before = server.now().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
        server.days_pass(1);
        told(server, "Anna", "lives_in", "Bremen", json!({ "from": "2024-05-01T00:00:00Z" })).await;

        let now = only(server, "/v1/facts?about=Anna&predicate=lives_in").await;
        assert_eq!(brief(std::slice::from_ref(&now)), ["Anna lives_in Bremen (holds)"]);
        let then = only(server, "/v1/facts?about=Anna&predicate=lives_in&as_of=2022-01-01T00:00:00Z").await;
        assert_eq!(brief(std::slice::from_ref(&then)), ["Anna lives_in Bonn (holds)"]);
        assert_eq!(then["valid_to"], "2024-05-01T00:00:00Z");
        // As it was known before she told of it, she lives in Bonn.
        let known = only(server, &format!("/v1/facts?about=Anna&predicate=lives_in&known_at={before}")).await;
        assert_eq!(
            (brief(std::slice::from_ref(&known)), &known["valid_to"]),
            (vec!["Anna lives_in Bonn (holds)".into()], &Value::Null)
        );
        let history = listed(server, &format!("/v1/facts/{}/history", id(&now))).await;
        assert_eq!(brief(&history), ["Anna lives_in Bremen (holds)", "Anna lives_in Bonn (ended)"]);
        assert_eq!(listed(server, "/v1/facts?about=Anna&history=true").await.len(), 3);
        assert_eq!(brief(&listed(server, "/v1/facts?about=Ben").await), ["Ben lives_in Bonn (holds)"]);
    });
}

#[test]
fn the_same_told_again_is_one_entry_and_what_became_true_again_is_another() {
    story(async |server| {
        let fact = |object: &str| json!({ "subject": "Anna", "predicate": "lives_in", "object": object });
        let tell = async |object: &str| {
            let reply = server.post("/v1/facts", fact(object)).await;
            server.catches_up().await;
            server.days_pass(1);
            (reply.status, exchange(&reply.json["statements"][0]))
        };
        let (first, bonn) = tell("Bonn").await;
        let (again, same) = tell("Bonn").await;
        assert_eq!((first, again, &same), (201, 200, &bonn));

        tell("Bremen").await;
        let (back, anew) = tell("Bonn").await;

        assert_eq!(back, 201);
        assert_ne!(anew, bonn);
        let now = only(server, "/v1/facts?about=Anna").await;
        assert_eq!(brief(std::slice::from_ref(&now)), ["Anna lives_in Bonn (holds)"]);
        let history = listed(server, &format!("/v1/facts/{}/history", id(&now))).await;
        let all = ["Anna lives_in Bonn (holds)", "Anna lives_in Bremen (ended)", "Anna lives_in Bonn (ended)"];
        assert_eq!(brief(&history), all);

        // Thirty-two clients that tell the same at once tell it once.
        let many = futures_util::future::join_all((0..32).map(|_| server.post("/v1/facts", fact("Lisbon")))).await;
        let new = many.iter().filter(|reply| reply.status == 201).count();
        assert_eq!(new, 1);
        server.catches_up().await;
        assert_eq!(only(server, "/v1/facts?about=Anna").await["evidence"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn several_facts_are_told_all_or_none() {
    story(async |server| {
        let good = json!({ "subject": "Anna", "predicate": "uses", "object": "Rust" });
        let bad = json!({ "subject": "Anna", "predicate": "age", "object": { "literal": " " } });

        let reply = server.post("/v1/facts", json!({ "facts": [good, bad] })).await;

        assert_eq!(reply.problem(422), "invalid");
        assert_eq!(reply.json["errors"][0]["field"], "facts[1].object");
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts").await, Vec::<Value>::new());
        let age = json!({ "subject": "Anna", "predicate": "age", "object": { "literal": "36" } });
        let reply = server.post("/v1/facts", json!({ "facts": [good, age], "collection": "people" })).await.expect(201);
        assert_eq!(reply["statements"].as_array().unwrap().len(), 2);
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts?collection=people").await.len(), 2);
        assert_eq!(listed(server, "/v1/facts?collection=work").await.len(), 0);
    });
}

#[test]
fn a_mistake_is_corrected_and_stays_in_the_history() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bonn", json!({ "from": "2024-05-01T00:00:00Z" })).await;
        server.days_pass(1);
        told(server, "Anna", "lives_in", "Bremen", json!({ "corrects": true })).await;

        let now = only(server, "/v1/facts?about=Anna").await;

        assert_eq!(
            (brief(std::slice::from_ref(&now)), &now["valid_from"]),
            (vec!["Anna lives_in Bremen (holds)".into()], &json!("2024-05-01T00:00:00Z"))
        );
        let history = listed(server, &format!("/v1/facts/{}/history", id(&now))).await;
        assert_eq!(brief(&history), ["Anna lives_in Bremen (holds)", "Anna lives_in Bonn (retracted)"]);
    });
}

#[test]
fn what_is_taken_back_never_held_and_that_can_be_undone() {
    story(async |server| {
        told(server, "Anna", "works_at", "ACME", json!({})).await;
        let fact = only(server, "/v1/facts?about=Anna").await;
        server.days_pass(1);
        let before = server.now().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
        server.days_pass(1);

        let path = format!("/v1/facts/{}", id(&fact));
        let taken = server.delete(&path).await.expect(201);
        server.catches_up().await;

        assert_eq!(listed(server, "/v1/facts?about=Anna").await, Vec::<Value>::new());
        assert_eq!(server.get(&path).await.expect(200)["state"], "retracted");
        assert_eq!(only(server, &format!("/v1/facts?about=Anna&known_at={before}")).await["state"], "holds");
        assert_eq!(server.delete(&path).await.expect(200)["fate"], "known", "it was taken back already");

        server.post("/v1/forget", json!({ "ids": [exchange(&taken)] })).await.expect(200);
        server.catches_up().await;
        assert_eq!(only(server, "/v1/facts?about=Anna").await, fact);
    });
}

#[test]
fn what_has_ended_held_until_then() {
    story(async |server| {
        told(server, "Anna", "works_at", "ACME", json!({ "from": "2020-01-01T00:00:00Z" })).await;
        let path = format!("/v1/facts/{}", id(&only(server, "/v1/facts?about=Anna").await));

        let early = server.delete(&format!("{path}?ended_at=2019-01-01T00:00:00Z")).await;
        assert_eq!(early.problem(422), "invalid", "it cannot end before it began");
        server.delete(&format!("{path}?ended_at=2024-01-01T00:00:00Z")).await.expect(201);
        server.catches_up().await;

        assert_eq!(listed(server, "/v1/facts?about=Anna").await, Vec::<Value>::new());
        let then = only(server, "/v1/facts?about=Anna&as_of=2023-06-01T00:00:00Z").await;
        assert_eq!((then["valid_to"].as_str(), then["state"].as_str()), (Some("2024-01-01T00:00:00Z"), Some("holds")));

        told(server, "Anna", "uses", "Rust", json!({})).await;
        let rust = only(server, "/v1/facts?about=Rust").await;
        server.days_pass(1);
        server.delete(&format!("/v1/facts/{}?ended_at=now", id(&rust))).await.expect(201);
        server.catches_up().await;
        let ended = server.get(&format!("/v1/facts/{}", id(&rust))).await.expect(200);
        let until: chrono::DateTime<chrono::Utc> = ended["valid_to"].as_str().unwrap().parse().unwrap();
        assert_eq!((until, &ended["state"]), (server.now(), &json!("ended")));
        assert_eq!(listed(server, "/v1/facts?about=Rust").await, Vec::<Value>::new());
    });
}

#[test]
fn what_is_forgotten_supports_nothing_and_what_is_restored_does_again() {
    story(async |server| {
        let first = told(server, "Anna", "lives_in", "Bremen", json!({ "from": "2024-05-01T00:00:00Z" })).await;
        server.days_pass(1);
        let second = told(server, "Anna", "lives_in", "Bremen", json!({})).await;
        let alone = told(server, "Anna", "uses", "Rust", json!({})).await;
        let before = listed(server, "/v1/facts?history=true").await;
        assert_eq!(only(server, "/v1/facts?predicate=lives_in").await["evidence"].as_array().unwrap().len(), 2);

        let gone = json!({ "ids": [first, alone] });
        server.post("/v1/forget", gone.clone()).await.expect(200);

        let left = only(server, "/v1/facts").await;
        assert_eq!(brief(std::slice::from_ref(&left)), ["Anna lives_in Bremen (holds)"]);
        assert_eq!(left["evidence"][0]["exchange"], json!(second));
        assert_eq!(left["from_is_said"], false, "whoever said since when was forgotten");

        server.post("/v1/restore", gone).await.expect(200);
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts?history=true").await, before);
    });
}

#[test]
fn lists_come_in_pages() {
    story(async |server| {
        let facts: Vec<Value> = (0..25)
            .map(|number| json!({ "subject": "Anna", "predicate": "knows", "object": format!("Person {number}") }))
            .collect();
        server.post("/v1/facts", json!({ "facts": facts })).await.expect(201);
        server.catches_up().await;

        for (list, key) in [("facts?about=Anna", "facts"), ("entities?like=person", "entities")] {
            let (mut seen, mut after) = (Vec::new(), String::new());
            loop {
                let page = server.get(&format!("/v1/{list}&limit=10{after}")).await.expect(200);
                let items = page[key].as_array().unwrap();
                assert!(items.len() <= 10);
                seen.extend(items.iter().map(|item| item["id"].clone()));
                let Some(next) = page["next"].as_str() else { break };
                after = format!("&after={next}");
            }
            let distinct: std::collections::BTreeSet<String> = seen.iter().map(Value::to_string).collect();
            assert_eq!((seen.len(), distinct.len()), (25, 25), "{list}");
        }
    });
}

#[test]
fn the_assistant_reads_facts_with_their_citation() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bremen", json!({ "from": "2024-05-01T00:00:00Z" })).await;
        told(server, "Ben", "lives_in", "Oslo", json!({})).await;

        let context = server.context_for("b", "Where does Anna live?").await;

        assert!(context.contains("[F: Anna]") && context.contains("Bremen"), "{context}");
        assert!(!context.contains("Oslo"), "{context}");
        let recalls = server.recall_as(json!({ "query": "Where does Anna live?", "layers": ["facts"] })).await;
        assert_eq!(recalls["recalls"][0]["layer"], "facts", "{recalls:#}");
        let earlier = json!({ "query": "Where does Anna live?", "layers": ["facts"], "as_of": "2020-01-01T00:00:00Z" });
        assert_eq!(server.recall_as(earlier).await["recalls"], json!([]));
        let unknown =
            json!({ "query": "Where does Anna live?", "layers": ["facts"], "known_at": "2020-01-01T00:00:00Z" });
        assert_eq!(server.recall_as(unknown).await["recalls"], json!([]));
    });
}

#[test]
fn nobody_sees_the_facts_of_another() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bremen", json!({})).await;
        let fact = only(server, "/v1/facts").await;
        let bob = server.other_user("bob").await;
        let tells =
            bob.post("/v1/facts", json!({ "subject": "Anna", "predicate": "lives_in", "object": "Oslo" })).await;
        assert_eq!(tells.status, 201);
        server.catches_up().await;

        assert_eq!(brief(&listed(&bob, "/v1/facts?history=true").await), ["Anna lives_in Oslo (holds)"]);
        assert_eq!(brief(&listed(server, "/v1/facts?history=true").await), ["Anna lives_in Bremen (holds)"]);
        let path = format!("/v1/facts/{}", id(&fact));
        assert_eq!(bob.get(&path).await.problem(404), "not-found");
        assert_eq!(bob.get(&format!("{path}/history")).await.problem(404), "not-found");
        assert_eq!(bob.delete(&path).await.problem(404), "not-found");
        for path in ["/v1/entities/Bremen", "/v1/graph/neighbourhood?of=Bremen", "/v1/graph/path?from=Anna&to=Bremen"] {
            assert_eq!(bob.get(path).await.problem(404), "not-found", "{path}");
        }
        assert!(!bob.get("/v1/graph/export?format=csv").await.text.contains("Bremen"));
        let foreign = fact["evidence"][0]["exchange"].clone();
        let split = json!({ "name": "Anna", "other": "Anne", "exchanges": [foreign] });
        assert_eq!(bob.post("/v1/entities/split", split).await.problem(404), "not-found");
        let split = json!({ "name": "Anna", "other": "Anne", "facts": [id(&fact)] });
        assert_eq!(bob.post("/v1/entities/split", split).await.problem(404), "not-found");
        let merge = json!({ "name": fact["object"]["entity"]["id"], "alias": "Anna" });
        assert_eq!(bob.post("/v1/entities/merge", merge).await.problem(404), "not-found");
        assert_eq!(only(server, "/v1/facts").await, fact);
    });
}
