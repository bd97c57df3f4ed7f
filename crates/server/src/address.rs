//! Where a request comes from: the other end of the connection, or, through proxies that are trusted, whom they name.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use actix_web::http::header::HeaderMap;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A proxy, or a network of them, whose `X-Forwarded-For` is believed: `127.0.0.1`, `10.0.0.0/8`, `fd00::/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Proxies(IpNet);

impl Proxies {
    fn hold(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Proxies {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = || text.parse().ok().map(|address: IpAddr| IpNet::from(address.to_canonical()));
        let some = || text.parse().ok();
        one().or_else(some).map(Self).ok_or_else(|| {
            format!("{text:?} is no address and no network: a trusted proxy is 127.0.0.1 or 10.0.0.0/8, for instance")
        })
    }
}

impl TryFrom<String> for Proxies {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Proxies> for String {
    fn from(proxies: Proxies) -> Self {
        proxies.0.to_string()
    }
}

/// The address of the client behind `peer`, the other end of the connection. Each proxy adds, at the end, whom it was
/// called by: so the list is read backwards for as long as the one who added to it is `trusted`. What stands before that
/// is whatever the client says.
pub(crate) fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Proxies]) -> IpAddr {
    let believed = |address: IpAddr| trusted.iter().any(|proxies| proxies.hold(address));
    let lines: Vec<&str> = headers.get_all(FORWARDED_FOR).filter_map(|line| line.to_str().ok()).collect();
    let mut client = peer.to_canonical();
    for named in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
        if !believed(client) {
            break;
        }
        let Some(address) = address(named.trim()) else { break };
        client = address;
    }
    client
}

const FORWARDED_FOR: &str = "x-forwarded-for";

/// An address as proxies write it, with its port or without.
fn address(named: &str) -> Option<IpAddr> {
    let with_port = || named.parse().ok().map(|address: SocketAddr| address.ip());
    named.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    fn check(trusted: &[&str], peer: &str, forwarded: &[&'static str], expected: &str) {
        let trusted: Vec<Proxies> = trusted.iter().map(|proxy| proxy.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(HeaderName::from_static(FORWARDED_FOR), HeaderValue::from_static(line));
        }
        let found = client(peer.parse().unwrap(), &headers, &trusted);
        assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
    }

    #[test]
    fn whoever_is_not_trusted_speaks_for_nobody() {
        check(&[], "192.0.2.1", &["203.0.113.7"], "192.0.2.1");
        check(&["192.0.2.9"], "192.0.2.1", &["203.0.113.7"], "192.0.2.1");
    }

    #[test]
    fn a_trusted_proxy_names_its_client_and_what_the_client_says_of_itself_does_not_count() {
        check(&["192.0.2.1"], "192.0.2.1", &["203.0.113.7"], "203.0.113.7");
        check(&["192.0.2.1"], "192.0.2.1", &["10.9.9.9, 203.0.113.7"], "203.0.113.7");
        check(&["192.0.2.1"], "192.0.2.1", &["10.9.9.9", "203.0.113.7"], "203.0.113.7");
        check(&["192.0.2.1"], "192.0.2.1", &[], "192.0.2.1");
    }

    #[test]
    fn of_several_proxies_the_first_that_is_not_trusted_is_the_client() {
        let inside = &["10.0.0.0/8", "fd00::/8"];
        check(inside, "10.0.0.1", &["198.51.100.1, 203.0.113.7, 10.0.0.2"], "203.0.113.7");
        check(inside, "fd00::1", &["203.0.113.7:4711, [fd00::2]:80"], "203.0.113.7");
        check(inside, "10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3");
        check(inside, "::ffff:10.0.0.1", &["203.0.113.7"], "203.0.113.7");
    }

    #[test]
    fn where_a_proxy_names_nobody_the_proxy_itself_counts() {
        check(&["10.0.0.0/8"], "10.0.0.1", &["203.0.113.7, unknown"], "10.0.0.1");
        check(&["10.0.0.0/8"], "10.0.0.1", &["203.0.113.7, _hidden, 10.0.0.2"], "10.0.0.2");
        check(&["10.0.0.0/8"], "10.0.0.1", &["203.0.113.7,"], "10.0.0.1");
    }

    #[test]
    fn what_is_no_network_is_refused_with_what_would_be() {
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0", "*"] {
            let why = text.parse::<Proxies>().unwrap_err();
            assert!(why.contains("10.0.0.0/8"), "{why}");
        }
        assert_eq!(serde_json::from_str::<Vec<Proxies>>(r#"["::1"]"#).unwrap(), ["::1".parse().unwrap()]);
    }
}
