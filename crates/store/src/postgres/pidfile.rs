//! `postmaster.pid`: what a running Postgres says about itself.

use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// What a running Postgres, or one that has died, says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFile {
    /// The postmaster.
    pub(super) pid: Pid,
    /// Where its socket is.
    pub(super) socket_folder: PathBuf,
    ready: bool,
}

impl PidFile {
    /// Whether it takes connections; else it is starting or stopping.
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }
}

/// The file's path in a data folder.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join("postmaster.pid")
}

/// What the Postgres of `data` says, if there is one. A half-written file is none yet.
pub(super) fn read(data: &Path) -> Option<PidFile> {
    parse(&std::fs::read_to_string(path(data)).ok()?)
}

/// Lines: pid, data folder, start time, port, socket folder, address, shared memory, status.
fn parse(text: &str) -> Option<PidFile> {
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)?;
    let socket_folder = lines.nth(3).unwrap_or_default().into();
    let ready = lines.nth(2).is_some_and(|status| status.trim() == "ready");
    Some(PidFile { pid, socket_folder, ready })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_postgres_is_ready_when_its_eighth_line_says_so() {
        check("42\n/d\n1700000000\n5432\n/d/run\n\n  1 2\nready   \n", Some((42, "/d/run", true)));
        check("42\n/d\n1700000000\n5432\n/d/run\n\n  1 2\nstarting\n", Some((42, "/d/run", false)));
        check("42\n/d\n1700000000\n5432\n/d/run\n\n  1 2\nstopping\n", Some((42, "/d/run", false)));
    }

    #[test]
    fn a_file_that_is_being_written_is_not_ready() {
        check("42\n/d\n1700000000\n5432\n", Some((42, "", false)));
        check("42", Some((42, "", false)));
    }

    #[test]
    fn nonsense_is_no_postgres() {
        check("", None);
        check("0\n", None);
        check("-42\n", None);
        check("x\ny\n", None);
    }

    #[track_caller]
    fn check(text: &str, expected: Option<(i32, &str, bool)>) {
        let found = parse(text);
        let found = found
            .as_ref()
            .map(|found| (found.pid.as_raw_nonzero().get(), found.socket_folder.to_str().unwrap(), found.is_ready()));
        assert_eq!(found, expected);
    }
}
