//! Where a ciphertext belongs.

use sha2::{Digest, Sha256};
use skymem_core::{Collection, UserId};
use uuid::Uuid;

use crate::SealError;

/// The form of what is written here. A program that knows another says so, rather than calling the row damaged.
const FORM: u8 = 1;

/// Form, version of the key, tag of the place.
const HEADER: usize = 1 + 4 + TAG;

const TAG: usize = 16;

/// Where a ciphertext belongs: it opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Whose it is.
    pub user: UserId,
    /// The collection it stands in.
    pub collection: &'a Collection,
    /// The row.
    pub row: Uuid,
    /// The column.
    pub column: &'a str,
    /// The version of the collection's key.
    pub version: u32,
}

impl Place<'_> {
    /// What the cipher authenticates beside the text: fields that cannot run into each other.
    pub(crate) fn bound(&self) -> Vec<u8> {
        let mut bound = vec![FORM];
        bound.extend(self.version.to_le_bytes());
        bound.extend(self.user.0.as_bytes());
        bound.extend(self.row.as_bytes());
        for name in [self.collection.as_str(), self.column] {
            bound.extend((name.len() as u64).to_le_bytes());
            bound.extend(name.as_bytes());
        }
        bound
    }

    /// What stands in the clear before a ciphertext. All of it can be told from the row as well; it tells a row that was
    /// moved from one that was damaged, which the cipher alone does not.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut header = vec![FORM];
        header.extend(self.version.to_le_bytes());
        header.extend(Sha256::digest(self.bound()).iter().take(TAG));
        header
    }

    /// What follows the header, when it is that of this place.
    pub(crate) fn after_header<'b>(&self, sealed: &'b [u8]) -> Result<&'b [u8], SealError> {
        let (header, rest) = sealed.split_at_checked(HEADER).ok_or(SealError::Tampered)?;
        let own = self.header();
        if header == own {
            return Ok(rest);
        }
        if header.first() != Some(&FORM) {
            return Err(SealError::UnknownForm);
        }
        let version = header.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        match version {
            Some(written) if written != self.version => Err(SealError::OtherVersion { written, tried: self.version }),
            _ => Err(SealError::Elsewhere),
        }
    }
}
