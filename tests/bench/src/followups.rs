//! Whether a follow-up finds what its speaker means: hit@5 on conversations whose questions lean on what was said before,
//! asked without help, with the question before put in front, with keywords, with the rewrites of people, and with those
//! of a real model.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Server, make_passable};

/// How many passages are asked for: as many as may hold the answer.
const FIRST: usize = 5;

/// Whose memory the passages are.
const USER: &str = "me";

/// Quality is measured, not speed: on a busy machine nothing may be left out for being late.
const PATIENT: [(&str, &str); 3] = [
    ("SKYMEM_ENGINE__CONTEXT__RECALL_DEADLINE_MS", "60000"),
    ("SKYMEM_ENGINE__CONTEXT__EMBED_DEADLINE_MS", "60000"),
    ("SKYMEM_ENGINE__REWRITE__DEADLINE_MS", "60000"),
];

/// A real model to measure too.
pub(crate) struct RealModel {
    /// The address of its OpenAI-compatible server, without the last step.
    pub(crate) url: String,
    /// The name the server knows it by.
    pub(crate) name: String,
}

/// Imports the passages, asks every question that depends on its conversation in each way, prints a table.
pub(crate) async fn run(program: &Path, file: &Path, model: Option<&RealModel>, details: Option<&Path>) -> Result<()> {
    let conversations = read(file)?;
    let folder = tempfile::tempdir()?;
    make_passable(folder.path())?;
    let data = folder.path().join("data");
    let passages = passages(&conversations);
    let questions: Vec<Question> = conversations.iter().enumerate().flat_map(Question::of).collect();
    let dependent = questions.iter().filter(|question| question.depends).count();
    println!(
        "{} passages, {} questions, {dependent} of them depend on what was said before",
        passages.len(),
        questions.len()
    );

    let mut rows: Vec<(&str, Outcome)> = Vec::new();
    let plain = Server::start_with(program, &data, &PATIENT).await?;
    import(&plain, folder.path(), &passages).await?;
    let bench = Bench { server: &plain, passages: &passages, questions: &questions };
    rows.push(("its own words", bench.ask(|question| Asked::alone(&question.raw)).await?));
    rows.push(("the question before put in front", bench.ask(|question| Asked::alone(&question.after_last())).await?));
    rows.push(("the human rewrite, asked for itself", bench.ask(|question| Asked::alone(&question.rewrite)).await?));
    rows.push(("skymem without a model: keywords", bench.ask(Asked::in_conversation).await?));
    plain.stop().await?;

    let scripted = Scripted::start().await?;
    let address = scripted.url.clone();
    let with_model = |url: &str, name: &str| {
        let chat = [("SKYMEM_CHAT__KIND", "openai"), ("SKYMEM_CHAT__URL", url), ("SKYMEM_CHAT__MODEL", name)];
        let settings = PATIENT.into_iter().chain(chat);
        settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    let perfect = Server::start_with(program, &data, &borrowed(&with_model(&address, "scripted"))).await?;
    let bench = Bench { server: &perfect, passages: &passages, questions: &questions };
    let ask = |question: &Question| {
        scripted.says(&question.rewrite);
        Asked::in_conversation(question)
    };
    rows.push(("skymem with a perfect rewriter", bench.ask(ask).await?));
    perfect.stop().await?;
    println!("the perfect rewriter was asked {} times", scripted.calls());

    if let Some(RealModel { url, name }) = model {
        let real = Server::start_with(program, &data, &borrowed(&with_model(url, name))).await?;
        let bench = Bench { server: &real, passages: &passages, questions: &questions };
        rows.push(("skymem with the real model", bench.ask(Asked::in_conversation).await?));
        real.stop().await?;
    }
    if let Some(path) = details {
        std::fs::write(path, told(&rows, &questions))?;
    }
    println!("{}", table(&rows, &questions));
    Ok(())
}

fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

/// One conversation of the file.
#[derive(Deserialize)]
struct Conversation {
    turn: Vec<Turn>,
}

/// One question of it, with the passage that answers it.
#[derive(Deserialize)]
struct Turn {
    raw_utterance: String,
    manual_rewritten_utterance: String,
    passage: String,
}

/// Reads a file in TREC CAsT's format of 2021.
fn read(file: &Path) -> Result<Vec<Conversation>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not in the format of CAsT 2021", file.display()))
}

/// The different passages of all conversations, in order.
fn passages(conversations: &[Conversation]) -> Vec<&str> {
    let mut met = HashSet::new();
    let all = conversations.iter().flat_map(|conversation| &conversation.turn).map(|turn| turn.passage.as_str());
    all.filter(|passage| met.insert(*passage)).collect()
}

/// One question in its conversation.
struct Question {
    conversation: usize,
    raw: String,
    rewrite: String,
    answer: String,
    /// What was asked before it and what was answered.
    before: Vec<(String, String)>,
    /// Whether somebody who rewrote it changed more than case and signs; the first of a conversation depends on nothing.
    depends: bool,
}

impl Question {
    fn of((number, conversation): (usize, &Conversation)) -> Vec<Self> {
        let turns = &conversation.turn;
        let question = |(at, turn): (usize, &Turn)| Question {
            conversation: number,
            raw: turn.raw_utterance.clone(),
            rewrite: turn.manual_rewritten_utterance.clone(),
            answer: turn.passage.clone(),
            before: turns[..at].iter().map(|turn| (turn.raw_utterance.clone(), turn.passage.clone())).collect(),
            depends: at > 0 && letters(&turn.raw_utterance) != letters(&turn.manual_rewritten_utterance),
        };
        turns.iter().enumerate().map(question).collect()
    }

    fn after_last(&self) -> String {
        let last = self.before.last().map_or("", |(asked, _)| asked);
        format!("{last} {}", self.raw).trim().to_owned()
    }
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What the server is asked.
struct Asked {
    question: String,
    history: Vec<Value>,
}

impl Asked {
    fn alone(question: &str) -> Self {
        Self { question: question.to_owned(), history: Vec::new() }
    }

    /// As a chat client does: with the turns before it, answers included.
    fn in_conversation(question: &Question) -> Self {
        let turns = question.before.iter().flat_map(|(asked, answered)| {
            [json!({"role": "user", "content": asked}), json!({"role": "assistant", "content": answered})]
        });
        Self { question: question.raw.clone(), history: turns.collect() }
    }
}

/// Each passage becomes a remark in a session of its own, learned when this returns.
async fn import(server: &Server, folder: &Path, passages: &[&str]) -> Result<()> {
    let lines = passages.iter().enumerate().map(|(number, passage)| {
        let message = json!({"role": "user", "content": passage, "occurred_at": "2026-01-01T12:00:00Z"});
        json!({"session": session(number), "messages": [message]}).to_string()
    });
    let path = folder.join("passages.jsonl");
    std::fs::write(&path, lines.collect::<Vec<_>>().join("\n"))?;
    let path = path.to_str().context("the temporary folder's name is not UTF-8")?;
    server.command(&["--user", USER, "import", path, "--wait"]).await
}

fn session(number: usize) -> String {
    format!("passage-{number}")
}

struct Bench<'a> {
    server: &'a Server,
    passages: &'a [&'a str],
    questions: &'a [Question],
}

/// Of each question, the place of its answer among the first, from 0, and how it was searched beside its own words.
type Outcome = Vec<(Option<usize>, Option<String>)>;

impl Bench<'_> {
    /// Asks all questions the way that `put` puts them.
    async fn ask(&self, put: impl Fn(&Question) -> Asked) -> Result<Outcome> {
        let numbers: HashMap<String, &str> =
            self.passages.iter().enumerate().map(|(number, passage)| (session(number), *passage)).collect();
        let mut outcome = Vec::with_capacity(self.questions.len());
        for question in self.questions {
            let Asked { question: words, history } = put(question);
            // Room for everything that is found: the figure is about finding, not about fitting.
            let body = json!({
                "question": words, "history": history, "top_k": FIRST, "unit": "turn", "budget_tokens": 100_000,
                "layers": ["episodes"], "memory": "read",
            });
            let reply = self.server.call(Method::POST, "/v1/context", USER, Some(&body)).await?;
            let gaps: Vec<&Value> = reply["gaps"].as_array().into_iter().flatten().collect();
            // A real model may give a bad answer, which is part of the figure; nothing else may be missing.
            ensure!(gaps.iter().all(|gap| gap["of"] == "rewriter"), "a context with gaps: {gaps:?}");
            let items = reply["items"].as_array().context("no items in the answer")?;
            ensure!(items.len() <= FIRST, "more passages than asked for");
            let found = items.iter().map(|item| item["session"].as_str().and_then(|session| numbers.get(session)));
            let place = found.into_iter().position(|passage| passage.is_some_and(|text| **text == *question.answer));
            outcome.push((place, reply["rewrite"].as_str().map(str::to_owned)));
        }
        Ok(outcome)
    }
}

/// A model server that says what it is told, to one question at a time.
struct Scripted {
    url: String,
    script: Arc<Mutex<(String, usize)>>,
}

impl Scripted {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let script = Arc::new(Mutex::new((String::new(), 0)));
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let script = Arc::clone(&shared);
                // A connection that breaks is opened again by who needs it.
                tokio::spawn(async move { answer(connection, &script).await });
            }
        });
        Ok(Self { url, script })
    }

    /// From now on it answers `text`.
    fn says(&self, text: &str) {
        text.clone_into(&mut self.script.lock().unwrap_or_else(PoisonError::into_inner).0);
    }

    /// How often it was asked.
    fn calls(&self) -> usize {
        self.script.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Answers one request and closes.
async fn answer(mut connection: TcpStream, script: &Mutex<(String, usize)>) -> Result<()> {
    let mut request = Vec::new();
    let body_from = loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        ensure!(connection.read_buf(&mut request).await? > 0, "a request without an end");
    };
    let head = String::from_utf8_lossy(&request[..body_from]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map_or("0", str::trim);
    let length: usize = length.parse()?;
    while request.len() < body_from + length {
        ensure!(connection.read_buf(&mut request).await? > 0, "a request without an end");
    }
    let body = if head.starts_with("post") {
        let mut script = script.lock().unwrap_or_else(PoisonError::into_inner);
        script.1 += 1;
        let message = json!({"role": "assistant", "content": script.0});
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    } else {
        json!({"data": [{"id": "scripted"}]})
    };
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    connection.write_all(format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    Ok(())
}

/// The share of `questions` whose answer was among the first `places`.
fn hits(outcome: &Outcome, questions: &[Question], places: usize, of: impl Fn(&Question) -> bool) -> f64 {
    let of: Vec<bool> = outcome
        .iter()
        .zip(questions)
        .filter(|(_, question)| of(question))
        .map(|((place, _), _)| place.is_some_and(|place| place < places))
        .collect();
    of.iter().filter(|hit| **hit).count() as f64 / of.len().max(1) as f64
}

fn table(rows: &[(&str, Outcome)], questions: &[Question]) -> Table {
    let mut table = Table::new();
    table.set_header(["", "hit@5", "hit@1", "hit@5, even", "hit@5, odd", "searched twice"]);
    for (name, outcome) in rows {
        let depends = |question: &Question| question.depends;
        let half = |rest: usize| move |question: &Question| question.depends && question.conversation % 2 == rest;
        let figure = |share: f64| format!("{share:.3}");
        let twice = outcome.iter().zip(questions).filter(|((_, rewrite), q)| q.depends && rewrite.is_some()).count();
        table.add_row([
            (*name).to_owned(),
            figure(hits(outcome, questions, FIRST, depends)),
            figure(hits(outcome, questions, 1, depends)),
            figure(hits(outcome, questions, FIRST, half(0))),
            figure(hits(outcome, questions, FIRST, half(1))),
            twice.to_string(),
        ]);
    }
    table
}

/// Every question with what was made of it, a JSON object a line.
fn told(rows: &[(&str, Outcome)], questions: &[Question]) -> String {
    let line = |(at, question): (usize, &Question)| {
        let ways = rows.iter().map(|(name, outcome)| {
            let (place, rewrite) = &outcome[at];
            ((*name).to_owned(), json!({"place": place, "rewrite": rewrite}))
        });
        let ways: serde_json::Map<String, Value> = ways.collect();
        json!({"question": question.raw, "human": question.rewrite, "depends": question.depends, "ways": ways})
            .to_string()
            + "\n"
    };
    questions.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversation() -> Conversation {
        let turn = |raw: &str, rewrite: &str| Turn {
            raw_utterance: raw.into(),
            manual_rewritten_utterance: rewrite.into(),
            passage: format!("about {rewrite}"),
        };
        Conversation {
            turn: vec![
                turn("What is rust?", "What is Rust, the language?"),
                turn("How old is it?", "How old is Rust?"),
                turn("tell me about C++", "Tell me about C++."),
            ],
        }
    }

    #[test]
    fn a_question_depends_when_it_is_not_the_first_and_was_rewritten_in_more_than_signs() {
        let questions = Question::of((0, &conversation()));

        assert_eq!(questions.iter().map(|question| question.depends).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(questions[1].after_last(), "What is rust? How old is it?");
        assert_eq!(Asked::in_conversation(&questions[2]).history.len(), 4);
    }

    #[test]
    fn a_hit_counts_when_it_is_among_the_first_of_those_that_depend() {
        let questions = Question::of((0, &conversation()));
        let outcome = vec![(None, None), (Some(3), None), (None, None)];

        assert_eq!(hits(&outcome, &questions, 5, |question| question.depends), 1.0);
        assert_eq!(hits(&outcome, &questions, 1, |question| question.depends), 0.0);
    }
}
