//! How often one may guess. However many guess, what is kept of them has a bound.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Counts guesses in as many slots as there are numbers of 16 bits. Who falls into which slot is chance, another one each
/// time the server starts. Two in one slot share its guesses: one in 65,536 meets a given guesser, and under a flood from
/// so many addresses that all slots are full, nobody guesses at all.
pub(super) struct Guesses<C: Clock> {
    limiter: Option<Slots<C>>,
    chance: RandomState,
    /// The slots that have used up their guesses, and when they may guess again.
    shut: Mutex<HashMap<u16, C::Instant>>,
    clock: C,
}

type Slots<C> = RateLimiter<u16, HashMapStateStore<u16>, C, NoOpMiddleware<<C as Clock>::Instant>>;

impl<C: Clock + Clone> Guesses<C> {
    /// So many a minute; with 0, any number.
    pub(super) fn new(per_minute: u32, clock: C) -> Self {
        let limiter =
            NonZeroU32::new(per_minute).map(|n| RateLimiter::hashmap_with_clock(Quota::per_minute(n), clock.clone()));
        Self { limiter, chance: RandomState::new(), shut: Mutex::default(), clock }
    }

    /// Whether `whose` guesses are taken now; how long it takes until they are.
    pub(super) fn open_to(&self, whose: &impl Hash) -> Result<(), Duration> {
        let now = self.clock.now();
        match self.shut().get(&self.slot(whose)) {
            Some(until) if *until > now => Err(until.duration_since(now).into()),
            _ => Ok(()),
        }
    }

    /// Notes a guess; whether it was one too many.
    pub(super) fn guessed(&self, whose: &impl Hash) -> bool {
        let Some(limiter) = &self.limiter else { return false };
        let slot = self.slot(whose);
        match limiter.check_key(&slot) {
            Ok(()) => false,
            Err(until) => {
                self.shut().insert(slot, until.earliest_possible());
                true
            }
        }
    }

    /// Forgets whoever has not guessed for a while.
    pub(super) fn tidy(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
        }
        let now = self.clock.now();
        self.shut().retain(|_, until| *until > now);
    }

    fn slot(&self, whose: &impl Hash) -> u16 {
        // The lowest bits of it are as much chance as any.
        (self.chance.hash_one(whose) & u64::from(u16::MAX)) as u16
    }

    fn shut(&self) -> MutexGuard<'_, HashMap<u16, C::Instant>> {
        // Whole at every moment, whoever panicked.
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    #[test]
    fn a_flood_of_guessers_fills_no_memory_and_is_forgotten_afterwards() {
        let clock = FakeRelativeClock::default();
        let guesses = Guesses::new(1, clock.clone());

        for guesser in 0..300_000_u32 {
            guesses.guessed(&guesser);
        }

        let slots = |guesses: &Guesses<FakeRelativeClock>| guesses.limiter.as_ref().unwrap().len();
        assert!(slots(&guesses) <= 65_536 && guesses.shut().len() <= 65_536);
        clock.advance(Duration::from_secs(121));
        guesses.tidy();
        assert_eq!((slots(&guesses), guesses.shut().len()), (0, 0));
    }
}
