//! `[layers.facts]`, as the head of `lib.rs` describes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use skymem_core::LayerError;

use crate::predicates::{PredicateSettings, Predicates};
use crate::view::Room;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) patterns: bool,
    pub(crate) extract_with_model: bool,
    model_per_upkeep: u16,
    model_deadline_seconds: u64,
    users_in_memory: usize,
    claims_in_memory: usize,
    predicates: BTreeMap<String, PredicateSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            patterns: true,
            extract_with_model: false,
            model_per_upkeep: 20,
            model_deadline_seconds: 60,
            users_in_memory: 100,
            claims_in_memory: 500_000,
            predicates: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// The settings, and what is known of predicates with them.
    ///
    /// # Errors
    ///
    /// The first setting at fault, with what it may be.
    pub(crate) fn of(table: toml::Table) -> Result<(Self, Predicates), LayerError> {
        let settings: Settings =
            table.try_into().map_err(|error: toml::de::Error| LayerError::Settings(error.message().to_owned()))?;
        let rules: [(bool, &str); 4] = [
            ((1..=1_000).contains(&settings.model_per_upkeep), "model_per_upkeep must be from 1 to 1000"),
            ((1..=600).contains(&settings.model_deadline_seconds), "model_deadline_seconds must be from 1 to 600"),
            ((1..=100_000).contains(&settings.users_in_memory), "users_in_memory must be from 1 to 100000"),
            (
                (1_000..=100_000_000).contains(&settings.claims_in_memory),
                "claims_in_memory must be from 1000 to 100000000",
            ),
        ];
        if let Some((_, rule)) = rules.iter().find(|(holds, _)| !holds) {
            return Err(LayerError::Settings(format!("[layers.facts] {rule}")));
        }
        let predicates = Predicates::of(&settings.predicates)?;
        Ok((settings, predicates))
    }

    pub(crate) fn room(&self) -> Room {
        Room { users: self.users_in_memory, claims: self.claims_in_memory }
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_secs(self.model_deadline_seconds)
    }

    pub(crate) fn readings(&self) -> i64 {
        i64::from(self.model_per_upkeep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, expected: &str) {
        let refused = Settings::of(toml::from_str(config).unwrap()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{config}: {refused}");
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_what_they_may_be() {
        check("model_per_upkeep = 0", "from 1 to 1000");
        check("model_deadline_seconds = 601", "from 1 to 600");
        check("users_in_memory = 0", "from 1 to 100000");
        check("claims_in_memory = 10", "from 1000");
        check("pattern = true", "unknown field");
        check("[predicates.mentor]\nsingel = true", "unknown field");
        check("[predicates.mentor]\nsentence = \"x\"", "{o}");
    }

    #[test]
    fn what_is_not_set_is_as_it_is_documented() {
        assert_eq!(Settings::of(toml::Table::new()).unwrap().0, Settings::default());
    }
}
