//! Identifiers: what must survive a summary letter by letter. Pure.
//!
//! Paths, numbers (with their units), dates and times, URLs, e-mail addresses, code names (`foo_bar`, `CamelCase`,
//! `ABC-123`, `e5-small-q4`, `v1.2.3`, anything between backticks), addresses of machines, hashes, and quoted names.

use std::collections::HashSet;
use std::sync::LazyLock;

use regex::Regex;
use skymem_core::{Tokens, estimate_tokens};

/// A longer identifier is not carried: it would push out all others.
const LONGEST: usize = 200;

/// A quotation of more words is a phrase, not a name.
const MOST_QUOTED_WORDS: usize = 6;

/// The identifiers in `text`, each once, in the order in which they stand there first.
#[must_use]
pub(crate) fn names(text: &str) -> Vec<&str> {
    let Some(patterns) = PATTERNS.as_ref() else { return Vec::new() };
    let mut names = Vec::new();
    let mut known = HashSet::new();
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| patterns.any.captures(rest)) {
        let Some(whole) = found.get(0) else { break };
        let start = at + whole.start();
        let name = kind(&found).and_then(|kind| name(kind, text, start, whole.as_str(), patterns));
        at = match name {
            Some((name, end)) => {
                if name.len() <= LONGEST && known.insert(name) {
                    names.push(name);
                }
                end
            }
            None if found.name("word").or(found.name("relative")).is_some() => at + whole.end(),
            // Inside a quoted sentence there may be some.
            None => start + text.get(start..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
        };
    }
    names
}

/// Whether `name` stands in `text`, and not merely as a part of something longer: 17 is not named by 2017 or 17.5.
#[must_use]
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts_inside = name.starts_with(inside);
    let ends_inside = name.ends_with(inside);
    let number = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    text.match_indices(name).any(|(at, found)| {
        let (before, after) = (text.get(..at).unwrap_or_default(), text.get(at + found.len()..).unwrap_or_default());
        let mut back = before.chars().rev();
        let mut ahead = after.chars();
        let goes_on = |next: Option<char>, one_more: Option<char>, edge: Option<char>| match next {
            Some('.' | ',') => number(edge) && number(one_more),
            Some(c) => inside(c),
            None => false,
        };
        let (left, right) = (name.chars().next(), name.chars().next_back());
        let joined_before = starts_inside && goes_on(back.next(), back.next(), left);
        let joined_after = ends_inside && goes_on(ahead.next(), ahead.next(), right);
        !joined_before && !joined_after
    })
}

/// What is known of identifiers after a fold: `older` ones, newest first, behind `newer` ones in the order in which they
/// were said. Each stands once, where it was named last, and all together cost no more than `most`: the oldest go.
#[must_use]
pub(crate) fn carry(older: &[String], newer: &[&str], most: Tokens) -> Vec<String> {
    let mut spent = Tokens(0);
    let mut known = HashSet::new();
    let mut carried = Vec::new();
    for name in newer.iter().rev().copied().chain(older.iter().map(String::as_str)) {
        if !known.insert(name) {
            continue;
        }
        spent += price(name);
        if spent > most {
            break;
        }
        carried.push(name.to_owned());
    }
    carried
}

/// As many of the newest of `names` as cost `most` together, in their order.
#[must_use]
pub(crate) fn newest<'a>(names: &[&'a str], most: Tokens) -> Vec<&'a str> {
    let mut left = most;
    let fits = |name: &&&str| {
        let fits = price(name) <= left;
        left = left.less(price(name));
        fits
    };
    let kept = names.iter().rev().take_while(fits).count();
    names.get(names.len() - kept..).unwrap_or_default().to_vec()
}

/// What a name and the comma after it cost.
fn price(name: &str) -> Tokens {
    estimate_tokens(name) + Tokens(1)
}

/// The kinds that are told apart, as the groups of the pattern are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Taken as it is found, without the punctuation behind it.
    Plain,
    /// Between backticks.
    Code,
    /// Between quotation marks.
    Quoted,
    /// Words with slashes between.
    Relative,
    /// Letters, digits and what joins them.
    Word,
}

fn kind(found: &regex::Captures<'_>) -> Option<Kind> {
    [
        ("plain", Kind::Plain),
        ("code", Kind::Code),
        ("quoted", Kind::Quoted),
        ("relative", Kind::Relative),
        ("word", Kind::Word),
    ]
    .into_iter()
    .find_map(|(group, kind)| found.name(group).map(|_| kind))
}

/// The name that was found at `start`, and where to look for the next; `None` when it is none after all.
fn name<'a>(kind: Kind, text: &'a str, start: usize, found: &str, patterns: &Patterns) -> Option<(&'a str, usize)> {
    let rest = text.get(start..)?;
    let end = start + found.len();
    let whole = rest.get(..found.len())?;
    match kind {
        Kind::Plain => {
            // Of `(see https://example.org/x)` the bracket is the sentence's.
            let name = if whole.contains('(') { whole } else { whole.trim_end_matches(')') };
            Some((name.trim_end_matches(is_punctuation), end))
        }
        Kind::Code | Kind::Quoted => {
            let inside = whole.get(first(whole)..whole.len() - last(whole))?.trim();
            let words = inside.split_whitespace().count();
            let named = inside.chars().any(char::is_alphanumeric) && (kind == Kind::Code || words <= MOST_QUOTED_WORDS);
            named.then_some((inside, end))
        }
        Kind::Relative => {
            let path = whole.trim_end_matches(is_punctuation);
            let telling = path.contains(|c: char| c.is_ascii_digit() || matches!(c, '.' | '_'));
            (telling || path.matches('/').count() > 1).then_some((path, end))
        }
        Kind::Word => {
            let word = whole.trim_end_matches(is_punctuation);
            if word.chars().all(char::is_numeric) {
                return number(rest, patterns).map(|number| (number, start + number.len()));
            }
            // `5GB` is both, `1,234.5` only begins like a word.
            let number = word.starts_with(char::is_numeric).then(|| number(rest, patterns)).flatten();
            match number {
                Some(number) if number.len() > word.len() => Some((number, start + number.len())),
                _ => is_code(word).then_some((word, end)),
            }
        }
    }
}

/// The number that `rest` begins with, and its unit. A single digit without a unit says too little.
fn number<'a>(rest: &'a str, patterns: &Patterns) -> Option<&'a str> {
    let ends_well = |found: &str| {
        let next = rest.get(found.len()..).and_then(|after| after.chars().next());
        let letters = found.ends_with(|c: char| c.is_ascii_alphabetic());
        !(letters && next.is_some_and(|c| c.is_ascii_alphanumeric()))
    };
    let measured = patterns.measured.find(rest).map(|found| found.as_str()).filter(|found| ends_well(found));
    let plain = || {
        let found = patterns.number.find(rest)?.as_str().trim_end_matches(is_punctuation);
        (found.chars().filter(|c| c.is_numeric()).count() > 1).then_some(found)
    };
    measured.or_else(plain)
}

/// Whether a word is one that people make up for machines.
fn is_code(word: &str) -> bool {
    let letters = word.chars().any(|c| c.is_ascii_alphabetic());
    let digits = word.chars().any(|c| c.is_ascii_digit());
    let ordinal = ["st", "nd", "rd", "th"].iter().any(|end| {
        word.strip_suffix(end).is_some_and(|start| !start.is_empty() && start.bytes().all(|b| b.is_ascii_digit()))
    });
    let marked = word.starts_with(['#', '@', '$']) && word.len() > 1 || word.starts_with("--") && letters;
    let joined = word.trim_matches('_').contains('_') || word.contains("::") || word.ends_with("()");
    let humped = word
        .as_bytes()
        .windows(2)
        .any(|pair| matches!(pair, [small, large] if small.is_ascii_lowercase() && large.is_ascii_uppercase()));
    let headers = word.contains('-') && word.split('-').all(|part| part.starts_with(|c: char| c.is_ascii_uppercase()));
    marked || joined || humped || headers || (letters && digits && !ordinal) || is_dotted(word)
}

/// `notes.md`, `example.com`, `console.log`: not `e.g`, nor a sentence that follows its full stop too closely.
fn is_dotted(word: &str) -> bool {
    let mut parts = word.split('.');
    let Some(end) = parts.next_back() else { return false };
    let mut parts = parts.peekable();
    parts.peek().is_some()
        && (2..=6).contains(&end.len())
        && end.bytes().all(|byte| byte.is_ascii_lowercase())
        && parts.all(|part| part.len() > 1)
}

fn is_punctuation(c: char) -> bool {
    matches!(c, '.' | ',' | ':' | ';' | '!' | '?' | '-' | '\'')
}

fn first(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn last(text: &str) -> usize {
    text.chars().next_back().map_or(0, char::len_utf8)
}

struct Patterns {
    any: Regex,
    number: Regex,
    measured: Regex,
}

/// Compiled when first needed. They are constants: a test sees to it that there is no `None`.
static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let months = MONTHS.join("|");
    // Of units that begin alike the longest counts.
    let mut units = UNITS.to_vec();
    units.sort_by_key(|unit| std::cmp::Reverse(unit.len()));
    let units = units.join("|");
    Some(Patterns {
        any: Regex::new(&ANY.replace("MONTH", &months)).ok()?,
        number: Regex::new(&format!("^(?:{NUMBER})")).ok()?,
        measured: Regex::new(&format!(r"^(?:{NUMBER})[\x20\u{{A0}}\u{{202F}}]?(?:{units})")).ok()?,
    })
});

/// One alternative for each kind; the first that fits at a place counts.
const ANY: &str = r#"(?x)
  (?P<plain>
      [a-z][a-z0-9+.\-]{1,20} :// [^\s<>"'`“”„«»「」『』《》（），。；！？、\]\}]+                     # URL
    | [A-Za-z0-9._%+\-]+ @ [A-Za-z0-9\-]+ (?: \. [A-Za-z0-9\-]+ )+                                    # e-mail
    | \d{1,3} (?: \. \d{1,3} ){3} (?: [:/] \d{1,5} )?                                                 # IPv4
    | [0-9A-Fa-f]{2} (?: [:-] [0-9A-Fa-f]{2} ){5}                                                     # MAC
    | [0-9A-Fa-f]{1,4} (?: ::? [0-9A-Fa-f]{1,4} ){3,7}                                                 # IPv6
    | [0-9A-Fa-f]{8} (?: - [0-9A-Fa-f]{4} ){3} - [0-9A-Fa-f]{12}                                      # UUID
    | \+ \d [\d\x20()\-]{6,18} \d                                                                     # telephone
    | \d{4} - \d{2} - \d{2} (?: [T\x20] \d{2} : \d{2} (?: : \d{2} )? (?: Z | [+\-] \d{2} :? \d{2} )? )?
    | \d{4} 年 (?: \d{1,2} 月 (?: \d{1,2} [日号] )? )? | \d{1,2} 月 \d{1,2} [日号]
    | \d{4} 년 \x20? \d{1,2} 월 (?: \x20? \d{1,2} 일 )? | \d{1,2} 월 \x20? \d{1,2} 일
    | \d{1,2} [./] \d{1,2} [./] (?: \d{4} | \d{2} ) \b
    | \d{1,2} (?: st | nd | rd | th | \. )? \x20 (?: of \x20 | de \x20 )? (?: MONTH ) \b (?: ,? \x20 (?: de \x20 )? \d{4} )?
    | (?: MONTH ) \x20 \d{1,2} (?: st | nd | rd | th )? \b (?: ,? \x20 \d{4} )?
    | \d{1,2} : \d{2} (?: : \d{2} )? (?: \x20? [ap]\.?m\b )?
    | [$€£¥₹₽] \x20? \d+ (?: [.,]\d+ )* (?: \x20? (?: k | K | M | bn | million | billion )\b )?
    | [A-Za-z] :\\ [A-Za-z0-9._\\\-]+                                                                 # paths
    | (?: ~ | \.{1,2} )? / [A-Za-z0-9._@+~\-]+ (?: / [A-Za-z0-9._@+~\-]+ )* /?
  )
| (?P<code> ` [^`\n]{1,80} ` )
| (?P<quoted>
      “ [^“”\n]{2,60} ” | „ [^“”„"\n]{2,60} [“”"] | « [^«»\n]{2,60} » | ‘ [^‘’\n]{2,60} ’
    | 「 [^「」\n]{1,40} 」 | 『 [^『』\n]{1,40} 』 | 《 [^《》\n]{1,40} 》 | " [^"\s] (?: [^"\n]{0,58} [^"\s] )? "
  )
| (?P<relative> [A-Za-z0-9._@\-]+ (?: / [A-Za-z0-9._@+\-]+ )+ )
| (?P<word> (?: \#\# \B | --? | [\#@$] )? [A-Za-z0-9_\p{Nd}]+ (?: (?: :: | [.\-+] ) [A-Za-z0-9_]+ )* (?: \(\) )? )
"#;

const NUMBER: &str = r"[\p{Nd}]+(?:[.,'’\x{202F}][\p{Nd}]+)*";

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Sept",
    "Oct",
    "Nov",
    "Dec",
    "Januar",
    "Februar",
    "März",
    "Mai",
    "Juni",
    "Juli",
    "Oktober",
    "Dezember",
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
    "января",
    "февраля",
    "марта",
    "апреля",
    "мая",
    "июня",
    "июля",
    "августа",
    "сентября",
    "октября",
    "ноября",
    "декабря",
];

const UNITS: &[&str] = &[
    "%", "‰", "°C", "°F", "°", "km/h", "km²", "km", "cm", "mm", "m²", "m³", "mg", "ml", "ms", "min", "mAh", "m", "kg",
    "kHz", "kWh", "kW", "kB", "k", "g", "tonnes", "t", "litres", "liters", "l", "seconds", "s", "hours", "h", "Hz",
    "MHz", "GHz", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB", "bits", "bit", "bytes", "V", "A", "W", "px",
    "pt", "dB", "EUR", "USD", "GBP", "CHF", "JPY", "CNY", "Euro", "euros", "dollars", "Dollar", "€", r"\$", "£", "¥",
    "元", "円", "块", "万", "亿", "公里", "公斤", "度", "人", "个", "天", "小时", "分钟", "年", "원", "명", "degrees",
    "days", "weeks", "months", "years", "minutes", "percent", "Prozent", "Grad", "Tage", "Stunden", "Minuten",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(names(text), expected, "{text:?}");
    }

    #[test]
    fn the_patterns_are_right() {
        assert!(PATTERNS.is_some());
    }

    #[test]
    fn paths_urls_and_addresses_are_found() {
        check("Edit /etc/skymem/config.toml, then ~/.ssh/config.", &["/etc/skymem/config.toml", "~/.ssh/config"]);
        check("It is in src/main.rs and C:\\Users\\Ida\\notes.txt", &["src/main.rs", "C:\\Users\\Ida\\notes.txt"]);
        check(
            "See https://example.org/a?b=1#c. Or mail anna@example.org!",
            &["https://example.org/a?b=1#c", "anna@example.org"],
        );
        check("postgres://me@db:5432/x works", &["postgres://me@db:5432/x"]);
        check(
            "ping 192.168.10.12:8080, then fe80::1ff:fe23:4567:890a",
            &["192.168.10.12:8080", "fe80::1ff:fe23:4567:890a"],
        );
        check("read and/or write, km/h", &[]);
        check("open notes.md on example.com", &["notes.md", "example.com"]);
    }

    #[test]
    fn numbers_are_found_with_their_units() {
        check("heron listens on port 5544.", &["5544"]);
        check("It weighs 12.5 kg and costs $1,299.00 or 1.299,00 €", &["12.5 kg", "$1,299.00", "1.299,00 €"]);
        check("5 km in 3 hours, 4 of us", &["5 km", "3 hours"]);
        check("Postgres 17, 40% less, 5GB", &["17", "40%", "5GB"]);
        check("Call +49 30 1234567 today", &["+49 30 1234567"]);
        check("12 minutes and 12 monkeys", &["12 minutes", "12"]);
    }

    #[test]
    fn dates_and_times_are_found() {
        check("On 2026-02-06T10:30Z or 2026-02-07", &["2026-02-06T10:30Z", "2026-02-07"]);
        check("due March 3, 2026 at 5:30 pm", &["March 3, 2026", "5:30 pm"]);
        check("am 3. März 2026, spätestens 17.03.2026", &["3. März 2026", "17.03.2026"]);
        check("le 14 juillet 1789", &["14 juillet 1789"]);
        check("2026年3月5日开会，下次是4月1日", &["2026年3月5日", "4月1日"]);
        check("3 мая 2026", &["3 мая 2026"]);
    }

    #[test]
    fn code_names_are_found() {
        check(
            "foo_bar, CamelCase, lowerCamel and std::mem::swap()",
            &["foo_bar", "CamelCase", "lowerCamel", "std::mem::swap()"],
        );
        check("ticket ABC-123 is fixed in v1.2.3 (PR #77)", &["ABC-123", "v1.2.3", "#77"]);
        check("the model e5-small-q4 with --no-cache", &["e5-small-q4", "--no-cache"]);
        check(
            "commit 9f8c1d2 and 550e8400-e29b-41d4-a716-446655440000",
            &["9f8c1d2", "550e8400-e29b-41d4-a716-446655440000"],
        );
        check("run `cargo nextest` first", &["cargo nextest"]);
        check("send X-Forwarded-For to @ida, $HOME", &["X-Forwarded-For", "@ida", "$HOME"]);
    }

    #[test]
    fn quoted_names_are_found_in_every_kind_of_quotation_mark() {
        check("The project is called \"Blue Heron\" and “Osprey”.", &["Blue Heron", "Osprey"]);
        check("Das Schiff heißt „Gorch Fock“, auch «Cygne».", &["Gorch Fock", "Cygne"]);
        check("我在读《三体》，他说「小米」", &["三体", "小米"]);
        check("She said \"I think that we should all go home by 17:30 now\"", &["17:30"]);
    }

    #[test]
    fn they_are_found_inside_text_without_spaces() {
        check("端口是5544，文件在/etc/foo.conf里，用user_id。", &["5544", "/etc/foo.conf", "user_id"]);
        check("速度是120公里，预算3万元", &["120公里", "3万"]);
        check("서버는 heron-2 이고 포트는 8080입니다", &["heron-2", "8080"]);
        check("ポートは5432です", &["5432"]);
        check("Сервер heron_db слушает порт 5544", &["heron_db", "5544"]);
        check("المنفذ هو 5544", &["5544"]);
    }

    #[test]
    fn ordinary_words_are_none() {
        check("The quick brown fox jumps over the lazy dog. I think so, e.g. now. It's well-known!", &[]);
        check("Ich trinke jeden Morgen grünen Tee.", &[]);
        check("1st of all, a 2nd try", &[]);
        check("", &[]);
    }

    #[test]
    fn each_is_named_once_and_none_is_endless() {
        check("foo_bar and foo_bar", &["foo_bar"]);
        check(&format!("https://example.org/{}", "x".repeat(300)), &[]);
    }

    #[test]
    fn a_name_is_mentioned_only_whole() {
        for (text, name, expected) in [
            ("on port 5544.", "5544", true),
            ("in 2017", "17", false),
            ("17.5 degrees", "17", false),
            ("it is 17.", "17", true),
            ("1,017", "017", false),
            ("端口5544开", "5544", true),
            ("foo_bar_baz", "foo_bar", false),
            ("a foo_bar baz", "foo_bar", true),
            ("Blue Heron's nest", "Blue Heron", true),
            ("x", "", false),
        ] {
            assert_eq!(!name.is_empty() && mentions(text, name), expected, "{name:?} in {text:?}");
        }
    }

    #[test]
    fn the_newest_names_are_carried_and_the_oldest_go() {
        let older = vec!["aa11".to_owned(), "bb22".to_owned()];

        assert_eq!(carry(&older, &["cc33", "bb22"], Tokens(100)), ["bb22", "cc33", "aa11"]);
        assert_eq!(carry(&older, &["cc33", "bb22"], Tokens(6)), ["bb22", "cc33"]);
        assert_eq!(newest(&["aa11", "bb22", "cc33"], Tokens(6)), ["bb22", "cc33"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in ".{0,200}") {
            for name in names(&text) {
                prop_assert!(!name.is_empty() && text.contains(name));
            }
        }

        #[test]
        fn what_is_carried_never_costs_more_than_it_may(
            older in prop::collection::vec("[a-z]{1,12}[0-9]{1,4}", 0..20),
            newer in prop::collection::vec("[a-z]{1,12}[0-9]{1,4}", 0..20),
            most in 0_usize..60,
        ) {
            let newer: Vec<&str> = newer.iter().map(String::as_str).collect();
            let carried = carry(&older, &newer, Tokens(most));
            let cost: Tokens = carried.iter().map(|name| price(name)).sum();
            prop_assert!(cost <= Tokens(most));
            if let (Some(last), false) = (newer.last(), carried.is_empty()) {
                prop_assert_eq!(*last, carried[0].as_str());
            }
        }
    }
}
