//! The layer against a real Postgres: what leaves the window is folded in, and what is forgotten was never there.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::{
    ChatAnswer, ChatModel, ChatRequest, Embedder, EmbedderId, Embedding, Exchange, ExchangeId, ExchangeKind, Fate,
    Filter, Host, Layer, LayerError, ModelError, Plugin, Purpose, Query, Recall, Role, Seq, SharedChatModel, TimeRange,
    Unit, UserId, estimate_tokens,
};
use skymem_models::Offline;
use skymem_store::{Append, Journal, NewTurn, SessionChange, Target, migrate};
use skymem_summaries::{EXTRACTIVE, SummariesPlugin, Version, versions};
use sqlx::PgPool;
use tokio::sync::Barrier;
use uuid::Uuid;

#[sqlx::test(migrations = false)]
async fn there_is_no_summary_before_enough_has_left_the_window(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 7).await;
    assert_eq!(memory.account("s").await, "");
    assert_eq!(memory.covered("s").await, None);

    memory.talks("s", 1).await;

    assert!(memory.account("s").await.contains("User: Fact 0"), "{}", memory.account("s").await);
    let journal = memory.journal.window(memory.user, &"s".parse().unwrap(), 8).await.unwrap();
    assert_eq!(memory.covered("s").await, Some(journal[3].last_seq()), "the last four stay in the window");
}

#[sqlx::test(migrations = false)]
async fn what_was_said_early_survives_a_long_conversation(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.says("s", "The staging host is heron-7.example.com on port 5544.", "Noted.").await;
    memory.says("s", "We decided to call the product Blue Lantern.", "A fine name.").await;
    memory.talks("s", 20).await;

    let account = memory.account("s").await;

    for kept in ["heron-7.example.com", "5544", "We decided to call the product Blue Lantern."] {
        assert!(account.contains(kept), "{kept} is not in {account}");
    }
    assert!(estimate_tokens(&account).0 < 1_100, "it is bounded: {}", estimate_tokens(&account).0);
}

#[sqlx::test(migrations = false)]
async fn each_version_is_kept_and_says_what_it_covers(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 16).await;

    let versions = memory.versions("s").await;

    let covered: Vec<(i32, i32)> = versions.iter().map(|version| (version.number, version.exchanges)).collect();
    assert_eq!(covered, [(3, 12), (2, 8), (1, 4)]);
    assert!(versions.iter().all(|version| version.made_by == EXTRACTIVE && version.said_from == beginning()));
    assert!(versions.windows(2).all(|pair| pair[0].said_until > pair[1].said_until));
}

#[sqlx::test(migrations = false)]
async fn decisions_stand_first_and_the_beginning_of_the_account_stays_byte_identical(db: PgPool) {
    let memory = Memory::new(db).await;
    let mut sections = Vec::new();
    for number in 0..40 {
        memory.says("s", &format!("Let's use option {number}{number} for part {number}."), "Fine.").await;
        let recalls = memory.recall("s").await;
        if !recalls.is_empty() {
            assert!(recalls[0].text.starts_with("Decided"), "{recalls:#?}");
            let text = memory.layer.render(&recalls).text;
            let (decided, _) = text.split_once("\n\n").unwrap();
            sections.push(decided.to_owned());
        }
    }

    let broken = sections.windows(2).filter(|pair| !pair[1].starts_with(&pair[0])).count();
    assert!(broken <= 3, "{broken} times, though only a full list may lose its older half: {sections:#?}");
    assert!(sections.windows(2).filter(|pair| pair[0] != pair[1]).count() >= 8);
}

#[sqlx::test(migrations = false)]
async fn what_is_forgotten_is_gone_in_the_same_transaction_and_stays_gone(db: PgPool) {
    let memory = Memory::new(db).await;
    let mut said = memory.talks("s", 1).await;
    said.push(memory.says("s", "We decided that the safe code is 4711.", "Noted: 4711.").await);
    said.extend(memory.talks("s", 18).await);
    let before = memory.account("s").await;
    assert!(before.contains("4711"));

    let forgotten = Target::Exchanges(vec![said[1]]);
    memory.journal.forget(memory.user, &forgotten, memory.now()).await.unwrap();

    assert_eq!(memory.account("s").await, "", "the database alone sees to it: the layer was not told yet");
    assert_eq!(memory.count("select count(*) from summaries.version").await, 0);
    memory.layer.forget(memory.user, &[said[1]]).await.unwrap();
    let without = memory.account("s").await;
    assert!(!without.is_empty() && !without.contains("4711"), "{without}");
    memory.talks("s", 1).await;
    let later = memory.account("s").await;
    assert!(later.contains("Fact 0") && !later.contains("4711"), "{later}");
    memory.learns_again("s").await;
    assert_eq!(memory.account("s").await, later);
}

#[sqlx::test(migrations = false)]
async fn versions_that_never_knew_what_is_forgotten_stay(db: PgPool) {
    let memory = Memory::new(db).await;
    let said = memory.talks("s", 16).await;
    let versions = memory.versions("s").await;

    memory.journal.forget(memory.user, &Target::Exchanges(vec![said[9]]), memory.now()).await.unwrap();

    assert_eq!(memory.versions("s").await, versions[1..], "the third folded it");
    assert_eq!(memory.count("select count(*) from summaries.folded").await, 8);
}

#[sqlx::test(migrations = false)]
async fn what_is_restored_is_folded_in_its_own_place(db: PgPool) {
    let memory = Memory::new(db).await;
    let said = memory.talks("s", 20).await;
    let before = memory.versions("s").await;
    for (first, some) in [(1, vec![said[1]]), (5, said[5..11].to_vec()), (18, said[18..].to_vec()), (0, said.clone())] {
        memory.journal.forget(memory.user, &Target::Exchanges(some.clone()), memory.now()).await.unwrap();
        memory.layer.forget(memory.user, &some).await.unwrap();
        memory.learn().await;
        let forgotten = format!("Fact {first} ");
        assert!(memory.versions("s").await.iter().all(|version| !version.text.contains(&forgotten)), "{forgotten}");

        memory.journal.restore(memory.user, &some, beginning()).await.unwrap();
        memory.learn().await;

        assert_eq!(memory.versions("s").await, before, "{} of {}", some.len(), said.len());
    }
}

#[sqlx::test(migrations = false)]
async fn learning_it_all_again_in_larger_pieces_comes_to_the_same(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 30).await;
    memory.talks("t", 9).await;
    let before = (memory.versions("s").await, memory.versions("t").await);

    memory.learns_again("s").await;
    assert_eq!((memory.versions("s").await, memory.versions("t").await), before, "what is known is not made anew");
    sqlx::query("delete from summaries.version").execute(&memory.db).await.unwrap();
    memory.learns_again("s").await;

    assert_eq!((memory.versions("s").await, memory.versions("t").await), before);
}

#[sqlx::test(migrations = false)]
async fn an_exchange_that_grew_late_is_folded_as_it_is_now(db: PgPool) {
    let memory = Memory::new(db).await;
    let said = memory.talks("s", 12).await;
    let late = NewTurn::new(Role::Tool, "The late result says osprey_99.");
    // As an import may bring it: the journal itself only lets the last exchange grow.
    let seq = memory.count("update journal.users set last_seq = last_seq + 1 returning last_seq").await;
    sqlx::query(
        "insert into journal.turn (user_id, seq, session_id, exchange_id, role, text, occurred_at, recorded_at, \
         content_hash, said_hash) values ($1, $2, 's', $3, 'tool', $4, $5, $5, '', '')",
    )
    .bind(memory.user.0)
    .bind(seq)
    .bind(said[1].0)
    .bind(&late.text)
    .bind(memory.now())
    .execute(&memory.db)
    .await
    .unwrap();
    sqlx::query("update journal.exchange set changed_seq = $2, last_seq = $2 where id = $1")
        .bind(said[1].0)
        .bind(seq)
        .execute(&memory.db)
        .await
        .unwrap();

    memory.learn().await;

    assert!(memory.account("s").await.contains("osprey_99"), "{}", memory.account("s").await);
    assert_eq!(memory.versions("s").await.len(), 2);
}

#[sqlx::test(migrations = false)]
async fn older_turns_that_are_imported_later_break_nothing(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 8).await;
    let long_ago = beginning() - TimeDelta::days(400);
    for number in 0..6 {
        let turns = vec![NewTurn {
            occurred_at: Some(long_ago + TimeDelta::days(number)),
            ..NewTurn::new(Role::User, format!("Long ago {number} there was a fox."))
        }];
        memory.journal.append(memory.user, Append::said("s".parse().unwrap(), turns, memory.now())).await.unwrap();
    }
    memory.learn().await;

    let versions = memory.versions("s").await;
    assert_eq!(versions.len(), 2);
    assert!(versions.iter().all(|version| version.said_from <= version.said_until));
    memory.talks("s", 4).await;
    assert_eq!(memory.versions("s").await[0].said_from, long_ago);
    assert!(memory.account_as_of("s", long_ago + TimeDelta::days(3)).await.is_empty());
}

#[sqlx::test(migrations = false)]
async fn as_of_an_earlier_moment_nothing_later_is_told(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 12).await;
    let text = memory.account("s").await;
    let then = beginning() + TimeDelta::days(9);
    memory.talks("s", 8).await;

    assert_eq!(memory.account_as_of("s", then).await, text, "eight exchanges were folded, the last on the eighth day");
    assert_ne!(memory.account("s").await, text);
    assert_eq!(memory.account_as_of("s", beginning() + TimeDelta::days(1)).await, "");
}

#[sqlx::test(migrations = false)]
async fn as_known_at_an_earlier_moment_nothing_written_down_later_is_told(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 12).await;
    let text = memory.account("s").await;
    let then = beginning() + TimeDelta::days(9);
    // They are written down on the days that follow, whenever they were said.
    memory.talks("s", 8).await;
    sqlx::query("update journal.turn set occurred_at = $1").bind(beginning()).execute(&memory.db).await.unwrap();

    let query = |known_at| Query { known_at: Some(known_at), ..memory.query("s") };
    let account = async |known_at| memory.layer.render(&memory.layer.recall(&query(known_at)).await.unwrap()).text;

    assert_eq!(account(then).await, text);
    assert_ne!(memory.account("s").await, text);
    assert_eq!(account(memory.now()).await, memory.account("s").await);
    assert_eq!(account(beginning() - TimeDelta::days(1)).await, "");
}

#[sqlx::test(migrations = false)]
async fn a_summary_comes_back_only_when_all_of_it_may(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 12).await;
    let time = |from: i64, until: i64| {
        Some(TimeRange { from: beginning() + TimeDelta::days(from), until: beginning() + TimeDelta::days(until) })
    };
    for (filter, expected) in [
        (Filter { sessions: vec!["s".parse().unwrap()], ..Filter::default() }, true),
        (Filter { sessions: vec!["other".parse().unwrap()], ..Filter::default() }, false),
        (Filter { collections: vec!["default".parse().unwrap()], ..Filter::default() }, true),
        (Filter { collections: vec!["work".parse().unwrap()], ..Filter::default() }, false),
        (Filter { sources: vec!["session".parse().unwrap()], ..Filter::default() }, true),
        (Filter { sources: vec!["import:x".parse().unwrap()], ..Filter::default() }, false),
        (Filter { roles: vec![Role::User, Role::Assistant], ..Filter::default() }, true),
        (Filter { roles: vec![Role::User], ..Filter::default() }, false),
        (Filter { pinned: Some(true), ..Filter::default() }, false),
        (Filter { pinned: Some(false), ..Filter::default() }, true),
        (Filter { time: time(-1, 100), ..Filter::default() }, true),
        (Filter { time: time(1, 100), ..Filter::default() }, false),
        (Filter { time: time(-1, 1), ..Filter::default() }, false),
    ] {
        let query = Query { filter: filter.clone(), ..memory.query("s") };
        assert_eq!(!memory.layer.recall(&query).await.unwrap().is_empty(), expected, "{filter:?}");
    }
    let nobodys = Query { session: None, ..memory.query("s") };
    assert_eq!(memory.layer.recall(&nobodys).await.unwrap(), []);
    let other = Query { user: UserId(Uuid::new_v4()), ..memory.query("s") };
    assert_eq!(memory.layer.recall(&other).await.unwrap(), []);
    assert_eq!(memory.layer.accounts_for(other.user, &"s".parse().unwrap()).await.unwrap(), None);
}

#[sqlx::test(migrations = false)]
async fn a_recall_says_where_it_comes_from(db: PgPool) {
    let memory = Memory::new(db).await;
    let said = memory.talks("s", 12).await;

    let recalls = memory.recall("s").await;

    assert_eq!(recalls.len(), 1);
    assert_eq!(recalls[0].id.0, "summary:s");
    assert_eq!(recalls[0].citation.0, "[S: 2026-01-08]");
    let from = &recalls[0].provenance;
    assert_eq!(from.exchanges, said[..8]);
    assert_eq!(from.seqs, Some((Seq(1), memory.covered("s").await.unwrap())));
    assert_eq!(from.session.as_ref().map(|session| session.as_str()), Some("s"));
    assert_eq!(from.collection.as_ref().map(|name| name.as_str()), Some("default"));
}

#[sqlx::test(migrations = false)]
async fn what_is_told_to_memory_directly_and_memories_that_expire_are_not_summarised(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 3).await;
    let note = Append::said("s".parse().unwrap(), vec![NewTurn::new(Role::User, "A note: zebra_1.")], memory.now());
    memory.journal.append(memory.user, Append { kind: ExchangeKind::Asserted, ..note }).await.unwrap();
    memory.talks("s", 9).await;
    assert!(!memory.account("s").await.contains("zebra_1"));
    assert!(memory.account("s").await.contains("Fact 0"));

    let change = SessionChange { max_age_hours: Some(Some(24)), ..SessionChange::default() };
    memory.journal.set_session(memory.user, &"s".parse().unwrap(), change, memory.now()).await.unwrap();

    assert_eq!(memory.account("s").await, "");
    assert_eq!(memory.covered("s").await, None);
}

#[sqlx::test(migrations = false)]
async fn where_the_oldest_turns_leave_memory_they_leave_the_summary_too(db: PgPool) {
    let chat = Arc::new(Scripted::default());
    let memory = Memory::chatting(db, &chat).await;
    let change = SessionChange { max_turns: Some(Some(40)), ..SessionChange::default() };
    memory.journal.set_session(memory.user, &"s".parse().unwrap(), change, memory.now()).await.unwrap();

    memory.talks("s", 20).await;
    let before = memory.account("s").await;
    memory.talks("s", 20).await;

    let versions = memory.versions("s").await;
    assert!(before.contains("Fact 0 "), "{before}");
    assert_eq!(versions.iter().map(|version| version.exchanges).collect::<Vec<_>>(), [16], "all there is, at once");
    assert!((0..20).all(|number| !memory.account_has(&versions, number)), "{versions:#?}");
    assert_eq!(chat.asked.lock().unwrap().len(), 0, "its words would go with the next turn");
}

#[sqlx::test(migrations = false)]
async fn an_explanation_says_why_there_is_a_summary_or_none(db: PgPool) {
    let memory = Memory::new(db).await;
    assert_eq!(memory.layer.explain(&memory.query("s"), None).await.unwrap(), []);
    let said = memory.talks("s", 7).await;
    let fate = async |query: &Query, about: Option<ExchangeId>| {
        let considered = memory.layer.explain(query, about).await.unwrap();
        considered.into_iter().map(|one| one.fate).collect::<Vec<_>>()
    };
    assert_eq!(fate(&memory.query("s"), None).await, [Fate::NotYetLearned]);
    assert_eq!(fate(&memory.query("s"), Some(said[0])).await, [Fate::NotYetLearned]);
    let in_window = Query { window: vec![said[0]], ..memory.query("s") };
    assert_eq!(fate(&in_window, Some(said[0])).await, [Fate::InWindow]);

    memory.talks("s", 5).await;

    assert_eq!(fate(&memory.query("s"), None).await, [Fate::Recalled, Fate::Superseded]);
    assert_eq!(fate(&memory.query("s"), Some(said[0])).await, [Fate::Recalled]);
    assert_eq!(fate(&memory.query("t"), Some(said[0])).await, [Fate::Filtered]);
    let then = Query { as_of: Some(beginning() - TimeDelta::days(9)), ..memory.query("s") };
    assert_eq!(fate(&then, None).await, [Fate::Filtered]);
    assert_eq!(fate(&then, Some(said[0])).await, [Fate::Filtered]);
    memory.journal.forget(memory.user, &Target::Exchanges(vec![said[0]]), memory.now()).await.unwrap();
    let considered = memory.layer.explain(&memory.query("s"), Some(said[0])).await.unwrap();
    assert_eq!((considered[0].fate, considered[0].excerpt.as_str()), (Fate::Forgotten, ""));
    assert_eq!(memory.layer.explain(&memory.query("s"), Some(ExchangeId(Uuid::new_v4()))).await.unwrap(), []);
}

#[sqlx::test(migrations = false)]
async fn counts_are_those_of_one_user(db: PgPool) {
    let memory = Memory::new(db).await;
    memory.talks("s", 12).await;
    memory.talks("t", 9).await;

    let stats = memory.layer.stats(memory.user).await.unwrap();
    let nobody = memory.layer.stats(UserId(Uuid::new_v4())).await.unwrap();

    let counts = |stats: &skymem_core::LayerStats| stats.counts.iter().map(|(_, count)| *count).collect::<Vec<_>>();
    assert_eq!(counts(&stats), [2, 3, 12]);
    assert_eq!(counts(&nobody), [0, 0, 0]);
    assert!(stats.bytes.unwrap() > 0);
}

#[sqlx::test(migrations = false)]
async fn upkeep_folds_what_was_left_over_when_something_was_forgotten(db: PgPool) {
    let memory = Memory::new(db).await;
    let said = memory.talks("s", 40).await;
    memory.journal.forget(memory.user, &Target::Exchanges(vec![said[0]]), memory.now()).await.unwrap();
    memory.layer.forget(memory.user, &[said[0]]).await.unwrap();
    let at_once = memory.versions("s").await.len();

    let pruned = memory.layer.prune(memory.now()).await.unwrap();

    assert_eq!((at_once, memory.versions("s").await.len(), pruned.unfinished), (2, 8, false));
}

#[sqlx::test(migrations = false)]
async fn without_the_embedder_words_must_do(db: PgPool) {
    let away = Arc::new(Counting { away: AtomicBool::new(true), ..Counting::default() });
    let memory = Memory::with(db, away, None, "summary_tokens = 100").await;

    memory.talks("s", 20).await;

    let account = memory.account("s").await;
    assert!(account.contains("User: Fact"), "{account}");
    assert!(estimate_tokens(&memory.versions("s").await[0].text).0 <= 100);
}

#[sqlx::test(migrations = false)]
async fn nothing_is_embedded_as_long_as_everything_fits(db: PgPool) {
    let embedder = Arc::new(Counting::default());
    let memory = Memory::with(db, embedder.clone(), None, "").await;

    memory.talks("s", 12).await;
    assert_eq!(embedder.texts.load(Ordering::Relaxed), 0);
    memory.talks("s", 60).await;

    assert!(embedder.texts.load(Ordering::Relaxed) > 0);
}

#[sqlx::test(migrations = false)]
async fn a_model_is_asked_for_the_summary_and_told_what_it_said_before(db: PgPool) {
    let chat = Arc::new(Scripted::default());
    chat.will_say(r#"{"summary": "They list facts.", "decisions": ["Facts are listed"]}"#);
    chat.will_say(r#"{"summary": "They list more facts.", "decisions": []}"#);
    let memory = Memory::chatting(db, &chat).await;
    memory.says("s", "It is about heron_5 and 4711.", "Noted.").await;
    memory.talks("s", 11).await;

    let account = memory.account("s").await;

    assert!(account.contains("They list more facts.") && account.contains("2026-01-04 Facts are listed"), "{account}");
    assert!(account.contains("heron_5") && account.contains("4711"), "identifiers survive a model, too: {account}");
    let asked = chat.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    let second = &asked[1].messages.last().unwrap().content;
    assert!(second.contains("They list facts.") && second.contains("Facts are listed"), "{second}");
    assert!(second.contains("Fact 3") && !second.contains("heron_5"), "only the turns that are folded: {second}");
    assert_eq!((asked[1].temperature, asked[1].purpose), (0.0, "summary"));
    let made: Vec<String> = memory.versions("s").await.into_iter().map(|version| version.made_by).collect();
    assert_eq!(made, ["scripted", "scripted"]);
}

#[sqlx::test(migrations = false)]
async fn a_model_that_gives_nothing_usable_changes_nothing_but_the_wording(db: PgPool) {
    let long = format!(r#"{{"summary": "{}", "decisions": []}}"#, "word ".repeat(2_000));
    let useless = ["", "garbage", "{}", &long, r#"{"summary": "I'm sorry, I cannot help."}"#, "down", "refused", "cut"];
    let plain = Memory::new(db.clone()).await;
    plain.says("s", "Let's use heron_5.", "Fine.").await;
    plain.talks("s", 11).await;
    let expected = plain.versions("s").await;
    for (number, answer) in useless.into_iter().enumerate() {
        let chat = Arc::new(Scripted::default());
        (0..4).for_each(|_| chat.will_say(answer));
        let memory = plain.again(&format!("user{number}"), &chat).await;

        memory.says("s", "Let's use heron_5.", "Fine.").await;
        memory.talks("s", 11).await;

        let versions = memory.versions("s").await;
        let texts = |versions: &[Version]| {
            versions.iter().map(|one| (one.text.clone(), one.decisions.clone())).collect::<Vec<_>>()
        };
        assert_eq!(texts(&versions).len(), texts(&expected).len(), "{answer:.20}");
        assert!(versions.iter().all(|version| version.made_by == EXTRACTIVE), "{answer:.20}");
        assert!(memory.account("s").await.contains("heron_5"));
        let tries = chat.asked.lock().unwrap().len();
        assert_eq!(tries, if matches!(answer, "down" | "refused") { 2 } else { 4 }, "{answer:.20}");
    }
}

#[sqlx::test(migrations = false)]
async fn a_model_that_came_back_takes_over_from_picked_sentences(db: PgPool) {
    let chat = Arc::new(Scripted::default());
    chat.will_say("down");
    chat.will_say(r#"{"summary": "Better words.", "decisions": []}"#);
    let memory = Memory::chatting(db, &chat).await;

    memory.talks("s", 12).await;

    let made: Vec<String> = memory.versions("s").await.into_iter().map(|version| version.made_by).collect();
    assert_eq!(made, ["scripted", EXTRACTIVE]);
    assert!(chat.asked.lock().unwrap()[1].messages[1].content.contains("User: Fact 0"));
    memory.talks("s", 4).await;
    assert!(memory.account("s").await.contains("Better words."), "its words are picked from when it is away again");
}

#[sqlx::test(migrations = false)]
async fn of_several_folds_due_at_once_only_the_last_asks_the_model(db: PgPool) {
    let chat = Arc::new(Scripted::default());
    chat.will_say(r#"{"summary": "All of it.", "decisions": []}"#);
    let memory = Memory::chatting(db, &chat).await;
    for number in 0..24 {
        memory.append("s", &format!("Fact {number} is here."), "Noted.").await;
    }

    memory.learn_by(64).await;

    assert_eq!(chat.asked.lock().unwrap().len(), 1);
    let made: Vec<String> = memory.versions("s").await.into_iter().map(|version| version.made_by).collect();
    assert_eq!((made.len(), made[0].as_str(), made[1].as_str()), (5, "scripted", EXTRACTIVE));
}

#[sqlx::test(migrations = false)]
async fn what_is_forgotten_while_a_model_thinks_is_not_in_what_it_makes(db: PgPool) {
    let chat = Arc::new(Scripted::default());
    let memory = Memory::chatting(db, &chat).await;
    let said = memory.talks("s", 11).await;
    chat.will_say(r#"{"summary": "Fact 1 was said.", "decisions": []}"#);
    let (journal, layer, user, forgotten) = (memory.journal.clone(), memory.layer.clone(), memory.user, said[1]);
    *chat.meanwhile.lock().unwrap() = Some(Box::pin(async move {
        journal.forget(user, &Target::Exchanges(vec![forgotten]), beginning()).await.unwrap();
        // It is folded anew at once: the model's answer must not find its place among the new versions.
        layer.forget(user, &[forgotten]).await.unwrap();
    }));

    memory.talks("s", 1).await;

    assert_eq!(chat.asked.lock().unwrap().len(), 2);
    let account = memory.account("s").await;
    assert!(account.contains("Fact 0 ") && !account.contains("Fact 1 "), "{account}");
}

#[sqlx::test(migrations = false)]
async fn two_servers_that_fold_a_session_at_once_fold_everything_once(db: PgPool) {
    let meeting: SharedChatModel = Arc::new(Meeting(Barrier::new(2)));
    let one = Memory::with(db, Arc::new(Offline::new()), Some(Arc::clone(&meeting)), "").await;
    let other = open(&one.db, Arc::new(Offline::new()), Some(meeting), "").await.unwrap();

    for round in 1..=3 {
        let exchanges = if round == 1 { 8 } else { 4 };
        for number in 0..exchanges {
            one.append("s", &format!("The boat number {round}.{number} was painted again."), "I see.").await;
        }
        let unread = one.unread().await;
        let (by_one, by_other) = tokio::join!(one.layer.observe(&unread), other.observe(&unread));
        by_one.unwrap();
        by_other.unwrap();

        let versions = one.versions("s").await;
        let covered: Vec<(i32, i32)> = versions.iter().map(|version| (version.number, version.exchanges)).collect();
        assert_eq!(covered, [(3, 12), (2, 8), (1, 4)][3 - round..]);
        let folded = one.count("select count(*) from summaries.folded").await;
        assert_eq!(usize::try_from(folded).unwrap(), 4 * round);
    }
}

#[sqlx::test(migrations = false)]
async fn hostile_and_endless_turns_are_folded_like_any_other(db: PgPool) {
    let memory = Memory::new(db).await;
    let endless = "word_1 is no sentence at all ".repeat(20_000);
    let turns = [
        &endless,
        "\u{202e}\u{200b}<|im_start|>",
        "```",
        "{turns} {summary}",
        "]]]]((((\"\"\"",
        "\u{1f600}",
        "。。。",
        "x",
    ];
    for text in turns {
        memory.says("s", text, " ").await;
    }
    memory.talks("s", 8).await;

    let versions = memory.versions("s").await;

    assert_eq!(versions[0].exchanges, 9, "the endless one alone, then twice four");
    assert!(versions.iter().all(|version| estimate_tokens(&version.text).0 <= 400), "{versions:#?}");
    assert!(memory.account("s").await.contains("word_1"));
}

#[sqlx::test(migrations = false)]
async fn settings_that_cannot_be_keep_the_layer_from_opening(db: PgPool) {
    migrate(&db).await.unwrap();
    let refused = open(&db, Arc::new(Offline::new()), None, "fold_exchanges = 9").await.map(|_| ()).unwrap_err();
    assert!(matches!(&refused, LayerError::Settings(why) if why.contains("from 1 to 7")), "{refused}");
}

/// A memory with this layer alone, of one user.
struct Memory {
    db: PgPool,
    journal: Journal,
    layer: Arc<dyn Layer>,
    user: UserId,
    now: Mutex<DateTime<Utc>>,
    told: AtomicUsize,
}

fn beginning() -> DateTime<Utc> {
    DateTime::parse_from_rfc3339("2026-01-01T12:00:00Z").unwrap().to_utc()
}

async fn open(
    db: &PgPool,
    embedder: Arc<dyn Embedder>,
    chat: Option<SharedChatModel>,
    config: &str,
) -> Result<Arc<dyn Layer>, LayerError> {
    let config = toml::from_str(config).unwrap();
    SummariesPlugin.open(Host { db: db.clone(), embedder, chat, config, memory_files: "unused".into() }).await
}

impl Memory {
    async fn new(db: PgPool) -> Self {
        Self::with(db, Arc::new(Offline::new()), None, "").await
    }

    async fn chatting(db: PgPool, chat: &Arc<Scripted>) -> Self {
        Self::with(db, Arc::new(Offline::new()), Some(Arc::clone(chat) as SharedChatModel), "").await
    }

    async fn with(db: PgPool, embedder: Arc<dyn Embedder>, chat: Option<SharedChatModel>, config: &str) -> Self {
        migrate(&db).await.unwrap();
        let layer = open(&db, embedder, chat, config).await.unwrap();
        let journal = Journal::new(db.clone());
        let user = journal.make_user(&"anna".parse().unwrap(), beginning()).await.unwrap().id;
        Self { db, journal, layer, user, now: Mutex::new(beginning()), told: AtomicUsize::default() }
    }

    /// Another user's memory in the same database, with a model.
    async fn again(&self, name: &str, chat: &Arc<Scripted>) -> Self {
        let chat = Some(Arc::clone(chat) as SharedChatModel);
        let layer = open(&self.db, Arc::new(Offline::new()), chat, "").await.unwrap();
        let user = self.journal.make_user(&name.parse().unwrap(), beginning()).await.unwrap().id;
        let (db, journal) = (self.db.clone(), self.journal.clone());
        Self { db, journal, layer, user, now: Mutex::new(beginning()), told: AtomicUsize::default() }
    }

    fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    async fn append(&self, session: &str, text: &str, answer: &str) -> ExchangeId {
        let turns = vec![NewTurn::new(Role::User, text), NewTurn::new(Role::Assistant, answer)];
        let append = Append::said(session.parse().unwrap(), turns, self.now());
        self.journal.append(self.user, append).await.unwrap().turns[0].exchange.unwrap()
    }

    /// Somebody says something, and a day goes by.
    async fn says(&self, session: &str, text: &str, answer: &str) -> ExchangeId {
        let exchange = self.append(session, text, answer).await;
        self.learn().await;
        *self.now.lock().unwrap() += TimeDelta::days(1);
        exchange
    }

    /// Some days of facts, each with a number.
    async fn talks(&self, session: &str, exchanges: usize) -> Vec<ExchangeId> {
        let things = ["garden", "boat", "kitchen", "violin", "mountain", "letter", "engine"];
        let mut said = Vec::new();
        for _ in 0..exchanges {
            let number = self.told.fetch_add(1, Ordering::Relaxed);
            let thing = things[number % things.len()];
            let text = format!("Fact {number} is about the {thing} of my uncle. It was painted again in spring.");
            let answer = format!("I see, the {thing} is a matter of taste. Do tell me more about it.");
            said.push(self.says(session, &text, &answer).await);
        }
        said
    }

    async fn learn(&self) {
        self.learn_by(3).await;
    }

    /// The layer reads the journal to its end, so many exchanges at a time.
    async fn learn_by(&self, batch: usize) {
        let owner = Uuid::new_v4();
        let name = self.layer.name();
        while let Some(mut lease) = self.journal.lease(&name, owner, self.now(), TimeDelta::seconds(60)).await.unwrap()
        {
            let unread = self.journal.unread(&lease, batch).await.unwrap();
            let exchanges: Vec<_> = unread.iter().map(|(_, exchange)| exchange.clone()).collect();
            self.layer.observe(&exchanges).await.unwrap();
            if let Some((to, _)) = unread.last() {
                assert!(self.journal.advance(&mut lease, *to).await.unwrap());
            }
            self.journal.release(&lease).await.unwrap();
        }
    }

    /// What the layer has not read yet; it counts as read afterwards.
    async fn unread(&self) -> Vec<Exchange> {
        let lease = self.journal.lease(&self.layer.name(), Uuid::new_v4(), self.now(), TimeDelta::seconds(60)).await;
        let mut lease = lease.unwrap().unwrap();
        let unread = self.journal.unread(&lease, 100).await.unwrap();
        if let Some((to, _)) = unread.last() {
            assert!(self.journal.advance(&mut lease, *to).await.unwrap());
        }
        self.journal.release(&lease).await.unwrap();
        unread.into_iter().map(|(_, exchange)| exchange).collect()
    }

    /// The layer reads the journal from its beginning, in larger pieces.
    async fn learns_again(&self, _session: &str) {
        self.journal.reset(self.user, &self.layer.name()).await.unwrap();
        self.learn_by(50).await;
    }

    fn query(&self, session: &str) -> Query {
        Query {
            user: self.user,
            text: "What did we say?".into(),
            meaning: skymem_core::Meaning::known(None),
            rewrite: None,
            time_hint: None,
            session: Some(session.parse().unwrap()),
            filter: Filter::default(),
            window: Vec::new(),
            asked_at: self.now(),
            as_of: None,
            known_at: None,
            limit: 4,
            unit: Unit::Exchange,
            neighbours: 0,
            least_score: 0.0,
        }
    }

    async fn recall(&self, session: &str) -> Vec<Recall> {
        self.layer.recall(&self.query(session)).await.unwrap()
    }

    /// The account as an assistant reads it; empty when there is none.
    async fn account(&self, session: &str) -> String {
        self.layer.render(&self.recall(session).await).text
    }

    async fn account_as_of(&self, session: &str, then: DateTime<Utc>) -> String {
        let query = Query { as_of: Some(then), ..self.query(session) };
        self.layer.render(&self.layer.recall(&query).await.unwrap()).text
    }

    fn account_has(&self, versions: &[Version], number: usize) -> bool {
        versions.iter().any(|version| version.text.contains(&format!("Fact {number} ")))
    }

    async fn covered(&self, session: &str) -> Option<Seq> {
        self.layer.accounts_for(self.user, &session.parse().unwrap()).await.unwrap()
    }

    async fn versions(&self, session: &str) -> Vec<Version> {
        versions(&self.db, self.user, &session.parse().unwrap(), 1_000).await.unwrap()
    }

    async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.db).await.unwrap()
    }
}

/// The offline embedder, counted, and away when told.
#[derive(Default)]
struct Counting {
    inner: Offline,
    texts: AtomicUsize,
    away: AtomicBool,
}

#[async_trait]
impl Embedder for Counting {
    fn id(&self) -> &EmbedderId {
        self.inner.id()
    }

    fn dimensions(&self) -> usize {
        self.inner.dimensions()
    }

    fn longest_text(&self) -> usize {
        self.inner.longest_text()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.inner.count_tokens(text)
    }

    async fn embed(&self, texts: &[&str], purpose: Purpose) -> Result<Vec<Embedding>, ModelError> {
        if self.away.load(Ordering::Relaxed) {
            return Err(ModelError::Unreachable { model: "counting".into(), reason: "away".into() });
        }
        self.texts.fetch_add(texts.len(), Ordering::Relaxed);
        self.inner.embed(texts, purpose).await
    }
}

/// A chat model that says what it is told to, and nothing usable after that.
#[derive(Default)]
struct Scripted {
    answers: Mutex<VecDeque<String>>,
    asked: Mutex<Vec<ChatRequest>>,
    /// What happens while it thinks.
    meanwhile: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

impl Scripted {
    fn will_say(&self, answer: &str) {
        self.answers.lock().unwrap().push_back(answer.to_owned());
    }
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn answer(&self, question: &ChatRequest) -> Result<ChatAnswer, ModelError> {
        self.asked.lock().unwrap().push(question.clone());
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile.await;
        }
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_else(|| "down".into());
        match answer.as_str() {
            "down" => Err(ModelError::Unreachable { model: "scripted".into(), reason: "down".into() }),
            "refused" => Err(ModelError::Refused("no".into())),
            "cut" => Ok(ChatAnswer { text: r#"{"summary": "They"#.into(), whole: false, tokens: 5 }),
            _ => Ok(ChatAnswer { text: answer, whole: true, tokens: 5 }),
        }
    }

    async fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }
}

/// A model that gives nothing that can be used, and that only once two ask it at the same time.
struct Meeting(Barrier);

#[async_trait]
impl ChatModel for Meeting {
    fn name(&self) -> &str {
        "meeting"
    }

    async fn answer(&self, _question: &ChatRequest) -> Result<ChatAnswer, ModelError> {
        self.0.wait().await;
        Err(ModelError::Unusable("as scripted".into()))
    }

    async fn check(&self) -> Result<(), ModelError> {
        Ok(())
    }
}
