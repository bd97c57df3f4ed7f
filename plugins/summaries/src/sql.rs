//! Every statement of this layer.

use chrono::{DateTime, Utc};
use skymem_core::facts::Seen;
use skymem_core::{Collection, ExchangeId, Filter, Role, Seq, SessionId, Source, Turn, UserId};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::account::{Roots, Version};
use crate::said::{Said, digest};

/// An exchange as a layer observes it: enough to tell whether a summary knows it as it is.
pub(crate) struct Observed<'a> {
    pub(crate) session: &'a str,
    pub(crate) exchange: Uuid,
    pub(crate) first_seq: i64,
    pub(crate) digest: Vec<u8>,
}

/// Drops the versions that know one of `observed` otherwise than it is now, or lack it though they cover what was said
/// after it; and all that stand on them.
pub(crate) async fn drop_stale(db: &PgPool, user: UserId, observed: &[Observed<'_>]) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        with observed as (
            select * from unnest($2::text[], $3::uuid[], $4::bigint[], $5::bytea[])
                as observed (session_id, exchange_id, first_seq, digest)
        ), stale as (
            select session_id, min(number) as number
            from (select folded.session_id, folded.number
                  from observed
                  join summaries.folded on folded.user_id = $1 and folded.exchange_id = observed.exchange_id
                  where folded.digest <> observed.digest
                  union all
                  select version.session_id, version.number
                  from observed
                  join summaries.version
                    on version.user_id = $1
                   and version.session_id = observed.session_id
                   and version.newest_seq > observed.first_seq
                  where not exists (select from summaries.folded
                                    where folded.user_id = $1
                                      and folded.exchange_id = observed.exchange_id)) as wrong
            group by session_id
        )
        delete from summaries.version
        using stale
        where version.user_id = $1
          and version.session_id = stale.session_id
          and version.number >= stale.number
        "#,
        user.0,
        &observed.iter().map(|one| one.session.to_owned()).collect::<Vec<_>>(),
        &observed.iter().map(|one| one.exchange).collect::<Vec<_>>(),
        &observed.iter().map(|one| one.first_seq).collect::<Vec<_>>(),
        &observed.iter().map(|one| one.digest.clone()).collect::<Vec<_>>(),
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Those of `sessions` in which more than `keep` exchanges are not folded, and whether their oldest turns leave memory as
/// new ones come. A session whose memories get no older than some hours has no summary: it would outlive them.
pub(crate) async fn with_more_than(
    db: &PgPool,
    user: UserId,
    sessions: &[String],
    keep: usize,
) -> sqlx::Result<Vec<(String, bool)>> {
    let keep = i64::try_from(keep).unwrap_or(i64::MAX - 1);
    sqlx::query!(
        r#"
        select session.id, max_turns is not null as "capped!"
        from journal.session
        where user_id = $1
          and id = any($2)
          and max_age_hours is null
          and (select count(*)
               from (select
                     from journal.exchange
                     join journal.remembered
                       on remembered.user_id = exchange.user_id
                      and remembered.exchange_id = exchange.id
                     where exchange.user_id = $1
                       and exchange.session_id = session.id
                       and kind = 'said'
                       and first_seq > coalesce((select max(newest_seq)
                                                 from summaries.version
                                                 where version.user_id = $1
                                                   and version.session_id = session.id), 0)
                     limit $3::bigint + 1) as beyond) > $3::bigint
        order by session.id
        "#,
        user.0,
        sessions,
        keep,
    )
    .map(|row| (row.id, row.capped))
    .fetch_all(db)
    .await
}

/// Sessions of any user in which `most` exchanges or more are not folded, and how many: where something was forgotten, and
/// nothing was said since. At most `limit` of them.
pub(crate) async fn behind(db: &PgPool, most: usize, limit: i64) -> sqlx::Result<Vec<(UserId, String, i64)>> {
    let rows = sqlx::query!(
        r#"
        select exchange.user_id, exchange.session_id, count(*) as "count!"
        from journal.exchange
        join journal.remembered on remembered.user_id = exchange.user_id and remembered.exchange_id = exchange.id
        join journal.session on session.user_id = exchange.user_id and session.id = exchange.session_id
        where kind = 'said'
          and max_age_hours is null
          and not exists (select from summaries.folded
                          where folded.user_id = exchange.user_id
                            and folded.exchange_id = exchange.id)
        group by exchange.user_id, exchange.session_id
        having count(*) >= $1
        order by exchange.user_id, exchange.session_id
        limit $2
        "#,
        i64::try_from(most).unwrap_or(i64::MAX),
        limit,
    )
    .fetch_all(db)
    .await?;
    Ok(rows.into_iter().map(|row| (UserId(row.user_id), row.session_id, row.count)).collect())
}

/// The sessions that exchanges were said in, forgotten ones too.
pub(crate) async fn sessions_of(db: &PgPool, user: UserId, exchanges: &[Uuid]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "select distinct session_id from journal.exchange where user_id = $1 and id = any($2) order by session_id",
        user.0,
        exchanges,
    )
    .fetch_all(db)
    .await
}

/// The exchanges said in a session after the place `after`, oldest first, at most `limit`.
pub(crate) async fn said_after(
    db: &PgPool,
    user: UserId,
    session: &str,
    after: i64,
    limit: usize,
) -> sqlx::Result<Vec<Said>> {
    let rows = sqlx::query!(
        r#"
        with next as (
            select exchange.id, first_seq
            from journal.exchange
            join journal.remembered on remembered.user_id = exchange.user_id and remembered.exchange_id = exchange.id
            where exchange.user_id = $1
              and exchange.session_id = $2
              and kind = 'said'
              and first_seq > $3
            order by first_seq
            limit $4
        )
        select next.id, seq, role, speaker, text, occurred_at, recorded_at
        from next
        join journal.turn on turn.user_id = $1 and turn.exchange_id = next.id
        order by first_seq, seq
        "#,
        user.0,
        session,
        after,
        i64::try_from(limit).unwrap_or(i64::MAX),
    )
    .fetch_all(db)
    .await?;
    let mut said: Vec<Said> = Vec::new();
    for row in rows {
        let turn = Turn {
            seq: Seq(row.seq),
            // The database allows no other words.
            role: row.role.parse().unwrap_or(Role::System),
            speaker: row.speaker,
            text: row.text,
            occurred_at: row.occurred_at,
            recorded_at: row.recorded_at,
            statement: None,
        };
        match said.last_mut().filter(|last| last.id.0 == row.id) {
            Some(last) => last.turns.push(turn),
            None => said.push(Said { id: ExchangeId(row.id), turns: vec![turn] }),
        }
    }
    Ok(said)
}

/// A version, and its name for ever.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: i64,
    pub(crate) version: Version,
}

/// Writes down versions that stand on each other, the first on `previous`, and what each folded: all of them or, when
/// something they stand on was forgotten meanwhile, or somebody else was faster, none.
pub(crate) async fn write(
    db: &PgPool,
    user: UserId,
    session: &str,
    previous: Option<i64>,
    versions: &[(Version, &[Said])],
) -> sqlx::Result<()> {
    match try_to_write(db, user, session, previous, versions).await {
        Err(sqlx::Error::Database(answer)) if matches!(answer.code().as_deref(), Some("23503" | "23505")) => Ok(()),
        written => written,
    }
}

async fn try_to_write(
    db: &PgPool,
    user: UserId,
    session: &str,
    mut previous: Option<i64>,
    versions: &[(Version, &[Said])],
) -> sqlx::Result<()> {
    let ids: Vec<Uuid> = versions.iter().flat_map(|(_, said)| said.iter().map(|exchange| exchange.id.0)).collect();
    let mut tx = db.begin().await?;
    // Who is forgetting one of them must not wait for us while we wait for them.
    let remembered = sqlx::query_scalar!(
        r#"
        select exchange_id from journal.remembered
        where user_id = $1 and exchange_id = any($2)
        order by exchange_id
        for key share skip locked
        "#,
        user.0,
        &ids,
    )
    .fetch_all(&mut *tx)
    .await?;
    if remembered.len() < ids.len() {
        return Ok(());
    }
    for (version, said) in versions {
        previous = Some(insert(&mut tx, user, session, previous, version, said).await?);
    }
    tx.commit().await
}

/// Writes one version down; its id.
async fn insert(
    tx: &mut PgConnection,
    user: UserId,
    session: &str,
    previous: Option<i64>,
    version: &Version,
    said: &[Said],
) -> sqlx::Result<i64> {
    let id = sqlx::query_scalar!(
        r#"
        insert into summaries.version
            (user_id, session_id, number, previous, text, decisions, names, made_by, exchanges, tokens, first_seq,
             newest_seq, last_seq, said_from, said_until)
        values ($1, $2, $3, $15, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        returning id
        "#,
        user.0,
        session,
        version.number,
        version.text,
        &version.decisions,
        &version.names,
        version.made_by,
        version.exchanges,
        version.tokens,
        version.first_seq.0,
        version.newest_seq.0,
        version.last_seq.0,
        version.said_from,
        version.said_until,
        previous,
    )
    .fetch_one(&mut *tx)
    .await?;
    sqlx::query!(
        r#"
        insert into summaries.folded (user_id, exchange_id, session_id, number, digest)
        select $1, exchange_id, $2, $3, digest
        from unnest($4::uuid[], $5::bytea[]) as folded (exchange_id, digest)
        "#,
        user.0,
        session,
        version.number,
        &said.iter().map(|exchange| exchange.id.0).collect::<Vec<_>>(),
        &said.iter().map(|exchange| digest(&exchange.turns)).collect::<Vec<_>>(),
    )
    .execute(&mut *tx)
    .await?;
    Ok(id)
}

struct Row {
    id: i64,
    number: i32,
    text: String,
    decisions: Vec<String>,
    names: Vec<String>,
    made_by: String,
    exchanges: i32,
    tokens: i64,
    first_seq: i64,
    newest_seq: i64,
    last_seq: i64,
    said_from: DateTime<Utc>,
    said_until: DateTime<Utc>,
}

impl From<Row> for Version {
    fn from(row: Row) -> Self {
        Self {
            number: row.number,
            text: row.text,
            decisions: row.decisions,
            names: row.names,
            made_by: row.made_by,
            exchanges: row.exchanges,
            tokens: row.tokens,
            first_seq: Seq(row.first_seq),
            newest_seq: Seq(row.newest_seq),
            last_seq: Seq(row.last_seq),
            said_from: row.said_from,
            said_until: row.said_until,
        }
    }
}

/// The last `limit` versions of a session's summary that know of nothing said, or written down, later than `seen` says;
/// newest first.
pub(crate) async fn versions(
    db: &PgPool,
    user: UserId,
    session: &str,
    seen: Seen,
    limit: i64,
) -> sqlx::Result<Vec<Version>> {
    Ok(rows(db, user, session, seen, limit).await?.into_iter().map(Version::from).collect())
}

/// The newest version of a session's summary.
pub(crate) async fn head(db: &PgPool, user: UserId, session: &str) -> sqlx::Result<Option<Head>> {
    let row = rows(db, user, session, Seen::default(), 1).await?.pop();
    Ok(row.map(|row| Head { id: row.id, version: row.into() }))
}

async fn rows(db: &PgPool, user: UserId, session: &str, seen: Seen, limit: i64) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"
        select version.id, number, text, decisions, names, made_by, exchanges, tokens, first_seq, newest_seq, last_seq, said_from,
               said_until
        from summaries.version
        join journal.session on session.user_id = version.user_id and session.id = version.session_id
        where version.user_id = $1
          and version.session_id = $2
          and max_age_hours is null
          and ($3::timestamptz is null or said_until <= $3)
          and ($5::timestamptz is null
               or not exists (select
                              from summaries.folded
                              join journal.turn on turn.user_id = $1 and turn.exchange_id = folded.exchange_id
                              where folded.user_id = $1
                                and folded.session_id = $2
                                and folded.number <= version.number
                                and turn.recorded_at > $5))
        order by number desc
        limit $4
        "#,
        user.0,
        session,
        seen.as_of,
        limit,
        seen.known_at,
    )
    .fetch_all(db)
    .await
}

/// The place of the last turn that a session's summary covers.
pub(crate) async fn covered_until(db: &PgPool, user: UserId, session: &str) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar!(
        r#"
        select last_seq
        from summaries.version
        join journal.session on session.user_id = version.user_id and session.id = version.session_id
        where version.user_id = $1
          and version.session_id = $2
          and max_age_hours is null
        order by number desc
        limit 1
        "#,
        user.0,
        session,
    )
    .fetch_optional(db)
    .await
}

/// What a version covers, down to the first exchange; of more than `most` the newest are named.
pub(crate) async fn roots(db: &PgPool, user: UserId, session: &str, number: i32, most: i64) -> sqlx::Result<Roots> {
    let rows = sqlx::query!(
        r#"
        select exchange.id, collection, source
        from summaries.folded
        join journal.exchange on exchange.user_id = folded.user_id and exchange.id = folded.exchange_id
        where folded.user_id = $1
          and folded.session_id = $2
          and number <= $3
        order by first_seq desc
        limit $4
        "#,
        user.0,
        session,
        number,
        most,
    )
    .fetch_all(db)
    .await?;
    let first = rows.first();
    let collection = first.map(|first| &first.collection).filter(|one| rows.iter().all(|row| row.collection == **one));
    let source = first.map(|first| &first.source).filter(|one| rows.iter().all(|row| row.source == **one));
    Ok(Roots {
        collection: collection.and_then(|name| name.parse().ok()),
        source: source.and_then(|name| name.parse().ok()),
        exchanges: rows.iter().rev().map(|row| ExchangeId(row.id)).collect(),
    })
}

/// Whether all that a version covers may come back: collection, source, pin, and who spoke.
pub(crate) async fn may_come_back(
    db: &PgPool,
    user: UserId,
    session: &str,
    number: i32,
    filter: &Filter,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        select not exists (
            select
            from summaries.folded
            join journal.exchange on exchange.user_id = folded.user_id and exchange.id = folded.exchange_id
            where folded.user_id = $1
              and folded.session_id = $2
              and number <= $3
              and (cardinality($4::text[]) > 0 and collection <> all($4)
                   or cardinality($5::text[]) > 0 and source <> all($5)
                   or pinned <> $6
                   or cardinality($7::text[]) > 0
                      and exists (select
                                  from journal.turn
                                  where turn.user_id = $1
                                    and turn.exchange_id = folded.exchange_id
                                    and role <> 'system'
                                    and role <> all($7)))) as "all!"
        "#,
        user.0,
        session,
        number,
        &filter.collections.iter().map(|name| Collection::as_str(name).to_owned()).collect::<Vec<_>>(),
        &filter.sources.iter().map(|name| Source::as_str(name).to_owned()).collect::<Vec<_>>(),
        filter.pinned,
        &filter.roles.iter().map(|role| role.as_str().to_owned()).collect::<Vec<_>>(),
    )
    .fetch_one(db)
    .await
}

/// What became of an exchange.
pub(crate) struct About {
    pub(crate) session: String,
    /// Said in a conversation, which alone is summarised.
    pub(crate) said: bool,
    pub(crate) forgotten: bool,
    /// The version that folded it.
    pub(crate) number: Option<i32>,
    /// The beginning of what was said first in it.
    pub(crate) excerpt: String,
}

/// What became of an exchange; `None` when there is none.
pub(crate) async fn about(db: &PgPool, user: UserId, exchange: ExchangeId) -> sqlx::Result<Option<About>> {
    sqlx::query_as!(
        About,
        r#"
        select exchange.session_id as session,
               kind = 'said' as "said!",
               forgotten_at is not null as "forgotten!",
               folded.number as "number?",
               coalesce((select left(text, 200)
                         from journal.turn
                         where turn.user_id = $1
                           and turn.exchange_id = exchange.id
                           and forgotten_at is null
                         order by seq
                         limit 1), '') as "excerpt!"
        from journal.exchange
        left join summaries.folded on folded.user_id = exchange.user_id and folded.exchange_id = exchange.id
        where exchange.user_id = $1
          and exchange.id = $2
        "#,
        user.0,
        exchange.0,
    )
    .fetch_optional(db)
    .await
}

/// Whether something that could be summarised was said in a session.
pub(crate) async fn is_there(db: &PgPool, user: UserId, session: &SessionId) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        select exists (select from journal.exchange
                       where user_id = $1
                         and session_id = $2
                         and kind = 'said'
                         and forgotten_at is null) as "there!"
        "#,
        user.0,
        session.as_str(),
    )
    .fetch_one(db)
    .await
}

/// Counts of one user, and the bytes of all.
pub(crate) async fn stats(db: &PgPool, user: UserId) -> sqlx::Result<(Vec<(String, i64)>, i64)> {
    let row = sqlx::query!(
        r#"
        select (select count(distinct session_id) from summaries.version where user_id = $1)  as "sessions!",
               (select count(*) from summaries.version where user_id = $1)                    as "versions!",
               (select count(*) from summaries.folded where user_id = $1)                     as "exchanges!",
               (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
                where relnamespace = to_regnamespace('summaries') and relkind = 'r')          as "bytes!"
        "#,
        user.0,
    )
    .fetch_one(db)
    .await?;
    let counts = vec![
        ("sessions".to_owned(), row.sessions),
        ("versions".to_owned(), row.versions),
        ("exchanges".to_owned(), row.exchanges),
    ];
    Ok((counts, row.bytes))
}
