//! Chats that pass through: a client talks to a model as ever, at this address, and memory comes along.
//!
//! [`chat`] tells it in order: who is it, what does memory add, forward, pass the answer on byte for byte, and write
//! down what was said. Memory never makes a chat fail: on a fault it is forwarded as it came, which is counted.

mod answer;
mod inject;
mod memory;
pub(crate) mod metrics;
pub(crate) mod openai;
mod relay;
mod request;
mod settings;
mod sse;
mod under_way;
mod upstream;
mod utility;
mod who;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::web::{self, Bytes, Data};
use actix_web::{HttpRequest, HttpResponse, get, post};
use reqwest::Method;
use skymem_engine::Memory;
use tokio::time::timeout;

use crate::auth::Door;
use crate::error::{ApiError, Kind};
use crate::settings::ServerSettings;

pub use settings::{Identities, MemoryPlace, ProxySettings, UpstreamSettings};

use answer::Answer;
use memory::{PassedBy, Plan};
use relay::{End, Tasks};
use under_way::UnderWay;
use upstream::{Outgoing, Upstream};

/// Whether the path is one of the proxy's: there errors have OpenAI's shape, and streams may be long.
pub(crate) fn is_mine(path: &str) -> bool {
    matches!(path, "/v1/chat/completions" | "/v1/embeddings" | "/v1/models")
        || path.starts_with("/v1/models/")
        || path.starts_with("/u/")
}

/// The upstreams, and what is under way to and from them.
pub(crate) struct Proxy {
    settings: ProxySettings,
    upstreams: BTreeMap<String, Arc<Upstream>>,
    tasks: Tasks,
    passed_by: PassedBy,
    under_way: UnderWay,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("upstreams", &self.upstreams.keys()).finish_non_exhaustive()
    }
}

impl Proxy {
    /// A proxy by `settings`; what it relays runs in the runtime of the caller.
    ///
    /// # Errors
    ///
    /// In words, with the setting to mend.
    pub(crate) fn open(settings: ProxySettings) -> Result<Self, String> {
        settings.check()?;
        let open = |(name, upstream): (&String, &UpstreamSettings)| {
            Ok((name.clone(), Arc::new(Upstream::open(name, upstream)?)))
        };
        let upstreams = settings.upstreams.iter().map(open).collect::<Result<_, String>>()?;
        Ok(Self {
            settings,
            upstreams,
            tasks: Tasks::here(),
            passed_by: PassedBy::default(),
            under_way: UnderWay::default(),
        })
    }

    /// Waits until all that was relayed is remembered.
    pub(crate) async fn idle(&self) {
        self.tasks.idle().await;
    }

    /// Ends what is under way: within `patience` by itself, then where it is; what was said by then is remembered.
    pub(crate) async fn stop(&self, patience: Duration) {
        if timeout(patience, self.tasks.idle()).await.is_ok() {
            return;
        }
        tracing::warn!("Answers under way are ended: their clients see them break off");
        self.tasks.stop();
        if timeout(LAST_WORDS, self.tasks.idle()).await.is_err() {
            tracing::error!("What was said last could not be written down in time");
        }
    }

    fn upstream(&self, name: Option<&str>) -> Result<&Arc<Upstream>, ApiError> {
        let known = || self.upstreams.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        if self.upstreams.is_empty() {
            return Err(ApiError::new(
                Kind::SwitchedOff,
                "no upstream is configured: set proxy.upstreams.<name>.url to the address of a server that models run \
                 on, such as SKYMEM_PROXY__UPSTREAMS__LOCAL__URL=http://127.0.0.1:11434/v1",
            ));
        }
        match name.or_else(|| self.settings.default_upstream()) {
            Some(name) => self.upstreams.get(name).ok_or_else(|| {
                ApiError::new(Kind::NotFound, format!("there is no upstream {name:?}; there are: {}", known()))
            }),
            None => Err(ApiError::new(
                Kind::SwitchedOff,
                format!("no upstream is the default: set proxy.default to one of {}, or call /u/<name>/v1", known()),
            )),
        }
    }
}

/// What writing down may take once everything was ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A chat, whole or streamed, as OpenAI's API has it; memory adds what it knows and remembers what was said.
///
/// Every member but `messages` is passed on as it came, and the answer comes back byte for byte. What memory may do is
/// said by `X-Memory` (`off`, `read`, `write`, `readwrite`), `X-Memory-Collection` and `X-Memory-Budget`, by
/// `metadata.memory`, or by a model's ending such as `:nomem`; `X-Memory-Session` names the conversation, which is
/// otherwise known by what was said in it. The answer's `X-Memory-*` headers say what memory did.
#[utoipa::path(
    operation_id = "chat", tag = "proxy", security(("key" = [])),
    request_body(content = serde_json::Value, content_type = "application/json", description = "As OpenAI's API has it"),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[post("/v1/chat/completions")]
pub(crate) async fn chat(request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    answer_chat(None, request, payload).await
}

/// A chat with the upstream of that name.
#[utoipa::path(
    operation_id = "chat_with", tag = "proxy", security(("key" = [])),
    params(("upstream" = String, Path, description = "Its name in the configuration")),
    request_body(content = serde_json::Value, content_type = "application/json", description = "As OpenAI's API has it"),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[post("/u/{upstream}/v1/chat/completions")]
pub(crate) async fn chat_with(
    upstream: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    answer_chat(Some(&upstream), request, payload).await
}

/// Embeddings of the default upstream. Memory has no part in it.
#[utoipa::path(
    operation_id = "embeddings", tag = "proxy", security(("key" = [])),
    request_body(content = serde_json::Value, content_type = "application/json", description = "As OpenAI's API has it"),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[post("/v1/embeddings")]
pub(crate) async fn embeddings(request: HttpRequest, payload: web::Payload) -> Result<HttpResponse, ApiError> {
    forward(None, request, Some(payload)).await
}

/// Embeddings of the upstream of that name.
#[utoipa::path(
    operation_id = "embeddings_with", tag = "proxy", security(("key" = [])),
    params(("upstream" = String, Path, description = "Its name in the configuration")),
    request_body(content = serde_json::Value, content_type = "application/json", description = "As OpenAI's API has it"),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[post("/u/{upstream}/v1/embeddings")]
pub(crate) async fn embeddings_with(
    upstream: web::Path<String>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    forward(Some(&upstream), request, Some(payload)).await
}

/// The models of the default upstream.
#[utoipa::path(
    operation_id = "models", tag = "proxy", security(("key" = [])),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[get("/v1/models")]
pub(crate) async fn models(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    forward(None, request, None).await
}

/// The models of the upstream of that name.
#[utoipa::path(
    operation_id = "models_of", tag = "proxy", security(("key" = [])),
    params(("upstream" = String, Path, description = "Its name in the configuration")),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[get("/u/{upstream}/v1/models")]
pub(crate) async fn models_of(upstream: web::Path<String>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    forward(Some(&upstream), request, None).await
}

/// One model of the default upstream.
#[utoipa::path(
    operation_id = "model", tag = "proxy", security(("key" = [])),
    params(("model" = String, Path, description = "Its id, which may hold slashes")),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[get("/v1/models/{model:.+}")]
pub(crate) async fn model(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    forward(None, request, None).await
}

/// One model of the upstream of that name.
#[utoipa::path(
    operation_id = "model_of", tag = "proxy", security(("key" = [])),
    params(
        ("upstream" = String, Path, description = "Its name in the configuration"),
        ("model" = String, Path, description = "Its id, which may hold slashes"),
    ),
    responses((status = 200, description = "The upstream's answer, as it came", body = serde_json::Value)),
)]
#[get("/u/{upstream}/v1/models/{model:.+}")]
pub(crate) async fn model_of(
    path: web::Path<(String, String)>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    forward(Some(&path.0), request, None).await
}

async fn answer_chat(
    name: Option<&str>,
    request: HttpRequest,
    payload: web::Payload,
) -> Result<HttpResponse, ApiError> {
    let World { proxy, memory, door, settings } = World::of(&request)?;
    let upstream = proxy.upstream(name);
    let passes = passes_authorization(&upstream);
    let mut who = pin!(who::identify(&door, &memory, &request, passes));
    // Who came in lately is most likely let in again: what they ask is read, and embedded, while that is found out.
    let (likely, mut known) = match who::most_likely(&door, &request, passes).filter(|_| upstream.is_ok()) {
        Some(likely) => (likely, None),
        None => {
            let known = who.as_mut().await?;
            (known.clone(), Some(known))
        }
    };
    // What there is, is for those with a key to know.
    let upstream = upstream?;
    let mut reading = pin!(read(payload, &proxy.settings, &settings));
    let body = loop {
        tokio::select! {
            biased;
            found_out = who.as_mut(), if known.is_none() => known = Some(found_out?),
            body = reading.as_mut() => break body,
        }
    };
    let who = async {
        match known {
            Some(known) => Ok(known),
            None => who.await,
        }
    };
    let body = match body {
        Ok(body) => body,
        Err(error) => return Err(who.await.err().unwrap_or(error)),
    };
    let Plan { body, status, headers, remember } =
        memory::plan(&proxy, &memory, &door, (likely, who), &request, body).await?;
    let outgoing = outgoing(&request, upstream, body)?;
    let memory = Memory::clone(&memory);
    let afterwards = remember.map(|remember| move |answer, end| remember.answered(memory, answer, end));
    let response = relay::relay(&proxy.tasks, upstream, outgoing, headers, afterwards).await;
    count(upstream, &response, status.as_str());
    Ok(response)
}

/// Passes a request on as it is, and its answer.
async fn forward(
    name: Option<&str>,
    request: HttpRequest,
    payload: Option<web::Payload>,
) -> Result<HttpResponse, ApiError> {
    let World { proxy, memory, door, settings } = World::of(&request)?;
    let upstream = proxy.upstream(name);
    who::identify(&door, &memory, &request, passes_authorization(&upstream)).await?;
    let upstream = upstream?;
    let body = match payload {
        Some(payload) => read(payload, &proxy.settings, &settings).await?,
        None => Bytes::new(),
    };
    let outgoing = outgoing(&request, upstream, body)?;
    let nothing = None::<fn(Answer, End) -> std::future::Ready<()>>;
    let response = relay::relay(&proxy.tasks, upstream, outgoing, HeaderMap::new(), nothing).await;
    count(upstream, &response, "none");
    Ok(response)
}

fn passes_authorization(upstream: &Result<&Arc<Upstream>, ApiError>) -> bool {
    upstream.as_ref().is_ok_and(|upstream| upstream.pass_authorization)
}

fn count(upstream: &Upstream, response: &HttpResponse, memory: &'static str) {
    let (upstream, status) = (upstream.name.clone(), response.status().as_str().to_owned());
    ::metrics::counter!(metrics::REQUESTS, "upstream" => upstream, "status" => status, "memory" => memory).increment(1);
}

/// What a request of the proxy needs of the server.
struct World {
    proxy: Data<Proxy>,
    memory: Data<Memory>,
    door: Data<Door>,
    settings: Data<ServerSettings>,
}

impl World {
    fn of(request: &HttpRequest) -> Result<Self, ApiError> {
        fn data<T: 'static>(request: &HttpRequest) -> Result<Data<T>, ApiError> {
            let missing = || ApiError::new(Kind::Internal, "a part of the server is missing");
            request.app_data::<Data<T>>().cloned().ok_or_else(missing)
        }
        Ok(Self { proxy: data(request)?, memory: data(request)?, door: data(request)?, settings: data(request)? })
    }
}

/// The body of a request, as it came.
async fn read(payload: web::Payload, settings: &ProxySettings, server: &ServerSettings) -> Result<Bytes, ApiError> {
    let limit_kib = settings.body_limit_kib;
    let reading = payload.to_bytes_limited(limit_kib * 1_024);
    match timeout(server.request_timeout(), reading).await {
        Ok(Ok(Ok(bytes))) => Ok(bytes),
        Ok(Ok(Err(_))) => Err(ApiError::new(Kind::Malformed, "the body broke off before its end: send it again")),
        Ok(Err(_)) => Err(ApiError::new(
            Kind::TooLarge,
            format!("the body is larger than {limit_kib} KiB: send less, or raise proxy.body_limit_kib"),
        )),
        Err(_) => Err(ApiError::new(Kind::TimedOut, "the body took too long to come: send it again")),
    }
}

/// The request to the upstream: the same step of the address, with the headers that are meant for it.
fn outgoing(request: &HttpRequest, upstream: &Upstream, body: Bytes) -> Result<Outgoing, ApiError> {
    let path = request.uri().path();
    let below = match path.strip_prefix("/u/") {
        Some(rest) => rest.split_once('/').map_or("", |(_, rest)| rest).strip_prefix("v1"),
        None => path.strip_prefix("/v1"),
    };
    let below = below.filter(|below| upstream::leads_down(below));
    let below = below.ok_or_else(|| ApiError::new(Kind::NotFound, "there is no such address"))?;
    Ok(Outgoing {
        method: if request.method() == actix_web::http::Method::POST { Method::POST } else { Method::GET },
        path: below.to_owned(),
        query: request.uri().query().map(str::to_owned),
        headers: upstream::to_forward(request.headers(), upstream.pass_authorization),
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_the_proxy_are_known() {
        for path in ["/v1/chat/completions", "/v1/models", "/v1/models/a/b", "/u/one/v1/chat/completions", "/u/x"] {
            assert!(is_mine(path), "{path}");
        }
        for path in ["/v1/context", "/v1/chat", "/v1/modelsx", "/users", "/"] {
            assert!(!is_mine(path), "{path}");
        }
    }
}
