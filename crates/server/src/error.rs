//! [`ApiError`]: what goes wrong at a door, told as RFC 9457 problems. The one place with status codes.

use std::fmt;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use skymem_core::conversation::BadName;
use skymem_engine::{EngineError, Stale};
use utoipa::ToSchema;

/// Why a request was not met: which kind of problem it is, and what to do next.
#[derive(Debug)]
pub(crate) struct ApiError {
    kind: Kind,
    detail: String,
    errors: Vec<FieldError>,
    conflict: Option<Box<EditConflict>>,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// A problem of `kind`; `detail` says what to do next.
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), conflict: None, retry_after: None }
    }

    /// The value at `field` cannot be accepted, for `reason`.
    pub(crate) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::invalid_fields(vec![FieldError { field: field.into(), reason: reason.into() }])
    }

    /// Several values cannot be accepted.
    pub(crate) fn invalid_fields(errors: Vec<FieldError>) -> Self {
        let detail = match errors.as_slice() {
            [only] if only.field.is_empty() => only.reason.clone(),
            [only] => format!("{}: {}", only.field, only.reason),
            [first, ..] => format!("{}: {} (and {} more)", first.field, first.reason, errors.len() - 1),
            [] => String::new(),
        };
        Self { errors, ..Self::new(Kind::Invalid, detail) }
    }

    /// There is nothing of that name; `what` says which.
    pub(crate) fn not_found(what: impl fmt::Display) -> Self {
        Self::new(Kind::NotFound, format!("there is no {what}"))
    }

    /// The same request will be met after `wait`.
    pub(crate) fn rate_limited(wait: Duration, detail: impl Into<String>) -> Self {
        Self { retry_after: Some(wait), ..Self::new(Kind::RateLimited, detail) }
    }

    /// Which kind of problem it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// In words, as the caller reads it.
    #[cfg(test)]
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The first field that cannot be accepted, or the whole when no field is named.
    pub(crate) fn into_first_fault(self) -> FieldError {
        let Self { detail, errors, .. } = self;
        errors.into_iter().next().unwrap_or(FieldError { field: String::new(), reason: detail })
    }

    fn problem(&self) -> Problem {
        Problem {
            detail: self.detail.clone(),
            errors: self.errors.clone(),
            conflict: self.conflict.clone(),
            ..Problem::of(self.kind)
        }
    }
}

/// The kinds of problem that programs can tell apart by their `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Malformed,
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    NoSuchRoute,
    SwitchedOff,
    MethodNotAllowed,
    Stale,
    Conflict,
    TooLarge,
    Locked,
    UnsupportedMediaType,
    WrongHost,
    RateLimited,
    TimedOut,
    Unavailable,
    Internal,
}

/// What a kind of problem is called and what it means.
pub(crate) struct Told {
    /// The last part of its `type`; never changes.
    pub(crate) slug: &'static str,
    /// The status it is answered with.
    pub(crate) status: StatusCode,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// What to do about it.
    pub(crate) remedy: &'static str,
}

impl Kind {
    /// Every kind, in order of status.
    pub(crate) const ALL: [Kind; 18] = [
        Kind::Malformed,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::NotFound,
        Kind::NoSuchRoute,
        Kind::SwitchedOff,
        Kind::MethodNotAllowed,
        Kind::Conflict,
        Kind::Stale,
        Kind::TooLarge,
        Kind::UnsupportedMediaType,
        Kind::WrongHost,
        Kind::Invalid,
        Kind::Locked,
        Kind::RateLimited,
        Kind::Internal,
        Kind::Unavailable,
        Kind::TimedOut,
    ];

    /// What it is called and what it means.
    pub(crate) fn told(self) -> Told {
        let (slug, status, title, remedy) = match self {
            Kind::Malformed => (
                "malformed",
                StatusCode::BAD_REQUEST,
                "The request cannot be read",
                "Its body is not JSON, or something in it is not UTF-8. The detail says where.",
            ),
            Kind::Unauthenticated => (
                "unauthenticated",
                StatusCode::UNAUTHORIZED,
                "No valid key",
                "Send a key: Authorization: Bearer skm_... One is made with `skymem key create`.",
            ),
            Kind::Forbidden => (
                "forbidden",
                StatusCode::FORBIDDEN,
                "The key may not do this",
                "Use a key with the scope that the detail names.",
            ),
            Kind::NotFound => (
                "not-found",
                StatusCode::NOT_FOUND,
                "Not there",
                "What the request names is not in your memory. Nothing was changed.",
            ),
            Kind::NoSuchRoute => (
                "no-such-route",
                StatusCode::NOT_FOUND,
                "No such address",
                "The addresses there are stand at /docs and in /openapi.json.",
            ),
            Kind::SwitchedOff => (
                "switched-off",
                StatusCode::NOT_FOUND,
                "Switched off",
                "This part of memory is not switched on in the configuration of this server.",
            ),
            Kind::MethodNotAllowed => (
                "method-not-allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "Another method is needed",
                "The Allow header names the methods of this address.",
            ),
            Kind::Conflict => (
                "conflict",
                StatusCode::CONFLICT,
                "It contradicts what is there",
                "The detail says what to change first. Nothing was changed.",
            ),
            Kind::Stale => (
                "stale",
                StatusCode::CONFLICT,
                "It has changed meanwhile",
                "Nothing was written. `conflict` holds the present text, yours and the difference: merge them, and \
                 send the result with the present revision.",
            ),
            Kind::TooLarge => (
                "too-large",
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is too large",
                "Send it in several requests; many turns at once belong to POST /v1/turns.",
            ),
            Kind::UnsupportedMediaType => (
                "unsupported-media-type",
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "Another content type is needed",
                "Send Content-Type: application/json, or what the detail names.",
            ),
            Kind::WrongHost => (
                "wrong-host",
                StatusCode::MISDIRECTED_REQUEST,
                "Not a name of this server",
                "Add the name you call this server by to server.allowed_hosts.",
            ),
            Kind::Invalid => (
                "invalid",
                StatusCode::UNPROCESSABLE_ENTITY,
                "A value cannot be accepted",
                "`errors` names the fields and what they may be. Nothing was changed.",
            ),
            Kind::Locked => (
                "locked",
                StatusCode::LOCKED,
                "It is sealed and locked",
                "Unlock the collection that the detail names: POST /v1/collections/{collection}/unlock, or \
                 `skymem vault unlock`.",
            ),
            Kind::RateLimited => (
                "rate-limited",
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests",
                "Wait as many seconds as Retry-After says.",
            ),
            Kind::Internal => (
                "internal",
                StatusCode::INTERNAL_SERVER_ERROR,
                "A fault of the server",
                "This is a bug. The server's log has more under the request id.",
            ),
            Kind::Unavailable => (
                "unavailable",
                StatusCode::SERVICE_UNAVAILABLE,
                "No answer from a part of the server",
                "Try again in a moment; `skymem doctor` says what is wrong. A write that was not answered may be sent \
                 again: it is stored once.",
            ),
            Kind::TimedOut => (
                "timed-out",
                StatusCode::GATEWAY_TIMEOUT,
                "It took too long",
                "Ask for less at a time, or try again. A write may be sent again: it is stored once.",
            ),
        };
        Told { slug, status, title, remedy }
    }

    fn of_status(status: StatusCode) -> Kind {
        let same = Kind::ALL.into_iter().find(|kind| kind.told().status == status);
        same.unwrap_or(if status.is_client_error() { Kind::Malformed } else { Kind::Internal })
    }
}

/// What went wrong, as RFC 9457 tells it.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The kind of problem, stable over versions: `/problems/not-found`. A page of this server explains it.
    #[serde(rename = "type")]
    kind: String,
    /// The kind of problem, for people.
    title: String,
    /// The status of the answer.
    status: u16,
    /// What happened this time, and what to do next.
    detail: String,
    /// This one occurrence: `urn:skymem:request:` and the request id.
    instance: String,
    /// The id of the request, as in the `x-request-id` header and in the server's log.
    request_id: String,
    /// The fields that cannot be accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    /// Both sides of an edit that came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    conflict: Option<Box<EditConflict>>,
}

/// A field that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FieldError {
    /// Where it stands: `turns[3].role`, `query.limit`.
    pub(crate) field: String,
    /// What it may be.
    pub(crate) reason: String,
}

/// Both sides of an edit that started from a revision that is no longer the present one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct EditConflict {
    /// The revision the edit started from; `none` when it was to be a new file.
    base: String,
    /// The present revision; null when the file is gone.
    current_revision: Option<String>,
    /// The present text; null when the file is gone.
    current: Option<String>,
    /// The text the edit would have written.
    yours: String,
    /// Unified diff from the present text to yours.
    diff: String,
}

impl Problem {
    /// What RFC 9457 calls it.
    pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

    /// The problem behind an error that actix answered by itself.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        Self { status: status.as_u16(), ..Self::of(Kind::of_status(status)) }
    }

    fn of(kind: Kind) -> Self {
        let told = kind.told();
        Self {
            kind: format!("/problems/{}", told.slug),
            title: told.title.into(),
            status: told.status.as_u16(),
            detail: told.remedy.into(),
            instance: String::new(),
            request_id: String::new(),
            errors: Vec::new(),
            conflict: None,
        }
    }

    /// The same, with the id of the request it happened in.
    pub(crate) fn in_request(mut self, id: &str) -> Self {
        self.instance = format!("urn:skymem:request:{id}");
        self.request_id = id.into();
        self
    }

    /// The status of the answer.
    pub(crate) fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The last part of its `type`.
    pub(crate) fn slug(&self) -> &str {
        self.kind.rsplit('/').next().unwrap_or_default()
    }

    /// What happened this time, and what to do next.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The first field that cannot be accepted.
    pub(crate) fn first_field(&self) -> Option<&str> {
        self.errors.first().map(|error| error.field.as_str()).filter(|field| !field.is_empty())
    }

    /// As it is sent.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl fmt::Display for ApiError {
    // Shown in logs: the kind alone, because a detail may quote what was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.told().slug)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.kind.told().status
    }

    fn error_response(&self) -> HttpResponse<BoxBody> {
        let mut response = HttpResponse::build(self.status_code());
        if let Some(wait) = self.retry_after {
            // Rounded up: a client that comes back on the second must be let in.
            response.insert_header((header::RETRY_AFTER, wait.as_secs() + 1));
        } else if self.kind == Kind::Unavailable {
            response.insert_header((header::RETRY_AFTER, 1));
        } else if self.kind == Kind::Unauthenticated {
            response.insert_header((header::WWW_AUTHENTICATE, "Bearer realm=\"skymem\""));
        }
        let problem = self.problem();
        let mut response = response.content_type(Problem::CONTENT_TYPE).json(&problem);
        response.extensions_mut().insert(problem);
        response
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(why) => ApiError::invalid("", why),
            EngineError::NotFound(what) => ApiError::not_found(what),
            EngineError::Conflict(why) => ApiError::new(Kind::Conflict, why),
            EngineError::Locked(why) => ApiError::new(Kind::Locked, why),
            EngineError::Off(why) => ApiError::new(Kind::SwitchedOff, why),
            EngineError::Stale(stale) => ApiError {
                conflict: Some(Box::new(EditConflict::from(*stale))),
                ..ApiError::new(
                    Kind::Stale,
                    "the file has changed since the revision you started from: merge and try again",
                )
            },
            EngineError::Unavailable { what, source } => {
                tracing::error!(what, cause = %causes(&*source), "A request could not be met");
                ApiError::new(Kind::Unavailable, format!("{what}: try again in a moment"))
            }
        }
    }
}

/// An error and what caused it, in one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        next = cause.source();
    }
    line
}

impl From<Stale> for EditConflict {
    fn from(stale: Stale) -> Self {
        let Stale { base, current, yours, diff } = stale;
        let (current_revision, current) = current.map(|file| (file.head.revision.0, file.text)).unzip();
        Self { base, current_revision, current, yours, diff }
    }
}

impl From<BadName> for ApiError {
    fn from(BadName(why): BadName) -> Self {
        ApiError::invalid("", why)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_type_of_its_own_and_an_error_status() {
        let slugs: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.told().slug).collect();

        assert_eq!(slugs.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            let told = kind.told();
            assert!(told.status.is_client_error() || told.status.is_server_error(), "{}", told.slug);
        }
    }

    #[test]
    fn a_status_of_actix_becomes_the_problem_of_that_status() {
        assert_eq!(Kind::of_status(StatusCode::PAYLOAD_TOO_LARGE), Kind::TooLarge);
        assert_eq!(Kind::of_status(StatusCode::NOT_FOUND), Kind::NotFound);
        assert_eq!(Kind::of_status(StatusCode::EXPECTATION_FAILED), Kind::Malformed);
        assert_eq!(Kind::of_status(StatusCode::BAD_GATEWAY), Kind::Internal);
    }

    #[test]
    fn the_log_never_quotes_what_was_sent() {
        let error = ApiError::invalid("content", "invalid type: string \"my secret\"");

        assert_eq!(error.to_string(), "invalid");
    }
}
