//! How exchanges are found: the thinking of every layer that searches what was said, whether it lies open in the database
//! or decrypted in memory. Pure: no I/O, no clock.
//!
//! Reading order: [`draft`] (from exchanges to passages), [`words`], [`bm25`], [`contents`] (what a search reads of all
//! passages), [`fuse`] (one order from two searches), [`related`], [`decay`], [`weigh`] (candidates with all their scores),
//! [`choose`] (what is recalled), [`tell`] (as it is read).

pub mod bm25;
pub mod calibrate;
pub mod choose;
mod compare;
pub mod contents;
pub mod decay;
pub mod draft;
pub mod fuse;
pub mod places;
pub mod related;
mod split;
pub mod tell;
pub mod weigh;
pub mod words;
