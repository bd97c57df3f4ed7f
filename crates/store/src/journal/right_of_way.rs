//! Who talks goes before who imports.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// So long a piece of an import lets others go first: where somebody talks all the time, it still comes to its end.
const PATIENCE: Duration = Duration::from_millis(25);

/// Counts the appends of those who wait for an answer. A hint, for this server alone: order and locks are the database's.
#[derive(Debug, Clone)]
pub(super) struct RightOfWay {
    under_way: Arc<watch::Sender<usize>>,
}

impl Default for RightOfWay {
    fn default() -> Self {
        Self { under_way: Arc::new(watch::Sender::new(0)) }
    }
}

impl RightOfWay {
    /// Goes first, until what it returns is dropped.
    pub(super) fn take(&self) -> Passing<'_> {
        self.under_way.send_modify(|count| *count += 1);
        Passing { way: self }
    }

    /// Does a piece of an import: after those who have the right of way, and leaving the machine to others for half as long
    /// as it took. So an import takes two thirds of the time at most, and those who talk find a free core and a free row lock
    /// between two pieces.
    pub(super) async fn piece<T>(&self, work: impl Future<Output = T>) -> T {
        self.give().await;
        let began = Instant::now();
        let done = work.await;
        sleep(began.elapsed() / 2).await;
        done
    }

    /// Waits until nobody has the right of way, for a moment at most.
    async fn give(&self) {
        let mut under_way = self.under_way.subscribe();
        // Late or gone: it goes on either way.
        let _ = timeout(PATIENCE, under_way.wait_for(|count| *count == 0)).await;
    }
}

/// Somebody who goes first.
pub(super) struct Passing<'a> {
    way: &'a RightOfWay,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.way.under_way.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_import_goes_on_once_everybody_has_passed() {
        let way = RightOfWay::default();
        let began = Instant::now();
        way.give().await;
        let (first, second) = (way.take(), way.take());
        let mut giving = std::pin::pin!(way.give());

        drop(first);
        assert!(is_waiting(giving.as_mut()).await);
        drop(second);
        giving.await;

        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn somebody_who_talks_all_the_time_does_not_stop_an_import() {
        let way = RightOfWay::default();
        let _talking = way.take();
        let began = Instant::now();

        way.give().await;

        assert_eq!(began.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_piece_of_an_import_waits_for_those_who_talk_and_leaves_a_third_of_the_time_to_others() {
        let way = RightOfWay::default();
        let work = || async {
            sleep(Duration::from_millis(100)).await;
            "done"
        };

        let began = Instant::now();
        assert_eq!(way.piece(work()).await, "done");
        assert_eq!(began.elapsed(), Duration::from_millis(150));

        let _talking = way.take();
        let began = Instant::now();
        way.piece(work()).await;
        assert_eq!(began.elapsed(), Duration::from_millis(175));
    }

    async fn is_waiting(giving: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        tokio::select! {
            biased;
            () = giving => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
