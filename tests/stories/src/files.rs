//! The promise of files: what a person writes down in their own editor is there at once, and nothing is overwritten.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skymem_harness::{TestServer, story};

/// Waits until the context holds `text`; says how long that took.
async fn until_context_holds(server: &TestServer, text: &str) -> Duration {
    let saved = Instant::now();
    loop {
        let context = server.context_for("now", "What is going on?").await;
        if context.contains(text) {
            return saved.elapsed();
        }
        assert!(saved.elapsed() < Duration::from_secs(20), "{text:?} does not come into {context}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_is_saved_in_an_editor_is_in_the_next_context() {
    story(async |server| {
        let file = server.memory_files("me").join("NOW.md");
        std::fs::write(&file, "# Now\n\nMoving to Lisbon.\n").unwrap();
        until_context_holds(server, "Moving to Lisbon.").await;

        // As editors do: a new file, then a rename over the old one.
        let draft = file.with_extension("tmp");
        std::fs::write(&draft, "# Now\n\nArrived in Lisbon.\n").unwrap();
        std::fs::rename(&draft, &file).unwrap();
        let took = until_context_holds(server, "Arrived in Lisbon.").await;

        println!("the edit was live after {} ms", took.as_millis());
        assert!(!server.context_for("now", "What is going on?").await.contains("Moving to Lisbon."));
    });
}

#[test]
fn an_edit_from_a_stale_revision_overwrites_nothing() {
    story(async |server| {
        let made = server.put("/v1/files/MEMORY.md", json!({ "text": "# Me\n\nI like tea.\n" })).await;
        let made: Value = match made.status {
            201 => made.json,
            // It was there from the start: begin from what it is.
            _ => {
                let base = server.get("/v1/files/MEMORY.md").await.expect(200)["revision"].clone();
                let body = json!({ "text": "# Me\n\nI like tea.\n", "base": base });
                server.put("/v1/files/MEMORY.md", body).await.expect(200)
            }
        };
        let base = made["revision"].clone();
        let mine = json!({ "text": "# Me\n\nI like coffee.\n", "base": base });
        server.put("/v1/files/MEMORY.md", mine).await.expect(200);

        let theirs = json!({ "text": "# Me\n\nI like water.\n", "base": base });
        let reply = server.put("/v1/files/MEMORY.md", theirs).await;

        assert_eq!(reply.problem(409), "stale");
        let conflict = reply.json["conflict"].to_string();
        assert!(conflict.contains("coffee") && conflict.contains("water"), "{conflict}");
        let on_disk = std::fs::read_to_string(server.memory_files("me").join("MEMORY.md")).unwrap();
        assert_eq!(on_disk, "# Me\n\nI like coffee.\n");
        let history = server.get("/v1/files/MEMORY.md/history").await.expect(200);
        assert!(history["revisions"].as_array().is_some_and(|kept| kept.len() >= 2), "{history:#}");
    });
}

#[test]
fn a_section_is_edited_and_the_rest_stays_byte_for_byte() {
    story(async |server| {
        let text = "# Me\n\nI like tea.\r\n\n##   Work  \n\n* old\n\n## Home\n\n\tBerlin \n";
        std::fs::write(server.memory_files("me").join("MEMORY.md"), text).unwrap();
        until_context_holds(server, "Berlin").await;
        let base = server.get("/v1/files/MEMORY.md").await.expect(200)["revision"].clone();

        let body = json!({ "body": "* new\n", "base": base });
        server.put("/v1/files/MEMORY.md/sections/Me/Work", body).await.expect(200);

        let on_disk = std::fs::read_to_string(server.memory_files("me").join("MEMORY.md")).unwrap();
        assert!(
            on_disk.starts_with("# Me\n\nI like tea.\r\n\n##   Work  \n") && on_disk.contains("* new"),
            "{on_disk:?}"
        );
        assert!(on_disk.ends_with("## Home\n\n\tBerlin \n") && !on_disk.contains("* old"), "{on_disk:?}");
    });
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_its_last_good_text_stays() {
    story(async |server| {
        let file = server.memory_files("me").join("NOW.md");
        std::fs::write(&file, "# Now\n\nMoving to Lisbon.\n").unwrap();
        until_context_holds(server, "Moving to Lisbon.").await;

        std::fs::write(&file, [b'#', b' ', 0xff, 0xfe, b'\n']).unwrap();

        let since = Instant::now();
        let context = loop {
            let context = server.context("now", "What is going on?").await;
            if context["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()) {
                break context;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "the fault is not told");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!((&context["gaps"][0]["of"], &context["gaps"][0]["reason"]), (&json!("files"), &json!("damaged")));
        assert!(context["gaps"][0]["detail"].as_str().is_some_and(|detail| detail.contains("NOW.md")), "{context:#}");
        assert!(context["messages"].to_string().contains("Moving to Lisbon."));
    });
}

#[test]
fn a_frozen_session_keeps_its_prefix() {
    story(async |server| {
        let file = server.memory_files("me").join("NOW.md");
        std::fs::write(&file, "# Now\n\nMoving to Lisbon.\n").unwrap();
        until_context_holds(server, "Moving to Lisbon.").await;
        let request = json!({ "session": "cached", "question": "What is going on?", "freeze": true });
        let before = server.context_as(request.clone()).await;

        std::fs::write(&file, "# Now\n\nArrived in Lisbon.\n").unwrap();
        until_context_holds(server, "Arrived in Lisbon.").await;

        assert_eq!(server.context_as(request).await["messages"], before["messages"]);
    });
}
