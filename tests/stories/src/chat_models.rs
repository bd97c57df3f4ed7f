//! A language model makes memory better, never possible: whatever it does, the server is ready.

use serde_json::Value;
use skymem_harness::{TestServer, Upstream, story, story_with};
use skymem_models::{ChatKind, RewriterSettings};

/// How the chat models are, once the server has looked at them.
async fn chat_models(server: &TestServer) -> Vec<Value> {
    let mut last = Vec::new();
    // A model that takes its time is not waited for: each answer comes soon, and says so.
    for _ in 0..200 {
        last = server.get("/v1/health").await.expect(200)["chat"].as_array().unwrap().clone();
        let unknown = |model: &Value| model["fault"].as_str().is_some_and(|fault| fault.contains("no sign of life"));
        if !last.iter().any(unknown) {
            break;
        }
    }
    last
}

#[test]
fn without_a_model_there_is_none_and_nothing_is_wrong() {
    story(async |server| {
        let ready = server.without_key().get("/health/ready").await.expect(200);

        assert_eq!((&ready["chat"], &ready["faults"]), (&serde_json::json!([]), &serde_json::json!([])));
    });
}

#[test]
fn a_chat_model_that_is_away_leaves_the_server_ready_and_says_so() {
    let mut upstream = Upstream::says("hello");
    upstream.dies();
    let url = upstream.ollama_url();
    let away = |config: &mut skymem::config::Config| {
        config.chat.kind = ChatKind::Ollama;
        config.chat.url = Some(url);
        config.chat.model = Some("llama3.2:3b".into());
    };
    story_with(away, async |server| {
        server.says("a", "my dog is Rex", "nice").await;

        let models = chat_models(server).await;
        let ready = server.without_key().get("/health/ready").await.expect(200);
        let context = server.context_for("b", "what is my dog called?").await;

        assert_eq!((models.len(), &models[0]["model"]), (1, &"llama3.2:3b".into()), "one model for everything");
        assert_eq!(models[0]["answers"], false);
        assert!(models[0]["fault"].as_str().unwrap().contains("is it running"), "{models:?}");
        assert!(ready["faults"][0].as_str().unwrap().contains("llama3.2:3b"), "{ready}");
        assert_eq!(ready["chat"][0]["answers"], false);
        assert!(context.contains("Rex"), "{context}");
    });
}

#[test]
fn every_chat_model_is_looked_at_and_asked_nothing_for_it() {
    let upstream = Upstream::says("hello").with_models(&["large"]);
    let url = upstream.url();
    let two = |config: &mut skymem::config::Config| {
        config.chat.kind = ChatKind::OpenAi;
        config.chat.url = Some(url);
        config.chat.model = Some("large".into());
        config.chat.rewriter = RewriterSettings { model: Some("small".into()), ..RewriterSettings::default() };
    };
    story_with(two, async |server| {
        let models = chat_models(server).await;

        assert_eq!((&models[0]["role"], &models[0]["answers"]), (&"main".into(), &true.into()), "{models:?}");
        assert_eq!((&models[1]["role"], &models[1]["answers"]), (&"rewriter".into(), &false.into()), "{models:?}");
        assert!(models[1]["fault"].as_str().unwrap().contains("has no model \"small\""), "{models:?}");
        assert_eq!(upstream.calls(), 0);
    });
}

#[test]
fn a_restart_gives_nothing_of_the_days_tokens_back() {
    let upstream = Upstream::says("What does Rex eat?");
    let url = upstream.url();
    // For rewriting alone: nothing but the questions below costs anything.
    let capped = |config: &mut skymem::config::Config| {
        config.chat.rewriter = RewriterSettings {
            kind: Some(ChatKind::OpenAi),
            url: Some(url),
            model: Some("small".into()),
            daily_tokens: Some(1),
            ..RewriterSettings::default()
        };
    };
    story_with(capped, async |server| {
        server.says("a", "my dog is called Rex", "nice").await;
        server.context("a", "what does he eat?").await;
        assert_eq!(upstream.calls(), 1, "the first question of the day may be asked");

        server.restarts().await;
        let context = server.context("a", "what does he drink?").await;

        assert_eq!(upstream.calls(), 1, "{context}");
        let fault = |models: &[Value]| models[0]["fault"].as_str().unwrap_or_default().to_owned();
        assert!(fault(&chat_models(server).await).contains("chat.rewriter.daily_tokens"), "{context}");

        server.days_pass(1);
        server.context("a", "what does he eat now?").await;
        assert_eq!(upstream.calls(), 2);
    });
}
