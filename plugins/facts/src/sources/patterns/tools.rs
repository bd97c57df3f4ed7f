//! What the words after a verb name, when they name tools, programs and languages.

use std::sync::LazyLock;

use regex::Regex;

use super::names::{Language, Read, Writing, list, looks_like_name, name, without_article};
use super::text::words;
use super::words::{LANGUAGES, TOOLS};

/// Tools, languages, products: "PostgreSQL, Redis and Kafka". In German only what cannot be a common noun.
pub(super) fn tools(rest: &str, writing: Writing) -> Vec<String> {
    list(rest, |rest| tool(rest, writing)).0
}

/// Tools, and what programs are put together from: "the billing-core library".
pub(super) fn parts(rest: &str, writing: Writing) -> Vec<String> {
    let part = |rest| {
        tool(rest, writing).or_else(|| {
            let bare = without_article(rest);
            let first = bare.split_whitespace().next()?.trim_end_matches([',', ';', '.', ':', '!', '?', ')']);
            let after = bare.get(first.len()..).unwrap_or_default();
            let kind = after.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ',']);
            let is_one = matches!(
                kind,
                "" | "and" | "und" | "library" | "service" | "crate" | "package" | "module" | "server" | "project"
            );
            (first.contains(['-', '_', '.', '/']) && is_one).then(|| (first.to_owned(), after))
        })
    };
    list(rest, part).0
}

/// One tool.
pub(super) fn tool(rest: &str, writing: Writing) -> Read<'_, String> {
    let bare = without_article(rest);
    let first = bare.split_whitespace().next()?.trim_end_matches([',', ';', '.', ':', '!', '?', ')']);
    if TOOLS.has(first) && !looks_like_name(first) {
        return Some((first.to_owned(), bare.get(first.len()..).unwrap_or_default()));
    }
    let (found, after) = name(bare, Writing { lower: false, ..writing })?;
    // The tool begins a German compound of nouns at most with its own words.
    let found_words: Vec<&str> = found.split_whitespace().collect();
    let known = found_words.iter().any(|word| TOOLS.has(word) || coined(word));
    let taken = match writing.language {
        Language::German => known,
        Language::English => !LANGUAGES.has(&found) || known,
    };
    taken.then_some((found, after))
}

/// Whether a word is written like a name, or as no common noun is.
pub(super) fn is_coined_or_capital(word: &str) -> bool {
    word.starts_with(char::is_uppercase) || coined(word) || word.contains('-')
}

/// Whether a word is written as no common noun is: `pgAdmin`, `ESP32`, `XFS`, `Next.js`.
fn coined(word: &str) -> bool {
    let mut inner = word.chars().skip(1);
    inner.any(|c| c.is_uppercase() || c.is_numeric() || ".+#_".contains(c)) && word.chars().any(char::is_alphabetic)
}

/// How well somebody speaks a language.
static BEFORE_LANGUAGES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?ix)^(?:(?:a\ (?:little\ )?bit\ of|a\ little|some|fluent|native|basic|conversational|broken|both|also|very|good|ein\ bisschen|ein\ wenig|ein\ paar\ brocken
          |etwas|fließend|sehr|gute?s?|nur|sowohl|auch|perfekt|ganz)\ )+",
    )
});

/// "Portuguese, English and a bit of Japanese".
pub(super) fn languages(rest: &str) -> Vec<String> {
    let read = |rest: &'_ str| -> Option<(String, usize)> {
        let word = BEFORE_LANGUAGES
            .as_ref()
            .and_then(|before| before.find(rest))
            .map_or(rest, |found| rest.get(found.end()..).unwrap_or_default());
        let end = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
        let found = word.get(..end).filter(|found| LANGUAGES.has(found))?;
        Some((found.to_owned(), rest.len() - word.len() + end))
    };
    let read = |rest| read(rest).map(|(found, end)| (found, rest.get(end..).unwrap_or_default()));
    list(rest, read).0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: Writing = Writing { language: Language::English, lower: false };
    const GERMAN: Writing = Writing { language: Language::German, lower: false };

    #[test]
    fn tools_are_listed_and_in_german_no_common_noun_is_one() {
        assert_eq!(tools("PostgreSQL, redis and Kafka for events", ENGLISH), ["PostgreSQL", "redis", "Kafka"]);
        assert_eq!(tools("the way it is", ENGLISH), Vec::<String>::new());
        assert_eq!(tools("Fedora Linux", GERMAN), ["Fedora Linux"]);
        assert_eq!(tools("Rekursion", GERMAN), Vec::<String>::new());
    }

    #[test]
    fn what_a_program_is_put_together_from_may_have_a_small_name() {
        assert_eq!(parts("the billing-core library", ENGLISH), ["billing-core"]);
        assert_eq!(parts("third-party code", ENGLISH), Vec::<String>::new());
        assert_eq!(parts("der Steuer-API", GERMAN), ["Steuer-API"]);
    }

    #[test]
    fn languages_are_listed_without_how_well_they_are_spoken() {
        assert_eq!(languages("Portuguese, English and a bit of Japanese."), ["Portuguese", "English", "Japanese"]);
        assert_eq!(languages("fließend Deutsch und etwas Türkisch"), ["Deutsch", "Türkisch"]);
        assert_eq!(languages("Klartext"), Vec::<String>::new());
    }
}
