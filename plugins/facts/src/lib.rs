//! The layer that keeps facts: who, what, since when, how we know.
#![expect(dead_code, reason = "it is being built")]

pub mod graph;
mod predicates;
mod resolve;
mod sources;
mod timeline;
