//! What a question is about: who is named in it, whether the person asks about themself, and its words.

use std::collections::BTreeSet;

use unicode_normalization::UnicodeNormalization;

use crate::resolve::normal;
use crate::view::Glance;

/// Of a long question its last so many words, spaces and signs are looked at: what is asked stands at the end of what is
/// pasted before it.
const MOST_TOKENS: usize = 1_500;

/// No name is looked for that has more words and signs.
const LONGEST_NAME: usize = 24;

/// A question, as far as facts go.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The entities it names, in order, each once.
    pub(crate) named: Vec<u32>,
    /// Whether the person speaks of themself, or is spoken of, and how surely.
    pub(crate) oneself: Oneself,
    /// Its words in lower case, without those of names.
    pub(crate) words: BTreeSet<String>,
    /// Those that the person calls their own: "my address".
    pub(crate) own: BTreeSet<String>,
    /// Those among them that mean something.
    pub(crate) content: BTreeSet<String>,
    /// It asks for what was before.
    pub(crate) past: bool,
    /// It asks how things are linked.
    pub(crate) links: bool,
}

/// Whether a question is about the person whose memory it is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oneself {
    /// Nothing says so.
    #[default]
    No,
    /// Somebody is spoken to, who may be meant.
    Perhaps,
    /// Of "I" and "my".
    Yes,
    /// All that is known of the person is asked for.
    Whole,
}

/// What `text` is about, as far as `glance` knows who it names.
pub(crate) fn read(text: &str, glance: &Glance<'_>) -> Question {
    let text: String = text.nfkc().collect();
    let tokens = tokens(&text);
    let tokens = tokens.get(tokens.len().saturating_sub(MOST_TOKENS)..).unwrap_or_default();
    let mut question = Question::default();
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        if let Some((entity, after)) = name_at(tokens, place, &text, glance) {
            if glance.is_self(entity) {
                question.oneself = question.oneself.max(Oneself::Yes);
            } else if !question.named.contains(&entity) {
                question.named.push(entity);
            }
            place = after;
            continue;
        }
        if token.is_word {
            question.take(token, tokens.get(..place).unwrap_or_default(), tokens.get(place + 1..).unwrap_or_default());
        }
        place += 1;
    }
    let bare = question.content.is_empty() && question.named.is_empty();
    if bare && question.oneself >= Oneself::Perhaps && asks_for_all(&question.words) {
        question.oneself = Oneself::Whole;
    }
    question
}

impl Question {
    fn take(&mut self, token: &Token<'_>, before: &[Token<'_>], after: &[Token<'_>]) {
        let word = token.lower.as_str();
        let shouted = token.text.chars().count() > 1 && token.text.chars().all(char::is_uppercase);
        if is_any(word, ABOUT_ONESELF) {
            self.oneself = self.oneself.max(Oneself::Yes);
        } else if is_any(word, ABOUT_SOMEBODY_HERE) && !shouted {
            self.oneself = self.oneself.max(Oneself::Perhaps);
        }
        self.past |= is_any(word, BEFORE);
        self.links |= LINKED.split_whitespace().any(|beginning| word.starts_with(beginning));
        if is_idiom(word, before, after) {
            return;
        }
        let last = before.iter().rev().find(|token| token.is_word);
        if last.is_some_and(|last| is_any(&last.lower, MINE)) {
            self.own.insert(word.to_owned());
        }
        self.words.insert(word.to_owned());
        if word.chars().count() > 1 && !is_any(word, FUNCTION) && !is_pronoun(word) && !is_any(word, BEFORE) {
            self.content.insert(word.to_owned());
        }
    }
}

/// "I would like to", "it looks like", "how this works": nobody's likes, nobody's work.
fn is_idiom(word: &str, before: &[Token<'_>], after: &[Token<'_>]) -> bool {
    let before = before.iter().rev().find(|token| token.is_word).map(|token| token.lower.as_str()).unwrap_or_default();
    let after = after.iter().find(|token| token.is_word).map(|token| token.lower.as_str()).unwrap_or_default();
    let looks = ["look", "feel", "sound", "seem", "taste", "smell"];
    match word {
        "like" => {
            let no_liking = is_any(before, "would d it something that this") || after == "to";
            no_liking || looks.iter().any(|look| before.starts_with(look))
        }
        "work" | "works" | "worked" | "working" => is_any(before, "it this that these those t not they"),
        _ => false,
    }
}

/// "What do you know about me?", "Wer bin ich?"
fn asks_for_all(words: &BTreeSet<String>) -> bool {
    let has = |some: &str| some.split_whitespace().any(|word| words.contains(word));
    (has("about über von") && has("me myself us mich mir uns")) || (has("who wer") && has("i ich") && has("am bin"))
}

/// The entity whose name begins at a place, the longest if there are several, and the place behind it.
fn name_at(tokens: &[Token<'_>], place: usize, text: &str, glance: &Glance<'_>) -> Option<(u32, usize)> {
    let first = tokens.get(place).filter(|token| !token.is_space)?;
    if !glance.view.begins_a_name(&first.lower) && !glance.view.begins_a_name(first.lower.strip_suffix('s')?) {
        return None;
    }
    let longest = (glance.view.longest_name() * 2 + 4).min(LONGEST_NAME);
    let ends = tokens.iter().enumerate().skip(place).take(longest).filter(|(_, token)| !token.is_space);
    for (end, last) in ends.collect::<Vec<_>>().into_iter().rev() {
        let written = text.get(first.from..last.to).unwrap_or_default();
        let name = normal(written);
        // "Annas Hund": in German a name takes an s.
        let genitive = name.strip_suffix('s').filter(|name| name.chars().count() > 2);
        let known = std::iter::once(name.as_str()).chain(genitive).find_map(|name| {
            let entity = glance.view.named(name)?;
            Some((entity, glance.head(entity)?)).filter(|_| !is_doubtful(name) || written_so(glance, entity, written))
        });
        if let Some((entity, _)) = known {
            return Some((entity, end + 1));
        }
    }
    None
}

/// Names that could be anything: single letters and words that every sentence has count only as they are written.
fn is_doubtful(name: &str) -> bool {
    let short = name.chars().count() < 2 && name.is_ascii();
    short || is_any(name, FUNCTION) || is_pronoun(name)
}

fn written_so(glance: &Glance<'_>, entity: u32, written: &str) -> bool {
    written.chars().any(char::is_uppercase) && glance.names(entity).any(|name| name.as_str() == written)
}

fn is_pronoun(word: &str) -> bool {
    is_any(word, ABOUT_ONESELF) || is_any(word, ABOUT_SOMEBODY_HERE)
}

fn is_any(word: &str, words: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

/// A run of letters and digits, a single sign, or space. Scripts without spaces have a word for each character.
#[derive(Debug)]
struct Token<'t> {
    text: &'t str,
    lower: String,
    from: usize,
    to: usize,
    is_word: bool,
    is_space: bool,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((from, c)) = chars.next() {
        let mut to = from + c.len_utf8();
        let runs = |c: char| c.is_alphanumeric() && !has_no_spaces(c);
        if runs(c) {
            while let Some((at, next)) = chars.next_if(|(_, next)| runs(*next)) {
                to = at + next.len_utf8();
            }
        }
        let text = text.get(from..to).unwrap_or_default();
        tokens.push(Token {
            lower: text.to_lowercase(),
            text,
            from,
            to,
            is_word: c.is_alphanumeric(),
            is_space: c.is_whitespace(),
        });
    }
    tokens
}

/// The word or sign that a name begins with, as [`tokens`] has it.
pub(crate) fn first_word(name: &str) -> String {
    tokens(name).into_iter().next().map(|token| token.lower).unwrap_or_default()
}

/// The words of a name or a value, in lower case, that mean something.
pub(crate) fn content_words(text: &str) -> BTreeSet<String> {
    let text: String = text.nfkc().collect();
    let words = tokens(&text).into_iter().filter(|token| token.is_word).map(|token| token.lower);
    words.filter(|word| word.chars().count() > 1 && !is_any(word, FUNCTION) && !is_pronoun(word)).collect()
}

fn has_no_spaces(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}' | '々')
}

const ABOUT_ONESELF: &str = "i my mine myself we our ours ourselves \
    ich mein meine meinem meinen meiner meines mich wir unser unsere unserem unseren unserer unseres 我 我的 私 僕 俺";

const MINE: &str = "my our mein meine meinem meinen meiner meines unser unsere unserem unseren unserer unseres";

const ABOUT_SOMEBODY_HERE: &str = "me us you your yours yourself mir uns du dich dir dein deine deinem deinen deiner \
    deines euch euer eure";

const BEFORE: &str = "before previous previously former formerly earlier used once past ever history \
    früher vorher zuvor davor ehemals ehemalige ehemaliger ehemaligen damals jemals vergangenheit bisher";

const LINKED: &str = "link connect relat between verbind verbund zusammenh zwischen beziehung";

/// Words that say nothing about what is asked.
const FUNCTION: &str = "a an the this that these those there here it its he she they them him her his their theirs \
    who whom whose what which when where why how whether and or but if then than so as at by for from in into of off on \
    onto out over to up with without about against during under again also just only very too not no nor any some all \
    each both few more most other such own same am is are was were be been being have has had having do does did doing \
    done can could will would shall should may might must let get got go goes going went gone make made put say says said \
    tell told know knows knew remember remind think thought please thanks thank hello hi hey yes ok okay now today \
    currently current still already again always never sometimes often really actually exactly right well much many \
    lot thing things something anything everything nothing someone anyone somebody anybody want wants need needs like \
    s d m t ll re ve \
    der die das den dem des ein eine einen einem einer eines kein keine keinen dieser diese dieses diesen diesem jener \
    er sie es ihn ihm ihr ihre ihren ihrem ihrer ihres sein seine seinen seinem seiner seines man sich wer wen wem wessen \
    was welche welcher welches welchen welchem wann wo woher wohin warum wieso wie ob und oder aber wenn dann als an am \
    auf aus bei beim bis durch für gegen hinter im in ins mit nach neben ohne seit über um unter von vom vor während wegen \
    zu zum zur zwischen nicht nichts auch nur noch schon sehr so doch mal ja nein bitte danke hallo jetzt heute gerade \
    aktuell derzeit immer nie oft eigentlich genau etwas alles alle jemand niemand viel viele bin bist ist sind seid war \
    waren gewesen habe hast hat haben hatte hatten werde wird werden wurde wurden kann kannst können könnte könntest soll \
    sollte muss musst müssen darf will willst wollen würde würdest lass mach machst macht sag sagst sage gesagt weiß weißt \
    wissen erinner erinnerst denn eben halt da dort hier";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_taken_apart_at_the_borders_of_words() {
        let words = |text: &str| {
            tokens(text).iter().filter(|token| !token.is_space).map(|token| token.text.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(words("Anna's C++?"), ["Anna", "'", "s", "C", "+", "+", "?"]);
        assert_eq!(words("小米 ist"), ["小", "米", "ist"]);
    }
}
