//! What is counted about requests, and the page that Prometheus reads.

use std::sync::OnceLock;
use std::time::Instant;

use actix_web::body::BoxBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, HttpRequest, HttpResponse, get};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use skymem_engine::{Memory, Scope};

use crate::auth::{Door, identify};
use crate::error::ApiError;
use crate::settings::ServerSettings;

/// Where all metrics of this process are kept; `None` when something else in the process keeps them.
pub(crate) fn recorder() -> Option<&'static PrometheusHandle> {
    // Once per process, however many servers run in it.
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER.get_or_init(install).as_ref()
}

fn install() -> Option<PrometheusHandle> {
    let installed = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder);
    match installed {
        Ok(handle) => {
            describe();
            Some(handle)
        }
        Err(error) => {
            tracing::warn!(%error, "Metrics are kept elsewhere: /metrics stays empty");
            None
        }
    }
}

const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

fn describe() {
    crate::proxy::metrics::describe();
    crate::rates::describe();
    metrics::describe_counter!(REQUESTS, "Requests answered, by route, method and status.");
    metrics::describe_histogram!(DURATION, metrics::Unit::Seconds, "Time until a request was answered, by route.");
}

const REQUESTS: &str = "skymem_http_requests_total";
const DURATION: &str = "skymem_http_request_duration_seconds";

/// Counts a request and how long it took. Labels are route patterns, never addresses: those name sessions.
pub(crate) async fn count(request: ServiceRequest, next: Next<BoxBody>) -> Result<ServiceResponse<BoxBody>, Error> {
    let begun = Instant::now();
    let method = known_method(request.method().as_str());

    let outcome = next.call(request).await;

    let (route, status) = match &outcome {
        Ok(answer) => (answer.request().match_pattern(), answer.status()),
        Err(error) => (None, error.as_response_error().status_code()),
    };
    let route = route.unwrap_or_else(|| "none".into());
    metrics::counter!(REQUESTS, "route" => route.clone(), "method" => method, "status" => status.as_str().to_owned())
        .increment(1);
    metrics::histogram!(DURATION, "route" => route, "method" => method).record(begun.elapsed());
    outcome
}

/// A label has few values, whatever clients invent.
fn known_method(method: &str) -> &'static str {
    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
        .into_iter()
        .find(|&known| known == method)
        .unwrap_or("other")
}

/// All metrics of this process, in the text format of Prometheus.
#[utoipa::path(
    operation_id = "metrics", tag = "server", security(("key" = ["read"]), ()),
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain")),
)]
#[get("/metrics")]
pub(crate) async fn page(
    request: HttpRequest,
    memory: Data<Memory>,
    door: Data<Door>,
    settings: Data<ServerSettings>,
) -> Result<HttpResponse, ApiError> {
    if settings.metrics_need_key {
        identify(&door, &memory, &request).await?.may(Scope::Read)?;
    }
    memory.gauge().await;
    let text = recorder().map(PrometheusHandle::render).unwrap_or_default();
    Ok(HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(text))
}
