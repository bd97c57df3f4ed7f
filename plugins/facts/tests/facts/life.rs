//! A scripted life, told late and corrected later still, and what was true when, as it was known when.

use serde_json::{Value, json};
use skymem_core::facts::{FactsAsked, Seen};
use sqlx::PgPool;

use crate::world::{World, all, dated, day, holds, line, with};

/// What was told, and when.
fn told() -> Vec<(&'static str, Value)> {
    let from = |date: &str| json!({"from": day(date)});
    let corrects = |date: &str| json!({"from": day(date), "corrects": true});
    vec![
        ("2026-01-10", with(holds("Anna", "lives_in", "Bonn"), from("2020-03"))),
        ("2026-02-01", holds("Anna", "works_at", "ACME")),
        ("2026-03-01", with(holds("Anna", "lives_in", "Bremen"), from("2026-02-15"))),
        ("2026-04-01", with(holds("Anna", "works_at", "ACME"), from("2022-09"))),
        ("2026-05-01", with(holds("Anna", "lives_in", "Bremen"), corrects("2026-01-20"))),
        (
            "2026-06-01",
            with(holds("Anna", "lives_in", "Köln"), json!({"from": day("2015-01"), "until": day("2018-06")})),
        ),
        ("2026-07-01", json!({"says": "ends", "subject": "Anna", "predicate": "works_at", "at": day("2026-06-15")})),
        ("2026-08-01", with(holds("Anna", "works_at", "Foo"), from("2026-06-20"))),
        ("2026-09-01", with(holds("Anna", "works_at", "Bar"), json!({"corrects": true}))),
        ("2026-10-01", with(holds("Anna", "lives_in", "Hamburg"), from("2026-09-15"))),
        (
            "2026-11-01",
            json!({"says": "never_held", "subject": "Anna", "predicate": "lives_in", "object": {"entity": "Hamburg"}}),
        ),
        ("2026-12-01", with(holds("Anna", "married_to", "Ben"), from("2026-11-11"))),
    ]
}

/// True when, as known when: home and job; `-` for what is not known.
const TABLE: &[(&str, &str, &str, &str)] = &[
    // All that is known.
    ("2014-12-31", "", "-", "-"),
    ("2015-01-01", "", "Köln", "-"),
    ("2018-05-31", "", "Köln", "-"),
    ("2018-06-01", "", "-", "-"),
    ("2020-02-29", "", "-", "-"),
    ("2020-03-01", "", "Bonn", "-"),
    ("2022-08-31", "", "Bonn", "-"),
    ("2022-09-01", "", "Bonn", "ACME"),
    ("2026-01-19", "", "Bonn", "ACME"),
    ("2026-01-20", "", "Bremen", "ACME"),
    ("2026-02-14", "", "Bremen", "ACME"),
    ("2026-06-14", "", "Bremen", "ACME"),
    ("2026-06-15", "", "Bremen", "-"),
    ("2026-06-19", "", "Bremen", "-"),
    ("2026-06-20", "", "Bremen", "Bar"),
    ("2026-09-20", "", "Bremen", "Bar"),
    ("2027-01-01", "", "Bremen", "Bar"),
    // Before anything was told.
    ("2020-06-01", "2026-01-09", "-", "-"),
    ("2026-06-01", "2026-01-09", "-", "-"),
    // Bonn alone.
    ("2020-06-01", "2026-01-10", "Bonn", "-"),
    ("2026-01-30", "2026-01-15", "Bonn", "-"),
    ("2030-01-01", "2026-01-15", "Bonn", "-"),
    // A job without a beginning.
    ("2026-01-31", "2026-02-10", "Bonn", "-"),
    ("2026-02-01", "2026-02-10", "Bonn", "ACME"),
    ("2026-02-20", "2026-02-28", "Bonn", "ACME"),
    // Bremen, with the wrong date.
    ("2026-01-31", "2026-03-10", "Bonn", "-"),
    ("2026-02-14", "2026-03-10", "Bonn", "ACME"),
    ("2026-02-15", "2026-03-10", "Bremen", "ACME"),
    ("2022-10-01", "2026-03-31", "Bonn", "-"),
    // The job began long ago.
    ("2022-10-01", "2026-04-01", "Bonn", "ACME"),
    ("2026-01-25", "2026-04-30", "Bonn", "ACME"),
    // Bremen, with the right date.
    ("2026-01-25", "2026-05-01", "Bremen", "ACME"),
    ("2026-01-19", "2026-05-31", "Bonn", "ACME"),
    ("2016-01-01", "2026-05-31", "-", "-"),
    // Köln is told late.
    ("2016-01-01", "2026-06-01", "Köln", "-"),
    ("2019-01-01", "2026-06-01", "-", "-"),
    ("2026-06-16", "2026-06-30", "Bremen", "ACME"),
    // The job is over, and there is another, which was misheard.
    ("2026-06-16", "2026-07-01", "Bremen", "-"),
    ("2026-07-15", "2026-07-31", "Bremen", "-"),
    ("2026-06-25", "2026-08-01", "Bremen", "Foo"),
    ("2026-08-31", "2026-08-31", "Bremen", "Foo"),
    ("2026-06-25", "2026-09-01", "Bremen", "Bar"),
    // Hamburg is a mistake, for as long as it is believed.
    ("2026-09-14", "2026-10-15", "Bremen", "Bar"),
    ("2026-09-15", "2026-10-15", "Hamburg", "Bar"),
    ("2026-12-24", "2026-10-31", "Hamburg", "Bar"),
    ("2026-09-15", "2026-11-01", "Bremen", "Bar"),
    ("2026-12-24", "2026-11-01", "Bremen", "Bar"),
];

async fn lived(db: PgPool) -> World {
    let world = World::new(db).await;
    for (date, statement) in told() {
        world.is(date);
        world.states(statement).await;
    }
    world.is("2026-12-31");
    world
}

async fn one_of(world: &World, predicate: &str, as_of: &str, known_at: &str) -> String {
    // Known by the end of the day.
    let known_at = (!known_at.is_empty()).then(|| day(known_at) + chrono::TimeDelta::hours(23));
    let seen = Seen { as_of: Some(day(as_of)), known_at };
    let asked = FactsAsked { predicate: Some(predicate.parse().unwrap()), ..all(seen) };
    let facts = world.asks(asked).await.unwrap();
    assert!(facts.len() <= 1, "{facts:#?}");
    facts.first().map_or_else(|| "-".to_owned(), |fact| line(fact).rsplit(' ').next().unwrap().to_owned())
}

#[sqlx::test(migrations = false)]
async fn what_was_true_when_as_it_was_known_when(db: PgPool) {
    let world = lived(db).await;
    assert!(TABLE.len() >= 40, "{}", TABLE.len());

    for (as_of, known_at, home, job) in TABLE {
        assert_eq!(one_of(&world, "lives_in", as_of, known_at).await, *home, "home at {as_of}, known at {known_at}");
        assert_eq!(one_of(&world, "works_at", as_of, known_at).await, *job, "job at {as_of}, known at {known_at}");
    }
}

#[sqlx::test(migrations = false)]
async fn what_was_known_is_the_same_after_all_that_was_told_since(db: PgPool) {
    let world = World::new(db).await;
    let mut known = Vec::new();
    for (date, statement) in told() {
        world.is(date);
        world.states(statement).await;
        known.push((world.now(), world.everything().await));
    }

    for (then, facts) in known {
        assert_eq!(world.everything_known(Some(then)).await, facts, "as known at {then}");
    }
}

#[sqlx::test(migrations = false)]
async fn the_history_of_a_home_holds_what_was_taken_back(db: PgPool) {
    let world = lived(db).await;

    let asked = FactsAsked { predicate: Some("lives_in".parse().unwrap()), ..all(crate::world::ever()) };
    let history: Vec<String> = world.asks(asked).await.unwrap().iter().map(dated).collect();

    assert_eq!(
        history,
        [
            "Anna lives_in Bremen 2026-01-20/",
            "Anna lives_in Bonn 2020-03-01/2026-01-20",
            "Anna lives_in Köln 2015-01-01/2018-06-01",
            "!Anna lives_in Hamburg 2026-09-15/",
        ]
    );
}

#[sqlx::test(migrations = false)]
async fn a_life_told_in_another_order_is_the_same_life(db: PgPool) {
    let world = lived(db).await;
    let before: Vec<String> = world.everything().await.iter().map(dated).collect();
    let other = world.another("other").await;
    // The same statements with the same dates, written down in reverse: an import of what was said long ago.
    for (date, statement) in told().into_iter().rev() {
        other.is("2027-01-01");
        other.states_said_at(day(date), statement).await;
    }

    let mut after: Vec<String> = other.everything().await.iter().map(dated).collect();

    let mut before = before;
    before.sort_unstable();
    after.sort_unstable();
    assert_eq!(after, before);
}
