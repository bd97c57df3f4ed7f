//! Secrets that are known by their own shape, wherever they stand.

use std::sync::LazyLock;

use regex::Regex;

use super::Secret;
use super::likeness::{is_random, stands_alone};

/// One kind of secret.
struct Shape {
    kind: &'static str,
    pattern: &'static str,
    /// Whether it must look random too, its beginning being one that words may have.
    random: bool,
}

const fn shape(kind: &'static str, pattern: &'static str) -> Shape {
    Shape { kind, pattern, random: false }
}

const fn random(kind: &'static str, pattern: &'static str) -> Shape {
    Shape { kind, pattern, random: true }
}

/// Each with what its maker says of its shape.
const SHAPES: &[Shape] = &[
    // AKIA (a person's), ASIA (temporary), ABIA and ACCA (services), then 16 of base32.
    shape("aws access key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    // ghp_, gho_, ghu_, ghs_, ghr_ and 36 or more; fine-grained ones have 22 and 59 characters.
    shape("github token", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    shape("github token", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    // glpat- (personal), gldt- (deploy), glrt- (runner), glcbt- (build), glptt- (trigger), and at least 20.
    random("gitlab token", r"gl(?:pat|dt|rt|cbt|ptt|soat|ft|agent)-[A-Za-z0-9_-]{20,}"),
    // xoxb-, xoxp-, xoxa-, ...: digits and letters in groups; xapp-: digit, id, digits, 64 of hex.
    random("slack token", r"xox[abeoprs]-[0-9A-Za-z-]{20,}"),
    shape("slack token", r"xapp-[0-9]-[A-Z0-9]{8,}-[0-9]{8,}-[a-f0-9]{64}"),
    shape("slack webhook", r"hooks\.slack\.com/services/T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,}"),
    // sk_live_, rk_live_ (restricted) and the test ones; whsec_ signs webhooks.
    random("stripe key", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    random("stripe key", r"whsec_[A-Za-z0-9+/]{32,}=?"),
    // sk- and 48, or sk-proj-, sk-svcacct-, sk-admin-.
    random("openai key", r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"),
    random("openai key", r"sk-[A-Za-z0-9]{40,60}"),
    shape("anthropic key", r"sk-ant-[a-z]{2,8}[0-9]{2}-[A-Za-z0-9_-]{32,}"),
    shape("openrouter key", r"sk-or-v1-[0-9a-f]{64}"),
    shape("google api key", r"AIza[0-9A-Za-z_-]{35}"),
    random("google oauth secret", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    random("google oauth token", r"ya29\.[A-Za-z0-9_-]{30,}"),
    random("hugging face token", r"hf_[A-Za-z]{34,}"),
    random("npm token", r"npm_[A-Za-z0-9]{36}"),
    // A macaroon that names its index in base64: hence the constant beginning.
    shape("pypi token", r"pypi-AgE[A-Za-z0-9_-]{50,}"),
    random("crates.io token", r"cio[A-Za-z0-9]{32}"),
    shape("sendgrid key", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    shape("mailgun key", r"key-[0-9a-f]{32}"),
    shape("mailchimp key", r"[0-9a-f]{32}-us[0-9]{1,2}"),
    // The bot's number, a colon, AA and 33 of base64url.
    shape("telegram token", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    // The bot's id in base64, a time stamp, and a signature.
    random("discord token", r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}"),
    shape("discord webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,}"),
    // Head and body of a JSON web token begin with {" in base64; without a signature it is no key to anything.
    shape("json web token", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,}"),
    shape("digitalocean token", r"do[opr]_v1_[a-f0-9]{64}"),
    shape("databricks token", r"dapi[a-f0-9]{32}(?:-[0-9])?"),
    shape("shopify token", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    shape("square token", r"sq0(?:atp-[A-Za-z0-9_-]{22}|csp-[A-Za-z0-9_-]{43})"),
    shape("new relic key", r"NRAK-[A-Z0-9]{27}"),
    random("linear key", r"lin_api_[A-Za-z0-9]{40}"),
    random("notion token", r"(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{43,50})"),
    random("vault token", r"hv[sb]\.[A-Za-z0-9_-]{24,}"),
    random("docker token", r"dckr_pat_[A-Za-z0-9_-]{27}"),
    random("atlassian token", r"ATATT3[A-Za-z0-9_=-]{50,}"),
    shape("azure storage key", r"AccountKey=[A-Za-z0-9+/]{86}=="),
    shape("postman key", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    random("figma token", r"figd_[A-Za-z0-9_-]{40}"),
    random("tailscale key", r"tskey-[a-z]{3,10}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}"),
    random("grafana token", r"glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}"),
    random("groq key", r"gsk_[A-Za-z0-9]{52}"),
    random("replicate token", r"r8_[A-Za-z0-9]{37}"),
    random("xai key", r"xai-[A-Za-z0-9]{80}"),
    random("perplexity key", r"pplx-[A-Za-z0-9]{48}"),
    shape("supabase token", r"sbp_[0-9a-f]{40}"),
    random("doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,44}"),
    random("terraform token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,70}"),
    shape("pulumi token", r"pul-[0-9a-f]{40}"),
    shape("airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    // Bech32 in capitals, with a checksum that need not be counted: the beginning says it all.
    shape("age identity", r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
    // Our own: 8 bytes and 32 bytes in hex.
    shape("skymem key", r"skm_[0-9a-f]{16}_[0-9a-f]{64}"),
];

static COMPILED: LazyLock<Vec<(&'static Shape, Regex)>> = LazyLock::new(|| {
    // A pattern that does not compile is left out here, and fails the test below.
    SHAPES.iter().filter_map(|shape| Some((shape, Regex::new(shape.pattern).ok()?))).collect()
});

/// Adds the secrets in `text` that are known by their shape.
pub(super) fn find(text: &str, found: &mut Vec<Secret>) {
    for (shape, pattern) in COMPILED.iter() {
        for hit in pattern.find_iter(text) {
            if stands_alone(text, &hit.range()) && (!shape.random || is_random(hit.as_str())) {
                found.push(Secret { place: hit.range(), kind: shape.kind });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_can_be_looked_for() {
        assert_eq!(COMPILED.len(), SHAPES.len());
    }
}
