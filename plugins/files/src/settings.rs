//! `[layers.files]` of the configuration.

use std::time::Duration;

use serde::Deserialize;
use skymem_core::{LayerError, Tokens};

/// How memory files are watched, kept and put into prompts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// What all files of a user may cost in a prompt together.
    pub(crate) budget_tokens: usize,
    /// How changes on disk are noticed.
    pub(crate) watch: Watch,
    /// How often the disk is looked at when polling.
    pub(crate) poll_seconds: u64,
    /// How often it is checked that the watcher missed nothing.
    pub(crate) heartbeat_seconds: u64,
    /// How many revisions of a file are kept.
    pub(crate) keep_revisions: u32,
    /// The largest file that is read or written.
    pub(crate) max_file_bytes: u64,
    /// The most files of a user that are read.
    pub(crate) max_files: usize,
}

/// How changes on disk are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Watch {
    /// Told by the system; by polling when that does not work.
    Auto,
    /// By looking every `poll_seconds`: for network folders.
    Poll,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            budget_tokens: 4_000,
            watch: Watch::Auto,
            poll_seconds: 2,
            heartbeat_seconds: 10,
            keep_revisions: 200,
            max_file_bytes: 1_000_000,
            max_files: 500,
        }
    }
}

impl Settings {
    /// The settings that `table` holds, the defaults for the rest.
    ///
    /// # Errors
    ///
    /// [`LayerError::Settings`] that says which setting is wrong and what it may be.
    pub(crate) fn read(table: &toml::Table) -> Result<Self, LayerError> {
        let settings: Self =
            table.clone().try_into().map_err(|error| LayerError::Settings(format!("[layers.files]: {error}")))?;
        within("budget_tokens", settings.budget_tokens as u64, 100, 1_000_000)?;
        within("poll_seconds", settings.poll_seconds, 1, 3_600)?;
        within("heartbeat_seconds", settings.heartbeat_seconds, 1, 3_600)?;
        within("keep_revisions", settings.keep_revisions.into(), 1, 100_000)?;
        within("max_file_bytes", settings.max_file_bytes, 1_000, 100_000_000)?;
        within("max_files", settings.max_files as u64, 2, 100_000)?;
        Ok(settings)
    }

    pub(crate) fn budget(&self) -> Tokens {
        Tokens(self.budget_tokens)
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_secs(self.poll_seconds)
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        Duration::from_secs(self.heartbeat_seconds)
    }
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<(), LayerError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(LayerError::Settings(format!("layers.files.{key} is {value}; it may be {least} to {most}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, complaint: &str) {
        let error = Settings::read(&toml::from_str(text).unwrap()).unwrap_err().to_string();
        assert!(error.contains(complaint), "{text}: {error}");
    }

    #[test]
    fn a_wrong_setting_is_named() {
        check("budget_token = 3", "budget_token");
        check("budget_tokens = 3", "100 to 1000000");
        check("watch = 'never'", "auto");
        check("poll_seconds = 0", "poll_seconds");
        check("max_file_bytes = -1", "max_file_bytes");
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        assert_eq!(Settings::read(&toml::Table::new()).unwrap(), Settings::default());
    }
}
