//! What every answer has: the id of its request, headers that keep browsers from doing harm, and, when it is an
//! error, the shape of a problem. A HEAD is a GET of which the body is left out.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, HttpResponse};

use crate::error::Problem;
use crate::proxy;
use crate::proxy::openai::{self, AsItIs};

/// Carries the request's id over to the answer, shapes errors, and adds headers.
pub(crate) async fn complete(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let about = About {
        id: request_id(&request),
        head_only: request.method() == Method::HEAD,
        is_docs: request.path().starts_with("/docs"),
        is_proxied: proxy::is_mine(request.path()),
    };
    if about.head_only {
        // Routes know GET alone; the connection remembers by itself to send no body.
        request.head_mut().method = Method::GET;
    }
    match next.call(request).await {
        Ok(answer) => {
            let (request, response) = answer.map_into_boxed_body().into_parts();
            Ok(ServiceResponse::new(request, about.completes(response)))
        }
        // An error that has outrun its request: a time-out. It still answers like any other.
        Err(error) => {
            let response = about.completes(error.error_response());
            Err(InternalError::from_response(error, response).into())
        }
    }
}

struct About {
    id: String,
    head_only: bool,
    is_docs: bool,
    /// Whether OpenAI's clients are answered.
    is_proxied: bool,
}

impl About {
    fn completes(&self, mut response: HttpResponse) -> HttpResponse {
        let status = response.status();
        let as_it_is = response.extensions_mut().remove::<AsItIs>().is_some();
        if as_it_is {
            // It was there so that nothing compresses what is relayed.
            let headers = response.headers_mut();
            if headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "identity") {
                headers.remove(header::CONTENT_ENCODING);
            }
        } else if status.is_client_error() || status.is_server_error() {
            let ours = response.extensions_mut().remove::<Problem>();
            let problem = ours.unwrap_or_else(|| Problem::of_status(status)).in_request(&self.id);
            let (status, kind, body) = match self.is_proxied {
                true => {
                    let (status, body) = openai::of_problem(&problem);
                    (status, "application/json", body)
                }
                false => (status, Problem::CONTENT_TYPE, problem.to_json()),
            };
            let body = if self.head_only { Vec::new() } else { body };
            response = response.set_body(BoxBody::new(body));
            *response.status_mut() = status;
            let headers = response.headers_mut();
            headers.remove(header::CONTENT_LENGTH);
            headers.remove(header::CONTENT_ENCODING);
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        self.add_headers(response.headers_mut(), as_it_is);
        response
    }

    fn add_headers(&self, headers: &mut HeaderMap, as_it_is: bool) {
        // Whoever answers names the request: for what is relayed that is the upstream.
        let named = as_it_is && headers.contains_key(X_REQUEST_ID);
        if let (false, Ok(id)) = (named, HeaderValue::from_str(&self.id)) {
            headers.insert(X_REQUEST_ID, id);
        }
        let policy = if self.is_docs { DOCS_POLICY } else { NOTHING_POLICY };
        for (name, value) in [
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
            // What somebody remembers stays out of every cache on the way.
            (header::CACHE_CONTROL, "no-store"),
        ] {
            if !headers.contains_key(&name) {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
    }
}

/// An answer of the API loads nothing and is shown in no frame.
const NOTHING_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The docs page runs scripts of this server alone. Swagger UI writes styles and small images into its page.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; font-src 'self' data:; connect-src 'self'; \
                           frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id the caller sent, when it can go into a header and a log line; else the one that the trace has.
pub(crate) fn request_id(request: &ServiceRequest) -> String {
    let sent = request.headers().get(&X_REQUEST_ID).and_then(|id| id.to_str().ok());
    match sent.filter(|id| is_fine(id)) {
        Some(id) => id.to_owned(),
        None => {
            let extensions = request.extensions();
            extensions.get::<tracing_actix_web::RequestId>().map(ToString::to_string).unwrap_or_default()
        }
    }
}

fn is_fine(id: &str) -> bool {
    (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_would_break_a_log_line_is_not_taken_over() {
        assert!(is_fine("01JDX-7"));
        for bad in ["", "a b", "a\tb", "ä", &"x".repeat(129)] {
            assert!(!is_fine(bad), "{bad:?}");
        }
    }
}
