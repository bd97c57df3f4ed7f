//! Writing down what files say.

use chrono::{DateTime, SubsecRound, Utc};
use skymem_core::UserId;
use sqlx::{PgConnection, PgPool};

use crate::claim::{Claim, Columns, Place};

/// Notes what a file says at `at`: what it said before and no longer does is withdrawn; what only moved to another line
/// stays what it was.
pub(crate) async fn replace(
    db: &PgPool,
    user: UserId,
    file: &str,
    claims: &[Claim],
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    let at = at.trunc_subsecs(6);
    let mut tx = db.begin().await?;
    // One reader of a user's files at a time.
    sqlx::query!(
        "insert into facts.version (user_id, version) values ($1, 0) on conflict (user_id) do nothing",
        user.0
    )
    .execute(&mut *tx)
    .await?;
    sqlx::query!("select version from facts.version where user_id = $1 for update", user.0).fetch_all(&mut *tx).await?;
    let known = sqlx::query!(
        r#"
        select id, line, number, says, subject, predicate, object, literal, since_at, until_at, corrects, confidence
        from facts.line
        where user_id = $1 and file = $2 and withdrawn_at is null
        order by line, number
        "#,
        user.0,
        file,
    )
    .fetch_all(&mut *tx)
    .await?;
    let mut left: Vec<(i64, i32, i32, Columns, f32)> = known
        .into_iter()
        .map(|row| {
            let columns = Columns {
                says: row.says,
                subject: row.subject,
                predicate: row.predicate,
                object: row.object,
                literal: row.literal,
                since_at: row.since_at,
                until_at: row.until_at,
                corrects: row.corrects,
                exchanges: None,
            };
            (row.id, row.line, row.number, columns, row.confidence)
        })
        .collect();
    for claim in claims {
        let Place::Line { line, number, .. } = &claim.place else { continue };
        let (Ok(line), Ok(number)) = (i32::try_from(*line), i32::try_from(*number)) else { continue };
        let columns = Columns::of(&claim.statement);
        let same = left.iter().position(|(.., known, sure)| *known == columns && *sure == claim.confidence);
        match same.map(|place| left.remove(place)) {
            Some((id, known_line, known_number, ..)) if (known_line, known_number) != (line, number) => {
                move_line(&mut tx, user, id, line, number).await?;
            }
            Some(_) => {}
            None => insert_line(&mut tx, user, file, (line, number), &columns, claim.confidence, at).await?,
        }
    }
    let gone: Vec<i64> = left.iter().map(|(id, ..)| *id).collect();
    if !gone.is_empty() {
        sqlx::query!(
            "update facts.line set withdrawn_at = greatest($3, first_read_at) where user_id = $1 and id = any($2)",
            user.0,
            &gone,
            at,
        )
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await
}

async fn move_line(tx: &mut PgConnection, user: UserId, id: i64, line: i32, number: i32) -> sqlx::Result<()> {
    sqlx::query!(
        "update facts.line set line = $3, number = $4 where user_id = $1 and id = $2",
        user.0,
        id,
        line,
        number
    )
    .execute(tx)
    .await?;
    Ok(())
}

async fn insert_line(
    tx: &mut PgConnection,
    user: UserId,
    file: &str,
    (line, number): (i32, i32),
    columns: &Columns,
    confidence: f32,
    at: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"
        insert into facts.line
            (user_id, file, line, number, says, subject, predicate, object, literal, since_at, until_at, corrects,
             confidence, first_read_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
        "#,
        user.0,
        file,
        line,
        number,
        columns.says,
        columns.subject,
        columns.predicate,
        columns.object,
        columns.literal,
        columns.since_at,
        columns.until_at,
        columns.corrects,
        confidence,
        at,
    )
    .execute(tx)
    .await?;
    Ok(())
}
