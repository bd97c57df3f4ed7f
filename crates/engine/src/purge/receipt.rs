//! The receipt of a purge: what was removed, where it was looked for afterwards, what cannot be reached; signed.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use chrono::{DateTime, Utc};
use ring::rand::SystemRandom;
use ring::signature::{self, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::error::EngineError;

/// What a purge did, and what it found when it looked whether all is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Names it.
    pub id: Uuid,
    /// Whose memory it was.
    pub user: Uuid,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// Who asked for it: the id of a key, or one of `anyone`, `command`, `server`.
    pub actor: String,
    /// What was aimed at: `exchanges`, `session`, `collection`, `entity`, `text`, `everything`, `user`;
    /// `sealed` when nothing was removed, but sealed.
    pub aim: String,
    /// How many exchanges are gone.
    pub exchanges: usize,
    /// How many revisions of memory files are gone.
    pub revisions: usize,
    /// How many things only they said were looked for: runs of words, codes, long words.
    pub traces: usize,
    /// Where it was looked, and what was found there.
    pub looked: Vec<Checked>,
    /// The ids that are kept on purpose, by where: tombstones, the audit log, statements of others.
    pub kept_ids: Vec<Checked>,
    /// Whether nothing was found anywhere that could be reached.
    pub clean: bool,
    /// Whether tables were written anew.
    pub rewritten: bool,
    /// What cannot be reached from here.
    pub unreachable: Vec<String>,
}

/// A place that was looked through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// A table, or a folder.
    pub place: String,
    /// How many rows or files were looked at.
    pub items: usize,
    /// How many of them hold words that only what was purged said.
    pub words: usize,
    /// How many of them hold an id of what was purged.
    pub ids: usize,
}

/// A receipt as it is kept and handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedReceipt {
    /// What it says.
    pub receipt: Receipt,
    /// Ed25519 over it, in hex.
    pub signature: String,
    /// Of the key that signed it, in hex.
    pub public_key: String,
}

/// What no purge reaches.
pub(super) const UNREACHABLE: [&str; 4] = [
    "backups and dumps of the database, and copies of the data folder, made before",
    "freed blocks of the disk, its snapshots and its own copies",
    "what clients, models and proxies keep: chats, logs, caches",
    "exports that were written outside of the data folder",
];

/// What is said when a check is made up for after a stop: the words that it would have looked for are sealed by then.
pub(super) const UNKNOWN: &str = "what no word was known of any more when this was checked: the tables were written anew, but no revision of a \
                                  memory file was looked through";

/// Nor this, of a database that is not the server's own.
pub(super) const UNREACHABLE_LOG: &str = "PostgreSQL's write-ahead log, until it is overwritten, and archives of it";

/// The key that signs receipts of this server.
pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    /// The key in `folder`, made when there is none; without a folder, one for this run alone.
    ///
    /// # Errors
    ///
    /// When it cannot be read or made.
    pub(crate) fn of(folder: Option<&Path>) -> Result<Self, EngineError> {
        let unusable = |what: &str, error: Box<dyn std::error::Error + Send + Sync>| EngineError::Unavailable {
            what: format!("the key that signs receipts {what}"),
            source: error,
        };
        let made = || {
            Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
                .map_err(|_| unusable("cannot be made", "there is no chance to be had".into()))
        };
        let bytes = match folder.map(|folder| folder.join(FILE)) {
            None => made()?.as_ref().to_vec(),
            Some(path) => match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let bytes = made()?.as_ref().to_vec();
                    write_once(&path, &bytes).map_err(|error| unusable("cannot be written", error.into()))?
                }
                Err(error) => return Err(unusable("cannot be read", error.into())),
            },
        };
        let pair = Ed25519KeyPair::from_pkcs8(&bytes);
        pair.map(Self).map_err(|rejected| {
            unusable(&format!("({FILE} in the data folder) is damaged"), rejected.to_string().into())
        })
    }

    /// A receipt with a signature, and the text that is signed.
    pub(super) fn sign(&self, receipt: Receipt) -> (SignedReceipt, String) {
        let body = canonical(&serde_json::to_value(&receipt).unwrap_or(Value::Null));
        let signature = hex::encode(self.0.sign(body.as_bytes()));
        (SignedReceipt { receipt, signature, public_key: self.public_key() }, body)
    }

    pub(super) fn public_key(&self) -> String {
        hex::encode(self.0.public_key())
    }

    /// Why `receipt` is not one of this server's, as it was made; `None` when it is.
    pub(super) fn fault(&self, receipt: &Value, signature: &str) -> Option<&'static str> {
        let Ok(signature) = hex::decode(signature) else { return Some("the signature is not hexadecimal") };
        let key = UnparsedPublicKey::new(&signature::ED25519, self.0.public_key());
        match key.verify(canonical(receipt).as_bytes(), &signature) {
            Ok(()) => None,
            Err(_) => Some("it was altered since, or another server made it"),
        }
    }
}

const FILE: &str = "receipt.key";

/// Writes the key for its owner alone; of two servers that do so at once, one wins, and both have its key. Nobody finds half
/// a key, whenever the power goes.
fn write_once(path: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // For its owner alone from the beginning.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            // Some file systems cannot; the key is written all the same.
            let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
            Ok(bytes.to_vec())
        }
        Err(taken) if taken.error.kind() == io::ErrorKind::AlreadyExists => fs::read(path),
        Err(taken) => Err(taken.error),
    }
}

/// JSON in one way of writing: no spaces, names in order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let fields = names
                .into_iter()
                .filter_map(|name| Some(format!("{}:{}", Value::String(name.clone()), canonical(fields.get(name)?))));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_signed_is_written_in_one_way() {
        let one: Value = serde_json::from_str(r#"{ "b": [1, {"y": null, "x": "a\"b"}], "a": true }"#).unwrap();
        assert_eq!(canonical(&one), r#"{"a":true,"b":[1,{"x":"a\"b","y":null}]}"#);
    }

    #[test]
    fn a_receipt_that_was_altered_is_noticed_and_the_key_stays_the_same() {
        let folder = std::env::temp_dir().join(format!("skymem-receipts-{}", Uuid::new_v4()));
        fs::create_dir(&folder).unwrap();
        let signer = Signer::of(Some(&folder)).unwrap();
        let receipt = Receipt {
            id: Uuid::nil(),
            user: Uuid::nil(),
            made_at: DateTime::UNIX_EPOCH,
            actor: "server".into(),
            aim: "text".into(),
            exchanges: 1,
            revisions: 0,
            traces: 3,
            looked: Vec::new(),
            kept_ids: Vec::new(),
            clean: true,
            rewritten: false,
            unreachable: Vec::new(),
        };

        let (signed, _) = signer.sign(receipt);

        let mut value = serde_json::to_value(&signed.receipt).unwrap();
        let again = Signer::of(Some(&folder)).unwrap();
        assert_eq!(again.fault(&value, &signed.signature), None);
        assert!(Signer::of(None).unwrap().fault(&value, &signed.signature).is_some());
        value["exchanges"] = json!(2);
        assert!(again.fault(&value, &signed.signature).unwrap().contains("altered"));
        assert!(again.fault(&value, "xyz").unwrap().contains("hexadecimal"));
        fs::remove_dir_all(folder).unwrap();
    }
}
