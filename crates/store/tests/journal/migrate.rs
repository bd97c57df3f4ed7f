use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use skymem_store::{Journal, MigrationLock, StoreError, migrate};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgPoolOptions;
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
        let role = format!("weak_{:032x}", rand::random::<u128>());
        let run = async |sql: String| {
            sqlx::query(AssertSqlSafe(sql)).execute(&db).await.unwrap();
        };
        run(format!("create role {role}")).await;
        run("drop schema journal cascade".into()).await;
        let become_weak = format!("set role {role}");
        let weak = PgPoolOptions::new()
            .after_connect(move |connection, _| {
                let become_weak = become_weak.clone();
                Box::pin(async move {
                    sqlx::query(AssertSqlSafe(become_weak)).execute(connection).await?;
                    Ok(())
                })
            })
            .connect_with((*db.connect_options()).clone())
            .await
            .unwrap();

        let no_tables = migrate(&weak).await;
        run("drop extension vector cascade".into()).await;
        let no_vector = migrate(&weak).await;

        weak.close().await;
        run(format!("drop role {role}")).await;
        for (refused, expected) in
            [(no_tables, "grant create on database"), (no_vector, "create extension if not exists vector")]
        {
            let Err(StoreError::Unsuitable(why)) = refused else { panic!("{expected}: {refused:?}") };
            assert!(why.contains(expected), "{why}");
        }
    })
    .await;
}
