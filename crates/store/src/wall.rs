//! The second wall, on the side of the database: row-level security on every table that holds what is somebody's.
//!
//! [`skymem_core::wall`] says for whom work is done; [`walled`] pools write that onto each connection before they lend it.
//! [`raise`] builds the wall where it does not stand yet. A superuser walks through it, and so does a role with
//! `bypassrls`: [`bypassed_by`] finds out, and nobody but a single user is served over such a role.

use skymem_core::wall::{ActsFor, acts_for};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgConnection, PgExecutor, PgPool};

use crate::error::StoreError;

/// A pool of connections that act for whom the work is done that borrows them.
///
/// Saying so is one way to the database and back. It is also how a connection that broke while it lay idle is found out: the
/// pool opens another in its place.
#[must_use]
pub fn walled(options: PgPoolOptions) -> PgPoolOptions {
    options
        .test_before_acquire(false)
        .after_connect(|connection, _| Box::pin(say(connection, acts_for())))
        .before_acquire(|connection, _| {
            let whom = acts_for();
            Box::pin(async move { say(connection, whom).await.map(|()| true) })
        })
}

/// Connections that act for everyone from their beginning on: for those who look at the database from outside.
#[must_use]
pub fn for_everyone(options: PgConnectOptions) -> PgConnectOptions {
    options.options([("skymem.acts_for", "everyone")])
}

/// Writes down on a connection for whom it acts from now on. Nobody is written down too: the tables refuse it then, where an
/// error here would have the pool try again and again.
async fn say(connection: &mut PgConnection, whom: Option<ActsFor>) -> sqlx::Result<()> {
    let statement = match whom {
        // An id is digits, letters and dashes: nothing that could be taken for SQL.
        Some(ActsFor::User(user)) => format!("set skymem.acts_for = '{}'", user.0),
        Some(ActsFor::Everyone) => "set skymem.acts_for = 'everyone'".to_owned(),
        None => "set skymem.acts_for = ''".to_owned(),
    };
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.map(|_| ())
}

/// Builds the wall around every table in `schemas` that holds what is somebody's and has none yet; names those tables. Run it
/// while holding the migration lock, when the tables are up to date. A schema that is not there is passed over.
///
/// # Errors
///
/// [`StoreError::Unsuitable`] when the tables are another role's.
pub async fn raise(db: &PgPool, schemas: &[String]) -> Result<Vec<String>, StoreError> {
    let raised = sqlx::query_scalar!(r#"select raised as "raised!" from journal.raise_wall($1) as raised"#, schemas)
        .fetch_all(db)
        .await;
    raised.map_err(|error| match error.as_database_error().and_then(|answer| answer.code()).as_deref() {
        Some("42501") => StoreError::Unsuitable(
            "the tables belong to another role than the one that skymem connects as: run this once in the database as \
             its administrator: select journal.hand_over('<the role>')"
                .into(),
        ),
        _ => error.into(),
    })
}

/// The role of `db`, if the wall does not hold it: a superuser, or one with `bypassrls`.
///
/// # Errors
///
/// When the database gives no answer.
pub async fn bypassed_by(db: impl PgExecutor<'_>) -> Result<Option<String>, StoreError> {
    let role = sqlx::query_scalar!(
        r#"select rolname::text as "name!" from pg_roles where rolname = current_user and (rolsuper or rolbypassrls)"#
    )
    .fetch_optional(db)
    .await?;
    Ok(role)
}

/// Why a role that the wall does not hold serves a single user alone, and what to do.
#[must_use]
pub fn needs_a_plain_role(role: &str) -> String {
    format!(
        "skymem connects to the database as {role:?}, a role that row-level security does not hold (a superuser, or one with \
         bypassrls), so that only one user may have a memory in it. To have more, run this in the database as its \
         administrator: create role skymem login password '...'; select journal.hand_over('skymem'); then connect as that \
         role (database.url)"
    )
}
