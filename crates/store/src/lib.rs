//! What must not be lost, and where it is kept.
//!
//! [`journal`] writes down what was said, in order, and hands it to the layers by cursors. [`keys`] says who may come
//! in. [`migrate`] brings the tables up to date, and [`postgres`] runs the database itself.

pub mod error;
pub mod journal;
pub mod keys;
pub mod migrate;
pub mod postgres;

pub use error::StoreError;
pub use journal::{
    Append, Appended, AppendedTurn, CollectionSettings, Forgotten, Heard, Journal, JournalTurn, LayerLag, Lease,
    MOST_TURNS_AT_ONCE, MemoryMode, NewTurn, Page, Parked, Recorded, Session, SessionChange, SessionMark, Shelf,
    StatedTurn, Stats, Target, Wakeups,
};
pub use keys::{Key, KeyId, Keys, NewKey, Scope, Secret};
pub use migrate::{MigrationLock, ensure_vector, migrate};
