//! What acts as a marker in a prompt, and how it is made inert: by brackets that mean nothing to a model.

use std::borrow::Cow;

/// `text` with its markers made inert. Brackets that only look like those of markers, or become them when a tokenizer
/// normalises what it reads, count as what they look like.
pub(super) fn disarm(text: &str) -> Cow<'_, str> {
    disarm_those(text, marker_length)
}

/// `text` with the markers that skymem itself puts into prompts made inert, and nothing else.
pub(super) fn disarm_own(text: &str) -> Cow<'_, str> {
    disarm_those(text, |_, rest| own_marker(rest))
}

fn disarm_those(text: &str, length_of: impl Fn(&str, &str) -> Option<usize>) -> Cow<'_, str> {
    let plain = Plain::of(text);
    let mut disarmed = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = plain.text.get(at..).and_then(|rest| rest.find(['<', '[', '#'])) {
        let start = at + found;
        let (before, rest) = plain.text.split_at(start);
        match length_of(before, rest) {
            Some(length) => {
                let end = start + length;
                disarmed.push_str(plain.original(copied, start));
                let marker = plain.original(start, end).chars();
                // Hashes are markers of their own; elsewhere they belong to a path.
                disarmed.extend(marker.map(|c| if rest.starts_with('#') { without_force(c) } else { inert(c) }));
                copied = end;
                at = end;
            }
            // All three are one byte long.
            None => at = start + 1,
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    disarmed.push_str(plain.original(copied, plain.text.len()));
    Cow::Owned(disarmed)
}

/// A text with every bracket that looks like one of a marker's replaced by that.
struct Plain<'a> {
    source: &'a str,
    text: Cow<'a, str>,
    /// Where the replaced ones end: in the plain text, and in the source.
    ends: Vec<(usize, usize)>,
}

impl<'a> Plain<'a> {
    fn of(source: &'a str) -> Self {
        if source.is_ascii() || source.chars().all(|c| plain(c) == c) {
            return Self { source, text: Cow::Borrowed(source), ends: Vec::new() };
        }
        let mut text = String::with_capacity(source.len());
        let mut ends = Vec::new();
        for (place, c) in source.char_indices() {
            text.push(plain(c));
            if plain(c) != c {
                ends.push((text.len(), place + c.len_utf8()));
            }
        }
        Self { source, text: Cow::Owned(text), ends }
    }

    /// What stands in the source at a range of the plain text.
    fn original(&self, from: usize, until: usize) -> &'a str {
        self.source.get(self.in_source(from)..self.in_source(until)).unwrap_or_default()
    }

    fn in_source(&self, place: usize) -> usize {
        match self.ends.partition_point(|(end, _)| *end <= place).checked_sub(1).and_then(|last| self.ends.get(last)) {
            Some((plain, source)) => source + (place - plain),
            None => place,
        }
    }
}

/// The sign that `c` looks like, or that Unicode's compatibility forms make of it, when markers are made of that.
pub(super) fn plain(c: char) -> char {
    match c {
        '＜' | '﹤' | '〈' | '\u{2329}' | '⟨' | '❮' | '❰' | 'ᐸ' | '˂' => '<',
        '＞' | '﹥' | '〉' | '\u{232A}' | '⟩' | '❯' | '❱' | 'ᐳ' | '˃' => '>',
        '［' | '【' | '〔' | '⟦' | '❲' | '〚' => '[',
        '］' | '】' | '〕' | '⟧' | '❳' | '〛' => ']',
        '｜' | '∣' | 'ǀ' | '❘' | '￨' => '|',
        '＃' | '﹟' => '#',
        '：' | '﹕' => ':',
        '／' | '⁄' | '∕' => '/',
        c => c,
    }
}

/// None of these is made into a bracket by any normal form.
fn inert(c: char) -> char {
    match plain(c) {
        '<' => '‹',
        '>' => '›',
        '[' => '(',
        ']' => ')',
        _ => c,
    }
}

fn without_force(hash: char) -> char {
    if plain(hash) == '#' { '♯' } else { hash }
}

/// The length in bytes of the marker that `rest` begins with, if it does; `before` is what stands in front of it.
fn marker_length(before: &str, rest: &str) -> Option<usize> {
    match rest.as_bytes().first()? {
        b'<' => role_token(rest).or_else(|| own_marker(rest)).or_else(|| listed(rest, &TAGS)),
        b'[' => listed(rest, &BRACKETS).or_else(|| citation(rest)),
        _ => begins_line(before).then(|| heading(rest)).flatten(),
    }
}

/// Tokens that some model's template or tokenizer knows, in any case of letters.
const TAGS: [&str; 22] = [
    "<<SYS>>",
    "<</SYS>>",
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<unk>",
    "<BOS_TOKEN>",
    "<EOS_TOKEN>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<extra_id_0>",
    "<extra_id_1>",
    "<end_of_utterance>",
];

const BRACKETS: [&str; 13] = [
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CONTENT]",
    "[THINK]",
    "[/THINK]",
    "[gMASK]",
];

fn listed(rest: &str, markers: &[&str]) -> Option<usize> {
    markers.iter().map(|marker| marker.len()).zip(markers).find_map(|(length, marker)| {
        rest.get(..length).is_some_and(|start| start.eq_ignore_ascii_case(marker)).then_some(length)
    })
}

/// Whether `word` in square brackets is a role token.
pub(super) fn is_role(word: &str) -> bool {
    listed(&format!("[{word}]"), &BRACKETS).is_some()
}

/// The roles that are role tokens also with spaces inside the bars: elsewhere that is an operator of some languages.
const ROLES: [&str; 18] = [
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "human",
    "model",
    "im_start",
    "im_end",
    "endoftext",
    "eot_id",
    "start_header_id",
    "end_header_id",
    "start",
    "end",
    "channel",
    "message",
    "return",
];

/// `<|word|>`.
fn role_token(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix("<|")?;
    let (word, closing) = inner.split_at_checked(beginning(inner).find('|')?)?;
    if !closing.starts_with("|>") {
        return None;
    }
    let spaced = word.trim();
    let is_word = (1..=60).contains(&word.len())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '▁'));
    let known = ROLES.iter().any(|role| spaced.eq_ignore_ascii_case(role));
    (is_word || known).then_some(rest.len() - closing.len() + "|>".len())
}

/// One of the markers that skymem itself puts into prompts, in any case and spacing, with more brackets or one fewer.
fn own_marker(rest: &str) -> Option<usize> {
    let start = beginning(rest);
    let inner = start.trim_start_matches(|c: char| c == '<' || c.is_whitespace());
    let opening = start.get(..start.len() - inner.len())?;
    let opens = opening.matches('<').count();
    let (name, closing) = inner.split_at_checked(inner.find('>')?)?;
    let upper = name.replace('/', " END ").to_ascii_uppercase();
    let words: Vec<&str> =
        upper.split(|c: char| c.is_whitespace() || matches!(c, '_' | '-')).filter(|word| !word.is_empty()).collect();
    let of_block = |word: &str| matches!(word, "CONTEXT" | "MEMORY" | "SUMMARY");
    let ours = match words.as_slice() {
        [block] => of_block(block),
        ["END" | "BEGIN" | "START" | "CLOSE", block] => of_block(block),
        [block, "END" | "BEGIN" | "START" | "CLOSE"] => of_block(block),
        _ => false,
    };
    let after = closing.trim_start_matches(|c: char| c == '>' || c.is_whitespace());
    // Spaces behind the last bracket are the text's.
    let closing = closing.get(..closing.len() - after.len())?.trim_end();
    let closes = closing.matches('>').count();
    // `a << context >> b` shifts bits.
    let tight = opening.ends_with('<') && name.trim_end() == name;
    let enough = opens.min(closes) >= 3 || (opens.min(closes) == 2 && tight);
    (ours && enough).then_some(opening.len() + name.len() + closing.len())
}

/// As much of `rest` as a marker may be long: however long a text is, no place in it is looked at far.
fn beginning(rest: &str) -> &str {
    rest.get(..rest.floor_char_boundary(120)).unwrap_or_default()
}

/// The longest citation, in bytes: a path may be long.
const LONGEST_CITATION: usize = 1_000;

/// A citation in the form that skymem gives recalled items. Ends at its bracket; without one in its line it is none.
fn citation(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('[')?.trim_start_matches(' ');
    let kind = inner.chars().next().filter(|kind| matches!(kind.to_ascii_uppercase(), 'S' | 'D' | 'F'))?;
    let value = inner.strip_prefix(kind)?.trim_start_matches(' ').strip_prefix(':')?;
    // `[S:1]` and `x[D:]` are slices in many languages.
    let spaced = value.starts_with(' ') && kind.is_ascii_uppercase();
    let dated = value.trim_start().bytes().take(5).collect::<Vec<u8>>();
    let dated =
        matches!(dated.as_slice(), [a, b, c, d, b'-'] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()));
    if !spaced && !dated {
        return None;
    }
    let line = value.get(..value.floor_char_boundary(LONGEST_CITATION))?;
    let line = line.split_once('\n').map_or(line, |(line, _)| line);
    // Brackets inside belong to it: `[D: a[b]]`.
    let end = line.find(']')?;
    let end = end + line.get(end..)?.chars().take_while(|c| *c == ']').count();
    let opened = line.get(..end)?.matches('[').count();
    let closed = line.get(..end)?.matches(']').count();
    Some(rest.len() - value.len() + end - closed.saturating_sub(opened + 1))
}

fn begins_line(before: &str) -> bool {
    let line = before.trim_end_matches([' ', '\t', '\r']);
    line.is_empty() || line.ends_with('\n')
}

/// `### System:` and its like, which open a role in plain-text templates. The length is that of the hashes.
fn heading(rest: &str) -> Option<usize> {
    let line = beginning(rest);
    let title = line.trim_start_matches('#');
    let hashes = line.len() - title.len();
    let (title, _) = title.split_once(':')?;
    let title = title.trim();
    let opens_role = ["system", "instruction", "human", "assistant", "user", "response", "input"]
        .iter()
        .any(|role| title.eq_ignore_ascii_case(role));
    (hashes == 3 && opens_role).then_some(hashes)
}

/// `text` with the words that take turns in plain-text prompts of some models made inert: `Human:` where a paragraph or
/// the text begins, `Assistant:` where a paragraph does; a text may well be one that an assistant said.
pub(super) fn disarm_turns(text: &str) -> Cow<'_, str> {
    if !["Human", "Assistant"].iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let mut disarmed = String::new();
    let mut copied = 0;
    let mut at = 0;
    let mut blank = true;
    for line in text.split_inclusive('\n') {
        let words = line.trim_start();
        let turn = words.strip_prefix("Human").or_else(|| words.strip_prefix("Assistant").filter(|_| at > 0));
        let behind = turn.filter(|_| blank).map(|rest| rest.trim_start_matches(' ')).unwrap_or_default();
        if let Some(colon) = behind.chars().next().filter(|colon| plain(*colon) == ':') {
            let place = at + line.len() - behind.len();
            disarmed.push_str(text.get(copied..place).unwrap_or_default());
            disarmed.push('∶');
            copied = place + colon.len_utf8();
        }
        blank = words.is_empty();
        at += line.len();
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    disarmed.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(disarmed)
}
