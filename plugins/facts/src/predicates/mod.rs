//! What is known of predicates: whether a subject has one value at a time, how a fact reads as a sentence, and which words
//! of a question ask for it. Unknown ones have many values and read as they are written.

mod table;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use skymem_core::LayerError;
use skymem_core::facts::{EntityKind, Predicate};

use self::table::rows;

/// All that is known of predicates.
#[derive(Debug, Clone)]
pub(crate) struct Predicates {
    known: BTreeMap<String, Traits>,
}

/// What is known of one predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Whether a subject has one value of it at a time.
    pub(crate) single: bool,
    /// Whether it says who somebody is to somebody.
    pub(crate) relation: bool,
    sentence: String,
    inverse: String,
    words: Vec<Word>,
    /// What the subject and the value of such a fact are, as far as it tells.
    pub(crate) kinds: (EntityKind, EntityKind),
}

/// A word of a question that asks for a predicate.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Whether all words are meant that begin so.
    begins: bool,
    /// Whether it may ask for anything, and only asks for this when there is nothing else.
    vague: bool,
}

/// `[layers.facts.predicates.<name>]`: what differs from what is known of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PredicateSettings {
    single: Option<bool>,
    relation: Option<bool>,
    sentence: Option<String>,
    inverse: Option<String>,
    words: Option<Vec<String>>,
}

impl Predicates {
    /// The known ones, changed as `settings` say.
    ///
    /// # Errors
    ///
    /// The name or the sentence at fault, with what it may be.
    pub(crate) fn of(settings: &BTreeMap<String, PredicateSettings>) -> Result<Self, LayerError> {
        let mut known: BTreeMap<String, Traits> =
            rows().map(|row| (row.name.to_owned(), Traits::of_row(row))).collect();
        for (name, settings) in settings {
            let wrong = |what: &str| LayerError::Settings(format!("[layers.facts.predicates] {name}: {what}"));
            let predicate: Predicate = name.parse().map_err(|error| wrong(&format!("{error}")))?;
            if predicate.as_str() != name {
                return Err(wrong(&format!("is written {predicate}")));
            }
            let mut traits = known.remove(name).unwrap_or_else(|| Traits::unknown(name));
            for sentence in settings.sentence.iter().chain(&settings.inverse) {
                if !(sentence.contains("{s}") && sentence.contains("{o}")) {
                    return Err(wrong("a sentence has {s} for the subject and {o} for the value"));
                }
            }
            if settings.sentence.is_some() {
                traits.sentence = settings.sentence.clone().unwrap_or_default();
                traits.inverse = traits.sentence.clone();
            }
            traits.inverse = settings.inverse.clone().unwrap_or(traits.inverse);
            traits.single = settings.single.unwrap_or(traits.single);
            traits.relation = settings.relation.unwrap_or(traits.relation);
            if let Some(words) = &settings.words {
                traits.words = words.iter().filter_map(|word| Word::of(word)).collect();
            }
            known.insert(name.clone(), traits);
        }
        Ok(Self { known })
    }

    /// What is known of each that is known.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Traits> {
        self.known.values()
    }

    /// What is known of a predicate.
    pub(crate) fn traits(&self, predicate: &str) -> Traits {
        self.known.get(predicate).cloned().unwrap_or_else(|| Traits::unknown(predicate))
    }
}

impl Traits {
    fn of_row(row: &table::Row) -> Self {
        Self {
            single: row.single,
            relation: row.relation,
            sentence: row.sentence.to_owned(),
            inverse: row.inverse.to_owned(),
            words: row.words.split_whitespace().filter_map(Word::of).collect(),
            kinds: (row.subject, row.object),
        }
    }

    /// A predicate nobody has described: its own words ask for it. `favourite_tea` has one value.
    fn unknown(predicate: &str) -> Self {
        let said = predicate.replace('_', " ");
        let favourite = ["favourite_", "favorite_"].iter().any(|beginning| predicate.starts_with(beginning));
        let sentence = if favourite { format!("{{s}} has the {said} {{o}}") } else { format!("{{s}} {said} {{o}}") };
        let mut words: Vec<Word> = predicate
            .split('_')
            .filter(|word| word.chars().count() > 2)
            .filter_map(|word| {
                Word::of(&format!(
                    "{}*",
                    word.strip_suffix('s').filter(|stem| stem.chars().count() > 2).unwrap_or(word)
                ))
            })
            .collect();
        if favourite {
            words.extend(["liebling*", "likes", "like"].iter().filter_map(|word| Word::of(word)));
        }
        let kinds = (EntityKind::Other, EntityKind::Other);
        Self { single: favourite, relation: false, inverse: sentence.clone(), sentence, words, kinds }
    }

    /// The fact as a sentence, without the full stop.
    pub(crate) fn sentence(&self, subject: &str, object: &str) -> String {
        fill(&self.sentence, subject, object)
    }

    /// The same, told from its value's side.
    pub(crate) fn inverse(&self, subject: &str, object: &str) -> String {
        fill(&self.inverse, subject, object)
    }

    /// The words among `asked`, in lower case, that ask for it, each with whether it is vague.
    pub(crate) fn met<'a>(&'a self, asked: &'a BTreeSet<String>) -> impl Iterator<Item = (&'a str, bool)> + Clone {
        asked.iter().filter_map(|asked| {
            let meant = || self.words.iter().filter(|word| word.is(asked));
            meant().next().map(|_| (asked.as_str(), meant().all(|word| word.vague)))
        })
    }

    /// Whether a word asks for it, be it vague.
    pub(crate) fn meets(&self, asked: &str) -> bool {
        self.words.iter().any(|word| word.is(asked))
    }
}

impl Word {
    fn of(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let (text, vague) = text.strip_suffix('?').map_or((text.as_str(), false), |word| (word, true));
        let (text, begins) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
        let word = Self { text: text.to_owned(), begins, vague };
        (!word.text.is_empty()).then_some(word)
    }

    fn is(&self, asked: &str) -> bool {
        if self.begins { asked.starts_with(&self.text) } else { asked == self.text }
    }
}

/// A sentence with its two holes filled; holes in what they are filled with stay as they are.
fn fill(sentence: &str, subject: &str, object: &str) -> String {
    let mut filled = String::with_capacity(sentence.len() + subject.len() + object.len());
    let mut rest = sentence;
    while let Some((before, from)) = rest.split_once('{') {
        filled.push_str(before);
        if let Some(after) = from.strip_prefix("s}") {
            filled.push_str(subject);
            rest = after;
        } else if let Some(after) = from.strip_prefix("o}") {
            filled.push_str(object);
            rest = after;
        } else {
            filled.push('{');
            rest = from;
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in() -> Predicates {
        Predicates::of(&BTreeMap::new()).unwrap()
    }

    fn with(settings: &str) -> Result<Predicates, String> {
        Predicates::of(&toml::from_str(settings).unwrap()).map_err(|error| error.to_string())
    }

    fn words(question: &str) -> BTreeSet<String> {
        question.to_lowercase().split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_known_ones_are_well_formed_and_each_is_there_once() {
        let mut names = BTreeSet::new();
        for row in rows() {
            assert!(names.insert(row.name), "{}", row.name);
            assert_eq!(row.name.parse::<Predicate>().unwrap().as_str(), row.name);
            assert!(row.sentence.contains("{s}") && row.sentence.contains("{o}"), "{}", row.name);
            assert!(row.inverse.contains("{s}") && row.inverse.contains("{o}"), "{}", row.name);
            assert!(!row.words.is_empty(), "{}", row.name);
        }
    }

    #[test]
    fn one_value_at_a_time_or_many() {
        let predicates = built_in();
        for single in ["lives_in", "works_at", "employer", "job_title", "married_to", "name", "email", "favourite_tea"]
        {
            assert!(predicates.traits(single).single, "{single}");
        }
        for many in ["uses", "likes", "knows", "speaks", "has_pet", "caused_by", "was_seen_with"] {
            assert!(!predicates.traits(many).single, "{many}");
        }
    }

    #[test]
    fn facts_read_as_sentences() {
        let predicates = built_in();
        let check = |predicate: &str, expected: &str| {
            assert_eq!(predicates.traits(predicate).sentence("Anna", "{o} x"), expected);
        };
        check("lives_in", "Anna lives in {o} x");
        check("was_seen_with", "Anna was seen with {o} x");
        check("favourite_tea", "Anna has the favourite tea {o} x");
        assert_eq!(predicates.traits("mother").inverse("Anna", "Eva"), "Eva is the mother of Anna");
    }

    #[test]
    fn questions_in_both_languages_ask_for_them() {
        let predicates = built_in();
        for (question, asked, not_asked) in [
            ("where do i live", "lives_in", "works_at"),
            ("wo wohne ich", "lives_in", "works_at"),
            ("wo arbeitet anna", "works_at", "lives_in"),
            ("who is my sister", "sister", "brother"),
            ("welche datenbank nutzt skymem", "uses", "caused_by"),
            ("wodurch wurde es verursacht", "caused_by", "uses"),
            ("who is the mentor of anna", "has_mentor", "lives_in"),
        ] {
            assert!(predicates.traits(asked).met(&words(question)).next().is_some(), "{question}");
            assert!(predicates.traits(not_asked).met(&words(question)).next().is_none(), "{question}");
        }
    }

    #[test]
    fn settings_change_what_is_known() {
        let predicates =
            with("[mentor]\nsingle = true\nsentence = \"{o} guides {s}\"\nwords = [\"guid*\"]\n[uses]\nsingle = true")
                .unwrap();

        let mentor = predicates.traits("mentor");
        assert!(mentor.single && predicates.traits("uses").single);
        assert_eq!(mentor.sentence("Anna", "Eva"), "Eva guides Anna");
        assert!(mentor.met(&words("who guides anna")).next().is_some());
        assert_eq!(predicates.traits("uses").sentence("A", "B"), "A uses B");
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_what_they_may_be() {
        assert!(with("[\"Lives In\"]\nsingle = true").unwrap_err().contains("is written lives_in"));
        assert!(with("[\"a/b\"]\nsingle = true").unwrap_err().contains("letters, digits"));
        assert!(with("[mentor]\nsentence = \"{s} only\"").unwrap_err().contains("{o}"));
        assert!(toml::from_str::<BTreeMap<String, PredicateSettings>>("[mentor]\nsingel = true").is_err());
    }
}
