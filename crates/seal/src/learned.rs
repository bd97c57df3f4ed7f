//! What is learned from sealed rows: XChaCha20-Poly1305 under a key that only who can read the rows has.

use std::fmt;

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use rand_core::{OsRng, RngCore};
use zeroize::Zeroizing;

use crate::cell::KEY;
use crate::padding::{pad, unpad};
use crate::{Place, SealError};

/// So long that one drawn at random is never drawn again.
const NONCE: usize = 24;

/// Seals and opens what is learned from sealed rows. Overwritten when it is let go.
#[derive(Clone)]
pub struct LearnedKey(Zeroizing<[u8; KEY]>);

impl LearnedKey {
    pub(crate) fn of(key: Zeroizing<[u8; KEY]>) -> Self {
        Self(key)
    }

    /// `bytes`, for that place.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`] when the system gives no random numbers.
    pub fn seal(&self, place: &Place<'_>, bytes: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE];
        OsRng.try_fill_bytes(&mut nonce).map_err(|_| SealError::Failed)?;
        let payload = Payload { msg: bytes, aad: &place.bound() };
        let ciphertext = self.cipher().encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::Failed)?;
        let mut sealed = place.header();
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&ciphertext);
        Ok(sealed)
    }

    /// What [`LearnedKey::seal`] was given for that place.
    ///
    /// # Errors
    ///
    /// As [`crate::SecretKey::open`].
    pub fn open(&self, place: &Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let rest = place.after_header(sealed)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>().ok_or(SealError::Tampered)?;
        let payload = Payload { msg: ciphertext, aad: &place.bound() };
        let opened = self.cipher().decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Tampered)?;
        Ok(Zeroizing::new(opened))
    }

    /// `text`, for that place; its length shows only roughly.
    ///
    /// # Errors
    ///
    /// As [`LearnedKey::seal`].
    pub fn seal_text(&self, place: &Place<'_>, text: &[u8]) -> Result<Vec<u8>, SealError> {
        self.seal(place, &pad(text))
    }

    /// What [`LearnedKey::seal_text`] was given for that place.
    ///
    /// # Errors
    ///
    /// As [`crate::SecretKey::open`].
    pub fn open_text(&self, place: &Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        unpad(self.open(place, sealed)?)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.0.as_slice().into())
    }
}

impl fmt::Debug for LearnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LearnedKey(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use skymem_core::{Collection, UserId};
    use uuid::Uuid;

    use super::*;
    use crate::SecretKey;

    #[test]
    fn what_is_learned_opens_at_its_place_and_with_its_key_alone() {
        let health: Collection = "health".parse().unwrap();
        let place =
            Place { user: UserId(Uuid::nil()), collection: &health, row: Uuid::nil(), column: "vector", version: 1 };
        let (secret, other) = (SecretKey::generate(), SecretKey::generate());
        let sealed = secret.learned().unwrap().seal(&place, &[1, 2, 3]).unwrap();

        assert_eq!(secret.learned().unwrap().open(&place, &sealed).unwrap().as_slice(), [1, 2, 3]);
        assert_eq!(other.learned().unwrap().open(&place, &sealed).unwrap_err(), SealError::Tampered);
        let elsewhere = Place { column: "turn", ..place };
        assert_eq!(secret.learned().unwrap().open(&elsewhere, &sealed).unwrap_err(), SealError::Elsewhere);
        assert_eq!(secret.learned().unwrap().open(&place, &sealed[..20]).unwrap_err(), SealError::Tampered);
        assert_ne!(sealed, secret.learned().unwrap().seal(&place, &[1, 2, 3]).unwrap(), "a nonce is used once");
    }

    #[test]
    fn texts_come_back_and_their_lengths_say_little() {
        let health: Collection = "health".parse().unwrap();
        let place =
            Place { user: UserId(Uuid::nil()), collection: &health, row: Uuid::nil(), column: "digest", version: 1 };
        let key = SecretKey::generate().learned().unwrap();
        let (short, long) = (key.seal_text(&place, b"yes").unwrap(), key.seal_text(&place, &[7; 200]).unwrap());

        assert_eq!(short.len(), long.len());
        assert_eq!(key.open_text(&place, &short).unwrap().as_slice(), b"yes");
        assert_eq!(key.open_text(&place, &short[..short.len() - 1]).unwrap_err(), SealError::Tampered);
    }
}
