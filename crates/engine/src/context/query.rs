//! A request becomes a question to memory: made safe, made self-contained and timed, once, for all layers; while they are
//! asked, it is embedded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono_tz::Tz;
use skymem_core::{Embedder, Embedding, Gap, GapReason, Meaning, Phrasing, Priority, Purpose, Query, Seq};
use skymem_store::MemoryMode;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::rewrite::Rewrite;
use super::sanitise::sanitise;
use super::time_words::time_range;
use super::window::{self, Window};
use super::{History, Notes, RecallRequest};
use crate::memory::Memory;

/// A request as it is put to memory.
pub(super) struct Asked {
    pub(super) query: Query,
    /// The question's embedding, which may still be on its way.
    pub(super) ahead: Ahead,
    /// The window of its session.
    pub(super) window: Window,
    /// What request and session allow, both of them.
    pub(super) mode: MemoryMode,
}

/// A question that is being embedded while its caller still looks up what else it asks memory with: embedding takes
/// longer than that. Dropped, nobody waits for it any more.
#[derive(Debug)]
pub struct Ahead {
    text: String,
    meaning: Meaning,
    task: JoinHandle<(Option<Gap>, Duration)>,
}

/// A question's place in meaning, and the gap that says why there is none.
type Embedded = (Option<Embedding>, Option<Gap>);

impl Ahead {
    /// Notes how long embedding took, and the gap when words must do, once that is known.
    pub(super) async fn noted(mut self, notes: &mut Notes) {
        match (&mut self.task).await {
            Ok((gap, took)) => {
                notes.took("embed", took);
                notes.gaps.extend(gap);
            }
            Err(error) => {
                tracing::error!(%error, "The embedder broke down");
                notes.gap("embedder", GapReason::Failed, "it broke down; see the log");
            }
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Memory {
    /// Begins to embed the question that [`Memory::context_of`] will be asked.
    #[must_use]
    pub fn embed_ahead(&self, question: &str) -> Ahead {
        let embedder = Arc::clone(&self.inner.embedder);
        let deadline = self.embed_deadline();
        let text = question.to_owned();
        let (meaning, teller) = Meaning::on_its_way();
        let task = tokio::spawn(async move {
            let ((embedding, gap), took) = timed(embed(embedder.as_ref(), &text, deadline)).await;
            teller.tell(embedding);
            (gap, took)
        });
        Ahead { text: question.to_owned(), meaning, task }
    }

    fn embed_deadline(&self) -> Duration {
        Duration::from_millis(self.inner.settings.context.embed_deadline_ms)
    }

    /// The query for a request, and the window of its session; `None` when memory must not be asked.
    pub(super) async fn asked(
        &self,
        request: &RecallRequest,
        history: &History,
        ahead: Option<Ahead>,
        notes: &mut Notes,
    ) -> Option<Asked> {
        let inner = &self.inner;
        let settings = &inner.settings.context;
        let deadline = Duration::from_millis(settings.recall_deadline_ms);
        let requested = request.memory.unwrap_or_default();
        let read = async {
            match (history, &request.session) {
                (History::Client(history), _) => Ok(Window::elsewhere(history)),
                (History::Journal { .. }, Some(session)) => {
                    window::read(self, request.user, session, &request.text).await
                }
                (History::Journal { .. }, None) => Ok(Window::default()),
            }
        };
        let accounted_for = self.accounted_for(request, history, deadline);
        // The question itself is embedded while its rewrite is thought of, and while layers look up what needs no embedding.
        let ahead = ahead.filter(|ahead| ahead.text == request.text).unwrap_or_else(|| self.embed_ahead(&request.text));
        let embed_deadline = self.embed_deadline();
        let understood = async {
            let setting = inner.journal.setting_of(request.user, request.session.as_ref());
            let (setting, (window, window_took)) =
                tokio::join!(timeout(deadline, setting), timed(timeout(deadline, read)));
            let of_session = setting.as_ref().ok().and_then(|setting| setting.as_ref().ok()?.1);
            let reads = of_session.map_or(requested, |mode| mode.and(requested)).reads();
            let rewrite = match &window {
                Ok(Ok(window)) if reads => Some(timed(self.rephrased(&request.text, window, embed_deadline)).await),
                _ => None,
            };
            (setting, window, window_took, rewrite)
        };
        let ((setting, window, window_took, rewrite), accounted_for) = tokio::join!(understood, accounted_for);
        notes.took("window", window_took);
        let rewrite = match rewrite {
            Some((Some((phrasing, gap)), took)) => {
                notes.took("rewrite", took);
                notes.gaps.extend(gap);
                phrasing
            }
            _ => None,
        };
        let (zone, of_session) = notes.or_gap("session", setting).unwrap_or_default();
        let mode = of_session.map_or(requested, |mode| mode.and(requested));
        let mut window = notes.or_gap("window", window).unwrap_or_default();
        match history {
            History::Journal { exchanges: Some(asked) } => window.keep(*asked, None),
            History::Journal { exchanges: None } => window.keep(settings.window_exchanges, accounted_for),
            History::Client(_) => {}
        }
        if !mode.reads() {
            notes.gap("memory", GapReason::Off, "memory is not read for this session or request");
            return None;
        }
        let asked_at = request.asked_at.unwrap_or_else(|| self.now());
        let query = Query {
            user: request.user,
            text: sanitise(&request.text).into_owned(),
            meaning: ahead.meaning.clone(),
            rewrite,
            time_hint: time_range(&request.text, asked_at, zone.unwrap_or(Tz::UTC)),
            session: request.session.clone(),
            filter: request.filter.clone(),
            window: window.ids(),
            asked_at,
            as_of: request.as_of,
            known_at: request.known_at,
            limit: request.limit.unwrap_or(settings.top_k),
            unit: request.unit,
            neighbours: request.neighbours,
            least_score: request.least_score,
        };
        Some(Asked { query, ahead, window, mode })
    }

    /// The question as it is searched beside its own words, and the gap when the rewriter failed; `None` when nothing was
    /// done because the question stands alone.
    async fn rephrased(
        &self,
        question: &str,
        window: &Window,
        embed_deadline: Duration,
    ) -> Option<(Option<Phrasing>, Option<Gap>)> {
        let Rewrite { text, gap } = self.rewritten(question, &window.before).await?;
        let Some(text) = text else { return Some((None, gap)) };
        // Where the embedder is away, the question's own embedding says so.
        let (embedding, _) = embed(self.inner.embedder.as_ref(), &text, embed_deadline).await;
        Some((Some(Phrasing { text, embedding }), gap))
    }

    /// Up to which turn of the session a layer's account stands in for the turns themselves; `None` when no layer gives
    /// one, or none in time: then the window is what it is set to.
    async fn accounted_for(&self, request: &RecallRequest, history: &History, deadline: Duration) -> Option<Seq> {
        let (Some(session), History::Journal { exchanges: None }) = (&request.session, history) else { return None };
        let layer = self.inner.layers.iter().find(|layer| layer.priority() == Priority::Account)?;
        match timeout(deadline, layer.accounts_for(request.user, session)).await {
            Ok(Ok(seq)) => Some(seq.unwrap_or(Seq(0))),
            Ok(Err(error)) => {
                tracing::warn!(%error, layer = %layer.name(), "Nobody knows what the account covers");
                None
            }
            Err(_) => None,
        }
    }
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    (work.await, started.elapsed())
}

/// The question's place in meaning. `None`, and the gap that says why, when the embedder is late or fails: then words
/// alone must do.
async fn embed(embedder: &dyn Embedder, text: &str, deadline: Duration) -> Embedded {
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
    use super::*;
    use crate::testing::ScriptedEmbedder;

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
