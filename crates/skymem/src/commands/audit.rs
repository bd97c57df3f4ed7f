//! `skymem audit`

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::Context;
use crate::output::{Outcome, counted, excerpt, list_at, minute, table, text_at};

/// Who changed what in a memory, and when; never a word of what is remembered.
#[derive(Subcommand)]
pub(crate) enum Audit {
    /// List the changes, newest first
    #[command(after_help = "Examples:\n  skymem audit list --verb forgot\n  skymem audit list --server")]
    List(List),
    /// Check that the log is as it was written, and name the first entry that is not
    #[command(
        after_help = "Keep the hash that is printed somewhere else: with --head it is looked for the next time, so \
                            that a log that was made anew is noticed too."
    )]
    Verify(Verify),
}

#[derive(Args)]
pub(crate) struct List {
    /// Only this kind of change, e.g. forgot, restored, purged, key_made, file_edited
    #[arg(long)]
    verb: Option<String>,
    /// Only since then, e.g. 2026-02-06T00:00:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only before then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The server's own log: users made and removed
    #[arg(long)]
    server: bool,
    /// How many to list
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=200))]
    limit: u16,
    /// Where the page before ended
    #[arg(long, value_name = "MARK")]
    after: Option<String>,
}

#[derive(Args)]
pub(crate) struct Verify {
    /// The server's own log: users made and removed
    #[arg(long)]
    server: bool,
    /// A hash that was printed earlier: it must be in the log
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
}

impl Audit {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        match self {
            Audit::List(list) => list.run(context).await,
            Audit::Verify(verify) => verify.run(context).await,
        }
    }
}

impl List {
    async fn run(self, context: &Context) -> Result<Outcome> {
        let mut query = vec![("limit", self.limit.to_string())];
        let given = [("verb", self.verb), ("from", self.from), ("until", self.until), ("after", self.after)];
        query.extend(given.into_iter().filter_map(|(name, value)| Some((name, value?))));
        query.extend(self.server.then(|| ("of", "server".to_owned())));
        let answer = context.client()?.get(&["v1", "audit"], &query).await?;
        let rows: Vec<[String; 5]> = list_at(&answer, "entries").iter().map(row).collect();
        let mut text = match rows.is_empty() {
            true => "Nothing was changed.".into(),
            false => table(["NUMBER", "WHEN", "WHO", "DID", "WHAT"], rows),
        };
        if let next @ [_, ..] = text_at(&answer, "/next").as_bytes() {
            text.push_str(&format!("\n\nMore: --after {}", String::from_utf8_lossy(next)));
        }
        Ok(Outcome::new(text, answer))
    }
}

fn row(entry: &Value) -> [String; 5] {
    let number = entry.get("number").and_then(Value::as_i64).unwrap_or_default();
    let what = entry.get("what").map(in_short).unwrap_or_default();
    [
        number.to_string(),
        minute(text_at(entry, "/at")),
        text_at(entry, "/actor").to_owned(),
        text_at(entry, "/verb").replace('_', " "),
        excerpt(&what, 80),
    ]
}

/// What was changed, on a line: ids as their number, everything else by its name.
fn in_short(what: &Value) -> String {
    let Some(fields) = what.as_object() else { return what.to_string() };
    let told = fields.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
        match (value.get("count").and_then(Value::as_u64), value.as_str()) {
            (Some(count), _) => counted(count, name.strip_suffix('s').unwrap_or(name)),
            (None, Some(text)) => format!("{name} {text}"),
            (None, None) => format!("{name} {value}"),
        }
    });
    told.collect::<Vec<_>>().join(", ")
}

impl Verify {
    async fn run(self, context: &Context) -> Result<Outcome> {
        let mut query = Vec::new();
        query.extend(self.server.then(|| ("of", "server".to_owned())));
        query.extend(self.head.map(|head| ("head", head)));
        let answer = context.client()?.get(&["v1", "audit", "verify"], &query).await?;
        let sound = counted(answer.get("sound").and_then(Value::as_u64).unwrap_or(0), "change");
        let head = text_at(&answer, "/head");
        let (text, failed) = match answer.get("broken").filter(|broken| !broken.is_null()) {
            None if head.is_empty() => ("The log is empty.".to_owned(), false),
            None => (format!("The log is as it was written: {sound}.\nIts end is {head}"), false),
            Some(broken) => {
                let number = broken.get("number").and_then(Value::as_i64).unwrap_or_default();
                let how = text_at(broken, "/how");
                (format!("The log was tampered with: entry {number} {how}. Sound up to there: {sound}."), true)
            }
        };
        Ok(Outcome::new(text, answer).failed_if(failed))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_told_on_a_line() {
        let what = json!({ "exchanges": { "count": 2, "ids": ["a", "b"] }, "secrets": null, "file": "NOW.md" });
        assert_eq!(in_short(&what), "2 exchanges, file NOW.md");
    }
}
