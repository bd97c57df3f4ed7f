//! Forgetting, and taking it back.

use actix_web::web::{Data, Json as Answer};
use actix_web::{get, post};
use serde::{Deserialize, Serialize};
use skymem_core::facts::EntityName;
use skymem_core::{Collection, ExchangeId, SessionId};
use skymem_engine::{Aim, Changed, Memory};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::api::exchanges::ExchangesAnswer;
use crate::api::pages::PageQuery;
use crate::auth::{Reader, Writer};
use crate::body::{Json, Query};
use crate::error::ApiError;
use crate::wire::Words;

/// Forgets exchanges by id, session, collection, entity or text: they are hidden, and all that was learned from them is removed,
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
    let (aim, dry_run) = body.into_inner().into_aim()?;
    let changed = match dry_run {
        true => memory.would_forget_aim(who.user, &aim).await?,
        false => memory.forget_aim(who.user, &aim).await?,
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
    let RestoreBody { ids, session, collection, text } = body.into_inner();
    let aims = [
        ids.map(checked_ids).transpose()?.map(Aim::Exchanges),
        session.map(Aim::Session),
        collection.map(Aim::Collection),
        text.map(|text| Aim::Text(text.0)),
    ];
    let aim = only_one(aims, "give exactly one of `ids`, `session`, `collection` and `text`")?;
    Ok(Answer(memory.restore_aim(who.user, &aim).await?.into()))
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

/// What to forget: exactly one of `ids`, `session`, `collection`, `entity` and `text`.
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
    /// Every exchange that anything is known of this entity from: a name, an alias or an id.
    #[schema(value_type = Option<String>, max_length = 200)]
    entity: Option<EntityName>,
    /// Every exchange in which this text stands, whatever its case, width and spaces; 3 to 1,000 characters.
    #[schema(value_type = Option<String>, min_length = 3, max_length = 1000)]
    text: Option<Words<1000>>,
    /// Only say what would be forgotten.
    #[serde(default)]
    dry_run: bool,
}

impl ForgetBody {
    fn into_aim(self) -> Result<(Aim, bool), ApiError> {
        Ok((one_aim(self.ids, self.session, self.collection, self.entity, self.text)?, self.dry_run))
    }
}

/// What to take back: exactly one of `ids`, `session`, `collection` and `text`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RestoreBody {
    /// These exchanges, 1 to 10,000.
    #[schema(value_type = Option<Vec<Uuid>>)]
    ids: Option<Vec<ExchangeId>>,
    /// Every exchange of this session that is in the trash.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Every exchange in this collection that is in the trash.
    #[schema(value_type = Option<String>)]
    collection: Option<Collection>,
    /// Every exchange in the trash in which this text stands.
    #[schema(value_type = Option<String>, min_length = 3, max_length = 1000)]
    text: Option<Words<1000>>,
}

/// The one thing that is aimed at.
pub(crate) fn one_aim(
    ids: Option<Vec<ExchangeId>>,
    session: Option<SessionId>,
    collection: Option<Collection>,
    entity: Option<EntityName>,
    text: Option<Words<1000>>,
) -> Result<Aim, ApiError> {
    let aims = [
        ids.map(checked_ids).transpose()?.map(Aim::Exchanges),
        session.map(Aim::Session),
        collection.map(Aim::Collection),
        entity.map(Aim::Entity),
        text.map(|text| Aim::Text(text.0)),
    ];
    only_one(aims, "give exactly one of `ids`, `session`, `collection`, `entity` and `text`")
}

fn only_one(aims: impl IntoIterator<Item = Option<Aim>>, otherwise: &str) -> Result<Aim, ApiError> {
    let mut given = aims.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(aim), None) => Ok(aim),
        _ => Err(ApiError::invalid("", otherwise)),
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
    pub(crate) count: usize,
    /// Their ids.
    pub(crate) ids: Vec<Uuid>,
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
        let outcome = parse::<ForgetBody>(json).and_then(ForgetBody::into_aim);
        assert_eq!(outcome.is_ok(), fine, "{json}: {outcome:?}");
    }

    #[test]
    fn what_to_forget_is_said_in_one_way() {
        check(r#"{"ids": ["00000000-0000-7000-8000-000000000000"]}"#, true);
        check(r#"{"session": "chat 17", "dry_run": true}"#, true);
        check(r#"{"collection": "work"}"#, true);
        check(r#"{"entity": "Anna"}"#, true);
        check(r#"{"text": "blue heron"}"#, true);
        check(r#"{"text": "blue heron", "entity": "Anna"}"#, false);
        check(r#"{"ids": []}"#, false);
        check(r#"{"ids": ["7"]}"#, false);
        check(r#"{}"#, false);
        check(r#"{"session": "a", "collection": "b"}"#, false);
        check(r#"{"session": ""}"#, false);
        check(r#"{"session": "a", "force": true}"#, false);
    }
}
