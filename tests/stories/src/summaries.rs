//! The promise of the summary: what left the window is not lost, with or without a model, and what is forgotten is.

use serde_json::{Value, json};
use skymem::config::Config;
use skymem_harness::{Answer, TestServer, Upstream, story_with};

const QUESTION: &str = "Where were we?";

/// Summaries alone.
fn only(config: &mut Config) {
    config.layers.retain(|layer, _| layer == "summaries");
}

/// Summaries alone, and a chat model behind `upstream`.
fn with_model(config: &mut Config, upstream: &Upstream) {
    only(config);
    config.chat.kind = serde_json::from_value(json!("openai")).unwrap();
    config.chat.url = Some(upstream.url());
    config.chat.model = Some("scripted".into());
}

/// A conversation in which the second exchange matters; its id, and the context at its end.
async fn conversation(server: &TestServer, session: &str, exchanges: usize) -> (uuid::Uuid, String) {
    server.says(session, "I need help with the garden plan.", "Gladly.").await;
    let text = "The order number is ABC-1234. We decided to plant plum trees.";
    let second = server.says(session, text, "Noted, plum trees it is.").await;
    for number in 2..exchanges {
        let text = format!("Then bed {number} gets some other kind of vegetable.");
        server.says(session, &text, "That sounds like a good place for it.").await;
    }
    (second, server.context_for(session, QUESTION).await)
}

#[test]
fn what_was_said_long_ago_in_a_session_is_in_its_context_though_the_window_is_short() {
    story_with(only, async |server| {
        let (_, context) = conversation(server, "plan", 20).await;

        for kept in ["ABC-1234", "We decided to plant plum trees.", "Then bed 19 gets"] {
            assert!(context.contains(kept), "{kept} is not in {context}");
        }
        let messages = server.context("plan", QUESTION).await["messages"].clone();
        assert_eq!(messages.as_array().unwrap().len(), 1 + 2 * 4 + 1, "the account, four exchanges, the question");

        server.restarts().await;

        assert_eq!(server.context_for("plan", QUESTION).await, context);
        assert!(!server.context_for("other", QUESTION).await.contains("ABC-1234"));
    });
}

#[test]
fn the_window_is_shortened_only_after_what_leaves_it_was_folded() {
    story_with(only, async |server| {
        for number in 0..7 {
            server.says("plan", &format!("This is step {number}0."), "Fine.").await;
            let context = server.context_for("plan", QUESTION).await;
            assert!(
                (0..=number).all(|step| context.contains(&format!("This is step {step}0."))),
                "{number}: {context}"
            );
        }
        let text = "This is step 70.";
        server.tells("plan", "user", text).await.expect(201);
        server.tells("plan", "assistant", "Fine.").await.expect(201);
        let before = server.context("plan", QUESTION).await["messages"].as_array().unwrap().len();

        server.catches_up().await;

        let context = server.context("plan", QUESTION).await;
        assert_eq!(before, 2 * 8 + 1, "nothing is folded yet");
        assert_eq!(context["messages"].as_array().unwrap().len(), 1 + 2 * 4 + 1);
        let account = context["messages"][0]["content"].as_str().unwrap();
        assert!((0..4).all(|step| account.contains(&format!("This is step {step}0."))), "{account}");
    });
}

#[test]
fn what_is_forgotten_is_in_no_summary_at_once_and_stays_out() {
    story_with(only, async |server| {
        let (second, context) = conversation(server, "plan", 20).await;
        assert!(context.contains("ABC-1234"));
        let gone = async |server: &TestServer| {
            let context = server.context_for("plan", QUESTION).await;
            assert!(!context.contains("ABC-1234") && !context.contains("plum"), "{context}");
        };

        server.post("/v1/forget", json!({ "ids": [second] })).await.expect(200);
        gone(server).await;
        server.catches_up().await;
        server.memory().upkeep().await.unwrap();
        gone(server).await;
        server.says("plan", "Then there is bed 20.", "Yes.").await;
        gone(server).await;
        let user = server.memory().user_named(&"me".parse().unwrap()).await.unwrap().unwrap().id;
        server.memory().reset_layer(user, "summaries").await.unwrap();
        server.catches_up().await;
        gone(server).await;

        server.post("/v1/restore", json!({ "ids": [second] })).await.expect(200);
        server.catches_up().await;
        assert!(server.context_for("plan", QUESTION).await.contains("ABC-1234"));
    });
}

#[test]
fn a_model_words_the_summary_and_what_must_survive_survives_it() {
    let upstream = Upstream::says(r#"{"summary": "They plan a garden.", "decisions": ["Plum trees are planted"]}"#);
    story_with(
        |config| with_model(config, &upstream),
        async |server| {
            let (second, context) = conversation(server, "plan", 20).await;

            for kept in ["They plan a garden.", "Plum trees are planted", "ABC-1234"] {
                assert!(context.contains(kept), "{kept} is not in {context}");
            }
            let heard = upstream.heard();
            // The question of the context is put to the model, too, to be made self-contained.
            let folds = heard.iter().filter(|heard| heard.text().contains("the running summary"));
            let asked: Vec<Value> = folds.map(|heard| heard.json()).collect();
            assert_eq!(asked.len(), 4, "every fourth exchange beyond the window");
            assert!(asked.iter().all(|body| body["temperature"].as_f64() == Some(0.0)), "{asked:#?}");

            server.post("/v1/forget", json!({ "ids": [second] })).await.expect(200);
            let without = server.context_for("plan", QUESTION).await;
            assert!(!without.contains("ABC-1234") && !without.contains("Plum"), "{without}");
        },
    );
}

#[test]
fn a_model_that_fails_hangs_or_babbles_changes_nothing_but_the_wording() {
    let answers: [fn() -> Answer; 6] = [
        || Answer::says("Here is your summary: they talked."),
        || Answer::says(r#"{"summary": "", "decisions": []}"#),
        || Answer::says(r#"{"summary": "I'm sorry, I cannot help with that."}"#),
        Answer::breaks,
        Answer::garbage,
        Answer::hangs,
    ];
    for answer in answers {
        let upstream = Upstream::answers(move |_| answer());
        let configured = |config: &mut Config| {
            with_model(config, &upstream);
            let own = config.layers.get_mut("summaries").unwrap();
            own.insert("model_deadline_seconds".into(), 1.into());
        };
        story_with(configured, async |server| {
            let (_, context) = conversation(server, "plan", 9).await;

            for kept in ["ABC-1234", "We decided to plant plum trees.", "I need help with the garden plan."] {
                assert!(context.contains(kept), "{kept} is not in {context}");
            }
            assert!(upstream.calls() > 0);
            let layers = server.get("/v1/layers").await.expect(200);
            assert!(!layers.to_string().contains("plum"), "{layers}");
        });
    }
}

#[test]
fn the_account_begins_with_the_same_bytes_while_a_conversation_grows() {
    story_with(only, async |server| {
        let (_, context) = conversation(server, "plan", 12).await;
        let beginning = |context: &str| context.split("\n\n").take(2).collect::<Vec<_>>().join("\n\n");
        let before = beginning(&context);
        assert!(before.contains("We decided to plant plum trees."), "{before}");

        for number in 12..24 {
            server.says("plan", &format!("Bed {number} is next."), "Fine.").await;
            server.days_pass(1);
        }

        assert_eq!(beginning(&server.context_for("plan", QUESTION).await), before);
    });
}

#[test]
fn an_explanation_tells_the_versions_of_a_summary_and_who_made_them() {
    story_with(only, async |server| {
        conversation(server, "plan", 16).await;

        let context =
            server.context_as(json!({ "session": "plan", "question": QUESTION, "explain": true })).await.to_string();

        assert!(context.contains("summary:plan#2") && context.contains("(extractive, until "), "{context}");
    });
}
