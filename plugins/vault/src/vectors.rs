//! The vectors of a turn's passages. Overwritten when they are let go.

use half::f16;
use skymem_core::Embedding;
use zeroize::Zeroizing;

/// The vectors of the passages of one turn, one after the other.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Vectors {
    dimensions: usize,
    values: Vec<f16>,
}

impl Vectors {
    /// As an embedder gave them.
    pub(crate) fn of(embeddings: &[Embedding]) -> Self {
        let dimensions = embeddings.first().map_or(0, |embedding| embedding.0.len());
        let values = embeddings.iter().flat_map(|embedding| &embedding.0).map(|value| f16::from_f32(*value));
        Self { dimensions, values: values.collect() }
    }

    /// That of the passage at `part`.
    pub(crate) fn part(&self, part: usize) -> Option<&[f16]> {
        let at = part.checked_mul(self.dimensions)?;
        self.values.get(at..at + self.dimensions).filter(|vector| !vector.is_empty())
    }

    /// How many there are, how many numbers each, and the numbers.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let count = self.values.len().checked_div(self.dimensions).unwrap_or(0);
        let mut bytes = Zeroizing::new(Vec::with_capacity(8 + 2 * self.values.len()));
        for length in [count, self.dimensions] {
            bytes.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
        }
        self.values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
        bytes
    }

    /// What [`Vectors::to_bytes`] wrote; `None` when it is not that.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let (dimensions, rest) = rest.split_first_chunk::<4>()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let dimensions = usize::try_from(u32::from_le_bytes(*dimensions)).ok()?;
        if dimensions == 0 || rest.len() != count.checked_mul(dimensions)?.checked_mul(2)? {
            return None;
        }
        let values = rest.as_chunks::<2>().0.iter().map(|value| f16::from_le_bytes(*value)).collect();
        Some(Self { dimensions, values })
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        self.values.fill(f16::ZERO);
        std::hint::black_box(&self.values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_come_back_as_they_were_and_a_cut_row_gives_none() {
        let vectors = Vectors::of(&[Embedding(vec![0.5, -1.0]), Embedding(vec![0.0, 1.0])]);
        let bytes = vectors.to_bytes();

        assert_eq!(vectors.part(1), Some([f16::ZERO, f16::ONE].as_slice()));
        assert_eq!(vectors.part(2), None);
        assert_eq!(Vectors::from_bytes(&bytes), Some(vectors));
        assert_eq!(Vectors::from_bytes(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Vectors::from_bytes(&[]), None);
        assert_eq!(Vectors::default().part(0), None);
    }
}
