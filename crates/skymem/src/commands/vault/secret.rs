//! Secrets that are typed, or read from files.

use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::unlock::{LONGEST_FILE, credential_file, read_identity};

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
            (None, Some(name)) => credential_file(&name)?,
            (None, None) => return Ok(json!({ "passphrase": passphrase(false)? })),
        };
        if file.as_os_str() != "-" {
            return Ok(json!({ "identity": read_identity(&file)?.expose() }));
        }
        let mut text = String::new();
        std::io::stdin().lock().take(LONGEST_FILE).read_to_string(&mut text).context("cannot read the identity")?;
        Ok(json!({ "identity": text }))
    }
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
