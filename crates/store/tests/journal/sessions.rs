use skymem_core::{Collection, Filter, Role, Source, TimeRange};
use skymem_store::{Append, CollectionSettings, Journal, MemoryMode, NewTurn, SessionChange, SessionMark, StoreError};

use crate::scratch::*;

#[tokio::test]
async fn the_window_is_the_last_exchanges_word_for_word_and_the_same_after_a_restart() {
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let anna = a_user(&journal, "anna").await;
        say(&journal, anna, "s", &["u:1", "a:one", "u:2", "a:two", "u:3", "a:three"]).await;
        say(&journal, anna, "other", &["u:elsewhere"]).await;

        let window = journal.window(anna, &session("s"), 2).await.unwrap();

        assert_eq!(texts(&window), [["2", "two"], ["3", "three"]]);
        assert_eq!(journal.window(anna, &session("s"), 0).await.unwrap(), []);
        assert_eq!(journal.window(anna, &session("new"), 4).await.unwrap(), []);
        let (options, settings) = (db.connect_options(), db.options().clone());
        db.close().await;
        let restarted = Journal::new(settings.connect_with((*options).clone()).await.unwrap());
        assert_eq!(restarted.window(anna, &session("s"), 2).await.unwrap(), window);
        assert_eq!(restarted.make_user(&"anna".parse().unwrap(), minute(9)).await.unwrap().id, anna);
    })
    .await;
}

#[tokio::test]
async fn the_oldest_of_a_capped_session_leave_the_index_and_no_others() {
    in_a_journal(|journal, anna| async move {
        let cap = |turns| SessionChange { max_turns: Some(turns), ..SessionChange::default() };
        say(&journal, anna, "free", &["u:free"]).await;
        journal.set_session(anna, &session("s"), cap(Some(4)), minute(0)).await.unwrap();

        say(&journal, anna, "s", &["u:1", "a:one", "u:2", "a:two"]).await;
        let third = say(&journal, anna, "s", &["u:3"]).await.exchanges;
        assert_eq!(texts(&learn(&journal).await), [vec!["free"], vec!["1", "one"], vec!["2", "two"], vec!["3"]]);
        say(&journal, anna, "s", &["a:three"]).await;
        learn(&journal).await;

        // Not in the index, yet in the journal.
        assert_eq!(exchanges(&journal, anna, "s").await.len(), 3);
        journal.reset(anna, &LAYER).await.unwrap();
        assert_eq!(texts(&learn(&journal).await), [vec!["free"], vec!["2", "two"], vec!["3", "three"]]);

        journal.set_session(anna, &session("s"), cap(Some(2)), minute(0)).await.unwrap();
        journal.reset(anna, &LAYER).await.unwrap();
        assert_eq!(learn(&journal).await.last().unwrap().id, third[0]);
        journal.set_session(anna, &session("s"), cap(None), minute(0)).await.unwrap();
        assert_eq!(texts(&learn(&journal).await), [["1", "one"], ["2", "two"]]);
    })
    .await;
}

#[tokio::test]
async fn a_restored_exchange_does_not_lift_its_session_over_the_cap() {
    in_a_journal(|journal, anna| async move {
        let cap = SessionChange { max_turns: Some(Some(2)), ..SessionChange::default() };
        journal.set_session(anna, &session("s"), cap, minute(0)).await.unwrap();
        let old = say(&journal, anna, "s", &["u:1", "a:one"]).await.exchanges;
        journal.forget(anna, &skymem_store::Target::Exchanges(old.clone()), minute(1)).await.unwrap();
        say(&journal, anna, "s", &["u:2", "a:two"]).await;

        assert_eq!(journal.restore(anna, &old, minute(0)).await.unwrap(), old);

        assert_eq!(texts(&learn(&journal).await), [["2", "two"]]);
    })
    .await;
}

#[tokio::test]
async fn a_session_keeps_what_is_set_about_it() {
    in_a_journal(|journal, anna| async move {
        let id = session("s");
        let set = SessionChange {
            collection: Some("work".parse().unwrap()),
            title: Some(Some("Planning".into())),
            memory: Some(MemoryMode::Write),
            max_turns: Some(Some(300)),
            max_age_hours: Some(Some(24)),
        };
        let made = journal.set_session(anna, &id, set, minute(0)).await.unwrap();
        assert_eq!((made.title.as_deref(), made.memory), (Some("Planning"), MemoryMode::Write));
        assert_eq!((made.max_turns, made.max_age_hours), (Some(300), Some(24)));

        say(&journal, anna, "s", &["u:hello"]).await;
        let change = SessionChange { title: Some(None), ..SessionChange::default() };
        let changed = journal.set_session(anna, &id, change, minute(99)).await.unwrap();

        assert_eq!(changed.title, None);
        assert_eq!(
            (changed.memory, changed.max_turns, changed.max_age_hours),
            (MemoryMode::Write, Some(300), Some(24))
        );
        assert_eq!((changed.created_at, changed.last_at, changed.exchanges), (minute(0), minute(0), 1));
        assert_eq!(exchanges(&journal, anna, "s").await[0].collection.as_str(), "work");

        for bad in [
            SessionChange { max_turns: Some(Some(0)), ..SessionChange::default() },
            SessionChange { max_age_hours: Some(Some(u32::MAX)), ..SessionChange::default() },
            SessionChange { title: Some(Some("\0".into())), ..SessionChange::default() },
            SessionChange { title: Some(Some("x".repeat(501))), ..SessionChange::default() },
        ] {
            let refused = journal.set_session(anna, &id, bad.clone(), minute(0)).await;
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{bad:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    in_a_journal(|journal, anna| async move {
        // Two sessions of each moment: the id decides.
        for n in 0..10_i64 {
            let turn = NewTurn { occurred_at: Some(minute(n / 2)), ..NewTurn::new(Role::User, n.to_string()) };
            journal.append(anna, Append::said(session(&format!("s{n}")), vec![turn], minute(50))).await.unwrap();
        }
        let (mut ids, mut after): (Vec<String>, Option<SessionMark>) = (Vec::new(), None);
        loop {
            let page = journal.sessions(anna, after.as_ref(), 3).await.unwrap();
            ids.extend(page.items.iter().map(|session| session.id.to_string()));
            // A page token survives its way through a URL.
            let Some(next) = page.next else { break };
            after = Some(next.to_string().parse().unwrap());
        }
        assert_eq!(ids, ["s8", "s9", "s6", "s7", "s4", "s5", "s2", "s3", "s0", "s1"]);
        for bad in ["", "x", "1", "x:y", "99999999999999999999:s"] {
            assert!(bad.parse::<SessionMark>().is_err(), "{bad}");
        }

        let (mut seqs, mut before) = (Vec::new(), None);
        loop {
            let page = journal.exchanges(anna, &Filter::default(), before, 4).await.unwrap();
            seqs.extend(page.items.iter().map(|exchange| exchange.first_seq()));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seqs.len(), 10);
        assert!(seqs.is_sorted_by(|a, b| a > b));
        assert_eq!(journal.sessions(anna, None, usize::MAX).await.unwrap().items.len(), 10);
    })
    .await;
}

#[tokio::test]
async fn a_filter_lets_through_what_meets_every_condition() {
    in_a_journal(|journal, anna| async move {
        let import = Append {
            source: "import:a.jsonl".parse().unwrap(),
            collection: Some("work".parse().unwrap()),
            ..Append::said(session("a"), turns(&["u:1", "t:2"]), minute(10))
        };
        let first = journal.append(anna, import).await.unwrap().exchanges;
        say(&journal, anna, "b", &["u:3"]).await;
        assert_eq!(journal.pin(anna, &first, true).await.unwrap(), first);

        let check = async |filter: Filter, expected: usize| {
            let found = journal.exchanges(anna, &filter, None, 10).await.unwrap().items;
            assert_eq!(found.len(), expected, "{filter:?}");
        };
        let all = Filter::default;
        check(Filter { sessions: vec![session("a")], ..all() }, 1).await;
        check(Filter { collections: vec!["work".parse::<Collection>().unwrap()], ..all() }, 1).await;
        check(Filter { sources: vec!["session".parse::<Source>().unwrap()], ..all() }, 1).await;
        check(Filter { roles: vec![Role::Tool], ..all() }, 1).await;
        check(Filter { roles: vec![Role::Tool, Role::User], ..all() }, 2).await;
        check(Filter { time: Some(TimeRange { from: minute(10), until: minute(11) }), ..all() }, 1).await;
        check(Filter { time: Some(TimeRange { from: minute(9), until: minute(10) }), ..all() }, 0).await;
        check(Filter { pinned: Some(true), ..all() }, 1).await;
        check(Filter { pinned: Some(true), sessions: vec![session("b")], ..all() }, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_collection_goes_only_when_nothing_stands_in_it() {
    in_a_journal(|journal, anna| async move {
        let work: Collection = "work".parse().unwrap();
        let settings = CollectionSettings { half_life_days: Some(7.0), decay_floor: Some(0.0), part_tokens: Some(200) };
        assert_eq!(journal.set_collection(anna, &work, settings).await.unwrap(), None);
        journal.make_collection(anna, &work, minute(0)).await.unwrap();
        assert_eq!(journal.set_collection(anna, &work, settings).await.unwrap().unwrap().settings, settings);
        assert_eq!(journal.make_collection(anna, &work, minute(1)).await.unwrap().settings, settings);

        let append =
            Append { collection: Some(work.clone()), ..Append::said(session("s"), turns(&["u:1"]), minute(0)) };
        let said = journal.append(anna, append).await.unwrap().exchanges;
        assert!(matches!(journal.delete_collection(anna, &work).await, Err(StoreError::Conflict(_))));
        journal.purge(anna, &said, minute(1)).await.unwrap();
        assert!(journal.delete_collection(anna, &work).await.unwrap());
        assert!(!journal.delete_collection(anna, &work).await.unwrap());

        for bad in [
            CollectionSettings { half_life_days: Some(0.0), ..Default::default() },
            CollectionSettings { half_life_days: Some(f32::NAN), ..Default::default() },
            CollectionSettings { decay_floor: Some(1.1), ..Default::default() },
            CollectionSettings { part_tokens: Some(99), ..Default::default() },
            CollectionSettings { part_tokens: Some(u32::MAX), ..Default::default() },
        ] {
            let refused = journal.set_collection(anna, &work, bad).await;
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{bad:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_user_has_a_zone() {
    in_a_journal(|journal, anna| async move {
        assert_eq!(journal.timezone(anna).await.unwrap(), Some(chrono_tz::UTC));
        assert!(journal.set_timezone(anna, chrono_tz::Europe::Berlin).await.unwrap());
        assert_eq!(journal.timezone(anna).await.unwrap(), Some(chrono_tz::Europe::Berlin));
        assert_eq!(journal.timezone(skymem_core::UserId(worker())).await.unwrap(), None);
        assert_eq!(journal.user(anna).await.unwrap().unwrap().name.as_str(), "anna");
        assert_eq!(journal.users().await.unwrap().len(), 1);
        assert_eq!(journal.user_named(&"ben".parse().unwrap()).await.unwrap(), None);
        journal.ping().await.unwrap();
    })
    .await;
}
