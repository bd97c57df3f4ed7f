//! A request becomes a question to memory: made safe, embedded and timed, once, for all layers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use skymem_core::{Embedder, Embedding, ExchangeId, Gap, GapReason, Purpose, Query};
use tokio::time::timeout;

use super::RecallRequest;
use super::sanitise::sanitise;
use super::time_words::time_range;
use crate::error::EngineError;

/// At most this many recalls of one layer.
pub(crate) const MOST_RECALLS: usize = 100;
/// At most this many exchanges before and after a recall.
const MOST_NEIGHBOURS: usize = 5;

/// Refuses what is no question.
pub(crate) fn check(request: &RecallRequest) -> Result<(), EngineError> {
    let time = request.filter.time;
    let rules = [
        (!request.text.trim().is_empty(), "the question is empty".to_owned()),
        (
            request.limit.is_none_or(|limit| (1..=MOST_RECALLS).contains(&limit)),
            format!("limit is from 1 to {MOST_RECALLS}"),
        ),
        (request.neighbours <= MOST_NEIGHBOURS, format!("neighbours is from 0 to {MOST_NEIGHBOURS}")),
        ((0.0..=1.0).contains(&request.least_score), "the least score is from 0 to 1".to_owned()),
        (time.is_none_or(|time| time.from < time.until), "the time to look in ends before it begins".to_owned()),
    ];
    match rules.into_iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(EngineError::Refused(rule)),
        None => Ok(()),
    }
}

/// What the engine knows of a question besides its words.
#[derive(Debug)]
pub(crate) struct Circumstances {
    pub(crate) embedding: Option<Embedding>,
    pub(crate) zone: Tz,
    pub(crate) window: Vec<ExchangeId>,
    pub(crate) asked_at: DateTime<Utc>,
    pub(crate) limit: usize,
}

/// The question to memory.
pub(crate) fn query(request: &RecallRequest, circumstances: Circumstances) -> Query {
    let Circumstances { embedding, zone, window, asked_at, limit } = circumstances;
    Query {
        user: request.user,
        text: sanitise(&request.text).into_owned(),
        embedding,
        time_hint: time_range(&request.text, asked_at, zone),
        session: request.session.clone(),
        filter: request.filter.clone(),
        window,
        asked_at,
        as_of: request.as_of,
        limit,
        unit: request.unit,
        neighbours: request.neighbours,
        least_score: request.least_score,
    }
}

/// The question's place in meaning. `None`, and the gap that says why, when the embedder is late or fails: then words
/// alone must do.
pub(crate) async fn embed(embedder: &dyn Embedder, text: &str, deadline: Duration) -> (Option<Embedding>, Option<Gap>) {
    let text = sanitise(text);
    let asked = longest_end(&text, embedder);
    let gap = |reason, detail| Gap { of: "embedder".into(), reason, detail };
    let cut = (asked.len() < text.len()).then(|| {
        gap(GapReason::OverBudget, "the question is longer than the embedder reads: only its end was embedded".into())
    });
    match timeout(deadline, embedder.embed(&[asked], Purpose::Query)).await {
        Ok(Ok(mut embeddings)) => match embeddings.pop() {
            Some(embedding) => (Some(embedding), cut),
            None => (None, Some(gap(GapReason::Failed, "the embedder answered without an embedding".into()))),
        },
        Ok(Err(error)) => {
            tracing::warn!(%error, "The embedder stayed silent; words alone are searched");
            (None, Some(gap(GapReason::Failed, error.to_string())))
        }
        Err(_) => {
            tracing::warn!(ms = deadline.as_millis(), "The embedder was too late; words alone are searched");
            (None, Some(gap(GapReason::Late, format!("no answer within {} ms", deadline.as_millis()))))
        }
    }
}

/// The longest end of `text` that the embedder reads whole, from a word's border on. A question stands at the end of
/// what is pasted before it.
fn longest_end<'a>(text: &'a str, embedder: &dyn Embedder) -> &'a str {
    let most = embedder.longest_text();
    let mut end = text;
    while !end.is_empty() {
        let tokens = embedder.count_tokens(end);
        if tokens <= most {
            break;
        }
        // In proportion, and a little more, so that few rounds do.
        let keep = (end.len() * most / tokens) * 9 / 10;
        let start = end.ceil_char_boundary(end.len() - keep.min(end.len() - 1));
        let rest = end.get(start..).unwrap_or_default();
        end = rest.find(char::is_whitespace).and_then(|border| rest.get(border..)).unwrap_or(rest).trim_start();
    }
    end
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{ScriptedEmbedder, user};

    #[test]
    fn what_is_no_question_is_refused() {
        let fine = RecallRequest::new(user(), "what?");
        assert!(check(&fine).is_ok());
        for bad in [
            RecallRequest { text: " \n".into(), ..fine.clone() },
            RecallRequest { limit: Some(0), ..fine.clone() },
            RecallRequest { limit: Some(101), ..fine.clone() },
            RecallRequest { neighbours: 6, ..fine.clone() },
            RecallRequest { least_score: f32::NAN, ..fine.clone() },
        ] {
            assert!(matches!(check(&bad), Err(EngineError::Refused(_))), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn of_a_long_question_its_end_is_embedded_and_the_gap_says_so() {
        let embedder = ScriptedEmbedder::default();
        let text = format!("{} and what is the answer?", "pasted ".repeat(5_000));

        let (embedding, gap) = embed(&embedder, &text, Duration::from_secs(5)).await;

        assert!(embedding.is_some());
        assert_eq!(gap.map(|gap| gap.reason), Some(GapReason::OverBudget));
        let asked = embedder.asked();
        assert!(asked[0].ends_with("what is the answer?") && asked[0].len() > 100, "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_embedder_leaves_a_gap() {
        let embedder = Arc::new(ScriptedEmbedder { delay: Duration::from_secs(60), ..ScriptedEmbedder::default() });

        let (embedding, gap) = embed(embedder.as_ref(), "hello", Duration::from_millis(300)).await;

        assert_eq!((embedding, gap.map(|gap| gap.reason)), (None, Some(GapReason::Late)));
    }
}
