//! The layer of facts against a real Postgres.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod forgetting;
mod graph;
mod keeping;
mod life;
mod names;
mod reading;
mod recalling;
mod world;
