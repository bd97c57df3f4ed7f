//! Keeping the layer in order: the embedders it has met, vectors that are lacking, the index, uses, counts.

use chrono::{DateTime, Utc};
use pgvector::HalfVector;
use skymem_core::UserId;
use sqlx::{AssertSqlSafe, PgPool};

use super::embedding;
use crate::calibrate::Background;
use crate::places::PassageId;

/// An embedder this layer has met.
#[derive(Debug, Clone)]
pub(crate) struct KnownEmbedder {
    pub(crate) id: i16,
    pub(crate) background: Background,
}

/// The embedder of that name, if it was met before.
pub(crate) async fn embedder(db: &PgPool, name: &str) -> sqlx::Result<Option<KnownEmbedder>> {
    let row = sqlx::query!(
        r#"select id, spread, background as "background: Vec<HalfVector>" from episodes.embedder where name = $1"#,
        name,
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| KnownEmbedder {
        id: row.id,
        background: Background { references: row.background.iter().map(embedding).collect(), spread: row.spread },
    }))
}

/// Notes an embedder and what "far" means to it. Another server may have done so meanwhile: then its word holds.
pub(crate) async fn meet_embedder(
    db: &PgPool,
    name: &str,
    dimensions: usize,
    background: &Background,
) -> sqlx::Result<()> {
    let references: Vec<HalfVector> =
        background.references.iter().map(|reference| HalfVector::from_f32_slice(&reference.0)).collect();
    sqlx::query!(
        r#"
        insert into episodes.embedder (name, dimensions, spread, background)
        values ($1, $2, $3, $4)
        on conflict (name) do nothing
        "#,
        name,
        i32::try_from(dimensions).unwrap_or(i32::MAX),
        background.spread,
        &references as _,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// The name of an embedder other than `name` that vectors here are from, if there is one.
pub(crate) async fn other_embedder(db: &PgPool, name: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        r#"
        select embedder.name
        from episodes.embedder
        where embedder.name <> $1
          and exists (select from episodes.vector where vector.embedder_id = embedder.id)
        limit 1
        "#,
        name,
    )
    .fetch_optional(db)
    .await
}

/// Whether this layer has tables yet.
pub(crate) async fn has_tables(db: &PgPool) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"select to_regclass('episodes.vector') is not null as "there!""#).fetch_one(db).await
}

/// A passage that has no vector of an embedder yet.
pub(crate) struct Unembedded {
    pub(crate) user: UserId,
    pub(crate) id: PassageId,
    pub(crate) speaker: Option<String>,
    pub(crate) text: String,
}

/// The next passages after that of `after`, of any user, that have no vector of `embedder`; at most `most`.
pub(crate) async fn unembedded(
    db: &PgPool,
    embedder: i16,
    after: (UserId, PassageId),
    most: i64,
) -> sqlx::Result<Vec<Unembedded>> {
    let rows = sqlx::query!(
        r#"
        select user_id, id, speaker, text
        from episodes.passage
        where (user_id, id) > ($2, $3)
          and not exists (
            select from episodes.vector
            where vector.user_id = passage.user_id and vector.embedder_id = $1 and vector.passage_id = passage.id)
        order by user_id, id
        limit $4
        "#,
        embedder,
        after.0.0,
        after.1,
        most,
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Unembedded { user: UserId(row.user_id), id: row.id, speaker: row.speaker, text: row.text })
        .collect())
}

/// The name of the index over the vectors of `embedder`.
fn near_index(embedder: i16) -> String {
    format!("vector_near_{embedder}")
}

/// Whether the vectors of `embedder` have an index that is ready.
pub(crate) async fn has_near_index(db: &PgPool, embedder: i16) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        select exists (
            select from pg_index
            where indexrelid = to_regclass('episodes.' || $1::text) and indisvalid and indisready) as "ready!"
        "#,
        near_index(embedder),
    )
    .fetch_one(db)
    .await
}

/// Builds the index over the vectors of `embedder`, while writing goes on.
pub(crate) async fn build_near_index(db: &PgPool, embedder: i16, dimensions: usize) -> sqlx::Result<()> {
    let name = near_index(embedder);
    // Numbers and a name made of a number: nothing from outside.
    sqlx::query(AssertSqlSafe(format!("drop index concurrently if exists episodes.{name}"))).execute(db).await?;
    sqlx::query(AssertSqlSafe(format!(
        "create index concurrently {name} on episodes.vector \
         using hnsw ((embedding::halfvec({dimensions})) halfvec_ip_ops) where embedder_id = {embedder}"
    )))
    .execute(db)
    .await?;
    Ok(())
}

/// Whether any user has more than `most` vectors of `embedder`.
pub(crate) async fn any_user_above(db: &PgPool, embedder: i16, most: i64) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        select exists (
            select from episodes.vector where embedder_id = $1 group by user_id having count(*) > $2) as "any!"
        "#,
        embedder,
        most,
    )
    .fetch_one(db)
    .await
}

/// Notes that exchanges were put before an assistant.
pub(crate) async fn note_use(
    db: &PgPool,
    user: UserId,
    passages: &[PassageId],
    episodes: &[PassageId],
    segments: &[PassageId],
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        insert into episodes.use (user_id, exchange_id, uses, last_used_at)
        select distinct passage.user_id, passage.exchange_id, 1, $5::timestamptz
        from episodes.passage
        where passage.user_id = $1
          and (passage.id = any($2)
               or passage.episode = any($3)
               or (passage.session_id, passage.topic) in (
                   select opening.session_id, opening.topic from episodes.passage opening
                   where opening.user_id = $1 and opening.id = any($4)))
        order by passage.exchange_id
        on conflict (user_id, exchange_id) do update
        set uses = use.uses + 1, last_used_at = greatest(use.last_used_at, excluded.last_used_at)
        "#,
        user.0,
        passages,
        episodes,
        segments,
        at,
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Counts for people: exchanges, passages, with a vector, words, topics; and bytes of the whole schema.
pub(crate) async fn stats(db: &PgPool, user: UserId) -> sqlx::Result<(Vec<(String, i64)>, i64)> {
    let row = sqlx::query!(
        r#"
        select (select count(distinct exchange_id) from episodes.passage where user_id = $1)          as "exchanges!",
               (select count(distinct episode) from episodes.passage where user_id = $1)              as "episodes!",
               (select count(*) from episodes.passage where user_id = $1)                             as "passages!",
               (select count(*) from episodes.vector where user_id = $1)                              as "vectors!",
               (select count(distinct (session_id, topic)) from episodes.passage where user_id = $1)  as "segments!",
               (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
                where relnamespace = to_regnamespace('episodes') and relkind = 'r')                   as "bytes!"
        "#,
        user.0,
    )
    .fetch_one(db)
    .await?;
    let counts = vec![
        ("exchanges".to_owned(), row.exchanges),
        ("episodes".to_owned(), row.episodes),
        ("passages".to_owned(), row.passages),
        ("vectors".to_owned(), row.vectors),
        ("segments".to_owned(), row.segments),
    ];
    Ok((counts, row.bytes))
}
