//! Walking: what is around an entity, how two are linked, which belong together.

use serde_json::{Value, json};
use skymem_harness::story;

use super::told;

fn names(entities: &Value) -> Vec<&str> {
    entities.as_array().unwrap().iter().map(|entity| entity["name"].as_str().unwrap()).collect()
}

#[test]
fn how_two_are_linked_is_told_hop_by_hop_with_where_each_is_from() {
    story(async |server| {
        let first = told(server, "Anna", "works_on", "skymem", json!({})).await;
        let second = told(server, "skymem", "uses", "PostgreSQL", json!({ "from": "2025-01-01T00:00:00Z" })).await;
        told(server, "PostgreSQL", "written_in", "C", json!({})).await;
        told(server, "C", "influenced", "PostgreSQL", json!({})).await;

        let path = server.get("/v1/graph/path?from=anna&to=PostgreSQL").await.expect(200);

        assert_eq!(path["paths"].as_array().unwrap().len(), 1, "{path:#}");
        let way = &path["paths"][0];
        assert_eq!(names(&way["entities"]), ["Anna", "skymem", "PostgreSQL"]);
        let from: Vec<&Value> =
            way["hops"].as_array().unwrap().iter().map(|hop| &hop["evidence"][0]["exchange"]).collect();
        assert_eq!(from, [&json!(first), &json!(second)]);
        assert_eq!(way["hops"][1]["valid_from"], "2025-01-01T00:00:00Z");
        // Facts are walked in both directions.
        let back = server.get("/v1/graph/path?from=C&to=Anna").await.expect(200);
        assert_eq!(names(&back["paths"][0]["entities"]), ["C", "PostgreSQL", "skymem", "Anna"]);
        let short = server.get("/v1/graph/path?from=C&to=Anna&hops=2").await.expect(200);
        assert_eq!(short["paths"], json!([]));
        let earlier = server.get("/v1/graph/path?from=Anna&to=PostgreSQL&as_of=2024-01-01T00:00:00Z").await.expect(200);
        assert_eq!(earlier["paths"], json!([]));
        assert_eq!(server.get("/v1/graph/path?from=Anna&to=nobody").await.problem(404), "not-found");
    });
}

#[test]
fn what_is_around_an_entity_comes_nearest_first_and_says_when_it_is_cut() {
    story(async |server| {
        for (from, to) in [("A", "B"), ("B", "C"), ("C", "D"), ("D", "A")] {
            told(server, &format!("Node {from}"), "leads_to", &format!("Node {to}"), json!({})).await;
        }
        told(server, "Node A", "colour", "x", json!({ "object": { "literal": "red" } })).await;

        let around = server.get("/v1/graph/neighbourhood?of=node%20a&hops=1").await.expect(200);
        let mut near = names(&around["entities"]);
        assert_eq!(near.remove(0), "Node A");
        near.sort_unstable();
        assert_eq!((near, &around["cut"]), (vec!["Node B", "Node D"], &json!(false)));
        assert!(around["facts"].to_string().contains("red"), "{around:#}");

        let all = server.get("/v1/graph/neighbourhood?of=node%20a&hops=3").await.expect(200);
        assert_eq!(names(&all["entities"]).len(), 4);
        let cut = server.get("/v1/graph/neighbourhood?of=node%20a&hops=3&limit=2").await.expect(200);
        assert_eq!((names(&cut["entities"]).len(), &cut["cut"]), (2, &json!(true)));
    });
}

#[test]
fn what_belongs_together_is_in_one_group() {
    story(async |server| {
        let mut facts = Vec::new();
        for side in ["left", "right"] {
            for from in 0..4 {
                for to in from + 1..4 {
                    let name = |number: i32| format!("{side} {number}");
                    facts.push(json!({ "subject": name(from), "predicate": "knows", "object": name(to) }));
                }
            }
        }
        facts.push(json!({ "subject": "left 0", "predicate": "knows", "object": "right 0" }));
        server.post("/v1/facts", json!({ "facts": facts })).await.expect(201);
        server.catches_up().await;

        let groups = server.get("/v1/graph/communities").await.expect(200);

        let groups = groups["communities"].as_array().unwrap();
        assert_eq!(groups.len(), 2, "{groups:#?}");
        for group in groups {
            let names = names(&group["entities"]);
            let side = names[0].split(' ').next().unwrap();
            assert!(names.len() == 4 && names.iter().all(|name| name.starts_with(side)), "{names:?}");
            assert_eq!(group["facts"], 6);
        }
    });
}
