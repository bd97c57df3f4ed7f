//! What was purged, as far as it can be known again without keeping it: hashes of what only it said. Pure.
//!
//! Known again are runs of a few words, and single words that nobody says by chance: codes, names with digits, very long
//! ones. What others still say is taken out ([`Traces::without`]): that is theirs. The hashes are keyed by chance and live as
//! long as the purge: nothing of them is written down.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use skymem_core::ExchangeId;
use unicode_normalization::UnicodeNormalization;

/// So many words in a row are known again; a shorter text whole.
const RUN: usize = 6;

/// A shorter text is no trace: anybody says "thank you".
const SHORTEST_RUN: usize = 3;

/// A word with letters and digits is a code from this length on,
const CODE: usize = 8;
/// any word from this one.
const LONG: usize = 18;

/// The traces of what was purged.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    keys: RandomState,
    /// Of single words and of runs.
    said: HashSet<u64>,
    /// The lengths of runs among them.
    runs: HashSet<usize>,
    /// Of ids, in words.
    ids: HashSet<u64>,
}

/// What a text holds of what was purged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) said: usize,
    pub(super) ids: usize,
}

impl Traces {
    /// The traces of `exchanges`, in which `texts` were said.
    pub(super) fn of(exchanges: &[ExchangeId], texts: &[String]) -> Self {
        let mut traces = Self::default();
        for text in texts {
            let words = traces.words(text);
            let length = words.len().min(RUN);
            if length >= SHORTEST_RUN {
                traces.runs.insert(length);
                let runs: Vec<u64> = words.windows(length).map(|run| traces.run(run)).collect();
                traces.said.extend(runs);
            }
            traces.said.extend(words.iter().filter(|word| word.is_telling).map(|word| word.hash));
        }
        for exchange in exchanges {
            let words = traces.words(&exchange.to_string());
            let run = traces.run(&words);
            traces.ids.insert(run);
        }
        traces
    }

    /// Without what `text` says too.
    pub(super) fn without(&mut self, text: &str) {
        if self.said.is_empty() {
            return;
        }
        let words = self.words(text);
        for hash in self.hashes(&words) {
            self.said.remove(&hash);
        }
    }

    /// How many things only what was purged said.
    pub(super) fn len(&self) -> usize {
        self.said.len()
    }

    /// What `text` holds of it.
    pub(super) fn look(&self, text: &str) -> Found {
        let words = self.words(text);
        let said = self.hashes(&words).into_iter().filter(|hash| self.said.contains(hash)).count();
        let ids = words.windows(ID_WORDS).filter(|run| self.ids.contains(&self.run(run))).count();
        Found { said, ids }
    }

    fn hashes(&self, words: &[Word]) -> Vec<u64> {
        let single = words.iter().filter(|word| word.is_telling).map(|word| word.hash);
        let runs = self.runs.iter().flat_map(|length| words.windows(*length).map(|run| self.run(run)));
        single.chain(runs).collect()
    }

    fn run(&self, words: &[Word]) -> u64 {
        self.keys.hash_one(words.iter().map(|word| word.hash).collect::<Vec<_>>())
    }

    /// The words of a text: runs of letters and digits, whatever their case; a character each where words have no spaces.
    fn words(&self, text: &str) -> Vec<Word> {
        let mut words = Vec::new();
        let mut word = String::new();
        for c in text.nfkc().flat_map(char::to_lowercase) {
            if c.is_alphanumeric() && !stands_alone(c) {
                word.push(c);
                continue;
            }
            self.close(&mut word, &mut words);
            if stands_alone(c) {
                word.push(c);
                self.close(&mut word, &mut words);
            }
        }
        self.close(&mut word, &mut words);
        words
    }

    fn close(&self, word: &mut String, words: &mut Vec<Word>) {
        if word.is_empty() {
            return;
        }
        let length = word.chars().count();
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let is_telling = length >= LONG || (length >= CODE && digits > 0 && digits < length);
        words.push(Word { hash: self.keys.hash_one(word.as_str()), is_telling });
        word.clear();
    }
}

/// A UUID in words.
const ID_WORDS: usize = 5;

struct Word {
    hash: u64,
    /// Whether nobody says it by chance.
    is_telling: bool,
}

/// Characters that are words themselves: Chinese and Japanese.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn of(text: &str) -> Traces {
        Traces::of(&[ExchangeId(Uuid::from_u128(0x0198_c0de_0000_7000_8000_0000_0000_0001))], &[text.to_owned()])
    }

    fn holds(traces: &Traces, text: &str) -> bool {
        traces.look(text).said > 0
    }

    #[test]
    fn a_code_and_a_run_of_words_are_known_again_whatever_their_case() {
        let traces = of("The code of the blue safe upstairs is kx93-blorp77qz.");

        assert!(holds(&traces, "…BLORP77QZ…"));
        assert!(holds(&traces, "he said the CODE of  the blue\nsafe upstairs, I think"));
        assert!(!holds(&traces, "the code of the red safe"));
        assert!(!holds(&traces, "kx93"));
    }

    #[test]
    fn a_short_text_is_known_again_whole_and_a_very_short_one_not_at_all() {
        assert!(holds(&of("My dog is Rex"), "user: my dog is rex!"));
        assert!(!holds(&of("My dog is Rex"), "the dog is Rex"));
        assert!(!holds(&of("Thank you"), "thank you"));
    }

    #[test]
    fn an_id_is_known_again() {
        assert_eq!(of("x").look("about 0198C0DE-0000-7000-8000-000000000001 here").ids, 1);
        assert_eq!(of("x").look("0198c0de-0000-7000-8000-000000000002").ids, 0);
    }

    #[test]
    fn what_others_say_too_is_theirs() {
        let mut traces = of("the spare key blorp77qz hangs behind the old wooden door");
        traces.without("blorp77qz is a funny word");

        assert!(!holds(&traces, "blorp77qz"));
        assert!(holds(&traces, "key blorp77qz hangs behind the old wooden door"));
    }

    #[test]
    fn languages_without_spaces_are_known_again() {
        assert!(holds(&of("保险箱的密码在厨房抽屉里"), "他说保险箱的密码在哪"));
        assert!(!holds(&of("保险箱的密码在厨房抽屉里"), "他说密码在哪"));
    }
}
