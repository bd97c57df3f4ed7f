//! One cluster on disk: made once, locked while in use, started or adopted.

use std::collections::VecDeque;
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use sha2::{Digest, Sha256};

use super::account::{Account, said};
use super::binaries::{Binaries, Version, find_binaries};
use super::pidfile::{self, PidFile};
use super::{PORT, PostgresError, PostgresSettings, SUPERUSER, process};

/// How long another skymem may take to let go of the folder: it may just be stopping.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How long a Postgres may start, stop or repair after a crash.
const START_PATIENCE: Duration = Duration::from_secs(300);

/// Between two looks at something that another process does.
const GLANCE: Duration = Duration::from_millis(20);

/// The longest path of a folder for sockets; the kernel allows 104 to 108 bytes with the socket's name.
const LONGEST_SOCKET_FOLDER: usize = 85;

/// How much of what Postgres says is kept to explain a failed start.
const LAST_WORDS: usize = 8;

/// The first pgvector whose parallel index builds do not write past their memory.
const SAFE_PARALLEL_BUILDS: Version = Version(0, 8, 2);

/// Where the cluster lies within the folder.
pub(super) fn data_folder(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// A cluster that this process alone looks after.
#[derive(Debug)]
pub(super) struct Cluster {
    folder: PathBuf,
    data: PathBuf,
    socket_folder: PathBuf,
    binaries: Binaries,
    account: Account,
    ephemeral: bool,
    /// Locked as long as this lives. The system lets go of it when the process dies, however it dies.
    _lock: File,
}

/// A Postgres that runs: started here, or adopted from a process that is gone.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) pid: Pid,
    pub(super) socket_folder: PathBuf,
    child: Option<Child>,
}

impl Cluster {
    /// Finds programs and account, locks the folder, and makes the cluster if there is none.
    pub(super) fn open(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        let folder = std::path::absolute(&settings.folder).map_err(PostgresError::io(&settings.folder))?;
        let account = Account::choose(settings.account.as_deref(), &folder)?;
        let major = cluster_major(&data_folder(&folder))?;
        let binaries = find_binaries(settings.binaries.as_deref(), major).or_else(|error| match major {
            // Fit programs of another version: the reader should hear of that rather than of a search.
            Some(_) => find_binaries(settings.binaries.as_deref(), None).map_err(|_| error),
            None => Err(error),
        })?;
        if let Some(data) = major.filter(|major| *major != binaries.major) {
            let (programs, binaries) = (binaries.major, binaries.folder);
            return Err(PostgresError::OtherVersion { folder, data, binaries, programs });
        }
        account.check_reach(&binaries.program("postgres"), &folder)?;

        account.make_folder(&folder)?;
        let folder = folder.canonicalize().map_err(PostgresError::io(&folder))?;
        let lock = lock(&folder)?;
        let cluster = Self {
            data: data_folder(&folder),
            socket_folder: socket_folder(&folder),
            folder,
            binaries,
            account,
            ephemeral: settings.ephemeral,
            _lock: lock,
        };
        if cluster_major(&cluster.data)?.is_none() {
            cluster.make()?;
        }
        Ok(cluster)
    }

    /// The folder that holds everything.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts Postgres, or adopts one that still runs, and waits until it takes connections.
    pub(super) fn start(&self) -> Result<Running, PostgresError> {
        match self.settle()? {
            Some(PidFile { pid, socket_folder, .. }) => {
                tracing::info!(pid = pid.as_raw_nonzero(), "Adopted a PostgreSQL that outlived its server");
                Ok(Running { pid, socket_folder, child: None })
            }
            None => self.spawn(),
        }
    }

    /// Whether `running` still does.
    pub(super) fn is_alive(&self, running: &mut Running) -> bool {
        match &mut running.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => process::works_in(&self.data, running.pid),
        }
    }

    /// Removes the emptied folder of the socket, which may lie outside. It is made anew at each start.
    pub(super) fn tidy(&self) {
        if let Err(error) = std::fs::remove_dir(&self.socket_folder) {
            tracing::debug!(%error, "The folder of the socket stays");
        }
    }

    /// Waits until what a former life left behind has come to rest: a Postgres that is ready, or none at all.
    fn settle(&self) -> Result<Option<PidFile>, PostgresError> {
        let patience = Instant::now();
        loop {
            let workers = process::at_work(&self.data);
            match pidfile::read(&self.data) {
                Some(file) if file.is_ready() && workers.contains(&file.pid) => return Ok(Some(file)),
                Some(file) if workers.is_empty() && process::exists(file.pid) => {
                    // A zombie, or a stranger that was given the same number: Postgres would take it for a rival.
                    remove(&pidfile::path(&self.data))?;
                    remove(&self.socket_folder.join(format!(".s.PGSQL.{PORT}.lock")))?;
                    return Ok(None);
                }
                // A file of a process that is gone is left to Postgres, which looks into it once more.
                _ if workers.is_empty() => return Ok(None),
                _ => self.wait_since(patience)?,
            }
        }
    }

    fn spawn(&self) -> Result<Running, PostgresError> {
        self.account.make_folder(&self.socket_folder)?;
        let mut command = self.account.command(&self.binaries.program("postgres"));
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.socket_folder);
        for option in self.options() {
            command.arg("-c").arg(option);
        }
        // A group of its own, so that Ctrl-C in a terminal reaches the server alone and it can stop in order.
        command.current_dir("/").process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
        end_with_this_thread(&mut command);
        let mut child = command.spawn().map_err(PostgresError::io(&self.binaries.folder))?;
        let listener = child.stderr.take().map(listen).transpose().map_err(PostgresError::io(&self.folder))?;
        let pid = Pid::from_child(&child);

        let patience = Instant::now();
        loop {
            if child.try_wait().map_err(PostgresError::io(&self.folder))?.is_some() {
                let words = listener.and_then(|listener| listener.join().ok()).unwrap_or_default();
                return Err(self.explain(&words, PostgresError::Ended));
            }
            if pidfile::read(&self.data).is_some_and(|file| file.pid == pid && file.is_ready()) {
                return Ok(Running { pid, socket_folder: self.socket_folder.clone(), child: Some(child) });
            }
            if let Err(late) = self.wait_since(patience) {
                process::signal(pid, process::FAST);
                return Err(late);
            }
        }
    }

    /// Makes the cluster under another name first, so that half of one is never taken for a whole.
    fn make(&self) -> Result<(), PostgresError> {
        tracing::info!(folder = %self.folder.display(), "Making a new database");
        let unfinished = self.folder.join("data.new");
        match std::fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(PostgresError::io(&unfinished)(error)),
            _ => {}
        }
        let mut initdb = self.account.command(&self.binaries.program("initdb"));
        initdb.arg("-D").arg(&unfinished).args(["-U", SUPERUSER, "-E", "UTF8", "--data-checksums"]);
        initdb.args(["--auth-local=trust", "--auth-host=reject"]);
        // The plain C locale knows no letters beyond ASCII.
        if self.binaries.major >= 17 {
            initdb.args(["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]);
        } else {
            initdb.arg("--locale=C.UTF-8");
        }
        if self.ephemeral {
            initdb.arg("--no-sync");
        }
        let output = initdb.current_dir("/").output().map_err(PostgresError::io(&self.binaries.folder))?;
        if !output.status.success() {
            return Err(self.explain(&said(&output.stderr), PostgresError::NotMade));
        }
        std::fs::rename(&unfinished, &self.data).map_err(PostgresError::io(&self.data))?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(PostgresError::io(&self.folder))
    }

    /// Given at each start, so that the cluster's own configuration file stays untouched.
    fn options(&self) -> Vec<&'static str> {
        let mut options = vec![
            "listen_addresses=",
            "unix_socket_permissions=0700",
            "cluster_name=skymem",
            // Containers have 64 MB of /dev/shm, which parallel index builds overrun.
            "dynamic_shared_memory_type=mmap",
            // Compiling costs more than it saves on questions of some milliseconds.
            "jit=off",
            // What a question reads is in memory, where any page is as near as the next: a few rows are looked up, not scanned for.
            "random_page_cost=1.1",
            // Room for a small machine; pages are taken when they are used.
            "shared_buffers=128MB",
            "maintenance_work_mem=128MB",
            "max_wal_size=512MB",
            // What was purged is gone with the files it stood in; files that are used again keep what they held.
            "wal_recycle=off",
            // Without it an index search ends before a filter has found enough.
            "hnsw.iterative_scan=relaxed_order",
            "timezone=UTC",
            "log_timezone=UTC",
            // Read by `listen`, and without details: those may quote memories.
            "log_destination=stderr",
            "logging_collector=off",
            "log_line_prefix=",
            "lc_messages=C",
            "log_error_verbosity=terse",
            "log_min_error_statement=panic",
            "log_checkpoints=off",
        ];
        if self.binaries.pgvector < SAFE_PARALLEL_BUILDS {
            options.push("max_parallel_maintenance_workers=0");
        }
        if self.ephemeral {
            options.extend(["fsync=off", "synchronous_commit=off", "full_page_writes=off"]);
        }
        options
    }

    /// A little sleep, or the error that it took too long.
    fn wait_since(&self, start: Instant) -> Result<(), PostgresError> {
        if start.elapsed() > START_PATIENCE {
            return Err(PostgresError::NotReady { folder: self.folder.clone(), waited_secs: START_PATIENCE.as_secs() });
        }
        std::thread::sleep(GLANCE);
        Ok(())
    }

    /// A full disk has an error of its own, whoever reports it.
    fn explain(&self, words: &str, otherwise: fn(String) -> PostgresError) -> PostgresError {
        if words.contains("No space left on device") {
            PostgresError::DiskFull { folder: self.folder.clone() }
        } else {
            otherwise(words.to_owned())
        }
    }
}

/// The major version of the cluster in `data`; `None` when there is none.
fn cluster_major(data: &Path) -> Result<Option<u32>, PostgresError> {
    match std::fs::read_to_string(data.join("PG_VERSION")) {
        Ok(version) => match version.trim().parse() {
            Ok(major) => Ok(Some(major)),
            Err(_) => Err(PostgresError::NoCluster { folder: data.to_path_buf() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && !data.exists() => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(PostgresError::NoCluster { folder: data.to_path_buf() })
        }
        Err(error) => Err(PostgresError::io(data)(error)),
    }
}

/// Whether a process looks after the cluster in `folder`. Where it may not look it says no.
pub(super) fn is_looked_after(folder: &Path) -> bool {
    File::open(folder).is_ok_and(|folder| matches!(folder.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Takes the folder for this process alone. The folder itself is locked: a file for that would need an owner.
fn lock(folder: &Path) -> Result<File, PostgresError> {
    let file = File::open(folder).map_err(PostgresError::io(folder))?;
    let patience = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if patience.elapsed() < LOCK_PATIENCE => std::thread::sleep(GLANCE),
            Err(TryLockError::WouldBlock) => return Err(PostgresError::InUse { folder: folder.to_path_buf() }),
            Err(TryLockError::Error(error)) => return Err(PostgresError::io(folder)(error)),
        }
    }
}

/// Where the socket goes: into the folder, unless its path is too long for one.
fn socket_folder(folder: &Path) -> PathBuf {
    let run = folder.join("run");
    if run.as_os_str().len() <= LONGEST_SOCKET_FOLDER {
        return run;
    }
    let name = hex::encode(Sha256::digest(folder.as_os_str().as_encoded_bytes()));
    Path::new("/tmp").join(format!("skymem-{}", name.get(..16).unwrap_or(&name)))
}

fn remove(path: &Path) -> Result<(), PostgresError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PostgresError::io(path)(error)),
        _ => Ok(()),
    }
}

/// Passes on what Postgres says until it ends, and returns the last of it.
fn listen(stderr: ChildStderr) -> io::Result<JoinHandle<String>> {
    std::thread::Builder::new().name("postgres-log".to_owned()).spawn(move || {
        let mut last = VecDeque::new();
        for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            if matters(&line) {
                tracing::warn!("PostgreSQL says {line}");
            } else {
                tracing::debug!("PostgreSQL says {line}");
            }
            if last.len() == LAST_WORDS {
                last.pop_front();
            }
            last.push_back(line);
        }
        Vec::from(last).join("; ")
    })
}

/// Whether a person should hear of it. That a stop finds a connection still on its way out is no news.
fn matters(line: &str) -> bool {
    ["WARNING:", "FATAL:", "PANIC:"].iter().any(|severity| line.starts_with(severity))
        && !line.ends_with("terminating connection due to administrator command")
}

/// Has the system end Postgres when the thread that spawns it ends, and so when this process is killed.
#[cfg(target_os = "linux")]
fn end_with_this_thread(command: &mut Command) {
    let parent = rustix::process::getpid();
    let ask = move || {
        rustix::process::set_parent_process_death_signal(Some(process::FAST))?;
        // Asked too late if the parent has died in between.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only calls that are safe in a signal handler are allowed: these are two system
    // calls, without locks and without memory from the heap. It runs after std has stepped down to the account, which
    // would clear the request.
    unsafe { command.pre_exec(ask) };
}

/// Elsewhere it is adopted at the next start.
#[cfg(not(target_os = "linux"))]
fn end_with_this_thread(_command: &mut Command) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orderly_stop_is_not_reported_as_trouble() {
        assert!(!matters("FATAL:  terminating connection due to administrator command"));
        assert!(!matters("LOG:  database system is shut down"));
        assert!(matters("FATAL:  could not write to file \"pg_wal/xlogtemp.1\": No space left on device"));
        assert!(matters("WARNING:  database \"skymem\" has a collation version mismatch"));
    }

    #[test]
    fn the_socket_lies_in_the_folder_as_long_as_its_path_fits() {
        assert_eq!(socket_folder(Path::new("/var/lib/skymem/postgres")), Path::new("/var/lib/skymem/postgres/run"));

        let long = PathBuf::from("/").join("x".repeat(90));
        let short = socket_folder(&long);

        assert!(short.starts_with("/tmp") && short.as_os_str().len() < LONGEST_SOCKET_FOLDER, "{short:?}");
        assert_eq!(short, socket_folder(&long));
        assert_ne!(short, socket_folder(&long.join("y")));
    }
}
