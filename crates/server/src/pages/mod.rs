//! The few pages for people: where things are, and what each kind of problem means.

use std::fmt::Write as _;

use actix_web::http::header;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};

use crate::error::{ApiError, Kind};
use crate::openapi::Routes;

/// Where the pages stand, the description and its page included.
pub(crate) const ADDRESSES: [&str; 6] =
    ["/", "/docs", "/docs/{rest:.*}", "/openapi.json", "/problems", "/problems/{kind}"];

/// Where things are.
#[get("/")]
pub(crate) async fn home() -> HttpResponse {
    html(include_str!("home.html").to_owned())
}

/// People leave the slash out.
#[get("/docs")]
pub(crate) async fn docs_without_slash() -> HttpResponse {
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, "/docs/")).finish()
}

/// Every kind of problem.
#[get("/problems")]
pub(crate) async fn problems() -> HttpResponse {
    let mut list = String::from("<h1>Problems</h1>\n<dl>\n");
    for kind in Kind::ALL {
        let told = kind.told();
        // Writing to a string does not fail.
        let _ = writeln!(
            list,
            "<dt><a href=\"/problems/{}\">{}</a> ({})</dt><dd>{}</dd>",
            told.slug, told.title, told.status, told.remedy
        );
    }
    list.push_str("</dl>\n");
    html(page("Problems", &list))
}

/// One kind of problem: what its `type` leads to.
#[get("/problems/{kind}")]
pub(crate) async fn problem(slug: Path<String>) -> Result<HttpResponse, ApiError> {
    let told = Kind::ALL.into_iter().map(Kind::told).find(|told| told.slug == *slug);
    let told = told.ok_or_else(|| ApiError::not_found(format!("kind of problem {slug:?}")))?;
    let body = format!(
        "<h1>{}</h1>\n<p>{}</p>\n<p>Status {}. <a href=\"/problems\">All problems</a></p>\n",
        told.title, told.remedy, told.status
    );
    Ok(html(page(told.title, &body)))
}

/// There is no such address, or it answers to another method.
pub(crate) async fn nowhere(request: HttpRequest, routes: Data<Routes>) -> HttpResponse {
    use actix_web::ResponseError as _;

    let Some(methods) = routes.methods(request.path()) else {
        return ApiError::new(Kind::NoSuchRoute, "there is no such address: they stand at /docs").error_response();
    };
    let allow = methods.join(", ");
    let error = ApiError::new(Kind::MethodNotAllowed, format!("this address answers to {allow}"));
    let mut response = error.error_response();
    if let Ok(allow) = header::HeaderValue::from_str(&allow) {
        response.headers_mut().insert(header::ALLOW, allow);
    }
    response
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title} - skymem</title>\n{body}</html>\n"
    )
}

fn html(body: String) -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(body)
}
