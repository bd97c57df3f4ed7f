//! The budget is spent, and the messages are laid out.

use std::time::Instant;

use skymem_core::{
    Fate, Gap, GapReason, Layer, Message, Priority, Query, Recall, Section, Spent, Tokens, estimate_tokens,
};

use super::pack::{self, Basket, Market, Stall};
use super::recall::Answer;
use super::render::{self, Draft};
use super::sanitise::sanitise;
use super::window::{Verbatim, Window};
use super::{Blocks, ContextReply, ContextRequest, LayerExplanation, LeftOut, Notes};
use crate::memory::Memory;
use crate::settings::ItemsPlace;

impl Memory {
    /// Spends the budget and lays out the messages.
    pub(super) fn assemble(
        &self,
        request: &ContextRequest,
        query: &Query,
        window: &Window,
        offers: &[Answer<Vec<Recall>>],
        considered: Vec<LayerExplanation>,
        mut notes: Notes,
    ) -> ContextReply {
        let started = Instant::now();
        let budget = self.budget(request);
        let mut market = self.market(request, budget, window, offers);
        let question = sanitise(&request.ask.text);
        let (bought, blocks, messages) = loop {
            let basket = pack::pack(&market);
            let bought = Bought::of(&basket, window, offers);
            let draft = bought.draft(request, &question, self.inner.settings.context.items);
            let (blocks, messages) = (draft.blocks(), draft.messages());
            if render::cost(&messages) <= budget || bought.is_nothing() {
                break (bought, blocks, messages);
            }
            // A layer's section cost more than its recalls alone: buy a little less.
            market.budget = basket.spent.less(Tokens(1));
        };
        let left_out = bought.left_out(window, offers);
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
            blocks,
            items: bought.found.iter().flat_map(|section| section.recalls.iter().cloned()).collect(),
            sections: bought.always.into_iter().chain(bought.account).chain(bought.found).collect(),
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
            kind: offer.layer.priority(),
            share: Tokens(budget.0 * usize::from(*shares.get(offer.layer.name().as_str()).unwrap_or(&100)) / 100),
            prices: offer.value.iter().map(|recall| price(offer.layer.as_ref(), recall)).collect(),
        };
        Market {
            budget,
            fixed: fixed_price(request),
            around_always: render::price_of_memory(),
            around_account: render::price_of_account(),
            around_ranked: render::price_of_block(),
            window: window.exchanges.iter().map(|verbatim| verbatim.price).collect(),
            stalls: offers.iter().map(stall).collect(),
        }
    }

    /// The reply when memory must not be asked: the request's own words.
    pub(super) fn without_memory(&self, request: &ContextRequest, notes: Notes) -> ContextReply {
        let question = sanitise(&request.ask.text);
        let bought = Bought::default();
        let messages = bought.draft(request, &question, self.inner.settings.context.items).messages();
        let spent = bought.spent(request, &question, self.budget(request), &messages);
        let (gaps, timings) = notes.end();
        ContextReply {
            messages,
            blocks: Blocks::default(),
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

    pub(super) fn budget(&self, request: &ContextRequest) -> Tokens {
        request.budget.unwrap_or(Tokens(self.inner.settings.context.budget_tokens))
    }
}

/// What the system prompt and the question cost.
pub(super) fn fixed_price(request: &ContextRequest) -> Tokens {
    let question = sanitise(&request.ask.text);
    let draft = Draft { system: request.system.as_deref(), question: &question, ..Draft::default() };
    render::cost(&draft.messages())
}

/// What a recall costs in its layer's section.
fn price(layer: &dyn Layer, recall: &Recall) -> Tokens {
    estimate_tokens(&layer.render(std::slice::from_ref(recall)).text) + Tokens(1)
}

/// What was bought, laid out.
#[derive(Debug, Default)]
struct Bought {
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

    fn draft<'a>(&self, request: &'a ContextRequest, question: &'a str, place: ItemsPlace) -> Draft<'a> {
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
    fn left_out(&self, window: &Window, offers: &[Answer<Vec<Recall>>]) -> Vec<LeftOut> {
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
        for section in self.always.iter().chain(&self.account).chain(&self.found) {
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
