//! What a person writes in their memory files is a fact as long as it stands there.

use serde_json::{Value, json};
use skymem_harness::{TestServer, story};

use super::{brief, listed, only};

async fn write(server: &TestServer, text: &str) {
    let reply = server.get("/v1/files/NOW.md").await;
    let body = match reply.status {
        200 => json!({ "text": text, "base": reply.json["revision"] }),
        _ => json!({ "text": text }),
    };
    let reply = server.put("/v1/files/NOW.md", body).await;
    assert!(matches!(reply.status, 200 | 201), "{}", reply.text);
    server.catches_up().await;
}

#[test]
fn a_line_of_now_md_is_a_fact_and_goes_when_it_is_removed() {
    story(async |server| {
        write(server, "# Now\n\n- project: skymem uses: PostgreSQL\n").await;

        let fact = only(server, "/v1/facts?about=skymem").await;
        assert_eq!(brief(std::slice::from_ref(&fact)), ["skymem uses PostgreSQL (holds)"]);
        assert_eq!(fact["evidence"][0]["file"], "NOW.md:3");
        assert_eq!(fact["evidence"][0]["origin"], "markdown");
        server.days_pass(1);
        let before = server.now().to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
        server.days_pass(1);

        write(server, "# Now\n\nNothing.\n").await;

        assert_eq!(listed(server, "/v1/facts?about=skymem").await, Vec::<Value>::new());
        let then = only(server, &format!("/v1/facts?about=skymem&as_of={before}&known_at={before}")).await;
        assert_eq!(brief(&[then]), ["skymem uses PostgreSQL (holds)"]);
    });
}

#[test]
fn a_file_that_went_while_no_server_ran_supports_nothing() {
    story(async |server| {
        let file = server.memory_files("me").join("PROJECTS.md");
        std::fs::write(&file, "# Projects\n\n- project: skymem uses: PostgreSQL\n").unwrap();
        server.restarts().await;
        server.catches_up().await;
        assert_eq!(listed(server, "/v1/facts?about=skymem").await.len(), 1);

        std::fs::remove_file(&file).unwrap();
        server.restarts().await;
        server.catches_up().await;

        assert_eq!(listed(server, "/v1/facts?about=skymem").await, Vec::<Value>::new());
    });
}
