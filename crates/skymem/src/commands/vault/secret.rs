//! Secrets that are typed, or read from files.

use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

/// An identity file holds a few lines.
const LONGEST_FILE: u64 = 20_000;

/// What unlocks a collection.
#[derive(Args)]
pub(crate) struct Opens {
    /// An age identity file; `-` for standard input (else the passphrase is asked for)
    #[arg(long, value_name = "FILE", conflicts_with = "credential")]
    identity: Option<PathBuf>,
    /// The name of a systemd credential that holds an identity
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
}

impl Opens {
    /// The body of the request.
    pub(super) fn read(self) -> Result<Value> {
        let file = match (self.identity, self.credential) {
            (Some(file), _) => file,
            (None, Some(name)) => credential(&name)?,
            (None, None) => return Ok(json!({ "passphrase": passphrase(false)? })),
        };
        let mut text = String::new();
        if file.as_os_str() == "-" {
            std::io::stdin().lock().take(LONGEST_FILE).read_to_string(&mut text).context("cannot read the identity")?;
        } else {
            let shown = file.display();
            let opened = std::fs::File::open(&file).with_context(|| format!("cannot read the identity {shown}"))?;
            opened
                .take(LONGEST_FILE)
                .read_to_string(&mut text)
                .with_context(|| format!("the identity {shown} is no text"))?;
        }
        Ok(json!({ "identity": text }))
    }
}

/// The file of a systemd credential of this program.
fn credential(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains(['/', '\0']) || name == ".." {
        bail!("{name:?} is no name of a credential");
    }
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY")
        .context("CREDENTIALS_DIRECTORY is not set: systemd gives credentials to services alone")?;
    Ok(PathBuf::from(folder).join(name))
}

/// A passphrase from the terminal, not shown while it is typed, twice when it is `new`; or a line of standard input.
pub(super) fn passphrase(new: bool) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        let mut line = String::new();
        std::io::stdin().lock().take(LONGEST_FILE).read_line(&mut line).context("cannot read the passphrase")?;
        let typed = line.trim_end_matches(['\r', '\n']).to_owned();
        if typed.is_empty() {
            bail!("there is no passphrase on standard input");
        }
        return Ok(typed);
    }
    let typed = rpassword::prompt_password("Passphrase: ").context("cannot read the passphrase")?;
    if new && rpassword::prompt_password("Again: ").context("cannot read the passphrase")? != typed {
        bail!("the two are not the same: nothing was changed");
    }
    Ok(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_stays_in_its_folder() {
        for name in ["", "..", "../etc/passwd", "a/b"] {
            assert!(credential(name).is_err(), "{name}");
        }
    }
}
