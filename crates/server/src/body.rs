//! Reading what a client sends: bodies, addresses and query strings, each with a clear word about what is wrong.

use std::future::{Future, Ready, ready};
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::error::PathError;
use actix_web::http::header::{self, HeaderMap};
use actix_web::web::{self, Bytes, Data};
use actix_web::{FromRequest, HttpRequest};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::error::{ApiError, FieldError, Kind};
use crate::settings::ServerSettings;

/// A JSON body of type `T`. A field that cannot be accepted is named with its path.
pub(crate) struct Json<T>(T);

impl<T> Json<T> {
    /// What was sent.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = ApiError;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = Text::from_request(request, payload);
        Box::pin(async move { Ok(Self(parse_object(&text.await?.text)?)) })
    }
}

/// A JSON body as it came, for handlers that must look before they parse.
pub(crate) struct Text {
    text: String,
    /// Whether it is JSON a line at a time.
    pub(crate) is_lines: bool,
}

impl Text {
    #[cfg(test)]
    pub(crate) fn new(text: &str, is_lines: bool) -> Self {
        Self { text: text.to_owned(), is_lines }
    }

    /// The whole of it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromRequest for Text {
    type Error = ApiError;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let limit_kib = limits(request).map_or(1_024, |settings| settings.body_limit_kib);
        let bytes = read(request, payload, limit_kib, &["application/json"]);
        Box::pin(async move { Ok(Self { text: utf8(bytes.await?)?, is_lines: false }) })
    }
}

/// A body of many items: JSON, or JSON a line at a time. It may be larger than others.
pub(crate) struct Bulk(pub(crate) Text);

impl FromRequest for Bulk {
    type Error = ApiError;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let limit_kib = limits(request).map_or(16_384, |settings| settings.bulk_limit_kib);
        let is_lines = media_type(request.headers()).is_some_and(|kind| LINES.contains(&kind.as_str()));
        let bytes = read(request, payload, limit_kib, &["application/json", LINES[0], LINES[1]]);
        Box::pin(async move { Ok(Self(Text { text: utf8(bytes.await?)?, is_lines })) })
    }
}

/// A file as it came, line by line: its reader says what is wrong with it. It may be as large as a body of many items.
pub(crate) struct Uploaded(pub(crate) Bytes);

impl FromRequest for Uploaded {
    type Error = ApiError;
    type Future = Reading<Self>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let limit_kib = limits(request).map_or(16_384, |settings| settings.bulk_limit_kib);
        let kinds = ["text/csv", LINES[0], LINES[1], "application/json", "text/plain", "application/octet-stream"];
        let bytes = read(request, payload, limit_kib, &kinds);
        Box::pin(async move { Ok(Self(bytes.await?)) })
    }
}

const LINES: [&str; 2] = ["application/x-ndjson", "application/jsonl"];

type Reading<T> = Pin<Box<dyn Future<Output = Result<T, ApiError>>>>;

fn limits(request: &HttpRequest) -> Option<&ServerSettings> {
    request.app_data::<Data<ServerSettings>>().map(|settings| &***settings)
}

fn read(request: &HttpRequest, payload: &mut Payload, limit_kib: usize, kinds: &[&str]) -> Reading<Bytes> {
    if let Err(error) = check_media_type(request.headers(), kinds) {
        return Box::pin(async { Err(error) });
    }
    let payload = web::Payload::from_request(request, payload);
    Box::pin(async move {
        let payload = payload.await.map_err(|_| ApiError::new(Kind::Malformed, "the body could not be read"))?;
        match payload.to_bytes_limited(limit_kib * 1024).await {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(_)) => Err(ApiError::new(Kind::Malformed, "the body broke off before its end: send it again")),
            Err(_) => Err(ApiError::new(
                Kind::TooLarge,
                format!("the body is larger than {limit_kib} KiB: send it in several requests"),
            )),
        }
    })
}

fn check_media_type(headers: &HeaderMap, kinds: &[&str]) -> Result<(), ApiError> {
    let expects = || kinds.join(" or ");
    let encoding = headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.as_bytes());
    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        return Err(ApiError::new(Kind::UnsupportedMediaType, "send the body without Content-Encoding"));
    }
    let Some(kind) = media_type(headers) else {
        let detail = format!("there is no Content-Type: send {}", expects());
        return Err(ApiError::new(Kind::UnsupportedMediaType, detail));
    };
    if !kinds.contains(&kind.as_str()) {
        let detail = format!("the Content-Type is {kind}: send {}", expects());
        return Err(ApiError::new(Kind::UnsupportedMediaType, detail));
    }
    match charset(headers) {
        Some(charset) if charset != "utf-8" && charset != "utf8" => {
            Err(ApiError::new(Kind::UnsupportedMediaType, format!("the charset is {charset}: send UTF-8")))
        }
        _ => Ok(()),
    }
}

fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

fn charset(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.to_ascii_lowercase();
    let charset = value.split(';').skip(1).find_map(|part| part.trim().strip_prefix("charset="))?;
    Some(charset.trim_matches('"').to_owned())
}

fn utf8(bytes: Bytes) -> Result<String, ApiError> {
    String::from_utf8(bytes.into()).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        ApiError::new(Kind::Malformed, format!("the body is not UTF-8 at byte {place}"))
    })
}

/// Reads `text` as a JSON object of type `T`.
pub(crate) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    // Serde would take a list for an object, by position.
    if text.trim_start().starts_with('[') {
        return Err(ApiError::invalid("", "invalid type: sequence, expected an object"));
    }
    parse(text)
}

/// Reads `text` as JSON of type `T`.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        from_json(error.into_inner(), &path)
    })?;
    json.end().map_err(|error| from_json(error, "."))?;
    Ok(value)
}

fn from_json(error: serde_json::Error, path: &str) -> ApiError {
    if !error.is_data() {
        return ApiError::new(Kind::Malformed, format!("the body is not JSON: {error}"));
    }
    // The place in the text says less than the path.
    let message = error.to_string();
    let reason = message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason);
    let path = if path == "." { "" } else { path };
    ApiError::invalid_fields(vec![FieldError { field: field(path, reason), reason: reason.to_owned() }])
}

/// Where the fault is: a missing field is reported at its parent, and named in words only.
fn field(path: &str, reason: &str) -> String {
    let missing = reason.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    match missing {
        Some(name) if path.is_empty() => name.to_owned(),
        Some(name) => format!("{path}.{name}"),
        None => path.to_owned(),
    }
}

/// A query string of type `T`. A parameter that cannot be accepted is named.
pub(crate) struct Query<T>(T);

impl<T> Query<T> {
    /// What was asked.
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(parameters(request.query_string()).map(Self))
    }
}

fn parameters<T: DeserializeOwned>(query: &str) -> Result<T, ApiError> {
    let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let path = error.path().to_string();
        let reason = error.into_inner().to_string();
        let path = if path == "." { "" } else { &path };
        // Standard parsers speak of strings, which is what every parameter is.
        let told = match reason.as_str() {
            "invalid digit found in string" | "cannot parse integer from empty string" => "is a whole number",
            "provided string was not `true` or `false`" => "is true or false",
            reason => reason,
        };
        ApiError::invalid(field(path, &reason), told)
    })
}

/// How a name in an address that cannot be accepted is answered.
pub(crate) fn path_config() -> web::PathConfig {
    web::PathConfig::default().error_handler(|error, _| {
        let PathError::Deserialize(error) = error else { return ApiError::invalid("", "address").into() };
        ApiError::invalid("", format!("in the address: {error}")).into()
    })
}

/// Whether path and query, once their escapes are undone, are UTF-8: actix would put replacement characters there.
pub(crate) fn check_address(request: &actix_web::dev::ServiceRequest) -> Result<(), ApiError> {
    let uri = request.uri();
    for part in [uri.path(), uri.query().unwrap_or_default()] {
        if percent_decode_str(part).decode_utf8().is_err() {
            return Err(ApiError::new(Kind::Malformed, "the address is not UTF-8 once its %-escapes are undone"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[expect(dead_code, reason = "read by serde alone")]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[expect(dead_code, reason = "read by serde alone")]
        count: u8,
    }

    fn check(text: &str, detail: &str) {
        let error = parse::<Order>(text).unwrap_err();
        assert_eq!(error.detail(), detail, "{text}");
    }

    #[test]
    fn a_fault_in_a_body_is_named_with_its_path() {
        check(
            r#"{"items": [{"count": 1}, {"count": "x"}]}"#,
            "items[1].count: invalid type: string \"x\", expected u8",
        );
        check(r#"{"items": [{"count": 300}]}"#, "items[0].count: invalid value: integer `300`, expected u8");
        check(r#"{"items": [{}]}"#, "items[0].count: missing field `count`");
        check(r#"{"items": [], "colour": 1}"#, "colour: unknown field `colour`, expected `items`");
        check("{}", "items: missing field `items`");
    }

    #[test]
    fn a_fault_in_a_query_string_is_named_with_its_parameter() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Asked {
            #[expect(dead_code, reason = "read by serde alone")]
            of: String,
            #[expect(dead_code, reason = "read by serde alone")]
            limit: Option<crate::wire::Whole<1, 20>>,
            #[serde(default)]
            #[expect(dead_code, reason = "read by serde alone")]
            all: bool,
        }
        for (query, detail) in [
            ("limit=5", "of: missing field `of`"),
            ("of=a&limit=many", "limit: is a whole number"),
            ("of=a&limit=", "limit: is a whole number"),
            ("of=a&limit=21", "limit: is a whole number from 1 to 20, not 21"),
            ("of=a&all=yes", "all: is true or false"),
            ("of=a&of=b", "duplicate field `of`"),
            ("of=a&colour=red", "colour: unknown field `colour`, expected one of `of`, `limit`, `all`"),
        ] {
            assert_eq!(parameters::<Asked>(query).unwrap_err().detail(), detail, "{query}");
        }
        assert!(parameters::<Asked>("of=%C3%A4+b&limit=20&all=true").is_ok());
    }

    #[test]
    fn what_is_not_json_is_told_apart_from_what_is_wrong() {
        check("", "the body is not JSON: EOF while parsing a value at line 1 column 0");
        check("{\"items\": [}", "the body is not JSON: expected value at line 1 column 12");
        check("{\"items\": []} {}", "the body is not JSON: trailing characters at line 1 column 15");
    }

    #[test]
    fn only_json_in_utf8_is_read() {
        for (value, fine) in [
            ("application/json", true),
            ("Application/JSON; charset=UTF-8", true),
            ("application/json; charset=latin1", false),
            ("text/plain", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(check_media_type(&headers, &["application/json"]).is_ok(), fine, "{value}");
        }
    }
}
