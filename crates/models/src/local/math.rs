//! Arithmetic on rows of numbers: products, norms, and the two functions that the standard library computes one by one.
//!
//! Everything here runs on the widest vector unit that the machine has.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LOG2_E};

use gemm::Parallelism;
use pulp::{Arch, Simd, WithSimd};

/// A rectangle inside a longer slice: `rows` of `columns` numbers, each row `stride` after the one before.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: usize,
}

impl Shape {
    /// Rows that follow each other without a gap.
    pub(crate) fn dense(rows: usize, columns: usize) -> Self {
        Self { rows, columns, stride: columns }
    }

    fn fits(self, length: usize) -> bool {
        self.columns <= self.stride && (self.rows == 0 || (self.rows - 1) * self.stride + self.columns <= length)
    }
}

/// `out = scale * left * right`, or `right` laid on its side when `transposed`.
///
/// # Panics
///
/// When the shapes do not go together or do not lie within their slices: a mistake in this crate.
pub(crate) fn multiply(
    out: (&mut [f32], Shape),
    left: (&[f32], Shape),
    right: (&[f32], Shape),
    transposed: bool,
    scale: f32,
) {
    let ((out, out_shape), (left, left_shape), (right, right_shape)) = (out, left, right);
    let (inner, columns, right_row, right_column) = if transposed {
        (right_shape.columns, right_shape.rows, 1, right_shape.stride)
    } else {
        (right_shape.rows, right_shape.columns, right_shape.stride, 1)
    };
    assert!(out_shape.fits(out.len()) && left_shape.fits(left.len()) && right_shape.fits(right.len()));
    assert!(out_shape.rows == left_shape.rows && out_shape.columns == columns && left_shape.columns == inner);
    // SAFETY: every row and column that is read or written lies within its slice, as was just checked; `out` is borrowed
    // exclusively, so it is none of the others; `out` is not read, since `read_dst` is false.
    unsafe {
        gemm::gemm(
            out_shape.rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            out_shape.stride as isize,
            false,
            left.as_ptr(),
            1,
            left_shape.stride as isize,
            right.as_ptr(),
            right_column as isize,
            right_row as isize,
            0.0,
            scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// Adds `bias` to each row.
pub(crate) fn add_bias(rows: &mut [f32], bias: &[f32]) {
    struct AddBias<'a>(&'a mut [f32], &'a [f32]);
    impl WithSimd for AddBias<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for row in self.0.chunks_exact_mut(self.1.len()) {
                for (x, bias) in row.iter_mut().zip(self.1) {
                    *x += bias;
                }
            }
        }
    }
    Arch::new().dispatch(AddBias(rows, bias));
}

/// Adds `bias` to each row, then applies the exact GELU, `x/2 * (1 + erf(x/√2))`, to each number.
pub(crate) fn add_bias_and_gelu(rows: &mut [f32], bias: &[f32]) {
    struct Gelu<'a>(&'a mut [f32], &'a [f32]);
    impl WithSimd for Gelu<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for row in self.0.chunks_exact_mut(self.1.len()) {
                for (x, bias) in row.iter_mut().zip(self.1) {
                    *x = gelu(*x + bias);
                }
            }
        }
    }
    Arch::new().dispatch(Gelu(rows, bias));
}

/// What makes a layer norm: its gains, its shifts, and what keeps its divisor from zero.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) shift: Vec<f32>,
    pub(crate) epsilon: f32,
}

impl Norm {
    /// Adds `bias` and the row of `added` to each row, then brings it to mean 0 and variance 1, then gains and shifts.
    pub(crate) fn add_and_apply(&self, rows: &mut [f32], added: &[f32], bias: &[f32]) {
        struct AddAndApply<'a>(&'a Norm, &'a mut [f32], &'a [f32], &'a [f32]);
        impl WithSimd for AddAndApply<'_> {
            type Output = ();
            #[inline(always)]
            fn with_simd<S: Simd>(self, _: S) {
                let width = self.0.gain.len();
                for (row, added) in self.1.chunks_exact_mut(width).zip(self.2.chunks_exact(width)) {
                    for ((x, added), bias) in row.iter_mut().zip(added).zip(self.3) {
                        *x += added + bias;
                    }
                    self.0.normalise(row);
                }
            }
        }
        Arch::new().dispatch(AddAndApply(self, rows, added, bias));
    }

    /// Brings each row to mean 0 and variance 1, then gains and shifts.
    pub(crate) fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.gain.len()) {
            self.normalise(row);
        }
    }

    #[inline(always)]
    fn normalise(&self, row: &mut [f32]) {
        let count = row.len() as f32;
        let mean = sum(row, |x| x) / count;
        let variance = sum(row, |x| (x - mean) * (x - mean)) / count;
        let scale = 1.0 / (variance + self.epsilon).sqrt();
        for ((x, gain), shift) in row.iter_mut().zip(&self.gain).zip(&self.shift) {
            *x = (*x - mean) * scale * gain + shift;
        }
    }
}

/// Turns each row of `width` numbers into shares of one.
pub(crate) fn softmax(rows: &mut [f32], width: usize) {
    struct Softmax<'a>(&'a mut [f32], usize);
    impl WithSimd for Softmax<'_> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            for row in self.0.chunks_exact_mut(self.1) {
                let largest = reduce(row, f32::NEG_INFINITY, |x| x, |a, b| if b > a { b } else { a });
                for x in row.iter_mut() {
                    *x = exp_of_negative(*x - largest);
                }
                let scale = 1.0 / sum(row, |x| x);
                for x in row.iter_mut() {
                    *x *= scale;
                }
            }
        }
    }
    Arch::new().dispatch(Softmax(rows, width));
}

/// The mean of rows as wide as `mean`, brought to length one.
pub(crate) fn unit_mean(rows: &[f32], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        for (total, x) in total.iter_mut().zip(row) {
            *total += x;
        }
    }
    // Dividing by the number of rows would be undone by what follows.
    let length = sum(&total, |x| x * x).sqrt().max(f32::MIN_POSITIVE);
    total.iter_mut().for_each(|x| *x /= length);
    total
}

/// The sum of `f` over `row`.
#[inline(always)]
fn sum(row: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    reduce(row, 0.0, f, |a, b| a + b)
}

/// All of `f` over `row` as one number, in several lanes side by side: one after the other, nothing could be vectorised.
#[inline(always)]
fn reduce(row: &[f32], neutral: f32, f: impl Fn(f32) -> f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [neutral; 32];
    let chunks = row.chunks_exact(lanes.len());
    let rest = chunks.remainder().iter().fold(neutral, |all, &x| join(all, f(x)));
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = join(*lane, f(x));
        }
    }
    lanes.into_iter().fold(rest, join)
}

#[inline(always)]
fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))
}

/// The error function, within 4e-7: a quotient of polynomials fitted to it between -4 and 4, beyond which it is one.
#[inline(always)]
fn erf(z: f32) -> f32 {
    const ABOVE: [f32; 6] = [FRAC_2_SQRT_PI, 0.196_235_1, 0.053_465_6, 4.003_037e-3, 2.880_249_2e-4, 1.974_899e-6];
    const BELOW: [f32; 6] = [1.0, 0.507_24, 0.116_470_64, 0.015_443_209, 1.216_206_8e-3, 3.748_072e-5];
    let z = z.clamp(-4.0, 4.0);
    let square = z * z;
    z * polynomial(&ABOVE, square) / polynomial(&BELOW, square)
}

/// `e^x` for `x <= 0`, within 2e-7 of itself: a power of two put together from its bits, times a short series.
#[inline(always)]
fn exp_of_negative(x: f32) -> f32 {
    const SERIES: [f32; 7] = [1.0, 1.0, 0.5, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0];
    // Adding this pushes the fraction out of a number's bits, which rounds it.
    const ROUNDER: f32 = 12_582_912.0;
    let x = x.max(-87.0);
    let shifted = x * LOG2_E + ROUNDER;
    let whole = shifted - ROUNDER;
    // ln 2 in two parts, so that nothing is lost in the difference.
    let rest = x - whole * 0.693_359_4 + whole * 2.121_944_4e-4;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    polynomial(&SERIES, rest) * power
}

#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f32; N], x: f32) -> f32 {
    coefficients.iter().rev().fold(0.0, |value, &coefficient| value * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(value: f32, expected: f32, error: f32) {
        assert!((value - expected).abs() <= error, "{value} is not {expected}");
    }

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        for (z, expected) in [
            (0.0, 0.0),
            (0.1, 0.112_462_916),
            (0.5, 0.520_499_9),
            (1.0, 0.842_700_8),
            (1.5, 0.966_105_15),
            (2.0, 0.995_322_3),
            (3.0, 0.999_977_9),
            (9.0, 1.0),
        ] {
            within(erf(z), expected, 5e-7);
            within(erf(-z), -expected, 5e-7);
        }
    }

    #[test]
    fn the_exponential_is_that_of_the_standard_library() {
        let mut x = 0.0_f32;
        while x > -86.0 {
            within(exp_of_negative(x) / x.exp(), 1.0, 3e-7);
            x -= 0.013;
        }
        within(exp_of_negative(-1e9), 0.0, 1e-30);
    }

    #[test]
    fn shares_add_up_to_one_however_large_the_numbers() {
        let mut rows = vec![1.0, 2.0, 3.0, 900.0, -900.0, 900.0];

        softmax(&mut rows, 3);

        within(rows[0], 0.090_030_57, 1e-6);
        within(rows[2], 0.665_240_94, 1e-6);
        within(rows[3], 0.5, 1e-6);
        within(rows[4], 0.0, 1e-6);
    }

    #[test]
    fn a_normed_row_has_mean_zero_and_variance_one() {
        let norm = Norm { gain: vec![2.0; 24], shift: vec![1.0; 24], epsilon: 1e-12 };
        let mut row: Vec<f32> = (0..24_u8).map(|i| f32::from(i) * 3.0).collect();

        norm.add_and_apply(&mut row, &[1.0; 24], &[5.0; 24]);

        within(row.iter().sum::<f32>() / 24.0, 1.0, 1e-5);
        within(row.iter().map(|x| (x - 1.0).powi(2)).sum::<f32>() / 24.0, 4.0, 1e-4);
    }

    #[test]
    fn a_product_may_lie_inside_wider_rows() {
        // Two rows of two in rows of three.
        let left = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let right = [5.0, 6.0, 7.0, 8.0];
        let inside = Shape { rows: 2, columns: 2, stride: 3 };
        let mut out = [0.0; 5];

        multiply((&mut out, inside), (&left, inside), (&right, Shape::dense(2, 2)), false, 1.0);
        assert_eq!(out, [19.0, 22.0, 0.0, 43.0, 50.0]);

        multiply((&mut out, inside), (&left, inside), (&right, Shape::dense(2, 2)), true, 2.0);
        assert_eq!(out, [34.0, 46.0, 0.0, 78.0, 106.0]);
    }
}
