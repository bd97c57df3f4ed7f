//! The promise of one request: everything the assistant should know, in order, within the budget, with what is missing.

use serde_json::{Value, json};
use skymem_harness::{story, story_with};

fn contents(context: &Value) -> Vec<&str> {
    context["messages"].as_array().into_iter().flatten().filter_map(|message| message["content"].as_str()).collect()
}

fn roles(context: &Value) -> Vec<&str> {
    context["messages"].as_array().into_iter().flatten().filter_map(|message| message["role"].as_str()).collect()
}

#[test]
fn the_messages_come_in_the_order_in_which_they_are_to_be_sent() {
    story(async |server| {
        std::fs::write(server.memory_files("me").join("NOW.md"), "# Now\n\nI am writing a book on owls.\n").unwrap();
        let body = json!({ "headings": ["Now"], "text": "The deadline is in May." });
        server.post("/v1/files/NOW.md/append", body).await.expect(200);
        server.says("old", "My editor is called Ruth.", "Ruth, noted.").await;
        server.days_pass(3);
        server.says("now", "Good morning!", "Good morning.").await;

        let request =
            json!({ "session": "now", "question": "Who is my editor?", "system": "You are a helpful assistant." });
        let context = server.context_as(request).await;

        let contents = contents(&context);
        assert_eq!(roles(&context), ["system", "user", "assistant", "system", "user"], "{context:#}");
        assert!(contents[0].starts_with("You are a helpful assistant."));
        assert!(contents[0].contains("a book on owls") && contents[0].contains("The deadline is in May."));
        assert_eq!(contents[1..3], ["Good morning!", "Good morning."]);
        assert!(contents[3].starts_with("<<<CONTEXT>>>") && contents[3].ends_with("<<<END CONTEXT>>>"));
        assert!(contents[3].contains("[S: 2026-02-02]") && contents[3].contains("Ruth"), "{}", contents[3]);
        assert_eq!(contents[4], "Who is my editor?");
        assert_eq!(context["items"][0]["citation"], "[S: 2026-02-02]");
        assert_eq!(context["items"][0]["session"], "old");
        assert_eq!(context["gaps"], json!([]));
        assert!(context["spent"]["total"].as_u64() <= context["spent"]["budget"].as_u64());
    });
}

#[test]
fn nothing_remembered_is_an_answer_and_no_invention() {
    story(async |server| {
        let context = server.context_as(json!({ "question": "Who is my editor?", "layers": ["episodes"] })).await;

        assert_eq!(contents(&context), ["Who is my editor?"]);
        assert_eq!(context["items"], json!([]));
    });
}

#[test]
fn a_small_budget_is_kept_and_the_reply_says_what_it_cost() {
    story(async |server| {
        for number in 0..6 {
            let text = format!("Note {number}: the heron database {}", "needs a very careful migration ".repeat(12));
            server.says("now", &text, "Understood.").await;
        }
        for budget in [120, 200, 400, 800, 1_600] {
            let request = json!({ "session": "now", "question": "heron migration?", "budget_tokens": budget });
            let context = server.context_as(request).await;

            assert!(context["spent"]["total"].as_u64() <= Some(budget), "{context:#}");
            assert_eq!(contents(&context).last(), Some(&"heron migration?"));
            let left_out = context["left_out"].as_array().unwrap();
            assert!(budget > 400 || !left_out.is_empty(), "{context:#}");
        }
    });
}

#[test]
fn a_layer_that_is_too_late_is_named_and_the_chat_goes_on() {
    let hurried = |config: &mut skymem::config::Config| {
        config.engine.context.layer_deadline_ms.insert("episodes".into(), 0);
    };
    story_with(hurried, async |server| {
        server.says("old", "My editor is called Ruth.", "Ruth, noted.").await;

        let context = server.context("now", "Who is my editor?").await;

        let gaps: Vec<(&str, &str)> = context["gaps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|gap| (gap["of"].as_str().unwrap(), gap["reason"].as_str().unwrap()))
            .collect();
        assert_eq!(gaps, [("episodes", "late")]);
        assert_eq!(contents(&context).last(), Some(&"Who is my editor?"));
    });
}

#[test]
fn the_questions_own_time_words_find_the_day() {
    story(async |server| {
        for day in ["soup", "pasta", "salad", "pizza", "curry"] {
            server.says(day, &format!("For lunch I had {day}."), "Enjoy!").await;
            server.days_pass(1);
        }

        let yesterday = server.recall_as(json!({ "query": "What did I have for lunch yesterday?" })).await;
        let before = server.recall_as(json!({ "query": "What did I have for lunch three days ago?" })).await;

        let first = |reply: &Value| reply["recalls"][0]["text"].as_str().unwrap_or_default().to_owned();
        assert!(first(&yesterday).contains("curry"), "{yesterday:#}");
        assert!(first(&before).contains("salad"), "{before:#}");
        assert!(yesterday["time_hint"]["from"].is_string());
    });
}

#[test]
fn yesterday_is_the_one_where_the_user_lives() {
    story(async |server| {
        let me = server.patch("/v1/me", json!({ "timezone": "Pacific/Auckland" })).await.expect(200);
        let asked = json!({ "query": "What did I say yesterday?", "asked_at": "2026-02-06T12:30:00Z" });

        let reply = server.recall_as(asked).await;

        assert_eq!((&me["user"], &me["timezone"]), (&json!("me"), &json!("Pacific/Auckland")));
        assert_eq!(reply["time_hint"], json!({ "from": "2026-02-05T11:00:00Z", "until": "2026-02-06T11:00:00Z" }));
    });
}

#[test]
fn what_is_put_into_a_context_counts_as_used_and_an_explanation_does_not() {
    story(async |server| {
        let me = server.memory().user_named(&"me".parse().unwrap()).await.unwrap().unwrap().id;
        let used = async || server.rows_of(me).await.get("episodes.use").map(|(count, _)| *count);
        server.says("old", "My editor is called Ruth.", "Ruth, noted.").await;

        for rest in [json!({ "explain": true }), json!({ "memory": "read" })] {
            let mut request = json!({ "session": "now", "question": "Who is my editor?" });
            request.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            assert!(contents(&server.context_as(request).await).concat().contains("Ruth"), "{rest}");
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert_eq!(used().await, None);

        server.context("now", "Who is my editor?").await;
        // Nobody waits until it is noted.
        for _ in 0..500 {
            if used().await == Some(1) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("nothing was noted");
    });
}

#[test]
fn what_was_put_into_a_prompt_is_not_remembered_when_it_comes_back() {
    story(async |server| {
        server.says("old", "My editor is called Ruth.", "Ruth, noted.").await;
        let context = server.context("now", "Who is my editor?").await;
        let block = contents(&context).into_iter().find(|content| content.starts_with("<<<CONTEXT>>>")).unwrap();

        let told = server.tells("now", "system", block).await;
        let both = server.tells("now", "user", &format!("{block}\n\nWho is my editor?")).await;

        assert_eq!(told.json["turns"][0]["fate"], "injected", "{}", told.text);
        assert_eq!(both.json["turns"][0]["fate"], "stored");
        let turns = server.get("/v1/sessions/now/turns").await.expect(200);
        assert_eq!(turns["turns"][0]["text"], "Who is my editor?");
    });
}

#[test]
fn a_session_that_is_not_to_be_remembered_leaves_nothing_behind() {
    story(async |server| {
        let body = json!({ "role": "user", "content": "a secret", "memory": "read" });
        let told = server.post("/v1/sessions/private/turns", body).await;
        server.patch("/v1/sessions/quiet", json!({ "memory": "off" })).await.expect(200);
        let quiet = server.tells("quiet", "user", "a secret").await;

        for reply in [told, quiet] {
            assert_eq!(reply.json["turns"][0]["fate"], "not_kept", "{}", reply.text);
        }
        assert_eq!(server.get("/v1/sessions/private").await.problem(404), "not-found");
        assert_eq!(server.get("/v1/exchanges").await.expect(200)["exchanges"], json!([]));
    });
}

#[test]
fn what_is_older_than_a_sessions_own_age_is_not_recalled() {
    story(async |server| {
        server.patch("/v1/sessions/short", json!({ "max_age_hours": 24 })).await.expect(200);
        server.says("short", "The heron database listens on port 5544.", "Noted.").await;
        server.says("long", "The osprey database listens on port 6655.", "Noted.").await;
        let recall = async || server.recall("Which port does the database listen on?").await.join("\n");
        let fresh = recall().await;

        server.days_pass(2);

        assert!(fresh.contains("5544") && fresh.contains("6655"), "{fresh}");
        let stale = recall().await;
        assert!(!stale.contains("5544") && stale.contains("6655"), "{stale}");
    });
}

#[test]
fn of_a_session_with_a_cap_only_its_newest_turns_are_recalled() {
    story(async |server| {
        server.patch("/v1/sessions/short", json!({ "max_turns": 4 })).await.expect(200);
        for (name, port) in [("heron", 5544), ("osprey", 6655), ("falcon", 7766)] {
            server.says("short", &format!("The {name} database listens on port {port}."), "Noted.").await;
        }

        let recalls = server.recall("Which port does the database listen on?").await.join("\n");

        assert!(!recalls.contains("5544") && recalls.contains("6655") && recalls.contains("7766"), "{recalls}");
    });
}
