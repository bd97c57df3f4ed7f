//! Walks in process, without anything around them.

use std::hint::black_box;
use std::time::Instant;

use comfy_table::Table;
use petgraph::algo::dijkstra;
use petgraph::graph::{NodeIndex, UnGraph};
use petgraph::visit::Bfs;
use skymem_facts::graph::{Link, Net};

use super::world::World;
use super::{megabytes, resident_bytes};
use crate::times::{Times, table};

/// How often what takes long is done.
const FEW: usize = 5;

/// Builds the net of `world`, walks it, and does alike with what the library has, in the same run.
pub(super) fn run(world: &World, questions: usize) {
    let links: Vec<Link> = (0..).zip(&world.facts).map(|(fact, &(from, to))| Link { from, to, fact }).collect();
    let holds: Vec<bool> = (0..).zip(&world.facts).map(|(fact, _)| world.holds(fact)).collect();
    let holds = |fact: u32| holds.get(fact as usize).copied().unwrap_or(false);
    let before = resident_bytes(None);
    let net = Net::new(world.entities as usize, &links);
    let grown = resident_bytes(None).zip(before).map(|(after, before)| after.saturating_sub(before));
    println!(
        "the net takes {} by its size, {} more of the process",
        megabytes(net.bytes() as u64),
        grown.map_or_else(|| "unknown".into(), megabytes)
    );

    let library = library(world, holds);
    let walk = |n| {
        let mut walk = Bfs::new(&library, NodeIndex::new(world.some(n) as usize));
        std::iter::from_fn(|| walk.next(&library)).count()
    };
    let way = |n| {
        let (from, to) = (world.some(2 * n), world.some(2 * n + 1));
        dijkstra(&library, NodeIndex::new(from as usize), Some(NodeIndex::new(to as usize)), |_| 1_u32).len()
    };

    let (hub, _) = world.most_linked();
    let (a, b) = (|n: usize| world.some(2 * n), |n: usize| world.some(2 * n + 1));
    let mut rows = Rows(table());
    rows.time("the net is built", FEW, |_| black_box(Net::new(world.entities as usize, &links)).bytes());
    let seen = rows
        .time("around an entity: 2 hops, 200 entities", questions, |n| net.around(a(n), 2, 200, holds).entities.len());
    rows.time("around the most linked entity, alike", questions, |_| net.around(hub, 2, 200, holds).facts.len());
    rows.time("  the library walks everything there is", questions, walk);
    let found = rows.time("between two: 4 hops, 5 ways", questions, |n| net.paths(a(n), b(n), 4, 5, holds).ways.len());
    rows.time("between two: 6 hops, 20 ways", questions, |n| net.paths(a(n), b(n), 6, 20, holds).ways.len());
    rows.time("from one to the most linked: 6 hops, 20 ways", questions, |n| {
        net.paths(a(n), hub, 6, 20, holds).ways.len()
    });
    rows.time("  the library finds how long one way is", questions.min(50), way);
    let ranked = rows.time("rank from two entities", questions, |n| net.rank(&[(a(n), 1.0), (b(n), 1.0)], holds).len());
    rows.time("rank from the most linked entity", questions, |_| net.rank(&[(hub, 1.0)], holds).len());
    let groups = rows.time("communities", FEW, |_| net.communities(holds).len());
    println!("{}", rows.0);
    println!(
        "{:.0} entities around one, {:.1} ways between two, {:.0} entities ranked on average; {} communities",
        seen as f64 / questions as f64,
        found as f64 / questions as f64,
        ranked as f64 / questions as f64,
        groups / FEW
    );
}

/// The same graph as the library has it.
fn library(world: &World, holds: impl Fn(u32) -> bool) -> UnGraph<(), ()> {
    let links = (0..).zip(&world.facts).filter(|&(fact, _)| holds(fact));
    UnGraph::from_edges(links.map(|(_, &(from, to))| (from, to)))
}

/// A table of what was timed.
struct Rows(Table);

impl Rows {
    /// Does something so many times, with 0, 1, 2, and adds the row; answers the sum of what came of it.
    fn time(&mut self, of: &str, times: usize, mut work: impl FnMut(usize) -> usize) -> usize {
        let (mut all, mut sum) = (Times::default(), 0);
        black_box(work(0));
        for n in 0..times {
            let began = Instant::now();
            sum += black_box(work(n));
            all.note(began.elapsed());
        }
        self.0.add_row(all.row(of));
        sum
    }
}
