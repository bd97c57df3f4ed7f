//! Assembling a context: the story of the product.
//!
//! [`Memory::context`] tells it in order: the question becomes a query, all layers are asked at once, the budget is
//! spent, the messages are rendered. It never fails for a fault in memory: what is missing is a gap with a name.

mod frozen;
mod pack;
mod query;
mod recall;
mod render;
mod sanitise;
mod time_words;
mod window;

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use serde::Serialize;
use skymem_core::{
    Considered, ExchangeId, Fate, Filter, Gap, GapReason, Layer, LayerName, Priority, Query, Recall, RecallId, Role,
    Section, SessionId, Spent, TimeRange, Tokens, Unit, UserId, estimate_tokens,
};
use skymem_store::MemoryMode;
use tokio::time::timeout;

use crate::error::EngineError;
use crate::memory::Memory;

pub(crate) use frozen::Frozen;
pub(crate) use render::without_injected;
pub use sanitise::sanitise;

use pack::{Basket, Market, Stall};
use query::Circumstances;
use recall::{Answer, Deadlines};
use render::Draft;
use window::{MOST_EXCHANGES, Verbatim, Window};

/// How long an explanation may take: somebody who debugs waits for it, no chat does.
const PATIENCE_FOR_REASONS: Duration = Duration::from_secs(10);

impl Memory {
    /// Everything the assistant should know for its next answer, within the token budget, with its sources.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a request that cannot be. A fault in memory is a gap, never an error.
    pub async fn context(&self, request: &ContextRequest) -> Result<ContextReply, EngineError> {
        check(request)?;
        let mut notes = Notes::begin();
        let (query, mut window) = self.query(&request.ask, request.window, &mut notes).await;
        let Some(query) = query else { return Ok(self.without_memory(request, notes)) };
        let too_old = window.cut(self.budget(request).less(fixed_price(request)));
        let query = Query { window: window.ids(), ..query };
        let offers = self.offers(request, &query, &mut notes).await;
        let considered = self.reasons(request, &query, &mut notes).await;
        let reply = self.assemble(request, &query, window, too_old, offers, considered, notes);
        self.note_use(&reply, &query);
        Ok(reply)
    }

    /// What is remembered that bears on the question, best first: of the layers that are named or, when none is, of
    /// all that rank what they know.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a question that cannot be put. A fault in memory is a gap, never an error.
    pub async fn recall(&self, request: &RecallRequest) -> Result<RecallReply, EngineError> {
        Ok(self.recalled(request).await?.1)
    }

    /// As [`Memory::recall`], with everything that was weighed on the way; of `about` alone when given, also when the
    /// search did not come across it. Nothing counts as used.
    ///
    /// # Errors
    ///
    /// As [`Memory::recall`].
    pub async fn explain(
        &self,
        request: &RecallRequest,
        about: Option<ExchangeId>,
    ) -> Result<Explanation, EngineError> {
        let (query, mut reply) = self.recalled(request).await?;
        let Some(query) = query else { return Ok(Explanation { reply, layers: Vec::new() }) };
        let (layers, gaps) = self.weighed(&self.ranked(&request.layers)?, &query, about).await;
        reply.gaps.extend(gaps);
        Ok(Explanation { reply, layers })
    }

    async fn recalled(&self, request: &RecallRequest) -> Result<(Option<Query>, RecallReply), EngineError> {
        query::check(request)?;
        let layers = self.ranked(&request.layers)?;
        let mut notes = Notes::begin();
        let (query, window) = self.query(request, None, &mut notes).await;
        let query = query.map(|query| Query { window: window.ids(), ..query });
        let offers = match &query {
            Some(query) => self.ask(&layers, query, &mut notes).await,
            None => Vec::new(),
        };
        let time_hint = query.as_ref().and_then(|query| query.time_hint);
        let (gaps, timings) = notes.end();
        metrics::histogram!("skymem_recall_seconds").record(total_seconds(&timings));
        Ok((query, RecallReply { recalls: by_rank(offers), gaps, time_hint, timings }))
    }

    /// The layers of these names or, when there are none, those that rank what they know: what is always loaded answers
    /// every question and would take the places of finds.
    fn ranked(&self, names: &[LayerName]) -> Result<Vec<Arc<dyn Layer>>, EngineError> {
        if names.is_empty() {
            let ranked = self.inner.layers.iter().filter(|layer| layer.priority() == Priority::Ranked);
            return Ok(ranked.cloned().collect());
        }
        names.iter().map(|name| self.layer(name.as_str()).cloned()).collect()
    }

    /// The query for a request, and the window of its session. No query when memory must not be asked.
    async fn query(
        &self,
        request: &RecallRequest,
        window: Option<usize>,
        notes: &mut Notes,
    ) -> (Option<Query>, Window) {
        let inner = &self.inner;
        let settings = &inner.settings.context;
        let deadline = Duration::from_millis(settings.recall_deadline_ms);
        let most = window.unwrap_or(settings.window_exchanges);
        let mode = async {
            match (&request.memory, &request.session) {
                (Some(mode), _) => Ok(Some(*mode)),
                (None, None) => Ok(None),
                (None, Some(session)) => {
                    Ok(inner.journal.session(request.user, session).await?.map(|session| session.memory))
                }
            }
        };
        let read = async {
            match &request.session {
                Some(session) => window::read(&inner.journal, request.user, session, most, &request.text).await,
                None => Ok(Window::default()),
            }
        };
        let embed_deadline = Duration::from_millis(settings.embed_deadline_ms);
        let ((mode, _), (zone, _), (window, window_took), ((embedding, embedder_gap), embed_took)) = tokio::join!(
            timed(timeout(deadline, mode)),
            timed(timeout(deadline, inner.journal.timezone(request.user))),
            timed(timeout(deadline, read)),
            timed(query::embed(inner.embedder.as_ref(), &request.text, embed_deadline)),
        );
        notes.took("window", window_took);
        notes.took("embed", embed_took);
        let mode: Option<MemoryMode> = notes.or_gap("session", mode).flatten();
        let window = notes.or_gap("window", window).unwrap_or_default();
        if !mode.unwrap_or_default().reads() {
            notes.gap("memory", GapReason::Off, "memory is not read for this session or request");
            return (None, Window::default());
        }
        notes.gaps.extend(embedder_gap);
        let zone: Option<Tz> = notes.or_gap("timezone", zone).flatten();
        let circumstances = Circumstances {
            embedding,
            zone: zone.unwrap_or(Tz::UTC),
            window: Vec::new(),
            asked_at: request.asked_at.unwrap_or_else(|| self.now()),
            limit: request.limit.unwrap_or(settings.top_k),
        };
        (Some(query::query(request, circumstances)), window)
    }

    /// Every layer's answer to the query. What is always loaded may be frozen, and is then not asked for again.
    async fn offers(&self, request: &ContextRequest, query: &Query, notes: &mut Notes) -> Vec<Answer<Vec<Recall>>> {
        let named = &request.ask.layers;
        let layers: Vec<Arc<dyn Layer>> = self
            .inner
            .layers
            .iter()
            .filter(|layer| named.is_empty() || named.contains(&layer.name()))
            .cloned()
            .collect();
        let Some(session) = &query.session else { return self.ask(&layers, query, notes).await };
        if !request.freeze {
            self.inner.frozen.thaw(query.user, session);
            return self.ask(&layers, query, notes).await;
        }
        let (always, ranked): (Vec<_>, Vec<_>) =
            layers.iter().cloned().partition(|layer| layer.priority() == Priority::Always);
        if let Some(frozen) = self.inner.frozen.get(query.user, session) {
            let mut offers = self.ask(&ranked, query, notes).await;
            for (name, recalls) in frozen {
                let layer = always.iter().find(|layer| layer.name() == name);
                offers.extend(layer.map(|layer| Answer { layer: Arc::clone(layer), value: recalls }));
            }
            let place = |offer: &Answer<_>| layers.iter().position(|layer| layer.name() == offer.layer.name());
            offers.sort_by_key(place);
            return offers;
        }
        let offers = self.ask(&layers, query, notes).await;
        let answered: Vec<_> = offers.iter().filter(|offer| offer.layer.priority() == Priority::Always).collect();
        if answered.len() == always.len() {
            let recalls = answered.iter().map(|offer| (offer.layer.name(), offer.value.clone())).collect();
            self.inner.frozen.keep(query.user, session, recalls);
        }
        offers
    }

    /// Asks layers and makes safe what they answer.
    async fn ask(&self, layers: &[Arc<dyn Layer>], query: &Query, notes: &mut Notes) -> Vec<Answer<Vec<Recall>>> {
        let started = Instant::now();
        let shared = Arc::new(query.clone());
        let (mut answers, gaps, timings) = recall::ask(layers, self.deadlines(), |layer| {
            let query = Arc::clone(&shared);
            async move { layer.recall(&query).await }
        })
        .await;
        notes.took("recall", started.elapsed());
        notes.gaps.extend(gaps);
        notes.timings.extend(timings);
        for answer in &mut answers {
            let recalls = std::mem::take(&mut answer.value);
            answer.value = recalls.into_iter().map(render::safe).collect();
            if answer.layer.priority() == Priority::Ranked {
                answer.value.truncate(query.limit);
            }
            let faults = answer.layer.faults(query.user);
            if !faults.is_empty() {
                notes.gap(answer.layer.name().as_str(), GapReason::Damaged, faults.join("; "));
            }
        }
        answers
    }

    /// What each layer weighed, when the request asks for it.
    async fn reasons(&self, request: &ContextRequest, query: &Query, notes: &mut Notes) -> Vec<LayerExplanation> {
        if !request.explain {
            return Vec::new();
        }
        let (layers, gaps) = self.weighed(&self.inner.layers, query, None).await;
        notes.gaps.extend(gaps);
        layers
    }

    async fn weighed(
        &self,
        layers: &[Arc<dyn Layer>],
        query: &Query,
        about: Option<ExchangeId>,
    ) -> (Vec<LayerExplanation>, Vec<Gap>) {
        let shared = Arc::new(query.clone());
        let deadlines = Deadlines { whole: PATIENCE_FOR_REASONS, own: None };
        let (answers, gaps, _) = recall::ask(layers, deadlines, |layer| {
            let query = Arc::clone(&shared);
            async move { layer.explain(&query, about).await }
        })
        .await;
        let explained =
            |answer: Answer<Vec<Considered>>| LayerExplanation { layer: answer.layer.name(), considered: answer.value };
        (answers.into_iter().map(explained).collect(), gaps)
    }

    fn deadlines(&self) -> Deadlines<'_> {
        let settings = &self.inner.settings.context;
        Deadlines { whole: Duration::from_millis(settings.recall_deadline_ms), own: Some(&settings.layer_deadline_ms) }
    }

    fn budget(&self, request: &ContextRequest) -> Tokens {
        request.budget.unwrap_or(Tokens(self.inner.settings.context.budget_tokens))
    }

    /// Spends the budget and lays out the messages.
    #[expect(clippy::too_many_arguments, reason = "each comes from a step of its own in the story above")]
    fn assemble(
        &self,
        request: &ContextRequest,
        query: &Query,
        window: Window,
        too_old: Vec<Verbatim>,
        offers: Vec<Answer<Vec<Recall>>>,
        considered: Vec<LayerExplanation>,
        mut notes: Notes,
    ) -> ContextReply {
        let started = Instant::now();
        let budget = self.budget(request);
        let mut market = self.market(request, budget, &window, &offers);
        let question = sanitise(&request.ask.text);
        let (bought, messages) = loop {
            let bought = Bought::of(&pack::pack(&market), &window, &offers);
            let messages = bought.draft(request, &question, self.inner.settings.context.items).messages();
            let over = render::cost(&messages).less(budget);
            if over == Tokens(0) || bought.is_nothing() {
                break (bought, messages);
            }
            // A layer's section cost more than its recalls alone: buy for as much less.
            market.budget = market.budget.less(over);
        };
        let left_out = bought.left_out(too_old, &window, &offers);
        if render::cost(&messages) > budget {
            notes.gap("question", GapReason::OverBudget, "system prompt and question alone cost more than the budget");
        }
        notes.gaps.extend(over_budget(&left_out));
        let considered = weigh_in(considered, &left_out);
        let spent = bought.spent(request, &question, budget, &messages);
        notes.took("pack", started.elapsed());
        let (gaps, timings) = notes.end();
        ContextReply {
            messages,
            items: bought.found.iter().flat_map(|section| section.recalls.iter().cloned()).collect(),
            sections: bought.always.into_iter().chain(bought.found).collect(),
            gaps,
            spent,
            left_out,
            time_hint: query.time_hint,
            timings,
            considered,
        }
    }

    /// What there is to buy.
    fn market(
        &self,
        request: &ContextRequest,
        budget: Tokens,
        window: &Window,
        offers: &[Answer<Vec<Recall>>],
    ) -> Market {
        let shares = &self.inner.settings.context.share_percent;
        let stall = |offer: &Answer<Vec<Recall>>| Stall {
            always: offer.layer.priority() == Priority::Always,
            share: Tokens(budget.0 * usize::from(*shares.get(offer.layer.name().as_str()).unwrap_or(&100)) / 100),
            prices: offer.value.iter().map(|recall| price(offer.layer.as_ref(), recall)).collect(),
        };
        Market {
            budget,
            fixed: fixed_price(request),
            around_always: render::price_of_memory(),
            around_ranked: render::price_of_block(),
            window: window.exchanges.iter().map(|verbatim| verbatim.price).collect(),
            stalls: offers.iter().map(stall).collect(),
        }
    }

    /// The reply when memory must not be asked: the request's own words.
    fn without_memory(&self, request: &ContextRequest, notes: Notes) -> ContextReply {
        let question = sanitise(&request.ask.text);
        let bought = Bought::default();
        let messages = bought.draft(request, &question, self.inner.settings.context.items).messages();
        let spent = bought.spent(request, &question, self.budget(request), &messages);
        let (gaps, timings) = notes.end();
        ContextReply {
            messages,
            items: Vec::new(),
            sections: Vec::new(),
            gaps,
            spent,
            left_out: Vec::new(),
            time_hint: None,
            timings,
            considered: Vec::new(),
        }
    }

    /// Tells the layers what was put before an assistant. Nobody waits for it.
    fn note_use(&self, reply: &ContextReply, query: &Query) {
        if !self.inner.settings.context.note_use {
            return;
        }
        for section in &reply.sections {
            let Ok(layer) = self.layer(section.layer.as_str()).cloned() else { continue };
            let used: Vec<RecallId> = section.recalls.iter().map(|recall| recall.id.clone()).collect();
            if layer.priority() == Priority::Always || used.is_empty() {
                continue;
            }
            let (user, at) = (query.user, query.asked_at);
            tokio::spawn(async move {
                if let Err(error) = layer.used(user, &used, at).await {
                    tracing::debug!(%error, layer = %layer.name(), "A use could not be noted");
                }
            });
        }
    }
}

/// Refuses what is no request for a context.
fn check(request: &ContextRequest) -> Result<(), EngineError> {
    query::check(&request.ask)?;
    if request.budget == Some(Tokens(0)) {
        return Err(EngineError::Refused("the budget is at least 1 token".into()));
    }
    if request.window.is_some_and(|window| window > MOST_EXCHANGES) {
        return Err(EngineError::Refused(format!("the window has 0 to {MOST_EXCHANGES} exchanges")));
    }
    Ok(())
}

/// What the system prompt and the question cost.
fn fixed_price(request: &ContextRequest) -> Tokens {
    let question = sanitise(&request.ask.text);
    let draft = Draft { system: request.system.as_deref(), question: &question, ..Draft::default() };
    render::cost(&draft.messages())
}

/// What a recall costs in its layer's section.
fn price(layer: &dyn Layer, recall: &Recall) -> Tokens {
    estimate_tokens(&layer.render(std::slice::from_ref(recall)).text) + Tokens(1)
}

/// Every layer's first, then every layer's second, and so on: ranks are compared, scores are not.
fn by_rank(offers: Vec<Answer<Vec<Recall>>>) -> Vec<Recall> {
    let mut queues: Vec<_> = offers.into_iter().map(|offer| offer.value.into_iter()).collect();
    let mut ranked = Vec::new();
    loop {
        let before = ranked.len();
        ranked.extend(queues.iter_mut().filter_map(Iterator::next));
        if ranked.len() == before {
            return ranked;
        }
    }
}

/// What was bought, laid out.
#[derive(Debug, Default)]
struct Bought {
    always: Vec<Section>,
    found: Vec<Section>,
    window: Vec<Message>,
    /// How many of the window's oldest exchanges were not bought.
    window_from: usize,
    /// Of each offer, whether each recall was bought.
    recalls: Vec<Vec<usize>>,
}

impl Bought {
    fn of(basket: &Basket, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Self {
        let mut bought = Self { window_from: basket.window_from, recalls: basket.recalls.clone(), ..Self::default() };
        for (offer, places) in offers.iter().zip(&basket.recalls) {
            let chosen: Vec<Recall> = places.iter().filter_map(|place| offer.value.get(*place)).cloned().collect();
            if chosen.is_empty() {
                continue;
            }
            let section = offer.layer.render(&chosen);
            match offer.layer.priority() {
                Priority::Always => bought.always.push(section),
                Priority::Ranked => bought.found.push(section),
            }
        }
        let kept = window.exchanges.iter().skip(basket.window_from);
        bought.window = kept.flat_map(|verbatim| verbatim.messages.iter().cloned()).collect();
        bought
    }

    fn is_nothing(&self) -> bool {
        self.always.is_empty() && self.found.is_empty() && self.window.is_empty()
    }

    fn draft<'a>(
        &self,
        request: &'a ContextRequest,
        question: &'a str,
        place: crate::settings::ItemsPlace,
    ) -> Draft<'a> {
        Draft {
            system: request.system.as_deref(),
            always: self.always.clone(),
            window: self.window.clone(),
            found: self.found.clone(),
            question,
            place,
        }
    }

    /// What would have been in a larger budget.
    fn left_out(&self, too_old: Vec<Verbatim>, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Vec<LeftOut> {
        let exchange = |verbatim: &Verbatim| LeftOut {
            of: "window".into(),
            recall: None,
            exchange: Some(verbatim.exchange),
            tokens: verbatim.price,
            why: Fate::OverBudget,
        };
        let mut left_out: Vec<LeftOut> =
            too_old.iter().chain(window.exchanges.iter().take(self.window_from)).map(exchange).collect();
        for (offer, bought) in offers.iter().zip(&self.recalls) {
            let missed = offer.value.iter().enumerate().filter(|(place, _)| !bought.contains(place));
            left_out.extend(missed.map(|(_, recall)| LeftOut {
                of: offer.layer.name().to_string(),
                recall: Some(recall.id.clone()),
                exchange: recall.provenance.exchange,
                tokens: price(offer.layer.as_ref(), recall),
                why: Fate::OverBudget,
            }));
        }
        left_out
    }

    /// Where the budget went.
    fn spent(&self, request: &ContextRequest, question: &str, budget: Tokens, messages: &[Message]) -> Spent {
        let mut parts = Vec::new();
        parts.extend(request.system.as_deref().map(|system| ("system".to_owned(), estimate_tokens(system))));
        for section in self.always.iter().chain(&self.found) {
            parts.push((section.layer.to_string(), estimate_tokens(&section.text)));
        }
        if !self.window.is_empty() {
            parts.push(("window".to_owned(), render::cost(&self.window)));
        }
        parts.push(("question".to_owned(), estimate_tokens(question)));
        let total = render::cost(messages);
        let frame = total.less(parts.iter().map(|(_, tokens)| *tokens).sum());
        parts.push(("frame".to_owned(), frame));
        Spent { budget, total, parts }
    }
}

/// A gap for everyone who had more than fits.
fn over_budget(left_out: &[LeftOut]) -> Vec<Gap> {
    let mut owners: Vec<&str> = left_out.iter().map(|left_out| left_out.of.as_str()).collect();
    owners.dedup();
    let gap = |of: &str| {
        let missed = left_out.iter().filter(|left_out| left_out.of == of);
        let (count, tokens) = missed.fold((0, Tokens(0)), |(count, tokens), one| (count + 1, tokens + one.tokens));
        Gap {
            of: of.to_owned(),
            reason: GapReason::OverBudget,
            detail: format!("{count} left out, {} tokens: they did not fit the budget", tokens.0),
        }
    };
    owners.into_iter().map(gap).collect()
}

/// The fate of what was recalled and then did not fit.
fn weigh_in(mut considered: Vec<LayerExplanation>, left_out: &[LeftOut]) -> Vec<LayerExplanation> {
    for layer in &mut considered {
        for candidate in &mut layer.considered {
            let missed =
                left_out.iter().any(|one| one.of == layer.layer.as_str() && one.recall.as_ref() == Some(&candidate.id));
            if missed && candidate.fate == Fate::Recalled {
                candidate.fate = Fate::OverBudget;
            }
        }
    }
    considered
}

/// What is written down on the way: gaps, and how long each stage took.
struct Notes {
    began: Instant,
    gaps: Vec<Gap>,
    timings: Vec<Timing>,
}

impl Notes {
    fn begin() -> Self {
        Self { began: Instant::now(), gaps: Vec::new(), timings: Vec::new() }
    }

    fn took(&mut self, stage: &str, time: Duration) {
        self.timings.push(Timing::of(stage, time));
    }

    fn gap(&mut self, of: &str, reason: GapReason, detail: impl Into<String>) {
        self.gaps.push(Gap { of: of.to_owned(), reason, detail: detail.into() });
    }

    /// The value, or nothing and a gap.
    fn or_gap<T>(
        &mut self,
        of: &str,
        value: Result<Result<T, skymem_store::StoreError>, tokio::time::error::Elapsed>,
    ) -> Option<T> {
        match value {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(error)) => {
                tracing::warn!(%error, of, "The journal could not be read; the context goes on without it");
                self.gap(of, GapReason::Failed, error.to_string());
            }
            Err(_) => self.gap(of, GapReason::Late, "the database took too long"),
        }
        None
    }

    /// The gaps and the timings, counted for the operator.
    fn end(mut self) -> (Vec<Gap>, Vec<Timing>) {
        let total = self.began.elapsed();
        self.took("total", total);
        for gap in &self.gaps {
            metrics::counter!("skymem_gaps_total", "of" => gap.of.clone(), "reason" => gap.reason.as_str())
                .increment(1);
        }
        for timing in &self.timings {
            metrics::histogram!("skymem_context_seconds", "stage" => timing.stage.clone()).record(timing.ms / 1_000.0);
        }
        (self.gaps, self.timings)
    }
}

fn total_seconds(timings: &[Timing]) -> f64 {
    timings.last().map_or(0.0, |total| total.ms / 1_000.0)
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    (work.await, started.elapsed())
}

/// A question to memory.
#[derive(Debug, Clone, PartialEq)]
pub struct RecallRequest {
    /// Whose memory is asked.
    pub user: UserId,
    /// The question in words.
    pub text: String,
    /// The session that asks, if any: its window is not recalled.
    pub session: Option<SessionId>,
    /// What may come back at all.
    pub filter: Filter,
    /// Only these layers; empty for all in a context, and for all that rank what they know in a recall.
    pub layers: Vec<LayerName>,
    /// At most this many recalls of each layer, 1 to 100; `None` for the setting `top_k`.
    pub limit: Option<usize>,
    /// What one recall is.
    pub unit: Unit,
    /// How many exchanges before and after come with each recall, at most 5.
    pub neighbours: usize,
    /// Recalls below this score are left out, 0 to 1.
    pub least_score: f32,
    /// Nothing said later comes back.
    pub as_of: Option<DateTime<Utc>>,
    /// When it is asked, if not now: ages and time words count from then.
    pub asked_at: Option<DateTime<Utc>>,
    /// What memory may do; `None` for what the session says.
    pub memory: Option<MemoryMode>,
}

impl RecallRequest {
    /// The plainest question: `text`, to all layers, with every setting as it is.
    #[must_use]
    pub fn new(user: UserId, text: impl Into<String>) -> Self {
        Self {
            user,
            text: text.into(),
            session: None,
            filter: Filter::default(),
            layers: Vec::new(),
            limit: None,
            unit: Unit::default(),
            neighbours: 0,
            least_score: 0.0,
            as_of: None,
            asked_at: None,
            memory: None,
        }
    }
}

/// What memory answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallReply {
    /// What was found: every layer's first, then every layer's second, and so on.
    pub recalls: Vec<Recall>,
    /// What could not contribute.
    pub gaps: Vec<Gap>,
    /// The time that the question's own words speak of.
    pub time_hint: Option<TimeRange>,
    /// How long each stage took.
    pub timings: Vec<Timing>,
}

/// What memory answered, and everything it weighed on the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// What was found.
    pub reply: RecallReply,
    /// What each layer weighed.
    pub layers: Vec<LayerExplanation>,
}

/// What one layer weighed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerExplanation {
    /// Which layer.
    pub layer: LayerName,
    /// Every candidate with its scores and its fate.
    pub considered: Vec<Considered>,
}

/// What the assistant is about to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ContextRequest {
    /// The question, and how memory is to be asked.
    pub ask: RecallRequest,
    /// The client's own system prompt, to stand first.
    pub system: Option<String>,
    /// What all messages may cost together; `None` for the setting `budget_tokens`.
    pub budget: Option<Tokens>,
    /// How many exchanges stand word for word, 0 to 8; `None` for the setting `window_exchanges`.
    pub window: Option<usize>,
    /// Keep the always-loaded part as it was when this session first asked for it frozen.
    pub freeze: bool,
    /// Say what every layer weighed.
    pub explain: bool,
}

impl ContextRequest {
    /// The plainest request: `question`, with every setting as it is.
    #[must_use]
    pub fn new(user: UserId, question: impl Into<String>) -> Self {
        Self {
            ask: RecallRequest::new(user, question),
            system: None,
            budget: None,
            window: None,
            freeze: false,
            explain: false,
        }
    }
}

/// Everything the assistant should know for its next answer, ready to send.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextReply {
    /// The messages in the order to send them; the question is last.
    pub messages: Vec<Message>,
    /// What was recalled and is in the messages, in reading order, without the always-loaded part.
    pub items: Vec<Recall>,
    /// Each layer's part, in reading order.
    pub sections: Vec<Section>,
    /// What could not contribute.
    pub gaps: Vec<Gap>,
    /// Where the budget went.
    pub spent: Spent,
    /// What would have been in a larger budget.
    pub left_out: Vec<LeftOut>,
    /// The time that the question's own words speak of.
    pub time_hint: Option<TimeRange>,
    /// How long each stage took.
    pub timings: Vec<Timing>,
    /// What each layer weighed, when the request asked for it.
    pub considered: Vec<LayerExplanation>,
}

/// One message of OpenAI's chat format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Whose part it plays.
    pub role: Role,
    /// What it says.
    pub content: String,
}

/// Something that is not in the messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// `window`, or a layer.
    pub of: String,
    /// The recall, when it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recall: Option<RecallId>,
    /// The exchange, when it comes from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeId>,
    /// What it would have cost.
    pub tokens: Tokens,
    /// Why it is out.
    pub why: Fate,
}

/// How long one stage took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// `embed`, `window`, `recall`, `pack`, a layer's name, and last `total`.
    pub stage: String,
    /// In milliseconds.
    pub ms: f64,
}

impl Timing {
    fn of(stage: &str, time: Duration) -> Self {
        Self { stage: stage.to_owned(), ms: time.as_secs_f64() * 1_000.0 }
    }
}
