use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skymem_store::{Journal, MigrationLock, StoreError, migrate};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::task::JoinSet;

use crate::scratch::*;

#[tokio::test]
async fn servers_that_start_together_bring_the_tables_up_to_date_one_after_the_other() {
    in_a_database(|db| async move {
        sqlx::query("drop schema journal cascade").execute(&db).await.unwrap();
        let at_work = Arc::new(AtomicUsize::new(0));
        let mut servers = JoinSet::new();
        for _ in 0..4 {
            let (db, at_work) = (db.clone(), at_work.clone());
            servers.spawn(async move {
                let lock = MigrationLock::take(&db).await.unwrap();
                assert_eq!(at_work.fetch_add(1, Ordering::SeqCst), 0);
                migrate(&db).await.unwrap();
                at_work.fetch_sub(1, Ordering::SeqCst);
                lock.release().await.unwrap();
            });
        }
        servers.join_all().await;

        a_user(&Journal::new(db), "anna").await;
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_is_dropped_without_a_word_is_free_again() {
    in_a_database(|db| async move {
        drop(MigrationLock::take(&db).await.unwrap());

        MigrationLock::take(&db).await.unwrap().release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn tables_of_a_newer_skymem_are_left_alone() {
    in_a_database(|db| async move {
        sqlx::query(
            "insert into journal._sqlx_migrations (version, description, success, checksum, execution_time)
             values (9999, 'from the future', true, '', 0)",
        )
        .execute(&db)
        .await
        .unwrap();

        let refused = migrate(&db).await;

        let Err(StoreError::Unsuitable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("newer skymem"), "{why}");
    })
    .await;
}

#[tokio::test]
async fn a_role_without_rights_is_told_which_statement_its_administrator_must_run() {
    in_a_database(|db| async move {
        let run = async |sql: String| {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&db).await.unwrap();
        };
        run("drop schema journal cascade".into()).await;
        run("do $$ begin
                 execute format('revoke create on database %I from %I', current_database(), current_user);
             end $$"
            .into())
        .await;
        let no_tables = migrate(&db).await;
        // What all databases are made after has pgvector here; this one is made after another.
        let name = format!("journal_{:032x}", rand::random::<u128>());
        run(format!("create database {name} template template0")).await;
        let bare = PgPool::connect_with((*db.connect_options()).clone().database(&name)).await.unwrap();
        let no_vector = migrate(&bare).await;
        bare.close().await;
        run(format!("drop database {name} with (force)")).await;

        for (refused, expected) in
            [(no_tables, "grant create on database"), (no_vector, "create extension if not exists vector")]
        {
            let Err(StoreError::Unsuitable(why)) = refused else { panic!("{expected}: {refused:?}") };
            assert!(why.contains(expected), "{why}");
        }
    })
    .await;
}
