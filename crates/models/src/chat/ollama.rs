//! Ollama's `/api/chat`, answered in one piece.

use serde_json::{Value, json};
use skymem_core::ChatRequest;

use super::openai::{number, text};
use super::remote::{Asked, Dialect, Listed, Manner, Said};
use crate::http::message;

pub(super) struct Ollama;

impl Dialect for Ollama {
    fn usual_url(&self) -> &'static str {
        "http://127.0.0.1:11434"
    }

    fn path(&self) -> &'static str {
        "/api/chat"
    }

    fn models_path(&self) -> &'static str {
        "/api/tags"
    }

    fn request(&self, to: &Asked<'_>, question: &ChatRequest) -> Value {
        let mut options = json!({ "temperature": number(question.temperature), "num_predict": question.most_tokens });
        if to.context_tokens > 0 {
            options["num_ctx"] = to.context_tokens.into();
        }
        // Unless told otherwise, Ollama cuts long questions and drops the oldest of a long answer without a word, and
        // reasoning models spend their tokens on thinking. Versions that do not know these fields pass over them.
        let mut request = json!({
            "model": to.model,
            "messages": question.messages,
            "stream": false,
            "think": false,
            "truncate": false,
            "shift": false,
            "options": options,
        });
        if let Some(schema) = &question.schema {
            request["format"] = schema.clone();
        }
        request
    }

    /// Of the answer only what is needed: versions differ in the rest.
    fn said(&self, body: &[u8]) -> Result<Said, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let Some(reply) = answer.get("message").filter(|reply| reply.is_object()) else {
            return Err(match message(body) {
                why if why.is_empty() => "it has no message".into(),
                why => why,
            });
        };
        let is = |key: &str, value: Value| answer.get(key) == Some(&value);
        let count = |key: &str| answer.get(key).and_then(Value::as_u64);
        // A question that Ollama has in its cache is not counted by some versions: then there is no sum.
        let tokens =
            count("prompt_eval_count").zip(count("eval_count")).map(|(asked, said)| asked.saturating_add(said));
        Ok(Said {
            text: reply.get("content").map(text).unwrap_or_default(),
            whole: !is("done", json!(false)) && !is("done_reason", json!("length")),
            tokens,
        })
    }

    fn listed(&self, body: &[u8]) -> Result<Listed, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let models = answer.get("models").and_then(Value::as_array).ok_or("it is no list of models")?;
        let mut names = Vec::new();
        for model in models {
            let Some(name) = ["name", "model"].iter().find_map(|key| model.get(key)?.as_str()) else { continue };
            names.push(name.to_owned());
            // `llama3.2` is asked for, `llama3.2:latest` is listed.
            names.extend(name.strip_suffix(":latest").map(str::to_owned));
        }
        Ok(Listed { names, any_name: false })
    }

    fn milder(&self, _: Manner, _: &str, _: &ChatRequest) -> Option<Manner> {
        None
    }

    fn advice(&self, status: u16, model: &str) -> Option<String> {
        match status {
            404 => Some(format!("run `ollama pull {model}`; `url` has no /v1 at its end")),
            _ => None,
        }
    }

    fn fetched_by(&self, model: &str) -> String {
        format!("run `ollama pull {model}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: Value, expected: (&str, bool, Option<u64>)) {
        let said = Ollama.said(body.to_string().as_bytes()).unwrap();
        assert_eq!((said.text.as_str(), said.whole, said.tokens), expected, "{body}");
    }

    #[test]
    fn an_answer_is_read_whatever_a_version_leaves_out() {
        let full = json!({
            "message": { "role": "assistant", "content": "yes", "thinking": "hm" },
            "done": true, "done_reason": "stop", "prompt_eval_count": 4, "eval_count": 3,
        });
        check(full, ("yes", true, Some(7)));
        check(json!({ "message": { "content": "yes" } }), ("yes", true, None));
        check(json!({ "message": { "content": null }, "done": "yes", "eval_count": -1 }), ("", true, None));
        check(json!({ "message": { "content": [{ "text": "a" }, "b"] } }), ("ab", true, None));
        check(json!({ "message": { "content": "ye" }, "done_reason": "length" }), ("ye", false, None));
        check(json!({ "message": { "content": "ye" }, "done": false }), ("ye", false, None));
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for (body, part) in [
            ("", "EOF"),
            ("{}", "no message"),
            (r#"{"error": "fell over"}"#, "fell over"),
            (r#"{"message": {"content": "a"}}{"message": {"content": "b"}}"#, "trailing"),
            (r#"{"message": "fell over"}"#, "fell over"),
            (r#"{"message": 5}"#, "no message"),
            ("[]", "no message"),
        ] {
            let error = Ollama.said(body.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{body}: {error}");
        }
    }

    #[test]
    fn a_model_is_found_with_and_without_its_tag() {
        let body = json!({ "models": [{ "name": "llama3.2:latest" }, { "model": "qwen3:4b" }, {}] });
        let names = Ollama.listed(body.to_string().as_bytes()).unwrap().names;
        assert_eq!(names, ["llama3.2:latest", "llama3.2", "qwen3:4b"]);
        assert!(Ollama.listed(b"{}").is_err());
    }
}
