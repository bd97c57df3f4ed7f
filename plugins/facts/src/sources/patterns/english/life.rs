//! Family, animals, belongings and tastes, as English tells of them.

use regex::Captures;
use skymem_core::facts::Object;

use super::super::names::{self, Writing};
use super::super::people::is_called;
use super::super::phrases;
use super::super::relations::relation;
use super::super::rules::{Takes, Teller, value};
use super::super::words::{ANIMALS, GOODS, KINDS_OF_PEOPLE, TOOLS, TRADES};
use super::introduce;

/// "My boss is Petra", but not "my boss is Swiss" nor "my boss is in Paris".
pub(super) fn is_somebody(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let Some((name, after)) = names::person(words, Writing { lower: false, ..teller.writing }) else {
        return;
    };
    let plain = name.split_whitespace().all(|word| !KINDS_OF_PEOPLE.has(word) && !TRADES.has(word) && !coined(word));
    if plain && (after.is_empty() || after.starts_with([',', '.', '!', ';'])) {
        is_called(teller, found);
    }
}

/// "Clara is my sister".
pub(super) fn is_my(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let noun = words.split([',', '.', ' ']).find(|word| relation(word).is_some() || ANIMALS.has(word));
    let (name, Some(noun)) = (teller.subject.as_str().to_owned(), noun) else {
        return;
    };
    let before = words.split(noun).next().unwrap_or_default();
    if before.split_whitespace().count() > 2 {
        return;
    }
    teller.about_me();
    introduce(teller, noun, &name);
}

/// "I am Priya": a name and nothing more.
pub(super) fn introduces(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let Some((name, after)) = names::person(words, Writing { lower: false, ..teller.writing }) else {
        return;
    };
    let alone = after.is_empty() || (teller.clause.introduces && after.starts_with([',', ' ']));
    let count = name.split_whitespace().count();
    let plain = name
        .split_whitespace()
        .all(|word| !KINDS_OF_PEOPLE.has(word) && !TRADES.has(word) && !TOOLS.has(word) && !coined(word));
    if alone && count <= 3 && plain {
        teller.holds("name", Object::Literal(name), false);
        if let Some(age) = after.strip_prefix(", ").and_then(|after| after.split(',').next())
            && age.parse::<u32>().is_ok_and(|years| (1..=120).contains(&years))
        {
            teller.holds("age", Object::Literal(age.to_owned()), false);
        }
    }
}

/// Whether a word is written like an abbreviation: `CEO`, `INTJ`.
fn coined(word: &str) -> bool {
    word.chars().count() > 1 && word.chars().all(char::is_uppercase)
}

pub(super) fn owns(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let end = [" in ", " on ", " near "].iter().filter_map(|end| words.find(end)).min().unwrap_or(words.len());
    if let Some(words) = words.get(..end) {
        teller.values("owns", Takes::Phrases, words, false);
    }
}

/// What was bought is one's own if it lasts.
pub(super) fn bought(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    if let Some((name, _)) = names::name(words, Writing { lower: false, ..teller.writing })
        && let Ok(name) = name.parse()
    {
        return teller.holds("owns", Object::Entity(name), true);
    }
    let end = [" in ", " on ", " near ", " from ", " for "]
        .iter()
        .filter_map(|end| words.find(end))
        .min()
        .unwrap_or(words.len());
    let phrase = words.get(..end).and_then(phrases::phrase);
    if let Some(phrase) = phrase.filter(|phrase| GOODS.has(phrase.split_whitespace().next_back().unwrap_or_default())) {
        teller.holds("owns", Object::Literal(phrase), true);
    }
}

pub(super) fn sold(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let Some(object) = Takes::Name
        .read(words, teller.writing)
        .into_iter()
        .next()
        .or_else(|| phrases::phrase(words).map(Object::Literal))
    else {
        return;
    };
    teller.ends("owns", Some(object));
}

pub(super) fn surname(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if let Some((name, _)) = names::person(value(found), teller.writing) {
        teller.holds("surname", Object::Literal(name), false);
    }
}
