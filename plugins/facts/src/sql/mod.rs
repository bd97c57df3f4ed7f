//! Every statement of the layer, by its reason: learning, readings by a model, what recalls ask; and here, what views are
//! made of.

pub(crate) mod ask;
pub(crate) mod learn;
pub(crate) mod lines;
pub(crate) mod readings;

use chrono::{DateTime, Utc};
use skymem_core::{ExchangeId, Seq, UserId};
use sqlx::PgPool;

use crate::claim::{Claim, Columns, Place, origin_named};

/// Moves with every change of what facts are made of; 0 when nothing was ever said.
pub(crate) async fn version(db: &PgPool, user: UserId) -> sqlx::Result<i64> {
    let version = sqlx::query_scalar!("select version from facts.version where user_id = $1", user.0);
    Ok(version.fetch_optional(db).await?.unwrap_or(0))
}

/// All claims of a user, those of them that were recorded by `known_at` and said by `said_by` where given, in no order. A
/// line that was withdrawn later than `known_at` was still there.
pub(crate) async fn claims(
    db: &PgPool,
    user: UserId,
    known_at: Option<DateTime<Utc>>,
    said_by: Option<DateTime<Utc>>,
) -> sqlx::Result<Vec<Claim>> {
    let rows = sqlx::query!(
        r#"
        select exchange_id as "exchange_id?", origin as "origin!", number as "number!", says as "says!",
               subject as "subject!", predicate, object, literal as "literal!", since_at, until_at,
               corrects as "corrects!", exchanges, confidence as "confidence!", session_id as "session_id?",
               collection as "collection?", seq as "seq?", said_at as "said_at!", recorded_at as "recorded_at!",
               null as "file?", null::integer as "line?", null::timestamptz as "withdrawn_at?"
        from facts.claim
        where user_id = $1
          and ($2::timestamptz is null or recorded_at <= $2)
          and ($3::timestamptz is null or said_at <= $3)
        union all
        select null, 'markdown', number, says, subject, predicate, object, literal, since_at, until_at, corrects, null,
               confidence, null, null, null, first_read_at, first_read_at, file, line,
               case when $2::timestamptz is null or withdrawn_at <= $2 then withdrawn_at end
        from facts.line
        where user_id = $1
          and ($2::timestamptz is null or first_read_at <= $2)
          and ($3::timestamptz is null or first_read_at <= $3)
        "#,
        user.0,
        known_at,
        said_by,
    )
    .fetch_all(db)
    .await?;
    let claims = rows.into_iter().filter_map(|row| {
        let number = u32::try_from(row.number).ok()?;
        let place = match (row.exchange_id, row.file) {
            (Some(exchange), _) => Place::Turn {
                exchange: ExchangeId(exchange),
                number,
                seq: Seq(row.seq?),
                session: row.session_id?.parse().ok()?,
                collection: row.collection?.parse().ok()?,
            },
            (None, file) => {
                let line = u32::try_from(row.line?).ok()?;
                Place::Line { file: file?, line, number, withdrawn_at: row.withdrawn_at }
            }
        };
        let columns = Columns {
            says: row.says,
            subject: row.subject,
            predicate: row.predicate,
            object: row.object,
            literal: row.literal,
            since_at: row.since_at,
            until_at: row.until_at,
            corrects: row.corrects,
            exchanges: row.exchanges,
        };
        Some(Claim {
            statement: columns.statement(row.confidence)?,
            confidence: row.confidence,
            origin: origin_named(&row.origin),
            place,
            said_at: row.said_at,
            recorded_at: row.recorded_at,
        })
    });
    Ok(claims.collect())
}
