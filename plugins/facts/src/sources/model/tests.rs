use skymem_core::{Collection, ExchangeId, ExchangeKind, Seq, SessionId, Source, UserId};
use skymem_models::{ScriptedAnswer, ScriptedChat};

use super::super::notation;
use super::*;

fn turn(role: Role, speaker: Option<&str>, text: &str) -> Turn {
    let at = "2026-09-16T10:00:00Z".parse().unwrap();
    Turn {
        seq: Seq(1),
        role,
        speaker: speaker.map(str::to_owned),
        text: text.into(),
        occurred_at: at,
        recorded_at: at,
        statement: None,
    }
}

fn exchange(turns: Vec<Turn>) -> Exchange {
    Exchange {
        user: UserId(uuid::Uuid::nil()),
        id: ExchangeId(uuid::Uuid::nil()),
        session: "s".parse::<SessionId>().unwrap(),
        collection: "default".parse::<Collection>().unwrap(),
        kind: ExchangeKind::Said,
        source: "session".parse::<Source>().unwrap(),
        pinned: false,
        turns,
    }
}

fn says(text: &str) -> Exchange {
    exchange(vec![turn(Role::User, None, text), turn(Role::Assistant, None, "Noted: you live in Paris.")])
}

fn fact(subject: &str, predicate: &str, object: &str) -> String {
    told(&[(subject, predicate, object, "holds", None)])
}

fn told(facts: &[(&str, &str, &str, &str, Option<&str>)]) -> String {
    let facts = facts.iter().map(|(subject, predicate, object, how, from)| {
        json!({"subject": subject, "predicate": predicate, "object": object, "how": how, "from": from, "until": null})
    });
    json!({ "facts": facts.collect::<Vec<_>>() }).to_string()
}

async fn found(exchange: &Exchange, answer: String) -> Vec<String> {
    let found = ask(&ScriptedChat::saying([answer]), exchange).await.unwrap();
    assert!(found.iter().all(|found| found.confidence == CONFIDENCE));
    found.iter().map(|found| notation(&found.statement)).collect()
}

#[tokio::test]
async fn what_the_text_holds_is_believed_under_one_name() {
    let exchange =
        says("Ich arbeite seit 2018 bei der Deutschen Bahn, ich bin 34, und meine Schwester Anna nutzt Rust.");

    let answer = told(&[
        ("The user", "worksFor", "Deutsche Bahn", "holds", Some("2018")),
        ("I", "age", "34", "holds", None),
        ("user", "has_sister", "Anna", "holds", None),
        ("Anna", "uses technology", "Rust", "holds", None),
        ("Anna", "uses", "Rust", "holds", None),
    ]);

    assert_eq!(
        found(&exchange, answer).await,
        [
            "user | works_at | Deutsche Bahn | from 2018-01-01",
            "user | age | 34",
            "user | sister | Anna",
            "Anna | uses | Rust",
        ]
    );
}

#[tokio::test]
async fn what_the_text_does_not_hold_is_dropped() {
    let exchange = says("I moved to Bremen in May.");
    for answer in [
        fact("user", "lives_in", "Paris"),
        fact("Anna", "lives_in", "Bremen"),
        fact("user", "lives_in", ""),
        fact("user", "!", "Bremen"),
        fact("user", "lives_in", "the"),
        told(&[("user", "lives_in", "Bremen", "holds", Some("2030-05"))])
            .replace("2030-05", "2026-12")
            .replace("Bremen", "Rome"),
    ] {
        assert_eq!(found(&exchange, answer.clone()).await, Vec::<String>::new(), "{answer}");
    }
}

#[tokio::test]
async fn a_date_is_believed_when_the_text_gives_it() {
    let exchange = says("I moved to Bremen in May.");
    for (from, expected) in [
        (Some("2026-05-01"), "user | lives_in | Bremen | from 2026-05-01"),
        (Some("2026-05"), "user | lives_in | Bremen | from 2026-05-01"),
        (Some("2019"), "user | lives_in | Bremen"),
        (Some("soon"), "user | lives_in | Bremen"),
        (None, "user | lives_in | Bremen"),
    ] {
        assert_eq!(
            found(&exchange, told(&[("user", "lives_in", "Bremen", "holds", from)])).await,
            [expected],
            "{from:?}"
        );
    }
}

#[tokio::test]
async fn ends_corrections_and_retractions_are_told_apart() {
    let exchange = says("No, I live in Bremen. I left ACME in March. I never used Emacs.");

    let answer = told(&[
        ("user", "lives_in", "Bremen", "corrects", None),
        ("user", "works_at", "ACME", "ends", Some("2026-03")),
        ("user", "uses", "Emacs", "never", None),
        ("user", "likes", "Emacs", "corrects", None),
    ]);

    assert_eq!(
        found(&exchange, answer).await,
        [
            "user | lives_in | Bremen | corrects",
            "user | works_at | ACME | ends 2026-03-01",
            "user | uses | Emacs | never",
            "user | likes | Emacs",
        ]
    );
}

#[tokio::test]
async fn who_speaks_under_a_name_is_called_by_it() {
    let talk = exchange(vec![
        turn(Role::User, Some("Caroline"), "I live in Bremen."),
        turn(Role::Assistant, Some("Caroline"), "Yes."),
    ]);
    assert_eq!(found(&talk, fact("I", "lives_in", "Bremen")).await, ["Caroline | lives_in | Bremen"]);

    let talk = exchange(vec![
        turn(Role::User, Some("Caroline"), "I live in Bremen."),
        turn(Role::Assistant, Some("Melanie"), "I too."),
    ]);
    assert_eq!(found(&talk, fact("I", "lives_in", "Bremen")).await, Vec::<String>::new(), "nobody knows who");
    assert_eq!(found(&talk, fact("Melanie", "lives_in", "Bremen")).await, ["Melanie | lives_in | Bremen"]);
}

#[tokio::test]
async fn an_answer_that_will_not_do_is_asked_for_once_more() {
    let chat = ScriptedChat::saying(["I found these: lives in Bremen.".to_owned(), fact("user", "lives_in", "Bremen")]);

    let found = ask(&chat, &says("I live in Bremen.")).await.unwrap();

    assert_eq!((found.len(), chat.calls()), (1, 2));
    let second = &chat.heard()[1].messages;
    assert_eq!(second[2].content, "I found these: lives in Bremen.");
    assert!(second[3].content.contains("no JSON object"), "{}", second[3].content);
}

#[tokio::test]
async fn after_two_answers_that_will_not_do_it_is_given_up() {
    for (answers, why) in [
        (vec![ScriptedAnswer::from("{\"facts\": 3}")], "JSON that was asked for"),
        (vec![ScriptedAnswer::from("{\"facts\": [{\"subject\": \"user\"}]}")], "predicate"),
        (vec![ScriptedAnswer::Cut("{\"facts\": []}".into())], "cut off"),
        (vec![ScriptedAnswer::Unusable, "nonsense".into()], "no JSON"),
    ] {
        let chat = ScriptedChat::saying(answers);

        let error = ask(&chat, &says("I live in Bremen.")).await.unwrap_err();

        assert!(matches!(&error, AskError::Unusable(reason) if reason.contains(why)), "{error}");
        assert_eq!(chat.calls(), TRIES);
    }
}

#[tokio::test]
async fn a_model_that_is_away_or_refuses_is_not_asked_twice() {
    let away = ScriptedChat::saying([ScriptedAnswer::Unreachable]);
    assert!(matches!(ask(&away, &says("I live in Bremen.")).await, Err(AskError::Unreachable(_))));
    let refuses = ScriptedChat::saying([ScriptedAnswer::Refuses("no".into())]);
    assert!(matches!(ask(&refuses, &says("I live in Bremen.")).await, Err(AskError::Refused(_))));
    assert_eq!((away.calls(), refuses.calls()), (1, 1));
}

#[tokio::test]
async fn where_nobody_says_anything_no_model_is_asked() {
    let chat = ScriptedChat::saying(["{\"facts\": []}"]);
    for turns in [
        vec![],
        vec![turn(Role::User, None, " ... ")],
        vec![turn(Role::Assistant, None, "I live in a data centre."), turn(Role::System, None, "You are Bob.")],
    ] {
        assert_eq!(ask(&chat, &exchange(turns)).await.unwrap(), []);
    }
    assert_eq!(chat.calls(), 0);
}

#[test]
fn the_question_is_this() {
    let said = [
        turn(Role::User, None, "Ich wohne in \"Bremen\".\n<|im_end|> {day}"),
        turn(Role::User, Some("Anna"), "Me too."),
    ];
    let said: Vec<&Turn> = said.iter().collect();

    let question = question(&said, said[0].occurred_at);

    let asked: Vec<String> =
        question.messages.iter().map(|message| format!("--- {}\n{}", message.role, message.content)).collect();
    assert_eq!(
        asked.join("\n") + "\n",
        include_str!("../prompts/asked.txt"),
        "the prompt has changed: look at the change, then keep it"
    );
    assert_eq!((question.temperature, question.purpose), (0.0, "facts"));
}

#[test]
fn a_question_is_bounded_however_much_was_said() {
    let long = turn(Role::User, None, &"wörter ".repeat(100_000));
    let said: Vec<&Turn> = vec![&long; 3];

    let question = question(&said, long.occurred_at);

    let length: usize = question.messages.iter().map(|message| message.content.chars().count()).sum();
    assert!(length < MOST_TOLD + FACTS.len() + EXCHANGE.len() + 300, "{length}");
}

#[tokio::test]
async fn a_model_that_cannot_stop_is_asked_for_no_more_than_the_text_can_hold() {
    for (text, most) in [
        ("I like tea.".to_owned(), 4),
        ("I like tea, cod, ale, figs and kale.".to_owned(), 8),
        ("我喜欢茶、酒、猫、狗、鱼".to_owned(), 8),
        ("x ".repeat(900), 30),
    ] {
        let exchange = says(&text);
        let said: Vec<&Turn> = exchange.turns.iter().filter(|turn| is_material(turn)).collect();
        let question = question(&said, said[0].occurred_at);
        assert_eq!(question.schema.unwrap()["properties"]["facts"]["maxItems"], most);
    }

    let exchange = says("I like tea, cod, ale, figs and kale.");
    let all = ["tea", "cod", "ale", "figs", "kale"].map(|liked| ("user", "likes", liked, "holds", None));
    assert_eq!(found(&exchange, told(&all)).await.len(), 5);
}
