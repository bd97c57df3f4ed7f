//! The audit log: who changed what, and whether the log is still as it was written.

use actix_web::get;
use actix_web::web::{Data, Json as Answer};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skymem_engine::{AuditEntry, LogChecked, LogFilter, LogOf, Memory, Page, PageRequest, Scope, Verb};
use utoipa::{IntoParams, ToSchema};

use crate::api::pages::page_request;
use crate::auth::{Principal, Reader};
use crate::body::Query;
use crate::error::ApiError;
use crate::wire::{Moment, Whole, Word, Words};

/// Lists what was changed in your memory, newest first: who, what and when, never a word of what is remembered.
#[utoipa::path(
    operation_id = "list_audit", tag = "audit", security(("key" = ["read"])), params(AuditQuery),
    responses((status = 200, description = "A page of the log", body = AuditAnswer)),
)]
#[get("/audit")]
pub(crate) async fn list(
    who: Reader,
    memory: Data<Memory>,
    query: Query<AuditQuery>,
) -> Result<Answer<AuditAnswer>, ApiError> {
    let (of, filter, page) = query.into_inner().into_request(&who)?;
    Ok(Answer(memory.audit_log(of, filter, &page).await?.into()))
}

/// Goes through the whole log and names the first entry that is not as it was written.
#[utoipa::path(
    operation_id = "verify_audit", tag = "audit", security(("key" = ["read"])), params(VerifyQuery),
    responses((status = 200, description = "How far the log is sound", body = VerifiedAnswer)),
)]
#[get("/audit/verify")]
pub(crate) async fn verify(
    who: Reader,
    memory: Data<Memory>,
    query: Query<VerifyQuery>,
) -> Result<Answer<VerifiedAnswer>, ApiError> {
    let VerifyQuery { of, head } = query.into_inner();
    let of = log_of(of, &who)?;
    Ok(Answer(memory.check_audit_log(of, head.as_ref().map(|head| head.0.as_str())).await?.into()))
}

/// Which entries to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// `server` for the server's own log, which tells of users made and removed; for admins. Absent for yours.
    #[param(value_type = Option<String>, example = "server")]
    of: Option<Word<Of>>,
    /// Only this kind of change: `forgot`, `restored`, `purged`, `key_made`, `file_edited`, ...
    #[param(value_type = Option<String>, example = "forgot")]
    verb: Option<Word<Verb>>,
    /// Only since then, in RFC 3339 with its zone.
    #[param(value_type = Option<DateTime<Utc>>)]
    from: Option<Moment>,
    /// Only before then.
    #[param(value_type = Option<DateTime<Utc>>)]
    until: Option<Moment>,
    /// `next` of the page before.
    after: Option<String>,
    /// How many, 1 to 200; absent for 50.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

impl AuditQuery {
    fn into_request(self, who: &Principal) -> Result<(LogOf, LogFilter, PageRequest), ApiError> {
        let of = log_of(self.of, who)?;
        let filter = LogFilter {
            verb: self.verb.map(|verb| verb.0),
            from: self.from.map(|moment| moment.0),
            until: self.until.map(|moment| moment.0),
        };
        Ok((of, filter, page_request(self.after, self.limit)))
    }
}

/// Which log to go through.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct VerifyQuery {
    /// `server` for the server's own log; for admins. Absent for yours.
    #[param(value_type = Option<String>, example = "server")]
    of: Option<Word<Of>>,
    /// The hash of an entry that you noted elsewhere: it must be in the log. So a log that was made anew as a whole is
    /// noticed too.
    #[param(value_type = Option<String>, min_length = 64, max_length = 64)]
    head: Option<Words<64>>,
}

/// The server, whose log is another than a user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Of;

impl std::str::FromStr for Of {
    type Err = skymem_core::conversation::BadName;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let bad =
            || skymem_core::conversation::BadName("the log is that of `server`, or yours when it is absent".into());
        (word == "server").then_some(Self).ok_or_else(bad)
    }
}

fn log_of(of: Option<Word<Of>>, who: &Principal) -> Result<LogOf, ApiError> {
    match of {
        None => Ok(LogOf::User(who.user)),
        Some(_) => who.may(Scope::Admin).map(|()| LogOf::Server),
    }
}

/// A page of the log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditAnswer {
    /// The entries, newest first.
    entries: Vec<EntryAnswer>,
    /// Where the next page begins; null when this is the last.
    next: Option<String>,
}

impl From<Page<AuditEntry>> for AuditAnswer {
    fn from(page: Page<AuditEntry>) -> Self {
        Self { entries: page.items.into_iter().map(EntryAnswer::from).collect(), next: page.next }
    }
}

/// One change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EntryAnswer {
    /// Its place in the log, from 1, without gaps.
    number: i64,
    /// When.
    at: DateTime<Utc>,
    /// The id of the key that did it; `command` for a command at the server's machine, `server` for what it does by itself,
    /// `anyone` where no key is asked for.
    actor: String,
    /// What was done.
    verb: String,
    /// To what: ids, settings and counts.
    what: Value,
    /// SHA-256 over this entry and all before it, in hex.
    hash: String,
}

impl From<AuditEntry> for EntryAnswer {
    fn from(entry: AuditEntry) -> Self {
        let AuditEntry { number, at, actor, verb, what, hash } = entry;
        Self { number, at, actor, verb, what, hash: hash.to_string() }
    }
}

/// What a look at the whole log came to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VerifiedAnswer {
    /// Whether it is as it was written, from the first entry to the last.
    whole: bool,
    /// How many entries are sound, from the first on.
    sound: u64,
    /// The hash of the last sound entry: note it elsewhere, and hand it in as `head` later.
    head: Option<String>,
    /// The first entry that is not as it was written; null when there is none.
    broken: Option<BreakAnswer>,
}

/// Where the log breaks.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BreakAnswer {
    /// The number of the entry.
    number: i64,
    /// How, in words.
    how: &'static str,
}

impl From<LogChecked> for VerifiedAnswer {
    fn from(checked: LogChecked) -> Self {
        let LogChecked { sound, head, broken } = checked;
        let broken = broken.map(|(number, how)| BreakAnswer { number, how });
        Self { whole: broken.is_none(), sound, head, broken }
    }
}
