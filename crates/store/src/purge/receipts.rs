//! Receipts of purges, as they were signed.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use skymem_core::UserId;

use super::Purger;
use crate::error::StoreError;

/// What a purge did and found, and a signature over that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Names it.
    pub id: Uuid,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// What is signed: JSON, as it was signed.
    pub body: String,
    /// Ed25519 over the body.
    pub signature: Vec<u8>,
    /// Of the key that signed it.
    pub public_key: Vec<u8>,
}

impl Purger {
    /// Keeps a receipt for good.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn keep_receipt(&self, user: UserId, receipt: &Receipt) -> Result<(), StoreError> {
        sqlx::query!(
            r#"
            insert into journal.receipt (user_id, id, made_at, body, signature, public_key)
            values ($1, $2, $3, ($4::text)::json, $5, $6)
            "#,
            user.0,
            receipt.id,
            receipt.made_at,
            receipt.body,
            receipt.signature,
            receipt.public_key
        )
        .execute(&self.db)
        .await?;
        Ok(())
    }

    /// One receipt of a user; `None` when there is none of that id.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn receipt(&self, user: UserId, id: Uuid) -> Result<Option<Receipt>, StoreError> {
        let receipt = sqlx::query_as!(
            Receipt,
            r#"
            select id, made_at, body::text as "body!", signature, public_key
            from journal.receipt
            where user_id = $1
              and id = $2
            "#,
            user.0,
            id
        )
        .fetch_optional(&self.db)
        .await?;
        Ok(receipt)
    }

    /// The receipts of a user, newest first, at most `limit`.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn receipts(&self, user: UserId, limit: usize) -> Result<Vec<Receipt>, StoreError> {
        let receipts = sqlx::query_as!(
            Receipt,
            r#"
            select id, made_at, body::text as "body!", signature, public_key
            from journal.receipt
            where user_id = $1
            order by made_at desc, id
            limit $2
            "#,
            user.0,
            i64::try_from(limit).unwrap_or(i64::MAX)
        )
        .fetch_all(&self.db)
        .await?;
        Ok(receipts)
    }
}
