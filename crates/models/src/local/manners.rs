//! How a thread that computes behaves towards those who wait for its processor.

use std::thread;
use std::time::{Duration, Instant};

/// Lets others go first, now and then: systems give a thread that works without a pause some milliseconds, for which an
/// answer from the database would lie there. Where somebody else works as long, that is lost on them, and given up for the
/// rest of the pass.
#[derive(Debug, Default)]
pub(crate) struct Manners {
    were_abused: bool,
}

impl Manners {
    /// What those take at most who only pass on what has come.
    const A_MOMENT: Duration = Duration::from_micros(500);

    /// Lets others go first, unless that was abused before; whether it was not.
    pub(crate) fn let_others_through(&mut self) -> bool {
        if self.were_abused {
            return false;
        }
        let began = Instant::now();
        thread::yield_now();
        self.took(began.elapsed());
        true
    }

    fn took(&mut self, time: Duration) {
        self.were_abused = time > Self::A_MOMENT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_their_time_is_let_through_no_more() {
        let mut manners = Manners::default();
        manners.took(Manners::A_MOMENT);
        assert!(!manners.were_abused);

        manners.took(2 * Manners::A_MOMENT);

        assert!(!manners.let_others_through());
    }
}
