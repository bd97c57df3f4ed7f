use serde_json::json;
use skymem_core::{ExchangeKind, Role};
use skymem_store::{Append, Appended, MemoryMode, NewTurn, Recorded, SessionChange, StoreError};
use tokio::task::JoinSet;

use crate::scratch::*;

#[tokio::test]
async fn what_was_said_comes_back_as_it_was_said_in_order() {
    in_a_journal(|journal, anna| async move {
        let mut said = turns(&["u:Which database for 昨天?", "a:Postgres.", "t:{}", "u:Why?"]);
        said[0].speaker = Some("Anna".into());
        said[0].parts = Some(json!([{"type": "text", "text": "Which database for 昨天?"}]));
        said[0].occurred_at = Some(minute(-60));
        said[1].client_id = Some("answer 1".into());

        let appended = journal.append(anna, Append::said(session("s"), said.clone(), minute(5))).await.unwrap();
        let page = journal.turns(anna, &session("s"), None, 200).await.unwrap();

        assert_eq!(page.next, None);
        assert_eq!(page.items.len(), 4);
        for ((kept, said), answer) in page.items.iter().zip(&said).zip(&appended.turns) {
            assert_eq!(answer.recorded, Recorded::New);
            assert_eq!(answer.seq, Some(kept.turn.seq));
            assert_eq!(answer.exchange, Some(kept.exchange));
            assert_eq!(kept.turn.role, said.role);
            assert_eq!(kept.turn.speaker, said.speaker);
            assert_eq!(kept.turn.text, said.text);
            assert_eq!(kept.parts, said.parts);
            assert_eq!(kept.client_id, said.client_id);
            assert_eq!(kept.turn.occurred_at, said.occurred_at.unwrap_or(minute(5)));
            assert_eq!(kept.recorded_at, minute(5));
        }
        assert!(page.items.is_sorted_by_key(|turn| turn.turn.seq));
        assert_eq!(appended.exchanges.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn thirty_two_identical_writes_at_once_give_one_row() {
    in_a_journal(|journal, anna| async move {
        for said in [turns(&["u:hello", "a:hi"]), with_ids(turns(&["u:hello", "a:hi"]))] {
            let id = if said[0].client_id.is_some() { "with ids" } else { "without" };
            let mut writes = JoinSet::new();
            for _ in 0..32 {
                let (journal, append) = (journal.clone(), Append::said(session(id), said.clone(), minute(0)));
                writes.spawn(async move { journal.append(anna, append).await.unwrap() });
            }
            let answers = writes.join_all().await;

            let new = answers.iter().filter(|answer| recorded(answer) == [Recorded::New; 2]).count();
            let already = answers.iter().filter(|answer| recorded(answer) == [Recorded::Already; 2]).count();
            assert_eq!((new, already), (1, 31), "{id}");
            let places = |answer: &Appended| answer.turns.iter().map(|turn| turn.seq).collect::<Vec<_>>();
            assert!(answers.iter().all(|answer| places(answer) == places(&answers[0])), "{id}");
            assert_eq!(texts(&exchanges(&journal, anna, id).await), [["hello", "hi"]], "{id}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_sends_the_whole_history_each_time_adds_only_what_is_new() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["s:Be brief.", "u:one", "a:1"]).await;
        let second = say(&journal, anna, "s", &["s:Be brief.", "u:one", "a:1", "u:two", "a:2"]).await;
        let again = say(&journal, anna, "s", &["u:two", "a:2", "u:two"]).await;

        use Recorded::{Already, New};
        assert_eq!(recorded(&second), [Already, Already, Already, New, New]);
        assert_eq!(recorded(&again), [Already, Already, New]);
        let all = exchanges(&journal, anna, "s").await;
        assert_eq!(texts(&all), [vec!["Be brief.", "one", "1"], vec!["two", "2"], vec!["two"]]);
    })
    .await;
}

#[tokio::test]
async fn the_same_words_at_another_time_are_another_turn() {
    in_a_journal(|journal, anna| async move {
        let ok = |minutes| NewTurn { occurred_at: Some(minute(minutes)), ..NewTurn::new(Role::User, "ok") };
        let append = |turn| Append::said(session("s"), vec![turn], minute(0));

        journal.append(anna, append(ok(1))).await.unwrap();
        let same = journal.append(anna, append(ok(1))).await.unwrap();
        let later = journal.append(anna, append(ok(2))).await.unwrap();
        let elsewhere = say(&journal, anna, "other", &["u:ok"]).await;

        assert_eq!(recorded(&same), [Recorded::Already]);
        assert_eq!(recorded(&later), [Recorded::New]);
        assert_eq!(recorded(&elsewhere), [Recorded::New]);
    })
    .await;
}

#[tokio::test]
async fn a_turn_with_an_id_is_known_anywhere_in_its_session() {
    in_a_journal(|journal, anna| async move {
        let append = |said: &[&str]| Append::said(session("s"), with_ids(turns(said)), minute(0));
        journal.append(anna, append(&["u:one", "u:two"])).await.unwrap();
        say(&journal, anna, "s", &["u:between"]).await;

        let resumed =
            journal.append(anna, append(&["u:one", "a:1", "u:two", "a:2", "u:three", "u:three"])).await.unwrap();

        use Recorded::{Already, New};
        assert_eq!(recorded(&resumed), [Already, New, Already, New, New, Already]);
        // Each late answer stands with its question, although others came between.
        let all = exchanges(&journal, anna, "s").await;
        assert_eq!(texts(&all), [vec!["one", "1"], vec!["two", "2"], vec!["between"], vec!["three"]]);
    })
    .await;
}

#[tokio::test]
async fn an_id_that_is_taken_by_other_words_keeps_the_first_and_says_so() {
    in_a_journal(|journal, anna| async move {
        let named = |text: &str| NewTurn { client_id: Some("1".into()), ..NewTurn::new(Role::User, text) };
        let append = |turns| Append::said(session("s"), turns, minute(0));

        journal.append(anna, append(vec![named("first")])).await.unwrap();
        let second = journal.append(anna, append(vec![named("second")])).await.unwrap();
        let within = journal.append(anna, Append::said(session("t"), vec![named("a"), named("b")], minute(0))).await;

        assert_eq!(recorded(&second), [Recorded::Differs]);
        assert_eq!(recorded(&within.unwrap()), [Recorded::New, Recorded::Differs]);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["first"]]);
    })
    .await;
}

#[tokio::test]
async fn a_late_answer_lets_its_exchange_grow_and_be_learned_again_whole() {
    in_a_journal(|journal, anna| async move {
        say(&journal, anna, "s", &["u:weather?"]).await;
        say(&journal, anna, "other", &["u:unrelated"]).await;
        assert_eq!(texts(&learn(&journal).await), [["weather?"], ["unrelated"]]);

        let grown = say(&journal, anna, "s", &["t:sunny", "a:It is sunny."]).await;

        let learned = learn(&journal).await;
        assert_eq!(texts(&learned), [["weather?", "sunny", "It is sunny."]]);
        assert_eq!(grown.exchanges, [learned[0].id]);
        assert!(learn(&journal).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn notes_stand_alone_and_do_not_come_between_a_question_and_its_answer() {
    in_a_journal(|journal, anna| async move {
        let note = |texts: &[&str]| Append {
            kind: ExchangeKind::Asserted,
            source: "remember".parse().unwrap(),
            ..Append::said(session("s"), turns(texts), minute(0))
        };
        say(&journal, anna, "s", &["u:question"]).await;
        let notes = journal.append(anna, note(&["u:I am vegan", "u:I live in Kiel"])).await.unwrap();
        let again = journal.append(anna, note(&["u:I am vegan", "u:I live in Kiel"])).await.unwrap();
        let answered = say(&journal, anna, "s", &["u:question", "a:answer"]).await;

        assert_eq!(notes.exchanges.len(), 2);
        assert_eq!(recorded(&again), [Recorded::Already; 2]);
        assert_eq!(recorded(&answered), [Recorded::Already, Recorded::New]);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["question", "answer"]]);
        let note = journal.exchange(anna, notes.exchanges[0]).await.unwrap().unwrap();
        assert_eq!((note.kind, note.source.as_str()), (ExchangeKind::Asserted, "remember"));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_by_name_and_nothing_of_the_batch_is_kept() {
    in_a_journal(|journal, anna| async move {
        let good = || NewTurn::new(Role::User, "good");
        let year_0 = "0000-06-01T00:00:00Z".parse().unwrap();
        let bad = [
            (NewTurn::new(Role::User, "a\0b"), "the text holds a NUL"),
            (NewTurn { speaker: Some("\0".into()), ..good() }, "the speaker holds a NUL"),
            (NewTurn { client_id: Some("x\0".into()), ..good() }, "the client id holds a NUL"),
            (NewTurn { client_id: Some(String::new()), ..good() }, "the client id has 1 to 200"),
            (NewTurn { speaker: Some("x".repeat(201)), ..good() }, "the speaker has 1 to 200"),
            (NewTurn { parts: Some(json!([{"a": ["\0"]}])), ..good() }, "the content parts hold a NUL"),
            (NewTurn { parts: Some(json!({"\0": 1})), ..good() }, "the content parts hold a NUL"),
            (NewTurn::new(Role::Assistant, ""), "it says nothing"),
            (NewTurn { occurred_at: Some(year_0), ..good() }, "in a year from 1 to 9999"),
        ];
        for (turn, expected) in bad {
            let refused = journal.append(anna, Append::said(session("s"), vec![good(), turn], minute(0))).await;

            let Err(StoreError::Refused(why)) = refused else { panic!("{expected}: {refused:?}") };
            assert!(why.starts_with("turn 2: ") && why.contains(expected), "{why}");
        }
        let many = journal.append(anna, Append::said(session("s"), vec![good(); 5_001], minute(0))).await;
        assert!(matches!(many, Err(StoreError::Refused(_))));
        assert_eq!(journal.session(anna, &session("s")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn an_unusual_turn_is_kept_as_it_is() {
    in_a_journal(|journal, anna| async move {
        let last_moment = "9999-12-31T23:59:59.999999999Z".parse().unwrap();
        let said = vec![
            NewTurn { parts: Some(json!([{"type": "image_url", "n": 1.5e300}])), ..NewTurn::new(Role::User, "") },
            NewTurn { client_id: Some("\u{1F600}".repeat(200)), ..NewTurn::new(Role::Tool, "\u{FEFF}\u{202E}\n\t") },
            NewTurn { occurred_at: Some(last_moment), ..NewTurn::new(Role::Assistant, "x".repeat(3_000_000)) },
        ];
        let append = || Append::said(session(&"ä".repeat(200)), said.clone(), minute(0));

        let first = journal.append(anna, append()).await.unwrap();
        let second = journal.append(anna, append()).await.unwrap();

        assert_eq!(recorded(&first), [Recorded::New; 3]);
        assert_eq!(recorded(&second), [Recorded::Already; 3]);
    })
    .await;
}

#[tokio::test]
async fn a_session_goes_on_where_it_is_and_a_turn_may_name_another_shelf() {
    in_a_journal(|journal, anna| async move {
        let ok = |minutes| NewTurn { occurred_at: Some(minute(minutes)), ..NewTurn::new(Role::User, "ok") };
        let append = |turn| Append::said(session("s"), vec![turn], minute(0));
        journal.append(anna, append(ok(0))).await.unwrap();

        journal.append_piece(anna, append(ok(60))).await.unwrap();
        journal.append_piece(anna, append(ok(-60))).await.unwrap();
        let elsewhere = Append { collection: Some("work".parse().unwrap()), ..append(ok(30)) };
        journal.append(anna, elsewhere).await.unwrap();

        let kept = journal.session(anna, &session("s")).await.unwrap().unwrap();
        assert_eq!((kept.created_at, kept.last_at), (minute(-60), minute(60)));
        assert_eq!((kept.exchanges, kept.collection.as_str()), (4, "default"));
        let shelves: Vec<_> = journal.collections(anna).await.unwrap();
        let standing: Vec<_> = shelves.iter().map(|shelf| (shelf.name.as_str(), shelf.exchanges)).collect();
        assert_eq!(standing, [("default", 3), ("work", 1)]);
    })
    .await;
}

#[tokio::test]
async fn a_session_whose_memory_does_not_write_leaves_nothing_behind() {
    in_a_journal(|journal, anna| async move {
        let off = SessionChange { memory: Some(MemoryMode::Read), ..SessionChange::default() };
        let append = || Append { settings: off.clone(), ..Append::said(session("s"), turns(&["u:secret"]), minute(0)) };

        let answer = journal.append(anna, append()).await.unwrap();
        assert_eq!(recorded(&answer), [Recorded::Off]);
        assert_eq!(journal.session(anna, &session("s")).await.unwrap(), None);

        journal.set_session(anna, &session("s"), off.clone(), minute(0)).await.unwrap();
        assert_eq!(recorded(&say(&journal, anna, "s", &["u:secret"]).await), [Recorded::Off]);
        let on = SessionChange { memory: Some(MemoryMode::ReadWrite), ..SessionChange::default() };
        let append = Append { settings: on, ..Append::said(session("s"), turns(&["u:open"]), minute(0)) };
        assert_eq!(recorded(&journal.append(anna, append).await.unwrap()), [Recorded::New]);
        assert_eq!(texts(&exchanges(&journal, anna, "s").await), [["open"]]);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_kept_for_someone_who_does_not_exist() {
    in_a_journal(|journal, _| async move {
        let nobody = skymem_core::UserId(worker());

        let answer = journal.append(nobody, Append::said(session("s"), turns(&["u:hello"]), minute(0))).await;

        assert!(matches!(answer, Err(StoreError::NoUser)), "{answer:?}");
    })
    .await;
}
