//! Who comes in, as whom, from where, and how often.

use serde_json::{Value, json};
use skymem_engine::Scope;

use crate::describes::operations;
use crate::house::{House, in_a_house, in_a_house_with, problem};

/// An address with every name filled in by something well formed that is not there.
fn filled_in(path: &str) -> String {
    let nothing = "00000000-0000-7000-8000-000000000000";
    path.replace("{exchange}", nothing)
        .replace("{file}", "NONE.md")
        .replace("{key}", "0123456789abcdef")
        .replace(['{', '}'], "")
}

async fn check_refused(house: &House, method: &str, path: &str, key: Option<&str>, status: u16) {
    let mut request = house.bare(method, &filled_in(path));
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), status, "{method} {path}");
    problem(response).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_refuses_whoever_lacks_its_scope() {
    in_a_house_with(
        |settings| settings.rates.wrong_keys_per_minute = 0,
        |house| async move {
            let reader = house.key_with(&[Scope::Read]).await;
            let writer = house.key_with(&[Scope::Write]).await;
            let both = house.key_with(&[Scope::Read, Scope::Write]).await;
            let described: Value = house.told(house.bare("GET", "/openapi.json"), 200).await;

            let mut checked = 0;
            let ours = |operation: &Value| operation["tags"][0] != "proxy";
            for (method, path, operation) in
                operations(&described).filter(|(_, path, operation)| path.starts_with("/v1/") && ours(operation))
            {
                check_refused(&house, &method, &path, None, 401).await;
                check_refused(&house, &method, &path, Some("skm_0123456789abcdef_wrong"), 401).await;
                let lacking = match operation["security"][0]["key"][0].as_str() {
                    Some("read") => &writer,
                    Some("write") => &reader,
                    Some("admin") => &both,
                    _ => continue,
                };
                check_refused(&house, &method, &path, Some(lacking), 403).await;
                checked += 1;
            }

            assert!(checked > 40, "{checked}");
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_made_used_rotated_and_taken_back() {
    in_a_house(|house| async move {
        let made = house.post("/v1/keys", json!({"name": "laptop", "scopes": ["read"]}), 201).await;
        let text = made["text"].as_str().unwrap().to_owned();
        let id = made["key"]["id"].as_str().unwrap().to_owned();
        let me = house.told(house.bare("GET", "/v1/me").bearer_auth(&text), 200).await;
        assert_eq!((&me["user"], &me["scopes"], &me["key"]), (&json!("anna"), &json!(["read"]), &json!(id)));

        let rotated = house.post(&format!("/v1/keys/{id}/rotate"), json!({}), 201).await;
        check_refused(&house, "GET", "/v1/me", Some(&text), 401).await;
        let text = rotated["text"].as_str().unwrap().to_owned();
        house.told(house.bare("GET", "/v1/me").bearer_auth(&text), 200).await;

        let id = rotated["key"]["id"].as_str().unwrap();
        house.told(house.ask("DELETE", &format!("/v1/keys/{id}")), 204).await;
        check_refused(&house, "GET", "/v1/me", Some(&text), 401).await;
        let listed = house.get("/v1/keys").await;
        assert!(!listed.to_string().contains(&text), "a secret is shown once");
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_admin_acts_for_another_user() {
    in_a_house(|house| async move {
        house.post("/v1/users", json!({"name": "ben"}), 200).await;
        house.post("/v1/sessions/of-anna/turns", json!({"role": "user", "content": "hello"}), 201).await;
        let for_ben = |key: String| house.bare("GET", "/v1/sessions").bearer_auth(key).header("x-memory-user", "ben");

        let seen = house.told(for_ben(house.key.clone()), 200).await;
        assert_eq!(seen["sessions"], json!([]));
        let reader = house.key_with(&[Scope::Read]).await;
        assert_eq!(problem(for_ben(reader).send().await.unwrap()).await["status"], 403);
        let nobody = house.ask("GET", "/v1/sessions").header("x-memory-user", "nobody").send().await.unwrap();
        assert_eq!(problem(nobody).await["status"], 404);
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_guesses_keys_is_shut_out_for_a_while() {
    in_a_house_with(
        |settings| settings.rates.wrong_keys_per_minute = 3,
        |house| async move {
            for _ in 0..4 {
                check_refused(&house, "GET", "/v1/me", Some("skm_0123456789abcdef_wrong"), 401).await;
            }

            let response = house.ask("GET", "/v1/me").send().await.unwrap();

            assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
            assert_eq!(problem(response).await["type"], "/problems/rate-limited");
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_key_is_asked_to_wait() {
    in_a_house_with(
        |settings| (settings.rates.requests_per_second, settings.rates.burst_requests) = (1, 2),
        |house| async move {
            house.get("/v1/me").await;
            house.get("/v1/me").await;
            let response = house.ask("GET", "/v1/me").send().await.unwrap();
            assert_eq!(problem(response).await["status"], 429);
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_from_elsewhere_is_turned_away() {
    in_a_house(|house| async move {
        let rebound = house.ask("GET", "/v1/me").header("host", "evil.example").send().await.unwrap();
        assert_eq!(problem(rebound).await["status"], 421);
        let foreign = house.ask("POST", "/v1/restore").header("origin", "https://evil.example").send().await.unwrap();
        assert_eq!(problem(foreign).await["status"], 403);
        let preflight = house
            .bare("OPTIONS", "/v1/recall")
            .header("origin", "http://localhost:3000")
            .header("access-control-request-method", "POST")
            .send()
            .await
            .unwrap();
        assert!(preflight.headers().get("access-control-allow-origin").is_none());
        house
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_the_settings_name_may_call() {
    in_a_house_with(
        |settings| settings.cors_origins = vec!["https://chat.example".into()],
        |house| async move {
            let response = house.ask("GET", "/v1/me").header("origin", "https://chat.example").send().await.unwrap();
            assert_eq!(response.headers()["access-control-allow-origin"], "https://chat.example");
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_there_is_one_user_on_loopback() {
    in_a_house_with(
        |settings| settings.auth.enabled = false,
        |house| async move {
            let me = house.told(house.bare("GET", "/v1/me"), 200).await;
            assert_eq!((&me["user"], &me["key"]), (&json!("me"), &json!(null)));
            house
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_name_routes_and_never_sessions() {
    in_a_house(|house| async move {
        house.told(house.ask("PATCH", "/v1/sessions/very-private").json(&json!({})), 200).await;

        let closed = house.bare("GET", "/metrics").send().await.unwrap();
        assert_eq!(problem(closed).await["status"], 401);
        let text = house.ask("GET", "/metrics").send().await.unwrap().text().await.unwrap();

        assert!(text.contains("skymem_http_requests_total{route=\"/v1/sessions/{session}\""), "{text}");
        assert!(!text.contains("very-private"), "{text}");
        house
    })
    .await;
}

#[tokio::test]
async fn while_the_database_is_away_whoever_was_known_is_answered_and_no_write_is_promised() {
    in_a_house(|house| async move {
        let other = house.memory.ensure_user(&"berta".parse().unwrap()).await.unwrap();
        let revoked = house.key_with(&[Scope::Read]).await;
        let ask = |key: &str, path: &str, body: Value| house.bare("POST", path).bearer_auth(key).json(&body);
        let for_other = |request: reqwest::RequestBuilder| request.header("x-memory-user", "berta");
        let question = json!({ "question": "What is new?" });
        house.told(ask(&revoked, "/v1/context", question.clone()), 200).await;
        house.told(ask(&house.key, "/v1/context", question.clone()), 200).await;
        house.told(for_other(ask(&house.key, "/v1/context", question.clone())), 200).await;
        let id = revoked.split('_').nth(1).unwrap();
        house.told(house.ask("DELETE", &format!("/v1/keys/{id}")), 204).await;
        house.get("/v1/me").await;
        assert_ne!(other.id, house.user);

        house.db.close().await;

        for request in [
            ask(&house.key, "/v1/context", question.clone()),
            for_other(ask(&house.key, "/v1/context", question.clone())),
        ] {
            let context = house.told(request, 200).await;
            assert!(context["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()), "{context}");
        }
        house.post("/v1/recall", json!({ "query": "What is new?" }), 200).await;
        let turn = json!({ "role": "user", "content": "Remember this" });
        for refused in [
            ask(&house.key, "/v1/sessions/s/turns", turn),
            ask(&revoked, "/v1/context", question.clone()),
            ask(&format!("skm_0123456789abcdef_{}", "0".repeat(64)), "/v1/context", question.clone()),
        ] {
            let response = refused.send().await.unwrap();
            assert!(response.headers().contains_key("retry-after"));
            assert_eq!(problem(response).await["status"], 503);
        }
        house
    })
    .await;
}
