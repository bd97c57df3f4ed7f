//! `skymem stats`

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::cli::Context;
use crate::output::{Outcome, bytes, grouped, list_at, minute, text_at};

/// What is kept, how far the layers are, and what is set aside.
#[derive(Args)]
pub(crate) struct Stats {
    /// Give a layer the exchanges again that it could not learn
    #[arg(long, value_name = "LAYER")]
    retry: Option<String>,
}

impl Stats {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        if let Some(layer) = &self.retry {
            client.post(&["v1", "layers", layer, "retry"], &json!({})).await?;
        }
        let answer = client.get(&["v1", "stats"], &[]).await?;
        Ok(Outcome::new(text(&answer), answer))
    }
}

fn text(stats: &Value) -> String {
    let number = |value: &Value, key: &str| grouped(value.get(key).and_then(Value::as_i64).unwrap_or(0));
    let mut lines: Vec<String> = ["sessions", "exchanges", "turns", "forgotten"]
        .into_iter()
        .filter(|key| stats.get(key).is_some())
        .map(|key| format!("{key:<12}{}", number(stats, key)))
        .collect();
    let (oldest, newest) = (text_at(stats, "/oldest_at"), text_at(stats, "/newest_at"));
    if !oldest.is_empty() {
        lines.push(format!("{:<12}{} to {}", "said", minute(oldest), minute(newest)));
    }
    for layer in list_at(stats, "layers") {
        lines.push(String::new());
        lines.push(format!("layer {}", text_at(layer, "/name")));
        for (name, count) in counts(layer) {
            lines.push(format!("  {name:<20}{}", grouped(count)));
        }
        if let Some(size) = layer.get("bytes").and_then(Value::as_u64) {
            lines.push(format!("  {:<20}{}", "on disk", bytes(size)));
        }
        lines.push(match layer.get("behind").and_then(Value::as_u64).unwrap_or(0) {
            0 => "  up to date".into(),
            behind => format!("  {:<20}{}", "still to learn", grouped(behind)),
        });
        for parked in list_at(layer, "parked") {
            lines.push(format!("  parked: {} ({})", text_at(parked, "/exchange"), text_at(parked, "/reason")));
        }
        for fault in list_at(layer, "faults").iter().filter_map(Value::as_str) {
            lines.push(format!("  fault: {fault}"));
        }
    }
    lines.join("\n")
}

fn counts(layer: &Value) -> Vec<(&str, i64)> {
    list_at(layer, "counts")
        .iter()
        .filter_map(|count| Some((count.get("name")?.as_str()?, count.get("count")?.as_i64()?)))
        .collect()
}

/// How many exchanges the layer that is furthest behind has still to learn.
pub(super) fn behind(stats: &Value) -> u64 {
    let each = list_at(stats, "layers").iter().filter_map(|layer| layer.get("behind")?.as_u64());
    each.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_that_is_furthest_behind_counts() {
        let stats = json!({"layers": [{"behind": 2}, {"behind": 7}, {}]});

        assert_eq!(behind(&stats), 7);
        assert_eq!(behind(&json!({})), 0);
    }

    #[test]
    fn what_is_wrong_with_a_layer_is_shown_with_it() {
        let shown = text(&json!({
            "turns": 1234, "oldest_at": "2024-01-01T00:00:00Z", "newest_at": "2024-02-01T00:00:00Z",
            "layers": [{"name": "episodes", "counts": [{"name": "episodes", "count": 5}], "bytes": 1500, "behind": 3,
                        "parked": [{"exchange": "e1", "reason": "too long"}], "faults": ["NOW.md: not UTF-8"]}],
        }));

        for part in
            ["1,234", "2024-01-01 00:00 to", "1.5 kB", "still to learn      3", "parked: e1 (too long)", "not UTF-8"]
        {
            assert!(shown.contains(part), "{part:?} is not in:\n{shown}");
        }
    }
}
