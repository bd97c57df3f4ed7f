//! The words of short questions in many languages, as far as it takes to see what they are about.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use unicode_segmentation::UnicodeSegmentation;

/// A language as far as questions are read: what its words without a meaning of their own are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    /// By its ISO 639-1 code.
    Spaced(&'static str),
    Chinese,
    Japanese,
}

/// Languages with spaces between words, the first one wins where a text could be in several.
const SPACED: [&str; 17] =
    ["en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "hu", "ro", "tr", "ru", "el", "ar"];

static STOP_WORDS: LazyLock<Vec<HashSet<&'static str>>> = LazyLock::new(|| {
    let of = |code: &&str| stop_words::lookup(code).unwrap_or(&[]).iter().copied().collect();
    SPACED.iter().map(of).collect()
});

/// What ends and joins a Chinese question without saying what it is about; longer ones first.
const CHINESE_FILLERS: &[&str] = &[
    "为什么",
    "是不是",
    "有没有",
    "能不能",
    "可不可以",
    "怎么样",
    "什么时候",
    "什么",
    "怎么",
    "怎样",
    "哪里",
    "哪个",
    "哪些",
    "多少",
    "如何",
    "是否",
    "可以",
    "告诉",
    "一下",
    "我们",
    "你们",
    "吗",
    "呢",
    "吧",
    "了",
    "的",
    "是",
    "在",
    "和",
    "与",
    "我",
    "你",
    "有",
    "也",
    "都",
    "就",
    "还",
    "很",
    "请",
    "谁",
    "几",
];

impl Tongue {
    /// The language of a text: by its script or, where many share one, by the words without meaning in it.
    pub(super) fn of(text: &str) -> Self {
        if text.chars().any(is_kana) {
            return Self::Japanese;
        }
        if text.chars().any(is_han) {
            return Self::Chinese;
        }
        let words: Vec<String> = spaced_words(text).map(str::to_lowercase).collect();
        let mut best = (0, SPACED[0]);
        for (code, stops) in SPACED.iter().zip(STOP_WORDS.iter()) {
            let known = words.iter().filter(|word| stops.contains(word.as_str())).count();
            if known > best.0 {
                best = (known, code);
            }
        }
        Self::Spaced(best.1)
    }

    /// What `text` is about: its words that have a meaning, each once, as they are spelled, in order.
    pub(super) fn keywords(self, text: &str) -> Vec<&str> {
        let mut met = BTreeSet::new();
        let mut keywords = Vec::new();
        let mut note = |word| {
            if met.insert(str::to_lowercase(word)) {
                keywords.push(word);
            }
        };
        match self {
            Self::Spaced(code) => {
                let at = SPACED.iter().position(|known| *known == code).unwrap_or(0);
                let stops = &STOP_WORDS[at];
                spaced_words(text).filter(|word| !stops.contains(word.to_lowercase().as_str())).for_each(&mut note);
            }
            Self::Chinese => without_fillers(text, &mut note),
            // What is written in hiragana joins the rest.
            Self::Japanese => {
                let is_about = |c: char| c.is_alphanumeric() && !matches!(c, '\u{3040}'..='\u{309F}');
                text.split(|c| !is_about(c)).filter(|run| !run.is_empty()).for_each(&mut note);
            }
        }
        keywords
    }
}

/// The words of a text with spaces; "don't" is two, so that its halves are found in lists of words.
pub(super) fn spaced_words(text: &str) -> impl Iterator<Item = &str> {
    text.unicode_words().flat_map(|word| word.split(['\'', '’'])).filter(|word| !word.is_empty())
}

/// How many words keywords come to, a word of Chinese or Japanese being two characters.
pub(super) fn count(keywords: &[&str]) -> usize {
    let words = |keyword: &&str| {
        let characters = keyword.chars().filter(|c| is_han(*c) || is_kana(*c)).count();
        if characters > 0 { characters.div_ceil(2) } else { 1 }
    };
    keywords.iter().map(words).sum()
}

/// The runs of a Chinese text between fillers and signs.
fn without_fillers<'a>(text: &'a str, note: &mut impl FnMut(&'a str)) {
    let mut rest = text;
    let mut run = 0;
    while let Some(first) = rest.get(run..).and_then(|rest| rest.chars().next()) {
        let ahead = &rest[run..];
        let filler = CHINESE_FILLERS.iter().find(|filler| ahead.starts_with(**filler)).map(|filler| filler.len());
        let gap = filler.or_else(|| (!first.is_alphanumeric()).then(|| first.len_utf8()));
        match gap {
            Some(gap) => {
                if run > 0 {
                    note(&rest[..run]);
                }
                rest = &rest[run + gap..];
                run = 0;
            }
            None => run += first.len_utf8(),
        }
    }
    if run > 0 {
        note(&rest[..run]);
    }
}

fn is_han(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

fn is_kana(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, tongue: Tongue, keywords: &[&str]) {
        assert_eq!(Tongue::of(text), tongue, "{text}");
        assert_eq!(tongue.keywords(text), keywords, "{text}");
    }

    #[test]
    fn what_a_question_is_about_is_told_in_many_languages() {
        check("How do I build a cheap driveway?", Tongue::Spaced("en"), &["build", "cheap", "driveway"]);
        check("What's the dog's name? The dog!", Tongue::Spaced("en"), &["dog", "name"]);
        check("Wie heißt die Katze der Nachbarn?", Tongue::Spaced("de"), &["heißt", "Katze", "Nachbarn"]);
        check("Où est la clé de l'armoire ?", Tongue::Spaced("fr"), &["Où", "clé", "armoire"]);
        check("Как зовут мою собаку?", Tongue::Spaced("ru"), &["зовут", "мою", "собаку"]);
        check("北京的人口是多少？", Tongue::Chinese, &["北京", "人口"]);
        check("我的Rust项目在哪里", Tongue::Chinese, &["Rust项目"]);
        check("東京タワーの高さは？", Tongue::Japanese, &["東京タワー", "高"]);
        check("", Tongue::Spaced("en"), &[]);
        check("🎉 !?", Tongue::Spaced("en"), &[]);
    }

    #[test]
    fn two_characters_of_chinese_are_a_word() {
        assert_eq!(count(&["北京", "人口数量", "Rust"]), 4);
        assert_eq!(count(&["东"]), 1);
        assert_eq!(count(&[]), 0);
    }
}
