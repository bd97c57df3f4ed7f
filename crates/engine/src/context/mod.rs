//! Assembling a context: the story of the product.
//!
//! [`Memory::context`] tells it in order: the question becomes a query, all layers are asked at once, the budget is
//! spent, the messages are rendered. It never fails for a fault in memory: what is missing is a gap with a name.

mod assemble;
mod frozen;
mod markers;
mod meter;
mod notes;
mod offers;
mod pack;
mod query;
mod recall;
mod render;
mod request;
mod rewrite;
mod sanitise;
mod time_words;
mod uses;
mod window;
mod windows;

use skymem_core::wall::carried;
use skymem_core::{ExchangeId, Priority, Query, Recall};

use crate::error::EngineError;
use crate::memory::Memory;

pub(crate) use frozen::Frozen;
pub(crate) use meter::Meters;
pub(crate) use render::without_injected;
pub use request::{
    Blocks, ClientHistory, ContextReply, ContextRequest, Explanation, History, LayerExplanation, LeftOut, RecallReply,
    RecallRequest, Timing,
};
pub use sanitise::sanitise;
pub use uses::Uses;
pub(crate) use window::MOST_EXCHANGES;

pub(crate) use notes::Notes;
pub use query::Ahead;
use query::Asked;
use recall::Answer;

impl Memory {
    /// Everything the assistant should know for its next answer, within the token budget, with its sources.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a request that cannot be. A fault in memory is a gap, never an error.
    pub async fn context(&self, request: &ContextRequest) -> Result<ContextReply, EngineError> {
        let (reply, uses) = self.context_of(request, None).await?;
        if !uses.is_empty() {
            let memory = self.clone();
            // Nobody waits for it.
            tokio::spawn(carried(async move { memory.note_uses(uses).await }));
        }
        Ok(reply)
    }

    /// As [`Memory::context`], of a question that may be embedded already. What is used is still to be noted
    /// ([`Memory::note_uses`]), once it was put before the assistant.
    ///
    /// # Errors
    ///
    /// As [`Memory::context`].
    pub async fn context_of(
        &self,
        request: &ContextRequest,
        ahead: Option<Ahead>,
    ) -> Result<(ContextReply, Uses), EngineError> {
        request.check()?;
        let mut layers = self.named(&request.ask.layers)?;
        if matches!(&request.history, History::Client(history) if history.whole) {
            layers.retain(|layer| layer.priority() != Priority::Account);
        }
        let mut notes = Notes::begin("skymem_context_seconds");
        let (asked, terms) =
            tokio::join!(self.asked(&request.ask, &request.history, ahead, &mut notes), self.terms(request));
        let Some(Asked { query, ahead, mut window, mode }) = asked else {
            return Ok((self.without_memory(request, &terms, notes), Uses::default()));
        };
        window.price(&terms.meter);
        window.cut(terms.budget.less(terms.fixed));
        let query = Query { window: window.ids(), ..query };
        let (locked, offers) =
            tokio::join!(self.locked_gap(&query), self.offers(&layers, request.freeze, &query, &mut notes));
        ahead.noted(&mut notes).await;
        notes.gaps.extend(locked);
        if request.explain {
            let (considered, gaps) = self.weighed(&layers, &query, None).await;
            notes.gaps.extend(gaps);
            let reply = self.assemble(request, &terms, &query, &window, &offers, considered, notes);
            return Ok((reply, Uses::default()));
        }
        let reply = self.assemble(request, &terms, &query, &window, &offers, Vec::new(), notes);
        let uses = if mode.writes() { self.uses(&reply, &query) } else { Uses::default() };
        Ok((reply, uses))
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
        request.check()?;
        let layers = self.ranked(&request.layers)?;
        let mut notes = Notes::begin("skymem_recall_seconds");
        let asked = self.asked(request, &History::default(), None, &mut notes).await;
        let (query, offers) = match asked {
            Some(Asked { query, ahead, .. }) => {
                let (locked, offers) = tokio::join!(self.locked_gap(&query), self.ask(&layers, &query, &mut notes));
                ahead.noted(&mut notes).await;
                notes.gaps.extend(locked);
                (Some(query), offers)
            }
            None => (None, Vec::new()),
        };
        let time_hint = query.as_ref().and_then(|query| query.time_hint);
        let rewrite = query.as_ref().and_then(Query::rewritten);
        let (gaps, timings) = notes.end();
        Ok((query, RecallReply { recalls: by_rank(offers), gaps, time_hint, rewrite, timings }))
    }
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

#[cfg(test)]
mod defence;
#[cfg(test)]
mod tests;
