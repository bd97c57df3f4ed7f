//! What an answer says of secrets in what was told.

use std::collections::BTreeMap;

use serde::Serialize;
use skymem_engine::SecretsMet;
use utoipa::ToSchema;

/// Secrets that were in what was told: tokens, private keys, card numbers, passwords.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SecretsAnswer {
    /// What became of them, as your setting says: `redact` keeps `[secret: ...]` in their place, `allow` keeps them, `seal` has
    /// what holds them written into `collection` alone.
    policy: &'static str,
    /// How many there were of each kind.
    found: BTreeMap<&'static str, usize>,
    /// The sealed collection that what holds them went to; absent when they are not sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
}

impl SecretsAnswer {
    /// `None` when there was none: then an answer says nothing of them.
    pub(crate) fn of(met: SecretsMet) -> Option<Self> {
        let SecretsMet { policy, found, collection } = met;
        (!found.is_empty()).then(|| Self {
            policy: policy.as_str(),
            found: found.0,
            collection: collection.map(String::from),
        })
    }

    /// Adds what another part of the same request held.
    pub(crate) fn add(sum: &mut Option<Self>, met: SecretsMet) {
        let Some(more) = Self::of(met) else { return };
        let Some(sum) = sum else {
            *sum = Some(more);
            return;
        };
        for (kind, count) in more.found {
            *sum.found.entry(kind).or_default() += count;
        }
    }
}
