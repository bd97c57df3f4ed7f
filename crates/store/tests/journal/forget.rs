use skymem_core::{ExchangeId, UserId};
use skymem_store::{Append, Journal, Recorded, SessionChange, Target};
use sqlx::PgPool;

use crate::scratch::*;

/// As [`in_a_journal`], with a layer that keeps a row for each exchange it has learned.
async fn with_a_layer<F>(test: impl FnOnce(Journal, UserId, PgPool) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_a_database(|db| async move {
        sqlx::query(
            "create table learned (
                 user_id uuid, exchange_id uuid, primary key (user_id, exchange_id),
                 foreign key (user_id, exchange_id) references journal.remembered on delete cascade)",
        )
        .execute(&db)
        .await
        .unwrap();
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        test(journal, anna, db).await;
    })
    .await;
}

async fn learn_into(journal: &Journal, db: &PgPool) -> usize {
    let learned = learn(journal).await;
    for exchange in &learned {
        sqlx::query("insert into learned values ($1, $2) on conflict do nothing")
            .bind(exchange.user.0)
            .bind(exchange.id.0)
            .execute(db)
            .await
            .unwrap();
    }
    learned.len()
}

async fn learned(db: &PgPool) -> i64 {
    sqlx::query_scalar("select count(*) from learned").fetch_one(db).await.unwrap()
}

#[tokio::test]
async fn forgetting_hides_at_once_and_takes_along_what_was_learned() {
    with_a_layer(|journal, anna, db| async move {
        let said = say(&journal, anna, "s", &["u:keep", "u:forget"]).await.exchanges;
        learn_into(&journal, &db).await;

        let hidden = journal.forget(anna, &Target::Exchanges(vec![said[1]]), minute(1)).await.unwrap();
        let twice = journal.forget(anna, &Target::Exchanges(vec![said[1]]), minute(2)).await.unwrap();

        assert_eq!(hidden, [said[1]]);
        assert_eq!(twice, []);
        assert_eq!(learned(&db).await, 1);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["keep"]]);
        assert_eq!(journal.exchange(anna, said[1]).await.unwrap(), None);
        assert_eq!(journal.exchanges(anna, &Default::default(), None, 10).await.unwrap().items.len(), 1);
        assert_eq!(journal.turns(anna, &session("s"), None, 10).await.unwrap().items.len(), 1);
        assert_eq!(journal.session(anna, &session("s")).await.unwrap().unwrap().exchanges, 1);
        assert_eq!(journal.collections(anna).await.unwrap()[0].exchanges, 1);
        let stats = journal.stats(anna).await.unwrap();
        assert_eq!((stats.sessions, stats.turns, stats.exchanges, stats.forgotten), (1, 2, 1, 1));
        let trash = journal.forgotten(anna, None, None, 10).await.unwrap().items;
        assert_eq!((trash.len(), trash[0].exchange.id, trash[0].forgotten_at), (1, said[1], minute(1)));
        assert_eq!(journal.forgotten_one(anna, said[1]).await.unwrap(), trash.first().cloned());
        assert_eq!(journal.forgotten(anna, Some(minute(1)), None, 10).await.unwrap().items, []);
    })
    .await;
}

#[tokio::test]
async fn a_session_or_a_collection_can_be_forgotten_whole() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "a", &["u:1", "u:2"]).await;
        say(&journal, anna, "b", &["u:3"]).await;
        let work = Append {
            collection: Some("work".parse().unwrap()),
            ..Append::said(session("b"), turns(&["u:4"]), minute(0))
        };
        journal.append(anna, work).await.unwrap();

        let session_a = journal.forget(anna, &Target::Session(session("a")), minute(1)).await.unwrap();
        let work = journal.forget(anna, &Target::Collection("work".parse().unwrap()), minute(1)).await.unwrap();

        assert_eq!((session_a.len(), work.len()), (2, 1));
        assert_eq!(texts(&exchanges(&journal, anna, "b").await), [["3"]]);
        assert_eq!(texts(&exchanges(&journal, anna, "a").await), Vec::<Vec<&str>>::new());
    })
    .await;
}

#[tokio::test]
async fn what_is_restored_in_time_is_learned_again() {
    with_a_layer(|journal, anna, db| async move {
        let said = say(&journal, anna, "s", &["u:one", "u:two"]).await.exchanges;
        learn_into(&journal, &db).await;
        journal.forget(anna, &Target::Exchanges(vec![said[0]]), minute(1)).await.unwrap();
        journal.forget(anna, &Target::Exchanges(vec![said[1]]), minute(9)).await.unwrap();

        let back = journal.restore(anna, &said, minute(5)).await.unwrap();
        let again = journal.restore(anna, &[said[1]], minute(0)).await.unwrap();

        assert_eq!(back, [said[1]]);
        assert_eq!(again, []);
        assert_eq!(learn_into(&journal, &db).await, 1);
        assert_eq!(learned(&db).await, 1);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["two"]]);
    })
    .await;
}

#[tokio::test]
async fn an_answer_to_a_forgotten_question_stays_hidden_and_the_next_question_does_not() {
    in_a_journal(|journal, anna| async move {
        let asked = say(&journal, anna, "s", &["u:secret?"]).await.exchanges;
        journal.forget(anna, &Target::Exchanges(asked.clone()), minute(1)).await.unwrap();

        let answered = say(&journal, anna, "s", &["a:the secret", "u:next"]).await;

        assert_eq!(answered.turns[0].exchange, Some(asked[0]));
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["next"]]);
        assert_eq!(texts(&learn(&journal).await), [["next"]]);
        journal.restore(anna, &asked, minute(0)).await.unwrap();
        assert_eq!(texts(&learn(&journal).await), [["secret?", "the secret"]]);
    })
    .await;
}

#[tokio::test]
async fn what_is_purged_is_gone_and_an_import_cannot_bring_it_back() {
    with_a_layer(|journal, anna, db| async move {
        let said = say(&journal, anna, "s", &["u:keep", "a:kept", "u:burn after reading", "a:burnt"]).await.exchanges;
        learn_into(&journal, &db).await;

        let gone = journal.purge(anna, &[said[1], ExchangeId(worker())], minute(1)).await.unwrap();
        let imported =
            say(&journal, anna, "s", &["u:keep", "a:kept", "u:burn after reading", "a:burnt", "a:late"]).await;
        let elsewhere = say(&journal, anna, "other", &["u:burn after reading"]).await;

        assert_eq!(gone, [said[1]]);
        assert_eq!(learned(&db).await, 1);
        use Recorded::{Already, New, Tombstoned};
        assert_eq!(recorded(&imported), [Already, Already, Tombstoned, Tombstoned, New]);
        assert_eq!(recorded(&elsewhere), [New]);
        // The late answer is no answer to the question before.
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [vec!["keep", "kept"], vec!["late"]]);
        assert_eq!(journal.restore(anna, &[said[1]], minute(0)).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn nothing_that_was_said_outlives_a_purge() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        for (id, max_turns) in [("plain", None), ("set", Some(Some(5)))] {
            let settings =
                SessionChange { title: Some(Some("zanzibar".into())), max_turns, ..SessionChange::default() };
            let append = Append { settings, ..Append::said(session(id), turns(&["u:zanzibar"]), minute(0)) };
            let said = journal.append(anna, append).await.unwrap().exchanges;
            journal.purge(anna, &said, minute(1)).await.unwrap();
        }

        assert_eq!(journal.session(anna, &session("plain")).await.unwrap(), None);
        assert_eq!(journal.session(anna, &session("set")).await.unwrap().unwrap().title, None);
        let tables: Vec<String> = sqlx::query_scalar(
            "select relname::text from pg_class where relnamespace = 'journal'::regnamespace and relkind = 'r'",
        )
        .fetch_all(&db)
        .await
        .unwrap();
        assert!(tables.len() > 8, "{tables:?}");
        for table in tables {
            let sql = format!("select count(*) from journal.{table} as it where it::text like '%zanzibar%'");
            let found: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&db).await.unwrap();
            assert_eq!(found, 0, "{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_purge_leaves_room_for_what_else_the_session_says() {
    in_a_journal(|journal, anna| async move {
        let said = with_ids(turns(&["u:one", "a:1"]));
        let append = || Append::said(session("s"), said.clone(), minute(0));
        let exchanges_made = journal.append(anna, append()).await.unwrap().exchanges;
        journal.purge(anna, &exchanges_made, minute(1)).await.unwrap();

        let again = journal.append(anna, append()).await.unwrap();
        let other = say(&journal, anna, "s", &["u:two"]).await;

        assert_eq!(recorded(&again), [Recorded::Tombstoned; 2]);
        assert_eq!(recorded(&other), [Recorded::New]);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["two"]]);
    })
    .await;
}
