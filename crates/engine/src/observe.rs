//! Layers learn from the journal, in the background: a batch at a time, one user after another, nothing twice and
//! nothing never.
//!
//! The cursor moves after a layer has learned, so a crash costs a repetition and no more. What a layer cannot learn is
//! tried again, then parked, and the rest goes on.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use skymem_core::wall::{acting_for, acting_for_everyone, carried};
use skymem_core::{Exchange, Layer, LayerError, ModelError, Seq};
use skymem_store::{Lease, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use uuid::Uuid;

use crate::error::EngineError;
use crate::memory::Memory;

impl Memory {
    /// Has every layer learn what was recorded up to now, and what memory files say, and returns when there is nothing left to learn but what is
    /// parked, waits for another try, or is being learned by somebody else: for tests, and for commands that must not
    /// return early.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn catch_up(&self) -> Result<(), EngineError> {
        for layer in &self.inner.layers {
            let observer = Observer::new(self.clone(), Arc::clone(layer));
            while observer.learn_some().await? == Round::Worked {}
        }
        self.tell_files().await
    }
}

/// One worker: it has one layer learn.
pub(crate) struct Observer {
    memory: Memory,
    layer: Arc<dyn Layer>,
    /// Tells this worker's leases from those of others, also on other servers.
    id: Uuid,
    /// Becomes true when the server stops.
    stop: Option<watch::Receiver<bool>>,
}

/// How long a lesson under way may go on when the server stops. What it would have taught is learned at the next start.
const LAST_LESSON: Duration = Duration::from_secs(5);

/// Whether there was anything to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// There was, and there may be more.
    Worked,
    /// There was not.
    Idle,
}

impl Observer {
    pub(crate) fn new(memory: Memory, layer: Arc<dyn Layer>) -> Self {
        Self { memory, layer, id: Uuid::new_v4(), stop: None }
    }

    /// The same, but for lessons that are given up a while after `stop` becomes true.
    pub(crate) fn until_told(self, stop: watch::Receiver<bool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Has the layer learn one batch of one user: of the one whose journal it is least behind, so that a conversation
    /// never waits for somebody's import.
    pub(crate) async fn learn_some(&self) -> Result<Round, StoreError> {
        let inner = &self.memory.inner;
        // Whose journal it is to be, only a look at all of them tells.
        let name = self.layer.name();
        let lease = inner.journal.lease(&name, self.id, self.memory.now(), self.ttl());
        match acting_for_everyone(lease).await? {
            Some(lease) => acting_for(lease.user, self.learn_by(lease)).await.map(|()| Round::Worked),
            None => Ok(Round::Idle),
        }
    }

    /// Has the layer learn one batch of the journal that the lease is on, and gives the lease back.
    async fn learn_by(&self, mut lease: Lease) -> Result<(), StoreError> {
        let inner = &self.memory.inner;
        let settings = &inner.settings.observe;
        let unread = inner.journal.unread(&lease, settings.batch_exchanges).await?;
        let batch = bounded(unread, settings.batch_characters);
        if !batch.is_empty() {
            self.learn(&mut lease, batch).await?;
        }
        inner.journal.release(&lease).await?;
        Ok(())
    }

    /// Learns a batch whole or, when that fails, one exchange after the other up to the one that is at fault.
    async fn learn(&self, lease: &mut Lease, batch: Vec<(Seq, Exchange)>) -> Result<(), StoreError> {
        let Some((last, _)) = batch.last() else { return Ok(()) };
        let last = *last;
        let failed = match self.observe(lease, batch.iter().map(|(_, exchange)| exchange.clone()).collect()).await? {
            Lesson::Learned => return self.advance(lease, last).await,
            Lesson::LeaseLost | Lesson::GivenUp => return Ok(()),
            Lesson::Failed(failure) if batch.len() == 1 || failure.is_nobodys_fault() => Some(failure),
            Lesson::Failed(_) => None,
        };
        if let Some(failure) = failed {
            let Some((seq, exchange)) = batch.into_iter().next() else { return Ok(()) };
            return self.fail(lease, seq, &exchange, failure).await;
        }
        for (seq, exchange) in batch {
            match self.observe(lease, vec![exchange.clone()]).await? {
                Lesson::Learned => self.advance(lease, seq).await?,
                Lesson::LeaseLost | Lesson::GivenUp => return Ok(()),
                Lesson::Failed(failure) => return self.fail(lease, seq, &exchange, failure).await,
            }
        }
        Ok(())
    }

    /// Shows exchanges to the layer, and keeps the lease for as long as that takes.
    async fn observe(&self, lease: &Lease, exchanges: Vec<Exchange>) -> Result<Lesson, StoreError> {
        let started = Instant::now();
        let count = exchanges.len();
        let layer = Arc::clone(&self.layer);
        // A task of its own: a layer that panics must not take the worker with it.
        let mut lesson = Lessons(tokio::spawn(carried(async move { layer.observe(&exchanges).await })));
        let mut renewal =
            tokio::time::interval(Duration::from_secs(self.memory.inner.settings.observe.lease_seconds) / 3);
        renewal.tick().await;
        let mut no_more_time = pin!(self.no_more_time());
        let outcome = loop {
            tokio::select! {
                learned = &mut lesson.0 => break learned,
                () = &mut no_more_time => return Ok(Lesson::GivenUp),
                _ = renewal.tick() => {
                    if !self.memory.inner.journal.renew(lease, self.memory.now() + self.ttl()).await? {
                        return Ok(Lesson::LeaseLost);
                    }
                }
            }
        };
        let layer = self.layer.name().to_string();
        metrics::histogram!("skymem_observe_seconds", "layer" => layer.clone()).record(started.elapsed().as_secs_f64());
        Ok(match outcome {
            Ok(Ok(())) => {
                metrics::counter!("skymem_observe_exchanges_total", "layer" => layer).increment(count as u64);
                Lesson::Learned
            }
            Ok(Err(error)) => Lesson::Failed(Failure::Error(error)),
            Err(_) => Lesson::Failed(Failure::Panic),
        })
    }

    /// Returns when the lesson under way has to end.
    async fn no_more_time(&self) {
        if let Some(mut stop) = self.stop.clone()
            && stop.wait_for(|stopping| *stopping).await.is_ok()
        {
            return sleep(LAST_LESSON).await;
        }
        std::future::pending().await
    }

    async fn advance(&self, lease: &mut Lease, to: Seq) -> Result<(), StoreError> {
        // When the lease is another's by now, that one learns the same again: a repetition, nothing lost.
        self.memory.inner.journal.advance(lease, to).await?;
        Ok(())
    }

    /// Lets a failure rest for a while, or parks the exchange at fault when it failed often enough.
    async fn fail(&self, lease: &mut Lease, seq: Seq, exchange: &Exchange, failure: Failure) -> Result<(), StoreError> {
        let inner = &self.memory.inner;
        let settings = &inner.settings.observe;
        let layer = self.layer.name();
        let attempts = lease.failures.saturating_add(1);
        metrics::counter!("skymem_observe_failures_total", "layer" => layer.to_string()).increment(1);
        if attempts >= settings.attempts && !failure.is_nobodys_fault() {
            tracing::warn!(%layer, exchange = %exchange.id, attempts, %failure, "An exchange cannot be learned and is parked");
            inner.journal.park(lease, exchange.id, &failure.to_string(), attempts, self.memory.now()).await?;
            metrics::counter!("skymem_parked_total", "layer" => layer.to_string()).increment(1);
            return self.advance(lease, seq).await;
        }
        let pause = backoff(lease.failures, settings.backoff_first_seconds, settings.backoff_longest_seconds);
        tracing::warn!(%layer, attempts, pause_seconds = pause.num_seconds(), %failure, "A layer could not learn; it is tried again");
        inner.journal.failed(lease, self.memory.now() + pause).await?;
        Ok(())
    }

    fn ttl(&self) -> TimeDelta {
        seconds(self.memory.inner.settings.observe.lease_seconds)
    }
}

/// A lesson under way; given up when it is dropped.
struct Lessons(JoinHandle<Result<(), LayerError>>);

impl Drop for Lessons {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How a lesson ended.
enum Lesson {
    Learned,
    Failed(Failure),
    /// Another took the work over.
    LeaseLost,
    /// The server stops.
    GivenUp,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", in_full(.0))]
    Error(LayerError),
    #[error("the layer panicked")]
    Panic,
}

impl Failure {
    /// Whether it would have happened with any exchange: then none is parked for it.
    fn is_nobodys_fault(&self) -> bool {
        match self {
            Failure::Panic | Failure::Error(LayerError::Model(ModelError::Refused(_) | ModelError::Unusable(_))) => {
                false
            }
            Failure::Error(LayerError::Database(sqlx::Error::Database(answer))) => {
                let code = answer.code().unwrap_or_default();
                // Connection, rolled back, resources, operator, system: see Postgres' error codes.
                ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class))
            }
            Failure::Error(_) => true,
        }
    }
}

/// An error with its causes.
fn in_full(error: &LayerError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}

/// As many exchanges as have so many characters together, but at least one.
fn bounded(unread: Vec<(Seq, Exchange)>, characters: usize) -> Vec<(Seq, Exchange)> {
    let mut so_far = 0_usize;
    let mut batch = Vec::new();
    for (seq, exchange) in unread {
        so_far += exchange.turns.iter().map(|turn| turn.text.len()).sum::<usize>();
        if so_far > characters && !batch.is_empty() {
            break;
        }
        batch.push((seq, exchange));
    }
    batch
}

/// The pause after the failure that follows `failures` others: twice as long each time.
fn backoff(failures: u32, first_seconds: u64, longest_seconds: u64) -> TimeDelta {
    let doubled = first_seconds.saturating_mul(1_u64.checked_shl(failures).unwrap_or(u64::MAX));
    seconds(doubled.min(longest_seconds))
}

fn seconds(seconds: u64) -> TimeDelta {
    i64::try_from(seconds).ok().and_then(TimeDelta::try_seconds).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use skymem_core::Priority;
    use sqlx::PgPool;

    use super::*;
    use crate::testing::{ScriptedLayer, TestMemory};

    async fn start(db: PgPool) -> (TestMemory, Arc<ScriptedLayer>) {
        let layer = Arc::new(ScriptedLayer::new("episodes", Priority::Ranked, &[]));
        (TestMemory::start(db, vec![Arc::clone(&layer)]).await, layer)
    }

    #[sqlx::test(migrations = false)]
    async fn a_layer_learns_every_exchange_once_and_again_when_it_grows(db: PgPool) {
        let (test, layer) = start(db).await;
        for number in 0..150 {
            test.says("a", &format!("question {number}"), "answer").await;
        }
        test.memory.catch_up().await.unwrap();
        assert_eq!(layer.knows(), 150);
        assert!(layer.learned.lock().unwrap().values().all(|times| *times == 1));

        test.records("a", vec![crate::testing::turn(skymem_core::Role::Assistant, "one more thing")]).await;
        test.memory.catch_up().await.unwrap();

        let times: usize = layer.learned.lock().unwrap().values().sum();
        assert_eq!((layer.knows(), times), (150, 151));
    }

    #[sqlx::test(migrations = false)]
    async fn an_exchange_that_cannot_be_learned_is_parked_and_the_rest_goes_on(db: PgPool) {
        let (test, layer) = start(db).await;
        for text in ["one", "poison", "two", "bomb", "three"] {
            test.says("a", text, "yes").await;
        }

        for _ in 0..12 {
            test.memory.catch_up().await.unwrap();
            test.clock.pass(TimeDelta::seconds(300));
        }

        let view = test.memory.layers(test.user).await.unwrap().remove(0);
        let reasons: Vec<&str> = view.parked.iter().map(|parked| parked.reason.as_str()).collect();
        assert_eq!((layer.knows(), view.behind), (3, 0));
        assert_eq!(reasons, ["refused: poison", "the layer panicked"]);
        assert!(view.parked.iter().all(|parked| parked.attempts == 5));
    }

    #[sqlx::test(migrations = false)]
    async fn what_is_parked_is_learned_when_it_is_given_again_and_can_be(db: PgPool) {
        let (test, layer) = start(db).await;
        test.says("a", "poison", "yes").await;
        for _ in 0..6 {
            test.memory.catch_up().await.unwrap();
            test.clock.pass(TimeDelta::seconds(300));
        }
        assert_eq!(test.memory.retry_parked(test.user, "episodes").await.unwrap(), 1);

        layer.heals();
        test.memory.catch_up().await.unwrap();

        assert_eq!(layer.knows(), 1);
        assert!(test.memory.layers(test.user).await.unwrap().remove(0).parked.is_empty());
    }

    #[sqlx::test(migrations = false)]
    async fn an_outage_parks_nothing_however_long_it_lasts(db: PgPool) {
        let (test, layer) = start(db).await;
        test.says("a", "away", "yes").await;
        test.says("a", "one", "yes").await;

        for _ in 0..20 {
            test.memory.catch_up().await.unwrap();
            test.clock.pass(TimeDelta::seconds(300));
        }
        let view = test.memory.layers(test.user).await.unwrap().remove(0);
        assert_eq!((view.parked.len(), view.behind, layer.knows()), (0, 2, 0));

        layer.heals();
        test.memory.catch_up().await.unwrap();
        assert_eq!(layer.knows(), 2);
    }

    #[sqlx::test(migrations = false)]
    async fn the_background_learns_what_is_recorded_and_stops_when_told(db: PgPool) {
        let (test, layer) = start(db).await;
        let background = test.memory.start();
        test.says("a", "hello", "yes").await;

        let learned = async {
            while layer.knows() < 1 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), learned).await.unwrap();
        background.stop().await;
    }

    #[sqlx::test(migrations = false)]
    async fn a_lesson_that_takes_too_long_is_given_up_when_the_server_stops_and_the_next_one_goes_on_at_once(
        db: PgPool,
    ) {
        let (test, layer) = start(db).await;
        let background = test.memory.start();
        test.says("a", "endless", "yes").await;
        let begun = async {
            while !layer.is_stuck() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), begun).await.unwrap();

        tokio::time::timeout(LAST_LESSON * 3, background.stop()).await.unwrap();

        layer.heals();
        test.memory.catch_up().await.unwrap();
        assert_eq!(layer.knows(), 1);
    }

    #[test]
    fn each_failure_doubles_the_pause_up_to_the_longest() {
        let pauses: Vec<i64> = (0..6).map(|failures| backoff(failures, 1, 20).num_seconds()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 20]);
        assert_eq!(backoff(u32::MAX, 1, 300).num_seconds(), 300);
    }

    #[test]
    fn an_outage_is_nobodys_fault_and_a_refusal_is() {
        let away = ModelError::Unreachable { model: "m".into(), reason: "no connection".into() };
        assert!(Failure::Error(LayerError::Model(away)).is_nobodys_fault());
        assert!(Failure::Error(LayerError::Database(sqlx::Error::PoolTimedOut)).is_nobodys_fault());
        assert!(!Failure::Error(LayerError::Model(ModelError::Refused("too long".into()))).is_nobodys_fault());
        assert!(!Failure::Panic.is_nobodys_fault());
    }
}
