//! A version of a summary as it is recalled and read: pure.

use chrono::{DateTime, Utc};
use skymem_core::{
    Citation, Collection, ExchangeId, Layer, LayerName, Provenance, Recall, RecallId, Score, Section, Seq, SessionId,
    Source,
};

use crate::names::mentions;

/// Who made a summary without a model.
pub const EXTRACTIVE: &str = "extractive";

/// One state of a session's summary. It covers the session's exchanges from the first one on.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// 1 for the first; each stands on the one before it.
    pub number: i32,
    /// The account itself: prose of a model, or one sentence a line with its speaker.
    pub text: String,
    /// What was decided, oldest first.
    pub decisions: Vec<String>,
    /// The identifiers that must survive, newest first.
    pub names: Vec<String>,
    /// The name of the model that made it, or `extractive`.
    pub made_by: String,
    /// How many exchanges it covers.
    pub exchanges: i32,
    /// How many tokens those have, word for word.
    pub tokens: i64,
    /// The place of the very first turn it covers.
    pub first_seq: Seq,
    /// The place of the first turn of the newest exchange it covers.
    pub newest_seq: Seq,
    /// The place of the last turn of that exchange.
    pub last_seq: Seq,
    /// When the first of what it covers was said.
    pub said_from: DateTime<Utc>,
    /// When the last of it was said.
    pub said_until: DateTime<Utc>,
}

/// Where a version's recalls come from.
pub(crate) struct Roots {
    /// The exchanges it covers, oldest first; of very many the newest.
    pub(crate) exchanges: Vec<ExchangeId>,
    /// The collection and the source of all of them, when they have the same.
    pub(crate) collection: Option<Collection>,
    pub(crate) source: Option<Source>,
}

/// What a version says: its decisions, if there are any, and the summary.
pub(crate) fn recalls(layer: &LayerName, session: &SessionId, version: &Version, roots: Roots) -> Vec<Recall> {
    let provenance = Provenance {
        exchanges: roots.exchanges,
        session: Some(session.clone()),
        seqs: Some((version.first_seq, version.last_seq)),
        collection: roots.collection,
        source: roots.source,
        occurred_at: Some(version.said_until),
        ..Provenance::default()
    };
    let recall = |kind: &str, cited: DateTime<Utc>, text: String| Recall {
        id: id(kind, session),
        layer: layer.clone(),
        text,
        score: Score(1.0),
        // The day the conversation began stays the same, as the beginning of the list does.
        citation: Citation::session(cited),
        provenance: provenance.clone(),
        neighbours: Vec::new(),
    };
    let decided = decided(version).map(|text| recall(DECISIONS, version.said_from, text));
    let told = told(version).map(|text| recall(SUMMARY, version.said_until, text));
    decided.into_iter().chain(told).collect()
}

const DECISIONS: &str = "decisions";
const SUMMARY: &str = "summary";

/// Names a recall of a session's account.
fn id(kind: &str, session: &SessionId) -> RecallId {
    RecallId(format!("{kind}:{session}"))
}

/// Names the list of a session's decisions.
pub(crate) fn decisions_id(session: &SessionId) -> RecallId {
    id(DECISIONS, session)
}

/// Names the summary of a session.
pub(crate) fn summary_id(session: &SessionId) -> RecallId {
    id(SUMMARY, session)
}

/// Decisions first, so that the beginning of the account stays the same while it grows; then the summary.
pub(crate) fn section(layer: &dyn Layer, chosen: &[Recall]) -> Section {
    let mut chosen = chosen.to_vec();
    chosen.sort_by_key(|recall| !recall.id.0.starts_with(DECISIONS));
    let text = chosen.iter().map(|recall| format!("{} {}", recall.citation.0, recall.text)).collect::<Vec<_>>();
    Section { layer: layer.name(), text: text.join("\n\n"), recalls: chosen }
}

fn decided(version: &Version) -> Option<String> {
    let lines: Vec<String> = version.decisions.iter().map(|line| format!("\n- {line}")).collect();
    (!lines.is_empty()).then(|| {
        format!(
            "Decided so far, oldest first; a later line replaces an earlier one that it contradicts:{}",
            lines.concat()
        )
    })
}

fn told(version: &Version) -> Option<String> {
    let text = if version.made_by == EXTRACTIVE { speeches(&version.text) } else { version.text.clone() };
    let lost = lost(version);
    let named = (!lost.is_empty()).then(|| format!("Also named: {}", lost.join(", ")));
    let parts: Vec<String> = [text].into_iter().filter(|text| !text.is_empty()).chain(named).collect();
    (!parts.is_empty()).then(|| format!("Said so far, in short:\n{}", parts.join("\n")))
}

/// The identifiers that neither the summary nor the decisions mention, newest first.
fn lost(version: &Version) -> Vec<&str> {
    let kept = |name: &str| mentions(&version.text, name) || version.decisions.iter().any(|line| mentions(line, name));
    version.names.iter().map(String::as_str).filter(|name| !kept(name)).collect()
}

/// Sentences, one a line with its speaker, as speeches: the speaker is named when another begins.
fn speeches(lines: &str) -> String {
    let mut speeches = String::new();
    let mut speaker = None;
    for line in lines.lines() {
        let said = line.split_once(": ");
        match said {
            Some((who, text)) if speaker == Some(who) => {
                speeches.push(' ');
                speeches.push_str(text);
            }
            _ => {
                if !speeches.is_empty() {
                    speeches.push('\n');
                }
                speeches.push_str(line);
            }
        }
        speaker = said.map(|(who, _)| who);
    }
    speeches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn version(text: &str, decisions: &[&str], names: &[&str]) -> Version {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Version {
            number: 1,
            text: text.into(),
            decisions: owned(decisions),
            names: owned(names),
            made_by: EXTRACTIVE.into(),
            exchanges: 4,
            tokens: 100,
            first_seq: Seq(1),
            newest_seq: Seq(7),
            last_seq: Seq(8),
            said_from: DateTime::UNIX_EPOCH,
            said_until: DateTime::UNIX_EPOCH + chrono::TimeDelta::days(1),
        }
    }

    fn texts(version: &Version) -> Vec<String> {
        let roots = Roots { exchanges: Vec::new(), collection: None, source: None };
        let recalls = recalls(&LayerName::of("summaries"), &"s".parse().unwrap(), version, roots);
        recalls.into_iter().map(|recall| format!("{} {}", recall.citation.0, recall.text)).collect()
    }

    #[test]
    fn who_says_several_sentences_is_named_once() {
        let texts = texts(&version("User: One.\nUser: Two.\nAssistant: Three.\nUser: Four.", &[], &[]));

        assert_eq!(texts, ["[S: 1970-01-02] Said so far, in short:\nUser: One. Two.\nAssistant: Three.\nUser: Four."]);
    }

    #[test]
    fn identifiers_that_got_lost_are_named_and_only_those() {
        let texts = texts(&version(
            "User: It is on 5544.",
            &["2026-02-02 User: Let's use foo_bar."],
            &["17", "foo_bar", "5544"],
        ));

        assert!(texts[1].ends_with("\nAlso named: 17"), "{texts:?}");
    }

    #[test]
    fn decisions_stand_first_and_their_beginning_stays_the_same() {
        let short = texts(&version("User: One.", &["2026-02-02 User: Let's use tea."], &[]));
        let later = Version {
            said_until: DateTime::UNIX_EPOCH + chrono::TimeDelta::days(9),
            ..version("User: Two.", &["2026-02-02 User: Let's use tea.", "2026-02-09 User: I chose milk."], &[])
        };
        let long = texts(&later);

        assert!(short[0].starts_with("[S: 1970-01-01] Decided"), "{short:?}");
        assert!(long[0].starts_with(&short[0]), "{long:?}");
    }

    #[test]
    fn a_version_that_says_nothing_is_no_recall() {
        assert!(texts(&version("", &[], &[])).is_empty());
    }

    proptest! {
        #[test]
        fn every_identifier_that_is_remembered_can_be_read(
            names in prop::collection::hash_set("[a-z]{2,6}_[a-z0-9]{1,5}|[0-9]{2,5}|v[0-9]\\.[0-9]{1,2}|/[a-z]{2,5}/[a-z.]{2,6}[a-z]", 0..20),
            said in prop::collection::vec("[a-z_0-9.,]{1,8}( [a-z_0-9.,]{1,8}){0,8}", 0..6),
            kept in 0_usize..10,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut lines: Vec<String> = said.iter().map(|text| format!("User: {text}")).collect();
            lines.extend(names.iter().take(kept).map(|name| format!("Assistant: it is {name}.")));

            let read = texts(&version(&lines.join("\n"), &[], &names)).join("\n");

            for name in names {
                prop_assert!(mentions(&read, name), "{} is not in {}", name, read);
            }
        }
    }
}
