//! Products with packed weights: whole numbers of four bits in blocks of 32, each block with a scale.
//!
//! A question is short, so that its pass takes as long as its weights take to come from memory and be multiplied. They stay
//! packed, two to a byte, and what they are multiplied with is rounded to eight bits, by the largest number of each block:
//! machines multiply four times as many of those at a time as floats. The program that the weights were published with
//! rounds the same way.

use std::sync::Arc;

use half::f16;
use pulp::{Arch, Simd, WithSimd};
use skymem_core::machine::roomy;

/// Weights in a block: consecutive inputs of one output.
pub(crate) const BLOCK: usize = 32;
/// A block in a file: an `f16` scale, then sixteen bytes whose low halves are the first sixteen weights and whose high
/// halves are the others, each moved up by eight.
pub(crate) const BLOCK_BYTES: usize = 18;

const HALF: usize = BLOCK / 2;
/// Outputs that are made side by side.
const LANES: usize = 16;
/// Numbers that are multiplied and summed in one go, one of each quarter of a block.
const FOUR: usize = 4;
const QUARTER: usize = BLOCK / FOUR;
/// Groups of [`FOUR`] whose weights are the low halves of a block's bytes, and as many of the high ones.
const FOURS: usize = QUARTER / 2;
/// Rows that are multiplied with the same weights side by side: their sums fit into the registers.
const ROWS: usize = 8;

/// A matrix of weights.
pub(crate) struct Packed {
    inputs: usize,
    outputs: usize,
    /// Where its blocks begin: strip by strip of [`LANES`] outputs, and in it by input.
    from: usize,
    /// Those of all matrices that were laid beside each other.
    all: Arc<Vec<Block>>,
}

/// The weights of 32 inputs for 16 outputs.
#[derive(Clone)]
#[repr(C, align(64))]
struct Block {
    /// Of the inputs `n` of each quarter and, in the high halves, of those four further on: the weights for each output
    /// beside each other, moved up by eight.
    weights: [[u8; FOUR * LANES]; FOURS],
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
    /// The numbers `n` of each quarter, as signed bytes.
    fours: [u32; QUARTER],
    /// What there is too much when weights that are moved up by eight are multiplied with them, taken away.
    start: i32,
    scale: f32,
}

impl Packed {
    /// Of the weights of `outputs` in their order, each `inputs` long and packed as in a file.
    pub(crate) fn of<'a>(inputs: usize, outputs: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, String> {
        let odd = || "its sizes are none that packed weights have".to_owned();
        let across = inputs / BLOCK;
        let empty = Block { weights: [[0; FOUR * LANES]; FOURS], scales: [0.0; LANES] };
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
                let weight = |input: usize| if input < HALF { halves[input] & 0x0F } else { halves[input - HALF] >> 4 };
                for (first, weights) in block.weights.iter_mut().enumerate() {
                    for (quarter, byte) in weights[FOUR * lane..][..FOUR].iter_mut().enumerate() {
                        let input = quarter * QUARTER + first;
                        *byte = weight(input) | weight(input + FOURS) << 4;
                    }
                }
            }
            count += 1;
        }
        if inputs.is_multiple_of(BLOCK) && count.is_multiple_of(LANES) {
            Ok(Self { inputs, outputs: count, from: 0, all: Arc::new(blocks) })
        } else {
            Err(odd())
        }
    }

    /// Lays the weights of matrices beside each other, in the order in which they are multiplied.
    pub(crate) fn lay_beside<'a>(matrices: impl IntoIterator<Item = &'a mut Self>) {
        let matrices: Vec<&mut Self> = matrices.into_iter().collect();
        let mut all = roomy(matrices.iter().map(|matrix| matrix.blocks().len()).sum());
        let mut starts = Vec::new();
        for matrix in &matrices {
            starts.push(all.len());
            all.extend_from_slice(matrix.blocks());
        }
        let all = Arc::new(all);
        for (matrix, from) in matrices.into_iter().zip(starts) {
            (matrix.from, matrix.all) = (from, Arc::clone(&all));
        }
    }

    fn blocks(&self) -> &[Block] {
        &self.all[self.from..][..self.inputs / BLOCK * self.outputs / LANES]
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
        for (strip, blocks) in self.blocks().chunks_exact(across).enumerate() {
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
        const MOST: f32 = 127.0;
        // Adding this leaves a whole number in the lower bits.
        const ROUNDER: f32 = 12_582_912.0;
        let quarters = numbers.as_chunks::<QUARTER>().0;
        let mut largest = [0.0_f32; QUARTER];
        for quarter in quarters {
            for (largest, number) in largest.iter_mut().zip(quarter) {
                *largest = largest.max(number.abs());
            }
        }
        let largest = largest.into_iter().fold(0.0, f32::max);
        // What is smaller is nothing, and would be more than there is when turned around.
        let up = if largest > 1e-30 { MOST / largest } else { 0.0 };
        let (mut fours, mut sums) = ([0_u32; QUARTER], [0.0_f32; QUARTER]);
        for quarter in quarters.iter().rev() {
            for ((four, sum), number) in fours.iter_mut().zip(&mut sums).zip(quarter) {
                let rounded = number * up + ROUNDER;
                *four = *four << 8 | rounded.to_bits() & 0xFF;
                *sum += rounded - ROUNDER;
            }
        }
        let sum = sums.into_iter().fold(0.0, |all, sum| all + sum) as i32;
        Self { fours, start: -8 * sum, scale: largest / MOST }
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
            let mut whole = [part.start; LANES];
            let (low, high) = part.fours.split_at(FOURS);
            for (weights, (low, high)) in block.weights.iter().zip(low.iter().zip(high)) {
                let (low, high) = (low.to_le_bytes(), high.to_le_bytes());
                for (whole, weights) in whole.iter_mut().zip(weights.as_chunks::<FOUR>().0) {
                    for (weight, (low, high)) in weights.iter().zip(low.iter().zip(high)) {
                        *whole += i32::from(weight & 0x0F) * i32::from(low.cast_signed());
                        *whole += i32::from(weight >> 4) * i32::from(high.cast_signed());
                    }
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

    use skymem_core::machine::fetch_ahead;

    use super::{Block, FOUR, FOURS, LANES, Part};

    /// How many blocks ahead weights are fetched: about a strip. Between two questions they leave the nearer caches, and the
    /// processor by itself fetches too late.
    const AHEAD: usize = 12;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn with_vnni<const R: usize>(rows: [&[Part]; R], blocks: &[Block], out: &mut [f32], step: usize) {
        let halves = _mm512_set1_epi8(0x0F);
        let mut sums = [_mm512_setzero_ps(); R];
        for at in 0..blocks.len() {
            let block = &blocks[at];
            let mut parts = [&rows[0][at]; R];
            for row in 1..R {
                parts[row] = &rows[row][at];
            }
            fetch_ahead(std::slice::from_ref(block), AHEAD);
            let mut whole = [_mm512_setzero_si512(); R];
            for row in 0..R {
                whole[row] = _mm512_set1_epi32(parts[row].start);
            }
            for four in 0..FOURS {
                // SAFETY: it reads the 64 bytes of these weights.
                let weights = unsafe { _mm512_loadu_si512(block.weights[four].as_ptr().cast()) };
                let low = _mm512_and_si512(weights, halves);
                let high = _mm512_and_si512(_mm512_srli_epi16::<4>(weights), halves);
                for row in 0..R {
                    let numbers = _mm512_set1_epi32(parts[row].fours[four].cast_signed());
                    whole[row] = _mm512_dpbusd_epi32(whole[row], low, numbers);
                }
                for row in 0..R {
                    let numbers = _mm512_set1_epi32(parts[row].fours[FOURS + four].cast_signed());
                    whole[row] = _mm512_dpbusd_epi32(whole[row], high, numbers);
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
        let halves = _mm256_set1_epi8(0x0F);
        let ones = _mm256_set1_epi16(1);
        for half in 0..2 {
            let mut sums = [_mm256_setzero_ps(); R];
            for at in 0..blocks.len() {
                let block = &blocks[at];
                let mut parts = [&rows[0][at]; R];
                for row in 1..R {
                    parts[row] = &rows[row][at];
                }
                if half == 0 {
                    fetch_ahead(std::slice::from_ref(block), AHEAD);
                }
                let mut pairs = [_mm256_setzero_si256(); R];
                for four in 0..FOURS {
                    let weights = &block.weights[four][half * FOUR * EIGHT..][..FOUR * EIGHT];
                    // SAFETY: it reads the 32 bytes of these weights.
                    let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
                    let low = _mm256_and_si256(weights, halves);
                    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(weights), halves);
                    // Two products are at most 2 * 15 * 127, and eight of those are added up: sixteen bits hold them.
                    for row in 0..R {
                        let numbers = _mm256_set1_epi32(parts[row].fours[four].cast_signed());
                        pairs[row] = _mm256_add_epi16(pairs[row], _mm256_maddubs_epi16(low, numbers));
                    }
                    for row in 0..R {
                        let numbers = _mm256_set1_epi32(parts[row].fours[FOURS + four].cast_signed());
                        pairs[row] = _mm256_add_epi16(pairs[row], _mm256_maddubs_epi16(high, numbers));
                    }
                }
                let scales = &block.scales[half * EIGHT..][..EIGHT];
                // SAFETY: it reads these eight scales.
                let scales = unsafe { _mm256_loadu_ps(scales.as_ptr()) };
                for row in 0..R {
                    let scales = _mm256_mul_ps(scales, _mm256_set1_ps(parts[row].scale));
                    let whole = _mm256_madd_epi16(pairs[row], ones);
                    let whole = _mm256_add_epi32(whole, _mm256_set1_epi32(parts[row].start));
                    sums[row] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), scales, sums[row]);
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

    /// As they are multiplied: whole multiples of a 127th of the largest number in their block.
    fn in_steps(row: &[f32]) -> Vec<f64> {
        let block = |block: &[f32]| {
            let largest = block.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let steps = block.iter().map(move |x| (x * (127.0 / largest)).round_ties_even());
            steps.map(move |step| f64::from(step) * f64::from(largest) / 127.0).collect::<Vec<_>>()
        };
        row.chunks_exact(BLOCK).flat_map(block).collect()
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
                    let row = in_steps(row);
                    for (own, weights) in out.iter().zip(&weights) {
                        let exact: f64 = row.iter().zip(weights).map(|(x, w)| x * f64::from(*w)).sum();
                        assert!((f64::from(*own) - exact).abs() < 1e-4, "{unit:?}, {tokens} rows: {own}, not {exact}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_products_do_not_overflow_on_any_unit() {
        for (halves, weight) in [(0xFF, 7.0), (0x00, -8.0)] {
            let mut row = f16::ONE.to_le_bytes().to_vec();
            row.resize(BLOCK_BYTES, halves);
            let matrix = Packed::of(BLOCK, vec![row.as_slice(); LANES]).unwrap();
            for (unit, number) in Unit::all().flat_map(|unit| [(unit, 127.0), (unit, -127.0)]) {
                let mut out = vec![f32::NAN; LANES];

                matrix.apply_on(unit, &[number; BLOCK], &mut out, &mut Rounded::default());

                assert_eq!(out, [32.0 * number * weight; LANES], "{unit:?}");
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
