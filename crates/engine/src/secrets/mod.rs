//! Secrets in what is said: tokens, private keys, card numbers, passwords. Found by their shape, never by asking anybody.
//!
//! [`find`] is pure and takes time linear in the text. It would rather miss a secret that looks like a word than take a
//! word for a secret: what is left out of a memory cannot be brought back. The shapes are in [`shapes`], what only its
//! surroundings give away in [`told`], card numbers in [`cards`], private keys in [`blocks`].
//!
//! [`clean`] applies a user's [`SecretPolicy`] to turns, at the one place where text enters the journal; [`seal`] has whole
//! exchanges written into a sealed collection instead.

mod blocks;
mod cards;
mod clean;
mod likeness;
mod seal;
mod shapes;
#[cfg(test)]
mod tests;
mod told;
#[cfg(test)]
mod unseen;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};
pub use skymem_store::SecretPolicy;

pub(crate) use clean::Screened;
pub use clean::SecretsMet;

/// `[engine.secrets]`: what is done about secrets in what is to be remembered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SecretsSettings {
    /// For users who have not said otherwise.
    ///
    /// `redact` unless it is set: what is remembered goes on to models, into exports and into backups, and nobody needs a
    /// token of theirs recalled there. Whoever does says `allow`.
    pub policy: SecretPolicy,
}

/// How many secrets of each kind were met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct SecretsFound(pub BTreeMap<&'static str, usize>);

impl SecretsFound {
    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    /// Where it stands, in bytes.
    pub(crate) place: Range<usize>,
    /// What it is, in words that may be shown: `aws access key`.
    pub(crate) kind: &'static str,
}

/// The secrets in `text`, in order; none overlaps another.
pub(crate) fn find(text: &str) -> Vec<Secret> {
    let mut found = Vec::new();
    blocks::find(text, &mut found);
    shapes::find(text, &mut found);
    told::find(text, &mut found);
    cards::find(text, &mut found);
    // Of two that overlap, the one that begins first, and of those the longest, takes both.
    found.sort_by_key(|secret| (secret.place.start, std::cmp::Reverse(secret.place.end)));
    let mut apart: Vec<Secret> = Vec::with_capacity(found.len());
    for secret in found {
        match apart.last_mut() {
            Some(last) if secret.place.start < last.place.end => last.place.end = last.place.end.max(secret.place.end),
            _ => apart.push(secret),
        }
    }
    apart
}

/// `text` with `[secret: ...]` in place of each secret; what was met is added to `met`.
pub(crate) fn redact<'a>(text: &'a str, met: &mut SecretsFound) -> Cow<'a, str> {
    let secrets = find(text);
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for Secret { place, kind } in secrets {
        out.push_str(text.get(from..place.start).unwrap_or_default());
        out.push_str(&mark(kind));
        met.add(kind);
        from = place.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// What stands in a secret's place.
pub(crate) fn mark(kind: &str) -> String {
    format!("[secret: {kind}]")
}
