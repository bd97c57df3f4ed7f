//! A server that models run on: what goes to it, and what it is called.

use std::error::Error;
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{self as ours, HeaderMap};
use actix_web::web::Bytes;
use percent_encoding::percent_decode_str;
use reqwest::header::{self, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url, redirect};
use tokio::time::timeout;

use super::openai::Refusal;
use super::settings::UpstreamSettings;

/// A server that models run on.
pub(crate) struct Upstream {
    /// Its name in the configuration, in addresses and in metrics.
    pub(crate) name: String,
    /// Whether the client's own `Authorization` goes to it.
    pub(crate) pass_authorization: bool,
    /// What an answer may pause.
    pub(crate) idle: Duration,
    base: Url,
    key: Option<HeaderValue>,
    first_byte: Duration,
    client: Client,
}

/// A request on its way to an upstream.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    /// What follows `/v1` in the address, with its escapes: `/chat/completions`.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: Bytes,
}

impl Upstream {
    /// The upstream of that name. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// In words, with the setting to mend.
    pub(crate) fn open(name: &str, settings: &UpstreamSettings) -> Result<Self, String> {
        let setting = |key: &str| format!("proxy.upstreams.{name}.{key}");
        let mut base =
            Url::parse(&settings.url).map_err(|error| format!("{} is no address: {error}", setting("url")))?;
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        let key = settings.own_key(name)?.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                format!("{} cannot stand in a header: it holds a character that is none", setting("key"))
            })?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        // Whoever comes first decides; all would choose ring.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .connect_timeout(Duration::from_secs(settings.connect_timeout_seconds))
            // A redirect could lead to where the configuration does not.
            .redirect(redirect::Policy::none());
        if base.scheme() == "http" {
            // A machine without certificates can still talk to itself.
            client = client.tls_certs_only([]);
        }
        if matches!(base.host_str(), Some("localhost" | "127.0.0.1" | "[::1]")) {
            client = client.no_proxy();
        }
        Ok(Self {
            name: name.to_owned(),
            pass_authorization: settings.pass_authorization,
            idle: Duration::from_secs(settings.idle_timeout_seconds),
            base,
            key: key.transpose()?,
            first_byte: Duration::from_secs(settings.first_byte_timeout_seconds),
            client: client
                .build()
                .map_err(|error| format!("no secure connection to {name} can be made: {}", innermost(&error)))?,
        })
    }

    /// Its answer, as soon as that begins.
    ///
    /// # Errors
    ///
    /// What to tell the client when there is no answer to pass on.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<Response, Refusal> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{}", self.base.path(), outgoing.path));
        url.set_query(outgoing.query.as_deref());
        let mut headers = outgoing.headers;
        if let Some(key) = self.key.clone().filter(|_| !headers.contains_key(header::AUTHORIZATION)) {
            headers.insert(header::AUTHORIZATION, key);
        }
        // What is relayed byte for byte has to be readable on the way.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let request = self.client.request(outgoing.method, url).headers(headers);
        let request = if outgoing.body.is_empty() { request } else { request.body(outgoing.body) };
        let name = &self.name;
        match timeout(self.first_byte, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                Err(Refusal::late(format!("the upstream {name} did not accept a connection in time")))
            }
            Ok(Err(error)) => {
                let cause = innermost(&error);
                tracing::warn!(upstream = %name, %cause, "An upstream gave no answer");
                Err(Refusal::unreachable(format!("the upstream {name} gave no answer: {cause}")))
            }
            Err(_) => {
                let seconds = self.first_byte.as_secs();
                tracing::warn!(upstream = %name, seconds, "An upstream was too late");
                Err(Refusal::late(format!("the upstream {name} gave no answer within {seconds} s")))
            }
        }
    }
}

/// Headers that are about one connection, or about this server alone.
const NOT_FORWARDED: [&str; 22] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
    "host",
    "content-length",
    "accept-encoding",
    // Whose key goes where is decided apart.
    "authorization",
    // They belong to pages of this address, and tell an upstream of a page that it need not know.
    "cookie",
    "origin",
    "referer",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-dest",
    "forwarded",
];

/// Headers of an answer that are about the connection to the upstream, or about its address and not this one.
const NOT_RETURNED: [&str; 14] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "date",
    "set-cookie",
    "alt-svc",
    "strict-transport-security",
    "www-authenticate",
];

/// The headers of a client that the upstream is to see; its `Authorization` when that is `passed` on.
pub(crate) fn to_forward(headers: &HeaderMap, passed: bool) -> header::HeaderMap {
    let named = named_by_connection(headers.get_all(ours::CONNECTION).filter_map(|value| value.to_str().ok()));
    let mut forwarded = header::HeaderMap::new();
    for (name, value) in headers {
        let name = name.as_str();
        let is_key = passed && name == "authorization" && !is_own_key(value.as_bytes());
        let kept = !NOT_FORWARDED.contains(&name)
            && !name.starts_with("x-memory")
            && !name.starts_with("x-forwarded-")
            && !named.iter().any(|other| other == name);
        if !(kept || is_key) {
            continue;
        }
        let converted = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()));
        if let (Ok(name), Ok(value)) = converted {
            forwarded.append(name, value);
        }
    }
    forwarded
}

/// Whether an `Authorization` is a key of this server, which no upstream is ever shown.
pub(crate) fn is_own_key(authorization: &[u8]) -> bool {
    let text = String::from_utf8_lossy(authorization);
    text.split_whitespace().any(|word| word.starts_with("skm_"))
}

/// Status and headers of an upstream's answer as the client is to see them.
pub(crate) fn to_return(response: &Response) -> (StatusCode, HeaderMap) {
    let headers = response.headers();
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = named_by_connection(connection);
    let mut returned = HeaderMap::new();
    for (name, value) in headers {
        let name = name.as_str();
        // Which pages may read the answer is for this server to say.
        let kept = !NOT_RETURNED.contains(&name)
            && !name.starts_with("access-control-")
            && !name.starts_with("x-memory-")
            && !named.iter().any(|other| other == name);
        let converted =
            (ours::HeaderName::from_bytes(name.as_bytes()), ours::HeaderValue::from_bytes(value.as_bytes()));
        if let (true, (Ok(name), Ok(value))) = (kept, converted) {
            returned.append(name, value);
        }
    }
    let status = StatusCode::from_u16(response.status().as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
    (status, returned)
}

fn named_by_connection<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    values.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Whether a path leads nowhere but downwards, also once its escapes are undone.
pub(crate) fn leads_down(path: &str) -> bool {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    !decoded.contains('\\') && decoded.split('/').all(|step| step != "." && step != "..")
}

/// The innermost reason: the outer ones tell the address, which is not the client's business.
pub(crate) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if std::ptr::eq(cause, error as &dyn Error) { "it broke off".into() } else { cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|&(name, value)| (ours::HeaderName::from_static(name), ours::HeaderValue::from_static(value)));
        pairs.collect()
    }

    #[test]
    fn an_upstream_sees_what_is_meant_for_it_and_never_a_key_of_this_server() {
        let sent = headers(&[
            ("authorization", "Bearer skm_a_b"),
            ("x-memory-key", "skm_a_b"),
            ("x-memory", "off"),
            ("x-memory-session", "a"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("cookie", "a=b"),
            ("openai-organization", "org"),
            ("x-stainless-lang", "python"),
            ("content-type", "application/json"),
        ]);

        for passed in [false, true] {
            let forwarded = to_forward(&sent, passed);
            let mut names: Vec<&str> = forwarded.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, ["content-type", "openai-organization", "x-stainless-lang"]);
        }
        let own = headers(&[("authorization", "Bearer sk-theirs")]);
        assert_eq!(to_forward(&own, true)["authorization"], "Bearer sk-theirs");
        assert!(to_forward(&own, false).is_empty());
    }

    #[test]
    fn a_path_that_leads_upwards_is_noticed_however_it_is_written() {
        for path in ["/models/a", "/models/org/model:7b", "/models/a..b", "/models/%C3%A4"] {
            assert!(leads_down(path), "{path}");
        }
        for path in
            ["/models/..", "/models/../x", "/models/%2e%2e/x", "/models/.%2E", "/models/a/./b", "/models/a%5c..%5Cb"]
        {
            assert!(!leads_down(path), "{path}");
        }
    }
}
