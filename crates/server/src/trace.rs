//! The span and the log line of a request: who, which route, how it ended. Never what was said.

use actix_web::Error;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use tracing::Span;
use tracing::field::Empty;
use tracing_actix_web::RootSpanBuilder;

use crate::answer::request_id;

/// Makes the span of a request. The address and the query string stay out: they name sessions and texts.
pub(crate) struct Requests;

impl RootSpanBuilder for Requests {
    fn on_request_start(request: &ServiceRequest) -> Span {
        let method = request.method().as_str();
        let id = request_id(request);
        tracing::info_span!("request", %id, method, route = Empty, user = Empty, status = Empty)
    }

    fn on_request_end<B: MessageBody>(span: Span, outcome: &Result<ServiceResponse<B>, Error>) {
        let status = match outcome {
            Ok(answer) => {
                if let Some(route) = answer.request().match_pattern() {
                    span.record("route", route);
                }
                answer.status()
            }
            Err(error) => error.as_response_error().status_code(),
        };
        span.record("status", status.as_u16());
        if status.is_server_error() {
            tracing::warn!("A request was not met");
        } else {
            tracing::debug!("A request was answered");
        }
    }
}
