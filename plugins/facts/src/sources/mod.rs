//! Where facts come from: patterns, a model, memory files.

mod dates;
pub(crate) mod markdown;
pub(crate) mod model;
pub(crate) mod patterns;

use skymem_core::facts::Statement;

/// A statement that was found in a text, and how sure the finder is of it, above 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) statement: Statement,
    pub(crate) confidence: f32,
}
