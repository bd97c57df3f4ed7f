//! The journal and the keys against a real Postgres, each test in a database of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says by panicking what went wrong")]

mod append;
mod cursor;
mod forget;
mod isolation;
mod keys;
mod migrate;
mod scratch;
mod sealed;
mod sessions;
mod stated;
mod wall;
