//! What was written into sealed collections lately, in memory: so that a write that comes again is known again, although
//! nothing that could tell stands in the database.
//!
//! What is written by two servers, or on both sides of a restart, is written twice. Whoever reads leaves repetitions out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skymem_core::{Collection, UserId};
use skymem_seal::SessionHandle;

use crate::journal::append::{Append, Prepared};
use crate::journal::found::{Stored, StoredTurns};

/// Of so many sessions something is known.
const MOST_SESSIONS: usize = 1_000;

/// So many turns of each.
const MOST_TURNS: usize = 500;

/// A session of a sealed collection. By its handle: what it is called is not held by a locked server either.
pub(super) type Named = (UserId, Collection, SessionHandle);

/// What was written lately.
#[derive(Clone, Default)]
pub(in crate::journal) struct Recent(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sessions: Mutex<Sessions>,
    /// One writes at a time: who comes second sees what the first has written.
    writers: Mutex<HashMap<UserId, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Sessions {
    known: HashMap<Named, (u64, Vec<Stored>)>,
    writes: u64,
}

impl Recent {
    /// Waits until nobody else writes for that user.
    pub(super) async fn turn_of(&self, user: UserId) -> tokio::sync::OwnedMutexGuard<()> {
        let writer = {
            let mut writers = self.0.writers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(writers.entry(user).or_default())
        };
        writer.lock_owned().await
    }

    /// What the turns of an append are compared with.
    pub(super) fn stored(&self, session: &Named, append: &Append, turns: &[Prepared<'_>]) -> StoredTurns {
        let sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stored = StoredTurns::default();
        let Some((_, known)) = sessions.known.get(session) else { return stored };
        stored.end = known.get(known.len().saturating_sub(turns.len())..).unwrap_or_default().to_vec();
        for turn in known {
            let asked = |id: &&String| append.turns.iter().any(|turn| turn.client_id.as_ref() == Some(id));
            if let Some(id) = turn.client_id.as_ref().filter(asked) {
                stored.by_client_id.insert(id.clone(), turn.clone());
            }
        }
        stored
    }

    /// Notes what was written; the session that was written to longest ago is let go when there are too many.
    pub(super) fn note(&self, session: Named, written: impl IntoIterator<Item = Stored>) {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.writes += 1;
        let now = sessions.writes;
        let (at, turns) = sessions.known.entry(session).or_default();
        *at = now;
        turns.extend(written);
        let beyond = turns.len().saturating_sub(MOST_TURNS);
        turns.drain(..beyond);
        if sessions.known.len() > MOST_SESSIONS {
            let oldest = sessions.known.iter().min_by_key(|(_, (at, _))| *at).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| sessions.known.remove(&oldest));
        }
    }

    /// Knows nothing more of what was written for a user: some of it is gone.
    pub(super) fn let_go(&self, user: UserId) {
        let mut sessions = self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.known.retain(|(owner, ..), _| *owner != user);
    }
}

impl std::fmt::Debug for Recent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recent(not shown)")
    }
}
