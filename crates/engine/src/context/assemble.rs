//! The budget is spent, and the messages are laid out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use skymem_core::{Fate, Gap, GapReason, Layer, Message, Priority, Query, Recall, Section, Spent, Tokens};
use tokio::time::timeout;

use super::meter::Meter;
use super::pack::{self, Basket, Market, Stall};
use super::recall::Answer;
use super::render::{self, Draft};
use super::sanitise::sanitise;
use super::window::{Verbatim, Window};
use super::windows::window_tokens;
use super::{Blocks, ContextReply, ContextRequest, History, LayerExplanation, LeftOut, Notes};
use crate::memory::Memory;
use crate::settings::ItemsPlace;

/// However many layers there are and however much fits: no more ranked recalls than this are put before an assistant,
/// unless more are asked for.
const MOST_ITEMS: usize = 20;

/// What a context may cost, and how that is counted.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) meter: Meter,
    pub(super) budget: Tokens,
    /// What the system prompt and the question cost; nothing where the client sends the conversation: then it pays for
    /// what is its own, and the budget is for what memory adds.
    pub(super) fixed: Tokens,
    /// Whether only what memory adds is counted.
    added_alone: bool,
}

impl Terms {
    /// What messages, or of them what memory adds, cost.
    fn cost(&self, messages: &[Message], blocks: &Blocks) -> Tokens {
        if self.added_alone { render::cost_of_blocks(blocks, &self.meter) } else { self.meter.messages(messages) }
    }

    /// What a recall costs in its layer's section.
    fn price(&self, layer: &dyn Layer, recall: &Recall) -> Tokens {
        self.meter.text(&layer.render(std::slice::from_ref(recall)).text) + Tokens(1)
    }
}

impl Memory {
    /// The terms of a request: as it asks; else a share of what its model reads at a time, where that is known; else as
    /// set.
    pub(super) async fn terms(&self, request: &ContextRequest) -> Terms {
        let settings = &self.inner.settings.context;
        let model = request.model.as_deref();
        let meter = match model {
            Some(model) => self.meter(model).await,
            None => Meter::default(),
        };
        let of_model = model.and_then(|model| window_tokens(model, &settings.model_window_tokens));
        let share = |window: usize| window.saturating_mul(usize::from(settings.model_window_percent)) / 100;
        let usual = Tokens(of_model.map_or(settings.budget_tokens, share));
        let added_alone = matches!(request.history, History::Client(_));
        let fixed = if added_alone {
            Tokens(0)
        } else {
            let question = sanitise(&request.ask.text);
            let draft = Draft { system: request.system.as_deref(), question: &question, ..Draft::default() };
            meter.messages(&draft.messages())
        };
        Terms { meter, budget: request.budget.unwrap_or(usual), fixed, added_alone }
    }

    /// What counts for `model`: its own tokenizer where it is at hand, else the estimate with what was learned of it.
    async fn meter(&self, model: &str) -> Meter {
        let (meters, now) = (&self.inner.meters, self.now());
        if let Some(meter) = meters.get(model, now) {
            return meter;
        }
        let (tokenizers, name) = (Arc::clone(&self.inner.tokenizers), model.to_owned());
        // The first time a table may have to be read.
        let exact = tokio::task::spawn_blocking(move || tokenizers.of_model(&name)).await;
        let meter = match exact {
            Ok(Some(counter)) => Meter::exact(counter),
            _ => {
                let deadline = Duration::from_millis(self.inner.settings.context.recall_deadline_ms);
                match timeout(deadline, self.token_factor(model)).await {
                    Ok(Some(factor)) => Meter::corrected(factor),
                    _ => return Meter::default(),
                }
            }
        };
        meters.keep(model, meter.clone(), now);
        meter
    }

    /// Spends the budget and lays out the messages.
    #[expect(clippy::too_many_arguments, reason = "what a reply is made of")]
    pub(super) fn assemble(
        &self,
        request: &ContextRequest,
        terms: &Terms,
        query: &Query,
        window: &Window,
        offers: &[Answer<Vec<Recall>>],
        considered: Vec<LayerExplanation>,
        mut notes: Notes,
    ) -> ContextReply {
        let started = Instant::now();
        let mut market = self.market(terms, query, window, offers);
        let question = sanitise(&request.ask.text);
        let (bought, blocks, messages) = loop {
            let basket = pack::pack(&market);
            let bought = Bought::of(&basket, window, offers);
            let draft = bought.draft(request, &question, self.inner.settings.context.items);
            let (blocks, messages) = (draft.blocks(), draft.messages());
            if terms.cost(&messages, &blocks) <= terms.budget || bought.is_nothing() {
                break (bought, blocks, messages);
            }
            // A layer's section cost more than its recalls alone: buy a little less.
            market.budget = basket.spent.less(Tokens(1));
        };
        let left_out = bought.left_out(terms, window, offers);
        let spent = bought.spent(request, terms, &question, &messages, &blocks);
        if spent.total > terms.budget {
            notes.gap("question", GapReason::OverBudget, "system prompt and question alone cost more than the budget");
        }
        notes.gaps.extend(over_budget(&left_out));
        let considered = weigh_in(considered, &left_out);
        notes.took("pack", started.elapsed());
        let (gaps, timings) = notes.end();
        ContextReply {
            messages,
            blocks,
            items: bought.found.iter().flat_map(|section| section.recalls.iter().cloned()).collect(),
            sections: bought.always.into_iter().chain(bought.account).chain(bought.found).collect(),
            gaps,
            spent,
            left_out,
            time_hint: query.time_hint,
            rewrite: query.rewritten(),
            timings,
            considered,
        }
    }

    /// What there is to buy.
    fn market(&self, terms: &Terms, query: &Query, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Market {
        let shares = &self.inner.settings.context.share_percent;
        let share = |layer: &str| usize::from(*shares.get(layer).unwrap_or(&100));
        let stall = |offer: &Answer<Vec<Recall>>| Stall {
            kind: offer.layer.priority(),
            share: Tokens(terms.budget.0.saturating_mul(share(offer.layer.name().as_str())) / 100),
            prices: offer.value.iter().map(|recall| terms.price(offer.layer.as_ref(), recall)).collect(),
        };
        Market {
            budget: terms.budget,
            fixed: terms.fixed,
            around_always: render::price_of_memory(&terms.meter),
            around_account: render::price_of_account(&terms.meter),
            around_ranked: render::price_of_block(&terms.meter),
            most_ranked: MOST_ITEMS.max(query.limit),
            window: window.exchanges.iter().map(|verbatim| verbatim.price).collect(),
            stalls: offers.iter().map(stall).collect(),
        }
    }

    /// The reply when memory must not be asked: the request's own words.
    pub(super) fn without_memory(&self, request: &ContextRequest, terms: &Terms, notes: Notes) -> ContextReply {
        let question = sanitise(&request.ask.text);
        let bought = Bought::default();
        let messages = bought.draft(request, &question, self.inner.settings.context.items).messages();
        let blocks = Blocks::default();
        let spent = bought.spent(request, terms, &question, &messages, &blocks);
        let (gaps, timings) = notes.end();
        ContextReply {
            messages,
            blocks,
            items: Vec::new(),
            sections: Vec::new(),
            gaps,
            spent,
            left_out: Vec::new(),
            time_hint: None,
            rewrite: None,
            timings,
            considered: Vec::new(),
        }
    }
}

/// What was bought, laid out.
#[derive(Debug, Default)]
pub(super) struct Bought {
    always: Vec<Section>,
    account: Vec<Section>,
    found: Vec<Section>,
    window: Vec<Message>,
    /// How many of the window's oldest exchanges were not bought.
    window_from: usize,
    /// Of each offer, whether each recall was bought.
    recalls: Vec<Vec<usize>>,
}

impl Bought {
    pub(super) fn of(basket: &Basket, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Self {
        let mut bought = Self { window_from: basket.window_from, recalls: basket.recalls.clone(), ..Self::default() };
        for (offer, places) in offers.iter().zip(&basket.recalls) {
            let chosen: Vec<Recall> = places.iter().filter_map(|place| offer.value.get(*place)).cloned().collect();
            if chosen.is_empty() {
                continue;
            }
            let section = render::safe_section(offer.layer.render(&chosen));
            match offer.layer.priority() {
                Priority::Always => bought.always.push(section),
                Priority::Account => bought.account.push(section),
                Priority::Ranked => bought.found.push(section),
            }
        }
        let kept = window.exchanges.iter().skip(basket.window_from);
        bought.window = kept.flat_map(|verbatim| verbatim.messages.iter().cloned()).collect();
        bought
    }

    fn is_nothing(&self) -> bool {
        [&self.always, &self.account, &self.found].into_iter().all(Vec::is_empty) && self.window.is_empty()
    }

    pub(super) fn draft<'a>(&self, request: &'a ContextRequest, question: &'a str, place: ItemsPlace) -> Draft<'a> {
        Draft {
            system: request.system.as_deref(),
            always: self.always.clone(),
            account: self.account.clone(),
            window: self.window.clone(),
            found: self.found.clone(),
            question,
            place,
        }
    }

    /// What would have been in a larger budget.
    fn left_out(&self, terms: &Terms, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Vec<LeftOut> {
        let exchange = |verbatim: &Verbatim| LeftOut {
            of: "window".into(),
            recall: None,
            exchange: Some(verbatim.exchange),
            tokens: verbatim.price,
            why: Fate::OverBudget,
        };
        let mut left_out: Vec<LeftOut> =
            window.cut.iter().chain(window.exchanges.iter().take(self.window_from)).map(exchange).collect();
        for (offer, bought) in offers.iter().zip(&self.recalls) {
            let missed = offer.value.iter().enumerate().filter(|(place, _)| !bought.contains(place));
            left_out.extend(missed.map(|(_, recall)| LeftOut {
                of: offer.layer.name().to_string(),
                recall: Some(recall.id.clone()),
                exchange: recall.provenance.exchange,
                tokens: terms.price(offer.layer.as_ref(), recall),
                why: Fate::OverBudget,
            }));
        }
        left_out
    }

    /// Where the budget went. What is not memory's is no part of it where the client sends it itself.
    fn spent(
        &self,
        request: &ContextRequest,
        terms: &Terms,
        question: &str,
        messages: &[Message],
        blocks: &Blocks,
    ) -> Spent {
        let meter = &terms.meter;
        let mut parts = Vec::new();
        let system = request.system.as_deref().filter(|_| !terms.added_alone);
        parts.extend(system.map(|system| ("system".to_owned(), meter.text(&render::without_markers(system)))));
        for section in self.always.iter().chain(&self.account).chain(&self.found) {
            parts.push((section.layer.to_string(), meter.text(&section.text)));
        }
        if !self.window.is_empty() {
            parts.push(("window".to_owned(), meter.messages(&self.window)));
        }
        if !terms.added_alone {
            parts.push(("question".to_owned(), meter.text(question)));
        }
        let total = terms.cost(messages, blocks);
        let frame = total.less(parts.iter().map(|(_, tokens)| *tokens).sum());
        parts.push(("frame".to_owned(), frame));
        Spent { budget: terms.budget, total, parts }
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
