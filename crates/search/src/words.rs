//! Which words of a text can be searched for: stems of European languages, pairs of characters of Chinese, Japanese and
//! Korean, identifiers whole and in parts.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;
use whatlang::{Detector, Lang};

/// Longer words are cut to this many characters: nobody searches for the rest of a base64 blob.
const LONGEST_TERM: usize = 48;

/// How much of a text must be in a new language, in characters, before it is believed.
const ENOUGH_TO_TELL: usize = 60;

/// How many characters of a text are looked at to tell its language.
const LOOK_AT: usize = 600;

/// The terms of `text` in order, repeated as often as they stand in it, stemmed in `language`.
pub fn terms(text: &str, language: Language) -> Vec<String> {
    let mut terms = Vec::new();
    each_word(text, |word| {
        if !language.stops(word) {
            terms.push(language.stem(word));
        }
    });
    terms
}

/// The different terms a question is searched with, each word stemmed in every one of `languages`, since a short question
/// does not tell which language the answer is in. Words without meaning are left out, unless nothing else is there.
pub fn question_terms(text: &str, languages: &[Language]) -> Vec<String> {
    let spoken = guess(text, languages);
    let mut all = BTreeSet::new();
    let mut meaningful = BTreeSet::new();
    each_word(text, |word| {
        for language in languages {
            let term = language.stem(word);
            if !spoken.stops(word) {
                meaningful.insert(term.clone());
            }
            all.insert(term);
        }
    });
    let chosen = if meaningful.is_empty() { all } else { meaningful };
    chosen.into_iter().collect()
}

/// The words of `text` as they are, in lower case: for finding a name in a question.
pub fn plain_words(text: &str) -> HashSet<String> {
    let mut words = HashSet::new();
    each_word(text, |word| {
        words.insert(word.strip_suffix("'s").unwrap_or(word).to_owned());
    });
    words
}

/// Calls `found` with each lower-case word, pair of CJK characters, and identifier with its parts.
fn each_word(text: &str, mut found: impl FnMut(&str)) {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).map(as_typed).collect();
    let mut cjk = String::new();
    for word in folded.split_word_bounds() {
        if word.chars().all(is_cjk) {
            cjk.push_str(word);
            continue;
        }
        each_pair(&cjk, &mut found);
        cjk.clear();
        if word.chars().any(char::is_alphanumeric) {
            found(word);
            let parts: Vec<&str> = word.split(['.', '_', ':']).filter(|part| !part.is_empty()).collect();
            if parts.len() > 1 {
                parts.into_iter().for_each(&mut found);
            }
        }
    }
    each_pair(&cjk, &mut found);
}

/// Letters that most people type in their plainer form, and stemmers expect so.
fn as_typed(c: char) -> char {
    match c {
        '’' => '\'',
        'ё' => 'е',
        c => c,
    }
}

/// Overlapping pairs of a run without word borders; a single character stands for itself.
fn each_pair(run: &str, found: &mut impl FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    match starts.len() {
        0 | 1 => {}
        2 => found(run),
        _ => starts.windows(3).for_each(|at| found(&run[at[0]..at[2]])),
    }
}

fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '々')
}

/// A language that words can be stemmed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(usize);

struct Tongue {
    /// ISO 639-1, as stored.
    code: &'static str,
    lang: Lang,
    algorithm: Algorithm,
}

const TONGUES: [Tongue; 17] = [
    Tongue { code: "en", lang: Lang::Eng, algorithm: Algorithm::English },
    Tongue { code: "de", lang: Lang::Deu, algorithm: Algorithm::German },
    Tongue { code: "fr", lang: Lang::Fra, algorithm: Algorithm::French },
    Tongue { code: "es", lang: Lang::Spa, algorithm: Algorithm::Spanish },
    Tongue { code: "it", lang: Lang::Ita, algorithm: Algorithm::Italian },
    Tongue { code: "pt", lang: Lang::Por, algorithm: Algorithm::Portuguese },
    Tongue { code: "nl", lang: Lang::Nld, algorithm: Algorithm::Dutch },
    Tongue { code: "sv", lang: Lang::Swe, algorithm: Algorithm::Swedish },
    Tongue { code: "da", lang: Lang::Dan, algorithm: Algorithm::Danish },
    Tongue { code: "no", lang: Lang::Nob, algorithm: Algorithm::Norwegian },
    Tongue { code: "fi", lang: Lang::Fin, algorithm: Algorithm::Finnish },
    Tongue { code: "hu", lang: Lang::Hun, algorithm: Algorithm::Hungarian },
    Tongue { code: "ro", lang: Lang::Ron, algorithm: Algorithm::Romanian },
    Tongue { code: "tr", lang: Lang::Tur, algorithm: Algorithm::Turkish },
    Tongue { code: "ru", lang: Lang::Rus, algorithm: Algorithm::Russian },
    Tongue { code: "el", lang: Lang::Ell, algorithm: Algorithm::Greek },
    Tongue { code: "ar", lang: Lang::Ara, algorithm: Algorithm::Arabic },
];

/// Sets of stop words, in the order of [`TONGUES`].
static STOP_WORDS: LazyLock<Vec<HashSet<&'static str>>> = LazyLock::new(|| {
    TONGUES.iter().map(|tongue| stop_words::lookup(tongue.code).unwrap_or(&[]).iter().copied().collect()).collect()
});

impl Language {
    /// What is assumed when nothing else is known.
    pub const ENGLISH: Language = Language(0);

    /// The language of that ISO 639-1 code, if words can be stemmed in it.
    pub fn of(code: &str) -> Option<Language> {
        TONGUES.iter().position(|tongue| tongue.code == code).map(Language)
    }

    /// Its ISO 639-1 code.
    pub fn code(self) -> &'static str {
        TONGUES[self.0].code
    }

    /// Whether a lower-case word carries no meaning of its own.
    pub fn stops(self, word: &str) -> bool {
        STOP_WORDS[self.0].contains(word)
    }

    /// The stem of a lower-case word, without accents, cut to a bearable length.
    fn stem(self, word: &str) -> String {
        let stemmer = Stemmer::create(TONGUES[self.0].algorithm);
        let stem = stemmer.stem(word);
        let mut base_is_latin = false;
        stem.nfd()
            .filter(|&c| {
                if is_combining_mark(c) {
                    // An accent says little on a Latin letter; elsewhere (й, が) it makes another letter.
                    return !base_is_latin;
                }
                base_is_latin = c.is_ascii_alphabetic();
                true
            })
            .nfc()
            .take(LONGEST_TERM)
            .collect()
    }
}

/// The language of `text`, given those the user is known to write in: another one is believed only of a text that is
/// long and clear enough.
pub fn language_of(text: &str, known: &[Language]) -> Language {
    let beginning = beginning(text);
    if beginning.chars().count() >= ENOUGH_TO_TELL
        && let Some(info) = Detector::new().detect(beginning)
        && info.is_reliable()
        && let Some(at) = TONGUES.iter().position(|tongue| tongue.lang == info.lang())
    {
        return Language(at);
    }
    guess(text, known)
}

/// Which of `known` the text is most likely in.
fn guess(text: &str, known: &[Language]) -> Language {
    let allowed: Vec<Lang> = known.iter().map(|language| TONGUES[language.0].lang).collect();
    let first = known.first().copied().unwrap_or(Language::ENGLISH);
    if allowed.len() < 2 {
        return first;
    }
    let told = Detector::with_allowlist(allowed).detect_lang(beginning(text));
    told.and_then(|lang| TONGUES.iter().position(|tongue| tongue.lang == lang)).map_or(first, Language)
}

fn beginning(text: &str) -> &str {
    text.char_indices().nth(LOOK_AT).map_or(text, |(end, _)| &text[..end])
}

/// How often each term stands in a passage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// In all of it.
    pub all: i16,
    /// Among its first [`HEAD_WORDS`] words, which count for the passage that follows it too.
    pub head: i16,
}

/// How many of a passage's first words count for the passage that follows it. Unclipped, long answers drown the question
/// after them (`measured.md`: 0.41 -> 0.27).
const HEAD_WORDS: usize = 40;

/// The terms of a passage with their counts; `dates` are the words of its day, which are searched like its own.
pub fn count(text: &str, dates: &str, language: Language) -> HashMap<String, Count> {
    let mut counts: HashMap<String, Count> = HashMap::new();
    let head_end = text.unicode_word_indices().nth(HEAD_WORDS).map_or(text.len(), |(at, _)| at);
    let (head, rest) = text.split_at(head_end);
    for term in terms(head, language) {
        let count = counts.entry(term).or_default();
        count.all = count.all.saturating_add(1);
        count.head = count.head.saturating_add(1);
    }
    for term in terms(rest, language).into_iter().chain(terms(dates, Language::ENGLISH)) {
        let count = counts.entry(term).or_default();
        count.all = count.all.saturating_add(1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, code: &str, expected: &[&str]) {
        assert_eq!(terms(text, Language::of(code).unwrap()), expected, "{text}");
    }

    #[test]
    fn words_are_stemmed_and_those_without_meaning_left_out() {
        check("I was running with the Databases", "en", &["run", "databas"]);
        check("Ich wohne in den Häusern", "de", &["wohn", "haus"]);
        check("Мы живём в больших домах", "ru", &["жив", "больш", "дом"]);
        check("", "en", &[]);
        check("🎉🎉 !!!", "en", &[]);
    }

    #[test]
    fn chinese_japanese_and_korean_are_searched_by_pairs() {
        check("我喜欢北京", "en", &["我喜", "喜欢", "欢北", "北京"]);
        check("北", "en", &["北"]);
        check("東京タワー", "en", &["東京", "京タ", "タワ", "ワー"]);
        check("我用Rust写代码", "en", &["我用", "rust", "写代", "代码"]);
    }

    #[test]
    fn an_identifier_is_found_whole_and_by_its_parts() {
        check("main.rs", "en", &["main.r", "main", "rs"]);
        check("snake_case", "en", &["snake_cas", "snake", "case"]);
    }

    #[test]
    fn accents_do_not_matter_on_latin_letters_and_do_elsewhere() {
        check("Café", "fr", &["caf"]);
        check("cafe", "fr", &["caf"]);
        check("война", "ru", &["войн"]);
    }

    #[test]
    fn a_question_finds_its_answer_in_any_of_the_users_languages() {
        let known = [Language::ENGLISH, Language::of("de").unwrap()];
        let passage = terms("Anna wohnte früher in Bremen und arbeitete dort", Language::of("de").unwrap());
        let question = question_terms("Wo wohnt Anna?", &known);

        assert!(question.iter().any(|term| passage.contains(term)), "{question:?} {passage:?}");
    }

    #[test]
    fn a_question_of_stop_words_alone_still_searches() {
        assert_eq!(question_terms("Who are you?", &[Language::ENGLISH]), ["are", "who", "you"]);
    }

    #[test]
    fn a_new_language_must_be_clear() {
        let german =
            "Gestern bin ich mit dem Fahrrad nach Hannover gefahren, weil das Wetter endlich wieder schön war.";
        assert_eq!(language_of(german, &[]).code(), "de");
        assert_eq!(language_of("Ciao!", &[]).code(), "en");
    }

    #[test]
    fn only_the_first_words_count_for_what_follows() {
        let text = format!("alpha {} omega", "filler ".repeat(60));
        let counts = count(&text, "Monday 8 May 2023", Language::ENGLISH);

        assert_eq!(counts["alpha"], Count { all: 1, head: 1 });
        assert_eq!(counts["omega"], Count { all: 1, head: 0 });
        assert_eq!(counts["monday"], Count { all: 1, head: 0 });
    }
}
