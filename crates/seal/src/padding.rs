//! Lengths that say little: a text is padded before it is sealed.

use zeroize::Zeroizing;

use crate::SealError;

/// Nothing is shorter than this: most turns of a conversation are of one length.
const SHORTEST: usize = 256;

/// How long the length itself is.
const LENGTH: usize = 8;

/// `text` with its length before it and zeros behind it: at least [`SHORTEST`] bytes, then so many that of the length only
/// the highest bits show (Padmé; Nikitin and others, 2019): never more than 12 % longer.
pub(crate) fn pad(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let length = padded(text.len() + LENGTH);
    let mut padded = Zeroizing::new(Vec::with_capacity(length));
    padded.extend_from_slice(&(text.len() as u64).to_le_bytes());
    padded.extend_from_slice(text);
    padded.resize(length, 0);
    padded
}

/// What was padded.
///
/// # Errors
///
/// [`SealError::Tampered`] when it was not padded by [`pad`].
pub(crate) fn unpad(mut padded: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let length = padded.first_chunk::<LENGTH>().map(|bytes| u64::from_le_bytes(*bytes));
    let length = length.and_then(|length| usize::try_from(length).ok()).ok_or(SealError::Tampered)?;
    if length > padded.len() - LENGTH {
        return Err(SealError::Tampered);
    }
    padded.copy_within(LENGTH..LENGTH + length, 0);
    padded.truncate(length);
    Ok(padded)
}

fn padded(length: usize) -> usize {
    let length = length.max(SHORTEST);
    let exponent = usize::BITS - 1 - length.leading_zeros();
    let shown = usize::BITS - exponent.leading_zeros();
    let mask = (1_usize << exponent.saturating_sub(shown)) - 1;
    (length + mask) & !mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_texts_are_of_one_length() {
        assert_eq!(pad(b"yes").len(), pad(&[7; 200]).len());
        assert!(pad(&[7; 300]).len() > pad(b"yes").len());
    }

    #[test]
    fn a_length_that_cannot_be_is_noticed() {
        assert_eq!(unpad(Zeroizing::new(vec![1, 2, 3])).unwrap_err(), SealError::Tampered);
        assert_eq!(unpad(Zeroizing::new(vec![255; 300])).unwrap_err(), SealError::Tampered);
    }

    proptest! {
        #[test]
        fn a_text_comes_back_and_costs_little_more(text in proptest::collection::vec(any::<u8>(), 0..5_000)) {
            let padded = pad(&text);
            prop_assert!(padded.len() <= (text.len() + LENGTH).max(SHORTEST) * 113 / 100);
            let back = unpad(padded).unwrap();
            prop_assert_eq!(back.as_slice(), text.as_slice());
        }
    }
}
