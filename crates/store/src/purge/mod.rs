//! What a purge needs of the database beside the journal: what is to go, a look through every table, room made for good.

mod begun;
mod look;
mod receipts;

use sqlx::PgPool;
use uuid::Uuid;

use skymem_core::{Collection, ExchangeId, SessionId, UserId};

use crate::audit::{self, Acting, Verb};
use crate::error::StoreError;

pub use begun::BegunPurge;
pub use look::Place;
pub use receipts::Receipt;

/// What is looked for: in the trash, out of it, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// What is remembered.
    Remembered,
    /// What was forgotten.
    Trash,
    /// Everything.
    All,
}

/// Which exchanges are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meant {
    /// These.
    Ids(Vec<ExchangeId>),
    /// All of a session.
    Session(SessionId),
    /// All in a collection.
    Collection(Collection),
    /// Those in which this text stands, whatever its case, width and spaces.
    Text(String),
    /// Every one.
    Every,
}

/// A database that is looked through after a purge. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Purger {
    db: PgPool,
}

impl Purger {
    /// The database in `db`, whose tables are up to date.
    #[must_use]
    pub fn new(db: PgPool) -> Self {
        Self { db }
    }

    /// The exchanges that are meant, in the journal's order.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn meant(&self, user: UserId, meant: &Meant, among: Among) -> Result<Vec<ExchangeId>, StoreError> {
        let (mut ids, mut session, mut collection, mut text) = (None, None, None, None);
        match meant {
            Meant::Ids(meant) => ids = Some(meant.iter().map(|id| id.0).collect::<Vec<Uuid>>()),
            Meant::Session(id) => session = Some(id.as_str()),
            Meant::Collection(name) => collection = Some(name.as_str()),
            Meant::Text(words) => text = Some(words.as_str()),
            Meant::Every => {}
        }
        let forgotten = match among {
            Among::Remembered => Some(false),
            Among::Trash => Some(true),
            Among::All => None,
        };
        let found = sqlx::query_scalar!(
            r#"
            select id
            from journal.exchange
            where user_id = $1
              and ($2::uuid[] is null or id = any($2))
              and ($3::text is null or session_id = $3)
              and ($4::text is null or collection = $4)
              and ($5::text is null
                   or exists (select from journal.turn
                              where turn.user_id = $1
                                and turn.exchange_id = exchange.id
                                and position(regexp_replace(lower(normalize($5, NFKC)), '\s+', ' ', 'g')
                                             in regexp_replace(lower(normalize(turn.text || ' ' || coalesce(turn.parts::text, ''), NFKC)),
                                                               '\s+', ' ', 'g')) > 0))
              and ($6::bool is null or (forgotten_at is not null) = $6)
            order by first_seq
            "#,
            user.0,
            ids.as_deref(),
            session,
            collection,
            text,
            forgotten
        )
        .fetch_all(&self.db)
        .await?;
        Ok(found.into_iter().map(ExchangeId).collect())
    }

    /// All that was said in exchanges, by whom and in which parts, to know it again: to be kept in memory alone.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn said(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<Vec<String>, StoreError> {
        let ids: Vec<Uuid> = exchanges.iter().map(|id| id.0).collect();
        let said = sqlx::query_scalar!(
            r#"
            select turn.text || E'\n' || coalesce(turn.parts::text, '') as "said!"
            from journal.turn
            where user_id = $1
              and exchange_id = any($2)
            order by seq
            "#,
            user.0,
            &ids
        )
        .fetch_all(&self.db)
        .await?;
        Ok(said)
    }

    /// Removes a user with all that is kept of them in any table: what refers to the user goes with them, and of tables
    /// that do not, the rows that bear the user's id. Whether there was such a user.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; nothing was removed.
    pub async fn remove_user(&self, user: UserId, acting: &Acting) -> Result<bool, StoreError> {
        let places = self.places().await?;
        let mut tx = self.db.begin().await?;
        sqlx::query_scalar!(r#"select set_config('skymem.removing_user', $1, true) as "set!""#, user.to_string())
            .fetch_one(&mut *tx)
            .await?;
        let gone = sqlx::query!("delete from journal.users where id = $1", user.0).execute(&mut *tx).await?;
        if gone.rows_affected() == 0 {
            return Ok(false);
        }
        for place in places.iter().filter(|place| place.has_user) {
            sqlx::query(sqlx::AssertSqlSafe(format!("delete from {} where user_id = $1", place.quoted())))
                .bind(user.0)
                .execute(&mut *tx)
                .await?;
        }
        let what = || serde_json::json!({ "user": user });
        audit::note(&mut tx, audit::SERVER, Some(acting), Verb::UserRemoved, what).await?;
        tx.commit().await?;
        Ok(true)
    }
}
