//! How many tokens a text has, near enough for budgets, without any model's tokenizer.
//!
//! Tokenizers first cut a text into pieces by rule (words with the sign or space before them, three digits, signs, white
//! space) and then look up how many known parts each piece is made of. The cut is made here as `o200k_base` makes it;
//! what a piece costs is estimated from its letters.

use crate::tokens::Tokens;

/// About how many tokens a current model's tokenizer makes of `text`: within a tenth of `o200k_base` for a paragraph in
/// most languages, and for code. A longer text never costs less than its beginning.
#[must_use]
pub fn estimate_tokens(text: &str) -> Tokens {
    let mut reader = Reader { rest: text, cost: 0, surplus: USUAL_SURPLUS, kana: 0, rarer: 0 };
    while reader.piece() {}
    Tokens(reader.cost.div_ceil(TOKEN))
}

/// One token, in the unit that costs are added up in.
const TOKEN: usize = 100;

struct Reader<'a> {
    rest: &'a str,
    /// What was read so far, in hundredths of a token.
    cost: usize,
    /// How much beyond one token the Latin words read lately cost, on average: prose in English is made of words that
    /// tokenizers know whole, a rarer language is not.
    surplus: usize,
    /// For how many more ideographs the text counts as Japanese, which tokenizers know less of than Chinese.
    kana: usize,
    /// For how many more Cyrillic letters the text counts as a language that is rarer than Russian, as Ukrainian is.
    rarer: usize,
}

/// Where [`Reader::surplus`] begins. Below it, letters cost less than [`PAIRS`] says.
const USUAL_SURPLUS: usize = 36;
/// The most that letters are made cheaper, in hundredths.
const CHEAPEST: usize = 20;
/// Over how many words the average goes, about.
const RECENT_WORDS: usize = 24;

impl Reader<'_> {
    /// Reads one piece; says whether there was one.
    fn piece(&mut self) -> bool {
        let mut chars = self.rest.chars();
        let Some(first) = chars.next() else { return false };
        let kind = Kind::of(first);
        let next = chars.clone().next().map(Kind::of);
        match (kind, next) {
            (Kind::Letter, _) => self.word(Before::Nothing),
            (Kind::Space | Kind::Sign, Some(Kind::Letter)) => {
                self.rest = chars.as_str();
                self.word(if first == ' ' { Before::Space } else { Before::Sign(first) });
            }
            (Kind::Space, Some(Kind::Sign)) if first == ' ' => {
                self.rest = chars.as_str();
                self.signs();
            }
            (Kind::Sign, _) => self.signs(),
            (Kind::Digit, _) => {
                let (digits, length) = run(self.rest, |kind| kind == Kind::Digit);
                self.take(length, TOKEN * digits.div_ceil(3));
            }
            (Kind::Space | Kind::Line, _) => self.blank(),
        }
        true
    }

    fn take(&mut self, length: usize, cost: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
        self.cost += cost;
    }

    /// White space. The last space belongs to the word or sign that follows it.
    fn blank(&mut self) {
        let (_, length) = run(self.rest, |kind| matches!(kind, Kind::Space | Kind::Line));
        let (blank, after) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        if let Some(line) = blank.rfind(['\n', '\r']) {
            return self.take(line + 1, TOKEN);
        }
        let spaces = blank.chars().count();
        let last = blank.chars().next_back().unwrap_or(' ');
        let (own, stays) = match after.chars().next().map(Kind::of) {
            None => (spaces.min(2) - 1, false),
            Some(Kind::Letter) => (1, true),
            Some(Kind::Sign) if last == ' ' => (1, true),
            Some(_) => (spaces.min(2), false),
        };
        let length = length - if stays { last.len_utf8() } else { 0 };
        // Eighty or so spaces are one token.
        self.take(length, TOKEN * (own + spaces / 80));
    }

    /// Signs, and the ends of lines right behind them.
    fn signs(&mut self) {
        let mut cost = 0;
        let mut before = None;
        let mut same = 0;
        let mut changes = 0;
        let (_, length) = run(self.rest, |kind| kind == Kind::Sign);
        let (signs, after) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        for sign in signs.chars() {
            same = if before == Some(sign) { same + 1 } else { 0 };
            cost += match before {
                None => first_sign(sign),
                Some(_) if same > 0 => 8,
                Some(_) => next_sign(sign, changes),
            };
            changes += usize::from(same == 0);
            before = Some(sign);
        }
        let lines = after.len() - after.trim_start_matches(['\n', '\r', '/']).len();
        self.take(length + lines, cost.max(TOKEN));
    }

    /// Letters of one word, small ones after capitals, and what stands right before them. Where no spaces part words,
    /// whole phrases are one piece; so do words of two scripts that touch.
    fn word(&mut self, before: Before) {
        let mut start = before;
        let mut small = false;
        if let Before::Sign(sign) = before
            && !sign.is_ascii()
        {
            self.cost += first_sign(sign) - TOKEN / 2;
        }
        while let Some(first) = self.rest.chars().next().filter(|first| Kind::of(*first) == Kind::Letter) {
            if small && first.is_uppercase() {
                return;
            }
            let script = Script::of(first);
            small = match script {
                Script::Latin => self.latin(start),
                _ => self.run_of(script, start),
            };
            start = Before::Nothing;
        }
        self.contraction();
    }

    /// The ending of `don't` and its like, also when the text ends in the middle of it.
    fn contraction(&mut self) {
        let Some(ending) = self.rest.strip_prefix('\'') else { return };
        let begins = |known: &&&str| ending.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
        let cut = || ["", "r", "v", "l"].iter().find(|cut| ending.eq_ignore_ascii_case(cut));
        if let Some(found) = ["s", "t", "re", "ve", "m", "ll", "d"].iter().find(begins).or_else(cut) {
            self.take(found.len() + 1, CONTRACTION);
        }
    }

    /// Latin letters up to the next word: what is known whole is one token, and each further pair of letters that is
    /// seldom seen together makes another likelier. Says whether the last letter was a small one.
    fn latin(&mut self, before: Before) -> bool {
        let mut price = 0;
        let mut capitals = 0;
        let mut last = None;
        let mut small = false;
        let mut length = 0;
        for letter in self.rest.chars() {
            let capital = letter.is_uppercase();
            if !matches!(Script::of(letter), Script::Latin) || Kind::of(letter) != Kind::Letter || (capital && small) {
                break;
            }
            let place = place_of(letter);
            price += match last {
                Some(last) => pair(last, place),
                None if place == BEYOND => 55,
                None => 0,
            };
            capitals += usize::from(capital);
            small |= !capital;
            last = Some(place);
            length += letter.len_utf8();
        }
        let capital = self.rest.chars().next().is_some_and(char::is_uppercase);
        let free = match (before, capital) {
            (Before::Space, false) => 81,
            (Before::Space, true) => 66,
            (Before::Nothing, false) => 48,
            (Before::Nothing, true) => 40,
            (Before::Sign(_), false) => 25,
            (Before::Sign(_), true) => 16,
        };
        let price = (price + 8 * capitals.saturating_sub(1)).saturating_sub(free);
        let worth = (100 * self.surplus / USUAL_SURPLUS).clamp(CHEAPEST, 100);
        self.take(length, TOKEN + price * worth / 100);
        // Rounded up, so that it can rise from nothing.
        self.surplus = (self.surplus * (RECENT_WORDS - 1) + price.min(400)).div_ceil(RECENT_WORDS);
        small
    }

    /// Letters of one other script. Says whether the last one was a small letter of a script that has capitals.
    fn run_of(&mut self, script: Script, before: Before) -> bool {
        let mut cost = 0;
        let mut letters = 0;
        let mut length = 0;
        let mut small = false;
        for letter in self.rest.chars() {
            if Script::of(letter) != script || Kind::of(letter) != Kind::Letter || (small && letter.is_uppercase()) {
                break;
            }
            letters += 1;
            length += letter.len_utf8();
            small = letter.is_lowercase();
            cost += match script {
                Script::Kana => {
                    self.kana = 40;
                    60
                }
                Script::Ideograph if self.kana > 0 => {
                    self.kana -= 1;
                    99
                }
                Script::Ideograph => 73,
                Script::Cyrillic => {
                    self.rarer = if is_of_russian(letter) { self.rarer.saturating_sub(1) } else { 80 };
                    script.price_of_letter(letters) + if self.rarer > 0 && letters > 1 { 12 } else { 0 }
                }
                _ => script.price_of_letter(letters),
            };
        }
        let sign = usize::from(matches!(before, Before::Sign(_)));
        let least = match script {
            Script::Ideograph | Script::Kana if sign == 0 => 0,
            _ => TOKEN,
        };
        let phrase = if matches!(script, Script::Ideograph | Script::Kana) { 15 } else { 0 };
        self.take(length, (cost + phrase).max(least) + 50 * sign);
        small
    }
}

/// What a first sign costs.
fn first_sign(sign: char) -> usize {
    match sign {
        '\u{1F000}'..='\u{1FFFF}' => 170,
        _ => TOKEN,
    }
}

/// What another sign right behind `changes` others costs.
fn next_sign(sign: char, changes: usize) -> usize {
    match sign {
        '\u{1F000}'..='\u{1FFFF}' => 170,
        // Two signs are often one token, as in `()` and `":`.
        '\0'..='\u{7f}' if changes == 1 => 4,
        '\0'..='\u{7f}' => 38,
        _ => 70,
    }
}

/// What the ending of a word behind an apostrophe costs.
const CONTRACTION: usize = 37;

/// What stands right before a word and belongs to its piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Space,
    Sign(char),
}

/// The number of characters and of bytes that `text` begins with and that are `wanted`.
fn run(text: &str, wanted: impl Fn(Kind) -> bool) -> (usize, usize) {
    let mut count = 0;
    let mut length = 0;
    for c in text.chars().take_while(|c| wanted(Kind::of(*c))) {
        count += 1;
        length += c.len_utf8();
    }
    (count, length)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Line,
    Letter,
    Digit,
    Sign,
}

impl Kind {
    fn of(c: char) -> Kind {
        match c {
            '\n' | '\r' => Kind::Line,
            c if c.is_whitespace() => Kind::Space,
            c if c.is_numeric() => Kind::Digit,
            c if c.is_alphabetic() || is_mark(c) => Kind::Letter,
            _ => Kind::Sign,
        }
    }
}

/// Marks that belong to the letter before them without being letters themselves.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{64B}'..='\u{65F}' | '\u{93C}' | '\u{94D}'
        | '\u{9CD}' | '\u{A4D}' | '\u{ACD}' | '\u{B4D}' | '\u{BCD}' | '\u{C4D}' | '\u{CCD}' | '\u{D4D}'
        | '\u{E47}'..='\u{E4E}' | '\u{FE00}'..='\u{FE0F}')
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Latin,
    Greek,
    Cyrillic,
    Hebrew,
    Arabic,
    Indic,
    Thai,
    Hangul,
    Kana,
    Ideograph,
    Other,
}

impl Script {
    fn of(c: char) -> Script {
        match c {
            '\0'..='\u{36F}' | '\u{1E00}'..='\u{1EFF}' => Script::Latin,
            '\u{370}'..='\u{3FF}' | '\u{1F00}'..='\u{1FFF}' => Script::Greek,
            '\u{400}'..='\u{52F}' => Script::Cyrillic,
            '\u{590}'..='\u{5FF}' => Script::Hebrew,
            '\u{600}'..='\u{77F}' | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFF}' => Script::Arabic,
            '\u{900}'..='\u{DFF}' => Script::Indic,
            '\u{E00}'..='\u{EFF}' => Script::Thai,
            '\u{1100}'..='\u{11FF}' | '\u{AC00}'..='\u{D7AF}' => Script::Hangul,
            '\u{3040}'..='\u{30FF}' | '\u{FF66}'..='\u{FF9F}' => Script::Kana,
            '\u{3005}'..='\u{3007}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' => {
                Script::Ideograph
            }
            '\u{20000}'..='\u{3FFFF}' => Script::Ideograph,
            _ => Script::Other,
        }
    }

    /// What the letter at this place of a word, from 1, adds to what the word costs.
    fn price_of_letter(self, place: usize) -> usize {
        match (self, place) {
            (Script::Greek, 1) => 80,
            (Script::Greek, 2..=4) => 26,
            (Script::Greek, _) => 42,
            (Script::Cyrillic, 1) => 97,
            (Script::Cyrillic, 2..=3) => 5,
            (Script::Cyrillic, 4..=9) => 20,
            (Script::Cyrillic, _) => 14,
            (Script::Hebrew, 1) => 59,
            (Script::Hebrew, _) => 41,
            (Script::Arabic, 1) => 70,
            (Script::Arabic, _) => 25,
            (Script::Indic, 1) => 92,
            (Script::Indic, 2..=4) => 11,
            (Script::Indic, _) => 25,
            (Script::Thai, 1) => 97,
            (Script::Thai, 2..=4) => 48,
            (Script::Thai, _) => 42,
            (Script::Hangul, 1) => 105,
            (Script::Hangul, 2..=6) => 59,
            (Script::Hangul, _) => 30,
            // About one token for each byte but the first: scripts that tokenizers have hardly seen.
            _ => 200,
        }
    }
}

/// Whether a Cyrillic letter is one that Russian is written in.
fn is_of_russian(letter: char) -> bool {
    matches!(letter, '\u{410}'..='\u{44F}' | '\u{401}' | '\u{451}')
}

/// The column and row of [`PAIRS`] for letters that are not of the English alphabet.
const BEYOND: usize = 26;

fn place_of(letter: char) -> usize {
    match letter {
        'a'..='z' => letter as usize - 'a' as usize,
        'A'..='Z' => letter as usize - 'A' as usize,
        _ => BEYOND,
    }
}

/// What a pair of letters adds to what its word costs, in hundredths.
fn pair(first: usize, second: usize) -> usize {
    let row = PAIRS.get(first).and_then(|row| row.get(second)).copied().unwrap_or(b'5');
    10 * match row {
        b'0'..=b'9' => usize::from(row - b'0'),
        _ => usize::from(row.saturating_sub(b'a')) + 10,
    }
}

/// In tenths of a token, `a` for ten and so on: a row for each first letter, a column for each second, `a` to `z` and
/// then all others. Fitted to what `o200k_base` makes of running text, word lists by frequency and code, in fifteen
/// languages written in Latin letters.
const PAIRS: [&[u8; 27]; 27] = [
    b"401040040430117350210250038", // a
    b"3488265840205437a125252e277",
    b"284800810500560740502766233",
    b"296627341732054533472466426",
    b"122131354553323202145320556", // e
    b"6a2432044o14452903724b98357",
    b"6466245048227346825549b6548",
    b"49a2176628053131a2325748119",
    b"200110146032400402108172525", // i
    b"405420316b005428b43c4002a15",
    b"544223725a14746920334b82537",
    b"43412025375136321323231d096",
    b"2065076449570630972435565b5", // m
    b"381023173634334647104340646",
    b"432321134552301230330120056",
    b"365317434451432100432879274",
    b"d8ghfhdbe2d08hdh84992e92682", // q
    b"223114233533223663334320076",
    b"57162420475665322512360a387",
    b"360513200913553441233620215",
    b"2344032b150011615022743289a", // u
    b"5cbc1a96489688392599790c778",
    b"307304323630702a73048b355a7",
    b"470d30g74fid79817d6299522dd",
    b"584767586a8453338615757b679", // y
    b"4a5607654954855648854562156",
    b"225410316611421801337441148",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, least: usize, most: usize) {
        let tokens = estimate_tokens(text).0;
        assert!((least..=most).contains(&tokens), "{text:?}: {tokens} not in {least}..={most}");
    }

    // What real tokenizers say of whole paragraphs is compared in the tests of skymem-models, which has them.
    #[test]
    fn an_estimate_is_near_what_tokenizers_say() {
        check("", 0, 0);
        check("Hello, world!", 4, 5);
        check("The quick brown fox jumps over the lazy dog.", 10, 12);
        check("我喜欢在周末去北京爬山", 7, 11);
        check("Die Donaudampfschifffahrtsgesellschaft fährt heute nicht.", 12, 18);
        check("1234567", 3, 3);
        check("    let x = 1;\n\n    y\n", 9, 11);
        check("\u{1F600}", 1, 3);
    }

    #[test]
    fn more_text_never_costs_less() {
        for text in [
            "Ein Satz mit 123 Zahlen, 中文 and signs --- !!! it's don't they'll 'x' a' b\n\n",
            "fn main() {\n\t\tprintln!(\"{x:?}\");    \n}\n  12 (a)(bC) HTTPServer.get_it()['k']",
            "今日は東京で会議があります。昨日我们在北京开会。Rust言語 и по-русски ქართული العربية हिन्दी ไทย 한국어",
            "e\u{301}\u{301} 👩‍👩‍👧 ❤️ \u{0}\u{1b}[31m \u{3000}x \u{a0}1 '''' \r\n\r\n 's 't",
        ] {
            let mut last = 0;
            for (end, _) in text.char_indices() {
                let now = estimate_tokens(&text[..end]).0;
                assert!(now >= last, "{:?}: {now} < {last}", &text[..end]);
                last = now;
            }
            assert!(estimate_tokens(text).0 >= last);
        }
    }

    proptest! {
        #[test]
        fn whatever_follows_a_longer_text_never_costs_less(
            text in r#"([a-zA-Z' \n\t("\p{L}\p{N}\p{S}\p{Z}]|'(ll|ve|re|s)|.){0,30}"#,
            more in ".{1,3}",
        ) {
            let longer = format!("{text}{more}");
            prop_assert!(estimate_tokens(&longer) >= estimate_tokens(&text));
        }
    }

    #[test]
    fn no_text_is_free_and_none_is_dearer_than_its_bytes() {
        for text in ["a", "\n", "(", "ß", "中", "あ", "\u{10A0}", "🜁", "7", "a b", "zzzzzzzzzzzzzzzzzqxqxqxqx"] {
            check(text, 1, text.len());
        }
    }
}
