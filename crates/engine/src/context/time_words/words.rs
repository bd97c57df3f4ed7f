//! Time words of languages that put spaces between words: English, German, French, Spanish, Korean.

use chrono::{Datelike, NaiveDate, Weekday};

use super::calendar::{Span, Unit, day, month, recent_date, recent_month, recent_weekday, weekday_in, year};

/// The days that the first time words of `text` speak of.
pub(super) fn find(text: &str, today: NaiveDate) -> Option<Span> {
    let sentence = Sentence::of(text);
    (0..sentence.words.len()).find_map(|at| {
        let rules = [phrase, ago, last_few, date, whole_month, weekday, whole_year];
        let here = Here { sentence: &sentence, at, today };
        rules.iter().find_map(|rule| rule(&here))
    })
}

/// A sentence in small words.
struct Sentence {
    words: Vec<Word>,
    french: bool,
}

struct Word {
    text: String,
    /// The sign between this word and the one before, when it is a single one.
    glue: char,
}

impl Sentence {
    fn of(text: &str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        let mut glue = String::new();
        let mut inside = false;
        for c in text.chars().flat_map(char::to_lowercase) {
            if !c.is_alphanumeric() {
                inside = false;
                glue.push(c);
                continue;
            }
            match words.last_mut() {
                Some(word) if inside => word.text.push(c),
                _ => {
                    let mut signs = glue.chars();
                    let glue = signs.next().filter(|_| signs.next().is_none()).unwrap_or(' ');
                    words.push(Word { text: c.into(), glue });
                }
            }
            glue.clear();
            inside = true;
        }
        let french = words.iter().filter(|word| FRENCH.contains(&word.text.as_str())).count();
        let german = words.iter().filter(|word| GERMAN.contains(&word.text.as_str())).count();
        Self { words, french: french > german }
    }
}

/// Small words that tell French from German, where `hier` means "here".
const FRENCH: [&str; 24] = [
    "qu", "que", "quoi", "est", "ai", "j", "je", "nous", "on", "le", "la", "les", "des", "du", "avons", "avez", "tu",
    "dit", "était", "ce", "c", "à", "avant", "réunion",
];
const GERMAN: [&str; 17] = [
    "ist", "was", "wir", "ich", "der", "die", "das", "und", "wo", "sind", "nicht", "ein", "eine", "gibt", "es", "hat",
    "von",
];

/// A place in a sentence, looked at on a day.
struct Here<'a> {
    sentence: &'a Sentence,
    at: usize,
    today: NaiveDate,
}

impl Here<'_> {
    /// The word `ahead` places further, or nothing.
    fn word(&self, ahead: usize) -> &str {
        self.sentence.words.get(self.at + ahead).map_or("", |word| word.text.as_str())
    }

    fn glue(&self, ahead: usize) -> char {
        self.sentence.words.get(self.at + ahead).map_or(' ', |word| word.glue)
    }

    /// The word before.
    fn before(&self) -> &str {
        let before = self.at.checked_sub(1).and_then(|at| self.sentence.words.get(at));
        before.map_or("", |word| word.text.as_str())
    }

    fn reads(&self, ahead: usize, phrase: &str) -> bool {
        phrase.split(' ').enumerate().all(|(place, word)| self.word(ahead + place) == word)
    }

    fn further(&self, ahead: usize) -> Here<'_> {
        Here { sentence: self.sentence, at: self.at + ahead, today: self.today }
    }

    /// `span`, or all the time since it began, when the word before says so.
    fn maybe_since(&self, span: Span) -> Option<Span> {
        if matches!(self.before(), "since" | "seit" | "depuis" | "desde") {
            return Some(Span { from: span.from, until: self.today.succ_opt()? });
        }
        Some(span)
    }
}

/// Phrases that name a unit a fixed number back. Longer ones stand before those they contain.
const PHRASES: [(&str, Unit, u32); 60] = [
    ("day before yesterday", Unit::Day, 2),
    ("yesterday", Unit::Day, 1),
    ("last night", Unit::Day, 1),
    ("today", Unit::Day, 0),
    ("this morning", Unit::Day, 0),
    ("this afternoon", Unit::Day, 0),
    ("this evening", Unit::Day, 0),
    ("tonight", Unit::Day, 0),
    ("week before last", Unit::Week, 2),
    ("last weekend", Unit::Weekend, 1),
    ("last week", Unit::Week, 1),
    ("past week", Unit::Week, 1),
    ("previous week", Unit::Week, 1),
    ("this week", Unit::Week, 0),
    ("last month", Unit::Month, 1),
    ("past month", Unit::Month, 1),
    ("previous month", Unit::Month, 1),
    ("this month", Unit::Month, 0),
    ("last year", Unit::Year, 1),
    ("past year", Unit::Year, 1),
    ("previous year", Unit::Year, 1),
    ("this year", Unit::Year, 0),
    ("vorgestern", Unit::Day, 2),
    ("gestern", Unit::Day, 1),
    ("heute", Unit::Day, 0),
    ("letztes wochenende", Unit::Weekend, 1),
    ("am wochenende", Unit::Weekend, 1),
    ("vorletzte woche", Unit::Week, 2),
    ("avant hier", Unit::Day, 2),
    ("aujourd hui", Unit::Day, 0),
    ("semaine dernière", Unit::Week, 1),
    ("semaine passée", Unit::Week, 1),
    ("cette semaine", Unit::Week, 0),
    ("mois dernier", Unit::Month, 1),
    ("ce mois", Unit::Month, 0),
    ("année dernière", Unit::Year, 1),
    ("an dernier", Unit::Year, 1),
    ("cette année", Unit::Year, 0),
    ("anteayer", Unit::Day, 2),
    ("antes de ayer", Unit::Day, 2),
    ("ayer", Unit::Day, 1),
    ("anoche", Unit::Day, 1),
    ("hoy", Unit::Day, 0),
    ("semana pasada", Unit::Week, 1),
    ("esta semana", Unit::Week, 0),
    ("mes pasado", Unit::Month, 1),
    ("este mes", Unit::Month, 0),
    ("año pasado", Unit::Year, 1),
    ("este año", Unit::Year, 0),
    ("그저께", Unit::Day, 2),
    ("어제", Unit::Day, 1),
    ("오늘", Unit::Day, 0),
    ("지난주", Unit::Week, 1),
    ("지난 주", Unit::Week, 1),
    ("이번 주", Unit::Week, 0),
    ("지난달", Unit::Month, 1),
    ("지난 달", Unit::Month, 1),
    ("이번 달", Unit::Month, 0),
    ("작년", Unit::Year, 1),
    ("올해", Unit::Year, 0),
];

/// German bends its words: `letzte Woche`, `im letzten Jahr`, `diesen Monat`.
const LAST: [&str; 17] = [
    "last",
    "letzte",
    "letzten",
    "letzter",
    "letztes",
    "letztem",
    "vorige",
    "vorigen",
    "voriger",
    "voriges",
    "vorigem",
    "vergangene",
    "vergangenen",
    "vergangener",
    "vergangenes",
    "vergangenem",
    "previous",
];
const THIS: [&str; 5] = ["diese", "diesen", "dieser", "dieses", "diesem"];

fn phrase(here: &Here<'_>) -> Option<Span> {
    let listed = PHRASES.iter().find(|(phrase, ..)| here.reads(0, phrase)).map(|(_, unit, back)| (*unit, *back));
    let bent = || {
        let unit = match here.word(1) {
            "woche" => Unit::Week,
            "monat" | "monats" => Unit::Month,
            "jahr" | "jahres" => Unit::Year,
            "wochenende" => Unit::Weekend,
            _ => return None,
        };
        let back = if LAST.contains(&here.word(0)) {
            1
        } else if THIS.contains(&here.word(0)) {
            0
        } else {
            return None;
        };
        Some((unit, back))
    };
    let french = || (here.word(0) == "hier" && here.sentence.french).then_some((Unit::Day, 1));
    let (unit, back) = listed.or_else(bent).or_else(french)?;
    here.maybe_since(unit.ago(back, here.today)?)
}

/// "three days ago", "vor einer Woche", "il y a deux mois", "hace dos años".
fn ago(here: &Here<'_>) -> Option<Span> {
    let opening = ["vor", "il y a", "hace"].iter().find(|opening| here.reads(0, opening));
    let start = opening.map_or(0, |opening| opening.split(' ').count());
    let (count, unit, end) = amount(here, start)?;
    if opening.is_none() && here.word(end) != "ago" {
        return None;
    }
    unit.ago(count, here.today)
}

/// "the last 7 days", "in den letzten drei Wochen", "les 3 derniers jours", "los últimos 5 días".
fn last_few(here: &Here<'_>) -> Option<Span> {
    let (count, unit) = if LAST.contains(&here.word(0)) || matches!(here.word(0), "past" | "últimos" | "últimas") {
        let (count, unit, _) = amount(here, 1)?;
        (count, unit)
    } else if matches!(here.word(1), "derniers" | "dernières") {
        (number(here.word(0))?, unit(here.word(2))?)
    } else {
        return None;
    };
    unit.last(count, here.today)
}

/// A number of units from `start` on, and the place after them.
fn amount(here: &Here<'_>, start: usize) -> Option<(u32, Unit, usize)> {
    for pair in ["a couple of", "couple of"] {
        if here.reads(start, pair) {
            let at = start + pair.split(' ').count();
            return Some((2, unit(here.word(at))?, at + 1));
        }
    }
    Some((number(here.word(start))?, unit(here.word(start + 1))?, start + 2))
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "day" | "days" | "tag" | "tage" | "tagen" | "jour" | "jours" | "día" | "días" => Unit::Day,
        "week" | "weeks" | "woche" | "wochen" | "semaine" | "semaines" | "semana" | "semanas" => Unit::Week,
        "month" | "months" | "monat" | "monate" | "monaten" | "mois" | "mes" | "meses" => Unit::Month,
        "year" | "years" | "jahr" | "jahre" | "jahren" | "an" | "ans" | "año" | "años" => Unit::Year,
        _ => return None,
    })
}

const NUMBERS: [&[&str]; 12] = [
    &["one", "a", "an", "ein", "eine", "einem", "einer", "einen", "un", "une", "una"],
    &["two", "zwei", "deux", "dos"],
    &["three", "drei", "trois", "tres"],
    &["four", "vier", "quatre", "cuatro"],
    &["five", "fünf", "cinq", "cinco"],
    &["six", "sechs", "seis"],
    &["seven", "sieben", "sept", "siete"],
    &["eight", "acht", "huit", "ocho"],
    &["nine", "neun", "neuf", "nueve"],
    &["ten", "zehn", "dix", "diez"],
    &["eleven", "elf", "onze", "once"],
    &["twelve", "zwölf", "douze", "doce"],
];

fn number(word: &str) -> Option<u32> {
    let spelt = NUMBERS.iter().zip(1..).find(|(words, _)| words.contains(&word)).map(|(_, number)| number);
    spelt.or_else(|| digits(word, 1..=4))
}

/// A number in ASCII digits, of so many of them.
fn digits(word: &str, length: std::ops::RangeInclusive<usize>) -> Option<u32> {
    let plain = length.contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    if plain { word.parse().ok() } else { None }
}

/// "2026-02-06", "24.12.2025", "on March 5th", "am 5. März", "el 5 de marzo".
fn date(here: &Here<'_>) -> Option<Span> {
    let span = iso_date(here)
        .or_else(|| german_date(here))
        .or_else(|| day_then_month(here))
        .or_else(|| month_then_day(here))?;
    here.maybe_since(span)
}

fn iso_date(here: &Here<'_>) -> Option<Span> {
    let in_year = digits(here.word(0), 4..=4)?;
    let number = digits(here.word(1), 2..=2)?;
    let sign = here.glue(1);
    if !matches!(sign, '-' | '/') || here.glue(0) == sign {
        return None;
    }
    let in_year = i32::try_from(in_year).ok()?;
    match digits(here.word(2), 2..=2) {
        Some(of_month) if here.glue(2) == sign => day(NaiveDate::from_ymd_opt(in_year, number, of_month)?),
        _ if sign == '-' && here.glue(2) != sign => month(in_year, number),
        _ => None,
    }
}

fn german_date(here: &Here<'_>) -> Option<Span> {
    let of_month = digits(here.word(0), 1..=2)?;
    let number = digits(here.word(1), 1..=2)?;
    if here.glue(1) != '.' || here.glue(0) == '.' {
        return None;
    }
    match digits(here.word(2), 4..=4) {
        Some(in_year) if here.glue(2) == '.' => {
            day(NaiveDate::from_ymd_opt(i32::try_from(in_year).ok()?, number, of_month)?)
        }
        // "am 3.2." is a date; "3.2" may be anything.
        _ if matches!(here.before(), "am" | "vom" | "seit") && here.glue(2) != '.' => {
            recent_date(number, of_month, here.today)
        }
        _ => None,
    }
}

fn day_then_month(here: &Here<'_>) -> Option<Span> {
    let (of_month, ordinal) = ordinal(here.word(0))?;
    let skipped = usize::from(matches!(here.word(1), "of" | "de"));
    let number = month_number(here.word(1 + skipped))?;
    let ordinal = ordinal || here.glue(1) == '.' || skipped == 1;
    on_date(here, number, of_month, ordinal, 2 + skipped)
}

fn month_then_day(here: &Here<'_>) -> Option<Span> {
    let number = month_number(here.word(0))?;
    let skipped = usize::from(here.word(1) == "the");
    let (of_month, ordinal) = ordinal(here.word(1 + skipped))?;
    on_date(here, number, of_month, ordinal || skipped == 1, 2 + skipped)
}

/// A day of a month, with its year when one follows. Without one, something else must say that it is a date:
/// "march 5 miles" is none.
fn on_date(here: &Here<'_>, number: u32, of_month: u32, ordinal: bool, end: usize) -> Option<Span> {
    let skipped = usize::from(matches!(here.word(end), "of" | "de" | "del"));
    if let Some(in_year) = plausible_year(here.word(end + skipped), here.today) {
        return day(NaiveDate::from_ymd_opt(in_year, number, of_month)?);
    }
    let introduced =
        matches!(here.before(), "on" | "the" | "am" | "vom" | "le" | "el" | "since" | "seit" | "depuis" | "desde");
    if ordinal || introduced { recent_date(number, of_month, here.today) } else { None }
}

/// `5`, `5th`, and whether it says that it is an ordinal.
fn ordinal(word: &str) -> Option<(u32, bool)> {
    let bare = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending));
    let number = digits(bare.unwrap_or(word), 1..=2)?;
    (1..=31).contains(&number).then_some((number, bare.is_some()))
}

const MONTHS: [&[&str]; 12] = [
    &["january", "jan", "januar", "jänner", "janvier", "enero"],
    &["february", "feb", "februar", "février", "febrero"],
    &["march", "märz", "mars", "marzo"],
    &["april", "apr", "avril", "abril"],
    &["may", "mai", "mayo"],
    &["june", "jun", "juni", "juin", "junio"],
    &["july", "jul", "juli", "juillet", "julio"],
    &["august", "aug", "août", "agosto"],
    &["september", "sep", "sept", "septembre", "septiembre"],
    &["october", "oct", "oktober", "okt", "octobre", "octubre"],
    &["november", "nov", "novembre", "noviembre"],
    &["december", "dec", "dezember", "dez", "décembre", "diciembre"],
];

fn month_number(word: &str) -> Option<u32> {
    MONTHS.iter().zip(1..).find(|(names, _)| names.contains(&word)).map(|(_, number)| number)
}

/// "in May", "last March", "im Mai 2024", "March 2024".
fn whole_month(here: &Here<'_>) -> Option<Span> {
    let number = month_number(here.word(0))?;
    let skipped = usize::from(matches!(here.word(1), "of" | "de" | "del"));
    if let Some(in_year) = plausible_year(here.word(1 + skipped), here.today) {
        return here.maybe_since(month(in_year, number)?);
    }
    let over = LAST.contains(&here.before());
    let introduced = matches!(
        here.before(),
        "in" | "im"
            | "en"
            | "during"
            | "since"
            | "seit"
            | "depuis"
            | "desde"
            | "early"
            | "late"
            | "mid"
            | "anfang"
            | "ende"
            | "mitte"
    );
    if !over && !introduced {
        return None;
    }
    here.maybe_since(recent_month(number, over, here.today)?)
}

const WEEKDAYS: [(&[&str], Weekday); 7] = [
    (&["monday", "montag", "lundi", "lunes"], Weekday::Mon),
    (&["tuesday", "dienstag", "mardi", "martes"], Weekday::Tue),
    (&["wednesday", "mittwoch", "mercredi", "miércoles"], Weekday::Wed),
    (&["thursday", "donnerstag", "jeudi", "jueves"], Weekday::Thu),
    (&["friday", "freitag", "vendredi", "viernes"], Weekday::Fri),
    (&["saturday", "samstag", "sonnabend", "samedi", "sábado"], Weekday::Sat),
    (&["sunday", "sonntag", "dimanche", "domingo"], Weekday::Sun),
];

/// "last Tuesday", "on Friday", "am Montag", "lundi dernier", "on Monday last week".
fn weekday(here: &Here<'_>) -> Option<Span> {
    let (_, weekday) = WEEKDAYS.iter().find(|(names, _)| names.contains(&here.word(0)))?;
    let after = usize::from(here.word(1) == "of");
    let week = phrase(&here.further(1 + after)).filter(|week| (week.until - week.from).num_days() == 7);
    if let Some(week) = week {
        return weekday_in(week, *weekday);
    }
    let over = LAST.contains(&here.before()) || matches!(here.word(1), "dernier" | "pasado");
    let introduced = matches!(here.before(), "on" | "am" | "el" | "since" | "seit" | "depuis" | "desde");
    if !over && !introduced {
        return None;
    }
    here.maybe_since(recent_weekday(*weekday, over, here.today)?)
}

/// "in 2024", "im Jahr 2024", "en 2024".
fn whole_year(here: &Here<'_>) -> Option<Span> {
    let in_year = plausible_year(here.word(0), here.today)?;
    let introduced =
        matches!(here.before(), "in" | "en" | "during" | "since" | "seit" | "depuis" | "desde" | "jahr" | "year");
    if !introduced {
        return None;
    }
    here.maybe_since(year(in_year)?)
}

/// Four digits that somebody alive may remember as a year.
fn plausible_year(word: &str, today: NaiveDate) -> Option<i32> {
    let number = i32::try_from(digits(word, 4..=4)?).ok()?;
    (1900..=today.year().checked_add(1)?).contains(&number).then_some(number)
}
