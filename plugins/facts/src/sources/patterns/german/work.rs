//! Homes, work and learning, as German tells of them.

use regex::Captures;
use skymem_core::facts::Object;

use super::super::names;
use super::super::phrases;
use super::super::rules::{Takes, Teller, value};
use super::super::text::HIDDEN;
use super::super::words::{GERMAN_TRADES, NO_NAMES};

pub(super) fn moved(teller: &mut Teller<'_>, found: &Captures<'_>) {
    teller.values("lives_in", Takes::Place, value(found), true);
}

pub(super) fn lived(teller: &mut Teller<'_>, found: &Captures<'_>) {
    teller.past("lives_in", Takes::Place, value(found));
}

pub(super) fn worked(teller: &mut Teller<'_>, found: &Captures<'_>) {
    teller.past("works_at", Takes::Organisation, value(found));
}

pub(super) fn never_worked(teller: &mut Teller<'_>, found: &Captures<'_>) {
    for object in Takes::Organisation.read(value(found), teller.writing) {
        teller.never("works_at", object);
    }
}

pub(super) fn comes_from(teller: &mut Teller<'_>, found: &Captures<'_>) {
    teller.values("comes_from", Takes::Place, value(found), false);
}

pub(super) fn works_at(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let Some((name, after)) = names::organisation(value(found), teller.writing) else {
        return;
    };
    let Ok(name) = name.parse() else { return };
    teller.holds("works_at", Object::Entity(name), false);
    if let Some((_, trade)) = after.split_once(" als ") {
        trade_of(teller, trade);
    }
}

pub(super) fn works_as(teller: &mut Teller<'_>, found: &Captures<'_>) {
    trade_of(teller, value(found));
}

/// Where the words for a trade end.
const TRADE_ENDS: [&str; 14] = [
    " bei ", " beim ", " im ", " in ", " an ", " am ", " für ", " der ", " des ", " und ", " aus ", ", ", " (", " von ",
];

fn title(words: &str) -> &str {
    let words = names::without_article(words);
    let end = TRADE_ENDS.iter().filter_map(|end| words.find(end)).min().unwrap_or(words.len());
    words.get(..end).unwrap_or_default().trim_end_matches(['.', '!', ',', ' '])
}

pub(super) fn is_by_trade(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let title = title(value(found));
    let last = title.split_whitespace().next_back().unwrap_or_default();
    let trade = GERMAN_TRADES.end(last) || last.strip_suffix("in").is_some_and(|man| GERMAN_TRADES.end(man));
    if trade && title.split_whitespace().count() <= 3 {
        trade_of(teller, value(found));
    }
}

/// A trade, and of which company when that is said.
fn trade_of(teller: &mut Teller<'_>, words: &str) {
    let title = title(words);
    let good = (1..=4).contains(&title.split_whitespace().count()) && !NO_NAMES.has(title) && !title.contains(HIDDEN);
    if !good || !title.chars().any(char::is_uppercase) && !teller.writing.lower {
        return;
    }
    let after = words.split_once(title).map(|(_, after)| after).unwrap_or_default();
    teller.holds("job_title", Object::Literal(title.to_owned()), false);
    let company = [" bei ", " beim ", " für "].iter().find_map(|of| after.strip_prefix(of));
    // "in Bremen" is a place, "im Klinikum Bremen" is one with a name of its own.
    let named = ["der ", "des ", "im ", "am ", "an der "].iter().find_map(|of| after.trim_start().strip_prefix(of));
    let name = match (company, named) {
        (Some(company), _) => names::organisation(company, teller.writing),
        (None, Some(named)) => names::name(named, teller.writing).filter(|(name, _)| name.contains(' ')),
        _ => None,
    };
    if let Some(name) = name.and_then(|(name, _)| name.parse().ok()) {
        teller.holds("works_at", Object::Entity(name), false);
    }
}

pub(super) fn studies(teller: &mut Teller<'_>, found: &Captures<'_>) {
    learned(teller, value(found), ("studies", "studies_at"));
}

pub(super) fn studied(teller: &mut Teller<'_>, found: &Captures<'_>) {
    learned(teller, value(found), ("studied", "studied_at"));
}

/// "Medizin in Heidelberg", "in Aachen Maschinenbau".
fn learned(teller: &mut Teller<'_>, words: &str, (what_is, where_is): (&str, &str)) {
    const AT: [&str; 4] = ["an der ", "in ", "am ", "an "];
    let (what, place) = if let Some(place) = AT.iter().find_map(|at| words.strip_prefix(at)) {
        match names::name(place, teller.writing) {
            // The last word is what is learned: "in Aachen Maschinenbau".
            Some((name, after)) => match name.rsplit_once(' ') {
                Some((place, what)) if after.trim().is_empty() => (what.to_owned(), Some(place.to_owned())),
                _ => (after.trim().to_owned(), Some(name)),
            },
            None => return,
        }
    } else {
        let split = AT.iter().filter_map(|at| words.split_once(&format!(" {at}"))).min_by_key(|(what, _)| what.len());
        match split {
            Some((what, place)) => (what.to_owned(), names::name(place, teller.writing).map(|(name, _)| name)),
            None => (words.to_owned(), None),
        }
    };
    if what.starts_with(char::is_uppercase) || teller.writing.lower {
        for phrase in phrases::phrases(&what) {
            teller.holds(what_is, Object::Literal(phrase), false);
        }
        if let Some(place) = place.and_then(|place| place.parse().ok()) {
            teller.holds(where_is, Object::Entity(place), false);
        }
    }
}
