//! What people say of themselves and of their work in passing, found by conservative patterns in English and German.
//!
//! A text becomes sentences, those clauses, and of each clause it is asked whom it is about and what it says of them. What
//! is asked, imagined, planned, doubted, quoted or told by others gives nothing: a fact that is missed can be told again, a
//! wrong one is believed.

mod clauses;
mod cues;
mod english;
mod german;
mod names;
mod order;
mod people;
mod phrases;
mod reach;
mod relations;
mod rules;
mod tastes;
mod text;
mod things;
mod tools;
mod words;

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use regex::Regex;
use skymem_core::facts::{EntityName, Holds, Object, Statement};

use super::{Found, values};
use clauses::{Carried, clauses};
use rules::{Teller, Who};

/// The most facts that one text gives.
const MOST_FOUND: usize = 64;

/// The facts that `subject` states in `text`, said at `said_at`, in order. Of a long text its beginning is read.
pub(crate) fn find(text: &str, subject: &EntityName, said_at: DateTime<Utc>) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut carried = Carried::default();
    // "a puppy": its name may come with the next clause.
    let mut unnamed: Option<String> = None;
    // Who writes no capital at all writes names without them too.
    let lower = !text.chars().any(char::is_uppercase);
    for sentence in text::sentences(text) {
        if let Some(corrected) = not_this_but_that(&sentence, &found) {
            found.extend(corrected);
            continue;
        }
        // Whom the clause before was about, in each language.
        let mut before: Option<(EntityName, Who)> = None;
        for clause in clauses(&sentence, said_at, &mut carried) {
            let in_languages =
                [(english::writing(lower), english::tell as Tell), (german::writing(lower), german::tell)];
            let told = in_languages.into_iter().find_map(|(writing, tell)| {
                let mut teller = Teller {
                    me: subject,
                    subject: subject.clone(),
                    who: Who::Me,
                    clause: &clause,
                    writing,
                    said_at,
                    found: Vec::new(),
                    unnamed: None,
                };
                let told = tell(&mut teller, before.as_ref()) || name_them(&mut teller, unnamed.as_deref());
                (told || teller.unnamed.is_some()).then_some(teller)
            });
            let Some(told) = told else {
                before = None;
                continue;
            };
            if told.unnamed.is_none() && told.found.iter().any(is_pet_with_a_name) {
                // The same animal was a fact already, before it had a name.
                found.retain(|one| !is_pet_without(one, unnamed.as_deref()));
            }
            found.extend(told.found);
            before = Some((told.subject, told.who));
            unnamed = told.unnamed;
        }
        if found.len() > MOST_FOUND {
            break;
        }
    }
    let mut kept: Vec<Found> = Vec::new();
    for one in found {
        // What would be refused at a door is no fact here either.
        if one.statement.check().is_ok() && !kept.iter().any(|other| other.statement == one.statement) {
            kept.push(one);
        }
    }
    kept.truncate(MOST_FOUND);
    kept
}

/// Has a teller write down what its clause says in a language; whether it says anything.
type Tell = fn(&mut Teller<'_>, Option<&(EntityName, Who)>) -> bool;

static NAMES_THEM: LazyLock<Option<Regex>> = LazyLock::new(|| {
    text::words(
        r"(?i)^(?:(?:his|her|its|their) names? (?:is|are)|(?:he|she|it|they) (?:is|are) (?:called|named)|(?:sie|er|es) (?:heißt|heißen)) (?P<name>.+)$",
    )
});

/// "Her name is Luna", after "a puppy".
fn name_them(teller: &mut Teller<'_>, unnamed: Option<&str>) -> bool {
    let (Some(unnamed), Some(form)) = (unnamed, NAMES_THEM.as_ref()) else {
        return false;
    };
    let said = teller.clause.said.clone();
    let Some(name) = form.captures(&said).and_then(|found| found.name("name")) else {
        return false;
    };
    english::introduce(teller, unnamed, name.as_str());
    !teller.found.is_empty()
}

fn is_pet_with_a_name(found: &Found) -> bool {
    matches!(&found.statement, Statement::Holds(Holds { predicate, object: Object::Entity(_), .. }) if predicate.as_str() == "has_pet")
}

fn is_pet_without(found: &Found, unnamed: Option<&str>) -> bool {
    matches!(&found.statement, Statement::Holds(Holds { predicate, object: Object::Literal(what), .. })
        if predicate.as_str() == "has_pet" && Some(what.as_str()) == unnamed)
}

static ELLIPSIS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix)^(?:(?:sorry|no|nein|oops|i\ mean|ich\ meine|correction|korrektur|quatsch)[,:]?\ )?(?:not|nicht)\ (?:in\ |at\ |bei\ |aus\ |from\ )?
          (?P<wrong>[^,]{1,60}?)(?:,\ (?:but\ |sondern\ )?|\ but\ |\ sondern\ )(?:in\ |at\ |bei\ |aus\ |from\ )?(?P<right>[^,.!]{1,60})[.!]?$",
    )
    .ok()
});

/// "Sorry, not Bonn, Bremen" after something was said of Bonn.
fn not_this_but_that(sentence: &str, found: &[Found]) -> Option<Vec<Found>> {
    let parts = ELLIPSIS.as_ref()?.captures(sentence)?;
    let (wrong, right) = (parts.name("wrong")?.as_str(), parts.name("right")?.as_str());
    found.iter().rev().find_map(|one| {
        let Statement::Holds(said) = &one.statement else {
            return None;
        };
        if !said.object.as_str().eq_ignore_ascii_case(wrong) {
            return None;
        }
        let object = match &said.object {
            Object::Entity(_) => Object::Entity(right.parse().ok()?),
            Object::Literal(_) => Object::Literal(right.to_owned()),
        };
        let corrects = values::has_one_value(said.predicate.as_str());
        let never = (!corrects).then(|| Statement::NeverHeld {
            subject: said.subject.clone(),
            predicate: said.predicate.clone(),
            object: Some(said.object.clone()),
            from: None,
        });
        let right = Statement::Holds(Holds { object, corrects, ..said.clone() });
        Some(
            never.into_iter().chain([right]).map(|statement| Found { statement, confidence: one.confidence }).collect(),
        )
    })
}

#[cfg(test)]
mod examples;
