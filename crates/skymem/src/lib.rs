//! The program: configuration, wiring, commands.
//!
//! [`serve::Server`] is the whole product in one process, wired from top to bottom.

pub mod cli;
mod client;
mod commands;
pub mod config;
mod database;
mod door;
mod eval;
mod import;
mod logging;
mod output;
pub mod plugins;
mod progress;
pub mod serve;
mod unlock;

use std::alloc::System;

use zeroizing_alloc::ZeroAlloc;

/// Overwrites all memory that is freed. What is unlocked goes through many hands: requests, answers, the JSON between them,
/// the database's driver. Nothing of it outlasts its use there, also in a core dump.
#[global_allocator]
static ALLOCATOR: ZeroAlloc<System> = ZeroAlloc(System);

/// Chooses the one provider of cryptography, for TLS to databases, models and servers.
fn use_ring() {
    // An error says that it was chosen before, by a test or by a program that holds a server in its own process.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
