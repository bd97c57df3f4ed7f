//! `skymem vault`: collections that only whoever has a key can read.

mod secret;
mod show;

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::cli::Context;
use crate::commands::purge::is_clean;
use crate::output::{Outcome, counted};

use secret::{Opens, passphrase};
use show::{all, one, sealed};

/// Collections that only whoever has a key can read
#[derive(Subcommand)]
pub(crate) enum Vault {
    /// Make an identity: a secret file that unlocks, and the recipient that one seals to
    #[command(after_help = "Example:\n  skymem vault keygen ~/.config/skymem/identity.txt")]
    Keygen {
        /// Where the secret goes; a file of that name is never overwritten
        file: PathBuf,
    },
    /// Seal a collection, which is made when it is new; what stands in it in the clear is sealed too
    #[command(after_help = "Example:\n  skymem vault seal health --recipient age1... --recipient age1...")]
    Seal {
        /// The collection
        collection: String,
        /// Who can unlock it: repeat for several, and keep one of the identities away from this machine
        #[arg(long = "recipient", value_name = "AGE1...")]
        recipients: Vec<String>,
        /// Ask for a passphrase that unlocks it too
        #[arg(long)]
        passphrase: bool,
    },
    /// Unlock a sealed collection for a while
    #[command(
        after_help = "Example:\n  skymem vault unlock health --identity ~/.config/skymem/identity.txt --minutes 30"
    )]
    Unlock {
        /// The collection
        collection: String,
        #[command(flatten)]
        with: Opens,
        /// For how long; 0 until it is locked (else as the server's settings have it)
        #[arg(long, value_parser = clap::value_parser!(u32).range(..=10_080))]
        minutes: Option<u32>,
    },
    /// Lock a collection, or all that are unlocked
    Lock {
        /// The collection (else all)
        collection: Option<String>,
    },
    /// Sealed collections, and which of them are unlocked
    Status,
    /// Who can unlock a collection
    Recipients(Recipients),
    /// Write with a new key from now on
    Rotate {
        /// The collection
        collection: String,
        /// Ask for the passphrase, which a collection that has one needs
        #[arg(long)]
        passphrase: bool,
    },
    /// Remove a sealed collection for good, with its keys: nothing brings it back
    Shred {
        /// The collection
        collection: String,
        /// Its name again: nothing is asked
        #[arg(long, value_name = "COLLECTION")]
        confirm: String,
    },
}

/// Who can unlock a collection.
#[derive(Args)]
pub(crate) struct Recipients {
    /// The collection
    collection: String,
    /// Add this recipient; the collection must be unlocked
    #[arg(long, value_name = "AGE1...", conflicts_with_all = ["remove", "passphrase"])]
    add: Option<String>,
    /// Remove this recipient, or `passphrase`
    #[arg(long, value_name = "RECIPIENT", conflicts_with = "passphrase")]
    remove: Option<String>,
    /// Ask for a passphrase that unlocks it from now on; the collection must be unlocked
    #[arg(long)]
    passphrase: bool,
}

impl Vault {
    pub(crate) async fn run(self, context: &Context) -> Result<Outcome> {
        match self {
            Vault::Keygen { file } => keygen(&file),
            Vault::Seal { collection, recipients, passphrase: with_passphrase } => {
                let mut body = json!({ "recipients": recipients });
                if with_passphrase {
                    put(&mut body, "passphrase", passphrase(true)?);
                }
                let answer = context.client()?.post(&["v1", "collections", &collection, "seal"], &body).await?;
                let left = answer.get("receipt").is_some_and(|receipt| !receipt.is_null() && !is_clean(receipt));
                Ok(Outcome::new(sealed(&collection, &answer), answer).failed_if(left))
            }
            Vault::Unlock { collection, with, minutes } => {
                let mut body = with.read()?;
                if let Some(minutes) = minutes {
                    put(&mut body, "minutes", minutes);
                }
                let answer = context.client()?.post(&["v1", "collections", &collection, "unlock"], &body).await?;
                Ok(Outcome::new(one(&answer), answer))
            }
            Vault::Lock { collection } => {
                let path: &[&str] = match &collection {
                    Some(collection) => &["v1", "collections", collection, "lock"],
                    None => &["v1", "vault", "lock"],
                };
                let answer = context.client()?.post(path, &json!({})).await?;
                let locked = answer.get("locked").and_then(Value::as_array).map_or(0, Vec::len);
                let locked = counted(u64::try_from(locked).unwrap_or(0), "collection");
                Ok(Outcome::new(format!("{locked} locked."), answer))
            }
            Vault::Status => {
                let answer = context.client()?.get(&["v1", "vault"], &[]).await?;
                Ok(Outcome::new(all(&answer), answer))
            }
            Vault::Recipients(recipients) => recipients.run(context).await,
            Vault::Rotate { collection, passphrase: with_passphrase } => {
                let body = match with_passphrase {
                    true => json!({ "passphrase": passphrase(false)? }),
                    false => json!({}),
                };
                let answer = context.client()?.post(&["v1", "collections", &collection, "rotate"], &body).await?;
                Ok(Outcome::new(one(&answer), answer))
            }
            Vault::Shred { collection, confirm } => {
                let body = json!({ "confirm": confirm });
                let answer = context.client()?.post(&["v1", "collections", &collection, "shred"], &body).await?;
                let exchanges = answer.get("exchanges").and_then(Value::as_u64).unwrap_or(0);
                Ok(Outcome::new(format!("{} shredded.", counted(exchanges, "exchange")), answer))
            }
        }
    }
}

impl Recipients {
    async fn run(self, context: &Context) -> Result<Outcome> {
        let client = context.client()?;
        let path = ["v1", "collections", self.collection.as_str(), "recipients"];
        let answer = match (self.add, self.remove, self.passphrase) {
            (Some(recipient), _, _) => client.post(&path, &json!({ "recipient": recipient })).await?,
            (_, Some(recipient), _) => {
                let path = ["v1", "collections", self.collection.as_str(), "recipients", recipient.as_str()];
                client.call(reqwest::Method::DELETE, &path, &[], None).await?
            }
            (_, _, true) => client.post(&path, &json!({ "passphrase": passphrase(true)? })).await?,
            _ => client.get(&["v1", "collections", &self.collection, "seal"], &[]).await?,
        };
        Ok(Outcome::new(one(&answer), answer))
    }
}

/// A new identity in a file that only its owner reads.
fn keygen(file: &Path) -> Result<Outcome> {
    let (secret, recipient) = skymem_seal::make_identity();
    let shown = file.display();
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut made = match made {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{shown} is there already: whoever lost an identity has lost what is sealed to it alone")
        }
        made => made.with_context(|| format!("cannot write {shown}"))?,
    };
    made.write_all(secret.as_bytes())
        .and_then(|()| made.sync_all())
        .with_context(|| format!("cannot write {shown}"))?;
    Ok(Outcome::new(
        format!(
            "{recipient}\n\nThat is the recipient to seal to. Its secret is in {shown}: keep a copy of that file away from \
             this machine, for nobody can read what is sealed without it."
        ),
        json!({ "recipient": recipient.to_string(), "file": file }),
    ))
}

fn put(body: &mut Value, name: &str, value: impl Into<Value>) {
    if let Some(object) = body.as_object_mut() {
        object.insert(name.to_owned(), value.into());
    }
}
