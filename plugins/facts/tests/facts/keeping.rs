//! What is told is kept as it was told, once, with where it comes from.

use serde_json::json;
use skymem_core::facts::{EntityKind, FactError, FactsAsked, Origin, Seen};
use skymem_core::{Role, Seq};
use skymem_store::NewTurn;
use sqlx::PgPool;

use crate::world::{World, all, dated, day, ever, holds, line, with};

#[sqlx::test(migrations = false)]
async fn a_fact_that_was_told_is_told_back_with_where_it_comes_from(db: PgPool) {
    let world = World::new(db).await;
    let exchange = world
        .states(with(holds("Anna", "lives_in", "Bremen"), json!({"from": "2024-05-01T00:00:00Z", "confidence": 0.8})))
        .await;

    let facts = world.history("anna").await;

    let [fact] = facts.as_slice() else { panic!("{facts:#?}") };
    assert_eq!(dated(fact), "Anna lives_in Bremen 2024-05-01/");
    assert_eq!((fact.single, fact.from_is_said, fact.confidence), (true, true, 0.8));
    assert_eq!((fact.recorded_at, fact.retracted_at), (day("2026-01-01"), None));
    assert_eq!(fact.sentence, "Anna lives in Bremen.");
    assert_eq!(fact.subject.kind, EntityKind::Person);
    let [evidence] = fact.evidence.as_slice() else { panic!("{fact:#?}") };
    assert_eq!((evidence.origin, evidence.exchange), (Origin::Asserted, Some(exchange)));
    assert_eq!((evidence.seq, evidence.file.as_ref()), (Some(Seq(1)), None));
    assert_eq!(evidence.session.as_ref().map(|session| session.as_str()), Some("facts"));
    assert_eq!(world.graph().fact(world.user, fact.id).await.unwrap(), *fact);
}

#[sqlx::test(migrations = false)]
async fn a_second_home_closes_the_first_and_nothing_else(db: PgPool) {
    let world = World::new(db).await;
    let mut others: Vec<_> =
        (0..100).map(|number| holds("Anna", &format!("trait_{number}"), &format!("value {number}"))).collect();
    others.push(holds("Anna", "works_at", "ACME"));
    others.push(holds("Ben", "lives_in", "Bonn"));
    others.push(holds("Anna", "lives_in", "Bonn"));
    world.states_all(others).await;
    assert_eq!(world.holding().await.len(), 103);

    world.is("2026-02-01");
    world.states(holds("Anna", "lives_in", "Bremen")).await;

    let closed: Vec<String> =
        world.everything().await.iter().filter(|fact| fact.valid_to.is_some()).map(dated).collect();
    assert_eq!(closed, ["Anna lives_in Bonn 2026-01-01/2026-02-01"]);
    assert_eq!(world.holding().await.len(), 103);
    assert!(world.everything().await.iter().all(|fact| fact.retracted_at.is_none()));
}

#[sqlx::test(migrations = false)]
async fn ten_wordings_of_the_same_fact_are_one_row_with_ten_pieces_of_evidence(db: PgPool) {
    let world = World::new(db).await;
    for (subject, object) in [
        ("Anna", "Bremen"),
        ("ANNA", "BREMEN"),
        ("anna ", "Bremen."),
        ("Anna", "\"Bremen\""),
        ("“Anna”", "Bremen"),
        ("Ａｎｎａ", "Bremen"),
        ("  Anna", "Bremen  "),
        ("Anna", "bremen"),
        ("Anna!", "Bremen"),
        ("anna", "„Bremen“"),
    ] {
        world.states(holds(subject, "Lives in", object)).await;
    }

    let facts = world.everything().await;

    assert_eq!(facts.len(), 1, "{facts:#?}");
    assert_eq!(line(&facts[0]), "Anna lives_in Bremen");
    assert_eq!(facts[0].evidence.len(), 10);
    assert_eq!(world.graph().entities(world.user, None, ever(), 10, None).await.unwrap().len(), 2);
}

#[sqlx::test(migrations = false)]
async fn what_people_say_of_themselves_is_theirs(db: PgPool) {
    let world = World::new(db).await;
    let exchange = world.says("talk", "I live in Bremen.").await;
    world
        .turns("talk", vec![NewTurn { speaker: Some("Ben".into()), ..NewTurn::new(Role::User, "I live in Bonn.") }])
        .await;
    world
        .turns("talk", vec![NewTurn::new(Role::User, "?"), NewTurn::new(Role::Assistant, "I live in a computer.")])
        .await;

    assert_eq!(world.holding().await, ["Ben lives_in Bonn", "user lives_in Bremen"]);
    let own = &world.history("user").await[0];
    assert_eq!((own.evidence[0].origin, own.evidence[0].exchange), (Origin::Pattern, Some(exchange)));
    assert_eq!(own.sentence, "The user lives in Bremen.");
}

#[sqlx::test(migrations = false)]
async fn an_exchange_that_grew_says_what_it_says_now(db: PgPool) {
    let world = World::new(db).await;
    let question = NewTurn { client_id: Some("one".into()), ..NewTurn::new(Role::User, "I live in Bremen.") };
    world.turns("talk", vec![question.clone()]).await;
    let before = world.everything().await;

    world.turns("talk", vec![question, NewTurn::new(Role::Assistant, "A fine town.")]).await;

    assert_eq!(world.everything().await, before);
    assert_eq!(world.count("select count(*) from facts.claim").await, 1);
}

#[sqlx::test(migrations = false)]
async fn observing_the_same_again_moves_no_version(db: PgPool) {
    let world = World::new(db).await;
    let told = world.states(holds("Anna", "lives_in", "Bremen")).await;
    world.states(json!({"says": "apart", "name": "Anna", "other": "Anna B", "exchanges": [told]})).await;
    world.says("talk", "I live in Bonn.").await;
    let before = world.count("select version from facts.version").await;

    world.learns_again(2).await;

    assert_eq!(world.count("select version from facts.version").await, before);
}

#[sqlx::test(migrations = false)]
async fn the_order_of_learning_does_not_matter(db: PgPool) {
    let world = World::new(db).await;
    for (number, town) in ["Bonn", "Bremen", "Kiel", "Bonn"].iter().enumerate() {
        world.is(&format!("2026-0{}-01", number + 1));
        world.states(holds("Anna", "lives_in", town)).await;
    }
    let before = world.everything().await;
    assert_eq!(before.len(), 4);

    for batch in [1, 2, 50] {
        world.learns_again(batch).await;
        assert_eq!(world.everything().await, before);
    }
}

#[sqlx::test(migrations = false)]
async fn nobody_sees_what_another_told(db: PgPool) {
    let world = World::new(db).await;
    let other = world.another("ben").await;
    world.states(holds("Anna", "lives_in", "Bremen")).await;
    other.states(holds("Anna", "lives_in", "Bonn")).await;

    assert_eq!(world.holding().await, ["Anna lives_in Bremen"]);
    assert_eq!(other.holding().await, ["Anna lives_in Bonn"]);
    let foreign = &world.everything().await[0];
    let refused = other.graph().fact(other.user, foreign.id).await.unwrap_err();
    assert!(matches!(refused, FactError::NotFound(_)), "{refused}");
    assert_ne!(world.entity("anna").await.head.id, other.entity("anna").await.head.id);
}

#[sqlx::test(migrations = false)]
async fn facts_are_found_by_what_is_asked_and_come_in_pages(db: PgPool) {
    let world = World::new(db).await;
    let exchange = world.states_in("facts", "work", vec![holds("Anna", "uses", "Vim")]).await[0];
    world.states_all((0..9).map(|number| holds("Anna", "likes", &format!("thing {number}"))).collect()).await;
    world.states(holds("Ben", "knows", "Anna")).await;
    world.is("2026-02-01");
    world
        .states(json!({"says": "ends", "subject": "Anna", "predicate": "likes", "object": {"literal": "thing 3"}}))
        .await;
    let count = async |asked: FactsAsked| world.asks(asked).await.unwrap().len();

    assert_eq!(count(FactsAsked { about: Some("ben".parse().unwrap()), ..all(ever()) }).await, 1);
    assert_eq!(count(FactsAsked { about: Some("anna".parse().unwrap()), ..all(ever()) }).await, 11);
    assert_eq!(count(FactsAsked { predicate: Some("likes".parse().unwrap()), ..all(ever()) }).await, 9);
    assert_eq!(count(FactsAsked { exchange: Some(exchange), ..all(ever()) }).await, 1);
    assert_eq!(count(FactsAsked { collections: vec!["work".parse().unwrap()], ..all(ever()) }).await, 1);
    assert_eq!(count(all(Seen { as_of: Some(day("2026-03-01")), known_at: None })).await, 10);
    let nobody = world.asks(FactsAsked { about: Some("Nobody".parse().unwrap()), ..all(ever()) }).await.unwrap_err();
    assert_eq!(nobody.to_string(), "there is no entity called Nobody");

    let whole = world.asks(all(ever())).await.unwrap();
    assert_eq!(whole.last().map(line).as_deref(), Some("Anna likes thing 3"), "what is over comes last");
    let mut paged = Vec::new();
    while let Ok(page) = world
        .asks(FactsAsked {
            limit: 4,
            after: paged.last().map(|fact: &skymem_core::facts::Fact| fact.id),
            ..all(ever())
        })
        .await
        && !page.is_empty()
    {
        paged.extend(page);
    }
    assert_eq!(paged, whole);
}

#[sqlx::test(migrations = false)]
async fn a_line_of_a_file_is_a_fact_for_as_long_as_it_stands_there(db: PgPool) {
    let world = World::new(db).await;
    world
        .reads("MEMORY.md", "# Work\n\n- project: skymem uses: PostgreSQL\n- project: skymem written_in: Rust\n")
        .await;
    let then = world.now();
    let uses: Vec<_> = world.history("PostgreSQL").await;
    assert_eq!(uses[0].evidence[0].file.as_deref(), Some("MEMORY.md:3"), "{uses:#?}");
    assert_eq!(uses[0].evidence[0].origin, Origin::Markdown);

    world.is("2026-02-01");
    world.reads("MEMORY.md", "# Work\n\nOne more line.\n\n- project: skymem written_in: Rust\n").await;

    assert_eq!(world.holding().await, ["skymem written_in Rust"]);
    assert_eq!(world.history("Rust").await[0].evidence[0].file.as_deref(), Some("MEMORY.md:5"), "it moved, no more");
    assert_eq!(world.history("Rust").await[0].recorded_at, day("2026-01-01"));
    assert_eq!(world.holding_at(then, Some(then)).await.len(), 2, "what was known then is not rewritten");
    assert_eq!(world.history("PostgreSQL").await[0].retracted_at, Some(day("2026-02-01")));
    world.reads("MEMORY.md", "").await;
    assert_eq!(world.holding().await, [""; 0]);
}

#[sqlx::test(migrations = false)]
async fn whoever_is_removed_leaves_nothing(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "lives_in", "Bremen")).await;
    world.reads("MEMORY.md", "- project: skymem uses: PostgreSQL\n").await;

    sqlx::query("delete from journal.users").execute(&world.db).await.unwrap();

    for table in ["facts.claim", "facts.line", "facts.version"] {
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {table}")))
            .fetch_one(&world.db)
            .await
            .unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[sqlx::test(migrations = false)]
async fn counts_say_what_there_is(db: PgPool) {
    let world = World::new(db).await;
    world.states(holds("Anna", "lives_in", "Bremen")).await;
    world.states_all(vec![holds("Anna", "lives_in", "Bonn"), holds("Anna", "likes", "tea")]).await;

    let stats = world.layer.stats(world.user).await.unwrap();

    let counts: Vec<(&str, i64)> = stats.counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counts[..4], [("facts", 2), ("facts of the past", 1), ("entities", 3), ("claims", 3)]);
    assert!(stats.bytes.unwrap() > 0);
}
