//! The scripted model server as a program, for tests in other languages: the name of the model chooses the script.
//!
//! ```sh
//! cargo run -p skymem-harness --example upstream [ADDRESS]
//! ```
//!
//! Prints where it is, and serves until it is killed.

use std::process::ExitCode;

use serde_json::{Value, json};
use skymem_harness::{Answer, Heard, Upstream, cjk};

type Script = fn(&Heard) -> Answer;

/// Every model there is, and what it does.
const SCRIPTS: [(&str, Script); 16] = [
    ("says", |_| Answer::says("The heron flies at midnight.")),
    ("echo", |heard| Answer::says(&heard.text())),
    ("thinks", |_| Answer::says("At midnight.").thinking("Herons are night birds.")),
    ("tools", tools),
    ("json", |_| Answer::says("{\"name\": \"Rex\", \"age\": 3}")),
    ("unicode", |_| Answer::says(&cjk(2_000)).in_pieces(7)),
    ("comments", |_| Answer::says("The heron flies at midnight.").with_comments()),
    ("length", |_| Answer::says("The heron flies").finishing_with("length")),
    ("unknown-fields", unknown_fields),
    ("half", |_| Answer::says("The heron flies at midnight.").cut_after(900)),
    ("error-400", |_| Answer::refusal(400, "context_length_exceeded", "The prompt is too long")),
    ("error-401", |_| Answer::refusal(401, "invalid_api_key", "Incorrect API key provided")),
    ("error-403", |_| Answer::refusal(403, "forbidden", "This model is not for you")),
    ("error-404", |_| Answer::refusal(404, "model_not_found", "The model does not exist")),
    ("error-429", |_| Answer::too_many_requests(7)),
    ("error-500", |_| Answer::breaks()),
];

fn main() -> ExitCode {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let Ok(address) = address.parse() else {
        eprintln!("no address: {address:?}; one is 127.0.0.1:8123");
        return ExitCode::from(2);
    };
    let upstream = Upstream::at(address, |heard| match SCRIPTS.iter().find(|(model, _)| *model == heard.model()) {
        Some((_, script)) => script(heard),
        None => Answer::refusal(404, "model_not_found", &format!("The model {:?} does not exist", heard.model())),
    });
    let upstream = upstream.with_models(&SCRIPTS.map(|(model, _)| model));
    println!("{}", upstream.url());
    loop {
        std::thread::park();
    }
}

/// Calls the first tool there is for two cities; answers with what it was told of them.
fn tools(heard: &Heard) -> Answer {
    let messages = heard.messages();
    let told: Vec<_> =
        messages.iter().filter(|message| message["role"] == "tool").map(|message| text(&message["content"])).collect();
    if told.is_empty() {
        let request = heard.json();
        let tool = request["tools"][0]["function"]["name"].as_str().unwrap_or("nothing").to_owned();
        return Answer::calls(&[(&tool, json!({ "city": "Zürich" })), (&tool, json!({ "city": "東京" }))]);
    }
    Answer::says(&format!("It is {}.", told.join(" and ")))
}

/// What no client knows has to come through.
fn unknown_fields(heard: &Heard) -> Answer {
    let message = json!({ "role": "assistant", "content": "Known.", "mood": "glad" });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop", "certainty": 1e-7 });
    let asked = heard.json();
    Answer::json(&json!({
        "id": "x", "object": "chat.completion", "created": 1, "model": "unknown-fields", "choices": [choice],
        "big": 12_345_678_901_234_567_890_u64, "asked": asked,
    }))
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
