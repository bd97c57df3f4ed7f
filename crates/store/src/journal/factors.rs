//! How models were seen to count tokens. Of no user: it says nothing but how long a model's words are.

use chrono::{DateTime, Utc};

use super::Journal;
use crate::error::StoreError;

impl Journal {
    /// What estimates for `model` are multiplied by, and from how many observations that is known.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn token_factor(&self, model: &str) -> Result<Option<(f32, i32)>, StoreError> {
        let row = sqlx::query!("select factor, seen from journal.token_factor where model = $1", model)
            .fetch_optional(&self.db)
            .await?;
        Ok(row.map(|row| (row.factor, row.seen)))
    }

    /// Keeps a factor, from 0.5 to 2, for `model`, a name of at most 100 bytes. Names come with requests: after a
    /// thousand of them no new one is kept. Of two servers that write at once, the later one's observation counts.
    ///
    /// # Errors
    ///
    /// As [`Journal::token_factor`].
    pub async fn set_token_factor(
        &self,
        model: &str,
        factor: f32,
        seen: i32,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        sqlx::query!(
            r#"
            insert into journal.token_factor (model, factor, seen, learned_at)
            select $1, $2, $3, $4
            where exists (select from journal.token_factor where model = $1)
               or (select count(*) from journal.token_factor) < 1000
            on conflict (model) do update
            set factor = excluded.factor, seen = excluded.seen, learned_at = excluded.learned_at
            "#,
            model,
            factor,
            seen,
            now
        )
        .execute(&self.db)
        .await?;
        Ok(())
    }
}
