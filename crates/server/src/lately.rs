//! What the database said lately, for those who must be answered while it is away.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use skymem_engine::EngineError;
use tokio::time::timeout;

/// How long what was said lately may stand in for an answer.
const GOOD_FOR: Duration = Duration::from_secs(300);

/// How long an answer is waited for when there is something to stand in for it.
const PATIENCE: Duration = Duration::from_millis(400);

/// From this many answers on, the old ones are thrown away with each new one.
const MANY: usize = 10_000;

/// The last answer to each question, by a hash of the question: it may be a key.
pub(crate) struct Lately<T> {
    said: Mutex<HashMap<[u8; 32], (T, Instant)>>,
}

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self { said: Mutex::default() }
    }
}

impl<T: Clone> Lately<T> {
    /// What `ask` says of `subject`; what it said lately when it gives no answer now and there `must` be one.
    pub(crate) async fn or(
        &self,
        subject: &str,
        must: bool,
        ask: impl Future<Output = Result<Option<T>, EngineError>>,
    ) -> Result<Option<T>, EngineError> {
        let subject: [u8; 32] = Sha256::digest(subject).into();
        let answer = match self.of(&subject).filter(|_| must) {
            None => ask.await?,
            Some(lately) => match timeout(PATIENCE, ask).await {
                Ok(Ok(answer)) => answer,
                Err(_) | Ok(Err(EngineError::Unavailable { .. })) => return Ok(Some(lately)),
                Ok(Err(error)) => return Err(error),
            },
        };
        self.note(subject, answer.clone());
        Ok(answer)
    }

    /// The last answer to `subject`, as far back as is known. It may be another by now.
    pub(crate) fn said_of(&self, subject: &str) -> Option<T> {
        let subject: [u8; 32] = Sha256::digest(subject).into();
        self.locked().get(&subject).map(|(said, _)| said.clone())
    }

    /// Nothing stands in for an answer until there was one again.
    pub(crate) fn clear(&self) {
        self.locked().clear();
    }

    /// What was said of `subject` lately. It may be otherwise by now.
    pub(crate) fn lately(&self, subject: &str) -> Option<T> {
        self.of(&Sha256::digest(subject).into())
    }

    fn of(&self, subject: &[u8; 32]) -> Option<T> {
        self.locked().get(subject).filter(|(_, at)| at.elapsed() < GOOD_FOR).map(|(said, _)| said.clone())
    }

    fn note(&self, subject: [u8; 32], answer: Option<T>) {
        let mut said = self.locked();
        match answer {
            Some(answer) => said.insert(subject, (answer, Instant::now())),
            None => said.remove(&subject),
        };
        if said.len() > MANY {
            said.retain(|_, (_, at)| at.elapsed() < GOOD_FOR);
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (T, Instant)>> {
        // Whole at every moment, whoever panicked.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Result<Option<u32>, EngineError> {
        Err(EngineError::Unavailable { what: "away".into(), source: "away".into() })
    }

    #[tokio::test]
    async fn what_was_said_lately_stands_in_for_an_answer_that_does_not_come() {
        let lately = Lately::default();
        assert_eq!(lately.or("key", true, async { Ok(Some(1)) }).await.unwrap(), Some(1));

        assert_eq!(lately.or("key", true, async { away() }).await.unwrap(), Some(1));
        assert_eq!(lately.or("key", true, std::future::pending()).await.unwrap(), Some(1));
        assert!(lately.or("key", false, async { away() }).await.is_err());
        assert!(lately.or("another", true, async { away() }).await.is_err());
    }

    #[tokio::test]
    async fn a_no_is_a_no_and_stays_one_when_the_answer_fails_to_come() {
        let lately = Lately::default();
        lately.or("key", true, async { Ok(Some(1)) }).await.unwrap();

        assert_eq!(lately.or("key", true, async { Ok(None) }).await.unwrap(), None);
        assert!(lately.or("key", true, async { away() }).await.is_err());

        lately.or("key", true, async { Ok(Some(1)) }).await.unwrap();
        assert_eq!((lately.said_of("key"), lately.said_of("another")), (Some(1), None));
        lately.clear();
        assert!(lately.or("key", true, async { away() }).await.is_err());
        assert_eq!(lately.said_of("key"), None);
    }
}
