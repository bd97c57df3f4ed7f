//! Removing for good, and the receipts that say whether anything was left.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, delete, get, post};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skymem_core::facts::EntityName;
use skymem_core::{Collection, ExchangeId, SessionId, UserId};
use skymem_engine::{Aim, Checked, Memory, PurgeRequest, Purged, Receipt, Scope, SignedReceipt};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::api::audit::Of;
use crate::api::forget::{ChangedAnswer, one_aim};
use crate::api::users::UserPath;
use crate::auth::{Admin, Door, Principal, Reader};
use crate::body::{Json, Query};
use crate::error::ApiError;
use crate::wire::{Whole, Word, Words};

/// Where it is asked for: looking everywhere takes longer than other requests.
pub(crate) const ADDRESS: &str = "/v1/purge";

/// Removes exchanges for good: from the trash, or with `remembered_too` from memory as well. There is no way back.
///
/// All that was learned from them goes, and the revisions of memory files that hold what only they said. Then every table and
/// folder is looked through for what is gone; the receipt says where, and what was found.
#[utoipa::path(
    operation_id = "purge", tag = "forget", security(("key" = ["admin"])),
    responses((status = 200, description = "The exchanges that are gone by this, or would be", body = PurgedAnswer)),
)]
#[post("/purge")]
pub(crate) async fn purge(
    who: Admin,
    memory: Data<Memory>,
    body: Json<PurgeBody>,
) -> Result<Answer<PurgedAnswer>, ApiError> {
    let (request, dry_run) = body.into_inner().into_request(who.user)?;
    if dry_run {
        return Ok(Answer(PurgedAnswer { changed: memory.would_purge(&request).await?.into(), receipt: None }));
    }
    Ok(Answer(memory.purge_for_good(request).await?.into()))
}

/// Removes a user with everything that is kept of them: memory, files, keys, log. There is no way back.
#[utoipa::path(
    operation_id = "remove_user", tag = "users", security(("key" = ["admin"])), params(UserPath),
    responses((status = 200, description = "The receipt, which is the server's", body = ReceiptAnswer)),
)]
#[delete("/users/{user}")]
pub(crate) async fn remove_user(
    _: Admin,
    memory: Data<Memory>,
    door: Data<Door>,
    path: Path<UserPath>,
) -> Result<Answer<ReceiptAnswer>, ApiError> {
    let removed = memory.remove_user(path.name(), false).await;
    door.keys.clear();
    door.users.clear();
    let receipt = removed?.ok_or_else(|| ApiError::not_found(format!("user {}", path.name())))?;
    Ok(Answer(receipt.into()))
}

/// Lists the receipts of purges, newest first.
#[utoipa::path(
    operation_id = "list_receipts", tag = "forget", security(("key" = ["read"])), params(ReceiptsQuery),
    responses((status = 200, description = "The receipts", body = ReceiptsAnswer)),
)]
#[get("/receipts")]
pub(crate) async fn list_receipts(
    who: Reader,
    memory: Data<Memory>,
    query: Query<ReceiptsQuery>,
) -> Result<Answer<ReceiptsAnswer>, ApiError> {
    let ReceiptsQuery { of, limit } = query.into_inner();
    let receipts = memory.receipts(whose(of, &who)?, limit.map_or(50, Whole::size)).await?;
    Ok(Answer(ReceiptsAnswer { receipts: receipts.into_iter().map(ReceiptAnswer::from).collect() }))
}

/// Shows one receipt.
#[utoipa::path(
    operation_id = "get_receipt", tag = "forget", security(("key" = ["read"])), params(ReceiptPath, ReceiptsQuery),
    responses((status = 200, description = "The receipt", body = ReceiptAnswer)),
)]
#[get("/receipts/{receipt}")]
pub(crate) async fn show_receipt(
    who: Reader,
    memory: Data<Memory>,
    path: Path<ReceiptPath>,
    query: Query<ReceiptsQuery>,
) -> Result<Answer<ReceiptAnswer>, ApiError> {
    let found = memory.receipt(whose(query.into_inner().of, &who)?, path.receipt).await?;
    found.map(|found| Answer(found.into())).ok_or_else(|| ApiError::not_found(format!("receipt {}", path.receipt)))
}

/// Checks that a receipt is one of this server's, as it was made.
#[utoipa::path(
    operation_id = "verify_receipt", tag = "forget", security(("key" = ["read"])),
    responses((status = 200, description = "Whether it is", body = ReceiptVerified)),
)]
#[post("/receipts/verify")]
pub(crate) async fn verify(_: Reader, memory: Data<Memory>, body: Json<SignedBody>) -> Result<HttpResponse, ApiError> {
    let SignedBody { receipt, signature, .. } = body.into_inner();
    let fault = memory.receipt_fault(&receipt, &signature.0)?;
    Ok(HttpResponse::Ok().json(ReceiptVerified { valid: fault.is_none(), fault }))
}

/// What to remove for good: exactly one of `ids`, `session`, `collection`, `entity`, `text`, and `"all": true`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct PurgeBody {
    /// These exchanges, 1 to 10,000.
    #[schema(value_type = Option<Vec<Uuid>>)]
    ids: Option<Vec<ExchangeId>>,
    /// Every exchange of this session.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Every exchange in this collection.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Every exchange that anything is known of this entity from; with `remembered_too`, since of what is in the trash
    /// nothing is known.
    #[schema(value_type = Option<String>, max_length = 200)]
    entity: Option<EntityName>,
    /// Every exchange in which this text stands, whatever its case, width and spaces.
    #[schema(value_type = Option<String>, min_length = 3, max_length = 1000)]
    text: Option<Words<1000>>,
    /// All there is.
    #[serde(default)]
    all: bool,
    /// What is still remembered goes too. Otherwise what is not in the trash stays.
    #[serde(default)]
    remembered_too: bool,
    /// Write tables anew, so that nothing stays behind in their pages. Others wait meanwhile.
    #[serde(default)]
    rewrite: bool,
    /// Only say what would go.
    #[serde(default)]
    dry_run: bool,
}

impl PurgeBody {
    fn into_request(self, user: UserId) -> Result<(PurgeRequest, bool), ApiError> {
        let PurgeBody { ids, session, collection, entity, text, all, remembered_too, rewrite, dry_run } = self;
        let none = ids.is_none() && session.is_none() && collection.is_none() && entity.is_none() && text.is_none();
        let aim = match (all, none) {
            (true, true) => Aim::Everything,
            (false, false) => one_aim(ids, session, collection, entity, text)?,
            _ => {
                let aims = "give exactly one of `ids`, `session`, `collection`, `entity`, `text` and `\"all\": true`";
                return Err(ApiError::invalid("", aims));
            }
        };
        Ok((PurgeRequest { user, aim, remembered_too, rewrite }, dry_run))
    }
}

/// What is gone for good, and what was found afterwards.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PurgedAnswer {
    /// The exchanges.
    #[serde(flatten)]
    changed: ChangedAnswer,
    /// Where it was looked for what is gone, and what was found; null when nothing went.
    receipt: Option<ReceiptAnswer>,
}

impl From<Purged> for PurgedAnswer {
    fn from(purged: Purged) -> Self {
        let ids: Vec<Uuid> = purged.exchanges.into_iter().map(|id| id.0).collect();
        let changed = ChangedAnswer { count: ids.len(), ids };
        Self { changed, receipt: purged.receipt.map(ReceiptAnswer::from) }
    }
}

/// Whose receipts.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReceiptsQuery {
    /// `server` for the server's own, of users that were removed; for admins. Absent for yours.
    #[param(value_type = Option<String>, example = "server")]
    of: Option<Word<Of>>,
    /// How many, 1 to 200; absent for 50.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<Whole<1, 200>>,
}

fn whose(of: Option<Word<Of>>, who: &Principal) -> Result<Option<UserId>, ApiError> {
    match of {
        None => Ok(Some(who.user)),
        Some(_) => who.may(Scope::Admin).map(|()| None),
    }
}

/// Names a receipt.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ReceiptPath {
    /// Its id.
    receipt: Uuid,
}

/// Receipts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptsAnswer {
    /// The receipts, newest first.
    receipts: Vec<ReceiptAnswer>,
}

/// A receipt and the signature over it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptAnswer {
    /// What it says.
    receipt: ReceiptBody,
    /// Ed25519 over the receipt as JSON without spaces and with its names in order, in hex.
    signature: String,
    /// Of the key that signed it, in hex.
    public_key: String,
}

impl From<SignedReceipt> for ReceiptAnswer {
    fn from(signed: SignedReceipt) -> Self {
        let SignedReceipt { receipt, signature, public_key } = signed;
        Self { receipt: receipt.into(), signature, public_key }
    }
}

/// What a purge did, and what it found when it looked whether all is gone.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptBody {
    /// Names it.
    id: Uuid,
    /// Whose memory it was.
    user: Uuid,
    /// When it was made.
    made_at: DateTime<Utc>,
    /// Who asked for it: the id of a key, or one of `anyone`, `command`, `server`.
    actor: String,
    /// What was aimed at: `exchanges`, `session`, `collection`, `entity`, `text`, `everything`, `user`.
    aim: String,
    /// How many exchanges are gone.
    exchanges: usize,
    /// How many revisions of memory files are gone.
    revisions: usize,
    /// How many things only they said were looked for: runs of words, codes, long words.
    traces: usize,
    /// Where it was looked, and what was found there.
    looked: Vec<CheckedBody>,
    /// The ids that are kept on purpose: tombstones, the audit log, statements of others.
    kept_ids: Vec<CheckedBody>,
    /// Whether nothing was found anywhere that could be reached.
    clean: bool,
    /// Whether tables were written anew.
    rewritten: bool,
    /// What cannot be reached from here.
    unreachable: Vec<String>,
}

impl From<Receipt> for ReceiptBody {
    fn from(receipt: Receipt) -> Self {
        let looked = |all: Vec<Checked>| all.into_iter().map(CheckedBody::from).collect();
        Self {
            id: receipt.id,
            user: receipt.user,
            made_at: receipt.made_at,
            actor: receipt.actor,
            aim: receipt.aim,
            exchanges: receipt.exchanges,
            revisions: receipt.revisions,
            traces: receipt.traces,
            looked: looked(receipt.looked),
            kept_ids: looked(receipt.kept_ids),
            clean: receipt.clean,
            rewritten: receipt.rewritten,
            unreachable: receipt.unreachable,
        }
    }
}

/// A place that was looked through.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CheckedBody {
    /// A table, or a folder.
    place: String,
    /// How many rows or files were looked at.
    items: usize,
    /// How many of them hold words that only what was purged said.
    words: usize,
    /// How many of them hold an id of what was purged.
    ids: usize,
}

impl From<Checked> for CheckedBody {
    fn from(Checked { place, items, words, ids }: Checked) -> Self {
        Self { place, items, words, ids }
    }
}

/// A receipt as it was handed out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct SignedBody {
    /// What it says.
    #[schema(value_type = Object)]
    receipt: Value,
    /// The signature over it.
    #[schema(value_type = String)]
    signature: Words<200>,
    /// Of the key that signed it; this server's own is what counts.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    #[expect(dead_code, reason = "receipts are sent as they were handed out")]
    public_key: Option<Words<200>>,
}

/// Whether a receipt is one of this server's, as it was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReceiptVerified {
    /// Whether it is.
    valid: bool,
    /// Why not; null when it is.
    fault: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::parse;

    fn aim(json: &str) -> Result<Aim, ApiError> {
        let request = parse::<PurgeBody>(json).and_then(|body| body.into_request(UserId(Uuid::nil())));
        request.map(|(request, _)| request.aim)
    }

    #[test]
    fn everything_is_purged_only_when_asked_in_words() {
        assert!(aim("{}").is_err());
        assert!(aim(r#"{"all": false}"#).is_err());
        assert!(aim(r#"{"remembered_too": true}"#).is_err());
        assert_eq!(aim(r#"{"all": true}"#).unwrap(), Aim::Everything);
        assert_eq!(aim(r#"{"text": "blue heron"}"#).unwrap(), Aim::Text("blue heron".into()));
        assert!(aim(r#"{"all": true, "ids": ["00000000-0000-7000-8000-000000000000"]}"#).is_err());
        assert!(aim(r#"{"session": "a", "text": "abc"}"#).is_err());
    }
}
