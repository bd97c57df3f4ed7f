//! How long it takes to walk a large graph of facts: in process, beside what a library does, and through the doors.

mod doors;
mod net;
mod world;

use std::path::Path;

use anyhow::Result;

use self::world::World;

/// Invents a graph of `facts`, asks it `questions` of each kind in process and, with a `program`, through its doors;
/// prints a table of each.
pub(crate) async fn run(program: Option<&Path>, facts: usize, questions: usize) -> Result<()> {
    let world = World::of(facts);
    println!("{} entities, {} facts; the most linked entity has {}", world.entities, facts, world.most_linked().1);
    net::run(&world, questions);
    match program {
        Some(program) => doors::run(program, &world, questions).await,
        None => Ok(()),
    }
}

/// How many bytes of memory a process has, as the system counts them; this one, or that of an id.
fn resident_bytes(process: Option<u32>) -> Option<u64> {
    let process = process.map_or_else(|| "self".to_owned(), |id| id.to_string());
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1_000_000.0)
}
