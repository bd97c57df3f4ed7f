//! What may be set about the proxy, with the values a new user gets.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};
use skymem_core::UserName;
use skymem_engine::ItemsPlace;

/// `[proxy]` of the configuration: chat models that are talked to through this server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProxySettings {
    /// The upstream under `/v1`; empty for the only one there is.
    pub default: String,
    /// Where the memory files stand.
    pub memory: MemoryPlace,
    /// Where recalled items stand.
    pub items: ItemsPlace,
    /// Whether a session keeps the memory files it began with, so that a provider's prompt cache keeps its prefix.
    pub freeze: bool,
    /// Whether an answer is remembered that its client did not wait for, or that broke off.
    pub remember_hangup: bool,
    /// What memory may take before a request is forwarded; later, it is forwarded as it came.
    pub context_deadline_ms: u64,
    /// Of a conversation that memory did not see begin, at most so many of its last turns are written down at once.
    pub most_turns: usize,
    /// Whether an admin's key acts for the people that a client names in its own way.
    pub identities: Identities,
    /// Beginnings of prompts that are no conversation, beside the known ones.
    pub utility_prompts: Vec<String>,
    /// Models that are asked for titles and the like alone.
    pub utility_models: Vec<String>,
    /// The largest body of a request, in KiB: images travel in it.
    pub body_limit_kib: usize,
    /// The servers that models run on, by the name they have in the address.
    pub upstreams: BTreeMap<String, UpstreamSettings>,
}

/// Where the memory files stand in the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPlace {
    /// At the end of the client's own system message, where it has one that is plain text.
    #[default]
    System,
    /// In a system message of their own, after the client's.
    Message,
}

/// Whether an admin's key acts for the people that a client names in its own way: chat pages and gateways do so in
/// headers or in the body. A key that is no admin's has one memory, whatever the client says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identities {
    /// For each a memory of their own, made when they first come.
    #[default]
    Made,
    /// For those who have a memory here; others are refused.
    Known,
    /// For nobody but whom `X-Memory-User` names.
    Ignored,
}

/// `[proxy.upstreams.<name>]`: a server that models run on.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UpstreamSettings {
    /// Its address without the last step: `https://api.openai.com/v1`, `http://127.0.0.1:11434/v1`.
    pub url: String,
    /// The key it asks for; empty for none.
    pub key: String,
    /// A file that holds the key, instead of `key`; empty for none.
    pub key_file: PathBuf,
    /// Whether the client's own `Authorization` goes to it; the key of this server then comes in `X-Memory-Key`.
    pub pass_authorization: bool,
    /// What connecting may take.
    pub connect_timeout_seconds: u64,
    /// What the beginning of an answer may take. One that is not streamed begins when the model has thought it out.
    pub first_byte_timeout_seconds: u64,
    /// What an answer may pause.
    pub idle_timeout_seconds: u64,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            default: String::new(),
            memory: MemoryPlace::System,
            items: ItemsPlace::Message,
            freeze: true,
            remember_hangup: true,
            context_deadline_ms: 3_000,
            most_turns: 200,
            identities: Identities::Made,
            utility_prompts: Vec::new(),
            utility_models: Vec::new(),
            body_limit_kib: 32_768,
            upstreams: BTreeMap::new(),
        }
    }
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            url: String::new(),
            key: String::new(),
            key_file: PathBuf::new(),
            pass_authorization: false,
            connect_timeout_seconds: 10,
            first_byte_timeout_seconds: 600,
            idle_timeout_seconds: 300,
        }
    }
}

impl fmt::Debug for UpstreamSettings {
    // The key stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamSettings")
            .field("url", &self.url)
            .field("key_file", &self.key_file)
            .field("pass_authorization", &self.pass_authorization)
            .finish_non_exhaustive()
    }
}

impl ProxySettings {
    /// Whether the settings make sense together.
    ///
    /// # Errors
    ///
    /// In words, with the name of the setting and what it may be.
    pub fn check(&self) -> Result<(), String> {
        if !self.default.is_empty() && !self.upstreams.contains_key(&self.default) {
            let names: Vec<&str> = self.upstreams.keys().map(String::as_str).collect();
            return Err(format!(
                "proxy.default is the name of an upstream, not {:?}; there are: {}",
                self.default,
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            ));
        }
        within("proxy.context_deadline_ms", self.context_deadline_ms, 1, 600_000)?;
        within("proxy.most_turns", self.most_turns as u64, 1, 2_000)?;
        within("proxy.body_limit_kib", self.body_limit_kib as u64, 1, 1_048_576)?;
        if self.utility_prompts.iter().chain(&self.utility_models).any(|text| text.trim().is_empty()) {
            return Err("proxy.utility_prompts and proxy.utility_models hold no empty texts".into());
        }
        self.upstreams.iter().try_for_each(|(name, upstream)| upstream.check(name))
    }

    /// The name of the upstream under `/v1`; `None` when there is none, or several and none of them is chosen.
    pub(crate) fn default_upstream(&self) -> Option<&str> {
        if !self.default.is_empty() {
            return Some(&self.default);
        }
        let mut names = self.upstreams.keys();
        names.next().map(String::as_str).filter(|_| names.next().is_none())
    }

    pub(crate) fn context_deadline(&self) -> Duration {
        Duration::from_millis(self.context_deadline_ms)
    }
}

impl UpstreamSettings {
    fn check(&self, name: &str) -> Result<(), String> {
        let setting = |key: &str| format!("proxy.upstreams.{name}.{key}");
        // What can be a folder can be a step of an address.
        if name.parse::<UserName>().is_err() {
            return Err(format!("the name of an upstream has lower-case letters, digits, '-' and '_', not {name:?}"));
        }
        if self.url.is_empty() {
            return Err(format!(
                "{} is not set: the address of the server, such as https://api.openai.com/v1",
                setting("url")
            ));
        }
        let url = Url::parse(&self.url).map_err(|error| format!("{} is no address: {error}", setting("url")))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
            return Err(format!("{} begins with http:// or https:// and has no ? or #", setting("url")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "{} holds no name and no password: the key goes to {}",
                setting("url"),
                setting("key")
            ));
        }
        if !self.key.is_empty() && !self.key_file.as_os_str().is_empty() {
            return Err(format!("{} and key_file are both set: keep one", setting("key")));
        }
        for (key, seconds) in [
            ("connect_timeout_seconds", self.connect_timeout_seconds),
            ("first_byte_timeout_seconds", self.first_byte_timeout_seconds),
            ("idle_timeout_seconds", self.idle_timeout_seconds),
        ] {
            within(&setting(key), seconds, 1, 86_400)?;
        }
        Ok(())
    }

    /// The key it asks for, from where it is kept.
    pub(crate) fn own_key(&self, name: &str) -> Result<Option<String>, String> {
        if self.key_file.as_os_str().is_empty() {
            return Ok(Some(self.key.clone()).filter(|key| !key.is_empty()));
        }
        let shown = self.key_file.display();
        let key = std::fs::read_to_string(&self.key_file)
            .map_err(|error| format!("cannot read proxy.upstreams.{name}.key_file {shown}: {error}"))?;
        match key.trim() {
            "" => Err(format!("proxy.upstreams.{name}.key_file {shown} is empty")),
            key => Ok(Some(key.to_owned())),
        }
    }
}

fn within(name: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(format!("{name} is from {least} to {most}, not {value}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ProxySettings), fault: Option<&str>) {
        let upstream = UpstreamSettings { url: "http://127.0.0.1:1/v1".into(), ..UpstreamSettings::default() };
        let mut settings =
            ProxySettings { upstreams: BTreeMap::from([("one".into(), upstream)]), ..ProxySettings::default() };
        change(&mut settings);
        match (settings.check(), fault) {
            (Ok(()), None) => {}
            (Err(error), Some(fault)) => assert!(error.contains(fault), "{error}"),
            (outcome, fault) => panic!("{outcome:?} where {fault:?} was expected"),
        }
    }

    fn of_one(settings: &mut ProxySettings) -> &mut UpstreamSettings {
        settings.upstreams.get_mut("one").unwrap()
    }

    #[test]
    fn settings_that_cannot_be_are_told_by_name() {
        check(|_| {}, None);
        check(|all| all.upstreams.clear(), None);
        check(|all| all.default = "two".into(), Some("proxy.default is the name of an upstream"));
        check(|all| of_one(all).url.clear(), Some("proxy.upstreams.one.url is not set"));
        check(|all| of_one(all).url = "localhost:1".into(), Some("proxy.upstreams.one.url"));
        check(|all| of_one(all).url = "ftp://a/v1".into(), Some("http://"));
        check(|all| of_one(all).url = "http://a/v1?key=x".into(), Some("no ? or #"));
        check(|all| of_one(all).url = "http://me:secret@a/v1".into(), Some("no password"));
        check(|all| of_one(all).idle_timeout_seconds = 0, Some("idle_timeout_seconds is from 1"));
        check(|all| all.context_deadline_ms = 0, Some("context_deadline_ms is from 1"));
        check(|all| all.utility_models.push(" ".into()), Some("no empty texts"));
        check(
            |all| {
                let one = all.upstreams["one"].clone();
                all.upstreams.insert("Two/..".into(), one);
            },
            Some("the name of an upstream"),
        );
        check(
            |all| {
                of_one(all).key = "a".into();
                of_one(all).key_file = "b".into();
            },
            Some("both set"),
        );
    }

    #[test]
    fn a_key_is_not_shown() {
        let upstream = UpstreamSettings { key: "sk-hunter2".into(), ..UpstreamSettings::default() };

        assert!(!format!("{upstream:?}").contains("hunter2"));
    }

    #[test]
    fn the_only_upstream_is_the_default_one() {
        let mut settings = ProxySettings::default();
        assert_eq!(settings.default_upstream(), None);
        settings.upstreams.insert("one".into(), UpstreamSettings::default());
        assert_eq!(settings.default_upstream(), Some("one"));
        settings.upstreams.insert("two".into(), UpstreamSettings::default());
        assert_eq!(settings.default_upstream(), None);
        settings.default = "two".into();
        assert_eq!(settings.default_upstream(), Some("two"));
    }
}
