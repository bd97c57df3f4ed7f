//! What a rule is, and how what it finds becomes statements.

use regex::{Captures, Regex};
use skymem_core::facts::{EntityKind, EntityName, Holds, Object, Predicate, Statement};

use chrono::{DateTime, Utc};

use super::super::{Found, dates, values};
use super::clauses::Clause;
use super::names::{self, Language, Writing};
use super::phrases;
use super::text::words;
use super::tools;

/// Who a clause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Who speaks.
    Me,
    /// Somebody with a name, surely a person.
    Person,
    /// A thing, surely none.
    Thing,
    /// A name alone: a person or a thing.
    Named,
}

/// Who a rule may be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Me,
    Person,
    Thing,
    /// Somebody or something that is called by its name alone.
    Named,
    Anybody,
}

impl Of {
    fn may_be(self, who: Who) -> bool {
        match self {
            Of::Me => who == Who::Me,
            Of::Person => who != Who::Thing,
            Of::Thing => matches!(who, Who::Thing | Who::Named),
            Of::Named => who == Who::Named,
            Of::Anybody => true,
        }
    }
}

/// What is said of a subject, and what it tells.
pub(super) struct Rule {
    pub(super) of: Of,
    /// The words behind the subject; what `o` names is the value.
    pub(super) says: &'static str,
    pub(super) tells: Tells,
}

/// What a rule tells.
#[derive(Clone, Copy)]
pub(super) enum Tells {
    /// Something holds, since when it is said to.
    State(&'static str, Takes),
    /// Something holds because of what happened, since then.
    Event(&'static str, Takes),
    /// Something held; of no use without its end.
    Past(&'static str, Takes),
    /// Something holds no longer.
    Ends(&'static str, Takes),
    /// Something never was so.
    Never(&'static str, Takes),
    /// What has a way of its own.
    By(fn(&mut Teller<'_>, &Captures<'_>)),
}

/// What kind of words a value is.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Person,
    People,
    Place,
    Organisation,
    Tools,
    Languages,
    /// Short phrases, as literals.
    Phrases,
    /// One short phrase, as a literal.
    Phrase,
    /// Anything with a name.
    Name,
}

impl Takes {
    pub(super) fn read(self, words: &str, writing: Writing) -> Vec<Object> {
        let entity = |name: String| name.parse().ok().map(Object::Entity);
        let first = |found: Option<(String, &str)>| found.and_then(|(name, _)| entity(name)).into_iter().collect();
        match self {
            Takes::Person => first(names::person(words, writing)),
            Takes::People => names::people(words, writing).into_iter().filter_map(entity).collect(),
            Takes::Place => first(names::place(words, writing)),
            Takes::Organisation => first(names::organisation(words, writing)),
            Takes::Name => first(names::name(names::without_article(words), writing)),
            Takes::Tools => tools::tools(words, writing).into_iter().filter_map(entity).collect(),
            Takes::Languages => tools::languages(words).into_iter().filter_map(entity).collect(),
            Takes::Phrases => {
                phrases::phrases(words).into_iter().map(|phrase| thing_or_phrase(phrase, writing)).collect()
            }
            Takes::Phrase => phrases::phrase(words).into_iter().map(Object::Literal).collect(),
        }
    }
}

/// In English a phrase of nothing but capitals is a name.
fn thing_or_phrase(phrase: String, writing: Writing) -> Object {
    let name = writing.language == Language::English
        && phrase.split_whitespace().all(|word| word.starts_with(|c: char| c.is_uppercase() || c.is_numeric()));
    match phrase.parse() {
        Ok(entity) if name => Object::Entity(entity),
        _ => Object::Literal(phrase),
    }
}

/// English verbs as they stand behind "I" and "we", and behind no single name.
const OF_MANY: [&str; 24] = [
    "like", "love", "live", "work", "use", "enjoy", "play", "drive", "speak", "own", "prefer", "hate", "study",
    "adore", "dislike", "have", "am", "are", "come", "do", "loathe", "detest", "reside", "major",
];

/// Writes down what a clause says.
pub(super) struct Teller<'a> {
    /// Who says "I".
    pub(super) me: &'a EntityName,
    /// Who or what the clause is about.
    pub(super) subject: EntityName,
    pub(super) who: Who,
    pub(super) clause: &'a Clause,
    pub(super) writing: Writing,
    pub(super) said_at: DateTime<Utc>,
    pub(super) found: Vec<Found>,
    /// Somebody or some animal that was told of without a name: "a puppy". The next clause may give it.
    pub(super) unnamed: Option<String>,
}

impl Teller<'_> {
    /// From here on it is about who speaks.
    pub(super) fn about_me(&mut self) {
        self.subject = self.me.clone();
        self.who = Who::Me;
    }

    /// Writes down what the first rule that fits finds in `words`, which follow the subject; whether one did.
    pub(super) fn tell(&mut self, words: &str, book: &[(Regex, &'static Rule)]) -> bool {
        let before = self.found.len();
        let first = words.split_whitespace().next().unwrap_or_default();
        // "Themes like these": a name is one, and its verb says so.
        if matches!(self.who, Who::Person | Who::Named) && OF_MANY.contains(&first) {
            return false;
        }
        for (form, rule) in book {
            if !rule.of.may_be(self.who) {
                continue;
            }
            let Some(found) = form.captures(words) else {
                continue;
            };
            match rule.tells {
                Tells::By(tell) => tell(self, &found),
                Tells::State(predicate, takes) => self.values(predicate, takes, value(&found), false),
                Tells::Event(predicate, takes) => self.values(predicate, takes, value(&found), true),
                Tells::Past(predicate, takes) => self.past(predicate, takes, value(&found)),
                Tells::Ends(predicate, takes) => self.end_values(predicate, takes, value(&found)),
                Tells::Never(predicate, takes) => {
                    for object in takes.read(value(&found), self.writing) {
                        self.never(predicate, object);
                    }
                }
            }
            if self.found.len() > before {
                #[cfg(test)]
                USED.with_borrow_mut(|used| used.insert(rule.says));
                return true;
            }
        }
        false
    }

    /// Everything that `words` name is a value of `predicate`.
    pub(super) fn values(&mut self, predicate: &str, takes: Takes, words: &str, event: bool) {
        let wrong = self.clause.instead_of.clone();
        let mut corrects = false;
        let mut never = Vec::new();
        if let Some(wrong) = wrong {
            let wrong = without_preposition(&wrong);
            let (left, when) = dates::take(&format!("in {wrong}"), self.said_at);
            if when != dates::When::default() && left.is_empty() {
                corrects = true;
            } else if values::has_one_value(predicate) {
                corrects = !takes.read(wrong, self.writing).is_empty();
            } else {
                never = takes.read(wrong, self.writing);
            }
        }
        for object in takes.read(words, self.writing) {
            self.holds_if(predicate, object, event, corrects);
        }
        for object in never {
            self.never(predicate, object);
        }
    }

    /// `object` is a value of `predicate`.
    pub(super) fn holds(&mut self, predicate: &str, object: Object, event: bool) {
        self.holds_if(predicate, object, event, false);
    }

    fn holds_if(&mut self, predicate: &str, object: Object, event: bool, corrects: bool) {
        let when = self.clause.when;
        // What once was so, and no word of until when, is only known to be over.
        if self.clause.once && when.until.is_none() {
            return self.ends(predicate, Some(object));
        }
        let from = if event { when.from.or(when.at) } else { when.from };
        // Nobody knows what will be.
        if from.is_some_and(|from| from > self.said_at) {
            return;
        }
        let until = when.until.filter(|until| from.is_none_or(|from| from < *until));
        let corrects = (corrects || self.clause.corrects) && values::has_one_value(predicate);
        let subject = self.subject.clone();
        self.add(subject, predicate, object, (from, until), corrects);
    }

    /// A date or the like that the clause names as a value, not as the time since when it holds.
    pub(super) fn fixed(&mut self, predicate: &str, value: Object) {
        let corrects = (self.clause.corrects || self.clause.instead_of.is_some()) && values::has_one_value(predicate);
        self.add(self.subject.clone(), predicate, value, (None, None), corrects);
    }

    /// The value of `predicate` of another subject than the clause's, of which nothing is said of time.
    pub(super) fn holds_of(&mut self, subject: &EntityName, predicate: &str, object: Object) {
        self.add(subject.clone(), predicate, object, (None, None), false);
    }

    fn add(
        &mut self,
        subject: EntityName,
        predicate: &str,
        object: Object,
        (from, until): (Option<DateTime<Utc>>, Option<DateTime<Utc>>),
        corrects: bool,
    ) {
        let Ok(predicate) = predicate.parse::<Predicate>() else {
            return;
        };
        let confidence = self.sure();
        self.put(Statement::Holds(Holds { subject, predicate, object, from, until, confidence, corrects }));
    }

    /// What held until then.
    pub(super) fn past(&mut self, predicate: &str, takes: Takes, words: &str) {
        let over = self.clause.when.until.is_some_and(|until| until <= self.said_at);
        if over || self.clause.once {
            for object in takes.read(words, self.writing) {
                self.holds(predicate, object, false);
            }
        }
    }

    /// What `words` name is a value of `predicate` no longer.
    pub(super) fn end_values(&mut self, predicate: &str, takes: Takes, words: &str) {
        for object in takes.read(words, self.writing) {
            self.ends(predicate, Some(object));
        }
    }

    /// A value of `predicate`, or whichever it is, holds no longer.
    pub(super) fn ends(&mut self, predicate: &str, object: Option<Object>) {
        let Ok(predicate) = predicate.parse() else {
            return;
        };
        let when = self.clause.when;
        let at = when.at.or(when.until).or(when.from).filter(|at| *at <= self.said_at);
        if (when.at.or(when.from)).is_some() && at.is_none() {
            return;
        }
        self.put(Statement::Ends { subject: self.subject.clone(), predicate, object, at });
    }

    /// A value of `predicate` never was one.
    pub(super) fn never(&mut self, predicate: &str, object: Object) {
        let Ok(predicate) = predicate.parse() else {
            return;
        };
        self.put(Statement::NeverHeld { subject: self.subject.clone(), predicate, object: Some(object), from: None });
    }

    /// What kind of thing something is.
    pub(super) fn kind(&mut self, name: EntityName, kind: EntityKind) {
        self.put(Statement::Kind { name, kind });
    }

    fn put(&mut self, statement: Statement) {
        self.found.push(Found { statement, confidence: self.sure() });
    }

    /// People know best what they say of themselves.
    fn sure(&self) -> f32 {
        if self.who == Who::Me { 0.9 } else { 0.8 }
    }
}

/// The words that `o` names, or `p` in the other way to say it.
pub(super) fn value<'a>(found: &Captures<'a>) -> &'a str {
    found.name("o").or(found.name("p")).map(|value| value.as_str()).unwrap_or_default()
}

/// The words that a group names; none when it took no part.
pub(super) fn part<'a>(found: &Captures<'a>, name: &str) -> &'a str {
    found.name(name).map(|part| part.as_str()).unwrap_or_default()
}

fn without_preposition(words: &str) -> &str {
    let words = words.trim();
    ["in ", "at ", "for ", "from ", "to ", "with ", "on ", "bei ", "aus ", "nach ", "mit ", "für ", "im ", "am "]
        .into_iter()
        .find_map(|preposition| words.strip_prefix(preposition))
        .unwrap_or(words)
}

/// The rules of a table with their patterns, compiled.
pub(super) fn book(table: &'static [Rule]) -> Vec<(Regex, &'static Rule)> {
    table.iter().filter_map(|rule| Some((words(&format!("(?i)^(?:{})$", rule.says))?, rule))).collect()
}

#[cfg(test)]
thread_local! {
    /// The rules that found something in this thread.
    pub(super) static USED: std::cell::RefCell<std::collections::BTreeSet<&'static str>> = const {
        std::cell::RefCell::new(std::collections::BTreeSet::new())
    };
}
