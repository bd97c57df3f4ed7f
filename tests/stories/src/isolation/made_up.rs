//! Calls that are made up by chance, from the description of the API and from what somebody else calls theirs.

use std::fmt;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value, json};
use skymem_harness::Client;

use super::somebody::Somebody;

/// One route and method, as described.
#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) path: &'a str,
    method: &'a str,
    described: &'a Value,
}

/// All that are described.
pub(super) fn operations(described: &Value) -> impl Iterator<Item = Operation<'_>> {
    described["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(|(method, described)| Operation { path, method, described })
    })
}

impl<'a> Operation<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.described["operationId"].as_str().unwrap()
    }

    pub(super) fn tag(&self) -> &'a str {
        self.described["tags"][0].as_str().unwrap()
    }
}

/// Chance that is the same each time.
pub(super) struct Chance(SmallRng);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    pub(super) fn shuffled<'b, T>(&mut self, all: &'b [T]) -> Vec<&'b T> {
        let mut shuffled: Vec<&T> = all.iter().collect();
        shuffled.shuffle(&mut self.0);
        shuffled
    }

    fn one_of<T: Clone>(&mut self, some: &[T]) -> T {
        some.choose(&mut self.0).expect("there is something to choose from").clone()
    }

    fn in_a_hundred(&mut self, times: u32) -> bool {
        self.0.random_range(0..100) < times
    }
}

/// A request that is made up.
pub(super) struct Call {
    method: String,
    address: String,
    headers: Vec<(&'static str, String)>,
    body: Option<(String, String)>,
}

impl Call {
    /// A call of `operation` with names and ids of `other`. Whoever `is_admin` names no other user: admins may.
    pub(super) fn made_up(
        operation: &Operation<'_>,
        described: &Value,
        other: &Somebody,
        is_admin: bool,
        chance: &mut Chance,
    ) -> Self {
        let optional = chance.one_of(&[0, 15, 15, 50]);
        let mut maker = Maker { described, other, is_admin, chance, optional };
        let mut address = operation.path.to_owned();
        let mut query = Vec::new();
        for parameter in operation.described["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap();
            let required = parameter["required"] == true;
            match parameter["in"].as_str() {
                Some("path") => {
                    let value = text_of(&maker.value(name, &parameter["schema"]));
                    address = address.replace(&format!("{{{name}}}"), &encoded(&value));
                }
                Some("query") if required || maker.chance.in_a_hundred(maker.optional) => {
                    if name == "of" && operation.tag() != "graph" && is_admin {
                        continue;
                    }
                    let value = text_of(&maker.value(name, &parameter["schema"]));
                    query.push(format!("{name}={}", encoded(&value)));
                }
                _ => {}
            }
        }
        assert!(!address.contains('{'), "{address} has a name that is not described");
        if !query.is_empty() {
            address = format!("{address}?{}", query.join("&"));
        }
        let content = operation.described.pointer("/requestBody/content").and_then(Value::as_object);
        let body = content.map(|content| {
            let kinds: Vec<&String> = content.keys().collect();
            let kind = maker.chance.one_of(&kinds);
            let body = match (operation.tag(), kind.as_str()) {
                ("proxy", _) => maker.chat().to_string(),
                (_, "application/json") => maker.of_schema("", &content[kind]["schema"]).to_string(),
                (_, kind) => maker.lines(kind, &content[kind]["schema"]),
            };
            (kind.clone(), body)
        });
        let headers = maker.headers(operation.tag() == "proxy");
        Self { method: operation.method.to_uppercase(), address, headers, body }
    }

    pub(super) fn request(&self, client: &Client) -> reqwest::RequestBuilder {
        let mut request = client.request(&self.method, &self.address);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        match &self.body {
            Some((kind, body)) => request.header("content-type", kind).body(body.clone()),
            None => request,
        }
    }

    pub(super) fn is_of_the_proxy(&self) -> bool {
        self.address.contains("chat/completions")
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, address, headers, body } = self;
        // An address is shown as it is meant, too: an answer repeats the name, not its encoding.
        write!(f, "{method} {address} ({}) {headers:?} {body:?}", decoded(address))
    }
}

/// Makes values up.
struct Maker<'a> {
    described: &'a Value,
    other: &'a Somebody,
    is_admin: bool,
    chance: &'a mut Chance,
    /// How often what may be left out is there, in a hundred.
    optional: u32,
}

impl Maker<'_> {
    /// A value for what is called `name`: something of the other's where there is something of that name, else what the schema
    /// allows.
    fn value(&mut self, name: &str, schema: &Value) -> Value {
        let other = self.other;
        let names = &other.names;
        let of = |values: &[String]| values.iter().map(|value| json!(value)).collect::<Vec<_>>();
        let those: Vec<Value> = match name {
            "session" | "id" => of(&[names.session.clone(), "clinic".into(), "mine".into()]),
            "collection" | "secrets_collection" => of(&[names.collection.clone(), names.sealed.clone(), "mine".into()]),
            "collections" => vec![json!([names.collection]), json!([names.sealed, names.collection])],
            "confirm" => of(std::slice::from_ref(&names.sealed)),
            "sessions" => vec![json!([names.session, "mine"])],
            "exchange" => of(&other.exchanges),
            "ids" | "exchanges" => vec![json!(other.exchanges), json!([self.chance.one_of(&other.exchanges)])],
            "fact" => of(&other.facts),
            "facts" => vec![json!(other.facts)],
            "entity" | "of" | "to" | "about" | "alias" | "other" | "subject" | "name" | "entities" => {
                let mut all = of(&other.entities);
                all.extend([json!(names.entity), json!("Rex"), json!("Bremen"), json!("Anna")]);
                all
            }
            "key" => of(&other.keys),
            "receipt" if is_text(schema) => of(&other.receipts),
            "revision" | "base" => of(&other.revisions),
            "file" => vec![json!(names.file), json!("NOW.md"), json!("MEMORY.md")],
            "headings" if is_text(schema) => vec![json!("Plans")],
            "headings" => vec![json!(["Plans"])],
            "source" => of(&[names.source.clone(), "import:mine".into()]),
            "user" => of(std::slice::from_ref(&names.user)),
            "after" => of(&other.marks),
            "layer" => of(&["episodes".into(), "facts".into(), "vault".into()]),
            "layers" => vec![json!(["episodes"]), json!(["facts", "vault", "summaries", "files"])],
            "timezone" => vec![json!("Europe/Berlin")],
            "identity" => vec![json!(other.identity)],
            "passphrase" => vec![json!("correct horse")],
            "recipient" => vec![json!(skymem_seal::make_identity().1.to_string())],
            "recipients" => vec![json!([skymem_seal::make_identity().1.to_string()])],
            "scopes" => vec![json!(["read"])],
            "format" if is_text(schema) => of(&["dot".into(), "csv".into(), "graphml".into(), "cytoscape".into()]),
            "predicate" => vec![json!("code"), json!("lives_in")],
            "kind" if is_text(schema) => vec![json!("person")],
            "role" => vec![json!("user"), json!("assistant")],
            "roles" => vec![json!(["user"])],
            "upstream" => vec![json!("default"), json!("scripted")],
            "model" => vec![json!("scripted")],
            "secrets" => vec![json!("redact"), json!("allow"), json!("seal")],
            "explain" if is_text(schema) => of(&other.exchanges),
            "from" if !is_moment(schema) => of(&other.entities),
            "query" | "question" | "content" | "text" => of(&[
                "what is the locker code?".into(),
                format!("what was said in {} of {}?", names.session, names.collection),
                format!("where does {} live?", names.entity),
                "my dog is called Rex".into(),
            ]),
            _ => Vec::new(),
        };
        if those.is_empty() { self.of_schema(name, schema) } else { self.chance.one_of(&those) }
    }

    /// A value that a schema allows.
    fn of_schema(&mut self, name: &str, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let described = self.described;
            let named = described.pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere");
            return self.of_schema(name, named);
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in all {
                if let Value::Object(part) = self.of_schema(name, part) {
                    whole.extend(part);
                }
            }
            return Value::Object(whole);
        }
        for some in ["oneOf", "anyOf"] {
            if let Some(some) = schema[some].as_array() {
                let some: Vec<&Value> = some.iter().filter(|schema| schema["type"] != "null").collect();
                let one = self.chance.one_of(&some);
                return if one["properties"].is_object() || one["$ref"].is_string() {
                    self.of_schema(name, one)
                } else {
                    self.value_or(name, one)
                };
            }
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.chance.one_of(values);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") => self.object(schema),
            None if schema["properties"].is_object() => self.object(schema),
            Some("array") => {
                let items = schema["items"].clone();
                (0..self.chance.0.random_range(1..=2)).map(|_| self.value(name, &items)).collect()
            }
            Some("boolean") => json!(self.chance.in_a_hundred(50)),
            Some("integer") => {
                let least = schema["minimum"].as_i64().unwrap_or(1);
                json!(
                    self.chance.0.random_range(least..=schema["maximum"].as_i64().unwrap_or(least + 5).min(least + 5))
                )
            }
            Some("number") => json!(schema["minimum"].as_f64().unwrap_or(0.5)),
            Some("string") if is_moment(schema) => {
                let day = self.chance.0.random_range(1..=28);
                let month = self.chance.0.random_range(1..=12);
                json!(format!("2026-{month:02}-{day:02}T00:00:00Z"))
            }
            Some("string") if schema["format"] == "uuid" => json!(self.chance.one_of(&self.other.exchanges)),
            Some("string") => match &schema["example"] {
                Value::String(example) => json!(example),
                _ => json!("owl"),
            },
            _ => schema.get("example").cloned().unwrap_or_else(|| json!("owl")),
        }
    }

    /// As [`Maker::value`], for one of several schemas of the same name.
    fn value_or(&mut self, name: &str, schema: &Value) -> Value {
        if name.is_empty() { self.of_schema(name, schema) } else { self.value_of_kind(name, schema) }
    }

    fn value_of_kind(&mut self, name: &str, schema: &Value) -> Value {
        if schema["type"] == "string" && schema["enum"].is_null() {
            return self.value(name, schema);
        }
        self.of_schema(name, schema)
    }

    fn object(&mut self, schema: &Value) -> Value {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if required.contains(&name.as_str()) || self.chance.in_a_hundred(self.optional) {
                object.insert(name.clone(), self.value(name, property));
            }
        }
        // Most things are asked for by one of several names.
        if object.is_empty()
            && let Some(properties) = schema["properties"].as_object()
        {
            let names: Vec<&String> = properties.keys().collect();
            let name = self.chance.one_of(&names);
            object.insert(name.clone(), self.value(name, &properties[name]));
        }
        Value::Object(object)
    }

    /// What is no JSON: lines of it, or of a table.
    fn lines(&mut self, kind: &str, schema: &Value) -> String {
        if kind.contains("json") {
            return (0..2).map(|_| format!("{}\n", self.of_schema("", schema))).collect();
        }
        format!("subject,predicate,object\n{},code,owl\n", self.other.names.entity)
    }

    fn chat(&mut self) -> Value {
        let question = self.value("question", &Value::Null);
        let mut body = json!({ "model": "scripted", "messages": [{ "role": "user", "content": question }] });
        let names = &self.other.names;
        let mine: [(&str, Value); 6] = [
            ("user", json!(names.user)),
            ("metadata", json!({ "user_id": names.user, "session_id": names.session })),
            ("metadata", json!({ "memory": "read", "conversation_id": names.session })),
            ("safety_identifier", json!(names.user)),
            ("conversation", json!(names.session)),
            ("model", json!("scripted:read")),
        ];
        for (name, value) in mine {
            // Only who may not act for others names them.
            let names_a_user = value.to_string().contains(&format!("\"{}\"", names.user));
            if self.chance.in_a_hundred(30) && !(self.is_admin && names_a_user) {
                body[name] = value;
            }
        }
        body
    }

    fn headers(&mut self, of_proxy: bool) -> Vec<(&'static str, String)> {
        let names = &self.other.names;
        let mut headers = Vec::new();
        let users = ["x-memory-user", "x-openwebui-user-id", "x-litellm-end-user-id", "x-sm-user-id"];
        if !self.is_admin && self.chance.in_a_hundred(if of_proxy { 40 } else { 5 }) {
            headers.push((self.chance.one_of(&users), names.user.clone()));
        }
        if of_proxy {
            let sessions = ["x-memory-session", "x-openwebui-chat-id", "x-conversation-id", "x-session-id"];
            if self.chance.in_a_hundred(60) {
                headers.push((self.chance.one_of(&sessions), names.session.clone()));
            }
            if self.chance.in_a_hundred(40) {
                headers.push(("x-memory-collection", self.chance.one_of(&[names.collection.clone(), "mine".into()])));
            }
        }
        headers
    }
}

/// Whether a schema is that of a text.
fn is_text(schema: &Value) -> bool {
    schema["type"] == "string" || schema["type"].as_array().is_some_and(|kinds| kinds.contains(&json!("string")))
}

fn is_moment(schema: &Value) -> bool {
    schema["format"] == "date-time"
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn decoded(address: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = address.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
