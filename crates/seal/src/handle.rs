//! Handles of sessions: the same for the same session, and nothing of its id.

use hmac::{Hmac, Mac};
use rand_core::{OsRng, RngCore};
use sha2::Sha256;
use skymem_core::SessionId;

use crate::SealError;

const KEY: usize = 32;

/// Makes handles for one collection. It stands beside them, for a locked server needs it: it keeps handles of two
/// collections apart, and a table made once from being of use twice.
#[derive(Clone, PartialEq, Eq)]
pub struct HandleKey([u8; KEY]);

/// Stands for a session of a sealed collection.
pub type SessionHandle = Vec<u8>;

impl HandleKey {
    /// A new one.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`] when the system gives no random numbers.
    pub fn generate() -> Result<Self, SealError> {
        let mut key = [0; KEY];
        OsRng.try_fill_bytes(&mut key).map_err(|_| SealError::Failed)?;
        Ok(Self(key))
    }

    /// As it is kept.
    ///
    /// # Errors
    ///
    /// [`SealError::UnknownForm`] when it has another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealError> {
        bytes.try_into().map(Self).map_err(|_| SealError::UnknownForm)
    }

    /// To be kept.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The handle of a session.
    ///
    /// # Errors
    ///
    /// [`SealError::Failed`], which does not happen.
    pub fn of(&self, session: &SessionId) -> Result<SessionHandle, SealError> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|_| SealError::Failed)?;
        mac.update(session.as_str().as_bytes());
        Ok(mac.finalize().into_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_handle_in_a_collection_and_another_in_the_next() {
        let (a, b) = (HandleKey::generate().unwrap(), HandleKey::generate().unwrap());
        let session: SessionId = "chat 17".parse().unwrap();

        assert_eq!(a.of(&session).unwrap(), a.of(&session).unwrap());
        assert_ne!(a.of(&session).unwrap(), b.of(&session).unwrap());
        assert_ne!(a.of(&session).unwrap(), a.of(&"chat 18".parse().unwrap()).unwrap());
    }
}
