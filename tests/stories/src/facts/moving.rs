//! Facts come in from other programs, and go out to them.

use serde_json::{Value, json};
use skymem_harness::{Client, story};

use super::{brief, listed, told};

async fn import(client: &Client, kind: &str, query: &str, text: &str) -> Value {
    let reply = client.post_text(&format!("/v1/facts/import{query}"), kind, text.to_owned()).await;
    assert!(matches!(reply.status, 200 | 207), "{}", reply.text);
    reply.json
}

/// Subject, predicate, object and time of every fact that was not taken back, in some order.
fn essence(facts: &[Value]) -> Vec<String> {
    let mut essence: Vec<String> = facts
        .iter()
        .zip(brief(facts))
        .filter(|(fact, _)| fact["state"] != "retracted")
        .map(|(fact, brief)| {
            let (from, said, until) = (&fact["valid_from"], &fact["from_is_said"], &fact["valid_to"]);
            format!("{brief} {from} {said} {until} {} {}", fact["confidence"], fact["subject"]["kind"])
        })
        .collect();
    essence.sort();
    essence
}

#[test]
fn what_is_exported_as_csv_is_the_same_when_it_is_imported() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bonn", json!({ "from": "2020-01-01T00:00:00Z", "confidence": 0.5 })).await;
        told(
            server,
            "Anna",
            "lives_in",
            "Bremen, \"the old\" town\u{1f98a}",
            json!({ "from": "2024-05-01T00:00:00Z" }),
        )
        .await;
        told(server, "Anna", "motto", "x", json!({ "object": { "literal": "=1+1;\n<b>&amp;</b>, ]]>" } })).await;
        // Of these nobody said since when: known since they were told, closed by what came next, over before they were told.
        for (predicate, object) in [("works_at", "ACME"), ("works_at", "Initech"), ("likes", "tea"), ("likes", "rain")]
        {
            told(server, "Ben", predicate, object, json!({})).await;
            server.days_pass(10);
        }
        told(server, "Ben", "uses", "Perl", json!({ "until": "2019-05-01T12:30:00.123456Z" })).await;
        let wrong = told(server, "Ben", "speaks", "Latin", json!({})).await;
        let wrong = listed(server, &format!("/v1/facts?exchange={wrong}")).await.remove(0);
        server.delete(&format!("/v1/facts/{}", super::id(&wrong))).await.expect(201);
        server.patch("/v1/entities/Anna", json!({ "kind": "person" })).await.expect(201);
        server.catches_up().await;
        server.days_pass(10);
        let all = listed(server, "/v1/facts?history=true").await;
        assert_eq!(all.iter().filter(|fact| fact["from_is_said"] == false).count(), 7, "{all:#?}");

        let csv = server.get("/v1/graph/export?format=csv&history=true").await;
        assert_eq!((csv.status, csv.content_type.as_str()), (200, "text/csv"));
        let bob = server.other_user("bob").await;
        let imported = import(&bob, "text/csv", "?source=import:facts.csv", &csv.text).await;
        server.catches_up().await;

        assert_eq!(imported["refused"], json!([]), "{imported:#}");
        assert_eq!(imported["left_out"], json!([{ "reason": "was taken back", "lines": 1 }]), "{imported:#}");
        assert_eq!(essence(&listed(&bob, "/v1/facts?history=true").await), essence(&all));
        let origin = listed(&bob, "/v1/facts?about=Anna").await;
        assert!(origin.iter().all(|fact| fact["evidence"][0]["origin"] == "import"), "{origin:#?}");
        let again = import(&bob, "text/csv", "", &csv.text).await;
        assert_eq!((&again["recorded"], &again["already"]), (&json!(0), &imported["recorded"]));
    });
}

#[test]
fn every_format_is_written_and_holds_only_what_was_asked_for() {
    story(async |server| {
        told(server, "Anna", "lives_in", "Bonn", json!({ "from": "2020-01-01T00:00:00Z" })).await;
        told(server, "Anna", "lives_in", "Bremen", json!({ "from": "2024-05-01T00:00:00Z" })).await;

        for (format, kind, begins) in [
            ("dot", "text/vnd.graphviz", "digraph"),
            ("graphml", "application/graphml+xml", "<?xml"),
            ("cytoscape", "application/json", "{"),
            ("csv", "text/csv", "subject,predicate,object"),
        ] {
            let now = server.get(&format!("/v1/graph/export?format={format}")).await;
            assert_eq!((now.status, now.content_type.as_str()), (200, kind), "{}", now.text);
            assert!(now.text.starts_with(begins), "{}", now.text);
            assert!(now.text.contains("lives in Bremen") && !now.text.contains("lives in Bonn"), "{}", now.text);
            let then = server.get(&format!("/v1/graph/export?format={format}&as_of=2022-01-01T00:00:00Z")).await.text;
            assert!(!then.contains("lives in Bremen") && then.contains("lives in Bonn"), "{then}");
            let ever = server.get(&format!("/v1/graph/export?format={format}&history=true")).await.text;
            assert!(ever.contains("lives in Bremen") && ever.contains("lives in Bonn"), "{ever}");
        }
    });
}

#[test]
fn the_file_of_the_mcp_memory_server_is_taken_over() {
    story(async |server| {
        let file = [
            json!({ "type": "entity", "name": "Anna", "entityType": "person", "observations": ["likes hiking"] })
                .to_string(),
            json!({ "type": "relation", "from": "Anna", "to": "ACME", "relationType": "works at" }).to_string(),
            "{\"type\": \"relation\"".into(),
            json!({ "type": "relation", "from": "Anna", "to": "", "relationType": "knows" }).to_string(),
        ]
        .join("\n");

        let reply = server.post_text("/v1/facts/import", "application/x-ndjson", file.clone()).await;

        assert_eq!(reply.status, 207, "{}", reply.text);
        let lines: Vec<&Value> = reply.json["refused"].as_array().unwrap().iter().map(|line| &line["line"]).collect();
        assert_eq!((lines, &reply.json["refused_count"]), (vec![&json!(3), &json!(4)], &json!(2)));
        server.catches_up().await;
        let mut facts = brief(&listed(server, "/v1/facts?about=Anna").await);
        facts.sort();
        assert_eq!(facts, ["Anna note likes hiking (holds)", "Anna works_at ACME (holds)"]);
        assert_eq!(server.get("/v1/entities/Anna").await.expect(200)["kind"], "person");
        let again = import(server, "application/jsonl", "?format=mcp", &file).await;
        assert_eq!(again["recorded"], 0);
    });
}

#[test]
fn an_import_goes_where_it_is_told_and_can_be_forgotten_as_a_whole() {
    story(async |server| {
        let csv: String = std::iter::once("subject,predicate,object\n".to_owned())
            .chain((0..3_000).map(|number| format!("Person {number},knows,Person {}\n", number / 2 + 5_000)))
            .collect();

        let query = "?session=old%20notes&collection=archive&source=import:notes.csv";
        let imported = import(server, "text/csv", query, &csv).await;
        server.catches_up().await;

        assert_eq!((&imported["recorded"], &imported["refused_count"]), (&json!(3_000), &json!(0)));
        let fact = &listed(server, "/v1/facts?about=Person%2017&collection=archive").await[0];
        assert_eq!(fact["evidence"][0]["session"], "old notes");
        let forgotten = server.post("/v1/forget", json!({ "session": "old notes" })).await.expect(200);
        assert_eq!(forgotten["count"], 3_000);
        assert_eq!(listed(server, "/v1/facts").await, Vec::<Value>::new());
        // Told again, it comes back.
        let again = import(server, "text/csv", query, &csv).await;
        server.catches_up().await;
        assert_eq!(again["already"], 3_000);
        assert_eq!(listed(server, "/v1/facts?about=Person%2017").await.len(), 1);
    });
}

#[test]
fn a_file_that_is_none_is_refused_in_words() {
    story(async |server| {
        for (kind, query, text, status, says) in [
            ("text/csv", "", &b""[..], 422, "the file is empty"),
            ("text/csv", "", b"name,age\nAnna,36\n", 422, "subject"),
            ("text/csv", "", b"\xff\xfes\0u\0b\0", 422, "UTF-8"),
            ("text/csv", "?format=xml", b"subject,predicate,object\n", 422, "a format is one of"),
            ("text/csv", "?session=", b"subject,predicate,object\n", 422, "must not be empty"),
            ("text/csv", "?colour=red", b"subject,predicate,object\n", 422, "unknown field"),
            ("image/png", "", b"subject,predicate,object\n", 415, "Content-Type"),
            ("application/x-ndjson", "", b"{\"type\": \"robot\"}\n", 422, "line 1"),
            ("application/x-ndjson", "?format=statements", b"{\"says\": \"shouts\"}\n", 422, "unknown variant"),
        ] {
            let reply = server.post_text(&format!("/v1/facts/import{query}"), kind, text).await;
            assert_eq!(reply.status, status, "{query} {text:?}: {}", reply.text);
            assert!(reply.text.contains(says), "{query} {text:?}: {}", reply.text);
        }
        assert_eq!(server.get("/v1/exchanges").await.expect(200)["exchanges"], json!([]));
        let nothing = import(server, "text/csv", "", "subject,predicate,object\n").await;
        assert_eq!(nothing["recorded"], 0);
    });
}
