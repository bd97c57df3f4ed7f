//! Days, weeks, months and years around a day. Nothing here overflows: what the calendar cannot hold is `None`.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, NaiveTime, TimeDelta, TimeZone, Utc, Weekday};
use chrono_tz::Tz;

/// From the start of a day (included) to the start of another (excluded).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: NaiveDate,
    pub(super) until: NaiveDate,
}

/// A unit of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Month,
    Year,
    /// Saturday and Sunday.
    Weekend,
}

impl Unit {
    /// The whole unit `back` units before the one that `today` is in.
    pub(super) fn ago(self, back: u32, today: NaiveDate) -> Option<Span> {
        match self {
            Unit::Day => day(today.checked_sub_days(Days::new(u64::from(back)))?),
            Unit::Week => {
                let monday = monday_of(today)?.checked_sub_days(Days::new(7 * u64::from(back)))?;
                Some(Span { from: monday, until: monday.checked_add_days(Days::new(7))? })
            }
            Unit::Month => {
                let first = today.with_day(1)?.checked_sub_months(Months::new(back))?;
                month(first.year(), first.month())
            }
            Unit::Year => year(today.year().checked_sub(i32::try_from(back).ok()?)?),
            Unit::Weekend => {
                let week = Unit::Week.ago(back, today)?;
                Some(Span { from: week.from.checked_add_days(Days::new(5))?, ..week })
            }
        }
    }

    /// The last `count` units up to and with `today`, which needs not be whole.
    pub(super) fn last(self, count: u32, today: NaiveDate) -> Option<Span> {
        let from = match self {
            Unit::Day => today.checked_sub_days(Days::new(u64::from(count)))?,
            Unit::Week | Unit::Weekend => today.checked_sub_days(Days::new(7 * u64::from(count)))?,
            Unit::Month => today.checked_sub_months(Months::new(count))?,
            Unit::Year => today.checked_sub_months(Months::new(count.checked_mul(12)?))?,
        };
        Some(Span { from, until: today.succ_opt()? })
    }
}

/// One day.
pub(super) fn day(date: NaiveDate) -> Option<Span> {
    Some(Span { from: date, until: date.succ_opt()? })
}

/// One month.
pub(super) fn month(year: i32, month: u32) -> Option<Span> {
    let from = NaiveDate::from_ymd_opt(year, month, 1)?;
    Some(Span { from, until: from.checked_add_months(Months::new(1))? })
}

/// One year.
pub(super) fn year(year: i32) -> Option<Span> {
    Some(Span {
        from: NaiveDate::from_ymd_opt(year, 1, 1)?,
        until: NaiveDate::from_ymd_opt(year.checked_add(1)?, 1, 1)?,
    })
}

/// The most recent month of that number: the one `today` is in counts unless it must be over.
pub(super) fn recent_month(number: u32, over: bool, today: NaiveDate) -> Option<Span> {
    let this_year = number < today.month() || (number == today.month() && !over);
    month(if this_year { today.year() } else { today.year().checked_sub(1)? }, number)
}

/// The most recent day of that month and number, today included.
pub(super) fn recent_date(month: u32, number: u32, today: NaiveDate) -> Option<Span> {
    // A leap day may be some years back.
    let candidates = (0..8).filter_map(|back| NaiveDate::from_ymd_opt(today.year().checked_sub(back)?, month, number));
    candidates.into_iter().find(|date| *date <= today).and_then(day)
}

/// The most recent such weekday: today counts unless it must be over.
pub(super) fn recent_weekday(weekday: Weekday, over: bool, today: NaiveDate) -> Option<Span> {
    let back = (7 + today.weekday().num_days_from_monday() - weekday.num_days_from_monday()) % 7;
    let back = if back == 0 && over { 7 } else { back };
    day(today.checked_sub_days(Days::new(u64::from(back)))?)
}

/// That weekday of the week that begins `week`.
pub(super) fn weekday_in(week: Span, weekday: Weekday) -> Option<Span> {
    day(week.from.checked_add_days(Days::new(u64::from(weekday.num_days_from_monday())))?)
}

fn monday_of(date: NaiveDate) -> Option<NaiveDate> {
    date.checked_sub_days(Days::new(u64::from(date.weekday().num_days_from_monday())))
}

/// The first moment of a day in a zone: midnight, or when the clocks skip it, the moment they land on.
pub(super) fn start_of_day(date: NaiveDate, zone: Tz) -> Option<DateTime<Utc>> {
    // A zone that moves across the date line skips a whole day; its first moment is then that of the next.
    (0..=24 * 4).find_map(|quarter| {
        let local = date.and_time(NaiveTime::MIN).checked_add_signed(TimeDelta::minutes(15 * quarter))?;
        Some(zone.from_local_datetime(&local).earliest()?.with_timezone(&Utc))
    })
}
