//! The promises to whoever pays for the model: nobody asks it but the person who talks to it, and what memory put into a
//! prompt never becomes a memory again.

use serde_json::{Value, json};
use skymem::config::Config;
use skymem_harness::{Answer, Heard, Reply, TestServer, Upstream, story_with};

#[test]
fn a_thousand_exchanges_without_a_chat_model_of_our_own_cost_no_call() {
    let upstream = Upstream::says("Noted.");
    story_with(before(&upstream), async |server| {
        for session in 0..20 {
            let session = format!("s{session}");
            let said = |n| {
                [
                    ("user", format!("Birch number {n} of {session} stands by the water.")),
                    ("assistant", "Noted.".into()),
                ]
            };
            let turn = |(role, text)| json!({ "session": session, "role": role, "content": text });
            let turns: Vec<_> = (0..49).flat_map(said).map(turn).collect();
            server.post("/v1/turns", json!({ "turns": turns })).await.expect(200);
            server.says(&session, "And what about the tallest of them?", "It stands on the hill.").await;

            let follow_up = server.context_for(&session, "Why does it stand there?").await;

            assert!(follow_up.contains("It stands on the hill."), "{follow_up}");
            assert!(!server.recall("Which birch stands by the water?").await.is_empty());
        }
        assert_eq!(server.get("/v1/stats").await.expect(200)["exchanges"], 1_000);

        assert!(upstream.heard().is_empty(), "{:?}", upstream.heard());

        // Whoever talks to the model does call it, and that is the one call.
        chat(server, &[user("Which birch stands by the water?")]).await.expect(200);
        server.catches_up().await;
        assert_eq!((upstream.heard().len(), upstream.calls()), (1, 1));
    });
}

#[test]
fn a_fact_that_memory_injects_fifty_times_is_stored_once() {
    let upstream = Upstream::says("I see.");
    story_with(before(&upstream), async |server| {
        server.says("before", &fact(), "Poor Rex.").await;

        for fear in FEARS {
            chat_in(server, fear, &[user(&question(fear))]).await.expect(200);
            server.catches_up().await;
            assert_eq!(times(&upstream.last().everything()), 1, "{}", upstream.last().text());
        }

        is_stored_once(server, 51).await;
    });
}

#[test]
fn a_client_that_sends_back_what_memory_injected_stores_nothing_twice() {
    let upstream = Upstream::says("I see.");
    story_with(before(&upstream), async |server| {
        server.says("before", &fact(), "Poor Rex.").await;
        let mut conversation = Vec::new();

        for fear in FEARS {
            conversation.push(user(&question(fear)));
            chat(server, &conversation).await.expect(200);
            server.catches_up().await;
            let heard = upstream.last();
            assert_eq!(times(&heard.everything()), 1, "{}", heard.text());
            // The whole prompt as the model had it, injected messages and all.
            conversation = heard.messages();
            conversation.push(json!({ "role": "assistant", "content": "I see." }));
        }

        is_stored_once(server, 51).await;
    });
}

#[test]
fn a_model_that_repeats_what_memory_injected_stores_nothing_twice() {
    let upstream = Upstream::answers(|heard| Answer::says(&format!("You said:\n{}\nThat is all.", injected(heard))));
    story_with(before(&upstream), async |server| {
        server.says("before", &fact(), "Poor Rex.").await;

        for fear in FEARS {
            chat_in(server, fear, &[user(&question(fear))]).await.expect(200);
            server.catches_up().await;
            assert_eq!(times(&upstream.last().everything()), 1, "{}", upstream.last().text());
        }

        is_stored_once(server, 51).await;
    });
}

/// What the dog hides from: each is a reason to recall it once more.
const FEARS: [&str; 50] = [
    "fireworks",
    "thunder",
    "balloons",
    "umbrellas",
    "tractors",
    "whistles",
    "ladders",
    "parrots",
    "drums",
    "scooters",
    "brooms",
    "statues",
    "trumpets",
    "elevators",
    "wheelbarrows",
    "helmets",
    "puppets",
    "kites",
    "lanterns",
    "hedgehogs",
    "bagpipes",
    "sprinklers",
    "escalators",
    "mirrors",
    "geese",
    "chainsaws",
    "mascots",
    "hammocks",
    "robots",
    "sirens",
    "skateboards",
    "cymbals",
    "curtains",
    "tunnels",
    "bridges",
    "gloves",
    "magnets",
    "cactuses",
    "turnstiles",
    "pianos",
    "drones",
    "sledges",
    "windmills",
    "carousels",
    "beekeepers",
    "submarines",
    "fountains",
    "marionettes",
    "zeppelins",
    "vacuums",
];

fn fact() -> String {
    format!("My dog Rex hides from {}.", FEARS.join(", "))
}

/// Like nothing that was asked before, so that the fact is what comes to mind.
fn question(fear: &str) -> String {
    format!("{fear}?")
}

/// One stored exchange says it, and recall finds it in no other.
async fn is_stored_once(server: &TestServer, exchanges: u64) {
    assert_eq!(server.get("/v1/stats").await.expect(200)["exchanges"], exchanges);
    let stored = server.get("/v1/exchanges?limit=200").await.expect(200)["exchanges"].to_string();
    assert_eq!(times(&stored), 1, "{stored}");
    let found = server.recall_as(json!({ "query": fact(), "top_k": 20 })).await["recalls"].to_string();
    assert_eq!(times(&found), 1, "{found}");
}

/// How often a text tells what the dog hides from.
fn times(text: &str) -> usize {
    text.matches("Rex hides from").count()
}

/// What the model was told beside the person's own words.
fn injected(heard: &Heard) -> String {
    let messages = heard.messages();
    let texts = messages.iter().filter(|message| message["role"] != "user").filter_map(|it| it["content"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Has chats pass through to the model server.
fn before(upstream: &Upstream) -> impl FnOnce(&mut Config) + use<> {
    let url = upstream.url();
    move |config| config.proxy.upstreams.entry("models".to_owned()).or_default().url = url
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

async fn chat(server: &TestServer, messages: &[Value]) -> Reply {
    server.post("/v1/chat/completions", json!({ "model": "scripted", "messages": messages })).await
}

/// A chat of a conversation that the client names.
async fn chat_in(server: &TestServer, session: &str, messages: &[Value]) -> Reply {
    let metadata = json!({ "session_id": session });
    let body = json!({ "model": "scripted", "messages": messages, "metadata": metadata });
    server.post("/v1/chat/completions", body).await
}
