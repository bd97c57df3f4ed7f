//! What a statement forgets, the tables do not: the second wall.

use std::borrow::Cow;

use skymem_core::UserId;
use skymem_core::wall::{acting_for, acting_for_everyone, carried};
use skymem_store::wall::{raise, walled};
use skymem_store::{Journal, StoreError, migrate};
use sqlx::PgPool;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgPoolOptions;

use crate::scratch::*;

/// A pool as the server's: one connection, so that each use comes after another's.
async fn behind_the_wall(db: &PgPool) -> PgPool {
    let options = PgPoolOptions::new().max_connections(1);
    walled(options).connect_with((*db.connect_options()).clone()).await.unwrap()
}

/// What a statement says when it names no user.
async fn names(db: &PgPool) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar("select name from journal.users order by name").fetch_all(db).await
}

/// Anna and berta, who have each said something.
async fn two_users(db: &PgPool) -> (UserId, UserId) {
    let journal = Journal::new(db.clone());
    let (anna, berta) = (a_user(&journal, "anna").await, a_user(&journal, "berta").await);
    for user in [anna, berta] {
        say(&journal, user, "s", &["u:hello", "a:good day"]).await;
    }
    (anna, berta)
}

#[tokio::test]
async fn a_connection_shows_the_rows_of_the_user_it_acts_for_whoever_had_it_before() {
    in_a_database(|db| async move {
        let (anna, berta) = two_users(&db).await;
        let db = behind_the_wall(&db).await;

        for _ in 0..2 {
            assert_eq!(acting_for(anna, names(&db)).await.unwrap(), ["anna"]);
            assert_eq!(acting_for(berta, names(&db)).await.unwrap(), ["berta"]);
            assert_eq!(acting_for_everyone(names(&db)).await.unwrap(), ["anna", "berta"]);
            assert!(names(&db).await.is_err());
        }
    })
    .await;
}

#[tokio::test]
async fn work_for_nobody_gets_an_error_and_never_an_empty_answer() {
    in_a_database(|db| async move {
        two_users(&db).await;
        let db = behind_the_wall(&db).await;

        for statement in [
            "select text from journal.turn",
            "update journal.turn set text = 'mine'",
            "delete from journal.turn",
            "insert into journal.collection (user_id, name, created_at) values (gen_random_uuid(), 'c', now())",
            "select count(*) from journal.exchange join journal.session using (user_id)",
        ] {
            let error = sqlx::query(statement).execute(&db).await.unwrap_err().to_string();
            assert!(error.contains("nobody said for whom"), "{statement}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_task_of_its_own_acts_for_nobody_until_it_is_carried() {
    in_a_database(|db| async move {
        let (anna, _) = two_users(&db).await;
        let db = behind_the_wall(&db).await;

        let (bare, with) = acting_for(anna, async {
            let (one, other) = (db.clone(), db.clone());
            let bare = tokio::spawn(async move { names(&one).await }).await.unwrap();
            let with = tokio::spawn(carried(async move { names(&other).await })).await.unwrap();
            (bare, with)
        })
        .await;

        assert!(bare.is_err());
        assert_eq!(with.unwrap(), ["anna"]);
    })
    .await;
}

#[tokio::test]
async fn rows_of_others_can_be_neither_changed_nor_removed_nor_made() {
    in_a_database(|db| async move {
        let (anna, berta) = two_users(&db).await;
        let before = "select count(*) from journal.turn where text in ('hello', 'good day')";
        let walled = behind_the_wall(&db).await;

        acting_for(anna, async {
            let run = async |sql: &'static str| sqlx::query(sql).bind(berta.0).execute(&walled).await;
            for none in [
                "update journal.users set name = 'mine' where id = $1",
                "delete from journal.users where id = $1",
                "delete from journal.turn where user_id = $1",
            ] {
                assert_eq!(run(none).await.unwrap().rows_affected(), 0, "{none}");
            }
            for refused in [
                "insert into journal.collection (user_id, name, created_at) values ($1, 'c', now())",
                "update journal.collection set user_id = $1",
            ] {
                let error = run(refused).await.unwrap_err().to_string();
                assert!(error.contains("row-level security"), "{refused}: {error}");
            }
            // Without any filter: those of the user that it acts for.
            let gone = sqlx::query("delete from journal.turn").execute(&walled).await.unwrap();
            assert_eq!(gone.rows_affected(), 2);
        })
        .await;

        let left: i64 = sqlx::query_scalar(before).fetch_one(&db).await.unwrap();
        assert_eq!(left, 2);
    })
    .await;
}

#[tokio::test]
async fn a_new_table_is_walled_in_at_the_next_start_and_one_that_was_laid_open_again_too() {
    in_a_database(|db| async move {
        let run = async |sql: &'static str| {
            sqlx::raw_sql(sql).execute(&db).await.unwrap();
        };
        let (anna, _) = two_users(&db).await;
        run("create schema notes;
             create table notes.note (user_id uuid not null, text text not null);
             create table notes.kind (name text not null);
             insert into notes.note select id, name from journal.users")
        .await;
        let schemas = ["notes".to_owned(), "journal".to_owned(), "nowhere".to_owned()];

        assert_eq!(raise(&db, &schemas).await.unwrap(), ["notes.note"]);
        assert!(raise(&db, &schemas).await.unwrap().is_empty());
        run("alter table journal.turn no force row level security; drop policy wall on journal.parked").await;
        assert_eq!(raise(&db, &schemas).await.unwrap(), ["journal.parked", "journal.turn"]);

        let walled = behind_the_wall(&db).await;
        let notes = acting_for(anna, sqlx::query_scalar("select text from notes.note").fetch_all(&walled)).await;
        let notes: Vec<String> = notes.unwrap();
        assert_eq!(notes, ["anna"]);
    })
    .await;
}

#[tokio::test]
async fn a_database_of_an_earlier_version_gets_the_wall_and_keeps_what_is_in_it() {
    in_a_database(|db| async move {
        sqlx::query("drop schema journal cascade").execute(&db).await.unwrap();
        let all = sqlx::migrate!("../../migrations/journal");
        let before: Vec<_> = all.migrations.iter().filter(|step| step.version < 8).cloned().collect();
        let before = Migrator { migrations: Cow::Owned(before), ..all };
        before.run(&db).await.unwrap();
        let user = "insert into journal.users (id, name, created_at)
                    values ('00000000-0000-0000-0000-000000000001', 'anna', now()),
                           ('00000000-0000-0000-0000-000000000002', 'berta', now())";
        sqlx::query(user).execute(&db).await.unwrap();

        migrate(&db).await.unwrap();

        let walled = behind_the_wall(&db).await;
        let anna = UserId(uuid::Uuid::from_u128(1));
        assert_eq!(acting_for(anna, names(&walled)).await.unwrap(), ["anna"]);
        say(&Journal::new(db.clone()), anna, "s", &["u:hello"]).await;
        assert!(names(&walled).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn tables_of_another_role_are_told_with_the_statement_that_hands_them_over() {
    in_a_database(|db| async move {
        // As when an administrator of the database has made the tables.
        let strange = "create or replace function journal.raise_wall(schemas text[]) returns setof text
                       language plpgsql as $$ begin
                           raise exception 'must be owner of table turn' using errcode = 'insufficient_privilege';
                       end $$";
        sqlx::raw_sql(strange).execute(&db).await.unwrap();

        let refused = raise(&db, &["journal".to_owned()]).await;

        let Err(StoreError::Unsuitable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("journal.hand_over"), "{why}");
    })
    .await;
}
