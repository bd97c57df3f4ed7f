//! The files layer with real files and a real database.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod bad_input;
mod editing;
mod keeping;
mod prompt;
mod watching;
mod world;
