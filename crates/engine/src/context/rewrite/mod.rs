//! A follow-up becomes a question that stands alone: by a language model or, without one, by the keywords of the questions
//! before it. For the search only: the assistant always gets the user's own words.

mod answer;
mod keywords;
mod leaning;
mod words;

use std::time::{Duration, Instant};

use skymem_core::{ChatModel, ChatRequest, Gap, GapReason, Message, Role, estimate_tokens};
use tokio::time::timeout;

use super::sanitise::sanitise;
use crate::memory::Memory;

/// How many exchanges before the question are read to understand it.
const EXCHANGES: usize = 3;

/// The longest rewrite, in tokens.
const MOST_TOKENS: u32 = 256;

/// How much of one message is read to understand the question, in characters: the end of what the user said, where the
/// question stands, and the beginning of what they were answered.
const MOST_OF_A_MESSAGE: usize = 800;

/// What became of a question that leans on what was said before it.
#[derive(Debug, PartialEq)]
pub(super) struct Rewrite {
    /// The question as it is searched beside its own words; `None` when there is nothing to add to them.
    pub(super) text: Option<String>,
    /// Why the model had no part in it, when it should have had.
    pub(super) gap: Option<Gap>,
}

impl Memory {
    /// `question` with its "it" and "that" resolved from `before`, the turns before it; with the keywords of earlier
    /// questions when no model gives a usable answer in time. `None`, at no cost, when there is nothing to resolve.
    pub(super) async fn rewritten(&self, question: &str, before: &[Message]) -> Option<Rewrite> {
        let settings = &self.inner.settings.rewrite;
        let question = sanitise(question);
        let said: Vec<&Message> = last_exchanges(before);
        if !settings.enabled || said.is_empty() || !leaning::leans(&question) {
            count("skipped");
            return None;
        }
        let by_keywords = || {
            let asked = said.iter().filter(|message| message.role == Role::User);
            let asked: Vec<&str> = asked.map(|message| message.content.as_str()).collect();
            keywords::expanded(&question, &asked)
        };
        let Some(model) = &self.inner.chat.rewriter else {
            count("skipped");
            return Some(Rewrite { text: by_keywords(), gap: None });
        };
        let deadline = Duration::from_millis(settings.deadline_ms);
        let (reason, detail) = match standalone(model.as_ref(), &question, &said, deadline).await {
            Ok(text) => return Some(Rewrite { text, gap: None }),
            Err(failure) => failure,
        };
        tracing::warn!(detail, model = model.name(), "The rewriter gave nothing to search with; keywords stand in");
        Some(Rewrite { text: by_keywords(), gap: Some(Gap { of: "rewriter".into(), reason, detail }) })
    }
}

/// `question` made self-contained by `model`; `None` when the model finds that it is.
async fn standalone(
    model: &dyn ChatModel,
    question: &str,
    said: &[&Message],
    deadline: Duration,
) -> Result<Option<String>, (GapReason, String)> {
    let began = Instant::now();
    let request = ChatRequest {
        purpose: "rewrite",
        messages: vec![Message::new(Role::User, prompt(question, said))],
        temperature: 0.0,
        most_tokens: MOST_TOKENS,
        schema: None,
    };
    let answered = timeout(deadline, model.answer(&request)).await;
    metrics::histogram!("skymem_rewriter_seconds").record(began.elapsed().as_secs_f64());
    let (status, result) = match answered {
        Ok(Ok(given)) if !given.whole => ("rejected", Err((GapReason::Failed, "its answer was cut".to_owned()))),
        Ok(Ok(given)) => match answer::usable(&given.text, question) {
            Ok(text) => ("ok", Ok(text)),
            Err(fault) => ("rejected", Err((GapReason::Failed, format!("its answer {fault}")))),
        },
        Ok(Err(error)) => ("error", Err((GapReason::Failed, error.to_string()))),
        Err(_) => ("timeout", Err((GapReason::Late, format!("no answer within {} ms", deadline.as_millis())))),
    };
    count(status);
    result
}

/// Counts a question by what the rewriter did for it: `skipped` when it was not asked.
fn count(status: &'static str) {
    metrics::counter!("skymem_rewriter_requests_total", "status" => status).increment(1);
}

/// What people and assistants said in the last exchanges.
fn last_exchanges(before: &[Message]) -> Vec<&Message> {
    let said =
        |message: &&Message| matches!(message.role, Role::User | Role::Assistant) && !message.content.trim().is_empty();
    let said: Vec<&Message> = before.iter().filter(said).collect();
    let asked = said.iter().enumerate().filter(|(_, message)| message.role == Role::User);
    let from = asked.map(|(at, _)| at).nth_back(EXCHANGES - 1).unwrap_or(0);
    said.into_iter().skip(from).collect()
}

/// What the model is asked.
fn prompt(question: &str, said: &[&Message]) -> String {
    const TEMPLATE: &str = include_str!("../prompts/rewrite.md");
    let lines = said.iter().map(|message| {
        let text = message.content.trim();
        match message.role {
            Role::User => format!("User: {}", end_of(text)),
            _ => format!("Assistant: {}", beginning_of(text)),
        }
    });
    let conversation = lines.collect::<Vec<_>>().join("\n");
    // Hole by hole: what is filled in may hold braces of its own.
    let parts = TEMPLATE.trim_end().split(['{', '}']).map(|part| match part {
        "conversation" => conversation.as_str(),
        "question" => question,
        words => words,
    });
    parts.collect()
}

fn beginning_of(text: &str) -> String {
    match text.char_indices().nth(MOST_OF_A_MESSAGE) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

fn end_of(text: &str) -> String {
    match text.char_indices().nth_back(MOST_OF_A_MESSAGE) {
        Some((start, left_out)) => format!("... {}", &text[start + left_out.len_utf8()..]),
        None => text.to_owned(),
    }
}

/// Whether a rewrite is longer than one may be.
fn is_too_long(text: &str) -> bool {
    estimate_tokens(text).0 > MOST_TOKENS as usize
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod prompt_tests {
    use super::*;

    fn said(turns: &[(Role, &str)]) -> Vec<Message> {
        turns.iter().map(|(role, text)| Message::new(*role, *text)).collect()
    }

    #[test]
    fn the_model_reads_the_last_three_exchanges_and_no_instructions() {
        let before = said(&[
            (Role::System, "Be kind."),
            (Role::User, "one"),
            (Role::Assistant, "1"),
            (Role::User, "two"),
            (Role::Assistant, "2"),
            (Role::Tool, "{}"),
            (Role::User, "three"),
            (Role::User, " "),
            (Role::Assistant, "3"),
            (Role::User, "four"),
        ]);

        let texts: Vec<&str> = last_exchanges(&before).iter().map(|message| message.content.as_str()).collect();

        assert_eq!(texts, ["two", "2", "three", "3", "four"]);
    }

    #[test]
    fn an_answer_without_a_question_before_it_is_read_too() {
        let before = said(&[(Role::Assistant, "Hello, I am here."), (Role::User, "one")]);

        assert_eq!(last_exchanges(&before).len(), 2);
    }

    #[test]
    fn the_prompt_is_this_and_braces_in_what_was_said_stay() {
        let before = said(&[(Role::User, "What is {question}?"), (Role::Assistant, "A hole.")]);

        let prompt = prompt("How deep is it?", &before.iter().collect::<Vec<_>>());

        assert!(prompt.starts_with("You prepare a search."));
        assert!(
            prompt.ends_with(
                "on one line.\n\nConversation:\nUser: What is {question}?\nAssistant: A hole.\n\nMessage: How deep is it?"
            ),
            "{prompt}"
        );
    }

    #[test]
    fn of_long_messages_the_end_of_the_question_and_the_beginning_of_the_answer_are_read() {
        let long = format!("ä{}ö", "x".repeat(2 * MOST_OF_A_MESSAGE));

        assert!(end_of(&long).starts_with("... x") && end_of(&long).ends_with('ö'));
        assert!(beginning_of(&long).starts_with('ä') && beginning_of(&long).ends_with("x ..."));
        assert_eq!(end_of(&long).chars().count(), MOST_OF_A_MESSAGE + 4);
        assert_eq!((end_of("short"), beginning_of("short")), ("short".to_owned(), "short".to_owned()));
    }
}
