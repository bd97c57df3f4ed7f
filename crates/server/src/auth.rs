//! Who stands at the door, and what they may do. Keys are bearer tokens; a key belongs to one user.

use std::ops::Deref;
use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::HeaderMap;
use actix_web::middleware::Next;
use actix_web::web::Data;
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest};
use actix_web_httpauth::extractors::bearer::BearerAuth;
use skymem_core::wall::acting_for;
use skymem_core::{UserId, UserName};
use skymem_engine::{Actor, Key, KeyId, Memory, Scope, acting_as};

use crate::error::{ApiError, Kind};
use crate::lately::Lately;
use crate::rates::Rates;

/// Whose memory a request is about, and what it may do with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Principal {
    /// Whose memory.
    pub(crate) user: UserId,
    /// The key; `None` when none is asked for.
    pub(crate) key: Option<KeyId>,
    /// What it may do.
    pub(crate) scopes: Vec<Scope>,
}

impl Principal {
    /// Whoever comes, when no key is asked for.
    pub(crate) fn without_key(user: UserId) -> Self {
        Self { user, key: None, scopes: vec![Scope::Admin] }
    }

    /// Whoever has `key`.
    pub(crate) fn with_key(key: Key) -> Self {
        Self { user: key.user, key: Some(key.id), scopes: key.scopes }
    }

    /// As the audit log names it.
    fn actor(&self) -> Actor {
        self.key.as_ref().map_or_else(Actor::anyone, Actor::key)
    }

    /// Whether it may do what needs `scope`; `admin` may do everything.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin) {
            return Ok(());
        }
        let detail = format!("this key lacks the scope {}: use one that has it", scope.as_str());
        Err(ApiError::new(Kind::Forbidden, detail))
    }
}

/// How the door is kept.
pub(crate) struct Door {
    /// Who comes in without a key, when none is asked for.
    pub(crate) without_key: Option<Principal>,
    /// How often one may come.
    pub(crate) rates: Arc<Rates>,
    /// The keys that opened something lately.
    pub(crate) keys: Lately<Key>,
    /// The users that were acted for lately.
    pub(crate) users: Lately<UserId>,
}

/// What must be answered while the database is away: there, a key and a user are what they were lately. All they open
/// then is what the server has in memory.
const NEVER_FAIL: [&str; 2] = ["/v1/context", "/v1/recall"];

pub(crate) fn must_be_answered(request: &HttpRequest) -> bool {
    NEVER_FAIL.contains(&request.path()) || crate::proxy::is_mine(request.path())
}

/// Lets in whoever has a key that opens something, and notes who it is.
pub(crate) async fn let_in(
    door: Data<Door>,
    memory: Data<Memory>,
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match identify(&door, &memory, request.request()).await {
        Ok(principal) => {
            tracing::Span::current().record("user", tracing::field::display(principal.user));
            let (actor, user) = (principal.actor(), principal.user);
            request.extensions_mut().insert(principal);
            acting_as(actor, acting_for(user, next.call(request))).await
        }
        Err(error) => Ok(request.error_response(error)),
    }
}

/// Whose memory the request is about, by its key and the user it acts for.
pub(crate) async fn identify(door: &Door, memory: &Memory, request: &HttpRequest) -> Result<Principal, ApiError> {
    let presented = BearerAuth::extract(request).await.ok();
    identify_by(door, memory, request, presented.as_ref().map(BearerAuth::token)).await
}

/// As [`identify`], by the key that is `presented`, if any.
pub(crate) async fn identify_by(
    door: &Door,
    memory: &Memory,
    request: &HttpRequest,
    presented: Option<&str>,
) -> Result<Principal, ApiError> {
    let own = async {
        match &door.without_key {
            Some(anyone) => Ok(anyone.clone()),
            None => by_key(door, memory, request, presented).await,
        }
    };
    let name = match named_in(request.headers()) {
        Ok(Some(name)) => name,
        none => {
            let own = own.await?;
            return none.map(|_| own);
        }
    };
    let named = async { Ok(memory.user_named(&name).await?.map(|user| user.id)) };
    let other = door.users.or(name.as_str(), must_be_answered(request), named);
    // Whether such a user exists is for admins to know. Whose key was an admin's lately need not wait until it is known to be
    // one still: both are looked up at once.
    let (own, other) = match presented.and_then(|key| door.keys.lately(key)) {
        Some(key) if key.scopes.contains(&Scope::Admin) => {
            let (own, other) = tokio::try_join!(biased; own, async { Ok(other.await) })?;
            own.may(Scope::Admin)?;
            (own, other)
        }
        _ => {
            let own = own.await?;
            own.may(Scope::Admin)?;
            (own, other.await)
        }
    };
    Ok(Principal { user: other?.ok_or_else(|| ApiError::not_found(format!("user {name}")))?, ..own })
}

async fn by_key(
    door: &Door,
    memory: &Memory,
    request: &HttpRequest,
    presented: Option<&str>,
) -> Result<Principal, ApiError> {
    let address = door.rates.address_of(request);
    let lately = presented.and_then(|presented| door.keys.said_of(presented));
    match &lately {
        // Who opened something with this very key lately guesses nothing, and need not wait for those who do.
        Some(key) => door.rates.with_key(&key.id)?,
        None => door.rates.may_guess(address)?,
    }
    // No key at all is no guess.
    let presented = presented.ok_or_else(no_key)?;
    let verified = memory.verify_key(presented);
    let Some(key) = door.keys.or(presented, must_be_answered(request), verified).await? else {
        door.rates.wrong_key(address);
        return Err(ApiError::new(
            Kind::Unauthenticated,
            "this key opens nothing: it is mistyped, expired or revoked; `skymem key create` makes a new one",
        ));
    };
    if lately.is_none() {
        door.rates.with_key(&key.id)?;
    }
    Ok(Principal::with_key(key))
}

fn no_key() -> ApiError {
    ApiError::new(
        Kind::Unauthenticated,
        "send a key in the header `Authorization: Bearer skm_...`; `skymem key create` makes one",
    )
}

/// The user that an admin's key acts for, by the header of that name.
fn named_in(headers: &HeaderMap) -> Result<Option<UserName>, ApiError> {
    let Some(name) = headers.get(ACTING_FOR) else { return Ok(None) };
    let name = name.to_str().ok().and_then(|name| name.parse().ok());
    name.map(Some).ok_or_else(|| ApiError::invalid(ACTING_FOR, "is not the name of a user"))
}

const ACTING_FOR: &str = "x-memory-user";

/// A principal with one scope for certain: a handler that asks for it cannot be reached without.
macro_rules! with_scope {
    ($(#[$doc:meta])* $name:ident, $($scope:expr)?) => {
        $(#[$doc])*
        pub(crate) struct $name(Principal);

        impl Deref for $name {
            type Target = Principal;

            fn deref(&self) -> &Principal {
                &self.0
            }
        }

        impl FromRequest for $name {
            type Error = ApiError;
            type Future = std::future::Ready<Result<Self, ApiError>>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                std::future::ready(principal(request).and_then(|principal| {
                    $(principal.may($scope)?;)?
                    Ok(Self(principal))
                }))
            }
        }
    };
}

with_scope!(
    /// Someone with a key, whatever it may do.
    Anyone,
);
with_scope!(
    /// Someone who may recall and list.
    Reader, Scope::Read
);
with_scope!(
    /// Someone who may record, edit and forget.
    Writer, Scope::Write
);
with_scope!(
    /// Someone who may purge and arrange users, keys and layers.
    Admin, Scope::Admin
);

fn principal(request: &HttpRequest) -> Result<Principal, ApiError> {
    let known = request.extensions().get::<Principal>().cloned();
    known.ok_or_else(no_key)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_scope_includes_nothing_but_itself_except_admin() {
        let with = |scopes| Principal { user: UserId(Uuid::nil()), key: None, scopes };

        let reader = with(vec![Scope::Read]);
        assert!(reader.may(Scope::Read).is_ok());
        assert!(reader.may(Scope::Write).unwrap_err().detail().contains("write"));
        assert!(reader.may(Scope::Admin).unwrap_err().detail().contains("admin"));
        assert!(with(vec![Scope::Write]).may(Scope::Read).is_err());
        for scope in [Scope::Read, Scope::Write, Scope::Admin] {
            assert!(with(vec![Scope::Admin]).may(scope).is_ok());
        }
    }

    #[test]
    fn the_name_of_the_user_to_act_for_is_checked() {
        let mut headers = HeaderMap::new();
        assert_eq!(named_in(&headers).unwrap(), None);
        for (value, fine) in [("anna", true), ("../anna", false), ("", false)] {
            headers.insert(HeaderName::from_static(ACTING_FOR), HeaderValue::from_static(value));
            assert_eq!(named_in(&headers).is_ok(), fine, "{value:?}");
        }
    }
}
