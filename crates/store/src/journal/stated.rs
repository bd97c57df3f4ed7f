//! Statements about facts that are in the journal: what a new one is compared with.
//!
//! Such a turn bears a client id that begins with what it is about, so that everything told about that is found by it.

use skymem_core::facts::Statement;
use skymem_core::{ExchangeId, Seq, SessionId, UserId};

use super::Journal;
use crate::error::StoreError;

/// Nothing told before the newest so many statements about one thing is looked at.
const MOST_TOLD: i64 = 200;

/// A statement that is in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct StatedTurn {
    /// Its place in the journal.
    pub seq: Seq,
    /// The exchange it is.
    pub exchange: ExchangeId,
    /// The id it bears.
    pub client_id: String,
    /// Whether it is in the trash.
    pub forgotten: bool,
    /// What it says; `None` when a newer version wrote it.
    pub statement: Option<Statement>,
}

impl Journal {
    /// The statements of a session under client ids that begin with one of `about`, and its `last` statements about
    /// anything: oldest first, each once, those in the trash too.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn stated(
        &self,
        user: UserId,
        session: &SessionId,
        about: &[String],
        last: usize,
    ) -> Result<Vec<StatedTurn>, StoreError> {
        // Client ids go on in hexadecimal: whatever the collation, 'g' comes after all of them, and an index gets there.
        let rows = sqlx::query!(
            r#"
            with found as (
                select told.seq
                from unnest($3::text[]) as asked (beginning)
                cross join lateral (select seq
                                    from journal.turn
                                    where user_id = $1
                                      and session_id = $2
                                      and client_id >= asked.beginning
                                      and client_id < asked.beginning || 'g'
                                      and starts_with(client_id, asked.beginning)
                                    order by seq desc
                                    limit $5) as told
                union
                (select seq
                 from journal.turn
                 join journal.exchange on exchange.user_id = $1 and exchange.id = turn.exchange_id
                 where turn.user_id = $1
                   and turn.session_id = $2
                   and kind = 'stated'
                 order by seq desc
                 limit $4)
            )
            select turn.seq as "seq!",
                   turn.exchange_id as "exchange_id!",
                   turn.client_id as "client_id!",
                   turn.parts,
                   exchange.forgotten_at is not null as "forgotten!"
            from found
            join journal.turn on turn.user_id = $1 and turn.seq = found.seq
            join journal.exchange on exchange.user_id = $1 and exchange.id = turn.exchange_id
            where turn.client_id is not null
              and kind = 'stated'
            order by turn.seq
            "#,
            user.0,
            session.as_str(),
            about,
            i64::try_from(last).unwrap_or(i64::MAX),
            MOST_TOLD
        )
        .fetch_all(&self.db)
        .await?;
        let stated = rows.into_iter().map(|row| StatedTurn {
            seq: Seq(row.seq),
            exchange: ExchangeId(row.exchange_id),
            client_id: row.client_id,
            forgotten: row.forgotten,
            statement: row.parts.and_then(|parts| serde_json::from_value(parts).ok()),
        });
        Ok(stated.collect())
    }
}
