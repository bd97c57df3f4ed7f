//! What texts cost the model that will read them: counted where its tokenizer is at hand, else estimated, and corrected
//! by what the model was seen to count.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use skymem_core::{Message, TokenCounter, Tokens, estimate_tokens};

use crate::usage::{Factor, key_of};

/// What a chat template adds around each message, about.
pub(crate) const AROUND_A_MESSAGE: Tokens = Tokens(4);

/// Counts for one model.
#[derive(Clone, Default)]
pub(crate) struct Meter {
    exact: Option<Arc<dyn TokenCounter>>,
    factor: Factor,
}

impl Meter {
    /// Counts as the model does.
    pub(crate) fn exact(counter: Arc<dyn TokenCounter>) -> Self {
        Self { exact: Some(counter), factor: Factor::default() }
    }

    /// Estimates, corrected by a factor.
    pub(crate) fn corrected(factor: Factor) -> Self {
        Self { exact: None, factor }
    }

    pub(crate) fn text(&self, text: &str) -> Tokens {
        match &self.exact {
            Some(counter) => counter.count(text),
            None => self.factor.apply(estimate_tokens(text)),
        }
    }

    /// A text that is a message of its own.
    pub(crate) fn message_of(&self, text: &str) -> Tokens {
        self.text(text) + AROUND_A_MESSAGE
    }

    pub(crate) fn messages(&self, messages: &[Message]) -> Tokens {
        messages.iter().map(|message| self.message_of(&message.content)).sum()
    }
}

/// How long a meter is good for: another server may have learned since how the model counts.
const GOOD_FOR: TimeDelta = TimeDelta::seconds(10);

/// Names come with requests: when so many are known, all are asked for again.
const MOST_MODELS: usize = 1_000;

/// The meters of the models that were asked for lately: every chat needs one, and no chat changes much of it.
#[derive(Debug, Default)]
pub(crate) struct Meters(Mutex<HashMap<String, (Meter, DateTime<Utc>)>>);

impl Meters {
    /// The meter of a model, where it is still good.
    pub(crate) fn get(&self, model: &str, now: DateTime<Utc>) -> Option<Meter> {
        let model = key_of(model)?;
        let is_good = |(_, since): &&(Meter, DateTime<Utc>)| (now - since).abs() < GOOD_FOR;
        self.locked().get(&model).filter(is_good).map(|(meter, _)| meter.clone())
    }

    /// Keeps a meter that is known since `now`.
    pub(crate) fn keep(&self, model: &str, meter: Meter, now: DateTime<Utc>) {
        let Some(model) = key_of(model) else { return };
        let mut kept = self.locked();
        if kept.len() >= MOST_MODELS {
            kept.clear();
        }
        kept.insert(model, (meter, now));
    }

    /// Has the meter of a model that is estimated go by what was learned of it until `now`. Who asked the database at the very
    /// same time may still keep what it said, as another server does.
    pub(crate) fn correct(&self, model: &str, factor: Factor, now: DateTime<Utc>) {
        let Some(model) = key_of(model) else { return };
        if let Some(kept) = self.locked().get_mut(&model).filter(|(meter, _)| meter.exact.is_none()) {
            *kept = (Meter::corrected(factor), now);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, (Meter, DateTime<Utc>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("exact", &self.exact.is_some()).field("factor", &self.factor).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds)
    }

    fn learned() -> Factor {
        Factor::default().after(Tokens(1_000), Tokens(2_000)).unwrap()
    }

    #[test]
    fn a_meter_is_good_for_a_while_whatever_the_clock_does() {
        let meters = Meters::default();
        meters.keep("Model", Meter::default(), at(100));

        assert!(meters.get(" model", at(109)).is_some() && meters.get("model", at(91)).is_some());
        assert!(meters.get("model", at(110)).is_none() && meters.get("model", at(90)).is_none());
        assert!(meters.get("another", at(100)).is_none());
    }

    #[test]
    fn what_is_learned_of_a_model_counts_at_once_where_it_is_estimated() {
        struct Exact;
        impl TokenCounter for Exact {
            fn count(&self, _: &str) -> Tokens {
                Tokens(7)
            }
        }
        let meters = Meters::default();
        meters.keep("estimated", Meter::default(), at(0));
        meters.keep("exact", Meter::exact(Arc::new(Exact)), at(0));
        let cost = |model| meters.get(model, at(9)).map(|meter| meter.text("a word or two of it"));
        let before = cost("estimated").unwrap();

        for model in ["estimated", "exact", "unknown"] {
            meters.correct(model, learned(), at(9));
        }

        assert!(cost("estimated").unwrap() > before);
        assert_eq!((cost("exact"), cost("unknown")), (Some(Tokens(7)), None));
        assert!(meters.get("estimated", at(18)).is_some(), "it is known since it was learned");
    }

    #[test]
    fn ever_new_names_fill_no_memory() {
        let meters = Meters::default();

        for number in 0..3 * MOST_MODELS {
            meters.keep(&number.to_string(), Meter::default(), at(0));
        }

        assert!(meters.locked().len() <= MOST_MODELS);
    }
}
