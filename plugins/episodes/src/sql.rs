//! Every statement of this layer.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use pgvector::HalfVector;
use skymem_core::{Embedding, ExchangeId, Filter, Role, TimeRange, UserId};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, QueryBuilder};
use uuid::Uuid;

use crate::bm25::{Hit, Measure, Sheet};
use crate::calibrate::Background;
use crate::choose::{PARTS_PER_TURN, Passage};
use crate::decay::Decay;
use crate::fuse::{ByPassage, PassageId};
use crate::learn::{Draft, OpenEpisode, Place};
use crate::words::Count;

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

fn embedding(vector: &HalfVector) -> Embedding {
    Embedding(vector.as_slice().iter().map(|value| value.to_f32()).collect())
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

/// The time zone of a user, as its IANA name.
pub(crate) async fn timezone(db: &PgPool, user: UserId) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!("select timezone from journal.users where id = $1", user.0).fetch_optional(db).await
}

/// The languages, as ISO codes, that a user's passages are in.
pub(crate) async fn tongues(db: &PgPool, user: UserId) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("select language from episodes.tongue where user_id = $1 order by language", user.0)
        .fetch_all(db)
        .await
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

/// Replaces all that was learned from `exchanges` by `rows`, in one transaction. Exchanges that were forgotten meanwhile
/// are passed over.
pub(crate) async fn replace(
    db: &PgPool,
    user: UserId,
    embedder: Option<i16>,
    exchanges: &[Uuid],
    mut rows: Vec<Row<'_>>,
) -> sqlx::Result<()> {
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
    sqlx::query!("delete from episodes.passage where user_id = $1 and exchange_id = any($2)", user.0, exchanges)
        .execute(&mut *tx)
        .await?;
    insert_passages(&mut tx, user, &rows).await?;
    insert_postings(&mut tx, user, &rows).await?;
    insert_tongues(&mut tx, user, &rows).await?;
    if let Some(embedder) = embedder {
        let vectors: Vec<(PassageId, &Embedding)> =
            rows.iter().filter_map(|row| row.vector.as_ref().map(|vector| (row.draft.id, vector))).collect();
        insert_vectors(&mut tx, user, embedder, &vectors).await?;
    }
    tx.commit().await
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

/// The cosine of `embedding` and every passage of a user (or those of `only`), by an exact scan.
pub(crate) async fn cosines(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    embedding: &HalfVector,
    only: Option<&[PassageId]>,
) -> sqlx::Result<ByPassage<f32>> {
    // Unit vectors: the inner product is the cosine, without two square roots a row. One row of two arrays comes back,
    // since decoding ten thousand rows costs more than finding them.
    let (ids, cosines) = match only {
        None => {
            let row = sqlx::query!(
                r#"
                select coalesce(array_agg(passage_id), '{}') as "ids!",
                       coalesce(array_agg((-(embedding <#> $3))::real), '{}') as "cosines!"
                from episodes.vector
                where user_id = $1 and embedder_id = $2
                "#,
                user.0,
                embedder,
                embedding as _,
            )
            .fetch_one(db)
            .await?;
            (row.ids, row.cosines)
        }
        Some(only) => {
            let row = sqlx::query!(
                r#"
                select coalesce(array_agg(passage_id), '{}') as "ids!",
                       coalesce(array_agg((-(embedding <#> $3))::real), '{}') as "cosines!"
                from episodes.vector
                where user_id = $1 and embedder_id = $2 and passage_id = any($4)
                "#,
                user.0,
                embedder,
                embedding as _,
                only,
            )
            .fetch_one(db)
            .await?;
            (row.ids, row.cosines)
        }
    };
    Ok(ids.into_iter().zip(cosines).collect())
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

/// About the `most` nearest passages of a user (of `only`, if given), with their cosines, by the index.
pub(crate) async fn nearest(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    embedding: &HalfVector,
    dimensions: usize,
    only: Option<&[PassageId]>,
    most: i64,
) -> sqlx::Result<ByPassage<f32>> {
    let mut tx = db.begin().await?;
    // Without the iterative scan a filter leaves hardly any row of what the index returns.
    sqlx::query("set local hnsw.iterative_scan = relaxed_order").execute(&mut *tx).await?;
    sqlx::query("set local hnsw.ef_search = 400").execute(&mut *tx).await?;
    let order = format!("embedding::halfvec({dimensions}) <#> ");
    let mut query = QueryBuilder::<Postgres>::new("select passage_id, (-(embedding <#> ");
    query.push_bind(embedding).push("))::real from episodes.vector where user_id = ").push_bind(user.0);
    // Written out, so that the planner sees that the partial index holds.
    query.push(format!(" and embedder_id = {embedder}"));
    if let Some(only) = only {
        query.push(" and passage_id = any(").push_bind(only).push(")");
    }
    query.push(" order by ").push(order).push_bind(embedding).push(" limit ").push_bind(most);
    let rows: Vec<(i64, f32)> = query.build_query_as().fetch_all(&mut *tx).await?;
    tx.commit().await?;
    Ok(rows.into_iter().collect())
}

/// Cosines of about `most` passages of a user, taken here and there: what average means to the question.
pub(crate) async fn sample(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    embedding: &HalfVector,
    most: i64,
) -> sqlx::Result<ByPassage<f32>> {
    let row = sqlx::query!(
        r#"
        with reach as (
            select min(passage_id) as low, max(passage_id) as high
            from episodes.vector
            where user_id = $1 and embedder_id = $2
        ), point as (
            select reach.low + (reach.high - reach.low) / $4 * step as at
            from reach, generate_series(0::bigint, $4::bigint - 1) as step
        ), near as (
            select distinct on (vector.passage_id) vector.passage_id, vector.embedding
            from point
            cross join lateral (
                select passage_id, embedding from episodes.vector
                where user_id = $1 and embedder_id = $2 and passage_id >= point.at
                order by passage_id
                limit 1) as vector
        )
        select coalesce(array_agg(passage_id), '{}') as "ids!",
               coalesce(array_agg((-(embedding <#> $3))::real), '{}') as "cosines!"
        from near
        "#,
        user.0,
        embedder,
        embedding as _,
        most,
    )
    .fetch_one(db)
    .await?;
    Ok(row.ids.into_iter().zip(row.cosines).collect())
}

/// What every search by words needs to know of a user's passages.
pub(crate) async fn sheet(db: &PgPool, user: UserId) -> sqlx::Result<Sheet> {
    let row = sqlx::query!(
        r#"
        select coalesce(array_agg(id), '{}')                    as "ids!",
               coalesce(array_agg(coalesce(follows, -1)), '{}') as "follows!",
               coalesce(array_agg(words), '{}')                 as "words!",
               coalesce(array_agg(word_weight), '{}')           as "weights!"
        from episodes.passage
        where user_id = $1
        "#,
        user.0,
    )
    .fetch_one(db)
    .await?;
    let follows =
        row.ids.iter().zip(row.follows).filter(|(_, followed)| *followed >= 0).map(|(&id, followed)| (followed, id));
    let follows = follows.collect();
    let measures =
        row.words.into_iter().zip(row.weights).map(|(words, weight)| Measure { words: words as f32, weight });
    Ok(Sheet::new(row.ids.into_iter().zip(measures).collect(), follows))
}

/// Where each of `terms` stands in a user's passages.
pub(crate) async fn hits(db: &PgPool, user: UserId, terms: &[String]) -> sqlx::Result<Vec<Vec<Hit>>> {
    let rows = sqlx::query!(
        r#"
        select array_agg(passage_id) as "ids!", array_agg(count) as "counts!", array_agg(head) as "heads!"
        from episodes.posting
        where user_id = $1 and term = any($2)
        group by term
        "#,
        user.0,
        terms,
    )
    .fetch_all(db)
    .await?;
    let hits = |ids: Vec<i64>, counts: Vec<i16>, heads: Vec<i16>| {
        let counts = counts.into_iter().zip(heads);
        ids.into_iter().zip(counts).map(|(id, (all, head))| Hit { id, count: Count { all, head } }).collect()
    };
    Ok(rows.into_iter().map(|row| hits(row.ids, row.counts, row.heads)).collect())
}

/// The passages of a user that must not come back whatever the question: those of `window`, and those of sessions that
/// say how old a memory of theirs may get, when they are older.
pub(crate) async fn excluded(
    db: &PgPool,
    user: UserId,
    window: &[Uuid],
    asked_at: DateTime<Utc>,
) -> sqlx::Result<Vec<(PassageId, bool)>> {
    let rows = sqlx::query!(
        r#"
        select id as "id!", true as "in_window!" from episodes.passage where user_id = $1 and exchange_id = any($2)
        union all
        select passage.id, false
        from journal.session
        join episodes.passage on passage.user_id = session.user_id and passage.session_id = session.id
        where session.user_id = $1
          and session.max_age_hours is not null
          and passage.occurred_at < $3::timestamptz - make_interval(hours => session.max_age_hours)
        "#,
        user.0,
        window,
        asked_at,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.in_window)).collect())
}

/// The passages of a user that `filter` lets through and that were said by `as_of`; `None` when all are.
pub(crate) async fn allowed(
    db: &PgPool,
    user: UserId,
    filter: &Filter,
    as_of: Option<DateTime<Utc>>,
) -> sqlx::Result<Option<Vec<PassageId>>> {
    if *filter == Filter::default() && as_of.is_none() {
        return Ok(None);
    }
    let mut query = QueryBuilder::<Postgres>::new("select coalesce(array_agg(passage.id), '{}') from episodes.passage");
    if filter.pinned.is_some() {
        query
            .push(" join journal.exchange on exchange.user_id = passage.user_id and exchange.id = passage.exchange_id");
    }
    query.push(" where passage.user_id = ").push_bind(user.0);
    if !filter.sessions.is_empty() {
        let sessions: Vec<&str> = filter.sessions.iter().map(|session| session.as_str()).collect();
        query.push(" and passage.session_id = any(").push_bind(sessions).push(")");
    }
    if !filter.collections.is_empty() {
        let collections: Vec<&str> = filter.collections.iter().map(|collection| collection.as_str()).collect();
        query.push(" and passage.collection = any(").push_bind(collections).push(")");
    }
    if !filter.sources.is_empty() {
        let sources: Vec<&str> = filter.sources.iter().map(|source| source.as_str()).collect();
        query.push(" and passage.source = any(").push_bind(sources).push(")");
    }
    if !filter.roles.is_empty() {
        let roles: Vec<&str> = filter.roles.iter().map(|role| role.as_str()).collect();
        query.push(" and passage.role = any(").push_bind(roles).push(")");
    }
    if let Some(TimeRange { from, until }) = filter.time {
        query.push(" and passage.occurred_at >= ").push_bind(from);
        query.push(" and passage.occurred_at < ").push_bind(until);
    }
    if let Some(as_of) = as_of {
        query.push(" and passage.occurred_at <= ").push_bind(as_of);
    }
    if let Some(pinned) = filter.pinned {
        query.push(" and exchange.pinned = ").push_bind(pinned);
    }
    query.build_query_scalar().fetch_one(db).await.map(Some)
}

/// A passage with what bears on its rank.
pub(crate) struct Known {
    pub(crate) passage: Passage,
    pub(crate) last_used_at: Option<DateTime<Utc>>,
    /// How its collection fades, where it has a rule of its own.
    pub(crate) half_life_days: Option<f32>,
    pub(crate) decay_floor: Option<f32>,
}

impl Known {
    /// How it fades, by its collection's rule or else by `default`.
    pub(crate) fn decay(&self, default: Decay) -> Decay {
        Decay {
            half_life_days: self.half_life_days.unwrap_or(default.half_life_days),
            floor: self.decay_floor.unwrap_or(default.floor),
        }
    }
}

/// The passages of a user by id.
pub(crate) async fn passages(db: &PgPool, user: UserId, ids: &[PassageId]) -> sqlx::Result<Vec<Known>> {
    let rows = sqlx::query!(
        r#"
        select passage.id, passage.exchange_id, passage.session_id, passage.collection, passage.source, passage.role,
               passage.speaker, passage.text, passage.occurred_at, passage.episode, passage.split, passage.topic,
               exchange.pinned,
               "use".last_used_at as "last_used_at?",
               collection.half_life_days as "half_life_days?",
               collection.decay_floor as "decay_floor?"
        from episodes.passage
        join journal.exchange on exchange.user_id = passage.user_id and exchange.id = passage.exchange_id
        left join episodes.use on "use".user_id = passage.user_id and "use".exchange_id = passage.exchange_id
        left join journal.collection on collection.user_id = passage.user_id and collection.name = passage.collection
        where passage.user_id = $1 and passage.id = any($2)
        "#,
        user.0,
        ids,
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Known {
            passage: Passage {
                id: row.id,
                exchange_id: row.exchange_id,
                session_id: row.session_id,
                collection: row.collection,
                source: row.source,
                role: role(&row.role),
                speaker: row.speaker,
                text: row.text,
                occurred_at: row.occurred_at,
                episode: row.episode,
                split: row.split,
                topic: row.topic,
                pinned: row.pinned,
            },
            last_used_at: row.last_used_at,
            half_life_days: row.half_life_days,
            decay_floor: row.decay_floor,
        })
        .collect())
}

/// Only the two roles that are learned can come back.
fn role(word: &str) -> Role {
    word.parse().unwrap_or(Role::User)
}

/// The ids of all passages of one exchange, in order.
pub(crate) async fn passages_of_exchange(db: &PgPool, user: UserId, exchange: Uuid) -> sqlx::Result<Vec<PassageId>> {
    sqlx::query_scalar!(
        "select id from episodes.passage where user_id = $1 and exchange_id = $2 order by id",
        user.0,
        exchange,
    )
    .fetch_all(db)
    .await
}

/// Whether the journal has an exchange, and if so, whether layers may know it.
pub(crate) async fn is_remembered(db: &PgPool, user: UserId, exchange: Uuid) -> sqlx::Result<Option<bool>> {
    sqlx::query_scalar!(
        r#"
        select exists (
            select from journal.remembered
            where remembered.user_id = exchange.user_id and remembered.exchange_id = exchange.id) as "remembered!"
        from journal.exchange
        where user_id = $1 and id = $2
        "#,
        user.0,
        exchange,
    )
    .fetch_optional(db)
    .await
}

/// The ids of the passages that make up each of `episodes`, in order.
pub(crate) async fn passages_of_episodes(
    db: &PgPool,
    user: UserId,
    episodes: &[PassageId],
) -> sqlx::Result<ByPassage<Vec<PassageId>>> {
    let rows = sqlx::query!(
        r#"
        select episode, array_agg(id order by id) as "ids!"
        from episodes.passage
        where user_id = $1 and episode = any($2)
        group by episode
        "#,
        user.0,
        episodes,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.episode, row.ids)).collect())
}

/// The first passage a person said in each of `exchanges`: the question that its parts answer.
pub(crate) async fn questions(db: &PgPool, user: UserId, exchanges: &[Uuid]) -> sqlx::Result<HashMap<Uuid, PassageId>> {
    let rows = sqlx::query!(
        r#"
        select exchange_id, min(id) as "id!"
        from episodes.passage
        where user_id = $1 and exchange_id = any($2) and role = 'user'
        group by exchange_id
        "#,
        user.0,
        exchanges,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (row.exchange_id, row.id)).collect())
}

/// The ids of the passages of one topic of a session, in order.
pub(crate) async fn passages_of_segment(
    db: &PgPool,
    user: UserId,
    session: &str,
    topic: i32,
) -> sqlx::Result<Vec<PassageId>> {
    sqlx::query_scalar!(
        "select id from episodes.passage where user_id = $1 and session_id = $2 and topic = $3 order by id",
        user.0,
        session,
        topic,
    )
    .fetch_all(db)
    .await
}

/// When each of these topics, a session and a number, began.
pub(crate) async fn topics_began_at(
    db: &PgPool,
    user: UserId,
    topics: &[(&str, i32)],
) -> sqlx::Result<HashMap<(String, i32), DateTime<Utc>>> {
    let sessions: Vec<String> = topics.iter().map(|(session, _)| (*session).to_owned()).collect();
    let numbers: Vec<i32> = topics.iter().map(|(_, number)| *number).collect();
    let rows = sqlx::query!(
        r#"
        select passage.session_id, passage.topic, min(passage.occurred_at) as "began_at!"
        from (select distinct * from unnest($2::text[], $3::integer[])) as asked (session, topic)
        join episodes.passage
          on passage.user_id = $1 and passage.session_id = asked.session and passage.topic = asked.topic
        group by passage.session_id, passage.topic
        "#,
        user.0,
        &sessions,
        &numbers,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| ((row.session_id, row.topic), row.began_at)).collect())
}

/// The ids of the passages of the `exchanges` exchanges before and after the passages from `first` to `last`, in order.
pub(crate) async fn around(
    db: &PgPool,
    user: UserId,
    session: &str,
    first: PassageId,
    last: PassageId,
    exchanges: i64,
) -> sqlx::Result<Vec<PassageId>> {
    sqlx::query_scalar!(
        r#"
        with own as (
            select distinct exchange_id from episodes.passage where user_id = $1 and id between $3 and $4
        ), before as (
            select exchange_id from episodes.passage
            where user_id = $1 and session_id = $2 and id < $3 and exchange_id not in (select exchange_id from own)
            group by exchange_id order by min(id) desc limit $5
        ), after as (
            select exchange_id from episodes.passage
            where user_id = $1 and session_id = $2 and id > $4 and exchange_id not in (select exchange_id from own)
            group by exchange_id order by min(id) limit $5
        )
        select id from episodes.passage
        where user_id = $1
          and exchange_id in (select exchange_id from before union all select exchange_id from after)
        order by id
        "#,
        user.0,
        session,
        first,
        last,
        exchanges,
    )
    .fetch_all(db)
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
