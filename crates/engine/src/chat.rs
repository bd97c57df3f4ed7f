//! How the chat models are, without waiting for them: whoever asks for the server's health wants to know soon.

use std::sync::Arc;
use std::time::Duration;

use skymem_core::{ChatModels, SharedChatModel};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// For how long what was seen of a model is taken for true.
const FRESH: Duration = Duration::from_secs(15);
/// How long is waited for a model to be looked at; later, what was seen last must do.
const GRACE: Duration = Duration::from_millis(250);
/// What looking at a model may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How one chat model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatHealth {
    /// What it is asked for: `main`, or `rewriter` when that is another one.
    pub role: &'static str,
    /// Its name.
    pub model: String,
    /// Whether it could answer.
    pub answers: bool,
    /// Why not, in words.
    pub fault: Option<String>,
}

/// Looks at the chat models now and then, when somebody asks.
pub(crate) struct ChatWatch {
    watched: Vec<Watched>,
}

struct Watched {
    role: &'static str,
    model: SharedChatModel,
    seen: Arc<watch::Sender<Seen>>,
}

/// What was seen of a model.
#[derive(Debug, Default)]
struct Seen {
    /// When it was looked at last, and what was wrong.
    last: Option<(Instant, Option<String>)>,
    /// Since when somebody looks.
    looking_since: Option<Instant>,
}

impl ChatWatch {
    pub(crate) fn new(models: &ChatModels) -> Self {
        let watched = |role, model: &SharedChatModel| Watched { role, model: Arc::clone(model), seen: Arc::default() };
        let one = matches!((&models.main, &models.rewriter), (Some(main), Some(other)) if Arc::ptr_eq(main, other));
        let rewriter = models.rewriter.iter().filter(|_| !one).map(|model| watched("rewriter", model));
        Self { watched: models.main.iter().map(|model| watched("main", model)).chain(rewriter).collect() }
    }

    /// How each is, within [`GRACE`].
    pub(crate) async fn health(&self) -> Vec<ChatHealth> {
        // All are looked at before the first is waited for.
        self.watched.iter().for_each(Watched::look);
        let mut health = Vec::new();
        let until = Instant::now() + GRACE;
        for watched in &self.watched {
            let fault = watched.fault(until).await;
            let (role, model) = (watched.role, watched.model.name().to_owned());
            health.push(ChatHealth { role, model, answers: fault.is_none(), fault });
        }
        health
    }
}

impl Watched {
    /// Looks at the model in the background, unless that was done lately or somebody is at it.
    fn look(&self) {
        let mut begins = false;
        self.seen.send_if_modified(|seen| {
            let fresh = seen.last.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
            // One who looks for longer than allowed has died over it.
            let looking = seen.looking_since.is_some_and(|since| since.elapsed() < 2 * PATIENCE);
            begins = !fresh && !looking;
            if begins {
                seen.looking_since = Some(Instant::now());
            }
            false
        });
        if begins {
            let (model, seen) = (Arc::clone(&self.model), Arc::clone(&self.seen));
            tokio::spawn(async move {
                let fault = match timeout(PATIENCE, model.check()).await {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(_) => Some("it takes too long to answer".into()),
                };
                seen.send_modify(|seen| {
                    *seen = Seen { last: Some((Instant::now(), fault)), looking_since: None };
                });
            });
        }
    }

    /// What is wrong with the model; what was wrong when it was looked at last, when that takes beyond `until`.
    async fn fault(&self, until: Instant) -> Option<String> {
        let mut seen = self.seen.subscribe();
        let _ = tokio::time::timeout_at(until, seen.wait_for(|seen| seen.looking_since.is_none())).await;
        match &seen.borrow().last {
            Some((_, fault)) => fault.clone(),
            None => Some("it has given no sign of life yet".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use skymem_core::{ChatAnswer, ChatModel, ChatRequest, ModelError};
    use tokio::time::{advance, sleep};

    use super::*;

    #[derive(Default)]
    struct Model {
        looks: AtomicUsize,
        fault: Mutex<Option<&'static str>>,
        /// How long a look takes.
        takes: Mutex<Duration>,
    }

    #[async_trait]
    impl ChatModel for Model {
        fn name(&self) -> &str {
            "small"
        }

        async fn answer(&self, _: &ChatRequest) -> Result<ChatAnswer, ModelError> {
            Err(ModelError::Refused("nobody asks it".into()))
        }

        async fn check(&self) -> Result<(), ModelError> {
            self.looks.fetch_add(1, Ordering::SeqCst);
            let takes = *self.takes.lock().unwrap();
            sleep(takes).await;
            match *self.fault.lock().unwrap() {
                Some(fault) => Err(ModelError::Refused(fault.into())),
                None => Ok(()),
            }
        }
    }

    fn watch_one(model: &Arc<Model>) -> ChatWatch {
        let shared = Some(Arc::clone(model) as SharedChatModel);
        ChatWatch::new(&ChatModels { main: shared.clone(), rewriter: shared })
    }

    async fn faults(watch: &ChatWatch) -> Vec<Option<String>> {
        watch.health().await.into_iter().map(|health| health.fault).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_for_all_is_named_once_and_one_of_its_own_apart() {
        let (main, small) = (Arc::new(Model::default()), Arc::new(Model::default()));
        let one = watch_one(&main).health().await;
        let two = ChatWatch::new(&ChatModels { main: Some(main), rewriter: Some(small) }).health().await;

        let expected = |role| ChatHealth { role, model: "small".into(), answers: true, fault: None };
        assert_eq!(one, [expected("main")]);
        assert_eq!(two, [expected("main"), expected("rewriter")]);
        assert_eq!(ChatWatch::new(&ChatModels::default()).health().await, []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_is_looked_at_now_and_then_however_often_somebody_asks() {
        let model = Arc::new(Model::default());
        let watch = watch_one(&model);
        for _ in 0..100 {
            assert_eq!(faults(&watch).await, [None]);
        }
        assert_eq!(model.looks.load(Ordering::SeqCst), 1);

        *model.fault.lock().unwrap() = Some("no such model");
        advance(FRESH).await;

        assert_eq!(faults(&watch).await, [Some("refused: no such model".into())]);
        assert_eq!(model.looks.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_model_that_hangs_is_not_waited_for() {
        let model = Arc::new(Model::default());
        *model.takes.lock().unwrap() = Duration::from_secs(1_000);
        let watch = watch_one(&model);

        let begun = Instant::now();
        assert_eq!(faults(&watch).await, [Some("it has given no sign of life yet".into())]);
        assert_eq!(faults(&watch).await, [Some("it has given no sign of life yet".into())]);
        assert!(begun.elapsed() <= 3 * GRACE, "{:?}", begun.elapsed());
        assert_eq!(model.looks.load(Ordering::SeqCst), 1, "one looks for all who ask");

        sleep(PATIENCE).await;
        assert_eq!(faults(&watch).await, [Some("it takes too long to answer".into())]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_last_counts_until_more_is_known() {
        let model = Arc::new(Model::default());
        let watch = watch_one(&model);
        assert_eq!(faults(&watch).await, [None]);

        *model.takes.lock().unwrap() = Duration::from_secs(1);
        *model.fault.lock().unwrap() = Some("wrong key");
        advance(FRESH).await;
        assert_eq!(faults(&watch).await, [None]);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(faults(&watch).await, [Some("refused: wrong key".into())]);
    }
}
