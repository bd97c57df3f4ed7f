//! Secrets that only their surroundings give away: passwords, keys in assignments, headers, addresses with a password.

use std::sync::LazyLock;

use regex::Regex;

use super::Secret;
use super::likeness::{holds_a_place, is_password, is_token, is_uuid};

/// Adds the secrets in `text` that are told to be secrets.
pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    for rule in RULES.iter() {
        for hit in rule.pattern.captures_iter(text) {
            let Some(value) = hit.name("quoted").or_else(|| hit.name("bare")) else { continue };
            let quoted = hit.name("quoted").is_some();
            let said = if quoted { value.as_str() } else { trimmed(value.as_str()) };
            if (rule.fits)(said, quoted) {
                let place = value.start()..value.start() + said.len();
                found.push(Secret { place, kind: rule.kind });
            }
        }
    }
}

/// Whether a name announces a secret, so that the value under it in an object is one: `{"password": "..."}`.
pub(super) fn kind_under(name: &str, value: &str) -> Option<&'static str> {
    // An object is an assignment in another writing. What stands within the value is another matter.
    let line = format!("{name}: \"{value}\"");
    let mut found = Vec::new();
    find(&line, &mut found);
    let whole = line.len() - value.len() - 1..line.len() - 1;
    found.iter().find(|secret| secret.place == whole).map(|secret| secret.kind)
}

/// Without the marks that end a sentence or close a bracket.
fn trimmed(value: &str) -> &str {
    value.trim_end_matches(['.', ',', ';', ':', '?', ')', '"', '\'', '*', '`', '”', '’', '…'])
}

/// Whether a value is a secret of the kind; and whether it stood in quotes.
type Fits = fn(&str, bool) -> bool;

struct Rule {
    kind: &'static str,
    pattern: Regex,
    fits: Fits,
}

/// How people call a password.
const PASSWORD: &str =
    r"(?:pass(?:word|wd|phrase|code)|passwort|kennwort|pwd|mot de passe|contrase(?:ñ|n)a|senha|пароль|密码|パスワード)";

/// A value in quotes, or up to the next space.
const VALUE: &str = r#"(?:"(?P<quoted>[^"\r\n]{4,200})"|(?P<bare>[^\s"'`]{4,200}))"#;

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let single = r"'(?P<quoted>[^'\r\n]{4,200})'";
    let back = r"`(?P<quoted>[^`\r\n]{4,200})`";
    let told = |name: &str, value: &str| {
        // "my password for the router is", "das Passwort lautet", `password =`, `"password":`, `--password `.
        format!(
            r#"(?i){name}["'`*]{{0,3}}(?:\s{{1,2}}(?:for|to|of|on|at|für|vom|von|zum|beim|pour|para)(?:\s{{1,2}}[^\s:=]{{1,40}}){{1,4}}?)?\s{{0,3}}(?:\bis\b:?|\bwas\b|\bist\b:?|\blautet\b:?|\best\b|\bes\b|[:：]|:=|=>|=|是|は)\s{{0,3}}{value}"#
        )
    };
    let key = r"(?:api|access|auth|secret|private|client|app|encryption|signing|refresh|session|service|master|account)[ _-]{0,1}(?:key|token|secret)|secret|token|api[ _-]{0,1}secret";
    let sources: Vec<(&'static str, String, Fits)> = vec![
        ("password", told(PASSWORD, VALUE), is_password),
        ("password", told(PASSWORD, single), is_password),
        ("password", told(PASSWORD, back), is_password),
        // `curl -u name:password`.
        ("password", r"(?:\s-u|--user)[ =](?:[A-Za-z0-9._@-]{1,64}):(?P<bare>[^\s'\x22]{6,200})".into(), is_password),
        // `mysql -pSECRET`, in one word, and `sshpass -p SECRET`.
        ("password", r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\r\n|;]{0,80}?\s-p(?P<bare>[^\s'\x22]{6,200})".into(), is_password),
        ("password", r"\bsshpass\s{1,3}-p\s{0,3}['\x22]?(?P<bare>[^\s'\x22]{4,200})".into(), is_password),
        // A pass is many things: what stands there must look made up.
        ("password", r"(?i)\bpass\s{0,3}[:=]\s{0,3}(?P<bare>[^\s'\x22`]{8,200})".into(), |value, quoted| {
            let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
            has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && is_password(value, quoted)
        }),
        // scheme://name:password@host
        (
            "password in an address",
            r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:(?P<bare>[^\s/@]{3,200})@[a-z0-9\[]".into(),
            |value, _| !holds_a_place(value) && !matches!(value, "pass" | "pwd" | "pw"),
        ),
        // WireGuard: 32 bytes in base64.
        ("private key", r"(?i)\b(?:PrivateKey|PresharedKey)\s{0,3}=\s{0,3}(?P<bare>[A-Za-z0-9+/]{43}=)".into(), |_, _| true),
        ("api key", format!(r#"(?i)(?:{key})["'`]?\s{{0,3}}(?:\bis\b:?|\bist\b:?|[:=]|=>|:=)\s{{0,3}}["'`]?(?P<bare>[A-Za-z0-9_+/=.~-]{{16,600}})"#), |value, _| {
            is_token(value) && !is_uuid(value)
        }),
        // Some services give UUIDs as keys.
        ("api key", r#"(?i)(?:api[ _-]?key|client[ _-]?secret|api[ _-]?secret)["'`]?\s{0,3}(?:\bis\b|[:=])\s{0,3}["'`]?(?P<bare>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b"#.into(), |_, _| true),
        // The 40 characters beside an access key.
        ("aws secret key", r#"(?i)aws.{0,20}secret.{0,20}?[=:\s"']{1,5}(?P<bare>[A-Za-z0-9/+]{40})\b"#.into(), |value, _| is_token(value) || value.contains(['/', '+'])),
        ("bearer token", r"(?i)\bbearer\s{1,3}(?P<bare>[A-Za-z0-9._~+/=-]{20,2000})".into(), |value, _| is_token(value)),
        // As Docker keeps them: name and password in base64.
        ("basic credentials", r#""auth"\s{0,3}:\s{0,3}"(?P<bare>[A-Za-z0-9+/]{12,500}={0,2})""#.into(), |value, _| is_token(value)),
        ("session cookie", r"(?i)\b(?:set-)?cookie:[^\r\n]{0,200}?=(?P<bare>[A-Za-z0-9._~+/%-]{24,2000})".into(), |value, _| is_token(value)),
        // PuTTY's own form of key file.
        ("private key", r"Private-Lines: [0-9]{1,3}\r?\n(?P<bare>[A-Za-z0-9+/=]{8,64}(?:\r?\n[A-Za-z0-9+/=]{8,64}){0,200})".into(), |_, _| true),
        ("basic credentials", r"(?i)authorization[\x22']?\s{0,3}[:=]\s{0,3}[\x22']?basic\s{1,3}(?P<bare>[A-Za-z0-9+/]{8,500}={0,2})".into(), |_, _| true),
    ];
    // A pattern that does not compile is left out here, and fails a test.
    sources
        .into_iter()
        .filter_map(|(kind, source, fits)| Some(Rule { kind, pattern: Regex::new(&source).ok()?, fits }))
        .collect()
});

#[cfg(test)]
pub(super) fn compiled() -> usize {
    RULES.len()
}
