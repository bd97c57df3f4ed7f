//! The local models against vectors of other implementations.
//!
//! `reference-e5.json` holds vectors of the C program that the weights were published with (it rounds its activations to
//! eight bits, hence the tolerance); `reference-minilm.json` those of a plain implementation of BERT in NumPy.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]

use std::path::{Path, PathBuf};

use serde::Deserialize;
use skymem_core::{Embedder, Embedding, ModelError, Purpose};
use skymem_models::{EmbedderSettings, open};

#[derive(Deserialize)]
struct Reference {
    text: String,
    purpose: String,
    vector: Vec<f32>,
}

fn models() -> PathBuf {
    let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    std::env::var_os("SKYMEM_MODEL_DIR").map_or(usual, PathBuf::from)
}

async fn e5() -> std::sync::Arc<dyn Embedder> {
    let file = models().join("e5-small-q4.bin");
    assert!(file.is_file(), "{} is not there: run `make setup` first", file.display());
    open(&EmbedderSettings { folder: models(), threads: 1, ..EmbedderSettings::default() }).await.unwrap()
}

async fn check(embedder: &dyn Embedder, references: &str, least: f32) {
    let references: Vec<Reference> = serde_json::from_str(references).unwrap();
    assert!(!references.is_empty());
    for Reference { text, purpose, vector } in references {
        let purpose = if purpose == "query" { Purpose::Query } else { Purpose::Passage };
        let own = embedder.embed(&[&text], purpose).await.unwrap().remove(0);
        let length = own.cosine(&own);
        let cosine = own.cosine(&Embedding(vector));
        assert!((length - 1.0).abs() < 1e-4, "{text:?}: length {length}");
        assert!(cosine >= least, "{text:?} as {purpose:?}: cosine {cosine}");
    }
}

#[tokio::test]
async fn e5_answers_like_the_program_it_was_published_with() {
    check(&*e5().await, include_str!("reference-e5.json"), 0.9995).await;
}

#[tokio::test]
async fn minilm_answers_like_a_plain_implementation() {
    if !models().join("all-minilm-l6-v2/model.safetensors").is_file() {
        eprintln!("skipped: the model is optional; `scripts/setup minilm` fetches it");
        return;
    }
    let settings = EmbedderSettings {
        model: Some("all-minilm-l6-v2".into()),
        folder: models(),
        threads: 1,
        ..EmbedderSettings::default()
    };
    let embedder = open(&settings).await.unwrap();

    assert_eq!(embedder.id().0, "all-minilm-l6-v2/384");
    assert_eq!(embedder.longest_text(), 254);
    check(&*embedder, include_str!("reference-minilm.json"), 0.9999).await;
}

#[tokio::test]
async fn texts_embedded_together_have_the_vectors_they_have_alone() {
    let embedder = e5().await;
    let texts = ["short", "a rather longer text about nothing in particular", "", "我喜欢爬山", "tail"];

    let together = embedder.embed(&texts, Purpose::Passage).await.unwrap();

    let apart =
        open(&EmbedderSettings { folder: models(), threads: 1, cache_entries: 0, ..Default::default() }).await.unwrap();
    for (text, vector) in texts.iter().zip(together) {
        let alone = apart.embed(&[text], Purpose::Passage).await.unwrap().remove(0);
        assert!(alone.cosine(&vector) > 0.9999, "{text:?}");
    }
}

#[tokio::test]
async fn a_text_of_just_the_longest_length_is_read_and_a_longer_one_is_refused() {
    let embedder = e5().await;
    let longest = embedder.longest_text();
    let text = |words| vec!["tree"; words].join(" ");
    assert_eq!(embedder.count_tokens(&text(longest)), longest);

    assert!(embedder.embed(&[&text(longest)], Purpose::Passage).await.is_ok());
    assert!(embedder.embed(&[&text(longest)], Purpose::Query).await.is_ok());
    let refused = embedder.embed(&["fine", &text(longest + 1)], Purpose::Passage).await;
    assert!(matches!(&refused, Err(ModelError::Refused(why)) if why.contains("split")), "{refused:?}");
}

#[tokio::test]
async fn a_question_finds_its_answer_in_another_language() {
    let embedder = e5().await;
    let answers = [
        "Mein Zahnarzttermin ist am Donnerstag um drei.",
        "我们用 PostgreSQL 存储对话。",
        "The cat sleeps on the sofa.",
    ];
    let answers = embedder.embed(&answers, Purpose::Passage).await.unwrap();

    for (question, expected) in
        [("When do I see the dentist?", 0), ("Welche Datenbank nutzen wir?", 1), ("猫在哪里睡觉？", 2)]
    {
        let question_vector = embedder.embed(&[question], Purpose::Query).await.unwrap().remove(0);
        let best =
            (0..3).max_by(|&a, &b| question_vector.cosine(&answers[a]).total_cmp(&question_vector.cosine(&answers[b])));
        assert_eq!(best, Some(expected), "{question}");
    }
}

#[tokio::test]
async fn odd_texts_have_vectors_too() {
    let embedder = e5().await;

    for text in ["", " ", "\u{0}", "</s><s><mask>", "\u{FEFF}\u{200B}", "👩‍👩‍👧🇩🇪", "𒀀𒀁𒀂", "e\u{301}\u{301}\u{301}"]
    {
        let vector = embedder.embed(&[text], Purpose::Query).await.unwrap().remove(0);
        assert_eq!(vector.0.len(), 384, "{text:?}");
    }
}

#[tokio::test]
async fn without_its_file_it_opens_and_says_what_to_do() {
    let folder = PathBuf::from("no/such/folder");
    let embedder = open(&EmbedderSettings { folder, ..EmbedderSettings::default() }).await.unwrap();

    assert_eq!(embedder.id().0, "e5-small-q4/384");
    let error = embedder.embed(&["question"], Purpose::Query).await.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    for part in ["no/such/folder/e5-small-q4.bin", "make setup"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_told_from_a_missing_one() {
    let folder = std::env::temp_dir().join(format!("skymem-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let whole = std::fs::read(models().join("e5-small-q4.bin")).expect("run `make setup` first");
    let cases: [&[u8]; 6] =
        [b"", b"not a model", &whole[..40], &whole[..5_000_000], &whole[..whole.len() - 1], &[0xFF; 4096]];
    for bytes in cases {
        std::fs::write(folder.join("e5-small-q4.bin"), bytes).unwrap();
        let embedder = open(&EmbedderSettings { folder: folder.clone(), ..Default::default() }).await.unwrap();
        let error = embedder.embed(&["question"], Purpose::Query).await.unwrap_err().to_string();
        assert!(error.contains("cannot be used") && error.contains("make setup"), "{} bytes: {error}", bytes.len());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_the_known_ones() {
    let settings = EmbedderSettings { model: Some("e5-huge".into()), ..EmbedderSettings::default() };
    let error = open(&settings).await.err().unwrap();

    assert!(error.to_string().contains("e5-small-q4 and all-minilm-l6-v2"), "{error}");
}
