//! Work and learning, as English tells of them.

use regex::Captures;
use skymem_core::facts::Object;

use super::super::names;
use super::super::phrases;
use super::super::rules::{Takes, Teller, Who, part, value};
use super::super::text::HIDDEN;
use super::super::words::{NO_NAMES, SITES, TOOLS, TRADES};

pub(super) fn based_in(teller: &mut Teller<'_>, found: &Captures<'_>) {
    // Sam is based in Berlin, and so is ACME.
    let name = teller.subject.as_str();
    let company = teller.who == Who::Thing
        || part(found, "o").is_empty()
        || found.get(0).is_some_and(|whole| whole.as_str().contains("headquartered"))
        || (name.chars().all(|c| !c.is_lowercase()) && name.len() > 1)
        || ["GmbH", "AG", "Inc", "Ltd", "LLC", "Corp", "SE"].iter().any(|end| name.ends_with(end));
    let predicate = if company { "based_in" } else { "lives_in" };
    teller.values(predicate, Takes::Place, value(found), false);
}

pub(super) fn works_at(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let Some((name, after)) = names::organisation(value(found), teller.writing) else {
        return;
    };
    let Ok(name) = name.parse() else { return };
    teller.holds("works_at", Object::Entity(name), false);
    if let Some((_, trade)) = after.split_once(" as ") {
        trade_of(teller, trade, false);
    }
}

pub(super) fn joined(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let Some((name, after)) = names::organisation(value(found), teller.writing) else {
        return;
    };
    if SITES.has(&name) && !after.contains(" as ") {
        return;
    }
    let Ok(name) = name.parse() else { return };
    teller.holds("works_at", Object::Entity(name), true);
    if let Some((_, trade)) = after.split_once(" as ") {
        trade_of(teller, trade, true);
    }
}

pub(super) fn works_as(teller: &mut Teller<'_>, found: &Captures<'_>) {
    trade_of(teller, value(found), false);
}

pub(super) fn starts_as(teller: &mut Teller<'_>, found: &Captures<'_>) {
    trade_of(teller, value(found), true);
}

/// "I have been at ACME since May"; without how long, it was a visit.
pub(super) fn has_been_at(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let lasts = teller.clause.when.from.is_some() || teller.clause.raw.contains(" for ");
    if lasts {
        teller.values("works_at", Takes::Organisation, value(found), false);
    }
}

pub(super) fn became(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    if is_trade(words) {
        trade_of(teller, words, true);
    }
}

pub(super) fn is_by_trade(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if is_trade(value(found)) {
        trade_of(teller, value(found), false);
    }
}

pub(super) fn is_by_trade_of(teller: &mut Teller<'_>, found: &Captures<'_>) {
    trade_of(teller, value(found), false);
}

pub(super) fn as_a(teller: &mut Teller<'_>, found: &Captures<'_>) {
    if is_trade(value(found)) {
        teller.about_me();
        trade_of(teller, value(found), false);
    }
}

/// Where the words for a trade end.
const TRADE_ENDS: [&str; 16] = [
    " at ",
    " for ",
    " with ",
    " of ",
    " in ",
    " by ",
    " and ",
    " but ",
    " who ",
    " from ",
    " on ",
    ", ",
    " (",
    " - ",
    " specializing",
    " to ",
];

fn title(words: &str) -> &str {
    let words = names::without_article(words);
    let end = TRADE_ENDS.iter().filter_map(|end| words.find(end)).min().unwrap_or(words.len());
    words.get(..end).unwrap_or_default().trim_end_matches(['.', '!', ',', ' '])
}

fn is_trade(words: &str) -> bool {
    let title = title(words);
    let last = title.split_whitespace().next_back().unwrap_or_default();
    title.split_whitespace().count() <= 4 && (TRADES.has(last) || TRADES.has(last.trim_end_matches('s')))
}

/// A trade, and of which company when that is said.
fn trade_of(teller: &mut Teller<'_>, words: &str, event: bool) {
    let title = title(words);
    let count = title.split_whitespace().count();
    if !(1..=5).contains(&count) || NO_NAMES.has(title) || title.contains(HIDDEN) {
        return;
    }
    let after = words.split_once(title).map(|(_, after)| after).unwrap_or_default();
    teller.holds("job_title", Object::Literal(title.to_owned()), event);
    let at = [" at ", " for ", " of ", " with "].iter().find_map(|of| after.strip_prefix(of));
    if let Some((name, _)) = at.and_then(|at| names::organisation(at, teller.writing))
        && let Ok(name) = name.parse()
    {
        teller.holds("works_at", Object::Entity(name), event);
    }
}

pub(super) fn left(teller: &mut Teller<'_>, found: &Captures<'_>) {
    // "We left Paris" is a journey, "I left home" no job.
    let we = teller.clause.said.to_lowercase().starts_with("we ");
    if !we {
        teller.end_values("works_at", Takes::Organisation, value(found));
    }
}

pub(super) fn studies(teller: &mut Teller<'_>, found: &Captures<'_>) {
    learned(teller, value(found), ("studies", "studies_at"));
}

pub(super) fn studied(teller: &mut Teller<'_>, found: &Captures<'_>) {
    learned(teller, value(found), ("studied", "studied_at"));
}

fn learned(teller: &mut Teller<'_>, words: &str, (what_is, where_is): (&str, &str)) {
    let (what, place) = match [" at ", " in ", " from "]
        .iter()
        .filter_map(|at| words.split_once(at))
        .min_by_key(|(what, _)| what.len())
    {
        Some((what, place)) => (what, Some(place)),
        None => match words.strip_prefix("at ").or_else(|| words.strip_prefix("in ")) {
            Some(place) => ("", Some(place)),
            None => (words, None),
        },
    };
    let place =
        place.and_then(|place| names::organisation(place, teller.writing)).and_then(|(name, _)| name.parse().ok());
    let casual = ["hard", "a lot", "for", "every", "with", "all", "at", "in", "too", "best", "better", "well"];
    let first = what.split_whitespace().next().unwrap_or_default();
    if !casual.contains(&first) {
        for phrase in phrases::phrases(what) {
            teller.holds(what_is, Object::Literal(phrase), false);
        }
    }
    if let Some(place) = place {
        teller.holds(where_is, Object::Entity(place), false);
    }
}

pub(super) fn learning(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found);
    teller.values("learns", Takes::Languages, words, false);
    for object in Takes::Tools.read(words, teller.writing) {
        if TOOLS.has(object.as_str()) {
            teller.holds("learns", object, false);
        }
    }
}
