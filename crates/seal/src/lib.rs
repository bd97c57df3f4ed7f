//! Sealing: the only place that knows the cipher and age. Pure: no I/O, no clock.
//!
//! A sealed collection has a pair of keys. What is written is encrypted to the *public* half ([`PublicKey::seal`]), so that
//! writing needs no secret at all. Reading needs the *private* half ([`SecretKey::open`]), which is kept only wrapped by
//! age to recipients and passphrases ([`wrap`]). What is learned from sealed rows while a collection is unlocked is
//! encrypted with a symmetric key that is derived from the private half ([`SecretKey::learned`]), which is quicker.
//!
//! Why a pair and not one symmetric key: a server that is locked holds nothing that could read what it writes. Adding or
//! removing a recipient wraps 32 bytes anew and rewrites no row.
//!
//! Every ciphertext is bound to its [`Place`] (user, collection, row, column, version of the key): one that is moved
//! elsewhere does not open.

mod cell;
mod handle;
mod learned;
mod padding;
mod place;
mod turn;
mod wrap;

pub use cell::{PublicKey, SecretKey};
pub use handle::{HandleKey, SessionHandle};
pub use learned::LearnedKey;
pub use place::Place;
pub use turn::SealedTurn;
pub use wrap::{Identities, Opener, Passphrase, Recipient, Wrapped, make_identity};

/// Why something does not open, or cannot be sealed; says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The identity is that of somebody else.
    #[error("the identity does not open this collection: it is none of its recipients")]
    WrongIdentity,
    /// The passphrase is wrong.
    #[error("the passphrase does not open this collection")]
    WrongPassphrase,
    /// An identity file that is cut off, or is none.
    #[error("the identity cannot be read: {0}")]
    BadIdentity(String),
    /// Not a recipient.
    #[error("{0:?} is no recipient: one begins with age1 and is what `skymem vault keygen` prints")]
    BadRecipient(String),
    /// A passphrase that protects nothing.
    #[error("a passphrase has at least {0} characters")]
    WeakPassphrase(usize),
    /// The bytes were changed or cut off after they were sealed.
    #[error("a sealed row is damaged: it was changed or cut off after it was written")]
    Tampered,
    /// The bytes belong to another row, column, collection or user.
    #[error("a sealed row stands where it was not written: it belongs to another row, column or collection")]
    Elsewhere,
    /// The bytes were sealed with another version of the key.
    #[error("a sealed row was written with version {written} of the key, and version {tried} was tried")]
    OtherVersion {
        /// What it was written with.
        written: u32,
        /// What was tried.
        tried: u32,
    },
    /// The bytes are of a form that this program does not know.
    #[error("a sealed row has a form that this program does not know: was it written by a newer one?")]
    UnknownForm,
    /// The system gave no random numbers, or the cipher refused.
    #[error("sealing failed")]
    Failed,
}
