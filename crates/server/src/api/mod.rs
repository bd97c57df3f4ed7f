//! The REST door, one file per noun. A handler calls one method of `Memory`; the wire types stand below it.

pub(crate) mod audit;
pub(crate) mod collections;
pub(crate) mod context;
pub(crate) mod entities;
pub(crate) mod exchanges;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod forget;
pub(crate) mod graph;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod layers;
pub(crate) mod me;
pub(crate) mod pages;
pub(crate) mod purge;
pub(crate) mod recall;
pub(crate) mod remember;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod turns;
pub(crate) mod users;
pub(crate) mod vault;
