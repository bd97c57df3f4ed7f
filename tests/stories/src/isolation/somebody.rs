//! A user who has something of everything there is.

use serde_json::{Value, json};
use skymem_core::UserId;
use skymem_harness::{Client, TestServer};

use super::text_at;

/// A user, and what is known of them.
pub(super) struct Somebody {
    pub(super) client: Client,
    pub(super) id: UserId,
    /// What they call things: others may guess it.
    pub(super) names: Names,
    /// Words that stand nowhere but in what they keep, in small letters: others never say them.
    pub(super) said: Vec<String>,
    /// The private key of their sealed collection.
    pub(super) identity: String,
    /// The ids of what is theirs, by what they are ids of.
    pub(super) exchanges: Vec<String>,
    pub(super) facts: Vec<String>,
    pub(super) entities: Vec<String>,
    pub(super) keys: Vec<String>,
    pub(super) receipts: Vec<String>,
    pub(super) revisions: Vec<String>,
    /// Where pages of their lists go on.
    pub(super) marks: Vec<String>,
}

/// What somebody calls things.
pub(super) struct Names {
    pub(super) user: String,
    pub(super) session: String,
    pub(super) collection: String,
    pub(super) sealed: String,
    pub(super) file: String,
    pub(super) entity: String,
    pub(super) source: String,
}

impl Somebody {
    /// Makes a user of that name, who tells memory something by every door and then forgets and purges some of it.
    pub(super) async fn lives(server: &TestServer, name: &str) -> Self {
        let client = server.other_user(name).await;
        let nonce = |what: &str| format!("zq{name}{what}7k");
        let said: Vec<String> =
            ["turn", "answer", "note", "fact", "file", "title", "speaker", "key", "sealed", "trash", "client"]
                .map(nonce)
                .to_vec();
        let says = |what: &str| nonce(what);
        let names = Names {
            user: name.into(),
            session: format!("{name}s-session"),
            collection: format!("{name}s-shelf"),
            sealed: format!("{name}s-vault"),
            file: "PLANS.md".into(),
            entity: format!("{name}s heron"),
            source: format!("import:{name}s"),
        };
        let path = |session: &str| format!("/v1/sessions/{session}/turns");

        let turns = json!([
            { "role": "user", "content": format!("My locker code is {}, and my dog is called Rex.", says("turn")),
              "speaker": says("speaker"), "client_id": says("client") },
            { "role": "assistant", "content": format!("I noted {}.", says("answer")) },
        ]);
        let told = json!({ "collection": names.collection, "source": names.source, "turns": turns });
        client.post(&path(&names.session), told).await.expect(201);
        let title = json!({ "title": says("title") });
        client.patch(&format!("/v1/sessions/{}", names.session), title).await.expect(200);
        for number in 0..12 {
            client.says(&names.session, &format!("And question number {number} on the locker?"), "It is easy.").await;
        }
        client.post("/v1/remember", json!({ "text": format!("The spare key is {}.", says("note")) })).await.expect(201);
        let fact = json!({ "subject": names.entity, "predicate": "code", "object": { "literal": says("fact") } });
        client.post("/v1/facts", fact).await.expect(201);
        let fact = json!({ "subject": names.entity, "predicate": "lives_in", "object": "Bremen" });
        client.post("/v1/facts", fact).await.expect(201);
        let file = format!("# Plans\n\nThe plan is {}.\n", says("file"));
        let written = client.put(&format!("/v1/files/{}", names.file), json!({ "text": file, "base": null })).await;
        assert!(written.status < 300, "{}", written.text);
        client.post("/v1/keys", json!({ "name": says("key"), "scopes": ["read"] })).await.expect(201);
        let (identity, recipient) = skymem_seal::make_identity();
        let recipients = json!({ "recipients": [recipient.to_string()] });
        client.post(&format!("/v1/collections/{}/seal", names.sealed), recipients).await.expect(201);
        let sealed = json!([{ "role": "user", "content": format!("My locker's sealed code is {}.", says("sealed")) }]);
        client.post(&path("clinic"), json!({ "collection": names.sealed, "turns": sealed })).await.expect(201);
        let unlock = json!({ "identity": identity.to_string(), "minutes": 0 });
        client.post(&format!("/v1/collections/{}/unlock", names.sealed), unlock).await.expect(200);
        let forgotten = client.says("old", &format!("The old locker code is {}.", says("trash")), "Noted.").await;
        client.post("/v1/forget", json!({ "ids": [forgotten] })).await.expect(200);
        let gone = client.says("older", "The oldest locker code is forgotten by all.", "Noted.").await;
        client.post("/v1/purge", json!({ "ids": [gone], "remembered_too": true })).await.expect(200);
        server.catches_up().await;

        let me = client.get("/v1/me").await.expect(200);
        let mut somebody = Self {
            id: UserId(text_at(&me, "/user_id").parse().unwrap()),
            identity: identity.to_string(),
            names,
            said,
            exchanges: vec![forgotten.to_string()],
            facts: Vec::new(),
            entities: Vec::new(),
            keys: Vec::new(),
            receipts: Vec::new(),
            revisions: Vec::new(),
            marks: Vec::new(),
            client,
        };
        let listed = somebody.listed("/v1/exchanges?limit=5", "exchanges", "/id").await;
        somebody.exchanges.extend(listed);
        somebody.facts = somebody.listed("/v1/facts?limit=2", "facts", "/id").await;
        somebody.entities = somebody.listed("/v1/entities?limit=2", "entities", "/id").await;
        somebody.keys = somebody.listed("/v1/keys", "keys", "/id").await;
        somebody.receipts = somebody.listed("/v1/receipts", "receipts", "/receipt/id").await;
        let history = format!("/v1/files/{}/history", somebody.names.file);
        somebody.revisions = somebody.listed(&history, "revisions", "/revision").await;
        somebody.listed("/v1/sessions?limit=1", "sessions", "/id").await;
        somebody.listed("/v1/trash?limit=1", "exchanges", "").await;
        assert!(somebody.marks.len() > 2, "{:?}", somebody.marks);
        somebody
    }

    /// What a list of theirs holds at a path of each item; notes where its next page begins.
    async fn listed(&mut self, path: &str, list: &str, at: &str) -> Vec<String> {
        let page = self.client.get(path).await.expect(200);
        self.marks.extend(page["next"].as_str().map(str::to_owned));
        let items = page[list].as_array().unwrap_or_else(|| panic!("no {list} in {page}"));
        let found: Vec<String> =
            items.iter().filter_map(|item| item.pointer(at).and_then(Value::as_str)).map(str::to_owned).collect();
        assert!(at.is_empty() || !found.is_empty(), "{path}: {page}");
        found
    }

    /// The ids of what is theirs, which nobody else has.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        let all = [&self.exchanges, &self.facts, &self.keys, &self.receipts];
        all.into_iter().flatten().map(String::as_str)
    }

    /// All of it is there for themselves, as ever: the look that finds nothing elsewhere finds it here.
    pub(super) async fn finds_what_is_his(&self) {
        let client = &self.client;
        let mut shown = String::new();
        for path in [
            format!("/v1/sessions/{}/turns", self.names.session),
            "/v1/sessions/notes/turns".to_owned(),
            "/v1/sessions/clinic/turns".to_owned(),
            format!("/v1/sessions/{}", self.names.session),
            format!("/v1/files/{}", self.names.file),
            "/v1/facts".to_owned(),
            "/v1/keys".to_owned(),
            format!("/v1/exchanges/{}", self.exchanges[0]),
        ] {
            shown += &client.get(&path).await.text.to_lowercase();
        }
        let missing: Vec<&String> = self.said.iter().filter(|nonce| !shown.contains(nonce.as_str())).collect();
        assert_eq!(missing, Vec::<&String>::new());
        let recalled = client.recall("what is my locker code?").await.join("\n").to_lowercase();
        assert!(self.said.iter().any(|nonce| recalled.contains(nonce.as_str())), "{recalled}");
    }
}
