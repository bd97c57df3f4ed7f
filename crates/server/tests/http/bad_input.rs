//! Bad input of every kind gets a clear answer.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::house::{House, in_a_house, in_a_house_with, problem};

async fn check(house: &House, method: &str, path: &str, body: &str, status: u16, detail: &str) {
    let request = house.ask(method, path).header("content-type", "application/json").body(body.to_owned());
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), status, "{method} {path} {body}");
    let problem = problem(response).await;
    assert!(problem["detail"].as_str().unwrap().contains(detail), "{method} {path} {body}: {problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_body_is_told_what_is_wrong_with_it() {
    in_a_house(|house| async move {
        let turns = "/v1/sessions/s/turns";
        check(&house, "POST", turns, "", 400, "not JSON").await;
        check(&house, "POST", turns, "{", 400, "not JSON").await;
        check(&house, "POST", turns, "{}", 422, "missing field").await;
        check(&house, "POST", turns, &format!(r#"{{"content": {}"#, "[".repeat(100_000)), 400, "recursion limit").await;
        check(&house, "POST", turns, &format!(r#"{{"a": {}"#, "[".repeat(100_000)), 422, "unknown field").await;
        check(&house, "POST", turns, r#"["user", "hello"]"#, 422, "expected an object").await;
        check(&house, "POST", turns, r#"{"role": "user", "content": "\ud800"}"#, 400, "not JSON").await;
        check(&house, "POST", turns, r#"{"role": "user", "content": "a\u0000b"}"#, 422, "NUL").await;
        check(&house, "POST", turns, r#"{"turns": []}"#, 422, "turns").await;
        check(
            &house,
            "POST",
            turns,
            r#"{"role": "user", "content": "x", "occurred_at": "9999-99-99T00:00:00Z"}"#,
            422,
            "RFC 3339",
        )
        .await;
        check(&house, "POST", "/v1/recall", r#"{"query": "x", "top_k": 21}"#, 422, "from 2 to 20").await;
        check(&house, "POST", "/v1/recall", r#"{"query": "x", "limit": 5}"#, 422, "unknown field `limit`").await;
        check(&house, "POST", "/v1/recall", r#"{"query": "x", "layers": ["dreams"]}"#, 422, "dreams").await;
        check(&house, "POST", "/v1/recall", r#"{"query": "x", "unit": 7}"#, 422, "unit: invalid type").await;
        check(&house, "POST", "/v1/context", r#"{"question": "x", "unit": ["turn"]}"#, 422, "unit: invalid type").await;
        check(&house, "POST", "/v1/context", r#"{"question": "x", "budget_tokens": 0}"#, 422, "budget_tokens").await;
        check(&house, "POST", "/v1/context", r#"{"question": "x", "window": 9}"#, 422, "from 0 to 8").await;
        check(&house, "POST", "/v1/keys", r#"{"name": "x", "scopes": ["root"]}"#, 422, "read, write, admin").await;
        check(&house, "POST", "/v1/keys", r#"{"name": "x", "scopes": []}"#, 422, "scope").await;
        check(&house, "POST", "/v1/users", r#"{"name": "../x"}"#, 422, "name").await;
        check(&house, "PATCH", "/v1/me", r#"{"timezone": "Mars/Base"}"#, 422, "Mars/Base").await;
        check(&house, "PUT", "/v1/collections/work", r#"{"half_life_days": 0}"#, 422, "above 0").await;
        check(&house, "PUT", "/v1/collections/WORK", "{}", 422, "in the address").await;
        check(&house, "PUT", "/v1/files/..%2Fx.md", r#"{"text": "x"}"#, 422, "in the address").await;
        check(&house, "PUT", "/v1/files/x.txt", r#"{"text": "x"}"#, 422, "in the address").await;
        check(&house, "POST", "/v1/layers/dreams/retry", "", 404, "dreams").await;
        check(&house, "GET", "/v1/sessions/nothing/turns", "", 404, "nothing").await;
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_address_is_told_what_is_wrong_with_it() {
    in_a_house(|house| async move {
        check(&house, "GET", "/v1/exchanges?colour=red", "", 422, "unknown field `colour`").await;
        check(&house, "GET", "/v1/exchanges?limit=0", "", 422, "from 1 to 200").await;
        check(&house, "GET", "/v1/exchanges?limit=many", "", 422, "limit: is a whole number").await;
        check(&house, "GET", "/v1/exchanges?after=nonsense", "", 422, "page").await;
        check(&house, "GET", "/v1/exchanges?from=yesterday", "", 422, "RFC 3339").await;
        check(&house, "GET", "/v1/exchanges?pinned=perhaps", "", 422, "pinned: is true or false").await;
        check(&house, "GET", "/v1/sessions?after=1:%00", "", 422, "").await;
        check(&house, "GET", "/v1/exchanges/7", "", 422, "UUID").await;
        check(&house, "GET", "/v1/sessions/a%00b", "", 422, "control characters").await;
        check(&house, "GET", "/v1/files/NOW.md/history/%00", "", 422, "NUL").await;
        check(&house, "GET", "/v1/sessions/%ff", "", 400, "UTF-8").await;
        check(&house, "GET", "/v1/exchanges?session=%ff", "", 400, "UTF-8").await;
        check(&house, "GET", &format!("/v1/sessions/{}", "x".repeat(201)), "", 422, "at most 200").await;
        check(&house, "GET", "/v1/dreams", "", 404, "/docs").await;
        check(&house, "GET", "/wp-login.php", "", 404, "/docs").await;
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_is_told_the_right_ones() {
    in_a_house(|house| async move {
        let response = house.ask("POST", "/v1/exchanges/00000000-0000-7000-8000-000000000000").send().await.unwrap();

        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()["allow"], "GET, HEAD, DELETE");
        assert_eq!(problem(response).await["type"], "/problems/method-not-allowed");
        for page in ["/", "/docs", "/docs/", "/docs/index.html", "/openapi.json", "/problems", "/problems/invalid"] {
            let response = house.bare("POST", page).send().await.unwrap();
            assert_eq!(response.status(), 405, "{page}");
            assert_eq!(response.headers()["allow"], "GET, HEAD", "{page}");
            problem(response).await;
        }
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_asked_for_can_be_asked_after_without_its_body() {
    in_a_house(|house| async move {
        let addresses = ["/", "/docs/", "/openapi.json", "/problems", "/health/live", "/health/ready", "/v1/me"];
        for address in addresses.into_iter().chain(["/v1/exchanges", "/v1/sessions/nothing", "/v1/dreams"]) {
            let whole = house.ask("GET", address).send().await.unwrap();
            let head = house.ask("HEAD", address).send().await.unwrap();

            assert_eq!(head.status(), whole.status(), "{address}");
            assert_eq!(head.headers().get("content-type"), whole.headers().get("content-type"), "{address}");
            assert!(head.bytes().await.unwrap().is_empty(), "{address}");
        }
        let response = house.ask("HEAD", "/v1/recall").send().await.unwrap();
        assert_eq!((response.status().as_u16(), &response.headers()["allow"]), (405, &"POST".parse().unwrap()));
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_within_its_limit_is_read() {
    in_a_house_with(
        |settings| (settings.body_limit_kib, settings.bulk_limit_kib) = (1, 2),
        |house| async move {
            let turn = |content: &str| json!({"role": "user", "content": content}).to_string();
            let large = turn(&"x".repeat(1_500));
            check(&house, "POST", "/v1/sessions/s/turns", &large, 413, "1 KiB").await;
            check(&house, "POST", "/v1/turns", &turn(&"x".repeat(3_000)), 413, "2 KiB").await;

            let send = |header: (&str, &str), body: Vec<u8>| {
                house.ask("POST", "/v1/sessions/s/turns").header(header.0, header.1).body(body)
            };
            for (request, status) in [
                (send(("content-type", "text/plain"), turn("x").into()), 415),
                (send(("accept", "*/*"), turn("x").into()), 415),
                (send(("content-type", "application/json; charset=latin1"), turn("x").into()), 415),
                (send(("content-type", "application/json"), b"{\"role\": \"\xff\"}".to_vec()), 400),
                (send(("content-type", "application/json"), turn("x").into()).header("content-encoding", "gzip"), 415),
            ] {
                assert_eq!(problem(request.send().await.unwrap()).await["status"], status);
            }
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_ends_is_given_up() {
    in_a_house_with(
        |settings| settings.request_timeout_seconds = 1,
        |house| async move {
            let mut line = TcpStream::connect(house.base.trim_start_matches("http://")).await.unwrap();
            let head = format!(
                "POST /v1/recall HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nx-request-id: slow\r\n\
                 content-type: application/json\r\ncontent-length: 100\r\n\r\n{{",
                house.key
            );
            line.write_all(head.as_bytes()).await.unwrap();

            let mut answer = vec![0; 4_096];
            let length = timeout(Duration::from_secs(30), line.read(&mut answer)).await.unwrap().unwrap();

            let answer = String::from_utf8_lossy(&answer[..length]).to_string();
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 504"), "{answer}");
            assert!(head.contains("x-request-id: slow") && head.contains("application/problem+json"), "{answer}");
            let problem: Value = serde_json::from_str(body).unwrap();
            assert_eq!((&problem["type"], &problem["request_id"]), (&json!("/problems/timed-out"), &json!("slow")));
            house
        },
    )
    .await;
}
