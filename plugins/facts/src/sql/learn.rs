//! Writing down what exchanges say.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use skymem_core::facts::Origin;
use skymem_core::{ExchangeId, UserId};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::claim::{Claim, Columns, Place, origin_word};

/// A claim of an exchange, as its row.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    exchange: Uuid,
    origin: String,
    number: i32,
    columns: Columns,
    confidence: f32,
    session: String,
    collection: String,
    seq: i64,
    said_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
}

impl Row {
    fn of(claim: &Claim) -> Option<Self> {
        let Place::Turn { exchange, number, seq, session, collection } = &claim.place else { return None };
        Some(Self {
            exchange: exchange.0,
            origin: origin_word(claim.origin).to_owned(),
            number: i32::try_from(*number).ok()?,
            columns: Columns::of(&claim.statement),
            confidence: claim.confidence,
            session: session.as_str().to_owned(),
            collection: collection.as_str().to_owned(),
            seq: seq.0,
            said_at: claim.said_at,
            recorded_at: claim.recorded_at,
        })
    }

    fn place(&self) -> (Uuid, &str, i32) {
        (self.exchange, &self.origin, self.number)
    }
}

/// An exchange that a model is to read, and what tells whether it has changed since it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToRead {
    pub(crate) exchange: ExchangeId,
    pub(crate) digest: Vec<u8>,
    /// Whether there is anything in it for a model.
    pub(crate) wanted: bool,
}

/// Replaces what was learned from exchanges without a model by `claims`, in one transaction, and has a model read what
/// has changed since it was read. Exchanges that were forgotten meanwhile are passed over; what is as it was stays
/// untouched.
pub(crate) async fn replace(
    db: &PgPool,
    user: UserId,
    claims: &[Claim],
    to_read: &[ToRead],
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    let exchanges: Vec<Uuid> = to_read.iter().map(|one| one.exchange.0).collect();
    let mut tx = db.begin().await?;
    let remembered = remembered(&mut tx, user, &exchanges).await?;
    let to_read: Vec<&ToRead> = to_read.iter().filter(|one| remembered.contains(&one.exchange.0)).collect();
    let rows = claims.iter().filter_map(Row::of).filter(|row| remembered.contains(&row.exchange));
    let known = rows_of(&mut tx, user, &exchanges).await?;
    let changed = changed(known.iter().filter(|row| row.origin != "model"), rows.clone());
    let stale = drop_stale_readings(&mut tx, user, &to_read).await?;
    remove(&mut tx, user, &changed, false).await?;
    remove(&mut tx, user, &stale, true).await?;
    let new: Vec<Row> = rows.filter(|row| changed.contains(&row.exchange)).collect();
    insert(&mut tx, user, &new).await?;
    ask_for_readings(&mut tx, user, &to_read, at).await?;
    tx.commit().await
}

/// Adds what a model found in an exchange that is still as the model read it; whether it is.
pub(crate) async fn keep_reading(
    db: &PgPool,
    user: UserId,
    exchange: ExchangeId,
    digest: &[u8],
    claims: &[Claim],
    at: DateTime<Utc>,
) -> sqlx::Result<bool> {
    let mut tx = db.begin().await?;
    remembered(&mut tx, user, &[exchange.0]).await?;
    let read = sqlx::query!(
        r#"
        update facts.reading
        set state = 'read', reason = null, tries = tries + 1, changed_at = $4
        where user_id = $1 and exchange_id = $2 and digest = $3
        "#,
        user.0,
        exchange.0,
        digest,
        at,
    )
    .execute(&mut *tx)
    .await?;
    if read.rows_affected() == 0 {
        return Ok(false);
    }
    remove(&mut tx, user, &[exchange.0].into(), true).await?;
    let rows: Vec<Row> = claims.iter().filter(|claim| claim.origin == Origin::Model).filter_map(Row::of).collect();
    insert(&mut tx, user, &rows).await?;
    tx.commit().await?;
    Ok(true)
}

/// Which of these exchanges are remembered. Nobody forgets them before the transaction ends.
async fn remembered(tx: &mut PgConnection, user: UserId, exchanges: &[Uuid]) -> sqlx::Result<HashSet<Uuid>> {
    let ids = sqlx::query_scalar!(
        r#"
        select exchange_id from journal.remembered
        where user_id = $1 and exchange_id = any($2)
        order by exchange_id
        for key share
        "#,
        user.0,
        exchanges,
    );
    Ok(ids.fetch_all(tx).await?.into_iter().collect())
}

/// The exchanges whose rows are not the same before and after.
fn changed<'a>(before: impl Iterator<Item = &'a Row>, after: impl Iterator<Item = Row>) -> HashSet<Uuid> {
    let mut known: HashMap<(Uuid, String, i32), &Row> =
        before.map(|row| ((row.exchange, row.origin.clone(), row.number), row)).collect();
    let mut changed = HashSet::new();
    for row in after {
        let (exchange, origin, number) = row.place();
        if known.remove(&(exchange, origin.to_owned(), number)) != Some(&row) {
            changed.insert(exchange);
        }
    }
    changed.extend(known.into_values().map(|row| row.exchange));
    changed
}

async fn rows_of(tx: &mut PgConnection, user: UserId, exchanges: &[Uuid]) -> sqlx::Result<Vec<Row>> {
    let rows = sqlx::query!(
        r#"
        select exchange_id, origin, number, says, subject, predicate, object, literal, since_at, until_at, corrects,
               exchanges, confidence, session_id, collection, seq, said_at, recorded_at
        from facts.claim
        where user_id = $1 and exchange_id = any($2)
        "#,
        user.0,
        exchanges,
    )
    .map(|row| Row {
        exchange: row.exchange_id,
        origin: row.origin,
        number: row.number,
        columns: Columns {
            says: row.says,
            subject: row.subject,
            predicate: row.predicate,
            object: row.object,
            literal: row.literal,
            since_at: row.since_at,
            until_at: row.until_at,
            corrects: row.corrects,
            exchanges: row.exchanges,
        },
        confidence: row.confidence,
        session: row.session_id,
        collection: row.collection,
        seq: row.seq,
        said_at: row.said_at,
        recorded_at: row.recorded_at,
    });
    rows.fetch_all(tx).await
}

/// Removes what was learned from exchanges by a model, or otherwise.
async fn remove(tx: &mut PgConnection, user: UserId, exchanges: &HashSet<Uuid>, by_model: bool) -> sqlx::Result<()> {
    let exchanges: Vec<Uuid> = exchanges.iter().copied().collect();
    sqlx::query!(
        "delete from facts.claim where user_id = $1 and exchange_id = any($2) and (origin = 'model') = $3",
        user.0,
        &exchanges,
        by_model,
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn insert(tx: &mut PgConnection, user: UserId, rows: &[Row]) -> sqlx::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let texts = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).to_owned()).collect::<Vec<String>>();
    // An array of arrays has one length for all: they travel as text.
    let exchanges = rows.iter().map(|row| {
        let joined = |exchanges: &Vec<Uuid>| exchanges.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
        row.columns.exchanges.as_ref().map(joined)
    });
    sqlx::query!(
        r#"
        insert into facts.claim
            (user_id, exchange_id, origin, number, says, subject, predicate, object, literal, since_at, until_at, corrects,
             exchanges, confidence, session_id, collection, seq, said_at, recorded_at)
        select $1, exchange_id, origin, number, says, subject, predicate, object, literal, since_at, until_at, corrects,
               string_to_array(exchanges, ',')::uuid[], confidence, session_id, collection, seq, said_at, recorded_at
        from unnest(
            $2::uuid[], $3::text[], $4::integer[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
            $10::timestamptz[], $11::timestamptz[], $12::boolean[], $13::text[], $14::real[], $15::text[], $16::text[],
            $17::bigint[], $18::timestamptz[], $19::timestamptz[])
            as new (exchange_id, origin, number, says, subject, predicate, object, literal, since_at, until_at, corrects,
                    exchanges, confidence, session_id, collection, seq, said_at, recorded_at)
        "#,
        user.0,
        &rows.iter().map(|row| row.exchange).collect::<Vec<_>>(),
        &texts(|row| &row.origin),
        &rows.iter().map(|row| row.number).collect::<Vec<_>>(),
        &texts(|row| &row.columns.says),
        &texts(|row| &row.columns.subject),
        &rows.iter().map(|row| row.columns.predicate.clone()).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.columns.object.clone()).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.columns.literal).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.columns.since_at).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.columns.until_at).collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.columns.corrects).collect::<Vec<_>>(),
        &exchanges.collect::<Vec<_>>() as _,
        &rows.iter().map(|row| row.confidence).collect::<Vec<_>>(),
        &texts(|row| &row.session),
        &texts(|row| &row.collection),
        &rows.iter().map(|row| row.seq).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.said_at).collect::<Vec<_>>(),
        &rows.iter().map(|row| row.recorded_at).collect::<Vec<_>>(),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Removes what is noted of readings of exchanges that have changed since; which they are.
async fn drop_stale_readings(tx: &mut PgConnection, user: UserId, to_read: &[&ToRead]) -> sqlx::Result<HashSet<Uuid>> {
    let stale = sqlx::query_scalar!(
        r#"
        delete from facts.reading
        using unnest($2::uuid[], $3::bytea[]) as now (exchange_id, digest)
        where reading.user_id = $1
          and reading.exchange_id = now.exchange_id
          and reading.digest <> now.digest
        returning reading.exchange_id
        "#,
        user.0,
        &to_read.iter().map(|one| one.exchange.0).collect::<Vec<_>>(),
        &to_read.iter().map(|one| one.digest.clone()).collect::<Vec<_>>(),
    );
    Ok(stale.fetch_all(tx).await?.into_iter().collect())
}

async fn ask_for_readings(
    tx: &mut PgConnection,
    user: UserId,
    to_read: &[&ToRead],
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    let wanted: Vec<&&ToRead> = to_read.iter().filter(|one| one.wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"
        insert into facts.reading (user_id, exchange_id, digest, state, changed_at)
        select $1, exchange_id, digest, 'waiting', $4
        from unnest($2::uuid[], $3::bytea[]) as new (exchange_id, digest)
        on conflict (user_id, exchange_id) do nothing
        "#,
        user.0,
        &wanted.iter().map(|one| one.exchange.0).collect::<Vec<_>>(),
        &wanted.iter().map(|one| one.digest.clone()).collect::<Vec<_>>(),
        at,
    )
    .execute(tx)
    .await?;
    Ok(())
}
