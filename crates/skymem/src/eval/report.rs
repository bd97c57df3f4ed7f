//! What came of scripts, for people, for programs and for CI.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::script::Script;
use crate::output::{counted, excerpt, table};

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Each script, in the order in which they were played.
    pub(crate) scripts: Vec<Played>,
}

/// What came of one script.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) name: String,
    pub(crate) about: Option<String>,
    pub(crate) file: String,
    /// How many questions the script has; those after a fault are not asked.
    pub(crate) questions: usize,
    pub(crate) asked: Vec<Asked>,
    /// Steps that could not be done here.
    pub(crate) skipped: Vec<String>,
    /// What ended the script before its end.
    pub(crate) broken: Option<Miss>,
    pub(crate) took: Duration,
}

/// What came of one question.
#[derive(Debug, Default, Clone)]
pub(crate) struct Asked {
    pub(crate) line: usize,
    pub(crate) question: String,
    /// What was expected and is not so.
    pub(crate) misses: Vec<Miss>,
    /// What was expected and could not be looked at.
    pub(crate) skipped: Vec<String>,
    /// What was recalled.
    pub(crate) came: Vec<Came>,
    /// What could not contribute.
    pub(crate) gaps: Vec<String>,
    /// What a model answered, when it was asked.
    pub(crate) answer: Option<String>,
    pub(crate) took: Duration,
}

/// One recall.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) layer: String,
    pub(crate) text: String,
}

/// Something that was expected and is not so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Miss {
    /// Where it is written; 0 for where the question is.
    pub(crate) line: usize,
    pub(crate) expected: Expectation,
    pub(crate) text: String,
}

impl Miss {
    pub(crate) fn of(expected: Expectation, text: impl ToString) -> Self {
        Self { line: 0, expected, text: text.to_string() }
    }
}

/// What can be expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    Recalls,
    DoesNotRecall,
    Rank(usize),
    Nothing,
    Answers,
    Says,
    DoesNotSay,
    Judged,
    Learned,
    Forgets,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = excerpt(&self.text, 200);
        match self.expected {
            Expectation::Recalls => write!(f, "not recalled: {text}"),
            Expectation::DoesNotRecall => write!(f, "recalled, and should not be: {text}"),
            Expectation::Rank(rank) => write!(f, "not among the first {rank}: {text}"),
            Expectation::Nothing => write!(f, "nothing should be recalled, but this is: {text}"),
            Expectation::Answers => write!(f, "the model gives no answer: {text}"),
            Expectation::Says => write!(f, "not in the answer: {text}"),
            Expectation::DoesNotSay => write!(f, "in the answer, and should not be: {text}"),
            Expectation::Judged => write!(f, "not so by the judge: {text}"),
            Expectation::Learned => write!(f, "not learned in time: {text}"),
            Expectation::Forgets => write!(f, "there is nothing to forget: {text}"),
        }
    }
}

impl Asked {
    fn is_hit(&self) -> bool {
        self.misses.is_empty()
    }
}

impl Played {
    pub(crate) fn of(script: &Script) -> Self {
        Self {
            name: script.name.clone(),
            about: script.about.clone(),
            file: script.file.clone(),
            questions: script.questions(),
            ..Self::default()
        }
    }

    fn hits(&self) -> usize {
        self.asked.iter().filter(|asked| asked.is_hit()).count()
    }

    /// Questions that were missed or, after a fault, not asked.
    fn misses(&self) -> usize {
        self.questions - self.hits()
    }

    fn skipped(&self) -> usize {
        self.skipped.len() + self.asked.iter().map(|asked| asked.skipped.len()).sum::<usize>()
    }

    fn failed(&self) -> bool {
        self.misses() > 0 || self.broken.is_some()
    }

    fn details(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(broken) = &self.broken {
            lines.push(format!("{}:{}: the script ends here: {broken}", self.file, broken.line));
        }
        for asked in self.asked.iter().filter(|asked| !asked.is_hit()) {
            lines.push(format!("{}:{}: {}", self.file, asked.line, asked.question));
            lines.extend(asked.misses.iter().map(|miss| format!("  {miss}")));
            let came = asked.came.iter().take(MOST_SHOWN);
            lines.extend(came.map(|came| format!("  came: {}: {}", came.layer, excerpt(&came.text, 110))));
            match asked.came.len() {
                0 => lines.push("  came: nothing".into()),
                1..=MOST_SHOWN => {}
                more => lines.push(format!("  came: {} more", more - MOST_SHOWN)),
            }
            lines.extend(asked.gaps.iter().map(|gap| format!("  missing: {gap}")));
            lines.extend(asked.answer.iter().map(|answer| format!("  answer: {}", excerpt(answer, 300))));
        }
        let skipped = self.skipped.iter().cloned();
        let asked = self.asked.iter();
        let of_questions =
            asked.flat_map(|asked| asked.skipped.iter().map(|what| format!("line {}: {what}", asked.line)));
        lines.extend(skipped.chain(of_questions).map(|what| format!("{}: skipped, {what}", self.file)));
        lines
    }
}

/// How many recalls are shown with a miss.
const MOST_SHOWN: usize = 6;

impl Report {
    /// Whether something was expected and is not so.
    pub(crate) fn failed(&self) -> bool {
        self.scripts.iter().any(Played::failed)
    }

    fn sum(&self, of: impl Fn(&Played) -> usize) -> usize {
        self.scripts.iter().map(of).sum()
    }

    /// A table of the scripts, what is wrong in each, and a line for all.
    pub(crate) fn text(&self) -> String {
        let rows = self.scripts.iter().map(|script| {
            [
                if script.failed() { "MISS".into() } else { "ok".to_owned() },
                script.name.clone(),
                script.questions.to_string(),
                script.hits().to_string(),
                script.misses().to_string(),
                script.skipped().to_string(),
                script.took.as_millis().to_string(),
            ]
        });
        let mut text = table(["", "SCRIPT", "QUESTIONS", "HITS", "MISSES", "SKIPPED", "MS"], rows.collect());
        let details: Vec<String> = self.scripts.iter().flat_map(Played::details).collect();
        if !details.is_empty() {
            text.push_str(&format!("\n\n{}", details.join("\n")));
        }
        text.push_str(&format!("\n\n{}", self.summary()));
        text
    }

    /// How it went, in a line.
    pub(crate) fn summary(&self) -> String {
        let count = |number: usize, one| counted(u64::try_from(number).unwrap_or(u64::MAX), one);
        let mut text = format!(
            "{}, {}: {} as expected, {} missed",
            count(self.scripts.len(), "script"),
            count(self.sum(|script| script.questions), "question"),
            self.sum(Played::hits),
            self.sum(Played::misses),
        );
        match self.sum(Played::skipped) {
            0 => {}
            skipped => text.push_str(&format!("; {} skipped", count(skipped, "check"))),
        }
        text
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let miss = |miss: &Miss| miss.to_string();
        let asked = |asked: &Asked| {
            json!({
                "line": asked.line,
                "question": asked.question,
                "hit": asked.is_hit(),
                "misses": asked.misses.iter().map(miss).collect::<Vec<_>>(),
                "skipped": asked.skipped,
                "came": asked.came.iter().map(|came| json!({ "layer": came.layer, "text": came.text })).collect::<Vec<_>>(),
                "gaps": asked.gaps,
                "answer": asked.answer,
                "ms": ms(asked.took),
            })
        };
        let script = |script: &Played| {
            json!({
                "name": script.name,
                "about": script.about,
                "file": script.file,
                "questions": script.questions,
                "hits": script.hits(),
                "misses": script.misses(),
                "skipped": script.skipped(),
                "skipped_steps": script.skipped,
                "broken": script.broken.as_ref().map(|broken| json!({ "line": broken.line, "reason": broken.to_string() })),
                "asked": script.asked.iter().map(asked).collect::<Vec<_>>(),
                "ms": ms(script.took),
            })
        };
        json!({
            "questions": self.sum(|script| script.questions),
            "hits": self.sum(Played::hits),
            "misses": self.sum(Played::misses),
            "skipped": self.sum(Played::skipped),
            "scripts": self.scripts.iter().map(script).collect::<Vec<_>>(),
        })
    }

    /// The same as JUnit's XML, which CI servers read: a suite per script, a case per question.
    pub(crate) fn junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        xml.push_str(&format!(
            "<testsuites name=\"skymem eval\" tests=\"{}\" failures=\"{}\">\n",
            self.sum(|script| script.questions),
            self.sum(Played::misses)
        ));
        for script in &self.scripts {
            xml.push_str(&format!(
                "  <testsuite name=\"{}\" file=\"{}\" tests=\"{}\" failures=\"{}\" time=\"{:.3}\">\n",
                escaped(&script.name),
                escaped(&script.file),
                script.questions,
                script.misses(),
                script.took.as_secs_f64()
            ));
            for asked in &script.asked {
                let name = format!("line {}: {}", asked.line, excerpt(&asked.question, 100));
                let failure = (!asked.is_hit()).then(|| {
                    let misses: Vec<String> = asked.misses.iter().map(Miss::to_string).collect();
                    let came =
                        asked.came.iter().map(|came| format!("came: {}: {}", came.layer, excerpt(&came.text, 200)));
                    let gaps = asked.gaps.iter().map(|gap| format!("missing: {gap}"));
                    (misses.join("; "), misses.iter().cloned().chain(came).chain(gaps).collect::<Vec<_>>().join("\n"))
                });
                xml.push_str(&case(&name, &script.name, asked.took, failure));
            }
            if let Some(broken) = &script.broken {
                // One case stands for all the questions that could not be asked any more.
                for number in script.asked.len()..script.questions {
                    let name = format!("question {} was not asked", number + 1);
                    let why = format!("line {}: {broken}", broken.line);
                    xml.push_str(&case(&name, &script.name, Duration::ZERO, Some((why.clone(), why))));
                }
            }
            xml.push_str("  </testsuite>\n");
        }
        xml.push_str("</testsuites>\n");
        xml
    }
}

fn case(name: &str, of: &str, took: Duration, failure: Option<(String, String)>) -> String {
    let head = format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"{:.3}\"",
        escaped(name),
        escaped(of),
        took.as_secs_f64()
    );
    match failure {
        None => format!("{head}/>\n"),
        Some((message, text)) => format!(
            "{head}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
            escaped(&message),
            escaped(&text)
        ),
    }
}

fn ms(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// `text` as it stands in XML, without the characters that cannot.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report() -> Report {
        let asked = |question: &str, misses: Vec<Miss>| Asked {
            line: 7,
            question: question.into(),
            misses,
            skipped: vec!["1 of the answer (no chat model)".into()],
            came: vec![Came { layer: "episodes".into(), text: "User: <b> & \"so\"".into() }],
            gaps: vec!["episodes (late) took longer".into()],
            answer: None,
            took: Duration::from_millis(12),
        };
        let missed = Played {
            name: "dog".into(),
            file: "tests/dog.md".into(),
            questions: 3,
            asked: vec![
                asked("What is it called?", Vec::new()),
                asked("Really?", vec![Miss::of(Expectation::Recalls, "Rex")]),
            ],
            skipped: vec!["line 3: restart".into()],
            broken: Some(Miss { line: 9, ..Miss::of(Expectation::Forgets, "cat") }),
            ..Played::default()
        };
        let fine = Played { name: "cat".into(), questions: 0, ..Played::default() };
        Report { scripts: vec![missed, fine] }
    }

    #[test]
    fn a_miss_is_told_with_its_place_and_what_came_instead() {
        let text = report().text();

        for part in [
            "MISS",
            "tests/dog.md:7: Really?",
            "  not recalled: Rex",
            "  came: episodes: User: <b>",
            "  missing: episodes (late)",
            "tests/dog.md:9: the script ends here: there is nothing to forget: cat",
            "tests/dog.md: skipped, line 3: restart",
            "2 scripts, 3 questions: 1 as expected, 2 missed; 3 checks skipped",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(!text.contains("What is it called?"), "{text}");
    }

    #[test]
    fn a_run_fails_when_a_question_is_missed_or_not_asked() {
        assert!(report().failed());
        let unasked = Report { scripts: vec![Played { questions: 1, ..Played::default() }] };
        assert!(unasked.failed());
        let asked = Asked::default();
        assert!(!Report { scripts: vec![Played { questions: 1, asked: vec![asked], ..Played::default() }] }.failed());
    }

    #[test]
    fn programs_get_the_same_numbers() {
        let json = report().json();

        assert_eq!(
            (&json["questions"], &json["hits"], &json["misses"], &json["skipped"]),
            (&json!(3), &json!(1), &json!(2), &json!(3))
        );
        assert_eq!(json["scripts"][0]["asked"][1]["misses"], json!(["not recalled: Rex"]));
        assert_eq!(json["scripts"][0]["broken"]["line"], 9);
    }

    #[test]
    fn every_question_is_a_case_for_ci_also_one_that_was_not_asked() {
        let xml = report().junit();

        assert_eq!(xml.matches("<testcase ").count(), 3, "{xml}");
        assert_eq!(xml.matches("<failure ").count(), 2, "{xml}");
        assert!(xml.contains("tests=\"3\" failures=\"2\""), "{xml}");
        assert!(xml.contains("User: &lt;b&gt; &amp; &quot;so&quot;"), "{xml}");
    }

    proptest! {
        #[test]
        fn no_text_breaks_out_of_the_xml(text in "(\\PC|[<>&\"'\\x00-\\x1f]){0,40}") {
            let xml = escaped(&text);

            let breaks_out = xml.contains(['<', '>', '"', '\0', '\u{1}', '\u{1b}']);
            prop_assert!(!breaks_out);
            let back = xml.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
            let kept: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
            prop_assert_eq!(back, kept);
        }
    }
}
