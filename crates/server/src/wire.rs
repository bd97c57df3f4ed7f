//! The small types of the wire: texts, numbers and moments that are checked while they are read.

use std::str::FromStr;

use chrono::{DateTime, TimeZone, Utc};
use serde::de::{self, Deserialize, Deserializer};
use skymem_core::TimeRange;
use skymem_core::conversation::BadName;

use crate::error::ApiError;

/// A text that says something: up to `MOST` characters, not blank, without NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words<const MOST: usize>(pub(crate) String);

impl<'de, const MOST: usize> Deserialize<'de> for Words<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Prose::<MOST>::deserialize(deserializer)?.0;
        if text.trim().is_empty() { Err(de::Error::custom("must not be blank")) } else { Ok(Self(text)) }
    }
}

/// A text that may be empty: up to `MOST` characters, without NUL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prose<const MOST: usize>(pub(crate) String);

impl<'de, const MOST: usize> Deserialize<'de> for Prose<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        check_text(&text, MOST).map_err(de::Error::custom)?;
        Ok(Self(text))
    }
}

/// Whether a text can be kept: at most `most` characters, no NUL, which Postgres does not hold.
pub(crate) fn check_text(text: &str, most: usize) -> Result<(), String> {
    if text.contains('\0') {
        return Err("must not hold the character NUL (U+0000)".into());
    }
    // Counting characters is only needed where there may be too many.
    if text.len() > most && text.chars().count() > most {
        return Err(format!("has at most {most} characters"));
    }
    Ok(())
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole<const LEAST: u32, const MOST: u32>(pub(crate) u32);

impl<const LEAST: u32, const MOST: u32> Whole<LEAST, MOST> {
    /// As a size.
    pub(crate) fn size(self) -> usize {
        self.0 as usize
    }
}

impl<'de, const LEAST: u32, const MOST: u32> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match u32::try_from(number) {
            Ok(number) if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            _ => Err(de::Error::custom(format!("is a whole number from {LEAST} to {MOST}, not {number}"))),
        }
    }
}

/// A fraction from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fraction(pub(crate) f32);

impl<'de> Deserialize<'de> for Fraction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f32::deserialize(deserializer)?;
        if (0.0..=1.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err(de::Error::custom(format!("is a number from 0 to 1, not {number}")))
        }
    }
}

/// A number of days: more than 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Days(pub(crate) f32);

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f32::deserialize(deserializer)?;
        if number > 0.0 && number <= 100_000.0 {
            Ok(Self(number))
        } else {
            Err(de::Error::custom(format!("is a number above 0, at most 100000, not {number}")))
        }
    }
}

/// A moment in RFC 3339, with its zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) DateTime<Utc>);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = DateTime::parse_from_rfc3339(&text).map_err(|_| {
            de::Error::custom("is a moment in RFC 3339 with its zone, such as 2026-02-06T09:30:00+01:00")
        })?;
        Ok(Self(moment.to_utc()))
    }
}

/// One of a few words, such as a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<T>(pub(crate) T);

impl<'de, T: FromStr<Err = BadName>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A field that tells "leave it" (absent) from "take it away" (null) from a new value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Change<T> {
    /// Absent: it stays.
    #[default]
    Leave,
    /// Null: it goes.
    Clear,
    /// It becomes this.
    Set(T),
}

impl<T> Change<T> {
    /// As patches have it: `None` stays, `Some(None)` goes.
    pub(crate) fn into_patch<U>(self, convert: impl FnOnce(T) -> U) -> Option<Option<U>> {
        match self {
            Change::Leave => None,
            Change::Clear => Some(None),
            Change::Set(value) => Some(Some(convert(value))),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Change::Clear, Change::Set))
    }
}

/// The time between two moments, either of which may be open; `None` when both are.
pub(crate) fn time_range(from: Option<Moment>, until: Option<Moment>) -> Result<Option<TimeRange>, ApiError> {
    if from.is_none() && until.is_none() {
        return Ok(None);
    }
    let range = TimeRange {
        from: from.map_or_else(|| first_of_year(1), |moment| moment.0),
        until: until.map_or_else(|| first_of_year(9999), |moment| moment.0),
    };
    if range.from < range.until {
        Ok(Some(range))
    } else {
        Err(ApiError::invalid("until", "must be later than `from`"))
    }
}

/// An end of time that Postgres can hold.
fn first_of_year(year: i32) -> DateTime<Utc> {
    Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0).single().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use skymem_core::Role;

    use super::*;

    fn check<T: for<'de> Deserialize<'de> + Debug>(json: &str, wrong: Option<&str>) {
        match (serde_json::from_str::<T>(json), wrong) {
            (Ok(_), None) => {}
            (Err(error), Some(why)) => assert!(error.to_string().contains(why), "{json}: {error}"),
            (outcome, wrong) => panic!("{json}: {outcome:?} where {wrong:?} was expected"),
        }
    }

    #[test]
    fn a_text_is_neither_blank_nor_too_long_nor_beyond_postgres() {
        check::<Words<5>>(r#""hello""#, None);
        check::<Words<5>>(r#""你好你好你""#, None);
        check::<Words<5>>(r#""hello!""#, Some("at most 5"));
        check::<Words<5>>(r#"" ""#, Some("blank"));
        check::<Words<5>>(r#""""#, Some("blank"));
        check::<Words<5>>(r#""a\u0000""#, Some("NUL"));
        check::<Words<5>>("7", Some("invalid type"));
        check::<Prose<5>>(r#""""#, None);
    }

    #[test]
    fn a_number_out_of_range_is_told_its_range() {
        check::<Whole<2, 20>>("2", None);
        check::<Whole<2, 20>>("20", None);
        for bad in ["1", "21", "-3", "4294967298"] {
            check::<Whole<2, 20>>(bad, Some("from 2 to 20"));
        }
        check::<Whole<2, 20>>("4.5", Some("invalid type"));
        check::<Fraction>("0.5", None);
        check::<Fraction>("1.5", Some("from 0 to 1"));
        check::<Fraction>("1e40", Some("from 0 to 1"));
    }

    #[test]
    fn a_moment_has_a_zone() {
        check::<Moment>(r#""2026-02-06T09:30:00+01:00""#, None);
        check::<Moment>(r#""2026-02-06T08:30:00.123Z""#, None);
        for bad in [r#""2026-02-06T09:30:00""#, r#""2026-02-30T00:00:00Z""#, r#""yesterday""#, r#""""#] {
            check::<Moment>(bad, Some("RFC 3339"));
        }
    }

    #[test]
    fn a_word_that_is_none_of_the_few_is_told_them() {
        check::<Word<Role>>(r#""developer""#, None);
        check::<Word<Role>>(r#""robot""#, Some("one of user, assistant, system, tool"));
    }

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        #[derive(serde::Deserialize)]
        struct Patch {
            #[serde(default)]
            title: Change<String>,
        }
        for (json, expected) in
            [("{}", None), (r#"{"title": null}"#, Some(None)), (r#"{"title": "a"}"#, Some(Some("a".to_owned())))]
        {
            let patch: Patch = serde_json::from_str(json).unwrap();
            assert_eq!(patch.title.into_patch(|title| title), expected, "{json}");
        }
    }

    #[test]
    fn a_time_range_runs_forward() {
        let early = Moment(DateTime::UNIX_EPOCH);
        let late = Moment(DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1));

        assert!(time_range(None, None).unwrap().is_none());
        assert!(time_range(Some(early), Some(late)).unwrap().is_some());
        assert!(time_range(Some(late), None).unwrap().is_some());
        assert!(time_range(Some(late), Some(early)).is_err());
        assert!(time_range(Some(early), Some(early)).is_err());
    }
}
