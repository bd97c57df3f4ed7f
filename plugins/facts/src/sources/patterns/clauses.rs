//! A sentence as clauses that say something of their own: without greetings, doubts, conditions, other people's words, and
//! with what they say of time and of mistakes set apart.

use chrono::{DateTime, Utc};
use regex::Regex;

use super::super::dates::{self, When};
use super::cues::{CUES, Cues, lead_end};
use super::order;
use super::text::OWN;

/// One clause that its writer means.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Clause {
    /// Its words, as they were said, short forms written out.
    pub(super) raw: String,
    /// Its words without what they say of time, and without fillers.
    pub(super) said: String,
    pub(super) when: When,
    /// It takes something back: "no, ...".
    pub(super) corrects: bool,
    /// What it says is not so: "not Bonn".
    pub(super) instead_of: Option<String>,
    /// It is about what once was: "used to", "früher".
    pub(super) once: bool,
    /// It may go on with the subject of the clause before it.
    pub(super) goes_on: bool,
    /// It tells who somebody is: "Hi, I'm ...".
    pub(super) introduces: bool,
}

/// What one sentence leaves for the next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Carried {
    /// The sentence was nothing but "No." or "That's wrong."
    corrects: bool,
    /// The sentence was nothing but a greeting.
    introduces: bool,
}

/// The clauses of `sentence` that its writer means, in order.
pub(super) fn clauses(sentence: &str, said_at: DateTime<Utc>, carried: &mut Carried) -> Vec<Clause> {
    let before = std::mem::take(carried);
    let Some(cues) = CUES.as_ref() else {
        return Vec::new();
    };
    let lead = Lead::of(cues, sentence);
    if lead.rest.trim_matches(|c: char| !c.is_alphanumeric()).is_empty() {
        *carried = Carried { corrects: lead.corrects, introduces: lead.introduces };
        return Vec::new();
    }
    let (corrects, introduces) = (lead.corrects || before.corrects, lead.introduces || before.introduces);
    let Some(text) = after_colon(lead.rest) else {
        return Vec::new();
    };
    if cues.unsure.is_match(&text) || cues.reported.is_match(&text) || cues.tag.is_match(&text) {
        return Vec::new();
    }
    let mut text = text;
    for (form, whole) in &cues.short {
        text = form.replace_all(&text, *whole).into_owned();
    }
    let Some(text) = told(cues, &text) else {
        return Vec::new();
    };
    let mut text = text.to_owned();
    for form in &cues.instead {
        text = form.replace(&text, "${subject} ${verb} ${right}, not ${wrong}").into_owned();
    }
    let mut found: Vec<Clause> = Vec::new();
    let mut condition = false;
    for (number, part) in parts(cues, &text).into_iter().enumerate() {
        if let Some(wrong) = cues.instead_alone.captures(part.words).and_then(|found| found.name("wrong")) {
            if let Some(last) = found.last_mut() {
                last.instead_of = Some(wrong.as_str().trim().to_owned());
            }
            continue;
        }
        if cues.condition.is_match(part.words) {
            // "If I lived in Paris, I would ..." and "..., if that helps".
            if number == 0 {
                return Vec::new();
            }
            condition = true;
        }
        let dependent = part.words.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("dass "));
        if condition || cues.hypothetical.is_match(part.words) || (dependent && !lead.told) {
            continue;
        }
        let mut clause = read(cues, part.words, said_at);
        clause.corrects = corrects && number == 0;
        clause.introduces = introduces;
        clause.goes_on = part.goes_on;
        found.push(clause);
    }
    found
}

/// What stands before the first clause.
struct Lead<'a> {
    rest: &'a str,
    corrects: bool,
    introduces: bool,
    /// "Remember that": what follows a "dass" is meant.
    told: bool,
}

impl<'a> Lead<'a> {
    fn of(cues: &Cues, sentence: &'a str) -> Self {
        let mut lead = Self { rest: sentence.trim(), corrects: false, introduces: false, told: false };
        // Each round takes something away; few people say more before they come to the point.
        for _ in 0..6 {
            let taken = |form: &Regex| lead_end(form, lead.rest);
            let end = if let Some(end) = taken(&cues.wrong) {
                lead.corrects = true;
                end
            } else if let Some(end) = taken(&cues.greeting) {
                lead.introduces = true;
                end
            } else if let Some(end) = taken(&cues.remember) {
                lead.told = true;
                end
            } else if let Some(end) = taken(&cues.filler_lead) {
                end
            } else {
                break;
            };
            lead.rest = lead.rest.get(end..).unwrap_or_default().trim_start();
        }
        if let Some((before, after)) = lead.rest.split_once(": ")
            && OWN.as_ref().is_some_and(|own| own.is_match(before.trim()))
        {
            let lower = before.to_lowercase();
            lead.introduces |=
                ["vorstellung", "intro", "about me", "über mich", "zu mir"].iter().any(|word| lower.contains(word));
            lead.corrects |= lower.contains("correction") || lower.contains("korrektur");
            let inner = Self::of_rest(cues, after);
            lead = Self {
                rest: inner.rest,
                corrects: lead.corrects || inner.corrects,
                introduces: lead.introduces || inner.introduces,
                told: true,
            };
        }
        lead
    }

    /// As [`Lead::of`], of what follows a colon; there is no second one.
    fn of_rest(cues: &Cues, rest: &'a str) -> Self {
        let mut lead = Self { rest: rest.trim(), corrects: false, introduces: false, told: true };
        for form in [&cues.greeting, &cues.filler_lead] {
            if let Some(end) = lead_end(form, lead.rest) {
                lead.rest = lead.rest.get(end..).unwrap_or_default().trim_start();
            }
        }
        lead
    }
}

/// `text` with a colon read: "My e-mail: a@b" says what it is; what else follows a colon is not said of oneself.
fn after_colon(text: &str) -> Option<String> {
    let Some((before, after)) = text.split_once(": ") else {
        return Some(text.to_owned());
    };
    let first = before.split_whitespace().next().unwrap_or_default().to_lowercase();
    let words = before.split_whitespace().count();
    match first.as_str() {
        "my" | "our" if words <= 4 => Some(format!("{before} is {after}")),
        first if words <= 4 && (first.starts_with("mein") || first.starts_with("unser")) => {
            Some(format!("{before} ist {after}"))
        }
        "i" | "i'm" | "we" | "ich" | "wir" => Some(before.to_owned()),
        _ => None,
    }
}

/// What is told before a question, or all of it when nothing is asked; `None` when it is all question.
fn told<'a>(cues: &Cues, text: &'a str) -> Option<&'a str> {
    if cues.question.is_match(text) {
        return None;
    }
    if !text.trim_end().ends_with('?') {
        return Some(text);
    }
    let asks = cues
        .border
        .find_iter(text)
        .find(|border| text.get(border.end()..).is_some_and(|after| cues.question.is_match(after)))?;
    text.get(..asks.start())
}

struct Part<'a> {
    words: &'a str,
    goes_on: bool,
}

/// Where clauses begin: behind a comma or an "and", when what follows has a subject or a verb of its own.
fn parts<'a>(cues: &Cues, text: &'a str) -> Vec<Part<'a>> {
    let mut found = Vec::new();
    let (mut start, mut goes_on) = (0, false);
    for border in cues.border.find_iter(text) {
        let after = text.get(border.end()..).unwrap_or_default();
        if border.start() < start || !cues.starts.is_match(after) {
            continue;
        }
        if let Some(words) = text.get(start..border.start()) {
            found.push(Part { words, goes_on });
        }
        let link = border.as_str().to_lowercase();
        goes_on = link.contains("and")
            || link.contains("und")
            || link.contains("but")
            || link.contains("aber")
            || link.trim() == ",";
        start = border.end();
    }
    if let Some(words) = text.get(start..) {
        found.push(Part { words, goes_on });
    }
    found.retain(|part| !part.words.trim().is_empty());
    found
}

fn read(cues: &Cues, words: &str, said_at: DateTime<Utc>) -> Clause {
    let raw = words.trim().trim_end_matches(['.', '!', '?', ';', ',', ' ']).to_owned();
    let once = cues.once.is_match(&raw);
    let said = if once { cues.once.replace_all(&raw, " ").into_owned() } else { raw.clone() };
    let (said, when) = dates::take(&said, said_at);
    let said = cues.fillers.replace_all(&format!(" {said} "), " ").into_owned();
    // Neighbours share a space: a second look takes the other one.
    let said = cues.fillers.replace_all(&said, " ").into_owned();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = said.trim_matches(|c: char| c == ',' || c.is_whitespace());
    let said = cues.preposed.captures(said).and_then(|found| found.name("rest")).map_or(said, |rest| rest.as_str());
    let moved = !raw.starts_with(said.split_whitespace().next().unwrap_or_default());
    let said = order::in_order(said, moved);
    Clause { raw, said, when, once, corrects: false, instead_of: None, goes_on: false, introduces: false }
}
