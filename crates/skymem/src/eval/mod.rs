//! Scripted conversations, and whether memory knows afterwards what it should: what is said is said to a server, then
//! its memory is asked, and what it answers is compared with what the script expects.
//!
//! [`read_all`] reads scripts, [`run`] plays them on a [`Place`], and the [`Report`] says what came of it: whoever wants
//! to know whether memory still works before changing something needs these three.

mod assemble;
mod filler;
mod markdown;
mod place;
mod report;
mod run;
mod script;
mod yaml;

pub(crate) use place::{OwnServer, Place};
pub(crate) use report::Report;
pub(crate) use run::{Options, run};
pub(crate) use script::{Script, read_all};
