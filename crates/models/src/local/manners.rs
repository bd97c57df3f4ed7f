//! How a thread that computes behaves towards those who wait for its processor.

use std::thread;
use std::time::{Duration, Instant};

/// Lets others go first, now and then: systems give a thread that works without a pause some milliseconds, for which an
/// answer from the database would lie there. Where somebody else works as long, that is lost on them, and soon given up.
#[derive(Debug, Default)]
pub(crate) struct Manners {
    abused_at: Option<Instant>,
}

impl Manners {
    /// What those take at most who only pass on what has come.
    const A_MOMENT: Duration = Duration::from_millis(1);
    /// For so long it is remembered that somebody took more.
    const GRUDGE: Duration = Duration::from_secs(10);

    /// Lets others go first, unless that was abused lately; whether it was not.
    pub(crate) fn let_others_through(&mut self) -> bool {
        if self.were_abused() {
            return false;
        }
        let began = Instant::now();
        thread::yield_now();
        self.took(began.elapsed());
        true
    }

    /// Whether somebody who was let through lately took their time.
    pub(crate) fn were_abused(&self) -> bool {
        self.abused_at.is_some_and(|at| at.elapsed() < Self::GRUDGE)
    }

    fn took(&mut self, time: Duration) {
        if time > Self::A_MOMENT {
            self.abused_at = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_their_time_is_let_through_no_more() {
        let mut manners = Manners::default();
        manners.took(Manners::A_MOMENT);
        assert!(!manners.were_abused());

        manners.took(2 * Manners::A_MOMENT);

        assert!(manners.were_abused() && !manners.let_others_through());
    }
}
