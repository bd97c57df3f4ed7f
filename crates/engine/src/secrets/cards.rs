//! Numbers of payment cards: grouped as on a card or in one piece, with the beginning of an issuer and a right check digit.

use super::Secret;

/// How a card groups its digits. In one piece only the usual lengths count: longer ones are ids.
const GROUPINGS: [&[usize]; 8] =
    [&[4, 4, 4, 4, 3], &[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[16], &[15], &[14], &[4, 4, 4, 4, 2]];

/// A run of digits between separators.
struct Group {
    start: usize,
    end: usize,
}

/// Adds the card numbers in `text`.
pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = 0;
    while at < bytes.len() {
        if !is_digit(at) {
            at += 1;
            continue;
        }
        // All groups that follow each other with the same single separator.
        let start = at;
        let (mut groups, mut separator) = (Vec::new(), None);
        loop {
            let begin = at;
            while is_digit(at) {
                at += 1;
            }
            groups.push(Group { start: begin, end: at });
            match bytes.get(at).copied() {
                Some(sign @ (b' ' | b'-')) if is_digit(at + 1) && separator.is_none_or(|known| known == sign) => {
                    separator = Some(sign);
                    at += 1;
                }
                _ => break,
            }
        }
        if is_apart(text, start, at) {
            look(text, &groups, found);
        }
    }
}

/// Whether the digits from `start` to `end` are no part of a name, an amount, a phone number or a hash.
fn is_apart(text: &str, start: usize, end: usize) -> bool {
    let before = text.get(..start).and_then(|before| before.chars().next_back());
    let after = text.get(end..).and_then(|after| after.chars().next());
    let decimal = |sign: Option<char>, digit: Option<char>| {
        matches!(sign, Some('.' | ',')) && digit.is_some_and(|c| c.is_ascii_digit())
    };
    let next = text.get(end..).and_then(|after| after.chars().nth(1));
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '+' | '$' | '€' | '£' | '-' | '/' | '#');
    !before.is_some_and(joins)
        && !matches!(before, Some('.' | ','))
        && !after.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        && !decimal(after, next)
}

fn look(text: &str, groups: &[Group], found: &mut Vec<Secret>) {
    let mut from = 0;
    while let Some(rest) = groups.get(from..).filter(|rest| !rest.is_empty()) {
        let fits = GROUPINGS.iter().find_map(|grouping| {
            let taken = rest.get(..grouping.len())?;
            let same = taken.iter().zip(*grouping).all(|(group, length)| group.end - group.start == *length);
            let place = taken.first()?.start..taken.last()?.end;
            let digits: Vec<u32> = text.get(place.clone())?.chars().filter_map(|c| c.to_digit(10)).collect();
            (same && is_issued(&digits) && checks(&digits)).then_some((place, grouping.len()))
        });
        match fits {
            Some((place, taken)) => {
                found.push(Secret { place, kind: "card number" });
                from += taken;
            }
            None => from += 1,
        }
    }
}

/// Whether an issuer gives numbers of that length with that beginning.
fn is_issued(digits: &[u32]) -> bool {
    let first = |count: usize| digits.iter().take(count).fold(0, |number, digit| number * 10 + digit);
    match digits.len() {
        14 => matches!(first(3), 300..=305) || matches!(first(2), 36 | 38 | 39),
        15 => matches!(first(2), 34 | 37),
        16 => {
            first(1) == 4
                || matches!(first(2), 51..=55 | 62 | 64 | 65)
                || matches!(first(4), 2221..=2720 | 3528..=3589 | 6011)
        }
        18 | 19 => first(1) == 4 || first(2) == 62 || first(4) == 6011,
        _ => false,
    }
}

/// Luhn's check: every second digit from the right counts twice.
fn checks(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| if place % 2 == 0 { *digit } else { (digit * 2) / 10 + (digit * 2) % 10 })
        .sum();
    // All the same digit passes too, and is nobody's.
    sum.is_multiple_of(10) && digits.iter().any(|digit| Some(digit) != digits.first())
}
