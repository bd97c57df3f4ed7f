//! What a chat model is to read for facts: it may fail, in sight, and the rest goes on.

use serde_json::{Value, json};
use skymem_harness::{Client, Upstream, story_with};
use skymem_models::ChatKind;

/// What the layer of facts has set aside.
async fn parked(client: &Client) -> Vec<Value> {
    let layers = client.get("/v1/layers").await.expect(200);
    let layers = layers["layers"].as_array().unwrap();
    let facts = layers.iter().find(|layer| layer["name"] == "facts").unwrap();
    facts["parked"].as_array().unwrap().clone()
}

#[test]
fn what_a_model_cannot_read_is_set_aside_in_sight_and_tried_again_when_told() {
    let upstream = Upstream::says("I would rather not answer in JSON.");
    let url = upstream.url();
    let reading = |config: &mut skymem::config::Config| {
        config.chat.kind = ChatKind::OpenAi;
        config.chat.url = Some(url);
        config.chat.model = Some("large".into());
        config.layers.get_mut("facts").unwrap().insert("extract_with_model".into(), true.into());
    };
    story_with(reading, async |server| {
        let said = server.says("a", "Petra took over the night shift from Ben at the observatory.", "I see.").await;

        server.memory().upkeep().await.unwrap();

        let aside = parked(server).await;
        assert_eq!(aside.len(), 1, "{aside:#?}");
        assert_eq!(aside[0]["exchange"], json!(said));
        assert!(aside[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{aside:#?}");
        assert!(aside[0]["attempts"].as_u64().is_some_and(|attempts| attempts >= 1), "{aside:#?}");
        let bob = server.other_user("bob").await;
        assert_eq!(parked(&bob).await, Vec::<Value>::new());
        assert_eq!(bob.post("/v1/layers/facts/retry", json!({})).await.expect(200)["retried"], 0);

        let asked = upstream.calls();
        assert_eq!(server.post("/v1/layers/facts/retry", json!({})).await.expect(200)["retried"], 1);
        assert_eq!(parked(server).await, Vec::<Value>::new());
        server.memory().upkeep().await.unwrap();
        assert!(upstream.calls() > asked, "it is asked again");
        assert_eq!(parked(server).await.len(), 1);
        server.post("/v1/forget", json!({ "ids": [said] })).await.expect(200);
        assert_eq!(parked(server).await, Vec::<Value>::new(), "nothing of what was forgotten waits");
    });
}
