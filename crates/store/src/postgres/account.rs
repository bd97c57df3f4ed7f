//! Who the programs run as: Postgres refuses to be root.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use super::PostgresError;

/// The accounts that root steps down to, the best first.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// The account that the programs run as and that owns the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    name: String,
    /// What root has to become; `None` when this process is that account already.
    step_down: Option<(u32, u32)>,
}

impl Account {
    /// Chooses the account: this process's own unless it is root, then the `configured` one, else the owner of what
    /// is in `folder`, else the first of [`CANDIDATES`] that exists.
    pub(super) fn choose(configured: Option<&str>, folder: &Path) -> Result<Self, PostgresError> {
        let me = rustix::process::geteuid();
        let owner = std::fs::metadata(folder).ok().map(|data| (data.uid(), data.gid()));
        if !me.is_root() {
            let account = Self { name: format!("uid {}", me.as_raw()), step_down: None };
            return match owner {
                Some((uid, _)) if uid != me.as_raw() => Err(account.not_ours(folder)),
                _ => Ok(account),
            };
        }

        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let owner = owner.filter(|(uid, _)| *uid != 0);
        let account = match (configured, owner) {
            (Some(name), _) => find(&passwd, name).ok_or_else(|| PostgresError::NoAccount(name.to_owned()))?,
            (None, Some((uid, gid))) => Self { name: format!("uid {uid}"), step_down: Some((uid, gid)) },
            (None, None) => CANDIDATES
                .iter()
                .find_map(|name| find(&passwd, name))
                .ok_or_else(|| PostgresError::NoAccount(CANDIDATES.join(" or ")))?,
        };
        match (owner, account.step_down) {
            (Some((owner, _)), Some((uid, _))) if owner != uid => Err(account.not_ours(folder)),
            _ => Ok(account),
        }
    }

    /// A command that runs as this account, without any `PG...` setting that is meant for other databases.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        if let Some((uid, gid)) = self.step_down {
            // std drops the other groups, and all of this before the command's folder is entered.
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Checks that this account may run `program` and may pass every folder down to `folder`, or to the part of it that
    /// exists. Creates nothing.
    pub(super) fn check_reach(&self, program: &Path, folder: &Path) -> Result<(), PostgresError> {
        let existing = folder.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        for (place, entered) in [(program, Path::new("/")), (folder, existing)] {
            // Entering the folder is the kernel's own answer, access lists and all.
            let tried = self.command(program).arg("--version").current_dir(entered).output();
            match tried {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    let looked = format!("{}: {}", program.display(), said(&output.stderr));
                    return Err(PostgresError::NoBinaries { looked });
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(PostgresError::Closed { account: self.name.clone(), path: place.to_path_buf() });
                }
                Err(error) => return Err(PostgresError::io(place)(error)),
            }
        }
        Ok(())
    }

    /// Makes `folder` for this account alone, unless it is there. Parents that are missing are passable for the account
    /// and closed to reading.
    pub(super) fn make_folder(&self, folder: &Path) -> Result<(), PostgresError> {
        if let Some(parent) = folder.parent() {
            let mode = if self.step_down.is_some() { 0o711 } else { 0o700 };
            std::fs::DirBuilder::new().recursive(true).mode(mode).create(parent).map_err(PostgresError::io(parent))?;
        }
        match std::fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => match self.step_down {
                Some((uid, gid)) => {
                    std::os::unix::fs::lchown(folder, Some(uid), Some(gid)).map_err(PostgresError::io(folder))
                }
                None => Ok(()),
            },
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.check_owner(folder),
            Err(error) => Err(PostgresError::io(folder)(error)),
        }
    }

    /// Whether `folder` is a folder of this account's, and not a link to somewhere else.
    fn check_owner(&self, folder: &Path) -> Result<(), PostgresError> {
        let me = rustix::process::geteuid().as_raw();
        let data = std::fs::symlink_metadata(folder).map_err(PostgresError::io(folder))?;
        let uid = self.step_down.map_or(me, |(uid, _)| uid);
        if data.is_dir() && data.uid() == uid { Ok(()) } else { Err(self.not_ours(folder)) }
    }

    fn not_ours(&self, folder: &Path) -> PostgresError {
        PostgresError::NotOurs { folder: folder.to_path_buf(), account: self.name.clone() }
    }
}

/// What a program said, on one line.
pub(super) fn said(output: &[u8]) -> String {
    String::from_utf8_lossy(output)
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

/// The account `name` of a passwd file. Never one with the rights of root.
fn find(passwd: &str, name: &str) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()?;
        let uid: u32 = fields.nth(1)?.parse().ok()?;
        let gid: u32 = fields.next()?.parse().ok()?;
        (found == name && uid != 0).then(|| Account { name: name.to_owned(), step_down: Some((uid, gid)) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
                          toor:x:0:0::/root:/bin/bash\n\
                          broken\n\
                          odd:x:many:1::/:/bin/sh\n\
                          nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        check("nobody", Some((65534, 65533)));
        check("nobod", None);
        check("postgres", None);
    }

    #[test]
    fn no_account_with_the_rights_of_root_is_taken() {
        check("root", None);
        check("toor", None);
    }

    #[test]
    fn a_broken_line_is_passed_over() {
        check("broken", None);
        check("odd", None);
    }

    #[track_caller]
    fn check(name: &str, ids: Option<(u32, u32)>) {
        assert_eq!(find(PASSWD, name).and_then(|account| account.step_down), ids);
    }
}
