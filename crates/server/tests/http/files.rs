//! Files are read and written with their revisions.

use serde_json::json;

use crate::house::{in_a_house, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_comes_too_late_is_shown_both_sides() {
    in_a_house(|house| async move {
        let write = |text: &str| house.ask("PUT", "/v1/files/NOW.md").json(&json!({"text": text}));
        house.told(write("one"), 201).await;

        let late = problem(write("again").send().await.unwrap()).await;
        assert_eq!(late["type"], "/problems/stale");
        assert_eq!(late["conflict"]["current"], "one");
        assert_eq!(late["conflict"]["yours"], "again");
        assert!(late["conflict"]["diff"].as_str().unwrap().contains("+new"));

        let response = house.ask("GET", "/v1/files/NOW.md").send().await.unwrap();
        let etag = response.headers()["etag"].to_str().unwrap().to_owned();
        let written = house.told(write("three").header("if-match", &etag), 200).await;
        assert_eq!(written["text"], "three");
        let old = house.ask("GET", "/v1/files/NOW.md").header("if-none-match", &etag).send().await.unwrap();
        assert_eq!(old.status(), 200);
        let etag = old.headers()["etag"].to_str().unwrap().to_owned();
        let same = house.ask("GET", "/v1/files/NOW.md").header("if-none-match", &etag).send().await.unwrap();
        assert_eq!(same.status(), 304);
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_is_found_by_its_headings() {
    in_a_house(|house| async move {
        house.told(house.ask("PUT", "/v1/files/NOW.md").json(&json!({"text": "text"})), 201).await;

        let section = house.get("/v1/files/NOW.md/sections/A%2FB").await;
        assert_eq!((&section["headings"], &section["text"]), (&json!(["A/B"]), &json!("text")));
        let other = house.ask("GET", "/v1/files/NOW.md/sections/A/B").send().await.unwrap();
        assert_eq!(problem(other).await["status"], 404);
        let unnamed = house.ask("DELETE", "/v1/files/NOW.md/sections/A%2FB").send().await.unwrap();
        assert_eq!(problem(unnamed).await["errors"][0]["field"], "If-Match");
        house
    })
    .await;
}
