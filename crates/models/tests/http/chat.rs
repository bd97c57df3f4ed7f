//! Chat models behind HTTP.

use std::io::Write;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use serde_json::{Value, json};
use skymem_core::{ChatAnswer, ChatModels, ChatRequest, Message, ModelError, Role, SharedChatModel};
use skymem_models::{ChatKind, ChatSettings, RewriterSettings, Secret, open_chat};

use crate::server::{Answer, Server, nobody};

const KINDS: [ChatKind; 2] = [ChatKind::OpenAi, ChatKind::Ollama];

fn settings(server: &Server, kind: ChatKind) -> ChatSettings {
    ChatSettings {
        kind,
        url: Some(server.url.clone()),
        key: Some(Secret("sk-secret".into())),
        model: Some("test-model".into()),
        timeout_ms: 2_000,
        ..ChatSettings::default()
    }
}

fn open(settings: &ChatSettings) -> Result<ChatModels, ModelError> {
    open_chat(settings, || DateTime::<Utc>::UNIX_EPOCH, None)
}

fn main_of(server: &Server, kind: ChatKind) -> SharedChatModel {
    open(&settings(server, kind)).unwrap().main.unwrap()
}

fn question() -> ChatRequest {
    ChatRequest {
        purpose: "test",
        messages: vec![
            Message::new(Role::System, "Be brief."),
            Message::new(Role::User, "my salary is 4,200 euros a month, is that much?"),
        ],
        temperature: 0.0,
        most_tokens: 50,
        schema: None,
    }
}

/// `text` as a server of `kind` says it.
fn said(kind: ChatKind, text: &str) -> Value {
    let message = json!({ "role": "assistant", "content": text });
    match kind {
        ChatKind::Ollama => json!({ "message": message, "done": true, "done_reason": "stop",
                                    "prompt_eval_count": 20, "eval_count": 3 }),
        _ => json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": { "total_tokens": 23 } }),
    }
}

async fn ask(server: &Server, kind: ChatKind) -> Result<ChatAnswer, ModelError> {
    main_of(server, kind).answer(&question()).await
}

#[tokio::test]
async fn an_answer_comes_back_with_what_it_cost() {
    for kind in KINDS {
        let server = Server::start(vec![Answer::Json(200, said(kind, "It is.\n"))]);

        let answer = ask(&server, kind).await.unwrap();

        assert_eq!(answer, ChatAnswer { text: "It is.".into(), whole: true, tokens: 23 });
        let heard = server.heard.lock().unwrap();
        assert_eq!(heard[0].authorization.as_deref(), Some("Bearer sk-secret"));
        assert_eq!(
            (heard[0].body["model"].as_str(), heard[0].body["stream"].as_bool()),
            (Some("test-model"), Some(false))
        );
        assert_eq!(heard[0].body["messages"][1]["role"], "user");
    }
}

#[tokio::test]
async fn openai_is_asked_in_its_own_words() {
    let schema = json!({ "type": "object" });
    let server = Server::start(vec![Answer::Json(200, said(ChatKind::OpenAi, "{}"))]);
    let url = Some(format!("{}/v1/chat/completions", server.url));
    let model = open(&ChatSettings { url, ..settings(&server, ChatKind::OpenAi) }).unwrap().main.unwrap();

    model.answer(&ChatRequest { schema: Some(schema.clone()), ..question() }).await.unwrap();

    let heard = server.heard.lock().unwrap();
    assert_eq!((heard[0].method.as_str(), heard[0].path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(heard[0].body["max_tokens"], 50);
    assert_eq!(heard[0].body["response_format"]["json_schema"]["schema"], schema);
}

#[tokio::test]
async fn ollama_is_asked_in_its_own_words_and_never_to_cut() {
    let schema = json!({ "type": "object" });
    let server = Server::start(vec![Answer::Json(200, said(ChatKind::Ollama, "{}"))]);
    let model = main_of(&server, ChatKind::Ollama);

    model.answer(&ChatRequest { schema: Some(schema.clone()), ..question() }).await.unwrap();

    let heard = server.heard.lock().unwrap();
    assert_eq!(heard[0].path, "/api/chat");
    assert_eq!(heard[0].body["options"], json!({ "temperature": 0.0, "num_predict": 50, "num_ctx": 8192 }));
    assert_eq!((&heard[0].body["format"], &heard[0].body["truncate"]), (&schema, &json!(false)));
}

#[tokio::test]
async fn a_question_that_ollama_would_cut_is_not_sent() {
    let server = Server::start(vec![Answer::Json(200, said(ChatKind::Ollama, "yes"))]);
    let long = ChatRequest { messages: vec![Message::new(Role::User, "word ".repeat(2_000))], ..question() };
    let ask = async |context_tokens| {
        let settings = ChatSettings { context_tokens, ..settings(&server, ChatKind::Ollama) };
        open(&settings).unwrap().main.unwrap().answer(&long).await
    };

    let error = ask(1_000).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("chat.context_tokens"), "{error}");
    assert_eq!(server.times_asked(), 0);

    ask(8_192).await.unwrap();
    ask(0).await.unwrap();
}

#[tokio::test]
async fn without_a_model_there_is_none_and_a_rewriter_may_be_another() {
    let none = open(&ChatSettings::default()).unwrap();
    assert!(none.main.is_none() && none.rewriter.is_none());

    let server = Server::start(vec![Answer::Json(200, said(ChatKind::OpenAi, "yes"))]);
    let one = open(&settings(&server, ChatKind::OpenAi)).unwrap();
    assert!(Arc::ptr_eq(&one.main.unwrap(), &one.rewriter.unwrap()));

    let rewriter = RewriterSettings { model: Some("small".into()), ..RewriterSettings::default() };
    let two = open(&ChatSettings { rewriter, daily_tokens: 20, ..settings(&server, ChatKind::OpenAi) }).unwrap();
    let (main, rewriter) = (two.main.unwrap(), two.rewriter.unwrap());
    assert_eq!((main.name(), rewriter.name()), ("test-model", "small"));
    rewriter.answer(&question()).await.unwrap();
    assert_eq!(server.heard.lock().unwrap()[0].body["model"], "small");
    let error = main.answer(&question()).await.unwrap_err();
    assert!(error.to_string().contains("tokens are spent"), "both spend from one purse: {error}");
    assert!(main.check().await.unwrap_err().to_string().contains("chat.daily_tokens"));
    assert_eq!(server.times_asked(), 1);
}

#[tokio::test]
async fn a_busy_or_stumbling_server_is_asked_again() {
    for kind in KINDS {
        let fine = || Answer::Json(200, said(kind, "yes"));
        for first in [Answer::Busy, Answer::text(500, "oops"), Answer::Nothing, Answer::Half(said(kind, "yes"))] {
            let server = Server::start(vec![first, fine()]);

            assert_eq!(ask(&server, kind).await.unwrap().text, "yes");

            assert_eq!(server.times_asked(), 2);
        }
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_or_broken_is_given_up_and_may_be_asked_later() {
    let cases = [(ChatKind::OpenAi, Answer::Busy, "429"), (ChatKind::Ollama, Answer::text(500, "oops"), "oops")];
    join_all(cases.map(async |(kind, answer, part)| {
        let server = Server::start(vec![answer]);

        let error = ask(&server, kind).await.unwrap_err();

        assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(server.times_asked(), 3);
    }))
    .await;
}

#[tokio::test]
async fn a_refusal_is_final_and_says_what_to_do() {
    for (kind, answer, parts) in [
        (ChatKind::OpenAi, Answer::Json(400, json!({ "error": { "message": "too long" } })), ["400", "too long"]),
        (ChatKind::OpenAi, Answer::text(401, "bad key sk-secret"), ["test-model", "check `key`"]),
        (ChatKind::OpenAi, Answer::text(402, ""), ["402", "has nothing left"]),
        (ChatKind::OpenAi, Answer::Json(403, json!({ "error": "no" })), ["403", "check `key`"]),
        (ChatKind::OpenAi, Answer::text(404, "<html>"), ["404", "ends in /v1"]),
        (ChatKind::Ollama, Answer::Json(400, json!({ "error": "too long" })), ["400", "too long"]),
        (ChatKind::Ollama, Answer::text(401, "unauthorized sk-secret"), ["unauthorized ***", "check `key`"]),
        (ChatKind::Ollama, Answer::Json(404, json!({ "error": "not found" })), ["not found", "ollama pull test-model"]),
        (ChatKind::Ollama, Answer::text(301, "moved"), ["301", "final address"]),
    ] {
        let server = Server::start(vec![answer]);

        let error = ask(&server, kind).await.unwrap_err();

        assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
        let error = error.to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert!(!error.contains("sk-secret"), "{error}");
        assert_eq!(server.times_asked(), 1);
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_in_time_and_asked_only_once() {
    for kind in KINDS {
        let server = Server::start(vec![Answer::Slow]);
        let settings = ChatSettings { timeout_ms: 200, ..settings(&server, kind) };
        let model = open(&settings).unwrap().main.unwrap();

        let error = model.answer(&question()).await.unwrap_err();
        assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("timeout_ms"), "{error}");
        assert_eq!(server.times_asked(), 1);

        let error = model.check().await.unwrap_err();
        assert!(error.to_string().contains("within 200 ms"), "{error}");
    }
}

#[tokio::test]
async fn nonsense_is_not_taken_for_an_answer() {
    for kind in KINDS {
        for (answer, part) in [
            (Answer::text(200, "<html>"), "expected value"),
            (Answer::text(200, ""), "EOF"),
            (Answer::text(200, "{}"), "it has no"),
            (Answer::text(200, "[1, 2]"), "test-model"),
            (Answer::Json(200, json!({ "error": { "message": "fell over, key sk-secret" } })), "fell over, key ***"),
            (Answer::Json(200, json!({ "error": "bad input: my salary is 4,200 euros a month" })), "left out"),
            (Answer::Json(200, said(kind, " \n")), "without words"),
            (Answer::Json(200, said(kind, "<think>hm</think>")), "without words"),
            (Answer::Text(200, "x".repeat(5 << 20)), "does not stop"),
            (Answer::Text(200, "[".repeat(1 << 20)), "recursion"),
        ] {
            let server = Server::start(vec![answer]);

            let error = ask(&server, kind).await.unwrap_err();

            assert!(matches!(error, ModelError::Unusable(_)), "{error:?}");
            assert!(error.to_string().contains(part), "{part}: {error}");
            assert!(!error.to_string().contains("sk-secret"), "{error}");
            assert_eq!(server.times_asked(), 1);
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_cut_says_so() {
    let openai = json!({ "choices": [{ "message": { "content": "It i" }, "finish_reason": "length" }] });
    let ollama = json!({ "message": { "content": "It i" }, "done": true, "done_reason": "length" });
    for (kind, body) in [(ChatKind::OpenAi, openai), (ChatKind::Ollama, ollama)] {
        let answer = ask(&Server::start(vec![Answer::Json(200, body)]), kind).await.unwrap();

        assert_eq!((answer.text.as_str(), answer.whole), ("It i", false));
        assert!(answer.tokens > 5, "an estimate, where the server does not say: {}", answer.tokens);
    }
}

#[tokio::test]
async fn a_server_that_counts_nonsense_does_not_use_up_the_day() {
    for (usage, most) in [(json!(u64::MAX), 2_000), (json!(0), 2_000), (json!(-5), 2_000)] {
        let mut body = said(ChatKind::OpenAi, "yes");
        body["usage"]["total_tokens"] = usage;
        let answer = ask(&Server::start(vec![Answer::Json(200, body)]), ChatKind::OpenAi).await.unwrap();

        assert!((1..most).contains(&answer.tokens), "{}", answer.tokens);
    }
}

#[tokio::test]
async fn the_thinking_of_a_model_is_no_part_of_its_answer_and_json_is_json() {
    for kind in KINDS {
        let schema = ChatRequest { schema: Some(json!({ "type": "object" })), ..question() };
        let model = |text| main_of(&Server::start(vec![Answer::Json(200, said(kind, text))]), kind);

        assert_eq!(model("<think>\nhm\n</think>\n\nyes").answer(&question()).await.unwrap().text, "yes");
        assert_eq!(model("```json\n{\"a\": 1}\n```").answer(&schema).await.unwrap().text, "{\"a\": 1}");
        let error = model("Sure! {\"a\": 1}").answer(&schema).await.unwrap_err();
        assert!(matches!(error, ModelError::Unusable(_)) && error.to_string().contains("no JSON"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_will_not_have_a_parameter_is_asked_without_it_from_then_on() {
    let refusal = |message: &str| Answer::Json(400, json!({ "error": { "message": message } }));
    let server = Server::start(vec![
        refusal("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        refusal("Unsupported value: 'temperature' does not support 0 with this model."),
        Answer::Json(200, said(ChatKind::OpenAi, "yes")),
    ]);
    let model = main_of(&server, ChatKind::OpenAi);

    for _ in 0..2 {
        assert_eq!(model.answer(&question()).await.unwrap().text, "yes");
    }

    let heard = server.heard.lock().unwrap();
    assert_eq!(heard.len(), 4);
    for heard in &heard[2..] {
        assert_eq!(heard.body["max_completion_tokens"], 50);
        assert_eq!((heard.body.get("max_tokens"), heard.body.get("temperature")), (None, None));
    }
}

#[tokio::test]
async fn a_server_that_refuses_every_manner_is_not_asked_for_ever() {
    let refusal = json!({ "error": { "message": "max_completion_tokens, temperature, response_format: all wrong" } });
    let server = Server::start(vec![Answer::Json(400, refusal)]);
    let schema = ChatRequest { schema: Some(json!({})), ..question() };

    let error = main_of(&server, ChatKind::OpenAi).answer(&schema).await.unwrap_err();

    assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
    assert_eq!(server.times_asked(), 5);
}

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_was_closed_meanwhile_does_no_harm() {
    for kind in KINDS {
        let server = Server::start(vec![
            Answer::KeepsAlive(said(kind, "one")),
            Answer::KeepsAlive(said(kind, "two")),
            Answer::Nothing,
            Answer::KeepsAlive(said(kind, "three")),
        ]);
        let model = main_of(&server, kind);

        for expected in ["one", "two", "three"] {
            assert_eq!(model.answer(&question()).await.unwrap().text, expected);
        }

        let connections: Vec<usize> = server.heard.lock().unwrap().iter().map(|heard| heard.connection).collect();
        assert_eq!(connections[..3], [0, 0, 0]);
        assert_ne!(connections[3], 0);
    }
}

#[tokio::test]
async fn blanks_that_keep_a_connection_alive_before_an_answer_do_no_harm() {
    for kind in KINDS {
        let text = format!("\n  \n\n{}", said(kind, "yes"));
        assert_eq!(ask(&Server::start(vec![Answer::Text(200, text)]), kind).await.unwrap().text, "yes");
    }
}

#[tokio::test]
async fn a_check_says_what_is_wrong_and_asks_the_model_nothing() {
    let openai = json!({ "data": [{ "id": "test-model" }, { "id": "other" }] });
    let ollama = json!({ "models": [{ "name": "test-model:latest" }] });
    let many: Vec<Value> = (0..12).map(|n| json!({ "id": format!("m{n}") })).collect();
    for (kind, answer, expected) in [
        (ChatKind::OpenAi, Answer::Json(200, openai), None),
        (ChatKind::OpenAi, Answer::text(405, ""), None),
        (ChatKind::OpenAi, Answer::Json(200, json!({ "data": many })), Some("m7 and 4 more")),
        (
            ChatKind::OpenAi,
            Answer::Json(401, json!({ "error": "sk-secret is wrong" })),
            Some("*** is wrong; check `key`"),
        ),
        (ChatKind::OpenAi, Answer::text(404, ""), Some("check `url`")),
        (ChatKind::OpenAi, Answer::text(200, "<html>"), Some("check `url`")),
        (ChatKind::OpenAi, Answer::text(503, "loading"), Some("loading")),
        (ChatKind::Ollama, Answer::Json(200, ollama), None),
        (ChatKind::Ollama, Answer::Json(200, json!({ "models": [] })), Some("run `ollama pull test-model`")),
        (ChatKind::Ollama, Answer::Nothing, Some("is it running")),
    ] {
        let server = Server::start(vec![answer]);

        let fault = main_of(&server, kind).check().await.err().map(|error| error.to_string());

        match (&fault, expected) {
            (Some(fault), Some(part)) => {
                assert!(fault.contains(part) && !fault.contains("sk-secret"), "{part}: {fault}")
            }
            (fault, expected) => assert_eq!(fault.as_deref(), expected),
        }
        let heard = server.heard.lock().unwrap();
        assert!(heard.iter().all(|heard| heard.method == "GET"), "{}", heard[0].path);
        let path = if kind == ChatKind::Ollama { "/api/tags" } else { "/models" };
        assert_eq!(heard[0].path, path);
    }
}

#[tokio::test]
async fn where_nobody_listens_it_opens_and_says_so_when_it_is_asked() {
    for kind in KINDS {
        let settings = ChatSettings { kind, url: Some(nobody()), model: Some("m".into()), ..ChatSettings::default() };
        let model = open(&settings).unwrap().main.unwrap();

        let error = model.check().await.unwrap_err();
        assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains("is it running"), "{error}");
    }
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let good = ChatSettings { kind: ChatKind::OpenAi, model: Some("m".into()), ..ChatSettings::default() };
    assert!(open(&good).is_ok());
    for (bad, part) in [
        (ChatSettings { model: None, ..good.clone() }, "chat.model"),
        (ChatSettings { url: Some("localhost:1".into()), ..good.clone() }, "`url`"),
        (ChatSettings { url: Some("ftp://h".into()), ..good.clone() }, "neither http:// nor https://"),
        (ChatSettings { concurrency: 0, ..good.clone() }, "chat.concurrency"),
        (ChatSettings { key_file: Some("no/such/file".into()), ..good.clone() }, "key_file"),
    ] {
        let error = open(&bad).unwrap_err();
        assert!(matches!(error, ModelError::Refused(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_key_that_no_header_can_hold_is_an_error_without_the_key() {
    let server = Server::start(vec![Answer::Busy]);
    let settings = ChatSettings { key: Some(Secret("sk-secret\nx: y".into())), ..settings(&server, ChatKind::OpenAi) };

    let error = open(&settings).unwrap().main.unwrap().answer(&question()).await.unwrap_err().to_string();

    assert!(error.contains("check `key`") && !error.contains("sk-secret"), "{error}");
    assert_eq!(server.times_asked(), 0);
}

#[tokio::test]
async fn neither_the_key_nor_what_was_said_is_in_an_error_or_in_the_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let quoting = "Bearer sk-secret: invalid input 'my salary is 4,200 euros a month, is that much?'";
    let server = Server::start(vec![
        Answer::text(503, quoting),
        Answer::Json(400, json!({ "error": { "message": format!("no temperature with {quoting}") } })),
    ]);

    let error = ask(&server, ChatKind::OpenAi).await.unwrap_err().to_string();

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("A model is asked again"), "{log}");
    for text in [&error, &log] {
        assert!(!text.contains("sk-secret") && !text.contains("salary"), "{text}");
    }
}

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
