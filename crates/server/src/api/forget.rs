//! Forgetting, taking it back, and removing for good.

use actix_web::web::{Data, Json as Answer};
use actix_web::{get, post};
use serde::{Deserialize, Serialize};
use skymem_core::{Collection, ExchangeId, SessionId};
use skymem_engine::{Changed, Memory, Target};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::exchanges::ExchangesAnswer;
use crate::api::pages::PageQuery;
use crate::auth::{Admin, Reader, Writer};
use crate::body::{Json, Query};
use crate::error::ApiError;

/// Forgets exchanges by id, by session or by collection: they are hidden, and all that was learned from them is removed,
/// at once. They can be restored within the trash period. Idempotent.
#[utoipa::path(
    operation_id = "forget", tag = "forget", security(("key" = ["write"])),
    responses((status = 200, description = "The exchanges that are forgotten by this, or would be", body = ChangedAnswer)),
)]
#[post("/forget")]
pub(crate) async fn forget(
    who: Writer,
    memory: Data<Memory>,
    body: Json<ForgetBody>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let (what, dry_run) = body.into_inner().into_target()?;
    let changed = match dry_run {
        true => memory.would_forget(who.user, &what).await?,
        false => memory.forget(who.user, &what).await?,
    };
    Ok(Answer(changed.into()))
}

/// Takes exchanges back out of the trash; every layer learns them again. Idempotent.
#[utoipa::path(
    operation_id = "restore", tag = "forget", security(("key" = ["write"])),
    responses((status = 200, description = "The exchanges that are restored by this", body = ChangedAnswer)),
)]
#[post("/restore")]
pub(crate) async fn restore(
    who: Writer,
    memory: Data<Memory>,
    body: Json<RestoreBody>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let ids = checked_ids(body.into_inner().ids)?;
    Ok(Answer(memory.restore(who.user, &ids).await?.into()))
}

/// Lists what is in the trash, the last forgotten first.
#[utoipa::path(
    operation_id = "list_trash", tag = "forget", security(("key" = ["read"])), params(PageQuery),
    responses((status = 200, description = "A page of forgotten exchanges", body = ExchangesAnswer)),
)]
#[get("/trash")]
pub(crate) async fn trash(
    who: Reader,
    memory: Data<Memory>,
    page: Query<PageQuery>,
) -> Result<Answer<ExchangesAnswer>, ApiError> {
    let page = memory.trash(who.user, &page.into_inner().into()).await?;
    Ok(Answer(page.into()))
}

/// Removes exchanges from the trash for good. What is not in the trash stays. There is no way back.
#[utoipa::path(
    operation_id = "purge", tag = "forget", security(("key" = ["admin"])),
    responses((status = 200, description = "The exchanges that are gone by this", body = ChangedAnswer)),
)]
#[post("/purge")]
pub(crate) async fn purge(
    who: Admin,
    memory: Data<Memory>,
    body: Json<PurgeBody>,
) -> Result<Answer<ChangedAnswer>, ApiError> {
    let ids = body.into_inner().into_ids()?;
    Ok(Answer(memory.purge(who.user, ids.as_deref()).await?.into()))
}

/// What to forget: exactly one of `ids`, `session` and `collection`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ForgetBody {
    /// These exchanges, 1 to 10,000.
    #[schema(value_type = Option<Vec<Uuid>>)]
    ids: Option<Vec<ExchangeId>>,
    /// Every exchange of this session.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Every exchange in this collection.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Only say what would be forgotten.
    #[serde(default)]
    dry_run: bool,
}

impl ForgetBody {
    fn into_target(self) -> Result<(Target, bool), ApiError> {
        let what = match (self.ids, self.session, self.collection) {
            (Some(ids), None, None) => Target::Exchanges(checked_ids(ids)?),
            (None, Some(session), None) => Target::Session(session),
            (None, None, Some(collection)) => Target::Collection(collection),
            _ => return Err(ApiError::invalid("", "give exactly one of `ids`, `session` and `collection`")),
        };
        Ok((what, self.dry_run))
    }
}

/// What to take back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RestoreBody {
    /// These exchanges, 1 to 10,000.
    #[schema(value_type = Vec<Uuid>)]
    ids: Vec<ExchangeId>,
}

/// What to remove for good: `ids`, or everything in the trash with `"all": true`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct PurgeBody {
    /// These exchanges, 1 to 10,000.
    #[schema(value_type = Option<Vec<Uuid>>)]
    ids: Option<Vec<ExchangeId>>,
    /// All that is in the trash.
    #[serde(default)]
    all: bool,
}

impl PurgeBody {
    fn into_ids(self) -> Result<Option<Vec<ExchangeId>>, ApiError> {
        match (self.ids, self.all) {
            (Some(ids), false) => checked_ids(ids).map(Some),
            (None, true) => Ok(None),
            _ => Err(ApiError::invalid("", "give either `ids` or `\"all\": true`")),
        }
    }
}

fn checked_ids(ids: Vec<ExchangeId>) -> Result<Vec<ExchangeId>, ApiError> {
    match ids.len() {
        0 => Err(ApiError::invalid("ids", "is empty: name at least one exchange")),
        1..=10_000 => Ok(ids),
        more => Err(ApiError::invalid("ids", format!("has {more} ids: at most 10000 go into one request"))),
    }
}

/// The exchanges that are now otherwise than before. Those that were so already, or are not there, are not named.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangedAnswer {
    /// How many.
    count: usize,
    /// Their ids.
    ids: Vec<Uuid>,
}

impl From<Changed> for ChangedAnswer {
    fn from(changed: Changed) -> Self {
        let ids: Vec<Uuid> = changed.exchanges.into_iter().map(|id| id.0).collect();
        Self { count: ids.len(), ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::parse;

    fn check(json: &str, fine: bool) {
        let outcome = parse::<ForgetBody>(json).and_then(ForgetBody::into_target);
        assert_eq!(outcome.is_ok(), fine, "{json}: {outcome:?}");
    }

    #[test]
    fn what_to_forget_is_said_in_one_way() {
        check(r#"{"ids": ["00000000-0000-7000-8000-000000000000"]}"#, true);
        check(r#"{"session": "chat 17", "dry_run": true}"#, true);
        check(r#"{"collection": "work"}"#, true);
        check(r#"{"ids": []}"#, false);
        check(r#"{"ids": ["7"]}"#, false);
        check(r#"{}"#, false);
        check(r#"{"session": "a", "collection": "b"}"#, false);
        check(r#"{"session": ""}"#, false);
        check(r#"{"session": "a", "force": true}"#, false);
    }

    #[test]
    fn the_whole_trash_is_purged_only_when_asked_in_words() {
        let ids = |json| parse::<PurgeBody>(json).and_then(PurgeBody::into_ids);

        assert!(ids("{}").is_err());
        assert!(ids(r#"{"all": false}"#).is_err());
        assert_eq!(ids(r#"{"all": true}"#).unwrap(), None);
        assert!(ids(r#"{"all": true, "ids": ["00000000-0000-7000-8000-000000000000"]}"#).is_err());
    }
}
