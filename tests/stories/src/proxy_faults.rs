//! The promise that memory makes nothing worse: whatever the model's server does, a client gets what it gives, and what
//! was said is remembered as far as it got.

use serde_json::{Value, json};
use skymem::config::Config;
use skymem_harness::{Answer, Delivered, Gate, TestServer, Upstream, story_with};

use crate::proxy::{chat, chat_of, text_of, through};

fn streamed(line: &str) -> Value {
    let mut body = chat_of(&[line]);
    body["stream"] = json!(true);
    body
}

/// How often something was counted, over all other labels.
async fn counted(server: &TestServer, name: &str, label: &str) -> f64 {
    let page = server.get("/metrics").await.text;
    let lines = page.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// What was said in a session, in order.
async fn said(server: &TestServer, session: &str) -> Vec<String> {
    server.remembers().await;
    let reply = server.get(&format!("/v1/sessions/{session}/turns")).await;
    let turns = reply.json["turns"].as_array().cloned().unwrap_or_default();
    turns.iter().filter_map(|turn| turn["text"].as_str().map(str::to_owned)).collect()
}

#[test]
fn an_upstreams_refusal_comes_as_it_is() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let body = chat_of(&["user: hi"]);
        let refusals = [
            Answer::too_many_requests(7),
            Answer::breaks(),
            Answer::refusal(400, "context_length_exceeded", "The prompt is too long"),
            Answer::refusal(401, "invalid_api_key", "Incorrect API key"),
            Answer::status(503, "application/json", "not json"),
            Answer::status(418, "text/plain", [0xff, 0x00]),
        ];
        for refusal in refusals {
            upstream.next(refusal.clone());
            upstream.next(refusal);

            let relayed = chat(server, &body).await;

            let direct = upstream.directly(&body).await;
            assert_eq!((relayed.status, &relayed.body), (direct.status, &direct.body));
            for header in ["content-type", "retry-after"] {
                assert_eq!(relayed.header(header), direct.header(header), "{}", relayed.status);
            }
            let session = relayed.header("x-memory-session").expect("memory did its part").to_owned();
            assert_eq!(said(server, &session).await, [""; 0], "nothing was answered");
            let label = format!("status=\"{}\"", relayed.status);
            assert_eq!(counted(server, "skymem_proxy_requests_total", &label).await, 1.0);
        }
    });
}

#[test]
fn an_upstream_that_is_killed_is_a_bad_gateway_until_it_is_back() {
    let mut upstream = Upstream::says("Here I am.");
    story_with(through(&upstream), async |server| {
        upstream.dies();
        let told = chat(server, &chat_of(&["user: hi"])).await;
        assert_eq!((told.status, &told.json()["error"]["code"]), (502, &json!("upstream_unreachable")));
        assert_eq!(counted(server, "skymem_proxy_requests_total", "status=\"502\"").await, 1.0);

        upstream.comes_back();
        assert_eq!(text_of(&chat(server, &chat_of(&["user: hi"])).await), "Here I am.");
    });
}

#[test]
fn an_upstream_that_never_answers_is_a_gateway_timeout() {
    let upstream = Upstream::says("unused");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.upstreams.get_mut("scripted").unwrap().first_byte_timeout_seconds = 1;
    };
    story_with(change, async |server| {
        upstream.next(Answer::hangs());
        let told = chat(server, &chat_of(&["user: hi"])).await;

        assert_eq!((told.status, &told.json()["error"]["code"]), (504, &json!("upstream_timeout")));
        upstream.abandoned(1).await;
    });
}

#[test]
fn an_upstream_that_talks_nonsense_is_a_bad_gateway() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        for nonsense in
            [Answer::garbage(), Answer::raw(""), Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n")]
        {
            upstream.next(nonsense);
            let told = chat(server, &chat_of(&["user: hi"])).await;
            assert_eq!((told.status, &told.json()["error"]["code"]), (502, &json!("upstream_unreachable")));
        }
        upstream.next(Answer::status(200, "application/json", "{\"choices\": [ nonsense"));
        let told = chat(server, &chat_of(&["user: hi"])).await;
        assert_eq!(
            (told.status, told.text().as_str()),
            (200, "{\"choices\": [ nonsense"),
            "it is the client's to judge"
        );
    });
}

#[test]
fn half_a_stream_is_half_a_stream_and_remembered_as_far_as_it_got() {
    let answer = Answer::says("The answer is forty-two.").cut_after(700);
    let script = answer.clone();
    let upstream = Upstream::answers(move |_| script.clone());
    story_with(through(&upstream), async |server| {
        let body = streamed("user: what is the answer?");
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a").json(&body);

        let relayed = Delivered::from(request).await;

        let direct = upstream.directly(&body).await;
        assert_eq!((relayed.status, &relayed.body), (200, &direct.body));
        assert_eq!((relayed.whole, direct.whole), (false, false), "nobody takes it for the whole");
        let said = said(server, "a").await;
        assert_eq!(said[0], "what is the answer?");
        assert!("The answer is forty-two.".starts_with(&said[1]) && !said[1].is_empty(), "{said:?}");
        assert_eq!(counted(server, "skymem_proxy_answers_total", "end=\"half\"").await, 1.0);
    });
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.remember_hangup = false;
    };
    story_with(change, async |server| {
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a");
        Delivered::from(request.json(&streamed("user: what is the answer?"))).await;

        assert_eq!(said(server, "a").await, [""; 0], "as it was set");
    });
}

#[test]
fn an_upstream_that_breaks_the_connection_breaks_it_for_the_client() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let gate = Gate::new();
        let broken = Answer::chunks(["data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n"]).wait(&gate);
        upstream.next(broken.then_resets());
        let mut response =
            server.request("POST", "/v1/chat/completions").json(&streamed("user: hi")).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());
        gate.open();

        assert!(response.chunk().await.is_err());
    });
}

#[test]
fn an_upstream_that_pauses_too_long_is_given_up() {
    let upstream = Upstream::says("unused");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.upstreams.get_mut("scripted").unwrap().idle_timeout_seconds = 1;
    };
    story_with(change, async |server| {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"so\"}}]}\n\n";
        upstream.next(Answer::chunks([event]).wait(&Gate::new()).done());

        let relayed = chat(server, &streamed("user: hi")).await;

        assert_eq!((relayed.text().as_str(), relayed.whole), (event, false));
        upstream.abandoned(1).await;
    });
}

#[test]
fn a_client_that_hangs_up_is_remembered_and_the_model_can_stop() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let gate = Gate::new();
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"Rex is a good dog\"}}]}\n\n";
        upstream.next(Answer::chunks([event]).wait(&gate).done());
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a");
        let mut response = request.json(&streamed("user: tell me about Rex")).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());

        drop(response);

        upstream.abandoned(1).await;
        assert_eq!(said(server, "a").await, ["tell me about Rex", "Rex is a good dog"]);
        assert_eq!(counted(server, "skymem_proxy_answers_total", "end=\"hangup\"").await, 1.0);
    });
}

#[test]
fn a_client_that_hangs_up_before_anything_was_said_leaves_nothing() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let gate = Gate::new();
        upstream.next(Answer::says("too late").after(&gate));
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a");
        let asked = tokio::spawn(request.json(&streamed("user: hi")).send());
        gate.reached().await;

        asked.abort();

        upstream.abandoned(1).await;
        assert_eq!(said(server, "a").await, [""; 0]);
    });
}

#[test]
fn an_answer_that_was_passed_on_survives_the_servers_stop() {
    let upstream = Upstream::says("Rex, of course.");
    story_with(through(&upstream), async |server| {
        for n in 0..5 {
            let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a");
            let told = Delivered::from(request.json(&chat_of(&[&format!("user: question {n}")]))).await;
            assert_eq!(told.status, 200);
        }

        server.restarts().await;

        assert_eq!(said(server, "a").await.len(), 10);
    });
}

#[test]
fn an_answer_under_way_is_ended_when_the_server_stops_and_what_was_said_is_kept() {
    let upstream = Upstream::says("unused");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.server.shutdown_seconds = 1;
    };
    story_with(change, async |server| {
        let event = "data: {\"choices\":[{\"delta\":{\"content\":\"Rex is\"}}]}\n\n";
        upstream.next(Answer::chunks([event]).wait(&Gate::new()).done());
        let request = server.request("POST", "/v1/chat/completions").header("x-memory-session", "a");
        let mut response = request.json(&streamed("user: who is Rex?")).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());

        server.restarts().await;

        assert!(response.chunk().await.is_err(), "half is not taken for the whole");
        assert_eq!(said(server, "a").await, ["who is Rex?", "Rex is"]);
    });
}
