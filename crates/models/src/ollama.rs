//! Ollama's `/api/embed`.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::Dialect;

pub(crate) struct Ollama;

#[derive(Deserialize)]
struct Answer {
    embeddings: Vec<Vec<f32>>,
}

impl Dialect for Ollama {
    fn usual_url(&self) -> &'static str {
        "http://127.0.0.1:11434"
    }

    fn path(&self) -> &'static str {
        "/api/embed"
    }

    fn request(&self, model: &str, texts: &[String], shorten_to: Option<usize>) -> Value {
        // Unless told otherwise, Ollama cuts long texts without a word.
        let mut request = json!({ "model": model, "input": texts, "truncate": false });
        if let Some(dimensions) = shorten_to {
            request["dimensions"] = dimensions.into();
        }
        request
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vec<f32>>, String> {
        serde_json::from_slice::<Answer>(body).map(|answer| answer.embeddings).map_err(|error| error.to_string())
    }

    fn advice(&self, status: u16, model: &str) -> Option<String> {
        match status {
            404 => Some(format!("run `ollama pull {model}`")),
            _ => None,
        }
    }
}
