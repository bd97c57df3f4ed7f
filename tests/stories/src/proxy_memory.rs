//! The promise of a memory that comes along: what was said once is there later, and nothing is remembered twice.

use serde_json::{Value, json};
use skymem_engine::ItemsPlace;
use skymem_harness::{Answer, Client, Delivered, TestServer, Upstream, story_with};

use crate::proxy::{chat, chat_of, files_speak, text_of, through};

/// What a client gets for a chat in a session.
pub(crate) async fn chat_in(client: &Client, session: &str, lines: &[&str]) -> Delivered {
    let request = client.request("POST", "/v1/chat/completions").header("x-memory-session", session);
    Delivered::from(request.json(&chat_of(lines))).await
}

/// What was said in a session, in order, as `role: words`.
async fn said(server: &TestServer, client: &Client, session: &str) -> Vec<String> {
    server.remembers().await;
    let reply = client.get(&format!("/v1/sessions/{session}/turns")).await;
    let turns = reply.json["turns"].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    turns.iter().map(|turn| format!("{}: {}", word(&turn["role"]), word(&turn["text"]))).collect()
}

/// The messages of the newest request, as `role: words`.
fn sent(upstream: &Upstream) -> Vec<String> {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    upstream.last().messages().iter().map(|it| format!("{}: {}", word(&it["role"]), word(&it["content"]))).collect()
}

fn only_items(config: &mut skymem::config::Config) {
    config.layers.remove("files");
}

#[test]
fn what_was_said_in_one_chat_is_there_in_the_next() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        only_items(config);
    };
    story_with(change, async |server| {
        let first = chat(server, &chat_of(&["system: Be kind.", "user: My dog is called Rex."])).await;
        assert_eq!(first.header("x-memory-status"), Some("empty"));
        assert_eq!(sent(&upstream), ["system: Be kind.", "user: My dog is called Rex."]);
        server.catches_up().await;
        server.days_pass(1);

        let later = chat(server, &chat_of(&["system: Be kind.", "user: What is my dog called?"])).await;

        assert_eq!(text_of(&later), "Noted.");
        let sent = sent(&upstream);
        assert_eq!(sent.len(), 3, "{sent:#?}");
        assert_eq!((sent[0].as_str(), sent[2].as_str()), ("system: Be kind.", "user: What is my dog called?"));
        assert!(sent[1].starts_with("system: <<<CONTEXT>>>") && sent[1].contains("Rex"), "{}", sent[1]);
        assert_eq!(later.header("x-memory-status"), Some("used"));
        // The exchange, and two facts that stand in it: whose dog Rex is, and that he is one.
        assert_eq!(later.header("x-memory-items"), Some("3"));
        assert!(later.header("x-memory-tokens").unwrap().parse::<usize>().unwrap() > 10);
        assert!(later.header("x-memory-ms").unwrap().parse::<f64>().unwrap() > 0.0);
        assert_ne!(later.header("x-memory-session"), first.header("x-memory-session"));
    });
}

#[test]
fn a_conversation_is_known_by_what_was_said_and_written_down_once() {
    let upstream = Upstream::answers(|heard| Answer::says(&format!("You said: {}", heard.said())));
    story_with(through(&upstream), async |server| {
        let mut lines = vec!["system: Be kind.".to_owned()];
        let mut sessions = std::collections::BTreeSet::new();
        for text in ["hi", "tea or coffee?", "yes", "yes"] {
            lines.push(format!("user: {text}"));
            let lines_now: Vec<&str> = lines.iter().map(String::as_str).collect();
            let told = chat(server, &chat_of(&lines_now)).await;
            sessions.insert(told.header("x-memory-session").unwrap().to_owned());
            lines.push(format!("assistant: {}", text_of(&told)));
            server.remembers().await;
        }

        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let session = sessions.pop_first().unwrap();
        assert!(session.starts_with("chat-"), "{session}");
        assert_eq!(said(server, server, &session).await, lines[1..]);
    });
}

#[test]
fn what_the_client_sends_itself_is_not_recalled_and_the_rest_of_a_session_is() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        only_items(config);
    };
    story_with(change, async |server| {
        chat_in(server, "a", &["user: The heron database is Postgres."]).await;
        server.catches_up().await;
        let whole = ["user: The heron database is Postgres.", "assistant: Noted.", "user: What is the heron database?"];

        assert_eq!(chat_in(server, "a", &whole).await.header("x-memory-items"), Some("0"));
        server.catches_up().await;
        chat_in(server, "a", &["user: Which heron database was that?"]).await;

        assert!(upstream.last().everything().contains("Postgres"), "{:#?}", sent(&upstream));
    });
}

#[test]
fn a_question_waits_until_the_answer_before_it_is_written_down() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        only_items(config);
    };
    story_with(change, async |server| {
        let journals = server.holds_the_journals().await;
        let first = chat(server, &chat_of(&["user: The heron database is Postgres."])).await;
        let whole = ["user: The heron database is Postgres.", "assistant: Noted.", "user: What is the heron database?"];
        let body = chat_of(&whole);
        let mut next = std::pin::pin!(chat(server, &body));

        let early = tokio::time::timeout(std::time::Duration::from_millis(800), &mut next).await;
        assert!(early.is_err(), "it did not wait");
        drop(journals);
        let next = next.await;

        assert_eq!(next.header("x-memory-session"), first.header("x-memory-session"));
        assert_eq!(next.header("x-memory-items"), Some("0"));
    });
}

#[test]
fn what_a_model_was_told_of_counts_as_used_once_it_has_answered() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        only_items(config);
    };
    story_with(change, async |server| {
        let me = server.memory().user_named(&"me".parse().unwrap()).await.unwrap().unwrap().id;
        let used = async || server.rows_of(me).await.get("episodes.use").cloned();
        server.says("a", "The heron database is Postgres.", "Noted.").await;
        let told = async |mode: &str| {
            let request = server.request("POST", "/v1/chat/completions").header("x-memory", mode);
            let told = Delivered::from(request.json(&chat_of(&["user: What is the heron database?"]))).await;
            assert!(upstream.last().everything().contains("Postgres"), "{mode}: {:#?}", sent(&upstream));
            server.remembers().await;
            told
        };

        told("read").await;
        assert_eq!(used().await, None, "who only reads leaves no trace");
        upstream.next(Answer::refusal(500, "down", "later"));
        assert_eq!(told("readwrite").await.status, 500);
        assert_eq!(used().await, None, "no model answered");

        told("readwrite").await;
        let once = used().await.expect("it was used");
        assert_eq!(once.0, 1);
        server.time_passes(chrono::TimeDelta::hours(1));
        told("readwrite").await;
        assert_ne!(used().await.expect("it was used"), once, "it was used again");
    });
}

#[test]
fn the_beginning_of_a_prompt_stays_the_same_over_a_session() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        let now = server.memory_files("me").join("NOW.md");
        std::fs::write(&now, "# Now\n\nI am writing a book on owls.\n").unwrap();
        let body = json!({ "headings": ["Now"], "text": "The deadline is in May." });
        server.post("/v1/files/NOW.md/append", body.clone()).await.expect(200);
        let mut lines = vec!["system: Be kind.".to_owned()];
        let mut prefixes = Vec::new();
        for n in 0..3 {
            lines.push(format!("user: question {n}"));
            let all: Vec<&str> = lines.iter().map(String::as_str).collect();
            let told = chat(server, &chat_of(&all)).await;
            lines.push(format!("assistant: {}", text_of(&told)));
            server.catches_up().await;
            let text = upstream.last().text();
            prefixes.push(text[..text.find("question 0").unwrap()].to_owned());
            let more = json!({ "headings": ["Now"], "text": format!("Chapter {n} is done.") });
            server.post("/v1/files/NOW.md/append", more).await.expect(200);
        }

        assert!(prefixes[0].contains("owls") && prefixes[0].contains("in May"), "{}", prefixes[0]);
        // What is recalled may come and go, but not before what was there.
        assert!(prefixes.iter().all(|prefix| *prefix == prefixes[0]), "{prefixes:#?}");
        let fresh = chat(server, &chat_of(&["user: another chat"])).await;
        assert_eq!(fresh.status, 200);
        assert!(upstream.last().text().contains("Chapter 2 is done."), "a new session sees the files as they are");
    });
}

#[test]
fn memory_does_what_the_switch_says() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        files_speak(server).await;
        let ask = async |mode: &str, session: &str| {
            let request = server.request("POST", "/v1/chat/completions");
            let request = request.header("x-memory", mode).header("x-memory-session", session);
            Delivered::from(request.json(&chat_of(&["user: My cat is called Tom."]))).await
        };
        for (mode, status, reads, writes) in [
            ("off", "off", false, false),
            ("read", "used", true, false),
            ("write", "off", false, true),
            ("readwrite", "used", true, true),
        ] {
            let told = ask(mode, mode).await;
            assert_eq!(told.header("x-memory-status"), Some(status), "{mode}");
            assert_eq!(upstream.last().everything().contains("<<<MEMORY>>>"), reads, "{mode}");
            assert_eq!(!said(server, server, mode).await.is_empty(), writes, "{mode}");
        }

        let mut by_model = chat_of(&["user: hi"]);
        by_model["model"] = json!("llama3:8b:nomem");
        let told = chat(server, &by_model).await;
        assert_eq!(told.header("x-memory-status"), Some("off"));
        assert_eq!(upstream.last().text(), by_model.to_string().replace(":nomem", ""));
        by_model["model"] = json!("llama3:mem-read");
        assert_eq!(chat(server, &by_model).await.header("x-memory-status"), Some("used"));
        assert_eq!(upstream.last().model(), "llama3");
        by_model["metadata"] = json!({ "memory": "off" });
        assert_eq!(chat(server, &by_model).await.header("x-memory-status"), Some("off"));
        assert_eq!(upstream.last().json()["metadata"], by_model["metadata"], "what is not a message stays");

        let setting = json!({ "memory": "off" });
        server.patch("/v1/sessions/quiet", setting).await.expect(200);
        let told = chat_in(server, "quiet", &["user: between us"]).await;
        assert_eq!((told.status, told.header("x-memory-status")), (200, Some("off")));
        assert_eq!(said(server, server, "quiet").await, [""; 0], "a session's own word is never exceeded");
    });
}

#[test]
fn what_was_said_off_the_record_is_not_made_up_for() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        chat_in(server, "a", &["user: hi"]).await;
        server.remembers().await;
        let quiet =
            server.request("POST", "/v1/chat/completions").header("x-memory", "off").header("x-memory-session", "a");
        Delivered::from(quiet.json(&chat_of(&["user: hi", "assistant: Noted.", "user: between us"]))).await;

        let lines = ["user: hi", "assistant: Noted.", "user: between us", "assistant: Noted.", "user: tea?"];
        chat_in(server, "a", &lines).await;

        assert_eq!(
            said(server, server, "a").await,
            ["user: hi", "assistant: Noted.", "user: tea?", "assistant: Noted."]
        );
    });
}

#[test]
fn a_collection_and_a_budget_can_be_asked_for() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        only_items(config);
    };
    story_with(change, async |server| {
        let ask = async |collection: &str, budget: &str, text: &str| {
            let request = server.request("POST", "/v1/chat/completions").header("x-memory-collection", collection);
            let told = Delivered::from(request.header("x-memory-budget", budget).json(&chat_of(&[text]))).await;
            server.catches_up().await;
            told
        };
        ask("work", "2000", "user: The heron project is due in May.").await;

        assert_eq!(
            ask("home", "2000", "user: When is the heron project due?").await.header("x-memory-items"),
            Some("0")
        );
        let tight = ask("work", "1", "user: When exactly is the heron project due?").await;
        assert_eq!((tight.header("x-memory-items"), tight.header("x-memory-gaps")), (Some("0"), Some("episodes")));
        let found = ask("work", "2000", "user: So when is the heron project due?").await;
        assert_ne!(found.header("x-memory-items"), Some("0"));
        assert!(upstream.last().everything().contains("due in May"));
    });
}

#[test]
fn what_a_chat_page_asks_for_itself_is_no_conversation() {
    let upstream = Upstream::says("A title");
    story_with(through(&upstream), async |server| {
        let task = "user: ### Task:\nGenerate a concise, 3-5 word title\n### Chat History:\n<chat_history>USER: hi</chat_history>";
        for line in [task, "user: Provide a concise, 5-word-or-less title for the conversation."] {
            let body = chat_of(&[line]);
            let told = chat(server, &body).await;
            assert_eq!(told.header("x-memory-status"), Some("utility"));
            assert_eq!(upstream.last().json(), body);
        }
        server.remembers().await;
        assert_eq!(server.get("/v1/sessions").await.expect(200)["sessions"], json!([]));
        let page = server.get("/metrics").await.text;
        assert!(page.contains("memory=\"utility\""), "{page}");
    });
}

#[test]
fn a_round_of_tools_is_remembered_as_one_exchange_and_stays_together() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let mut body = chat_of(&["user: Will it rain in Rome?"]);
        body["tools"] = json!([{ "type": "function", "function": { "name": "weather", "parameters": {} } }]);
        upstream.next(Answer::calls(&[("weather", json!({ "city": "Rome" }))]));
        let called = chat(server, &body).await.json();
        let call = called["choices"][0]["message"].clone();
        server.catches_up().await;
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(call.clone());
        messages.push(json!({ "role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "sunny" }));
        upstream.next(Answer::says("No, it will be sunny."));
        let told = chat(server, &body).await;
        server.catches_up().await;

        let got = upstream.last().messages();
        let from = got.iter().position(|message| message["role"] == "user").unwrap();
        assert_eq!(
            got[from..],
            body["messages"].as_array().unwrap()[..],
            "nothing stands between a call and its result"
        );
        let session = told.header("x-memory-session").unwrap();
        let exchanges = server.get("/v1/exchanges").await.expect(200);
        assert_eq!(exchanges["exchanges"].as_array().unwrap().len(), 1, "{exchanges:#}");
        let said = said(server, server, session).await;
        assert_eq!(said.len(), 4, "{said:#?}");
        assert_eq!(
            (said[0].as_str(), said[3].as_str()),
            ("user: Will it rain in Rome?", "assistant: No, it will be sunny.")
        );
    });
}

#[test]
fn memory_that_comes_back_in_the_history_is_neither_kept_nor_doubled() {
    let upstream = Upstream::echo();
    story_with(through(&upstream), async |server| {
        files_speak(server).await;
        server.says("old", "My editor is called Ruth.", "Noted.").await;
        let mut lines = Vec::new();
        for n in 0..4 {
            lines.push(format!("user: Who is my editor, number {n}?"));
            let all: Vec<&str> = lines.iter().map(String::as_str).collect();
            let told = chat_in(server, "a", &all).await;
            lines.push(format!("assistant: {}", text_of(&told)));
            server.catches_up().await;
        }
        // A client that sends back all that it can see of a request.
        let mut echoed = upstream.last().json();
        echoed["messages"].as_array_mut().unwrap().push(json!({ "role": "user", "content": "Who is my editor now?" }));
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a").json(&echoed);
        assert_eq!(Delivered::from(request).await.status, 200);

        let last = sent(&upstream);
        let blocks = |marker: &str| last.iter().filter(|line| line.starts_with(&format!("system: {marker}"))).count();
        assert_eq!((blocks("<<<MEMORY>>>"), blocks("<<<CONTEXT>>>")), (1, 1), "{last:#?}");
        let kept = said(server, server, "a").await;
        assert!(!kept.iter().filter(|line| line.starts_with("user")).any(|line| line.contains("<<<")), "{kept:#?}");
    });
}

#[test]
fn the_items_can_stand_in_the_question_for_models_that_allow_one_instruction() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        config.proxy.items = ItemsPlace::Question;
    };
    story_with(change, async |server| {
        files_speak(server).await;
        server.says("old", "My editor is called Ruth.", "Noted.").await;
        let lines = ["system: Be kind.", "user: hi", "assistant: hello", "user: Who is my editor?"];
        chat(server, &chat_of(&lines)).await;

        let sent = sent(&upstream);
        assert_eq!(sent.len(), 4, "{sent:#?}");
        assert!(sent[0].starts_with("system: Be kind.\n\n<<<MEMORY>>>"));
        assert!(
            sent[3].starts_with("user: <<<CONTEXT>>>") && sent[3].ends_with("\n\nWho is my editor?"),
            "{}",
            sent[3]
        );
        let picture = json!([{ "type": "text", "text": "Is this my editor?" }, { "type": "image_url", "image_url": { "url": "data:," } }]);
        let body = json!({ "model": "m", "messages": [{ "role": "user", "content": picture }] });
        chat(server, &body).await;
        let got = upstream.last().messages().pop().unwrap()["content"].clone();
        assert!(got[0]["text"].as_str().unwrap().starts_with("<<<CONTEXT>>>"), "{got}");
        assert_eq!((&got[1], &got[2]), (&picture[0], &picture[1]));
    });
}

#[test]
fn a_long_question_is_recalled_by_its_end() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        server.says("old", "The password hint for the vault is a blue heron.", "Noted.").await;
        let filler = "The quarterly report lists revenue, costs and headcount by region and month. ".repeat(65);
        assert!(filler.len() > 5_000);

        let told =
            chat(server, &chat_of(&[&format!("user: {filler}\nWhat was the password hint for the vault?")])).await;

        assert_eq!(told.status, 200);
        assert!(upstream.last().everything().contains("blue heron"), "{:?}", told.headers);
    });
}

#[test]
fn nobody_meets_the_memory_of_another() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        let ask = async |client: &Client, header: Option<(&str, &str)>, user: Option<&str>, text: &str| {
            let mut body = chat_of(&[text]);
            if let Some(user) = user {
                body["user"] = json!(user);
            }
            let mut request = client.request("POST", "/v1/chat/completions").json(&body);
            if let Some((name, value)) = header {
                request = request.header(name, value);
            }
            let told = Delivered::from(request).await;
            server.catches_up().await;
            (told.status, upstream.last().everything().contains("violet"))
        };
        let secret = "user: My favourite colour is violet.";
        let asked = "user: What is my favourite colour?";
        let page = |id| Some(("x-openwebui-user-id", id));

        // An admin's key acts for the people of a chat page, each with a memory of their own.
        assert_eq!(ask(server, page("7f-Anna@Home"), None, secret).await.0, 200);
        assert_eq!(ask(server, page("7f-Anna@Home"), None, asked).await, (200, true));
        assert_eq!(ask(server, page("8a-berta"), None, asked).await, (200, false));
        assert_eq!(ask(server, None, Some("carla"), asked).await, (200, false));
        assert_eq!(ask(server, None, None, asked).await, (200, false));
        // A key that is no admin's has one memory, whatever is said.
        let made = server.for_user("carla").post("/v1/keys", json!({ "name": "x", "scopes": ["read", "write"] })).await;
        let carla = server.with_key(made.expect(201)["text"].as_str().unwrap());
        assert_eq!(ask(&carla, page("7f-Anna@Home"), Some("7f-Anna@Home"), asked).await, (200, false));
        let (status, _) = ask(&carla, Some(("x-memory-user", "me")), None, asked).await;
        assert_eq!(status, 403, "who is named outright must be allowed");
        assert_eq!(ask(&carla, None, Some("anna"), secret).await.0, 200);
        assert_eq!(ask(server, None, Some("carla"), asked).await, (200, true), "it was hers");
    });
}

#[test]
fn a_key_does_what_its_scopes_allow() {
    let upstream = Upstream::says("Noted.");
    story_with(through(&upstream), async |server| {
        files_speak(server).await;
        let made = server.post("/v1/keys", json!({ "name": "reader", "scopes": ["read"] })).await.expect(201);
        let reader = server.with_key(made["text"].as_str().unwrap());

        let told = chat_in(&reader, "a", &["user: My cat is called Tom."]).await;

        assert_eq!((told.status, told.header("x-memory-status")), (200, Some("used")));
        assert_eq!(said(server, server, "a").await, [""; 0]);
    });
}

#[test]
fn a_conversation_that_began_elsewhere_is_taken_over_with_its_past() {
    let upstream = Upstream::says("Noted.");
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        config.proxy.most_turns = 4;
    };
    story_with(change, async |server| {
        let lines =
            ["user: one", "assistant: 1", "user: two", "assistant: 2", "user: three", "assistant: 3", "user: four"];
        let told = chat(server, &chat_of(&lines)).await;

        let session = told.header("x-memory-session").unwrap();
        let expected = ["assistant: 2", "user: three", "assistant: 3", "user: four", "assistant: Noted."];
        assert_eq!(said(server, server, session).await, expected);
    });
}
