//! The description of the API says what is there, and the pages work without the world.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::house::in_a_house;

/// Every operation of a description: method, path, and what is said of it.
pub(crate) fn operations(described: &Value) -> impl Iterator<Item = (String, String, &Value)> {
    described["paths"].as_object().unwrap().iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(|(method, it)| (method.to_uppercase(), path.clone(), it))
    })
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref") {
                found.insert(reference.clone());
            }
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_described_whole() {
    in_a_house(|house| async move {
        let described = house.told(house.bare("GET", "/openapi.json"), 200).await;

        assert!(described["openapi"].as_str().unwrap().starts_with("3.1."));
        let mut ids = BTreeSet::new();
        for (method, path, operation) in operations(&described) {
            let place = format!("{method} {path}: {operation}");
            assert!(ids.insert(operation["operationId"].as_str().expect(&place).to_owned()), "twice: {place}");
            assert!(operation["summary"].is_string() || operation["description"].is_string(), "{place}");
            assert!(operation["security"].as_array().is_some_and(|it| !it.is_empty()), "{place}");
            assert!(operation["tags"].as_array().is_some_and(|it| it.len() == 1), "{place}");
            let (kind, schema) = match operation["tags"][0].as_str() {
                Some("proxy") => ("application/json", "#/components/schemas/OpenAiError"),
                _ => ("application/problem+json", "#/components/schemas/Problem"),
            };
            let default = &operation["responses"]["default"]["content"][kind];
            assert_eq!(default["schema"]["$ref"], schema, "{place}");
            for name in path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()) {
                let parameters = operation["parameters"].as_array().expect(&place);
                let named = parameters.iter().find(|parameter| parameter["name"] == name).expect(&place);
                assert_eq!((&named["in"], &named["required"]), (&"path".into(), &true.into()), "{place}");
            }
        }
        assert!(ids.len() > 45, "{ids:?}");
        let mut found = BTreeSet::new();
        references(&described, &mut found);
        for reference in found {
            assert!(described.pointer(reference.trim_start_matches('#')).is_some(), "{reference} leads nowhere");
        }
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_load_nothing_from_elsewhere() {
    in_a_house(|house| async move {
        for path in ["/", "/problems", "/problems/stale", "/docs/"] {
            let response = house.bare("GET", path).send().await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
            assert!(policy.contains("default-src 'none'") && !policy.contains("http"), "{policy}");
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
            let page = response.text().await.unwrap();
            assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "{page}");
            assert!(!page.contains("<script>") && !page.contains("onclick"), "{page}");
        }
        for asset in ["swagger-ui-bundle.js", "swagger-ui.css", "swagger-initializer.js"] {
            let text = house.bare("GET", &format!("/docs/{asset}")).send().await.unwrap().text().await.unwrap();
            assert!(text.len() > 100, "{asset}");
            assert!(!asset.contains("initializer") || text.contains("/openapi.json"), "{text}");
        }
        let moved = house.bare("GET", "/docs").send().await.unwrap();
        assert_eq!(moved.headers()["location"], "/docs/");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_keeps_its_id_and_health_needs_no_key() {
    in_a_house(|house| async move {
        let named = house.bare("GET", "/health/live").header("x-request-id", "mine-1").send().await.unwrap();
        assert_eq!(named.headers()["x-request-id"], "mine-1");
        let unnamed = house.bare("GET", "/health/ready").send().await.unwrap();
        assert_eq!(unnamed.status(), 200);
        assert_eq!(unnamed.headers()["x-request-id"].len(), 36);
        assert_eq!(unnamed.headers()["cache-control"], "no-store");
        assert!(house.get("/v1/health").await["database"].as_bool().unwrap());
        house
    })
    .await;
}
