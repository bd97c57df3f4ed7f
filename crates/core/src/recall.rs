//! What memory answers: recalls, where they come from, and why the others stayed out.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::conversation::{Collection, ExchangeId, Role, Seq, SessionId, Source};
use crate::layer::LayerName;

/// One remembered thing offered as context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recall {
    /// Names this recall within its layer; stable over time.
    pub id: RecallId,
    /// Who remembers it.
    pub layer: LayerName,
    /// What is shown to the assistant, made safe when it is rendered.
    pub text: String,
    /// Relevance within its layer, 0 to 1. Scores of two layers are not comparable; ranks are.
    pub score: Score,
    /// How the assistant cites it.
    pub citation: Citation,
    /// Where it comes from.
    pub provenance: Provenance,
    /// What stood before and after it, when asked for: oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
}

/// Where a recall comes from. Always there, as far as its layer can say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The exchange it was learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeId>,
    /// The exchanges it covers when there are several: a merge, a segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<ExchangeId>,
    /// The session it was said in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The places of its turns in the journal: first and last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seqs: Option<(Seq, Seq)>,
    /// The collection it stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<Collection>,
    /// Where it entered: a session, an import, a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// When it was said or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<DateTime<Utc>>,
    /// Who said it, when the recall is a single turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The speaker's name, when the recall is a single turn of a named speaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// Number of its topic in the session, from 0, and when that topic began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<(i32, DateTime<Utc>)>,
    /// The file it stands in, for layers that read files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Pinned by the person.
    #[serde(default)]
    pub pinned: bool,
}

/// Names a recall within its layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RecallId(pub String);

/// Relevance within one layer, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Score(pub f32);

/// Provenance as the model sees it: `[S: 2026-02-06]`, `[D: notes.md#L10-L42]`, `[F: entity]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Citation(pub String);

impl Citation {
    /// Cites a session by the day something was said.
    #[must_use]
    pub fn session(occurred_at: DateTime<Utc>) -> Self {
        Self(format!("[S: {}]", occurred_at.format("%Y-%m-%d")))
    }

    /// Cites an entity by its name.
    #[must_use]
    pub fn fact(entity: &str) -> Self {
        Self(format!("[F: {entity}]"))
    }

    /// Cites a file or document.
    #[must_use]
    pub fn document(name: &str) -> Self {
        Self(format!("[D: {name}]"))
    }
}

/// One candidate of a layer and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Considered {
    /// Which recall it is or would have been.
    pub id: RecallId,
    /// The exchange it was learned from.
    pub exchange: Option<ExchangeId>,
    /// The beginning of its text.
    pub excerpt: String,
    /// Every score that was given, by name, in the order in which they were given: `vector`, `words`, `fused`, ...
    pub scores: Vec<(String, f32)>,
    /// In or out, and why.
    pub fate: Fate,
}

/// Why a candidate is in or out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It is among the recalls.
    Recalled,
    /// It was among the recalls and did not fit the token budget.
    OverBudget,
    /// A filter keeps it out, or it was said after the moment asked about.
    Filtered,
    /// The prompt holds it already, word for word.
    InWindow,
    /// Better ones filled the limit.
    BelowLimit,
    /// Its score is below the least score asked for.
    BelowThreshold,
    /// Without its age it would have been in.
    Decayed,
    /// It says the same as a better one.
    Duplicate,
    /// Neither its meaning nor its words are near the question.
    NotFound,
    /// It is in a sealed collection that is locked.
    Locked,
    /// Something newer says otherwise.
    Superseded,
    /// It was forgotten.
    Forgotten,
    /// The layer has not learned it yet.
    NotYetLearned,
}
