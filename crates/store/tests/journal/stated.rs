use serde_json::json;
use skymem_core::{ExchangeKind, Role, UserId};
use skymem_store::{Append, Journal, NewTurn, Recorded, Target};

use crate::scratch::*;

/// A statement in `into`, under a client id.
fn stated(into: &str, client_id: &str, name: &str) -> Append {
    let parts = json!({ "says": "kind", "name": name, "kind": "person" });
    let turn = NewTurn {
        parts: Some(parts),
        client_id: Some(client_id.to_owned()),
        ..NewTurn::new(Role::User, format!("{name} is a person."))
    };
    Append { kind: ExchangeKind::Stated, ..Append::said(session(into), vec![turn], minute(1)) }
}

async fn tell(journal: &Journal, user: UserId, into: &str, client_id: &str, name: &str) {
    let appended = journal.append(user, stated(into, client_id, name)).await.unwrap();
    assert_eq!(appended.turns[0].recorded, Recorded::New);
}

/// The client ids of what is found, and whether it is in the trash.
async fn found(journal: &Journal, user: UserId, about: &[&str], last: usize) -> Vec<(String, bool)> {
    let about: Vec<String> = about.iter().map(|beginning| (*beginning).to_owned()).collect();
    let turns = journal.stated(user, &session("facts"), &about, last).await.unwrap();
    turns.into_iter().map(|turn| (turn.client_id, turn.forgotten)).collect()
}

#[tokio::test]
async fn every_statement_is_an_exchange_of_its_own_and_comes_back_as_what_it_says() {
    in_a_journal(|journal, anna| async move {
        let turns = ["a", "b"].map(|name| stated("facts", name, name).turns.remove(0)).to_vec();
        let append = Append { turns, ..stated("facts", "x", "x") };

        let exchanges = journal.append(anna, append).await.unwrap().exchanges;

        assert_eq!(exchanges.len(), 2);
        let exchange = journal.exchange(anna, exchanges[1]).await.unwrap().unwrap();
        assert_eq!(exchange.kind, ExchangeKind::Stated);
        assert_eq!(exchange.turns[0].text, "b is a person.");
        assert_eq!(exchange.turns[0].statement.as_ref().unwrap().to_string(), "b is of the kind person.");
        // What is said in the same session joins neither.
        let said = say(&journal, anna, "facts", &["a:yes"]).await.exchanges;
        assert!(!exchanges.contains(&said[0]));
        assert_eq!(journal.exchange(anna, said[0]).await.unwrap().unwrap().turns[0].statement, None);
    })
    .await;
}

#[tokio::test]
async fn what_was_stated_about_something_is_found_with_what_was_stated_last() {
    in_a_journal(|journal, anna| async move {
        for id in ["stated:aa:01:0", "stated:ab:02:0", "stated:aa:03:0", "imported:aa:01", "stated:cc:04:0"] {
            tell(&journal, anna, "facts", id, id).await;
        }
        tell(&journal, anna, "other", "stated:aa:05:0", "x").await;
        say(&journal, anna, "facts", &["u:hello"]).await;
        let ids = |ids: &[&str]| ids.iter().map(|id| ((*id).to_owned(), false)).collect::<Vec<_>>();

        assert_eq!(found(&journal, anna, &["stated:aa:"], 0).await, ids(&["stated:aa:01:0", "stated:aa:03:0"]));
        let both = ids(&["stated:aa:01:0", "stated:aa:03:0", "imported:aa:01", "stated:cc:04:0"]);
        assert_eq!(found(&journal, anna, &["stated:aa:", "stated:aa:"], 2).await, both);
        assert_eq!(found(&journal, anna, &["stated:a"], 0).await.len(), 3);
        assert_eq!(found(&journal, anna, &[], 1).await, ids(&["stated:cc:04:0"]));
        assert_eq!(found(&journal, anna, &["stated:dd:"], 0).await, []);
        let ben = a_user(&journal, "ben").await;
        assert_eq!(found(&journal, ben, &["stated:aa:"], 5).await, []);
    })
    .await;
}

#[tokio::test]
async fn what_is_in_the_trash_is_found_as_such_and_what_is_purged_is_not() {
    in_a_journal(|journal, anna| async move {
        tell(&journal, anna, "facts", "stated:aa:01:0", "a").await;
        tell(&journal, anna, "facts", "stated:aa:02:0", "b").await;
        let exchanges = journal.exchanges(anna, &Default::default(), None, 10).await.unwrap().items;
        let a = exchanges.iter().find(|exchange| exchange.turns[0].text.starts_with('a')).unwrap().id;

        journal.forget(anna, &Target::Exchanges(vec![a]), minute(2)).await.unwrap();
        let trash = found(&journal, anna, &["stated:aa:"], 0).await;
        journal.purge(anna, &[a], minute(3)).await.unwrap();

        assert_eq!(trash, [("stated:aa:01:0".to_owned(), true), ("stated:aa:02:0".to_owned(), false)]);
        assert_eq!(found(&journal, anna, &["stated:aa:"], 0).await, [("stated:aa:02:0".to_owned(), false)]);
        let again = journal.append(anna, stated("facts", "stated:aa:01:0", "a")).await.unwrap();
        assert_eq!(again.turns[0].recorded, Recorded::Tombstoned);
    })
    .await;
}
