//! What was decided, recognised by its words: pure. With a model, the model says it.

use skymem_core::{Role, Tokens, estimate_tokens};

use crate::said::{Sentence, clipped};

/// A decision is told in this much, or cut.
const LONGEST: Tokens = Tokens(60);

/// The decisions among sentences, as lines with their day and who spoke.
#[must_use]
pub(crate) fn decisions(sentences: &[Sentence]) -> Vec<String> {
    sentences
        .iter()
        .filter(|sentence| is_decision(sentence))
        .map(|sentence| line(sentence.day, &sentence.line()))
        .collect()
}

/// Whether a person or an assistant says in a sentence that something is decided.
#[must_use]
pub(crate) fn is_decision(sentence: &Sentence) -> bool {
    if !matches!(sentence.role, Role::User | Role::Assistant) || sentence.text.trim_end().ends_with(['?', '？', '؟'])
    {
        return false;
    }
    let text = format!(" {} ", sentence.text.to_lowercase().replace('’', "'"));
    // At the beginning of a word; in scripts without spaces anywhere.
    let says = |phrase: &str| {
        text.match_indices(phrase).any(|(at, _)| {
            let before = text.get(..at).and_then(|before| before.chars().next_back());
            let spaced = phrase.chars().next().is_some_and(|c| c.is_alphabetic() && (c as u32) < 0x2E80);
            !spaced || !before.is_some_and(char::is_alphanumeric)
        })
    };
    DECIDED.iter().any(|phrase| says(phrase)) && !UNDECIDED.iter().any(|phrase| says(phrase))
}

/// A decision as it stands in the list.
#[must_use]
pub(crate) fn line(day: chrono::NaiveDate, text: &str) -> String {
    format!("{day} {}", clipped(text, LONGEST))
}

/// The list after a fold: what stood in it stays letter by letter, and `newer` ones follow, each once. When they cost more
/// than `most`, the oldest half leaves at once, so that the beginning of the list changes seldom.
#[must_use]
pub(crate) fn append(list: &[String], newer: Vec<String>, most: Tokens) -> Vec<String> {
    let mut list = list.to_vec();
    for decision in newer {
        if list.iter().any(|known| same(known, &decision)) {
            continue;
        }
        list.push(decision);
        if cost(&list) > most {
            while !list.is_empty() && cost(&list) > Tokens(most.0 / 2) {
                list.remove(0);
            }
        }
    }
    list
}

fn cost(list: &[String]) -> Tokens {
    list.iter().map(|line| estimate_tokens(line) + Tokens(2)).sum()
}

/// Whether two lines say the same, whoever says it and when.
fn same(one: &str, other: &str) -> bool {
    let words = |line: &str| {
        let said = line.split_once(' ').map_or(line, |(_, said)| said);
        let said = said.split_once(": ").map_or(said, |(_, said)| said);
        said.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>()
    };
    words(one) == words(other)
}

/// How people say that something is decided, in lower case.
const DECIDED: &[&str] = &[
    // English
    "we decided",
    "i decided",
    "we've decided",
    "i've decided",
    "we have decided",
    "i have decided",
    "decided to",
    "decided on",
    "decision:",
    "it's decided",
    "that's settled",
    "settled on",
    "let's use",
    "let's go with",
    "let's take",
    "let's stick with",
    "let us use",
    "i chose",
    "we chose",
    "i've chosen",
    "we've chosen",
    "i choose",
    "we choose",
    "we agreed",
    "agreed to",
    "agreed on",
    "agreed:",
    "i'll go with",
    "we'll go with",
    "we're going with",
    "i'm going with",
    "we will use",
    "we'll use",
    "i will use",
    "i'll use",
    "from now on",
    "we switched to",
    "we are switching to",
    "we're switching to",
    // German
    "abgemacht",
    "beschlossen",
    "entscheidung:",
    "wir haben entschieden",
    "haben uns für",
    "habe mich für",
    "ich habe entschieden",
    "wir nehmen",
    "ich nehme lieber",
    "lass uns",
    "lasst uns",
    "wir einigen uns",
    "einigten uns",
    "ab jetzt",
    "ab sofort",
    "wir bleiben bei",
    "wir verwenden",
    "wir nutzen ab",
    // French
    "nous avons décidé",
    "on a décidé",
    "j'ai décidé",
    "c'est décidé",
    "décision :",
    "décision:",
    "j'ai choisi",
    "nous avons choisi",
    "on prend",
    "d'accord pour",
    "on utilisera",
    "nous utiliserons",
    "désormais",
    // Spanish, Portuguese, Italian
    "hemos decidido",
    "he decidido",
    "decidimos",
    "decidí",
    "vamos a usar",
    "usaremos",
    "elegimos",
    "elegí",
    "quedamos en",
    "a partir de ahora",
    "nós decidimos",
    "decidi ",
    "vamos usar",
    "escolhemos",
    "escolhi",
    "a partir de agora",
    "abbiamo deciso",
    "ho deciso",
    "abbiamo scelto",
    "ho scelto",
    "useremo",
    "d'ora in poi",
    // Dutch, Polish, Turkish
    "we hebben besloten",
    "ik heb besloten",
    "afgesproken",
    "we gebruiken voortaan",
    "zdecydowaliśmy",
    "zdecydowałem",
    "postanowiliśmy",
    "karar verdik",
    "kararlaştırdık",
    // Russian, Ukrainian
    "мы решили",
    "я решил",
    "решено",
    "договорились",
    "мы выбрали",
    "я выбрал",
    "будем использовать",
    "давай возьмём",
    "давайте использовать",
    "ми вирішили",
    "домовилися",
    // Chinese, Japanese, Korean
    "我们决定",
    "我决定",
    "咱们决定",
    "决定用",
    "决定采用",
    "决定了",
    "就用",
    "就这么定",
    "说好了",
    "说定了",
    "定下来",
    "我选择",
    "我们选择",
    "选定",
    "以后都用",
    "我們決定",
    "我決定",
    "決定用",
    "就這麼定",
    "ことにした",
    "ことにしました",
    "に決めた",
    "に決めました",
    "に決定",
    "にしましょう",
    "하기로 했",
    "하기로 결정",
    "로 결정",
    "로 정했",
    "결정했",
    // Arabic, Hindi
    "قررنا",
    "قررت",
    "اتفقنا",
    "سنستخدم",
    "फैसला किया",
    "तय किया",
    "तय हुआ",
];

/// What takes it back.
const UNDECIDED: &[&str] = &[
    "not decided",
    "haven't decided",
    "hasn't decided",
    "have not decided",
    "undecided",
    "not yet decided",
    "nothing is decided",
    "if we decided",
    "until we",
    "before we decided",
    "didn't decide",
    "never decided",
    "nicht beschlossen",
    "nicht entschieden",
    "noch nichts entschieden",
    "pas décidé",
    "pas encore décidé",
    "no hemos decidido",
    "no he decidido",
    "não decidimos",
    "non abbiamo deciso",
    "niet besloten",
    "не решили",
    "не решил",
    "还没决定",
    "没有决定",
    "没决定",
    "還沒決定",
    "未決定",
    "まだ決めて",
    "決めていない",
    "결정하지 않",
    "결정 못",
    "لم نقرر",
    "لم أقرر",
];

#[cfg(test)]
mod tests {
    use chrono::NaiveDate;
    use proptest::prelude::*;

    use super::*;

    fn sentence(text: &str) -> Sentence {
        Sentence { who: "User".into(), role: Role::User, text: text.into(), day: NaiveDate::default() }
    }

    fn check(text: &str, expected: bool) {
        assert_eq!(is_decision(&sentence(text)), expected, "{text:?}");
    }

    #[test]
    fn decisions_are_recognised_in_many_languages() {
        for text in [
            "We decided to use Postgres.",
            "Let’s use the blue one.",
            "OK, I chose the window seat.",
            "From now on, answer in German.",
            "Abgemacht: Dienstag um neun.",
            "Wir haben beschlossen, umzuziehen.",
            "On a décidé de partir lundi.",
            "Al final decidimos quedarnos.",
            "Ho deciso di restare.",
            "Мы решили переехать.",
            "我们决定用Postgres。",
            "那就用第二个方案吧。",
            "来週の月曜日に決めました。",
            "월요일에 하기로 했어요.",
            "قررنا السفر غدا.",
        ] {
            check(text, true);
        }
    }

    #[test]
    fn questions_doubts_and_other_sentences_are_none() {
        for text in [
            "Have we decided to use Postgres?",
            "We haven't decided to use anything.",
            "Let's see.",
            "The redecided to do list",
            "Wir haben noch nichts entschieden.",
            "我们还没决定用哪个。",
            "我们决定用哪个？",
            "The rocket engine test was moved to Thursday.",
        ] {
            check(text, false);
        }
        assert!(!is_decision(&Sentence { role: Role::Tool, ..sentence("we decided") }));
    }

    #[test]
    fn the_list_grows_at_its_end_and_says_nothing_twice() {
        let list = append(&[], vec!["2026-02-02 User: Let's use tea.".into()], Tokens(100));
        let longer = append(
            &list,
            vec!["2026-02-03 Assistant: let's use tea".into(), "2026-02-03 User: I chose milk.".into()],
            Tokens(100),
        );

        assert_eq!(longer.len(), 2);
        assert_eq!(longer[..1], list[..]);
    }

    #[test]
    fn a_list_that_is_full_loses_its_older_half_at_once() {
        let lines: Vec<String> = (0..12).map(|n| format!("2026-02-02 User: We decided on number {n}{n}.")).collect();
        let lists: Vec<Vec<String>> = (0..12).map(|n| append(&[], lines[..=n].to_vec(), Tokens(80))).collect();

        let changes = lists.windows(2).filter(|pair| !pair[1].starts_with(&pair[0])).count();
        assert!((1..=4).contains(&changes), "{changes}: {lists:#?}");
        assert!(lists.iter().zip(&lines).all(|(list, newest)| list.last() == Some(newest)));
    }

    proptest! {
        #[test]
        fn the_list_never_costs_more_than_it_may(
            newer in prop::collection::vec("[a-z]{1,9}( [a-z]{1,9}){0,9}", 0..20),
            most in 0_usize..200,
        ) {
            let list = append(&[], newer, Tokens(most));
            prop_assert!(cost(&list) <= Tokens(most));
        }
    }
}
