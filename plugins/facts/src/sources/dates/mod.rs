//! Since when, until when, when: what a sentence says of time, in English and German, and the sentence without it.
//!
//! Pure. A period counts from its first moment, in UTC: "in May" is the first of May, "two years ago" the first of January.
//! A period that names no year is the last one that had begun when it was said.

mod forms;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, Utc, Weekday};
use regex::{Captures, Regex};

use self::forms::{FORMS, Forms, MONTHS, NUMBERS, WEEKDAYS, meaning};

/// When something is said to hold or to have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct When {
    /// "since", "for two years".
    pub(super) from: Option<DateTime<Utc>>,
    /// "until".
    pub(super) until: Option<DateTime<Utc>>,
    /// "in May", "yesterday".
    pub(super) at: Option<DateTime<Utc>>,
}

/// What `text` says of time, and `text` without it.
pub(super) fn take(text: &str, said_at: DateTime<Utc>) -> (String, When) {
    let Some(forms) = FORMS.as_ref() else {
        return (text.to_owned(), When::default());
    };
    let today = said_at.date_naive();
    let start = |words: Option<&str>| words.and_then(|words| first_day(forms, words, today)).and_then(midnight);
    let mut when = When::default();
    let left = forms.vague.replace_all(text, " ");
    let left = forms.range.replace_all(&left, |found: &Captures<'_>| {
        when.from = when.from.or(start(group(found, "from")));
        when.until = when.until.or(start(group(found, "until")));
        " "
    });
    let left = forms.since.replace_all(&left, |found: &Captures<'_>| {
        let length = group(found, "length").and_then(|words| before(forms, words, today)).and_then(midnight);
        when.from = when.from.or(length).or(start(group(found, "from")));
        " "
    });
    let left = forms.until.replace_all(&left, |found: &Captures<'_>| {
        when.until = when.until.or(start(group(found, "until")));
        " "
    });
    let left = forms.at.replace_all(&left, |found: &Captures<'_>| {
        when.at = when.at.or(start(group(found, "named")).or(start(group(found, "bare"))));
        " "
    });
    // German needs no word before a year: "ich zog 2019 nach Rom".
    let left = forms.bare_year.replace_all(&left, |found: &Captures<'_>| {
        when.at = when.at.or(start(group(found, "year")));
        group(found, "before").unwrap_or_default().to_owned()
    });
    let mut tidy = left.split_whitespace().collect::<Vec<_>>().join(" ");
    for sign in [" ,", " ."] {
        tidy = tidy.replace(sign, sign.trim_start());
    }
    (tidy.trim_start_matches([',', ' ']).to_owned(), when)
}

/// The beginnings of all periods that `text` names.
pub(super) fn mentioned(text: &str, said_at: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let Some(forms) = FORMS.as_ref() else { return Vec::new() };
    let today = said_at.date_naive();
    let named = |form: &Regex, name: &str| -> Vec<NaiveDate> {
        let words = form.captures_iter(text).filter_map(|found| group(&found, name).map(str::to_owned));
        words.filter_map(|words| first_day(forms, &words, today)).collect()
    };
    let all = [
        (&forms.range, "from"),
        (&forms.range, "until"),
        (&forms.since, "from"),
        (&forms.since, "length"),
        (&forms.until, "until"),
        (&forms.at, "named"),
        (&forms.at, "bare"),
        (&forms.bare_year, "year"),
    ];
    all.into_iter().flat_map(|(form, name)| named(form, name)).filter_map(midnight).collect()
}

/// A day as people write birthdays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birthday {
    /// The whole date.
    Date(NaiveDate),
    /// Day and month.
    Day {
        /// From 1.
        day: u32,
        /// From 1.
        month: u32,
    },
    /// The year alone.
    Year(i32),
}

/// The first day that `text` names in full or without its year; else its first year.
pub(super) fn birthday(text: &str) -> Option<Birthday> {
    let forms = FORMS.as_ref()?;
    if let Some(found) = forms.day.captures(text) {
        let parts = Parts::of(&found);
        let (day, month) = (parts.day?, parts.month?);
        // 2000 had a 29th of February.
        NaiveDate::from_ymd_opt(parts.year.unwrap_or(2000), month, day)?;
        return match parts.year {
            Some(year) => NaiveDate::from_ymd_opt(year, month, day).map(Birthday::Date),
            None => Some(Birthday::Day { day, month }),
        };
    }
    let year = forms.year.find(text)?;
    year.as_str().parse().ok().map(Birthday::Year)
}

/// The English name of a month, from 1.
pub(super) fn month_name(month: u32) -> Option<&'static str> {
    usize::try_from(month).ok()?.checked_sub(1).and_then(|at| MONTHS.get(at)).map(|(name, _)| *name)
}

fn group<'a>(found: &Captures<'a>, name: &str) -> Option<&'a str> {
    found.name(name).map(|group| group.as_str())
}

fn midnight(day: NaiveDate) -> Option<DateTime<Utc>> {
    Some(day.and_time(NaiveTime::MIN).and_utc())
}

/// Year, month and day of one of the ways to write a date.
struct Parts {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
}

impl Parts {
    fn of(found: &Captures<'_>) -> Self {
        let any = |names: [&str; 4]| names.into_iter().find_map(|name| group(found, name)).map(str::to_owned);
        Self {
            year: any(["y1", "y2", "y3", "y4"]).and_then(|year| year.parse().ok()),
            month: any(["m1", "m2", "m3", "m4"])
                .and_then(|month| month.parse().ok().or_else(|| number_of_month(&month))),
            day: any(["d1", "d2", "d3", "d4"]).and_then(|day| day.parse().ok()),
        }
    }
}

fn number_of_month(word: &str) -> Option<u32> {
    let name = meaning(&MONTHS, word)?;
    let at = MONTHS.iter().position(|(known, _)| *known == name)?;
    u32::try_from(at + 1).ok()
}

/// The first day of the period that `words` name, whole.
fn first_day(forms: &Forms, words: &str, today: NaiveDate) -> Option<NaiveDate> {
    let words = words.trim();
    let lower = words.to_lowercase();
    match lower.split_whitespace().collect::<Vec<_>>().join(" ").as_str() {
        "today" | "heute" => return Some(today),
        "yesterday" | "gestern" => return today.pred_opt(),
        "the day before yesterday" | "vorgestern" => return today.checked_sub_days(Days::new(2)),
        _ => {}
    }
    if forms.ago.is_match(words) {
        return before(forms, words, today);
    }
    if let Some(found) = forms.last.captures(words) {
        return last(&found, today);
    }
    if forms.weekday.is_match(words) {
        return back_to(meaning(&WEEKDAYS, words)?, today);
    }
    if let Some(found) = forms.month.captures(words) {
        let month = group(&found, "month").and_then(number_of_month);
        let month = month.or(group(&found, "m5").and_then(|month| month.parse().ok()))?;
        let year = group(&found, "year").or(group(&found, "y5")).and_then(|year| year.parse().ok());
        let year = year.or_else(|| {
            let of_year = group(&found, "of_year")?.to_lowercase();
            Some(if of_year.contains("last") || of_year.contains("letzt") { today.year() - 1 } else { today.year() })
        });
        return match year {
            Some(year) => NaiveDate::from_ymd_opt(year, month, 1),
            None => latest(today, month, 1),
        };
    }
    if let Some(found) = forms.day.captures(words) {
        let parts = Parts::of(&found);
        let (day, month) = (parts.day?, parts.month?);
        return match parts.year {
            Some(year) => NaiveDate::from_ymd_opt(year, month, day),
            None => latest(today, month, day),
        };
    }
    let year = forms.year.find(words)?.as_str().parse().ok()?;
    NaiveDate::from_ymd_opt(year, 1, 1)
}

/// The last such day that is not after `today`.
fn latest(today: NaiveDate, month: u32, day: u32) -> Option<NaiveDate> {
    let of = |year| NaiveDate::from_ymd_opt(year, month, day).filter(|date| *date <= today);
    (0..5).find_map(|back| of(today.year() - back))
}

/// The beginning of the year, month or week, or the day, that lies as far back as `words` say: "two years".
fn before(forms: &Forms, words: &str, today: NaiveDate) -> Option<NaiveDate> {
    let found = forms.ago.captures(words)?;
    let number = group(&found, "number")?;
    let number = number.parse().ok().or_else(|| meaning(&NUMBERS, number))?;
    let unit = group(&found, "unit")?.to_lowercase();
    if unit.starts_with('y') || unit.starts_with('j') {
        NaiveDate::from_ymd_opt(today.year().checked_sub(i32::try_from(number).ok()?)?, 1, 1)
    } else if unit.starts_with("mo") {
        today.checked_sub_months(Months::new(number))?.with_day(1)
    } else if unit.starts_with('w') {
        monday_of(today.checked_sub_days(Days::new(u64::from(number) * 7))?)
    } else {
        today.checked_sub_days(Days::new(u64::from(number)))
    }
}

fn monday_of(day: NaiveDate) -> Option<NaiveDate> {
    day.checked_sub_days(Days::new(u64::from(day.weekday().num_days_from_monday())))
}

/// "last year", "this month", "letzten Dienstag".
fn last(found: &Captures<'_>, today: NaiveDate) -> Option<NaiveDate> {
    let which = group(found, "which")?.to_lowercase();
    let this = which == "this" || which.starts_with("diese");
    let first = today.with_day(1)?;
    if let Some(name) = group(found, "weekday") {
        let from = if this { today } else { today.pred_opt()? };
        return back_to(meaning(&WEEKDAYS, name)?, from);
    }
    if let Some(name) = group(found, "month") {
        let from = if this { today } else { first.pred_opt()? };
        return latest(from, number_of_month(name)?, 1);
    }
    let unit = group(found, "unit")?.to_lowercase();
    match (unit.as_str(), this) {
        ("year" | "jahr" | "jahres", true) => NaiveDate::from_ymd_opt(today.year(), 1, 1),
        ("year" | "jahr" | "jahres", false) => NaiveDate::from_ymd_opt(today.year() - 1, 1, 1),
        ("month" | "monat" | "monats", true) => Some(first),
        ("month" | "monat" | "monats", false) => first.checked_sub_months(Months::new(1)),
        ("weekend" | "wochenende", _) => back_to(Weekday::Sat, today.pred_opt()?),
        (_, true) => monday_of(today),
        (_, false) => monday_of(today)?.checked_sub_days(Days::new(7)),
    }
}

/// The last `weekday` that is not after `day`.
fn back_to(weekday: Weekday, day: NaiveDate) -> Option<NaiveDate> {
    day.checked_sub_days(Days::new(u64::from(day.weekday().days_since(weekday))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Wednesday.
    fn said_at() -> DateTime<Utc> {
        "2026-09-16T10:00:00Z".parse().unwrap()
    }

    fn day(moment: Option<DateTime<Utc>>) -> String {
        moment.map_or(String::new(), |moment| moment.format("%F").to_string())
    }

    /// `from..until@at` of `text`, and what is left of it.
    fn check(text: &str, expected: &str, left: &str) {
        let (rest, when) = take(text, said_at());
        let at = if when.at.is_some() { format!("@{}", day(when.at)) } else { String::new() };
        let found = format!("{}..{}{at}", day(when.from), day(when.until));
        assert_eq!((found.as_str(), rest.as_str()), (expected, left), "{text:?}");
    }

    #[test]
    fn english_words_say_since_when() {
        check("I live in Bremen since March 2019", "2019-03-01..", "I live in Bremen");
        check("Ever since 2015 I work here", "2015-01-01..", "I work here");
        check("I have lived in Oslo for six years", "2020-01-01..", "I have lived in Oslo");
        check("I have lived in Oslo for the last 3 months now", "2026-06-01..", "I have lived in Oslo");
        check("from May on I work at ACME", "2026-05-01..", "I work at ACME");
        check("since yesterday", "2026-09-15..", "");
        check("since last October I smoke", "2025-10-01..", "I smoke");
        check("since the beginning of 2020", "2020-01-01..", "");
        check("since 3 June 2024", "2024-06-03..", "");
        check("since June 3rd, 2024, I run", "2024-06-03..", "I run");
    }

    #[test]
    fn english_words_say_when_and_until_when() {
        check("I moved to Bremen in May", "..@2026-05-01", "I moved to Bremen");
        check("In May, I moved to Bremen", "..@2026-05-01", "I moved to Bremen");
        check("in December I left", "..@2025-12-01", "I left");
        check("in September I left", "..@2026-09-01", "I left");
        check("I left last year", "..@2025-01-01", "I left");
        check("I left this year", "..@2026-01-01", "I left");
        check("I started last Monday", "..@2026-09-14", "I started");
        check("I started last Wednesday", "..@2026-09-09", "I started");
        check("I started on Wednesday", "..@2026-09-16", "I started");
        check("I bought it last week", "..@2026-09-07", "I bought it");
        check("two years ago I moved", "..@2024-01-01", "I moved");
        check("three weeks ago I moved", "..@2026-08-24", "I moved");
        check("I turned 40 the day before yesterday", "..@2026-09-14", "I turned 40");
        check("on 12 August 1987", "..@1987-08-12", "");
        check("on the 12th of August", "..@2026-08-12", "");
        check("2024-03-05", "..@2024-03-05", "");
        check("I lived in Prague until March 2024", "..2024-03-01", "I lived in Prague");
        check("from 2016 to 2020 I worked", "2016-01-01..2020-01-01", "I worked");
        check("I worked there (2016-2020)", "2016-01-01..2020-01-01", "I worked there");
        check("between May 2019 and June 2020", "2019-05-01..2020-06-01", "");
    }

    #[test]
    fn german_words_say_since_when_until_when_and_when() {
        check("ich wohne seit Mai in Graz", "2026-05-01..", "ich wohne in Graz");
        check("ich wohne seit März 2021 in Graz", "2021-03-01..", "ich wohne in Graz");
        check("Seit 2018 arbeite ich", "2018-01-01..", "arbeite ich");
        check("ich lebe seit zwei Jahren in Wien", "2024-01-01..", "ich lebe in Wien");
        check("seit über 3 Monaten", "2026-06-01..", "");
        check("ab Mai 2020", "2020-05-01..", "");
        check("seit dem 3. Juni 2024", "2024-06-03..", "");
        check("ich bin im Mai umgezogen", "..@2026-05-01", "ich bin umgezogen");
        check("am 3. Juni bin ich umgezogen", "..@2026-06-03", "bin ich umgezogen");
        check("am 14.02.1990 geboren", "..@1990-02-14", "geboren");
        check("Letzte Woche fing ich an", "..@2026-09-07", "fing ich an");
        check("im letzten Jahr", "..@2025-01-01", "");
        check("Ende März 2020 zog ich um", "..@2020-03-01", "zog ich um");
        check("gestern", "..@2026-09-15", "");
        check("Ich zog 2019 nach Rom", "..@2019-01-01", "Ich zog nach Rom");
        check("vor drei Monaten", "..@2026-06-01", "");
        check("Bis März 2024 habe ich", "..2024-03-01", "habe ich");
        check("Von 2016 bis 2020 habe ich", "2016-01-01..2020-01-01", "habe ich");
        check("bis zum 3.2.2020", "..2020-02-03", "");
    }

    #[test]
    fn what_only_looks_like_a_time_is_left_alone() {
        for text in [
            "I may move",
            "we march on",
            "I live in Augusta",
            "Office 2019",
            "I have 2024 books",
            "der Mai ist gekommen",
        ] {
            check(text, "..", text);
        }
    }

    #[test]
    fn a_time_that_nobody_can_tell_goes_without_a_date() {
        check("a few years ago I moved", "..", "I moved");
        check("ich wohne seit ein paar Jahren in Graz", "..", "ich wohne in Graz");
        check("I moved last summer", "..", "I moved");
        check("on 31 February 2024", "..", "");
    }

    #[test]
    fn all_times_of_a_text_are_found() {
        let days = |text: &str| mentioned(text, said_at()).into_iter().map(|day| day.format("%F").to_string());

        let found: Vec<String> =
            days("I moved in May, worked there from 2016 to 2020, and since yesterday I am ill.").collect();

        for day in ["2026-05-01", "2016-01-01", "2020-01-01", "2026-09-15"] {
            assert!(found.iter().any(|found| found == day), "{day} of {found:?}");
        }
        assert_eq!(days("I may move to the March of Ancona").count(), 0);
    }

    #[test]
    fn birthdays_are_days_dates_or_years() {
        assert_eq!(birthday("on June 3rd"), Some(Birthday::Day { day: 3, month: 6 }));
        assert_eq!(birthday("am 3. Juni"), Some(Birthday::Day { day: 3, month: 6 }));
        assert_eq!(birthday("29 February"), Some(Birthday::Day { day: 29, month: 2 }));
        assert_eq!(birthday("12 August 1987"), NaiveDate::from_ymd_opt(1987, 8, 12).map(Birthday::Date));
        assert_eq!(birthday("14.02.1990"), NaiveDate::from_ymd_opt(1990, 2, 14).map(Birthday::Date));
        assert_eq!(birthday("in 1990"), Some(Birthday::Year(1990)));
        assert_eq!(birthday("31 February"), None);
        assert_eq!(birthday("ready"), None);
        assert_eq!((month_name(0), month_name(6), month_name(13)), (None, Some("June"), None));
    }
}
