//! The log: sentences for people or objects for machines, on standard error.

use anyhow::{Result, anyhow};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::{LogFormat, LogSettings};

/// Begins to log as `settings` say.
///
/// # Errors
///
/// When the filter cannot be read.
pub(crate) fn start(settings: &LogSettings) -> Result<()> {
    let filter = EnvFilter::try_new(&settings.filter).map_err(|error| {
        anyhow!("log.filter {:?} cannot be read ({error}): write it like info,skymem=debug", settings.filter)
    })?;
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format {
        LogFormat::Json => log.json().flatten_event(true).try_init(),
        // Colours are for people at a terminal who have not asked for none.
        LogFormat::Text => log.with_ansi(colours()).with_target(false).try_init(),
    };
    started.map_err(|error| anyhow!("the log cannot be started: {error}"))
}

fn colours() -> bool {
    use std::io::IsTerminal;
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
