//! Users: whose memory is kept here.

use actix_web::web::{Data, Json as Answer, Path};
use actix_web::{HttpResponse, get, post};
use serde::{Deserialize, Serialize};
use skymem_core::{User, UserName};
use skymem_engine::Memory;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::auth::Admin;
use crate::body::Json;
use crate::error::ApiError;

/// Lists all users, by name.
#[utoipa::path(
    operation_id = "list_users", tag = "users", security(("key" = ["admin"])),
    responses((status = 200, description = "The users", body = UsersAnswer)),
)]
#[get("/users")]
pub(crate) async fn list(_: Admin, memory: Data<Memory>) -> Result<Answer<UsersAnswer>, ApiError> {
    let users = memory.users().await?;
    Ok(Answer(UsersAnswer { users: users.into_iter().map(UserAnswer::from).collect() }))
}

/// Shows one user.
#[utoipa::path(
    operation_id = "get_user", tag = "users", security(("key" = ["admin"])), params(UserPath),
    responses((status = 200, description = "The user", body = UserAnswer)),
)]
#[get("/users/{user}")]
pub(crate) async fn show(_: Admin, memory: Data<Memory>, path: Path<UserPath>) -> Result<Answer<UserAnswer>, ApiError> {
    let user = memory.user_named(&path.user).await?;
    user.map(|user| Answer(user.into())).ok_or_else(|| ApiError::not_found(format!("user {}", path.user)))
}

/// Makes a user. Idempotent: one of that name is left as it is.
#[utoipa::path(
    operation_id = "make_user", tag = "users", security(("key" = ["admin"])),
    responses((status = 200, description = "The user", body = UserAnswer)),
)]
#[post("/users")]
pub(crate) async fn make(_: Admin, memory: Data<Memory>, body: Json<UserBody>) -> Result<HttpResponse, ApiError> {
    let user = memory.ensure_user(&body.into_inner().name).await?;
    Ok(HttpResponse::Ok().json(UserAnswer::from(user)))
}

/// Names a user.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct UserPath {
    /// The user's name.
    #[param(value_type = String, max_length = 64)]
    user: UserName,
}

impl UserPath {
    /// The name.
    pub(crate) fn name(&self) -> &UserName {
        &self.user
    }
}

/// A user to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct UserBody {
    /// Lower-case letters, digits, `-` and `_`: the name of their folder too.
    #[schema(value_type = String, max_length = 64)]
    name: UserName,
}

/// A user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserAnswer {
    /// Names them for ever.
    id: Uuid,
    /// What people call them by.
    name: String,
}

impl From<User> for UserAnswer {
    fn from(User { id, name }: User) -> Self {
        Self { id: id.0, name: name.into() }
    }
}

/// All users.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsersAnswer {
    /// The users, by name.
    users: Vec<UserAnswer>,
}
