//! Turns are written down, shown, forgotten and taken back.

use serde_json::json;

use crate::house::{in_a_house, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_stored_once_however_often_it_is_sent() {
    in_a_house(|house| async move {
        let turn = json!({"role": "user", "content": "which database?", "client_id": "1"});

        let first = house.post("/v1/sessions/chat%2017%2Fa/turns", turn.clone(), 201).await;
        let again = house.post("/v1/sessions/chat%2017%2Fa/turns", turn, 200).await;

        assert_eq!(first["turns"][0]["fate"], "stored");
        assert_eq!(again["turns"][0]["fate"], "known");
        assert_eq!(first["turns"][0]["seq"], again["turns"][0]["seq"]);
        let turns = house.get("/v1/sessions/chat%2017%2Fa/turns").await;
        assert_eq!(turns["turns"].as_array().unwrap().len(), 1);
        assert_eq!(turns["turns"][0]["text"], "which database?");
        assert_eq!(house.get("/v1/sessions").await["sessions"][0]["id"], "chat 17/a");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_parts_are_kept_and_their_text_is_read() {
    in_a_house(|house| async move {
        let parts = json!([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]);
        let turns = json!({"turns": [
            {"role": "user", "content": parts, "name": "Anna", "occurred_at": "2026-02-01T09:00:00+01:00"},
            {"role": "assistant", "content": "I see"},
        ]});

        house.post("/v1/sessions/s/turns", turns, 201).await;

        let told = house.get("/v1/sessions/s/turns").await;
        assert_eq!(told["turns"][0]["text"], "look");
        assert_eq!(told["turns"][0]["parts"], parts);
        assert_eq!(told["turns"][0]["speaker"], "Anna");
        assert_eq!(told["turns"][0]["occurred_at"], "2026-02-01T08:00:00Z");
        assert_eq!(told["turns"][0]["exchange"], told["turns"][1]["exchange"]);
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_of_a_batch_is_named_and_the_others_are_stored() {
    in_a_house(|house| async move {
        let lines = concat!(
            "{\"session\": \"a\", \"role\": \"user\", \"content\": \"one\", \"title\": \"First\"}\n",
            "{\"session\": \"a\", \"role\": \"robot\", \"content\": \"two\"}\n",
            "nonsense\n",
            "{\"session\": \"b\", \"role\": \"user\", \"content\": \"three\"}\n",
        );
        let send = || house.ask("POST", "/v1/turns").header("content-type", "application/x-ndjson").body(lines);

        let first = house.told(send(), 207).await;
        let again = house.told(send(), 207).await;

        assert_eq!((&first["recorded"], &first["already"]), (&json!(2), &json!(0)));
        assert_eq!((&again["recorded"], &again["already"]), (&json!(0), &json!(2)));
        let lines: Vec<_> = first["refused"].as_array().unwrap().iter().map(|turn| turn["line"].as_i64()).collect();
        assert_eq!(lines, [Some(2), Some(3)]);
        assert_eq!(first["refused"][0]["field"], "role");
        assert_eq!(house.get("/v1/sessions/a").await["title"], "First");

        let bad = json!({"turns": [{"session": "a", "role": "user"}]});
        let response = house.ask("POST", "/v1/turns").json(&bad).send().await.unwrap();
        assert_eq!(problem(response).await["errors"][0]["field"], "turns[0].content");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forgotten_is_gone_until_it_is_taken_back_or_purged() {
    in_a_house(|house| async move {
        let told = house.post("/v1/sessions/s/turns", json!({"role": "user", "content": "a secret"}), 201).await;
        let id = told["turns"][0]["exchange"].as_str().unwrap().to_owned();
        let one = format!("/v1/exchanges/{id}");

        let would = house.post("/v1/forget", json!({"session": "s", "dry_run": true}), 200).await;
        assert_eq!(would, json!({"count": 1, "ids": [id]}));
        assert_eq!(house.get("/v1/exchanges").await["exchanges"][0]["id"], id.as_str());

        let pinned = house.told(house.ask("PUT", &format!("{one}/pin")), 200).await;
        assert_eq!(pinned["pinned"], true);
        house.told(house.ask("DELETE", &format!("{one}/pin")), 200).await;

        assert_eq!(house.told(house.ask("DELETE", &one), 200).await["count"], 1);
        assert_eq!(house.told(house.ask("DELETE", &one), 200).await["count"], 0);
        assert_eq!(house.get("/v1/exchanges").await["exchanges"], json!([]));
        assert_eq!(house.get("/v1/trash").await["exchanges"][0]["id"], id.as_str());
        assert!(house.get(&one).await["forgotten_at"].is_string());

        assert_eq!(house.told(house.ask("POST", &format!("{one}/restore")), 200).await["count"], 1);
        assert_eq!(house.get("/v1/exchanges").await["exchanges"][0]["turns"][0]["text"], "a secret");

        house.told(house.ask("DELETE", "/v1/sessions/s"), 200).await;
        assert_eq!(house.post("/v1/purge", json!({"all": true}), 200).await["ids"], json!([id]));
        let gone = house.ask("GET", &one).send().await.unwrap();
        assert_eq!(problem(gone).await["type"], "/problems/not-found");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_read_page_by_page() {
    in_a_house(|house| async move {
        let turns: Vec<_> =
            (0..7).map(|n| json!({"session": format!("s{n}"), "role": "user", "content": "x"})).collect();
        house.post("/v1/turns", json!(turns), 200).await;
        let mut seen = Vec::new();

        let mut next = Some(String::new());
        while let Some(after) = next {
            let after = if after.is_empty() { after } else { format!("&after={after}") };
            let page = house.get(&format!("/v1/exchanges?limit=3{after}")).await;
            seen.extend(page["exchanges"].as_array().unwrap().iter().map(|it| it["session"].to_string()));
            next = page["next"].as_str().map(str::to_owned);
        }

        assert_eq!(seen.len(), 7);
        seen.dedup();
        assert_eq!(seen.len(), 7);
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_finds_nothing_is_answered() {
    in_a_house(|house| async move {
        let recall = house.post("/v1/recall", json!({"query": "which database?", "explain": true}), 200).await;
        let context =
            house.post("/v1/context", json!({"question": "which database?", "system": "Be brief."}), 200).await;

        assert_eq!(recall["recalls"], json!([]));
        assert_eq!(context["items"], json!([]));
        let messages = context["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["role"], "user");
        assert!(messages.last().unwrap()["content"].as_str().unwrap().contains("which database?"));
        assert!(context["spent"]["total"].as_u64().unwrap() > 0);
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_collections_and_the_zone_are_arranged() {
    in_a_house(|house| async move {
        let session = house.ask("PATCH", "/v1/sessions/s").json(&json!({"title": "Plans", "max_turns": 300}));
        assert_eq!(house.told(session, 200).await["max_turns"], 300);
        let session = house.ask("PATCH", "/v1/sessions/s").json(&json!({"title": null, "memory": "read"}));
        let session = house.told(session, 200).await;
        assert_eq!(
            (&session["title"], &session["memory"], &session["max_turns"]),
            (&json!(null), &json!("read"), &json!(300))
        );

        let shelf = house.ask("PUT", "/v1/collections/work").json(&json!({"half_life_days": 7, "decay_floor": 0}));
        assert_eq!(house.told(shelf, 200).await["half_life_days"], 7.0);
        let names = house.get("/v1/collections").await;
        assert!(names["collections"].as_array().unwrap().iter().any(|shelf| shelf["name"] == "work"), "{names}");
        house.told(house.ask("DELETE", "/v1/collections/work"), 204).await;

        let me = house.ask("PATCH", "/v1/me").json(&json!({"timezone": "Europe/Berlin"}));
        assert_eq!(house.told(me, 200).await["timezone"], "Europe/Berlin");
        assert_eq!(house.get("/v1/stats").await["layers"][0]["name"], "files");
        house
    })
    .await;
}
