//! Cutting a long text into parts that can be read alone: at code blocks, steps and paragraphs, and only if need be at
//! sentences, words or characters.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// The byte ranges of `text` that cost at most `most` each by `cost`. Together they hold everything but white space at
/// the seams. A text that fits is one part; an empty one has none.
pub(crate) fn parts(text: &str, most: usize, cost: &dyn Fn(&str) -> usize) -> Vec<Range<usize>> {
    let whole = trimmed(text, 0..text.len());
    if whole.is_empty() {
        return Vec::new();
    }
    if cost(&text[whole.clone()]) <= most {
        return vec![whole];
    }
    pour(text, &blocks(text), most, cost, &mut |text, block, most, cost, out| {
        let sentences = text[block.clone()].split_sentence_bound_indices();
        let sentences: Vec<_> = sentences.map(|(at, s)| block.start + at..block.start + at + s.len()).collect();
        out.extend(pour(text, &sentences, most, cost, &mut |text, sentence, most, cost, out| {
            halve(text, sentence, most, cost, out);
        }));
    })
}

type Finer<'a> = dyn FnMut(&str, Range<usize>, usize, &dyn Fn(&str) -> usize, &mut Vec<Range<usize>>) + 'a;

/// Joins neighbouring `pieces` as long as they fit; one that is too large alone is cut `finer`.
fn pour(
    text: &str,
    pieces: &[Range<usize>],
    most: usize,
    cost: &dyn Fn(&str) -> usize,
    finer: &mut Finer<'_>,
) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    for piece in pieces {
        if let Some(part) = &open {
            let joined = part.start..piece.end;
            if cost(&text[joined.clone()]) <= most {
                open = Some(joined);
                continue;
            }
            out.extend(open.take());
        }
        if cost(&text[piece.clone()]) <= most {
            open = Some(piece.clone());
        } else {
            finer(text, piece.clone(), most, cost, &mut out);
        }
    }
    out.extend(open);
    out.into_iter().map(|part| trimmed(text, part)).filter(|part| !part.is_empty()).collect()
}

/// Cuts in the middle, at white space if there is some near, until every part fits.
fn halve(text: &str, range: Range<usize>, most: usize, cost: &dyn Fn(&str) -> usize, out: &mut Vec<Range<usize>>) {
    let piece = &text[range.clone()];
    if cost(piece) <= most || piece.chars().nth(1).is_none() {
        out.push(range);
        return;
    }
    let middle = piece.len() / 2;
    let space = piece[..floor_boundary(piece, middle)].rfind(char::is_whitespace).filter(|&at| at > piece.len() / 4);
    let mut cut = space.unwrap_or_else(|| floor_boundary(piece, middle));
    if cut == 0 {
        cut = piece.chars().next().map_or(0, char::len_utf8);
    }
    halve(text, range.start..range.start + cut, most, cost, out);
    halve(text, range.start + cut..range.end, most, cost, out);
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Fenced code, numbered or bulleted steps, and paragraphs, in order and without gaps.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut start = 0;
    let mut fence: Option<&str> = None;
    let mut blank_before = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| bare.starts_with(marker));
        let opens = fence.is_none() && (blank_before || marker.is_some() || is_step(bare));
        if opens && at > start {
            blocks.push(start..at);
            start = at;
        }
        match (fence, marker) {
            (None, Some(marker)) => fence = Some(marker),
            (Some(open), Some(marker)) if open == marker => {
                fence = None;
                blocks.push(start..at + line.len());
                start = at + line.len();
            }
            _ => {}
        }
        blank_before = bare.is_empty();
        at += line.len();
    }
    if start < text.len() {
        blocks.push(start..text.len());
    }
    blocks
}

/// Whether a line begins a step: `1. `, `2) `, `- `, `* `, `Step 3`, or a heading.
fn is_step(line: &str) -> bool {
    let after_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered =
        after_digits.len() < line.len() && (after_digits.starts_with(". ") || after_digits.starts_with(") "));
    numbered || ["- ", "* ", "+ ", "# ", "## ", "### ", "Step "].iter().any(|sign| line.starts_with(sign))
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start().len());
    let end = range.end - (piece.len() - piece.trim_end().len());
    start..end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn check(text: &str, most: usize, expected: &[&str]) {
        let parts: Vec<&str> = parts(text, most, &words).into_iter().map(|range| &text[range]).collect();
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_text_is_cut_at_paragraphs_steps_and_code() {
        check("one two\n\nthree four", 10, &["one two\n\nthree four"]);
        check("one two\n\nthree four", 3, &["one two", "three four"]);
        check("intro here\n1. first step\n2. second step", 3, &["intro here", "1. first step", "2. second step"]);
        check(
            "see\n```\nfn a() {}\n\nfn b() {}\n```\nthat was all of it",
            8,
            &["see", "```\nfn a() {}\n\nfn b() {}\n```", "that was all of it"],
        );
        check("", 3, &[]);
        check(" \n ", 3, &[]);
    }

    #[test]
    fn a_paragraph_that_is_too_long_is_cut_at_its_sentences() {
        check("One two three. Four five six. Seven.", 3, &["One two three.", "Four five six.", "Seven."]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_every_part_fits(text in "([a-zä一 .\n`0-9-]|```\n){0,300}", most in 1_usize..30) {
            let cost = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            let parts = parts(&text, most, &cost);
            let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let joined: String = parts.iter().map(|range| solid(&text[range.clone()])).collect();
            prop_assert_eq!(joined, solid(&text));
            for range in &parts {
                prop_assert!(cost(&text[range.clone()]) <= most);
            }
        }
    }
}
