//! End-to-end tests, one module per promise. Through the doors, with a manual clock and without a model.
#![cfg(test)]

mod audit;
mod bad_input;
mod chat_models;
mod conformance;
mod context;
mod crash;
mod eval;
mod facts;
mod files;
mod five_turns;
mod forgetting;
mod isolation;
mod keys;
mod layering;
mod metrics;
mod model_calls;
mod proxy;
mod proxy_faults;
mod proxy_memory;
mod purge;
mod purge_at_rest;
mod restart;
mod secrets;
mod secrets_at_rest;
mod summaries;
mod vault;
mod wall;
