//! How often one may come: each key by its id; and how often one may guess: keys by the address, passphrases by the
//! collection. Guesses at one key from everywhere are not counted together: nobody guesses 256 bits of chance, and whoever
//! has seen a key's id in a log could shut its owner out.

mod guesses;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use actix_web::HttpRequest;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use skymem_core::{Collection, UserId};
use skymem_engine::KeyId;

use crate::address::{self, Proxies};
use crate::error::ApiError;
use crate::settings::ServerSettings;
use guesses::Guesses;

/// Counts who comes how often, and who guesses.
pub(crate) struct Rates<C: Clock = DefaultClock> {
    by_key: Option<ByKey<C>>,
    /// Wrong keys, by the network they come from.
    from: Guesses<C>,
    /// Passphrases, by the user and the collection they are tried on.
    passphrases: Guesses<C>,
    trusted: Vec<Proxies>,
    clock: C,
}

type ByKey<C> = RateLimiter<KeyId, DefaultKeyedStateStore<KeyId>, C, NoOpMiddleware<<C as Clock>::Instant>>;

impl Rates {
    /// Counts by `settings`.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        Self::with_clock(settings, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Rates<C> {
    fn with_clock(settings: &ServerSettings, clock: C) -> Self {
        let rates = &settings.rates;
        let by_key = NonZeroU32::new(rates.requests_per_second).map(|per_second| {
            let burst = NonZeroU32::new(rates.burst_requests).unwrap_or(per_second);
            let quota = Quota::per_second(per_second).allow_burst(burst);
            RateLimiter::dashmap_with_clock(quota, clock.clone())
        });
        Self {
            by_key,
            from: Guesses::new(rates.wrong_keys_per_minute, clock.clone()),
            passphrases: Guesses::new(rates.passphrases_per_minute, clock.clone()),
            trusted: settings.trusted_proxies.clone(),
            clock,
        }
    }

    /// Whether somebody at `address` may try a key.
    pub(crate) fn may_guess(&self, address: IpAddr) -> Result<(), ApiError> {
        self.from.open_to(&address).map_err(|wait| {
            refused("address");
            ApiError::rate_limited(wait, "too many wrong keys came from your address: wait, then send the right one")
        })
    }

    /// Notes that somebody at `address` presented a key that opens nothing.
    pub(crate) fn wrong_key(&self, address: IpAddr) {
        refused("wrong_key");
        if self.from.guessed(&address) {
            tracing::warn!(%address, "Too many wrong keys: the address is shut out for a while");
        }
    }

    /// Whether one more passphrase may be tried on a collection. Counts it before it is tried: many at once are many.
    pub(crate) fn may_try_passphrase(&self, user: UserId, collection: &Collection) -> Result<(), ApiError> {
        let tried = (user, collection);
        self.passphrases.guessed(&tried);
        self.passphrases.open_to(&tried).map_err(|wait| {
            refused("passphrase");
            ApiError::rate_limited(wait, "too many passphrases were tried on this collection: wait as Retry-After says")
        })
    }

    /// Whether the key of that id may be used again already.
    pub(crate) fn with_key(&self, id: &KeyId) -> Result<(), ApiError> {
        let Some(limiter) = &self.by_key else { return Ok(()) };
        limiter.check_key(id).map_err(|until| {
            refused("too_fast");
            let wait = until.wait_time_from(self.clock.now());
            ApiError::rate_limited(wait, "this key makes too many requests: wait as Retry-After says")
        })
    }

    /// The address a request comes from. Of an IPv6 address only the network counts: a single host has all of it.
    pub(crate) fn address_of(&self, request: &HttpRequest) -> IpAddr {
        let peer = request.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip());
        network(address::client(peer, request.headers(), &self.trusted))
    }

    /// Forgets whoever has not come for a while.
    pub(crate) fn tidy(&self) {
        if let Some(limiter) = &self.by_key {
            limiter.retain_recent();
        }
        for guesses in [&self.from, &self.passphrases] {
            guesses.tidy();
        }
    }
}

/// How often [`Rates::tidy`] is worth its while.
pub(crate) const TIDY_EVERY: Duration = Duration::from_secs(30);

/// Requests that were turned away at the door.
const REFUSED: &str = "skymem_refused_total";

pub(crate) fn describe() {
    metrics::describe_counter!(
        REFUSED,
        "Requests turned away: for a wrong key, for too many guesses, or for coming too fast."
    );
}

fn refused(why: &'static str) {
    metrics::counter!(REFUSED, "why" => why).increment(1);
}

fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use governor::clock::FakeRelativeClock;

    use super::*;
    use crate::settings::RateSettings;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn key(start: &str) -> KeyId {
        format!("{start:0<16}").parse().unwrap()
    }

    fn rates(rates: RateSettings) -> (Rates<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (Rates::with_clock(&ServerSettings { rates, ..ServerSettings::default() }, clock.clone()), clock)
    }

    #[test]
    fn an_address_that_guesses_is_shut_out_for_a_while_and_its_neighbour_is_not() {
        let (rates, clock) = rates(RateSettings { wrong_keys_per_minute: 2, ..RateSettings::default() });

        for _ in 0..3 {
            assert!(rates.may_guess(HERE).is_ok());
            rates.wrong_key(HERE);
        }

        assert!(rates.may_guess(HERE).is_err());
        assert!(rates.may_guess(THERE).is_ok());
        clock.advance(Duration::from_secs(29));
        assert!(rates.may_guess(HERE).is_err());
        clock.advance(Duration::from_secs(2));
        assert!(rates.may_guess(HERE).is_ok());
    }

    #[test]
    fn passphrases_are_counted_before_they_are_tried() {
        let (rates, clock) = rates(RateSettings { passphrases_per_minute: 2, ..RateSettings::default() });
        let (anna, ben) = (UserId(uuid::Uuid::from_u128(1)), UserId(uuid::Uuid::from_u128(2)));
        let health: Collection = "health".parse().unwrap();
        let tries = |user| rates.may_try_passphrase(user, &health).is_ok();

        assert_eq!([tries(anna), tries(anna), tries(anna), tries(ben)], [true, true, false, true]);

        clock.advance(Duration::from_secs(31));
        assert!(tries(anna));
    }

    #[test]
    fn a_busy_key_waits_and_another_does_not() {
        let (rates, clock) =
            rates(RateSettings { requests_per_second: 1, burst_requests: 2, ..RateSettings::default() });

        assert!(rates.with_key(&key("a1")).is_ok());
        assert!(rates.with_key(&key("a1")).is_ok());
        assert!(rates.with_key(&key("a1")).is_err());
        assert!(rates.with_key(&key("b2")).is_ok());
        clock.advance(Duration::from_secs(1));
        assert!(rates.with_key(&key("a1")).is_ok());
    }

    #[test]
    fn zero_sets_no_limit() {
        let none = RateSettings {
            requests_per_second: 0,
            burst_requests: 0,
            wrong_keys_per_minute: 0,
            passphrases_per_minute: 0,
        };
        let (rates, _) = rates(none);
        let collection = Collection::default();

        for _ in 0..5_000 {
            assert!(rates.with_key(&key("a1")).is_ok());
            assert!(rates.may_try_passphrase(UserId(uuid::Uuid::nil()), &collection).is_ok());
            rates.wrong_key(HERE);
        }
        assert!(rates.may_guess(HERE).is_ok());
    }

    #[test]
    fn behind_a_proxy_its_clients_count_apart() {
        let request = || {
            TestRequest::default()
                .peer_addr("192.0.2.1:9".parse().unwrap())
                .insert_header(("x-forwarded-for", "203.0.113.7, 192.0.2.2"))
                .to_http_request()
        };
        let trusting =
            ServerSettings { trusted_proxies: vec!["192.0.2.1".parse().unwrap()], ..ServerSettings::default() };

        assert_eq!(Rates::new(&ServerSettings::default()).address_of(&request()), HERE);
        assert_eq!(Rates::new(&trusting).address_of(&request()), THERE);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_count_as_one() {
        let one = network("2001:db8:1:2:3:4:5:6".parse().unwrap());
        let other = network("2001:db8:1:2:ffff::1".parse().unwrap());

        assert_eq!(one, other);
        assert_ne!(one, network("2001:db8:1:3::1".parse().unwrap()));
    }
}
