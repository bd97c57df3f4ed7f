//! Which chat models to open, as it stands under `[chat]` in the configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::settings::Secret;

/// Which chat models to open, and how. The default is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChatSettings {
    /// What kind of server answers.
    pub kind: ChatKind,
    /// The address without the last step, for instance `http://127.0.0.1:8080/v1` or `http://127.0.0.1:11434`; the
    /// usual one of the kind when it is not given.
    pub url: Option<String>,
    /// The key it asks for.
    pub key: Option<Secret>,
    /// A file that holds the key.
    pub key_file: Option<PathBuf>,
    /// The name that the server knows the model by.
    pub model: Option<String>,
    /// How long one answer may take.
    pub timeout_ms: u64,
    /// Questions under way at the same time.
    pub concurrency: usize,
    /// Tokens that may be spent from midnight to midnight, UTC, questions and answers together; `0` sets no limit.
    pub daily_tokens: u64,
    /// Ollama: the window to run the model with, in tokens; `0` leaves it to the server.
    pub context_tokens: u32,
    /// What is different for the model that makes follow-ups self-contained.
    pub rewriter: RewriterSettings,
}

impl Default for ChatSettings {
    fn default() -> Self {
        Self {
            kind: ChatKind::None,
            url: None,
            key: None,
            key_file: None,
            model: None,
            timeout_ms: 60_000,
            concurrency: 2,
            daily_tokens: 0,
            context_tokens: 8_192,
            rewriter: RewriterSettings::default(),
        }
    }
}

/// What is different for the model that makes follow-ups self-contained. What is not set is as for the main model; when
/// nothing is, the two are one. What is not set to a number of its own is one limit for both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RewriterSettings {
    /// What kind of server answers; `none` switches it off.
    pub kind: Option<ChatKind>,
    /// Its address.
    pub url: Option<String>,
    /// The key it asks for. The main model's key is sent only to the main model's address.
    pub key: Option<Secret>,
    /// A file that holds the key.
    pub key_file: Option<PathBuf>,
    /// The name that the server knows the model by.
    pub model: Option<String>,
    /// How long one answer may take.
    pub timeout_ms: Option<u64>,
    /// Questions under way at the same time.
    pub concurrency: Option<usize>,
    /// Tokens that may be spent in a day.
    pub daily_tokens: Option<u64>,
    /// Ollama: the window to run the model with, in tokens.
    pub context_tokens: Option<u32>,
}

/// What kind of server a chat model is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatKind {
    /// No model: everything falls back to what needs none.
    #[default]
    None,
    /// A server that speaks OpenAI's `/chat/completions`.
    OpenAi,
    /// An Ollama server.
    Ollama,
}

/// One model, with everything that is not set taken from the other or from what is usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneModel {
    /// The section that it is configured in, for messages.
    pub(crate) section: &'static str,
    pub(crate) kind: ChatKind,
    pub(crate) url: Option<String>,
    pub(crate) key: Option<Secret>,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) model: String,
    pub(crate) timeout_ms: u64,
    pub(crate) context_tokens: u32,
    pub(crate) concurrency: usize,
    pub(crate) daily_tokens: u64,
    /// Whether it takes its turns and its tokens from those of the main model.
    pub(crate) shares: Shares,
}

/// Which limits a model has in common with the main one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) turns: bool,
    pub(crate) tokens: bool,
}

impl ChatSettings {
    /// Whether the settings can be acted on.
    ///
    /// # Errors
    ///
    /// In words: the setting, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        for one in [self.main(), self.own_rewriter()].into_iter().flatten() {
            one.check()?;
        }
        // Also of a model that is switched off for a while.
        for (section, key, key_file) in
            [("chat", &self.key, &self.key_file), ("chat.rewriter", &self.rewriter.key, &self.rewriter.key_file)]
        {
            if key.is_some() && key_file.is_some() {
                return Err(format!("{section}.key and {section}.key_file are both set: keep one"));
            }
        }
        let r = &self.rewriter;
        numbers("chat", self.timeout_ms, self.concurrency, self.context_tokens)?;
        numbers(
            "chat.rewriter",
            r.timeout_ms.unwrap_or(self.timeout_ms),
            r.concurrency.unwrap_or(self.concurrency),
            r.context_tokens.unwrap_or(self.context_tokens),
        )
    }

    /// The model for everything that has none of its own; `None` when there is none.
    pub(crate) fn main(&self) -> Option<OneModel> {
        (self.kind != ChatKind::None).then(|| OneModel {
            section: "chat",
            kind: self.kind,
            url: trimmed(self.url.as_deref()),
            key: self.key.clone(),
            key_file: self.key_file.clone(),
            model: trimmed(self.model.as_deref()).unwrap_or_default(),
            timeout_ms: self.timeout_ms,
            context_tokens: self.context_tokens,
            concurrency: self.concurrency,
            daily_tokens: self.daily_tokens,
            shares: Shares::default(),
        })
    }

    /// Whether the rewriter is the main model, or there is neither.
    pub(crate) fn rewriter_is_main(&self) -> bool {
        self.rewriter == RewriterSettings::default()
    }

    /// The rewriter's model, when something is different for it; `None` also when it is switched off.
    pub(crate) fn own_rewriter(&self) -> Option<OneModel> {
        let own = &self.rewriter;
        let kind = own.kind.unwrap_or(self.kind);
        if self.rewriter_is_main() || kind == ChatKind::None {
            return None;
        }
        let (url, main_url) = (trimmed(own.url.as_deref()), trimmed(self.url.as_deref()));
        let same_server = kind == self.kind && (url.is_none() || url == main_url);
        let own_key = own.key.is_some() || own.key_file.is_some();
        // A key is sent only where the person said it belongs.
        let (key, key_file) = match (own_key, same_server) {
            (false, true) => (&self.key, &self.key_file),
            (true, _) | (false, false) => (&own.key, &own.key_file),
        };
        Some(OneModel {
            section: "chat.rewriter",
            kind,
            url: if same_server { main_url } else { url },
            key: key.clone(),
            key_file: key_file.clone(),
            model: trimmed(own.model.as_deref()).or_else(|| trimmed(self.model.as_deref())).unwrap_or_default(),
            timeout_ms: own.timeout_ms.unwrap_or(self.timeout_ms),
            context_tokens: own.context_tokens.unwrap_or(self.context_tokens),
            concurrency: own.concurrency.unwrap_or(self.concurrency),
            daily_tokens: own.daily_tokens.unwrap_or(self.daily_tokens),
            shares: Shares { turns: same_server && own.concurrency.is_none(), tokens: own.daily_tokens.is_none() },
        })
    }
}

impl OneModel {
    fn check(&self) -> Result<(), String> {
        let section = self.section;
        if self.model.is_empty() {
            let example = match self.kind {
                ChatKind::Ollama => "llama3.2:3b",
                ChatKind::OpenAi | ChatKind::None => "gpt-4o-mini",
            };
            return Err(format!("{section}.model is not set: the name the server knows it by, as {example:?}"));
        }
        Ok(())
    }
}

fn numbers(section: &str, timeout_ms: u64, concurrency: usize, context_tokens: u32) -> Result<(), String> {
    if !(100..=3_600_000).contains(&timeout_ms) {
        return Err(format!("{section}.timeout_ms is from 100 to 3600000, not {timeout_ms}"));
    }
    if !(1..=1_000).contains(&concurrency) {
        return Err(format!("{section}.concurrency is from 1 to 1000, not {concurrency}"));
    }
    if context_tokens != 0 && !(512..=10_000_000).contains(&context_tokens) {
        return Err(format!(
            "{section}.context_tokens is from 512 to 10000000, or 0 to leave it to the server, not {context_tokens}"
        ));
    }
    Ok(())
}

fn trimmed(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ollama() -> ChatSettings {
        ChatSettings {
            kind: ChatKind::Ollama,
            url: Some("http://gpu:11434".into()),
            key: Some(Secret("sk-main".into())),
            model: Some("large".into()),
            daily_tokens: 1_000,
            ..ChatSettings::default()
        }
    }

    #[test]
    fn nothing_said_means_no_model() {
        let settings: ChatSettings = serde_json::from_str("{}").unwrap();

        assert_eq!(settings, ChatSettings::default());
        assert_eq!((settings.main(), settings.own_rewriter()), (None, None));
        assert!(settings.rewriter_is_main());
        settings.check().unwrap();
    }

    #[test]
    fn a_rewriter_that_is_only_named_shares_all_else_with_the_main_model() {
        let rewriter = RewriterSettings { model: Some("small".into()), ..RewriterSettings::default() };
        let settings = ChatSettings { rewriter, ..ollama() };

        let one = settings.own_rewriter().unwrap();

        let shares = Shares { turns: true, tokens: true };
        let expected = OneModel { section: "chat.rewriter", model: "small".into(), shares, ..settings.main().unwrap() };
        assert_eq!(one, expected);
    }

    #[test]
    fn the_key_of_the_main_model_goes_to_no_other_server() {
        for rewriter in [
            RewriterSettings { url: Some("http://elsewhere".into()), ..RewriterSettings::default() },
            RewriterSettings { kind: Some(ChatKind::OpenAi), ..RewriterSettings::default() },
        ] {
            let one = ChatSettings { rewriter, ..ollama() }.own_rewriter().unwrap();

            assert_eq!((one.key, one.key_file), (None, None));
            assert_ne!(one.url.as_deref(), Some("http://gpu:11434"));
            assert_eq!(one.shares, Shares { turns: false, tokens: true });
        }
    }

    #[test]
    fn a_key_of_its_own_replaces_that_of_the_main_model() {
        let rewriter = RewriterSettings { key_file: Some("key".into()), ..RewriterSettings::default() };
        let settings = ChatSettings { rewriter, ..ollama() };

        let one = settings.own_rewriter().unwrap();

        assert_eq!((one.key, one.key_file), (None, Some("key".into())));
        settings.check().unwrap();
    }

    #[test]
    fn limits_of_its_own_are_its_own() {
        let rewriter = RewriterSettings { concurrency: Some(7), daily_tokens: Some(9), ..RewriterSettings::default() };

        let one = ChatSettings { rewriter, ..ollama() }.own_rewriter().unwrap();

        assert_eq!((one.concurrency, one.daily_tokens, one.shares), (7, 9, Shares::default()));
    }

    #[test]
    fn the_rewriter_can_be_switched_off_and_can_be_the_only_one() {
        let off = RewriterSettings { kind: Some(ChatKind::None), ..RewriterSettings::default() };
        let settings = ChatSettings { rewriter: off, ..ollama() };
        assert!(settings.own_rewriter().is_none() && !settings.rewriter_is_main());

        let only = RewriterSettings {
            kind: Some(ChatKind::Ollama),
            model: Some("small".into()),
            ..RewriterSettings::default()
        };
        let settings = ChatSettings { rewriter: only, ..ChatSettings::default() };
        assert!(settings.main().is_none() && settings.own_rewriter().is_some());
    }

    #[test]
    fn a_setting_that_cannot_be_is_named_with_what_it_may_be() {
        let both = RewriterSettings {
            key: Some(Secret("k".into())),
            key_file: Some("f".into()),
            ..RewriterSettings::default()
        };
        let zero = RewriterSettings { concurrency: Some(0), ..RewriterSettings::default() };
        for (bad, part) in [
            (ChatSettings { model: None, ..ollama() }, "chat.model is not set"),
            (ChatSettings { model: Some(" \n".into()), ..ollama() }, "llama3.2"),
            (ChatSettings { timeout_ms: 0, ..ollama() }, "chat.timeout_ms is from 100"),
            (ChatSettings { timeout_ms: u64::MAX, ..ollama() }, "chat.timeout_ms is from 100"),
            (ChatSettings { concurrency: 0, ..ollama() }, "chat.concurrency is from 1"),
            (ChatSettings { concurrency: usize::MAX, ..ollama() }, "chat.concurrency is from 1"),
            (ChatSettings { context_tokens: 5, ..ollama() }, "chat.context_tokens is from 512"),
            (ChatSettings { key_file: Some("f".into()), ..ollama() }, "chat.key and chat.key_file"),
            (ChatSettings { rewriter: both, ..ollama() }, "chat.rewriter.key and"),
            (ChatSettings { rewriter: zero, ..ollama() }, "chat.rewriter.concurrency"),
        ] {
            let error = bad.check().unwrap_err();
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_misspelt_setting_is_named() {
        for text in [r#"{"modell": "x"}"#, r#"{"rewriter": {"modell": "x"}}"#] {
            let error = serde_json::from_str::<ChatSettings>(text).unwrap_err();
            assert!(error.to_string().contains("modell"), "{error}");
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let rewriter = RewriterSettings { key: Some(Secret("sk-small".into())), ..RewriterSettings::default() };
        let settings = ChatSettings { rewriter, ..ollama() };

        let shown = format!("{settings:?} {:?} {}", settings.own_rewriter(), serde_json::to_string(&settings).unwrap());
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
