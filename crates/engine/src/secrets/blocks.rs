//! Private keys in PEM and its kin: everything from the line that begins the block to the one that ends it.

use super::Secret;

const BEGINS: &str = "-----BEGIN ";
const ENDS: &str = "-----END ";
const DASHES: &str = "-----";

/// Adds the private keys in `text`. One whose end is missing goes as far as it looks like one.
pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| rest.find(BEGINS)) {
        let start = from + at;
        let after = start + BEGINS.len();
        from = after;
        let Some(rest) = text.get(after..) else { return };
        // The title has a few words: `OPENSSH PRIVATE KEY`, `PGP PRIVATE KEY BLOCK`.
        let title_end =
            rest.char_indices().take(60).find(|(_, c)| !(c.is_ascii_uppercase() || *c == ' ' || c.is_ascii_digit()));
        let Some((length, _)) = title_end else { continue };
        let (title, body) = rest.split_at_checked(length).unwrap_or_default();
        if !title.contains("PRIVATE KEY") || !body.starts_with(DASHES) {
            continue;
        }
        let inner_start = after + length + DASHES.len();
        let inner = text.get(inner_start..).unwrap_or_default();
        let length = inner.find(|c: char| !is_inner(c)).unwrap_or(inner.len());
        let mut end = inner_start + inner.get(..length).unwrap_or_default().trim_end().len();
        // Dashes belong to the alphabet too: the end is within what was taken, or begins right after it.
        let taken = text.get(inner_start..).unwrap_or_default().get(..length).unwrap_or_default();
        if let Some(at) = taken.find(ENDS) {
            let close = inner_start + at + ENDS.len();
            let tail = text.get(close..).unwrap_or_default();
            end = tail.find(DASHES).map_or(end, |dashes| close + dashes + DASHES.len());
        }
        found.push(Secret { place: start..end, kind: "private key" });
        from = end;
    }
}

/// What stands between the two lines: base64, headers such as `Proc-Type: 4,ENCRYPTED`, and line ends written out.
fn is_inner(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=-:,.()\\ \r\n\t".contains(c)
}
