//! What is said in a sealed collection: in no table in the clear, in order, once, and readable with the key alone.

use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, UserId};
use skymem_seal::{HandleKey, Place, SealedTurn, SecretKey};
use skymem_store::{
    Append, Appended, Journal, MemoryMode, NewSeal, NewVersion, Recorded, SessionChange, StoreError, TakenIn, Target,
    Wrapping,
};
use sqlx::{AssertSqlSafe, PgPool, Row};

use crate::scratch::*;

fn health() -> Collection {
    "health".parse().unwrap()
}

async fn seal(journal: &Journal, user: UserId, key: &SecretKey) -> Result<TakenIn, StoreError> {
    let wrappings = vec![Wrapping { version: 1, recipient: "age1test".into(), wrapped: vec![1] }];
    let first = NewVersion { version: 1, public: key.public().unwrap().as_bytes().to_vec(), wrappings };
    let seal = NewSeal { handles: HandleKey::generate().unwrap().as_bytes().to_vec(), first };
    journal.seal_collection(user, &health(), &seal, minute(0)).await
}

async fn say_sealed(journal: &Journal, user: UserId, id: &str, said: &[&str]) -> Appended {
    let append = Append { collection: Some(health()), ..Append::said(session(id), turns(said), minute(7)) };
    journal.append(user, append).await.unwrap()
}

/// The sealed turns, in order, with the exchanges they stand in and whether those are forgotten.
async fn opened(db: &PgPool, user: UserId, key: &SecretKey) -> Vec<(SealedTurn, uuid::Uuid, bool)> {
    let rows = sqlx::query(
        "select turn.id, ciphertext, exchange_id, forgotten_at is not null from journal.sealed_turn as turn
         join journal.sealed_exchange as exchange on exchange.id = exchange_id order by seq",
    );
    let collection = health();
    let opened = rows.fetch_all(db).await.unwrap().into_iter().map(|row| {
        let (id, text): (uuid::Uuid, Vec<u8>) = (row.get(0), row.get(1));
        let place = Place { user, collection: &collection, row: id, column: "", version: 1 };
        (SealedTurn::open(key, place, &text).unwrap(), row.get(2), row.get(3))
    });
    opened.collect()
}

/// Every row of every table of the journal as a text.
async fn everything(db: &PgPool) -> String {
    let tables = sqlx::query("select table_name::text from information_schema.tables where table_schema = 'journal'");
    let mut all = String::new();
    for table in tables.fetch_all(db).await.unwrap() {
        let name: String = table.get(0);
        let rows = sqlx::query(AssertSqlSafe(format!("select t::text from journal.{name} as t")));
        for row in rows.fetch_all(db).await.unwrap() {
            all.push_str(&row.get::<String, _>(0));
            all.push('\n');
        }
    }
    all
}

#[tokio::test]
async fn what_is_said_in_a_sealed_collection_stands_in_no_table_and_opens_with_the_key() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        let key = SecretKey::generate();
        seal(&journal, anna, &key).await.unwrap();

        let said = say_sealed(&journal, anna, "the clinic", &["u:my blood type is AB", "a:noted, doctor"]).await;

        let all = everything(&db).await;
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        for secret in ["blood", "doctor", "clinic"] {
            assert!(!all.contains(secret) && !all.contains(&hex(secret)), "{secret}: {all}");
        }
        assert_eq!(said.exchanges.len(), 1);
        let rows =
            sqlx::query("select id, ciphertext from journal.sealed_turn order by seq").fetch_all(&db).await.unwrap();
        let opened: Vec<SealedTurn> = rows
            .iter()
            .map(|row| {
                let (collection, row, text): (Collection, uuid::Uuid, Vec<u8>) = (health(), row.get(0), row.get(1));
                let place = Place { user: anna, collection: &collection, row, column: "", version: 1 };
                SealedTurn::open(&key, place, &text).unwrap()
            })
            .collect();
        assert_eq!((opened[0].text.as_str(), opened[1].role), ("my blood type is AB", Role::Assistant));
        assert_eq!(opened[1].session, session("the clinic"));
        assert_eq!(rows[0].get::<Vec<u8>, _>(1).len(), rows[1].get::<Vec<u8>, _>(1).len(), "lengths say little");
        assert!(journal.stats(anna).await.unwrap().turns == 0);
    })
    .await;
}

#[tokio::test]
async fn an_answer_joins_its_question_and_a_repetition_is_known() {
    in_a_journal(|journal, anna| async move {
        seal(&journal, anna, &SecretKey::generate()).await.unwrap();
        let question = say_sealed(&journal, anna, "s", &["u:one"]).await;
        // The session knows where it belongs.
        let answer = say(&journal, anna, "s", &["a:two"]).await;
        let again = say_sealed(&journal, anna, "s", &["u:one", "a:two", "u:three"]).await;

        assert_eq!(question.exchanges, answer.exchanges);
        let recorded: Vec<Recorded> = again.turns.iter().map(|turn| turn.recorded).collect();
        assert_eq!(recorded, [Recorded::Already, Recorded::Already, Recorded::New]);
        assert_ne!(again.exchanges, answer.exchanges);
    })
    .await;
}

#[tokio::test]
async fn the_same_write_many_times_at_once_is_written_once() {
    in_a_journal(|journal, anna| async move {
        seal(&journal, anna, &SecretKey::generate()).await.unwrap();
        let writes: Vec<_> = (0..16)
            .map(|_| {
                let journal = journal.clone();
                tokio::spawn(async move { say_sealed(&journal, anna, "s", &["u:one", "a:two"]).await })
            })
            .collect();
        let mut new = 0;
        for write in writes {
            let appended = write.await.unwrap();
            new += appended.turns.iter().filter(|turn| turn.recorded == Recorded::New).count();
        }
        assert_eq!(new, 2);
    })
    .await;
}

#[tokio::test]
async fn forgetting_works_without_a_key() {
    in_a_journal(|journal, anna| async move {
        seal(&journal, anna, &SecretKey::generate()).await.unwrap();
        let ids: Vec<ExchangeId> = say_sealed(&journal, anna, "s", &["u:one", "a:two"]).await.exchanges;
        let others = say_sealed(&journal, anna, "t", &["u:three"]).await.exchanges;
        let of_session = Target::Session(session("s"));
        assert_eq!(journal.sealed_meant(anna, Some(&of_session), Some(false)).await.unwrap(), ids);

        assert_eq!(journal.forget(anna, &of_session, minute(9)).await.unwrap(), ids);
        assert_eq!(journal.forget(anna, &of_session, minute(9)).await.unwrap(), []);
        assert_eq!(journal.sealed_trash(anna, None, None).await.unwrap(), ids);
        assert_eq!(journal.restore(anna, &ids, minute(0)).await.unwrap(), ids);
        assert_eq!(journal.forget(anna, &Target::Collection(health()), minute(9)).await.unwrap().len(), 2);
        assert_eq!(journal.purge(anna, &others, minute(9)).await.unwrap(), others);
        assert_eq!(journal.sealed_home(anna, others[0]).await.unwrap(), None);
        assert_eq!(journal.sealed_home(anna, ids[0]).await.unwrap(), Some(health()));
    })
    .await;
}

#[tokio::test]
async fn nothing_open_is_in_a_sealed_collection_and_the_tables_themselves_refuse_it() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        seal(&journal, anna, &SecretKey::generate()).await.unwrap();
        let again = seal(&journal, anna, &SecretKey::generate()).await;
        assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");

        say(&journal, anna, "t", &["u:hi"]).await;
        let moved = sqlx::query("update journal.exchange set collection = 'health'").execute(&db).await;
        assert!(
            moved.is_err_and(|error| error.as_database_error().is_some_and(|error| error.is_foreign_key_violation()))
        );
        let stated = Append {
            collection: Some(health()),
            kind: ExchangeKind::Stated,
            ..Append::said(session("f"), turns(&["u:Anna lives in Bremen"]), minute(1))
        };
        assert!(matches!(journal.append(anna, stated).await, Err(StoreError::Refused(_))));
    })
    .await;
}

#[tokio::test]
async fn what_stands_in_a_collection_in_the_clear_is_sealed_with_it_whole_and_nothing_of_it_is_left() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        let on_shelf = |id: &str, said: &[&str], at| Append {
            collection: Some(health()),
            ..Append::said(session(id), turns(said), minute(at))
        };
        // One write that says the same twice: no repetition, for the journal kept it.
        journal.append(anna, on_shelf("s", &["u:pain again", "a:noted", "u:pain again", "a:noted"], 1)).await.unwrap();
        let gone = journal.append(anna, on_shelf("t", &["u:forget that"], 2)).await.unwrap().exchanges;
        journal.forget(anna, &Target::Exchanges(gone), minute(3)).await.unwrap();
        say(&journal, anna, "s", &["a:one more word"]).await;
        say(&journal, anna, "elsewhere", &["u:the weather is fine"]).await;
        let key = SecretKey::generate();

        let taken = seal(&journal, anna, &key).await.unwrap();

        assert_eq!((taken.exchanges.len(), taken.turns), (3, 6));
        let sealed = opened(&db, anna, &key).await;
        let said: Vec<&str> = sealed.iter().map(|(turn, ..)| turn.text.as_str()).collect();
        assert_eq!(said, ["pain again", "noted", "pain again", "noted", "forget that", "one more word"]);
        assert_eq!(
            sealed.iter().map(|(.., forgotten)| *forgotten).collect::<Vec<_>>(),
            [false, false, false, false, true, false]
        );
        assert_eq!(sealed[2].1, sealed[5].1, "what belongs together stays together");
        assert!(taken.exchanges.iter().all(|id| sealed.iter().all(|(_, sealed, _)| *sealed != id.0)));
        let all = everything(&db).await;
        for secret in ["pain", "noted", "forget that", "one more word"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
        assert!(all.contains("the weather is fine"));
        let after = say(&journal, anna, "s", &["u:and now"]).await;
        assert_eq!(
            journal.sealed_home(anna, after.exchanges[0]).await.unwrap(),
            Some(health()),
            "the session stays here"
        );
        assert!(journal.sealed_collections(anna).await.unwrap()[0].unchecked);
        journal.note_checked(anna, &health()).await.unwrap();
        assert!(!journal.sealed_collections(anna).await.unwrap()[0].unchecked);
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_comes_after_sealing_joins_its_question_and_other_shelves_keep_their_own() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        let on_shelf =
            Append { collection: Some(health()), ..Append::said(session("s"), turns(&["u:why"]), minute(1)) };
        journal.append(anna, on_shelf).await.unwrap();
        let work = Append {
            collection: Some("work".parse().unwrap()),
            ..Append::said(session("s"), turns(&["u:the plan is blue"]), minute(2))
        };
        journal.append(anna, work).await.unwrap();
        let key = SecretKey::generate();
        seal(&journal, anna, &key).await.unwrap();

        say_sealed(&journal, anna, "s", &["a:because"]).await;

        let sealed = opened(&db, anna, &key).await;
        assert_eq!(sealed.len(), 2);
        assert_eq!(sealed[0].1, sealed[1].1, "one exchange");
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["the plan is blue"]]);
        assert!(!everything(&db).await.contains("why"));
    })
    .await;
}

#[tokio::test]
async fn a_session_with_settings_of_its_own_is_not_sealed_behind_ones_back() {
    in_a_journal(|journal, anna| async move {
        let settings = SessionChange { memory: Some(MemoryMode::Read), ..SessionChange::default() };
        let open = Append { collection: Some(health()), ..Append::said(session("s"), turns(&["u:hi"]), minute(1)) };
        journal.append(anna, open.clone()).await.unwrap();
        journal.append(anna, Append { settings, ..open }).await.unwrap();

        let refused = seal(&journal, anna, &SecretKey::generate()).await;

        assert!(
            matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("settings of its own")),
            "{refused:?}"
        );
        assert_eq!(journal.sealed_collections(anna).await.unwrap(), [], "nothing was sealed");
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["hi"]]);
    })
    .await;
}

#[tokio::test]
async fn what_is_shredded_leaves_neither_keys_nor_rows() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        seal(&journal, anna, &SecretKey::generate()).await.unwrap();
        say_sealed(&journal, anna, "s", &["u:one"]).await;

        assert_eq!(journal.shred(anna, &health()).await.unwrap(), Some(1));
        assert_eq!(journal.shred(anna, &health()).await.unwrap(), None);

        for table in ["sealed", "sealed_key", "sealed_wrapping", "sealed_session", "sealed_exchange", "sealed_turn"] {
            let count = sqlx::query(AssertSqlSafe(format!("select count(*) from journal.{table}")));
            assert_eq!(count.fetch_one(&db).await.unwrap().get::<i64, _>(0), 0, "{table}");
        }
        assert!(journal.collections(anna).await.unwrap().iter().all(|shelf| shelf.name != health()));
    })
    .await;
}

#[tokio::test]
async fn who_was_removed_while_a_key_was_made_is_not_let_in_by_it() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        let key = SecretKey::generate();
        seal(&journal, anna, &key).await.unwrap();
        let wrapping = |version, recipient: &str| Wrapping { version, recipient: recipient.into(), wrapped: vec![1] };
        journal.add_wrappings(anna, &health(), &[wrapping(1, "age1other")], minute(1)).await.unwrap();
        let public = SecretKey::generate().public().unwrap().as_bytes().to_vec();
        let next = |recipients: &[&str]| NewVersion {
            version: 2,
            public: public.clone(),
            wrappings: recipients.iter().map(|recipient| wrapping(2, recipient)).collect(),
        };
        let both = next(&["age1test", "age1other"]);
        journal.remove_recipient(anna, &health(), "age1other").await.unwrap();

        for refused in [both, next(&[])] {
            let refused = journal.rotate_key(anna, &health(), &refused, minute(2)).await;
            assert!(matches!(&refused, Err(StoreError::Conflict(why)) if why.contains("recipients")), "{refused:?}");
        }
        journal.rotate_key(anna, &health(), &next(&["age1test"]), minute(2)).await.unwrap();

        let view = &journal.sealed_collections(anna).await.unwrap()[0];
        assert_eq!((view.key_version, view.recipients.as_slice()), (2, &["age1test".to_owned()][..]));
    })
    .await;
}
