//! When exchanges are folded: pure.

use std::ops::Range;

use skymem_core::Tokens;

/// When a summary takes in what left the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// So many of the newest exchanges are never folded.
    pub(crate) keep: usize,
    /// So many exchanges are folded together ...
    pub(crate) exchanges: usize,
    /// ... or fewer, that cost this together.
    pub(crate) tokens: Tokens,
}

/// Which of the exchanges that cost `prices`, in the order in which they were said and not folded yet, are to be folded
/// together.
///
/// Borders depend on nothing but what stands before them. So it makes no difference whether exchanges are met one by one
/// or all at once.
#[must_use]
pub(crate) fn due(prices: &[Tokens], pace: Pace) -> Vec<Range<usize>> {
    let beyond = prices.len().saturating_sub(pace.keep);
    let mut folds = Vec::new();
    let mut start = 0;
    let mut cost = Tokens(0);
    for (place, price) in prices.iter().enumerate().take(beyond) {
        cost += *price;
        let end = place + 1;
        if end - start >= pace.exchanges || cost >= pace.tokens {
            folds.push(start..end);
            start = end;
            cost = Tokens(0);
        }
    }
    folds
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: Pace = Pace { keep: 4, exchanges: 3, tokens: Tokens(100) };

    /// `expected` are the borders of each fold.
    fn check(prices: &[usize], expected: &[(usize, usize)]) {
        let prices: Vec<Tokens> = prices.iter().copied().map(Tokens).collect();
        let folds: Vec<(usize, usize)> = due(&prices, PACE).into_iter().map(|fold| (fold.start, fold.end)).collect();
        assert_eq!(folds, expected);
    }

    #[test]
    fn nothing_is_folded_before_enough_has_left_the_window() {
        check(&[], &[]);
        check(&[10; 4], &[]);
        check(&[10; 6], &[]);
        check(&[10; 7], &[(0, 3)]);
        check(&[10; 12], &[(0, 3), (3, 6)]);
    }

    #[test]
    fn long_exchanges_are_folded_sooner() {
        check(&[100, 10, 10, 10, 10], &[(0, 1)]);
        check(&[60, 60, 10, 10, 10, 10], &[(0, 2)]);
        check(&[60, 100, 10, 10, 10], &[]);
    }

    proptest! {
        #[test]
        fn what_is_said_later_changes_no_border(prices in prop::collection::vec((0_usize..150).prop_map(Tokens), 0..40), met in 0_usize..40) {
            let all = due(&prices, PACE);
            let some = due(&prices[..met.min(prices.len())], PACE);
            prop_assert_eq!(&all[..some.len()], &some[..]);
        }

        #[test]
        fn one_by_one_comes_to_the_same_as_all_at_once(prices in prop::collection::vec((0_usize..150).prop_map(Tokens), 0..40)) {
            let mut folded = 0;
            let mut one_by_one = Vec::new();
            for end in 0..=prices.len() {
                for fold in due(&prices[folded..end], PACE) {
                    one_by_one.push(folded + fold.start..folded + fold.end);
                }
                folded = one_by_one.last().map_or(0, |fold: &Range<usize>| fold.end);
            }
            prop_assert_eq!(one_by_one, due(&prices, PACE));
        }
    }
}
