//! Every statement on schema `files`, and the few that read users.

use chrono::{DateTime, Utc};
use skymem_core::UserId;
use skymem_core::files::{FileName, Revision, RevisionHead};
use sqlx::PgPool;

use crate::snapshot::News;

/// A user as the database names them.
pub(crate) struct UserRow {
    pub(crate) id: UserId,
    pub(crate) name: String,
}

/// A text as it was last kept.
pub(crate) struct Kept {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) seen_at: DateTime<Utc>,
}

/// Everyone.
pub(crate) async fn users(db: &PgPool) -> sqlx::Result<Vec<UserRow>> {
    let rows = sqlx::query!("select id, name from journal.users order by name").fetch_all(db).await?;
    Ok(rows.into_iter().map(|row| UserRow { id: UserId(row.id), name: row.name }).collect())
}

/// The user of that id.
pub(crate) async fn user(db: &PgPool, user: UserId) -> sqlx::Result<Option<UserRow>> {
    let row = sqlx::query!("select id, name from journal.users where id = $1", user.0).fetch_optional(db).await?;
    Ok(row.map(|row| UserRow { id: UserId(row.id), name: row.name }))
}

/// The user of that name.
pub(crate) async fn user_named(db: &PgPool, name: &str) -> sqlx::Result<Option<UserRow>> {
    let row = sqlx::query!("select id, name from journal.users where name = $1", name).fetch_optional(db).await?;
    Ok(row.map(|row| UserRow { id: UserId(row.id), name: row.name }))
}

/// The newest text of each file of `user` that is not gone.
pub(crate) async fn newest_texts(db: &PgPool, user: UserId) -> sqlx::Result<Vec<Kept>> {
    sqlx::query_as!(
        Kept,
        r#"
        select file, text as "text!", seen_at
        from (
            select distinct on (file) file, text, seen_at
            from files.revision
            where user_id = $1
            order by file, number desc
        ) newest
        where text is not null
        "#,
        user.0
    )
    .fetch_all(db)
    .await
}

/// The files of `user` whose history ends with their being gone.
pub(crate) async fn gone(db: &PgPool, user: UserId) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"
        select file
        from (
            select distinct on (file) file, text
            from files.revision
            where user_id = $1
            order by file, number desc
        ) newest
        where text is null
        order by file
        "#,
        user.0
    )
    .fetch_all(db)
    .await
}

/// Adds `news` to the history of its file, unless that is what the history ends with.
pub(crate) async fn keep(db: &PgPool, user: UserId, news: &News) -> sqlx::Result<()> {
    let (revision, text) = news.text.as_ref().map(|(revision, text)| (revision.0.as_str(), text.as_ref())).unzip();
    sqlx::query!(
        "
        insert into files.revision (user_id, file, revision, text, seen_at, origin)
        select $1, $2, $3, $4, $5, $6
        where $3 is distinct from (
            select revision from files.revision where user_id = $1 and file = $2 order by number desc limit 1
        )
        ",
        user.0,
        news.file.as_str(),
        revision,
        text,
        news.seen_at,
        news.origin.as_str(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Removes the revisions of a file beyond the newest `most`.
pub(crate) async fn trim(db: &PgPool, user: UserId, file: &FileName, most: u32) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "
        delete from files.revision
        where user_id = $1
          and file = $2
          and number <= (
              select number from files.revision where user_id = $1 and file = $2 order by number desc offset $3 limit 1
          )
        ",
        user.0,
        file.as_str(),
        i64::from(most),
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Removes these revisions of a file; how many.
pub(crate) async fn purge(db: &PgPool, user: UserId, file: &FileName, revisions: &[String]) -> sqlx::Result<u64> {
    let done = sqlx::query!(
        "delete from files.revision where user_id = $1 and file = $2 and revision = any($3)",
        user.0,
        file.as_str(),
        revisions,
    )
    .execute(db)
    .await?;
    Ok(done.rows_affected())
}

/// Every kept revision of a file, newest first; a text that came back is there twice.
pub(crate) async fn history(db: &PgPool, user: UserId, file: &FileName) -> sqlx::Result<Vec<RevisionHead>> {
    let rows = sqlx::query!(
        r#"
        select revision as "revision!", seen_at, octet_length(text)::bigint as "bytes!", origin
        from files.revision
        where user_id = $1 and file = $2 and revision is not null
        order by number desc
        "#,
        user.0,
        file.as_str(),
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| RevisionHead {
            revision: Revision(row.revision),
            seen_at: row.seen_at,
            bytes: row.bytes.unsigned_abs(),
            origin: row.origin,
        })
        .collect())
}

/// The text of a revision of a file.
pub(crate) async fn text(
    db: &PgPool,
    user: UserId,
    file: &FileName,
    revision: &Revision,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        r#"select text as "text!" from files.revision where user_id = $1 and file = $2 and revision = $3 limit 1"#,
        user.0,
        file.as_str(),
        revision.0,
    )
    .fetch_optional(db)
    .await
}

/// How many revisions are kept of all files of `user`.
pub(crate) async fn count(db: &PgPool, user: UserId) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from files.revision where user_id = $1 and revision is not null"#,
        user.0
    )
    .fetch_one(db)
    .await
}

/// Bytes of the history of everyone, with its index.
pub(crate) async fn bytes(db: &PgPool) -> sqlx::Result<i64> {
    sqlx::query_scalar!(r#"select pg_total_relation_size('files.revision') as "bytes!""#).fetch_one(db).await
}
