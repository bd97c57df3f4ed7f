//! What is written while nobody can read: HPKE (RFC 9180) with X25519, HKDF-SHA256 and ChaCha20-Poly1305.
//!
//! Each row has a key agreement and with it a key of its own, so that no nonce can ever be used twice with one.

use std::fmt;

use hkdf::Hkdf;
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::HkdfSha256;
use hpke::kem::X25519HkdfSha256;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use rand_core::OsRng;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::learned::LearnedKey;
use crate::padding::{pad, unpad};
use crate::{Place, SealError};

type Cipher = ChaCha20Poly1305;
type Derivation = HkdfSha256;
type Agreement = X25519HkdfSha256;

/// How long both halves are.
pub(crate) const KEY: usize = 32;

/// Says which use of the keys this is.
const INFO: &[u8] = b"skymem sealed row 1";

/// The half that writes. No secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY]);

/// The half that reads. Overwritten when it is let go, and never printed.
#[derive(Clone)]
pub struct SecretKey(pub(crate) Zeroizing<[u8; KEY]>);

impl PublicKey {
    /// As it is kept; [`SealError::UnknownForm`] when it is no key.
    ///
    /// # Errors
    ///
    /// When it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_| SealError::UnknownForm)
    }

    /// To be kept.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// `text`, which nobody reads again without the other half, for that place. Its length shows only roughly.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`] when the system gives no random numbers.
    pub fn seal(&self, place: &Place<'_>, text: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = <Agreement as Kem>::PublicKey::from_bytes(&self.0).map_err(|_| SealError::Failed)?;
        let padded = pad(text);
        let (agreed, ciphertext) = hpke::single_shot_seal::<Cipher, Derivation, Agreement, _>(
            &OpModeS::Base,
            &key,
            INFO,
            &padded,
            &place.bound(),
            &mut OsRng,
        )
        .map_err(|_| SealError::Failed)?;
        let mut sealed = place.header();
        sealed.extend_from_slice(&agreed.to_bytes());
        sealed.extend_from_slice(&ciphertext);
        Ok(sealed)
    }
}

impl SecretKey {
    /// A new pair: the private half; the public one comes from it.
    #[must_use]
    pub fn generate() -> Self {
        let (secret, _) = Agreement::gen_keypair(&mut OsRng);
        let mut key = Zeroizing::new([0; KEY]);
        key.copy_from_slice(&Zeroizing::new(secret.to_bytes()));
        Self(key)
    }

    /// The bytes of the key, to be handed over within this program.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_vec())
    }

    /// A key from its bytes.
    ///
    /// # Errors
    ///
    /// [`SealError::Tampered`] when it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        let mut key = Zeroizing::new([0; KEY]);
        if bytes.len() != KEY {
            return Err(SealError::Tampered);
        }
        key.copy_from_slice(bytes);
        Ok(Self(key))
    }

    /// The half that writes.
    ///
    /// # Errors
    ///
    /// When this is no key.
    pub fn public(&self) -> Result<PublicKey, SealError> {
        let public = Agreement::sk_to_pk(&self.agreement()?);
        PublicKey::from_bytes(&public.to_bytes())
    }

    /// What [`PublicKey::seal`] was given for that place.
    ///
    /// # Errors
    ///
    /// [`SealError::Tampered`], [`SealError::Elsewhere`], [`SealError::OtherVersion`] or [`SealError::UnknownForm`].
    pub fn open(&self, place: &Place<'_>, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let rest = place.after_header(sealed)?;
        let (agreed, ciphertext) = rest.split_at_checked(KEY).ok_or(SealError::Tampered)?;
        let agreed = <Agreement as Kem>::EncappedKey::from_bytes(agreed).map_err(|_| SealError::Tampered)?;
        let padded = hpke::single_shot_open::<Cipher, Derivation, Agreement>(
            &OpModeR::Base,
            &self.agreement()?,
            &agreed,
            INFO,
            ciphertext,
            &place.bound(),
        )
        .map_err(|_| SealError::Tampered)?;
        unpad(Zeroizing::new(padded))
    }

    /// The key for what is learned from what this key reads.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`], which does not happen.
    pub fn learned(&self) -> Result<LearnedKey, SealError> {
        let mut key = Zeroizing::new([0; KEY]);
        let derived = Hkdf::<Sha256>::new(None, self.0.as_slice()).expand(b"skymem learned 1", key.as_mut_slice());
        derived.map_err(|_| SealError::Failed)?;
        Ok(LearnedKey::of(key))
    }

    fn agreement(&self) -> Result<<Agreement as Kem>::PrivateKey, SealError> {
        <Agreement as Kem>::PrivateKey::from_bytes(self.0.as_slice()).map_err(|_| SealError::Tampered)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use skymem_core::{Collection, UserId};
    use uuid::Uuid;

    use super::*;

    fn shelf(name: &str) -> Collection {
        name.parse().unwrap()
    }

    fn place(collection: &Collection) -> Place<'_> {
        Place { user: UserId(Uuid::from_u128(1)), collection, row: Uuid::from_u128(2), column: "turn", version: 3 }
    }

    #[test]
    fn what_is_sealed_opens_with_the_other_half_alone() {
        let (health, key) = (shelf("health"), SecretKey::generate());
        let sealed = key.public().unwrap().seal(&place(&health), b"my blood type is AB").unwrap();

        assert_eq!(key.open(&place(&health), &sealed).unwrap().as_slice(), b"my blood type is AB");
        assert_eq!(SecretKey::generate().open(&place(&health), &sealed).unwrap_err(), SealError::Tampered);
        assert!(!sealed.windows(5).any(|bytes| bytes == b"blood"));
    }

    #[test]
    fn what_stands_elsewhere_does_not_open_and_says_so() {
        let (health, work, key) = (shelf("health"), shelf("work"), SecretKey::generate());
        let own = place(&health);
        let sealed = key.public().unwrap().seal(&own, b"secret").unwrap();
        let check = |place: Place<'_>, expected| assert_eq!(key.open(&place, &sealed).unwrap_err(), expected);

        check(Place { row: Uuid::from_u128(9), ..own }, SealError::Elsewhere);
        check(Place { column: "vector", ..own }, SealError::Elsewhere);
        check(Place { collection: &work, ..own }, SealError::Elsewhere);
        check(Place { user: UserId(Uuid::from_u128(9)), ..own }, SealError::Elsewhere);
        check(Place { version: 4, ..own }, SealError::OtherVersion { written: 3, tried: 4 });
    }

    #[test]
    fn a_forged_header_does_not_make_a_moved_row_open() {
        let (health, key) = (shelf("health"), SecretKey::generate());
        let other = Place { row: Uuid::from_u128(9), ..place(&health) };
        let sealed = key.public().unwrap().seal(&place(&health), b"secret").unwrap();

        let mut forged = other.header();
        forged.extend_from_slice(sealed.get(other.header().len()..).unwrap());

        assert_eq!(key.open(&other, &forged).unwrap_err(), SealError::Tampered);
    }

    #[test]
    fn a_form_that_is_not_known_is_not_called_damaged() {
        let (health, key) = (shelf("health"), SecretKey::generate());
        let mut sealed = key.public().unwrap().seal(&place(&health), b"secret").unwrap();
        sealed[0] = 9;

        assert_eq!(key.open(&place(&health), &sealed).unwrap_err(), SealError::UnknownForm);
    }

    #[test]
    fn a_secret_is_not_printed() {
        let key = SecretKey::generate();
        assert_eq!(format!("{key:?}"), "SecretKey(not shown)");
    }

    proptest! {
        #[test]
        fn any_text_comes_back_and_no_changed_byte_goes_unnoticed(
            text in proptest::collection::vec(any::<u8>(), 0..2_000), at in any::<prop::sample::Index>(), bit in 0_u8..8,
        ) {
            let (health, key) = (shelf("health"), SecretKey::generate());
            let mut sealed = key.public().unwrap().seal(&place(&health), &text).unwrap();
            let opened = key.open(&place(&health), &sealed).unwrap();
            prop_assert_eq!(opened.as_slice(), text.as_slice());

            let at = at.index(sealed.len());
            sealed[at] ^= 1 << bit;
            prop_assert!(key.open(&place(&health), &sealed).is_err());
            sealed[at] ^= 1 << bit;
            prop_assert!(key.open(&place(&health), &sealed[..at]).is_err());
        }
    }
}
