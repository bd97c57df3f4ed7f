//! The times that other programs write down.

use chrono::{DateTime, Datelike, Utc};
use serde_json::Value;
use skymem_engine::reading::written_moment;

/// The moment that `value` names: RFC 3339, a date with or without a time (taken as UTC), seconds or milliseconds
/// since 1970.
///
/// # Errors
///
/// In words, when it names none.
pub(crate) fn moment(value: &Value) -> Result<DateTime<Utc>, String> {
    let parsed = match value {
        Value::Number(number) => number.as_f64().and_then(since_1970),
        Value::String(text) => written_moment(text.trim()),
        _ => None,
    };
    parsed
        .filter(|at| (1900..=2200).contains(&at.year()))
        .ok_or_else(|| format!("{value} is not a time: write 2026-02-06T18:30:00Z, or seconds since 1970"))
}

fn since_1970(number: f64) -> Option<DateTime<Utc>> {
    // No second of the last or the next three thousand years has twelve digits.
    let seconds = if number.abs() >= 1e11 { number / 1_000.0 } else { number };
    // A float's own error is smaller than a millisecond here; finer digits would be invented.
    let millis = (seconds * 1_000.0).round();
    if !millis.is_finite() || millis.abs() > 1e15 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
    DateTime::from_timestamp_millis(millis as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, expected: &str) {
        assert_eq!(moment(&value).unwrap().to_rfc3339(), expected, "{value}");
    }

    #[test]
    fn a_moment_may_be_written_in_many_ways() {
        check(json!("2026-02-06T18:30:00Z"), "2026-02-06T18:30:00+00:00");
        check(json!("2026-02-06T18:30:00.250+02:00"), "2026-02-06T16:30:00.250+00:00");
        check(json!("2026-02-06 18:30"), "2026-02-06T18:30:00+00:00");
        check(json!("2026-02-06"), "2026-02-06T00:00:00+00:00");
        check(json!(1_700_000_000), "2023-11-14T22:13:20+00:00");
        check(json!(1_700_000_000.123_456), "2023-11-14T22:13:20.123+00:00");
        check(json!(1_700_000_000_123_u64), "2023-11-14T22:13:20.123+00:00");
    }

    #[test]
    fn what_names_no_moment_is_refused_in_words() {
        for bad in [json!("yesterday"), json!(""), json!(1e30), json!(-1e30), json!(["2026"]), json!("0001-01-01")] {
            assert!(moment(&bad).unwrap_err().contains("is not a time"), "{bad}");
        }
    }
}
