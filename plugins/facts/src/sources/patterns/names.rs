//! What the words after a verb name: people, places, companies. Each function reads from the
//! beginning of `rest` and gives nothing rather than something doubtful.

use super::words::{ALONE, ARTICLED, ARTICLES, INSIDE, LOOKS, NO_NAMES, NO_PLACES};

/// The language a pattern is of. In German every noun has a capital, so that a capital says little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    English,
    German,
}

/// How a text is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) language: Language,
    /// By somebody who uses no capitals: then names have none.
    pub(super) lower: bool,
}

/// The most words of a name.
const LONGEST_NAME: usize = 6;
/// The most names or phrases of one list.
pub(super) const MOST_IN_LIST: usize = 12;

/// What a text names at its beginning, and what follows.
pub(super) type Read<'a, T> = Option<(T, &'a str)>;

/// What ends with a full stop and is no end.
const TITLES: &[&str] = &["Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "Jr.", "Sr.", "Mt.", "Ft."];

/// A name at the beginning of `rest`: words with capitals or digits, small ones between them.
pub(super) fn name(rest: &str, writing: Writing) -> Read<'_, String> {
    let mut parts: Vec<&str> = Vec::new();
    // Small words that only count when a capital follows.
    let mut pending: Vec<&str> = Vec::new();
    let mut end = 0;
    for (at, token) in tokens(rest).take(LONGEST_NAME + 2) {
        let word = token.trim_end_matches([',', ';', ':', '!', '?', ')', '"']);
        let word = if TITLES.contains(&word) || is_initial(word) { word } else { word.trim_end_matches('.') };
        if word.is_empty() {
            break;
        }
        if looks_like_name(word) && !(parts.is_empty() && is_no_name(word)) && !(pending.is_empty() && is_pronoun(word))
        {
            parts.append(&mut pending);
            parts.push(word);
            end = at + word.len();
        } else if !parts.is_empty() && INSIDE.has(word) && pending.len() < 3 {
            pending.push(word);
        } else {
            break;
        }
        if word.len() < token.len() || parts.len() >= LONGEST_NAME {
            break;
        }
    }
    if parts.is_empty() {
        return writing.lower.then(|| lower_name(rest)).flatten();
    }
    let name = parts.join(" ");
    if ALONE.has(&name) && writing.language == Language::English {
        return None;
    }
    let name = name.strip_suffix("'s").unwrap_or(&name).to_owned();
    Some((name, rest.get(end..).unwrap_or_default()))
}

/// A name without capitals: one or two words up to the end or a sign.
fn lower_name(rest: &str) -> Read<'_, String> {
    let end = rest.find([',', ';', '.', '!', '?', '(']).unwrap_or(rest.len());
    let (words, after) = rest.split_at_checked(end)?;
    let stop =
        [" and ", " but ", " und ", " aber ", " with ", " mit ", " as ", " als ", " in ", " at ", " for ", " since "];
    let end = stop.iter().filter_map(|stop| words.find(stop)).min().unwrap_or(words.len());
    let (name, _) = words.split_at_checked(end)?;
    let plain = |word: &str| {
        word.chars().all(char::is_alphabetic) && !is_no_name(word) && !ALONE.has(word) && !NO_PLACES.has(word)
    };
    let count = name.split_whitespace().count();
    let good = (1..=2).contains(&count) && name.split_whitespace().all(plain);
    good.then(|| (name.trim().to_owned(), if after.is_empty() { rest.get(end..).unwrap_or_default() } else { after }))
}

fn is_initial(word: &str) -> bool {
    let mut chars = word.chars();
    matches!((chars.next(), chars.next(), chars.next()), (Some(letter), Some('.'), None) if letter.is_uppercase())
}

pub(super) fn looks_like_name(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_uppercase() || c.is_numeric())
        || (word.chars().any(char::is_uppercase) && word.chars().all(|c| c.is_alphanumeric() || "-+#'.&/_".contains(c)))
}

fn is_no_name(word: &str) -> bool {
    NO_NAMES.has(word.trim_end_matches("'s")) || word.chars().all(|c| !c.is_alphabetic())
}

/// Words with a capital that end a name inside of a sentence.
fn is_pronoun(word: &str) -> bool {
    matches!(word, "I" | "I'm" | "I've" | "I'd" | "I'll" | "Ich" | "Sie" | "Ihr" | "Ihre")
}

/// The words of `text` with where they begin.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr().addr();
    text.split_whitespace().map(move |word| (word.as_ptr().addr() - start, word))
}

/// `rest` without the articles and the like before a noun.
pub(super) fn without_article(rest: &str) -> &str {
    let rest = rest.trim_start();
    match rest.split_once(' ') {
        Some((first, after)) if ARTICLES.has(first) => after.trim_start(),
        _ => rest,
    }
}

/// A noun without what only says how it is at the moment: "new puppy" is a puppy, "golden retriever" is one.
pub(super) fn plain_noun(noun: &str) -> &str {
    let mut noun = noun.trim();
    while let Some((_, rest)) = noun.split_once(' ').filter(|(first, _)| LOOKS.has(first)) {
        noun = rest;
    }
    noun
}

/// A name that something indefinite is given: "a small bakery in Leeds called Crumb & Co", "einer Firma namens Holz".
fn given_name(rest: &str, writing: Writing) -> Read<'_, String> {
    const GIVES: &[&str] = &[" called ", " named ", " namens ", " mit namen ", ", die "];
    let lower = rest.to_ascii_lowercase();
    let at = GIVES.iter().filter_map(|gives| lower.find(gives).map(|at| at + gives.len())).min()?;
    // Not from the next sentence's part.
    let before = rest.get(..at)?;
    if before.split_whitespace().count() > 9 {
        return None;
    }
    name(rest.get(at..)?, writing)
}

/// A person's name: up to four words, without what only looks like one.
pub(super) fn person(rest: &str, writing: Writing) -> Read<'_, String> {
    let (found, after) = name(rest.trim_start(), writing)?;
    let plain = found.chars().all(|c| c.is_alphabetic() || " .'-".contains(c));
    (plain && found.split_whitespace().count() <= 4).then_some((found, after))
}

/// "Leo, Mia und Tim"; of each name what follows is a comma, an "and", or the end.
pub(super) fn people(rest: &str, writing: Writing) -> Vec<String> {
    let with_age = |rest| {
        let (name, after) = person(rest, writing)?;
        // "Emma (5) and Noah (8)".
        let age = after.trim_start().strip_prefix('(').and_then(|inner| inner.split_once(')'));
        Some((name, age.filter(|(age, _)| age.len() <= 12).map_or(after, |(_, after)| after)))
    };
    list(rest, with_age).0
}

/// A place's name. Without an article, or with "the" before a capital: "the Netherlands", "der Schweiz".
pub(super) fn place(rest: &str, writing: Writing) -> Read<'_, String> {
    let rest = rest.trim_start();
    let bare = ["the ", "der ", "den ", "dem "].iter().find_map(|article| rest.strip_prefix(article)).unwrap_or(rest);
    let (found, after) = name(bare, writing)?;
    // In German the next noun is no part of it, and an article means a common noun: "in der Stadt".
    if writing.language == Language::German && bare.len() < rest.len() && !ARTICLED.has(&found) {
        return None;
    }
    if NO_PLACES.has(&found) {
        return None;
    }
    let follows = after.trim_start();
    let ends = follows.is_empty() || !follows.starts_with(|c: char| c.is_alphanumeric() && c.is_uppercase());
    (ends && !found.chars().any(|c| c.is_numeric())).then_some((found, after))
}

/// The name of a company or the like.
pub(super) fn organisation(rest: &str, writing: Writing) -> Read<'_, String> {
    let rest = rest.trim_start();
    if let Some(found) = given_name(rest, writing) {
        return Some(found);
    }
    let bare = without_article(rest);
    let article = rest.get(..rest.len() - bare.len()).unwrap_or_default().trim().to_lowercase();
    // "at a bank" names none.
    if matches!(
        article.as_str(),
        "a" | "an" | "ein" | "eine" | "einen" | "einem" | "einer" | "my" | "our" | "ne" | "'ne"
    ) {
        return None;
    }
    for kind in ["city of ", "university of ", "state of ", "bank of ", "ministry of ", "department of "] {
        if let Some((found, after)) = bare.strip_prefix(kind).and_then(|of| name(of, writing)) {
            return Some((format!("{kind}{found}"), after));
        }
    }
    let (found, after) = name(bare, writing)?;
    let bent = matches!(article.as_str(), "der" | "dem" | "den");
    match found.split_once("n ") {
        // "bei der Deutschen Bahn" is the Deutsche Bahn.
        Some((first, second)) if bent && first.ends_with('e') && !first.contains(' ') => {
            Some((format!("{first} {second}"), after))
        }
        _ => Some((found, after)),
    }
}

/// What stands between things that are listed.
const BETWEEN: &[&str] =
    &[", and ", ", und ", ", ", " and ", " und ", " sowie ", " & ", " plus ", " as well as ", " or ", " oder ", ","];

/// Reads a list: as many as there are, and what follows the last.
pub(super) fn list<'a, T>(rest: &'a str, read: impl Fn(&'a str) -> Read<'a, T>) -> (Vec<T>, &'a str) {
    let mut found = Vec::new();
    let mut rest = rest;
    while found.len() < MOST_IN_LIST {
        let Some((one, after)) = read(rest) else {
            break;
        };
        found.push(one);
        rest = after;
        // What is said more about one of them: "Redis for caching and Kafka".
        let Some(next) = BETWEEN.iter().find_map(|between| after.strip_prefix(between)) else {
            break;
        };
        rest = next.trim_start();
    }
    (found, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: Writing = Writing { language: Language::English, lower: false };
    const GERMAN: Writing = Writing { language: Language::German, lower: false };

    #[test]
    fn a_name_goes_as_far_as_its_capitals() {
        for (rest, expected, after) in [
            ("Bremen near the river", "Bremen", " near the river"),
            ("Bremen.", "Bremen", "."),
            ("New York City, but", "New York City", ", but"),
            ("St. Mary's Hospital", "St. Mary's Hospital", ""),
            ("University of Leeds in", "University of Leeds", " in"),
            ("J. R. Tolkien and I", "J. R. Tolkien", " and I"),
            ("Frankfurt am Main", "Frankfurt am Main", ""),
            ("Frankfurt am besten", "Frankfurt", " am besten"),
            ("iPhone 15 Pro", "iPhone 15 Pro", ""),
        ] {
            assert_eq!(name(rest, ENGLISH), Some((expected.to_owned(), after)), "{rest:?}");
        }
        for rest in ["", "a town", "the past", "March", "I think", "34", "...", "my head"] {
            assert_eq!(name(rest, ENGLISH), None, "{rest:?}");
        }
    }

    #[test]
    fn people_are_listed_to_the_last() {
        assert_eq!(people("Leo, Mia and Tim.", ENGLISH), ["Leo", "Mia", "Tim"]);
        assert_eq!(people("Leo and I", ENGLISH), ["Leo"]);
        assert_eq!(people("Emma (5) and Noah (8), love dinosaurs", ENGLISH), ["Emma", "Noah"]);
    }

    #[test]
    fn who_writes_without_capitals_has_names_without_them() {
        let lower = Writing { lower: true, ..ENGLISH };
        assert_eq!(place("köln", lower).map(|(name, _)| name), Some("köln".into()));
        assert_eq!(place("new york, you know", lower).map(|(name, _)| name), Some("new york".into()));
        assert_eq!(place("a small town", lower), None);
        assert_eq!(place("fear", lower), None);
        assert_eq!(place("köln", GERMAN), None);
    }

    #[test]
    fn companies_are_named_not_described() {
        for (rest, expected) in [
            ("Siemens in Munich", Some("Siemens")),
            ("the BBC", Some("BBC")),
            ("a small bakery in Leeds called Crumb & Co", Some("Crumb & Co")),
            ("the city of Rotterdam", Some("city of Rotterdam")),
            ("a bank", None),
            ("a Swiss company", None),
            ("home", None),
        ] {
            assert_eq!(organisation(rest, ENGLISH).map(|(name, _)| name).as_deref(), expected, "{rest:?}");
        }
        let found = organisation("der Deutschen Bahn", GERMAN);
        assert_eq!(found.map(|(name, _)| name).as_deref(), Some("Deutsche Bahn"));
        assert_eq!(organisation("einer Firma namens Holz", GERMAN).map(|(name, _)| name).as_deref(), Some("Holz"));
    }
}
