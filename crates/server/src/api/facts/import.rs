//! Taking over facts from a file.

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, post};
use serde::{Deserialize, Serialize};
use skymem_core::{Collection, SessionId, Source};
use skymem_engine::{FactsImported, ImportFormat, ImportRequest, Memory};
use utoipa::{IntoParams, ToSchema};

use crate::auth::Writer;
use crate::body::{Query, Uploaded};
use crate::error::ApiError;
use crate::wire::Word;

/// The address of an import: it may take longer than other requests.
pub(crate) const ADDRESS: &str = "/v1/facts/import";

/// Takes over facts from a file: CSV, or what the MCP memory server keeps (JSON a line at a time).
///
/// CSV names its columns in the first line: `subject,predicate,object` and, if wanted, `valid_from`, `valid_to`,
/// `confidence`, `subject_kind`, `object_kind` and `object_is_literal`; our own export is read too. Where
/// `valid_from_is_said` is `false`, the line is taken for said at `valid_from`, and no start is. A line that cannot be
/// accepted is named by its number and does not keep the others out. Idempotent, so that an import without an answer is
/// sent again as it was.
#[utoipa::path(
    operation_id = "import_facts", tag = "facts", security(("key" = ["write"])), params(ImportQuery),
    request_body(content((String = "text/csv", example = "subject,predicate,object,valid_from\nAnna,lives_in,Bremen,2026-05\n"),
        (String = "application/x-ndjson",
         example = "{\"type\":\"relation\",\"from\":\"Anna\",\"to\":\"Bremen\",\"relationType\":\"lives in\"}\n"))),
    responses(
        (status = 200, description = "None was refused", body = FactsImportedAnswer),
        (status = 207, description = "Some were refused, and are named; the others are stored", body = FactsImportedAnswer),
    ),
)]
#[post("/facts/import")]
pub(crate) async fn import(
    who: Writer,
    memory: Data<Memory>,
    query: Query<ImportQuery>,
    file: Uploaded,
) -> Result<HttpResponse, ApiError> {
    let ImportQuery { format, session, collection, source } = query.into_inner();
    let format = format.map_or_else(|| ImportFormat::of(&file.0), |format| format.0);
    let request = ImportRequest { user: who.user, format, session, collection, source };
    FactsImportedAnswer::from(memory.import_facts(request, &file.0[..]).await?).respond()
}

/// What is imported, and where it goes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, expecting = "an object")]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportQuery {
    /// `csv`, `mcp`, or `statements`: a statement in JSON a line, perhaps with when it was said as `occurred_at`; absent to
    /// find it out from the file.
    #[param(value_type = Option<String>, example = "csv")]
    format: Option<Word<ImportFormat>>,
    /// The session they are told in; absent for `facts`.
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
    /// The collection they stand in; absent for the session's own.
    #[param(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Where they come from; absent for `import`.
    #[param(value_type = Option<String>, example = "import:memory.jsonl")]
    source: Option<Source>,
}

/// What came of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactsImportedAnswer {
    /// How many statements are written down by this: facts, and what kind an entity is.
    recorded: usize,
    /// How many were written down before.
    already: usize,
    /// How many are not kept: their session says so, or they were purged once.
    not_kept: usize,
    /// Lines that say nothing memory is to be told.
    left_out: Vec<LeftOutLines>,
    /// The first 1,000 lines that cannot be accepted.
    refused: Vec<RefusedLineItem>,
    /// How many cannot be accepted.
    refused_count: usize,
}

impl FactsImportedAnswer {
    fn respond(self) -> Result<HttpResponse, ApiError> {
        if self.recorded + self.already + self.not_kept + self.left_out.len() == 0
            && let Some(first) = self.refused.first()
        {
            // Nothing of it is what it should be: that is no success in part.
            let (line, more) = (first.line, self.refused_count - 1);
            let rest = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            return Err(ApiError::invalid("", format!("line {line}: {}{rest}", first.reason)));
        }
        let status = if self.refused_count == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS };
        Ok(HttpResponse::build(status).json(self))
    }
}

impl From<FactsImported> for FactsImportedAnswer {
    fn from(imported: FactsImported) -> Self {
        let left_out = imported.left_out.into_iter().map(|(reason, lines)| LeftOutLines { reason, lines });
        let refused = imported.refused.into_iter();
        Self {
            recorded: imported.recorded,
            already: imported.already,
            not_kept: imported.not_kept,
            left_out: left_out.collect(),
            refused: refused.map(|one| RefusedLineItem { line: one.line, reason: one.reason }).collect(),
            refused_count: imported.refused_count,
        }
    }
}

/// Lines that say nothing memory is to be told.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LeftOutLines {
    /// Why.
    reason: &'static str,
    /// How many.
    lines: usize,
}

/// A line that cannot be accepted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RefusedLineItem {
    /// Its number, from 1.
    line: u64,
    /// What is wrong with it.
    reason: String,
}
