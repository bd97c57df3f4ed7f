//! Progress of long work: a bar at a terminal, a line now and then elsewhere.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::output::note;

/// How far a piece of work is, on standard error.
pub(crate) struct Bar {
    name: String,
    bar: ProgressBar,
    every: Duration,
    drawn: Cell<Instant>,
    at_terminal: bool,
}

impl Bar {
    /// Begins to show work called `name`.
    pub(crate) fn new(name: &str) -> Self {
        let at_terminal = std::io::stderr().is_terminal();
        let target = if at_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_prefix(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent}%  {msg}  {eta} left") {
            bar.set_style(style);
        }
        let every = if at_terminal { Duration::from_millis(100) } else { Duration::from_secs(5) };
        Self { name: name.to_owned(), bar, every, drawn: Cell::new(Instant::now()), at_terminal }
    }

    /// Shows that `done` of `total` is done, unless something was shown just before; 0 of a total nobody knows.
    pub(crate) fn set(&self, done: u64, total: u64, message: impl FnOnce() -> String) {
        if self.drawn.get().elapsed() < self.every {
            return;
        }
        self.drawn.set(Instant::now());
        if self.at_terminal {
            self.bar.set_length(total);
            self.bar.set_position(done);
            self.bar.set_message(message());
            return;
        }
        let percent = done.saturating_mul(100).checked_div(total);
        let percent = percent.map_or_else(String::new, |percent| format!("{percent} %, "));
        note(&format!("{}: {percent}{}", self.name, message()));
    }

    /// A line above the bar.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| note(text));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
