//! The promise of sealed collections: unreadable at rest, absent while locked, found as anything else while unlocked.

mod at_rest;
mod killed;
mod taken_in;

use serde_json::{Value, json};
use skymem::config::Config;
use skymem_harness::{Answer, Client, Gate, Reply, TestServer, Upstream, story_with};
use skymem_models::EmbedderKind;

const QUESTION: &str = "What is my blood type?";
const SECRET: &str = "My blood type is AB negative.";

/// A story with passphrases that are quick to try.
fn story(test: impl AsyncFnOnce(&mut TestServer)) {
    let quick = |config: &mut Config| {
        if let Some(vault) = config.layers.get_mut("vault") {
            vault.insert("passphrase_work".into(), 4.into());
        }
    };
    story_with(quick, test);
}

/// An identity and its recipient.
fn identity() -> (String, String) {
    let (secret, recipient) = skymem_seal::make_identity();
    (secret.to_string(), recipient.to_string())
}

/// Seals a collection; the identity that unlocks it.
async fn seal(client: &Client, collection: &str) -> String {
    let (secret, recipient) = identity();
    let path = format!("/v1/collections/{collection}/seal");
    client.post(&path, json!({ "recipients": [recipient] })).await.expect(201);
    secret
}

/// What a problem of that status says.
fn detail(reply: &Reply, status: u16) -> String {
    assert_eq!(reply.status, status, "{}", reply.text);
    let faults = reply.json["errors"].as_array().into_iter().flatten().filter_map(|fault| fault["reason"].as_str());
    faults.chain(reply.json["detail"].as_str()).collect::<Vec<_>>().join("\n")
}

async fn unlock(client: &Client, collection: &str, identity: &str) -> Value {
    client.post(&format!("/v1/collections/{collection}/unlock"), json!({ "identity": identity })).await.expect(200)
}

async fn lock(client: &Client, collection: &str) {
    client.post(&format!("/v1/collections/{collection}/lock"), json!({})).await.expect(200);
}

/// Says something and its answer in a collection; the exchange.
async fn says(client: &Client, collection: &str, session: &str, text: &str, answer: &str) -> String {
    let turns = json!([{ "role": "user", "content": text }, { "role": "assistant", "content": answer }]);
    let path = format!("/v1/sessions/{session}/turns");
    let reply = client.post(&path, json!({ "collection": collection, "turns": turns })).await;
    assert!(matches!(reply.status, 200..=202), "{}", reply.text);
    reply.json["turns"][0]["exchange"].as_str().unwrap_or_else(|| panic!("{}", reply.text)).to_owned()
}

async fn user(client: &Client) -> skymem_core::UserId {
    let me = client.get("/v1/me").await.expect(200);
    skymem_core::UserId(me["user_id"].as_str().unwrap().parse().unwrap())
}

async fn found(client: &Client) -> bool {
    client.recall(QUESTION).await.iter().any(|text| text.contains("AB negative"))
}

#[test]
fn what_is_sealed_is_absent_while_locked_and_found_while_unlocked() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let exchange = says(server, "health", "clinic", SECRET, "Noted.").await;
        server.catches_up().await;

        let locked = server.recall_as(json!({ "query": QUESTION })).await;
        assert_eq!(locked["recalls"], json!([]));
        let gap = &locked["gaps"][0];
        assert_eq!(
            (gap["reason"].as_str(), gap["detail"].as_str()),
            (Some("locked"), Some("sealed and locked: health"))
        );
        let context = server.context("other", QUESTION).await;
        assert!(!context.to_string().contains("AB negative") && context["gaps"].to_string().contains("locked"));
        assert_eq!(server.get(&format!("/v1/exchanges/{exchange}")).await.status, 423);
        assert_eq!(server.get("/v1/sessions/clinic/turns").await.status, 423);
        assert_eq!(server.get("/v1/sessions/clinic").await.status, 423);
        for list in ["/v1/exchanges", "/v1/sessions", "/v1/stats", "/metrics"] {
            let shown = server.get(list).await.text;
            assert!(!shown.contains("AB negative") && !shown.contains("clinic"), "{list}: {shown}");
        }

        let unlocked = unlock(server, "health", &identity).await;

        assert_eq!((unlocked["unlocked"].as_bool(), unlocked["exchanges"].as_i64()), (Some(true), Some(1)));
        assert!(found(server).await);
        assert!(server.context_for("other", QUESTION).await.contains("AB negative"));
        let shown = server.get(&format!("/v1/exchanges/{exchange}")).await.expect(200);
        assert!(shown.to_string().contains("AB negative"), "{shown}");
        let turns = server.get("/v1/sessions/clinic/turns").await.expect(200);
        assert_eq!(turns["turns"].as_array().map(Vec::len), Some(2));

        lock(server, "health").await;

        assert!(!found(server).await);
        assert_eq!(server.get(&format!("/v1/exchanges/{exchange}")).await.status, 423);
    });
}

#[test]
fn what_is_locked_while_it_is_found_out_what_a_question_means_is_not_told() {
    let upstream = Upstream::says("unused");
    let url = upstream.url();
    let elsewhere = move |config: &mut Config| {
        config.embedder.kind = EmbedderKind::OpenAi;
        (config.embedder.url, config.embedder.model) = (Some(url), Some("scripted".into()));
        config.embedder.dimensions = Some(4);
        config.engine.context.embed_deadline_ms = 30_000;
    };
    story_with(elsewhere, async |server| {
        let identity = seal(server, "health").await;
        says(server, "health", "s", SECRET, "Noted.").await;
        unlock(server, "health", &identity).await;
        // What is unlocked gets its vectors behind the back of whoever asks: until nothing but questions is embedded.
        let (mut asked, mut alone) = (0, 0);
        while alone < 3 {
            let before = upstream.calls();
            server.recall(&format!("Is it time ({asked})?")).await;
            server.catches_up().await;
            alone = if upstream.calls() == before + 1 { alone + 1 } else { 0 };
            asked += 1;
            assert!(asked < 100, "something is embedded for ever");
        }
        for is_locked in [false, true] {
            let gate = Gate::new();
            upstream.next_at("/v1/embeddings", Answer::refusal(400, "no", "Words alone must do.").after(&gate));
            let question = format!("{QUESTION} I have to know ({is_locked}).");
            let meanwhile = async {
                gate.reached().await;
                if is_locked {
                    lock(server, "health").await;
                }
                gate.open();
            };

            let (recalled, ()) = tokio::join!(server.recall(&question), meanwhile);

            assert_ne!(recalled.iter().any(|text| text.contains("AB negative")), is_locked, "{recalled:?}");
        }
    });
}

#[test]
fn what_is_said_while_locked_appears_at_the_next_unlock_and_while_unlocked_at_once() {
    story(async |server| {
        let identity = seal(server, "health").await;
        unlock(server, "health", &identity).await;
        assert!(!found(server).await);

        says(server, "health", "clinic", SECRET, "Noted.").await;
        assert!(found(server).await, "it is unlocked");
        lock(server, "health").await;
        says(server, "health", "clinic", "My pulse is 61.", "Noted.").await;
        unlock(server, "health", &identity).await;

        let recalled = server.recall("what is my pulse?").await;
        assert!(recalled.iter().any(|text| text.contains("61")), "{recalled:?}");
    });
}

#[test]
fn a_session_stays_in_its_sealed_collection_also_when_nobody_names_it_again() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let first = says(server, "health", "clinic", "What is my blood type?", "I do not know.").await;
        server.restarts().await;

        // The client leaves the collection out, and the answer comes later.
        let question = server.tells("clinic", "user", SECRET).await.json;
        let answer = server.tells("clinic", "assistant", "Noted.").await.json;

        let exchange = |reply: &Value| reply["turns"][0]["exchange"].as_str().unwrap_or_default().to_owned();
        assert_eq!(exchange(&question), exchange(&answer), "{question} {answer}");
        assert_ne!(exchange(&question), first);
        assert_eq!(server.get("/v1/sessions").await.expect(200)["sessions"], json!([]));
        unlock(server, "health", &identity).await;
        assert!(found(server).await);
    });
}

#[test]
fn a_write_that_comes_again_is_there_once_also_over_a_restart() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let once = says(server, "health", "clinic", SECRET, "Noted.").await;
        let again = says(server, "health", "clinic", SECRET, "Noted.").await;
        assert_eq!(once, again);
        server.restarts().await;
        // A locked server that has forgotten what it wrote cannot know it again: whoever reads leaves it out.
        says(server, "health", "clinic", SECRET, "Noted.").await;

        unlock(server, "health", &identity).await;

        let turns = server.get("/v1/sessions/clinic/turns").await.expect(200);
        assert_eq!(turns["turns"].as_array().map(Vec::len), Some(2), "{turns}");
    });
}

#[test]
fn what_is_forgotten_while_locked_is_gone_and_can_be_restored() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let exchange = says(server, "health", "clinic", SECRET, "Noted.").await;
        unlock(server, "health", &identity).await;
        assert!(found(server).await);

        assert_eq!(server.post("/v1/forget", json!({ "session": "clinic" })).await.expect(200)["count"], 1);
        assert!(!found(server).await, "at once, also in memory");
        lock(server, "health").await;
        assert_eq!(server.post("/v1/restore", json!({ "ids": [exchange] })).await.expect(200)["count"], 1);
        unlock(server, "health", &identity).await;
        assert!(found(server).await);
    });
}

#[test]
fn it_is_locked_when_its_time_is_over() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let exchange = says(server, "health", "clinic", SECRET, "Noted.").await;
        let path = "/v1/collections/health/unlock";
        server.post(path, json!({ "identity": identity, "minutes": 30 })).await.expect(200);
        server.time_passes(chrono::TimeDelta::minutes(29));
        assert!(found(server).await);

        server.time_passes(chrono::TimeDelta::minutes(1));

        assert!(!found(server).await);
        let problem = detail(&server.get(&format!("/v1/exchanges/{exchange}")).await, 423);
        assert!(problem.contains("sealed and locked"), "{problem}");
    });
}

#[test]
fn a_wrong_key_opens_nothing_and_says_which_it_is() {
    story(async |server| {
        let (own, recipient) = identity();
        let (other, _) = identity();
        let body = json!({ "recipients": [recipient], "passphrase": "correct horse" });
        server.post("/v1/collections/health/seal", body).await.expect(201);
        let try_with = async |body: Value| server.post("/v1/collections/health/unlock", body).await;

        assert!(detail(&try_with(json!({ "identity": other })).await, 422).contains("none of its recipients"));
        assert!(
            detail(&try_with(json!({ "passphrase": "wrong horse" })).await, 422).contains("passphrase does not open")
        );
        let cut = &own[..own.len() - 9];
        let problem = detail(&try_with(json!({ "identity": cut })).await, 422);
        assert!(problem.contains("no whole secret key") && !problem.contains(&cut[cut.len() - 20..]), "{problem}");
        assert_eq!(try_with(json!({})).await.status, 422);
        assert_eq!(try_with(json!({ "passphrase": "correct horse" })).await.expect(200)["unlocked"], true);
        assert_eq!(server.post("/v1/collections/work/unlock", json!({ "identity": own })).await.status, 404);
        assert_eq!(server.post("/v1/collections/health/seal", json!({ "recipients": [] })).await.status, 422);
        assert_eq!(server.post("/v1/collections/other/seal", json!({ "recipients": [own] })).await.status, 422);
    });
}

#[test]
fn recipients_come_and_go_keys_rotate_and_a_shredded_collection_is_gone() {
    story(async |server| {
        let first = seal(server, "health").await;
        let (second, recipient) = identity();
        says(server, "health", "clinic", SECRET, "Noted.").await;
        let add = json!({ "recipient": recipient });
        assert_eq!(server.post("/v1/collections/health/recipients", add.clone()).await.status, 423);
        unlock(server, "health", &first).await;
        server.post("/v1/collections/health/recipients", add).await.expect(200);

        let rotated = server.post("/v1/collections/health/rotate", json!({})).await.expect(200);
        assert_eq!(rotated["key_version"].as_i64(), Some(2));
        says(server, "health", "clinic", "My pulse is 61.", "Noted.").await;
        assert!(
            server.recall("what is my pulse?").await.iter().any(|text| text.contains("61")),
            "with the new key too"
        );
        // What was written before has the new key too, and the old one is gone.
        server.memory().reseal(user(server).await, &"health".parse().unwrap()).await.unwrap();
        let shown = server.get("/v1/collections/health/seal").await.expect(200);
        assert_eq!(shown["behind"], 0, "{shown}");
        let old = "do $$ begin if exists (select from journal.sealed_key where version = 1) then raise 'kept'; end if; end $$";
        server.sql(old).await.unwrap();
        lock(server, "health").await;

        let unlocked = unlock(server, "health", &second).await;
        assert_eq!((unlocked["exchanges"].as_i64(), unlocked["unreadable"].clone()), (Some(2), json!([])));
        assert!(found(server).await);

        let path = "/v1/collections/health/shred";
        assert_eq!(server.post(path, json!({ "confirm": "yes" })).await.status, 422);
        server.post(path, json!({ "confirm": "health" })).await.expect(200);
        assert!(!found(server).await);
        assert_eq!(server.post("/v1/collections/health/unlock", json!({ "identity": first })).await.status, 404);
    });
}

#[test]
fn a_damaged_row_and_a_moved_one_are_named_and_lose_nothing_else() {
    story(async |server| {
        let identity = seal(server, "health").await;
        says(server, "health", "one", SECRET, "Noted.").await;
        says(server, "health", "two", "My pulse is 61.", "Noted.").await;
        says(server, "health", "three", "My weight is 70.", "Noted.").await;
        // A byte of the first turn is changed; the last exchange's turns change places.
        let tamper = "update journal.sealed_turn
                      set ciphertext = set_byte(ciphertext, 120, get_byte(ciphertext, 120) # 1)
                      where seq = (select min(seq) from journal.sealed_turn);
                      update journal.sealed_turn as turn set ciphertext = other.ciphertext
                      from journal.sealed_turn as other
                      where turn.seq > (select max(seq) - 2 from journal.sealed_turn)
                        and other.seq > (select max(seq) - 2 from journal.sealed_turn)
                        and turn.seq <> other.seq";
        server.sql(tamper).await.unwrap();

        let unlocked = unlock(server, "health", &identity).await;

        let unreadable: Vec<&str> =
            unlocked["unreadable"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(unreadable.len(), 3, "{unlocked}");
        assert!(unreadable[0].contains("damaged"), "{unreadable:?}");
        assert!(unreadable[1..].iter().all(|why| why.contains("belongs to another row")), "{unreadable:?}");
        assert!(server.recall("what is my pulse?").await.iter().any(|text| text.contains("61")));
    });
}

#[test]
fn a_recipient_that_is_the_last_stays() {
    story(async |server| {
        let (_, recipient) = identity();
        server.post("/v1/collections/health/seal", json!({ "recipients": [recipient] })).await.expect(201);

        let gone = server.delete(&format!("/v1/collections/health/recipients/{recipient}")).await;

        assert!(detail(&gone, 409).contains("nobody could open"));
        assert_eq!(server.get("/v1/collections/health/seal").await.expect(200)["recipients"], json!([recipient]));
    });
}

#[test]
fn a_key_is_not_rotated_under_a_passphrase_that_was_mistyped() {
    story(async |server| {
        server.post("/v1/collections/health/seal", json!({ "passphrase": "correct horse" })).await.expect(201);
        says(server, "health", "clinic", SECRET, "Noted.").await;
        let path = "/v1/collections/health/rotate";

        let refused = server.post(path, json!({ "passphrase": "corect horse" })).await;

        assert!(detail(&refused, 422).contains("passphrase"), "{}", refused.text);
        let rotated = server.post(path, json!({ "passphrase": "correct horse" })).await.expect(200);
        assert_eq!(rotated["key_version"], 2);
        says(server, "health", "clinic", "My pulse is 61.", "Noted.").await;
        let unlock = json!({ "passphrase": "correct horse" });
        let unlocked = server.post("/v1/collections/health/unlock", unlock).await.expect(200);
        assert_eq!((&unlocked["exchanges"], &unlocked["unreadable"]), (&json!(2), &json!([])), "{unlocked}");
        assert!(found(server).await);
    });
}

#[test]
fn a_recipient_is_one_however_they_are_written_and_may_come_after_a_rotation() {
    story(async |server| {
        let (first, recipient) = identity();
        let both = json!({ "recipients": [recipient, recipient.to_uppercase()] });
        let sealed = server.post("/v1/collections/health/seal", both).await.expect(201);
        assert_eq!(sealed["recipients"], json!([recipient]));
        says(server, "health", "clinic", SECRET, "Noted.").await;
        unlock(server, "health", &first).await;
        server.post("/v1/collections/health/rotate", json!({})).await.expect(200);
        server.memory().reseal(user(server).await, &"health".parse().unwrap()).await.unwrap();

        // The old key is gone from the database, and still in the memory of the server.
        let (second, other) = identity();
        let add = json!({ "recipient": other.to_uppercase() });
        let shown = server.post("/v1/collections/health/recipients", add).await.expect(200);
        assert_eq!(shown["recipients"].as_array().map(Vec::len), Some(2), "{shown}");
        lock(server, "health").await;
        unlock(server, "health", &second).await;
        assert!(found(server).await);

        let gone = server.delete(&format!("/v1/collections/health/recipients/{}", recipient.to_uppercase())).await;
        assert_eq!(gone.expect(200)["recipients"], json!([other]));
        let many: Vec<String> = (0..51).map(|_| identity().1).collect();
        let refused = server.post("/v1/collections/more/seal", json!({ "recipients": many })).await;
        assert!(detail(&refused, 422).contains("more than 50"), "{}", refused.text);
    });
}

#[test]
fn nothing_is_kept_open_in_a_sealed_collection() {
    story(async |server| {
        let (_, recipient) = identity();
        assert_eq!(server.post("/v1/collections/default/seal", json!({ "recipients": [recipient] })).await.status, 422);

        seal(server, "health").await;
        assert_eq!(server.patch("/v1/sessions/x", json!({ "collection": "health" })).await.status, 409);
        let gone = server.delete("/v1/collections/health").await;
        assert_eq!(gone.status, 409, "what is sealed is shredded, not removed: {}", gone.text);
    });
}

#[test]
fn what_one_user_unlocks_no_other_reads() {
    story(async |server| {
        let identity = seal(server, "health").await;
        let exchange = says(server, "health", "clinic", SECRET, "Noted.").await;
        unlock(server, "health", &identity).await;
        let ben = server.other_user("ben").await;

        assert!(!found(&ben).await);
        assert_eq!(ben.get(&format!("/v1/exchanges/{exchange}")).await.status, 404);
        assert_eq!(ben.get("/v1/sessions/clinic/turns").await.status, 404);
        assert_eq!(ben.get("/v1/vault").await.expect(200)["collections"], json!([]));
        assert_eq!(ben.post("/v1/collections/health/unlock", json!({ "identity": identity })).await.status, 404);
        assert_eq!(ben.post("/v1/vault/lock", json!({})).await.expect(200)["locked"], json!([]));
        assert!(found(server).await);
    });
}

#[test]
fn passphrases_are_not_tried_without_end_and_an_identity_opens_meanwhile() {
    story(async |server| {
        let (own, recipient) = identity();
        let body = json!({ "recipients": [recipient], "passphrase": "correct horse" });
        server.post("/v1/collections/health/seal", body).await.expect(201);
        let path = "/v1/collections/health/unlock";

        let mut refused = false;
        for number in 0..200 {
            let reply = server.post(path, json!({ "passphrase": format!("wrong horse {number}") })).await;
            refused = reply.status == 429;
            if refused {
                assert_eq!(reply.problem(429), "rate-limited");
                break;
            }
            assert_eq!(reply.status, 422, "{}", reply.text);
        }

        assert!(refused, "a guesser is told to wait");
        assert_eq!(server.post(path, json!({ "identity": own })).await.expect(200)["unlocked"], true);
        assert!(server.get("/metrics").await.text.contains("skymem_refused_total{why=\"passphrase\"}"));
    });
}
