//! Fading with age.

use chrono::{DateTime, Utc};

/// How memories of one collection fade.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// The age in days at which the fading part counts half; above zero.
    pub half_life_days: f32,
    /// The share of the relevance that never fades, 0 to 1.
    pub floor: f32,
}

impl Decay {
    /// What relevance is multiplied with: `floor + (1 - floor) * 0.5^(age / half_life)`.
    ///
    /// `fresh_at` is when the memory was said or last used; one from the future of `asked_at` has not faded.
    pub fn factor(self, fresh_at: DateTime<Utc>, asked_at: DateTime<Utc>) -> f32 {
        let age_days = (asked_at - fresh_at).as_seconds_f32().max(0.0) / 86_400.0;
        self.floor + (1.0 - self.floor) * 0.5_f32.powf(age_days / self.half_life_days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;
    use proptest::prelude::*;

    fn check(half_life_days: f32, floor: f32, age_days: i64, expected: f32) {
        let said = DateTime::UNIX_EPOCH;
        let factor = Decay { half_life_days, floor }.factor(said, said + TimeDelta::days(age_days));
        assert!((factor - expected).abs() < 1e-4, "{factor} is not {expected}");
    }

    #[test]
    fn one_half_life_halves_it_and_the_next_halves_it_again() {
        check(30.0, 0.0, 30, 0.5);
        check(30.0, 0.0, 60, 0.25);
        check(30.0, 0.0, 0, 1.0);
        check(30.0, 0.0, -5, 1.0);
    }

    #[test]
    fn only_the_part_above_the_floor_fades() {
        check(30.0, 0.8, 30, 0.9);
        check(30.0, 0.8, 100_000, 0.8);
        check(30.0, 1.0, 30, 1.0);
    }

    proptest! {
        #[test]
        fn older_never_counts_more(half_life in 0.01_f32..1e4, floor in 0.0_f32..=1.0, a in 0_i64..1_000_000, b in 0_i64..1_000_000) {
            let decay = Decay { half_life_days: half_life, floor };
            let now = DateTime::UNIX_EPOCH;
            let factor = |hours| decay.factor(now - TimeDelta::hours(hours), now);
            prop_assert!(factor(a.max(b)) <= factor(a.min(b)));
            prop_assert!((floor..=1.0).contains(&factor(a)));
        }
    }
}
