//! The program as people use it: the built binary, a real server, a database of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests stand outside of them")]

mod facts;
mod gone;
mod place;
mod vault;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skymem_store::postgres::{PostgresSettings, PrivatePostgres};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use place::{Place, shown};

const CHAT: &str = r#"{"session":"trip","title":"The trip","messages":[{"role":"user","content":"Where is the blue suitcase?","created_at":"2024-05-01T10:00:00Z"},{"role":"assistant","content":"The blue suitcase is in the attic."}]}
{"session":"pals","messages":[{"role":"user","name":"Caroline","content":"Hey Mel, I started pottery classes."},{"role":"user","name":"Melanie","content":"Lovely, Caroline! Show me the bowls."}]}
"#;

#[test]
fn a_person_imports_asks_forgets_and_restores() {
    let place = Place::new("main");
    let server = place.serve();
    let file = place.file("chat.jsonl", &format!("{CHAT}{{broken\n"));
    let file = file.to_str().unwrap();

    let dry = place.json(&["import", file, "--dry-run"]);
    assert_eq!((&dry["turns"], &dry["sessions"], &dry["problems"]), (&json!(4), &json!(2), &json!(1)));

    let first = place.json(&["import", file, "--wait"]);
    assert_eq!(
        (&first["recorded"], &first["already"], &first["still_being_learned"]),
        (&json!(4), &json!(0), &json!(0))
    );
    let again = place.json(&["import", file]);
    assert_eq!((&again["recorded"], &again["already"]), (&json!(0), &json!(4)));
    let strict = place.error(&["import", file, "--strict"], 1);
    assert!(strict.contains("chat.jsonl: line 3: is not JSON"), "{strict}");

    let recall = place.json(&["recall", "blue suitcase"]);
    assert!(recall["recalls"][0]["text"].as_str().unwrap().contains("attic"), "{recall}");
    assert!(place.text(&["recall", "pottery classes", "--unit", "turn"]).contains("pottery"));
    assert!(place.text(&["context", "where is the blue suitcase"]).contains("attic"));

    let sessions = place.json(&["sessions"]);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 2);
    assert!(place.text(&["sessions", "pals"]).contains("Melanie: Lovely"));

    let remembered = place.json(&["remember", "I am allergic to peanuts", "--pin"]);
    assert_eq!(remembered["fate"], "stored");
    let id = remembered["exchange"].as_str().unwrap();
    assert!(place.text(&["exchanges", id]).contains("peanuts"));
    assert!(place.text(&["forget", id, "--dry-run"]).contains("1 exchange would be"));
    assert!(place.text(&["forget", id]).contains("1 exchange forgotten"));
    assert!(place.text(&["exchanges", "--trash"]).contains("peanuts"));
    assert!(place.text(&["restore", id]).contains("1 exchange restored"));

    assert_eq!(place.json(&["stats"])["turns"], 5);
    assert!(place.text(&["version"]).contains("server"));
    let doctor = place.json(&["doctor"]);
    assert_eq!(doctor["failed"], 0, "{doctor:#}");
    // Called where the model is not: what the running server has is what counts.
    let mut elsewhere = place.command(&["doctor"]);
    let elsewhere = elsewhere.env("SKYMEM_EMBEDDER__KIND", "local").env("SKYMEM_EMBEDDER__FOLDER", "/nowhere").output();
    assert!(elsewhere.as_ref().unwrap().status.success(), "{}", shown(&elsewhere.unwrap()));
    let gone = place.error(&["import", "gone.jsonl"], 1);
    assert!(gone.contains("cannot open gone.jsonl") && !gone.contains("imported"), "{gone}");
    server.stop();
}

#[test]
fn the_first_start_shows_a_key_and_the_next_one_does_not() {
    let place = Place::new("keys");
    let server = place.serve();
    let key = server.welcome.split_whitespace().find(|word| word.starts_with("skm_")).unwrap().to_owned();
    assert!(server.welcome.contains("/docs") && server.welcome.contains("curl"), "{}", server.welcome);

    assert!(place.text(&["--key", &key, "stats"]).contains("turns"));
    let wrong = place.error(&["--key", "skm_0000000000000000_wrong", "stats"], 1);
    assert!(wrong.contains("skymem key create"), "{wrong}");

    let made = place.json(&["key", "create", "reader", "--scope", "read", "--days", "3"]);
    let (text, id) = (made["text"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(place.text(&["--key", text, "sessions"]).contains("No sessions"));
    assert!(place.error(&["--key", text, "remember", "x"], 1).contains("scope"));
    assert!(place.text(&["key", "list"]).contains("reader"));
    let rotated = place.json(&["key", "rotate", id]);
    assert!(place.error(&["--key", text, "sessions"], 1).contains("key"));
    assert!(place.text(&["key", "revoke", rotated["id"].as_str().unwrap()]).contains("Revoked"));
    assert!(place.error(&["key", "revoke", "nope"], 1).contains("there is no key nope"));

    place.json(&["key", "create", "--user", "anna"]);
    place.json(&["remember", "Anna likes tea", "--user", "anna"]);
    assert_eq!(place.json(&["stats", "--user", "anna"])["turns"], 1);
    assert_eq!(place.json(&["stats"])["turns"], 0);
    assert!(place.error(&["stats", "--user", "nobody"], 1).contains("nobody"));

    server.stop();
    let server = place.serve();
    assert!(!server.welcome.contains("skm_"), "{}", server.welcome);
    assert_eq!(place.json(&["stats"])["turns"], 0);
    server.stop();
}

#[test]
fn files_are_edited_without_overwriting_anybody() {
    let place = Place::new("files");
    let server = place.serve();
    let edit = |arguments: &[&str]| place.text(&[&["files", "edit", "NOW.md"], arguments].concat());

    edit(&["--section", "Today", "--body", "Write the report"]);
    edit(&["--section", "Today", "--append", "Call Anna"]);
    let shown = place.text(&["files", "show", "NOW.md", "--section", "Today"]);
    assert!(shown.contains("Write the report") && shown.contains("Call Anna"), "{shown}");
    assert!(place.text(&["files", "list"]).contains("NOW.md"));
    assert!(place.text(&["context", "hello"]).contains("Call Anna"));

    let diff = place.text(&["files", "diff", "NOW.md"]);
    assert!(diff.contains("+Call Anna"), "{diff}");
    let history = place.json(&["files", "history", "NOW.md"]);
    let before = history["revisions"][1]["revision"].as_str().unwrap();
    place.text(&["files", "restore", "NOW.md", &before[..12]]);
    assert!(!place.text(&["files", "show", "NOW.md"]).contains("Call Anna"));
    assert!(place.text(&["files", "show", "NOW.md", "--revision", before]).contains("Write the report"));

    // An editor that takes so long that somebody else has written meanwhile.
    let binary = env!("CARGO_BIN_EXE_skymem");
    let editor = format!("sh -c '{binary} files edit NOW.md --append other >/dev/null && echo mine >> \"$0\"'");
    let output = place.command(&["files", "edit", "NOW.md"]).env("EDITOR", &editor).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{}", shown_output(&output));
    assert!(error.contains("+mine") && error.contains("your text is kept in"), "{error}");

    let output = place.command(&["files", "edit", "NOW.md"]).env("EDITOR", "true").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("Nothing changed"), "{}", shown_output(&output));
    let output = place.command(&["files", "edit", "NEW.md"]).env("EDITOR", "sh -c 'echo \"# New\" > \"$0\"'").output();
    assert!(output.unwrap().status.success());
    assert!(place.text(&["files", "show", "NEW.md"]).contains("# New"));
    server.stop();
}

fn shown_output(output: &Output) -> String {
    shown(output)
}

#[test]
fn an_import_survives_that_the_server_is_killed() {
    let place = Place::new("kill");
    let lines: String = (0..4_000)
        .map(|number| {
            format!("{}\n", json!({"role": "user", "content": format!("note {number}"), "session": number % 7}))
        })
        .collect();
    let file = place.file("notes.jsonl", &lines);
    let mut server = place.serve();

    let import = place.command(&["import", file.to_str().unwrap(), "--json", "--patience", "120"]);
    let import = { import }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| place.json(&["stats"])["turns"].as_i64().unwrap() >= 200);
    server.signal("-KILL");
    server.child.wait().unwrap();
    let server = place.serve();

    let output = import.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(place.json(&["stats"])["turns"], 4_000);
    server.stop();
}

fn wait_until(mut true_at_last: impl FnMut() -> bool) {
    let began = Instant::now();
    while !true_at_last() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came true");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_memory_of_another_embedder_is_refused_until_it_is_learned_again() {
    let mut place = Place::new("embedder");
    let server = place.serve();
    let file = place.file("chat.jsonl", CHAT);
    place.json(&["import", file.to_str().unwrap(), "--wait"]);
    assert!(place.error(&["reembed"], 1).len() > 10, "not while a server runs");
    server.stop();

    let fake = FakeEmbedder::start();
    place.settings = vec![
        ("SKYMEM_EMBEDDER__KIND".into(), "openai".into()),
        ("SKYMEM_EMBEDDER__URL".into(), fake.url.clone()),
        ("SKYMEM_EMBEDDER__MODEL".into(), "fake".into()),
        ("SKYMEM_EMBEDDER__DIMENSIONS".into(), "8".into()),
    ];
    let refused = place.error(&["serve"], 1);
    assert!(refused.contains("skymem reembed"), "{refused}");

    assert_eq!(place.json(&["reembed"])["exchanges"], 2);
    let server = place.serve();
    wait_until(|| place.json(&["stats"])["layers"].as_array().unwrap().iter().all(|layer| layer["behind"] == 0));
    assert!(place.text(&["recall", "blue suitcase"]).contains("attic"));
    server.stop();
}

/// An OpenAI-style embedder that gives every text the same kind of vector.
struct FakeEmbedder {
    url: String,
}

impl FakeEmbedder {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                std::thread::spawn(move || answer_embeddings(stream));
            }
        });
        Self { url }
    }
}

fn answer_embeddings(mut stream: std::net::TcpStream) -> Option<()> {
    use std::io::Read;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let texts = match &request["input"] {
            Value::Array(texts) => texts.clone(),
            one => vec![one.clone()],
        };
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| {
                let length = text.as_str().unwrap_or_default().len() as f32;
                let vector: Vec<f32> = (0..8).map(|place| 1.0 + (length + place as f32).sin()).collect();
                json!({"object": "embedding", "index": index, "embedding": vector})
            })
            .collect();
        let text = json!({"object": "list", "data": data, "model": "fake"}).to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        )
        .ok()?;
    }
}

#[test]
fn what_goes_wrong_is_said_in_words_with_a_way_out() {
    let mut place = Place::new("wrong");

    let none = place.error(&["recall", "x"], 1);
    assert!(none.contains("skymem serve"), "{none}");
    assert_eq!(place.run(&["recall"]).status.code(), Some(2));
    assert_eq!(place.run(&["nonsense"]).status.code(), Some(2));
    let empty = place.file("empty.jsonl", "");
    assert!(place.error(&["import", "--dry-run", empty.to_str().unwrap()], 1).contains("it is empty"));
    let csv = place.file("chat.csv", "role,content\n");
    assert!(place.error(&["import", "--dry-run", csv.to_str().unwrap()], 1).contains("neither JSONL"));
    assert!(place.error(&["import", "--dry-run", "gone.jsonl"], 1).contains("cannot open gone.jsonl"));

    let server = place.serve();
    let second = place.error(&["serve"], 1);
    assert!(second.contains("is taken") && second.contains("server.listen"), "{second}");
    server.stop();

    place.settings = vec![("SKYMEM_SERVER__PORT".into(), "1".into())];
    assert!(place.error(&["config", "show"], 1).contains("SKYMEM_SERVER__PORT names no setting"));
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("FAIL  configuration"), "{}", shown(&doctor));

    let check = |settings: &[(&str, &str)], of: &str, expected: &str| {
        let mut command = place.command(&["doctor", "--json"]);
        command.env_remove("SKYMEM_SERVER__PORT").envs(settings.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", shown(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let found = checks.iter().any(|check| {
            check["of"] == of && check["state"] == "fail" && check["found"].as_str().unwrap().contains(expected)
        });
        assert!(found, "{report:#}");
    };
    check(&[("SKYMEM_DATABASE__URL", "postgres://u:p@127.0.0.1:1/x")], "database", "cannot be reached");
    check(&[("SKYMEM_DATABASE__URL", "nonsense")], "database", "write it like");
    check(&[("SKYMEM_DATABASE__URL", &place.url().replace(&place.database, "no_such"))], "database", "has no database");
    check(&[("SKYMEM_EMBEDDER__KIND", "local"), ("SKYMEM_EMBEDDER__FOLDER", "/nowhere")], "embedder", "nowhere");
    check(&[("SKYMEM_DATA__DIR", "/proc/skymem")], "data folder", "cannot write");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    check(&[("SKYMEM_SERVER__LISTEN", &taken.local_addr().unwrap().to_string())], "server", "");
}

#[test]
fn a_reader_that_stops_reading_is_no_error() {
    let place = Place::new("pipe");
    let mut child =
        place.command(&["config", "explain"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());

    let output = child.wait_with_output().unwrap();

    assert!(output.status.success(), "{}", shown(&output));
    assert!(output.stderr.is_empty(), "{}", shown(&output));
}

/// Where set-up or a setting has the programs; else they are looked for.
fn postgres_programs() -> Option<PathBuf> {
    let fetched = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.pg/bin").canonicalize().ok();
    std::env::var_os("SKYMEM_POSTGRES_BIN").map(PathBuf::from).or(fetched)
}

#[test]
fn a_superuser_of_the_database_is_good_for_one_user_and_the_program_says_what_to_do_about_more() {
    let mut place = Place::new("superuser");
    // The account that Postgres runs as has to pass.
    std::fs::set_permissions(place.folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = PostgresSettings {
        folder: place.folder.path().join("cluster"),
        binaries: postgres_programs(),
        ephemeral: true,
        ..PostgresSettings::default()
    };
    let postgres = runtime.block_on(PrivatePostgres::start(settings)).unwrap();
    let socket = postgres.connect_options().get_socket().unwrap().clone();
    let url = |role: &str| format!("postgres://{role}@localhost/skymem?host={}", socket.display());
    let connect_as = |place: &mut Place, role: &str| {
        place.settings = vec![("SKYMEM_DATABASE__URL".into(), url(role))];
    };

    connect_as(&mut place, "postgres");
    place.text(&["key", "create", "laptop", "--user", "anna"]);
    let refused = place.error(&["key", "create", "laptop", "--user", "berta"], 1);
    assert!(refused.contains("journal.hand_over('skymem')"), "{refused}");
    let doctor = place.json(&["doctor"]);
    let wall = |report: &Value| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["of"] == "wall").unwrap_or_else(|| panic!("{report:#}")).clone()
    };
    assert_eq!(wall(&doctor)["state"], "warn", "{doctor:#}");

    runtime.block_on(async {
        let mut administrator = PgConnectOptions::from_str(&url("postgres")).unwrap().connect().await.unwrap();
        sqlx::raw_sql("select journal.hand_over('skymem')").execute(&mut administrator).await.unwrap();
        administrator.close().await.unwrap();
    });
    connect_as(&mut place, "skymem");
    place.text(&["key", "create", "laptop", "--user", "berta"]);
    assert_eq!(wall(&place.json(&["doctor"]))["state"], "ok");

    connect_as(&mut place, "postgres");
    let refused = place.error(&["serve"], 1);
    assert!(refused.contains("2 users have a memory here") && refused.contains("hand_over"), "{refused}");
    let output = place.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), wall(&report)["state"].as_str()), (Some(1), Some("fail")), "{report:#}");

    runtime.block_on(postgres.stop()).unwrap();
}
