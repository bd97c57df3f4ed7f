//! The second wall, from the door on: code that forgets whom it works for finds the rows of whoever asks, and no others.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use skymem_core::recall::{Citation, Provenance};
use skymem_core::wall::carried;
use skymem_core::{Exchange, Layer, LayerError, LayerName, LayerStats, Query, Recall, RecallId, Score, UserId};
use sqlx::PgPool;

use crate::house::{House, in_a_house_with_layer};

/// A layer whose statements name no user, also in tasks of its own.
struct Careless(PgPool);

async fn all_that_was_said(db: PgPool) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("select text from journal.turn order by seq").fetch_all(&db).await
}

#[async_trait]
impl Layer for Careless {
    fn name(&self) -> LayerName {
        LayerName::of("careless")
    }

    async fn observe(&self, _: &[Exchange]) -> Result<(), LayerError> {
        Ok(())
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        let db = self.0.clone();
        let said = match query.text.as_str() {
            "in a task" => tokio::spawn(carried(all_that_was_said(db))).await.unwrap(),
            "in a task that knows nothing" => tokio::spawn(all_that_was_said(db)).await.unwrap(),
            _ => all_that_was_said(db).await,
        }?;
        Ok(said.into_iter().map(recall).collect())
    }

    async fn stats(&self, _: UserId) -> Result<LayerStats, LayerError> {
        let rows = sqlx::query_scalar("select count(*) from journal.turn").fetch_one(&self.0).await?;
        Ok(LayerStats { counts: vec![("turns".into(), rows)], bytes: None })
    }
}

fn recall(text: String) -> Recall {
    Recall {
        id: RecallId(text.clone()),
        layer: LayerName::of("careless"),
        text,
        score: Score(1.0),
        citation: Citation("[C]".into()),
        provenance: Provenance::default(),
        neighbours: Vec::new(),
    }
}

/// Asks as the house's user, or for another as an admin may.
async fn asked(house: &House, query: &str, user: Option<&str>) -> Value {
    let request = house.ask("POST", "/v1/recall").json(&json!({ "query": query }));
    let request = match user {
        Some(name) => request.header("x-memory-user", name),
        None => request,
    };
    house.told(request, 200).await
}

fn texts(reply: &Value) -> Vec<&str> {
    reply["recalls"].as_array().unwrap().iter().filter_map(|recall| recall["text"].as_str()).collect()
}

#[tokio::test]
async fn code_without_the_filter_by_user_finds_what_is_the_askers_alone() {
    in_a_house_with_layer(
        |db| Arc::new(Careless(db)),
        |house| async move {
            house.post("/v1/users", json!({ "name": "berta" }), 200).await;
            let turn = json!({ "role": "user", "content": "anna's secret" });
            house.post("/v1/sessions/s/turns", turn, 201).await;
            let turn = json!({ "role": "user", "content": "berta's secret" });
            let turn = house.ask("POST", "/v1/sessions/s/turns").header("x-memory-user", "berta").json(&turn);
            house.told(turn, 201).await;

            for query in ["here", "in a task"] {
                assert_eq!(texts(&asked(&house, query, None).await), ["anna's secret"], "{query}");
                assert_eq!(texts(&asked(&house, query, Some("berta")).await), ["berta's secret"], "{query}");
            }
            let layers = house.get("/v1/layers").await;
            assert_eq!(layers["layers"][0]["counts"][0]["count"], 1, "{layers}");
            house
        },
    )
    .await;
}

#[tokio::test]
async fn a_task_that_forgot_whom_it_works_for_is_a_gap_and_no_empty_answer() {
    in_a_house_with_layer(
        |db| Arc::new(Careless(db)),
        |house| async move {
            let turn = json!({ "role": "user", "content": "anna's secret" });
            house.post("/v1/sessions/s/turns", turn, 201).await;

            let reply = asked(&house, "in a task that knows nothing", None).await;

            assert!(texts(&reply).is_empty(), "{reply}");
            assert_eq!(reply["gaps"][0]["of"], "careless", "{reply}");
            house
        },
    )
    .await;
}
