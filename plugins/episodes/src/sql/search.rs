//! Reading for a search: nearness in meaning, places of words, what may come back, and the passages themselves.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use futures_util::TryStreamExt;
use pgvector::HalfVector;
use rustc_hash::FxHashMap;
use skymem_core::{Filter, Role, TimeRange, UserId};
use sqlx::{PgExecutor, PgPool, Postgres, QueryBuilder};
use uuid::Uuid;

use crate::bm25::{Hit, Measure, Sheet};
use crate::choose::{PARTS_PER_TURN, Passage};
use crate::places::PassageId;
use crate::weigh::Known;
use crate::words::Count;

/// The cosine of `embedding` and every passage of a user (or those of `only`), by an exact scan.
pub(crate) async fn cosines(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    embedding: &HalfVector,
    only: Option<&[PassageId]>,
) -> sqlx::Result<Vec<(PassageId, f32)>> {
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

/// About the `most` nearest passages of a user (of `only`, if given), with their cosines, by the index.
pub(crate) async fn nearest(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    embedding: &HalfVector,
    dimensions: usize,
    only: Option<&[PassageId]>,
    most: i64,
) -> sqlx::Result<Vec<(PassageId, f32)>> {
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
) -> sqlx::Result<Vec<(PassageId, f32)>> {
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

/// The vectors of a user's passages (of `only`, if given), as they are stored.
pub(crate) async fn vectors(
    db: &PgPool,
    user: UserId,
    embedder: i16,
    only: Option<&[PassageId]>,
) -> sqlx::Result<FxHashMap<PassageId, HalfVector>> {
    let mut rows = sqlx::query!(
        r#"
        select passage_id, embedding as "embedding: HalfVector"
        from episodes.vector
        where user_id = $1 and embedder_id = $2 and ($3::bigint[] is null or passage_id = any($3))
        "#,
        user.0,
        embedder,
        only,
    )
    .fetch(db);
    let mut vectors = FxHashMap::default();
    while let Some(row) = rows.try_next().await? {
        vectors.insert(row.passage_id, row.embedding);
    }
    Ok(vectors)
}

/// What every search by words needs to know of a user's passages, and as of which version.
pub(crate) async fn sheet(db: &PgPool, user: UserId) -> sqlx::Result<(i64, Sheet)> {
    let row = sqlx::query!(
        r#"
        select coalesce((select version from episodes.version where user_id = $1), 0) as "version!",
               coalesce(array_agg(id), '{}')                    as "ids!",
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
    let passages = row.ids.into_iter().zip(row.follows).zip(row.words.into_iter().zip(row.weights));
    let passages = passages.map(|((id, followed), (words, weight))| {
        (id, (followed >= 0).then_some(followed), Measure { words: words as f32, weight })
    });
    Ok((row.version, Sheet::new(passages.collect())))
}

/// A word, the passages of a user in which it stands, and how often.
#[derive(Debug)]
pub(crate) struct Posting {
    pub(crate) term: String,
    ids: Vec<PassageId>,
    counts: Vec<i16>,
    heads: Vec<i16>,
}

impl Posting {
    /// At the places of those that are on `sheet`.
    pub(crate) fn hits(&self, sheet: &Sheet) -> impl Iterator<Item = Hit> {
        let counts = self.counts.iter().zip(&self.heads).map(|(&all, &head)| Count { all, head });
        self.ids.iter().zip(counts).filter_map(|(&id, count)| Some(Hit { place: sheet.place(id)?, count }))
    }
}

/// Where those of `terms` stand that stand anywhere in a user's passages.
pub(crate) async fn hits(db: &PgPool, user: UserId, terms: &[String]) -> sqlx::Result<Vec<Posting>> {
    sqlx::query_as!(
        Posting,
        r#"
        select term, array_agg(passage_id) as "ids!", array_agg(count) as "counts!", array_agg(head) as "heads!"
        from episodes.posting
        where user_id = $1 and term = any($2)
        group by term
        "#,
        user.0,
        terms,
    )
    .fetch_all(db)
    .await
}

/// The words of a user's passages (of `only`, if given).
pub(crate) async fn postings(db: &PgPool, user: UserId, only: Option<&[PassageId]>) -> sqlx::Result<Vec<Posting>> {
    sqlx::query_as!(
        Posting,
        r#"
        select term, array_agg(passage_id) as "ids!", array_agg(count) as "counts!", array_agg(head) as "heads!"
        from episodes.posting
        where user_id = $1 and ($2::bigint[] is null or passage_id = any($2))
        group by term
        "#,
        user.0,
        only,
    )
    .fetch_all(db)
    .await
}

/// What a search of a user's passages has to know before it begins.
#[derive(Debug)]
pub(crate) struct Ground {
    /// How often the passages have changed.
    pub(crate) version: i64,
    /// The languages, as ISO codes, that they are in.
    pub(crate) tongues: Vec<String>,
    /// Those of the exchanges that the prompt holds already.
    pub(crate) in_window: Vec<PassageId>,
    /// Those of sessions that say how old a memory of theirs may get, when they are older.
    pub(crate) expired: Vec<PassageId>,
}

/// What a question asked at `asked_at`, with the exchanges of `window` in its prompt, has to know before it is searched.
pub(crate) async fn ground(
    db: &PgPool,
    user: UserId,
    window: &[Uuid],
    asked_at: DateTime<Utc>,
) -> sqlx::Result<Ground> {
    sqlx::query_as!(
        Ground,
        r#"
        select coalesce((select version from episodes.version where user_id = $1), 0) as "version!",
               array(select language from episodes.tongue where user_id = $1 order by language) as "tongues!",
               array(select id from episodes.passage where user_id = $1 and exchange_id = any($2)) as "in_window!",
               array(select passage.id
                     from journal.session
                     join episodes.passage on passage.user_id = session.user_id and passage.session_id = session.id
                     where session.user_id = $1
                       and session.max_age_hours is not null
                       and passage.occurred_at < $3::timestamptz - make_interval(hours => session.max_age_hours))
                   as "expired!"
        "#,
        user.0,
        window,
        asked_at,
    )
    .fetch_one(db)
    .await
}

/// The passages of a user that `filter` lets through, that were said by `as_of`, and whose turns were written down by
/// `known_at`; `None` when all are.
pub(crate) async fn allowed(
    db: &PgPool,
    user: UserId,
    filter: &Filter,
    as_of: Option<DateTime<Utc>>,
    known_at: Option<DateTime<Utc>>,
) -> sqlx::Result<Option<Vec<PassageId>>> {
    if *filter == Filter::default() && as_of.is_none() && known_at.is_none() {
        return Ok(None);
    }
    let mut query = QueryBuilder::<Postgres>::new("select coalesce(array_agg(passage.id), '{}') from episodes.passage");
    if filter.pinned.is_some() {
        query
            .push(" join journal.exchange on exchange.user_id = passage.user_id and exchange.id = passage.exchange_id");
    }
    if known_at.is_some() {
        query.push(" join journal.turn on turn.user_id = passage.user_id and turn.seq = passage.id / ");
        query.push_bind(PARTS_PER_TURN);
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
    if let Some(known_at) = known_at {
        query.push(" and turn.recorded_at <= ").push_bind(known_at);
    }
    if let Some(pinned) = filter.pinned {
        query.push(" and exchange.pinned = ").push_bind(pinned);
    }
    query.build_query_scalar().fetch_one(db).await.map(Some)
}

/// Those of `passages` whose turns were written down by `known_at`.
pub(crate) async fn known_by(
    db: impl PgExecutor<'_>,
    user: UserId,
    passages: &[PassageId],
    known_at: DateTime<Utc>,
) -> sqlx::Result<HashSet<PassageId>> {
    let known = sqlx::query_scalar!(
        r#"
        select asked.id as "id!"
        from unnest($2::bigint[]) as asked (id)
        join journal.turn on turn.user_id = $1 and turn.seq = asked.id / $4
        where turn.recorded_at <= $3
        "#,
        user.0,
        passages,
        known_at,
        PARTS_PER_TURN,
    )
    .fetch_all(db)
    .await?;
    Ok(known.into_iter().collect())
}

/// The passages of a user by id.
pub(crate) async fn passages(db: impl PgExecutor<'_>, user: UserId, ids: &[PassageId]) -> sqlx::Result<Vec<Known>> {
    let rows = sqlx::query!(
        r#"
        select passage.id, passage.exchange_id, passage.session_id, passage.collection, passage.source, passage.role,
               passage.speaker, passage.text, passage.occurred_at, passage.episode, passage.split, passage.topic,
               passage.exchange_id in (
                   select id from journal.exchange where user_id = $1 and pinned) as "pinned!",
               "use".last_used_at as "last_used_at?",
               collection.half_life_days as "half_life_days?",
               collection.decay_floor as "decay_floor?"
        from episodes.passage
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

/// A passage, and when its topic began.
pub(crate) struct Told {
    pub(crate) passage: Passage,
    pub(crate) topic_began_at: DateTime<Utc>,
}

/// The passages of a user that make up `episodes`, and those of `ids`, in order.
pub(crate) async fn told(
    db: impl PgExecutor<'_>,
    user: UserId,
    episodes: &[PassageId],
    ids: &[PassageId],
) -> sqlx::Result<Vec<Told>> {
    let rows = sqlx::query!(
        r#"
        select passage.id, passage.exchange_id, passage.session_id, passage.collection, passage.source, passage.role,
               passage.speaker, passage.text, passage.occurred_at, passage.episode, passage.split, passage.topic,
               passage.exchange_id in (
                   select id from journal.exchange where user_id = $1 and pinned) as "pinned!",
               (select min(other.occurred_at)
                from episodes.passage as other
                where other.user_id = $1
                  and other.session_id = passage.session_id
                  and other.topic = passage.topic) as "topic_began_at!"
        from episodes.passage
        where passage.user_id = $1
          and passage.id = any(array(select unnest($3::bigint[])
                                     union
                                     select id from episodes.passage where user_id = $1 and episode = any($2)))
        order by passage.id
        "#,
        user.0,
        episodes,
        ids,
    )
    .fetch_all(db)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Told {
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
            topic_began_at: row.topic_began_at,
        })
        .collect())
}

/// The first passage a person said in each of `exchanges`: the question that its parts answer.
pub(crate) async fn questions(
    db: impl PgExecutor<'_>,
    user: UserId,
    exchanges: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, PassageId>> {
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
    db: impl PgExecutor<'_>,
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

/// The ids of the passages of the `exchanges` exchanges before and after the passages from `first` to `last`, in order.
pub(crate) async fn around(
    db: impl PgExecutor<'_>,
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
