//! The always-loaded part as it was when a session first asked for it frozen, so that a provider's prompt cache keeps
//! its prefix.
//!
//! Kept in this process: after a restart, or on another server, a session freezes what it then finds. That costs a cache
//! miss and no more.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use skymem_core::{LayerName, Recall, SessionId, UserId};

type Key = (UserId, SessionId);
/// What each always-loaded layer recalled when it was first asked.
type Loaded = BTreeMap<LayerName, Vec<Recall>>;

/// What is frozen, of a bounded number of sessions.
#[derive(Debug)]
pub(crate) struct Frozen {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// With the turn at which each was last asked for.
    sessions: HashMap<Key, (u64, Loaded)>,
    turn: u64,
}

impl Frozen {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    /// What is frozen for a session; nothing when it never asked for that, or had to make room.
    pub(crate) fn get(&self, user: UserId, session: &SessionId) -> Loaded {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.turn += 1;
        let turn = kept.turn;
        kept.sessions.get_mut(&(user, session.clone())).map_or_else(Loaded::new, |(used, loaded)| {
            *used = turn;
            loaded.clone()
        })
    }

    /// Freezes what is `loaded` for a session; the session that was not asked for longest makes room.
    pub(crate) fn keep(&self, user: UserId, session: &SessionId, loaded: Loaded) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.turn += 1;
        let turn = kept.turn;
        kept.sessions.insert((user, session.clone()), (turn, loaded));
        while kept.sessions.len() > self.most {
            let Some(oldest) = kept.sessions.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone())
            else {
                return;
            };
            kept.sessions.remove(&oldest);
        }
    }

    /// Lets every session of a user see what is always loaded as it is now.
    pub(crate) fn thaw_all_of(&self, user: UserId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sessions.retain(|(whose, _), _| *whose != user);
    }

    /// Lets a session see what is always loaded as it is now.
    pub(crate) fn thaw(&self, user: UserId, session: &SessionId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.sessions.remove(&(user, session.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_that_was_not_asked_for_longest_makes_room() {
        let frozen = Frozen::new(2);
        let user = UserId(uuid::Uuid::nil());
        let session = |name: &str| name.parse::<SessionId>().unwrap();
        let loaded = || Loaded::from([(LayerName::of("files"), Vec::new())]);
        frozen.keep(user, &session("a"), loaded());
        frozen.keep(user, &session("b"), loaded());
        assert_eq!(frozen.get(user, &session("a")), loaded());

        frozen.keep(user, &session("c"), loaded());

        let kept: Vec<bool> = ["a", "b", "c"].iter().map(|name| !frozen.get(user, &session(name)).is_empty()).collect();
        assert_eq!(kept, [true, false, true]);
    }
}
