//! What stands before every chat model: turns, the day's tokens, and counting.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::NaiveDate;
use skymem_core::{ChatAnswer, ChatModel, ChatRequest, Ledger, ModelError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Now;
use super::answer::estimate_question;
use crate::http::refused;

/// A chat model that is asked no more at a time, and no more a day, than it may be. Whoever came first is answered first.
pub(super) struct Guarded<M> {
    model: M,
    turns: Arc<Semaphore>,
    purse: Arc<Purse>,
}

impl<M: ChatModel> Guarded<M> {
    /// `model` behind `turns` and `purse`, which it may share with others.
    pub(super) fn new(model: M, turns: Arc<Semaphore>, purse: Arc<Purse>) -> Self {
        Self { model, turns, purse }
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Guarded<M> {
    fn name(&self) -> &str {
        self.model.name()
    }

    async fn answer(&self, question: &ChatRequest) -> Result<ChatAnswer, ModelError> {
        let mut bill = Bill { question, purse: &self.purse, asked_at: None, paid: false };
        // Never closed; an error would only mean that nobody is counting.
        let _turn = self.turns.acquire().await.ok();
        if let Err(spent) = self.purse.check().await {
            bill.pay("capped", 0);
            return Err(spent);
        }
        bill.asked_at = Some(Instant::now());
        let answer = self.model.answer(question).await;
        match &answer {
            Ok(answer) => bill.pay(if answer.whole { "ok" } else { "cut" }, answer.tokens),
            Err(ModelError::Unreachable { .. }) => bill.pay("unreachable", 0),
            Err(ModelError::Refused(_)) => bill.pay("refused", 0),
            // It was answered, and has cost at least the question.
            Err(ModelError::Unusable(_)) => bill.pay("unusable", estimate_question(question)),
        }
        self.purse.settle().await;
        answer
    }

    async fn check(&self) -> Result<(), ModelError> {
        self.purse.check().await?;
        self.model.check().await
    }
}

/// One question, until it is known what became of it. One that nobody waits for any more is counted too.
struct Bill<'a> {
    question: &'a ChatRequest,
    purse: &'a Arc<Purse>,
    /// When its turn came and it was sent.
    asked_at: Option<Instant>,
    paid: bool,
}

impl Bill<'_> {
    fn pay(&mut self, status: &'static str, tokens: u64) {
        self.paid = true;
        let purpose = self.question.purpose;
        metrics::counter!("skymem_chat_requests_total", "purpose" => purpose, "status" => status).increment(1);
        if let Some(asked_at) = self.asked_at {
            metrics::histogram!("skymem_chat_seconds", "purpose" => purpose).record(asked_at.elapsed().as_secs_f64());
        }
        if tokens > 0 {
            metrics::counter!("skymem_chat_tokens_total", "purpose" => purpose).increment(tokens);
            self.purse.spend(tokens);
        }
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        if !self.paid {
            // The model has read the question at least, if it got that far.
            let tokens = self.asked_at.map_or(0, |_| estimate_question(self.question));
            self.pay("abandoned", tokens);
            if let Ok(runtime) = Handle::try_current() {
                let purse = Arc::clone(self.purse);
                runtime.spawn(async move { purse.settle().await });
            }
        }
    }
}

/// The tokens of a day, counted from midnight to midnight, UTC. An answer that was begun is finished: the last ones of a
/// day may go over, and so may what several servers ask at the same time.
pub(super) struct Purse {
    section: &'static str,
    /// 0 for no limit.
    daily_tokens: u64,
    now: Now,
    spent: Mutex<Spent>,
    /// Where it is written down; nowhere when there is no limit.
    ledger: Option<Arc<dyn Ledger>>,
}

/// What is spent of a day.
#[derive(Debug, Clone, Copy)]
struct Spent {
    day: NaiveDate,
    tokens: u64,
    /// Of those, what is not written down yet.
    owed: u64,
    /// Whether the ledger has said what was spent before.
    known: bool,
}

/// So long the ledger is waited for: a question is not held up by it.
const PATIENCE: Duration = Duration::from_secs(1);

impl Purse {
    /// A purse of `daily_tokens`, 0 for no limit, as `section` of the configuration says.
    pub(super) fn new(section: &'static str, daily_tokens: u64, now: Now, ledger: Option<Arc<dyn Ledger>>) -> Self {
        let ledger = ledger.filter(|_| daily_tokens > 0);
        let spent = Spent { day: now().date_naive(), tokens: 0, owed: 0, known: ledger.is_none() };
        Self { section, daily_tokens, now, spent: Mutex::new(spent), ledger }
    }

    async fn check(self: &Arc<Self>) -> Result<(), ModelError> {
        if !self.today().known {
            self.settle().await;
        }
        if self.daily_tokens == 0 || self.today().tokens < self.daily_tokens {
            return Ok(());
        }
        let (section, most) = (self.section, self.daily_tokens);
        Err(refused(format!(
            "the day's {most} tokens are spent; it answers again after midnight UTC, or with a higher {section}.daily_tokens"
        )))
    }

    fn spend(&self, tokens: u64) {
        let mut spent = self.today();
        spent.tokens = spent.tokens.saturating_add(tokens);
        spent.owed = spent.owed.saturating_add(tokens);
    }

    /// Writes down what was spent since the last time, and learns what others have spent. Where the ledger gives no answer,
    /// what is known here counts, and is written down with the next answer.
    async fn settle(self: &Arc<Self>) {
        let Some(ledger) = self.ledger.clone() else { return };
        let purse = Arc::clone(self);
        // A task of its own: what is under way is neither lost nor added twice when nobody waits for it any more.
        let settled = tokio::spawn(async move { purse.settle_with(&*ledger).await });
        let _ = timeout(PATIENCE, settled).await;
    }

    async fn settle_with(&self, ledger: &dyn Ledger) {
        let (day, owed) = {
            let mut spent = self.today();
            (spent.day, std::mem::take(&mut spent.owed))
        };
        let all = ledger.spend(self.section, day, owed).await;
        let mut spent = self.today();
        // What was owed of a day that is over limits nothing any more.
        if spent.day != day {
            return;
        }
        match all {
            Ok(all) => {
                spent.tokens = spent.tokens.max(all.saturating_add(spent.owed));
                spent.known = true;
            }
            Err(error) => {
                tracing::warn!(error, "What a chat model has cost could not be written down");
                spent.owed = spent.owed.saturating_add(owed);
            }
        }
    }

    /// What is spent of the present day. A clock that is set back gives nothing back.
    fn today(&self) -> MutexGuard<'_, Spent> {
        let today = (self.now)().date_naive();
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if today > spent.day {
            *spent = Spent { day: today, tokens: 0, owed: 0, known: self.ledger.is_none() };
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use chrono::DateTime;
    use futures_util::future::{join_all, poll_immediate};
    use skymem_core::{Message, Role};

    use super::*;
    use crate::chat::{ScriptedAnswer, ScriptedChat};

    struct World {
        seconds: Arc<AtomicI64>,
        scripted: ScriptedChat,
        model: Guarded<ScriptedChat>,
        purse: Arc<Purse>,
    }

    fn world(turns: usize, daily_tokens: u64, scripted: ScriptedChat) -> World {
        let seconds = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&seconds);
        let now = Arc::new(move || DateTime::from_timestamp(clock.load(Ordering::SeqCst), 0).unwrap());
        let purse = Arc::new(Purse::new("chat", daily_tokens, now, None));
        let model = Guarded::new(scripted.clone(), Arc::new(Semaphore::new(turns)), Arc::clone(&purse));
        World { seconds, scripted, model, purse }
    }

    fn question() -> ChatRequest {
        ChatRequest {
            purpose: "test",
            messages: vec![Message::new(Role::User, "how are you today?")],
            temperature: 0.0,
            most_tokens: 10,
            schema: None,
        }
    }

    #[tokio::test]
    async fn no_more_are_asked_at_a_time_than_there_are_turns_and_the_first_come_is_the_first_served() {
        let World { scripted, model, .. } = world(2, 0, ScriptedChat::saying([ScriptedAnswer::Hangs]));
        let question = question();
        let mut first = Box::pin(model.answer(&question));
        let mut second = Box::pin(model.answer(&question));
        let mut third = Box::pin(model.answer(&question));
        let mut fourth = Box::pin(model.answer(&question));

        for waiting in [&mut first, &mut second, &mut third, &mut fourth] {
            assert!(poll_immediate(waiting.as_mut()).await.is_none());
        }
        assert_eq!(scripted.calls(), 2);

        drop(first);
        assert!(poll_immediate(fourth.as_mut()).await.is_none());
        assert_eq!(scripted.calls(), 2, "the fourth does not overtake the third");
        assert!(poll_immediate(third.as_mut()).await.is_none());
        assert_eq!(scripted.calls(), 3);
    }

    #[tokio::test]
    async fn when_the_days_tokens_are_spent_nothing_is_asked_until_the_day_is_over() {
        let World { seconds, scripted, model, .. } = world(1, 1, ScriptedChat::saying(["fine"]));
        model.answer(&question()).await.unwrap();
        assert_eq!(scripted.calls(), 1);

        seconds.store(86_399, Ordering::SeqCst);
        let error = model.answer(&question()).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains("chat.daily_tokens"), "{error}");
        assert!(model.check().await.unwrap_err().to_string().contains("midnight"));
        assert_eq!(scripted.calls(), 1);

        seconds.store(86_400, Ordering::SeqCst);
        model.check().await.unwrap();
        model.answer(&question()).await.unwrap();

        seconds.store(0, Ordering::SeqCst);
        assert!(model.check().await.is_err(), "a clock that is set back gives nothing back");
    }

    #[tokio::test]
    async fn without_a_cap_there_is_no_end() {
        let World { scripted, model, .. } = world(1, 0, ScriptedChat::saying(["fine"]));
        let question = question();

        let answers = join_all((0..100).map(|_| model.answer(&question))).await;

        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(scripted.calls(), 100);
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_any_more_is_paid_once_it_was_sent() {
        let World { model, purse, .. } = world(1, 1_000, ScriptedChat::saying([ScriptedAnswer::Hangs]));
        let question = question();
        let mut sent = Box::pin(model.answer(&question));
        let mut waiting = Box::pin(model.answer(&question));
        assert!(poll_immediate(sent.as_mut()).await.is_none());
        assert!(poll_immediate(waiting.as_mut()).await.is_none());

        drop(waiting);
        assert_eq!(purse.today().tokens, 0);
        drop(sent);
        assert_eq!(purse.today().tokens, estimate_question(&question));
    }

    #[tokio::test]
    async fn what_cannot_have_cost_anything_is_not_paid() {
        let script = [ScriptedAnswer::Unreachable, ScriptedAnswer::Refuses("no".into())];
        let World { model, purse, .. } = world(1, 1_000, ScriptedChat::saying(script));

        for _ in 0..2 {
            model.answer(&question()).await.unwrap_err();
        }

        assert_eq!(purse.today().tokens, 0);
    }

    #[tokio::test]
    async fn every_question_is_counted_by_what_became_of_it() {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        let _recording = metrics::set_default_local_recorder(&recorder);
        let script = [
            "fine".into(),
            ScriptedAnswer::Cut("fi".into()),
            ScriptedAnswer::Refuses("no".into()),
            ScriptedAnswer::Unreachable,
            ScriptedAnswer::Unusable,
            ScriptedAnswer::Hangs,
        ];
        let World { model, purse, .. } = world(1, 10_000, ScriptedChat::saying(script));

        let question = question();
        for _ in 0..6 {
            let _ = poll_immediate(model.answer(&question)).await;
        }
        let spent = purse.today().tokens;
        purse.spend(10_000);
        let capped = poll_immediate(model.answer(&question)).await;
        assert!(matches!(capped, Some(Err(ModelError::Refused(_)))), "{capped:?}");

        let page = recorder.handle().render();
        for status in ["ok", "cut", "refused", "unreachable", "unusable", "abandoned", "capped"] {
            let line = format!("skymem_chat_requests_total{{purpose=\"test\",status=\"{status}\"}} 1");
            assert!(page.contains(&line), "{line} is not in:\n{page}");
        }
        assert!(page.contains(&format!("skymem_chat_tokens_total{{purpose=\"test\"}} {spent}")), "{page}");
        assert!(page.contains("skymem_chat_seconds_count{purpose=\"test\"} 6"), "{page}");
    }

    #[tokio::test]
    async fn counts_do_not_run_over() {
        let World { purse, .. } = world(1, u64::MAX, ScriptedChat::saying(["fine"]));

        purse.spend(u64::MAX);
        purse.spend(u64::MAX);

        assert!(purse.check().await.is_err());
    }

    /// What is written down, by section and day; `None` while it gives no answer.
    #[derive(Default)]
    struct Book(Mutex<Option<std::collections::HashMap<(String, NaiveDate), u64>>>);

    impl Book {
        fn open() -> Arc<Self> {
            Arc::new(Self(Mutex::new(Some(Default::default()))))
        }
    }

    #[async_trait]
    impl Ledger for Book {
        async fn spend(&self, section: &str, day: NaiveDate, tokens: u64) -> Result<u64, String> {
            let mut book = self.0.lock().unwrap();
            let spent = book.as_mut().ok_or("away")?.entry((section.to_owned(), day)).or_default();
            *spent += tokens;
            Ok(*spent)
        }
    }

    /// A server with a day's limit of `daily_tokens`, on the day of that number.
    fn server(book: &Arc<Book>, daily_tokens: u64, day: i64) -> Guarded<ScriptedChat> {
        let now = Arc::new(move || DateTime::from_timestamp(86_400 * day, 0).unwrap());
        let purse = Purse::new("chat", daily_tokens, now, Some(Arc::clone(book) as Arc<dyn Ledger>));
        Guarded::new(ScriptedChat::saying(["fine"]), Arc::new(Semaphore::new(9)), Arc::new(purse))
    }

    #[tokio::test]
    async fn a_restart_gives_nothing_of_the_days_tokens_back() {
        let book = Book::open();
        server(&book, 1, 0).answer(&question()).await.unwrap();

        let restarted = server(&book, 1, 0);
        assert!(restarted.check().await.is_err(), "the ledger is asked before the first question");
        assert!(restarted.answer(&question()).await.is_err());
        server(&book, 1_000, 0).answer(&question()).await.unwrap();

        server(&book, 1, 1).answer(&question()).await.unwrap();
    }

    #[tokio::test]
    async fn two_servers_share_a_days_tokens() {
        let book = Book::open();
        let price = server(&Book::open(), 1, 0).answer(&question()).await.unwrap().tokens;
        let (one, other) = (server(&book, 3 * price, 0), server(&book, 3 * price, 0));
        other.answer(&question()).await.unwrap();

        while one.answer(&question()).await.is_ok() {}

        other.answer(&question()).await.unwrap();
        assert!(other.answer(&question()).await.is_err(), "its own answer told it what both have spent");
    }

    #[tokio::test]
    async fn while_the_ledger_is_away_what_is_known_counts_and_it_is_written_down_later() {
        let book = Arc::new(Book::default());
        let away = server(&book, 1_000, 0);
        away.answer(&question()).await.unwrap();
        let spent = away.purse.today().tokens;
        *book.0.lock().unwrap() = Some(Default::default());

        away.answer(&question()).await.unwrap();

        let written: u64 = book.0.lock().unwrap().as_ref().unwrap().values().sum();
        assert!(spent > 0 && written == 2 * spent, "{written}, not twice {spent}");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_written_down_too() {
        let book = Book::open();
        let now = Arc::new(|| DateTime::UNIX_EPOCH);
        let purse = Arc::new(Purse::new("chat", 1_000, now, Some(Arc::clone(&book) as Arc<dyn Ledger>)));
        let scripted = ScriptedChat::saying([ScriptedAnswer::Hangs]);
        let model = Guarded::new(scripted.clone(), Arc::new(Semaphore::new(1)), purse);
        let asked = question();
        let mut sent = Box::pin(model.answer(&asked));
        while scripted.calls() == 0 {
            assert!(poll_immediate(sent.as_mut()).await.is_none());
            tokio::task::yield_now().await;
        }

        drop(sent);

        let written = || book.0.lock().unwrap().as_ref().unwrap().values().sum::<u64>();
        while written() < estimate_question(&asked) {
            tokio::task::yield_now().await;
        }
    }
}
