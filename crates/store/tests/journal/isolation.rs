use proptest::prelude::*;
use skymem_core::{Exchange, UserId};
use skymem_store::{Journal, Target};

use crate::scratch::*;

/// Something a user does.
#[derive(Debug, Clone)]
enum Deed {
    Say { session: usize, text: usize, role: usize },
    Forget(usize),
    ForgetSession(usize),
    Restore(usize),
    Purge(usize),
    Pin(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..2_usize, 0..4_usize, 0..3_usize)
            .prop_map(|(session, text, role)| Deed::Say { session, text, role }),
        2 => (0..8_usize).prop_map(Deed::Forget),
        1 => (0..2_usize).prop_map(Deed::ForgetSession),
        2 => (0..8_usize).prop_map(Deed::Restore),
        1 => (0..8_usize).prop_map(Deed::Purge),
        1 => (0..8_usize).prop_map(Deed::Pin),
    ]
}

/// Does it; a number names the exchange that was made so many exchanges ago.
async fn act(journal: &Journal, user: UserId, made: &mut Vec<skymem_core::ExchangeId>, deed: &Deed) {
    let pick = |back: &usize| made.iter().rev().nth(*back).copied().into_iter().collect::<Vec<_>>();
    match deed {
        Deed::Say { session, text, role } => {
            let said = format!("{}:{text}", ["u", "a", "s"][*role]);
            let appended = say(journal, user, &format!("s{session}"), &[&said]).await;
            made.extend(appended.exchanges);
            let mut seen = std::collections::HashSet::new();
            made.retain(|id| seen.insert(*id));
        }
        Deed::Forget(back) => {
            journal.forget(user, &Target::Exchanges(pick(back)), minute(1)).await.unwrap();
        }
        Deed::ForgetSession(number) => {
            journal.forget(user, &Target::Session(session(&format!("s{number}"))), minute(1)).await.unwrap();
        }
        Deed::Restore(back) => {
            journal.restore(user, &pick(back), minute(0)).await.unwrap();
        }
        Deed::Purge(back) => {
            journal.purge(user, &pick(back), minute(2)).await.unwrap();
        }
        Deed::Pin(back) => {
            journal.pin(user, &pick(back), true).await.unwrap();
        }
    }
}

/// All that a user can read, without ids.
async fn readable(journal: &Journal, user: UserId) -> Vec<String> {
    let plain = |exchange: &Exchange| {
        let said: Vec<String> = exchange.turns.iter().map(|turn| format!("{}:{}", turn.role, turn.text)).collect();
        format!("{} {} {said:?}", exchange.session, exchange.pinned)
    };
    let kept = journal.exchanges(user, &Default::default(), None, 200).await.unwrap().items;
    let trash = journal.forgotten(user, None, None, 200).await.unwrap().items;
    let sessions = journal.sessions(user, None, 200).await.unwrap().items;
    let mut all: Vec<String> = kept.iter().map(plain).collect();
    all.extend(trash.iter().map(|forgotten| format!("forgotten {}", plain(&forgotten.exchange))));
    all.extend(sessions.iter().map(|session| format!("{} {}", session.id, session.exchanges)));
    all
}

/// What a layer knows of a user, once it has caught up, is what is not forgotten.
async fn check_learned(journal: &Journal, user: UserId) {
    journal.reset(user, &LAYER).await.unwrap();
    let mut learned: Vec<Exchange> = learn(journal).await.into_iter().filter(|it| it.user == user).collect();
    let mut kept = journal.exchanges(user, &Default::default(), None, 200).await.unwrap().items;
    learned.sort_by_key(Exchange::first_seq);
    kept.sort_by_key(Exchange::first_seq);
    assert_eq!(learned, kept);
}

#[test]
fn nobody_notices_what_another_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(in_a_database(|db| async move {
        let journal = Journal::new(db);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 24,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let deeds = proptest::collection::vec((any::<bool>(), deed()), 1..40);
        let handle = tokio::runtime::Handle::current();
        let outcome = tokio::task::spawn_blocking(move || {
            runner.run(&deeds, |deeds| {
                handle.block_on(async {
                    let name = || format!("u{:032x}", rand::random::<u128>());
                    let anna = a_user(&journal, &name()).await;
                    let ben = a_user(&journal, &name()).await;
                    // Does as anna does, and nobody else is about.
                    let alone = a_user(&journal, &name()).await;
                    let (mut annas, mut bens, mut alones) = (Vec::new(), Vec::new(), Vec::new());
                    for (is_anna, deed) in &deeds {
                        if *is_anna {
                            act(&journal, anna, &mut annas, deed).await;
                        } else {
                            act(&journal, ben, &mut bens, deed).await;
                        }
                    }
                    for (_, deed) in deeds.iter().filter(|(is_anna, _)| *is_anna) {
                        act(&journal, alone, &mut alones, deed).await;
                    }

                    assert_eq!(readable(&journal, anna).await, readable(&journal, alone).await);
                    check_learned(&journal, anna).await;
                    for id in &annas {
                        assert_eq!(journal.exchange(ben, *id).await.unwrap(), None);
                        assert_eq!(journal.forgotten_one(ben, *id).await.unwrap(), None);
                    }
                    assert_eq!(journal.forget(ben, &Target::Exchanges(annas.clone()), minute(3)).await.unwrap(), []);
                    assert_eq!(journal.restore(ben, &annas, minute(0)).await.unwrap(), []);
                    assert_eq!(journal.purge(ben, &annas, minute(3)).await.unwrap(), []);
                    assert_eq!(journal.pin(ben, &annas, false).await.unwrap(), []);
                    assert_eq!(readable(&journal, anna).await, readable(&journal, alone).await);
                });
                Ok(())
            })
        });
        outcome.await.unwrap().unwrap();
    }));
}
