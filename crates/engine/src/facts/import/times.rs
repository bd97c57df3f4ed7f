//! Since when and until when, as files have it.

use chrono::{DateTime, NaiveDate, Utc};

use crate::reading::written_moment;

/// The moment that `text` names, `None` for a blank one: in full, or the beginning of a day, a month or a year.
pub(super) fn moment(text: &str) -> Result<Option<DateTime<Utc>>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let at = written_moment(text).or_else(|| beginning_of(text));
    at.map(Some)
        .ok_or_else(|| format!("{text:?} is not a time: write 2024-05-01T18:30:00Z, 2024-05-01, 2024-05 or 2024"))
}

fn beginning_of(text: &str) -> Option<DateTime<Utc>> {
    let (year, month) = text.split_once('-').unwrap_or((text, "1"));
    // Four digits, no sign: `24` could be a day as well.
    let digits = |part: &str, most: usize| part.len() <= most && part.bytes().all(|byte| byte.is_ascii_digit());
    if year.len() != 4 || !digits(year, 4) || !digits(month, 2) {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, 1)?;
    day.and_hms_opt(0, 0, 0).map(|at| at.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(moment(text).unwrap().unwrap().to_rfc3339(), expected);
    }

    #[test]
    fn a_day_a_month_and_a_year_begin_at_their_first_moment() {
        check("2024-05-03T12:00:00.5+02:00", "2024-05-03T10:00:00.500+00:00");
        check(" 2024-05-03 ", "2024-05-03T00:00:00+00:00");
        check("2024-05", "2024-05-01T00:00:00+00:00");
        check("0824", "0824-01-01T00:00:00+00:00");
    }

    #[test]
    fn blank_is_no_time_and_what_is_none_is_refused_in_words() {
        assert_eq!(moment(" "), Ok(None));
        for bad in ["24", "May 2024", "2024-13", "2024-", "2024-05-32", "03.05.2024", "-2024", "20240", "2024-+5"] {
            assert!(moment(bad).unwrap_err().contains("is not a time"), "{bad}");
        }
    }
}
