//! The threads that the encoder runs on: one for queries (which may have help, see `together`), some for passages, each kind
//! with a queue of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use skymem_core::{Embedding, ModelError, Purpose};
use tokio::sync::{mpsc, oneshot};

use super::encoder::Scratch;

/// Texts that may wait in a queue; who has more waits in front of it.
const QUEUE_LENGTH: usize = 256;

/// A pass takes texts until it has this many tokens. Longer passes are hardly faster and keep a processor busy longer.
const PASS_TOKENS: usize = 128;

/// How much more willingly passages give way than the rest of the server.
const PASSAGE_NICENESS: i32 = 10;

/// Turns the tokens of several texts into an embedding each.
pub(crate) type Encode = dyn Fn(&[&[u32]], &mut Scratch) -> Vec<Vec<f32>> + Send + Sync;

/// The threads; they end when it is dropped.
pub(crate) struct Pool {
    model: String,
    queues: Option<Queues>,
    workers: Vec<JoinHandle<()>>,
}

struct Queues {
    queries: mpsc::Sender<Job>,
    passages: mpsc::Sender<Job>,
}

struct Job {
    tokens: Vec<u32>,
    reply: oneshot::Sender<Result<Embedding, ModelError>>,
}

/// An embedding that is being made.
pub(crate) struct Pending {
    model: String,
    reply: oneshot::Receiver<Result<Embedding, ModelError>>,
}

impl Pool {
    /// Starts one thread for queries and `passage_threads` for passages.
    pub(crate) fn start(
        model: &str,
        query: Arc<Encode>,
        passage: Arc<Encode>,
        passage_threads: usize,
    ) -> Result<Self, ModelError> {
        let (queries, query_jobs) = mpsc::channel(QUEUE_LENGTH);
        let (passages, passage_jobs) = mpsc::channel(QUEUE_LENGTH);
        let mut pool =
            Self { model: model.to_owned(), queues: Some(Queues { queries, passages }), workers: Vec::new() };
        pool.add_worker("embed-query", &query, &Arc::new(Mutex::new(query_jobs)), 0)?;
        let passage_jobs = Arc::new(Mutex::new(passage_jobs));
        for number in 0..passage_threads.max(1) {
            pool.add_worker(&format!("embed-{number}"), &passage, &passage_jobs, PASSAGE_NICENESS)?;
        }
        Ok(pool)
    }

    fn add_worker(
        &mut self,
        name: &str,
        encode: &Arc<Encode>,
        jobs: &Arc<Mutex<mpsc::Receiver<Job>>>,
        niceness: i32,
    ) -> Result<(), ModelError> {
        let (encode, jobs) = (encode.clone(), jobs.clone());
        let work = move || {
            if niceness > 0 {
                give_way(niceness);
            }
            work(&*encode, &jobs);
        };
        let worker = thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| unreachable(&self.model, format!("no thread for it: {error}")))?;
        self.workers.push(worker);
        Ok(())
    }

    /// Queues one text; waits while the queue is full.
    pub(crate) async fn submit(&self, tokens: Vec<u32>, purpose: Purpose) -> Result<Pending, ModelError> {
        let (reply, pending) = oneshot::channel();
        let queue = self.queues.as_ref().map(|queues| match purpose {
            Purpose::Query => &queues.queries,
            Purpose::Passage => &queues.passages,
        });
        let gone = || unreachable(&self.model, "its threads have ended".into());
        queue.ok_or_else(gone)?.send(Job { tokens, reply }).await.map_err(|_| gone())?;
        Ok(Pending { model: self.model.clone(), reply: pending })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Closes the queues; what nobody waits for any more is skipped, so this takes one pass at most.
        self.queues = None;
        for worker in self.workers.drain(..) {
            // A worker catches what its work throws; there is nothing to pass on.
            let _ = worker.join();
        }
    }
}

impl Pending {
    /// Waits for it. Dropping it instead takes the text out of the queue.
    pub(crate) async fn embedding(self) -> Result<Embedding, ModelError> {
        let gone = || unreachable(&self.model, "its threads have ended".into());
        self.reply.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// What a thread does until its queue is closed.
fn work(encode: &Encode, jobs: &Mutex<mpsc::Receiver<Job>>) {
    let mut scratch = Scratch::default();
    while let Some(pass) = next_pass(jobs) {
        let texts: Vec<&[u32]> = pass.iter().map(|job| job.tokens.as_slice()).collect();
        match catch_unwind(AssertUnwindSafe(|| encode(&texts, &mut scratch))) {
            Ok(vectors) => {
                for (job, vector) in pass.into_iter().zip(vectors) {
                    // Nobody may be waiting any more; that is their right.
                    let _ = job.reply.send(checked(vector));
                }
            }
            Err(_) => {
                // It may have been left half-written.
                scratch = Scratch::default();
                tracing::error!(texts = pass.len(), "The local embedder broke down over some texts");
                for job in pass {
                    let _ = job.reply.send(Err(ModelError::Unusable("the local embedder broke down".into())));
                }
            }
        }
    }
}

/// The texts of the next pass; none when the queue is closed and empty.
fn next_pass(jobs: &Mutex<mpsc::Receiver<Job>>) -> Option<Vec<Job>> {
    // Other threads wait here while this one waits for the first text: whoever comes next takes the next pass.
    let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut pass = Vec::new();
        let mut tokens = 0;
        let mut next = jobs.blocking_recv();
        next.as_ref()?;
        while let Some(job) = next {
            if !job.reply.is_closed() {
                tokens += job.tokens.len();
                pass.push(job);
            }
            next = if tokens < PASS_TOKENS { jobs.try_recv().ok() } else { None };
        }
        if !pass.is_empty() {
            return Some(pass);
        }
    }
}

fn checked(vector: Vec<f32>) -> Result<Embedding, ModelError> {
    if vector.iter().all(|x| x.is_finite()) {
        Ok(Embedding(vector))
    } else {
        Err(ModelError::Unusable("the local embedder answered with infinities".into()))
    }
}

fn unreachable(model: &str, reason: String) -> ModelError {
    ModelError::Unreachable { model: model.to_owned(), reason }
}

/// Lets everyone else go first. On Linux priorities belong to threads; elsewhere passages just compete.
#[cfg(target_os = "linux")]
fn give_way(niceness: i32) {
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness) {
        tracing::debug!(%error, "Passages are embedded at ordinary priority");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_way(_niceness: i32) {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc as std_mpsc;
    use std::time::Duration;

    use super::*;

    /// Far longer than anything here takes: only what would never end meets it.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Dropping it lets the texts of the token 7 through.
    type Gate = std_mpsc::Sender<()>;

    /// Answers with the first token, panics over 13, and waits for the gate over 7; counts its passes.
    fn pool() -> (Pool, Arc<AtomicUsize>, Gate) {
        let (gate, closed) = std_mpsc::channel::<()>();
        let closed = Mutex::new(closed);
        let passes = Arc::new(AtomicUsize::new(0));
        let counter = passes.clone();
        let encode = move |texts: &[&[u32]], _: &mut Scratch| {
            counter.fetch_add(1, Ordering::SeqCst);
            let answer = |text: &&[u32]| match text[0] {
                13 => panic!("unlucky"),
                7 => {
                    let _ = closed.lock().unwrap().recv();
                    vec![7.0]
                }
                8 => vec![f32::NAN],
                other => vec![other as f32],
            };
            texts.iter().map(answer).collect()
        };
        let encode: Arc<Encode> = Arc::new(encode);
        (Pool::start("test", Arc::clone(&encode), encode, 1).unwrap(), passes, gate)
    }

    async fn ask(pool: &Pool, token: u32, purpose: Purpose) -> Result<Embedding, ModelError> {
        pool.submit(vec![token; 60], purpose).await?.embedding().await
    }

    #[tokio::test]
    async fn a_query_overtakes_waiting_passages() {
        let (pool, _, gate) = pool();
        let slow = pool.submit(vec![7], Purpose::Passage).await.unwrap();
        let waiting = pool.submit(vec![1], Purpose::Passage).await.unwrap();

        // The gate is shut: a query that stood behind the passages would wait for ever.
        let query = tokio::time::timeout(PATIENCE, ask(&pool, 2, Purpose::Query)).await;

        let query = query.expect("the query waits behind the passages").unwrap();
        assert_eq!(query, Embedding(vec![2.0]));
        drop(gate);
        assert_eq!(slow.embedding().await.unwrap(), Embedding(vec![7.0]));
        assert_eq!(waiting.embedding().await.unwrap(), Embedding(vec![1.0]));
    }

    #[tokio::test]
    async fn a_breakdown_is_an_error_and_the_thread_lives_on() {
        let (pool, _, _gate) = pool();

        let broken = ask(&pool, 13, Purpose::Query).await;
        let infinite = ask(&pool, 8, Purpose::Query).await;
        let next = ask(&pool, 3, Purpose::Query).await;

        assert!(matches!(broken, Err(ModelError::Unusable(_))), "{broken:?}");
        assert!(matches!(infinite, Err(ModelError::Unusable(_))), "{infinite:?}");
        assert_eq!(next.unwrap(), Embedding(vec![3.0]));
    }

    #[tokio::test]
    async fn short_texts_share_a_pass_and_given_up_ones_take_no_part() {
        let (pool, passes, gate) = pool();
        let mut pending = vec![pool.submit(vec![7; 200], Purpose::Passage).await.unwrap()];
        while passes.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(pool.submit(vec![13; 60], Purpose::Passage).await.unwrap());
        for token in [4, 5, 6, 9] {
            pending.push(pool.submit(vec![token; 60], Purpose::Passage).await.unwrap());
        }

        drop(gate);
        for one in pending {
            one.embedding().await.unwrap();
        }

        // One for the gate, one for the first three of the others, one for the last.
        assert_eq!(passes.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_full_queue_makes_its_feeder_wait() {
        let (pool, _, gate) = pool();
        let feed = async {
            let mut pending = Vec::new();
            for token in std::iter::once(7).chain(std::iter::repeat_n(1, 2 * QUEUE_LENGTH)) {
                pending.push(pool.submit(vec![token; 200], Purpose::Passage).await.unwrap());
            }
            pending.len()
        };
        tokio::pin!(feed);

        assert!(tokio::time::timeout(Duration::from_millis(50), &mut feed).await.is_err());
        drop(gate);
        assert_eq!(feed.await, 2 * QUEUE_LENGTH + 1);
    }
}
