//! Conversations in LoCoMo's format: two people, many sessions, questions with the turns that answer them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use anyhow::{Context, Result};
use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

/// One conversation between two people.
pub(crate) struct Conversation {
    pub(crate) name: String,
    pub(crate) sessions: Vec<Session>,
    pub(crate) questions: Vec<Question>,
}

pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) turns: Vec<Turn>,
}

pub(crate) struct Turn {
    /// `D3:7`
    pub(crate) id: String,
    pub(crate) speaker: String,
    pub(crate) text: String,
    pub(crate) said_at: DateTime<Utc>,
}

/// A question whose answer stands in `evidence`.
pub(crate) struct Question {
    pub(crate) text: String,
    pub(crate) category: u8,
    pub(crate) evidence: Vec<String>,
}

impl Conversation {
    /// The conversation as OpenAI-style JSONL, a session a line. Both people are `user`s with a name.
    pub(crate) fn to_jsonl(&self) -> String {
        let lines = self.sessions.iter().map(|session| {
            let messages: Vec<Value> = session
                .turns
                .iter()
                .map(|turn| {
                    json!({"role": "user", "name": turn.speaker, "content": turn.text, "occurred_at": turn.said_at.to_rfc3339()})
                })
                .collect();
            json!({"session": session.id, "messages": messages}).to_string()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Reads a file of LoCoMo conversations.
///
/// Image captions are part of the text. Category 5 (questions without an answer) is left out, malformed evidence
/// ("D8:6; D9:17") is repaired, and a question none of whose evidence exists is left out: the definitions of the figures
/// that others are compared with.
pub(crate) fn read(path: &Path) -> Result<Vec<Conversation>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let samples: Vec<Sample> =
        serde_json::from_str(&text).with_context(|| format!("{} is not in LoCoMo's format", path.display()))?;
    samples.into_iter().map(conversation).collect()
}

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: BTreeMap<String, Value>,
    qa: Vec<Qa>,
}

#[derive(Deserialize)]
struct Qa {
    question: String,
    category: u8,
    #[serde(default)]
    evidence: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

fn conversation(sample: Sample) -> Result<Conversation> {
    let mut sessions = Vec::new();
    for number in 1.. {
        let Some(lines) = sample.conversation.get(&format!("session_{number}")) else { break };
        let lines: Vec<Line> = serde_json::from_value(lines.clone())?;
        let date = sample.conversation.get(&format!("session_{number}_date_time")).and_then(Value::as_str);
        let began_at = moment(date.unwrap_or_default())?;
        let turns = lines.into_iter().zip(0..).map(|(line, place)| Turn {
            text: match &line.blip_caption {
                Some(caption) => format!("{} [image: {caption}]", line.text),
                None => line.text,
            },
            id: line.dia_id,
            speaker: line.speaker,
            said_at: began_at + TimeDelta::seconds(place),
        });
        sessions.push(Session { id: format!("{}-{number}", sample.sample_id), turns: turns.collect() });
    }
    let known: HashSet<&str> = sessions.iter().flat_map(|s| &s.turns).map(|turn| turn.id.as_str()).collect();
    let questions = sample
        .qa
        .into_iter()
        .filter(|qa| qa.category != 5)
        .filter_map(|qa| {
            let mut evidence: Vec<String> = qa.evidence.iter().flat_map(|ids| turn_ids(ids)).collect();
            evidence.retain(|id| known.contains(id.as_str()));
            evidence.dedup();
            (!evidence.is_empty()).then_some(Question { text: qa.question, category: qa.category, evidence })
        })
        .collect();
    Ok(Conversation { name: sample.sample_id.to_lowercase(), sessions, questions })
}

/// The turn ids in a text: `D8:6; D9:17` has two, and `D30:05` is `D30:5`.
fn turn_ids(text: &str) -> Vec<String> {
    text.split(|c: char| !(c.is_ascii_digit() || c == 'D' || c == ':'))
        .filter_map(|id| {
            let (session, turn) = id.strip_prefix('D')?.trim_start_matches(':').split_once(':')?;
            Some(format!("D{}:{}", session.parse::<u32>().ok()?, turn.parse::<u32>().ok()?))
        })
        .collect()
}

/// `1:56 pm on 8 May, 2023`
fn moment(text: &str) -> Result<DateTime<Utc>> {
    NaiveDateTime::parse_from_str(text, "%I:%M %p on %d %B, %Y")
        .map(|naive| naive.and_utc())
        .with_context(|| format!("{text:?} is not a time as LoCoMo writes it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_evidence_is_repaired() {
        assert_eq!(turn_ids("D8:6; D9:17"), ["D8:6", "D9:17"]);
        assert_eq!(turn_ids("D30:05"), ["D30:5"]);
        assert_eq!(turn_ids("D:11:26"), ["D11:26"]);
        assert!(turn_ids("D").is_empty());
    }

    #[test]
    fn a_time_is_read_as_locomo_writes_it() {
        assert_eq!(moment("1:56 pm on 8 May, 2023").unwrap().to_rfc3339(), "2023-05-08T13:56:00+00:00");
    }
}
