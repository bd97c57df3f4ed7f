//! Edits a Markdown text by splicing: all but the section that is meant stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::markdown::{Outline, Section, outline};

/// Why an edit cannot be made, in words for the person.
pub(crate) type Refusal = String;

/// `text` with the body of the section at `path` replaced; with the section made when it is missing.
///
/// Blank lines around the old body stay, and so do the sections below it. `body` may hold headings deeper than the
/// section's own, no others.
pub(crate) fn set_section(text: &str, path: &[String], body: &str) -> Result<String, Refusal> {
    let outline = read(text)?;
    let line_end = line_end_of(text);
    let body = converted(body, line_end);
    let (_, body) = middle(&body);
    match (find(&outline, path)?, path.is_empty()) {
        (Some(index), _) => {
            let section = outline.sections.get(index).ok_or_else(confused)?;
            let range = section.body..section.end;
            let new = dressed(text, range.clone(), body, line_end, index + 1 < outline.sections.len());
            spliced(text, &outline, range, &new, Change { keep: index + 1, made: 0, level: section.level })
        }
        (None, true) => {
            // The text before the first heading, where there was none.
            let range = outline.body..outline.sections.first().map_or(text.len(), |section| section.start);
            let new = dressed(text, range.clone(), body, line_end, !outline.sections.is_empty());
            let made = usize::from(!body.is_empty());
            spliced(text, &outline, range, &new, Change { keep: 0, made, level: 0 })
        }
        (None, false) => make_section(text, &outline, path, body, line_end),
    }
}

/// `text` with `addition` as the last paragraph, or list item, of the section at `path`, which is made when it is
/// missing; of the whole text when `path` is empty.
pub(crate) fn append(text: &str, path: &[String], addition: &str) -> Result<String, Refusal> {
    let outline = read(text)?;
    let line_end = line_end_of(text);
    let addition = converted(addition, line_end);
    let (_, addition) = middle(&addition);
    if addition.is_empty() {
        return Err("there is nothing to add".into());
    }
    let index = if path.is_empty() { None } else { find(&outline, path)? };
    let (range, change) = match index.and_then(|index| outline.sections.get(index).map(|section| (index, section))) {
        Some((index, section)) => {
            (section.body..section.end, Change { keep: index + 1, made: 0, level: section.level })
        }
        None if path.is_empty() => {
            // What is added at the very end may open sections of any level.
            (outline.body..text.len(), Change { keep: outline.sections.len(), made: 0, level: 0 })
        }
        None => return make_section(text, &outline, path, addition, line_end),
    };
    let old = &text[range.clone()];
    let (lead, content) = middle(old);
    if content.is_empty() {
        let more = change.keep < outline.sections.len();
        let new = dressed(text, range.clone(), addition, line_end, more);
        return spliced(text, &outline, range, &new, change.at_the_end(path, &outline));
    }
    let at = range.start + lead + content.len();
    let gap = if is_item(content.lines().next_back()) && is_item(addition.lines().next()) {
        line_end.to_owned()
    } else {
        line_end.repeat(2)
    };
    spliced(text, &outline, at..at, &format!("{gap}{addition}"), change)
}

/// `text` without the section at `path` and all sections below it.
pub(crate) fn remove_section(text: &str, path: &[String]) -> Result<String, Refusal> {
    let outline = read(text)?;
    if path.is_empty() {
        return Err(
            "name the section to remove; to clear the text before the first heading, give it an empty body".into()
        );
    }
    let index = find(&outline, path)?.ok_or_else(|| format!("there is no section \"{}\"", path.join(" / ")))?;
    let section = outline.sections.get(index).ok_or_else(confused)?;
    let next = end_of_subtree(&outline, index);
    let end = outline.sections.get(next).map_or(text.len(), |section| section.start);
    let mut left = outline.clone();
    left.sections.drain(index..next);
    let change = Change { keep: index, made: 0, level: 6 };
    spliced(text, &left, section.start..end, "", change)
        // Two neighbours that only this section kept apart.
        .or_else(|_| spliced(text, &left, section.start..end, line_end_of(text), change))
}

/// `text` with the line ends that `like` has, when each of the two has only one kind of them.
pub(crate) fn with_line_ends_of(like: &str, text: String) -> String {
    let crlf = |text: &str| text.contains("\r\n");
    let lf = |text: &str| text.replace("\r\n", "").contains('\n');
    if crlf(like) && !lf(like) && lf(&text) && !crlf(&text) {
        text.replace('\n', "\r\n")
    } else if lf(like) && !crlf(like) && crlf(&text) && !lf(&text) {
        text.replace("\r\n", "\n")
    } else {
        text
    }
}

/// What a splice may change in the outline.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// How many sections at the beginning stay as they are; the last of them may grow or shrink.
    keep: usize,
    /// How many sections are made after them, at least.
    made: usize,
    /// Further sections may appear below this level only.
    level: u8,
}

impl Change {
    /// The first text of an empty file, put at its end, may make a section of level 0.
    fn at_the_end(self, path: &[String], outline: &Outline) -> Self {
        let first = path.is_empty() && outline.sections.is_empty();
        Self { made: self.made + usize::from(first), ..self }
    }
}

/// `text` with `new` in place of `range`.
///
/// Refused when the sections around would no longer read as they did (`outline` says how): because of an open code
/// fence or comment, or a heading of the same or a higher level.
fn spliced(text: &str, before: &Outline, range: Range<usize>, new: &str, change: Change) -> Result<String, Refusal> {
    let spliced = format!("{}{new}{}", &text[..range.start], &text[range.end..]);
    let after = read(&spliced)?;
    let same = |old: &Section, new: &Section| old.path == new.path && old.level == new.level;
    let left = before.sections.len().saturating_sub(change.keep);
    let kept =
        before.sections.iter().take(change.keep).zip(&after.sections).filter(|(old, new)| same(old, new)).count();
    let rest = before.sections.iter().rev().take(left).zip(after.sections.iter().rev());
    let follow = rest.filter(|(old, new)| same(old, new) && old.end - old.start == new.end - new.start).count();
    let whole = change.keep + change.made + left <= after.sections.len()
        && (kept, follow) == (change.keep, left)
        && before.body == after.body;
    let appeared = after.sections.get(change.keep + change.made..after.sections.len().saturating_sub(left));
    let shallow = appeared.unwrap_or_default().iter().find(|section| section.level <= change.level);
    match shallow {
        Some(heading) => Err(format!(
            "the heading \"{}\" (level {}) would begin a section of its own: inside a section of level {} only deeper \
             headings may stand",
            heading.path.last().map_or("", String::as_str),
            heading.level,
            change.level,
        )),
        None if whole => Ok(spliced),
        None => Err("the other sections would no longer read as they do: look for a code fence or a comment that is \
                     not closed, or for headings out of order"
            .into()),
    }
}

/// Makes the section at `path`, and those above it that are missing, after all others of the deepest that is there.
fn make_section(text: &str, outline: &Outline, path: &[String], body: &str, line_end: &str) -> Result<String, Refusal> {
    let mut there = 0;
    let mut index = outline.sections.len();
    let mut level = outline.sections.iter().rfind(|section| section.path.len() == 1).map_or(1, |section| section.level);
    for length in 1..path.len() {
        let Some(parent) = find(outline, path.get(..length).unwrap_or_default())? else { break };
        there = length;
        index = end_of_subtree(outline, parent);
        level = level_below(outline, parent);
    }
    let missing = path.get(there..).unwrap_or_default();
    if usize::from(level) + missing.len() > 7 {
        return Err("Markdown has six levels of headings; this section would need a seventh".into());
    }
    let at = outline.sections.get(index).map_or(text.len(), |section| section.start);
    let more = at < text.len();
    let last_level = level + u8::try_from(missing.len()).unwrap_or(7) - 1;
    let change = Change { keep: index, made: missing.len(), level: last_level };
    let attempt = |title: fn(&str) -> Cow<'_, str>| {
        let mut new = gap_before(text, outline.body, at, line_end);
        let headings =
            missing.iter().zip(level..).map(|(words, level)| format!("{} {}", "#".repeat(level.into()), title(words)));
        let parts: Vec<String> = headings.chain((!body.is_empty()).then(|| body.to_owned())).collect();
        new.push_str(&parts.join(&line_end.repeat(2)));
        new.push_str(&line_end.repeat(if more { 2 } else { 1 }));
        let made = spliced(text, outline, at..at, &new, change)?;
        let last = read(&made)?.sections.get(index + missing.len() - 1).map(|section| section.path == path);
        if last == Some(true) { Ok(made) } else { Err(format!("\"{}\" cannot be a heading", path.join(" / "))) }
    };
    if missing.iter().any(|title| title.is_empty() || title.contains(['\n', '\r'])) {
        return Err("a heading is one line, and not empty".into());
    }
    attempt(|title| Cow::Borrowed(title)).or_else(|refusal| attempt(escaped).map_err(|_| refusal))
}

/// The place of the section at `path`; `None` when there is none.
fn find(outline: &Outline, path: &[String]) -> Result<Option<usize>, Refusal> {
    let mut places = outline.sections.iter().enumerate().filter(|(_, section)| section.path == path);
    let first = places.next();
    match places.count() {
        0 => Ok(first.map(|(index, _)| index)),
        others => Err(format!(
            "there are {} sections \"{}\": give them different headings first",
            others + 1,
            path.join(" / ")
        )),
    }
}

/// The place after the last section below the one at `index`.
fn end_of_subtree(outline: &Outline, index: usize) -> usize {
    let level = outline.sections.get(index).map_or(0, |section| section.level);
    let below = outline.sections.iter().skip(index + 1).take_while(|section| section.level > level).count();
    index + 1 + below
}

/// The level of the last section straight below the one at `index`, or what it would have.
fn level_below(outline: &Outline, index: usize) -> u8 {
    let Some(parent) = outline.sections.get(index) else { return 1 };
    let below = outline.sections.iter().take(end_of_subtree(outline, index)).skip(index + 1);
    below
        .rev()
        .find(|section| section.path.len() == parent.path.len() + 1)
        .map_or(parent.level + 1, |child| child.level)
}

/// `body` with the blank lines around it that `text[range]` has, or that a section should have.
fn dressed(text: &str, range: Range<usize>, body: &str, line_end: &str, more: bool) -> String {
    let old = &text[range.clone()];
    let (lead, content) = middle(old);
    let tail = &old[lead + content.len()..];
    let opened = range.start == 0 || text[..range.start].ends_with(['\n', '\r', '\u{FEFF}']);
    let mut new = String::new();
    if body.is_empty() {
        return match (content.is_empty(), more) {
            (true, _) => old.to_owned(),
            (false, true) => line_end.to_owned(),
            (false, false) => new,
        };
    }
    if !opened {
        new.push_str(line_end);
    }
    if !content.is_empty() {
        new.push_str(&old[..lead]);
    } else if range.start > 0 && text[..range.start].ends_with(['\n', '\r']) || !opened {
        new.push_str(line_end);
    }
    new.push_str(body);
    let blank_lines = tail.matches('\n').count();
    if !content.is_empty() && (blank_lines > 1 || !more) {
        new.push_str(tail);
    } else {
        new.push_str(&line_end.repeat(if more { 2 } else { 1 }));
    }
    new
}

/// What must stand between the text before `at` and a new heading.
fn gap_before(text: &str, body: usize, at: usize, line_end: &str) -> String {
    let before = &text[body..at];
    if before.trim().is_empty() {
        return String::new();
    }
    let (lead, content) = middle(before);
    let line_ends = before[lead + content.len()..].matches('\n').count();
    line_end.repeat(2_usize.saturating_sub(line_ends))
}

/// The bytes of blank lines at the beginning, and what stands between those and the line end before the blank lines at
/// the end.
fn middle(text: &str) -> (usize, &str) {
    let lead = text.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum::<usize>();
    let content = text.get(lead..).unwrap_or_default();
    let blank_end: usize =
        content.split_inclusive('\n').rev().take_while(|line| line.trim().is_empty()).map(str::len).sum();
    let content = content.get(..content.len() - blank_end).unwrap_or_default();
    let content = content.strip_suffix('\n').unwrap_or(content);
    (lead, content.strip_suffix('\r').unwrap_or(content))
}

fn is_item(line: Option<&str>) -> bool {
    let line = line.unwrap_or_default().trim_start();
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = digits.len() < line.len() && (digits.starts_with(". ") || digits.starts_with(") "));
    numbered || ["- ", "* ", "+ "].iter().any(|bullet| line.starts_with(bullet))
}

/// The line end that most lines of `text` have.
fn line_end_of(text: &str) -> &'static str {
    let crlf = text.matches("\r\n").count();
    if crlf * 2 > text.matches('\n').count() { "\r\n" } else { "\n" }
}

fn converted(text: &str, line_end: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', line_end)
}

fn escaped(title: &str) -> Cow<'_, str> {
    let mut escaped = String::with_capacity(title.len() * 2);
    for c in title.chars() {
        if c.is_ascii_punctuation() {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    Cow::Owned(escaped)
}

fn read(text: &str) -> Result<Outline, Refusal> {
    outline(text).map_err(|bad| format!("the front matter does not parse at line {}", bad.line))
}

fn confused() -> Refusal {
    "the section cannot be found".into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(headings: &str) -> Vec<String> {
        if headings.is_empty() { Vec::new() } else { headings.split('/').map(str::to_owned).collect() }
    }

    fn check_set(text: &str, headings: &str, body: &str, expected: &str) {
        assert_eq!(set_section(text, &path(headings), body).as_deref(), Ok(expected), "{text:?} {headings} {body:?}");
    }

    fn check_append(text: &str, headings: &str, body: &str, expected: &str) {
        assert_eq!(append(text, &path(headings), body).as_deref(), Ok(expected), "{text:?} {headings} {body:?}");
    }

    fn check_remove(text: &str, headings: &str, expected: &str) {
        assert_eq!(remove_section(text, &path(headings)).as_deref(), Ok(expected), "{text:?} {headings}");
    }

    fn check_refused(result: Result<String, Refusal>, complaint: &str) {
        let refusal = result.unwrap_err();
        assert!(refusal.contains(complaint), "{refusal}");
    }

    #[test]
    fn a_body_is_replaced_and_the_lines_around_it_stay() {
        check_set("# A\n\nold\n\n\n# B\ny\n", "A", "new", "# A\n\nnew\n\n\n# B\ny\n");
        check_set("# A\nold", "A", "new", "# A\nnew");
        check_set("# A\nold\n# B\n", "A", "new\nlines\n", "# A\nnew\nlines\n\n# B\n");
        check_set("# A\n# B\n", "A", "new", "# A\n\nnew\n\n# B\n");
        check_set("# A", "A", "new", "# A\n\nnew\n");
        check_set("# A\nold\n## C\nx\n", "A", "new", "# A\nnew\n\n## C\nx\n");
        check_set("# A\nold\n# B\ny", "A", "", "# A\n\n# B\ny");
        check_set("# A\nold\n\nB\n===\ny", "A", "new", "# A\nnew\n\nB\n===\ny");
    }

    #[test]
    fn windows_line_ends_stay() {
        check_set("# A\r\nold\r\n\r\n# B\r\n", "A", "new\nlines", "# A\r\nnew\r\nlines\r\n\r\n# B\r\n");
        check_append("# A\r\nold\r\n", "A", "new", "# A\r\nold\r\n\r\nnew\r\n");
        assert_eq!(with_line_ends_of("a\r\nb\r\n", "x\ny\n".into()), "x\r\ny\r\n");
        assert_eq!(with_line_ends_of("a\nb\r\n", "x\ny\n".into()), "x\ny\n");
        assert_eq!(with_line_ends_of("a\n", "x\r\n".into()), "x\n");
    }

    #[test]
    fn the_text_before_the_first_heading_is_a_section_too() {
        check_set("old\n\n# A\n", "", "new", "new\n\n# A\n");
        check_set("# A\n", "", "new", "new\n\n# A\n");
        check_set("", "", "new", "new\n");
        check_set("---\nalways: true\n---\n# A\n", "", "new", "---\nalways: true\n---\n\nnew\n\n# A\n");
        check_refused(set_section("# A\n", &[], "---\nalways: true\n---"), "no longer read");
    }

    #[test]
    fn a_missing_section_is_made_where_its_kin_stand() {
        check_set("", "A", "x", "# A\n\nx\n");
        check_set("# A\nx", "B", "y", "# A\nx\n\n# B\n\ny\n");
        check_set("## A\nx\n", "B", "y", "## A\nx\n\n## B\n\ny\n");
        check_set("# A\n## a\nx\n# B\n", "A/b", "y", "# A\n## a\nx\n\n## b\n\ny\n\n# B\n");
        check_set("# A\n#### a\n", "A/b", "y", "# A\n#### a\n\n#### b\n\ny\n");
        check_append("# A\n", "A/b/c", "y", "# A\n\n## b\n\n### c\n\ny\n");
        check_set("x\n", "C* <b>", "y", "x\n\n# C* \\<b\\>\n\ny\n".replace("C* ", "C\\* ").as_str());
        check_refused(set_section("", &path("1/2/3/4/5/6/7"), "y"), "six levels");
        check_refused(set_section("", &["two\nlines".to_owned()], "y"), "one line");
        check_refused(set_section("```\nopen", &path("A"), "y"), "not closed");
    }

    #[test]
    fn what_is_added_stands_last_in_its_section() {
        check_append("# A\nx\n\n# B\ny\n", "A", "z", "# A\nx\n\nz\n\n# B\ny\n");
        check_append("# A\n- x\n\n# B\n", "A", "- z\n", "# A\n- x\n- z\n\n# B\n");
        check_append("# A\n1. x", "A", "2. z", "# A\n1. x\n2. z");
        check_append("# A\n# B\n", "A", "z", "# A\n\nz\n\n# B\n");
        check_append("# A\nx\n", "", "# B\nz", "# A\nx\n\n# B\nz\n");
        check_append("", "", "z", "z\n");
        check_append("x\n\n\n", "", "z", "x\n\nz\n\n\n");
        check_refused(append("# A\n", &path("A"), "  \n"), "nothing");
    }

    #[test]
    fn a_section_goes_with_all_below_it() {
        check_remove("# A\nx\n## B\ny\n### C\nz\n## D\n", "A/B", "# A\nx\n## D\n");
        check_remove("# A\nx", "A", "");
        check_remove("# A\nx\n# B\ny\n", "B", "# A\nx\n");
        check_remove("x\n# A\nB\n===\n", "A", "x\n\nB\n===\n");
        check_refused(remove_section("# A\n", &path("B")), "no section \"B\"");
        check_refused(remove_section("# A\n", &[]), "name the section");
    }

    #[test]
    fn an_edit_that_would_change_other_sections_is_refused() {
        check_refused(set_section("# A\nx\n# B\n", &path("A"), "```\nopen"), "not closed");
        check_refused(set_section("# A\nx\n# B\n", &path("A"), "<!-- open"), "not closed");
        check_refused(set_section("# A\nx\n", &path("A"), "# B\ny"), "only deeper");
        check_refused(set_section("## A\nx\n", &path("A"), "B\n---"), "only deeper");
        check_refused(set_section("# A\nx\n# A\ny", &path("A"), "z"), "2 sections");
        check_set("# A\nx\n", "A", "## B\ny", "# A\n## B\ny\n");
    }

    /// Text made of what trips Markdown readers up.
    fn markdown() -> impl Strategy<Value = String> {
        let line = prop_oneof![
            Just("# A"),
            Just("## B"),
            Just("### C"),
            Just("D"),
            Just("==="),
            Just("---"),
            Just("```"),
            Just("~~~"),
            Just(""),
            Just("    # code"),
            Just("> # quote"),
            Just("- item"),
            Just("<!-- c -->"),
            Just("<!--"),
            Just("-->"),
            Just("words and 中文"),
            Just("always: true"),
            Just("<div>"),
            Just("\t"),
            Just("#"),
            Just("\u{FEFF}"),
        ];
        let end = prop_oneof![Just("\n"), Just("\r\n"), Just("\r")];
        (prop::collection::vec((line, end), 0..24), any::<bool>()).prop_map(|(lines, cut)| {
            let mut text: String = lines.into_iter().flat_map(|(line, end)| [line, end]).collect();
            if cut {
                text.truncate(text.trim_end().len());
            }
            text
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn sections_cover_the_text_without_overlap(text in markdown()) {
            if let Ok(outline) = outline(&text) {
                let mut at = outline.sections.first().map_or(text.len(), |section| section.start);
                for section in &outline.sections {
                    prop_assert_eq!(section.start, at);
                    prop_assert!(section.start <= section.body && section.body <= section.end);
                    prop_assert!(text.is_char_boundary(section.body) && text.is_char_boundary(section.end));
                    at = section.end;
                }
                prop_assert_eq!(at, text.len());
                crate::markdown::prompt_copy(&text, &outline);
            }
        }

        #[test]
        fn a_new_body_changes_only_its_sections_bytes(text in markdown(), body in markdown(), pick in any::<prop::sample::Index>()) {
            let Ok(before) = outline(&text) else { return Ok(()) };
            if before.sections.is_empty() { return Ok(()) }
            let section = &before.sections[pick.index(before.sections.len())];

            if let Ok(after) = set_section(&text, &section.path, &body) {
                prop_assert!(after.starts_with(&text[..section.body]));
                prop_assert!(after[section.body..].ends_with(&text[section.end..]));
                let again = outline(&after).unwrap();
                let others = |outline: &Outline| outline.sections.iter().filter(|other| other.start < section.start).count();
                prop_assert_eq!(others(&before), others(&again));
            }
            if let Ok(after) = append(&text, &section.path, &body) {
                // Without a path it is the end of the whole text.
                let end = if section.path.is_empty() { text.len() } else { section.end };
                prop_assert!(after.starts_with(text[..end].trim_end()));
                prop_assert!(after.ends_with(&text[end..]));
            }
            if let Ok(after) = remove_section(&text, &section.path) {
                prop_assert!(after.starts_with(&text[..section.start]));
            }
        }

        #[test]
        fn writing_the_same_body_twice_is_writing_it_once(text in markdown(), body in markdown()) {
            let path = [String::from("A"), String::from("E")];
            if let Ok(once) = set_section(&text, &path, &body)
                && let Ok(twice) = set_section(&once, &path, &body)
            {
                // The body's own deeper headings have become sections of their own.
                if outline(&once).unwrap().sections.iter().filter(|section| section.path.starts_with(&path)).count() == 1 {
                    prop_assert_eq!(once, twice);
                }
            }
        }
    }
}
