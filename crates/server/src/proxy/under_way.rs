//! A client that has read the end of an answer may ask its next question before that answer is written down. The question
//! then waits for it, for otherwise its conversation would not be known again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// So long a question waits for a model that still answers another question of the same conversation: that may take
/// minutes. What was answered to its end is only to be written down, and is waited for as long as there is time.
const PATIENCE: Duration = Duration::from_millis(500);

/// The conversations of which an answer is not written down yet. Of this process alone: a hint, no lock.
#[derive(Debug, Clone)]
pub(crate) struct UnderWay {
    answers: Arc<watch::Sender<HashMap<String, Counts>>>,
}

/// How many answers of a conversation are under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// The model still answers.
    answering: usize,
    /// Answered to the end, and not written down yet.
    writing: usize,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { answers: Arc::new(watch::Sender::new(HashMap::new())) }
    }
}

impl UnderWay {
    /// An answer in `conversation` is under way, until what this returns is dropped.
    pub(crate) fn begin(&self, conversation: &str) -> Answering {
        let conversation = conversation.to_owned();
        self.answers.send_modify(|answers| answers.entry(conversation.clone()).or_default().answering += 1);
        Answering { all: self.clone(), conversation, writing: false }
    }

    /// Waits until no answer in `conversation` is under way, for `left` at most, and not long for one that the model
    /// still gives.
    pub(crate) async fn settled(&self, conversation: &str, left: Duration) {
        let mut answers = self.answers.subscribe();
        let settled = answers.wait_for(|answers| !answers.contains_key(conversation));
        // Late or gone: the question goes on either way.
        if timeout(left.min(PATIENCE), settled).await.is_err() {
            let written =
                answers.wait_for(|answers| answers.get(conversation).is_none_or(|counts| counts.writing == 0));
            let _ = timeout(left.saturating_sub(PATIENCE), written).await;
        }
    }
}

/// An answer that is under way.
#[derive(Debug)]
pub(crate) struct Answering {
    all: UnderWay,
    conversation: String,
    writing: bool,
}

impl Answering {
    /// The model has said all it will: what is left is to write it down.
    pub(crate) fn said(&mut self) {
        if !std::mem::replace(&mut self.writing, true) {
            self.change(|counts| {
                counts.answering = counts.answering.saturating_sub(1);
                counts.writing += 1;
            });
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        self.all.answers.send_modify(|answers| {
            if let Some(counts) = answers.get_mut(&self.conversation) {
                change(counts);
                if *counts == Counts::default() {
                    answers.remove(&self.conversation);
                }
            }
        });
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let writing = self.writing;
        self.change(|counts| {
            let count = if writing { &mut counts.writing } else { &mut counts.answering };
            *count = count.saturating_sub(1);
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_question_waits_for_the_answers_before_it_and_for_no_other_conversation() {
        let all = UnderWay::default();
        let (first, second) = (all.begin("anna: hello"), all.begin("anna: hello"));
        let began = Instant::now();
        let mut waiting = std::pin::pin!(all.settled("anna: hello", LONG));

        all.settled("anna: good morning", LONG).await;
        drop(first);
        let settled = tokio::select! {
            biased;
            () = &mut waiting => true,
            () = tokio::task::yield_now() => false,
        };
        assert!(!settled, "one is still under way");
        drop(second);
        waiting.await;

        assert_eq!(began.elapsed(), Duration::ZERO);
        assert!(all.answers.borrow().is_empty(), "nothing is kept of what has settled");
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_does_not_wait_for_a_slow_model() {
        let all = UnderWay::default();
        let _slow = all.begin("anna: hello");
        let began = Instant::now();

        all.settled("anna: hello", LONG).await;
        assert_eq!(began.elapsed(), PATIENCE);
        all.settled("anna: hello", Duration::from_millis(7)).await;
        assert_eq!(began.elapsed(), PATIENCE + Duration::from_millis(7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_answered_to_its_end_is_waited_for_as_long_as_there_is_time() {
        let all = UnderWay::default();
        let mut answer = all.begin("anna: hello");
        answer.said();
        let began = Instant::now();

        all.settled("anna: hello", 4 * PATIENCE).await;
        assert_eq!(began.elapsed(), 4 * PATIENCE);
        let writing = async {
            tokio::time::sleep(10 * PATIENCE).await;
            drop(answer);
        };
        tokio::join!(all.settled("anna: hello", LONG), writing);
        assert_eq!(began.elapsed(), 14 * PATIENCE);
        assert!(all.answers.borrow().is_empty());
    }
}
