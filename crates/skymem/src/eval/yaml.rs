//! Scripts written in YAML.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::assemble::{Head, Written, assemble};
use super::script::{Fault, Script};

/// The script in `text`; `stem` names it when it does not name itself.
///
/// # Errors
///
/// In words, with the line.
pub(crate) fn parse(text: &str, stem: &str) -> Result<Script, Fault> {
    let File { name, about, begins, steps } = serde_saphyr::from_str(text).map_err(|error| fault(&error))?;
    let steps = steps.into_iter().map(|step| (line(step.referenced.line()), step.value)).collect();
    assemble(Head { name, about, begins }, steps, stem)
}

/// The head of a script in `text`, which is the front matter of a Markdown file.
///
/// # Errors
///
/// In words, with the line of `text`.
pub(crate) fn head(text: &str) -> Result<Head, Fault> {
    if text.trim().is_empty() {
        return Ok(Head::default());
    }
    serde_saphyr::from_str(text).map_err(|error| fault(&error))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "`steps:` with a list, and `name`, `about`, `begins`")]
struct File {
    name: Option<String>,
    about: Option<String>,
    begins: Option<String>,
    steps: Vec<Spanned<Written>>,
}

fn fault(error: &serde_saphyr::Error) -> Fault {
    let at = error.location().map_or(1, |location| line(location.line()));
    let text = error.without_snippet().to_string();
    // The place stands before the text already, counted from the beginning of the file.
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    Fault::at(at, reason)
}

fn line(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::script::Act;
    use super::*;

    #[track_caller]
    fn refused(text: &str, at: usize, part: &str) {
        let fault = parse(text, "x").unwrap_err();
        assert!(fault.reason.contains(part) && fault.line == at, "{fault:?} where {at}: {part} was expected");
    }

    #[test]
    fn a_script_is_a_list_of_steps() {
        let script = parse(
            "name: dog\nbegins: 2026-02-02T09:00:00Z\nsteps:\n  - session: one\n    user: My dog is Rex.\n    assistant: Nice.\n  \
             - session: two\n    at: +3 days\n    ask: What is my dog called?\n    recalls: [Rex]\n    not: [Bello, '8080']\n",
            "x",
        )
        .unwrap();

        assert_eq!((script.name.as_str(), script.turns(), script.questions()), ("dog", 2, 1));
        let Some(Act::Ask(question)) = script.steps.last().map(|step| step.act.clone()) else { panic!() };
        assert_eq!(question.session.as_deref(), Some("two"));
        assert_eq!(question.at.to_rfc3339(), "2026-02-05T09:01:00+00:00");
        assert_eq!(script.steps.last().unwrap().line, 7);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        refused("steps:\n  - user: x\n  - aks: y\n", 3, "aks");
        refused("nmae: x\nsteps: []\n", 1, "nmae");
        refused("name: x\n", 1, "steps");
        refused("- user: x\n", 1, "mapping");
        refused("steps:\n  - user: [x]\n", 2, "");
        refused("steps:\n  - ask: x\n    recalls: y\n", 3, "");
        refused("steps:\n  - ask: x\n    rank: many\n", 3, "");
        refused("steps:\n  - user: x\n    user: y\n", 3, "user");
        refused("steps: [\n", 1, "unclosed");
        refused("steps: []\n", 1, "asks nothing");
        refused("steps:\n  - session: a\n  - user: y\n    filler: 3\n", 3, "filler");
    }

    #[test]
    fn a_file_that_refers_to_itself_without_end_is_refused() {
        let mut text = String::from("a: &a [x,x,x,x,x,x,x,x,x]\n");
        for (one, other) in "abcdefgh".chars().zip("bcdefghi".chars()) {
            text.push_str(&format!("{other}: &{other} [*{one},*{one},*{one},*{one},*{one},*{one},*{one},*{one}]\n"));
        }
        text.push_str("steps: *i\n");

        assert!(parse(&text, "x").is_err());
    }
}
