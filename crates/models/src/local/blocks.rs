//! Products with packed weights: whole numbers of four bits in blocks of 32, each block with a scale.
//!
//! A question is short, so that its pass takes as long as its weights take to come from memory and be multiplied. Packed
//! they are an eighth of what they were as `f32`, and whole numbers of 16 bits are multiplied twice as many at a time.
//! What they are multiplied with is rounded to 16 bits as well, by the largest number of each block, which changes no
//! vector by more than its last digits.

use half::f16;
use pulp::{Arch, Simd, WithSimd};

/// Weights in a block: consecutive inputs of one output.
pub(crate) const BLOCK: usize = 32;
/// A block in a file: an `f16` scale, then sixteen bytes whose low halves are the first sixteen weights and whose high
/// halves are the others, each moved up by eight.
pub(crate) const BLOCK_BYTES: usize = 18;

const HALF: usize = BLOCK / 2;
/// Outputs that are made side by side.
const LANES: usize = 16;
/// Rows that are multiplied with the same weights side by side: their sums fit into the registers.
const ROWS: usize = 8;

/// A matrix of weights.
pub(crate) struct Packed {
    inputs: usize,
    outputs: usize,
    /// Strip by strip of [`LANES`] outputs, and in it by input.
    blocks: Vec<Block>,
}

/// The weights of 32 inputs for 16 outputs.
#[derive(Clone)]
#[repr(C, align(64))]
struct Block {
    /// Of the inputs `n` and `n + 16`, the weights for each output beside each other.
    weights: [[i8; 2 * LANES]; HALF],
    scales: [f32; LANES],
}

/// Rows as they are multiplied; kept between passes.
#[derive(Default)]
pub(crate) struct Rounded {
    parts: Vec<Part>,
}

/// 32 consecutive numbers of a row.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The numbers `n` and `n + 16`, in the lower and the upper sixteen bits.
    pairs: [u32; HALF],
    scale: f32,
}

impl Packed {
    /// Of the weights of `outputs` in their order, each `inputs` long and packed as in a file.
    pub(crate) fn of<'a>(inputs: usize, outputs: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, String> {
        let odd = || "its sizes are none that packed weights have".to_owned();
        let across = inputs / BLOCK;
        let empty = Block { weights: [[0; 2 * LANES]; HALF], scales: [0.0; LANES] };
        let (mut blocks, mut count) = (Vec::new(), 0_usize);
        for (output, row) in outputs.into_iter().enumerate() {
            let (row, rest) = row.as_chunks::<BLOCK_BYTES>();
            let lane = output % LANES;
            if lane == 0 {
                blocks.resize(blocks.len() + across, empty.clone());
            }
            let strip = blocks.len().checked_sub(across).and_then(|start| blocks.get_mut(start..)).ok_or_else(odd)?;
            if row.len() != across || !rest.is_empty() {
                return Err(odd());
            }
            for (block, &[scale_low, scale_high, ref halves @ ..]) in strip.iter_mut().zip(row) {
                block.scales[lane] = f16::from_le_bytes([scale_low, scale_high]).to_f32();
                for (weights, byte) in block.weights.iter_mut().zip(halves) {
                    weights[2 * lane] = (byte & 0x0F) as i8 - 8;
                    weights[2 * lane + 1] = (byte >> 4) as i8 - 8;
                }
            }
            count += 1;
        }
        if inputs.is_multiple_of(BLOCK) && count.is_multiple_of(LANES) {
            Ok(Self { inputs, outputs: count, blocks })
        } else {
            Err(odd())
        }
    }

    /// The product of `rows` and the weights, one row after the other.
    pub(crate) fn apply(&self, rows: &[f32], out: &mut [f32], rounded: &mut Rounded) {
        self.apply_on(Unit::best(), rows, out, rounded);
    }

    fn apply_on(&self, unit: Unit, rows: &[f32], out: &mut [f32], rounded: &mut Rounded) {
        rounded.take(rows);
        let across = self.inputs / BLOCK;
        let rows: Vec<&[Part]> = rounded.parts.chunks_exact(across).collect();
        assert!(out.len() == rows.len() * self.outputs, "there is room for each output of each row");
        // Groups of about one size: a group of few rows takes nearly as long as one of many.
        let groups = rows.len().div_ceil(ROWS);
        for (strip, blocks) in self.blocks.chunks_exact(across).enumerate() {
            for group in 0..groups {
                let (from, until) = (group * rows.len() / groups, (group + 1) * rows.len() / groups);
                let out = &mut out[from * self.outputs + strip * LANES..];
                unit.strip(blocks, &rows[from..until], out, self.outputs);
            }
        }
    }
}

impl Rounded {
    fn take(&mut self, rows: &[f32]) {
        struct Round<'a>(&'a [f32], &'a mut [Part]);
        impl WithSimd for Round<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                for (numbers, part) in self.0.as_chunks::<BLOCK>().0.iter().zip(self.1) {
                    *part = Part::of(numbers);
                }
            }
        }
        self.parts.resize(rows.len() / BLOCK, Part::default());
        Arch::new().dispatch(Round(rows, &mut self.parts));
    }
}

impl Part {
    #[inline(always)]
    fn of(numbers: &[f32; BLOCK]) -> Self {
        const MOST: f32 = 32_767.0;
        // Adding this leaves a whole number in the lower bits.
        const ROUNDER: f32 = 12_582_912.0;
        let (first, second) = numbers.split_at(HALF);
        let mut largest = [0.0_f32; HALF];
        for ((largest, a), b) in largest.iter_mut().zip(first).zip(second) {
            *largest = largest.max(a.abs()).max(b.abs());
        }
        let largest = largest.into_iter().fold(0.0, f32::max);
        // What is smaller is nothing, and would be more than there is when turned around.
        let up = if largest > 1e-30 { MOST / largest } else { 0.0 };
        let mut pairs = [0; HALF];
        for ((pair, a), b) in pairs.iter_mut().zip(first).zip(second) {
            let whole = |x: f32| (x * up + ROUNDER).to_bits();
            *pair = whole(*a) & 0xFFFF | whole(*b) << 16;
        }
        Self { pairs, scale: largest / MOST }
    }
}

/// What multiplies whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    #[cfg(target_arch = "x86_64")]
    Vnni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Plain,
}

impl Unit {
    /// The fastest one that the machine has.
    fn best() -> Self {
        Self::all().next().unwrap_or(Self::Plain)
    }

    /// Those that the machine has, the fastest first.
    fn all() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let fast = {
            let has_vnni = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni");
            let has_avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            [(Self::Vnni, has_vnni), (Self::Avx2, has_avx2)].into_iter().filter_map(|(unit, is)| is.then_some(unit))
        };
        #[cfg(not(target_arch = "x86_64"))]
        let fast = std::iter::empty();
        fast.chain([Self::Plain])
    }

    /// The outputs of a strip for up to [`ROWS`] rows, those of each row `step` after those of the one before.
    #[inline]
    fn strip(self, blocks: &[Block], rows: &[&[Part]], out: &mut [f32], step: usize) {
        match *rows {
            [a] => self.strip_of([a], blocks, out, step),
            [a, b] => self.strip_of([a, b], blocks, out, step),
            [a, b, c] => self.strip_of([a, b, c], blocks, out, step),
            [a, b, c, d] => self.strip_of([a, b, c, d], blocks, out, step),
            [a, b, c, d, e] => self.strip_of([a, b, c, d, e], blocks, out, step),
            [a, b, c, d, e, f] => self.strip_of([a, b, c, d, e, f], blocks, out, step),
            [a, b, c, d, e, f, g] => self.strip_of([a, b, c, d, e, f, g], blocks, out, step),
            [a, b, c, d, e, f, g, h] => self.strip_of([a, b, c, d, e, f, g, h], blocks, out, step),
            _ => {}
        }
    }

    #[inline]
    fn strip_of<const R: usize>(self, rows: [&[Part]; R], blocks: &[Block], out: &mut [f32], step: usize) {
        match self {
            // SAFETY: such a unit is made where the machine was asked whether it has one.
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => unsafe { x86::with_vnni(rows, blocks, out, step) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::with_avx2(rows, blocks, out, step) },
            Self::Plain => plainly(rows, blocks, out, step),
        }
    }
}

/// For machines without a unit that we know; its compiler may find one.
fn plainly<const R: usize>(rows: [&[Part]; R], blocks: &[Block], out: &mut [f32], step: usize) {
    let mut sums = [[0.0; LANES]; R];
    for (at, block) in blocks.iter().enumerate() {
        for (row, sums) in rows.iter().zip(&mut sums) {
            let part = &row[at];
            let mut whole = [0_i32; LANES];
            for (weights, pair) in block.weights.iter().zip(part.pairs) {
                let (first, second) = (i32::from(pair as i16), i32::from((pair >> 16) as i16));
                for (whole, [a, b]) in whole.iter_mut().zip(weights.as_chunks::<2>().0) {
                    *whole += i32::from(*a) * first + i32::from(*b) * second;
                }
            }
            for ((sum, whole), scale) in sums.iter_mut().zip(whole).zip(block.scales) {
                *sum += whole as f32 * (scale * part.scale);
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        out[row * step..][..LANES].copy_from_slice(sums);
    }
}

// Its loops count: iterators are not always inlined into functions that ask for features of their own.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Block, HALF, LANES, Part};

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn with_vnni<const R: usize>(rows: [&[Part]; R], blocks: &[Block], out: &mut [f32], step: usize) {
        let mut sums = [_mm512_setzero_ps(); R];
        for at in 0..blocks.len() {
            let block = &blocks[at];
            let mut parts = [&rows[0][at]; R];
            for row in 1..R {
                parts[row] = &rows[row][at];
            }
            let mut whole = [_mm512_setzero_si512(); R];
            for pair in 0..HALF {
                // SAFETY: it reads the 32 bytes of these weights.
                let weights = unsafe { _mm256_loadu_si256(block.weights[pair].as_ptr().cast()) };
                let weights = _mm512_cvtepi8_epi16(weights);
                for row in 0..R {
                    let two = _mm512_set1_epi32(parts[row].pairs[pair].cast_signed());
                    whole[row] = _mm512_dpwssd_epi32(whole[row], weights, two);
                }
            }
            // SAFETY: it reads the sixteen scales.
            let scales = unsafe { _mm512_loadu_ps(block.scales.as_ptr()) };
            for row in 0..R {
                let scales = _mm512_mul_ps(scales, _mm512_set1_ps(parts[row].scale));
                sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[row]), scales, sums[row]);
            }
        }
        for row in 0..R {
            let out = &mut out[row * step..][..LANES];
            // SAFETY: it writes these sixteen outputs.
            unsafe { _mm512_storeu_ps(out.as_mut_ptr(), sums[row]) };
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn with_avx2<const R: usize>(rows: [&[Part]; R], blocks: &[Block], out: &mut [f32], step: usize) {
        const EIGHT: usize = LANES / 2;
        for half in 0..2 {
            let mut sums = [_mm256_setzero_ps(); R];
            for at in 0..blocks.len() {
                let block = &blocks[at];
                let mut parts = [&rows[0][at]; R];
                for row in 1..R {
                    parts[row] = &rows[row][at];
                }
                let mut whole = [_mm256_setzero_si256(); R];
                for pair in 0..HALF {
                    let weights = &block.weights[pair][half * LANES..][..LANES];
                    // SAFETY: it reads the sixteen bytes of these weights.
                    let weights = _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(weights.as_ptr().cast()) });
                    for row in 0..R {
                        let two = _mm256_set1_epi32(parts[row].pairs[pair].cast_signed());
                        whole[row] = _mm256_add_epi32(whole[row], _mm256_madd_epi16(weights, two));
                    }
                }
                let scales = &block.scales[half * EIGHT..][..EIGHT];
                // SAFETY: it reads these eight scales.
                let scales = unsafe { _mm256_loadu_ps(scales.as_ptr()) };
                for row in 0..R {
                    let scales = _mm256_mul_ps(scales, _mm256_set1_ps(parts[row].scale));
                    sums[row] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole[row]), scales, sums[row]);
                }
            }
            for row in 0..R {
                let out = &mut out[row * step + half * EIGHT..][..EIGHT];
                // SAFETY: it writes these eight outputs.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sums[row]) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look drawn, the same each time; a few are far larger than the others, as in a real row.
    fn numbers(count: usize) -> Vec<f32> {
        let mut state = 12_345_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1_u32 << 24) as f32 - 0.5
        };
        (0..count).map(|place| next() * if place % 97 == 0 { 40.0 } else { 1.0 }).collect()
    }

    /// A row as in a file, and the weights in it.
    fn packed_row(inputs: usize, output: usize) -> (Vec<u8>, Vec<f32>) {
        let (mut bytes, mut weights) = (Vec::new(), Vec::new());
        for block in 0..inputs / BLOCK {
            let scale = f16::from_f32(0.01 * (1 + (output + block) % 7) as f32);
            bytes.extend(scale.to_le_bytes());
            let halves: Vec<u8> = (0..HALF).map(|n| ((n * 29 + output * 13 + block * 7) % 256) as u8).collect();
            bytes.extend(&halves);
            let weight = |half: u8| (f32::from(half) - 8.0) * scale.to_f32();
            weights.extend(halves.iter().map(|byte| weight(byte & 0x0F)));
            weights.extend(halves.iter().map(|byte| weight(byte >> 4)));
        }
        (bytes, weights)
    }

    #[test]
    fn the_product_is_that_of_unpacked_weights_on_every_unit_and_for_any_number_of_rows() {
        let (inputs, outputs) = (96, 48);
        let (packed, weights): (Vec<_>, Vec<_>) = (0..outputs).map(|output| packed_row(inputs, output)).unzip();
        let matrix = Packed::of(inputs, packed.iter().map(Vec::as_slice)).unwrap();
        for tokens in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 40] {
            let rows = numbers(tokens * inputs);
            for unit in Unit::all() {
                let mut out = vec![f32::NAN; tokens * outputs];

                matrix.apply_on(unit, &rows, &mut out, &mut Rounded::default());

                for (row, out) in rows.chunks_exact(inputs).zip(out.chunks_exact(outputs)) {
                    for (own, weights) in out.iter().zip(&weights) {
                        let exact: f64 = row.iter().zip(weights).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                        assert!((f64::from(*own) - exact).abs() < 2e-3, "{unit:?}, {tokens} rows: {own}, not {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_of_nothing_and_of_the_largest_numbers_are_rounded_too() {
        let (packed, weights) = packed_row(BLOCK, 0);
        let matrix = Packed::of(BLOCK, vec![packed.as_slice(); LANES]).unwrap();
        for (number, error) in [(0.0, 0.0), (1e-38, 1e-36), (1e-20, 1e-22), (-3e4, 1.0)] {
            let mut out = vec![f32::NAN; LANES];

            matrix.apply(&[number; BLOCK], &mut out, &mut Rounded::default());

            let exact = number * weights.iter().sum::<f32>();
            assert!(out.iter().all(|own| (own - exact).abs() <= error), "{out:?}, not {exact}");
        }
    }

    #[test]
    fn sizes_that_packed_weights_cannot_have_are_refused() {
        let (row, _) = packed_row(BLOCK, 0);
        for (inputs, outputs) in
            [(BLOCK, vec![row.as_slice(); 3]), (2 * BLOCK, vec![&row; LANES]), (7, vec![&row; LANES])]
        {
            assert!(Packed::of(inputs, outputs).is_err(), "{inputs}");
        }
    }
}
