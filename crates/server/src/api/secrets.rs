//! What an answer says of secrets in what was told.

use std::collections::BTreeMap;

use serde::Serialize;
use skymem_engine::SecretsMet;
use utoipa::ToSchema;

/// Secrets that were in what was told: tokens, private keys, card numbers, passwords.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SecretsAnswer {
    /// What became of them, as your setting says: `redact` keeps `[secret: ...]` in their place, `allow` keeps them.
    policy: &'static str,
    /// How many there were of each kind.
    found: BTreeMap<&'static str, usize>,
}

impl SecretsAnswer {
    /// `None` when there was none: then an answer says nothing of them.
    pub(crate) fn of(met: SecretsMet) -> Option<Self> {
        let SecretsMet { policy, found } = met;
        (!found.is_empty()).then(|| Self { policy: policy.as_str(), found: found.0 })
    }

    /// Adds what another part of the same request held.
    pub(crate) fn add(sum: &mut Option<Self>, met: SecretsMet) {
        let Some(more) = Self::of(met) else { return };
        let sum = sum.get_or_insert_with(|| Self { policy: more.policy, found: BTreeMap::new() });
        for (kind, count) in more.found {
            *sum.found.entry(kind).or_default() += count;
        }
    }
}
