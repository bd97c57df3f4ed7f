//! The private Postgres, on real clusters: programs from `SKYMEM_POSTGRES_BIN`, else where they are found.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use skymem_core::wall::{acting_for, acting_for_everyone};
use skymem_store::postgres::{PostgresError, PostgresSettings, PrivatePostgres, find_binaries};
use skymem_store::wall::walled;
use skymem_store::{Journal, StoreError, migrate};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool};

#[tokio::test]
async fn a_new_folder_becomes_a_database_with_vectors_and_no_superuser() {
    let place = Place::new();

    let postgres = place.start().await;
    let mut db = connect(&postgres).await;

    let close: f64 = sqlx::query_scalar("select '[1,2]'::vector <-> '[1,2]'::vector").fetch_one(&mut db).await.unwrap();
    assert_eq!(close, 0.0);
    let superuser: String = sqlx::query_scalar("show is_superuser").fetch_one(&mut db).await.unwrap();
    assert_eq!(superuser, "off");
    let lower: String = sqlx::query_scalar("select lower('ÄÖÜ')").fetch_one(&mut db).await.unwrap();
    assert_eq!(lower, "äöü");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn over_a_superuser_one_user_is_kept_and_more_once_the_tables_are_handed_to_an_ordinary_role() {
    let place = Place::new();
    let postgres = place.start().await;
    let superuser = pool(postgres.connect_options().username("postgres")).await;
    let at = "2026-02-06T12:00:00Z".parse().unwrap();
    let make = async |db: &PgPool, name: &str| Journal::new(db.clone()).make_user(&name.parse().unwrap(), at).await;

    acting_for_everyone(async {
        migrate(&superuser).await.unwrap();
        make(&superuser, "anna").await.unwrap();
        make(&superuser, "anna").await.unwrap();
        let refused = make(&superuser, "berta").await.unwrap_err();
        let StoreError::Conflict(why) = refused else { panic!("{refused:?}") };
        assert!(why.contains("\"postgres\"") && why.contains("select journal.hand_over('skymem')"), "{why}");

        let ordinary = pool(postgres.connect_options()).await;
        sqlx::query("select journal.hand_over('skymem')").execute(&superuser).await.unwrap();
        migrate(&ordinary).await.unwrap();
        let berta = make(&ordinary, "berta").await.unwrap();

        let (anna, named) = (make(&ordinary, "anna").await.unwrap(), "select name from journal.users");
        for (user, name) in [(anna, "anna"), (berta, "berta")] {
            let seen = acting_for(user.id, sqlx::query_scalar(named).fetch_all(&ordinary)).await;
            let seen: Vec<String> = seen.unwrap();
            assert_eq!(seen, [name]);
        }
        ordinary.close().await;
    })
    .await;
    superuser.close().await;
    postgres.stop().await.unwrap();
}

async fn pool(options: PgConnectOptions) -> PgPool {
    walled(PgPoolOptions::new().max_connections(2)).connect_with(options).await.unwrap()
}

#[tokio::test]
async fn an_index_search_goes_on_until_a_filter_is_satisfied() {
    let place = Place::new();

    let postgres = place.start().await;
    let mut db = connect(&postgres).await;

    // The setting counts once the library is loaded, which the first vector does.
    sqlx::query("select '[1]'::vector").execute(&mut db).await.unwrap();
    let scan: String = sqlx::query_scalar("show hnsw.iterative_scan").fetch_one(&mut db).await.unwrap();
    assert_eq!(scan, "relaxed_order");
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn only_a_test_may_give_up_what_was_committed() {
    check_fsync(false, "on").await;
    check_fsync(true, "off").await;
}

async fn check_fsync(ephemeral: bool, expected: &str) {
    let place = Place::new();

    let postgres = PrivatePostgres::start(PostgresSettings { ephemeral, ..place.settings() }).await.unwrap();
    let mut db = connect(&postgres).await;

    let fsync: String = sqlx::query_scalar("show fsync").fetch_one(&mut db).await.unwrap();
    assert_eq!(fsync, expected);
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn acknowledged_rows_survive_a_killed_postgres_which_comes_back_by_itself() {
    let place = Place::new();
    let postgres = place.start().await;
    let mut db = connect(&postgres).await;
    sqlx::query("create table said (id int primary key)").execute(&mut db).await.unwrap();
    let mut acknowledged = 0;

    for _ in 0..3 {
        let pid = place.postmaster();
        let killer = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(50));
            kill_process(pid, Signal::KILL).unwrap();
        });
        while sqlx::query("insert into said values ($1)").bind(acknowledged + 1).execute(&mut db).await.is_ok() {
            acknowledged += 1;
        }
        killer.await.unwrap();
        db = reconnect(&postgres).await;
        // The last one may have been committed without an answer.
        let kept: i32 = sqlx::query_scalar("select max(id) from said").fetch_one(&mut db).await.unwrap();
        assert!(kept >= acknowledged, "{acknowledged} were acknowledged, {kept} are there");
        acknowledged = kept;
    }

    let kept: i64 = sqlx::query_scalar("select count(*) from said").fetch_one(&mut db).await.unwrap();
    assert_eq!(kept, i64::from(acknowledged));
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn the_database_of_a_killed_server_is_taken_over_whole() {
    let place = Place::new();
    // This very program once more, as a server to be killed.
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_server_that_is_killed", "--ignored", "--nocapture"])
        .env("SKYMEM_TEST_FOLDER", &place.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.ends_with("ready")), "the server did not start");

    server.kill().unwrap();
    server.wait().unwrap();
    let postgres = place.start().await;

    let mut db = connect(&postgres).await;
    let kept: String = sqlx::query_scalar("select words from said").fetch_one(&mut db).await.unwrap();
    assert_eq!(kept, "kept");
    postgres.stop().await.unwrap();
}

#[tokio::test]
#[ignore = "part of the test above, which kills it"]
async fn a_server_that_is_killed() {
    let Some(folder) = std::env::var_os("SKYMEM_TEST_FOLDER") else { return };
    let settings = PostgresSettings { folder: folder.into(), binaries: binaries(), ..PostgresSettings::default() };
    let postgres = PrivatePostgres::start(settings).await.unwrap();
    let mut db = connect(&postgres).await;
    sqlx::raw_sql("create table said (words text); insert into said values ('kept')").execute(&mut db).await.unwrap();
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[tokio::test]
async fn a_database_that_outlived_its_server_is_adopted_minded_and_stopped() {
    let place = Place::new();
    place.start().await.stop().await.unwrap();
    let owner = std::fs::metadata(place.data()).unwrap();
    let mut orphan = Command::new(find_binaries(binaries().as_deref(), None).unwrap().folder.join("postgres"));
    if geteuid().is_root() {
        orphan.uid(owner.uid()).gid(owner.gid());
    }
    let run = place.folder.join("run");
    std::fs::create_dir(&run).unwrap();
    place.own(&run);
    orphan.arg("-D").arg(place.data()).arg("-k").arg(run).args(["-c", "listen_addresses="]);
    let mut orphan = orphan.stderr(Stdio::null()).spawn().unwrap();
    while !std::fs::read_to_string(place.data().join("postmaster.pid")).is_ok_and(|file| file.contains("ready")) {
        assert!(orphan.try_wait().unwrap().is_none(), "the orphan has ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let postgres = place.start().await;
    assert_eq!(place.postmaster(), Pid::from_child(&orphan));
    connect(&postgres).await;

    kill_process(place.postmaster(), Signal::KILL).unwrap();
    orphan.wait().unwrap();
    reconnect(&postgres).await;
    assert_ne!(place.postmaster(), Pid::from_child(&orphan));
    postgres.stop().await.unwrap();
    assert_eq!(place.processes(), 0);
}

#[tokio::test]
async fn a_pid_file_whose_number_belongs_to_a_stranger_now_does_not_keep_it_from_starting() {
    let place = Place::new();
    place.start().await.stop().await.unwrap();
    let stranger = std::process::id();
    let run = place.folder.join("run");
    let data = place.data();
    let left = format!("{stranger}\n{}\n1700000000\n5432\n{}\n\n  1 2\nready   \n", data.display(), run.display());
    place.leave(&data.join("postmaster.pid"), &left);
    std::fs::create_dir(&run).unwrap();
    place.own(&run);
    place.leave(&run.join(".s.PGSQL.5432.lock"), &left);

    let postgres = place.start().await;

    connect(&postgres).await;
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_pid_file_of_a_process_that_is_gone_does_not_keep_it_from_starting() {
    let place = Place::new();
    place.start().await.stop().await.unwrap();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let data = place.data();
    place.leave(&data.join("postmaster.pid"), &format!("{}\n{}\n1700000000\n5432\n", gone.id(), data.display()));

    let postgres = place.start().await;

    connect(&postgres).await;
    postgres.stop().await.unwrap();
}

#[tokio::test]
async fn a_path_too_long_for_a_socket_is_no_obstacle() {
    let place = Place::new();
    let long = place.folder.join("a".repeat(60)).join("b".repeat(60));

    let postgres = PrivatePostgres::start(PostgresSettings { folder: long, ..place.settings() }).await.unwrap();

    connect(&postgres).await;
    let socket = postgres.connect_options().get_socket().unwrap().clone();
    postgres.stop().await.unwrap();
    assert!(!socket.exists(), "{} is left behind", socket.display());
}

#[tokio::test]
async fn a_second_server_is_refused_and_a_command_joins_the_first() {
    let place = Place::new();
    let first = place.start().await;

    let second = PrivatePostgres::start(place.settings()).await;
    assert!(matches!(&second, Err(PostgresError::InUse { folder }) if *folder == place.folder), "{second:?}");

    let command = PrivatePostgres::join(place.settings()).await.unwrap();
    connect(&command).await;
    command.stop().await.unwrap();
    connect(&first).await;

    // As while it is started again.
    std::fs::remove_file(place.data().join("postmaster.pid")).unwrap();
    let early = PrivatePostgres::join(place.settings()).await;
    assert!(matches!(&early, Err(PostgresError::Down { .. })), "{early:?}");
    first.stop().await.unwrap();
}

#[tokio::test]
async fn a_command_without_a_server_starts_the_database_for_itself() {
    let place = Place::new();

    let command = PrivatePostgres::join(place.settings()).await.unwrap();
    connect(&command).await;
    command.stop().await.unwrap();

    assert_eq!(place.processes(), 0);
}

#[tokio::test]
async fn nothing_runs_after_a_stop() {
    let place = Place::new();
    let postgres = place.start().await;
    // An open session must not hold it up.
    let _open = connect(&postgres).await;
    assert!(place.processes() > 0);

    postgres.stop().await.unwrap();

    assert_eq!(place.processes(), 0);
    assert!(!place.data().join("postmaster.pid").exists());
}

#[tokio::test]
async fn nothing_runs_after_it_was_dropped() {
    let place = Place::new();
    drop(place.start().await);

    // It stops in the background; starting again waits for that.
    place.start().await.stop().await.unwrap();

    assert_eq!(place.processes(), 0);
}

#[tokio::test]
async fn data_of_another_version_are_left_alone_with_a_word_on_what_to_do() {
    let place = Place::new();
    std::fs::create_dir_all(place.data()).unwrap();
    std::fs::write(place.data().join("PG_VERSION"), "99\n").unwrap();

    let error = PrivatePostgres::start(place.settings()).await.unwrap_err();

    assert!(matches!(error, PostgresError::OtherVersion { data: 99, .. }), "{error:?}");
    assert!(error.to_string().contains("pg_upgrade"), "{error}");
}

#[tokio::test]
async fn a_folder_with_something_else_in_it_is_left_alone() {
    let place = Place::new();
    std::fs::create_dir_all(place.data()).unwrap();
    std::fs::write(place.data().join("holiday.jpg"), "").unwrap();

    let error = PrivatePostgres::start(place.settings()).await.unwrap_err();

    assert!(matches!(error, PostgresError::NoCluster { .. }), "{error:?}");
    assert!(place.data().join("holiday.jpg").exists());
}

#[tokio::test]
async fn a_folder_that_the_account_cannot_reach_is_named_before_anything_is_made() {
    if !geteuid().is_root() {
        // Nobody else steps down to another account.
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(place.outer(), std::fs::Permissions::from_mode(0o700)).unwrap();

    let error = PrivatePostgres::start(place.settings()).await.unwrap_err();

    assert!(matches!(error, PostgresError::Closed { .. }), "{error:?}");
    assert!(!place.folder.exists());
}

#[test]
fn an_account_that_does_not_exist_is_named() {
    if !geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let settings = PostgresSettings { account: Some("no such one".to_owned()), ..place.settings() };

    let started = tokio::runtime::Runtime::new().unwrap().block_on(PrivatePostgres::start(settings));

    assert!(matches!(&started, Err(PostgresError::NoAccount(name)) if name == "no such one"), "{started:?}");
}

#[test]
fn programs_without_pgvector_are_refused_by_name() {
    let place = Place::new();

    let error = find_binaries(Some(place.outer()), None).unwrap_err();

    assert!(error.to_string().contains(place.outer().to_str().unwrap()), "{error}");
}

/// A folder of one test, gone at its end.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("skymem-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let outer = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&outer).unwrap();
        Self { folder: outer.join("postgres") }
    }

    fn outer(&self) -> &Path {
        self.folder.parent().unwrap()
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn settings(&self) -> PostgresSettings {
        PostgresSettings { folder: self.folder.clone(), binaries: binaries(), ..PostgresSettings::default() }
    }

    async fn start(&self) -> PrivatePostgres {
        PrivatePostgres::start(self.settings()).await.unwrap()
    }

    fn postmaster(&self) -> Pid {
        let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        Pid::from_raw(file.lines().next().unwrap().parse().unwrap()).unwrap()
    }

    /// How many processes work in the data folder.
    fn processes(&self) -> usize {
        let data = self.data();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter(|entry| std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == data)).count()
    }

    /// Leaves a file behind as a Postgres that has died would: as the owner of the data.
    fn leave(&self, path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        self.own(path);
    }

    fn own(&self, path: &Path) {
        let owner = std::fs::metadata(self.data()).unwrap();
        std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.outer());
    }
}

fn binaries() -> Option<PathBuf> {
    std::env::var_os("SKYMEM_POSTGRES_BIN").map(PathBuf::from)
}

async fn connect(postgres: &PrivatePostgres) -> PgConnection {
    PgConnection::connect_with(&postgres.connect_options()).await.unwrap()
}

/// Waits for a Postgres that is on its way back.
async fn reconnect(postgres: &PrivatePostgres) -> PgConnection {
    let since = Instant::now();
    loop {
        match PgConnection::connect_with(&postgres.connect_options()).await {
            Ok(connection) => return connection,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(60), "it does not come back: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
