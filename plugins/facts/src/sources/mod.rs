//! Where facts come from: patterns, a model, memory files.

mod dates;
pub(crate) mod markdown;
pub(crate) mod model;
pub(crate) mod patterns;
mod values;

use skymem_core::facts::Statement;

/// A statement that was found in a text, and how sure the finder is of it, above 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) statement: Statement,
    pub(crate) confidence: f32,
}

/// A statement on one line, for tests: `user | lives_in | Bremen | from 2026-05-01`.
#[cfg(test)]
pub(crate) fn notation(statement: &Statement) -> String {
    use skymem_core::facts::Object;

    let object = |object: &Option<Object>| object.as_ref().map(Object::as_str).unwrap_or_default().to_owned();
    match statement {
        Statement::Holds(holds) => {
            let mut line = format!("{} | {} | {}", holds.subject, holds.predicate, holds.object.as_str());
            for (word, moment) in [("from", holds.from), ("until", holds.until)] {
                line.extend(moment.map(|moment| format!(" | {word} {}", moment.format("%F"))));
            }
            if holds.corrects {
                line.push_str(" | corrects");
            }
            line
        }
        Statement::Ends { subject, predicate, object: value, at } => {
            let at = at.map(|at| format!(" {}", at.format("%F"))).unwrap_or_default();
            format!("{subject} | {predicate} | {} | ends{at}", object(value))
        }
        Statement::NeverHeld { subject, predicate, object: value, .. } => {
            format!("{subject} | {predicate} | {} | never", object(value))
        }
        Statement::Kind { name, kind } => format!("{name} is {kind:?}"),
        other => format!("{other:?}"),
    }
}
