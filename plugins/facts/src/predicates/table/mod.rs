//! The predicates that are known from the start.

mod people;
mod things;

use skymem_core::facts::EntityKind::{self, Person};

/// What is known of a predicate. `{s}` in a sentence is the subject, `{o}` the value. A word that ends in `*` stands for
/// all words that begin so; one that ends in `?` may ask for anything, and only asks for this when there is nothing else.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) single: bool,
    /// It says who somebody is to somebody: "my sister" is asked for by its words.
    pub(super) relation: bool,
    pub(super) sentence: &'static str,
    pub(super) inverse: &'static str,
    /// English and German words of questions that ask for it.
    pub(super) words: &'static str,
    /// What the subject of such a fact is.
    pub(super) subject: EntityKind,
    /// What its value is, when that is an entity.
    pub(super) object: EntityKind,
}

/// One value at a time.
const ONE: bool = true;
/// Many values at a time.
const MANY: bool = false;

const fn of_a_thing(
    name: &'static str,
    single: bool,
    sentences: (&'static str, &'static str),
    words: &'static str,
    (subject, object): (EntityKind, EntityKind),
) -> Row {
    Row { name, single, relation: false, sentence: sentences.0, inverse: sentences.1, words, subject, object }
}

const fn related(name: &'static str, single: bool, of: (&'static str, &'static str), words: &'static str) -> Row {
    Row { name, single, relation: true, sentence: of.0, inverse: of.1, words, subject: Person, object: Person }
}

/// All of them.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    people::TABLE.iter().chain(things::TABLE)
}
