//! The facts that stand in a memory file.

use super::Found;

/// The facts of a memory file, each with its line, from 1.
pub(crate) fn find(text: &str) -> Vec<(u32, Found)> {
    let _ = text;
    Vec::new()
}
