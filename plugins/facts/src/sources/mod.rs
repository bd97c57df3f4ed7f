//! Where facts come from: patterns, a model, memory files.
