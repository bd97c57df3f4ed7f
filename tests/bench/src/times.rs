//! Times and how they are told.

use std::time::Duration;

use comfy_table::Table;

/// How long something took, many times.
#[derive(Debug, Default, Clone)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn note(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The time that `share` of all are not above, in milliseconds; 0 when nothing was timed.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
        sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
    }

    /// A row of a table: what was timed, and its quantiles.
    pub(crate) fn row(&self, of: &str) -> Vec<String> {
        let mut row = vec![of.to_owned(), self.0.len().to_string()];
        row.extend([0.5, 0.95, 0.99].map(|share| format!("{:.2}", self.quantile_ms(share))));
        row
    }
}

/// A table of [`Times::row`]s.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.set_header(["", "times", "p50 ms", "p95 ms", "p99 ms"]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_one_to_nine_is_five() {
        let mut times = Times::default();
        (1..=9).rev().for_each(|ms| times.note(Duration::from_millis(ms)));

        assert_eq!(times.quantile_ms(0.5), 5.0);
        assert_eq!(times.quantile_ms(0.99), 9.0);
        assert_eq!(Times::default().quantile_ms(0.5), 0.0);
    }
}
