//! The promise of the proxy: a client talks to its model as ever, and gets every byte that the model sends.

use serde_json::{Value, json};
use skymem::config::Config;
use skymem_harness::{Answer, Client, Delivered, Gate, TestServer, Upstream, cjk, story, story_with};

/// Has a server talk to `upstream`.
pub(crate) fn through(upstream: &Upstream) -> impl FnOnce(&mut Config) + use<> {
    let url = upstream.url();
    move |config| {
        config.proxy.upstreams.entry("scripted".into()).or_default().url = url;
        // A busy machine must not fail a story that is not about deadlines.
        config.proxy.context_deadline_ms = 30_000;
    }
}

/// A chat of these messages, as `system: words`, `user: words` or `assistant: words`.
pub(crate) fn chat_of(lines: &[&str]) -> Value {
    let message = |line: &&str| {
        let (role, content) = line.split_once(": ").expect("a role and words");
        json!({ "role": role, "content": content })
    };
    json!({ "model": "scripted", "messages": lines.iter().map(message).collect::<Vec<_>>() })
}

/// What a client gets for a chat request.
pub(crate) async fn chat(client: &Client, body: &Value) -> Delivered {
    Delivered::from(client.request("POST", "/v1/chat/completions").json(body)).await
}

/// The memory files of the first user say something.
pub(crate) async fn files_speak(server: &TestServer) {
    let body = json!({ "headings": ["Now"], "text": "I am writing a book on owls." });
    std::fs::write(server.memory_files("me").join("NOW.md"), "# Now\n\n").unwrap();
    server.post("/v1/files/NOW.md/append", body).await.expect(200);
}

/// The text of the first choice of an answer that is not streamed.
pub(crate) fn text_of(delivered: &Delivered) -> String {
    assert_eq!(delivered.status, 200, "{}", delivered.text());
    delivered.json()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

/// The code of an error in OpenAI's shape.
fn refused(delivered: &Delivered, status: u16) -> String {
    assert_eq!(delivered.status, status, "{}", delivered.text());
    assert_eq!(delivered.header("content-type"), Some("application/json"), "{}", delivered.text());
    let error = &delivered.json()["error"];
    assert!(error["message"].as_str().is_some_and(|message| message.len() > 10), "{error}");
    assert!(error["type"].is_string() && error.get("param").is_some(), "{error}");
    error["code"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_stream_comes_as_the_model_sends_it_byte_for_byte() {
    let weather = json!({ "city": "Köln", "days": [1, 2, 3] });
    let answers = [
        Answer::says("Your dog is called Rex. 🎉"),
        Answer::says("Yes.").thinking("Hm, they said so before."),
        Answer::calls(&[("weather", weather), ("time", json!({}))]),
        Answer::says(&cjk(10_000)).in_pieces(7),
        Answer::says("one two three").with_comments(),
        Answer::chunks([
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\r\n\r\n",
            ": hush\r\r",
            "da",
            "ta: [DO",
            "NE]",
        ]),
        Answer::chunks([&b"\xff\xfe\x00"[..], b"data: {", b"\n\n\n\n"]),
        Answer::chunks([""; 0]),
    ];
    let answers: std::sync::Arc<[Answer]> = answers.into();
    let scripts = std::sync::Arc::clone(&answers);
    let upstream = Upstream::answers(move |heard| scripts[heard.json()["seed"].as_u64().unwrap() as usize].clone());
    story_with(through(&upstream), async |server| {
        for seed in 0..answers.len() {
            let mut body = chat_of(&["system: Be kind.", "user: what is my dog called?"]);
            body["stream"] = json!(true);
            body["stream_options"] = json!({ "include_usage": true });
            body["seed"] = json!(seed);

            let relayed = chat(server, &body).await;

            let direct = upstream.directly(&body).await;
            assert_eq!(relayed.status, direct.status);
            assert_eq!(relayed.text(), direct.text(), "script {seed}");
            assert_eq!(relayed.body, direct.body, "script {seed}");
            assert_eq!((relayed.whole, direct.whole), (true, true));
            assert_eq!(relayed.header("content-type"), direct.header("content-type"));
            assert_eq!(relayed.header("content-encoding"), None);
            assert_eq!(relayed.header("x-accel-buffering"), Some("no"));
        }
    });
}

#[test]
fn each_piece_is_passed_on_when_it_comes() {
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let gate = Gate::new();
        upstream.next(Answer::chunks(["data: {\"a\":1}\n\n"]).wait(&gate).done());
        let mut body = chat_of(&["user: hi"]);
        body["stream"] = json!(true);

        let mut response = server.request("POST", "/v1/chat/completions").json(&body).send().await.unwrap();

        let first = response.chunk().await.unwrap().unwrap();
        assert_eq!(&first[..], b"data: {\"a\":1}\n\n", "though the model has not ended");
        gate.open();
        assert_eq!(&response.chunk().await.unwrap().unwrap()[..], b"data: [DONE]\n\n");
        assert!(response.chunk().await.unwrap().is_none());
    });
}

#[test]
fn a_client_that_takes_packed_answers_still_gets_what_the_model_sends() {
    let upstream = Upstream::says(&"words ".repeat(1_000));
    story_with(through(&upstream), async |server| {
        let body = chat_of(&["user: hi"]);

        let request = server.request("POST", "/v1/chat/completions").header("accept-encoding", "gzip, br").json(&body);
        let relayed = Delivered::from(request).await;

        let direct = upstream.directly(&body).await;
        assert_eq!((relayed.header("content-encoding"), &relayed.body), (None, &direct.body));
        assert_eq!(upstream.heard()[0].header("accept-encoding"), Some("identity"));
    });
}

#[test]
fn the_model_gets_every_byte_that_is_not_memorys() {
    let upstream = Upstream::says("Nice.");
    story_with(through(&upstream), async |server| {
        files_speak(server).await;
        let body = "{ \"messages\":[{\"role\":\"user\",\"content\":\"h\\u00e9\", \"x\" : 1.0}],\"temperature\":1e-7 ,\n\
                    \"seed\":123456789012345678901,\"model\":\"m\",\"tools\":[],\"unknown\":{\"a\":[null]}}";
        let post = |body: String| {
            server.request("POST", "/v1/chat/completions").body(body).header("content-type", "application/json")
        };

        let told = Delivered::from(post(body.to_owned())).await;
        assert_eq!((told.status, told.header("x-memory-status")), (200, Some("used")), "{:?}", told.headers);
        let sent = upstream.last().text();
        let files = sent.find("<<<MEMORY>>>").expect("the memory files come along");
        assert!(files < sent.find("h\\u00e9").unwrap());
        let (before, after) = body.split_at(body.find("{\"role\"").unwrap());
        assert!(sent.starts_with(before) && sent.ends_with(after), "{sent}");

        for not_a_chat in
            ["", "nonsense", "[1]", "{\"messages\": 5}", "{\"messages\":[],\"messages\":[]}", "{\"messages\":[{}]}"]
        {
            let told = Delivered::from(post(not_a_chat.to_owned())).await;
            assert_eq!(told.status, 200, "it is the model's to judge: {not_a_chat}");
            assert_eq!(upstream.last().text(), not_a_chat);
        }
        let told = Delivered::from(post(body.to_owned()).header("x-memory", "off")).await;
        assert_eq!(told.header("x-memory-status"), Some("off"));
        assert_eq!(upstream.last().text(), body);
    });
}

#[test]
fn models_and_embeddings_are_the_upstreams() {
    let upstream = Upstream::says("unused").with_models(&["small", "org/large:7b"]);
    story_with(through(&upstream), async |server| {
        let listed = server.get("/v1/models").await.expect(200);
        assert_eq!(listed["data"][1]["id"], "org/large:7b");
        let one = server.get("/v1/models/org/large:7b").await.expect(200);
        assert_eq!(one["id"], "org/large:7b");
        assert_eq!(server.get("/u/scripted/v1/models/small").await.expect(200)["id"], "small");
        let missing = Delivered::from(server.request("GET", "/v1/models/none")).await;
        assert_eq!(refused(&missing, 404), "model_not_found", "in the upstream's own words");
        let upwards = Delivered::from(server.request("GET", "/v1/models/..%2f..%2fsecret")).await;
        assert_eq!(refused(&upwards, 404), "not_found");

        let question = json!({ "model": "small", "input": ["a", "b"], "encoding_format": "base64" });
        let relayed = Delivered::from(server.request("POST", "/v1/embeddings?x=1").json(&question)).await;
        assert_eq!(relayed.status, 404, "the query goes along: {}", relayed.text());
        let relayed = server.post("/v1/embeddings", question.clone()).await.expect(200);
        assert!(relayed["data"][1]["embedding"].is_string(), "{relayed}");
        assert_eq!(upstream.last().json(), question);
        assert_eq!(server.post("/u/scripted/v1/embeddings", question).await.status, 200);
    });
}

#[test]
fn several_upstreams_have_names_and_one_is_the_default() {
    let (one, two) = (Upstream::says("I am one."), Upstream::says("I am two."));
    let url = two.url();
    let change = |config: &mut Config| {
        through(&one)(config);
        config.proxy.upstreams.entry("two".into()).or_default().url = format!("{url}/");
    };
    story_with(change, async |server| {
        let body = chat_of(&["user: who are you?"]);
        let at = async |path: &str| Delivered::from(server.request("POST", path).json(&body)).await;

        assert_eq!(text_of(&at("/u/scripted/v1/chat/completions").await), "I am one.");
        assert_eq!(text_of(&at("/u/two/v1/chat/completions").await), "I am two.");
        assert_eq!(refused(&at("/v1/chat/completions").await, 404), "switched_off", "none was chosen");
        assert_eq!(refused(&at("/u/three/v1/chat/completions").await, 404), "not_found");
        assert_eq!(refused(&at("/u/two/v1/completions").await, 404), "no_such_route");
    });
    let change = |config: &mut Config| {
        through(&one)(config);
        config.proxy.upstreams.entry("two".into()).or_default().url = two.url();
        config.proxy.default = "two".into();
    };
    story_with(change, async |server| {
        assert_eq!(text_of(&chat(server, &chat_of(&["user: who are you?"])).await), "I am two.");
    });
}

#[test]
fn without_an_upstream_the_client_is_told_what_to_set() {
    story(async |server| {
        let told = chat(server, &chat_of(&["user: hi"])).await;

        assert_eq!(refused(&told, 404), "switched_off");
        assert!(told.text().contains("proxy.upstreams"), "{}", told.text());
    });
}

#[test]
fn what_goes_wrong_here_is_told_in_openais_shape() {
    let upstream = Upstream::says("unused");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.body_limit_kib = 4;
        config.server.rates.wrong_keys_per_minute = 1;
    };
    story_with(change, async |server| {
        let body = chat_of(&["user: hi"]);
        let refuse = async |request: reqwest::RequestBuilder| Delivered::from(request).await;
        let post = |client: &Client| client.request("POST", "/v1/chat/completions").json(&body);

        assert_eq!(refused(&refuse(post(&server.without_key())).await, 401), "invalid_api_key");
        assert_eq!(refused(&refuse(server.without_key().request("GET", "/v1/models")).await, 401), "invalid_api_key");
        let large = server.request("POST", "/v1/chat/completions").body("x".repeat(5_000));
        assert_eq!(refused(&refuse(large).await, 413), "too_large");
        assert_eq!(refused(&refuse(post(server).header("host", "evil.example")).await, 421), "wrong_host");
        for (name, value) in [
            ("x-memory", "sometimes"),
            ("x-memory-collection", "No Such/.."),
            ("x-memory-budget", "-1"),
            ("x-memory-session", ""),
            ("x-memory-user", "Nobody!"),
        ] {
            let told = refuse(post(server).header(name, value)).await;
            assert_eq!(refused(&told, 400), "invalid", "{name}");
            assert_eq!(told.json()["error"]["param"], name);
        }
        assert_eq!(refused(&refuse(post(server).header("x-memory-user", "nobody")).await, 404), "not_found");
        let mut odd = chat_of(&["user: hi"]);
        odd["metadata"] = json!({ "memory": { "budget": "much" } });
        let told = refuse(server.request("POST", "/v1/chat/completions").json(&odd)).await;
        assert_eq!(refused(&told, 400), "invalid");
        let wrong = server.with_key("skm_0123456789abcdef_wrong");
        assert_eq!(refused(&refuse(post(&wrong)).await, 401), "invalid_api_key");
        assert_eq!(refused(&refuse(post(&wrong)).await, 401), "invalid_api_key");
        let shut_out = refuse(post(&wrong)).await;
        assert_eq!(refused(&shut_out, 429), "rate_limit_exceeded");
        assert!(shut_out.header("retry-after").is_some());
        assert_eq!(upstream.calls(), 0, "nothing of this was forwarded");
    });
}

#[test]
fn keys_stay_with_those_they_are_for() {
    let upstream = Upstream::says("Nice.");
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.upstreams.get_mut("scripted").unwrap().key = "sk-configured".into();
    };
    story_with(change, async |server| {
        let request = server.request("POST", "/v1/chat/completions").json(&chat_of(&["user: hi"]));
        let request = request.header("openai-organization", "org").header("cookie", "a=b").header("x-memory", "off");
        assert_eq!(Delivered::from(request).await.status, 200);

        let heard = upstream.last();
        assert_eq!(heard.header("authorization"), Some("Bearer sk-configured"));
        assert_eq!(heard.header("openai-organization"), Some("org"));
        let all = format!("{:?}", heard.headers);
        assert!(!all.contains("skm_") && !all.contains("x-memory") && !all.contains("cookie"), "{all}");
    });
    let change = |config: &mut Config| {
        through(&upstream)(config);
        config.proxy.upstreams.get_mut("scripted").unwrap().pass_authorization = true;
    };
    story_with(change, async |server| {
        let signed = server.request("GET", "/v1/models").build().unwrap();
        let key = signed.headers()["authorization"].to_str().unwrap().replace("Bearer ", "");
        let post = |own: &str| {
            let request = server.without_key().request("POST", "/v1/chat/completions").bearer_auth(own);
            request.json(&chat_of(&["user: hi"]))
        };

        let told = Delivered::from(post("sk-theirs").header("x-memory-key", &key)).await;
        assert_eq!(told.status, 200, "{}", told.text());
        assert_eq!(upstream.last().header("authorization"), Some("Bearer sk-theirs"));
        assert!(!format!("{:?}", upstream.last().headers).contains("skm_"));
        let told = Delivered::from(post("sk-theirs")).await;
        assert_eq!(refused(&told, 401), "invalid_api_key");
        assert!(told.text().contains("X-Memory-Key"), "{}", told.text());
        assert_eq!(Delivered::from(post(&key)).await.status, 200, "a key of this server alone opens it too");
        assert_eq!(upstream.last().header("authorization"), None, "and goes no further");
    });
}

#[test]
fn a_redirect_leads_nowhere() {
    let elsewhere = Upstream::says("I should not be asked.");
    let upstream = Upstream::says("unused");
    story_with(through(&upstream), async |server| {
        let url = elsewhere.url() + "/chat/completions";
        upstream.next(Answer::status(307, "text/plain", "").header("location", &url));

        let request = server.request("POST", "/v1/chat/completions").json(&chat_of(&["user: hi"]));
        let moved = request.build().unwrap();
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let told = client.execute(moved).await.unwrap();

        assert_eq!(told.status(), 307);
        assert_eq!(elsewhere.calls(), 0);
    });
}
