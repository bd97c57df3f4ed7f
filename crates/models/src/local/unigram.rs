//! The tokenizer of XLM-RoBERTa: SentencePiece's unigram model. Of all ways to cut a text into known pieces, the likeliest.

use std::collections::HashMap;
use std::ops::Range;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// What stands for a space within pieces.
const SPACE: char = '\u{2581}';

/// Cuts texts into the pieces a model knows.
pub(crate) struct Unigram {
    replacements: HashMap<char, Box<str>>,
    trie: Trie,
    scores: Vec<f32>,
    unknown: u32,
    /// What one unknown character costs: more than any piece.
    unknown_score: f32,
}

impl Unigram {
    /// A tokenizer of `pieces`, whose places are their ids, each with the logarithm of its probability.
    ///
    /// `replacements` are made character by character before anything else. A piece that scores exactly zero is one of the
    /// model's signs, such as `</s>`: no text contains it, whatever it says.
    pub(crate) fn new(pieces: &[(&str, f32)], replacements: HashMap<char, Box<str>>, unknown: u32) -> Self {
        let lowest = pieces.iter().map(|&(_, score)| score).fold(0.0, f32::min);
        let mut sorted: Vec<(&[u8], u32)> = (0_u32..)
            .zip(pieces)
            .filter(|&(_, &(piece, score))| !piece.is_empty() && score != 0.0)
            .map(|(id, &(piece, _))| (piece.as_bytes(), id))
            .collect();
        sorted.sort_unstable();
        Self {
            replacements,
            trie: Trie::new(&sorted),
            scores: pieces.iter().map(|&(_, score)| score).collect(),
            unknown,
            unknown_score: lowest - 10.0,
        }
    }

    /// The ids of the pieces of `text`, in order. Characters without a piece that follow each other are one unknown.
    pub(crate) fn pieces(&self, text: &str) -> Vec<u32> {
        let text = self.normalise(text);
        let cuts = self.best_cuts(&text);

        let mut ids = Vec::new();
        let mut end = text.len();
        while let Some(cut) = cuts.get(end).filter(|_| end > 0) {
            let id = cut.piece.unwrap_or(self.unknown);
            if id != self.unknown || ids.last() != Some(&id) {
                ids.push(id);
            }
            end = cut.start;
        }
        ids.reverse();
        ids
    }

    /// Replaces what the model has never seen, and sets [`SPACE`] before the text and for each run of spaces.
    fn normalise(&self, text: &str) -> String {
        let mut normal = String::with_capacity(text.len() + text.len() / 4 + SPACE.len_utf8());
        normal.push(SPACE);
        // The replacements know no combining marks: letters come composed.
        match is_nfc_quick(text.chars()) {
            IsNormalized::Yes => text.chars().for_each(|c| self.push(c, &mut normal)),
            _ => text.nfc().for_each(|c| self.push(c, &mut normal)),
        }
        normal
    }

    fn push(&self, c: char, normal: &mut String) {
        let mut push = |c: char| {
            if c != ' ' {
                normal.push(c);
            } else if !normal.ends_with(SPACE) {
                normal.push(SPACE);
            }
        };
        match self.replacements.get(&c) {
            Some(replacement) => replacement.chars().for_each(push),
            None => push(c),
        }
    }

    /// For each place in `text` where a character ends, the last cut of the likeliest way to get there.
    fn best_cuts(&self, text: &str) -> Vec<Cut> {
        let mut cuts = vec![Cut::UNREACHED; text.len() + 1];
        cuts[0].score = 0.0;
        for (start, c) in text.char_indices() {
            // Every place is reached: at worst by one unknown character after the other.
            let so_far = cuts[start].score;
            self.trie.prefixes(&text.as_bytes()[start..], |length, id| {
                let score = self.scores.get(id as usize).map_or(f32::NEG_INFINITY, |score| so_far + score);
                cuts[start + length].improve(Cut { score, start, piece: Some(id) });
            });
            cuts[start + c.len_utf8()].improve(Cut { score: so_far + self.unknown_score, start, piece: None });
        }
        cuts
    }
}

#[derive(Clone, Copy)]
struct Cut {
    score: f32,
    start: usize,
    piece: Option<u32>,
}

impl Cut {
    const UNREACHED: Cut = Cut { score: f32::NEG_INFINITY, start: 0, piece: None };

    fn improve(&mut self, other: Cut) {
        if other.score > self.score {
            *self = other;
        }
    }
}

/// All pieces, byte by byte, in three flat lists. Node 0 is the root; the children of a node stand together, in order.
struct Trie {
    bytes: Vec<u8>,
    first_child: Vec<u32>,
    /// The piece that ends at a node, or [`NO_PIECE`].
    piece: Vec<u32>,
}

const NO_PIECE: u32 = u32::MAX;

impl Trie {
    /// A trie of pieces that are sorted and not empty.
    fn new(sorted: &[(&[u8], u32)]) -> Self {
        let mut trie = Self { bytes: vec![0], first_child: Vec::new(), piece: vec![NO_PIECE] };
        // Level by level, so that the children of a node come to stand together.
        let mut level: Vec<_> = std::iter::once(0..sorted.len()).collect();
        let mut depth = 0;
        while !level.is_empty() {
            let mut below = Vec::new();
            for range in level {
                trie.first_child.push(trie.bytes.len() as u32);
                below.extend(trie.add_children(sorted, range, depth));
            }
            level = below;
            depth += 1;
        }
        trie.first_child.push(trie.bytes.len() as u32);
        trie
    }

    /// Adds a node for each byte that stands at `depth` in the pieces of `range`; the ranges of the new nodes.
    fn add_children(&mut self, sorted: &[(&[u8], u32)], range: Range<usize>, depth: usize) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for at in range {
            let Some((&byte, id, ends)) =
                sorted.get(at).and_then(|(piece, id)| Some((piece.get(depth)?, *id, piece.len() == depth + 1)))
            else {
                continue;
            };
            match ranges.last_mut() {
                Some(last) if self.bytes.last() == Some(&byte) => last.end = at + 1,
                _ => {
                    ranges.push(at..at + 1);
                    self.bytes.push(byte);
                    self.piece.push(NO_PIECE);
                }
            }
            if let (true, Some(piece)) = (ends, self.piece.last_mut()) {
                *piece = id;
            }
        }
        ranges
    }

    /// Calls `found` with the length and the id of every piece that `text` begins with.
    fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = 0;
        for (length, byte) in (1..).zip(text) {
            let children = self.first_child[node] as usize..self.first_child[node + 1] as usize;
            let Ok(child) = self.bytes[children.clone()].binary_search(byte) else { return };
            node = children.start + child;
            if self.piece[node] != NO_PIECE {
                found(length, self.piece[node]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: [(&str, f32); 10] = [
        ("<s>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -4.0),
        ("▁mem", -5.0),
        ("ory", -5.5),
        ("▁memory", -9.0),
        ("m", -7.0),
        ("é", -8.0),
        ("▁fi", -6.0),
    ];

    fn check(text: &str, pieces: &[&str]) {
        let replacements = [('\n', " "), ('\u{200B}', ""), ('ﬁ', "fi")].map(|(c, by)| (c, Box::from(by)));
        let tokenizer = Unigram::new(&PIECES, HashMap::from(replacements), 2);
        let found: Vec<&str> = tokenizer.pieces(text).iter().map(|&id| PIECES[id as usize].0).collect();
        assert_eq!(found, pieces, "{text:?}");
    }

    #[test]
    fn the_likeliest_cut_wins() {
        check("memory", &["▁memory"]);
        check("memmory", &["▁mem", "m", "ory"]);
    }

    #[test]
    fn spaces_of_every_kind_and_number_are_one() {
        check("memory memory", &["▁memory", "▁memory"]);
        check("  memory \n\u{200B} memory ", &["▁memory", "▁memory", "▁"]);
        check("", &["▁"]);
    }

    #[test]
    fn characters_without_a_piece_are_one_unknown_together() {
        check("memory漢字", &["▁memory", "<unk>"]);
        check("漢m字", &["▁", "<unk>", "m", "<unk>"]);
    }

    #[test]
    fn a_letter_and_its_accent_are_one_however_they_are_written() {
        check("é", &["▁", "é"]);
        check("e\u{301}", &["▁", "é"]);
        check("ﬁ", &["▁fi"]);
    }

    #[test]
    fn the_signs_of_the_model_cannot_be_typed() {
        check("</s>", &["▁", "<unk>"]);
    }
}
