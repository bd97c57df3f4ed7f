//! The promise of the audit log: every change is in it, with who and when and without a word of what was said; and
//! whoever tampers with it is found out.

use serde_json::{Value, json};
use skymem_harness::{TestServer, story};

async fn log(server: &TestServer) -> Vec<Value> {
    let page = server.get("/v1/audit?limit=200").await.expect(200);
    page["entries"].as_array().unwrap().clone()
}

fn last<'a>(log: &'a [Value], verb: &str) -> &'a Value {
    log.iter().find(|entry| entry["verb"] == verb).unwrap_or_else(|| panic!("no {verb} in {log:?}"))
}

async fn verified(server: &TestServer) -> Value {
    server.get("/v1/audit/verify").await.expect(200)
}

#[test]
fn every_change_is_written_down_with_who_and_when() {
    story(async |server| {
        let own_key = server.get("/v1/me").await.expect(200)["key"].clone();
        let id = server.says("secret-session", "The safe opens with xylophone.", "Noted.").await;
        server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);
        server.post("/v1/restore", json!({ "ids": [id] })).await.expect(200);
        server.post("/v1/forget", json!({ "session": "secret-session" })).await.expect(200);
        server.post("/v1/purge", json!({ "ids": [id] })).await.expect(200);
        let made = json!({ "name": "Anna's phone", "scopes": ["read"] });
        let key = server.post("/v1/keys", made).await.expect(201)["key"]["id"].as_str().unwrap().to_owned();
        server.post(&format!("/v1/keys/{key}/rotate"), json!({})).await;
        server.delete(&format!("/v1/keys/{key}")).await;
        server.patch("/v1/sessions/limited", json!({ "max_turns": 10 })).await.expect(200);
        server.put("/v1/collections/work", json!({ "half_life_days": 7.0 })).await;
        server.patch("/v1/me", json!({ "timezone": "Europe/Berlin" })).await.expect(200);
        let fact = json!({ "subject": "Anna", "predicate": "lives_in", "object": "Bremen" });
        server.post("/v1/facts", fact).await.expect(201);
        let file = server.put("/v1/files/NOTES.md", json!({ "text": "# Plans\n", "base": null })).await;
        assert!(file.status < 300, "{}", file.text);
        let turn = json!({ "session": "old", "role": "user", "content": "hello", "source": "import:chat" });
        server.post("/v1/turns", json!({ "turns": [turn] })).await.expect(200);

        let log = log(server).await;

        for verb in [
            "user_made",
            "forgot",
            "restored",
            "purged",
            "key_made",
            "key_rotated",
            "session_set",
            "collection_set",
            "user_set",
            "facts_stated",
            "file_edited",
            "imported",
        ] {
            last(&log, verb);
        }
        let forgot = last(&log, "forgot");
        assert_eq!(forgot["what"]["exchanges"], json!({ "count": 1, "ids": [id] }));
        assert_eq!(forgot["what"]["before"], json!({ "remembered": 1, "in_trash": 0 }));
        assert_eq!(forgot["what"]["after"], json!({ "remembered": 0, "in_trash": 1 }));
        assert_eq!(last(&log, "purged")["what"]["after"], json!({ "remembered": 0, "in_trash": 0 }));
        assert_eq!(forgot["actor"], own_key);
        assert_eq!(last(&log, "user_made")["actor"], "server");
        let text = Value::Array(log.clone()).to_string();
        for said in ["xylophone", "secret-session", "Bremen", "Anna", "Plans", "hello", "limited"] {
            assert!(!text.contains(said), "{said} stands in the log: {text}");
        }
        let numbers: Vec<i64> = log.iter().map(|entry| entry["number"].as_i64().unwrap()).collect();
        assert_eq!(numbers, (1..=i64::try_from(log.len()).unwrap()).rev().collect::<Vec<_>>());
        let whole = verified(server).await;
        assert_eq!(
            (&whole["whole"], &whole["sound"], &whole["head"]),
            (&json!(true), &json!(log.len()), &log[0]["hash"])
        );
        let purges = server.get("/v1/audit?verb=purged").await.expect(200);
        assert_eq!(purges["entries"].as_array().unwrap().len(), 1);
        assert_eq!(server.get("/v1/audit?verb=frobbed").await.status, 422);
    });
}

#[test]
fn what_changes_nothing_is_not_written_down() {
    story(async |server| {
        let id = server.says("a", "one", "yes").await;
        let before = log(server).await.len();

        server.post("/v1/forget", json!({ "ids": [id], "dry_run": true })).await.expect(200);
        server.post("/v1/restore", json!({ "ids": [id] })).await.expect(200);
        server.says("a", "two", "yes").await;

        assert_eq!(log(server).await.len(), before);
    });
}

#[test]
fn the_log_of_one_is_not_shown_to_another_and_the_servers_own_to_admins_alone() {
    story(async |server| {
        let anna = server.other_user("anna").await;
        let id = server.says("a", "one", "yes").await;
        server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);

        assert!(!anna.get("/v1/audit").await.text.contains(&id.to_string()));
        let server_log = server.get("/v1/audit?of=server").await.expect(200);
        assert_eq!(server_log["entries"].as_array().unwrap().len(), 2, "{server_log}");
        let reader = json!({ "name": "reader", "scopes": ["read"] });
        let reader = server.post("/v1/keys", reader).await.expect(201)["text"].as_str().unwrap().to_owned();
        assert_eq!(server.with_key(&reader).get("/v1/audit?of=server").await.problem(403), "forbidden");
        assert_eq!(server.with_key(&reader).get("/v1/audit").await.status, 200);
    });
}

#[test]
fn whoever_tampers_with_the_log_is_found_out() {
    story(async |server| {
        for name in ["a", "b", "c", "d"] {
            let id = server.says(name, name, "yes").await;
            server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);
        }
        let head = verified(server).await["head"].as_str().unwrap().to_owned();
        let length = verified(server).await["sound"].as_i64().unwrap();
        let unlocked = "alter table journal.audit disable trigger audit_stays; ";
        let user = "user_id = (select id from journal.users limit 1)";

        // The database itself says no as long as nobody takes its guard away.
        for sql in ["update journal.audit set actor = 'x'", "delete from journal.audit", "truncate journal.audit"] {
            assert!(server.sql(sql).await.unwrap_err().to_string().contains("only added to"), "{sql}");
        }
        assert_eq!(verified(server).await["whole"], true);

        let altered = length - 2;
        server
            .sql(&format!("{unlocked} update journal.audit set verb = 'restored' where {user} and number = {altered}"))
            .await
            .unwrap();
        let broken = verified(server).await;
        assert_eq!(broken["broken"], json!({ "number": altered, "how": "was altered" }), "{broken}");
        assert_eq!(broken["sound"], altered - 1);
        server
            .sql(&format!("update journal.audit set verb = 'forgot' where {user} and number = {altered}"))
            .await
            .unwrap();
        assert_eq!(verified(server).await["whole"], true, "put back as it was");

        // Cut the end off, here and where the end is kept: only who noted the end elsewhere can tell.
        server.sql(&format!("delete from journal.audit where {user} and number = {length}")).await.unwrap();
        assert_eq!(verified(server).await["broken"]["number"], length);
        let cut = format!(
            "update journal.audit_head set number = {0}, hash = (select hash from journal.audit where {user} and number = {0}) where {user}",
            length - 1
        );
        server.sql(&cut).await.unwrap();
        assert_eq!(verified(server).await["whole"], true);
        let known = server.get(&format!("/v1/audit/verify?head={head}")).await.expect(200);
        assert!(known["broken"]["how"].as_str().unwrap().contains("another log"), "{known}");

        server.sql(&format!("delete from journal.audit where {user} and number = 2")).await.unwrap();
        assert_eq!(verified(server).await["broken"], json!({ "number": 2, "how": "is missing" }));
    });
}

#[test]
fn each_way_of_tampering_is_named() {
    story(async |server| {
        for name in ["a", "b", "c"] {
            let id = server.says(name, name, "yes").await;
            server.post("/v1/forget", json!({ "ids": [id] })).await.expect(200);
        }
        let whole = verified(server).await;
        let length = whole["sound"].as_i64().unwrap();
        let user = "user_id = (select id from journal.users limit 1)";
        let row = |number: i64| format!("{user} and number = {number}");
        let move_to = |from: i64, to: i64| format!("update journal.audit set number = {to} where {};", row(from));
        let swapped = [move_to(2, 1_000), move_to(3, 2), move_to(1_000, 3)].concat();
        let put_back = swapped.clone();
        let head = |number: &str, hash: &str| {
            format!("update journal.audit_head set number = {number}, hash = {hash} where {user};")
        };
        let noted = head(&length.to_string(), &format!("(select hash from journal.audit where {})", row(length)));
        let added = format!(
            "insert into journal.audit select user_id, number + 1, at, actor, verb, what, hash from journal.audit where {};",
            row(length)
        );
        let forged = format!("delete from journal.audit where {};", row(length + 1));
        server.sql("alter table journal.audit disable trigger audit_stays").await.unwrap();

        let ways = [
            ("two entries change places", swapped, put_back, 2, "altered"),
            ("the end is noted as another", head("number", "sha256('x')"), noted.clone(), length, "made anew"),
            ("the end is said to be earlier", head("number - 1", "hash"), noted.clone(), length, "behind the end"),
            ("one is added behind the end", added, forged, length + 1, "altered"),
        ];
        for (way, tamper, mend, number, how) in ways {
            server.sql(&tamper).await.unwrap();
            let broken = verified(server).await;
            assert_eq!(broken["whole"], false, "{way}: {broken}");
            assert_eq!(broken["broken"]["number"], number, "{way}: {broken}");
            assert!(broken["broken"]["how"].as_str().unwrap().contains(how), "{way}: {broken}");
            server.sql(&mend).await.unwrap();
            assert_eq!(verified(server).await, whole, "{way} is mended");
        }

        // Without the note of its end, the whole log stands behind an end that is nowhere.
        server.sql(&format!("delete from journal.audit_head where {user}")).await.unwrap();
        let broken = verified(server).await;
        assert_eq!(broken["broken"]["number"], 1, "{broken}");
        assert!(broken["broken"]["how"].as_str().unwrap().contains("behind the end"), "{broken}");
    });
}
