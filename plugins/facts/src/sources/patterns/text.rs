//! A text as sentences that its writer says of their own accord: without code, quotations, and what follows an invention.

use std::sync::LazyLock;

use regex::Regex;

/// Stands where something was quoted.
pub(super) const HIDDEN: char = '\u{FFFC}';

/// How much of a text is read, in bytes, and how many of its sentences. People say what matters at the beginning.
const LONGEST_TEXT: usize = 32 * 1024;
const MOST_SENTENCES: usize = 400;

/// The longest sentence that is read, in bytes; a longer one is a list, or no sentence.
const LONGEST_SENTENCE: usize = 600;

/// The sentences of `text` that its writer says of their own accord, in order.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let text = text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default();
    if JEST.as_ref().is_none_or(|jest| jest.is_match(text)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    'text: for paragraph in paragraphs(text) {
        for sentence in split(&without_quotes(&paragraph)) {
            let begin = sentence.get(..sentence.floor_char_boundary(LONGEST_SENTENCE)).unwrap_or_default();
            if INVENTION.as_ref().is_none_or(|invention| invention.is_match(begin)) {
                break 'text;
            }
            if let Some(announced) = sentence.strip_suffix(':') {
                if OWN.as_ref().is_some_and(|own| own.is_match(announced.trim())) {
                    continue;
                }
                // What follows is shown, not said.
                break 'text;
            }
            if sentence.len() <= LONGEST_SENTENCE {
                found.push(sentence);
            }
            if found.len() >= MOST_SENTENCES {
                break 'text;
            }
        }
    }
    found
}

/// A pattern of words. Their borders are those of ASCII, which is all that is needed to tell words here, and what keeps a
/// search fast in any text.
pub(super) fn words(pattern: &str) -> Option<Regex> {
    Regex::new(&pattern.replace(r"\b", r"(?-u:\b)")).ok()
}

/// What stands before a colon when the rest is said of oneself: "Fun fact:", "About me:".
pub(super) static OWN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?ix) ^(?:(?:just\ )?(?:a\ )?(?:quick|small|fun|random|short|little|kurze?r?|kleine?r?)?\ ?
            (?:fact|facts|note|notes|info|update|intro|introduction|reminder|heads[\ -]?up|hinweis|vorstellung|anmerkung|bemerkung|fakt|fakten)
            (?:\ (?:about|on|von|über|zu)\ (?:me|myself|us|mir|mich|uns))?
          |(?:some\ (?:facts|things|info|background)\ )?about\ (?:me|myself|us)|a\ bit\ about\ (?:me|myself)
          |fyi|btw|by\ the\ way|ps|p\.s\.|correction|edit|background|context|remember|note\ to\ self|my\ (?:details|situation|profile|setup|stack)
          |(?:please\ |pls\ )?(?:remember|note|save|keep\ in\ mind)(?:\ (?:this|that|the\ following|these))?(?:\ (?:about\ me|for\ later|please))?
          |über\ (?:mich|uns)|zu\ mir|zur\ (?:info|person)|nebenbei|übrigens|korrektur|hintergrund|kontext|merke?|meine\ (?:daten|situation)
          |(?:bitte\ )?(?:merke?\ dir|notiere?(?:\ dir)?)(?:\ (?:bitte|das|folgendes))?(?:\ bitte)?
          |(?:hi|hey|hello|hallo|moin|servus)\b.{0,20}|ok(?:ay)?|so|also|nein|no)$",
    )
});

/// Says that a text is no serious one.
static JEST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?ix) (?:^|\s)/s(?:\s|$) | \b(?:just|only)\ (?:kidding|joking) | \b(?:jk|lol|rofl)\b | \byeah,?\ right\b | \boh\ (?:sure|great|joy)\b
          | \bas\ if\b | \bsarcasm | \bna\ klar\b | \bja,?\ klar\b | \bironie\b | \b(?:war\ )?(?:nur|ein)\ (?:spaß|scherz|witz)\b | 🙃
          | \bschön\ wär",
    )
});

/// Begins something made up, or something to be worked on: from there on nobody speaks of themselves.
static INVENTION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    words(
        r"(?ix) \b(?:pretend|imagine|role-?\ ?play|act(?:ing)?\ as|suppose|supposing|hypothetical(?:ly)?|let(?:'|’)?s\ (?:say|assume|play)|assume|assuming
            |once\ upon\ a\ time|you\ are\ (?:now\ )?(?:a|an|the)\ )\b
          | ^\W*(?:(?:please|pls|can\ you|could\ you|would\ you|now|bitte|kannst\ du|könntest\ du)[\ ,]+)*(?:translate|proofread|paraphrase|rephrase|rewrite|summari[sz]e|classify
            |parse|repeat|complete|continue|(?:fix|check|improve|correct)\ (?:the|my|this|these)\ (?:grammar|text|spelling|sentences?|paragraph|email|letter|cv|resume|bio)
            |übersetz\w*|korrigier\w*|formulier\w*|wiederhol\w*|verbesser\w*\ (?:den|die|diese[ns]?|meinen)\ |fasse?\ (?:das|den|die|diese[ns]?)\b)
          | \b(?:write|tell|compose|create|generate|invent|give|make|draft)\b.{0,30}\s(?:story|stories|poem|novel|fiction|dialogue|dialog|lyrics|song|screenplay|character|persona|sentences?|examples?|biography|bio|conversation)\b
          | \b(?:short\ story|in\ (?:the|my|this|that|a)\ (?:movie|film|novel|book|story|game|show|series|play|dream))\b
          | \bexample\ sentences?\b | \bfor\ example,?\ (?:if|suppose|imagine)\b
          | \bstelle?\ dir\ vor\b | \bangenommen\b | \bnehmen\ wir\ an\b | \btue?\ so\b | \brollenspiel | \bspiele?\ (?:jetzt\ )?(?:eine?n?|die|den)\ (?:rolle|figur)
          | \b(?:schreib|erzähl|erfind|verfass|dicht|erstell|generier)\w*\b.{0,30}(?:geschichte|gedicht|roman|märchen|dialog|lied|figur|charakter|satz|sätze|beispiele?|biografie)
          | \bim\ (?:film|roman|buch|spiel|traum)\b | \bin\ (?:der|meiner|einer)\ (?:geschichte|serie)\b | \bbeispiels[aä]tze?\b | \bes\ war\ einmal\b",
    )
});

/// The paragraphs and list items of `text`, each on one line; code and quoted lines are left out.
fn paragraphs(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut open = String::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let bare = line.trim();
        if let Some(sign) = fence {
            if bare.starts_with(sign) {
                fence = None;
            }
            continue;
        }
        if let Some(sign) = ["```", "~~~"].into_iter().find(|sign| bare.starts_with(sign)) {
            fence = Some(sign);
            found.push(std::mem::take(&mut open));
            continue;
        }
        let code = line.starts_with("    ") || line.starts_with('\t');
        if bare.is_empty() || bare.starts_with(['>', '|']) || (code && open.is_empty()) {
            found.push(std::mem::take(&mut open));
            continue;
        }
        let item = ["- ", "* ", "+ ", "• ", "# ", "## ", "### "].into_iter().find_map(|mark| bare.strip_prefix(mark));
        let item = item.or_else(|| {
            let (number, rest) = bare.split_once(['.', ')'])?;
            (number.len() <= 2 && number.chars().all(|c| c.is_ascii_digit()) && rest.starts_with(' '))
                .then(|| rest.trim())
        });
        // A line that was broken in the middle of a sentence goes on in small letters.
        let goes_on = item.is_none()
            && !open.is_empty()
            && !open.ends_with(['.', '!', '?', ':'])
            && bare.chars().next().is_some_and(char::is_lowercase)
            && open.chars().any(char::is_uppercase);
        if !goes_on {
            found.push(std::mem::take(&mut open));
        }
        if !open.is_empty() {
            open.push(' ');
        }
        open.push_str(item.unwrap_or(bare));
    }
    found.push(open);
    found.retain(|paragraph| !paragraph.is_empty());
    found
}

/// `text` with quotations hidden; a quoted name, or a word in code marks, keeps its words and loses the marks.
fn without_quotes(text: &str) -> String {
    let text = text.replace(['\u{2019}', '\u{00B4}'], "'").replace(['\u{00A0}', '\u{202F}'], " ");
    let mut left = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(open) = rest.chars().next() {
        let after = rest.get(open.len_utf8()..).unwrap_or_default();
        let before = left.chars().next_back();
        let closes: &[char] = match open {
            '"' => &['"'],
            '\u{201C}' => &['\u{201D}', '"'],
            '\u{201E}' => &['\u{201C}', '\u{201D}', '"'],
            '«' => &['»'],
            '»' => &['«'],
            '`' => &['`'],
            '\u{2018}' | '\u{201A}' => &['\u{2018}', '\''],
            // An apostrophe stands in a word; a quotation begins before one.
            '\'' if before.is_none_or(|c| c.is_whitespace() || c == '(') => &['\''],
            _ => &[],
        };
        let single = matches!(open, '\'' | '\u{2018}' | '\u{201A}');
        let close = if closes.is_empty() { None } else { closing(after, closes, single) };
        if closes.is_empty() || (single && close.is_none()) {
            left.push(open);
            rest = after;
            continue;
        }
        match close {
            Some(at) => {
                let (quoted, then) = after.split_at_checked(at).unwrap_or((after, ""));
                if is_name(quoted, open == '`') {
                    left.push_str(quoted);
                } else {
                    left.push(HIDDEN);
                }
                rest = then.chars().next().and_then(|c| then.get(c.len_utf8()..)).unwrap_or_default();
            }
            // Never closed: nobody knows where it ends.
            None => {
                left.push(HIDDEN);
                break;
            }
        }
    }
    left
}

/// The longest quotation between single marks, which are apostrophes too.
const LONGEST_SINGLE: usize = 300;

/// Where the quotation that begins `text` is closed.
fn closing(text: &str, closes: &[char], single: bool) -> Option<usize> {
    let most = if single { LONGEST_SINGLE } else { usize::MAX };
    text.char_indices().take(most).find_map(|(at, c)| {
        let ends =
            || text.get(at + c.len_utf8()..).and_then(|rest| rest.chars().next()).is_none_or(|c| !c.is_alphanumeric());
        (closes.contains(&c) && (!single || ends())).then_some(at)
    })
}

/// Whether what is quoted is a name: short, with a capital, and not somebody speaking.
fn is_name(quoted: &str, code: bool) -> bool {
    let words: Vec<&str> = quoted.split_whitespace().collect();
    let speaks = |word: &&str| {
        matches!(word.to_lowercase().as_str(), "i" | "i'm" | "my" | "we" | "ich" | "mein" | "meine" | "wir")
    };
    let capital = quoted.chars().next().is_some_and(char::is_uppercase);
    match words.len() {
        1 => (capital || code) && !quoted.ends_with(['.', '!', '?', ',']),
        2 | 3 => capital && !words.iter().any(speaks) && !quoted.ends_with(['.', '!', '?', ',']),
        _ => false,
    }
}

/// Words with a full stop that ends no sentence.
const SHORT: [&str; 38] = [
    "dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr", "vs", "e.g", "i.e", "etc", "approx", "no", "dept", "inc", "ltd",
    "corp", "z.b", "bzw", "ca", "nr", "str", "usw", "d.h", "u.a", "bspw", "evtl", "ggf", "inkl", "hr", "fr", "geb",
    "mt", "ft", "jan", "feb", "dipl",
];

const MONTHS: [&str; 26] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "januar",
    "jänner",
    "februar",
    "feber",
    "märz",
    "mai",
    "juni",
    "juli",
    "oktober",
    "dezember",
    "jan",
    "sept",
    "okt",
    "dez",
];

/// The sentences of one paragraph, each with the sign at its end.
fn split(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in text.char_indices() {
        if !matches!(c, '.' | '!' | '?' | '…') {
            continue;
        }
        let end = at + c.len_utf8();
        let after = text.get(end..).unwrap_or_default();
        if !after.starts_with(|c: char| c.is_whitespace())
            || (c == '.' && is_no_end(text.get(start..at).unwrap_or_default(), after))
        {
            continue;
        }
        found.push(text.get(start..end).unwrap_or_default().trim().to_owned());
        start = end;
    }
    found.push(text.get(start..).unwrap_or_default().trim().to_owned());
    found.retain(|sentence| !sentence.is_empty());
    found
}

/// Whether a full stop between `before` and `after` belongs to a word or a number.
fn is_no_end(before: &str, after: &str) -> bool {
    let last = before.rsplit(char::is_whitespace).next().unwrap_or_default().trim_start_matches(['(', '"']);
    let next = after.split_whitespace().next().unwrap_or_default();
    let next_word = next.trim_end_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let lower = last.to_lowercase();
    let initial = last.chars().count() == 1 && last.chars().all(char::is_uppercase) && last != "I";
    let ordinal = !last.is_empty()
        && last.chars().all(|c| c.is_ascii_digit() || c == '.')
        && (MONTHS.contains(&next_word.as_str())
            || next.starts_with(|c: char| c.is_ascii_digit())
            || (last.len() <= 2 && next.starts_with(char::is_lowercase)));
    SHORT.contains(&lower.as_str()) || initial || ordinal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(sentences(text), expected, "{text:?}");
    }

    #[test]
    fn sentences_end_where_they_end() {
        check("I live in Bremen. I work at ACME!", &["I live in Bremen.", "I work at ACME!"]);
        check("I saw Dr. Patel. He is nice.", &["I saw Dr. Patel.", "He is nice."]);
        check("Born on 3. Juni 1990 in Köln. Ja.", &["Born on 3. Juni 1990 in Köln.", "Ja."]);
        check("It costs 3.50 e.g. today. Ok?", &["It costs 3.50 e.g. today.", "Ok?"]);
        check("Write to a.b@example.org please. Bye", &["Write to a.b@example.org please.", "Bye"]);
        check("am 14.02.1990 war das. So.", &["am 14.02.1990 war das.", "So."]);
        check("i live in bremen. i like it", &["i live in bremen.", "i like it"]);
        check("I am 34. I live here.", &["I am 34.", "I live here."]);
        check("One\ntwo goes on\n\nThree", &["One two goes on", "Three"]);
        check("Line one\nLine two", &["Line one", "Line two"]);
    }

    #[test]
    fn lists_are_sentences_each() {
        check(
            "About me:\n- I live in Bremen\n* I work at ACME\n1. I am 34",
            &["I live in Bremen", "I work at ACME", "I am 34"],
        );
    }

    #[test]
    fn code_and_quoted_lines_are_not_said() {
        check("Hello.\n```\nI live in Paris\n```\nBye.", &["Hello.", "Bye."]);
        check("> I live in Paris\n\nBye.", &["Bye."]);
        check("Hello.\n\n    I live in Paris\n\nBye.", &["Hello.", "Bye."]);
        check("```\nI live in Paris", &[]);
    }

    #[test]
    fn quotations_are_hidden_and_quoted_names_are_kept() {
        let hidden = |text: &str| without_quotes(text).replace(HIDDEN, "_");
        assert_eq!(hidden("My dog is \"Rex\"."), "My dog is Rex.");
        assert_eq!(hidden("\"I live in Paris,\" she said"), "_ she said");
        assert_eq!(hidden("„Ich wohne in Paris“, sagte sie"), "_, sagte sie");
        assert_eq!(hidden("`skymem` uses `let x = 1`"), "skymem uses _");
        assert_eq!(hidden("it's 'I live in Paris' again"), "it's _ again");
        assert_eq!(hidden("the dogs' home isn’t open"), "the dogs' home isn't open");
        assert_eq!(hidden("she said \"I live in Paris. I"), "she said _");
    }

    #[test]
    fn what_follows_an_invention_is_not_said() {
        check("I live in Bremen. Pretend you are a doctor. I am ill.", &["I live in Bremen."]);
        check("Translate this into German: My name is Bob. I am 30.", &[]);
        check("Here is the text:\nMy name is Bob.", &[]);
        check("Stell dir vor, ich wäre Pirat. Ich heiße Rotbart.", &[]);
        check("I love Mondays /s", &[]);
        check("Ich habe Geschichte studiert.", &["Ich habe Geschichte studiert."]);
    }

    #[test]
    fn a_long_text_is_read_at_its_beginning_and_a_long_sentence_is_not() {
        let text = format!("I live in Bremen. {}. Ende.", "word ".repeat(200));
        assert_eq!(sentences(&text), ["I live in Bremen.", "Ende."]);
        assert!(sentences(&"Ja. ".repeat(100_000)).len() <= MOST_SENTENCES);
        assert!(sentences(&"ä".repeat(1_000_000)).is_empty());
    }
}
