//! Processes that work in a data folder, and the signals they understand.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Ends a Postgres at once but cleanly: sessions are cut, nothing is lost.
pub(super) const FAST: Signal = Signal::INT;

/// Ends a Postgres without writing anything more; it repairs itself at the next start.
pub(super) const IMMEDIATE: Signal = Signal::QUIT;

/// Whether there is a process with this id, whoever's.
pub(super) fn exists(pid: Pid) -> bool {
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Sends a signal. One that has ended meanwhile needs none.
pub(super) fn signal(pid: Pid, signal: Signal) {
    if let Err(error) = kill_process(pid, signal) {
        tracing::debug!(%error, "PostgreSQL took no signal");
    }
}

/// Whether `pid` is a living Postgres process whose canonical data folder is `data`: the postmaster and its children all
/// work in that folder. Another program that was given the pid meanwhile does not, nor does a zombie.
#[cfg(target_os = "linux")]
pub(super) fn works_in(data: &Path, pid: Pid) -> bool {
    let about = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
    std::fs::read_link(about.join("cwd")).is_ok_and(|folder| folder == data)
        && std::fs::read(about.join("comm")).is_ok_and(|name| name.trim_ascii() == b"postgres")
}

/// Every process of the Postgres of `data`.
#[cfg(target_os = "linux")]
pub(super) fn at_work(data: &Path) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
        .filter(|pid| works_in(data, *pid))
        .collect()
}

/// Elsewhere processes do not show their folder: the postmaster counts when its socket answers.
#[cfg(not(target_os = "linux"))]
pub(super) fn works_in(data: &Path, pid: Pid) -> bool {
    super::pidfile::read(data).is_some_and(|file| {
        let socket = file.socket_folder.join(format!(".s.PGSQL.{}", super::PORT));
        file.pid == pid && exists(pid) && std::os::unix::net::UnixStream::connect(socket).is_ok()
    })
}

/// The postmaster of `data`, if it lives.
#[cfg(not(target_os = "linux"))]
pub(super) fn at_work(data: &Path) -> Vec<Pid> {
    super::pidfile::read(data).map(|file| file.pid).filter(|pid| works_in(data, *pid)).into_iter().collect()
}
