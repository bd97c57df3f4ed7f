//! P
fn main() {}
