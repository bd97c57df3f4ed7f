//! What a model answered when it was asked for a rewrite, and whether that is one.

use skymem_core::estimate_tokens;

use super::is_too_long;
use crate::context::sanitise::sanitise;

/// The rewrite in a model's answer, without what models put around it; `None` when it says the same as `question`.
///
/// # Errors
///
/// In words that continue "its answer": why it is no rewrite.
pub(super) fn usable(answer: &str, question: &str) -> Result<Option<String>, &'static str> {
    let text = sanitise(answer);
    let text = bare(&text);
    if text.is_empty() {
        return Err("was empty");
    }
    if is_too_long(text) || estimate_tokens(text).0 > 60 + 4 * estimate_tokens(question).0 {
        return Err("was too long");
    }
    if text.lines().nth(1).is_some() {
        return Err("had several lines");
    }
    if text.starts_with(['{', '[', '<']) {
        return Err("was data instead of a question");
    }
    let opens = |with: &&str| begins(text, with) && !begins(question, with);
    if TALK.iter().any(&opens) {
        return Err("talked about the task");
    }
    if asks(question) && !asks(text) && (text.ends_with(['.', '!', '。', '！']) || REPLIES.iter().any(opens)) {
        return Err("answered the question");
    }
    Ok((folded(text) != folded(question)).then(|| text.to_owned()))
}

/// How models begin when they explain, refuse or chat.
const TALK: [&str; 58] = [
    "sure",
    "certainly",
    "of course",
    "absolutely",
    "here is",
    "here's",
    "here are",
    "the rewritten",
    "the rewrite",
    "the question",
    "the message",
    "the user",
    "this question",
    "this message",
    "rewritten",
    "to rewrite",
    "based on",
    "i cannot",
    "i can't",
    "i can not",
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i apologize",
    "i don't",
    "i do not",
    "i am unable",
    "i'm unable",
    "as an ai",
    "as a language model",
    "unfortunately",
    "note:",
    "explanation",
    "natürlich",
    "gerne",
    "hier ist",
    "die umformulierte",
    "umformuliert",
    "die frage",
    "die nachricht",
    "es tut mir leid",
    "leider",
    "entschuldigung",
    "bien sûr",
    "voici",
    "désolé",
    "je suis désolé",
    "claro",
    "aquí",
    "lo siento",
    "当然",
    "好的",
    "抱歉",
    "对不起",
    "我无法",
    "以下是",
    "改写后",
    "申し訳",
];

/// How answers begin.
const REPLIES: [&str; 12] =
    ["yes", "no,", "it is", "it's", "they are", "he is", "she is", "the answer", "ja,", "nein,", "是的", "不是"];

/// What may stand before the rewrite, with a colon.
const LABELS: [&str; 27] = [
    "query",
    "rewritten query",
    "rewritten question",
    "rewritten message",
    "rewrite",
    "rewritten",
    "standalone question",
    "standalone query",
    "self-contained question",
    "search query",
    "question",
    "message",
    "user",
    "q",
    "output",
    "frage",
    "umformulierte frage",
    "suchanfrage",
    "nachricht",
    "查询",
    "问题",
    "改写",
    "改写后的问题",
    "独立问题",
    "question réécrite",
    "pregunta",
    "質問",
];

/// `answer` without labels, quotes, emphasis and fences around it.
fn bare(answer: &str) -> &str {
    let mut text = answer.trim();
    loop {
        let before = text;
        text = text.trim_matches('`').trim();
        for mark in ["**", "__"] {
            text = text.strip_prefix(mark).and_then(|text| text.strip_suffix(mark)).unwrap_or(text).trim();
        }
        for (open, close) in [
            ('"', '"'),
            ('\'', '\''),
            ('“', '”'),
            ('„', '“'),
            ('«', '»'),
            ('»', '«'),
            ('‘', '’'),
            ('「', '」'),
            ('『', '』'),
        ] {
            let inner = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
            // Two quotations in one text are not a text in quotes.
            text = inner.filter(|inner| !inner.contains([open, close])).unwrap_or(text).trim();
        }
        if let Some((label, rest)) = text.split_once([':', '：']) {
            let label = label.trim_matches(['*', '_', '#', ' ']).to_lowercase();
            if LABELS.contains(&label.as_str()) {
                text = rest.trim_start_matches('*').trim();
            }
        }
        if text == before {
            return text;
        }
    }
}

/// Whether a text is put as a question, or as a wish to be told.
fn asks(text: &str) -> bool {
    const ASKING: [&str; 69] = [
        "what",
        "which",
        "who",
        "whom",
        "whose",
        "when",
        "where",
        "why",
        "how",
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "can",
        "could",
        "will",
        "would",
        "should",
        "may",
        "might",
        "has",
        "have",
        "had",
        "tell",
        "give",
        "show",
        "explain",
        "describe",
        "list",
        "find",
        "was",
        "welche",
        "welcher",
        "welches",
        "welchen",
        "wer",
        "wen",
        "wem",
        "wann",
        "wo",
        "woher",
        "wohin",
        "warum",
        "wieso",
        "wie",
        "ist",
        "sind",
        "hat",
        "haben",
        "kann",
        "nenne",
        "erkläre",
        "erzähl",
        "que",
        "quel",
        "quelle",
        "qui",
        "quand",
        "où",
        "pourquoi",
        "comment",
        "что",
        "кто",
        "где",
        "когда",
        "почему",
    ];
    const ASKING_ANYWHERE: [&str; 14] =
        ["?", "？", "؟", "什么", "怎么", "谁", "哪", "多少", "为什么", "如何", "是否", "吗", "何", "ですか"];
    let first =
        text.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default().to_lowercase();
    ASKING.contains(&first.as_str()) || ASKING_ANYWHERE.iter().any(|sign| text.contains(sign))
}

/// Whether a text begins with these words.
fn begins(text: &str, with: &str) -> bool {
    let mut text = text.trim_start().chars().flat_map(char::to_lowercase).map(|c| if c == '’' { '\'' } else { c });
    if !with.chars().all(|expected| text.next() == Some(expected)) {
        return false;
    }
    // "Sure" opens talk, "surely" need not.
    !with.ends_with(|last: char| last.is_ascii_alphabetic()) || !text.next().is_some_and(char::is_alphanumeric)
}

/// A text as far as searching goes: two that differ in case and signs are the same.
fn folded(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(answer: &str, question: &str, expected: Result<Option<&str>, &str>) {
        let told = usable(answer, question);
        assert_eq!(told.as_ref().map(Option::as_deref), expected.as_ref().map(|text| *text), "{answer}");
    }

    fn accepts(answer: &str, expected: &str) {
        check(answer, "How deadly is it?", Ok(Some(expected)));
    }

    fn rejects(answer: &str, why: &str) {
        check(answer, "How deadly is it?", Err(why));
    }

    #[test]
    fn what_models_put_around_a_rewrite_is_taken_off() {
        let rewrite = "How deadly is lobular carcinoma?";
        accepts(rewrite, rewrite);
        accepts(" \n How deadly is lobular carcinoma? \n", rewrite);
        accepts("\"How deadly is lobular carcinoma?\"", rewrite);
        accepts("Query: How deadly is lobular carcinoma?", rewrite);
        accepts("**Rewritten question:** \"How deadly is lobular carcinoma?\"", rewrite);
        accepts("Rewritten message:\nHow deadly is lobular carcinoma?", rewrite);
        accepts("```\nHow deadly is lobular carcinoma?\n```", rewrite);
        accepts("„How deadly is lobular carcinoma?“", rewrite);
        accepts("Frage: How deadly is lobular carcinoma?", rewrite);
        accepts("改写后的问题：How deadly is lobular carcinoma?", rewrite);
        accepts("lobular carcinoma deadliness", "lobular carcinoma deadliness");
        accepts("Is \"LCIS\" deadlier than \"PLCIS\"?", "Is \"LCIS\" deadlier than \"PLCIS\"?");
    }

    #[test]
    fn what_is_no_rewrite_is_told_why() {
        rejects("", "was empty");
        rejects(" \"\" ", "was empty");
        rejects("Query:", "was empty");
        rejects("\u{200B}", "was empty");
        rejects(&"How deadly is lobular carcinoma ".repeat(60), "was too long");
        rejects(&format!("How deadly is {}?", "lobular carcinoma ".repeat(30)), "was too long");
        rejects("How deadly is lobular carcinoma?\nIt is about cancer.", "had several lines");
        rejects("{\"query\": \"How deadly is it?\"}", "was data instead of a question");
        rejects("[\"How deadly is it?\"]", "was data instead of a question");
        rejects("Sure! How deadly is lobular carcinoma?", "talked about the task");
        rejects("The rewritten question is: how deadly is it?", "talked about the task");
        rejects("I cannot help with that.", "talked about the task");
        rejects("I’m sorry, but I can't rewrite this.", "talked about the task");
        rejects("Hier ist die Frage: wie tödlich ist das?", "talked about the task");
        rejects("好的，LCIS有多致命？", "talked about the task");
        rejects("Lobular carcinoma is rarely deadly.", "answered the question");
        rejects("Yes", "answered the question");
        rejects("It is not deadly", "answered the question");
        rejects("小叶癌很少致命。", "answered the question");
    }

    #[test]
    fn a_question_that_begins_like_talk_may_go_on_so() {
        check("I can't open which ledger?", "I can't open which?", Ok(Some("I can't open which ledger?")));
        check("Sorry, which ledger was it?", "Sorry, which was it?", Ok(Some("Sorry, which ledger was it?")));
        check("Surely Rex is old?", "Surely he is?", Ok(Some("Surely Rex is old?")));
    }

    #[test]
    fn a_remark_may_become_a_longer_remark() {
        check(
            "I meant the alternatives to surgery for lobular cancer.",
            "No, I meant for lobular.",
            Ok(Some("I meant the alternatives to surgery for lobular cancer.")),
        );
    }

    #[test]
    fn a_question_repeated_is_nothing_new() {
        check("how deadly is it", "How deadly is it?", Ok(None));
        check("\"北京的人口是多少\"", "北京的人口是多少？", Ok(None));
    }

    proptest! {
        #[test]
        fn whatever_a_model_answers_a_rewrite_is_one_short_line(answer in "(?s).*", question in ".*") {
            if let Ok(Some(text)) = usable(&answer, &question) {
                prop_assert!(!text.trim().is_empty() && !text.contains('\n'));
                prop_assert!(!is_too_long(&text));
            }
        }
    }
}
