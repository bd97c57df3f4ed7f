//! What of an answer is meant for whoever asked, and what it cost.

use skymem_core::{ChatRequest, estimate_tokens};

/// What a message costs beside its words: its role and its borders.
const TOKENS_A_MESSAGE: u64 = 4;

/// The words of an answer: without the thinking of a reasoning model before it, and, where JSON was asked for, without the
/// fence that some models put around it.
pub(super) fn words(text: &str, json: bool) -> &str {
    let text = without_thinking(text);
    if json { without_fence(text) } else { text }
}

fn without_thinking(text: &str) -> &str {
    let mut text = text.trim();
    while let Some((opens, closes)) = THINKING.iter().find(|(opens, _)| text.starts_with(opens)) {
        text = match text[opens.len()..].split_once(closes) {
            Some((_, answer)) => answer.trim_start(),
            // It was cut while it was thinking.
            None => "",
        };
    }
    // Some templates open the block in the question, so that only its end is in the answer.
    if !text.starts_with(['{', '[']) {
        for (opens, closes) in THINKING {
            if let Some((thought, answer)) = text.split_once(closes)
                && !thought.contains(opens)
            {
                return answer.trim_start();
            }
        }
    }
    text
}

const THINKING: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

fn without_fence(text: &str) -> &str {
    let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else { return text };
    inner.strip_prefix("json").unwrap_or(inner).trim()
}

/// What a question and its answer cost, estimated.
pub(super) fn estimate(question: &ChatRequest, answer: &str) -> u64 {
    estimate_question(question).saturating_add(tokens(answer))
}

/// What a question costs, estimated.
pub(super) fn estimate_question(question: &ChatRequest) -> u64 {
    question.messages.iter().map(|message| tokens(&message.content) + TOKENS_A_MESSAGE).fold(0, u64::saturating_add)
}

/// What a question and its answer cannot cost more than: no model has more tokens than bytes. Servers that count nonsense
/// must not use up the day.
pub(super) fn most_possible(question: &ChatRequest, answer: &str) -> u64 {
    let schema = question.schema.as_ref().map_or(0, |schema| schema.to_string().len());
    let bytes: usize = question.messages.iter().map(|message| message.content.len() + 64).sum();
    let answered = u64::from(question.most_tokens).max(answer.len() as u64);
    (bytes + schema + 1_024) as u64 + answered
}

fn tokens(text: &str) -> u64 {
    estimate_tokens(text).0 as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use skymem_core::{Message, Role};

    #[test]
    fn thinking_is_no_part_of_an_answer() {
        let check = |text: &str, expected: &str| assert_eq!(words(text, false), expected, "{text:?}");
        check(" plain \n", "plain");
        check("<think>hm\n</think>\n\nyes", "yes");
        check("\n<think></think><think>again</think>yes", "yes");
        check("<thinking>hm</thinking>yes", "yes");
        check("<think>never ends", "");
        check("hm, well\n</think>\n\nyes", "yes");
        check("the tag <think> opens, </think> closes", "the tag <think> opens, </think> closes");
        check("<think>是</think>好的", "好的");
        check("", "");
        check("</think>", "");
    }

    #[test]
    fn json_is_taken_out_of_its_fence_and_left_alone_inside() {
        let check = |text: &str, expected: &str| assert_eq!(words(text, true), expected, "{text:?}");
        check("```json\n{\"a\": 1}\n```", "{\"a\": 1}");
        check("```\n[1]\n```\n", "[1]");
        check("<think>x</think>\n```json\n{}\n```", "{}");
        check(r#"{"text": "he wrote </think> there"}"#, r#"{"text": "he wrote </think> there"}"#);
        check("```", "```");
        check("``````", "");
    }

    #[test]
    fn a_question_costs_more_with_every_message_and_never_more_than_it_can() {
        let ask = |texts: &[&str]| ChatRequest {
            purpose: "test",
            messages: texts.iter().map(|text| Message::new(Role::User, *text)).collect(),
            temperature: 0.0,
            most_tokens: 10,
            schema: None,
        };
        assert!(estimate_question(&ask(&[])) < estimate_question(&ask(&["a"])));
        assert!(estimate(&ask(&["a"]), "") < estimate(&ask(&["a", "b"]), "and more"));
        let long = "一二三四五".repeat(1_000);
        assert!(estimate(&ask(&[&long]), &long) <= most_possible(&ask(&[&long]), &long));
    }
}
