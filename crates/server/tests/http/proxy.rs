//! Chats that pass through while memory cannot do its part. Everything else about them is told by the stories.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::house::{House, in_a_house, in_a_house_before};

const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Yes."}}]}"#;

/// A server that answers every chat the same, and what it was sent.
fn upstream() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let bodies = Arc::clone(&heard);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4_096];
            let body = loop {
                let length = stream.read(&mut piece).unwrap();
                request.extend_from_slice(&piece[..length]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length =
                    head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0_usize) {
                    break body.to_owned();
                }
            };
            bodies.lock().unwrap().push(body);
            let length = ANSWER.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all((head + ANSWER).as_bytes()).unwrap();
        }
    });
    (url, heard)
}

async fn asks(house: &House, body: &str) -> reqwest::Response {
    house
        .ask("POST", "/v1/chat/completions")
        .header("content-type", "application/json")
        .body(body.to_owned())
        .send()
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_goes_on_as_it_came_while_the_database_is_away() {
    let (url, heard) = upstream();
    in_a_house_before(url, |house| async move {
        let body = r#"{"messages": [ {"role":"user","content":"Is there tea?"}], "model":"m"}"#;
        let known = asks(&house, body).await;
        assert_eq!((known.status().as_u16(), known.headers()["x-memory-status"].to_str().unwrap()), (200, "empty"));

        house.db.close().await;
        let alone = asks(&house, body).await;

        assert_eq!((alone.status().as_u16(), alone.headers()["x-memory-status"].to_str().unwrap()), (200, "skipped"));
        assert_eq!(alone.text().await.unwrap(), ANSWER);
        assert_eq!(heard.lock().unwrap().last().unwrap(), body, "to the byte");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_key_is_told_nothing_of_upstreams() {
    in_a_house(|house| async move {
        for (method, path) in [
            ("POST", "/v1/chat/completions"),
            ("POST", "/u/one/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("GET", "/v1/models/a/b"),
            ("GET", "/u/one/v1/models"),
            ("POST", "/v1/embeddings"),
        ] {
            let refused = house.bare(method, path).json(&json!({})).send().await.unwrap();
            assert_eq!(refused.status(), 401, "{path}");
            let error: serde_json::Value = serde_json::from_str(&refused.text().await.unwrap()).unwrap();
            assert_eq!(error["error"]["code"], "invalid_api_key", "{path}");
            let told = house.told(house.ask(method, path).json(&json!({})), 404).await;
            assert!(told["error"]["message"].as_str().unwrap().contains("proxy.upstreams"), "{told}");
        }
        let wrong = house.ask("GET", "/v1/chat/completions").send().await.unwrap();
        assert_eq!(wrong.status(), 405);
        house
    })
    .await;
}
