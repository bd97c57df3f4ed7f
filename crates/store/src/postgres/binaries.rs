//! Finding Postgres' programs.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::PostgresError;

/// The oldest Postgres that is used.
const OLDEST_MAJOR: u32 = 15;

/// The oldest pgvector that is used: the first that goes on searching an index until a filter is satisfied.
const OLDEST_PGVECTOR: Version = Version(0, 8, 0);

/// Where systems keep Postgres' programs: a folder, how the names below it begin, and the rest of the way.
const SYSTEM_PLACES: [(&str, &str, &str); 5] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/usr/local", "pgsql", "bin"),
    ("/opt/homebrew/opt", "postgresql", "bin"),
    ("/usr/local/opt", "postgresql", "bin"),
];

/// Postgres' programs, with pgvector beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// The folder of `postgres` and `initdb`.
    pub folder: PathBuf,
    /// Postgres' major version: 18.
    pub major: u32,
    /// pgvector's version.
    pub pgvector: Version,
}

/// A version of pgvector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// Finds programs that are new enough: the folder `setting` and nothing else when it is given, else `.pg/bin` beside
/// the executable, or in a folder above it, or in the current folder, else what the system has installed, the newest
/// first. With `major`, only programs of that version will do.
///
/// # Errors
///
/// [`PostgresError::NoBinaries`], which lists what was looked at and why it would not do.
pub fn find_binaries(setting: Option<&Path>, major: Option<u32>) -> Result<Binaries, PostgresError> {
    let places = match setting {
        Some(folder) => vec![folder.to_path_buf()],
        None => bundled().into_iter().chain(installed()).collect(),
    };
    let mut looked = Vec::new();
    for place in places {
        match Binaries::of(&place) {
            Ok(binaries) if major.is_some_and(|major| major != binaries.major) && setting.is_none() => {
                looked.push(format!("{}: PostgreSQL {}, not the data's", place.display(), binaries.major));
            }
            Ok(binaries) => return Ok(binaries),
            Err(why) => looked.push(format!("{}: {why}", place.display())),
        }
    }
    let looked =
        if looked.is_empty() { "neither .pg/bin nor one of the system's".to_owned() } else { looked.join("; ") };
    Err(PostgresError::NoBinaries { looked })
}

impl Binaries {
    /// One of the programs.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The programs in `folder`, or why they will not do.
    fn of(folder: &Path) -> Result<Self, String> {
        let folder = folder.canonicalize().map_err(|error| error.to_string())?;
        let version = output(&folder.join("postgres"), "--version")?;
        let major = major(&version).ok_or_else(|| format!("unknown version {version:?}"))?;
        if major < OLDEST_MAJOR {
            return Err(format!("PostgreSQL {major} is older than {OLDEST_MAJOR}"));
        }
        if !folder.join("initdb").is_file() {
            return Err("initdb is missing".to_owned());
        }
        let control = control_file(&folder, major).ok_or("pgvector is not installed with it")?;
        let control = std::fs::read_to_string(&control).map_err(|error| format!("{}: {error}", control.display()))?;
        let pgvector = default_version(&control).ok_or("pgvector does not say its version")?;
        if pgvector < OLDEST_PGVECTOR {
            return Err(format!("its pgvector {pgvector} is older than {OLDEST_PGVECTOR}"));
        }
        Ok(Self { folder, major, pgvector })
    }
}

impl fmt::Display for Binaries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgreSQL {} with pgvector {} in {}", self.major, self.pgvector, self.folder.display())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// `.pg/bin` as `scripts/setup` makes it: above `target/release/skymem`, beside an installed executable, or here.
fn bundled() -> Vec<PathBuf> {
    let executable = std::env::current_exe().unwrap_or_default();
    let above = executable.ancestors().skip(1).take(4).map(|folder| folder.join(".pg/bin"));
    let here = std::env::current_dir().map(|folder| folder.join(".pg/bin")).ok().filter(|bin| is_trusted(bin));
    above.chain(here).filter(|bin| bin.join("postgres").is_file()).collect()
}

/// Whether what lies in the current folder may be run: not what a stranger left there.
fn is_trusted(bin: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    std::fs::metadata(bin.join("postgres")).is_ok_and(|data| data.uid() == me || data.uid() == 0)
}

/// The system's own installs, the newest first.
fn installed() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (folder, prefix, rest) in SYSTEM_PLACES {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let bin = entry.path().join(rest);
            if name.starts_with(prefix) && bin.join("postgres").is_file() {
                let digits: String = name.chars().filter(char::is_ascii_digit).collect();
                found.push((digits.parse().unwrap_or(0_u32), bin));
            }
        }
    }
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, bin)| bin).collect()
}

/// Where pgvector describes itself. Debian keeps `pg_config` in a package of its own, hence the second place.
fn control_file(folder: &Path, major: u32) -> Option<PathBuf> {
    let told = output(&folder.join("pg_config"), "--sharedir").ok().map(PathBuf::from);
    told.into_iter()
        .chain([PathBuf::from(format!("/usr/share/postgresql/{major}"))])
        .map(|share| share.join("extension/vector.control"))
        .find(|control| control.is_file())
}

fn output(program: &Path, argument: &str) -> Result<String, String> {
    let output =
        Command::new(program).arg(argument).output().map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(super::account::said(&output.stderr))
    }
}

/// 18 of `postgres (PostgreSQL) 18.6 (Debian 18.6-1)`.
fn major(version: &str) -> Option<u32> {
    let number = version.split(") ").nth(1)?;
    number.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// 0.8.6 of `default_version = '0.8.6'`.
fn default_version(control: &str) -> Option<Version> {
    let line = control.lines().find_map(|line| line.trim_start().strip_prefix("default_version"))?;
    let mut numbers = line.split('\'').nth(1)?.split('.').map(str::parse);
    let first = numbers.next()?.ok()?;
    let mut next = || numbers.next().unwrap_or(Ok(0)).ok();
    Some(Version(first, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_in_every_packaging() {
        check_major("postgres (PostgreSQL) 18.6", Some(18));
        check_major("postgres (PostgreSQL) 17.2 (Debian 17.2-1.pgdg120+1)", Some(17));
        check_major("postgres (PostgreSQL) 19beta1", Some(19));
        check_major("psql 18", None);
        check_major("", None);
    }

    #[test]
    fn the_version_of_pgvector_is_read_from_its_control_file() {
        check_version("comment = 'x'\ndefault_version = '0.8.6'\nrelocatable = true", Some(Version(0, 8, 6)));
        check_version("default_version='0.10'", Some(Version(0, 10, 0)));
        check_version("default_version = 0.8", None);
        check_version("default_version = 'new'", None);
        check_version("", None);
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        assert!(Version(0, 10, 0) > Version(0, 8, 6));
    }

    #[track_caller]
    fn check_major(text: &str, expected: Option<u32>) {
        assert_eq!(major(text), expected, "{text}");
    }

    #[track_caller]
    fn check_version(control: &str, expected: Option<Version>) {
        assert_eq!(default_version(control), expected, "{control}");
    }
}
