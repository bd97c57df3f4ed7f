//! What a text itself holds: small models tell facts of their prompt, of the world, or of nowhere.

use std::collections::HashSet;

use chrono::{DateTime, Datelike, Utc};
use skymem_core::Turn;
use skymem_core::facts::EntityName;
use unicode_normalization::UnicodeNormalization;

use super::super::dates;

/// What was said, as words to look for.
pub(super) struct Ground {
    text: String,
    words: HashSet<String>,
    speakers: Vec<String>,
    /// Whether anybody speaks without a name.
    has_user: bool,
    days: Vec<DateTime<Utc>>,
}

/// How models call who speaks.
const SELF: &[&str] = &[
    "user",
    "the user",
    "i",
    "me",
    "myself",
    "we",
    "us",
    "speaker",
    "person",
    "the person",
    "ich",
    "wir",
    "mich",
    "nutzer",
];

/// Words that models put into names and values, and that need not stand in the text.
const FREE: &[&str] = &[
    "the", "a", "an", "of", "and", "in", "at", "for", "to", "by", "der", "die", "das", "und", "in", "von", "project",
    "projekt",
];

impl Ground {
    pub(super) fn of(said: &[&Turn], said_at: DateTime<Utc>) -> Self {
        let speakers: Vec<String> = said.iter().filter_map(|turn| turn.speaker.clone()).collect();
        let all: Vec<&str> =
            said.iter().map(|turn| turn.text.as_str()).chain(speakers.iter().map(String::as_str)).collect();
        let text = plain(&all.join("\n"));
        let words = words(&text).map(str::to_owned).collect();
        let days = said.iter().flat_map(|turn| dates::mentioned(&turn.text, said_at)).collect();
        Self { words, text, has_user: said.iter().any(|turn| turn.speaker.is_none()), speakers, days }
    }

    /// Whether a name stands for who speaks.
    pub(super) fn is_self(&self, name: &str) -> bool {
        SELF.contains(&plain(name).trim())
    }

    /// Whom a fact is about: somebody or something that the text names, or who speaks when that is one.
    pub(super) fn subject(&self, name: &str) -> Option<EntityName> {
        if self.is_self(name) {
            let named = match self.speakers.as_slice() {
                _ if self.has_user => EntityName::SELF,
                [first, others @ ..] if others.iter().all(|other| other == first) => first,
                _ => return None,
            };
            return named.parse().ok();
        }
        let name: EntityName = name.parse().ok()?;
        self.holds(name.as_str()).then_some(name)
    }

    /// Whether every word of `value` stands in the text, whatever its ending.
    pub(super) fn holds(&self, value: &str) -> bool {
        let value = plain(value);
        if value.trim().is_empty() {
            return false;
        }
        if self.text.contains(value.trim()) {
            return true;
        }
        let mut any = false;
        let all = words(&value).filter(|word| !FREE.contains(word)).all(|word| {
            any = true;
            self.has(word)
        });
        any && all
    }

    fn has(&self, word: &str) -> bool {
        if self.words.contains(word) {
            return true;
        }
        // "Deutsche Bahn" of "bei der Deutschen Bahn", "Falcon" of "Falcon's".
        let count = word.chars().count();
        let stem: String = word.chars().take(count.saturating_sub(2).max(4)).collect();
        count >= 5
            && self.words.iter().any(|known| known.starts_with(&stem) && known.chars().count().abs_diff(count) <= 3)
    }

    /// Whether the text gives this date, to the month, or its year in digits.
    pub(super) fn gives(&self, moment: DateTime<Utc>) -> bool {
        self.days.iter().any(|day| (day.year(), day.month()) == (moment.year(), moment.month()))
            || self.words.contains(&moment.year().to_string())
    }
}

fn plain(text: &str) -> String {
    text.nfkc().flat_map(char::to_lowercase).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}
