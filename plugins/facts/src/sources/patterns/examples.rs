//! Every pattern has an example in `english/examples.txt` or `german/examples.txt`, beside utterances in which nothing is
//! to be found. `utterance => subject | predicate | value | more ;; another fact`; said on 2026-09-16, a Wednesday.

use proptest::prelude::*;

use super::super::notation;
use super::rules::{Rule, USED};
use super::*;

const ENGLISH: &str = include_str!("english/examples.txt");
const GERMAN: &str = include_str!("german/examples.txt");

fn said_at() -> DateTime<Utc> {
    "2026-09-16T10:00:00Z".parse().unwrap()
}

fn me() -> EntityName {
    EntityName::SELF.parse().unwrap()
}

fn found_in(text: &str) -> String {
    find(text, &me(), said_at()).iter().map(|found| notation(&found.statement)).collect::<Vec<_>>().join(" ;; ")
}

/// Holds a table against what is found, and that every rule has found something in it.
fn check(table: &str, rules: [&[Rule]; 2]) {
    USED.with_borrow_mut(|used| used.clear());
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let (said, expected) = line.split_once("=>").unwrap_or((line, ""));
        let (said, expected) = (said.trim().replace("\\n", "\n"), expected.trim());
        let found = found_in(&said);
        if found != expected {
            wrong.push(format!("{said}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let used = USED.with_borrow(Clone::clone);
    let idle: Vec<&str> =
        rules.into_iter().flatten().map(|rule| rule.says).filter(|says| !used.contains(says)).collect();
    assert!(idle.is_empty(), "these patterns have no example:\n{}", idle.join("\n"));
}

#[test]
fn english_examples_are_found_and_counter_examples_are_not() {
    check(ENGLISH, [english::rules::DOES, english::rules::MINE]);
}

#[test]
fn german_examples_are_found_and_counter_examples_are_not() {
    check(GERMAN, [german::rules::DOES, german::rules::MINE]);
}

/// Words that patterns look for, in any order, with what breaks them.
const PIECES: &[&str] = &[
    "I",
    "i",
    "we",
    "ich",
    "wir",
    "my",
    "mein",
    "meine",
    "sister",
    "Schwester",
    "Anna",
    "Bremen",
    "live in",
    "wohne in",
    "moved to",
    "bin nach",
    "gezogen",
    "works at",
    "arbeite bei",
    "uses",
    "nutzt",
    "PostgreSQL",
    "was caused by",
    "wurde durch",
    "verursacht",
    "born",
    "geboren",
    "am 3. Juni",
    "in May",
    "since 2019",
    "seit zwei Jahren",
    "until",
    "not",
    "nicht",
    "sondern",
    "no,",
    "nein,",
    "and",
    "und",
    ",",
    ".",
    "?",
    ":",
    ";",
    "(",
    ")",
    "\"",
    "'",
    "„",
    "“",
    "`",
    "```",
    "\n",
    "\n\n",
    "- ",
    "> ",
    "’",
    "\u{0}",
    "\u{FFFC}",
    "ß",
    "é",
    "日本",
    "🙂",
    "34",
    "years old",
    "31. Februar",
    "2024-02-31",
    "a@b.c",
    "+44 20 7946 0958",
    "heißt",
    "is called",
    "named",
    "favourite",
    "is",
    "ist",
    "a dog",
    "einen Hund",
    "namens",
    "Dr.",
    "x",
    "İ",
    "ẞ",
];

proptest! {
    #[test]
    fn nothing_that_is_said_breaks_it_and_names_are_names(text in any::<String>()) {
        names_are_names(&text);
    }

    #[test]
    fn no_order_of_words_breaks_it(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30), gap in "[ ]{0,1}") {
        names_are_names(&pieces.join(&gap));
        names_are_names(&pieces.join(" "));
    }
}

/// Finds facts in `text`, and checks that each would pass where facts are told directly, and is found again the same way.
fn names_are_names(text: &str) {
    let found = find(text, &me(), said_at());
    assert!(found.len() <= MOST_FOUND);
    assert_eq!(found, find(text, &me(), said_at()));
    for Found { statement, confidence } in found {
        assert!((0.01..=1.0).contains(&confidence));
        let told = serde_json::to_value(&statement).unwrap();
        assert_eq!(serde_json::from_value::<Statement>(told).unwrap(), statement);
        assert!(statement.check().is_ok(), "{statement:?} of {text:?}");
    }
}

#[test]
fn a_megabyte_is_read_in_no_time_whatever_it_holds() {
    let pieces = [
        "ä",
        "Ja. ",
        "a ",
        "I live in Bremen and ",
        "in May ",
        "'a ",
        "\"a ",
        "my sister Anna ",
        "I am A. ",
        "from from ",
        ", not Bonn",
        "(",
        ": ",
        "I live in Bremen. ",
        "- I live in\n",
        "1. ",
        "A",
        "a\n",
        "\n",
        "```\n",
        "I use A, ",
        "nicht , sondern ",
        "ich bin ",
        "2019 ",
    ];
    for piece in pieces {
        let text = piece.repeat(1_000_000 / piece.len());
        let begun = std::time::Instant::now();

        let found = find(&text, &me(), said_at());

        assert!(begun.elapsed().as_secs() < 10, "{piece:?} took {:?}", begun.elapsed());
        assert!(found.len() <= MOST_FOUND);
    }
}

#[test]
fn who_speaks_is_whom_it_is_about() {
    let anna: EntityName = "Anna".parse().unwrap();

    let found = find("I live in Bremen. My sister Clara works at ACME.", &anna, said_at());

    let found: Vec<String> = found.iter().map(|found| notation(&found.statement)).collect();
    assert_eq!(found, ["Anna | lives_in | Bremen", "Anna | sister | Clara", "Clara | works_at | ACME"]);
}
