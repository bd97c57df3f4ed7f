//! What time it is: the only reader of the wall in the workspace.

use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> DateTime<Utc>;
}

/// The wall.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// A clock that stands still until it is told to go on: for tests and demonstrations.
#[derive(Debug)]
pub struct ManualClock(Mutex<DateTime<Utc>>);

impl ManualClock {
    /// A clock that stands at `moment`.
    #[must_use]
    pub fn at(moment: DateTime<Utc>) -> Self {
        Self(Mutex::new(moment))
    }

    /// Lets `span` go by.
    pub fn pass(&self, span: TimeDelta) {
        *self.lock() += span;
    }

    /// Sets the clock to `moment`.
    pub fn set(&self, moment: DateTime<Utc>) {
        *self.lock() = moment;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, DateTime<Utc>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        *self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        assert_eq!(clock.now(), DateTime::UNIX_EPOCH);

        clock.pass(TimeDelta::days(1));

        assert_eq!(clock.now(), DateTime::UNIX_EPOCH + TimeDelta::days(1));
    }
}
