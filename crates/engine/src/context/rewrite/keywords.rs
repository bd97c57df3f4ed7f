//! The keywords of earlier questions stand in for a model that could tell what "it" is.
//!
//! Measured on the follow-ups of CAsT 2021 (`tests/bench/README.md`): keywords of the question before, and of those before
//! that as long as it leans itself, do better than whole questions, than the first question, and than answers.

use super::leaning::names_a_topic;
use super::words::Tongue;

/// How many questions back a topic is looked for.
const QUESTIONS: usize = 3;

/// How many keywords of one question are taken, the last ones: a question stands at the end of what is pasted before it.
const MOST_OF_A_QUESTION: usize = 16;

/// `question` and the keywords of what was `asked` before it, oldest first, back to the last question that names a topic;
/// `None` when they add nothing.
pub(super) fn expanded(question: &str, asked: &[&str]) -> Option<String> {
    let mut leaned_on: Vec<&str> = Vec::new();
    for earlier in asked.iter().rev().take(QUESTIONS) {
        leaned_on.push(earlier);
        if names_a_topic(earlier) {
            break;
        }
    }
    let own = question.to_lowercase();
    let mut expanded = question.trim().to_owned();
    let mut added: Vec<String> = Vec::new();
    for earlier in leaned_on.into_iter().rev() {
        let keywords = Tongue::of(earlier).keywords(earlier);
        for keyword in keywords.into_iter().rev().take(MOST_OF_A_QUESTION).rev() {
            let word = keyword.to_lowercase();
            if !added.contains(&word) && !holds_word(&own, &word) {
                expanded.push(' ');
                expanded.push_str(keyword);
                added.push(word);
            }
        }
    }
    (!added.is_empty()).then_some(expanded)
}

/// Whether a word stands in a text by itself.
fn holds_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(asked: &[&str], question: &str, expected: Option<&str>) {
        assert_eq!(expanded(question, asked).as_deref(), expected, "{question}");
    }

    #[test]
    fn the_question_before_tells_what_a_follow_up_is_about() {
        check(
            &["How do I build a cheap driveway?"],
            "Is sealing it worth it?",
            Some("Is sealing it worth it? build cheap driveway"),
        );
        check(
            &["Wie heißt die Katze der Nachbarn?"],
            "Wie alt ist sie?",
            Some("Wie alt ist sie? heißt Katze Nachbarn"),
        );
        check(&["北京的人口是多少？"], "那上海呢？", Some("那上海呢？ 北京 人口"));
    }

    #[test]
    fn one_that_leans_itself_is_looked_behind_and_one_that_names_a_topic_is_not() {
        check(
            &["Do cats eat grass or plastic?", "My dog Rex likes red balls", "Why?"],
            "And at night?",
            Some("And at night? dog Rex likes red balls"),
        );
        check(
            &["Which ledger database runs fastest?", "How old is it?", "Who?", "Why?"],
            "Really?",
            Some("Really? old"),
        );
    }

    #[test]
    fn what_the_question_says_itself_is_not_added() {
        check(&["Which database?"], "The database?", None);
        check(&["Does cat food spoil?"], "Is category A it?", Some("Is category A it? cat food spoil"));
        check(&[], "How old is it?", None);
        check(&["?", "🎉"], "How old is it?", None);
    }

    #[test]
    fn of_a_pasted_text_only_its_end_counts() {
        let pasted = format!("{} which library is slow", (0..500).map(|n| format!("line{n} ")).collect::<String>());

        let expanded = expanded("Why is it?", &[&pasted]).unwrap();

        assert!(expanded.ends_with("library slow") && expanded.len() < 200, "{expanded}");
    }

    proptest! {
        #[test]
        fn the_question_comes_first_as_it_is(question in ".*", asked in proptest::collection::vec(".*", 0..5)) {
            let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
            if let Some(expanded) = expanded(&question, &asked) {
                prop_assert!(expanded.starts_with(question.trim()));
                prop_assert!(expanded.len() > question.trim().len());
            }
        }
    }
}
