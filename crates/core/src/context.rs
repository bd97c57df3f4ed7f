//! What a context request buys: sections, gaps, and what was spent.

use serde::{Deserialize, Serialize};

use crate::layer::LayerName;
use crate::recall::Recall;
use crate::tokens::Tokens;

/// One layer's part of the pack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// Whose part it is.
    pub layer: LayerName,
    /// As the assistant reads it, made safe.
    pub text: String,
    /// What it holds, in order.
    pub recalls: Vec<Recall>,
}

impl Section {
    /// The recalls as a list, each line opened by its citation.
    #[must_use]
    pub fn bullets(layer: LayerName, chosen: &[Recall]) -> Self {
        let text = chosen.iter().map(bullet).collect::<Vec<_>>().join("\n");
        Self { layer, text, recalls: chosen.to_vec() }
    }
}

fn bullet(recall: &Recall) -> String {
    let mut lines = String::new();
    lines.push_str(&recall.citation.0);
    lines.push(' ');
    lines.push_str(&recall.text);
    for neighbour in &recall.neighbours {
        lines.push_str("\n  … ");
        lines.push_str(neighbour);
    }
    lines
}

/// Something that could not contribute, named so that nobody takes the pack for complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The layer or the stage (`embedder`, `window`, ...) that is missing.
    pub of: String,
    /// Why.
    pub reason: GapReason,
    /// In words, for people.
    pub detail: String,
}

/// Why something could not contribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapReason {
    /// It took longer than its deadline.
    Late,
    /// It failed.
    Failed,
    /// It is switched off or not configured.
    Off,
    /// It is sealed and locked.
    Locked,
    /// It is still learning what was recorded.
    Behind,
    /// It had more than fits; the rest was left out.
    OverBudget,
    /// Its source has a fault; the last good state was used.
    Damaged,
}

impl GapReason {
    /// The word used in metrics and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::Late => "late",
            GapReason::Failed => "failed",
            GapReason::Off => "off",
            GapReason::Locked => "locked",
            GapReason::Behind => "behind",
            GapReason::OverBudget => "over_budget",
            GapReason::Damaged => "damaged",
        }
    }
}

/// Where the tokens went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// What was allowed.
    pub budget: Tokens,
    /// What the messages cost together.
    pub total: Tokens,
    /// By part: `system`, `files`, `window`, `episodes`, `question`, ...
    pub parts: Vec<(String, Tokens)>,
}
