//! The promise that memory can be tested by its users: `skymem eval`, and the suite that comes with the product.

use std::path::{Path, PathBuf};

use skymem_harness::story;
use tempfile::TempDir;

/// All is as expected, it could not be run, it was called wrongly, something was missed.
const FINE: u8 = 0;
const FAILED: u8 = 1;
const CALLED_WRONGLY: u8 = 2;
const MISSED: u8 = 3;

/// The scripts that come with the product.
fn suite() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../eval").to_string_lossy().into_owned()
}

/// Somebody with a folder, who calls the program as it is called from a shell.
struct Caller {
    folder: TempDir,
}

impl Caller {
    /// `more` stands at the end of their configuration.
    fn new(more: &str) -> Self {
        let caller = Self { folder: tempfile::tempdir().unwrap() };
        let data = caller.path("data");
        let config = format!(
            "[data]\ndir = {:?}\n[database]\nbinaries = {:?}\n[embedder]\nkind = \"offline\"\n{more}",
            data.display().to_string(),
            binaries()
        );
        caller.writes("config.toml", config);
        caller
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn writes(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn reads(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The exit code of `skymem eval` with these arguments.
    fn eval(&self, arguments: &[&str]) -> u8 {
        let config = self.path("config.toml").to_string_lossy().into_owned();
        let call = ["skymem", "--config", &config, "eval"];
        skymem::cli::run(call.iter().chain(arguments))
    }
}

/// The Postgres programs, where set-up leaves them; not set: where the server itself finds them.
fn binaries() -> String {
    let left = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.pg/bin");
    let set = std::env::var_os("SKYMEM_POSTGRES_BIN").map(PathBuf::from);
    let found = set.or_else(|| left.canonicalize().ok());
    found.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default()
}

/// How often `name="..."` says each number, in order.
fn numbers(xml: &str, name: &str) -> Vec<u32> {
    let begins = format!(" {name}=\"");
    let parts = xml.split(&begins).skip(1);
    parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
}

#[test]
fn the_suite_passes() {
    let caller = Caller::new("");
    let junit = caller.path("junit.xml").to_string_lossy().into_owned();

    let exit = caller.eval(&[&suite(), "--junit", &junit]);

    let xml = caller.reads("junit.xml");
    let missed: Vec<&str> = xml.lines().filter(|line| line.contains("<failure ")).collect();
    assert_eq!((exit, missed), (FINE, Vec::new()));
    assert!(xml.matches("<testsuite ").count() >= 30, "{xml}");
    assert_eq!(numbers(&xml, "tests")[0] as usize, xml.matches("<testcase ").count());
    assert_eq!(numbers(&xml, "failures")[0], 0);
    assert!(!caller.path("data").exists(), "nothing is kept where the configuration keeps things");
}

#[test]
fn it_fails_when_a_layer_is_left_out() {
    let caller = Caller::new("");
    for (layer, scripts) in [("episodes", "distant-recall"), ("files", "files-"), ("summaries", "summary-")] {
        assert_eq!(caller.eval(&[&suite(), "--filter", scripts, "--without", layer]), MISSED, "{layer}");
    }
}

#[test]
fn it_fails_when_a_layer_is_switched_off() {
    let caller = Caller::new("[layers.episodes]\nenabled = false\n");

    assert_eq!(caller.eval(&[&suite(), "--filter", "identifier-"]), MISSED);
}

#[test]
fn what_is_missed_is_told_to_ci() {
    let caller = Caller::new("");
    let script = caller.writes(
        "a.md",
        "## a\nUser: My dog is Rex.\n? What is my dog called?\n+ Bello & \"so\" <on>\n- Rex\n\n! forget cat\n? Unasked?\n+ x\n",
    );
    let junit = caller.path("junit.xml").to_string_lossy().into_owned();

    assert_eq!(caller.eval(&[&script, "--junit", &junit]), MISSED);

    let xml = caller.reads("junit.xml");
    assert_eq!((numbers(&xml, "tests")[0], numbers(&xml, "failures")[0]), (2, 2), "{xml}");
    assert_eq!(xml.matches("<testcase ").count(), 2, "{xml}");
    for part in [
        "not recalled: Bello &amp; &quot;so&quot; &lt;on&gt;",
        "recalled, and should not be: Rex",
        "there is nothing to forget: cat",
    ] {
        assert!(xml.contains(part), "{part:?} is not in {xml}");
    }
}

#[test]
fn what_cannot_be_run_is_no_miss() {
    let caller = Caller::new("");
    let good = caller.writes("good.md", "## a\n? x\n+ y\n");
    let call = |text: &[u8]| caller.eval(&[&caller.writes("bad.yaml", text)]);

    assert_eq!(call(b""), FAILED);
    assert_eq!(call(b"\xff\xfe"), FAILED);
    assert_eq!(call(b"steps: 7"), FAILED);
    assert_eq!(call(b"steps:\n  - user: x\n    colour: red\n"), FAILED);
    assert_eq!(caller.eval(&["no-such-folder"]), FAILED);
    assert_eq!(caller.eval(&[&good, &good]), FAILED, "two of one name");
    assert_eq!(caller.eval(&[&good, "--filter", "bad"]), FAILED);
    assert_eq!(caller.eval(&[&good, "--without", "no-such-layer"]), FAILED);
    assert_eq!(caller.eval(&[&good, "--junit", "/no/such/folder/x.xml"]), FAILED);
    assert_eq!(caller.eval(&[&good, "--keep"]), FAILED, "a private server keeps nothing");
    assert_eq!(caller.eval(&[&good, "--running"]), FAILED, "none runs there");
    assert_eq!(caller.eval(&[&good, "--user", "me"]), FAILED, "scripts have users of their own");
    assert_eq!(caller.eval(&[&good, "--dry-run"]), FINE);
    assert_eq!(caller.eval(&[]), CALLED_WRONGLY);
    assert_eq!(caller.eval(&[&good, "--patience", "0"]), CALLED_WRONGLY);
    assert_eq!(caller.eval(&[&good, "--colour"]), CALLED_WRONGLY);
}

#[test]
fn on_a_running_server_nothing_but_a_name_remains() {
    story(async |server| {
        let caller = Caller::new("");
        let data = server.memory_files("me").join("../..");
        caller.writes("config.toml", format!("[data]\ndir = {:?}\n", data.display().to_string()));
        let script = caller.writes(
            "a.md",
            "## a, as anna\nUser: My dog is Rex.\n! file NOW.md\nI have a parrot.\n! restart\n## b, +1 day\n\
             ? What is my dog called?\n+ Rex\n+ parrot\n## b, as boris\n? What is my dog called?\n- Rex\n",
        );
        let calls = [vec![script.clone(), "--running".into()], vec![script, "--running".into(), "--keep".into()]];

        for (call, kept) in calls.into_iter().zip([0, 1]) {
            let before = eval_users(server).await;
            let (caller, call) = (&caller, &call);
            let exit = std::thread::scope(|scope| {
                let eval = scope.spawn(move || caller.eval(&call.iter().map(String::as_str).collect::<Vec<_>>()));
                let learning = tokio::runtime::Handle::current();
                tokio::task::block_in_place(|| {
                    // This server learns by hand.
                    while !eval.is_finished() {
                        learning.block_on(server.catches_up());
                    }
                });
                eval.join().unwrap()
            });

            assert_eq!(exit, FINE);
            let mut users = eval_users(server).await;
            users.retain(|user| !before.contains(user));
            assert_eq!(users.len(), 2, "{users:?}");
            let anna = server.for_user(&users[0]);
            let stats = anna.get("/v1/stats").await.expect(200);
            assert_eq!((&stats["turns"], &stats["exchanges"]), (&kept.into(), &kept.into()), "{stats}");
            assert_eq!(stats["forgotten"], 0, "{stats}");
            let file = anna.get("/v1/files/NOW.md").await.expect(200);
            assert_eq!(file["text"].as_str().unwrap_or_default().contains("parrot"), kept == 1, "{file}");
        }
    });
}

/// The names of the users that scripts were played for.
async fn eval_users(server: &skymem_harness::TestServer) -> Vec<String> {
    let answer = server.get("/v1/users").await.expect(200);
    let names = answer["users"].as_array().into_iter().flatten().filter_map(|user| user["name"].as_str());
    names.filter(|name| name.starts_with("eval-")).map(str::to_owned).collect()
}
