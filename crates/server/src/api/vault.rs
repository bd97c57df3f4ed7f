//! Sealed collections: seal, unlock, lock, and who can unlock.

use actix_web::http::StatusCode;
use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, delete, get, post};
use chrono::{DateTime, Utc};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use skymem_core::Collection;
use skymem_core::vault::{SecretText, UnlockWith, WrapTo};
use skymem_engine::{Memory, Sealed, SealedView};
use utoipa::{IntoParams, ToSchema};

use crate::api::collections::CollectionPath;
use crate::api::purge::ReceiptAnswer;
use crate::auth::{Door, Reader, Writer};
use crate::body::Json;
use crate::error::ApiError;
use crate::wire::{Whole, Words};

/// Lists your sealed collections, by name, and which of them are unlocked.
#[utoipa::path(
    operation_id = "list_sealed", tag = "vault", security(("key" = ["read"])),
    responses((status = 200, description = "The sealed collections", body = VaultAnswer)),
)]
#[get("/vault")]
pub(crate) async fn list(who: Reader, memory: Data<Memory>) -> Result<Answer<VaultAnswer>, ApiError> {
    let sealed = memory.sealed(who.user).await?;
    Ok(Answer(VaultAnswer { collections: sealed.into_iter().map(SealedAnswer::from).collect() }))
}

/// Locks everything that is unlocked: what was read of it is overwritten.
#[utoipa::path(
    operation_id = "lock_vault", tag = "vault", security(("key" = ["read"])),
    responses((status = 200, description = "What was unlocked", body = LockedAnswer)),
)]
#[post("/vault/lock")]
pub(crate) async fn lock_all(who: Reader, memory: Data<Memory>) -> Result<Answer<LockedAnswer>, ApiError> {
    Ok(Answer(LockedAnswer::from(memory.lock(who.user, None).await?)))
}

/// Seals a collection, which is made when it is new. What is said in it from now on is encrypted before it is written down:
/// only whoever has an identity of one of the recipients, or the passphrase, can read it again. What stands in it in the clear
/// is encrypted too and removed everywhere else; then it is looked for, and a receipt says what was found. Goes on when you
/// hang up; when the server was stopped before it had looked, ask again.
#[utoipa::path(
    operation_id = "seal_collection", tag = "vault", security(("key" = ["write"])), params(CollectionPath),
    responses(
        (status = 201, description = "It is sealed, and locked", body = SealAnswer),
        (status = 409, description = "It is sealed already, or a session of it has settings that cannot be kept sealed"),
    ),
)]
#[post("/collections/{collection}/seal")]
pub(crate) async fn seal(
    who: Writer,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
    body: Json<SealBody>,
) -> Result<HttpResponse, ApiError> {
    let sealed = memory.seal(who.user, &path.collection, body.into_inner().into_recipients()?).await?;
    Ok(HttpResponse::build(StatusCode::CREATED).json(SealAnswer::from(sealed)))
}

/// Shows a sealed collection, and whether it is unlocked.
#[utoipa::path(
    operation_id = "get_sealed", tag = "vault", security(("key" = ["read"])), params(CollectionPath),
    responses((status = 200, description = "The sealed collection", body = SealedAnswer)),
)]
#[get("/collections/{collection}/seal")]
pub(crate) async fn show(
    who: Reader,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
) -> Result<Answer<SealedAnswer>, ApiError> {
    Ok(Answer(memory.sealed_one(who.user, &path.collection).await?.into()))
}

/// Unlocks a sealed collection for a time: it is read into memory, and searched there. The identity or passphrase is used
/// and not kept.
#[utoipa::path(
    operation_id = "unlock_collection", tag = "vault", security(("key" = ["read"])), params(CollectionPath),
    responses((status = 200, description = "It is unlocked", body = SealedAnswer)),
)]
#[post("/collections/{collection}/unlock")]
pub(crate) async fn unlock(
    who: Reader,
    memory: Data<Memory>,
    door: Data<Door>,
    path: Path<CollectionPath>,
    body: Json<UnlockBody>,
) -> Result<Answer<SealedAnswer>, ApiError> {
    let UnlockBody { identity, passphrase, minutes } = body.into_inner();
    let with = match (identity, passphrase) {
        (Some(identity), None) => UnlockWith::Identity(identity.0),
        (None, Some(passphrase)) => {
            // Of an identity nobody guesses; a passphrase is as good as its owner made it.
            door.rates.may_try_passphrase(who.user, &path.collection)?;
            UnlockWith::Passphrase(passphrase.0)
        }
        _ => return Err(ApiError::invalid("", "give either `identity` or `passphrase`")),
    };
    let minutes = minutes.map(|minutes| minutes.0);
    Ok(Answer(memory.unlock(who.user, &path.collection, &with, minutes).await?.into()))
}

/// Locks a collection: what was read of it is overwritten.
#[utoipa::path(
    operation_id = "lock_collection", tag = "vault", security(("key" = ["read"])), params(CollectionPath),
    responses((status = 200, description = "Whether it was unlocked", body = LockedAnswer)),
)]
#[post("/collections/{collection}/lock")]
pub(crate) async fn lock(
    who: Reader,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
) -> Result<Answer<LockedAnswer>, ApiError> {
    Ok(Answer(LockedAnswer::from(memory.lock(who.user, Some(&path.collection)).await?)))
}

/// Lets one more recipient unlock a collection, or sets its passphrase. The collection must be unlocked.
#[utoipa::path(
    operation_id = "add_recipient", tag = "vault", security(("key" = ["write"])), params(CollectionPath),
    responses(
        (status = 200, description = "The sealed collection", body = SealedAnswer),
        (status = 423, description = "It is locked"),
    ),
)]
#[post("/collections/{collection}/recipients")]
pub(crate) async fn add_recipient(
    who: Writer,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
    body: Json<RecipientBody>,
) -> Result<Answer<SealedAnswer>, ApiError> {
    let RecipientBody { recipient, passphrase } = body.into_inner();
    let to = match (recipient, passphrase) {
        (Some(recipient), None) => WrapTo::Recipient(recipient.0),
        (None, Some(passphrase)) => WrapTo::Passphrase(passphrase.0),
        _ => return Err(ApiError::invalid("", "give either `recipient` or `passphrase`")),
    };
    Ok(Answer(memory.add_recipient(who.user, &path.collection, to).await?.into()))
}

/// Takes the right to unlock from a recipient, or from whoever knows the passphrase. What they have read they know; rotate
/// the key, so that a copy of the database is of no use to them for what is said from then on.
#[utoipa::path(
    operation_id = "remove_recipient", tag = "vault", security(("key" = ["write"])), params(RecipientPath),
    responses(
        (status = 200, description = "The sealed collection", body = SealedAnswer),
        (status = 409, description = "It is the last one: nobody could unlock the collection"),
    ),
)]
#[delete("/collections/{collection}/recipients/{recipient}")]
pub(crate) async fn remove_recipient(
    who: Writer,
    memory: Data<Memory>,
    path: Path<RecipientPath>,
) -> Result<Answer<SealedAnswer>, ApiError> {
    Ok(Answer(memory.remove_recipient(who.user, &path.collection, &path.recipient).await?.into()))
}

/// Writes with a new key from now on. Works while it is locked; a passphrase has to be told again, the same as before.
#[utoipa::path(
    operation_id = "rotate_sealed", tag = "vault", security(("key" = ["write"])), params(CollectionPath),
    responses((status = 200, description = "The sealed collection", body = SealedAnswer)),
)]
#[post("/collections/{collection}/rotate")]
pub(crate) async fn rotate(
    who: Writer,
    memory: Data<Memory>,
    door: Data<Door>,
    path: Path<CollectionPath>,
    body: Json<RotateSealedBody>,
) -> Result<Answer<SealedAnswer>, ApiError> {
    let passphrase = body.into_inner().passphrase.map(|passphrase| WrapTo::Passphrase(passphrase.0));
    if passphrase.is_some() {
        door.rates.may_try_passphrase(who.user, &path.collection)?;
    }
    Ok(Answer(memory.rotate(who.user, &path.collection, passphrase).await?.into()))
}

/// Removes a sealed collection for good, with its keys: no copy of what was said in it can be read any more, by anybody.
#[utoipa::path(
    operation_id = "shred_collection", tag = "vault", security(("key" = ["write"])), params(CollectionPath),
    responses((status = 200, description = "It is gone", body = ShreddedAnswer)),
)]
#[post("/collections/{collection}/shred")]
pub(crate) async fn shred(
    who: Writer,
    memory: Data<Memory>,
    path: Path<CollectionPath>,
    body: Json<ShredBody>,
) -> Result<Answer<ShreddedAnswer>, ApiError> {
    if body.into_inner().confirm.0 != path.collection.as_str() {
        return Err(ApiError::invalid("confirm", "is the name of the collection, typed again: nothing brings it back"));
    }
    Ok(Answer(ShreddedAnswer { exchanges: memory.shred(who.user, &path.collection).await? }))
}

/// Whether that is the address of [`seal`].
pub(crate) fn seals(path: &str) -> bool {
    path.starts_with("/v1/collections/") && path.ends_with("/seal")
}

/// Names a recipient of a collection.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct RecipientPath {
    /// The collection's name.
    #[param(value_type = String, max_length = 64)]
    collection: Collection,
    /// The recipient, or `passphrase`.
    recipient: String,
}

/// A secret text of a request: never shown, overwritten when it was used.
#[derive(Debug)]
pub(crate) struct Secret(SecretText);

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Words(text) = Words::<20_000>::deserialize(deserializer)?;
        Ok(Self(SecretText::new(text)))
    }
}

/// Who shall be able to unlock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct SealBody {
    /// age recipients, at most 50: each can unlock with their own identity. One of them should be kept away from this machine.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 50, example = json!(["age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"]))]
    recipients: Vec<Words<200>>,
    /// A passphrase, beside or instead of recipients: 8 characters or more.
    #[schema(value_type = Option<String>, format = Password, min_length = 8)]
    passphrase: Option<Secret>,
}

impl SealBody {
    fn into_recipients(self) -> Result<Vec<WrapTo>, ApiError> {
        if self.recipients.len() > MOST_RECIPIENTS {
            return Err(ApiError::invalid("recipients", format!("holds more than {MOST_RECIPIENTS} recipients")));
        }
        let recipients = self.recipients.into_iter().map(|recipient| WrapTo::Recipient(recipient.0));
        Ok(recipients.chain(self.passphrase.map(|passphrase| WrapTo::Passphrase(passphrase.0))).collect())
    }
}

/// For each of them a key is wrapped and written down.
const MOST_RECIPIENTS: usize = 50;

/// What unlocks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct UnlockBody {
    /// The text of an age identity file: `AGE-SECRET-KEY-1...`.
    #[schema(value_type = Option<String>, format = Password)]
    identity: Option<Secret>,
    /// The passphrase.
    #[schema(value_type = Option<String>, format = Password)]
    passphrase: Option<Secret>,
    /// For how long, in minutes; 0 until it is locked; absent as the server's settings have it.
    #[schema(value_type = Option<u32>, maximum = 10_080)]
    minutes: Option<Whole<0, 10_080>>,
}

/// One more who can unlock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RecipientBody {
    /// An age recipient.
    #[schema(value_type = Option<String>)]
    recipient: Option<Words<200>>,
    /// A passphrase, in the place of the one there was: 8 characters or more.
    #[schema(value_type = Option<String>, format = Password, min_length = 8)]
    passphrase: Option<Secret>,
}

/// What a new key needs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RotateSealedBody {
    /// The passphrase, when the collection has one.
    #[schema(value_type = Option<String>, format = Password)]
    passphrase: Option<Secret>,
}

/// Says that it is meant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct ShredBody {
    /// The collection's name, typed again.
    #[schema(value_type = String)]
    confirm: Words<64>,
}

/// A sealed collection.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SealedAnswer {
    /// Its name.
    collection: String,
    /// Whether it is unlocked.
    unlocked: bool,
    /// Until when it is unlocked; null while it is locked, or until it is locked.
    until: Option<DateTime<Utc>>,
    /// Who can unlock it: age recipients, and `passphrase`.
    recipients: Vec<String>,
    /// How many exchanges stand in it.
    exchanges: i64,
    /// What is wrong with rows that cannot be read, while it is unlocked.
    unreadable: Vec<String>,
    /// The version of the key that is written with.
    key_version: u32,
    /// How many turns are written with an older version of the key.
    behind: i64,
    /// Whether something was sealed that stood in the clear, and the server was stopped before it looked whether anything of
    /// that is left: seal it again, and it looks.
    unchecked: bool,
    /// Since when it is sealed.
    sealed_at: DateTime<Utc>,
}

impl From<SealedView> for SealedAnswer {
    fn from(view: SealedView) -> Self {
        let SealedView { sealed, unlocked } = view;
        Self {
            collection: sealed.collection.into(),
            unlocked: unlocked.is_some(),
            until: unlocked.as_ref().and_then(|unlocked| unlocked.until),
            recipients: sealed.recipients,
            exchanges: sealed.exchanges,
            unreadable: unlocked.map(|unlocked| unlocked.unreadable).unwrap_or_default(),
            key_version: sealed.key_version,
            behind: sealed.behind,
            unchecked: sealed.unchecked,
            sealed_at: sealed.sealed_at,
        }
    }
}

/// A collection that was sealed just now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SealAnswer {
    #[serde(flatten)]
    sealed: SealedAnswer,
    /// What stood in it in the clear, and is sealed now.
    taken_in: TakenInAnswer,
    /// What was found when it was looked for in the clear; null when nothing stood there.
    receipt: Option<ReceiptAnswer>,
}

/// What was taken under a seal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TakenInAnswer {
    /// How many exchanges; sealed, they have other ids.
    exchanges: usize,
    /// How many turns were said in them.
    turns: usize,
}

impl From<Sealed> for SealAnswer {
    fn from(sealed: Sealed) -> Self {
        let Sealed { view, taken, receipt } = sealed;
        Self {
            sealed: view.into(),
            taken_in: TakenInAnswer { exchanges: taken.exchanges.len(), turns: taken.turns },
            receipt: receipt.map(ReceiptAnswer::from),
        }
    }
}

/// Your sealed collections.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct VaultAnswer {
    /// The sealed collections, by name.
    collections: Vec<SealedAnswer>,
}

/// What was locked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockedAnswer {
    /// The collections that were unlocked until now.
    locked: Vec<String>,
}

impl From<Vec<Collection>> for LockedAnswer {
    fn from(locked: Vec<Collection>) -> Self {
        Self { locked: locked.into_iter().map(String::from).collect() }
    }
}

/// What was shredded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShreddedAnswer {
    /// How many exchanges stood in it.
    exchanges: i64,
}
