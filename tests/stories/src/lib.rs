//! End-to-end tests, one module per promise. Through the doors, with a manual clock and without a model.
#![cfg(test)]

mod five_turns;
mod layering;
