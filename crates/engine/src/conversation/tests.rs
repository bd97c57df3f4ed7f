use std::collections::HashSet;

use chrono::TimeDelta;
use skymem_core::{Role, SessionId};
use skymem_store::Target;
use sqlx::PgPool;

use super::*;
use crate::testing::TestMemory;

/// Turns as `user: words`, `assistant: words`, `tool: words`, `call: id` a line.
fn turns(lines: &[&str]) -> Vec<HeardTurn> {
    let turn = |line: &&str| {
        let (who, words) = line.split_once(": ").unwrap();
        let (role, call) = match who {
            "call" => (Role::Assistant, Some(words.to_owned())),
            "result" => (Role::Tool, Some(words.to_owned())),
            who => (who.parse().unwrap(), None),
        };
        HeardTurn { role, speaker: None, content: Content::Text(words.into()), call }
    };
    lines.iter().map(turn).collect()
}

impl TestMemory {
    fn conversation(&self, session: Option<&str>, lines: &[&str]) -> Conversation {
        let session = session.map(|session| session.parse().unwrap());
        Conversation { user: self.user, session, turns: turns(lines) }
    }

    /// What a proxy does with a request and its answer. Returns the session.
    async fn chats(&self, session: Option<&str>, lines: &[&str], answer: &str) -> SessionId {
        self.chats_with(session, lines, answer, |_| {}).await
    }

    async fn chats_with(
        &self,
        session: Option<&str>,
        lines: &[&str],
        answer: &str,
        change: impl FnOnce(&mut HearRequest),
    ) -> SessionId {
        let conversation = self.conversation(session, lines);
        let placed = self.memory.place(&conversation).await.unwrap();
        let mut request = HearRequest {
            conversation,
            placed: Some(placed.clone()),
            answer: turns(&[answer]).remove(0),
            collection: None,
            memory: None,
            most_turns: 200,
            passed_by: HashSet::new(),
        };
        change(&mut request);
        self.memory.hear(request).await.unwrap();
        self.clock.pass(TimeDelta::minutes(1));
        placed.session
    }

    /// All turns of a session in order.
    async fn said(&self, session: &SessionId) -> Vec<String> {
        let page = crate::PageRequest { after: None, limit: 200 };
        let turns = self.memory.turns(self.user, session, &page).await.unwrap();
        turns.map_or_else(Vec::new, |turns| turns.items.into_iter().map(|turn| turn.turn.text).collect())
    }
}

#[sqlx::test(migrations = false)]
async fn a_conversation_that_is_sent_whole_each_time_is_written_down_once(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let first = test.chats(None, &["user: hi"], "assistant: hello").await;
    let second = test.chats(None, &["user: hi", "assistant: hello", "user: tea?"], "assistant: yes").await;
    let lines = ["user: hi", "assistant: hello", "user: tea?", "assistant: yes", "user: now?"];
    let third = test.chats(None, &lines, "assistant: soon").await;

    assert_eq!((&first, &second), (&second, &third));
    assert_eq!(test.said(&first).await, ["hi", "hello", "tea?", "yes", "now?", "soon"]);
}

#[sqlx::test(migrations = false)]
async fn a_retry_is_known_and_another_answer_stands_beside_the_first(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(None, &["user: hi"], "assistant: hello").await;
    assert_eq!(test.chats(None, &["user: hi"], "assistant: hello").await, session);
    assert_eq!(test.chats(None, &["user: hi"], "assistant: good day").await, session);

    assert_eq!(test.said(&session).await, ["hi", "hello", "good day"]);
    test.clock.pass(TimeDelta::minutes(31));
    assert_ne!(test.chats(None, &["user: hi"], "assistant: hello").await, session, "hours later it is a new one");
}

#[sqlx::test(migrations = false)]
async fn an_edited_message_forks_and_the_shared_beginning_is_not_written_again(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(None, &["user: hi"], "assistant: hello").await;
    test.chats(None, &["user: hi", "assistant: hello", "user: tea?"], "assistant: yes").await;
    let fork = test.chats(None, &["user: hi", "assistant: hello", "user: coffee?"], "assistant: no").await;

    assert_eq!(fork, session);
    assert_eq!(test.said(&session).await, ["hi", "hello", "tea?", "yes", "coffee?", "no"]);
}

#[sqlx::test(migrations = false)]
async fn two_conversations_with_the_same_first_words_are_told_apart_by_the_answer(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let one = test.chats(None, &["user: hi"], "assistant: Hello, I am Ada.").await;
    test.clock.pass(TimeDelta::hours(2));
    let two = test.chats(None, &["user: hi"], "assistant: <think>hm</think>Good evening.").await;
    test.clock.pass(TimeDelta::hours(2));
    assert_ne!(one, two);

    let back = ["user: hi", "assistant: Hello, I am Ada.", "user: and?"];
    assert_eq!(test.chats(None, &back, "assistant: so").await, one);
    let stripped = ["user: hi", "assistant: Good evening.", "user: and?"];
    assert_eq!(test.chats(None, &stripped, "assistant: so").await, two, "a client may strip what a model thought");
    let foreign = ["user: hi", "assistant: Moin.", "user: and?"];
    test.clock.pass(TimeDelta::hours(2));
    let three = test.chats(None, &foreign, "assistant: so").await;
    assert!(three != one && three != two);
    assert_eq!(test.said(&three).await, ["hi", "Moin.", "and?", "so"], "its past is written down when it is first met");
}

#[sqlx::test(migrations = false)]
async fn a_client_that_leaves_the_beginning_out_stays_in_its_session(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    for session in [None, Some("named")] {
        let words: Vec<String> = (0..8).map(|n| format!("{} question {n}", session.unwrap_or("free"))).collect();
        let mut history: Vec<String> = Vec::new();
        let mut sessions = HashSet::new();
        for text in &words {
            history.push(format!("user: {text}"));
            // It keeps three questions.
            let from = history.len().saturating_sub(5);
            let lines: Vec<&str> = history[from..].iter().map(String::as_str).collect();
            sessions.insert(test.chats(session, &lines, &format!("assistant: answer to {text}")).await);
            history.push(format!("assistant: answer to {text}"));
        }

        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let said = test.said(sessions.iter().next().unwrap()).await;
        let expected: Vec<String> = words.iter().flat_map(|text| [text.clone(), format!("answer to {text}")]).collect();
        assert_eq!(said, expected);
    }
}

#[sqlx::test(migrations = false)]
async fn a_client_that_sends_only_its_question_says_the_same_twice(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    for (text, answer) in
        [("user: go on", "assistant: one"), ("user: more", "assistant: two"), ("user: go on", "assistant: three")]
    {
        test.chats(Some("a"), &[text], answer).await;
    }

    assert_eq!(test.said(&"a".parse().unwrap()).await, ["go on", "one", "more", "two", "go on", "three"]);
    test.chats(Some("a"), &["user: go on"], "assistant: three").await;
    assert_eq!(test.said(&"a".parse().unwrap()).await.len(), 6, "at once it is a retry");
}

#[sqlx::test(migrations = false)]
async fn a_round_of_tools_is_one_exchange_and_written_once(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(None, &["user: rain?"], "call: c1").await;
    let lines = ["user: rain?", "call: c1", "result: c1"];
    assert_eq!(test.chats(None, &lines, "assistant: yes").await, session);
    let lines = ["user: rain?", "call: c1", "result: c1", "assistant: yes", "user: thanks"];
    assert_eq!(test.chats(None, &lines, "assistant: welcome").await, session);

    assert_eq!(test.said(&session).await, ["rain?", "c1", "c1", "yes", "thanks", "welcome"]);
    let placed = test.memory.place(&test.conversation(None, &lines)).await.unwrap();
    assert_eq!((placed.exchanges.len(), placed.whole), (2, true));
}

#[sqlx::test(migrations = false)]
async fn an_answer_that_the_client_wraps_is_not_written_twice_and_one_that_was_missed_is(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(Some("a"), &["user: hi"], "assistant: hello").await;
    test.chats(Some("a"), &["user: hi", "assistant: <b>hello</b>", "user: tea?"], "assistant: yes").await;

    assert_eq!(test.said(&session).await, ["hi", "hello", "tea?", "yes"]);
}

#[sqlx::test(migrations = false)]
async fn what_was_forgotten_does_not_come_back_with_the_history(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(None, &["user: my secret"], "assistant: noted").await;
    test.memory.forget(test.user, &Target::Session(session.clone())).await.unwrap();

    let lines = ["user: my secret", "assistant: noted", "user: tea?"];
    assert_eq!(test.chats(None, &lines, "assistant: yes").await, session);

    assert_eq!(test.said(&session).await, ["tea?", "yes"]);
}

#[sqlx::test(migrations = false)]
async fn what_was_purged_does_not_come_back_with_the_history(db: PgPool) {
    for named in [None, Some("named")] {
        let test = TestMemory::start(db.clone(), vec![]).await;
        let first = format!("user: my secret {named:?}");
        let session = test.chats(named, &[&first], "assistant: noted").await;
        let exchanges = test
            .memory
            .place(&test.conversation(named, &[&first, "assistant: noted", "user: x"]))
            .await
            .unwrap()
            .exchanges;
        test.memory.forget(test.user, &Target::Session(session.clone())).await.unwrap();
        test.memory.purge(test.user, Some(&exchanges)).await.unwrap();

        let lines = [first.as_str(), "assistant: <b>noted</b>", "user: tea?"];
        let now = test.chats(named, &lines, "assistant: yes").await;

        assert_eq!(now, session);
        assert_eq!(test.said(&now).await, ["tea?", "yes"]);
    }
}

#[sqlx::test(migrations = false)]
async fn what_was_said_while_memory_was_off_is_not_made_up_for(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(Some("a"), &["user: hi"], "assistant: hello").await;
    let off = test.conversation(Some("a"), &["user: hi", "assistant: hello", "user: between us"]);
    let mark = off.marks().pop().unwrap();

    let lines = ["user: hi", "assistant: hello", "user: between us", "assistant: of course", "user: tea?"];
    test.chats_with(Some("a"), &lines, "assistant: yes", |request| {
        request.passed_by.insert(mark);
    })
    .await;

    assert_eq!(test.said(&session).await, ["hi", "hello", "tea?", "yes"]);
}

#[sqlx::test(migrations = false)]
async fn of_a_long_past_the_last_turns_are_written_down(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let history: Vec<String> = (0..20).flat_map(|n| [format!("user: q{n}"), format!("assistant: a{n}")]).collect();
    let mut lines: Vec<&str> = history.iter().map(String::as_str).collect();
    lines.push("user: now");

    let session = test.chats_with(None, &lines, "assistant: here", |request| request.most_turns = 5).await;

    assert_eq!(test.said(&session).await, ["q18", "a18", "q19", "a19", "now", "here"]);
}

#[sqlx::test(migrations = false)]
async fn an_answer_that_the_client_began_is_one_answer(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(Some("a"), &["user: count", "assistant: one, "], "assistant: two").await;

    assert_eq!(test.said(&session).await, ["count", "one, two"]);
}

#[sqlx::test(migrations = false)]
async fn nobody_is_found_in_the_conversation_of_another(db: PgPool) {
    let test = TestMemory::start(db.clone(), vec![]).await;
    test.chats(None, &["user: hi", "assistant: hello", "user: tea?"], "assistant: yes").await;
    let other = test.memory.ensure_user(&"berta".parse().unwrap()).await.unwrap().id;
    let lines = ["user: hi", "assistant: hello", "user: tea?", "assistant: yes", "user: and?"];
    let conversation = Conversation { user: other, ..test.conversation(None, &lines) };

    let placed = test.memory.place(&conversation).await.unwrap();

    assert_eq!((placed.exchanges, placed.whole), (vec![], true));
}

#[sqlx::test(migrations = false)]
async fn what_cannot_be_kept_is_kept_as_well_as_it_can_be(db: PgPool) {
    let test = TestMemory::start(db, vec![]).await;
    let session = test.chats(Some("a"), &["user: a\0b", "assistant: \0"], "assistant: \0c").await;

    assert_eq!(test.said(&session).await, ["a\u{FFFD}b", "\u{FFFD}\u{FFFD}c"]);
    let nobody = test.conversation(None, &["assistant: hello"]);
    assert!(matches!(test.memory.place(&nobody).await, Err(EngineError::Refused(_))));
}
