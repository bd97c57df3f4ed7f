//! What memory does for a chat: before it is forwarded, and after it was answered. It never makes a chat fail.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::web::Bytes;
use skymem_core::wall::acting_for;
use skymem_core::{Filter, GapReason, Message, Role, Tokens, UserId, estimate_tokens};
use skymem_engine::{
    Blocks, ClientHistory, Content, ContextReply, ContextRequest, Conversation, EngineError, HearRequest, HeardTurn,
    History, Memory, MemoryMode, Placed, RecallRequest, Scope, Uses,
};
use tokio::time::timeout;

use super::answer::Answer;
use super::inject::{Places, inject};
use super::relay::End;
use super::request::Chat;
use super::settings::ProxySettings;
use super::under_way::Answering;
use super::utility::is_utility;
use super::who::{self, Switches};
use super::{Proxy, metrics};
use crate::auth::{Door, Principal};
use crate::error::{ApiError, Kind};

/// A chat as it is forwarded, and what is to be done once it is answered.
pub(crate) struct Plan {
    /// What the upstream is sent.
    pub(crate) body: Bytes,
    /// What memory did.
    pub(crate) status: Status,
    /// What the client is told of it.
    pub(crate) headers: HeaderMap,
    /// What is written down afterwards; `None` for nothing.
    pub(crate) remember: Option<Remember>,
}

/// What memory did for a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// It added something.
    Used,
    /// It had nothing to add.
    Empty,
    /// It was not to be asked.
    Off,
    /// It could not be asked: the chat was forwarded as it came.
    Skipped,
    /// It was no conversation.
    Utility,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Empty => "empty",
            Self::Off => "off",
            Self::Skipped => "skipped",
            Self::Utility => "utility",
        }
    }
}

/// Of a question its end is asked with: that is where the point is.
const LONGEST_QUESTION: usize = 8_000;

/// What a chat template adds around a question, about.
const AROUND_IT: Tokens = Tokens(8);

/// So many messages before the question are read to understand it.
const MESSAGES_BEFORE: usize = 6;

/// What memory does for the chat in `body`, once it is known `who` sent it. The question is embedded meanwhile, where who
/// `likely` did may ask memory.
///
/// # Errors
///
/// When `who` is let in no more, for switches that cannot be, and for a person that the key may not act for. A fault of
/// memory is none: the chat is then forwarded as it came.
pub(crate) async fn plan(
    proxy: &Proxy,
    memory: &Memory,
    door: &Door,
    (likely, who): (Principal, impl Future<Output = Result<Principal, ApiError>>),
    request: &HttpRequest,
    body: Bytes,
) -> Result<Plan, ApiError> {
    let settings = &proxy.settings;
    let chat = std::str::from_utf8(&body).ok().and_then(Chat::read);
    let Some(chat) = chat else {
        who.await?;
        metrics::fault("unreadable");
        return Ok(Plan::of(body.clone(), Status::Skipped));
    };
    let by_model = chat.model.as_ref().and_then(|model| who::suffix(&model.text));
    let (suffix, by_model) = by_model.unzip();
    let switches = Switches::read(request.headers(), &chat.about, by_model);
    let wanted = switches.as_ref().map_or(MemoryMode::Off, |switches| switches.mode.unwrap_or_default());
    let is_utility = is_utility(&chat, settings);
    let question = chat.question();
    let question = question.as_deref().map(end_of);
    let may_read = !is_utility && wanted.and(allowed(&likely)).reads();
    let ahead = question.filter(|_| may_read).map(|question| memory.embed_ahead(question));

    let who = &who.await?;
    let begun = Instant::now();
    let switches = switches?;
    let session = who::session(request.headers(), &chat.about)?;
    let mode = wanted.and(allowed(who));
    let as_it_came = |status| Plan::of(renamed(&chat, suffix).map_or_else(|| body.clone(), Bytes::from), status);
    if is_utility {
        return Ok(as_it_came(Status::Utility));
    }
    let Some(question) = question else { return Ok(as_it_came(Status::Empty)) };

    let person = who::person(request.headers(), &chat.about);
    let (turns, before) = chat.turns();
    let named = format!("{}\n{}", who.user, person.as_deref().unwrap_or_default());
    if !mode.writes() {
        let conversation = Conversation { user: who.user, session: session.clone(), turns: turns.clone() };
        proxy.passed_by.note(&named, &conversation.marks());
    }
    if mode == MemoryMode::Off {
        return Ok(as_it_came(Status::Off));
    }
    let left = || settings.context_deadline().saturating_sub(begun.elapsed());
    let acting = who::acting_for(who, person.as_deref(), settings.identities, door, memory);
    let user = match timeout(left(), acting).await {
        Ok(Ok(user)) => user,
        Ok(Err(error)) if error.kind() == Kind::Unavailable => return Ok(as_it_came(Status::Skipped).faulty("user")),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(as_it_came(Status::Skipped).faulty("late")),
    };
    let history = history(&turns, before);
    let conversation = Conversation { user, session, turns };
    let marks = conversation.marks();
    let begins = format!("{named}\n{}", marks.first().map(String::as_str).unwrap_or_default());
    if conversation.turns.len() > 1 {
        proxy.under_way.settled(&begins, left()).await;
    }
    let placed = within(left(), acting_for(user, memory.place(&conversation))).await;
    let asked = match &placed {
        Ok(placed) if mode.reads() => {
            let about = Asked { user, mode, question, history, placed, switches: &switches };
            let model = chat.model.as_ref().map(|model| model.text.trim_end_matches(suffix.unwrap_or_default()));
            let request = about.request(settings, model);
            within(left(), acting_for(user, memory.context_of(&request, ahead))).await.map(Some)
        }
        Ok(_) => Ok(None),
        Err(why) => Err(*why),
    };
    let (mut plan, uses) = match asked {
        Ok(Some((reply, uses))) => (with_memory(&chat, &body, &reply, suffix, settings), uses),
        Ok(None) => (as_it_came(Status::Off), Uses::default()),
        Err(why) => (as_it_came(Status::Skipped).faulty(why), Uses::default()),
    };
    let took = begun.elapsed();
    ::metrics::histogram!(metrics::MEMORY_SECONDS).record(took);
    plan.says("x-memory-ms", &format!("{:.1}", took.as_secs_f64() * 1_000.0));
    let placed = placed.ok();
    let session = placed.as_ref().map(|placed| &placed.session).or(conversation.session.as_ref());
    if let Some(session) = session {
        plan.says("x-memory-session", session.as_str());
    }
    if mode.writes() {
        let passed_by = proxy.passed_by.among(&named, &marks);
        plan.remember = Some(Remember {
            request: HearRequest {
                conversation,
                placed,
                answer: HeardTurn {
                    role: Role::Assistant,
                    speaker: None,
                    content: Content::Text(String::new()),
                    call: None,
                },
                collection: switches.collection,
                memory: Some(mode),
                most_turns: settings.most_turns,
                passed_by,
            },
            uses,
            also_half: settings.remember_hangup,
            sent: plan.body.clone(),
            until_written: proxy.under_way.begin(&begins),
        });
    }
    Ok(plan)
}

/// As much of a question as it is asked with.
fn end_of(question: &str) -> &str {
    let start = question.ceil_char_boundary(question.len().saturating_sub(LONGEST_QUESTION));
    question.get(start..).unwrap_or_default()
}

/// What a key may have memory do.
fn allowed(who: &Principal) -> MemoryMode {
    match (who.may(Scope::Read).is_ok(), who.may(Scope::Write).is_ok()) {
        (true, true) => MemoryMode::ReadWrite,
        (true, false) => MemoryMode::Read,
        (false, true) => MemoryMode::Write,
        (false, false) => MemoryMode::Off,
    }
}

/// The request without the ending of its model's name that is ours; `None` when there is none.
fn renamed(chat: &Chat<'_>, suffix: Option<&str>) -> Option<String> {
    let (model, suffix) = (chat.model.as_ref()?, suffix?);
    let name = model.text.strip_suffix(suffix)?;
    let (before, after) = (chat.text.get(..model.place.start)?, chat.text.get(model.place.end..)?);
    Some(format!("{before}{}{after}", serde_json::json!(name)))
}

/// What memory answers in time; else why it does not, as a word for metrics.
async fn within<T>(deadline: Duration, work: impl Future<Output = Result<T, EngineError>>) -> Result<T, &'static str> {
    match timeout(deadline, work).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            tracing::warn!(%error, "A chat goes on without memory");
            Err("failed")
        }
        Err(_) => {
            tracing::warn!(ms = deadline.as_millis(), "Memory was too late: a chat goes on without it");
            Err("late")
        }
    }
}

/// The last messages before the question, for understanding it.
fn history(turns: &[HeardTurn], before: usize) -> Vec<Message> {
    let message = |turn: &HeardTurn| {
        let text = match &turn.content {
            Content::Text(text) => text.clone(),
            Content::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| part.get("text").and_then(serde_json::Value::as_str));
                texts.collect::<Vec<_>>().join("\n")
            }
        };
        (turn.role != Role::Tool && !text.trim().is_empty()).then(|| Message::new(turn.role, text))
    };
    let said: Vec<Message> = turns.iter().take(before).filter_map(message).collect();
    said.get(said.len().saturating_sub(MESSAGES_BEFORE)..).unwrap_or_default().to_vec()
}

/// A question as memory is asked.
struct Asked<'a> {
    user: UserId,
    mode: MemoryMode,
    question: &'a str,
    history: Vec<Message>,
    placed: &'a Placed,
    switches: &'a Switches,
}

impl Asked<'_> {
    fn request(self, settings: &ProxySettings, model: Option<&str>) -> ContextRequest {
        let question = self.question;
        let filter = Filter { collections: self.switches.collection.iter().cloned().collect(), ..Filter::default() };
        let ask = RecallRequest {
            session: Some(self.placed.session.clone()),
            filter,
            memory: Some(self.mode),
            ..RecallRequest::new(self.user, question)
        };
        let history = ClientHistory {
            messages: self.history,
            exchanges: self.placed.exchanges.clone(),
            whole: self.placed.whole,
        };
        ContextRequest {
            ask,
            // The question is not what memory adds, but stands in the same messages.
            budget: self.switches.budget_tokens.map(|tokens| Tokens(tokens) + estimate_tokens(question) + AROUND_IT),
            history: History::Client(history),
            model: model.map(str::to_owned),
            freeze: settings.freeze,
            ..ContextRequest::new(self.user, question)
        }
    }
}

/// The chat with what memory knows.
fn with_memory(
    chat: &Chat<'_>,
    body: &Bytes,
    reply: &ContextReply,
    suffix: Option<&str>,
    settings: &ProxySettings,
) -> Plan {
    let blocks = &reply.blocks;
    let places = Places { memory: settings.memory, items: settings.items };
    let sent = inject(chat, blocks, suffix, places).map_or_else(|| body.clone(), Bytes::from);
    let is_off = reply.gaps.iter().any(|gap| gap.of == "memory" && gap.reason == GapReason::Off);
    let status = match blocks {
        Blocks { memory: None, account: None, found: None } if is_off => Status::Off,
        Blocks { memory: None, account: None, found: None } => Status::Empty,
        _ => Status::Used,
    };
    let mut plan = Plan::of(sent, status);
    let added = [&blocks.memory, &blocks.account, &blocks.found].into_iter().flatten();
    let tokens: usize = added.map(|block| estimate_tokens(block).0).sum();
    plan.says("x-memory-items", &reply.items.len().to_string());
    plan.says("x-memory-tokens", &tokens.to_string());
    let mut gaps: Vec<&str> = reply.gaps.iter().map(|gap| gap.of.as_str()).collect();
    gaps.sort_unstable();
    gaps.dedup();
    if !gaps.is_empty() {
        plan.says("x-memory-gaps", &gaps.join(","));
    }
    plan
}

impl Plan {
    fn of(body: Bytes, status: Status) -> Self {
        let mut plan = Self { body, status, headers: HeaderMap::new(), remember: None };
        plan.says("x-memory-status", status.as_str());
        plan
    }

    fn says(&mut self, name: &'static str, value: &str) {
        // A session may be called what no header can hold.
        let readable: String = value.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
        if let Ok(value) = HeaderValue::from_str(&readable) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
    }

    fn faulty(self, why: &'static str) -> Self {
        metrics::fault(why);
        self
    }
}

/// What is written down once a chat was answered.
pub(crate) struct Remember {
    request: HearRequest,
    /// What the model was told of. To note it earlier would keep the model waiting for a processor.
    uses: Uses,
    also_half: bool,
    /// What the model was sent.
    sent: Bytes,
    /// Until it is written down, the next question of the conversation waits.
    until_written: Answering,
}

/// How long the journal is waited for before each further try.
const WAITS: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];

impl Remember {
    /// Writes down what was said and answered, if anything was.
    pub(crate) async fn answered(mut self, memory: Memory, answer: Answer, end: End) {
        self.until_written.said();
        let prompt_tokens = answer.prompt_tokens;
        let whole = answer.whole && end == End::Whole;
        if answer.says_something() && (whole || self.also_half) {
            self.write_down(&memory, answer).await;
        }
        // Nobody waits for this: counting tokens takes its time.
        drop(self.until_written);
        if let Some((model, estimated, real)) = prompt_tokens.and_then(|real| counted(&self.sent, real)) {
            memory.learn_usage(&model, estimated, real).await;
        }
        acting_for(self.request.conversation.user, memory.note_uses(self.uses)).await;
    }

    async fn write_down(&mut self, memory: &Memory, answer: Answer) {
        let ids: Vec<&str> = answer.calls.iter().map(|call| call.id.as_str()).filter(|id| !id.is_empty()).collect();
        self.request.answer.call = (!ids.is_empty()).then(|| ids.join(" "));
        self.request.answer.content = answer.content();
        let mut waits = WAITS.into_iter();
        loop {
            let hearing = memory.hear(self.request.clone());
            let error = match acting_for(self.request.conversation.user, hearing).await {
                Ok(_) => return,
                Err(error) => error,
            };
            let wait = waits.next().filter(|_| matches!(error, EngineError::Unavailable { .. }));
            let Some(wait) = wait else {
                metrics::fault("record");
                tracing::error!(%error, "A chat could not be written down");
                return;
            };
            tokio::time::sleep(wait).await;
        }
    }
}

/// How many tokens a model says that it was sent, beside what is estimated of that; `None` where more than words was sent,
/// of which nothing is estimated.
fn counted(sent: &Bytes, real: u64) -> Option<(String, Tokens, Tokens)> {
    let chat = Chat::read(std::str::from_utf8(sent).ok()?)?;
    let words_only = chat.messages.iter().all(|message| message.is_plain) && !chat.has_tools;
    let texts = chat.messages.iter().flat_map(|message| &message.texts);
    let estimated: Tokens = texts.map(|piece| estimate_tokens(&piece.text)).sum();
    let model = chat.model.map(|model| model.text).filter(|_| words_only)?;
    Some((model, estimated, Tokens(usize::try_from(real).ok()?)))
}

/// What was said while memory was not to keep it, as far as this process knows: clients send it again with what follows.
#[derive(Debug, Default)]
pub(crate) struct PassedBy(Mutex<Marks>);

#[derive(Debug, Default)]
struct Marks {
    now: HashSet<String>,
    before: HashSet<String>,
}

/// So many marks are kept at least, and twice as many at most.
const MARKS: usize = 20_000;

impl PassedBy {
    /// Notes the question of a conversation of which these are the marks.
    fn note(&self, person: &str, marks: &[String]) {
        let Some(last) = marks.last() else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.now.len() >= MARKS {
            kept.before = std::mem::take(&mut kept.now);
        }
        kept.now.insert(format!("{person}\n{last}"));
    }

    /// Those of a conversation's marks that were noted. Its question is asked now, and to be kept.
    fn among(&self, person: &str, marks: &[String]) -> HashSet<String> {
        let Some((last, earlier)) = marks.split_last() else { return HashSet::new() };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = format!("{person}\n{last}");
        kept.now.remove(&last);
        kept.before.remove(&last);
        let noted = earlier.iter().filter(|mark| {
            let mark = format!("{person}\n{mark}");
            kept.now.contains(&mark) || kept.before.contains(&mark)
        });
        noted.cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_was_not_to_be_kept_is_known_again_until_it_is_said_to_be_kept() {
        let passed_by = PassedBy::default();
        passed_by.note("anna", &marks(&["a", "b"]));

        assert_eq!(passed_by.among("anna", &marks(&["a", "b", "c"])), HashSet::from(["b".to_owned()]));
        assert!(passed_by.among("berta", &marks(&["a", "b", "c"])).is_empty());
        assert!(passed_by.among("anna", &marks(&["a", "b"])).is_empty(), "it is asked again, and kept");
        assert!(passed_by.among("anna", &marks(&["a", "b", "c"])).is_empty());
    }

    #[test]
    fn the_marks_that_are_kept_are_bounded_and_the_newest_stay() {
        let passed_by = PassedBy::default();
        for n in 0..3 * MARKS {
            passed_by.note("anna", &[n.to_string()]);
        }

        let kept = passed_by.0.lock().unwrap();
        assert!(kept.now.len() + kept.before.len() <= 2 * MARKS);
        assert!(kept.now.contains(&format!("anna\n{}", 3 * MARKS - 1)));
    }
}
