//! The time that a question's own words speak of: "yesterday", "letzte Woche", "in March", 昨天.
//!
//! Pure. Words that are also something else ("may", "march", "second") only count in a pattern: "in May", "on 5 March".

mod calendar;
mod signs;
mod words;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use skymem_core::TimeRange;

use calendar::start_of_day;

/// The time that the first time words of `text` speak of, in `zone`, for someone who asks at `asked_at`; `None` when
/// it has none. English, German, French, Spanish, Chinese, Japanese and Korean.
#[must_use]
pub(crate) fn time_range(text: &str, asked_at: DateTime<Utc>, zone: Tz) -> Option<TimeRange> {
    let today = asked_at.with_timezone(&zone).date_naive();
    let days = words::find(text, today).or_else(|| signs::find(text, today))?;
    let range = TimeRange { from: start_of_day(days.from, zone)?, until: start_of_day(days.until, zone)? };
    // A day that a zone skipped has no moment in it.
    (range.from < range.until).then_some(range)
}

#[cfg(test)]
mod tests {
    use chrono::{NaiveDateTime, TimeZone};

    use super::*;

    /// A Wednesday.
    const ASKED: &str = "2026-03-18T10:00";

    fn moment(text: &str, zone: Tz) -> DateTime<Utc> {
        let text = if text.len() == 10 { format!("{text}T00:00") } else { text.to_owned() };
        let local = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M").unwrap();
        zone.from_local_datetime(&local).unwrap().with_timezone(&Utc)
    }

    fn check(text: &str, from: &str, until: &str) {
        let zone = chrono_tz::Europe::Berlin;
        let expected = TimeRange { from: moment(from, zone), until: moment(until, zone) };
        assert_eq!(time_range(text, moment(ASKED, zone), zone), Some(expected), "{text:?}");
    }

    fn check_none(text: &str) {
        let zone = chrono_tz::Europe::Berlin;
        assert_eq!(time_range(text, moment(ASKED, zone), zone), None, "{text:?}");
    }

    #[test]
    fn english_time_words() {
        check("What did I say today?", "2026-03-18", "2026-03-19");
        check("and yesterday's plan", "2026-03-17", "2026-03-18");
        check("the day before yesterday", "2026-03-16", "2026-03-17");
        check("what happened last week", "2026-03-09", "2026-03-16");
        check("this week", "2026-03-16", "2026-03-23");
        check("last month", "2026-02-01", "2026-03-01");
        check("this month", "2026-03-01", "2026-04-01");
        check("last year", "2025-01-01", "2026-01-01");
        check("Last weekend", "2026-03-14", "2026-03-16");
        check("last Tuesday", "2026-03-17", "2026-03-18");
        check("last Wednesday", "2026-03-11", "2026-03-12");
        check("on Wednesday", "2026-03-18", "2026-03-19");
        check("on Friday", "2026-03-13", "2026-03-14");
        check("on Friday of last week", "2026-03-13", "2026-03-14");
        check("on Monday last week", "2026-03-09", "2026-03-10");
        check("in March", "2026-03-01", "2026-04-01");
        check("last march", "2025-03-01", "2025-04-01");
        check("in May", "2025-05-01", "2025-06-01");
        check("in May 2024", "2024-05-01", "2024-06-01");
        check("June 2024", "2024-06-01", "2024-07-01");
        check("in early December", "2025-12-01", "2026-01-01");
        check("since February", "2026-02-01", "2026-03-19");
        check("since yesterday", "2026-03-17", "2026-03-19");
        check("on March 5th", "2026-03-05", "2026-03-06");
        check("on the 5th of March", "2026-03-05", "2026-03-06");
        check("on 24 December", "2025-12-24", "2025-12-25");
        check("July 4, 2024", "2024-07-04", "2024-07-05");
        check("3 days ago", "2026-03-15", "2026-03-16");
        check("a week ago", "2026-03-09", "2026-03-16");
        check("two weeks ago", "2026-03-02", "2026-03-09");
        check("three months ago", "2025-12-01", "2026-01-01");
        check("a couple of days ago", "2026-03-16", "2026-03-17");
        check("2 years ago", "2024-01-01", "2025-01-01");
        check("in the last 7 days", "2026-03-11", "2026-03-19");
        check("past two weeks", "2026-03-04", "2026-03-19");
        check("in 2024", "2024-01-01", "2025-01-01");
        check("on 2026-02-06", "2026-02-06", "2026-02-07");
        check("2025-11 notes", "2025-11-01", "2025-12-01");
    }

    #[test]
    fn german_time_words() {
        check("Was war gestern?", "2026-03-17", "2026-03-18");
        check("vorgestern", "2026-03-16", "2026-03-17");
        check("heute früh", "2026-03-18", "2026-03-19");
        check("letzte Woche", "2026-03-09", "2026-03-16");
        check("in der vergangenen Woche", "2026-03-09", "2026-03-16");
        check("diesen Monat", "2026-03-01", "2026-04-01");
        check("im letzten Jahr", "2025-01-01", "2026-01-01");
        check("letzten Dienstag", "2026-03-17", "2026-03-18");
        check("am Montag", "2026-03-16", "2026-03-17");
        check("vor drei Tagen", "2026-03-15", "2026-03-16");
        check("vor einer Woche", "2026-03-09", "2026-03-16");
        check("vor 2 Monaten", "2026-01-01", "2026-02-01");
        check("in den letzten 3 Tagen", "2026-03-15", "2026-03-19");
        check("im Mai", "2025-05-01", "2025-06-01");
        check("im März 2025", "2025-03-01", "2025-04-01");
        check("am 5. März", "2026-03-05", "2026-03-06");
        check("am 24.12.2025", "2025-12-24", "2025-12-25");
        check("am 3.2.", "2026-02-03", "2026-02-04");
    }

    #[test]
    fn french_and_spanish_time_words() {
        check("Qu'est-ce que j'ai dit hier ?", "2026-03-17", "2026-03-18");
        check("avant-hier", "2026-03-16", "2026-03-17");
        check("aujourd’hui", "2026-03-18", "2026-03-19");
        check("la semaine dernière", "2026-03-09", "2026-03-16");
        check("mardi dernier", "2026-03-17", "2026-03-18");
        check("il y a trois jours", "2026-03-15", "2026-03-16");
        check("en août", "2025-08-01", "2025-09-01");
        check("le 5 mars", "2026-03-05", "2026-03-06");
        check("ayer", "2026-03-17", "2026-03-18");
        check("la semana pasada", "2026-03-09", "2026-03-16");
        check("el lunes pasado", "2026-03-16", "2026-03-17");
        check("hace dos semanas", "2026-03-02", "2026-03-09");
        check("en mayo de 2024", "2024-05-01", "2024-06-01");
        check("el 5 de marzo", "2026-03-05", "2026-03-06");
    }

    #[test]
    fn time_words_of_east_asia() {
        check("我昨天说了什么？", "2026-03-17", "2026-03-18");
        check("前天的会议", "2026-03-16", "2026-03-17");
        check("大前天", "2026-03-15", "2026-03-16");
        check("今天", "2026-03-18", "2026-03-19");
        check("上周我们讨论的", "2026-03-09", "2026-03-16");
        check("上周三", "2026-03-11", "2026-03-12");
        check("上个星期天", "2026-03-15", "2026-03-16");
        check("上个月", "2026-02-01", "2026-03-01");
        check("去年", "2025-01-01", "2026-01-01");
        check("去年五月", "2025-05-01", "2025-06-01");
        check("三月", "2026-03-01", "2026-04-01");
        check("十二月份", "2025-12-01", "2026-01-01");
        check("2024年3月5日", "2024-03-05", "2024-03-06");
        check("2024年", "2024-01-01", "2025-01-01");
        check("3月5号", "2026-03-05", "2026-03-06");
        check("三天前", "2026-03-15", "2026-03-16");
        check("10天前", "2026-03-08", "2026-03-09");
        check("两个星期前", "2026-03-02", "2026-03-09");
        check("三个月前", "2025-12-01", "2026-01-01");
        check("两年前", "2024-01-01", "2025-01-01");
        check("昨日の話", "2026-03-17", "2026-03-18");
        check("一昨日", "2026-03-16", "2026-03-17");
        check("先週の会議", "2026-03-09", "2026-03-16");
        check("3日前", "2026-03-15", "2026-03-16");
        check("어제 회의", "2026-03-17", "2026-03-18");
        check("지난주", "2026-03-09", "2026-03-16");
    }

    #[test]
    fn words_that_only_look_like_time_do_not_fire() {
        for text in [
            "",
            "May I ask you something?",
            "it may rain",
            "This may be wrong",
            "march on, soldiers; march 5 miles",
            "a second opinion, the second week",
            "the monday blues",
            "Was ist hier passiert?",
            "Wir sind hier",
            "tomorrow and next week",
            "the last straw",
            "last but not least",
            "in 3 steps",
            "version 3.2.1 of 10.0.0.1",
            "call 555-12-34",
            "in 99999",
            "5 may be enough",
            "三个月",
            "月亮",
            "一天",
            "9999999999 days ago",
            "on March 77th",
            "2026-13-45",
            "9999年13月",
        ] {
            check_none(text);
        }
    }

    #[test]
    fn a_day_is_as_long_as_summer_time_makes_it() {
        let zone = chrono_tz::Europe::Berlin;
        let asked = moment("2026-03-30T09:00", zone);

        let yesterday = time_range("yesterday", asked, zone).unwrap();

        assert_eq!(yesterday.until - yesterday.from, chrono::TimeDelta::hours(23));
    }

    #[test]
    fn a_day_that_does_not_begin_at_midnight_begins_when_it_begins() {
        // Cairo's clocks went from 23:59 to 01:00 into 2026-04-24.
        let zone = chrono_tz::Africa::Cairo;
        let asked = moment("2026-04-24T12:00", zone);

        let today = time_range("today", asked, zone).unwrap();

        assert_eq!(today.until - today.from, chrono::TimeDelta::hours(23));
    }

    #[test]
    fn yesterday_depends_on_where_one_asks() {
        let asked = "2026-03-18T02:00:00Z".parse().unwrap();
        let in_berlin = time_range("yesterday", asked, chrono_tz::Europe::Berlin).unwrap();
        let in_denver = time_range("yesterday", asked, chrono_tz::America::Denver).unwrap();
        assert!(in_denver.until <= in_berlin.until && in_denver.from < in_berlin.from);
    }

    #[test]
    fn no_text_makes_it_fall_over() {
        use proptest::prelude::*;
        let pieces = prop::sample::select(vec![
            "last",
            "in",
            "on",
            "5",
            "31",
            "february",
            "ago",
            "days",
            "2026",
            "-",
            ".",
            " ",
            "年",
            "月",
            "日",
            "十",
            "前",
            "天",
            "99999999999999999999",
            "vor",
            "since",
            "hace",
            "上周",
            "一",
            "0",
            "il",
            "y",
            "a",
        ]);
        let text = prop::collection::vec(prop_oneof![pieces.prop_map(str::to_owned), ".{0,4}"], 0..12);
        proptest!(|(pieces in text, seconds in -8_000_000_000_000_i64..8_000_000_000_000)| {
            let asked = DateTime::from_timestamp(seconds, 0).unwrap();
            if let Some(range) = time_range(&pieces.join(" "), asked, chrono_tz::Pacific::Apia) {
                prop_assert!(range.from < range.until);
            }
            let _ = time_range(&pieces.concat(), asked, chrono_tz::UTC);
        });
    }
}
