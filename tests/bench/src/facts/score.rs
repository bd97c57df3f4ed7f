//! The notation of facts in a file of utterances, and what of them is found.
//!
//! `subject | predicate | value`, and then what more there is of it: `from 2026-05-01`, `until 2024-03-01`, `corrects`,
//! `ends` or `ends 2026-03-01`, `never`. `~` stands between ways to write a subject or a value; a `?` in front makes a fact
//! one that need not be found.

use std::str::FromStr;

use anyhow::{Context, Error, ensure};
use serde_json::{Value, json};

/// A fact that a reader of an utterance would expect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    /// It may be found and need not be.
    pub(super) optional: bool,
    subjects: Vec<String>,
    predicate: String,
    objects: Vec<String>,
    /// `from 2026-05-01`, `never`, ...
    more: Vec<String>,
}

impl FromStr for Expected {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (optional, text) = text.strip_prefix('?').map_or((false, text), |text| (true, text));
        let mut parts = text.split(" | ").map(str::trim);
        let mut next =
            |what| parts.next().filter(|part| !part.is_empty()).with_context(|| format!("no {what} in {text:?}"));
        let several = |part: &str| part.split('~').map(str::to_owned).collect();
        let subjects = several(next("subject")?);
        let predicate = next("predicate")?.to_owned();
        let objects = several(next("value")?);
        let more: Vec<String> = parts.map(str::to_owned).collect();
        let known =
            |more: &String| matches!(more.split(' ').next(), Some("from" | "until" | "corrects" | "ends" | "never"));
        ensure!(more.iter().all(known), "{more:?} in {text:?} says nothing");
        Ok(Self { optional, subjects, predicate, objects, more })
    }
}

impl Expected {
    /// What has to be told before, for this to change something: the value that ends, that never was, or that was a mistake.
    pub(super) fn before(&self) -> Option<Value> {
        let says = |word: &str| self.more.iter().any(|more| more.split(' ').next() == Some(word));
        let object = self.objects.first()?;
        let object = if says("ends") || says("never") {
            object.clone()
        } else if says("corrects") {
            format!("not {object}")
        } else {
            return None;
        };
        // A value is what it is said to be: an entity unless it is a literal by nature.
        let literal = ["name", "birthday", "email", "phone", "age"].contains(&self.predicate.as_str());
        let object = if literal { json!({ "literal": object }) } else { json!(object) };
        Some(json!({ "subject": self.subjects.first()?, "predicate": self.predicate, "object": object }))
    }

    fn is(&self, line: &str) -> bool {
        let more = self.more.iter().map(|more| format!(" | {more}")).collect::<String>();
        self.subjects.iter().any(|subject| {
            self.objects.iter().any(|object| {
                let expected = format!("{subject} | {} | {object}{more}", self.predicate);
                expected.to_lowercase() == line.to_lowercase()
            })
        })
    }
}

/// A fact of `/v1/facts` in the notation of the file; `who` is the entity that speaks, `change` what became of it.
pub(super) fn line_of(fact: &Value, who: &str, change: &str) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |entity: &Value| if entity["id"] == who { "user".to_owned() } else { text(&entity["name"]) };
    let object = match &fact["object"]["entity"] {
        Value::Null => text(&fact["object"]["literal"]),
        entity => name(entity),
    };
    let day = |moment: &Value| text(moment).get(..10).unwrap_or_default().to_owned();
    let mut line = format!("{} | {} | {object}", name(&fact["subject"]), text(&fact["predicate"]));
    // When it was said is no date that anybody named.
    let ended = day(&fact["valid_to"]);
    let named = !ended.is_empty() && ended != day(&json!(super::SAID_AT));
    match change {
        "ends" if named => line.push_str(&format!(" | ends {ended}")),
        "ends" | "never" => line.push_str(&format!(" | {change}")),
        _ => {
            if fact["from_is_said"] == true {
                line.push_str(&format!(" | from {}", day(&fact["valid_from"])));
            }
            if !ended.is_empty() {
                line.push_str(&format!(" | until {ended}"));
            }
            if !change.is_empty() {
                line.push_str(&format!(" | {change}"));
            }
        }
    }
    line
}

/// What was found of what was to be found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Score {
    pub(super) right: usize,
    /// What was found, and is not so.
    pub(super) wrong: Vec<String>,
    /// What was not found.
    pub(super) missed: Vec<String>,
}

impl Score {
    pub(super) fn add(&mut self, other: &Score) {
        self.right += other.right;
        self.wrong.extend_from_slice(&other.wrong);
        self.missed.extend_from_slice(&other.missed);
    }

    /// The share of what was found that is right; 1 when nothing was.
    pub(super) fn precision(&self) -> f64 {
        share(self.right, self.wrong.len())
    }

    /// The share of what was to be found that was; 1 when there was nothing.
    pub(super) fn recall(&self) -> f64 {
        share(self.right, self.missed.len())
    }
}

fn share(part: usize, rest: usize) -> f64 {
    if part + rest == 0 { 1.0 } else { part as f64 / (part + rest) as f64 }
}

/// Holds what was found in one utterance against what is expected of it. A fact that is found twice in other words is
/// right once.
pub(super) fn score(expected: &[Expected], found: &[String]) -> Score {
    let mut left: Vec<&String> = found.iter().collect();
    let mut score = Score::default();
    for one in expected {
        let before = left.len();
        left.retain(|line| !one.is(line));
        if before > left.len() {
            score.right += usize::from(!one.optional);
        } else if !one.optional {
            let more = one.more.iter().map(|more| format!(" | {more}")).collect::<String>();
            score.missed.push(format!(
                "{} | {} | {}{more}",
                one.subjects.join("~"),
                one.predicate,
                one.objects.join("~")
            ));
        }
    }
    score.wrong = left.into_iter().cloned().collect();
    score
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &[&str], found: &[&str], (right, wrong, missed): (usize, usize, usize)) {
        let expected: Vec<Expected> = expected.iter().map(|fact| fact.parse().unwrap()).collect();
        let found: Vec<String> = found.iter().map(|line| (*line).to_owned()).collect();
        let score = score(&expected, &found);
        assert_eq!((score.right, score.wrong.len(), score.missed.len()), (right, wrong, missed), "{score:?}");
    }

    #[test]
    fn what_is_found_is_right_when_all_of_it_is() {
        check(&["user | lives_in | Bremen"], &["user | lives_in | bremen"], (1, 0, 0));
        check(&["user | lives_in | Bremen | from 2026-05-01"], &["user | lives_in | Bremen"], (0, 1, 1));
        check(&["Rex | is_a | dog~beagle"], &["Rex | is_a | beagle"], (1, 0, 0));
        check(&["?user | name | Jon"], &[], (0, 0, 0));
        check(&["?user | name | Jon"], &["user | name | Jon"], (0, 0, 0));
        check(&[], &["user | name | Jon"], (0, 1, 0));
        check(&["Rex | is_a | dog~beagle"], &["Rex | is_a | beagle", "Rex | is_a | dog"], (1, 0, 0));
    }

    #[test]
    fn shares_of_nothing_are_whole() {
        let mut score = Score::default();
        assert_eq!((score.precision(), score.recall()), (1.0, 1.0));
        score.add(&Score { right: 1, wrong: vec!["x".into()], missed: vec!["x".into(); 3] });
        assert_eq!((score.precision(), score.recall()), (0.5, 0.25));
    }

    #[test]
    fn a_fact_that_cannot_be_read_is_refused() {
        for fact in ["", "user", "user | lives_in", "user | lives_in | ", "user | lives_in | Rome | soon"] {
            assert!(fact.parse::<Expected>().is_err(), "{fact:?}");
        }
    }

    #[test]
    fn what_ends_or_was_wrong_is_told_before() {
        let before = |fact: &str| fact.parse::<Expected>().unwrap().before();
        assert_eq!(before("user | uses | Jenkins | ends").unwrap()["object"], "Jenkins");
        assert_eq!(before("user | lives_in | Rome | corrects").unwrap()["object"], "not Rome");
        assert_eq!(before("user | birthday | 4 May | corrects").unwrap()["object"]["literal"], "not 4 May");
        assert_eq!(before("user | lives_in | Rome"), None);
    }
}
