//! Whether something looks like chance, like a password somebody chose, or like what only holds the place of one.

use std::ops::Range;

/// Whether no letter or digit touches what stands at `place`: else it is a piece of something longer.
pub(super) fn stands_alone(text: &str, place: &Range<usize>) -> bool {
    let joins = |c: char| c.is_ascii_alphanumeric();
    let before = text.get(..place.start).and_then(|before| before.chars().next_back());
    let after = text.get(place.end..).and_then(|after| after.chars().next());
    !before.is_some_and(joins) && !after.is_some_and(joins)
}

/// Whether `token` is as uneven as something made by chance: no words, no repetition.
pub(super) fn is_random(token: &str) -> bool {
    let mixed = token.bytes().any(|b| b.is_ascii_digit()) || is_uneven(token);
    mixed && entropy(token) >= 3.0
}

/// Shannon's entropy of the characters, in bits for each.
pub(super) fn entropy(token: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in token.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(token.len()).unwrap_or(u32::MAX)).max(1.0);
    let parts = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / length);
    -parts.map(|part| part * part.log2()).sum::<f64>()
}

/// Whether letters change between large and small more often than in a name such as `accessTokenProvider`.
fn is_uneven(token: &str) -> bool {
    let letters: Vec<bool> =
        token.bytes().filter(u8::is_ascii_alphabetic).map(|byte| byte.is_ascii_uppercase()).collect();
    let changes = letters.iter().zip(letters.iter().skip(1)).filter(|(one, next)| one != next).count();
    changes * 3 >= letters.len()
}

/// Whether `value` looks like a password that somebody has. What is no more than a word is none, unless it is `quoted`:
/// "the password is required".
pub(super) fn is_password(value: &str, quoted: bool) -> bool {
    // A reference to a type or a variable, in a program.
    let value = value.trim_start_matches(['&', '*']);
    let length = value.chars().count();
    if !(6..=200).contains(&length) || holds_a_place(value) || is_about_passwords(value) {
        return false;
    }
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    let signs = value.chars().filter(|c| is_sign(*c)).count();
    let other = value.chars().any(|c| c.is_whitespace() || "()<>{}[]|\\`".contains(c));
    if other || value.contains("://") {
        return false;
    }
    let is_word = digits == 0 && signs == 0;
    match (is_word, quoted) {
        (true, false) => false,
        (true, true) => letters == length,
        // A number alone may be anything, but in the place of a password it is one.
        _ => letters + digits + signs > 0,
    }
}

/// Signs that words are not joined by.
fn is_sign(c: char) -> bool {
    "!@#$%^&*+=?§€~".contains(c)
}

/// Whether `value` only shows where the real one goes: `<password>`, `$PASSWORD`, `********`, `changeme`.
pub(super) fn holds_a_place(value: &str) -> bool {
    const PLACES: [&str; 26] = [
        "password",
        "passwort",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "string",
        "required",
        "optional",
        "hidden",
        "changeme",
        "change_me",
        "change-me",
        "placeholder",
        "example",
        "undefined",
        "default",
        "yourpassword",
        "your_password",
        "your-password",
        "mypassword",
        "incorrect",
        "invalid",
        "redacted",
        "username",
        "boolean",
    ];
    let lower = value.to_lowercase();
    let first = lower.chars().next();
    let marked =
        first.is_some_and(|c| "<${[%(".contains(c)) || lower.starts_with("your") || lower.starts_with("process.");
    let starred = lower.chars().all(|c| "*•.xX-_#?…".contains(c));
    marked || starred || lower.contains("${") || lower.contains("{{") || PLACES.contains(&lower.as_str())
}

/// Whether `value` says how passwords are kept or must be: `sha256-hashed`, `8-digit`, `base64-encoded`.
fn is_about_passwords(value: &str) -> bool {
    const BEGINNINGS: [&str; 9] = ["sha1", "sha2", "sha5", "md5", "bcrypt", "argon2", "base64", "pbkdf2", "utf8"];
    const MEASURES: [&str; 13] = [
        "digit", "char", "letter", "bit", "byte", "day", "minute", "hour", "month", "year", "word", "zeichen",
        "stellig",
    ];
    let lower = value.to_lowercase();
    let after_number = lower.trim_start_matches(|c: char| c.is_ascii_digit());
    let measured = after_number.len() < lower.len()
        && MEASURES.iter().any(|measure| after_number.trim_start_matches(['-', '+']).starts_with(measure));
    measured || BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning))
}

/// Whether `value` is a key or a token that a machine made: long, mixed, and no path and no name.
pub(super) fn is_token(value: &str) -> bool {
    if holds_a_place(value) || value.starts_with(['/', '~', '.']) || value.contains("://") {
        return false;
    }
    let longest = value.split(['.', '_', '/', '-']).max_by_key(|piece| piece.len()).unwrap_or_default();
    let mixed =
        |piece: &str| piece.bytes().any(|b| b.is_ascii_digit()) && piece.bytes().any(|b| b.is_ascii_alphabetic());
    longest.len() >= 12 && (mixed(longest) || is_uneven(longest)) && entropy(value) >= 3.0
}

/// Whether `value` is a UUID, which names things and opens nothing.
pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36 && uuid::Uuid::try_parse(value).is_ok()
}
