//! Names: several for one, one for several; joined, parted, and undone.

use serde_json::{Value, json};
use skymem_harness::story;

use super::{brief, exchange, id, listed, only, told};

#[test]
fn two_entities_become_one_and_two_again() {
    story(async |server| {
        told(server, "Bob", "lives_in", "Bonn", json!({ "from": "2024-01-01T00:00:00Z" })).await;
        told(server, "Robert", "works_at", "ACME", json!({})).await;
        let before = listed(server, "/v1/facts").await;

        let merged = server.post("/v1/entities/merge", json!({ "name": "Robert", "alias": "Bob" })).await.expect(201);
        server.catches_up().await;

        let names = ["Robert works_at ACME (holds)", "Robert lives_in Bonn (holds)"];
        for name in ["Robert", "Bob", "bob"] {
            let mut facts = brief(&listed(server, &format!("/v1/facts?about={name}")).await);
            facts.sort();
            let mut expected = names;
            expected.sort_unstable();
            assert_eq!(facts, expected, "{name}");
        }
        let entity = server.get("/v1/entities/Bob").await.expect(200);
        assert_eq!((&entity["name"], &entity["aliases"]), (&json!("Robert"), &json!(["Bob"])));
        assert_eq!(entity["joined_by"], json!([exchange(&merged)]));
        let again = server.post("/v1/entities/merge", json!({ "name": "Robert", "alias": "Bob" })).await.expect(200);
        assert_eq!(exchange(&again), exchange(&merged));

        server.post("/v1/forget", json!({ "ids": [exchange(&merged)] })).await.expect(200);
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts").await, before);
        assert_eq!(server.get("/v1/entities/Bob").await.expect(200)["name"], "Bob");
    });
}

#[test]
fn one_name_of_two_people_is_told_apart_and_joined_again() {
    story(async |server| {
        told(server, "Bob", "lives_in", "Bonn", json!({ "from": "2024-01-01T00:00:00Z" })).await;
        let work = told(server, "Bob", "works_at", "ACME", json!({})).await;
        let job = only(server, "/v1/facts?predicate=works_at").await;
        let before = listed(server, "/v1/facts").await;

        let body = json!({ "name": "Bob", "other": "Bob from work", "facts": [id(&job)] });
        let split = server.post("/v1/entities/split", body).await.expect(201);
        server.catches_up().await;

        assert_eq!(brief(&listed(server, "/v1/facts?about=Bob").await), ["Bob lives_in Bonn (holds)"]);
        let other = listed(server, "/v1/facts?about=Bob%20from%20work").await;
        assert_eq!(brief(&other), ["Bob from work works_at ACME (holds)"]);
        assert_eq!(other[0]["evidence"][0]["exchange"], json!(work));

        server.post("/v1/forget", json!({ "ids": [exchange(&split)] })).await.expect(200);
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts").await, before);
    });
}

#[test]
fn an_entity_is_found_by_name_alias_and_id_and_told_what_it_is() {
    story(async |server| {
        told(server, "AC/DC", "plays", "Thunderstruck", json!({})).await;
        let entity = server.get("/v1/entities/ac%2Fdc").await.expect(200);
        let by_id = format!("/v1/entities/{}", entity["id"].as_str().unwrap());
        assert_eq!(server.get(&by_id).await.expect(200), entity);
        assert_eq!((&entity["name"], &entity["facts"]), (&json!("AC/DC"), &json!(1)));

        server.patch(&by_id, json!({ "kind": "organisation" })).await.expect(201);
        server.catches_up().await;

        assert_eq!(server.get(&by_id).await.expect(200)["kind"], "organisation");
        let listed = server.get("/v1/entities?like=thunder").await.expect(200);
        let names: Vec<&Value> = listed["entities"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
        assert_eq!(names, ["Thunderstruck"]);
        assert_eq!(server.get("/v1/entities/nobody").await.problem(404), "not-found");
        assert_eq!(server.patch("/v1/entities/nobody", json!({ "kind": "person" })).await.problem(404), "not-found");
        let neither = json!({ "name": "nobody", "alias": "no one" });
        assert_eq!(server.post("/v1/entities/merge", neither).await.problem(404), "not-found");
        // An alias may be a name that nobody bears yet.
        server.post("/v1/entities/merge", json!({ "name": "AC/DC", "alias": "Acca Dacca" })).await.expect(201);
        server.catches_up().await;
        assert_eq!(server.get("/v1/entities/acca%20dacca").await.expect(200)["name"], "AC/DC");
    });
}
