//! Sealed collections as they are printed.

use serde_json::Value;

use crate::commands::purge::told;
use crate::output::{counted, list_at, minute, table, text_at};

/// All of them, a line each.
pub(super) fn all(answer: &Value) -> String {
    let collections = list_at(answer, "collections");
    if collections.is_empty() {
        return "No sealed collections yet: `skymem vault seal` makes one.".into();
    }
    let rows = collections.iter().map(|sealed| {
        let recipients = list_at(sealed, "recipients").iter().filter_map(Value::as_str);
        let exchanges = sealed.get("exchanges").and_then(Value::as_u64).unwrap_or(0);
        [
            text_at(sealed, "/collection").to_owned(),
            state(sealed),
            exchanges.to_string(),
            recipients.map(shortened).collect::<Vec<_>>().join(", "),
        ]
    });
    table(["COLLECTION", "STATE", "EXCHANGES", "RECIPIENTS"], rows.collect())
}

/// One that was sealed just now, and what stood in it in the clear.
pub(super) fn sealed(collection: &str, answer: &Value) -> String {
    let mut lines = vec![format!("Collection {collection} is sealed.")];
    let taken = |what: &str| answer.pointer(&format!("/taken_in/{what}")).and_then(Value::as_u64).unwrap_or(0);
    if taken("exchanges") > 0 {
        let (exchanges, turns) = (counted(taken("exchanges"), "exchange"), counted(taken("turns"), "turn"));
        lines.push(format!(
            "{exchanges} with {turns} stood in it in the clear, and {} sealed now.",
            are(taken("exchanges"))
        ));
    }
    if let Some(receipt) = answer.get("receipt").filter(|receipt| !receipt.is_null()) {
        lines.push(told(receipt));
    }
    lines.push(String::new());
    lines.push(one(answer));
    lines.join("\n")
}

fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// One of them, with all that is known of it.
pub(super) fn one(sealed: &Value) -> String {
    let exchanges = sealed.get("exchanges").and_then(Value::as_u64).unwrap_or(0);
    let name = text_at(sealed, "/collection");
    let mut lines = vec![format!("{name}: {}, {}", state(sealed), counted(exchanges, "exchange"))];
    lines
        .extend(list_at(sealed, "recipients").iter().filter_map(Value::as_str).map(|who| format!("  opened by {who}")));
    let unreadable = list_at(sealed, "unreadable").iter().filter_map(Value::as_str);
    lines.extend(unreadable.map(|why| format!("  cannot be read: {why}")));
    if let Some(behind) = sealed.get("behind").and_then(Value::as_u64).filter(|behind| *behind > 0) {
        lines.push(format!("  {} with an older key", counted(behind, "turn")));
    }
    if sealed.get("unchecked").and_then(Value::as_bool).unwrap_or(false) {
        lines.push(format!("  not looked yet whether anything is left in the clear: `skymem vault seal {name}` looks"));
    }
    lines.join("\n")
}

fn state(sealed: &Value) -> String {
    let unlocked = sealed.get("unlocked").and_then(Value::as_bool).unwrap_or(false);
    match (unlocked, sealed.get("until").and_then(Value::as_str)) {
        (false, _) => "locked".into(),
        (true, Some(until)) => format!("unlocked until {}", minute(until)),
        (true, None) => "unlocked".into(),
    }
}

/// Enough of a recipient to tell it from others.
fn shortened(recipient: &str) -> String {
    match recipient.char_indices().nth(16) {
        Some((end, _)) => format!("{}…", recipient.get(..end).unwrap_or(recipient)),
        None => recipient.to_owned(),
    }
}
