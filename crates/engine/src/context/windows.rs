//! How much the models of well-known providers read at a time.
//!
//! Models that people run themselves are not here: how much they read is a setting of the server that runs them, and
//! often far less than they could.

use std::collections::BTreeMap;

/// By the beginning of their names; the longest that fits is taken.
const FAMILIES: [(&str, usize); 24] = [
    ("chatgpt-4o", 128_000),
    ("claude", 200_000),
    ("command-a", 256_000),
    ("command-r", 128_000),
    ("deepseek-chat", 64_000),
    ("deepseek-reasoner", 64_000),
    ("gemini", 1_000_000),
    ("gpt-3.5-turbo", 16_385),
    ("gpt-4", 8_192),
    ("gpt-4-32k", 32_768),
    ("gpt-4-turbo", 128_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4.5", 128_000),
    ("gpt-4o", 128_000),
    ("gpt-5", 400_000),
    ("gpt-5-chat", 128_000),
    ("grok-3", 131_072),
    ("grok-4", 256_000),
    ("mistral-large", 128_000),
    ("mistral-medium", 128_000),
    ("mistral-small", 32_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
];

/// How many tokens `model` reads at a time, when that is known: from the settings, else from the families above. The
/// provider before a slash is left out where the whole name is not set.
pub(super) fn window_tokens(model: &str, set: &BTreeMap<String, usize>) -> Option<usize> {
    let name = model.trim().to_lowercase();
    let bare = name.rsplit('/').next().unwrap_or(&name);
    let longest = |name: &str| {
        let fitting = set.iter().filter(|(family, _)| begins(name, &family.to_lowercase()));
        fitting.max_by_key(|(family, _)| family.len()).map(|(_, tokens)| *tokens)
    };
    let known = || {
        let fitting = FAMILIES.iter().filter(|(family, _)| begins(bare, family));
        fitting.max_by_key(|(family, _)| family.len()).map(|(_, tokens)| *tokens)
    };
    longest(&name).or_else(|| longest(bare)).or_else(known)
}

/// Whether `name` is of the family: no letter or digit follows the family's name at once.
fn begins(name: &str, family: &str) -> bool {
    let rest = name.strip_prefix(family).filter(|_| !family.is_empty());
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_that_fits_decides_and_settings_go_first() {
        let set = BTreeMap::from([
            ("llama3.2".to_owned(), 8_192),
            ("llama3.2:3b".to_owned(), 4_096),
            ("gpt-4o-mini".to_owned(), 1_000),
            ("my/Model".to_owned(), 2_000),
        ]);
        for (model, tokens) in [
            ("gpt-4", Some(8_192)),
            ("gpt-4-0613", Some(8_192)),
            ("gpt-4-turbo-2024-04-09", Some(128_000)),
            ("gpt-4o", Some(128_000)),
            ("gpt-4o-mini", Some(1_000)),
            ("openai/GPT-4.1-mini", Some(1_000_000)),
            ("anthropic/claude-sonnet-4-5", Some(200_000)),
            ("llama3.2:1b", Some(8_192)),
            ("llama3.2:3b-instruct-q4", Some(4_096)),
            ("llama3.2:3bx", Some(8_192)),
            ("my/model", Some(2_000)),
            ("other/my/model", None),
            ("llama3.1", None),
            ("o10", None),
            ("", None),
            ("/", None),
        ] {
            assert_eq!(window_tokens(model, &set), tokens, "{model:?}");
        }
    }
}
