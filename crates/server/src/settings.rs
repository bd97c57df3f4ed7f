//! What may be set about the doors, with the values a new user gets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::address::Proxies;

/// `[server]` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerSettings {
    /// Address and port to listen on. Anything but loopback is seen by the network.
    pub listen: SocketAddr,
    /// Threads that answer requests; 0 takes one per core.
    pub workers: usize,
    /// Names under which clients may call this server, beside the loopback names and the address it listens on.
    /// A page in somebody's browser can point a name of its own at this machine: hence the list. `"*"` allows all.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call the API from a browser, as origins: `https://chat.example.org`. Empty allows none.
    pub cors_origins: Vec<String>,
    /// Proxies in front, as addresses or networks: who comes through one of them is who its `X-Forwarded-For` says.
    pub trusted_proxies: Vec<Proxies>,
    /// The largest body of a request, in KiB.
    pub body_limit_kib: usize,
    /// The largest body of a bulk request, in KiB.
    pub bulk_limit_kib: usize,
    /// What one request may take before it is given up.
    pub request_timeout_seconds: u64,
    /// How long requests in flight may go on when the server is told to stop.
    pub shutdown_seconds: u64,
    /// Whether `/metrics` asks for a key.
    pub metrics_need_key: bool,
    /// Who may come in.
    pub auth: AuthSettings,
    /// How often.
    pub rates: RateSettings,
}

/// `[server.auth]`: who may come in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSettings {
    /// Whether a key is asked for. Without keys the server listens on loopback only.
    pub enabled: bool,
    /// Whose memory is used when no key is asked for.
    pub user_without_key: String,
}

/// `[server.rates]`: how often one may come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateSettings {
    /// Requests a second that one key may make in the long run; 0 sets no limit.
    pub requests_per_second: u32,
    /// Requests one key may make at once.
    pub burst_requests: u32,
    /// Wrong keys a minute that one address may try before there is a wait; 0 sets no limit. Who used a right key lately is
    /// not kept waiting.
    pub wrong_keys_per_minute: u32,
    /// Passphrases a minute that may be tried on one sealed collection; 0 sets no limit.
    pub passphrases_per_minute: u32,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765),
            workers: 0,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            body_limit_kib: 1_024,
            bulk_limit_kib: 16_384,
            request_timeout_seconds: 60,
            shutdown_seconds: 10,
            metrics_need_key: true,
            auth: AuthSettings::default(),
            rates: RateSettings::default(),
        }
    }
}

impl Default for AuthSettings {
    fn default() -> Self {
        Self { enabled: true, user_without_key: "me".into() }
    }
}

impl Default for RateSettings {
    fn default() -> Self {
        Self { requests_per_second: 500, burst_requests: 1_000, wrong_keys_per_minute: 20, passphrases_per_minute: 10 }
    }
}

impl ServerSettings {
    /// Whether the settings make sense together, for a server that listens on `address`.
    ///
    /// # Errors
    ///
    /// In words, with the name of the setting and what it may be.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        if !self.auth.enabled && !address.ip().is_loopback() {
            return Err(format!(
                "server.auth.enabled = false is for loopback only, and the server would listen on {address}: \
                 set server.listen to 127.0.0.1:{} or turn keys on",
                address.port()
            ));
        }
        for (name, value) in [("body_limit_kib", self.body_limit_kib), ("bulk_limit_kib", self.bulk_limit_kib)] {
            if !(1..=1_048_576).contains(&value) {
                return Err(format!("server.{name} is from 1 to 1048576, not {value}"));
            }
        }
        if !(1..=3_600).contains(&self.request_timeout_seconds) {
            return Err(format!(
                "server.request_timeout_seconds is from 1 to 3600, not {}",
                self.request_timeout_seconds
            ));
        }
        if self.rates.requests_per_second > 0 && self.rates.burst_requests == 0 {
            return Err("server.rates.burst_requests is at least 1 when requests_per_second is set".into());
        }
        for origin in &self.cors_origins {
            if !(origin.starts_with("http://") || origin.starts_with("https://")) || origin.ends_with('/') {
                return Err(format!(
                    "server.cors_origins holds origins like https://chat.example.org, without a path, not {origin:?}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_secs(self.request_timeout_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ServerSettings), address: &str, names: Option<&str>) {
        let mut settings = ServerSettings::default();
        change(&mut settings);
        let outcome = settings.check(address.parse().unwrap());
        match (outcome, names) {
            (Ok(()), None) => {}
            (Err(why), Some(name)) => assert!(why.contains(name), "{why}"),
            (outcome, names) => panic!("{outcome:?} where {names:?} was expected"),
        }
    }

    #[test]
    fn settings_that_make_no_sense_are_named() {
        check(|_| {}, "127.0.0.1:0", None);
        check(|_| {}, "0.0.0.0:8765", None);
        check(|s| s.auth.enabled = false, "127.0.0.1:8765", None);
        check(|s| s.auth.enabled = false, "[::1]:8765", None);
        check(|s| s.auth.enabled = false, "0.0.0.0:8765", Some("server.auth.enabled"));
        check(|s| s.body_limit_kib = 0, "127.0.0.1:0", Some("body_limit_kib"));
        check(|s| s.request_timeout_seconds = 0, "127.0.0.1:0", Some("request_timeout_seconds"));
        check(|s| s.rates.burst_requests = 0, "127.0.0.1:0", Some("burst_requests"));
        check(|s| s.cors_origins = vec!["*".into()], "127.0.0.1:0", Some("cors_origins"));
        check(|s| s.cors_origins = vec!["https://a.example/".into()], "127.0.0.1:0", Some("cors_origins"));
    }

    #[test]
    fn a_setting_nobody_knows_is_an_error() {
        assert!(serde_json::from_str::<ServerSettings>(r#"{"port": 1}"#).is_err());
        assert!(serde_json::from_str::<ServerSettings>(r#"{"auth": {"enable": true}}"#).is_err());
        assert_eq!(serde_json::from_str::<ServerSettings>("{}").unwrap(), ServerSettings::default());
    }
}
