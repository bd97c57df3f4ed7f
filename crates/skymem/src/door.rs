//! The door for commands on the server's own machine: a file in the data folder with the server's address and a key,
//! readable by the server's account alone.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Where the server of this machine is, and a key to it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LocalDoor {
    /// Its address, like `http://127.0.0.1:8765`.
    pub(crate) url: String,
    /// A key of the first user, for all there is to do.
    pub(crate) key: String,
}

impl LocalDoor {
    /// The file of this name in the data folder.
    #[must_use]
    pub(crate) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("local-door.json")
    }

    /// What the last server left in `data_dir`; `None` when there is nothing, or nothing that can be read.
    ///
    /// # Errors
    ///
    /// When the file is there and this account may not read it.
    pub(crate) fn read(data_dir: &Path) -> Result<Option<Self>> {
        let path = Self::path(data_dir);
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error).with_context(|| {
                format!(
                    "{} belongs to another account: run as that account, or give a key with --key or SKYMEM_KEY",
                    path.display()
                )
            }),
            Err(_) => Ok(None),
        }
    }

    /// Leaves it in `data_dir`, whole or not at all.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<()> {
        let path = Self::path(data_dir);
        let new = path.with_extension("json.new");
        let write = || -> io::Result<()> {
            // A file that a crash left behind might have other permissions.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            file.write_all(&serde_json::to_vec(self)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }

    /// What the last server left in `data_dir` for the next one, in order or not.
    ///
    /// # Errors
    ///
    /// As [`LocalDoor::read`].
    pub(crate) fn left_in(data_dir: &Path) -> Result<Option<Self>> {
        Ok(match Self::read(data_dir)? {
            Some(door) => Some(door),
            None => fs::read(Self::closed_path(data_dir)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        })
    }

    /// Closes it when its server stops: no command knocks where another program may listen by now, and shows it the key.
    /// The key is kept for the next start, so that what was under way goes on with it. A door that another server has
    /// left meanwhile stays open.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub(crate) fn close(&self, data_dir: &Path) -> Result<()> {
        if Self::read(data_dir)?.as_ref() != Some(self) {
            return Ok(());
        }
        let path = Self::path(data_dir);
        fs::rename(&path, Self::closed_path(data_dir)).with_context(|| format!("cannot rename {}", path.display()))
    }

    fn closed_path(data_dir: &Path) -> PathBuf {
        data_dir.join("local-door.closed.json")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_account_can_read_it_and_it_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        assert!(LocalDoor::read(folder.path()).unwrap().is_none());
        let door = LocalDoor { url: "http://127.0.0.1:1".into(), key: "skm_x".into() };

        door.write(folder.path()).unwrap();
        door.write(folder.path()).unwrap();

        assert!(LocalDoor::read(folder.path()).unwrap() == Some(door));
        let mode = fs::metadata(LocalDoor::path(folder.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn it_closes_with_its_server_and_the_next_one_finds_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let door = |port: u16| LocalDoor { url: format!("http://127.0.0.1:{port}"), key: "skm_x".into() };
        let is_open = || LocalDoor::read(folder.path()).unwrap().is_some();
        assert!(LocalDoor::left_in(folder.path()).unwrap().is_none());
        door(2).write(folder.path()).unwrap();

        door(1).close(folder.path()).unwrap();
        assert!(is_open(), "it is another server's");
        for _ in 0..2 {
            door(2).close(folder.path()).unwrap();
            assert!(!is_open());
            assert!(LocalDoor::left_in(folder.path()).unwrap() == Some(door(2)));
        }
        door(3).write(folder.path()).unwrap();
        assert!(LocalDoor::left_in(folder.path()).unwrap() == Some(door(3)));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(LocalDoor::path(folder.path()), "{").unwrap();

        assert!(LocalDoor::read(folder.path()).unwrap().is_none());
    }
}
