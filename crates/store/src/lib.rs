//! What must not be lost, and where it is kept.
//!
//! [`journal`] writes down what was said, in order, and hands it to the layers by cursors. [`keys`] says who may come
//! in, [`audit`] who changed what. [`migrate`] brings the tables up to date, [`wall`] keeps users apart, and [`postgres`] runs
//! the database itself.

pub mod audit;
pub mod error;
pub mod journal;
pub mod keys;
pub mod migrate;
pub mod postgres;
pub mod purge;
pub mod wall;

pub use audit::{Acting, Actor, Audit, Break, Entry, EntryFilter, Hash, SERVER, Verb, Verified};
pub use error::StoreError;
pub use journal::{
    Append, Appended, AppendedTurn, CollectionSettings, Forgotten, Heard, Journal, JournalTurn, LayerLag, Lease,
    MOST_TURNS_AT_ONCE, MemoryMode, NewSeal, NewTurn, NewVersion, Page, Parked, Recorded, SealedCollection,
    SecretPolicy, SecretSetting, Session, SessionChange, SessionMark, Shelf, StatedTurn, Stats, TakenIn, Target,
    Wakeups, Wrapping,
};
pub use keys::{Key, KeyId, Keys, NewKey, Scope, Secret};
pub use migrate::{MigrationLock, ensure_vector, migrate};
pub use purge::{Among, BegunPurge, Meant, Place, Purger, Receipt};
