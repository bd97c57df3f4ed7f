//! Times as people and programs write them.

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

/// The moment that `text` names: RFC 3339, or a date with or without a time, which is taken as UTC.
#[must_use]
pub fn written_moment(text: &str) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.with_timezone(&Utc));
    }
    for form in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(at) = NaiveDateTime::parse_from_str(text, form) {
            return Some(at.and_utc());
        }
    }
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0).map(|at| at.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(written_moment(text).map(|at| at.to_rfc3339()).as_deref(), expected, "{text}");
    }

    #[test]
    fn a_moment_is_written_with_or_without_a_time_and_a_zone() {
        check("2026-02-06T18:30:00.250+02:00", Some("2026-02-06T16:30:00.250+00:00"));
        check("2026-02-06T18:30:00", Some("2026-02-06T18:30:00+00:00"));
        check("2026-02-06 18:30", Some("2026-02-06T18:30:00+00:00"));
        check("2026-02-06", Some("2026-02-06T00:00:00+00:00"));
        check("2026-02-30", None);
        check("06.02.2026", None);
        check("yesterday", None);
        check("", None);
    }
}
