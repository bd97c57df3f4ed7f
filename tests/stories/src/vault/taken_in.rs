//! The promise of sealing a collection late: what stood in it in the clear is sealed with it, and gone everywhere else.

use serde_json::{Value, json};
use skymem_harness::{Client, TestServer};

use super::{QUESTION, SECRET, detail, found, identity, lock, says, story, unlock, user};

/// Seals a collection in which something stands; the answer, and the identity that unlocks it.
async fn seal_late(client: &Client, collection: &str) -> (Value, String) {
    let (secret, recipient) = identity();
    let path = format!("/v1/collections/{collection}/seal");
    (client.post(&path, json!({ "recipients": [recipient] })).await.expect(201), secret)
}

#[test]
fn what_stood_in_a_collection_is_sealed_with_it_and_every_layer_has_lost_it() {
    story(async |server| {
        let exchange = says(server, "health", "clinic", SECRET, "Noted: AB negative.").await;
        says(server, "health", "clinic", "My name is Anna and I live in Bremen.", "Noted.").await;
        says(server, "default", "talk", "The weather in Bonn is fine today.", "It is.").await;
        server.catches_up().await;
        assert!(found(server).await);

        let (sealed, identity) = seal_late(server, "health").await;

        assert_eq!(sealed["taken_in"], json!({ "exchanges": 2, "turns": 4 }), "{sealed}");
        let receipt = &sealed["receipt"]["receipt"];
        assert_eq!((&receipt["clean"], &receipt["aim"]), (&json!(true), &json!("sealed")), "{receipt}");
        assert!(receipt["traces"].as_u64().unwrap() > 0, "it knew what it looked for: {receipt}");
        assert_eq!((&sealed["unlocked"], &sealed["unchecked"]), (&json!(false), &json!(false)));
        server.catches_up().await;
        assert!(!found(server).await);
        assert_eq!(server.get(&format!("/v1/exchanges/{exchange}")).await.status, 404, "it has another name");
        for list in ["/v1/exchanges", "/v1/sessions", "/v1/facts", "/v1/entities", "/v1/audit"] {
            let shown = server.get(list).await.text;
            assert!(
                !shown.contains("AB negative") && !shown.contains("clinic") && !shown.contains("Bremen"),
                "{list}: {shown}"
            );
        }
        assert!(server.recall("how is the weather?").await.iter().any(|text| text.contains("Bonn")));

        unlock(server, "health", &identity).await;

        assert!(found(server).await);
        let turns = server.get("/v1/sessions/clinic/turns").await.expect(200);
        assert_eq!(turns["turns"].as_array().map(Vec::len), Some(4), "{turns}");
        says(server, "health", "clinic", "My pulse is 61.", "Noted.").await;
        assert!(server.recall("what is my pulse?").await.iter().any(|text| text.contains("61")));
    });
}

#[test]
fn what_was_forgotten_before_is_sealed_in_the_trash_and_comes_back_sealed() {
    story(async |server| {
        let exchange = says(server, "health", "clinic", SECRET, "Noted.").await;
        server.post("/v1/forget", json!({ "ids": [exchange] })).await.expect(200);

        let (sealed, identity) = seal_late(server, "health").await;

        assert_eq!(sealed["taken_in"]["exchanges"], 1, "{sealed}");
        assert_eq!(sealed["exchanges"], 0, "what is in the trash is not counted: {sealed}");
        unlock(server, "health", &identity).await;
        assert!(!found(server).await, "forgotten stays forgotten");
        let ids = server.memory().purge(user(server).await, None).await.unwrap().exchanges;
        assert_eq!(ids.len(), 1, "and can be purged");
    });
}

#[test]
fn a_summary_of_a_session_that_goes_on_elsewhere_is_made_again_without_what_was_sealed() {
    story(async |server| {
        for n in 0..6 {
            says(server, "default", "long", &format!("The bridge number {n} is built of granite stone."), "Noted.")
                .await;
        }
        says(server, "health", "long", SECRET, "Noted.").await;
        for n in 6..14 {
            says(server, "default", "long", &format!("The bridge number {n} is built of granite stone."), "Noted.")
                .await;
        }
        server.catches_up().await;

        seal_late(server, "health").await;
        server.catches_up().await;

        let context = server.context("long", "what is built of granite?").await.to_string();
        assert!(context.contains("granite") && !context.contains("AB negative"), "{context}");
        let left = "do $$ begin if exists (select from summaries.version where version::text like '%AB negative%') \
                    then raise 'kept'; end if; end $$";
        server.sql(left).await.unwrap();
    });
}

#[test]
fn a_server_that_was_stopped_before_it_looked_looks_when_it_is_asked_again_or_tidies_up() {
    story(async |server| {
        says(server, "health", "clinic", SECRET, "Noted.").await;
        let (_, identity) = seal_late(server, "health").await;
        let stopped = "update journal.sealed set unchecked = true";
        server.sql(stopped).await.unwrap();
        server.restarts().await;
        assert_eq!(server.get("/v1/collections/health/seal").await.expect(200)["unchecked"], true);

        let again = server.post("/v1/collections/health/seal", json!({})).await.expect(201);

        let receipt = &again["receipt"]["receipt"];
        assert_eq!((&receipt["clean"], &receipt["rewritten"]), (&json!(true), &json!(true)), "{again}");
        assert!(receipt["unreachable"].to_string().contains("no word was known"), "{receipt}");
        assert_eq!(again["unchecked"], false);
        assert!(
            detail(&server.post("/v1/collections/health/seal", json!({ "recipients": [] })).await, 422)
                .contains("recipient")
        );
        server.sql(stopped).await.unwrap();
        server.memory().upkeep().await.unwrap();
        assert_eq!(server.get("/v1/collections/health/seal").await.expect(200)["unchecked"], false);
        unlock(server, "health", &identity).await;
        assert!(found(server).await);
        lock(server, "health").await;
    });
}

#[test]
fn a_session_with_settings_of_its_own_is_named_and_nothing_is_sealed() {
    story(async |server| {
        says(server, "health", "clinic", SECRET, "Noted.").await;
        server.catches_up().await;
        server.patch("/v1/sessions/clinic", json!({ "memory": "read" })).await.expect(200);
        let (_, recipient) = identity();

        let refused = server.post("/v1/collections/health/seal", json!({ "recipients": [recipient] })).await;

        assert!(detail(&refused, 409).contains("settings of its own"));
        assert!(found(server).await, "all is as it was");
        assert_eq!(server.get("/v1/vault").await.expect(200)["collections"], json!([]));
    });
}

#[test]
fn a_user_is_removed_with_their_sealed_collections_whether_they_are_locked_or_not() {
    story(async |server: &mut TestServer| {
        for (name, unlocked) in [("ben", false), ("eva", true)] {
            let client = server.other_user(name).await;
            let (_, identity) = seal_late(&client, "health").await;
            says(&client, "health", "clinic", SECRET, "Noted.").await;
            if unlocked {
                unlock(&client, "health", &identity).await;
                assert!(client.recall(QUESTION).await.iter().any(|text| text.contains("AB negative")));
            }
            let id = user(&client).await;

            let receipt = server.delete(&format!("/v1/users/{name}")).await.expect(200);

            assert_eq!(receipt["receipt"]["clean"], true, "{receipt}");
            let left = format!(
                "do $$ declare place record; n bigint; begin
                   for place in select table_schema, table_name from information_schema.columns
                                where column_name = 'user_id' and table_schema not in ('pg_catalog', 'information_schema') loop
                     execute format('select count(*) from %I.%I where user_id = %L', place.table_schema, place.table_name, '{id}')
                       into n;
                     if n > 0 then raise '% rows in %.%', n, place.table_schema, place.table_name; end if;
                   end loop;
                 end $$"
            );
            server.sql(&left).await.unwrap();
            assert_eq!(client.get("/v1/vault").await.status, 401, "their key opens nothing");
        }
    });
}
