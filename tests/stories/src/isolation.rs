//! The promise between users: whatever somebody calls with whatever of somebody else's, nothing of theirs comes back, nothing of
//! theirs changes, and removing a user leaves everybody else as they were.
//!
//! The calls are made up by chance from the description of the API ([`made_up`]), so that a new route is called too.

mod made_up;
mod somebody;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use skymem_harness::{Answer, Client, TestServer, Upstream, story_with};
use skymem_models::EmbedderKind;

use crate::proxy::through;
use made_up::{Call, Chance, Operation, operations};
use somebody::Somebody;

/// So often each route is called at least,
const CALLS: usize = 6;
/// and at most until it is called as it wants to be.
const TRIES: usize = 60;

/// What an answer says to a call that is not as the route wants it: then nothing was looked for.
const MALFORMED: [u16; 4] = [400, 411, 415, 422];

/// Users are for admins: who has such a key may list them, remove them and act for them.
const OF_ADMINS: [&str; 1] = ["users"];

fn isolated(test: impl AsyncFnOnce(&TestServer, &Upstream)) {
    // It says what it was sent, memory's part as well: so an answer shows what memory put in.
    let upstream = Upstream::answers(|heard| Answer::says(&heard.everything()));
    let change = |config: &mut skymem::config::Config| {
        through(&upstream)(config);
        config.embedder.kind = EmbedderKind::Offline;
        config.server.rates.requests_per_second = 0;
        config.server.rates.passphrases_per_minute = 0;
        if let Some(vault) = config.layers.get_mut("vault") {
            vault.insert("passphrase_work".into(), 4.into());
        }
    };
    story_with(change, async |server| test(server, &upstream).await);
}

#[test]
fn whatever_one_user_calls_nothing_of_another_comes_back_and_nothing_of_theirs_changes() {
    isolated(async |server, upstream| {
        let bob = Somebody::lives(server, "bob").await;
        let anna = server.other_user("anna").await;
        anna.says("mine", "My dog is Rex, and I live in Bremen.", "Noted.").await;
        let plain = json!({ "name": "plain", "scopes": ["read", "write"] });
        let plain = anna.post("/v1/keys", plain).await.expect(201)["text"].as_str().unwrap().to_owned();
        let plain = server.with_key(&plain);
        server.catches_up().await;
        let before = server.rows_of(bob.id).await;
        let described = server.get("/openapi.json").await.expect(200);
        let mut chance = Chance::new(20_261_130);
        let all: Vec<Operation<'_>> = operations(&described).collect();

        // Her own key, then one that may do everything with what is hers.
        let (mut well_formed, mut answers) = (BTreeSet::new(), BTreeMap::new());
        for (client, is_admin) in [(&plain, false), (&anna, true)] {
            for operation in chance.shuffled(&all) {
                if is_admin && (OF_ADMINS.contains(&operation.tag()) || operation.path == "/v1/users/{user}") {
                    continue;
                }
                for tried in 0..TRIES {
                    let call = Call::made_up(operation, &described, &bob, is_admin, &mut chance);
                    let (status, answer) = check(client, &call, &bob, upstream).await;
                    if !MALFORMED.contains(&status) {
                        well_formed.insert(operation.id());
                    }
                    answers.insert(operation.id(), format!("{call}: {answer}"));
                    if tried + 1 >= CALLS && well_formed.contains(operation.id()) {
                        break;
                    }
                }
            }
            server.catches_up().await;
            assert_eq!(changed(&before, &server.rows_of(bob.id).await), Vec::<String>::new());
        }

        answers.retain(|id, _| !well_formed.contains(id));
        assert!(answers.is_empty(), "routes that were never called as they want to be: {answers:#?}");
        assert!(all.len() > 80, "{}", all.len());
        bob.finds_what_is_his().await;
    });
}

#[test]
fn removing_a_user_leaves_every_row_of_the_others_as_it_was() {
    isolated(async |server, _| {
        let bob = Somebody::lives(server, "bob").await;
        let anna = Somebody::lives(server, "anna").await;
        server.catches_up().await;
        let before = server.rows_of(bob.id).await;
        assert!(before.len() > 15, "{before:?}");

        let receipt = server.delete("/v1/users/anna").await.expect(200);

        assert_eq!(receipt["receipt"]["clean"], true, "{receipt}");
        assert_eq!(changed(&before, &server.rows_of(bob.id).await), Vec::<String>::new());
        assert_eq!(server.rows_of(anna.id).await, BTreeMap::new());
        bob.finds_what_is_his().await;
    });
}

/// Makes a call, and looks through all that comes back for anything of `other`'s; the status and the body.
async fn check(client: &Client, call: &Call, other: &Somebody, upstream: &Upstream) -> (u16, String) {
    let response = call.request(client).send().await.expect("the server answers");
    let status = response.status().as_u16();
    let headers = format!("{:?}", response.headers());
    let body = response.text().await.unwrap_or_default();
    assert!(status < 500 || status == 503, "{call}: {status} {body}");
    let sent = call.to_string();
    // What a model was sent is an answer as well.
    let passed_on =
        if call.is_of_the_proxy() && upstream.calls() > 0 { upstream.last().everything() } else { String::new() };
    for answer in [&headers, &body, &passed_on] {
        for nonce in &other.said {
            assert!(
                !answer.to_lowercase().contains(nonce.as_str()),
                "{nonce} of another user: {call}: {status} {answer}"
            );
        }
        for id in other.ids() {
            assert!(
                sent.contains(id) || !answer.contains(id),
                "{id} of another user, which was not asked for: {call}: {status} {answer}"
            );
        }
    }
    (status, body)
}

/// The tables of which the rows of a user are not as they were.
fn changed(before: &BTreeMap<String, (i64, String)>, after: &BTreeMap<String, (i64, String)>) -> Vec<String> {
    let tables: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = tables.into_iter().filter(|table| before.get(*table) != after.get(*table));
    differs.map(|table| format!("{table}: {:?} became {:?}", before.get(table), after.get(table))).collect()
}

/// A value at a path, as text.
fn text_at(value: &Value, path: &str) -> String {
    value.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {value}")).to_owned()
}
