//! Wrapping the half that reads, by age: to recipients, or under a passphrase.

use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

use age::secrecy::{ExposeSecret, SecretString};
use age::{DecryptError, Decryptor, Encryptor, scrypt, x25519};
use sha2::{Digest, Sha256};
use skymem_core::{Collection, UserId};
use zeroize::{Zeroize, Zeroizing};

use crate::cell::KEY;
use crate::{SealError, SecretKey};

/// A passphrase has at least this many characters.
const SHORTEST_PASSPHRASE: usize = 8;

/// How long a label of what is wrapped is.
const LABEL: usize = 32;

/// Who can unwrap: an X25519 public key, as age writes it.
#[derive(Clone)]
pub struct Recipient(x25519::Recipient);

/// Secret keys of recipients, as age's files hold them. Overwritten when they are let go, and never printed.
pub struct Identities(Vec<x25519::Identity>);

/// A passphrase. Overwritten when it is let go, and never printed.
#[derive(Clone)]
pub struct Passphrase(SecretString);

/// A key as it is kept: an age file of its own for each recipient, so that one can be removed without the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrapped(pub Vec<u8>);

/// What unwraps.
#[derive(Debug)]
pub enum Opener {
    /// Identities: the one that fits is found.
    Identities(Identities),
    /// A passphrase.
    Passphrase(Passphrase),
}

impl Wrapped {
    /// The key of a version of a collection for whoever has the identity of `recipient`.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`] when age refuses.
    pub fn to_recipient(
        key: &SecretKey,
        recipient: &Recipient,
        of: (UserId, &Collection, u32),
    ) -> Result<Self, SealError> {
        Self::to(&recipient.0, key, of)
    }

    /// The key of a version of a collection for whoever knows a passphrase, which costs about 2^`work` steps to try.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`] when age refuses.
    pub fn to_passphrase(
        key: &SecretKey,
        passphrase: &Passphrase,
        work: u8,
        of: (UserId, &Collection, u32),
    ) -> Result<Self, SealError> {
        let mut recipient = scrypt::Recipient::new(passphrase.0.clone());
        recipient.set_work_factor(work);
        Self::to(&recipient, key, of)
    }

    fn to(recipient: &dyn age::Recipient, key: &SecretKey, of: (UserId, &Collection, u32)) -> Result<Self, SealError> {
        let mut text = Zeroizing::new(label(of).to_vec());
        text.extend_from_slice(key.0.as_slice());
        let encryptor = Encryptor::with_recipients(std::iter::once(recipient)).map_err(|_| SealError::Failed)?;
        let mut wrapped = Vec::new();
        let mut writer = encryptor.wrap_output(&mut wrapped).map_err(|_| SealError::Failed)?;
        writer.write_all(&text).map_err(|_| SealError::Failed)?;
        writer.finish().map_err(|_| SealError::Failed)?;
        Ok(Self(wrapped))
    }

    /// The key.
    ///
    /// # Errors
    ///
    /// [`SealError::WrongIdentity`] or [`SealError::WrongPassphrase`]; [`SealError::Tampered`] when it was damaged, and
    /// [`SealError::Elsewhere`] when it is the key of another collection.
    pub fn open(&self, opener: &Opener, of: (UserId, &Collection, u32)) -> Result<SecretKey, SealError> {
        let decryptor = Decryptor::new(self.0.as_slice()).map_err(|_| SealError::Tampered)?;
        let opened = match opener {
            Opener::Identities(identities) => {
                decryptor.decrypt(identities.0.iter().map(|identity| identity as &dyn age::Identity))
            }
            Opener::Passphrase(passphrase) => {
                let mut identity = scrypt::Identity::new(passphrase.0.clone());
                identity.set_max_work_factor(MOST_WORK);
                decryptor.decrypt(std::iter::once(&identity as &dyn age::Identity))
            }
        };
        let mut reader = opened.map_err(|error| match (error, opener) {
            (DecryptError::NoMatchingKeys, Opener::Identities(_)) => SealError::WrongIdentity,
            (DecryptError::NoMatchingKeys | DecryptError::DecryptionFailed | DecryptError::KeyDecryptionFailed, _) => {
                SealError::WrongPassphrase
            }
            _ => SealError::Tampered,
        })?;
        let mut text = Zeroizing::new(Vec::with_capacity(LABEL + KEY + 1));
        reader.read_to_end(&mut text).map_err(|_| SealError::Tampered)?;
        let (found, key) = text.split_at_checked(LABEL).ok_or(SealError::Tampered)?;
        if found != label(of) {
            return Err(SealError::Elsewhere);
        }
        SecretKey::from_bytes(key)
    }
}

/// More work than this is not done for a wrapped key: somebody would have us busy.
const MOST_WORK: u8 = 22;

/// Which key it is: one that is put in the place of another does not open.
fn label((user, collection, version): (UserId, &Collection, u32)) -> [u8; LABEL] {
    let mut hash = Sha256::new();
    hash.update(b"skymem collection key 1");
    hash.update(user.0.as_bytes());
    hash.update(version.to_le_bytes());
    hash.update(collection.as_str());
    hash.finalize().into()
}

/// A new identity: its text for a file that is kept safe, and its recipient.
#[must_use]
pub fn make_identity() -> (Zeroizing<String>, Recipient) {
    let identity = x25519::Identity::generate();
    let secret = identity.to_string();
    let text = format!("# public key: {}\n{}\n", identity.to_public(), secret.expose_secret());
    (Zeroizing::new(text), Recipient(identity.to_public()))
}

impl FromStr for Recipient {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        text.trim().parse().map(Self).map_err(|_| {
            // Who pastes the wrong half must not find it in a log.
            let secret = text.to_ascii_uppercase().contains("SECRET");
            SealError::BadRecipient(if secret { "a secret key".into() } else { text.chars().take(80).collect() })
        })
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({})", self.0)
    }
}

impl FromStr for Identities {
    type Err = SealError;

    /// Reads an identity file: comments, empty lines, and secret keys, a line each.
    fn from_str(text: &str) -> Result<Self, SealError> {
        let mut identities = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let identity = line.parse().map_err(|_| {
                SealError::BadIdentity(format!(
                    "line {} is no whole secret key; one begins with AGE-SECRET-KEY-1 and has 74 characters, this has {}",
                    at + 1,
                    line.chars().count()
                ))
            })?;
            identities.push(identity);
        }
        if identities.is_empty() {
            return Err(SealError::BadIdentity("it holds no line that begins with AGE-SECRET-KEY-1".into()));
        }
        Ok(Self(identities))
    }
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identities(not shown)")
    }
}

impl Passphrase {
    /// A passphrase that is long enough.
    ///
    /// # Errors
    ///
    /// [`SealError::WeakPassphrase`].
    pub fn new(mut text: String) -> Result<Self, SealError> {
        if text.chars().count() < SHORTEST_PASSPHRASE {
            text.zeroize();
            return Err(SealError::WeakPassphrase(SHORTEST_PASSPHRASE));
        }
        Ok(Self(SecretString::from(text)))
    }

    /// A passphrase to be tried: how long it is says nothing.
    #[must_use]
    pub fn to_try(text: String) -> Self {
        Self(SecretString::from(text))
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const WORK: u8 = 2;

    fn health() -> Collection {
        "health".parse().unwrap()
    }

    fn user() -> UserId {
        UserId(Uuid::from_u128(7))
    }

    fn identities(text: &str) -> Opener {
        Opener::Identities(text.parse().unwrap())
    }

    #[test]
    fn a_recipient_unwraps_with_their_identity_and_nobody_else() {
        let (key, health) = (SecretKey::generate(), health());
        let of = (user(), &health, 1);
        let ((own, recipient), (other, _)) = (make_identity(), make_identity());
        let wrapped = Wrapped::to_recipient(&key, &recipient, of).unwrap();

        assert_eq!(wrapped.open(&identities(&own), of).unwrap().0, key.0);
        assert_eq!(wrapped.open(&identities(&format!("{}{}", *other, *own)), of).unwrap().0, key.0);
        assert_eq!(wrapped.open(&identities(&other), of).unwrap_err(), SealError::WrongIdentity);
        let phrase = Opener::Passphrase(Passphrase::to_try("whatever it is".into()));
        assert_eq!(wrapped.open(&phrase, of).unwrap_err(), SealError::WrongPassphrase);
    }

    #[test]
    fn a_passphrase_unwraps_and_a_wrong_one_does_not() {
        let (key, health) = (SecretKey::generate(), health());
        let of = (user(), &health, 1);
        let right = Passphrase::new("correct horse".into()).unwrap();
        let wrapped = Wrapped::to_passphrase(&key, &right, WORK, of).unwrap();

        assert_eq!(wrapped.open(&Opener::Passphrase(right), of).unwrap().0, key.0);
        let wrong = Opener::Passphrase(Passphrase::to_try("wrong horse!".into()));
        assert_eq!(wrapped.open(&wrong, of).unwrap_err(), SealError::WrongPassphrase);
        assert_eq!(wrapped.open(&identities(&make_identity().0), of).unwrap_err(), SealError::WrongIdentity);
        assert_eq!(Passphrase::new("short".into()).unwrap_err(), SealError::WeakPassphrase(8));
    }

    #[test]
    fn the_key_of_another_collection_user_or_version_is_not_taken_for_this_one() {
        let (key, health) = (SecretKey::generate(), health());
        let work: Collection = "work".parse().unwrap();
        let (own, recipient) = make_identity();
        let wrapped = Wrapped::to_recipient(&key, &recipient, (user(), &health, 1)).unwrap();

        for of in [(user(), &work, 1), (user(), &health, 2), (UserId(Uuid::nil()), &health, 1)] {
            assert_eq!(wrapped.open(&identities(&own), of).unwrap_err(), SealError::Elsewhere);
        }
    }

    #[test]
    fn a_damaged_wrapping_says_so() {
        let (key, health) = (SecretKey::generate(), health());
        let of = (user(), &health, 1);
        let (own, recipient) = make_identity();
        let Wrapped(whole) = Wrapped::to_recipient(&key, &recipient, of).unwrap();
        let opener = identities(&own);

        for at in [0, 30, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            let error = Wrapped(changed).open(&opener, of).unwrap_err();
            assert!(matches!(error, SealError::Tampered | SealError::WrongIdentity), "{at}: {error:?}");
            assert_eq!(Wrapped(whole[..at].to_vec()).open(&opener, of).unwrap_err(), SealError::Tampered, "{at}");
        }
    }

    #[test]
    fn a_truncated_identity_says_which_line_and_shows_nothing_of_it() {
        let (own, _) = make_identity();
        let cut = &own[..own.len() - 10];
        let error = cut.parse::<Identities>().unwrap_err();

        assert!(matches!(&error, SealError::BadIdentity(why) if why.contains("line 2")), "{error}");
        assert!(!error.to_string().contains(&own[own.len() - 40..own.len() - 12]));
        assert!(matches!("".parse::<Identities>().unwrap_err(), SealError::BadIdentity(_)));
        assert!(matches!("# only a comment\n".parse::<Identities>().unwrap_err(), SealError::BadIdentity(_)));
    }

    #[test]
    fn a_secret_key_in_the_place_of_a_recipient_is_not_repeated() {
        let (own, recipient) = make_identity();
        let secret = own.lines().last().unwrap();

        let error = secret.parse::<Recipient>().unwrap_err().to_string();

        assert!(!error.contains("AGE-SECRET-KEY-1"), "{error}");
        assert_eq!(recipient.to_string().parse::<Recipient>().unwrap().to_string(), recipient.to_string());
        assert!("age1nonsense".parse::<Recipient>().is_err());
    }
}
