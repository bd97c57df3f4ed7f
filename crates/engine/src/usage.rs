//! What models say they counted, beside what was estimated: the estimate of each model gets better with use.

use skymem_core::Tokens;
use skymem_store::StoreError;

use crate::memory::Memory;

impl Memory {
    /// Learns how a model counts: `estimated` is what `estimate_tokens` made of everything it was sent, not corrected
    /// by anything learned before; `real` is what it said it was. From then on what is estimated for this model is
    /// corrected, on every server within ten seconds, and after a restart.
    ///
    /// Numbers that cannot be, or that say nothing of the tokenizer (a prompt with images, a few words, a server that
    /// counts nothing), change nothing. Neither does a fault: it is logged, and nobody waits for it to be mended.
    pub async fn learn_usage(&self, model: &str, estimated: Tokens, real: Tokens) {
        let Some(model) = key_of(model) else { return };
        let journal = &self.inner.journal;
        let learned = async {
            let known = journal.token_factor(&model).await?;
            let before = known.map_or_else(Factor::default, |(factor, seen)| Factor::from_store(factor, seen));
            if let Some(after) = before.after(estimated, real) {
                journal.set_token_factor(&model, after.factor, after.seen, self.now()).await?;
                self.inner.meters.correct(&model, after, self.now());
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = learned.await {
            tracing::warn!(%error, "How a model counts tokens could not be noted");
        }
    }

    /// By what estimates for `model` are corrected; `None` when the database does not say.
    pub(crate) async fn token_factor(&self, model: &str) -> Option<Factor> {
        let Some(model) = key_of(model) else { return Some(Factor::default()) };
        match self.inner.journal.token_factor(&model).await {
            Ok(known) => Some(known.map_or_else(Factor::default, |(factor, seen)| Factor::from_store(factor, seen))),
            Err(error) => {
                tracing::warn!(%error, "How a model counts tokens is not known now; its tokens are estimated as any");
                None
            }
        }
    }
}

/// The longest name of a model that anything is learned for, in bytes.
const LONGEST_NAME: usize = 100;

/// The name that what is learned for `model` is kept under; `None` for what is no name.
pub(crate) fn key_of(model: &str) -> Option<String> {
    let key = model.trim().to_lowercase();
    (!key.is_empty() && key.len() <= LONGEST_NAME && !key.chars().any(char::is_control)).then_some(key)
}

/// By what an estimate is multiplied for one model, and from how many observations that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Factor {
    factor: f32,
    seen: i32,
}

impl Default for Factor {
    /// What nothing is known of is not corrected.
    fn default() -> Self {
        Self { factor: 1.0, seen: 0 }
    }
}

/// No tokenizer is further from the estimate than this.
const LEAST: f32 = 0.5;
const MOST: f32 = 2.0;
/// Prompts of fewer tokens say more about the chat template than about the tokenizer.
const FEWEST_TOKENS: usize = 50;
/// Observations further off than this are no matter of tokenizers: images, tools, a cache that is not counted.
const STRANGEST: f64 = 3.0;
/// One observation moves the factor towards at most this much more or less than it is.
const STEP: f32 = 1.25;
/// What the newest observation weighs once there are many.
const LEAST_WEIGHT: f32 = 0.05;

impl Factor {
    fn from_store(factor: f32, seen: i32) -> Self {
        let factor = if factor.is_finite() { factor.clamp(LEAST, MOST) } else { 1.0 };
        Self { factor, seen: seen.max(0) }
    }

    /// The factor after one more observation: an average at first, a moving one later. `None` when the observation says
    /// nothing.
    pub(crate) fn after(self, estimated: Tokens, real: Tokens) -> Option<Self> {
        if estimated.0 < FEWEST_TOKENS || real.0 == 0 {
            return None;
        }
        let ratio = real.0 as f64 / estimated.0 as f64;
        if !(1.0 / STRANGEST..=STRANGEST).contains(&ratio) {
            return None;
        }
        let weight = (1.0 / (self.seen as f32 + 2.0)).max(LEAST_WEIGHT);
        let towards = (ratio as f32).clamp(self.factor / STEP, self.factor * STEP);
        let factor = self.factor + weight * (towards - self.factor);
        Some(Self { factor: factor.clamp(LEAST, MOST), seen: self.seen.saturating_add(1) })
    }

    /// An estimate, corrected; rounded up.
    pub(crate) fn apply(self, estimated: Tokens) -> Tokens {
        if self.seen == 0 {
            return estimated;
        }
        // As far as a float counts: no text has so many tokens that this matters.
        Tokens((estimated.0 as f64 * f64::from(self.factor)).ceil() as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sqlx::PgPool;

    use super::*;
    use crate::testing::TestMemory;

    fn seen(observations: impl IntoIterator<Item = (usize, usize)>) -> Factor {
        observations.into_iter().fold(Factor::default(), |factor, (estimated, real)| {
            factor.after(Tokens(estimated), Tokens(real)).unwrap_or(factor)
        })
    }

    #[test]
    fn a_model_that_always_counts_a_fifth_more_is_soon_expected_to() {
        let factor = seen(std::iter::repeat_n((1_000, 1_200), 20));

        assert!((1.17..=1.2).contains(&factor.factor), "{factor:?}");
        assert_eq!(seen([]).apply(Tokens(1_000)), Tokens(1_000));
        assert!(factor.apply(Tokens(1_000)) > Tokens(1_160));
    }

    #[test]
    fn a_few_odd_counts_among_many_hardly_matter() {
        let usual = std::iter::repeat_n((1_000, 1_100), 50);
        let odd = [(1_000, 2_900), (1_000, 400), (1_000, 50_000), (1_000, 0), (10, 30)];

        let factor = seen(usual.clone().chain(odd)).factor;

        assert!((factor - seen(usual).factor).abs() < 0.03, "{factor}");
    }

    #[test]
    fn what_a_model_counts_otherwise_from_some_day_on_is_learned_again() {
        let before = std::iter::repeat_n((1_000, 900), 200);
        let after = std::iter::repeat_n((1_000, 1_300), 200);

        assert!((seen(before.chain(after)).factor - 1.3).abs() < 0.01);
    }

    fn any_count() -> impl Strategy<Value = usize> {
        prop_oneof![any::<usize>(), 0_usize..3_000, Just(usize::MAX), Just(0)]
    }

    proptest! {
        #[test]
        fn whatever_a_model_says_it_counted_the_factor_stays_sane(
            observations in prop::collection::vec((any_count(), any_count()), 0..40),
            text in any_count(),
        ) {
            let factor = seen(observations);

            prop_assert!((LEAST..=MOST).contains(&factor.factor), "{factor:?}");
            prop_assert!(factor.apply(Tokens(text)).0 >= text / 3);
            prop_assert_eq!(factor.apply(Tokens(0)), Tokens(0));
        }

        #[test]
        fn whatever_was_stored_the_factor_stays_sane(factor in any::<f32>(), seen in any::<i32>()) {
            let factor = Factor::from_store(factor, seen).after(Tokens(1_000), Tokens(1_500)).unwrap();

            prop_assert!((LEAST..=MOST).contains(&factor.factor), "{factor:?}");
        }
    }

    #[sqlx::test(migrations = false)]
    async fn what_was_learned_of_a_model_is_known_to_every_server(db: PgPool) {
        let test = TestMemory::start(db.clone(), vec![]).await;
        for _ in 0..10 {
            test.memory.learn_usage("Llama3.2:3b ", Tokens(1_000), Tokens(1_500)).await;
        }
        test.memory.learn_usage("other", Tokens(1_000), Tokens(900)).await;

        let restarted = TestMemory::start(db, vec![]).await.memory;

        let factor = restarted.token_factor("llama3.2:3b").await.unwrap();
        assert!(factor.apply(Tokens(100)) > Tokens(130), "{factor:?}");
        assert!(restarted.token_factor("other").await.unwrap().apply(Tokens(100)) < Tokens(100));
        assert_eq!(restarted.token_factor("unknown").await, Some(Factor::default()));
    }

    #[sqlx::test(migrations = false)]
    async fn names_that_cannot_be_and_ever_new_ones_fill_no_table(db: PgPool) {
        let test = TestMemory::start(db.clone(), vec![]).await;
        for hostile in ["", " ", "nul\0", "line\n", &"x".repeat(101)] {
            test.memory.learn_usage(hostile, Tokens(1_000), Tokens(1_500)).await;
        }
        test.memory.learn_usage("first", Tokens(1_000), Tokens(1_500)).await;
        for number in 0..1_010 {
            test.memory.learn_usage(&format!("model {number}"), Tokens(1_000), Tokens(1_500)).await;
        }
        let before = test.memory.token_factor("first").await;
        test.memory.learn_usage("first", Tokens(1_000), Tokens(1_500)).await;

        assert_ne!(test.memory.token_factor("first").await, before, "what is known goes on being learned");
        assert_eq!(test.memory.token_factor("model 5").await.unwrap().seen, 1);
        assert_eq!(test.memory.token_factor("model 1009").await, Some(Factor::default()));
    }
}
