//! Exact counts for models whose tokenizer is public: OpenAI's, whose tables are part of the program.
//!
//! A table is read when a model first needs it, which takes some tenths of a second, and stays: about 45 MB of memory
//! for `o200k_base`, about 25 MB for `cl100k_base`.

use std::sync::{Arc, LazyLock};

use skymem_core::{TokenCounter, Tokenizers, Tokens, estimate_tokens};
use tiktoken_rs::CoreBPE;

/// The tokenizers of OpenAI's models.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAiTokenizers;

impl Tokenizers for OpenAiTokenizers {
    /// By the name in a request: with or without the provider before a slash, a date or size behind.
    fn of_model(&self, model: &str) -> Option<Arc<dyn TokenCounter>> {
        let counter = match Encoding::of(model)? {
            Encoding::O200k => O200K.clone(),
            Encoding::Cl100k => CL100K.clone(),
        };
        counter.map(|counter| counter as Arc<dyn TokenCounter>)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    O200k,
    Cl100k,
}

/// How the names of models begin, the more special ones first.
const FAMILIES: [(&str, Encoding); 14] = [
    ("gpt-4o", Encoding::O200k),
    ("gpt-4.1", Encoding::O200k),
    ("gpt-4.5", Encoding::O200k),
    ("chatgpt-4o", Encoding::O200k),
    ("gpt-5", Encoding::O200k),
    ("gpt-oss", Encoding::O200k),
    ("o1", Encoding::O200k),
    ("o3", Encoding::O200k),
    ("o4", Encoding::O200k),
    ("gpt-4", Encoding::Cl100k),
    ("gpt-3.5", Encoding::Cl100k),
    ("gpt-35", Encoding::Cl100k),
    ("text-embedding-3", Encoding::Cl100k),
    ("text-embedding-ada-002", Encoding::Cl100k),
];

impl Encoding {
    fn of(model: &str) -> Option<Self> {
        let name = model.rsplit('/').next()?.trim().to_ascii_lowercase();
        FAMILIES.iter().find(|(family, _)| begins(&name, family)).map(|(_, encoding)| *encoding)
    }
}

/// Whether `name` is of the family: the word that the family's name ends in ends there too.
fn begins(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
}

static O200K: LazyLock<Option<Arc<Counter>>> = LazyLock::new(|| Counter::read(tiktoken_rs::o200k_base()));
static CL100K: LazyLock<Option<Arc<Counter>>> = LazyLock::new(|| Counter::read(tiktoken_rs::cl100k_base()));

struct Counter {
    table: CoreBPE,
}

impl Counter {
    /// `None` when the table built into the program cannot be read; then counts are estimates.
    fn read<E: std::fmt::Display>(table: Result<CoreBPE, E>) -> Option<Arc<Self>> {
        match table {
            Ok(table) => Some(Arc::new(Self { table })),
            Err(error) => {
                tracing::error!(%error, "A tokenizer's table cannot be read; tokens are estimated");
                None
            }
        }
    }
}

impl TokenCounter for Counter {
    fn count(&self, text: &str) -> Tokens {
        if text.len() > LONGEST {
            return estimate_tokens(text);
        }
        let mut count = 0;
        let mut rest = text;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(border(rest));
            count += self.table.encode_ordinary(part).len();
            rest = after;
        }
        Tokens(count)
    }
}

/// Texts of more bytes than this are estimated: nobody waits a second to learn that a book does not fit.
const LONGEST: usize = 2_000_000;

/// Texts are counted in parts of about this many bytes: the pattern that cuts them into words goes back over what it
/// has read, and gives up, by a panic, when that is a million steps.
const PART: usize = 20_000;

/// Where the first part of `text` ends: before a single space between two other characters, where tokens end in any
/// case; where there is none for long, after [`PART`] bytes, which may cost a token too many.
fn border(text: &str) -> usize {
    if text.len() <= PART {
        return text.len();
    }
    let beginning = text.get(..text.floor_char_boundary(PART)).unwrap_or(text);
    let solid = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    let splits = |place: &usize| {
        let (before, after) = (text.get(..*place), text.get(place + 1..));
        solid(before.and_then(|before| before.chars().next_back()))
            && solid(after.and_then(|after| after.chars().next()))
    };
    let spaces = beginning.rmatch_indices(' ').map(|(place, _)| place).take(PART / 10);
    spaces.filter(|place| *place > 0).find(splits).unwrap_or(beginning.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_known_by_the_beginning_of_its_name() {
        for (model, encoding) in [
            ("gpt-4o", Some(Encoding::O200k)),
            ("gpt-4o-mini-2024-07-18", Some(Encoding::O200k)),
            ("openai/GPT-4.1-nano", Some(Encoding::O200k)),
            ("gpt-5.2-codex", Some(Encoding::O200k)),
            ("o3-mini", Some(Encoding::O200k)),
            ("gpt-4-turbo", Some(Encoding::Cl100k)),
            ("gpt-4", Some(Encoding::Cl100k)),
            ("gpt-3.5-turbo", Some(Encoding::Cl100k)),
            ("text-embedding-3-small", Some(Encoding::Cl100k)),
            ("o1000", None),
            ("gpt-40b", None),
            ("openhermes", None),
            ("llama3.2:3b", None),
            ("claude-sonnet-4-5", None),
            ("", None),
            ("/", None),
            ("\u{0}\u{fffd}", None),
        ] {
            assert_eq!(Encoding::of(model), encoding, "{model:?}");
        }
    }

    #[test]
    fn a_long_text_counts_as_much_in_parts_as_whole() {
        let counter = OpenAiTokenizers.of_model("gpt-4o").unwrap();
        let table = tiktoken_rs::o200k_base_singleton();
        let paragraph = "Here are 12 words,  and some \tspaces; then (signs) and it's 3.14!\n\n    code();\n 中文。 ";
        let text = paragraph.repeat(1_500);

        assert!(text.len() > 5 * PART);
        assert_eq!(counter.count(&text).0, table.encode_ordinary(&text).len());
    }

    #[test]
    fn hostile_text_is_counted_all_the_same() {
        let counter = OpenAiTokenizers.of_model("gpt-4o").unwrap();
        let spaces = format!("a{}b", " ".repeat(1_500_000));
        let lines = format!("a{}b", "\n ".repeat(200_000));
        for text in [&spaces, &lines, &"a".repeat(1_500_000), &"中".repeat(500_000), &"\u{0}".repeat(100_000)] {
            assert!(counter.count(text) > Tokens(100));
        }
        assert!(counter.count(&"word ".repeat(1_000_000)) > Tokens(500_000));
        assert!(counter.count("<|endoftext|><|im_start|>") > Tokens(5), "special words are text like any other");
        assert_eq!(counter.count(""), Tokens(0));
    }
}
