//! A chat model on a server. What all servers share is here; what they say differently is a [`Dialect`].

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use reqwest::StatusCode;
use serde_json::Value;
use skymem_core::{ChatAnswer, ChatModel, ChatRequest, ModelError};

use super::answer::{estimate, estimate_question, most_possible, words};
use super::settings::{ChatKind, OneModel};
use crate::http::{Failure, Place, Request, Server, refused};
use crate::settings::read_key;

/// No honest answer is longer.
const LONGEST_ANSWER_BYTES: usize = 4 << 20;
/// How long a check waits for the list of models, at most.
const CHECK_PATIENCE: Duration = Duration::from_secs(3);
/// How many models are named when the one that is asked for is not there.
const MOST_NAMED: usize = 8;

/// How a kind of server wants to be asked.
pub(super) trait Dialect: Send + Sync {
    /// Where such a server is when nothing else is said.
    fn usual_url(&self) -> &'static str;
    /// The last step of the address of questions.
    fn path(&self) -> &'static str;
    /// The last step of the address of the list of models.
    fn models_path(&self) -> &'static str;
    /// The body of a request.
    fn request(&self, to: &Asked<'_>, question: &ChatRequest) -> Value;
    /// What an answer says.
    fn said(&self, body: &[u8]) -> Result<Said, String>;
    /// The models that a list of them names.
    fn listed(&self, body: &[u8]) -> Result<Listed, String>;
    /// How to ask instead, when a request was refused with `complaint`.
    fn milder(&self, manner: Manner, complaint: &str, question: &ChatRequest) -> Option<Manner>;
    /// What to do about an answer of `status`.
    fn advice(&self, status: u16, model: &str) -> Option<String>;
    /// How a model that is not there is got.
    fn fetched_by(&self, model: &str) -> String;
}

/// What a request is made for.
pub(super) struct Asked<'a> {
    pub(super) model: &'a str,
    pub(super) context_tokens: u32,
    pub(super) manner: Manner,
}

/// What a server was found to accept. Servers of one dialect differ in it, and say so only when asked wrongly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Manner {
    /// The limit of an answer is called `max_completion_tokens`.
    pub(super) completion_tokens: bool,
    /// The model has a temperature of its own and wants none named.
    pub(super) no_temperature: bool,
    /// How an answer in JSON is asked for.
    pub(super) json: Json,
}

/// How an answer in JSON is asked for, from the strictest to the mildest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Json {
    /// With the schema.
    #[default]
    Schema,
    /// As any JSON.
    Any,
    /// By the question alone.
    Unasked,
}

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) whole: bool,
    /// What it cost, where it says so.
    pub(super) tokens: Option<u64>,
}

/// The models a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) names: Vec<String>,
    /// Whether it answers by whatever name it is asked.
    pub(super) any_name: bool,
}

/// A chat model on a server.
pub(super) struct RemoteChat {
    dialect: Box<dyn Dialect>,
    server: Server,
    section: &'static str,
    model: String,
    /// The window it is run with; 0 where that is the server's business.
    context_tokens: u32,
    check_patience: Duration,
    manner: Mutex<Manner>,
}

impl RemoteChat {
    pub(super) fn open(one: &OneModel, dialect: Box<dyn Dialect>) -> Result<Self, ModelError> {
        let timeout = Duration::from_millis(one.timeout_ms);
        let server = Server::new(Place {
            of: one.section,
            url: one.url.as_deref().unwrap_or(dialect.usual_url()),
            tail: dialect.path(),
            key: read_key(one.section, one.key.as_ref(), one.key_file.as_deref())?,
            model: &one.model,
            timeout,
            longest_answer_bytes: LONGEST_ANSWER_BYTES,
        })?;
        Ok(Self {
            dialect,
            server,
            section: one.section,
            model: one.model.clone(),
            context_tokens: if one.kind == ChatKind::Ollama { one.context_tokens } else { 0 },
            check_patience: CHECK_PATIENCE.min(timeout),
            manner: Mutex::default(),
        })
    }

    fn manner(&self) -> std::sync::MutexGuard<'_, Manner> {
        self.manner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn post(&self, manner: Manner, question: &ChatRequest) -> Result<Vec<u8>, Failure> {
        let asked = Asked { model: &self.model, context_tokens: self.context_tokens, manner };
        let body = self.dialect.request(&asked, question);
        let request = Request { path: self.dialect.path(), body: &body, private: &contents(question) };
        self.server.post(&request, &|status| self.dialect.advice(status, &self.model)).await
    }

    /// Refuses a question that the server would cut without a word, as some do. Where the window is the server's own
    /// business, the server says so itself.
    fn fits(&self, question: &ChatRequest) -> Result<(), ModelError> {
        let (tokens, window) = (estimate_question(question), self.context_tokens);
        if window == 0 || tokens <= u64::from(window) {
            return Ok(());
        }
        let (model, section) = (&self.model, self.section);
        Err(refused(format!(
            "a question of about {tokens} tokens does not fit the {window} that {model} is run with; set \
             {section}.context_tokens higher"
        )))
    }

    /// The answer in `body`, checked for what every caller would check.
    fn read(&self, question: &ChatRequest, body: &[u8]) -> Result<ChatAnswer, ModelError> {
        let unusable = |why: &str| self.server.unusable(self.dialect.path(), why, &contents(question));
        let Said { text, whole, tokens } = self.dialect.said(body).map_err(|why| unusable(&why))?;
        let text = words(&text, question.schema.is_some()).to_owned();
        if text.is_empty() {
            return Err(unusable(if whole {
                "an answer without words"
            } else {
                "an answer that was cut before its first word; models that think at length want more tokens than they get"
            }));
        }
        if question.schema.is_some() && whole && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err() {
            return Err(unusable("an answer that is no JSON, though a schema was given"));
        }
        let most = most_possible(question, &text);
        let tokens = tokens.filter(|&tokens| tokens > 0).unwrap_or_else(|| estimate(question, &text)).min(most);
        Ok(ChatAnswer { text, whole, tokens })
    }
}

#[async_trait]
impl ChatModel for RemoteChat {
    fn name(&self) -> &str {
        &self.model
    }

    async fn answer(&self, question: &ChatRequest) -> Result<ChatAnswer, ModelError> {
        self.fits(question)?;
        let mut manner = *self.manner();
        loop {
            match self.post(manner, question).await {
                Ok(body) => return self.read(question, &body),
                Err(Failure {
                    status: Some(StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY),
                    message,
                    error,
                    ..
                }) => {
                    // Each manner is milder than the one before: this ends.
                    let Some(milder) = self.dialect.milder(manner, &message, question) else { return Err(error) };
                    tracing::debug!(model = self.model, ?milder, "A model wants to be asked in another manner");
                    manner = milder;
                    *self.manner() = milder;
                }
                Err(failure) => return Err(failure.error),
            }
        }
    }

    async fn check(&self) -> Result<(), ModelError> {
        let path = self.dialect.models_path();
        let advice = |status| match status {
            404 => Some("check `url`".to_owned()),
            _ => None,
        };
        let body = match self.server.get(path, self.check_patience, &advice).await {
            Ok(body) => body,
            // It is there and lists nothing: whether it has the model shows when it is asked.
            Err(Failure { status: Some(StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED), .. }) => {
                return Ok(());
            }
            Err(failure) => return Err(failure.error),
        };
        let Listed { names, any_name } = self
            .dialect
            .listed(&body)
            .map_err(|why| self.server.unusable(path, &format!("{why}; check `url`"), &[]))?;
        if any_name || names.contains(&self.model) {
            return Ok(());
        }
        let mut has = names.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
        match names.len() {
            0 => has.push_str("none"),
            all if all > MOST_NAMED => has.push_str(&format!(" and {} more", all - MOST_NAMED)),
            _ => {}
        }
        let (section, model, remedy) = (self.section, &self.model, self.dialect.fetched_by(&self.model));
        Err(refused(format!(
            "{} has no model {model:?}: {remedy}, or set {section}.model to one it has: {has}",
            self.server.shown("")
        )))
    }
}

/// What somebody said, in `question`.
fn contents(question: &ChatRequest) -> Vec<&str> {
    question.messages.iter().map(|message| message.content.as_str()).collect()
}
