//! OpenAI's `/embeddings`, which llama.cpp, vLLM, LM Studio, text-embeddings-inference and many others speak too.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::Dialect;

pub(crate) struct OpenAi;

/// Of the answer only what is needed: servers differ in the rest.
#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Dialect for OpenAi {
    fn usual_url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn path(&self) -> &'static str {
        "/embeddings"
    }

    fn request(&self, model: &str, texts: &[String], shorten_to: Option<usize>) -> Value {
        let mut request = json!({ "model": model, "input": texts, "encoding_format": "float" });
        if let Some(dimensions) = shorten_to {
            request["dimensions"] = dimensions.into();
        }
        request
    }

    fn vectors(&self, body: &[u8]) -> Result<Vec<Vec<f32>>, String> {
        let mut items = serde_json::from_slice::<Answer>(body).map_err(|error| error.to_string())?.data;
        // Servers that leave the index out answer in order.
        for (place, item) in items.iter_mut().enumerate() {
            item.index.get_or_insert(place);
        }
        items.sort_by_key(|item| item.index);
        if items.iter().enumerate().any(|(place, item)| item.index != Some(place)) {
            return Err("its vectors are not numbered from 0 on, each once".into());
        }
        Ok(items.into_iter().map(|item| item.embedding).collect())
    }

    fn advice(&self, status: u16, _model: &str) -> Option<String> {
        match status {
            404 => Some("check `url` (it usually ends in /v1) and `model`".into()),
            _ => None,
        }
    }
}
