//! What facts bear on a question, and that nothing is an answer too.

use serde_json::json;
use skymem_core::{Fate, Filter, Phrasing, Query, TimeRange};
use sqlx::PgPool;

use crate::world::{World, day, holds, with};

/// A memory with some people and projects in it.
async fn world(db: PgPool) -> World {
    let world = World::new(db).await;
    world
        .states_all(vec![
            with(holds("user", "lives_in", "Bremen"), json!({"from": day("2024-05")})),
            holds("user", "works_at", "ACME"),
            holds("user", "sister", "Ida"),
            holds("user", "has_pet", "Rex"),
            holds("user", "likes", "green tea"),
            holds("user", "allergic_to", "peanuts"),
            holds("Ida", "lives_in", "Köln"),
            holds("Ida", "works_at", "Siemens"),
            holds("Anna", "lives_in", "Bonn"),
            holds("Anna", "works_on", "Skymem"),
            holds("Anna", "likes", "coffee"),
            holds("Skymem", "uses", "PostgreSQL"),
            holds("PostgreSQL", "chosen_in", "Meeting 7"),
            holds("Skymem", "written_in", "Rust"),
            holds("Heron", "uses", "MySQL"),
            holds("小米", "is_a", "cat"),
        ])
        .await;
    world
}

#[sqlx::test(migrations = false)]
async fn what_is_asked_for_is_recalled_and_nothing_else(db: PgPool) {
    let world = world(db).await;
    let table: &[(&str, &[&str])] = &[
        ("Where do I live?", &["The user lives in Bremen (since 2024-05-01)."]),
        ("wo wohne ich?", &["The user lives in Bremen (since 2024-05-01)."]),
        ("Where does the user live?", &["The user lives in Bremen (since 2024-05-01)."]),
        ("In welcher Stadt wohne ich eigentlich gerade?", &["The user lives in Bremen (since 2024-05-01)."]),
        ("Where do I work?", &["The user works at ACME."]),
        ("Where does Anna live?", &["Anna lives in Bonn."]),
        ("Where does anna's team work on things", &["Anna works on Skymem."]),
        ("Wo wohnt Anna?", &["Anna lives in Bonn."]),
        ("In welcher Stadt steht Annas Wohnung?", &["Anna lives in Bonn."]),
        ("Which database does Skymem use?", &["Skymem uses PostgreSQL."]),
        ("Welche Datenbank nutzt Skymem?", &["Skymem uses PostgreSQL."]),
        ("Who lives in Köln?", &["Ida lives in Köln."]),
        ("What uses PostgreSQL?", &["Skymem uses PostgreSQL."]),
        ("What is 小米?", &["小米 is a cat."]),
        ("小米是什么", &["小米 is a cat."]),
        ("home address", &["The user lives in Bremen (since 2024-05-01)."]),
        ("Am I allergic to anything?", &["The user is allergic to peanuts."]),
        ("Can I eat peanuts?", &["The user is allergic to peanuts."]),
    ];
    for (question, expected) in table {
        assert_eq!(world.texts(question).await, *expected, "{question}");
    }
}

#[sqlx::test(migrations = false)]
async fn nothing_relevant_is_an_answer(db: PgPool) {
    let world = world(db).await;
    for question in [
        "Where does Hannah live?",
        "where does hannah live",
        "Do you know where Hannah lives?",
        "Where does Ann live?",
        "Wo wohnt Hanna?",
        "What is the capital of France?",
        "Please write a poem about autumn.",
        "Can you help me?",
        "I would like to know how this works in general.",
        "How do I sort a list in Python?",
        "Thanks!",
        "ok",
        "?",
        "",
        "What does this error mean?",
        "我们去哪里吃饭",
    ] {
        assert_eq!(world.texts(question).await, [""; 0], "{question}");
    }
}

#[sqlx::test(migrations = false)]
async fn of_somebody_who_is_only_named_all_is_recalled_and_of_others_nothing(db: PgPool) {
    let world = world(db).await;

    let mut texts = world.texts("Tell me about Anna.").await;

    texts.sort_unstable();
    assert_eq!(texts, ["Anna likes coffee.", "Anna lives in Bonn.", "Anna works on Skymem."]);
}

#[sqlx::test(migrations = false)]
async fn whoever_is_related_is_meant_and_not_who_they_are_related_to(db: PgPool) {
    let world = world(db).await;

    let sister = ["Ida lives in Köln.", "The user has the sister Ida."];
    assert_eq!(world.texts("Where does my sister live?").await, sister);
    assert_eq!(world.texts("Wo wohnt meine Schwester?").await, sister);
    assert_eq!(world.texts("Where does my brother live?").await, [""; 0], "there is none, and it is not me");
    let allergy = ["The user is allergic to peanuts."];
    assert_eq!(world.texts("What do I tell my brother about my allergies?").await, allergy, "but that is mine");
    let sister = world.texts("What is my sister called?").await;
    assert_eq!(sister[0], "The user has the sister Ida.", "{sister:?}");
}

#[sqlx::test(migrations = false)]
async fn all_of_oneself_can_be_asked_for(db: PgPool) {
    let world = world(db).await;
    for question in ["What do you know about me?", "Who am I?", "Was weißt du über mich?"] {
        let texts = world.texts(question).await;
        assert_eq!(texts.len(), 6, "{question}: {texts:?}");
        assert!(texts.iter().all(|text| text.starts_with("The user ")), "{texts:?}");
    }
}

#[sqlx::test(migrations = false)]
async fn a_fact_one_hop_further_is_recalled_when_it_is_asked_for(db: PgPool) {
    let world = world(db).await;

    assert_eq!(
        world.texts("Which database does Anna's project use?").await,
        ["Anna works on Skymem.", "Skymem uses PostgreSQL."]
    );
}

#[sqlx::test(migrations = false)]
async fn how_two_are_linked_is_told_as_one_recall(db: PgPool) {
    let world = world(db).await;

    let recalls = world.recall("How is Skymem linked to Meeting 7?").await;

    assert_eq!(recalls[0].text, "Skymem uses PostgreSQL; PostgreSQL was chosen in Meeting 7.");
    assert_eq!(recalls[0].provenance.exchanges.len(), 2);
    assert!(recalls[0].id.0.starts_with("path:"));
    assert_eq!(recalls.len(), 1, "{recalls:#?}");
    let back = world.recall("Wie hängen Meeting 7 und Anna zusammen?").await;
    assert_eq!(
        back[0].text,
        "PostgreSQL was chosen in Meeting 7; PostgreSQL is used by Skymem; Skymem is worked on by Anna."
    );
}

#[sqlx::test(migrations = false)]
async fn a_recall_says_where_it_comes_from_and_how_it_is_cited(db: PgPool) {
    let world = World::new(db).await;
    world.says("monday", "I live in Bremen.").await;
    let second = world.says("tuesday", "As you know, I live in Bremen.").await;

    let recalls = world.recall("Where do I live?").await;

    let [recall] = recalls.as_slice() else { panic!("{recalls:#?}") };
    assert_eq!(recall.citation.0, "[F: user]");
    let from = &recall.provenance;
    assert_eq!((from.exchange, from.exchanges.len()), (Some(second), 2));
    assert_eq!(from.session.as_ref().map(|session| session.as_str()), Some("tuesday"));
    assert_eq!(from.seqs.map(|(first, last)| (first.0, last.0)), Some((3, 4)));
    assert!(from.occurred_at.is_some() && from.collection.is_some() && from.source.is_some());
    let section = world.layer.render(&recalls);
    assert_eq!(section.text, "[F: user] The user lives in Bremen.");
}

#[sqlx::test(migrations = false)]
async fn what_no_longer_holds_is_recalled_when_the_past_is_asked_for(db: PgPool) {
    let world = World::new(db).await;
    world.states(with(holds("user", "lives_in", "Bonn"), json!({"from": day("2019-01")}))).await;
    world.states(with(holds("user", "lives_in", "Bremen"), json!({"from": day("2024-05")}))).await;
    let (bonn, bremen) =
        ("The user lives in Bonn (from 2019-01-01 until 2024-05-01).", "The user lives in Bremen (since 2024-05-01).");

    assert_eq!(world.texts("Where do I live?").await, [bremen]);
    assert_eq!(world.texts("Where did I live before?").await, [bremen, bonn]);
    let hint = TimeRange { from: day("2020-01"), until: day("2021-01") };
    let query = Query { time_hint: Some(hint), ..world.query("Where did I live in 2020?") };
    assert_eq!(world.layer.recall(&query).await.unwrap()[0].text, bonn);
    let query = Query { as_of: Some(day("2026-01-01")), ..world.query("Where do I live?") };
    assert_eq!(
        world.layer.recall(&query).await.unwrap()[0].text,
        "The user lives in Bonn (since 2019-01-01).",
        "that was all that had been said"
    );
    let query = Query { known_at: Some(day("2025-12-31")), ..world.query("Where do I live?") };
    assert!(world.layer.recall(&query).await.unwrap().is_empty());
}

#[sqlx::test(migrations = false)]
async fn filters_hold_for_what_supports_a_fact(db: PgPool) {
    let world = World::new(db).await;
    world.states_in("one", "work", vec![holds("Anna", "uses", "Vim")]).await;
    world.states_in("two", "default", vec![holds("Anna", "uses", "Emacs")]).await;
    let texts = async |filter: Filter| {
        let query = Query { filter, ..world.query("What does Anna use?") };
        let recalls = world.layer.recall(&query).await.unwrap();
        let mut texts: Vec<String> = recalls.into_iter().map(|recall| recall.text).collect();
        texts.sort_unstable();
        texts
    };
    let (vim, emacs) = ("Anna uses Vim.", "Anna uses Emacs.");

    assert_eq!(texts(Filter::default()).await, [emacs, vim]);
    assert_eq!(texts(Filter { sessions: vec!["one".parse().unwrap()], ..Filter::default() }).await, [vim]);
    assert_eq!(texts(Filter { collections: vec!["default".parse().unwrap()], ..Filter::default() }).await, [emacs]);
    assert_eq!(texts(Filter { sources: vec!["elsewhere".parse().unwrap()], ..Filter::default() }).await, [""; 0]);
    assert_eq!(texts(Filter { pinned: Some(true), ..Filter::default() }).await, [""; 0]);
    assert_eq!(texts(Filter { roles: vec![skymem_core::Role::Assistant], ..Filter::default() }).await, [""; 0]);
    let time = Some(TimeRange { from: day("2026-01-01"), until: world.now() - chrono::TimeDelta::seconds(90) });
    assert_eq!(texts(Filter { time, ..Filter::default() }).await, [vim]);
}

#[sqlx::test(migrations = false)]
async fn what_the_window_holds_is_not_repeated_and_the_rest_says_why_it_stays_out(db: PgPool) {
    let world = World::new(db).await;
    let bonn = world.states(holds("Anna", "lives_in", "Bonn")).await;
    world.is("2026-02-01");
    let bremen = world.states(holds("Anna", "lives_in", "Bremen")).await;
    let tea = world.states(holds("Anna", "likes", "tea")).await;
    let pet = world.states(holds("Ben", "has_pet", "Rex")).await;
    let silent = world.says("talk", "Hello there.").await;
    let query = world.query("Where does Anna live?");
    let fate = async |query: &Query, about| {
        let explained = world.layer.explain(query, Some(about)).await.unwrap();
        assert!(explained.iter().all(|considered| considered.exchange == Some(about)), "{explained:#?}");
        explained.iter().map(|considered| considered.fate).collect::<Vec<_>>()
    };

    assert_eq!(fate(&query, bremen).await, [Fate::Recalled]);
    assert_eq!(fate(&query, bonn).await, [Fate::Superseded]);
    assert_eq!(fate(&query, tea).await, [Fate::NotFound]);
    assert_eq!(fate(&query, pet).await, [Fate::NotFound]);
    assert_eq!(fate(&query, silent).await, [Fate::NotFound]);
    let windowed = Query { window: vec![bremen], ..query.clone() };
    assert!(world.layer.recall(&windowed).await.unwrap().is_empty());
    assert_eq!(fate(&windowed, bremen).await, [Fate::InWindow]);
    assert_eq!(fate(&Query { least_score: 0.99, ..query.clone() }, bremen).await, [Fate::BelowThreshold]);
    assert_eq!(fate(&Query { as_of: Some(day("2026-01-15")), ..query.clone() }, tea).await, [Fate::Filtered]);
    let filter = Filter { sessions: vec!["other".parse().unwrap()], ..Filter::default() };
    assert_eq!(fate(&Query { filter, ..query.clone() }, bremen).await, [Fate::Filtered]);
    assert_eq!(fate(&Query { limit: 0, ..query.clone() }, bremen).await, [Fate::BelowLimit]);
    world.forgets(&[bremen]).await;
    assert_eq!(fate(&query, bremen).await, [Fate::Forgotten]);
    let all = world.layer.explain(&query, None).await.unwrap();
    assert!(all.iter().any(|considered| considered.fate == Fate::Recalled), "{all:#?}");
}

#[sqlx::test(migrations = false)]
async fn a_follow_up_finds_what_its_rewrite_names(db: PgPool) {
    let world = world(db).await;
    let rewrite = Some(Phrasing { text: "Where does Anna live?".into(), embedding: None });

    let recalls = world.layer.recall(&Query { rewrite, ..world.query("And where does she live?") }).await.unwrap();

    assert_eq!(recalls[0].text, "Anna lives in Bonn.");
}

#[sqlx::test(migrations = false)]
async fn hostile_and_endless_questions_are_answered_like_any_other(db: PgPool) {
    let world = world(db).await;
    let endless = "Anna and Skymem in Bonn with Rex ".repeat(20_000);
    for question in [
        endless.as_str(),
        "\u{202e}\u{200b}\0",
        "((((((((((",
        "{s} {o}",
        "'; drop table facts.claim; --",
        &"小".repeat(50_000),
    ] {
        let recalls = world.recall(question).await;
        assert!(recalls.len() <= 20);
        assert!(recalls.iter().all(|recall| (0.0..=1.0).contains(&recall.score.0)));
    }
}
