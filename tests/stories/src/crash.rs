//! The promise that nothing acknowledged is lost: when server and Postgres are killed in the middle of an import.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::json;
use skymem_harness::{Client, Victim, be_the_victim};

#[test]
#[ignore = "it is the server that the other test kills"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "crash::victim";
/// How large the import is, and how much of it is acknowledged before the blow.
const BATCHES: usize = 60;
const ACKNOWLEDGED: usize = 20;
const TURNS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_and_the_import_goes_on() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let server = Victim::start(folder, VICTIM).await;
    let acknowledged: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let imports: Vec<_> = (0..2)
        .map(|half| {
            let (client, acknowledged) = (server.client.clone(), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                for batch in (half..BATCHES).step_by(2) {
                    if !send(&client, batch).await {
                        return;
                    }
                    acknowledged.lock().unwrap().insert(batch);
                }
            })
        })
        .collect();
    while acknowledged.lock().unwrap().len() < ACKNOWLEDGED {
        assert!(!imports.iter().all(tokio::task::JoinHandle::is_finished), "the import broke off by itself");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }

    server.is_killed(folder);
    for import in imports {
        import.await.unwrap();
    }
    let acknowledged = acknowledged.lock().unwrap().clone();
    let server = Victim::start(folder, VICTIM).await;

    for batch in &acknowledged {
        assert_eq!(turns(&server.client, *batch).await, TURNS, "batch {batch} was acknowledged");
    }
    // The import is sent again from the beginning: what is there is stored once.
    for batch in 0..BATCHES {
        assert!(send(&server.client, batch).await);
    }
    for batch in 0..BATCHES {
        assert_eq!(turns(&server.client, batch).await, TURNS);
    }
    let stats = server.client.get("/v1/stats").await.expect(200);
    assert_eq!(stats["turns"], BATCHES * TURNS, "{stats:#}");
}

/// Sends one batch of the import; whether it was acknowledged.
async fn send(client: &Client, batch: usize) -> bool {
    let turns: Vec<_> = (0..TURNS)
        .map(|turn| {
            let role = if turn % 2 == 0 { "user" } else { "assistant" };
            json!({ "session": format!("batch {batch}"), "role": role, "content": format!("turn {turn} of batch {batch}"),
                    "client_id": format!("{batch}-{turn}") })
        })
        .collect();
    match client.try_post("/v1/turns", json!({ "turns": turns })).await {
        Some(reply) => reply.status == 200,
        None => false,
    }
}

/// How many turns of a batch are there.
async fn turns(client: &Client, batch: usize) -> usize {
    let reply = client.get(&format!("/v1/sessions/batch%20{batch}/turns?limit=200")).await.expect(200);
    reply["turns"].as_array().map_or(0, Vec::len)
}
