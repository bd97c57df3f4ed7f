//! Sealed collections that are unlocked when the server starts, by identities that lie in files or that systemd hands over.
//!
//! What cannot be unlocked stays locked, and says why: the server starts nonetheless.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use skymem_core::vault::{SecretText, UnlockWith};
use skymem_core::wall::acting_for;
use skymem_core::{Collection, UserName};
use skymem_engine::{MOST_MINUTES, Memory};

use crate::config::Config;

/// An identity file holds a few lines.
pub(crate) const LONGEST_FILE: u64 = 20_000;

/// `[unlock.<name>]`: a collection that is unlocked at the start. Empty texts are not set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UnlockSettings {
    /// The collection; the section's own name when it is empty.
    pub collection: String,
    /// Whose it is; `server.auth.user_without_key` when it is empty.
    pub user: String,
    /// The age identity file that unlocks it ...
    pub identity_file: PathBuf,
    /// ... or the systemd credential that holds an identity.
    pub credential: String,
    /// For how long after the start, in minutes; 0 until it is locked.
    pub minutes: u32,
}

/// A collection that is to be unlocked, and what unlocks it.
pub(crate) struct Unlock {
    pub(crate) collection: Collection,
    pub(crate) user: UserName,
    pub(crate) file: PathBuf,
    minutes: u32,
}

impl UnlockSettings {
    /// The first value that cannot be, in words.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        let setting = |key: &str| format!("unlock.{name}.{key}");
        match (self.identity_file.as_os_str().is_empty(), self.credential.is_empty()) {
            (true, true) => {
                return Err(format!("{} is not set, and {} neither", setting("identity_file"), setting("credential")));
            }
            (false, false) => {
                return Err(format!(
                    "{} and {} are both set: keep one",
                    setting("identity_file"),
                    setting("credential")
                ));
            }
            _ => {}
        }
        if self.minutes > MOST_MINUTES {
            return Err(format!("{} is from 0 to {MOST_MINUTES}", setting("minutes")));
        }
        if !self.user.is_empty() {
            self.user.parse::<UserName>().map_err(|bad| format!("{}: {bad}", setting("user")))?;
        }
        let collection = if self.collection.is_empty() { name } else { &self.collection };
        collection.parse::<Collection>().map(drop).map_err(|bad| format!("{}: {bad}", setting("collection")))
    }

    /// What is to be unlocked, as far as it can be told without looking into the file.
    pub(crate) fn resolved(&self, name: &str, config: &Config) -> Result<Unlock> {
        let or = |value: &str, other: &str| if value.is_empty() { other.to_owned() } else { value.to_owned() };
        Ok(Unlock {
            collection: or(&self.collection, name).parse()?,
            user: or(&self.user, &config.server.auth.user_without_key).parse()?,
            file: match self.credential.as_str() {
                "" => self.identity_file.clone(),
                credential => credential_file(credential)?,
            },
            minutes: self.minutes,
        })
    }
}

/// That the settings of all that is to be unlocked can be.
pub(crate) fn check(all: &BTreeMap<String, UnlockSettings>) -> Result<(), String> {
    all.iter().try_for_each(|(name, settings)| settings.check(name))
}

/// Unlocks what the configuration names. What cannot be unlocked is told in the log, and by `skymem doctor`.
pub(crate) async fn unlock_all(config: &Config, memory: &Memory) {
    for (name, settings) in &config.unlock {
        match unlock(name, settings, config, memory).await {
            Ok(exchanges) => tracing::info!(collection = %name, exchanges, "Unlocked at the start"),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(%error, "[unlock.{name}]: the collection stays locked");
            }
        }
    }
}

async fn unlock(name: &str, settings: &UnlockSettings, config: &Config, memory: &Memory) -> Result<usize> {
    let Unlock { collection, user, file, minutes } = settings.resolved(name, config)?;
    let identity = read_identity(&file)?;
    let user = memory.user_named(&user).await?.with_context(|| format!("there is no user {user}"))?;
    let identity = UnlockWith::Identity(identity);
    let view = acting_for(user.id, memory.unlock(user.id, &collection, &identity, Some(minutes))).await?;
    Ok(view.unlocked.map_or(0, |unlocked| unlocked.exchanges))
}

/// The text of an identity file.
///
/// # Errors
///
/// When it cannot be read, or is no text; nothing of what it holds is told.
pub(crate) fn read_identity(file: &Path) -> Result<SecretText> {
    let shown = file.display();
    let opened = std::fs::File::open(file).with_context(|| format!("cannot read the identity {shown}"))?;
    let mut text = String::with_capacity(4_096);
    let read = opened.take(LONGEST_FILE).read_to_string(&mut text);
    let text = SecretText::new(text);
    read.with_context(|| format!("the identity {shown} is no text"))?;
    if text.expose().trim().is_empty() {
        bail!("the identity {shown} is empty");
    }
    Ok(text)
}

/// The file of a systemd credential of this program.
pub(crate) fn credential_file(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains(['/', '\0']) || name == ".." || name == "." {
        bail!("{name:?} is no name of a credential");
    }
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY").with_context(|| {
        format!(
            "there is no credential {name:?}: CREDENTIALS_DIRECTORY is not set, systemd gives credentials to services alone \
             (LoadCredential= in the unit)"
        )
    })?;
    Ok(PathBuf::from(folder).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: UnlockSettings, expected: &str) {
        let fault = settings.check("health").expect_err("it is refused");
        assert!(fault.contains(expected), "{fault}");
    }

    #[test]
    fn what_cannot_be_is_said_by_its_name() {
        let file = UnlockSettings { identity_file: "/x".into(), ..UnlockSettings::default() };
        assert_eq!(file.check("health"), Ok(()));

        check(UnlockSettings::default(), "unlock.health.identity_file is not set");
        check(UnlockSettings { credential: "x".into(), ..file.clone() }, "both set");
        check(UnlockSettings { minutes: 10_081, ..file.clone() }, "unlock.health.minutes");
        check(UnlockSettings { user: "no such\nname".into(), ..file.clone() }, "unlock.health.user");
        check(UnlockSettings { collection: "\n".into(), ..file }, "unlock.health.collection");
    }

    #[test]
    fn a_credential_stays_in_its_folder() {
        for name in ["", "..", ".", "../etc/passwd", "a/b"] {
            assert!(credential_file(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_no_identity_says_which_and_shows_nothing_of_it() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("identity");
        let fault = || format!("{:#}", read_identity(&file).unwrap_err());

        assert!(fault().contains("cannot read the identity"), "{}", fault());
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        assert!(fault().contains("is no text"), "{}", fault());
        std::fs::write(&file, "\n").unwrap();
        assert!(fault().contains("is empty"), "{}", fault());
        std::fs::write(&file, "AGE-SECRET-KEY-1X").unwrap();
        assert_eq!(read_identity(&file).unwrap().expose(), "AGE-SECRET-KEY-1X");
    }
}
