//! The description of the API in OpenAPI 3.1, and the page that shows it.

use actix_web::dev::ResourceDef;
use actix_web::get;
use actix_web::web::{Data, Json};
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{Modify, OpenApi as _};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::error::{EditConflict, FieldError, Problem};
use crate::proxy::openai::OpenAiError;
use crate::{pages, proxy};

/// The description of the API, in OpenAPI 3.1.
#[get("/openapi.json")]
pub(crate) async fn as_json(described: Data<OpenApi>) -> Json<Data<OpenApi>> {
    Json(described)
}

/// The page that shows the description. It loads nothing from elsewhere, and asks nobody whether it is valid.
pub(crate) fn docs() -> SwaggerUi {
    let config =
        Config::from("/openapi.json").validator_url("none").try_it_out_enabled(true).display_operation_id(true);
    SwaggerUi::new("/docs/{_:.*}").config(config)
}

/// The description before its routes are added.
pub(crate) fn begun() -> OpenApi {
    #[derive(utoipa::OpenApi)]
    #[openapi(
        info(
            title = "skymem",
            description = "Memory for assistants, on your own machine. Errors are RFC 9457 problems; their types are \
                           explained at /problems. An admin's key may act for another user with the header \
                           X-Memory-User.",
        ),
        components(schemas(Problem, FieldError, EditConflict, OpenAiError)),
        modifiers(&Keys),
        tags(
            (name = "recall", description = "Ask memory"),
            (name = "proxy", description = "Talk to a model through memory, as OpenAI's API has it"),
            (name = "turns", description = "Write down what is said"),
            (name = "sessions", description = "Conversations"),
            (name = "exchanges", description = "What is remembered, one by one"),
            (name = "forget", description = "Forget, take it back, remove for good"),
            (name = "facts", description = "What holds of whom, since when, and how we know"),
            (name = "files", description = "Markdown that stands in every prompt"),
            (name = "collections", description = "Shelves of exchanges"),
            (name = "vault", description = "Collections that only whoever has a key can read"),
            (name = "layers", description = "Ways of remembering"),
            (name = "audit", description = "Who changed what"),
            (name = "keys", description = "Ways in"),
            (name = "users", description = "Whose memory it is"),
            (name = "server", description = "How it is doing"),
        ),
    )]
    struct Skymem;

    Skymem::openapi()
}

struct Keys;

impl Modify for Keys {
    fn modify(&self, described: &mut OpenApi) {
        let key = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("skm_<id>_<secret>")
            .description(Some("A key, as `skymem key create` makes it. Its scopes: read, write, admin."))
            .build();
        described.components.get_or_insert_default().add_security_scheme("key", SecurityScheme::Http(key));
    }
}

/// The description with what is the same for every operation: how it can go wrong.
pub(crate) fn completed(mut described: OpenApi) -> OpenApi {
    for (path, item) in &mut described.paths.paths {
        for (_, operation) in operations_mut(item) {
            if proxy::is_mine(path) {
                let errors = "Any error: the upstream's, as it came, or one of this server";
                let any = refused(errors, "application/json", "OpenAiError");
                operation.responses.responses.insert("default".into(), any.into());
            } else {
                add_problems(path, operation);
            }
        }
    }
    described
}

fn add_problems(path: &str, operation: &mut Operation) {
    let mut add = |status: &str, description: &str| {
        operation.responses.responses.entry(status.to_owned()).or_insert_with(|| problem(description).into());
    };
    if path.starts_with("/v1/") {
        add("401", "No valid key");
        add("403", "The key lacks the scope");
        add("429", "Too many requests; Retry-After says when to come again");
    }
    add("503", "A part of the server gives no answer; try again in a moment");
    let takes_body = operation.request_body.is_some();
    if takes_body {
        add("400", "The body cannot be read");
        add("413", "The body is too large");
        add("415", "Another content type is needed");
    }
    let parameters: Vec<_> = operation.parameters.iter().flatten().filter_map(parameter).collect();
    if takes_body || !parameters.is_empty() {
        add("422", "A value cannot be accepted; `errors` names it");
    }
    if parameters.iter().any(|(place, _)| *place == ParameterIn::Path) {
        add("404", "There is nothing of that name");
    }
    if parameters.iter().any(|(_, name)| name == "If-Match") {
        add("409", "It has changed meanwhile; `conflict` holds both texts and the difference");
    }
    add("default", "Any other problem");
}

fn parameter(parameter: &RefOr<Parameter>) -> Option<(ParameterIn, String)> {
    match parameter {
        RefOr::T(parameter) => Some((parameter.parameter_in.clone(), parameter.name.clone())),
        RefOr::Ref(_) => None,
    }
}

fn problem(description: &str) -> Response {
    refused(description, Problem::CONTENT_TYPE, "Problem")
}

fn refused(description: &str, content_type: &str, schema: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name(schema)));
    ResponseBuilder::new().description(description).content(content_type, content).build()
}

fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [
        ("GET", item.get.as_mut()),
        ("PUT", item.put.as_mut()),
        ("POST", item.post.as_mut()),
        ("PATCH", item.patch.as_mut()),
        ("DELETE", item.delete.as_mut()),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation?)))
}

/// What can be asked for can be asked after.
fn and_head(method: &'static str) -> impl Iterator<Item = &'static str> {
    std::iter::once(method).chain((method == "GET").then_some("HEAD"))
}

/// Which methods each address answers, so that a wrong method can be told from a wrong address.
pub(crate) struct Routes(Vec<(ResourceDef, Vec<&'static str>)>);

impl Routes {
    /// The routes that are described, and the pages, which are not.
    pub(crate) fn of(described: &OpenApi) -> Self {
        let mut paths = described.paths.clone();
        let routes = paths.paths.iter_mut().map(|(path, item)| {
            // Only headings and the ids of models may hold slashes.
            let pattern = path.replace("{headings}", "{headings:.+}").replace("{model}", "{model:.+}");
            (ResourceDef::new(pattern), operations_mut(item).flat_map(|(method, _)| and_head(method)).collect())
        });
        let pages = pages::ADDRESSES.map(|page| (ResourceDef::new(page), and_head("GET").collect()));
        Self(routes.chain(pages).collect())
    }

    /// The methods of the address at `path`; `None` when there is no such address.
    pub(crate) fn methods(&self, path: &str) -> Option<&[&'static str]> {
        self.0.iter().find(|(route, _)| route.is_match(path)).map(|(_, methods)| methods.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_method_is_told_from_a_wrong_address() {
        let paths = utoipa::openapi::PathsBuilder::new()
            .path(
                "/v1/files/{file}/sections/{headings}",
                PathItem::new(utoipa::openapi::HttpMethod::Put, Operation::new()),
            )
            .path("/v1/trash", PathItem::new(utoipa::openapi::HttpMethod::Get, Operation::new()))
            .build();
        let mut described = begun();
        described.paths = paths;
        let routes = Routes::of(&described);

        assert_eq!(routes.methods("/v1/trash"), Some(&["GET", "HEAD"][..]));
        assert_eq!(routes.methods("/docs/"), Some(&["GET", "HEAD"][..]));
        assert_eq!(routes.methods("/v1/files/NOW.md/sections/a/b"), Some(&["PUT"][..]));
        assert_eq!(routes.methods("/v1/nothing"), None);
    }
}
