//! Memory files: Markdown that stands in every prompt. Each write names the revision it started from.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::http::header::{self, ETag, EntityTag, HeaderMap};
use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{Error, FromRequest, HttpRequest, HttpResponse, HttpResponseBuilder, delete, get, post, put};
use chrono::{DateTime, Utc};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use skymem_core::files::{Edit, FileHead, FileName, FileSection, FileText, Revision, RevisionHead};
use skymem_engine::Memory;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Reader, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Prose, Words};

/// Lists your memory files, by name, without their text.
#[utoipa::path(
    operation_id = "list_files", tag = "files", security(("key" = ["read"])),
    responses((status = 200, description = "The files", body = FilesAnswer)),
)]
#[get("/files")]
pub(crate) async fn list(who: Reader, memory: Data<Memory>) -> Result<Answer<FilesAnswer>, ApiError> {
    let files = memory.files(who.user).await?;
    Ok(Answer(FilesAnswer { files: files.into_iter().map(FileHeadItem::from).collect() }))
}

/// Shows one file with its text. `ETag` is its revision; with `If-None-Match` an unchanged one is not sent again.
#[utoipa::path(
    operation_id = "get_file", tag = "files", security(("key" = ["read"])), params(FilePath),
    responses(
        (status = 200, description = "The file", body = FileAnswer),
        (status = 304, description = "It is still at the revision in If-None-Match"),
    ),
)]
#[get("/files/{file}")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<FilePath>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let file = memory.file(who.user, &path.file).await?;
    if entity_tag(request.headers(), header::IF_NONE_MATCH).is_some_and(|known| known == file.head.revision) {
        return Ok(tagged(HttpResponse::NotModified(), &file.head.revision).finish());
    }
    Ok(answer(HttpResponse::Ok(), file))
}

/// Writes a whole file. `If-Match`, or `base`, names the revision you started from; without either it is a new file.
/// When it is no longer at that revision, nothing is written, and the answer holds both texts and the difference.
#[utoipa::path(
    operation_id = "write_file", tag = "files", security(("key" = ["write"])), params(FilePath, IfMatch),
    responses(
        (status = 200, description = "The file as it then is", body = FileAnswer),
        (status = 201, description = "The new file", body = FileAnswer),
    ),
)]
#[put("/files/{file}")]
pub(crate) async fn write(
    who: Writer,
    memory: Data<Memory>,
    path: Path<FilePath>,
    request: HttpRequest,
    body: Json<FileBody>,
) -> Result<HttpResponse, ApiError> {
    let FileBody { text, base } = body.into_inner();
    let base = base_revision(request.headers(), base)?;
    let status = if base.is_some() { HttpResponse::Ok() } else { HttpResponse::Created() };
    let file = memory.edit_file(who.user, &path.file, Edit::Whole { base, text: text.0 }).await?;
    Ok(answer(status, file))
}

/// Lists the sections of a file with their text, in order.
#[utoipa::path(
    operation_id = "list_sections", tag = "files", security(("key" = ["read"])), params(FilePath),
    responses((status = 200, description = "The sections", body = SectionsAnswer)),
)]
#[get("/files/{file}/sections")]
pub(crate) async fn list_sections(
    who: Reader,
    memory: Data<Memory>,
    path: Path<FilePath>,
) -> Result<Answer<SectionsAnswer>, ApiError> {
    let file = memory.file(who.user, &path.file).await?;
    let sections = file.sections.iter().map(|section| SectionAnswer::new(&file.text, section)).collect();
    Ok(Answer(SectionsAnswer { revision: file.head.revision.0, sections }))
}

/// Shows one section, by the headings down to it.
#[utoipa::path(
    operation_id = "get_section", tag = "files", security(("key" = ["read"])), params(SectionPath),
    responses((status = 200, description = "The section", body = SectionAnswer)),
)]
#[get("/files/{file}/sections/{headings:.+}")]
pub(crate) async fn show_section(
    who: Reader,
    memory: Data<Memory>,
    path: SectionPath,
) -> Result<HttpResponse, ApiError> {
    let file = memory.file(who.user, &path.file).await?;
    let section = file.sections.iter().find(|section| section.path == path.headings);
    let section = section.ok_or_else(|| ApiError::not_found(format!("section {}", path.headings.join(" > "))))?;
    Ok(tagged(HttpResponse::Ok(), &file.head.revision).json(SectionAnswer::new(&file.text, section)))
}

/// Writes the body of one section, without its heading line; all else stays byte for byte. A section that is not there
/// is made at the end. `If-Match`, or `base`, names the revision you started from.
#[utoipa::path(
    operation_id = "write_section", tag = "files", security(("key" = ["write"])), params(SectionPath, IfMatch),
    responses((status = 200, description = "The file as it then is", body = FileAnswer)),
)]
#[put("/files/{file}/sections/{headings:.+}")]
pub(crate) async fn write_section(
    who: Writer,
    memory: Data<Memory>,
    path: SectionPath,
    request: HttpRequest,
    body: Json<SectionBody>,
) -> Result<HttpResponse, ApiError> {
    let SectionPath { file, headings } = path;
    let SectionBody { body, base } = body.into_inner();
    let edit = Edit::Section { base: base_revision(request.headers(), base)?, path: headings, body: body.0 };
    Ok(answer(HttpResponse::Ok(), memory.edit_file(who.user, &file, edit).await?))
}

/// Removes one section with its heading and all under it. `If-Match` names the revision you started from.
#[utoipa::path(
    operation_id = "remove_section", tag = "files", security(("key" = ["write"])), params(SectionPath, IfMatch),
    responses((status = 200, description = "The file as it then is", body = FileAnswer)),
)]
#[delete("/files/{file}/sections/{headings:.+}")]
pub(crate) async fn remove_section(
    who: Writer,
    memory: Data<Memory>,
    path: SectionPath,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let SectionPath { file, headings } = path;
    let base = base_revision(request.headers(), None)?
        .ok_or_else(|| ApiError::invalid("If-Match", "name the revision you started from: the ETag of the file"))?;
    let edit = Edit::Remove { base, path: headings };
    Ok(answer(HttpResponse::Ok(), memory.edit_file(who.user, &file, edit).await?))
}

/// Adds a line or paragraph at the end of a section, or of the file, whatever the revision. What is not there is made.
#[utoipa::path(
    operation_id = "append_to_file", tag = "files", security(("key" = ["write"])), params(FilePath),
    responses((status = 200, description = "The file as it then is", body = FileAnswer)),
)]
#[post("/files/{file}/append")]
pub(crate) async fn append(
    who: Writer,
    memory: Data<Memory>,
    path: Path<FilePath>,
    body: Json<AppendBody>,
) -> Result<HttpResponse, ApiError> {
    let AppendBody { headings, text } = body.into_inner();
    let edit = Edit::Append { path: headings.into_iter().map(|heading| heading.0).collect(), body: text.0 };
    Ok(answer(HttpResponse::Ok(), memory.edit_file(who.user, &path.file, edit).await?))
}

/// Lists every kept revision of a file, newest first, without text.
#[utoipa::path(
    operation_id = "list_revisions", tag = "files", security(("key" = ["read"])), params(FilePath),
    responses((status = 200, description = "The revisions", body = RevisionsAnswer)),
)]
#[get("/files/{file}/history")]
pub(crate) async fn history(
    who: Reader,
    memory: Data<Memory>,
    path: Path<FilePath>,
) -> Result<Answer<RevisionsAnswer>, ApiError> {
    let revisions = memory.file_history(who.user, &path.file).await?;
    Ok(Answer(RevisionsAnswer { revisions: revisions.into_iter().map(RevisionItem::from).collect() }))
}

/// Shows the text of one revision.
#[utoipa::path(
    operation_id = "get_revision", tag = "files", security(("key" = ["read"])), params(RevisionPath),
    responses((status = 200, description = "The revision", body = RevisionAnswer)),
)]
#[get("/files/{file}/history/{revision}")]
pub(crate) async fn show_revision(
    who: Reader,
    memory: Data<Memory>,
    path: Path<RevisionPath>,
) -> Result<Answer<RevisionAnswer>, ApiError> {
    let RevisionPath { file, revision } = path.into_inner();
    let revision = Revision(revision.0);
    let text = memory.file_revision(who.user, &file, &revision).await?;
    Ok(Answer(RevisionAnswer { revision: revision.0, text }))
}

/// Brings back the text of an earlier revision, as a new one. `If-Match`, or `base`, names the revision you started
/// from; without either the file must be gone.
#[utoipa::path(
    operation_id = "restore_file", tag = "files", security(("key" = ["write"])), params(FilePath, IfMatch),
    responses((status = 200, description = "The file as it then is", body = FileAnswer)),
)]
#[post("/files/{file}/restore")]
pub(crate) async fn restore(
    who: Writer,
    memory: Data<Memory>,
    path: Path<FilePath>,
    request: HttpRequest,
    body: Json<RestoreFileBody>,
) -> Result<HttpResponse, ApiError> {
    let RestoreFileBody { revision, base } = body.into_inner();
    let edit = Edit::Restore { base: base_revision(request.headers(), base)?, revision: Revision(revision.0) };
    Ok(answer(HttpResponse::Ok(), memory.edit_file(who.user, &path.file, edit).await?))
}

/// The revision an edit started from: of the header, or of the body. `None` when neither names one.
fn base_revision(headers: &HeaderMap, in_body: Option<Words<200>>) -> Result<Option<Revision>, ApiError> {
    let in_body = in_body.map(|base| Revision(base.0));
    if !headers.contains_key(header::IF_MATCH) {
        return Ok(in_body);
    }
    let Some(in_header) = entity_tag(headers, header::IF_MATCH) else {
        return Err(ApiError::invalid("If-Match", "is one revision in quotes: the ETag of the file"));
    };
    if in_body.is_some_and(|base| base != in_header) {
        return Err(ApiError::invalid("base", "is another revision than If-Match names: send one of them"));
    }
    Ok(Some(in_header))
}

/// The revision in a header of entity tags, when it is a single one.
fn entity_tag(headers: &HeaderMap, name: header::HeaderName) -> Option<Revision> {
    let tag = headers.get(name)?.to_str().ok()?.trim();
    // A proxy that compresses makes a strong tag weak; the revision is the same.
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    let inner = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(tag);
    (!inner.is_empty() && inner != "*" && !inner.contains(['"', ','])).then(|| Revision(inner.to_owned()))
}

fn tagged(mut builder: HttpResponseBuilder, revision: &Revision) -> HttpResponseBuilder {
    builder.insert_header(ETag(EntityTag::new_strong(revision.0.clone())));
    builder
}

fn answer(builder: HttpResponseBuilder, file: FileText) -> HttpResponse {
    tagged(builder, &file.head.revision).json(FileAnswer::from(file))
}

/// Names a file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct FilePath {
    /// `NOW.md`, `MEMORY.md`, ...
    #[param(value_type = String, max_length = 100)]
    file: FileName,
}

/// Names a section of a file.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct SectionPath {
    /// `NOW.md`, `MEMORY.md`, ...
    #[param(value_type = String, max_length = 100)]
    file: FileName,
    /// The headings down to the section, outermost first, each percent-encoded, with `/` between them.
    #[param(value_type = String, example = "Projects/skymem")]
    headings: Vec<String>,
}

impl FromRequest for SectionPath {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        // Split before it is decoded: a heading may hold a slash of its own.
        let headings = request.match_info().query("headings").split('/').map(decoded).collect();
        let file = Path::<FilePath>::from_request(request, payload).into_inner();
        ready(file.map(|path| Self { file: path.into_inner().file, headings }))
    }
}

fn decoded(heading: &str) -> String {
    percent_decode_str(heading).decode_utf8_lossy().into_owned()
}

/// Names a revision of a file.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RevisionPath {
    /// `NOW.md`, `MEMORY.md`, ...
    #[param(value_type = String, max_length = 100)]
    file: FileName,
    /// The revision: the SHA-256 of its text in hex.
    #[param(value_type = String)]
    revision: Words<200>,
}

/// The revision an edit started from.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes a header to readers of the API")]
pub(crate) struct IfMatch {
    /// The ETag of the file that the edit started from.
    #[param(rename = "If-Match")]
    if_match: Option<String>,
}

/// The text a file is to have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct FileBody {
    /// The whole text, in Markdown.
    #[schema(value_type = String, max_length = 1_000_000)]
    text: Prose<1_000_000>,
    /// The revision you started from, when If-Match does not name it; absent for a new file.
    #[schema(value_type = Option<String>)]
    base: Option<Words<200>>,
}

/// The text a section is to have.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct SectionBody {
    /// What stands under the heading, in Markdown.
    #[schema(value_type = String, max_length = 1_000_000)]
    body: Prose<1_000_000>,
    /// The revision you started from, when If-Match does not name it; absent for a file that is not there yet.
    #[schema(value_type = Option<String>)]
    base: Option<Words<200>>,
}

/// What to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct AppendBody {
    /// The headings down to the section; absent for the end of the file.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    headings: Vec<Words<500>>,
    /// The line or paragraph, in Markdown.
    #[schema(value_type = String, max_length = 100_000)]
    text: Words<100_000>,
}

/// Which revision to bring back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RestoreFileBody {
    /// The revision to bring back.
    #[schema(value_type = String)]
    revision: Words<200>,
    /// The revision the file is at, when If-Match does not name it; absent when the file is gone.
    #[schema(value_type = Option<String>)]
    base: Option<Words<200>>,
}

/// What is known of a file without its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileHeadItem {
    /// `NOW.md`, `MEMORY.md`, ...
    name: String,
    /// The revision of its present text.
    revision: String,
    /// What it costs in the prompt.
    tokens: usize,
    /// Bytes on disk.
    bytes: u64,
    /// When its present revision was first seen.
    changed_at: DateTime<Utc>,
    /// Whether it goes into every prompt.
    always: bool,
    /// What is wrong with it, in words: then its last good text is in use.
    faults: Vec<String>,
}

impl From<FileHead> for FileHeadItem {
    fn from(head: FileHead) -> Self {
        Self {
            name: head.name.into(),
            revision: head.revision.0,
            tokens: head.tokens.0,
            bytes: head.bytes,
            changed_at: head.changed_at,
            always: head.always,
            faults: head.faults,
        }
    }
}

/// Your memory files.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FilesAnswer {
    /// The files, by name.
    files: Vec<FileHeadItem>,
}

/// A file with its text and its sections.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FileAnswer {
    /// What is known of it.
    #[serde(flatten)]
    head: FileHeadItem,
    /// Its text, byte for byte.
    text: String,
    /// Its sections in order.
    sections: Vec<SectionItem>,
}

impl From<FileText> for FileAnswer {
    fn from(file: FileText) -> Self {
        Self {
            head: file.head.into(),
            text: file.text,
            sections: file.sections.into_iter().map(SectionItem::from).collect(),
        }
    }
}

/// Where a section stands in its file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileSectionItem)]
pub(crate) struct SectionItem {
    /// The headings above it and its own, outermost first; empty for what stands before the first heading.
    headings: Vec<String>,
    /// Its own heading's level, 1 to 6; 0 for what stands before the first heading.
    level: u8,
    /// The first byte of its heading line.
    start: usize,
    /// The byte after its last.
    end: usize,
}

impl From<FileSection> for SectionItem {
    fn from(FileSection { path, level, start, end }: FileSection) -> Self {
        Self { headings: path, level, start, end }
    }
}

/// A section with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SectionAnswer {
    /// The headings above it and its own, outermost first; empty for what stands before the first heading.
    headings: Vec<String>,
    /// Its own heading's level, 1 to 6; 0 for what stands before the first heading.
    level: u8,
    /// Its heading line and what stands under it up to the next heading.
    text: String,
}

impl SectionAnswer {
    fn new(text: &str, section: &FileSection) -> Self {
        Self {
            headings: section.path.clone(),
            level: section.level,
            text: text.get(section.start..section.end).unwrap_or_default().to_owned(),
        }
    }
}

/// The sections of a file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SectionsAnswer {
    /// The revision they are of.
    revision: String,
    /// The sections, in order.
    sections: Vec<SectionAnswer>,
}

/// A kept revision without its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionItem {
    /// Names it.
    revision: String,
    /// When it was first seen.
    seen_at: DateTime<Utc>,
    /// Bytes.
    bytes: u64,
    /// `disk` when a person edited the file, `api` when a door did.
    origin: String,
}

impl From<RevisionHead> for RevisionItem {
    fn from(head: RevisionHead) -> Self {
        Self { revision: head.revision.0, seen_at: head.seen_at, bytes: head.bytes, origin: head.origin }
    }
}

/// The kept revisions of a file.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionsAnswer {
    /// The revisions, newest first.
    revisions: Vec<RevisionItem>,
}

/// A kept revision with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevisionAnswer {
    /// Names it.
    revision: String,
    /// Its text, byte for byte.
    text: String,
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    fn check(if_match: Option<&'static str>, base: Option<&str>, expected: Result<Option<&str>, &str>) {
        let mut headers = HeaderMap::new();
        if let Some(value) = if_match {
            headers.insert(header::IF_MATCH, HeaderValue::from_static(value));
        }
        let outcome = base_revision(&headers, base.map(|base| Words(base.to_owned())));
        match (outcome, expected) {
            (Ok(base), Ok(expected)) => assert_eq!(base.as_ref().map(|base| base.0.as_str()), expected),
            (Err(error), Err(field)) => assert!(error.detail().starts_with(field), "{}", error.detail()),
            (outcome, expected) => panic!("{if_match:?}, {base:?}: {outcome:?} where {expected:?} was expected"),
        }
    }

    #[test]
    fn the_revision_an_edit_started_from_is_named_in_one_way() {
        check(None, None, Ok(None));
        check(Some("\"abc\""), None, Ok(Some("abc")));
        check(Some("W/\"abc\""), None, Ok(Some("abc")));
        check(Some("abc"), None, Ok(Some("abc")));
        check(None, Some("abc"), Ok(Some("abc")));
        check(Some("\"abc\""), Some("abc"), Ok(Some("abc")));
        check(Some("\"abc\""), Some("def"), Err("base"));
        check(Some("*"), None, Err("If-Match"));
        check(Some("\"a\", \"b\""), None, Err("If-Match"));
        check(Some(""), None, Err("If-Match"));
    }
}
