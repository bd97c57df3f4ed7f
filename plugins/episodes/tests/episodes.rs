//! The layer against a real Postgres: what is recorded in the journal is found, and what is forgotten is not.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the helpers of a test may fail it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::{
    Embedder, EmbedderId, Embedding, ExchangeId, ExchangeKind, Fate, Filter, Host, Layer, LayerError, LayerName,
    Meaning, ModelError, Phrasing, Plugin, Purpose, Query, Recall, Role, TimeRange, Unit, User,
};
use skymem_episodes::EpisodesPlugin;
use skymem_models::Offline;
use skymem_store::{Append, CollectionSettings, Journal, NewTurn, SessionChange, Target, migrate};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};
use uuid::Uuid;

#[tokio::test]
async fn what_was_said_is_found_by_its_words() {
    let memory = Memory::new().await;
    memory.says("s1", "Which database do we use for the ledger?", "We chose Postgres for the ledger.").await;
    memory.says("s2", "What is for lunch?", "Tomato soup and bread.").await;

    let found = memory.recall("the ledger database").await;

    assert!(found[0].text.contains("We chose Postgres"), "{found:#?}");
    assert!(found[0].text.starts_with("User: Which database"));
    assert_eq!(found[0].citation.0, "[S: 2026-01-01]");
    assert!(!found.iter().any(|recall| recall.text.contains("soup")));
}

#[tokio::test]
async fn a_question_about_something_else_finds_nothing() {
    let memory = Memory::new().await;
    memory.says("s1", "Which database do we use?", "We chose Postgres.").await;

    assert_eq!(memory.recall("zebra migration patterns").await, []);
}

#[tokio::test]
async fn a_follow_up_finds_by_its_rewrite_what_its_own_words_do_not() {
    let memory = Memory::new().await;
    memory.says("s1", "Which database do we use for the ledger?", "We chose Postgres for the ledger.").await;
    memory.says("s2", "What is for lunch?", "Tomato soup and bread.").await;
    let follow_up = memory.query("and who runs that?").await;

    let unresolved = memory.layer.recall(&follow_up).await.unwrap();
    let resolved =
        memory.layer.recall(&memory.resolved(&follow_up, "who runs the ledger database").await).await.unwrap();

    assert_eq!(unresolved, []);
    assert!(resolved[0].text.contains("We chose Postgres"), "{resolved:#?}");
    assert!(!resolved.iter().any(|recall| recall.text.contains("soup")), "{resolved:#?}");
}

#[tokio::test]
async fn a_rewrite_that_keeps_to_the_old_topic_hides_nothing_of_the_new_one() {
    let memory = Memory::new().await;
    memory.says("s1", "Which database do we use for the ledger?", "We chose Postgres for the ledger.").await;
    memory.says("s2", "What is for lunch?", "Tomato soup and bread.").await;
    let switched = memory.query("and what is for lunch?").await;

    let found = memory.layer.recall(&memory.resolved(&switched, "which ledger database").await).await.unwrap();

    assert!(found.iter().any(|recall| recall.text.contains("soup")), "{found:#?}");
}

#[tokio::test]
async fn an_explanation_tells_what_the_question_and_what_its_rewrite_found() {
    let memory = Memory::new().await;
    memory.says("s1", "Which database do we use for the ledger?", "We chose Postgres for the ledger.").await;
    let follow_up = memory.query("and who runs that?").await;
    let scores = async |query: &Query| {
        let why = memory.layer.explain(query, None).await.unwrap();
        why[0].scores.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };

    let resolved = scores(&memory.resolved(&follow_up, "the ledger database").await).await;

    let of_both = ["vector", "words", "evidence", "rewrite_vector", "rewrite_words", "rewrite_evidence"];
    assert_eq!(resolved[..6], of_both);
    assert_eq!(scores(&follow_up).await[..4], ["vector", "words", "evidence", "fused"]);
}

#[tokio::test]
async fn words_alone_find_in_every_language_when_the_embedder_is_away() {
    let memory = Memory::with(Arc::new(Moody::away())).await;
    memory.says("zh", "我喜欢在周末去北京爬山", "好的，我记住了。").await;
    memory
        .says(
            "de",
            "Meine Schwester wohnt seit dem Sommer in einem kleinen Häuschen bei Bremen an der Weser.",
            "Schön!",
        )
        .await;
    memory.says("ru", "Мы живём в большом доме у самого моря вместе с бабушкой и двумя собаками.", "Понятно.").await;

    for (question, expected) in [("北京", "爬山"), ("Wo sind die Häuschen?", "Bremen"), ("дома у моря", "бабушкой")]
    {
        let found = memory.recall(question).await;
        assert!(found.first().is_some_and(|recall| recall.text.contains(expected)), "{question}: {found:#?}");
    }
}

#[tokio::test]
async fn an_embedder_that_comes_back_embeds_what_it_missed() {
    let embedder = Arc::new(Moody::away());
    let memory = Memory::with(embedder.clone()).await;
    memory.says("s1", "My bicycle is green", "Noted.").await;
    assert_eq!(memory.count("select count(*) from episodes.vector").await, 0);

    assert!(memory.layer.prune(memory.now()).await.unwrap().unfinished);

    embedder.away.store(false, Ordering::Relaxed);
    let pruned = memory.layer.prune(memory.now()).await.unwrap();

    assert!(!pruned.unfinished);
    assert_eq!(memory.count("select count(*) from episodes.vector").await, 2);
    let found = memory.recall("green bicycle").await;
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn an_embedder_that_refuses_everything_keeps_nothing_from_being_found_by_words() {
    let embedder = Arc::new(Moody::there());
    let memory = Memory::with(embedder.clone()).await;
    memory.says("s1", "Hello", "Hi.").await;
    embedder.refuses("");

    memory.says("s1", "My bicycle is green", "Noted.").await;

    assert_eq!(memory.recall("green bicycle").await.len(), 1);
    assert!(memory.layer.prune(memory.now()).await.unwrap().unfinished);
    embedder.refuses("nothing any more");
    assert!(!memory.layer.prune(memory.now()).await.unwrap().unfinished);
    assert_eq!(memory.count("select count(*) from episodes.vector").await, 4);
}

#[tokio::test]
async fn a_text_that_the_embedder_refuses_is_found_by_words_and_keeps_no_other_from_its_vector() {
    let embedder = Arc::new(Moody::there());
    let memory = Memory::with(embedder.clone()).await;
    embedder.refuses("walrus");
    memory.append("s1", &[(Role::User, "The walrus sleeps"), (Role::Assistant, "Noted.")]).await;
    memory.append("s1", &[(Role::User, "My bicycle is green"), (Role::Assistant, "Nice.")]).await;

    memory.learn().await;

    assert_eq!(memory.count("select count(*) from episodes.vector").await, 3);
    assert!(memory.recall("walrus").await[0].text.contains("walrus"));
    let missed = "delete from episodes.vector where passage_id > (select min(id) from episodes.passage)";
    sqlx::query(missed).execute(&memory.db).await.unwrap();
    assert!(!memory.layer.prune(memory.now()).await.unwrap().unfinished);
    assert_eq!(memory.count("select count(*) from episodes.vector").await, 3);
}

#[tokio::test]
async fn an_embedder_that_was_away_for_long_embeds_all_it_missed_in_one_round_of_upkeep() {
    let embedder = Arc::new(Moody::away());
    let memory = Memory::with(embedder.clone()).await;
    let texts: Vec<String> = (0..530).map(|n| format!("Remark {n}")).collect();
    memory.append("s1", &texts.iter().map(|text| (Role::User, text.as_str())).collect::<Vec<_>>()).await;
    memory.learn().await;

    embedder.away.store(false, Ordering::Relaxed);
    memory.layer.prune(memory.now()).await.unwrap();

    assert_eq!(memory.count("select count(*) from episodes.vector").await, 530);
}

#[tokio::test]
async fn an_exchange_that_grows_is_learned_again_and_not_twice() {
    let memory = Memory::new().await;
    let first = memory.append("s1", &[(Role::User, "Where is the spare key?")]).await;
    memory.learn().await;
    let second = memory.append("s1", &[(Role::Assistant, "Under the blue flowerpot.")]).await;
    memory.learn().await;

    assert_eq!(first, second);
    let found = memory.recall("spare key flowerpot").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].text, "User: Where is the spare key?\nAssistant: Under the blue flowerpot.");
    assert_eq!(memory.count("select count(*) from episodes.passage").await, 2);
}

#[tokio::test]
async fn what_is_forgotten_leaves_no_trace_not_even_beside_its_neighbour() {
    let memory = Memory::new().await;
    let secret =
        memory.says("s1", "The vault code word is xylophone", "I will remember xylophone for you, of course.").await;
    memory
        .says("s1", "Now let us talk about cooking dinner tonight", "Sure, what do you have in the fridge today?")
        .await;
    assert!(!memory.recall("xylophone").await.is_empty());

    memory.journal.forget(memory.user.id, &Target::Exchanges(vec![secret]), memory.now()).await.unwrap();

    assert_eq!(memory.recall("xylophone").await, []);
    assert_eq!(memory.count("select count(*) from episodes.posting where term like 'xylophon%'").await, 0);
    assert_eq!(memory.count("select count(*) from episodes.vector").await, 2);
    assert_eq!(memory.fate_of("xylophone", secret).await, Some(Fate::Forgotten));
}

#[tokio::test]
async fn what_is_restored_is_learned_again() {
    let memory = Memory::new().await;
    let id = memory.says("s1", "The vault code word is xylophone", "Noted.").await;
    memory.journal.forget(memory.user.id, &Target::Exchanges(vec![id]), memory.now()).await.unwrap();

    memory.journal.restore(memory.user.id, &[id], memory.now() - TimeDelta::days(30)).await.unwrap();
    assert_eq!(memory.fate_of("xylophone", id).await, Some(Fate::NotYetLearned));
    memory.learn().await;

    assert_eq!(memory.recall("xylophone").await.len(), 1);
}

#[tokio::test]
async fn learning_all_of_it_again_gives_the_same_answers() {
    let memory = Memory::new().await;
    for n in 0..12 {
        memory.says("s1", &format!("Short remark number {n} on ships"), "ok").await;
    }
    let before = memory.recall("ships").await;

    memory.journal.reset(memory.user.id, &memory.layer.name()).await.unwrap();
    memory.learn().await;

    assert_eq!(memory.recall("ships").await, before);
}

#[tokio::test]
async fn what_is_held_in_memory_is_current_whoever_changes_what_was_learned() {
    let memory = Memory::new().await;
    let reader = memory.open(memory.embedder.clone(), "").await.unwrap();
    let forgetful = memory.open(memory.embedder.clone(), "held_megabytes = 0").await.unwrap();
    let same = async |step: &str, expected: usize| {
        let query = memory.query("What is the code of the heron vault?").await;
        let answers = reader.recall(&query).await.unwrap();
        assert_eq!(answers, forgetful.recall(&query).await.unwrap(), "{step}");
        assert_eq!(answers, memory.layer.recall(&query).await.unwrap(), "{step}: the one who learns");
        assert_eq!(answers.iter().filter(|recall| recall.text.contains("vault")).count(), expected, "{step}");
    };

    same("nothing", 0).await;
    let first = memory.says("a", "The code of the heron vault is 5544.", "Noted.").await;
    same("learned by another", 1).await;
    for n in 0..30 {
        memory.says(&format!("s{n}"), &format!("The weather of day {n} is fine."), "Good.").await;
    }
    memory.pass(TimeDelta::hours(2));
    let second = memory.append("b", &[(Role::User, "The heron vault got a second code: 7766.")]).await;
    memory.learn().await;
    same("two", 2).await;
    memory.append("b", &[(Role::Assistant, "The vault of the heron has two codes now.")]).await;
    memory.learn().await;
    same("grown", 2).await;
    memory.journal.forget(memory.user.id, &Target::Exchanges(vec![first]), memory.now()).await.unwrap();
    same("forgotten, and nobody was told", 1).await;
    memory.journal.restore(memory.user.id, &[first], memory.now() - TimeDelta::days(30)).await.unwrap();
    memory.learn().await;
    same("restored", 2).await;
    memory.journal.forget(memory.user.id, &Target::Exchanges(vec![first]), memory.now()).await.unwrap();
    memory.says("c", "The heron vault is locked at night.", "Noted.").await;
    same("forgotten, and something learned before anybody asked", 2).await;
    memory.journal.restore(memory.user.id, &[first], memory.now() - TimeDelta::days(30)).await.unwrap();
    memory.says("d", "Who opens the heron vault in the morning?", "The porter.").await;
    same("both at once", 4).await;
    memory.journal.forget(memory.user.id, &Target::Exchanges(vec![first, second]), memory.now()).await.unwrap();
    same("all of it forgotten but for the vault itself", 2).await;
}

#[tokio::test]
async fn what_comes_back_among_newer_things_is_learned_in_its_own_place() {
    let memory = Memory::new().await;
    let mut said = Vec::new();
    for n in 0..6 {
        said.push(memory.says("s1", &format!("Short remark {n} on ships"), "ok").await);
    }
    let back = &said[1..2];
    memory.journal.forget(memory.user.id, &Target::Exchanges(back.to_vec()), memory.now()).await.unwrap();
    memory.append("s1", &[(Role::User, "A remark on trains")]).await;
    memory.journal.restore(memory.user.id, back, memory.now() - TimeDelta::days(30)).await.unwrap();
    memory.append("s1", &[(Role::User, "A remark on planes")]).await;
    memory.learn().await;
    let places = memory.places().await;

    memory.journal.reset(memory.user.id, &memory.layer.name()).await.unwrap();
    memory.learn().await;

    assert_eq!(places, memory.places().await);
}

#[tokio::test]
async fn what_memory_was_told_directly_comes_back_alone() {
    let memory = Memory::new().await;
    memory.says("s1", "How was the boat trip?", "Fine.").await;
    memory.notes("s1", "Rex is the name of my dog").await;
    memory.notes("s1", "The office is in Hafenstraße").await;
    memory.says("s1", "And the weather?", "Sunny.").await;

    for (question, expected) in [
        ("name of my dog", "User: Rex is the name of my dog"),
        ("where is the office", "User: The office is in Hafenstraße"),
        ("boat trip", "User: How was the boat trip?\nAssistant: Fine."),
        ("weather", "User: And the weather?\nAssistant: Sunny."),
    ] {
        let found = memory.recall(question).await;
        assert_eq!(found.iter().map(|recall| recall.text.as_str()).collect::<Vec<_>>(), [expected], "{question}");
    }
}

#[tokio::test]
async fn one_user_never_finds_what_another_said() {
    let memory = Memory::new().await;
    let other = memory.journal.make_user(&"other".parse().unwrap(), memory.now()).await.unwrap();
    memory.says("s1", "My password hint is marzipan", "Noted.").await;

    let query = Query { user: other.id, ..memory.query("marzipan").await };

    assert_eq!(memory.layer.recall(&query).await.unwrap(), []);
}

/// Seqs are each user's own, and so are the places of passages: both users' passages bear the same ids.
#[tokio::test]
async fn what_one_user_says_and_uses_changes_nothing_of_what_another_finds() {
    for config in ["", "exact_up_to = 1"] {
        let mut memory = Memory::configured(Arc::new(Offline::new()), config).await;
        let long = "The kayak has a rudder, a hatch and two seats made of ash. ".repeat(60);
        for (question, answer) in [("I bought a red kayak", "A kayak!"), ("What is in it?", long.as_str())] {
            memory.says("s1", question, answer).await;
            memory.says("s2", "Where is the paddle?", "Behind the shed.").await;
        }
        memory.layer.prune(memory.now()).await.unwrap();
        let before = memory.all_answers("red kayak with a rudder").await;

        // The later user's id is the greater one: whether rows come by table or by index, his come last.
        let later = memory.now() + TimeDelta::days(1);
        let ben = memory.journal.make_user(&"ben".parse().unwrap(), later).await.unwrap();
        let anna = std::mem::replace(&mut memory.user, ben);
        memory.days_pass(-1);
        for n in 0..3 {
            memory.says("s1", "A red kayak with a rudder, is it red?", &format!("Red kayak {n} with a rudder.")).await;
            memory.says("s1", "zebra stripes", "of many zebras").await;
        }
        memory.days_pass(1);
        let used: Vec<_> = memory.recall("red kayak").await.into_iter().map(|recall| recall.id).collect();
        memory.days_pass(20);
        memory.layer.used(memory.user.id, &used, memory.now()).await.unwrap();
        memory.days_pass(-20);
        memory.user = anna;

        assert_eq!(memory.all_answers("red kayak with a rudder").await, before, "{config}");
    }
}

/// As above: the other's passages stand between one's own, by their ids and in a session of the same name.
#[tokio::test]
async fn what_one_user_says_changes_nothing_of_where_the_exchanges_of_another_stand() {
    let learns_three_at_once = async |memory: &Memory| {
        for (session, remark) in [("s1", "A remark on ships"), ("s2", "On planes"), ("s1", "Another on ships")] {
            memory.append(session, &[(Role::User, remark), (Role::Assistant, "ok")]).await;
        }
        memory.learn().await;
        memory.places().await
    };
    let alone = learns_three_at_once(&Memory::new().await).await;
    let mut memory = Memory::new().await;
    let ben = memory.journal.make_user(&"ben".parse().unwrap(), memory.now()).await.unwrap();
    let anna = std::mem::replace(&mut memory.user, ben);
    for n in 0..4 {
        memory.says("s1", &format!("Short remark {n} on trains"), "ok").await;
    }
    memory.user = anna;

    assert_eq!(learns_three_at_once(&memory).await, alone);
}

#[tokio::test]
async fn a_filter_that_keeps_one_in_a_hundred_still_fills_the_answer() {
    let memory = Memory::new().await;
    for n in 0..150 {
        let session = if n % 30 == 0 { "rare" } else { "common" };
        memory.append(session, &[(Role::User, &format!("The harbour report {n} is about tugboats and cranes"))]).await;
    }
    memory.learn().await;
    let mut query = Query { limit: 4, unit: Unit::Turn, ..memory.query("harbour tugboats").await };
    query.filter.sessions = vec!["rare".parse().unwrap()];

    let found = memory.layer.recall(&query).await.unwrap();

    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|recall| recall.provenance.session.as_ref().unwrap().as_str() == "rare"));
}

#[tokio::test]
async fn every_filter_is_exact() {
    let memory = Memory::new().await;
    let old = memory.says("s1", "I bought a kayak", "Nice kayak!").await;
    memory.days_pass(10);
    let pinned = memory.says("s2", "I sold the kayak", "Farewell, kayak!").await;
    memory.journal.pin(memory.user.id, &[pinned], true).await.unwrap();
    let start = DateTime::parse_from_rfc3339("2026-01-01T12:00:00Z").unwrap().to_utc();
    let at = |days: i64| start + TimeDelta::days(days);

    let time = |from, until| Filter { time: Some(TimeRange { from, until }), ..Filter::default() };
    let check = async |filter: Filter, expected: &[ExchangeId]| {
        let query = Query { filter: filter.clone(), ..memory.query("kayak").await };
        let mut found = exchanges(&memory.layer.recall(&query).await.unwrap());
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(found, expected, "{filter:?}");
    };
    check(Filter::default(), &[old, pinned]).await;
    check(time(at(-1), at(1)), &[old]).await;
    check(time(at(5), at(50)), &[pinned]).await;
    check(Filter { pinned: Some(true), ..Filter::default() }, &[pinned]).await;
    check(Filter { pinned: Some(false), ..Filter::default() }, &[old]).await;
    check(Filter { sessions: vec!["s1".parse().unwrap()], ..Filter::default() }, &[old]).await;
    check(Filter { collections: vec!["default".parse().unwrap()], ..Filter::default() }, &[old, pinned]).await;
    check(Filter { collections: vec!["other".parse().unwrap()], ..Filter::default() }, &[]).await;
    check(Filter { sources: vec!["import:x".parse().unwrap()], ..Filter::default() }, &[]).await;
    check(Filter { roles: vec![Role::Assistant], ..Filter::default() }, &[old, pinned]).await;
    check(Filter { roles: vec![Role::System], ..Filter::default() }, &[]).await;

    let as_of = Query { as_of: Some(at(5)), ..memory.query("kayak").await };
    assert_eq!(exchanges(&memory.layer.recall(&as_of).await.unwrap()), [old]);
    let as_of_the_moment = Query { as_of: Some(at(0)), ..memory.query("kayak").await };
    assert_eq!(exchanges(&memory.layer.recall(&as_of_the_moment).await.unwrap()), [old]);
}

#[tokio::test]
async fn as_known_at_a_moment_what_was_written_down_later_is_unknown_whenever_it_was_said() {
    let memory = Memory::new().await;
    let kayak = memory.says("s1", "The kayak is red", "A red kayak.").await;
    let then = memory.now();
    memory.days_pass(1);
    let said_at = Some(then - TimeDelta::days(30));
    let turn = |role, text: &str| NewTurn { occurred_at: said_at, ..NewTurn::new(role, text) };
    let turns = vec![turn(Role::User, "The old kayak was blue"), turn(Role::Assistant, "A blue kayak.")];
    let append = Append::said("s1".parse().unwrap(), turns, memory.now());
    let late = memory.journal.append(memory.user.id, append).await.unwrap().turns[0].exchange.unwrap();
    memory.learn().await;

    let recall = async |known_at| {
        let query = Query { known_at, neighbours: 2, ..memory.query("kayak").await };
        memory.layer.recall(&query).await.unwrap()
    };
    let known_then = recall(Some(then)).await;

    assert_eq!(exchanges(&known_then), [kayak]);
    assert!(!format!("{known_then:?}").contains("blue"), "{known_then:#?}");
    for known_now in [recall(Some(memory.now())).await, recall(None).await] {
        assert!(format!("{known_now:?}").contains("blue"), "{known_now:#?}");
    }
    let why = Query { known_at: Some(then), ..memory.query("kayak").await };
    assert_eq!(memory.layer.explain(&why, Some(late)).await.unwrap()[0].fate, Fate::Filtered);
}

#[tokio::test]
async fn what_the_window_shows_is_not_recalled_and_explain_says_so() {
    let memory = Memory::new().await;
    let shown = memory.says("s1", "The meeting moved to Thursday afternoon", "Understood, Thursday.").await;
    let query = Query { window: vec![shown], ..memory.query("meeting on Thursday").await };

    assert_eq!(memory.layer.recall(&query).await.unwrap(), []);
    let why = memory.layer.explain(&query, Some(shown)).await.unwrap();
    assert!(why.iter().all(|considered| considered.fate == Fate::InWindow), "{why:?}");
}

#[tokio::test]
async fn a_merged_episode_shows_nothing_from_after_the_moment_asked_about_nor_from_the_window() {
    let memory = Memory::new().await;
    let first = memory.says("s1", "Who has the boat key?", "Jon has it.").await;
    memory.pass(TimeDelta::minutes(30));
    let second = memory.says("s1", "And the boat cover?", "Mia has it.").await;
    let both = memory.recall("boat").await;
    assert!(both[0].text.contains("Jon") && both[0].text.contains("Mia"), "these are one episode: {both:#?}");

    let earlier = Query { as_of: Some(memory.now() - TimeDelta::minutes(10)), ..memory.query("boat").await };
    let beside_window = Query { window: vec![second], ..memory.query("boat").await };

    for query in [earlier, beside_window] {
        for unit in [Unit::Exchange, Unit::Segment] {
            let query = Query { unit, neighbours: 2, ..query.clone() };
            let found = memory.layer.recall(&query).await.unwrap();
            assert_eq!(exchanges(&found), [first]);
            assert!(!format!("{found:?}").contains("Mia"), "{found:#?}");
        }
    }
}

#[tokio::test]
async fn the_newest_comes_first_among_near_equals() {
    let memory = Memory::new().await;
    memory.says("s1", "Which city does Ann live in? Ann lives in Hamburg", "ok").await;
    memory.days_pass(200);
    memory.says("s2", "Which city does Ann live in? Ann lives in Bremen", "ok").await;

    let found = memory.recall("Which city does Ann live in").await;

    assert!(found[0].text.contains("Bremen") && found[1].text.contains("Hamburg"), "{found:#?}");
}

#[tokio::test]
async fn a_unique_old_memory_asked_for_directly_comes_first() {
    let memory = Memory::new().await;
    memory.says("s1", "My grandmother's recipe for plum cake needs cardamom", "Delicious.").await;
    memory.days_pass(3_000);
    for n in 0..20 {
        memory.says("s2", &format!("Status of build {n}: the cake script failed"), "I see.").await;
    }

    let found = memory.recall("plum cake recipe of my grandmother").await;

    assert!(found[0].text.contains("cardamom"), "{found:#?}");
}

#[tokio::test]
async fn a_collection_may_fade_by_a_rule_of_its_own_and_pins_do_not_fade() {
    let memory = Memory::new().await;
    let id = memory.says("s1", "The parking spot is on level four", "ok").await;
    let settings = CollectionSettings { half_life_days: Some(1.0), decay_floor: Some(0.0), part_tokens: None };
    let default = "default".parse().unwrap();
    memory.journal.set_collection(memory.user.id, &default, settings).await.unwrap().unwrap();
    memory.days_pass(1);

    let score = memory.recall("parking spot level").await[0].score.0;
    assert!((score - 0.5).abs() < 0.01, "{score}");

    memory.journal.pin(memory.user.id, &[id], true).await.unwrap();
    let found = memory.recall("parking spot level").await;
    assert!((found[0].score.0 - 1.0).abs() < 1e-6);
    assert!(found[0].provenance.pinned);
}

#[tokio::test]
async fn use_brings_a_memory_back_up() {
    let memory = Memory::new().await;
    memory.says("s1", "The parking spot is on level four", "ok").await;
    memory.days_pass(60);
    let faded = memory.recall("parking spot level").await;

    let ids: Vec<_> = faded.iter().map(|recall| recall.id.clone()).collect();
    memory.layer.used(memory.user.id, &ids, memory.now()).await.unwrap();

    assert!(memory.recall("parking spot level").await[0].score.0 > faded[0].score.0);
}

#[tokio::test]
async fn a_long_answer_comes_back_in_the_part_that_matters_with_its_question() {
    let memory = Memory::new().await;
    let filler = "This paragraph speaks of weather and wind in general terms. ".repeat(30);
    let answer = format!("{filler}\n\nThe flux capacitor needs 1.21 gigawatts.\n\n{filler}");
    memory.says("s1", "How does the time machine work?", &answer).await;

    let found = memory.recall("gigawatts for the flux capacitor").await;

    assert!(found[0].text.starts_with("User: How does the time machine work?\nAssistant: "), "{}", found[0].text);
    assert!(found[0].text.contains("1.21 gigawatts"));
    assert!(found[0].text.len() < answer.len() / 2);
}

#[tokio::test]
async fn a_recall_is_what_was_asked_for_a_turn_an_exchange_or_a_segment() {
    let memory = Memory::new().await;
    memory
        .says(
            "s1",
            "Let us plan the garden fence this weekend together",
            "The garden fence needs twelve posts and some wire.",
        )
        .await;
    memory
        .says(
            "s1",
            "And how many garden fence posts did we order last time",
            "We ordered twelve garden fence posts and wire.",
        )
        .await;

    let query = memory.query("garden fence posts").await;
    let of = async |unit| memory.layer.recall(&Query { unit, ..query.clone() }).await.unwrap();

    let turns = of(Unit::Turn).await;
    assert!(turns.iter().all(|recall| !recall.text.contains('\n') && recall.provenance.role.is_some()));
    assert!(turns.len() >= 3, "{turns:#?}");
    assert!(of(Unit::Exchange).await.iter().all(|recall| recall.text.contains("\nAssistant: ")));
    let segments = of(Unit::Segment).await;
    assert!(segments[0].provenance.topic.is_some());
    let passages: usize = segments.iter().map(|recall| recall.text.lines().count()).sum();
    assert_eq!(passages, 4, "every turn is in one segment and in no other: {segments:#?}");
}

#[tokio::test]
async fn a_search_waits_until_it_is_known_what_the_question_means() {
    let memory = Memory::new().await;
    memory.says("s1", "My cousin keeps bees behind the mill", "How many hives are there?").await;
    memory.says("s1", "The bakery closes at noon on Mondays", "Noted.").await;
    let known = memory.query("Who has bees?").await;
    let at_once = memory.layer.explain(&known, None).await.unwrap();
    let by_words = Query { meaning: Meaning::known(None), ..known.clone() };
    assert_ne!(memory.layer.explain(&by_words, None).await.unwrap(), at_once, "meaning has no part in it");
    let (meaning, teller) = Meaning::on_its_way();
    let query = Query { meaning, ..known.clone() };

    let told = async {
        tokio::task::yield_now().await;
        teller.tell(known.meaning.get().await.cloned());
    };
    let (later, ()) = tokio::join!(memory.layer.explain(&query, None), told);

    assert_eq!(later.unwrap(), at_once);
}

#[tokio::test]
async fn what_is_learned_while_a_search_waits_is_searched_too() {
    let memory = Memory::new().await;
    memory.says("s1", "My cousin keeps bees behind the mill", "How many hives are there?").await;
    let known = memory.query("Who has bees?").await;
    memory.layer.explain(&known, None).await.unwrap();
    let (meaning, teller) = Meaning::on_its_way();
    let query = Query { meaning, ..known.clone() };

    let told = async {
        tokio::task::yield_now().await;
        memory.says("s1", "The bakery closes at noon on Mondays", "Noted.").await;
        memory.says("s1", "The schoolmaster has bees too, and sells honey", "Where?").await;
        let now = memory.layer.explain(&known, None).await.unwrap();
        teller.tell(known.meaning.get().await.cloned());
        now
    };
    let (later, now) = tokio::join!(memory.layer.explain(&query, None), told);

    assert!(now.iter().any(|considered| considered.excerpt.contains("schoolmaster")), "{now:?}");
    assert_eq!(later.unwrap(), now);
}

#[tokio::test]
async fn neighbours_come_on_request() {
    let memory = Memory::new().await;
    memory
        .says(
            "s1",
            "We begin with the agenda of the annual general assembly of the rowing club",
            "Good, the agenda is on the table now for everyone to read in peace.",
        )
        .await;
    memory
        .says(
            "s1",
            "The treasurer is Wilhelmina, who was elected in March by all of the members",
            "Wilhelmina is the treasurer, as the members decided in spring.",
        )
        .await;
    memory
        .says(
            "s1",
            "Last comes the election of the youth warden and a short closing prayer",
            "Then everybody goes home by boat, if the weather allows for it.",
        )
        .await;

    let query = Query { neighbours: 1, limit: 1, ..memory.query("Wilhelmina treasurer").await };
    let found = memory.layer.recall(&query).await.unwrap();

    assert_eq!(found[0].neighbours.len(), 4, "{found:#?}");
    assert!(found[0].neighbours[0].contains("agenda"));
    assert!(found[0].neighbours[3].contains("by boat"));
}

#[tokio::test]
async fn a_session_may_say_how_old_its_memories_get() {
    let memory = Memory::new().await;
    memory.says("s1", "The guest network is called heron", "ok").await;
    let change = SessionChange { max_age_hours: Some(Some(24)), ..SessionChange::default() };
    memory.journal.set_session(memory.user.id, &"s1".parse().unwrap(), change, memory.now()).await.unwrap();
    assert_eq!(memory.recall("guest network").await.len(), 1);

    memory.pass(TimeDelta::minutes(30));
    memory.says("s1", "The office network is called egret", "ok").await;
    memory.pass(TimeDelta::minutes(24 * 60 - 15));

    assert_eq!(memory.recall("guest heron").await, []);
    let found = memory.recall("office network").await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].text, "User: The office network is called egret\nAssistant: ok",
        "nor does a merge bring it along"
    );
}

#[tokio::test]
async fn a_large_memory_is_searched_through_an_index_with_the_same_answers() {
    let memory = Memory::configured(Arc::new(Offline::new()), "exact_up_to = 50").await;
    for n in 0..60 {
        memory.append("s1", &[(Role::User, &format!("Entry {n} tells about the otter family {n}"))]).await;
        memory.append("s1", &[(Role::Assistant, &format!("Answer {n} speaks of dams and rivers"))]).await;
    }
    memory.append("s2", &[(Role::User, "The lighthouse keeper is called Ragnhild")]).await;
    memory.learn().await;
    let exact = memory.recall("lighthouse keeper Ragnhild").await;

    memory.layer.prune(memory.now()).await.unwrap();

    assert_eq!(memory.count("select count(*) from pg_indexes where indexname like 'vector_near_%'").await, 1);
    let indexed = memory.recall("lighthouse keeper Ragnhild").await;
    assert_eq!(indexed[0].id, exact[0].id);
    let mut filtered = memory.query("otter family").await;
    filtered.filter.sessions = vec!["s1".parse().unwrap()];
    assert_eq!(memory.layer.recall(&filtered).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_memory_of_another_embedder_is_refused_with_the_command_that_mends_it() {
    let memory = Memory::new().await;
    memory.says("s1", "hello world", "hi").await;

    let error = memory.open(Arc::new(Moody::there()), "").await.err().unwrap();

    assert!(matches!(error, LayerError::OtherEmbedder(_)));
    assert!(error.to_string().contains("skymem reembed"), "{error}");
}

#[tokio::test]
async fn a_bad_setting_is_named() {
    let memory = Memory::new().await;
    for (config, named) in [
        ("half_life_days = 0.0", "half_life_days"),
        ("decay_floor = 2.0", "decay_floor"),
        ("part_tokens = 5", "part_tokens"),
        ("half_life = 3.0", "half_life_days"),
        ("candidates = \"many\"", "invalid type"),
    ] {
        let error = memory.open(Arc::new(Offline::new()), config).await.err().unwrap();
        assert!(error.to_string().contains(named), "{config}: {error}");
    }
}

fn exchanges(found: &[Recall]) -> Vec<ExchangeId> {
    found.iter().filter_map(|recall| recall.provenance.exchange).collect()
}

/// An embedder that can be away, and can refuse texts.
struct Moody {
    id: EmbedderId,
    inner: Offline,
    away: AtomicBool,
    refused: std::sync::Mutex<Option<&'static str>>,
}

impl Moody {
    fn away() -> Self {
        Self {
            id: EmbedderId("moody/64".into()),
            inner: Offline::new(),
            away: AtomicBool::new(true),
            refused: Default::default(),
        }
    }

    /// From now on it refuses texts that contain `word`.
    fn refuses(&self, word: &'static str) {
        *self.refused.lock().unwrap() = Some(word);
    }

    fn there() -> Self {
        Self { away: AtomicBool::new(false), ..Self::away() }
    }
}

#[async_trait]
impl Embedder for Moody {
    fn id(&self) -> &EmbedderId {
        &self.id
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
            return Err(ModelError::Unreachable { model: "moody".into(), reason: "it is away".into() });
        }
        let refused = *self.refused.lock().unwrap();
        if refused.is_some_and(|word| texts.iter().any(|text| text.contains(word))) {
            return Err(ModelError::Refused("unreadable".into()));
        }
        self.inner.embed(texts, purpose).await
    }
}

/// A journal and the layer that learns from it, on a database of their own.
struct Memory {
    db: PgPool,
    name: String,
    journal: Journal,
    layer: Arc<dyn Layer>,
    embedder: Arc<dyn Embedder>,
    user: User,
    now: std::sync::Mutex<DateTime<Utc>>,
}

impl Memory {
    async fn new() -> Self {
        Self::with(Arc::new(Offline::new())).await
    }

    async fn with(embedder: Arc<dyn Embedder>) -> Self {
        Self::configured(embedder, "").await
    }

    async fn configured(embedder: Arc<dyn Embedder>, config: &str) -> Self {
        let name = format!("episodes_{}", Uuid::new_v4().simple());
        let mut admin = PgConnection::connect(&url()).await.unwrap();
        sqlx::query(AssertSqlSafe(format!("create database {name}"))).execute(&mut admin).await.unwrap();
        let options = url().parse::<sqlx::postgres::PgConnectOptions>().unwrap().database(&name);
        let db = PgPool::connect_with(options).await.unwrap();
        migrate(&db).await.unwrap();
        let journal = Journal::new(db.clone());
        let now = DateTime::parse_from_rfc3339("2026-01-01T12:00:00Z").unwrap().to_utc();
        let user = journal.make_user(&"anna".parse().unwrap(), now).await.unwrap();
        let layer = open(&db, embedder.clone(), config).await.unwrap();
        Self { db, name, journal, layer, embedder, user, now: std::sync::Mutex::new(now) }
    }

    async fn open(&self, embedder: Arc<dyn Embedder>, config: &str) -> Result<Arc<dyn Layer>, LayerError> {
        open(&self.db, embedder, config).await
    }

    fn now(&self) -> DateTime<Utc> {
        *self.now.lock().unwrap()
    }

    fn days_pass(&self, days: i64) {
        self.pass(TimeDelta::days(days));
    }

    fn pass(&self, time: TimeDelta) {
        *self.now.lock().unwrap() += time;
    }

    async fn append(&self, session: &str, turns: &[(Role, &str)]) -> ExchangeId {
        let turns = turns.iter().map(|(role, text)| NewTurn::new(*role, *text)).collect();
        let append = Append::said(session.parse().unwrap(), turns, self.now());
        self.journal.append(self.user.id, append).await.unwrap().turns[0].exchange.unwrap()
    }

    async fn says(&self, session: &str, question: &str, answer: &str) -> ExchangeId {
        let id = self.append(session, &[(Role::User, question), (Role::Assistant, answer)]).await;
        self.learn().await;
        id
    }

    async fn notes(&self, session: &str, text: &str) -> ExchangeId {
        let turns = vec![NewTurn::new(Role::User, text)];
        let said = Append::said(session.parse().unwrap(), turns, self.now());
        let append = Append { kind: ExchangeKind::Asserted, ..said };
        let id = self.journal.append(self.user.id, append).await.unwrap().turns[0].exchange.unwrap();
        self.learn().await;
        id
    }

    /// Each passage of the user with what it follows, its episode and its topic.
    async fn places(&self) -> Vec<(i64, Option<i64>, i64, i32)> {
        let statement = "select id, follows, episode, topic from episodes.passage where user_id = $1 order by id";
        sqlx::query_as(statement).bind(self.user.id.0).fetch_all(&self.db).await.unwrap()
    }

    /// The layer reads the journal to its end.
    async fn learn(&self) {
        let name: LayerName = self.layer.name();
        let owner = Uuid::new_v4();
        while let Some(mut lease) = self.journal.lease(&name, owner, self.now(), TimeDelta::seconds(60)).await.unwrap()
        {
            let unread = self.journal.unread(&lease, 7).await.unwrap();
            let exchanges: Vec<_> = unread.iter().map(|(_, exchange)| exchange.clone()).collect();
            self.layer.observe(&exchanges).await.unwrap();
            if let Some((to, _)) = unread.last() {
                assert!(self.journal.advance(&mut lease, *to).await.unwrap());
            }
            self.journal.release(&lease).await.unwrap();
        }
    }

    async fn query(&self, text: &str) -> Query {
        let embedding = self.embedder.embed(&[text], Purpose::Query).await.ok().and_then(|mut all| all.pop());
        Query {
            user: self.user.id,
            text: text.into(),
            meaning: Meaning::known(embedding),
            rewrite: None,
            time_hint: None,
            session: None,
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

    /// `query` with a rewrite.
    async fn resolved(&self, query: &Query, rewrite: &str) -> Query {
        let embedding = self.query(rewrite).await.meaning.get().await.cloned();
        Query { rewrite: Some(Phrasing { text: rewrite.into(), embedding }), ..query.clone() }
    }

    async fn recall(&self, question: &str) -> Vec<Recall> {
        self.layer.recall(&self.query(question).await).await.unwrap()
    }

    /// What is recalled of each unit, with and without a filter, and what is said of every candidate and of the layer.
    async fn all_answers(&self, question: &str) -> String {
        let plain = Query { neighbours: 1, asked_at: self.now() + TimeDelta::days(30), ..self.query(question).await };
        let filter = Filter { sessions: vec!["s1".parse().unwrap()], ..Filter::default() };
        let mut answers = String::new();
        for unit in [Unit::Exchange, Unit::Turn, Unit::Segment] {
            for filter in [Filter::default(), filter.clone()] {
                let query = Query { unit, filter, ..plain.clone() };
                // Twice: the first question of a process finds out how large the memory is.
                self.layer.recall(&query).await.unwrap();
                let recalls = self.layer.recall(&query).await.unwrap();
                let why = self.layer.explain(&query, None).await.unwrap();
                answers += &format!("{recalls:#?}\n{why:#?}\n");
            }
        }
        answers + &format!("{:?}", self.layer.stats(self.user.id).await.unwrap().counts)
    }

    async fn fate_of(&self, question: &str, exchange: ExchangeId) -> Option<Fate> {
        let why = self.layer.explain(&self.query(question).await, Some(exchange)).await.unwrap();
        why.first().map(|considered| considered.fate)
    }

    async fn count(&self, statement: &'static str) -> i64 {
        sqlx::query_scalar(statement).fetch_one(&self.db).await.unwrap()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The cluster of a test run is thrown away whole; this keeps one that is not from filling up.
        let name = self.name.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                if let Ok(mut admin) = PgConnection::connect(&url()).await {
                    let drop = AssertSqlSafe(format!("drop database {name} with (force)"));
                    let _ = sqlx::query(drop).execute(&mut admin).await;
                }
            });
        })
        .join()
        .unwrap();
    }
}

async fn open(db: &PgPool, embedder: Arc<dyn Embedder>, config: &str) -> Result<Arc<dyn Layer>, LayerError> {
    let config = config.parse().unwrap();
    EpisodesPlugin.open(Host { db: db.clone(), embedder, chat: None, config, memory_files: "unused".into() }).await
}

/// The cluster that tests may make databases in.
fn url() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL names no cluster: run the tests through `make test`")
}
