//! What was said, sentence by sentence: pure.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use sha2::{Digest, Sha256};
use skymem_core::{ExchangeId, Role, Seq, Tokens, Turn, estimate_tokens};
use unicode_segmentation::UnicodeSegmentation;

/// A longer sentence is cut: a summary is made of several.
const LONGEST_SENTENCE: Tokens = Tokens(80);

/// So many bytes of a turn are looked at: a book that is pasted into a conversation must not keep everybody waiting.
const MOST_READ: usize = 64 * 1024;

/// An exchange of a session, as the journal has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) id: ExchangeId,
    /// Its turns, oldest first; never empty.
    pub(crate) turns: Vec<Turn>,
}

impl Said {
    /// Place of its first turn.
    pub(crate) fn first_seq(&self) -> Seq {
        self.turns.first().map_or(Seq(0), |turn| turn.seq)
    }

    /// Place of its last turn.
    pub(crate) fn last_seq(&self) -> Seq {
        self.turns.last().map_or(Seq(0), |turn| turn.seq)
    }

    /// What it costs, word for word.
    pub(crate) fn tokens(&self) -> Tokens {
        self.turns.iter().map(|turn| estimate_tokens(&turn.text)).sum()
    }

    /// From when until when it was said. An import may bring turns in another order.
    pub(crate) fn span(&self) -> Option<(DateTime<Utc>, DateTime<Utc>)> {
        let times = || self.turns.iter().map(|turn| turn.occurred_at);
        times().min().zip(times().max())
    }
}

/// Tells whether an exchange has changed.
pub(crate) fn digest(turns: &[Turn]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for turn in turns {
        for field in [turn.role.as_str(), turn.speaker.as_deref().unwrap_or_default(), &turn.text] {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        hash.update(turn.seq.0.to_le_bytes());
        hash.update(turn.occurred_at.timestamp_micros().to_le_bytes());
    }
    hash.finalize().iter().copied().take(16).collect()
}

/// A sentence, and who said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    /// The speaker's name, or `User`, `Assistant`, `Tool`.
    pub(crate) who: String,
    pub(crate) role: Role,
    /// On one line.
    pub(crate) text: String,
    pub(crate) day: NaiveDate,
}

impl Sentence {
    /// As it stands in a summary.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.who, self.text)
    }
}

/// The sentences of exchanges, in order. Instructions are no part of what was said, and blocks of code no sentences.
#[must_use]
pub(crate) fn sentences(said: &[Said]) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    for turn in said.iter().flat_map(|exchange| &exchange.turns).filter(|turn| turn.role != Role::System) {
        let who = who(turn);
        let sentence = |text: String| Sentence {
            who: who.clone(),
            role: turn.role,
            text: clipped(&text, LONGEST_SENTENCE),
            day: turn.occurred_at.date_naive(),
        };
        sentences.extend(split(beginning(&turn.text)).into_iter().map(sentence));
    }
    sentences
}

/// As much of a turn as is looked at.
pub(crate) fn beginning(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MOST_READ)).unwrap_or_default()
}

/// Who speaks in a turn, on one line.
pub(crate) fn who(turn: &Turn) -> String {
    let role = match turn.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
        Role::Tool => "Tool",
    };
    match turn.speaker.as_deref().map(one_line).filter(|name| !name.is_empty()) {
        Some(name) => name.replace(':', " "),
        None => role.to_owned(),
    }
}

/// The sentences of a text, each on one line.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let mut goes_on = false;
        for piece in line.split_sentence_bounds() {
            let piece = one_line(piece);
            let piece =
                if goes_on { piece.as_str() } else { piece.trim_start_matches(['-', '*', '•', '#', '>', ' ']) };
            if !piece.chars().any(char::is_alphanumeric) {
                continue;
            }
            match sentences.last_mut().filter(|_| goes_on) {
                Some(last) => {
                    last.push(' ');
                    last.push_str(piece);
                }
                None => sentences.push(piece.to_owned()),
            }
            goes_on = ends_in_abbreviation(piece);
        }
    }
    sentences
}

/// Whether a full stop ends no sentence.
fn ends_in_abbreviation(piece: &str) -> bool {
    let Some(word) = piece.strip_suffix('.').and_then(|piece| piece.rsplit(' ').next()) else { return false };
    let known =
        ["Dr", "Mr", "Mrs", "Ms", "St", "Nr", "No", "Prof", "vs", "etc", "bzw", "ca", "e.g", "i.e", "z.B", "d.h"];
    known.contains(&word) || word.chars().all(|c| c.is_ascii_digit()) && !word.is_empty() && word.len() < 3
}

/// Whitespace and control characters become single spaces.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// `text`, or its beginning and an ellipsis where it costs more than `most`.
pub(crate) fn clipped(text: &str, most: Tokens) -> String {
    if estimate_tokens(text) <= most {
        return text.to_owned();
    }
    // More text never costs less: the longest beginning that costs less than it may is found by halving.
    let (mut fits, mut too_long) = (0, text.len());
    loop {
        let mut middle = text.floor_char_boundary(fits + (too_long - fits) / 2);
        if middle <= fits {
            middle = text.ceil_char_boundary(fits + 1);
        }
        if middle >= too_long {
            break;
        }
        if estimate_tokens(text.get(..middle).unwrap_or_default()) < most {
            fits = middle;
        } else {
            too_long = middle;
        }
    }
    let border = text.get(..fits).and_then(|start| start.rfind(' ')).filter(|border| fits - border < 40);
    let end = border.unwrap_or(fits);
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}

/// How much a sentence of `line` weighs in a choice: a person's own words most.
pub(crate) fn weight(line: &str) -> f32 {
    let (who, text) = line.split_once(": ").unwrap_or(("", line));
    let speaker = match who {
        "Assistant" => 1.0,
        "Tool" => 0.5,
        _ => 1.2,
    };
    let question = if text.trim_end().ends_with(['?', '？']) { 0.7 } else { 1.0 };
    let short = text.unicode_words().count() < 3;
    speaker * question * if short { 0.6 } else { 1.0 }
}

/// How often each word stands in a line: words of Latin and other letters in lower case, CJK characters by themselves.
#[must_use]
pub(crate) fn words(line: &str) -> BTreeMap<String, f32> {
    let mut words = BTreeMap::new();
    let text = line.split_once(": ").map_or(line, |(_, text)| text);
    for word in text.unicode_words() {
        *words.entry(word.to_lowercase()).or_insert(0.0) += 1.0;
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn turn(role: Role, text: &str) -> Turn {
        Turn {
            seq: Seq(1),
            role,
            speaker: None,
            text: text.into(),
            occurred_at: DateTime::UNIX_EPOCH,
            recorded_at: DateTime::UNIX_EPOCH,
            statement: None,
        }
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(split(text), expected, "{text:?}");
    }

    #[test]
    fn text_is_split_into_sentences_in_every_language() {
        check("It rains. We stay in!", &["It rains.", "We stay in!"]);
        check("我喜欢爬山。你呢？", &["我喜欢爬山。", "你呢？"]);
        check("Ask Dr. Smith. Then go.", &["Ask Dr. Smith.", "Then go."]);
        check("Am 3. März 2026 geht es los.", &["Am 3. März 2026 geht es los."]);
        check("- one thing\n- another\n\n", &["one thing", "another"]);
        check("Use v1.2.3 of foo.rs now. Fine.", &["Use v1.2.3 of foo.rs now.", "Fine."]);
    }

    #[test]
    fn code_and_what_has_no_word_is_no_sentence() {
        check("Do this:\n```rust\nlet x = 1;\n```\n---\nDone.", &["Do this:", "Done."]);
    }

    #[test]
    fn instructions_are_no_part_of_what_was_said() {
        let turns = vec![turn(Role::System, "Obey."), turn(Role::User, "Hello there.")];
        let said = Said { id: ExchangeId(uuid::Uuid::nil()), turns };

        let lines: Vec<String> = sentences(&[said]).iter().map(Sentence::line).collect();

        assert_eq!(lines, ["User: Hello there."]);
    }

    #[test]
    fn a_speakers_name_stands_on_one_line() {
        let named = Turn { speaker: Some("An\nna: x".into()), ..turn(Role::User, "hi") };
        assert_eq!(who(&named), "An na  x");
    }

    #[test]
    fn an_exchange_that_grew_has_another_digest() {
        let one = [turn(Role::User, "a")];
        let two = [turn(Role::User, "a"), turn(Role::Assistant, "b")];
        assert_ne!(digest(&one), digest(&two));
        assert_eq!(digest(&two), digest(&two.clone()));
    }

    proptest! {
        #[test]
        fn a_clipped_text_costs_no_more_than_it_may(text in "(\\PC{0,12} ?){0,30}", most in 2_usize..40) {
            let clipped = clipped(&text, Tokens(most));
            prop_assert!(estimate_tokens(&clipped) <= Tokens(most + 1), "{clipped:?}");
        }

        #[test]
        fn no_sentence_has_more_than_one_line(text in ".{0,200}") {
            for sentence in split(&text) {
                prop_assert!(!sentence.contains(['\n', '\r', '\t']));
            }
        }
    }
}
