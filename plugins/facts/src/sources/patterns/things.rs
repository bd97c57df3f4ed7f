//! Programs and decisions, in either language.

use regex::Captures;
use skymem_core::facts::Object;

use super::names;
use super::rules::{Takes, Teller, part, value};
use super::text::HIDDEN;
use super::tools;
use super::words::{NO_NAMES, TOOLS};

/// From one tool to another. People move between places with the same words.
pub(super) fn switched(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let to = Takes::Tools.read(part(found, "b"), teller.writing);
    let from = Takes::Tools.read(part(found, "a"), teller.writing);
    let known = |object: &Object| object.as_str().split_whitespace().any(|word| TOOLS.has(word));
    if !to.iter().chain(&from).any(known) {
        return;
    }
    for object in from {
        teller.ends("uses", Some(object));
    }
    for object in to {
        teller.holds("uses", object, true);
    }
}

pub(super) fn depends(teller: &mut Teller<'_>, found: &Captures<'_>) {
    for name in tools::parts(value(found), teller.writing) {
        if let Ok(name) = name.parse() {
            teller.holds("depends_on", Object::Entity(name), false);
        }
    }
}

/// "part of the Falcon project", "Teil von Projekt Nordstern".
pub(super) fn part_of(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = names::without_article(value(found));
    let words = ["Projekts ", "Projekt ", "project ", "Project "]
        .iter()
        .find_map(|kind| words.strip_prefix(kind))
        .unwrap_or(words);
    let alone = || Some(words).filter(|word| !word.contains(' ') && !NO_NAMES.has(word)).map(str::to_owned);
    let name = names::name(words, teller.writing).map(|(name, _)| name).or_else(alone);
    if let Some(name) = name.and_then(|name| name.trim_end_matches(['.', ',']).parse().ok()) {
        teller.holds("part_of", Object::Entity(name), false);
    }
}

/// What was decided, in its own words.
pub(super) fn decided(teller: &mut Teller<'_>, found: &Captures<'_>) {
    let words = value(found).split(" - ").next().unwrap_or_default().trim_end_matches(['.', '!']);
    let count = words.split_whitespace().count();
    let points =
        words.split_whitespace().any(|word| matches!(word, "this" | "that" | "it" | "them" | "these" | "those"));
    if !points && (1..=16).contains(&count) && !words.contains(HIDDEN) {
        teller.holds("decided", Object::Literal(words.to_owned()), true);
    }
}
