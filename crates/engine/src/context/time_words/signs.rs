//! Time words of Chinese and Japanese, which put no spaces between words.

use chrono::{Datelike, NaiveDate, Weekday};

use super::calendar::{Span, Unit, day, month, recent_date, recent_month, recent_weekday, weekday_in, year};

/// The days that the first time words of `text` speak of.
pub(super) fn find(text: &str, today: NaiveDate) -> Option<Span> {
    let signs: Vec<char> = text.chars().collect();
    (0..signs.len()).find_map(|at| {
        let (before, rest) = signs.split_at_checked(at)?;
        // A number is read from its first sign on, never from its middle.
        if number_sign(*rest.first()?) && before.last().copied().is_some_and(number_sign) {
            return None;
        }
        phrase(rest, today).or_else(|| ago(rest, today)).or_else(|| date(rest, today))
    })
}

/// Longer ones stand before those they begin with.
const PHRASES: [(&str, Unit, u32); 41] = [
    ("大前天", Unit::Day, 3),
    ("一昨日", Unit::Day, 2),
    ("おととい", Unit::Day, 2),
    ("前天", Unit::Day, 2),
    ("昨天", Unit::Day, 1),
    ("昨日", Unit::Day, 1),
    ("昨晚", Unit::Day, 1),
    ("きのう", Unit::Day, 1),
    ("今天", Unit::Day, 0),
    ("今日", Unit::Day, 0),
    ("今早", Unit::Day, 0),
    ("今晚", Unit::Day, 0),
    ("上个周末", Unit::Weekend, 1),
    ("上周末", Unit::Weekend, 1),
    ("上個週末", Unit::Weekend, 1),
    ("上个星期", Unit::Week, 1),
    ("上個星期", Unit::Week, 1),
    ("上星期", Unit::Week, 1),
    ("上礼拜", Unit::Week, 1),
    ("上个礼拜", Unit::Week, 1),
    ("上周", Unit::Week, 1),
    ("上週", Unit::Week, 1),
    ("先週", Unit::Week, 1),
    ("这个星期", Unit::Week, 0),
    ("这周", Unit::Week, 0),
    ("這週", Unit::Week, 0),
    ("本周", Unit::Week, 0),
    ("今週", Unit::Week, 0),
    ("上个月", Unit::Month, 1),
    ("上個月", Unit::Month, 1),
    ("上月", Unit::Month, 1),
    ("先月", Unit::Month, 1),
    ("这个月", Unit::Month, 0),
    ("這個月", Unit::Month, 0),
    ("本月", Unit::Month, 0),
    ("今月", Unit::Month, 0),
    ("前年", Unit::Year, 2),
    ("去年", Unit::Year, 1),
    ("昨年", Unit::Year, 1),
    ("今年", Unit::Year, 0),
    ("本年", Unit::Year, 0),
];

fn starts(signs: &[char], phrase: &str) -> bool {
    let mut signs = signs.iter();
    phrase.chars().all(|sign| signs.next() == Some(&sign))
}

fn phrase(signs: &[char], today: NaiveDate) -> Option<Span> {
    let Some((phrase, unit, back)) = PHRASES.iter().find(|(phrase, ..)| starts(signs, phrase)) else {
        return bare_weekday(signs, today);
    };
    let span = unit.ago(*back, today)?;
    let rest = signs.get(phrase.chars().count()..).unwrap_or_default();
    match unit {
        // 上周三: the Wednesday of last week.
        Unit::Week => rest.first().and_then(|sign| weekday(*sign)).map_or(Some(span), |day| weekday_in(span, day)),
        // 去年五月: May of last year.
        Unit::Year => match named_month(rest) {
            Some((number, _)) => month(span.from.year(), number),
            None => Some(span),
        },
        _ => Some(span),
    }
}

/// 星期三, 周三, 礼拜三, 水曜日.
fn bare_weekday(signs: &[char], today: NaiveDate) -> Option<Span> {
    let named = ["星期", "礼拜", "周", "週"]
        .iter()
        .find(|name| starts(signs, name))
        .and_then(|name| weekday(*signs.get(name.chars().count())?));
    let japanese = || {
        let number = "月火水木金土日".chars().position(|sign| Some(&sign) == signs.first())?;
        starts(signs.get(1..)?, "曜").then(|| Weekday::try_from(u8::try_from(number).ok()?).ok()).flatten()
    };
    recent_weekday(named.or_else(japanese)?, false, today)
}

fn weekday(sign: char) -> Option<Weekday> {
    let number = match sign {
        '日' | '天' => 6,
        sign => "一二三四五六".chars().position(|number| number == sign)?,
    };
    Weekday::try_from(u8::try_from(number).ok()?).ok()
}

/// 三天前, 两个星期前, 3日前, 2週間前.
fn ago(signs: &[char], today: NaiveDate) -> Option<Span> {
    let (count, read) = number(signs)?;
    let rest = signs.get(read..)?;
    let units = [
        ("天", Unit::Day),
        ("日", Unit::Day),
        ("个星期", Unit::Week),
        ("個星期", Unit::Week),
        ("星期", Unit::Week),
        ("个礼拜", Unit::Week),
        ("週間", Unit::Week),
        ("周", Unit::Week),
        ("週", Unit::Week),
        ("个月", Unit::Month),
        ("個月", Unit::Month),
        ("ヶ月", Unit::Month),
        ("か月", Unit::Month),
        ("年", Unit::Year),
    ];
    let (name, unit) = units.iter().find(|(name, _)| starts(rest, name))?;
    let rest = rest.get(name.chars().count()..)?;
    let ago = ["以前", "之前", "前"].iter().any(|word| starts(rest, word));
    // 三天前天: no such thing; 前天 and 前年 begin another word.
    if ago { unit.ago(count, today) } else { None }
}

/// 2024年3月5日, 2024年, 三月, 3月5号.
fn date(signs: &[char], today: NaiveDate) -> Option<Span> {
    let (first, read) = number(signs)?;
    let after = signs.get(read..)?;
    let (in_year, signs) = if starts(after, "年") && read == 4 {
        let in_year = i32::try_from(first).ok()?;
        (1900..=today.year().checked_add(1)?).contains(&in_year).then_some(())?;
        (Some(in_year), after.get(1..)?)
    } else {
        (None, signs)
    };
    let Some((number_of_month, rest)) = named_month(signs) else {
        return year(in_year?);
    };
    let of_month =
        number(rest).filter(|(_, read)| rest.get(*read).is_some_and(|sign| matches!(sign, '日' | '号' | '號')));
    match (in_year, of_month) {
        (Some(in_year), Some((of_month, _))) => day(NaiveDate::from_ymd_opt(in_year, number_of_month, of_month)?),
        (Some(in_year), None) => month(in_year, number_of_month),
        (None, Some((of_month, _))) => recent_date(number_of_month, of_month, today),
        (None, None) => recent_month(number_of_month, false, today),
    }
}

/// The number of the month that `signs` begin with, and what follows it.
fn named_month(signs: &[char]) -> Option<(u32, &[char])> {
    let (number, read) = number(signs)?;
    let rest = signs.get(read..)?.strip_prefix(&['月'])?;
    (1..=12).contains(&number).then_some((number, rest))
}

fn number_sign(sign: char) -> bool {
    sign.is_ascii_digit() || "一二两兩三四五六七八九十".contains(sign)
}

/// The number that `signs` begin with, in digits or signs up to 99, and how many signs it has.
fn number(signs: &[char]) -> Option<(u32, usize)> {
    let read = signs.iter().take_while(|sign| number_sign(**sign)).count();
    let signs = signs.get(..read)?;
    let digit = |sign: char| match sign {
        '两' | '兩' => Some(2),
        sign => "一二三四五六七八九".chars().zip(1..).find(|(number, _)| *number == sign).map(|(_, value)| value),
    };
    let value = match signs {
        [] => return None,
        digits if digits.iter().all(char::is_ascii_digit) && digits.len() <= 4 => {
            digits.iter().collect::<String>().parse().ok()?
        }
        ['十'] => 10,
        ['十', ones] => 10 + digit(*ones)?,
        [tens, '十'] => 10 * digit(*tens)?,
        [tens, '十', ones] => 10 * digit(*tens)? + digit(*ones)?,
        [one] => digit(*one)?,
        _ => return None,
    };
    Some((value, read))
}
