//! How near vectors are to a question's: every one of them, since a question may be about anything.
//!
//! Of all that a search does this reads the most by far, so it is compiled for the widest vector unit there is.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::Builder;

use half::f16;
use pulp::{Arch, Simd, WithSimd};
use skymem_core::machine::fetch_ahead;

use crate::places::{ByPlace, Place};

/// Vectors, a row for each place.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub(crate) vectors: &'a [f16],
    pub(crate) has_vector: &'a [bool],
    pub(crate) dimensions: usize,
}

impl<'a> Rows<'a> {
    fn pieces(self, size: usize) -> impl Iterator<Item = Self> {
        let vectors = self.vectors.chunks((size * self.dimensions).max(1));
        let pieces = vectors.zip(self.has_vector.chunks(size));
        pieces.map(move |(vectors, has_vector): (&'a [f16], &'a [bool])| Self { vectors, has_vector, ..self })
    }
}

/// Rows that a thread compares at a time: fewer are done before another one has begun.
const PIECE: usize = 4_096;
/// How many rows ahead vectors are fetched.
const AHEAD: usize = 8;
/// How many processors there are; more than four would wait for memory.
static THREADS: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from).min(4));

/// Notes the inner product of `question` and each row that has a vector. They come from memory at the pace of a processor, so
/// that several have them sooner. Where there is no other thread to be had, this one does it all.
pub(crate) fn compare_all(question: &[f32], rows: Rows<'_>, found: &mut ByPlace<f32>) {
    let others = rows.has_vector.len() / PIECE;
    let pieces = Mutex::new(found.pieces_mut(PIECE).zip(rows.pieces(PIECE)));
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((found, rows)) = next() {
            let places = (0..).take(found.len());
            compare(question, rows, places, |place, cosine| found[place as usize] = Some(cosine));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..(*THREADS).min(others + 1) {
            if Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

/// Tells `found` the inner product of `question` and the row of each of `places` that has a vector.
pub(crate) fn compare(
    question: &[f32],
    rows: Rows<'_>,
    places: impl Iterator<Item = Place>,
    found: impl FnMut(Place, f32),
) {
    let question: Vec<f32> = question.iter().map(|number| number * SHRUNK).collect();
    Arch::new().dispatch(Compare { question: &question, rows, places, found });
}

struct Compare<'a, P, F> {
    question: &'a [f32],
    rows: Rows<'a>,
    places: P,
    found: F,
}

impl<P: Iterator<Item = Place>, F: FnMut(Place, f32)> WithSimd for Compare<'_, P, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        for place in self.places {
            let at = place as usize;
            let (start, end) = (at * self.rows.dimensions, (at + 1) * self.rows.dimensions);
            if self.rows.has_vector.get(at) == Some(&true)
                && let Some(vector) = self.rows.vectors.get(start..end)
            {
                fetch_ahead(vector, AHEAD);
                (self.found)(place, dot(self.question, vector));
            }
        }
    }
}

/// How many sums run side by side, so that the compiler takes vector instructions: it may not reorder one sum of floats.
const LANES: usize = 32;

#[inline(always)]
fn dot(scaled: &[f32], halves: &[f16]) -> f32 {
    let mut sums = [0.0_f32; LANES];
    let (a, a_rest) = scaled.as_chunks::<LANES>();
    let (b, b_rest) = halves.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * shrunk(*b);
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * shrunk(*b)).sum();
    sums.iter().sum::<f32>() + rest
}

/// What [`shrunk`] makes smaller: the exponents of `f32` begin so much lower. As a power of two it rounds nothing.
const SHRUNK: f32 = f32::from_bits((127 + 127 - 15) << 23);

/// A finite half as an `f32`, divided by [`SHRUNK`]: its bits moved, which a compiler does for many at once. `half`
/// converts eight with a call that is not inlined, and a search took three times as long.
#[inline(always)]
fn shrunk(half: f16) -> f32 {
    /// The sign, and what is left of exponent and digits when they are moved below an exponent of eight bits.
    const PARTS: u32 = 0x8FFF_E000;
    let extended = i32::from(half.to_bits() as i16) as u32;
    f32::from_bits((extended << 13) & PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_half_keeps_its_value() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            if half.is_finite() {
                assert_eq!((shrunk(half) * SHRUNK).to_bits(), half.to_f32().to_bits(), "{half}");
            }
        }
    }

    #[test]
    fn all_rows_are_compared_by_as_many_threads_as_there_are() {
        for all in [0, 1, PIECE, 2 * PIECE + 1, 5 * PIECE - 1] {
            let number = |place: usize| f16::from_f32((place % 1_000) as f32);
            let vectors: Vec<f16> = (0..all).flat_map(|place| [number(place), f16::ONE]).collect();
            let has_vector: Vec<bool> = (0..all).map(|place| place % 3 != 0).collect();
            let mut found = ByPlace::none(all);

            let rows = Rows { vectors: &vectors, has_vector: &has_vector, dimensions: 2 };
            compare_all(&[2.0, 1.0], rows, &mut found);

            for (place, has) in has_vector.iter().enumerate() {
                let expected = has.then(|| 2.0 * number(place).to_f32() + 1.0);
                assert_eq!(found.get(place as Place), expected, "{place} of {all}");
            }
        }
    }

    #[test]
    fn a_sum_of_many_is_the_sum_of_each() {
        for length in [0, 1, 31, 32, 33, 384, 500] {
            let values: Vec<f32> = (0..length).map(|n| f32::from(n as u16 % 7)).collect();
            let scaled: Vec<f32> = values.iter().map(|value| value * SHRUNK).collect();
            let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
            let expected: f32 = values.iter().map(|value| value * value).sum();
            assert!((dot(&scaled, &halves) - expected).abs() <= expected * 1e-6, "{length}");
        }
    }
}
