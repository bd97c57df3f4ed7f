//! A chat model that says what it is told to: for tests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use skymem_core::{ChatAnswer, ChatModel, ChatRequest, ModelError};

use super::answer::estimate;

/// A chat model that answers as scripted, and keeps what it was asked. All clones are one: a test keeps one to look at.
///
/// ```
/// use skymem_core::{ChatModel, ChatRequest, Message, Role};
/// use skymem_models::{ScriptedAnswer, ScriptedChat};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let model = ScriptedChat::saying([ScriptedAnswer::Unreachable, "Rex is a dog.".into()]);
/// let question = ChatRequest {
///     purpose: "test",
///     messages: vec![Message::new(Role::User, "Who is Rex?")],
///     temperature: 0.0,
///     most_tokens: 50,
///     schema: None,
/// };
///
/// assert!(model.answer(&question).await.is_err());
/// assert_eq!(model.answer(&question).await.unwrap().text, "Rex is a dog.");
/// assert_eq!(model.calls(), 2);
/// # });
/// ```
#[derive(Clone)]
pub struct ScriptedChat {
    script: Arc<Script>,
    heard: Arc<Mutex<Vec<ChatRequest>>>,
    away: Arc<Mutex<Option<String>>>,
}

/// What to do with a question, by how many came before it.
type Script = dyn Fn(usize, &ChatRequest) -> ScriptedAnswer + Send + Sync;

/// What a [`ScriptedChat`] does with a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedAnswer {
    /// Says this.
    Says(String),
    /// Says this, and is cut.
    Cut(String),
    /// Says this after a while; with tokio's paused clock nothing is waited for.
    Late(Duration, String),
    /// Gives no answer, for ever.
    Hangs,
    /// Is not there.
    Unreachable,
    /// Refuses with these words.
    Refuses(String),
    /// Answers what is no answer.
    Unusable,
}

impl From<&str> for ScriptedAnswer {
    fn from(text: &str) -> Self {
        Self::Says(text.to_owned())
    }
}

impl From<String> for ScriptedAnswer {
    fn from(text: String) -> Self {
        Self::Says(text)
    }
}

impl ScriptedChat {
    /// Answers each question with the next of `answers`, and then with the last one for ever; nothing can be used of an
    /// empty script.
    pub fn saying(answers: impl IntoIterator<Item = impl Into<ScriptedAnswer>>) -> Self {
        let answers: Vec<ScriptedAnswer> = answers.into_iter().map(Into::into).collect();
        Self::new(move |call, _| answers.get(call).or(answers.last()).cloned().unwrap_or(ScriptedAnswer::Unusable))
    }

    /// Answers each question as `answer` says.
    pub fn answering<A: Into<ScriptedAnswer>>(answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static) -> Self {
        Self::new(move |_, question| answer(question).into())
    }

    fn new(script: impl Fn(usize, &ChatRequest) -> ScriptedAnswer + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), heard: Arc::default(), away: Arc::default() }
    }

    /// How many questions were asked so far.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The questions that were asked so far, oldest first.
    #[must_use]
    pub fn heard(&self) -> Vec<ChatRequest> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has [`ChatModel::check`] fail with `reason`; `None` mends it.
    pub fn is_away(&self, reason: Option<&str>) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = reason.map(str::to_owned);
    }

    fn unreachable(&self, reason: &str) -> ModelError {
        ModelError::Unreachable { model: self.name().to_owned(), reason: reason.to_owned() }
    }
}

#[async_trait]
impl ChatModel for ScriptedChat {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn answer(&self, question: &ChatRequest) -> Result<ChatAnswer, ModelError> {
        let call = {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push(question.clone());
            heard.len() - 1
        };
        let says = |text: String, whole| {
            let tokens = estimate(question, &text);
            Ok(ChatAnswer { text, whole, tokens })
        };
        match (self.script)(call, question) {
            ScriptedAnswer::Says(text) => says(text, true),
            ScriptedAnswer::Cut(text) => says(text, false),
            ScriptedAnswer::Late(span, text) => {
                tokio::time::sleep(span).await;
                says(text, true)
            }
            ScriptedAnswer::Hangs => std::future::pending().await,
            ScriptedAnswer::Unreachable => Err(self.unreachable("as scripted")),
            ScriptedAnswer::Refuses(why) => Err(ModelError::Refused(why)),
            ScriptedAnswer::Unusable => Err(ModelError::Unusable("as scripted".into())),
        }
    }

    async fn check(&self) -> Result<(), ModelError> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match away {
            Some(reason) => Err(self.unreachable(&reason)),
            None => Ok(()),
        }
    }
}
