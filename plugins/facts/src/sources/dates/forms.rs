//! The words of time, and the patterns that find them: English and German.

use std::sync::LazyLock;

use chrono::Weekday;
use regex::Regex;

/// English names first, then how else they are written, in lower case.
pub(super) const MONTHS: [(&str, &[&str]); 12] = [
    ("January", &["january", "januar", "jänner", "jan."]),
    ("February", &["february", "februar", "feber", "feb."]),
    ("March", &["march", "märz", "maerz", "mar."]),
    ("April", &["april", "apr."]),
    ("May", &["may", "mai"]),
    ("June", &["june", "juni", "jun."]),
    ("July", &["july", "juli", "jul."]),
    ("August", &["august", "aug."]),
    ("September", &["september", "sept.", "sep."]),
    ("October", &["october", "oktober", "oct.", "okt."]),
    ("November", &["november", "nov."]),
    ("December", &["december", "dezember", "dec.", "dez."]),
];

pub(super) const WEEKDAYS: [(Weekday, &[&str]); 7] = [
    (Weekday::Mon, &["monday", "montag"]),
    (Weekday::Tue, &["tuesday", "dienstag"]),
    (Weekday::Wed, &["wednesday", "mittwoch"]),
    (Weekday::Thu, &["thursday", "donnerstag"]),
    (Weekday::Fri, &["friday", "freitag"]),
    (Weekday::Sat, &["saturday", "samstag", "sonnabend"]),
    (Weekday::Sun, &["sunday", "sonntag"]),
];

pub(super) const NUMBERS: [(u32, &[&str]); 12] = [
    (1, &["an", "a", "one", "einem", "einen", "einer", "eine", "ein"]),
    (2, &["two", "zwei", "a couple of"]),
    (3, &["three", "drei"]),
    (4, &["four", "vier"]),
    (5, &["five", "fünf"]),
    (6, &["six", "sechs"]),
    (7, &["seven", "sieben"]),
    (8, &["eight", "acht"]),
    (9, &["nine", "neun"]),
    (10, &["ten", "zehn"]),
    (11, &["eleven", "elf"]),
    (12, &["twelve", "zwölf"]),
];

/// All words of a table as alternatives of a pattern; of those that begin alike the longest comes first.
fn alternatives<T>(table: &[(T, &[&str])]) -> String {
    let mut words: Vec<&str> = table.iter().flat_map(|(_, words)| words.iter().copied()).collect();
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    // A full stop may be left out: "Jan", "Okt".
    words.into_iter().map(|word| word.replace('.', "\\b\\.?")).collect::<Vec<_>>().join("|")
}

/// What stands beside `word` in a table.
pub(super) fn meaning<T: Copy>(table: &[(T, &[&str])], word: &str) -> Option<T> {
    let word = word.to_lowercase();
    let word = word.split_whitespace().collect::<Vec<_>>().join(" ");
    let same = |known: &&str| known.trim_end_matches('.') == word.trim_end_matches('.');
    table.iter().find(|(_, words)| words.iter().any(same)).map(|(meaning, _)| *meaning)
}

const UNIT: &str = "years?|yrs?|months?|weeks?|days?|jahre?n?|jahr|monate?n?|wochen?|tage?n?";

const ABOUT: &str = "(?:(?:about|around|roughly|over|more than|almost|nearly|just|only|now|the last|the past|etwa|ungefähr|rund|\
                     knapp|fast|über|mehr als|gut|ca\\.|erst|nun|den letzten|mittlerweile|inzwischen|schon|bereits)\\s+)?";

const PART: &str =
    "(?:(?:early|mid|late|the\\s+(?:beginning|start|middle|end)\\s+of|anfang|mitte|ende|frühjahr)[\\s-]+)";

const LAST: &str = "last|this|past|letzte[mnrs]?|vergangene[mnrs]?|vorige[mnrs]?|diese[mnrs]?";

/// The patterns of this file, compiled once.
pub(super) struct Forms {
    pub(super) range: Regex,
    pub(super) since: Regex,
    pub(super) until: Regex,
    pub(super) at: Regex,
    pub(super) bare_year: Regex,
    /// Says that there is a time, not which.
    pub(super) vague: Regex,
    /// One period, whole.
    pub(super) ago: Regex,
    pub(super) last: Regex,
    pub(super) day: Regex,
    pub(super) month: Regex,
    pub(super) year: Regex,
    pub(super) weekday: Regex,
}

pub(super) static FORMS: LazyLock<Option<Forms>> = LazyLock::new(forms);

fn forms() -> Option<Forms> {
    let (months, weekdays) = (alternatives(&MONTHS), alternatives(&WEEKDAYS));
    let number = format!("(?:\\d{{1,3}}|{})", alternatives(&NUMBERS));
    let year = "(?:19|20)\\d\\d";
    let ago = format!("{ABOUT}(?:{number})\\s+(?:{UNIT})\\s+ago|vor\\s+{ABOUT}(?:{number})\\s+(?:{UNIT})");
    let iso = format!("{year}-\\d\\d(?:-\\d\\d)?");
    let dotted = format!("\\d{{1,2}}\\.\\s?\\d{{1,2}}\\.(?:\\s?{year})?");
    let day_first = format!(
        "(?:(?:the|dem|den)\\s+)?\\d{{1,2}}(?:st|nd|rd|th|\\.)?\\s+(?:of\\s+)?(?:{months})(?:,?\\s+{year}\\b)?"
    );
    let month_first = format!("(?:{months})\\s+(?:the\\s+)?\\d{{1,2}}(?:st|nd|rd|th)?(?:,?\\s+{year}\\b)?\\b");
    let of_year = "this\\s+year|last\\s+year|of\\s+(?:this|last)\\s+year|dieses\\s+jahres|letzten\\s+jahres";
    let month = format!("{PART}?(?:{months})(?:\\s+(?:{year}|{of_year}))?");
    let last =
        format!("(?:{LAST})\\s+(?:year|month|week|weekend|jahr(?:es)?|monats?|woche|wochenende|{weekdays}|{months})");
    let near = "the\\s+day\\s+before\\s+yesterday|yesterday|vorgestern|gestern|today|heute";
    // What needs no "in" before it to be a time, and what does.
    let bare = format!(
        "{iso}|{dotted}|{day_first}|{month_first}|{ago}|(?:the\\s+)?(?:{last})|{near}|{PART}(?:{months}|{year})(?:\\s+{year})?"
    );
    let named = format!(
        "{iso}|{dotted}|{day_first}|{month_first}|{month}|{ago}|(?:(?:the|de[rmn])\\s+)?(?:{last})|{near}|\
         {PART}?(?:the\\s+year\\s+|jahre?\\s+)?{year}|(?:{weekdays})"
    );
    let starts = "(?i)(?:^|[\\s(,]+)";
    let seasons = "spring|summer|fall|autumn|winter|frühling|frühjahr|sommer|herbst";
    let many = format!(
        "a\\s+few|few|several|many|some|ein(?:ige[nr]?)?\\s+paar|ein\\s+paar|einige[nr]?|viele[nr]?|mehrere[nr]?|{number}\\s+and\\s+a\\s+half"
    );
    let vague = format!(
        "{starts}(?:(?:{LAST}|im|in\\s+the|in|seit\\s+dem|since)\\s+(?:{seasons})(?:\\s+{year})?|\
         (?:for|seit|since|vor)\\s+(?:(?:{many})\\s+(?:{UNIT})(?:\\s+ago)?|a\\s+(?:long\\s+time|while)|ages|years|jahren|langem|kurzem|\
         längerem|ewigkeiten)(?:\\s+now|\\s+ago)?|(?:{many})\\s+(?:{UNIT})\\s+ago)\\b"
    );
    let compile = |pattern: &str| Regex::new(pattern).ok();
    Some(Forms {
        range: compile(&format!(
            "{starts}(?:(?:from|between|von|zwischen)\\s+)?(?P<from>{named})\\s*(?:to|until|till|through|and|bis|und|-|–|—)\\s*\
             (?:zum\\s+)?(?P<until>{named})\\b\\)?"
        ))?,
        since: compile(&format!(
            "{starts}(?:(?:for|seit|since)\\s+{ABOUT}(?P<length>(?:{number})\\s+(?:{UNIT}))(?:\\s+now)?|\
             (?:ever\\s+since|since|as\\s+of|starting(?:\\s+(?:in|on))?|from|seit|ab|von)\\s+(?:(?:the|dem|der)\\s+)?(?P<from>{named})\
             (?:\\s+(?:on(?:wards)?|an))?)\\b\\)?"
        ))?,
        until: compile(&format!(
            "{starts}(?:until|till|til|up\\s+to|through|bis)\\s+(?:(?:zum|the|in\\s+den|ins)\\s+)?(?P<until>{named})\\b\\)?"
        ))?,
        at: compile(&format!(
            "{starts}(?:(?:(?:back\\s+)?in|on|around|im|am|in\\s+der|zum|um|gegen)\\s+(?P<named>{named})|(?P<bare>{bare}))\
             (?:\\b|\\.)\\)?"
        ))?,
        bare_year: compile(&format!(
            "(?i)(?P<before>(?:^|\\s)(?:ich|wir|bin|sind|ist|habe|haben|hat|wurde|zog|zogen))\\s+(?P<year>{year})\\b"
        ))?,
        vague: compile(&vague)?,
        ago: compile(&format!("(?i)^(?:vor\\s+)?{ABOUT}(?P<number>{number})\\s+(?P<unit>{UNIT})(?:\\s+ago)?$"))?,
        last: compile(&format!(
            "(?i)^(?:(?:the|de[rmn])\\s+)?(?P<which>{LAST})\\s+(?:(?P<unit>year|month|weekend|week|jahr(?:es)?|monats?|wochenende|woche)|\
             (?P<weekday>{weekdays})|(?P<month>{months}))$"
        ))?,
        day: compile(&format!(
            "(?i)(?:^|[^\\d.])(?:(?P<y1>{year})-(?P<m1>\\d\\d)-(?P<d1>\\d\\d)|(?P<d2>\\d{{1,2}})\\.\\s?(?P<m2>\\d{{1,2}})\\.(?:\\s?(?P<y2>{year}))?|\
             (?P<d3>\\d{{1,2}})(?:st|nd|rd|th|\\.)?\\s+(?:of\\s+)?(?P<m3>{months})(?:,?\\s+(?P<y3>{year})\\b)?|\
             \\b(?P<m4>{months})\\s+(?:the\\s+)?(?P<d4>\\d{{1,2}})(?:st|nd|rd|th)?\\b(?:,?\\s+(?P<y4>{year})\\b)?)"
        ))?,
        month: compile(&format!(
            "(?i)^{PART}?(?P<month>{months})(?:\\s+(?:(?P<year>{year})|(?P<of_year>{of_year})))?$|\
             ^(?P<y5>{year})-(?P<m5>\\d\\d)$"
        ))?,
        year: compile(&format!("\\b{year}\\b"))?,
        weekday: compile(&format!("(?i)^(?:{weekdays})$"))?,
    })
}
