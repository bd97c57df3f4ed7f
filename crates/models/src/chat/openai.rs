//! OpenAI's `/chat/completions`, which llama.cpp, vLLM, LM Studio, OpenRouter and many others speak too.

use serde_json::{Value, json};
use skymem_core::ChatRequest;

use super::remote::{Asked, Dialect, Json, Listed, Manner, Said};
use crate::http::message;

pub(super) struct OpenAi;

impl Dialect for OpenAi {
    fn usual_url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn path(&self) -> &'static str {
        "/chat/completions"
    }

    fn models_path(&self) -> &'static str {
        "/models"
    }

    fn request(&self, to: &Asked<'_>, question: &ChatRequest) -> Value {
        let mut request = json!({ "model": to.model, "messages": question.messages, "stream": false });
        let most = if to.manner.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        request[most] = question.most_tokens.into();
        if !to.manner.no_temperature {
            request["temperature"] = number(question.temperature);
        }
        if let Some(schema) = &question.schema {
            match to.manner.json {
                // Not strict: the strict mode refuses schemas with bounds, and ours have bounds.
                Json::Schema => {
                    let schema = json!({ "name": question.purpose, "schema": schema });
                    request["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
                }
                Json::Any => request["response_format"] = json!({ "type": "json_object" }),
                Json::Unasked => {}
            }
        }
        request
    }

    /// Of the answer only what is needed: servers differ in the rest.
    fn said(&self, body: &[u8]) -> Result<Said, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let Some(choice) = answer.pointer("/choices/0") else {
            // Relays answer 200 and put the error of the model behind them into the body.
            return Err(match message(body) {
                why if why.is_empty() => "it has no choices".into(),
                why => why,
            });
        };
        let finish = choice.pointer("/finish_reason").and_then(Value::as_str).unwrap_or_default();
        let text = choice.pointer("/message/content").or_else(|| choice.get("text")).map(text).unwrap_or_default();
        let whole = !matches!(finish, "length" | "max_tokens" | "MAX_TOKENS" | "content_filter");
        let usage = |key: &str| answer.pointer("/usage")?.get(key)?.as_u64();
        let parts = || Some(usage("prompt_tokens")?.saturating_add(usage("completion_tokens")?));
        Ok(Said { text, whole, tokens: usage("total_tokens").or_else(parts) })
    }

    fn listed(&self, body: &[u8]) -> Result<Listed, String> {
        let answer: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let models = answer.get("data").unwrap_or(&answer).as_array().ok_or("it is no list of models")?;
        let word = |model: &Value, key: &str| model.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut names: Vec<String> = models.iter().filter_map(|model| word(model, "id")).collect();
        // Google's list names `models/x` what is asked for as `x`.
        names.extend(names.clone().iter().filter_map(|name| name.strip_prefix("models/")).map(str::to_owned));
        // llama.cpp has one model, named after its file, and answers to any name.
        let one_for_all = models.iter().all(|model| word(model, "owned_by").as_deref() == Some("llamacpp"));
        Ok(Listed { any_name: one_for_all || names.is_empty(), names })
    }

    fn milder(&self, manner: Manner, complaint: &str, question: &ChatRequest) -> Option<Manner> {
        let complaint = complaint.to_lowercase();
        let about = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
        if about(&["max_completion_tokens"]) && !manner.completion_tokens {
            return Some(Manner { completion_tokens: true, ..manner });
        }
        if about(&["temperature"]) && !manner.no_temperature {
            return Some(Manner { no_temperature: true, ..manner });
        }
        if question.schema.is_some() && about(&["response_format", "json_schema", "json schema", "json_object"]) {
            let json = match manner.json {
                Json::Schema => Json::Any,
                Json::Any => Json::Unasked,
                Json::Unasked => return None,
            };
            return Some(Manner { json, ..manner });
        }
        None
    }

    fn advice(&self, status: u16, _model: &str) -> Option<String> {
        match status {
            402 => Some("the account behind `key` has nothing left".into()),
            404 => Some("check `url` (it usually ends in /v1) and `model`".into()),
            _ => None,
        }
    }

    fn fetched_by(&self, _model: &str) -> String {
        "load it there".into()
    }
}

/// A content: words, parts of which some are words, or nothing.
pub(super) fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()))
            .collect::<Vec<_>>()
            .concat(),
        _ => String::new(),
    }
}

/// `0.1` as it is written, not as the nearest binary fraction.
pub(super) fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().ok().filter(|number| number.is_finite()).map_or(json!(0), |number| json!(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(schema: bool) -> ChatRequest {
        ChatRequest {
            purpose: "test",
            messages: Vec::new(),
            temperature: 0.1,
            most_tokens: 7,
            schema: schema.then(|| json!({ "type": "object" })),
        }
    }

    #[track_caller]
    fn check(body: Value, expected: (&str, bool, Option<u64>)) {
        let said = OpenAi.said(body.to_string().as_bytes()).unwrap();
        assert_eq!((said.text.as_str(), said.whole, said.tokens), expected, "{body}");
    }

    #[test]
    fn an_answer_is_read_whatever_a_server_leaves_out_or_adds() {
        let of =
            |message: Value, finish: Value| json!({ "choices": [{ "message": message, "finish_reason": finish }] });
        check(of(json!({ "content": "yes" }), json!("stop")), ("yes", true, None));
        check(of(json!({ "content": "yes" }), json!("eos_token")), ("yes", true, None));
        check(of(json!({ "content": "yes" }), json!(7)), ("yes", true, None));
        check(json!({ "choices": [{ "message": { "content": "yes" } }] }), ("yes", true, None));
        check(json!({ "choices": [{ "text": "yes" }] }), ("yes", true, None));
        check(of(json!({ "content": "ye" }), json!("length")), ("ye", false, None));
        check(of(json!({ "content": "ye" }), json!("content_filter")), ("ye", false, None));
        check(of(json!({ "content": null, "tool_calls": [] }), json!("tool_calls")), ("", true, None));
        let parts = json!([{ "type": "text", "text": "a" }, { "type": "image" }, "b", 5]);
        check(of(json!({ "content": parts }), json!("stop")), ("ab", true, None));
    }

    #[test]
    fn what_it_cost_is_read_where_it_is_said() {
        let of = |usage: Value| json!({ "choices": [{ "message": { "content": "y" } }], "usage": usage });
        check(of(json!({ "total_tokens": 9 })), ("y", true, Some(9)));
        check(of(json!({ "prompt_tokens": 4, "completion_tokens": 3 })), ("y", true, Some(7)));
        check(of(json!({ "prompt_tokens": u64::MAX, "completion_tokens": 3 })), ("y", true, Some(u64::MAX)));
        for nonsense in [json!(null), json!("many"), json!({ "total_tokens": -3 }), json!({ "total_tokens": "9" })] {
            check(of(nonsense), ("y", true, None));
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for (body, part) in [
            ("", "EOF"),
            ("<html>", "expected value"),
            ("{}", "no choices"),
            (r#"{"choices": []}"#, "no choices"),
            (r#"{"error": {"message": "the model fell over"}}"#, "fell over"),
            (r#"{"choices": [{"message""#, "EOF"),
        ] {
            let error = OpenAi.said(body.as_bytes()).unwrap_err();
            assert!(error.contains(part), "{body}: {error}");
        }
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(OpenAi.said(deep.as_bytes()).is_err());
    }

    #[test]
    fn a_server_that_will_not_have_something_is_asked_without_it() {
        let next = |manner, complaint, schema| OpenAi.milder(manner, complaint, &question(schema));
        let start = Manner::default();
        let said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.";
        let renamed = Manner { completion_tokens: true, ..start };
        assert_eq!(next(start, said, false), Some(renamed));
        assert_eq!(next(renamed, said, false), None, "it was heeded already");
        let said = "Unsupported value: 'temperature' does not support 0 with this model.";
        assert_eq!(next(start, said, false), Some(Manner { no_temperature: true, ..start }));
        let said = "This response_format type is unavailable now";
        let any = Manner { json: Json::Any, ..start };
        let unasked = Manner { json: Json::Unasked, ..start };
        assert_eq!(next(start, said, true), Some(any));
        assert_eq!(next(any, said, true), Some(unasked));
        assert_eq!(next(unasked, said, true), None);
        assert_eq!(next(start, said, false), None, "nothing of it was asked for");
        assert_eq!(next(start, "input is too long", true), None);
    }

    #[test]
    fn a_request_is_made_in_the_manner_of_the_server() {
        let make = |manner, schema| OpenAi.request(&Asked { model: "m", context_tokens: 0, manner }, &question(schema));
        let usual = make(Manner::default(), true);
        assert_eq!(usual["max_tokens"], 7);
        assert_eq!(usual["temperature"].to_string(), "0.1");
        assert_eq!(usual["response_format"]["json_schema"]["schema"]["type"], "object");
        assert_eq!(make(Manner::default(), false).get("response_format"), None);
        let other = make(Manner { completion_tokens: true, no_temperature: true, json: Json::Any }, true);
        assert_eq!(other["max_completion_tokens"], 7);
        assert_eq!((other.get("max_tokens"), other.get("temperature")), (None, None));
        assert_eq!(other["response_format"], json!({ "type": "json_object" }));
        assert_eq!(make(Manner { json: Json::Unasked, ..Manner::default() }, true).get("response_format"), None);
    }

    #[test]
    fn lists_of_models_are_read_in_their_many_forms() {
        let listed = |body: Value| OpenAi.listed(body.to_string().as_bytes());
        let two = json!({ "data": [{ "id": "a" }, { "id": "models/b" }, { "name": 5 }] });
        assert_eq!(
            listed(two).unwrap(),
            Listed { names: vec!["a".into(), "models/b".into(), "b".into()], any_name: false }
        );
        assert_eq!(listed(json!([{ "id": "a" }])).unwrap().names, ["a"]);
        let llama = json!({ "data": [{ "id": "/models/q.gguf", "owned_by": "llamacpp" }] });
        assert!(listed(llama).unwrap().any_name);
        assert!(listed(json!({ "data": [] })).unwrap().any_name);
        assert!(listed(json!({ "data": 5 })).is_err());
        assert!(listed(json!("hello")).is_err());
    }
}
