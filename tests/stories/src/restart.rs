//! The promise that nothing acknowledged is lost: over restarts.

use serde_json::json;
use skymem_harness::story;

#[test]
fn a_restart_changes_no_answer() {
    story(async |server| {
        for (question, answer) in [
            ("My sister lives in Porto.", "How nice."),
            ("The heron database listens on port 5544.", "Noted."),
            ("I prefer short answers.", "Fine."),
        ] {
            server.says("a", question, answer).await;
        }
        server
            .post("/v1/remember", json!({ "text": "My blood type is B negative.", "pinned": true }))
            .await
            .expect(201);
        server.catches_up().await;
        let recalls = async |server: &skymem_harness::TestServer| {
            let mut recalls = server.recall_as(json!({ "query": "heron port, sister, blood type" })).await;
            recalls["timings"] = json!(null);
            recalls
        };
        let before = (recalls(server).await, server.context_for("a", "Where does my sister live?").await);

        server.restarts().await;

        assert_eq!((recalls(server).await, server.context_for("a", "Where does my sister live?").await), before);
    });
}

#[test]
fn what_was_recorded_and_not_yet_learned_is_learned_after_a_restart() {
    story(async |server| {
        (**server).says("a", "The heron database listens on port 5544.", "Noted.").await;

        server.restarts().await;
        server.catches_up().await;

        assert!(server.context_for("b", "Which port does heron listen on?").await.contains("5544"));
    });
}

#[test]
fn the_window_is_the_same_after_a_restart() {
    story(async |server| {
        for number in 1..=6 {
            server.says("a", &format!("question {number}"), &format!("answer {number}")).await;
        }
        let request = json!({ "session": "a", "question": "and now?", "layers": ["files"], "window": 3 });
        let before = server.context_as(request.clone()).await["messages"].clone();

        server.restarts().await;

        let after = server.context_as(request).await["messages"].clone();
        assert_eq!(after, before);
        assert!(after.to_string().contains("question 4") && !after.to_string().contains("question 3"));
    });
}
