//! Moments as people write them on the command line, in the zone of the person whose memory it is.

use anyhow::{Result, anyhow};
use chrono::{DateTime, Days, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeZone, Utc};
use chrono_tz::Tz;

use crate::client::Client;
use crate::output::text_at;

/// A moment as it was written; its zone is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum When {
    /// With a zone of its own.
    At(DateTime<Utc>),
    /// By the clock on the wall: of a day, a month or a year its beginning.
    Local(NaiveDateTime),
}

/// Reads a moment from the command line.
pub(super) fn when(text: &str) -> Result<When, String> {
    let text = text.trim();
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(When::At(at.to_utc()));
    }
    let with_time = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
    let local = with_time.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok());
    local.or_else(|| beginning(text)).map(When::Local).ok_or_else(|| {
        format!(
            "{text:?} is not a time: write 2024-05-01, 2024-05, 2024, 2024-05-01 18:30 or 2024-05-01T18:30:00+02:00"
        )
    })
}

/// The beginning of a day, a month or a year.
fn beginning(text: &str) -> Option<NaiveDateTime> {
    let parts: Vec<&str> = text.split('-').collect();
    // Four digits of a year, two of a month or a day, no signs: `24` could be anything.
    let digits = |part: &str, count: usize| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
    let (year, month, day) = match parts.as_slice() {
        [year] => (year, "01", "01"),
        [year, month] => (year, *month, "01"),
        [year, month, day] => (year, *month, *day),
        _ => return None,
    };
    if !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)?;
    Some(day.and_time(NaiveTime::MIN))
}

impl When {
    /// As it goes over the wire, in `zone`.
    fn wire(&self, zone: Tz) -> Option<String> {
        let at = match self {
            When::At(at) => *at,
            When::Local(local) => in_zone(*local, zone)?,
        };
        Some(at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
    }
}

/// The moment at which a clock in `zone` shows `local`: the first of two, and, when the clock leaps over it, the one at
/// which it would have.
fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Utc>> {
    if let Some(at) = zone.from_local_datetime(&local).earliest() {
        return Some(at.to_utc());
    }
    // No two leaps are so near that the day before would be in one.
    let before = zone.from_local_datetime(&local.checked_sub_days(Days::new(1))?).latest()?;
    let offset = before.naive_local() - before.naive_utc();
    Some((local - offset).and_utc())
}

/// Moments as they go over the wire. The server is asked for the person's zone when one of them has none.
pub(super) async fn wire<const COUNT: usize>(
    client: &Client,
    moments: [Option<&When>; COUNT],
) -> Result<[Option<String>; COUNT]> {
    let mut zone = Tz::UTC;
    if moments.iter().flatten().any(|when| matches!(when, When::Local(_))) {
        let me = client.get(&["v1", "me"], &[]).await?;
        let name = text_at(&me, "/timezone");
        zone = name
            .parse()
            .map_err(|_| anyhow!("the zone {name:?} of the user is not known here: give times with a zone"))?;
    }
    Ok(moments.map(|when| when.and_then(|when| when.wire(zone))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, zone: Tz, expected: &str) {
        assert_eq!(when(text).unwrap().wire(zone).as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn a_day_a_month_and_a_year_begin_where_the_person_lives() {
        check("2024-05-01", Tz::Europe__Berlin, "2024-04-30T22:00:00Z");
        check("2024-05", Tz::Europe__Berlin, "2024-04-30T22:00:00Z");
        check("2024", Tz::Europe__Berlin, "2023-12-31T23:00:00Z");
        check(" 2024 ", Tz::UTC, "2024-01-01T00:00:00Z");
        check("2024-05-01", Tz::Asia__Tokyo, "2024-04-30T15:00:00Z");
    }

    #[test]
    fn a_moment_with_a_zone_is_that_moment_wherever_the_person_lives() {
        check("2024-05-01T18:30:00+02:00", Tz::Asia__Tokyo, "2024-05-01T16:30:00Z");
        check("2024-05-01T18:30:00.250Z", Tz::Asia__Tokyo, "2024-05-01T18:30:00.250Z");
        check("2024-05-01 18:30", Tz::Europe__Berlin, "2024-05-01T16:30:00Z");
    }

    #[test]
    fn a_clock_that_is_changed_shows_a_time_twice_or_never() {
        check("2024-10-27 02:30", Tz::Europe__Berlin, "2024-10-27T00:30:00Z");
        check("2024-03-31 02:30", Tz::Europe__Berlin, "2024-03-31T01:30:00Z");
        // Midnight never came: the day began at one.
        check("2018-11-04", Tz::America__Sao_Paulo, "2018-11-04T03:00:00Z");
    }

    #[test]
    fn what_is_no_time_is_told_what_is() {
        for bad in [
            "",
            "24",
            "May 2024",
            "2024-13",
            "2024-5",
            "2024-02-30",
            "01.05.2024",
            "yesterday",
            "-2024",
            "2024-05-01-02",
        ] {
            assert!(when(bad).unwrap_err().contains("is not a time: write 2024-05-01"), "{bad}");
        }
    }
}
