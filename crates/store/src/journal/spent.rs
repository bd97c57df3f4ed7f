//! What a day's questions to chat models have cost. Of no user: it says nothing but how many tokens.

use async_trait::async_trait;
use chrono::NaiveDate;
use skymem_core::Ledger;

use super::Journal;
use crate::error::StoreError;

/// So long it is kept, in days; what counts is the present one.
const KEPT_DAYS: i32 = 31;

impl Journal {
    /// Adds `tokens` to what was spent on `day`; what that is then, by all servers of this database. 0 only looks.
    ///
    /// # Errors
    ///
    /// When the database gives no answer; then nothing was added.
    pub async fn spend_tokens(&self, section: &str, day: NaiveDate, tokens: u64) -> Result<u64, StoreError> {
        // More than a column holds, nobody spends; the sum stays within it too.
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let spent = sqlx::query_scalar!(
            r#"
            with gone as (
                delete from journal.tokens_spent where section = $1 and day < $2::date - $4::integer
            )
            insert into journal.tokens_spent (section, day, tokens)
            values ($1, $2, $3)
            on conflict (section, day) do update
            set tokens = least(tokens_spent.tokens::numeric + excluded.tokens, 9223372036854775807)::bigint
            returning tokens
            "#,
            section,
            day,
            tokens,
            KEPT_DAYS
        )
        .fetch_one(&self.db)
        .await?;
        Ok(u64::try_from(spent).unwrap_or(0))
    }
}

#[async_trait]
impl Ledger for Journal {
    async fn spend(&self, section: &str, day: NaiveDate, tokens: u64) -> Result<u64, String> {
        self.spend_tokens(section, day, tokens).await.map_err(|error| error.to_string())
    }
}
