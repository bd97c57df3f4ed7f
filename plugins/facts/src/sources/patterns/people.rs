//! People and animals, in either language: who they are to somebody, what they are called, when they were born.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use skymem_core::facts::{EntityKind, EntityName, Object};

use super::super::dates::{self, Birthday};
use super::names;
use super::relations::relation;
use super::rules::{Takes, Teller, Who, part, value};
use super::text::words;
use super::words::ANIMALS;

/// Whether words stand for a person or an animal that belongs to somebody.
pub(super) fn is_somebody_of_mine(who: &str) -> bool {
    relation(who).is_some() || animal(who).is_some()
}

/// The word for an animal that words end with: of "golden retriever" the last.
pub(super) fn animal(words: &str) -> Option<&str> {
    words.split_whitespace().next_back().filter(|last| ANIMALS.has(last) || ANIMALS.has(last.trim_end_matches('s')))
}

/// Somebody is something to who speaks. What the clause says of time is of what they do, not of who they are.
pub(super) fn related(teller: &mut Teller<'_>, predicate: &str, name: &str) {
    if let Ok(name) = name.parse() {
        let mine = teller.me.clone();
        teller.holds_of(&mine, predicate, Object::Entity(name));
    }
}

/// An animal of who speaks, and what it is.
pub(super) fn pet(teller: &mut Teller<'_>, noun: &str, name: &str) {
    if let Ok(name) = name.parse::<EntityName>() {
        let mine = teller.me.clone();
        teller.holds_of(&mine, "has_pet", Object::Entity(name.clone()));
        kind_of_animal(teller, noun, name);
    }
}

fn kind_of_animal(teller: &mut Teller<'_>, noun: &str, name: EntityName) {
    let noun = names::plain_noun(noun);
    let one = if ANIMALS.has(noun) { noun } else { noun.trim_end_matches('s') };
    teller.kind(name.clone(), EntityKind::Animal);
    teller.holds_of(&name, "is_a", Object::Literal(one.to_owned()));
}

/// What gives a name to somebody or some animal: "a dog called Rex", "eine Katze, die Minka heißt".
static GIVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?ix) ,?\ (?:called|named|namens|mit\ namen|whose\ names?\ (?:is|are)|deren\ name)\ |\ and\ (?:his|her|its|their)\ names?\ (?:is|are)\ |,\ (?:der|die|das)\ |:\ |,\ ",
    )
});

/// "two kids, Leo and Mia", "a golden retriever called Sunny", "einen Hund": who speaks has them, or has come to.
pub(super) fn belongs(teller: &mut Teller<'_>, words: &str, event: bool) {
    // The number or the article.
    let words = words.split_once(' ').map(|(_, rest)| rest).unwrap_or_default();
    let (noun, names) = match GIVES.as_ref().and_then(|gives| gives.find(words)) {
        Some(gives) => (words.get(..gives.start()).unwrap_or_default(), words.get(gives.end()..).unwrap_or_default()),
        None => (words, ""),
    };
    let noun = names::plain_noun(noun);
    let last = noun.split_whitespace().next_back().unwrap_or_default();
    if noun.split_whitespace().count() > 3 {
        return;
    }
    let people = names::people(names, teller.writing);
    let unnamed = || people.is_empty().then(|| noun.to_owned());
    if let Some(predicate) = relation(noun) {
        teller.unnamed = unnamed();
        // People are not bought.
        for name in people.iter().filter(|_| !event) {
            related(teller, predicate, name);
        }
    } else if last.ends_with("-year-old") {
        for name in &people {
            related(teller, "has_child", name);
        }
    } else if animal(noun).is_some() {
        teller.unnamed = unnamed();
        // "a dog" without a name is a fact, a purchase of fish is none.
        if people.is_empty() && !event {
            teller.holds("has_pet", Object::Literal(noun.to_owned()), false);
        }
        for name in people {
            let Ok(name) = name.parse::<EntityName>() else { continue };
            teller.holds("has_pet", Object::Entity(name.clone()), event);
            kind_of_animal(teller, noun, name);
        }
    }
}

pub(super) fn has(teller: &mut Teller<'_>, found: &Captures<'_>) {
    belongs(teller, value(found), false);
}

pub(super) fn took_in(teller: &mut Teller<'_>, found: &Captures<'_>) {
    belongs(teller, value(found), true);
}

/// "My sister is called Clara", "unser Hund heißt Bello". What goes on is about them: "... and works as a cook".
pub(super) fn is_called(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let (who, named) = (part(found, "who"), value(found));
    let named = named.strip_prefix("Herr ").or(named.strip_prefix("Frau ")).unwrap_or(named);
    if let Some(predicate) = relation(who) {
        teller.values(predicate, Takes::People, named, false);
    } else if let Some(noun) = animal(who) {
        for name in names::people(named, teller.writing) {
            let Ok(name) = name.parse::<EntityName>() else { continue };
            teller.holds("has_pet", Object::Entity(name.clone()), false);
            kind_of_animal(teller, noun, name);
        }
    } else {
        return;
    }
    let last = names::people(named, teller.writing).pop().and_then(|name| name.parse().ok());
    if let Some(last) = last {
        (teller.subject, teller.who) = (last, Who::Person);
    }
}

/// A name alone that died was an animal's of who speaks, or ends nothing.
pub(super) fn died(teller: &mut Teller<'_>, _: &Captures<'_>) {
    let pet = Object::Entity(teller.subject.clone());
    teller.about_me();
    teller.ends("has_pet", Some(pet));
}

pub(super) fn divorced(teller: &mut Teller<'_>, found: &Captures<'_>) {
    match value(found) {
        "" => teller.ends("married_to", None),
        words => teller.end_values("married_to", Takes::Person, words),
    }
}

pub(super) fn age(teller: &mut Teller<'_>, found: &Captures<'_>) {
    years(teller, part(found, "n"), false);
}

pub(super) fn turned(teller: &mut Teller<'_>, found: &Captures<'_>) {
    years(teller, part(found, "n"), true);
}

/// An age in years, as far as people live.
pub(super) fn years(teller: &mut Teller<'_>, number: &str, event: bool) {
    if number.parse::<u32>().is_ok_and(|years| (1..=120).contains(&years)) {
        teller.holds("age", Object::Literal(number.to_owned()), event);
    }
}

/// "born on 12 August 1987 in Glasgow".
pub(super) fn born(teller: &mut Teller<'_>, found: &Captures<'_>) {
    birthday(teller, found);
    for words in [part(found, "o"), part(found, "p")] {
        if let Some((name, _)) = words.trim().strip_prefix("in ").and_then(|place| names::place(place, teller.writing))
            && let Ok(name) = name.parse()
        {
            teller.fixed("born_in", Object::Entity(name));
        }
    }
}

/// The day, or the year, that somebody was born.
pub(super) fn birthday(teller: &mut Teller<'_>, _: &Captures<'_>) {
    match dates::birthday(&teller.clause.raw) {
        Some(Birthday::Date(date)) => teller.fixed("born_on", Object::Literal(date.format("%F").to_string())),
        Some(Birthday::Year(year)) => teller.fixed("born_on", Object::Literal(year.to_string())),
        Some(Birthday::Day { day, month }) => {
            if let Some(name) = dates::month_name(month) {
                teller.fixed("birthday", Object::Literal(format!("{day} {name}")));
            }
        }
        None => {}
    }
}

/// A name that somebody says is theirs.
pub(super) fn called(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if let Some((name, after)) = names::person(value(found), teller.writing)
        && (after.is_empty() || after.starts_with([',', '.', '!', ' ', ';', ')']))
    {
        teller.holds("name", Object::Literal(name), false);
    }
}
