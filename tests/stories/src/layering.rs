//! The promise to whoever reads the code: arrows between crates point one way.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What each crate may stand on. Plugins stand on the core, and on the two crates that only think: how to search, and how to seal.
fn allowed(name: &str, plugin: bool) -> BTreeSet<&'static str> {
    let names: &[&str] = match name {
        _ if plugin => &["skymem-core", "skymem-seal", "skymem-search"],
        "skymem-core" => &[],
        "skymem-seal" | "skymem-search" | "skymem-models" => &["skymem-core"],
        "skymem-store" => &["skymem-core", "skymem-seal"],
        "skymem-engine" => &["skymem-core", "skymem-store"],
        "skymem-server" => &["skymem-core", "skymem-engine"],
        "skymem" => &[
            "skymem-core",
            "skymem-store",
            "skymem-models",
            "skymem-engine",
            "skymem-server",
            "skymem-files",
            "skymem-episodes",
            "skymem-summaries",
            "skymem-facts",
            "skymem-seal",
            "skymem-vault",
        ],
        other => panic!("the crate {other} has no place in the picture: see crates/README.md"),
    };
    names.iter().copied().collect()
}

#[test]
fn the_arrows_between_crates_point_one_way() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(root).no_deps().exec().unwrap();
    let mut wrong = BTreeMap::new();
    for package in metadata.workspace_packages() {
        let place = package.manifest_path.as_str().replace('\\', "/");
        if place.contains("/tests/") {
            continue;
        }
        let allowed = allowed(&package.name, place.contains("/plugins/"));
        let of_the_program = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
        let ours = of_the_program.map(|dependency| dependency.name.as_str()).filter(|name| name.starts_with("skymem"));
        let forbidden: Vec<String> = ours.filter(|name| !allowed.contains(name)).map(str::to_owned).collect();
        if !forbidden.is_empty() {
            wrong.insert(package.name.to_string(), forbidden);
        }
    }
    assert!(wrong.is_empty(), "crates that stand on what they may not: {wrong:?}");
}
