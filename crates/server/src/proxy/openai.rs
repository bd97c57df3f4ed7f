//! Errors as OpenAI's clients read them.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::Problem;

/// What went wrong, as OpenAI's API tells it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenAiError {
    error: OpenAiErrorBody,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OpenAiErrorBody {
    /// What happened, and what to do next.
    message: String,
    /// `invalid_request_error`, `permission_error`, `rate_limit_error`, `server_error` or `upstream_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The header or field that cannot be accepted.
    param: Option<String>,
    /// What programs tell it by: `invalid_api_key`, `upstream_unreachable`, ...
    code: String,
}

/// Why there is nothing of an upstream to pass on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status the client gets: 502 or 504.
    pub(crate) status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// The upstream cannot be reached, or broke off before it said anything.
    pub(crate) fn unreachable(message: String) -> Self {
        Self { status: StatusCode::BAD_GATEWAY, code: "upstream_unreachable", message }
    }

    /// The upstream said nothing in time.
    pub(crate) fn late(message: String) -> Self {
        Self { status: StatusCode::GATEWAY_TIMEOUT, code: "upstream_timeout", message }
    }

    /// As it is sent.
    pub(crate) fn respond(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status).content_type("application/json").body(error(
            &self.message,
            "upstream_error",
            None,
            self.code,
        ));
        response.extensions_mut().insert(AsItIs);
        response
    }
}

/// Marks an answer whose body and status are to reach the client as they are.
pub(crate) struct AsItIs;

/// A problem of this server in OpenAI's shape, with the status that its clients know it by.
pub(crate) fn of_problem(problem: &Problem) -> (StatusCode, Vec<u8>) {
    // What cannot be accepted is a bad request there.
    let status = match problem.status_code() {
        StatusCode::UNPROCESSABLE_ENTITY => StatusCode::BAD_REQUEST,
        status => status,
    };
    let kind = match status.as_u16() {
        429 => "rate_limit_error",
        403 => "permission_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    let code = match problem.slug() {
        "unauthenticated" => "invalid_api_key".to_owned(),
        "rate-limited" => "rate_limit_exceeded".to_owned(),
        slug => slug.replace('-', "_"),
    };
    (status, error(problem.detail(), kind, problem.first_field(), &code).into_bytes())
}

fn error(message: &str, kind: &'static str, param: Option<&str>, code: &str) -> String {
    let (message, param, code) = (message.to_owned(), param.map(str::to_owned), code.to_owned());
    serde_json::to_string(&OpenAiError { error: OpenAiErrorBody { message, kind, param, code } }).unwrap_or_default()
}
