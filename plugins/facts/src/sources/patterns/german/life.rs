//! Family, animals, belongings and tastes, as German tells of them.

use regex::Captures;
use skymem_core::facts::Object;

use super::super::names::{self, Writing};
use super::super::people::{is_somebody_of_mine, years};
use super::super::rules::{Takes, Teller, value};
use super::super::words::{GERMAN_TRADES, GOODS, KINDS_OF_PEOPLE, MAKES};
use super::introduce;

pub(super) fn married(teller: &mut Teller<'_>, found: &Captures<'_>) {
    teller.values("married_to", Takes::Person, value(found), false);
}

pub(super) fn drives(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let Some((name, _)) = names::name(value(found), teller.writing) else {
        return;
    };
    if MAKES.has(name.split_whitespace().next().unwrap_or_default())
        && let Ok(name) = name.parse()
    {
        teller.holds("drives", Object::Entity(name), false);
    }
}

/// What was bought is one's own if it lasts.
pub(super) fn bought(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = names::without_article(value(found));
    let last = words.split_whitespace().next_back().unwrap_or_default();
    if GOODS.has(last) && words.split_whitespace().count() <= 4 {
        return teller.holds("owns", Object::Literal(words.to_owned()), true);
    }
    let Some((name, _)) = names::name(words, teller.writing) else {
        return;
    };
    if MAKES.has(name.split_whitespace().next().unwrap_or_default())
        && let Ok(name) = name.parse()
    {
        teller.holds("owns", Object::Entity(name), true);
    }
}

pub(super) fn sold(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    let make = MAKES.has(words.split_whitespace().next().unwrap_or_default());
    let object = match words.parse() {
        Ok(name) if make => Object::Entity(name),
        _ => Object::Literal(words.to_owned()),
    };
    if words.split_whitespace().count() <= 4 {
        teller.ends("owns", Some(object));
    }
}

/// "Hallo, ich bin Jana": elsewhere any noun may follow.
pub(super) fn introduces(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if !teller.clause.introduces {
        return;
    }
    let Some((name, after)) = names::person(value(found), Writing { lower: false, ..teller.writing }) else {
        return;
    };
    let plain = name.split_whitespace().all(|word| !KINDS_OF_PEOPLE.has(word) && !GERMAN_TRADES.end(word));
    if plain && name.split_whitespace().count() <= 2 && (after.is_empty() || after.starts_with([',', '.', ' '])) {
        teller.holds("name", Object::Literal(name), false);
        if let Some(age) = after.strip_prefix(", ").and_then(|after| after.split(',').next()) {
            years(teller, age.trim(), false);
        }
    }
}

/// "Katrin ist meine Schwester".
pub(super) fn is_my(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let who = value(found);
    if is_somebody_of_mine(who) && who.split_whitespace().count() <= 2 {
        let name = teller.subject.as_str().to_owned();
        introduce(teller, who, &name);
    }
}
