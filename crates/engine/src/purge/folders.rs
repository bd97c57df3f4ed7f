//! Looks through what lies on the disk: exports and whatever else is in the data folder, and the pages of a database that
//! lives there.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::receipt::Checked;
use super::traces::Traces;

/// Where things lie on the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folders {
    /// Everything of this server.
    pub data: Option<PathBuf>,
    /// A folder of memory files for each user.
    pub memory_files: Option<PathBuf>,
    /// A PostgreSQL of the server's own, when it has one.
    pub database: Option<PathBuf>,
}

/// A file is read in pieces of this size,
const PIECE: usize = 1 << 20;
/// each with the end of the one before, so that nothing is cut in two.
const OVERLAP: usize = 4 << 10;

/// What lies in the pages of the server's own database.
pub(super) const PAGES: &str = "pages of the database";
/// and in its write-ahead log.
pub(super) const LOG: &str = "write-ahead log of the database";

impl Folders {
    /// Looks through all that lies there.
    pub(super) fn look_through(&self, traces: &Traces) -> io::Result<Vec<Checked>> {
        let mut looked = Vec::new();
        if let Some(data) = &self.data {
            let mut others = Checked::at("data folder");
            walk(data, &mut |path| {
                let apart =
                    [&self.memory_files, &self.database].into_iter().flatten().any(|folder| path.starts_with(folder));
                if !apart {
                    others.add(path, traces)?;
                }
                Ok(())
            })?;
            looked.push(others);
        }
        if let Some(files) = &self.memory_files {
            let mut all = Checked::at("memory files");
            walk(files, &mut |path| all.add(path, traces))?;
            looked.push(all);
        }
        if let Some(database) = &self.database {
            let (mut pages, mut log) = (Checked::at(PAGES), Checked::at(LOG));
            walk(database, &mut |path| {
                let is_log = path.components().any(|part| part.as_os_str() == "pg_wal");
                if is_log { &mut log } else { &mut pages }.add(path, traces)
            })?;
            looked.extend([pages, log]);
        }
        Ok(looked)
    }
}

impl Checked {
    pub(super) fn at(place: impl Into<String>) -> Self {
        Self { place: place.into(), items: 0, words: 0, ids: 0 }
    }

    fn add(&mut self, path: &Path, traces: &Traces) -> io::Result<()> {
        let Some((words, ids)) = look_into(path, traces)? else { return Ok(()) };
        self.items += 1;
        self.words += usize::from(words);
        self.ids += usize::from(ids);
        Ok(())
    }
}

/// Whether a file holds words or ids of what was purged; `None` when it is gone meanwhile.
fn look_into(path: &Path, traces: &Traces) -> io::Result<Option<(bool, bool)>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let (mut words, mut ids) = (false, false);
    let mut piece: Vec<u8> = Vec::new();
    loop {
        let kept = piece.len().min(OVERLAP);
        piece.drain(..piece.len() - kept);
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        if read == 0 {
            return Ok(Some((words, ids)));
        }
        let found = traces.look(&String::from_utf8_lossy(&piece));
        words |= found.said > 0;
        ids |= found.ids > 0;
    }
}

/// Calls `each` with every ordinary file under `folder`. Links are not followed, and what is gone meanwhile is no fault.
fn walk(folder: &Path, each: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            walk(&entry.path(), each)?;
        } else if kind.is_file() {
            each(&entry.path())?;
        }
    }
    Ok(())
}
