//! How often one may come: each key by its id, and, before there is one, each address by its wrong keys.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_web::HttpRequest;
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use skymem_engine::KeyId;

use crate::error::ApiError;
use crate::settings::ServerSettings;

/// Counts who comes how often.
pub(crate) struct Rates {
    by_key: Option<DefaultKeyedRateLimiter<KeyId>>,
    wrong_keys: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Addresses that have used up their guesses, and when they may guess again.
    shut_out: Mutex<HashMap<IpAddr, Instant>>,
    behind_proxy: bool,
    clock: DefaultClock,
}

type Instant = <DefaultClock as Clock>::Instant;

impl Rates {
    /// Counts by `settings`.
    pub(crate) fn new(settings: &ServerSettings) -> Self {
        let rates = &settings.rates;
        let by_key = NonZeroU32::new(rates.requests_per_second).map(|per_second| {
            let burst = NonZeroU32::new(rates.burst_requests).unwrap_or(per_second);
            RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst))
        });
        let wrong_keys = NonZeroU32::new(rates.wrong_keys_per_minute).map(|n| RateLimiter::keyed(Quota::per_minute(n)));
        Self {
            by_key,
            wrong_keys,
            shut_out: Mutex::default(),
            behind_proxy: settings.behind_proxy,
            clock: DefaultClock::default(),
        }
    }

    /// Whether somebody at `address` may present a key at all.
    pub(crate) fn before_key(&self, address: IpAddr) -> Result<(), ApiError> {
        let now = self.clock.now();
        let until = self.shut_out().get(&address).copied();
        match until {
            Some(until) if until > now => Err(ApiError::rate_limited(
                until.duration_since(now),
                "too many wrong keys came from your address: wait, then send the right one",
            )),
            _ => Ok(()),
        }
    }

    /// Notes that somebody at `address` presented a key that opens nothing.
    pub(crate) fn wrong_key(&self, address: IpAddr) {
        let Some(limiter) = &self.wrong_keys else { return };
        if let Err(until) = limiter.check_key(&address) {
            tracing::warn!(%address, "Too many wrong keys: the address is shut out for a while");
            self.shut_out().insert(address, until.earliest_possible());
        }
    }

    /// Whether the key of that id may be used again already.
    pub(crate) fn with_key(&self, id: &KeyId) -> Result<(), ApiError> {
        let Some(limiter) = &self.by_key else { return Ok(()) };
        limiter.check_key(id).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            ApiError::rate_limited(wait, "this key makes too many requests: wait as Retry-After says")
        })
    }

    /// The address a request comes from. Of an IPv6 address only the network counts: a single host has all of it.
    pub(crate) fn address_of(&self, request: &HttpRequest) -> IpAddr {
        let forwarded = self.behind_proxy.then(|| forwarded_for(request)).flatten();
        let address = forwarded.or_else(|| request.peer_addr().map(|peer| peer.ip()));
        network(address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }

    /// Forgets whoever has not come for a while.
    pub(crate) fn tidy(&self) {
        if let Some(limiter) = &self.by_key {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.wrong_keys {
            limiter.retain_recent();
        }
        let now = self.clock.now();
        self.shut_out().retain(|_, until| *until > now);
    }

    fn shut_out(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.shut_out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often [`Rates::tidy`] is worth its while.
pub(crate) const TIDY_EVERY: Duration = Duration::from_secs(30);

/// The entry the proxy itself added: the ones before it are whatever the client says.
fn forwarded_for(request: &HttpRequest) -> Option<IpAddr> {
    let last = request.headers().get_all("x-forwarded-for").last()?.to_str().ok()?;
    last.rsplit(',').next()?.trim().parse().ok()
}

fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => IpAddr::V4(four),
            None => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() >> 64 << 64)),
        },
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;
    use crate::settings::RateSettings;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn key(start: &str) -> KeyId {
        format!("{start:0<16}").parse().unwrap()
    }

    fn rates(rates: RateSettings) -> Rates {
        Rates::new(&ServerSettings { rates, ..ServerSettings::default() })
    }

    #[test]
    fn an_address_that_guesses_is_shut_out_and_its_neighbour_is_not() {
        let rates = rates(RateSettings { wrong_keys_per_minute: 2, ..RateSettings::default() });

        for _ in 0..3 {
            assert!(rates.before_key(HERE).is_ok());
            rates.wrong_key(HERE);
        }

        assert!(rates.before_key(HERE).is_err());
        assert!(rates.before_key(THERE).is_ok());
    }

    #[test]
    fn a_busy_key_waits_and_another_does_not() {
        let rates = rates(RateSettings { requests_per_second: 1, burst_requests: 2, ..RateSettings::default() });

        assert!(rates.with_key(&key("a1")).is_ok());
        assert!(rates.with_key(&key("a1")).is_ok());
        assert!(rates.with_key(&key("a1")).is_err());
        assert!(rates.with_key(&key("b2")).is_ok());
    }

    #[test]
    fn zero_sets_no_limit() {
        let rates = rates(RateSettings { requests_per_second: 0, burst_requests: 0, wrong_keys_per_minute: 0 });

        for _ in 0..5_000 {
            assert!(rates.with_key(&key("a1")).is_ok());
            rates.wrong_key(HERE);
        }
        assert!(rates.before_key(HERE).is_ok());
    }

    #[test]
    fn behind_a_proxy_only_its_own_word_counts() {
        let request = || {
            TestRequest::default()
                .peer_addr("192.0.2.1:9".parse().unwrap())
                .insert_header(("x-forwarded-for", "203.0.113.7, 192.0.2.2"))
                .to_http_request()
        };
        let direct = Rates::new(&ServerSettings::default());
        let behind = Rates::new(&ServerSettings { behind_proxy: true, ..ServerSettings::default() });

        assert_eq!(direct.address_of(&request()), HERE);
        assert_eq!(behind.address_of(&request()), THERE);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_count_as_one() {
        let one = network("2001:db8:1:2:3:4:5:6".parse().unwrap());
        let other = network("2001:db8:1:2:ffff::1".parse().unwrap());

        assert_eq!(one, other);
        assert_ne!(one, network("2001:db8:1:3::1".parse().unwrap()));
        assert_eq!(network("::ffff:192.0.2.1".parse().unwrap()), HERE);
    }
}
