//! Fits the prompt copies of a person's files into their token budget.

use skymem_core::files::FileName;
use skymem_core::{Citation, Tokens, estimate_tokens};

use crate::markdown::Piece;

/// How many left-out sections are named before the rest is only counted.
const NAMED: usize = 5;
/// How much of a heading is quoted, in characters.
const QUOTED: usize = 60;

/// What an assistant reads of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) file: FileName,
    /// Its sections, and a last line that names those that were left out.
    pub(crate) text: String,
    pub(crate) tokens: Tokens,
    /// What was left out, in words, if anything.
    pub(crate) left_out: Option<String>,
}

/// The copies of `files`, in their order, within `budget` together.
///
/// Over it, the file that costs most loses its last section, again and again: so a short NOW.md is never lost to a long
/// MEMORY.md. A file's only section is shortened by whole lines instead.
pub(crate) fn fit(files: Vec<(FileName, Vec<Piece>)>, budget: Tokens) -> Vec<Copy> {
    let mut drafts: Vec<Draft> = files.into_iter().map(|(file, pieces)| Draft::new(file, pieces)).collect();
    loop {
        let over = drafts.iter().map(|draft| draft.cost(budget)).sum::<Tokens>().less(budget);
        let costliest = drafts.iter_mut().filter(|draft| !draft.pieces.is_empty()).max_by_key(|draft| draft.kept);
        match costliest {
            Some(draft) if over > Tokens(0) => draft.shorten(over),
            _ => break,
        }
    }
    drafts.into_iter().map(|draft| draft.finish(budget)).collect()
}

struct Draft {
    file: FileName,
    pieces: Vec<Piece>,
    /// What the pieces cost together.
    kept: Tokens,
    /// The headings left out, last first.
    dropped: Vec<String>,
    /// The heading of the section that was shortened.
    cut: Option<String>,
}

impl Draft {
    fn new(file: FileName, pieces: Vec<Piece>) -> Self {
        let kept = pieces.iter().map(|piece| piece.tokens).sum();
        Self { file, pieces, kept, dropped: Vec::new(), cut: None }
    }

    fn cost(&self, budget: Tokens) -> Tokens {
        if self.pieces.is_empty() && self.dropped.is_empty() {
            return Tokens(0);
        }
        let note = self.left_out().map_or(Tokens(0), |left_out| estimate_tokens(&note(&left_out, budget)));
        self.kept + note + estimate_tokens(&Citation::document(self.file.as_str()).0)
    }

    fn shorten(&mut self, over: Tokens) {
        let Some(mut last) = self.pieces.pop() else { return };
        self.kept = self.kept.less(last.tokens);
        if !self.pieces.is_empty() {
            self.dropped.push(last.name);
            return;
        }
        match first_lines(&last.text, last.tokens.less(over)) {
            Some(text) => {
                self.cut = Some(last.name.clone());
                last.tokens = estimate_tokens(&text);
                last.text = text;
                self.kept = last.tokens;
                self.pieces.push(last);
            }
            None => {
                self.cut = None;
                self.dropped.push(last.name);
            }
        }
    }

    /// In words, in the order of the file.
    fn left_out(&self) -> Option<String> {
        let cut = self.cut.iter().map(|name| format!("the end of \"{}\"", quote(name)));
        let dropped = self.dropped.iter().rev().map(|name| format!("\"{}\"", quote(name)));
        let count = self.dropped.len() + usize::from(self.cut.is_some());
        let mut names: Vec<String> = cut.chain(dropped).take(NAMED).collect();
        if count > NAMED {
            names.push(format!("{} more", count - NAMED));
        }
        (count > 0).then(|| names.join(", "))
    }

    fn finish(self, budget: Tokens) -> Copy {
        let tokens = self.cost(budget);
        let left_out = self.left_out();
        let mut parts: Vec<String> = self.pieces.into_iter().map(|piece| piece.text).collect();
        parts.extend(left_out.as_ref().map(|left_out| note(left_out, budget)));
        Copy { file: self.file, text: parts.join("\n\n"), tokens, left_out }
    }
}

fn note(left_out: &str, budget: Tokens) -> String {
    format!("(Left out, over the {} tokens for memory files: {left_out}.)", budget.0)
}

fn quote(name: &str) -> String {
    match name.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// As many whole lines of `text` as `budget` buys, but never all; `None` when that is none.
fn first_lines(text: &str, budget: Tokens) -> Option<String> {
    let mut end = 0;
    let mut spent = Tokens(0);
    for line in text.split_inclusive('\n') {
        spent += estimate_tokens(line);
        if spent > budget || end + line.len() == text.len() {
            break;
        }
        end += line.len();
    }
    let kept = text[..end].trim_end();
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, sections: &[(&str, usize)]) -> (FileName, Vec<Piece>) {
        let pieces = sections
            .iter()
            .map(|(heading, lines)| {
                let text = format!("# {heading}\n{}", vec!["five words on each line"; *lines].join("\n"));
                Piece { name: (*heading).to_owned(), tokens: estimate_tokens(&text), text }
            })
            .collect();
        (name.parse().unwrap(), pieces)
    }

    fn cost(copies: &[Copy]) -> usize {
        copies.iter().map(|copy| copy.tokens.0).sum()
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let copies = fit(vec![file("MEMORY.md", &[("a", 1), ("b", 1)]), file("NOW.md", &[])], Tokens(200));

        assert_eq!(copies[0].text, "# a\nfive words on each line\n\n# b\nfive words on each line");
        assert_eq!((copies[0].left_out.as_ref(), copies[1].tokens), (None, Tokens(0)));
    }

    #[test]
    fn the_longest_file_loses_its_last_sections_and_says_so() {
        let memory = file("MEMORY.md", &[("a", 20), ("b", 20), ("c", 20)]);

        let copies = fit(vec![memory, file("NOW.md", &[("now", 5)])], Tokens(250));

        assert!(copies[0].text.ends_with("(Left out, over the 250 tokens for memory files: \"b\", \"c\".)"));
        assert!(copies[0].text.starts_with("# a"));
        assert_eq!(copies[1].left_out, None);
        assert!(cost(&copies) <= 250, "{}", cost(&copies));
    }

    #[test]
    fn an_only_section_is_shortened_by_lines() {
        let copies = fit(vec![file("MEMORY.md", &[("a", 200)])], Tokens(200));

        assert!(copies[0].text.starts_with("# a\nfive words on each line\n"), "{}", copies[0].text);
        assert_eq!(copies[0].left_out.as_deref(), Some("the end of \"a\""));
        assert!((150..=200).contains(&cost(&copies)), "{}", cost(&copies));
    }

    #[test]
    fn a_line_too_long_for_the_budget_leaves_only_its_name() {
        let text = "word ".repeat(500);
        let piece = Piece { name: "the beginning".into(), tokens: estimate_tokens(&text), text };

        let copies = fit(vec![("NOW.md".parse().unwrap(), vec![piece])], Tokens(100));

        assert_eq!(copies[0].text, "(Left out, over the 100 tokens for memory files: \"the beginning\".)");
    }

    #[test]
    fn many_left_out_sections_are_counted_not_all_named() {
        let sections: Vec<_> =
            (0..50).map(|_| ("a heading that is rather long for a heading, really very long", 3)).collect();

        let copies = fit(vec![file("MEMORY.md", &sections)], Tokens(300));

        let left_out = copies[0].left_out.clone().unwrap();
        assert!(left_out.contains("…\"") && left_out.ends_with(" more"), "{left_out}");
        assert!(cost(&copies) <= 300);
    }
}
