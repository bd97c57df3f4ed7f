//! Sealing what stands in a collection, and being killed at it: all of it is in the clear then, or all of it is sealed; asked
//! again, the server does the rest, and no page of its database holds anything of it.

use std::time::Duration;

use serde_json::{Value, json};
use skymem_harness::{Client, Victim, be_the_victim};

use super::{at_rest::files_holding, identity, says};

#[test]
#[ignore = "it is the server that the other test kills"]
fn victim() {
    be_the_victim();
}

const VICTIM: &str = "vault::killed::victim";

/// It stands nowhere else.
const NONCE: &str = "zqsealedlate88wk";

/// So many exchanges stand in the collection.
const SAID: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_killed_while_sealing_has_lost_nothing_and_seals_the_rest_when_asked_again() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let mut server = Victim::start(folder, VICTIM).await;
    for n in 0..SAID {
        says(&server.client, "health", "clinic", &format!("The {NONCE} of day {n} is noted."), "Noted.").await;
    }
    let (secret, recipient) = identity();
    let mut outcomes = Vec::new();

    // Killed at three moments: which steps those meet is left to chance, and what must hold holds at each.
    for wait in [20, 100, 500] {
        let (client, body) = (server.client.clone(), json!({ "recipients": [&recipient] }));
        let sealing = tokio::spawn(async move { client.try_post("/v1/collections/health/seal", body).await });
        tokio::time::sleep(Duration::from_millis(wait)).await;
        server.is_killed(folder);
        let _ = sealing.await;
        server = Victim::start(folder, VICTIM).await;
        outcomes.push(state(&server.client).await);
    }
    eprintln!("killed while sealing, the collection was: {outcomes:?}");
    let client = &server.client;
    // One that was killed after it had looked has nothing left to do.
    let last = client.try_post("/v1/collections/health/seal", json!({ "recipients": [recipient] })).await.unwrap();
    assert!(last.status == 201 || last.text.contains("sealed already"), "{}", last.text);

    let sealed = client.get("/v1/collections/health/seal").await.expect(200);
    assert_eq!((&sealed["exchanges"], &sealed["unchecked"]), (&json!(SAID), &json!(false)), "{sealed}");
    let unlocked = client.post("/v1/collections/health/unlock", json!({ "identity": secret })).await.expect(200);
    assert_eq!((&unlocked["exchanges"], &unlocked["unreadable"]), (&json!(SAID), &json!([])), "{unlocked}");
    assert!(client.recall("what is noted?").await.iter().any(|text| text.contains(NONCE)));
    server.is_killed(folder);
    let pages: Vec<String> = files_holding(folder, NONCE.as_bytes())
        .into_iter()
        // The write-ahead log holds it until it is overwritten, as the receipt says.
        .filter(|file| !file.contains("pg_wal"))
        .collect();
    assert_eq!(pages, Vec::<String>::new());
}

/// Whether a collection is in the clear or sealed: all of it is one or the other.
async fn state(client: &Client) -> &'static str {
    let vault = client.get("/v1/vault").await.expect(200);
    let is_sealed = vault["collections"].as_array().is_some_and(|all| !all.is_empty());
    let open = client.get("/v1/exchanges?collection=health&limit=200").await.expect(200);
    let open = open["exchanges"].as_array().map_or(0, Vec::len);
    let sealed = vault.pointer("/collections/0/exchanges").and_then(Value::as_u64).unwrap_or(0);
    match is_sealed {
        true => {
            assert_eq!((open, sealed), (0, SAID as u64), "{vault}");
            "sealed"
        }
        false => {
            assert_eq!(open, SAID, "{vault}");
            "in the clear"
        }
    }
}
