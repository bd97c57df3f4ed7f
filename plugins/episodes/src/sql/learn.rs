//! Writing down what was learned of exchanges, and reading what it depends on.

use std::collections::HashMap;

use pgvector::HalfVector;
use skymem_core::{Embedding, ExchangeId, UserId};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::embedding;
use crate::bm25::Entry;
use crate::choose::PARTS_PER_TURN;
use crate::learn::{Draft, OpenEpisode, Place};
use crate::places::PassageId;

/// A passage ready to be written down.
pub(crate) struct Row<'a> {
    pub(crate) exchange: ExchangeId,
    pub(crate) session: &'a str,
    pub(crate) collection: &'a str,
    pub(crate) source: &'a str,
    pub(crate) topic: i32,
    pub(crate) draft: Draft,
    pub(crate) vector: Option<Embedding>,
}

/// What one transaction changed of a user's passages.
#[derive(Debug)]
pub(crate) struct Change {
    /// How often they have changed, this time included.
    pub(crate) version: i64,
    /// Those that are no longer there, or other than they were.
    pub(crate) gone: Vec<PassageId>,
    /// Those that are there now.
    pub(crate) new: Vec<Entry>,
}

/// Replaces all that was learned from `exchanges` by `rows`, in one transaction; what that changed, if anything. Exchanges
/// that were forgotten meanwhile are passed over.
pub(crate) async fn replace(
    db: &PgPool,
    user: UserId,
    embedder: Option<i16>,
    exchanges: &[Uuid],
    mut rows: Vec<Row<'_>>,
) -> sqlx::Result<Option<Change>> {
    let mut tx = db.begin().await?;
    let remembered: Vec<Uuid> = sqlx::query_scalar!(
        r#"
        select exchange_id from journal.remembered
        where user_id = $1 and exchange_id = any($2)
        order by exchange_id
        for key share
        "#,
        user.0,
        exchanges,
    )
    .fetch_all(&mut *tx)
    .await?;
    rows.retain(|row| remembered.contains(&row.exchange.0));
    let gone = sqlx::query_scalar!(
        "delete from episodes.passage where user_id = $1 and exchange_id = any($2) returning id",
        user.0,
        exchanges,
    )
    .fetch_all(&mut *tx)
    .await?;
    insert_passages(&mut tx, user, &rows).await?;
    insert_postings(&mut tx, user, &rows).await?;
    insert_tongues(&mut tx, user, &rows).await?;
    if let Some(embedder) = embedder {
        let vectors: Vec<(PassageId, &Embedding)> =
            rows.iter().filter_map(|row| row.vector.as_ref().map(|vector| (row.draft.id, vector))).collect();
        insert_vectors(&mut tx, user, embedder, &vectors).await?;
    }
    // The change is counted now instead of at the very end, so that its number is known. Nothing may follow that waits for a
    // lock.
    sqlx::query("set constraints episodes.passage_changed, episodes.vector_changed immediate")
        .execute(&mut *tx)
        .await?;
    let version = sqlx::query_scalar!(
        "select version from episodes.version where user_id = $1 and changed_by = pg_current_xact_id()",
        user.0,
    )
    .fetch_optional(&mut *tx)
    .await?;
    tx.commit().await?;
    let new = rows.iter().map(|Row { draft, .. }| (draft.id, draft.follows, draft.measure())).collect();
    Ok(version.map(|version| Change { version, gone, new }))
}

async fn insert_passages(tx: &mut PgConnection, user: UserId, rows: &[Row<'_>]) -> sqlx::Result<()> {
    let column = |value: fn(&Draft) -> i64| rows.iter().map(|row| value(&row.draft)).collect::<Vec<i64>>();
    sqlx::query!(
        r#"
        insert into episodes.passage
            (user_id, id, exchange_id, session_id, collection, source, role, speaker, text, occurred_at, follows, episode,
             split, topic, tokens, words, word_weight)
        select $1, *
        from unnest(
            $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
            $10::timestamptz[], $11::bigint[], $12::bigint[], $13::boolean[], $14::integer[], $15::bigint[], $16::bigint[],
            $17::real[])
        "#,
        user.0,
        &column(|draft| draft.id),
        &rows.iter().map(|row| row.exchange.0).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.session.to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.collection.to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.source.to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.draft.role.as_str().to_owned()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.draft.speaker.clone()).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.draft.text.clone()).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.draft.occurred_at).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.draft.follows).collect::<Vec<_>>() as _,
        &column(|draft| draft.episode),
        &rows.iter().map(|row| row.draft.split).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.topic).collect::<Vec<_>>(),
        &column(|draft| i64::try_from(draft.tokens).unwrap_or(i64::from(i32::MAX))),
        &column(|draft| i64::try_from(draft.words).unwrap_or(i64::from(i32::MAX))),
        &rows.iter().map(|row| row.draft.word_weight).collect::<Vec<_>>(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn insert_postings(tx: &mut PgConnection, user: UserId, rows: &[Row<'_>]) -> sqlx::Result<()> {
    let mut terms = Vec::new();
    let mut passages = Vec::new();
    let mut counts = Vec::new();
    let mut heads = Vec::new();
    for row in rows {
        for (term, count) in &row.draft.postings {
            terms.push(term.clone());
            passages.push(row.draft.id);
            counts.push(count.all);
            heads.push(count.head);
        }
    }
    sqlx::query!(
        r#"
        insert into episodes.posting (user_id, term, passage_id, count, head)
        select $1, * from unnest($2::text[], $3::bigint[], $4::smallint[], $5::smallint[])
        "#,
        user.0,
        &terms,
        &passages,
        &counts,
        &heads,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn insert_tongues(tx: &mut PgConnection, user: UserId, rows: &[Row<'_>]) -> sqlx::Result<()> {
    let mut codes: Vec<String> = rows.iter().map(|row| row.draft.language.code().to_owned()).collect();
    codes.sort_unstable();
    codes.dedup();
    sqlx::query!(
        "insert into episodes.tongue (user_id, language) select $1, * from unnest($2::text[]) on conflict do nothing",
        user.0,
        &codes,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Writes the vectors of passages down, and says how many; one that is there already, or whose passage is gone, is passed
/// over.
pub(crate) async fn insert_vectors(
    tx: &mut PgConnection,
    user: UserId,
    embedder: i16,
    vectors: &[(PassageId, &Embedding)],
) -> sqlx::Result<u64> {
    let ids: Vec<PassageId> = vectors.iter().map(|(id, _)| *id).collect();
    let halves: Vec<HalfVector> = vectors.iter().map(|(_, vector)| HalfVector::from_f32_slice(&vector.0)).collect();
    sqlx::query!(
        r#"
        insert into episodes.vector (user_id, embedder_id, passage_id, embedding)
        select $1, $2, new.id, new.embedding
        from unnest($3::bigint[], $4::halfvec[]) as new (id, embedding)
        join episodes.passage on passage.user_id = $1 and passage.id = new.id
        on conflict do nothing
        "#,
        user.0,
        embedder,
        &ids,
        &halves as _,
    )
    .execute(tx)
    .await
    .map(|done| done.rows_affected())
}

/// The part size, in tokens, of each of a user's collections that has one of its own.
pub(crate) async fn part_tokens(db: &PgPool, user: UserId) -> sqlx::Result<HashMap<String, usize>> {
    let rows = sqlx::query!(
        r#"select name, part_tokens as "part_tokens!" from journal.collection where user_id = $1 and part_tokens is not null"#,
        user.0,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.name, usize::try_from(row.part_tokens).unwrap_or(usize::MAX))).collect())
}

/// For each of `firsts`, a session and a passage, the last passage that stands before it in its session and is of none of
/// `exchanges`.
pub(crate) async fn last_before(
    db: &PgPool,
    user: UserId,
    firsts: &[(&str, PassageId)],
    exchanges: &[Uuid],
) -> sqlx::Result<Vec<Option<PassageId>>> {
    let (sessions, ids): (Vec<&str>, Vec<PassageId>) = firsts.iter().copied().unzip();
    sqlx::query_scalar!(
        r#"
        select (select max(passage.id)
                from episodes.passage
                where passage.user_id = $1
                  and passage.session_id = first.session
                  and passage.id < first.id
                  and passage.exchange_id <> all($4))
        from unnest($2::text[], $3::bigint[]) with ordinality as first (session, id, place)
        order by first.place
        "#,
        user.0,
        &sessions as &[&str],
        &ids,
        exchanges,
    )
    .fetch_all(db)
    .await
}

/// What stands in a session before the passage `before`: what the next one follows, the episode it may join, and topic
/// and meaning of the exchange before it.
pub(crate) async fn place_before(
    db: &PgPool,
    user: UserId,
    session: &str,
    before: PassageId,
    embedder: Option<i16>,
) -> sqlx::Result<(Place, Option<(i32, Vec<Embedding>)>)> {
    let last = sqlx::query!(
        r#"
        select id, exchange_id, collection, source, episode, topic
        from episodes.passage
        where user_id = $1 and session_id = $2 and id < $3 and id % $4 = 0
        order by id desc
        limit 1
        "#,
        user.0,
        session,
        before,
        PARTS_PER_TURN,
    )
    .fetch_optional(db)
    .await?;
    let Some(last) = last else { return Ok((Place::default(), None)) };
    let head = sqlx::query_scalar!(
        r#"select coalesce(sum(head), 0) as "head!" from episodes.posting where user_id = $1 and passage_id = $2"#,
        user.0,
        last.id,
    )
    .fetch_one(db)
    .await?;
    let episode = sqlx::query!(
        r#"
        select count(distinct passage.exchange_id)  as "exchanges!",
               coalesce(sum(passage.tokens), 0)     as "tokens!",
               max(passage.occurred_at)             as "last_at!",
               bool_or(passage.split)               as "split!",
               bool_or(exchange.kind = 'asserted')  as "told!"
        from episodes.passage
        join journal.exchange on exchange.user_id = passage.user_id and exchange.id = passage.exchange_id
        where passage.user_id = $1 and passage.episode = $2 and passage.id < $3
        "#,
        user.0,
        last.episode,
        before,
    )
    .fetch_one(db)
    .await?;
    let meaning = sqlx::query_scalar!(
        r#"
        select embedding as "embedding: HalfVector"
        from episodes.vector
        join episodes.passage on passage.user_id = vector.user_id and passage.id = vector.passage_id
        where vector.user_id = $1 and vector.embedder_id = $2 and passage.exchange_id = $3
        "#,
        user.0,
        embedder.unwrap_or(-1),
        last.exchange_id,
    )
    .fetch_all(db)
    .await?;
    let kept_as = last.collection.parse().ok().zip(last.source.parse().ok());
    let open = kept_as.filter(|_| !episode.split && !episode.told).map(|(collection, source)| OpenEpisode {
        id: last.episode,
        last_at: episode.last_at,
        exchanges: usize::try_from(episode.exchanges).unwrap_or(usize::MAX),
        tokens: usize::try_from(episode.tokens).unwrap_or(usize::MAX),
        collection,
        source,
    });
    let follows = (!episode.told).then_some((last.id, usize::try_from(head).unwrap_or(0)));
    let place = Place { follows, open };
    Ok((place, Some((last.topic, meaning.iter().map(embedding).collect()))))
}
