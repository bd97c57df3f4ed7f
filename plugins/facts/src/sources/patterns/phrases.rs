//! Phrases that are the value of a fact as they stand: what somebody likes, prefers, is allergic to; and what something is
//! called at length.

use std::sync::LazyLock;

use regex::Regex;

use super::names::{MOST_IN_LIST, looks_like_name, without_article};
use super::text::{HIDDEN, words};
use super::words::{INSIDE, NO_NAMES, NO_PHRASES, POINTING};

/// The most words of a phrase.
const LONGEST_PHRASE: usize = 6;

/// What ends a phrase inside of a sentence.
static PHRASE_ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?x),|;|:\ |\ [-–(]|\ (?:because|'?cause|since|so|but|when|if|that|who|which|where|more\ than|very\ much|a\ lot|as\ well|as\ an?|like|too
          |while|whenever|every|most\ of|than|especially|weil|wenn|aber|dass|mehr\ als|sehr|über\ alles|jeden|jede)\b",
    )
});

/// Words in front of what a phrase is related to. A short phrase keeps it, a longer one loses it.
static RELATED: LazyLock<Option<Regex>> =
    LazyLock::new(|| words(r"\ (?:with|from|over|for|at|in|on|to|about|into|of|am|beim|bei|auf|mit|von)\ "));

/// "hiking, loud music and olives": up to twelve short phrases.
pub(super) fn phrases(rest: &str) -> Vec<String> {
    let rest = rest.trim().trim_end_matches(['.', '!']);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mut found = Vec::new();
    let mut rest = rest;
    // "to" before a verb is said or not.
    rest = rest.strip_prefix("to ").filter(|_| words.len() <= LONGEST_PHRASE).unwrap_or(rest);
    while found.len() < MOST_IN_LIST {
        let border = [",", " and ", " und ", " & ", " or ", " oder "];
        let end = border.iter().filter_map(|border| rest.find(border)).min().unwrap_or(rest.len());
        let (part, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let Some((phrase, whole)) = phrase_in(part) else {
            break;
        };
        // "improving education and infrastructure" is not infrastructure.
        let doing = |phrase: &str| phrase.contains("ing ") || phrase.ends_with("ing");
        if found.first().is_some_and(|first: &String| first.contains("ing ") && !doing(&phrase)) {
            break;
        }
        found.push(phrase);
        let Some(next) = border.iter().find_map(|border| after.strip_prefix(border)).filter(|_| whole) else {
            break;
        };
        rest = next.trim_start();
        for between in ["and ", "und ", "or ", "oder "] {
            rest = rest.strip_prefix(between).unwrap_or(rest);
        }
        // What begins with a word for a person goes on with the sentence.
        if rest.is_empty() || starts_a_clause(rest) {
            break;
        }
    }
    found
}

fn starts_a_clause(rest: &str) -> bool {
    let first = rest.split_whitespace().next().unwrap_or_default().to_lowercase();
    NO_PHRASES.has(&first)
        || matches!(
            first.as_str(),
            "i" | "i'm"
                | "we"
                | "he"
                | "she"
                | "they"
                | "so"
                | "but"
                | "please"
                | "not"
                | "can"
                | "could"
                | "do"
                | "is"
                | "are"
                | "want"
                | "need"
                | "am"
                | "have"
                | "would"
                | "will"
                | "let"
                | "make"
                | "maybe"
                | "thanks"
                | "thank"
                | "ich"
                | "wir"
                | "er"
                | "man"
                | "aber"
                | "bitte"
                | "kannst"
                | "nicht"
                | "habe"
                | "bin"
                | "werde"
                | "deshalb"
                | "daher"
                | "also"
                | "suche"
                | "brauche"
                | "keep"
                | "don't"
                | "there"
                | "then"
                | "now"
        )
}

/// One phrase, and whether it is the whole of `part`.
pub(super) fn phrase(part: &str) -> Option<String> {
    phrase_in(part).map(|(phrase, _)| phrase)
}

fn phrase_in(part: &str) -> Option<(String, bool)> {
    let part = part.trim().trim_end_matches(['.', '!', ';', ':', ')']);
    let end = PHRASE_ENDS.as_ref()?.find(part);
    let ends = end.map_or(part.len(), |end| end.start());
    // "stories that matter" are not just stories.
    if end.is_some_and(|end| matches!(end.as_str().trim(), "that" | "who" | "which" | "where")) {
        return None;
    }
    let found = part.get(..ends)?.trim();
    let found = ["a ", "an ", "some ", "any ", "both ", "all kinds of ", "eine ", "einen ", "ein "]
        .iter()
        .find_map(|article| found.strip_prefix(article))
        .unwrap_or(found);
    let first = found.split_whitespace().next()?.to_lowercase();
    let points = |phrase: &str| {
        // "Lord of the Rings" points to nothing.
        let name = phrase.starts_with(char::is_uppercase)
            && phrase.split(' ').all(|word| INSIDE.has(word) || looks_like_name(word));
        !name
            && phrase.split_whitespace().any(|word| POINTING.has(word) || word.contains('\'') && !word.ends_with("'s"))
    };
    let related = RELATED.as_ref()?.find(found).map(|word| word.start());
    let long = found.split_whitespace().count() > LONGEST_PHRASE;
    let kept = match related {
        // "loud music in the car" is loud music; "coming up with something" is nothing without it.
        Some(at) if long || points(found) => found.get(..at).filter(|_| !first.ends_with("ing") && !is_verb(&first))?,
        _ => found,
    };
    let good = kept.split_whitespace().count() <= LONGEST_PHRASE
        && !points(kept)
        && !NO_PHRASES.has(&first)
        && kept.chars().any(char::is_alphabetic)
        // "Anna's idea" is one of hers.
        && !kept.contains("'s ")
        && !kept.contains(HIDDEN);
    // Of what is related to several things nobody knows which of them a list goes on with.
    good.then(|| (kept.to_owned(), ends == part.len() && related.is_none()))
}

/// What somebody prefers, at more length than other phrases: "meetings in the morning".
pub(super) fn preference(words: &str) -> Option<String> {
    let end = PREFERENCE_ENDS.as_ref()?.find(words).map_or(words.len(), |end| end.start());
    let found = words.get(..end)?.trim().trim_end_matches(['.', '!']);
    let found = found.strip_prefix("to ").unwrap_or(found);
    let first = found.split_whitespace().next()?;
    let good = found.split_whitespace().count() <= 10 && !NO_PHRASES.has(first) && !found.contains(HIDDEN);
    good.then(|| found.to_owned())
}

static PREFERENCE_ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?x),|;|:\ |\ [-–(]|\ (?:over|to|when|if|because|since|so|but|rather|instead|gegenüber|weil|wenn|aber|statt)\b",
    )
});

/// Verbs that begin a phrase after "to".
fn is_verb(word: &str) -> bool {
    matches!(
        word,
        "go" | "get"
            | "be"
            | "have"
            | "do"
            | "make"
            | "take"
            | "see"
            | "work"
            | "play"
            | "read"
            | "watch"
            | "hang"
            | "spend"
            | "come"
            | "keep"
            | "try"
            | "help"
            | "talk"
            | "stay"
            | "sit"
            | "eat"
            | "escape"
    )
}

/// `text` as a thing's name without its article: "the decision to skip the canary stage". Up to fourteen words.
pub(super) fn thing(text: &str) -> Option<String> {
    let found = without_article(text.trim().trim_end_matches(['.', '!', ',', ';', ' ']));
    let first = found.split_whitespace().next()?.trim_end_matches(',').to_lowercase();
    let count = found.split_whitespace().count();
    let vague = NO_PHRASES.has(&first) || (NO_NAMES.has(&first) && count < 2);
    (count <= 14 && !vague && found.chars().any(char::is_alphanumeric) && !found.contains(HIDDEN))
        .then(|| found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, expected: &[&str]) {
        assert_eq!(phrases(words), expected, "{words:?}");
    }

    #[test]
    fn phrases_are_listed_up_to_the_end_of_what_they_are_about() {
        check("hiking, loud music and olives", &["hiking", "loud music", "olives"]);
        check("peanuts and shellfish, so please keep that in mind", &["peanuts", "shellfish"]);
        check("tea with milk", &["tea with milk"]);
        check("loud music in the car and olives", &["loud music"]);
        check("books about growth and olives", &["books about growth"]);
        check("improving education and infrastructure", &["improving education"]);
        check("Lord of the Rings", &["Lord of the Rings"]);
    }

    #[test]
    fn what_points_to_something_of_the_moment_is_no_phrase() {
        for words in [
            "your answer",
            "it",
            "coming up with something for my kids",
            "seeing them eat",
            "stories that matter",
            "Anna's idea",
        ] {
            check(words, &[]);
        }
    }

    #[test]
    fn a_preference_may_be_longer() {
        assert_eq!(preference("meetings in the morning over calls").as_deref(), Some("meetings in the morning"));
        assert_eq!(preference("this one"), None);
    }

    #[test]
    fn a_thing_loses_its_article_alone() {
        assert_eq!(
            thing("the decision to skip the canary stage.").as_deref(),
            Some("decision to skip the canary stage")
        );
        assert_eq!(thing("it"), None);
        assert_eq!(thing("the"), None);
    }
}
