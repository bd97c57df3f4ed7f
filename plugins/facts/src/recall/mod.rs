//! What facts bear on a question, and why the others stay out.

mod tell;
mod weigh;

use std::collections::HashMap;
use std::sync::Arc;

use skymem_core::{Considered, ExchangeId, Fate, Filter, LayerError, Query, Recall, Seq};

use self::weigh::{Weighed, When};
use crate::FactsLayer;
use crate::question;
use crate::sql::ask::{self, SaidIn};
use crate::view::{Glance, Place, Sight, Sighted, View};

/// So many facts are looked up for the filters of a question.
const MOST_FILTERED: usize = 500;

/// An explanation lists so many candidates.
const MOST_EXPLAINED: usize = 100;

/// A question weighed: the view, how it is looked at, and what bears on it, best first.
struct Found {
    view: Arc<View>,
    sight: Sight,
    weighed: Vec<Weighed>,
    /// Of the turns that support it, those that may be named.
    said: HashMap<Seq, SaidIn>,
}

impl FactsLayer {
    pub(crate) async fn find(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        let found = self.weighed(query).await?;
        let glance = found.view.glance(found.sight);
        let chosen = found.weighed.iter().filter(|one| one.fate.is_none());
        Ok(chosen.filter_map(|one| tell::recall(one, &glance, &found.said)).collect())
    }

    /// Everything that was weighed; or what became of the facts that one exchange supports.
    pub(crate) async fn why(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        let found = self.weighed(query).await?;
        let Some(about) = about else {
            let glance = found.view.glance(found.sight);
            let considered = found.weighed.iter().take(MOST_EXPLAINED).map(|one| considered(one, &glance, None));
            return Ok(considered.collect());
        };
        let explained = {
            let glance = found.view.glance(found.sight);
            let supported = glance.supported_by(about);
            let one = |place: Place| {
                let weighed = found.weighed.iter().find(|one| one.facts.contains(&place)).cloned();
                let unseen = || {
                    let holds = glance.at(place).is_some_and(|sighted| sighted.holds(Some(now(query))));
                    let fate = Some(if holds { Fate::NotFound } else { Fate::Superseded });
                    Weighed { facts: vec![place], way: Vec::new(), score: 0.0, parts: Vec::new(), fate }
                };
                considered(&weighed.unwrap_or_else(unseen), &glance, Some(about))
            };
            supported.iter().map(|sighted| one(sighted.place)).collect::<Vec<_>>()
        };
        if !explained.is_empty() {
            return Ok(explained);
        }
        let Some((excerpt, forgotten)) = ask::beginning(&self.db, query.user, about).await? else {
            return Ok(Vec::new());
        };
        // It may say something that this question must not see yet.
        let everything = found.view.glance(Sight::default());
        let fate = match () {
            () if forgotten => Fate::Forgotten,
            () if everything.supported_by(about).is_empty() => Fate::NotFound,
            () => Fate::Filtered,
        };
        let id = skymem_core::RecallId(format!("exchange:{about}"));
        Ok(vec![Considered { id, exchange: Some(about), excerpt, scores: Vec::new(), fate }])
    }

    async fn weighed(&self, query: &Query) -> Result<Found, LayerError> {
        // What was said later than the moment asked about must not come back, whatever it says of that moment.
        let sight = Sight { known_at: query.known_at, said_by: query.as_of };
        let view = self.shelf.seen(query.user, sight).await?;
        let asked = query.clone();
        let ground = Arc::clone(&view);
        let weighed = tokio::task::spawn_blocking(move || weigh_all(&asked, &ground.glance(sight)));
        let mut weighed = weighed.await.map_err(|_| LayerError::Database(sqlx::Error::WorkerCrashed))?;
        let few = weighed.iter().filter(|one| one.fate.is_none()).take(MOST_FILTERED);
        let seqs: Vec<i64> = {
            let glance = view.glance(sight);
            let facts = few.flat_map(|one| &one.facts).filter_map(|place| glance.at(*place));
            facts.flat_map(|sighted| glance.seqs(sighted.held).map(|seq| seq.0).collect::<Vec<_>>()).collect()
        };
        let said = if seqs.is_empty() {
            HashMap::new()
        } else {
            ask::said_in(&self.db, query.user, &seqs, &query.filter).await?
        };
        decide(&mut weighed, query, &view.glance(sight), &said);
        Ok(Found { view, sight, weighed, said })
    }
}

/// What bears on the question or on its rewrite, whichever finds it better.
fn weigh_all(query: &Query, glance: &Glance<'_>) -> Vec<Weighed> {
    let at = now(query);
    let when = When { at, hint: query.time_hint.filter(|time| time.until <= at) };
    let texts = std::iter::once(query.text.as_str()).chain(query.rewrite.as_ref().map(|rewrite| rewrite.text.as_str()));
    let mut best: HashMap<Vec<Place>, Weighed> = HashMap::new();
    for one in texts.flat_map(|text| weigh::weigh(&question::read(text, glance), glance, when)) {
        match best.get(&one.facts) {
            Some(known) if (known.fate.is_none(), known.score) >= (one.fate.is_none(), one.score) => {}
            _ => {
                best.insert(one.facts.clone(), one);
            }
        }
    }
    let mut weighed: Vec<Weighed> = best.into_values().collect();
    weigh::sort(&mut weighed);
    weighed
}

fn now(query: &Query) -> chrono::DateTime<chrono::Utc> {
    query.as_of.unwrap_or(query.asked_at)
}

/// Filters, the window, the limit.
fn decide(weighed: &mut [Weighed], query: &Query, glance: &Glance<'_>, said: &HashMap<Seq, SaidIn>) {
    let mut places = query.limit;
    for one in weighed.iter_mut().filter(|one| one.fate.is_none()) {
        let facts: Vec<_> = one.facts.iter().filter_map(|place| glance.at(*place)).collect();
        let passes = |sighted: &Sighted<'_>| {
            let evidence = glance.evidence(sighted.held);
            evidence.iter().any(|one| match one.seq {
                Some(seq) => said.contains_key(&seq),
                None => file_passes(&query.filter, one.said_at),
            })
        };
        let in_window = |sighted: &Sighted<'_>| {
            let evidence = glance.evidence(sighted.held);
            evidence.iter().filter_map(|one| one.exchange).any(|exchange| query.window.contains(&exchange))
        };
        one.fate = match () {
            () if !facts.iter().all(passes) => Some(Fate::Filtered),
            () if facts.iter().all(in_window) => Some(Fate::InWindow),
            () if one.score < query.least_score => Some(Fate::BelowThreshold),
            () if places == 0 => Some(Fate::BelowLimit),
            () => {
                places -= 1;
                None
            }
        };
    }
}

/// What stands in a file was said in no session, to no collection, by nobody.
fn file_passes(filter: &Filter, read_at: chrono::DateTime<chrono::Utc>) -> bool {
    let Filter { sessions, collections, sources, roles, time, pinned } = filter;
    sessions.is_empty()
        && collections.is_empty()
        && sources.is_empty()
        && roles.is_empty()
        && time.is_none_or(|time| time.contains(read_at))
        && pinned.is_none_or(|pinned| !pinned)
}

fn considered(one: &Weighed, glance: &Glance<'_>, about: Option<ExchangeId>) -> Considered {
    let sentences =
        one.facts.iter().filter_map(|place| glance.at(*place)).map(|sighted| tell::sentence(glance, &sighted));
    let newest = || {
        let facts = one.facts.iter().filter_map(|place| glance.at(*place));
        facts.flat_map(|sighted| glance.evidence(sighted.held)).filter_map(|one| one.exchange).next_back()
    };
    let scores = std::iter::once(("score", one.score)).chain(one.parts.iter().copied());
    Considered {
        id: tell::id(glance, &one.facts),
        exchange: about.or_else(newest),
        excerpt: sentences.collect::<Vec<_>>().join(" "),
        scores: scores.map(|(name, score)| (name.to_owned(), score)).collect(),
        fate: one.fate.unwrap_or(Fate::Recalled),
    }
}
