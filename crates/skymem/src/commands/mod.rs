//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod exchanges;
pub(crate) mod facts;
pub(crate) mod files;
pub(crate) mod forget;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod purge;
pub(crate) mod recall;
pub(crate) mod reembed;
pub(crate) mod remember;
pub(crate) mod restore;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod stats;
pub(crate) mod vault;
pub(crate) mod version;
mod when;
