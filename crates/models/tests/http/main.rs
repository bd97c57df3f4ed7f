//! Models behind HTTP, against a server that answers as scripted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test ends where it fails")]

mod chat;
mod embedders;
mod server;
