use std::collections::BTreeSet;

use chrono::TimeDelta;
use skymem_core::{Seq, UserId};
use skymem_store::{Append, Journal, Target};
use tokio::task::JoinSet;

use crate::scratch::*;

#[tokio::test]
async fn a_cursor_never_misses_a_turn_however_many_write_at_once() {
    in_a_journal(|journal, anna| async move {
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let journal = journal.clone();
            writers.spawn(async move {
                for number in 0..25 {
                    say(&journal, anna, &format!("s{writer}"), &[&format!("u:{writer}/{number}")]).await;
                }
            });
        }

        // The reader follows its cursor and never looks back.
        let mut seen = BTreeSet::new();
        let mut written = false;
        loop {
            let before = written;
            while let Some(mut lease) = lease(&journal, worker(), 0).await {
                let unread = journal.unread(&lease, 7).await.unwrap();
                let Some((last, _)) = unread.last() else { panic!("a lease on nothing") };
                let last = *last;
                assert!(unread.iter().all(|(seq, _)| *seq > lease.after));
                seen.extend(unread.iter().map(|(_, exchange)| exchange.turns[0].text.clone()));
                assert!(journal.advance(&mut lease, last).await.unwrap());
                assert!(journal.release(&lease).await.unwrap());
            }
            if before {
                break;
            }
            written = writers.try_join_next().is_some_and(|_| writers.is_empty());
            tokio::task::yield_now().await;
        }

        assert_eq!(seen.len(), 200);
    })
    .await;
}

#[tokio::test]
async fn two_workers_never_hold_the_same_journal() {
    in_a_journal(|journal, anna| async move {
        let ben = a_user(&journal, "ben").await;
        say(&journal, anna, "s", &["u:a"]).await;
        say(&journal, ben, "s", &["u:b", "u:c"]).await;

        let first = lease(&journal, worker(), 0).await.unwrap();
        let second = lease(&journal, worker(), 0).await.unwrap();
        let third = lease(&journal, worker(), 0).await;

        // Who is least behind comes first.
        assert_eq!((first.user, second.user), (anna, ben));
        assert_eq!(third, None);
        assert!(journal.release(&first).await.unwrap());
        assert_eq!(lease(&journal, worker(), 0).await.unwrap().user, anna);
    })
    .await;
}

#[tokio::test]
async fn many_workers_that_ask_at_once_share_the_journals() {
    in_a_journal(|journal, anna| async move {
        let mut users = BTreeSet::from([anna]);
        for name in ["ben", "cem", "dora", "emil", "fatma"] {
            users.insert(a_user(&journal, name).await);
        }
        for user in &users {
            say(&journal, *user, "s", &["u:hello"]).await;
        }
        let mut workers = JoinSet::new();
        for _ in 0..12 {
            let journal = journal.clone();
            workers.spawn(async move {
                // Where several ask at once, one may find all free journals locked, and asks again.
                let mut leased: Vec<UserId> = Vec::new();
                for _ in 0..10 {
                    leased.extend(lease(&journal, worker(), 0).await.map(|lease| lease.user));
                }
                leased
            });
        }

        let mut leased: Vec<UserId> = workers.join_all().await.into_iter().flatten().collect();

        leased.sort_unstable();
        assert_eq!(leased, users.into_iter().collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_ran_out_is_anothers_and_the_first_can_note_nothing_any_more() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["u:one"]).await;
        let mut slow = lease(&journal, worker(), 0).await.unwrap();
        assert_eq!(lease(&journal, worker(), 9).await, None);
        assert!(journal.renew(&slow, minute(15)).await.unwrap());
        assert_eq!(lease(&journal, worker(), 14).await, None);

        let mut fast = lease(&journal, worker(), 15).await.unwrap();

        assert_eq!(fast.after, Seq(0));
        assert!(!journal.advance(&mut slow, Seq(1)).await.unwrap());
        assert!(!journal.renew(&slow, minute(99)).await.unwrap());
        assert!(!journal.failed(&slow, minute(99)).await.unwrap());
        assert!(!journal.release(&slow).await.unwrap());
        assert!(journal.advance(&mut fast, Seq(1)).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_failure_is_counted_and_waits_until_it_may_be_tried_again() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["u:one"]).await;
        let first = lease(&journal, worker(), 0).await.unwrap();
        assert!(journal.failed(&first, minute(5)).await.unwrap());

        assert_eq!(lease(&journal, worker(), 4).await, None);
        let mut second = lease(&journal, worker(), 5).await.unwrap();
        assert_eq!(second.failures, 1);
        let lag = journal.lag(Some(anna)).await.unwrap();
        assert_eq!((lag[0].behind, lag[0].failures, lag[0].retry_at), (1, 1, Some(minute(5))));

        let last = journal.unread(&second, 10).await.unwrap()[0].0;
        assert!(journal.advance(&mut second, last).await.unwrap());
        let lag = journal.lag(Some(anna)).await.unwrap();
        assert_eq!((lag[0].behind, lag[0].failures, lag[0].retry_at), (0, 0, None));
    })
    .await;
}

/// Parks the only exchange that is unread.
async fn park(journal: &Journal) {
    let mut lease = lease(journal, worker(), 0).await.unwrap();
    let (seq, exchange) = journal.unread(&lease, 10).await.unwrap().remove(0);
    assert!(journal.park(&lease, exchange.id, "too odd\0", 3, minute(1)).await.unwrap());
    assert!(journal.advance(&mut lease, seq).await.unwrap());
    assert!(journal.release(&lease).await.unwrap());
}

#[tokio::test]
async fn a_parked_exchange_is_listed_until_it_is_learned() {
    in_a_journal(|journal, anna| async move {
        let odd = say(&journal, anna, "s", &["u:odd"]).await.exchanges[0];
        park(&journal).await;
        let parked = journal.parked(anna).await.unwrap();
        assert_eq!((parked[0].exchange, parked[0].reason.as_str(), parked[0].attempts), (odd, "too odd", 3));
        let lag = journal.lag(Some(anna)).await.unwrap();
        assert_eq!((lag[0].behind, lag[0].parked), (0, 1));

        // It fails again: still listed.
        assert_eq!(journal.retry_parked(anna, &LAYER).await.unwrap(), 1);
        park(&journal).await;
        assert_eq!(journal.parked(anna).await.unwrap().len(), 1);

        // It is learned: listed no more.
        assert_eq!(journal.retry_parked(anna, &LAYER).await.unwrap(), 1);
        assert_eq!(journal.parked(anna).await.unwrap().len(), 1);
        assert_eq!(texts(&learn(&journal).await), [["odd"]]);
        assert_eq!(journal.parked(anna).await.unwrap(), []);

        // It grows out of its fault, or is forgotten: the same.
        say(&journal, anna, "t", &["u:half"]).await;
        park(&journal).await;
        say(&journal, anna, "t", &["a:whole"]).await;
        learn(&journal).await;
        assert_eq!(journal.parked(anna).await.unwrap(), []);
        let gone = say(&journal, anna, "u", &["u:gone"]).await.exchanges;
        park(&journal).await;
        journal.forget(anna, &Target::Exchanges(gone), minute(2)).await.unwrap();
        assert_eq!(journal.parked(anna).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_layer_that_is_reset_learns_everything_again_though_it_was_at_work() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["u:one", "u:two"]).await;
        learn(&journal).await;
        say(&journal, anna, "s", &["u:three"]).await;
        let mut at_work = lease(&journal, worker(), 0).await.unwrap();

        assert!(journal.reset(anna, &LAYER).await.unwrap());

        assert!(!journal.advance(&mut at_work, Seq(3)).await.unwrap());
        assert_eq!(journal.lag(None).await.unwrap()[0].behind, 3);
        assert_eq!(texts(&learn(&journal).await), [["one"], ["two"], ["three"]]);
        assert_eq!(journal.reset_all(&LAYER).await.unwrap(), 1);
        assert_eq!(learn(&journal).await.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_layer_is_behind_a_journal_it_has_never_seen() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["u:one"]).await;
        learn(&journal).await;
        let ben = a_user(&journal, "ben").await;
        say(&journal, ben, "s", &["u:two"]).await;

        assert_eq!(journal.lag(Some(anna)).await.unwrap()[0].behind, 0);
        assert_eq!(journal.lag(Some(ben)).await.unwrap()[0].behind, 1);
        assert_eq!(journal.lag(None).await.unwrap()[0].behind, 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_forgotten_before_it_is_learned_is_passed_over() {
    in_a_journal(|journal, anna| async move {
        let said = say(&journal, anna, "s", &["u:one", "u:two", "u:three"]).await.exchanges;
        journal.forget(anna, &Target::Exchanges(vec![said[0], said[2]]), minute(1)).await.unwrap();

        assert_eq!(texts(&learn(&journal).await), [["two"]]);
        assert_eq!(lease(&journal, worker(), 0).await, None);
    })
    .await;
}

#[tokio::test]
async fn observers_are_woken_by_every_change() {
    in_a_journal(|journal, anna| async move {
        let mut wakeups = journal.wakeups().await.unwrap();

        let said = say(&journal, anna, "s", &["u:one"]).await.exchanges;
        assert_eq!(wakeups.next().await.unwrap(), Some(anna));
        journal.forget(anna, &Target::Exchanges(said.clone()), minute(1)).await.unwrap();
        assert_eq!(wakeups.next().await.unwrap(), Some(anna));
        journal.restore(anna, &said, minute(0)).await.unwrap();
        assert_eq!(wakeups.next().await.unwrap(), Some(anna));

        // A repetition changes nothing: the next news is of what comes after it.
        say(&journal, anna, "s", &["u:one"]).await;
        let ben = a_user(&journal, "ben").await;
        say(&journal, ben, "s", &["u:two"]).await;
        assert_eq!(wakeups.next().await.unwrap(), Some(ben));
    })
    .await;
}

#[tokio::test]
async fn a_thousand_turns_are_written_in_one_go_and_read_in_order() {
    in_a_journal(|journal, anna| async move {
        let said: Vec<String> = (0..1_000).map(|n| format!("{}:{n}", if n % 2 == 0 { "u" } else { "a" })).collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let append = Append::said(session("s"), with_ids(turns(&said)), minute(0));

        let appended = journal.append(anna, append).await.unwrap();

        assert_eq!(appended.exchanges.len(), 500);
        let learned = learn(&journal).await;
        assert_eq!(learned.iter().map(|exchange| exchange.id).collect::<Vec<_>>(), appended.exchanges);
        assert!(journal.lease(&LAYER, worker(), minute(0), TimeDelta::minutes(1)).await.unwrap().is_none());
    })
    .await;
}
