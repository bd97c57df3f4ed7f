//! Reads Markdown: front matter, sections by byte range, and the copy that goes into a prompt.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use serde::Deserialize;
use skymem_core::files::FileSection;
use skymem_core::{Tokens, estimate_tokens};

/// What a Markdown text is made of. All offsets are bytes of the whole text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The first byte after byte order mark and front matter.
    pub(crate) body: usize,
    /// What the front matter says about loading the file, if it does.
    pub(crate) always: Option<bool>,
    /// In order, without overlap, from the first heading to the end; what stands before it is a section of level 0.
    pub(crate) sections: Vec<Section>,
}

/// A heading and what stands under it up to the next heading of whatever level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// The headings above it and its own, outermost first.
    pub(crate) path: Vec<String>,
    /// 1 to 6; 0 for what stands before the first heading.
    pub(crate) level: u8,
    /// The first byte of its heading line.
    pub(crate) start: usize,
    /// The first byte after its heading line.
    pub(crate) body: usize,
    /// The byte after its last.
    pub(crate) end: usize,
}

/// A part of a prompt copy: what is left out when the budget is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its heading.
    pub(crate) name: String,
    /// Its heading line and body, without comments.
    pub(crate) text: String,
    /// What it costs.
    pub(crate) tokens: Tokens,
}

/// The line of a file at which its front matter does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadFrontMatter {
    pub(crate) line: u64,
}

/// The outline of `text`.
///
/// A heading counts when it stands at the outermost level: one in a quote, a list, code or a comment does not.
pub(crate) fn outline(text: &str) -> Result<Outline, BadFrontMatter> {
    let (body, always) = front_matter(text)?;
    let mut sections: Vec<Section> = Vec::new();
    let mut titles: Vec<(u8, String)> = Vec::new();
    for heading in headings(text, body) {
        if let Some(last) = sections.last_mut() {
            last.end = heading.start;
        } else if !text[body..heading.start].trim().is_empty() {
            sections.push(Section { path: Vec::new(), level: 0, start: body, body, end: heading.start });
        }
        titles.retain(|(level, _)| *level < heading.level);
        titles.push((heading.level, heading.title));
        sections.push(Section {
            path: titles.iter().map(|(_, title)| title.clone()).collect(),
            level: heading.level,
            start: heading.start,
            body: heading.body,
            end: text.len(),
        });
    }
    if sections.is_empty() && !text[body..].trim().is_empty() {
        sections.push(Section { path: Vec::new(), level: 0, start: body, body, end: text.len() });
    }
    Ok(Outline { body, always, sections })
}

impl From<&Section> for FileSection {
    fn from(section: &Section) -> Self {
        Self { path: section.path.clone(), level: section.level, start: section.start, end: section.end }
    }
}

/// What an assistant reads of `text`, section by section: without front matter and comments, with plain line ends, and
/// without the sections that hold nothing but comments.
pub(crate) fn prompt_copy(text: &str, outline: &Outline) -> Vec<Piece> {
    let comments = comments(text, outline.body);
    let mut rest = comments.as_slice();
    let mut pieces: Vec<(u8, bool, Piece)> = Vec::new();
    for section in &outline.sections {
        let mine = rest.partition_point(|comment| comment.start < section.end);
        let (cuts, after) = rest.split_at(mine);
        rest = after;
        let body = without(text, section.body..section.end, cuts);
        let empty = !cuts.is_empty() && body.trim().is_empty();
        let heading = &text[section.start..section.body];
        let copy = format!("{heading}{body}").replace("\r\n", "\n").replace('\r', "\n");
        let copy = copy.trim_start_matches('\n').trim_end().to_owned();
        let name = section.path.last().cloned().unwrap_or_else(|| "the beginning".to_owned());
        let tokens = estimate_tokens(&copy);
        pieces.push((section.level, empty, Piece { name, text: copy, tokens }));
    }
    without_placeholders(pieces)
}

/// Drops the sections that are empty but for comments and have no section below them that is not.
fn without_placeholders(pieces: Vec<(u8, bool, Piece)>) -> Vec<Piece> {
    // From the end: `below[level]` says whether a kept section of that level stands below the next one to the left.
    let mut below = [false; 8];
    let mut kept = Vec::with_capacity(pieces.len());
    for (level, empty, piece) in pieces.into_iter().rev() {
        let level = usize::from(level.min(6));
        let (_, deeper) = below.split_at_mut(level + 1);
        let keep = !empty || deeper.contains(&true);
        deeper.fill(false);
        if let Some(here) = below.get_mut(level) {
            *here = keep || *here;
        }
        if keep {
            kept.push(piece);
        }
    }
    kept.reverse();
    kept.retain(|piece| !piece.text.trim().is_empty());
    kept
}

/// `text[range]` without `cuts`; a line that held nothing but a cut goes with it.
fn without(text: &str, range: Range<usize>, cuts: &[Range<usize>]) -> String {
    let mut left = String::with_capacity(range.len());
    let mut at = range.start;
    for cut in cuts {
        let start = cut.start.max(at);
        let end = cut.end.clamp(start, range.end);
        let before = text[at..start].rfind('\n').map_or(at, |newline| at + newline + 1);
        let after = text[end..range.end].find('\n').map_or(range.end, |newline| end + newline + 1);
        let alone = text[before..start].trim().is_empty() && text[end..after].trim().is_empty();
        let (start, end) = if alone { (before, after) } else { (start, end) };
        left.push_str(&text[at..start]);
        at = end;
    }
    left.push_str(&text[at..range.end]);
    left
}

/// Where the HTML comments of `text` are. One that is never closed hides nothing.
fn comments(text: &str, body: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut block: Option<Range<usize>> = None;
    for (event, range) in Parser::new_ext(&text[body..], Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) => block = Some(range),
            Event::End(TagEnd::HtmlBlock) => {
                let Some(range) = block.take() else { continue };
                let mut at = body + range.start;
                let end = body + range.end;
                while let Some(open) = text[at..end].find("<!--").map(|offset| at + offset) {
                    let Some(close) = text[open..end].find("-->").map(|offset| open + offset + 3) else { break };
                    found.push(open..close);
                    at = close;
                }
            }
            Event::InlineHtml(html) if html.starts_with("<!--") => found.push(body + range.start..body + range.end),
            _ => {}
        }
    }
    found
}

struct Heading {
    level: u8,
    title: String,
    start: usize,
    body: usize,
}

fn headings(text: &str, body: usize) -> Vec<Heading> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    let mut open: Option<Heading> = None;
    for (event, range) in Parser::new_ext(&text[body..], Options::empty()).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                depth += 1;
                open = Some(Heading {
                    level: number(level),
                    title: String::new(),
                    start: line_start(text, body, body + range.start),
                    body: line_end(text, body + range.end),
                });
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                if depth == 0
                    && let Some(mut heading) = open.take()
                {
                    heading.title = heading.title.trim().to_owned();
                    found.push(heading);
                }
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut open {
                    heading.title.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(heading) = &mut open {
                    heading.title.push(' ');
                }
            }
            _ => {}
        }
    }
    found
}

fn number(level: HeadingLevel) -> u8 {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// The first byte of the line that `at` is in, not before `least`.
fn line_start(text: &str, least: usize, at: usize) -> usize {
    text[least..at].rfind(['\n', '\r']).map_or(least, |newline| least + newline + 1)
}

/// The first byte after the line that ends at or after `at`; `at` itself when a line begins there.
fn line_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).and_then(|index| bytes.get(index)).copied();
    match (before, bytes.get(at)) {
        (Some(b'\r'), Some(b'\n')) => at + 1,
        (Some(b'\n' | b'\r'), _) => at,
        _ => match text[at..].find(['\n', '\r']).map(|offset| at + offset) {
            Some(newline) if text[newline..].starts_with("\r\n") => newline + 2,
            Some(newline) => newline + 1,
            None => text.len(),
        },
    }
}

#[derive(Default, Deserialize)]
struct FrontMatter {
    always: Option<bool>,
}

/// Where the body begins, and what the lines between two `---` at the very beginning say.
fn front_matter(text: &str) -> Result<(usize, Option<bool>), BadFrontMatter> {
    let start = if text.starts_with('\u{FEFF}') { '\u{FEFF}'.len_utf8() } else { 0 };
    let mut lines = text[start..].split_inclusive('\n');
    let Some(fence) = lines.next().filter(|line| line.trim_end() == "---") else { return Ok((start, None)) };
    let yaml = start + fence.len();
    let mut end = yaml;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            let text = &text[yaml..end];
            let body = end + line.len();
            if text.trim().is_empty() {
                return Ok((body, None));
            }
            // The error's words may quote the file; the line says enough.
            return match serde_saphyr::from_str::<FrontMatter>(text) {
                Ok(front) => Ok((body, front.always)),
                Err(error) => Err(BadFrontMatter { line: 1 + error.location().map_or(1, |at| at.line().max(1)) }),
            };
        }
        end += line.len();
    }
    // Never closed: a thematic break, no front matter.
    Ok((start, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sections of `text` as `level path/to: body`.
    fn check(text: &str, expected: &[&str]) {
        let outline = outline(text).unwrap();
        let found: Vec<_> = outline
            .sections
            .iter()
            .map(|section| {
                let body = text[section.body..section.end].replace("\r\n", "\n");
                format!("{} {}: {}", section.level, section.path.join("/"), body.trim())
            })
            .collect();
        assert_eq!(found, expected, "{text:?}");
        let mut at = outline.sections.first().map_or(text.len(), |section| section.start);
        for section in &outline.sections {
            assert_eq!(section.start, at, "{text:?}");
            assert!(section.start <= section.body && section.body <= section.end, "{text:?}");
            at = section.end;
        }
        assert_eq!(at, text.len(), "{text:?}");
    }

    #[test]
    fn a_section_is_a_heading_and_what_follows_up_to_the_next() {
        check("", &[]);
        check("\n \n", &[]);
        check("just words", &["0 : just words"]);
        check("# A\nx\n## B\ny\n# C\nz", &["1 A: x", "2 A/B: y", "1 C: z"]);
        check("before\n# A\nx", &["0 : before", "1 A: x"]);
        check("# A\n# A\n", &["1 A: ", "1 A: "]);
        check("### deep\n# A\n###### F\n## B", &["3 deep: ", "1 A: ", "6 A/F: ", "2 A/B: "]);
    }

    #[test]
    fn headings_come_in_two_dresses() {
        check("A\n===\nx\n\nB\n---\ny", &["1 A: x", "2 A/B: y"]);
        check("two\nlines\n===\nx", &["1 two lines: x"]);
        check("  # A #\nx", &["1 A: x"]);
        check("# **A** `b` [c](d)\nx", &["1 A b c: x"]);
        check("#\nx", &["1 : x"]);
    }

    #[test]
    fn what_only_looks_like_a_heading_is_none() {
        check("# A\n```\n# b\n```\nx", &["1 A: ```\n# b\n```\nx"]);
        check("# A\n~~~\n# open to the end", &["1 A: ~~~\n# open to the end"]);
        check("# A\n    # code", &["1 A: # code"]);
        check("# A\n<!--\n# b\n-->", &["1 A: <!--\n# b\n-->"]);
        check("# A\n> # b\n\n- # c", &["1 A: > # b\n\n- # c"]);
        check("#hashtag", &["0 : #hashtag"]);
    }

    #[test]
    fn windows_files_are_read_like_others() {
        check("\u{FEFF}# A\r\nx\r\n\r\nB\r\n---\r\ny\r\n", &["1 A: x", "2 A/B: y"]);
        check("\u{FEFF}---\r\nalways: true\r\n---\r\n# A\r\n", &["1 A: "]);
    }

    #[test]
    fn front_matter_says_whether_a_file_is_loaded() {
        let always = |text: &str| outline(text).map(|outline| outline.always);
        assert_eq!(always("---\nalways: true\ntitle: x\n---\n# A"), Ok(Some(true)));
        assert_eq!(always("---\nalways: false\n..."), Ok(Some(false)));
        assert_eq!(always("---\n---\nx"), Ok(None));
        assert_eq!(always("---\nnot closed"), Ok(None));
        assert_eq!(always("x\n---\nalways: true\n---\n"), Ok(None));
        assert_eq!(always("---\ntitle: x\nalways: [\n---\n"), Err(BadFrontMatter { line: 3 }));
        assert_eq!(always("---\nalways: perhaps\n---\n"), Err(BadFrontMatter { line: 2 }));
    }

    fn check_copy(text: &str, expected: &str) {
        let pieces = prompt_copy(text, &outline(text).unwrap());
        let copy = pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>().join("|");
        assert_eq!(copy, expected, "{text:?}");
    }

    #[test]
    fn comments_stay_out_of_the_prompt() {
        check_copy("# A\r\n<!-- hint -->\r\nx <!-- y --> z\r\n", "# A\nx  z");
        check_copy("# A\n\n<!-- two\nlines -->\n\nx", "# A\n\n\nx");
        check_copy("# A\n<div>\n<!-- a --> b <!-- c -->\n</div>", "# A\n<div>\n b \n</div>");
        check_copy("# A\n`<!-- code -->`\n```\n<!-- code -->\n```", "# A\n`<!-- code -->`\n```\n<!-- code -->\n```");
        check_copy("# A\n<!-- never closed\nx", "# A\n<!-- never closed\nx");
    }

    #[test]
    fn a_section_with_nothing_but_a_hint_is_left_out() {
        check_copy(include_str!("../../../memory-files/NOW.md"), "");
        check_copy(include_str!("../../../memory-files/MEMORY.md"), "");
        check_copy("# A\n<!-- h -->\n## B\n<!-- h -->\n## C\nx\n# D\n<!-- h -->", "# A|## C\nx");
        check_copy("# I am Anna\n# Be brief", "# I am Anna|# Be brief");
    }
}
