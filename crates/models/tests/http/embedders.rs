//! Embedders behind HTTP.

use serde_json::{Value, json};
use skymem_core::{ModelError, Purpose};
use skymem_models::{EmbedderKind, EmbedderSettings, Secret, open};

use crate::server::{Answer, Server, nobody};

/// One vector per text, `[length of the text, 1, 0]`, in OpenAI's form.
const VECTORS: Answer = Answer::Made(|body| json!({ "data": vectors(body) }));
/// The same, the last text first.
const BACKWARDS: Answer = Answer::Made(|body| json!({ "data": vectors(body).into_iter().rev().collect::<Vec<_>>() }));

fn vectors(body: &Value) -> Vec<Value> {
    let texts = body["input"].as_array().unwrap().iter().enumerate();
    texts.map(|(index, text)| json!({ "index": index, "embedding": [text.as_str().unwrap().len(), 1, 0] })).collect()
}

fn settings(server: &Server, kind: EmbedderKind) -> EmbedderSettings {
    EmbedderSettings {
        kind,
        model: Some("test-model".into()),
        url: Some(server.url.clone()),
        dimensions: Some(3),
        timeout_ms: 2_000,
        ..EmbedderSettings::default()
    }
}

async fn embed(server: &Server, texts: &[&str]) -> Result<Vec<Vec<f32>>, ModelError> {
    let embedder = open(&settings(server, EmbedderKind::OpenAi)).await?;
    let embeddings = embedder.embed(texts, Purpose::Passage).await?;
    Ok(embeddings.into_iter().map(|embedding| embedding.0).collect())
}

fn unit(length: usize) -> Vec<f32> {
    let norm = ((length * length + 1) as f32).sqrt();
    vec![length as f32 / norm, 1.0 / norm, 0.0]
}

fn same(vectors: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(vectors.len(), expected.len());
    for (a, b) in vectors.iter().flatten().zip(expected.iter().flatten()) {
        assert!((a - b).abs() < 1e-6, "{vectors:?} is not {expected:?}");
    }
}

#[tokio::test]
async fn vectors_come_back_in_order_and_of_length_one() {
    for answer in [VECTORS, BACKWARDS] {
        let server = Server::start(vec![answer]);

        let vectors = embed(&server, &["a", "four", "seventy"]).await.unwrap();

        same(&vectors, &[unit(1), unit(4), unit(7)]);
        let heard = server.heard.lock().unwrap();
        assert_eq!(heard[0].path, "/embeddings");
        assert_eq!(heard[0].body["model"], "test-model");
        assert_eq!(heard[0].authorization, None);
    }
}

#[tokio::test]
async fn a_server_without_indexes_answers_in_order() {
    let data = json!({ "data": [{ "embedding": [2, 0, 0] }, { "embedding": [0, 5, 0] }] });
    let server = Server::start(vec![Answer::Json(200, data)]);

    same(&embed(&server, &["x", "y"]).await.unwrap(), &[vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 0.0]]);
}

#[tokio::test]
async fn many_texts_go_in_batches_each_behind_its_prefix() {
    let server = Server::start(vec![VECTORS]);
    let settings = EmbedderSettings {
        batch_size: 2,
        passage_prefix: Some("12345".into()),
        key: Some(Secret("sk-1".into())),
        ..settings(&server, EmbedderKind::OpenAi)
    };
    let embedder = open(&settings).await.unwrap();

    let texts = ["", "1", "22", "333", "4444"];
    let embeddings = embedder.embed(&texts, Purpose::Passage).await.unwrap();

    let vectors: Vec<_> = embeddings.into_iter().map(|embedding| embedding.0).collect();
    same(&vectors, &[unit(5), unit(6), unit(7), unit(8), unit(9)]);
    assert_eq!(server.times_asked(), 3);
    assert_eq!(server.heard.lock().unwrap()[0].authorization.as_deref(), Some("Bearer sk-1"));
}

#[tokio::test]
async fn the_dimensions_are_asked_for_when_they_are_not_configured() {
    let server = Server::start(vec![VECTORS]);
    let settings = EmbedderSettings { dimensions: None, ..settings(&server, EmbedderKind::OpenAi) };

    let embedder = open(&settings).await.unwrap();

    assert_eq!((embedder.dimensions(), embedder.id().0.as_str()), (3, "test-model/3"));
}

#[tokio::test]
async fn a_busy_or_stumbling_server_is_asked_again() {
    for first in [Answer::Busy, Answer::text(503, "loading"), Answer::Nothing] {
        let server = Server::start(vec![first, VECTORS]);

        same(&embed(&server, &["a"]).await.unwrap(), &[unit(1)]);

        assert_eq!(server.times_asked(), 2);
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_given_up_and_may_be_asked_later() {
    let server = Server::start(vec![Answer::Busy]);

    let error = embed(&server, &["a"]).await.unwrap_err();

    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert_eq!(server.times_asked(), 3);
}

#[tokio::test]
async fn a_server_that_takes_too_long_is_asked_only_once() {
    let server = Server::start(vec![Answer::Slow]);
    let settings = EmbedderSettings { timeout_ms: 200, ..settings(&server, EmbedderKind::OpenAi) };
    let embedder = open(&settings).await.unwrap();

    let error = embedder.embed(&["a"], Purpose::Query).await.unwrap_err();

    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("timeout_ms"), "{error}");
    assert_eq!(server.times_asked(), 1);
}

#[tokio::test]
async fn a_refusal_is_final_and_says_what_to_do() {
    let no_key = json!({ "error": { "message": "Incorrect API key provided: sk-secret" } });
    for (answer, parts) in [
        (Answer::Json(401, no_key), ["test-model", "check `key`"]),
        (Answer::Json(404, json!({ "error": "no such model" })), ["no such model", "check `url`"]),
        (Answer::Json(400, json!({ "message": "input is too long" })), ["input is too long", "400"]),
        (Answer::text(413, ""), ["413", "batch_size"]),
        (Answer::text(301, "moved"), ["301", "final address"]),
    ] {
        let server = Server::start(vec![answer]);
        let settings =
            EmbedderSettings { key: Some(Secret("sk-secret".into())), ..settings(&server, EmbedderKind::OpenAi) };
        let embedder = open(&settings).await.unwrap();

        let error = embedder.embed(&["a"], Purpose::Query).await.unwrap_err();

        assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
        let error = error.to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
        assert_eq!(server.times_asked(), 1);
    }
}

#[tokio::test]
async fn nonsense_is_not_taken_for_a_vector() {
    let one = |embedding: Value| Answer::Json(200, json!({ "data": [{ "index": 0, "embedding": embedding }] }));
    for (answer, part) in [
        (Answer::text(200, "<html>"), "expected value"),
        (Answer::text(200, ""), "EOF"),
        (Answer::Json(200, json!({ "data": [] })), "0 vectors for 1"),
        (Answer::Json(200, json!({ "embeddings": [[1, 2, 3]] })), "missing field"),
        (Answer::Json(200, json!({ "data": [{ "index": 7, "embedding": [1, 2, 3] }] })), "numbered"),
        (one(json!([1, 2])), "2 numbers"),
        (one(json!([0, 0, 0])), "zeros"),
        (one(json!([1e39, 0, 0])), "infinities"),
        (one(json!([null, 1, 2])), "null"),
        (one(json!("AACAPwAAAEA=")), "expected a sequence"),
        (Answer::text(200, r#"{"data":[{"embedding":[NaN,1,2]}]}"#), "expected value"),
    ] {
        let server = Server::start(vec![answer]);

        let error = embed(&server, &["a"]).await.unwrap_err();

        assert!(matches!(error, ModelError::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn where_nobody_listens_it_opens_with_dimensions_and_says_so_without() {
    let settings = EmbedderSettings {
        kind: EmbedderKind::Ollama,
        model: Some("m".into()),
        url: Some(nobody()),
        dimensions: Some(3),
        ..EmbedderSettings::default()
    };

    let embedder = open(&settings).await.unwrap();
    let error = embedder.embed(&["a"], Purpose::Query).await.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("is it running"), "{error}");

    let error = open(&EmbedderSettings { dimensions: None, ..settings }).await.err().unwrap();
    assert!(error.to_string().contains("`dimensions`"), "{error}");
}

#[tokio::test]
async fn ollama_is_asked_in_its_own_words_and_never_to_cut() {
    let answer = json!({ "model": "test-model", "embeddings": [[3, 4, 0], [0, 0, 2]] });
    let server =
        Server::start(vec![Answer::Json(200, answer), Answer::Json(404, json!({ "error": "model not found" }))]);
    let embedder = open(&settings(&server, EmbedderKind::Ollama)).await.unwrap();

    let embeddings = embedder.embed(&["a", "b"], Purpose::Query).await.unwrap();
    let error = embedder.embed(&["c"], Purpose::Query).await.unwrap_err();

    assert_eq!(embeddings[0].0, [0.6, 0.8, 0.0]);
    assert!(error.to_string().contains("ollama pull test-model"), "{error}");
    let heard = server.heard.lock().unwrap();
    assert_eq!(heard[0].path, "/api/embed");
    assert_eq!(heard[0].body["truncate"], false);
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let good = EmbedderSettings {
        kind: EmbedderKind::OpenAi,
        model: Some("m".into()),
        dimensions: Some(3),
        ..EmbedderSettings::default()
    };
    assert!(open(&good).await.is_ok());
    for (bad, part) in [
        (EmbedderSettings { model: None, ..good.clone() }, "`model`"),
        (EmbedderSettings { model: Some(" ".into()), ..good.clone() }, "`model`"),
        (EmbedderSettings { url: Some("localhost:1".into()), ..good.clone() }, "`url`"),
        (EmbedderSettings { batch_size: 0, ..good.clone() }, "at least 1"),
        (EmbedderSettings { dimensions: None, shorten: true, ..good.clone() }, "`dimensions`"),
        (EmbedderSettings { key_file: Some("no/such/file".into()), ..good.clone() }, "key_file"),
    ] {
        let error = open(&bad).await.err().unwrap();
        assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_is_not_sent() {
    let server = Server::start(vec![VECTORS]);

    let error = embed(&server, &[&"word ".repeat(5_000)]).await.unwrap_err();

    assert!(error.to_string().contains("split"), "{error}");
    assert_eq!(server.times_asked(), 0);
}
