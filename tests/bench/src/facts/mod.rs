//! How many of the facts that people state in passing are found, and how many are found that nobody stated: each
//! utterance is said by a user of its own through the API, and what `/v1/facts` answers then is held against what a
//! reader would expect.

mod score;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use comfy_table::Table;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use self::score::{Expected, Score, line_of, score};
use crate::followups::RealModel;
use crate::server::{Server, make_passable};

/// The utterances that are measured unless others are named.
const SAID: &str = include_str!("../../data/said.jsonl");

/// When all of it is said: a Wednesday.
const SAID_AT: &str = "2026-09-16T10:00:00Z";

/// What was so before something is said to have ended, or to have been a mistake, is told earlier.
const BEFORE: &str = "2014-01-01T00:00:00Z";

/// An administrator of the throw-away server.
const ADMIN: &str = "me";

/// How long a server may take to learn everything, with a model and without.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// An utterance and the facts that stand in it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    language: String,
    said: String,
    facts: Vec<String>,
}

/// Says every utterance to a server with patterns alone and, when there is a model, with that alone and with both;
/// prints a table.
pub(crate) async fn run(
    program: &Path,
    file: Option<&Path>,
    model: Option<&RealModel>,
    details: Option<&Path>,
) -> Result<()> {
    let text = match file {
        Some(file) => std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => SAID.to_owned(),
    };
    let said = read(&text)?;
    let facts: usize = said.iter().map(|(_, expected)| expected.iter().filter(|one| !one.optional).count()).sum();
    let without = said.iter().filter(|(_, expected)| expected.is_empty()).count();
    println!("{} utterances, {facts} facts, {without} utterances without any", said.len());

    let mut ways = vec![("patterns", true, None)];
    ways.extend(model.map(|model| ("the model alone", false, Some(model))));
    ways.extend(model.map(|model| ("patterns and the model", true, Some(model))));
    let mut table = Table::new();
    table.set_header(["", "utterances", "precision", "recall", "right", "wrong", "missed"]);
    let mut told = String::new();
    for (way, patterns, model) in ways {
        let found = found(program, &said, patterns, model).await?;
        for (half, of) in halves() {
            let chosen = said.iter().zip(&found).enumerate().filter(|(number, ((said, _), _))| of(*number, said));
            let mut total = Score::default();
            let mut utterances = 0;
            for (_, ((_, expected), found)) in chosen {
                total.add(&score(expected, found));
                utterances += 1;
            }
            table.add_row([
                format!("{way}, {half}"),
                utterances.to_string(),
                format!("{:.3}", total.precision()),
                format!("{:.3}", total.recall()),
                total.right.to_string(),
                total.wrong.len().to_string(),
                total.missed.len().to_string(),
            ]);
        }
        for ((said, expected), found) in said.iter().zip(&found) {
            let Score { wrong, missed, .. } = score(expected, found);
            let line = json!({"way": way, "said": said.said, "found": found, "wrong": wrong, "missed": missed});
            told.push_str(&format!("{line}\n"));
        }
    }
    println!("{table}");
    if let Some(path) = details {
        std::fs::write(path, told)?;
    }
    Ok(())
}

/// Which utterances a figure is about, by their line and what they are.
type Part = fn(usize, &Said) -> bool;

/// The parts of the utterances that are counted for themselves: lines are counted from 1.
fn halves() -> [(&'static str, Part); 5] {
    [
        ("all", |_, _| true),
        ("even lines", |number, _| number % 2 == 1),
        ("odd lines", |number, _| number % 2 == 0),
        ("English", |_, said| said.language == "en"),
        ("German", |_, said| said.language == "de"),
    ]
}

fn read(text: &str) -> Result<Vec<(Said, Vec<Expected>)>> {
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let said: Said = serde_json::from_str(line).with_context(|| format!("line {} is no utterance", number + 1))?;
        let expected = said.facts.iter().map(|fact| fact.parse()).collect::<Result<_>>();
        let expected = expected.with_context(|| format!("line {} has a fact that cannot be read", number + 1))?;
        all.push((said, expected));
    }
    ensure!(!all.is_empty(), "there are no utterances");
    Ok(all)
}

/// What a server finds in each utterance, in the notation of the file.
async fn found(
    program: &Path,
    said: &[(Said, Vec<Expected>)],
    patterns: bool,
    model: Option<&RealModel>,
) -> Result<Vec<Vec<String>>> {
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let patterns = patterns.to_string();
    let mut settings = vec![
        // Nothing else is measured, and nothing else may cost time.
        ("SKYMEM_LAYERS__EPISODES__ENABLED", "false"),
        ("SKYMEM_LAYERS__SUMMARIES__ENABLED", "false"),
        ("SKYMEM_LAYERS__FACTS__PATTERNS", patterns.as_str()),
    ];
    if let Some(model) = model {
        settings.extend([
            ("SKYMEM_CHAT__KIND", "openai"),
            ("SKYMEM_CHAT__URL", model.url.as_str()),
            ("SKYMEM_CHAT__MODEL", model.name.as_str()),
            ("SKYMEM_LAYERS__FACTS__EXTRACT_WITH_MODEL", "true"),
            ("SKYMEM_LAYERS__FACTS__MODEL_DEADLINE_SECONDS", "300"),
            ("SKYMEM_ENGINE__UPKEEP__EVERY_MINUTES", "1"),
        ]);
    }
    let server = Server::start_with(program, &folder.path().join("data"), &settings).await?;
    for (number, (said, expected)) in said.iter().enumerate() {
        let user = user(number);
        server.call(Method::POST, "/v1/users", ADMIN, Some(&json!({ "name": user }))).await?;
        for before in expected.iter().filter_map(Expected::before) {
            let mut fact = before;
            fact["occurred_at"] = BEFORE.into();
            server.call(Method::POST, "/v1/facts", &user, Some(&fact)).await?;
        }
        let turn = json!({"role": "user", "content": said.said, "occurred_at": SAID_AT});
        server.call(Method::POST, "/v1/sessions/said/turns", &user, Some(&turn)).await?;
    }
    let mut all = Vec::with_capacity(said.len());
    for number in 0..said.len() {
        let user = user(number);
        learned(&server, &user).await?;
        let who = server.call(Method::GET, "/v1/entities/user", &user, None).await.ok();
        let who = who.as_ref().and_then(|who| who["id"].as_str()).unwrap_or_default().to_owned();
        let answer = server.call(Method::GET, "/v1/facts?history=true&limit=200", &user, None).await?;
        let facts = answer["facts"].as_array().context("no facts in the answer")?;
        all.push(lines_of(facts, &who));
    }
    server.stop().await?;
    Ok(all)
}

fn user(number: usize) -> String {
    format!("said-{number}")
}

/// Waits until the server has learned everything `user` said.
async fn learned(server: &Server, user: &str) -> Result<()> {
    let begun = std::time::Instant::now();
    loop {
        let answer = server.call(Method::GET, "/v1/layers", user, None).await?;
        let layers = answer["layers"].as_array().context("no layers in the answer")?;
        let facts = layers.iter().find(|layer| layer["name"] == "facts").context("the layer of facts is off")?;
        let waiting = facts["counts"].as_array().into_iter().flatten();
        let waiting =
            waiting.filter(|count| count["name"] == "waiting for a model").filter_map(|count| count["count"].as_i64());
        if facts["behind"] == 0 && waiting.sum::<i64>() == 0 {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("what {user} said is still not learned: {facts}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What has become of a user's facts, in the notation of the file. A value that was told before and still holds says
/// nothing.
fn lines_of(facts: &[Value], who: &str) -> Vec<String> {
    let mut mistakes: BTreeMap<(String, String), usize> = BTreeMap::new();
    let key = |fact: &Value| (fact["subject"]["id"].to_string(), fact["predicate"].to_string());
    let told_before = |fact: &Value| {
        let evidence = fact["evidence"].as_array().into_iter().flatten();
        // What ends it or takes it back is evidence as well.
        evidence.into_iter().any(|evidence| evidence["origin"] == "asserted")
    };
    for fact in facts.iter().filter(|fact| told_before(fact) && fact["state"] == "retracted") {
        *mistakes.entry(key(fact)).or_default() += 1;
    }
    let mut lines = Vec::new();
    for fact in facts.iter().filter(|fact| !told_before(fact)) {
        // It takes the place of what turned out to be a mistake.
        let corrects = mistakes.get_mut(&key(fact)).filter(|mistakes| **mistakes > 0);
        let corrects = corrects.map(|mistakes| *mistakes -= 1).is_some();
        lines.push(line_of(fact, who, if corrects { "corrects" } else { "" }));
    }
    for fact in facts.iter().filter(|fact| told_before(fact)) {
        match fact["state"].as_str() {
            Some("retracted") => {
                if let Some(mistakes) = mistakes.get_mut(&key(fact)).filter(|mistakes| **mistakes > 0) {
                    *mistakes -= 1;
                    lines.push(line_of(fact, who, "never"));
                }
            }
            Some("ended") => lines.push(line_of(fact, who, "ends")),
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};
    use skymem_core::facts::{EntityName, Object, Statement};

    use super::*;

    /// A statement in the notation of the file; `None` for what is no fact.
    fn notation(statement: &Statement) -> Option<String> {
        let day = |word: &str, moment: Option<DateTime<Utc>>| {
            moment.map(|moment| format!(" | {word} {}", moment.format("%F"))).unwrap_or_default()
        };
        let value =
            |object: &Option<Object>| object.as_ref().map_or(String::new(), |object| object.as_str().to_owned());
        Some(match statement {
            Statement::Holds(holds) => {
                let (from, until) = (day("from", holds.from), day("until", holds.until));
                let corrects = if holds.corrects { " | corrects" } else { "" };
                format!("{} | {} | {}{from}{until}{corrects}", holds.subject, holds.predicate, holds.object.as_str())
            }
            Statement::Ends { subject, predicate, object, at } => {
                let ends = at.map_or(" | ends".to_owned(), |_| day("ends", *at));
                format!("{subject} | {predicate} | {}{ends}", value(object))
            }
            Statement::NeverHeld { subject, predicate, object, .. } => {
                format!("{subject} | {predicate} | {} | never", value(object))
            }
            _ => return None,
        })
    }

    #[test]
    fn patterns_find_most_of_what_is_said_and_hardly_anything_that_is_not() {
        let me: EntityName = EntityName::SELF.parse().unwrap();
        let said_at: DateTime<Utc> = SAID_AT.parse().unwrap();
        let said = read(SAID).unwrap();
        assert!(said.len() >= 200);
        for (half, of) in halves() {
            let mut total = Score::default();
            for (number, (said, expected)) in said.iter().enumerate() {
                if of(number, said) {
                    let found = skymem_facts::said_in_passing(&said.said, &me, said_at);
                    total.add(&score(expected, &found.iter().filter_map(notation).collect::<Vec<_>>()));
                }
            }

            assert!(total.precision() >= 0.95 && total.recall() >= 0.6, "{half}: {total:?}");
        }
    }

    #[test]
    fn what_was_told_before_only_counts_when_it_changed() {
        let fact = |object: &str, origin: &str, state: &str| {
            json!({
                "subject": {"id": "1", "name": "Me"}, "predicate": "lives_in", "object": {"entity": {"name": object}},
                "valid_from": "2026-09-16T10:00:00Z", "from_is_said": false, "valid_to": null, "state": state,
                "evidence": [{"origin": origin}],
            })
        };
        let lines = |facts: &[Value]| lines_of(facts, "1");

        assert_eq!(lines(&[fact("Bonn", "asserted", "holds")]), Vec::<String>::new());
        assert_eq!(lines(&[fact("Bonn", "asserted", "retracted")]), ["user | lives_in | Bonn | never"]);
        assert_eq!(lines(&[fact("Rome", "pattern", "holds")]), ["user | lives_in | Rome"]);
        assert_eq!(
            lines(&[fact("Rome", "pattern", "holds"), fact("Bonn", "asserted", "retracted")]),
            ["user | lives_in | Rome | corrects"]
        );
    }
}
