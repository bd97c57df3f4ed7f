//! The doors over HTTP, on a memory without layers but one that keeps files in a map: what a client is told, and what
//! it is not. What layers make of it is told by the stories.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says by panicking what went wrong")]

mod access;
mod bad_input;
mod describes;
mod files;
mod house;
mod proxy;
mod remembers;
mod wall;
