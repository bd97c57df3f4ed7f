//! Under which names this server answers. A web page can point a name of its own at this machine (DNS rebinding), or
//! send requests here behind its reader's back: both carry the page's name, and are turned away by it.

use std::net::{IpAddr, SocketAddr};

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header;
use actix_web::middleware::Next;
use actix_web::web::Data;

use crate::body::check_address;
use crate::error::{ApiError, Kind};
use crate::settings::ServerSettings;

/// The names this server answers to.
pub(crate) struct Hosts {
    names: Vec<String>,
    origins: Vec<String>,
    any: bool,
}

impl Hosts {
    /// The loopback names, the address it listens on, and what the settings name.
    pub(crate) fn new(settings: &ServerSettings, address: SocketAddr) -> Self {
        let mut names: Vec<String> = settings.allowed_hosts.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.push("localhost".into());
        // Whoever listens on all addresses is called by any of them; an address is no name that could be rebound.
        names.push(address.ip().to_string());
        let any = names.iter().any(|name| name == "*");
        Self { names, origins: settings.cors_origins.clone(), any }
    }

    fn check(&self, request: &ServiceRequest) -> Result<(), ApiError> {
        if self.any {
            return Ok(());
        }
        let header = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = header.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
        match host {
            Some(host) if self.is_mine(host) => {}
            Some(host) => {
                let detail = format!("{host:?} is no name of this server: add it to server.allowed_hosts");
                return Err(ApiError::new(Kind::WrongHost, detail));
            }
            None => return Err(ApiError::new(Kind::WrongHost, "send a Host header")),
        }
        let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
        let origin = origin.to_str().unwrap_or_default();
        let page = origin.split_once("://").and_then(|(_, page)| name(page));
        if self.origins.iter().any(|allowed| allowed == origin) || page.is_some_and(|page| self.is_near(page, host)) {
            return Ok(());
        }
        let detail = format!("pages of {origin:?} may not call this server: add it to server.cors_origins");
        Err(ApiError::new(Kind::Forbidden, detail))
    }

    /// Names are compared without their port.
    fn is_mine(&self, host: &str) -> bool {
        name(host).is_some_and(|name| name.parse::<IpAddr>().is_ok() || self.is_called(name))
    }

    /// Whether a page called `page` comes from this machine, or from where the request itself went: at an address of
    /// its own there is a stranger.
    fn is_near(&self, page: &str, host: Option<&str>) -> bool {
        page.parse::<IpAddr>().is_ok_and(|page| page.is_loopback())
            || self.is_called(page)
            || host.and_then(name).is_some_and(|host| host.eq_ignore_ascii_case(page))
    }

    fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|mine| mine.eq_ignore_ascii_case(name))
    }
}

/// The name or address in a `host`, `host:port` or `[address]:port`; `None` when it is none of these.
fn name(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(six) => six.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    (port.is_empty() || digits.parse::<u16>().is_ok()).then_some(name)
}

/// Turns away what was not meant for this server.
pub(crate) async fn check_host(
    hosts: Data<Hosts>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match hosts.check(&request).and_then(|()| check_address(&request)) {
        Ok(()) => next.call(request).await,
        Err(error) => Ok(request.error_response(error)),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn hosts(change: impl FnOnce(&mut ServerSettings)) -> Hosts {
        let mut settings = ServerSettings::default();
        change(&mut settings);
        Hosts::new(&settings, settings.listen)
    }

    fn check(hosts: &Hosts, host: &str, origin: Option<&str>, fine: bool) {
        let mut request = TestRequest::default().insert_header((header::HOST, host));
        if let Some(origin) = origin {
            request = request.insert_header((header::ORIGIN, origin));
        }
        assert_eq!(hosts.check(&request.to_srv_request()).is_ok(), fine, "{host} from {origin:?}");
    }

    #[test]
    fn a_name_somebody_pointed_here_is_turned_away() {
        let hosts = hosts(|settings| settings.allowed_hosts = vec!["Memory.home".into()]);

        check(&hosts, "localhost:8765", None, true);
        check(&hosts, "LOCALHOST", None, true);
        check(&hosts, "127.0.0.1:8765", None, true);
        check(&hosts, "192.168.1.7:8765", None, true);
        check(&hosts, "[::1]:8765", None, true);
        check(&hosts, "memory.home", None, true);
        check(&hosts, "evil.example:8765", None, false);
        check(&hosts, "localhost.evil.example", None, false);
        check(&hosts, "localhost:8765@evil.example", None, false);
        check(&hosts, "localhost:80:80", None, false);
        check(&hosts, "127.0.0.1:99999", None, false);
        check(&hosts, "[::1", None, false);
        check(&hosts, "[::1].evil.example", None, false);
        check(&hosts, "", None, false);
    }

    #[test]
    fn a_page_from_elsewhere_may_not_call() {
        let hosts = hosts(|settings| settings.cors_origins = vec!["https://chat.example".into()]);

        check(&hosts, "localhost", Some("http://localhost:8765"), true);
        check(&hosts, "localhost", Some("https://chat.example"), true);
        check(&hosts, "localhost", Some("https://evil.example"), false);
        check(&hosts, "localhost", Some("http://[::1]:3000"), true);
        check(&hosts, "192.168.1.7:8765", Some("http://192.168.1.7:8765"), true);
        check(&hosts, "127.0.0.1:8765", Some("http://203.0.113.7"), false);
        check(&hosts, "192.168.1.7:8765", Some("http://192.168.1.8:8765"), false);
        check(&hosts, "localhost", Some("http://[::1].evil.example"), false);
        check(&hosts, "localhost", Some("null"), false);
    }

    #[test]
    fn a_star_allows_every_name() {
        let hosts = hosts(|settings| settings.allowed_hosts = vec!["*".into()]);

        check(&hosts, "anything.example", Some("https://evil.example"), true);
    }
}
