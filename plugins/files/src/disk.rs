//! A person's folder on disk: read with care, written atomically.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use rustix::fs::{Mode, OFlags};
use skymem_core::files::FileName;

use crate::settings::Settings;

/// What a folder holds.
#[derive(Debug)]
pub(crate) enum Folder {
    /// It is not there, or cannot be read; why, in words.
    Gone(String),
    /// It is there.
    Here(Listing),
}

/// The Markdown files of a folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By name, each with what is new about it.
    pub(crate) files: BTreeMap<FileName, Found>,
    /// What is wrong with the folder itself, in words.
    pub(crate) faults: Vec<String>,
    /// Whether a file changed while it was read: look again.
    pub(crate) torn: bool,
    /// When a file was last made, removed or renamed here.
    pub(crate) changed_at: DateTime<Utc>,
}

/// A file as found.
#[derive(Debug)]
pub(crate) enum Found {
    /// As it was when last read.
    Unchanged,
    /// Read anew.
    Read { text: String, stamp: Stamp, changed_at: DateTime<Utc> },
    /// Cannot be used; why and what to do, in words.
    Damaged { fault: String, stamp: Stamp },
}

/// Tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Reads what has changed in `folder` since the files had the stamps in `known`.
pub(crate) fn look(folder: &Path, known: &BTreeMap<FileName, Stamp>, settings: &Settings) -> Folder {
    let (home, names) = match names(folder) {
        Ok(names) => names,
        Err(error) => return Folder::Gone(in_words(&error)),
    };
    let mut listing = Listing { changed_at: modified_at(&home.metadata), ..Listing::default() };
    listing.faults.extend(names.faults);
    if names.files.len() > settings.max_files {
        listing.faults.push(format!(
            "there are {} Markdown files; only the first {} by name are read (max_files)",
            names.files.len(),
            settings.max_files
        ));
    }
    for name in names.files.into_iter().take(settings.max_files) {
        match read(&home.path, &name, known.get(&name), settings.max_file_bytes) {
            Ok(Some(found)) => {
                listing.files.insert(name, found);
            }
            // It went away between being listed and being read.
            Ok(None) => {}
            Err(Torn) => listing.torn = true,
        }
    }
    Folder::Here(listing)
}

/// Whether anything in `folder` has another stamp than in `known`; reads no file.
pub(crate) fn differs(folder: &Path, known: &BTreeMap<FileName, Stamp>, settings: &Settings) -> bool {
    let Ok((home, names)) = names(folder) else { return true };
    let mut count = 0;
    for name in names.files.iter().take(settings.max_files) {
        count += 1;
        let stamp =
            fs::metadata(home.path.join(name.as_str())).map(|metadata| Stamp::of(&metadata)).unwrap_or_default();
        if known.get(name) != Some(&stamp) {
            return true;
        }
    }
    count != known.len()
}

/// Whether the folder is there at all.
pub(crate) fn exists(folder: &Path) -> bool {
    folder.is_dir()
}

/// Makes `folder` with `files` in it, all or nothing. When somebody else has made it meanwhile, another server on the same
/// folder, theirs stays.
pub(crate) fn make(folder: &Path, files: &BTreeMap<FileName, String>) -> io::Result<()> {
    let root = folder.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(root)?;
    let draft = tempfile::Builder::new().prefix(".new-").tempdir_in(root)?;
    for (name, text) in files {
        let mut file = File::create(draft.path().join(name.as_str()))?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    sync_folder(draft.path())?;
    let draft = draft.keep();
    if let Err(error) = fs::rename(&draft, folder) {
        fs::remove_dir_all(&draft)?;
        let is_theirs = error.kind() == io::ErrorKind::DirectoryNotEmpty && exists(folder);
        return if is_theirs { Ok(()) } else { Err(error) };
    }
    sync_folder(root)
}

/// Why nothing was written.
#[derive(Debug)]
pub(crate) enum NotWritten {
    /// The file no longer says what the edit started from.
    Changed,
    /// The disk gave an error.
    Failed(io::Error),
}

impl From<io::Error> for NotWritten {
    fn from(error: io::Error) -> Self {
        NotWritten::Failed(error)
    }
}

/// Writes `text` to `name` in `folder` at one stroke, if the file still says `old` (or is still not there). Mode and
/// owner stay; a link inside the folder stays a link. Returns the file's new stamp.
pub(crate) fn write(folder: &Path, name: &FileName, old: Option<&str>, text: &str) -> Result<Stamp, NotWritten> {
    let path = fs::canonicalize(folder)?.join(name.as_str());
    let path = match old {
        Some(_) => fs::canonicalize(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NotWritten::Changed,
            _ => NotWritten::Failed(error),
        })?,
        None => path,
    };
    let home = path.parent().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let parent = fs::metadata(home)?;
    let (mode, owner) = match old {
        Some(_) => {
            let file = fs::metadata(&path)?;
            (file.mode() & 0o777, (file.uid(), file.gid()))
        }
        // As open as the folder is, and its owner's.
        None => (parent.mode() & 0o666, (parent.uid(), parent.gid())),
    };
    let mut draft = tempfile::Builder::new().prefix(".skymem-").suffix(".tmp").tempfile_in(home)?;
    draft.write_all(text.as_bytes())?;
    let file = draft.as_file();
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != owner {
        // Only root may give files away; for others the writer becomes the owner, as with any editor.
        let _ = std::os::unix::fs::fchown(file, Some(owner.0), Some(owner.1));
    }
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()?;
    // The last look, so that an editor's save is not overwritten unseen.
    let now = match fs::read(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    if now.as_deref() != old.map(str::as_bytes) {
        return Err(NotWritten::Changed);
    }
    let file = match old {
        Some(_) => draft.persist(&path).map_err(|error| error.error)?,
        None => draft.persist_noclobber(&path).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => NotWritten::Changed,
            _ => NotWritten::Failed(error.error),
        })?,
    };
    sync_folder(home)?;
    Ok(Stamp::of(&file.metadata()?))
}

struct Home {
    path: PathBuf,
    metadata: Metadata,
}

struct Names {
    files: Vec<FileName>,
    faults: Vec<String>,
}

/// The names in `folder` that end in `.md`, sorted, and the faults of those that cannot be used.
fn names(folder: &Path) -> io::Result<(Home, Names)> {
    let path = fs::canonicalize(folder)?;
    let metadata = fs::metadata(&path)?;
    let mut names = Names { files: Vec::new(), faults: Vec::new() };
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        let shown = name.to_string_lossy();
        if shown.starts_with('.') || !shown.ends_with(".md") {
            continue;
        }
        match name.to_str().unwrap_or_default().parse() {
            Ok(name) => names.files.push(name),
            Err(_) => names.faults.push(format!("{shown:?} is not read: give it a plainer name")),
        }
    }
    names.files.sort();
    names.faults.sort();
    Ok((Home { path, metadata }, names))
}

/// A file changed while it was read.
struct Torn;

/// What is new about a file; `None` when it is not there.
fn read(home: &Path, name: &FileName, known: Option<&Stamp>, most_bytes: u64) -> Result<Option<Found>, Torn> {
    let path = home.join(name.as_str());
    let is_link = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_symlink());
    let metadata = match fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_link => return Ok(None),
        Err(error) => {
            let fault =
                if is_link { "is a link that leads nowhere: mend or remove it".into() } else { in_words(&error) };
            return Ok(Some(Found::damaged(name, &fault, Stamp::default(), known)));
        }
    };
    let stamp = Stamp::of(&metadata);
    if known == Some(&stamp) {
        return Ok(Some(Found::Unchanged));
    }
    let damaged = |fault: &str| Ok(Some(Found::damaged(name, fault, stamp, known)));
    if metadata.is_dir() {
        return damaged("is a folder: only files are read");
    }
    if !metadata.is_file() {
        return damaged("is no ordinary file: only those are read");
    }
    if metadata.len() > most_bytes {
        return damaged(&too_large(metadata.len(), most_bytes));
    }
    let target = if is_link {
        match fs::canonicalize(&path) {
            Ok(target) if target.starts_with(home) => target,
            _ => return damaged("is a link out of its folder: put the file itself here"),
        }
    } else {
        path
    };
    // Neither follows a link put here since, nor waits for a pipe put here since.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&target, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return damaged(&in_words(&error.into())),
    };
    let mut bytes = Vec::new();
    let read = (&file).take(most_bytes + 1).read_to_end(&mut bytes).and_then(|_| file.metadata());
    let after = match read {
        Ok(after) => after,
        Err(error) => return damaged(&in_words(&error)),
    };
    if Stamp::of(&after) != stamp || bytes.len() as u64 != stamp.bytes {
        return Err(Torn);
    }
    match text_of(bytes) {
        Ok(text) => Ok(Some(Found::Read { text, stamp, changed_at: modified_at(&after) })),
        Err(fault) => damaged(&fault),
    }
}

impl Found {
    fn damaged(name: &FileName, fault: &str, stamp: Stamp, known: Option<&Stamp>) -> Self {
        if known == Some(&stamp) {
            Found::Unchanged
        } else {
            Found::Damaged { fault: format!("{name} {fault}"), stamp }
        }
    }
}

pub(crate) fn too_large(bytes: u64, most_bytes: u64) -> String {
    format!("has {bytes} bytes; the most is {most_bytes} (max_file_bytes)")
}

/// `bytes` as text that the database can keep too.
fn text_of(bytes: Vec<u8>) -> Result<String, String> {
    let line = |bytes: &[u8]| 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    match String::from_utf8(bytes) {
        Ok(text) => match text.find('\0') {
            None => Ok(text),
            Some(at) => Err(format!("holds a NUL byte in line {}: remove it", line(&text.as_bytes()[..at]))),
        },
        Err(error) => {
            let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
            Err(format!("is not UTF-8 in line {}: save it as UTF-8", line(bytes.get(..at).unwrap_or_default())))
        }
    }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is gone".into(),
        io::ErrorKind::PermissionDenied => "cannot be read: give the server permission".into(),
        _ => format!("cannot be read: {error}"),
    }
}

/// The only times a watcher knows without a clock are those of the files.
fn modified_at(metadata: &Metadata) -> DateTime<Utc> {
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
    DateTime::from_timestamp(metadata.mtime(), nanoseconds).unwrap_or_default()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_who_make_a_folder_at_once_one_makes_it_and_both_have_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("ben");
        let with = |text: &str| BTreeMap::from([("NOW.md".parse().unwrap(), text.to_owned())]);

        make(&folder, &with("first")).unwrap();
        make(&folder, &with("second")).unwrap();

        assert_eq!(fs::read_to_string(folder.join("NOW.md")).unwrap(), "first");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "no draft stays");
        fs::write(root.path().join("eva"), "no folder").unwrap();
        assert!(make(&root.path().join("eva"), &with("x")).is_err());
    }
}
