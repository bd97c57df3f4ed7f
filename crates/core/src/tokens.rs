//! How many tokens a text costs, near enough for budgets, without any model's tokenizer.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// A number of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tokens(pub usize);

impl Tokens {
    /// What is left after spending `spent`; nothing when it was more.
    #[must_use]
    pub fn less(self, spent: Tokens) -> Tokens {
        Tokens(self.0.saturating_sub(spent.0))
    }
}

impl Add for Tokens {
    type Output = Tokens;

    fn add(self, other: Tokens) -> Tokens {
        Tokens(self.0 + other.0)
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, other: Tokens) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for Tokens {
    fn sum<I: Iterator<Item = Tokens>>(all: I) -> Tokens {
        all.fold(Tokens(0), Add::add)
    }
}

/// About how many tokens a current model's tokenizer makes of `text`.
///
/// Counts words by their length, CJK characters and punctuation one by one: a word of Latin letters costs one token
/// for each begun run of six letters, one with letters beyond ASCII for each begun run of four, digits go three to a
/// token, a CJK ideograph, kana or hangul syllable is 0.8 of one.
#[must_use]
pub fn estimate_tokens(text: &str) -> Tokens {
    let mut tenths = 0_usize;
    let mut run = Run::default();
    for c in text.chars() {
        let kind = Kind::of(c);
        if kind != run.kind {
            tenths += run.cost();
            run = Run { kind, letters: 0, beyond_ascii: false };
        }
        run.letters += 1;
        run.beyond_ascii |= !c.is_ascii();
    }
    tenths += run.cost();
    Tokens(tenths.div_ceil(10))
}

#[derive(Default)]
struct Run {
    kind: Kind,
    letters: usize,
    beyond_ascii: bool,
}

impl Run {
    /// In tenths of a token.
    fn cost(&self) -> usize {
        match self.kind {
            Kind::Space if self.letters > 4 => 10,
            Kind::Space => 0,
            Kind::Letter if self.beyond_ascii => 10 * self.letters.div_ceil(4),
            Kind::Letter => 10 * self.letters.div_ceil(6),
            Kind::Digit => 10 * self.letters.div_ceil(3),
            Kind::Cjk => 8 * self.letters,
            Kind::Sign => 10 * self.letters.div_ceil(2),
        }
    }
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    #[default]
    Space,
    Letter,
    Digit,
    Cjk,
    Sign,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            c if c.is_whitespace() => Kind::Space,
            c if c.is_ascii_digit() => Kind::Digit,
            '\u{2E80}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{FF00}'..='\u{FFEF}' => {
                Kind::Cjk
            }
            '\u{20000}'..='\u{3FFFF}' => Kind::Cjk,
            c if c.is_alphanumeric() => Kind::Letter,
            _ => Kind::Sign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, least: usize, most: usize) {
        let tokens = estimate_tokens(text).0;
        assert!((least..=most).contains(&tokens), "{text:?}: {tokens} not in {least}..={most}");
    }

    #[test]
    fn an_estimate_is_near_what_tokenizers_say() {
        check("", 0, 0);
        check("Hello, world!", 4, 4);
        check("The quick brown fox jumps over the lazy dog.", 9, 11);
        check("我喜欢在周末去北京爬山", 8, 11);
        check("Die Donaudampfschifffahrtsgesellschaft fährt heute nicht.", 10, 16);
    }

    #[test]
    fn more_text_never_costs_less() {
        let text = "Ein Satz mit 123 Zahlen, 中文 and signs --- !!!";
        let mut last = 0;
        for (end, _) in text.char_indices() {
            let now = estimate_tokens(&text[..end]).0;
            assert!(now >= last);
            last = now;
        }
    }
}
