//! The promise of facts: what holds, since when, and how we know; nothing is rewritten, and everything can be undone.

mod bad_input;
mod entities;
mod files;
mod graph;
mod moving;
mod reading;
mod telling;

use serde_json::{Value, json};
use skymem_harness::{Client, TestServer};

/// Tells a fact, and what else is given of it; layers have learned it. The exchange it is.
async fn told(server: &TestServer, subject: &str, predicate: &str, object: &str, more: Value) -> String {
    let mut body = json!({ "subject": subject, "predicate": predicate, "object": object });
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    let reply = server.post("/v1/facts", body).await;
    assert!(matches!(reply.status, 200 | 201), "{}", reply.text);
    server.catches_up().await;
    exchange(&reply.json["statements"][0])
}

/// The exchange that something was written down as.
fn exchange(fate: &Value) -> String {
    fate["exchange"].as_str().unwrap_or_else(|| panic!("no exchange: {fate}")).to_owned()
}

/// The facts that are listed at an address.
async fn listed(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200)["facts"].as_array().unwrap().clone()
}

/// Facts as subject, predicate and object, and whether they hold.
fn brief(facts: &[Value]) -> Vec<String> {
    let object = |fact: &Value| match &fact["object"]["entity"]["name"] {
        Value::String(name) => name.clone(),
        _ => fact["object"]["literal"].as_str().unwrap_or("?").to_owned(),
    };
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let line = |fact: &Value| {
        let (subject, predicate) = (text(&fact["subject"]["name"]), text(&fact["predicate"]));
        format!("{subject} {predicate} {} ({})", object(fact), text(&fact["state"]))
    };
    facts.iter().map(line).collect()
}

/// The one fact that is listed at an address.
async fn only(client: &Client, path: &str) -> Value {
    let mut facts = listed(client, path).await;
    assert_eq!(facts.len(), 1, "{path}: {:#?}", brief(&facts));
    facts.remove(0)
}

fn id(fact: &Value) -> &str {
    fact["id"].as_str().unwrap()
}
