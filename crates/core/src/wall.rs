//! For whom work is done: the second wall.
//!
//! Every statement filters by user. Should one ever not, the tables themselves show and take nothing but the rows of the
//! user that the connection acts for (row-level security). For whom that is, is said once around a piece of work, by whoever
//! knows: a door that has looked at a key, a worker that has a lease. It travels with the task, and the pool writes it onto
//! each connection it lends (`skymem_store::wall`). Work around which nobody said anything gets an error from every table
//! that holds what is somebody's: an empty answer would be taken for nothing there.
//!
//! A new task starts with nothing said: what is spawned is [`carried`], or says for itself.

use crate::UserId;

/// For whom a piece of work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActsFor {
    /// One user: nothing of anybody else's can be reached.
    User(UserId),
    /// Everyone: what has to look across users, or to find out whose work there is.
    Everyone,
}

tokio::task_local! {
    static ACTS_FOR: Option<ActsFor>;
}

/// Does `work` for `user` alone, whoever it was done for before.
pub async fn acting_for<T>(user: UserId, work: impl Future<Output = T>) -> T {
    ACTS_FOR.scope(Some(ActsFor::User(user)), work).await
}

/// Does `work` across users. To be kept rare and small: finding a key or a user, leases, upkeep, what is made and removed as
/// a whole.
pub async fn acting_for_everyone<T>(work: impl Future<Output = T>) -> T {
    ACTS_FOR.scope(Some(ActsFor::Everyone), work).await
}

/// `work` for whomever the present work is done: for a task of its own, which would know nothing of that.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    ACTS_FOR.scope(acts_for(), work)
}

/// For whom the present work is done; `None` when nobody said.
#[must_use]
pub fn acts_for() -> Option<ActsFor> {
    ACTS_FOR.try_with(|whom| *whom).unwrap_or(None)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn work_is_done_for_whom_the_innermost_said() {
        let (anna, berta) = (UserId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        assert_eq!(acts_for(), None);

        acting_for(anna, async {
            assert_eq!(acts_for(), Some(ActsFor::User(anna)));
            acting_for_everyone(async { assert_eq!(acts_for(), Some(ActsFor::Everyone)) }).await;
            acting_for(berta, async { assert_eq!(acts_for(), Some(ActsFor::User(berta))) }).await;
            assert_eq!(acts_for(), Some(ActsFor::User(anna)));
        })
        .await;
        assert_eq!(acts_for(), None);
    }

    #[tokio::test]
    async fn a_task_of_its_own_knows_only_what_is_carried_there() {
        let anna = UserId(Uuid::from_u128(1));

        let (bare, with) = acting_for(anna, async {
            let bare = tokio::spawn(async { acts_for() });
            let with = tokio::spawn(carried(async { acts_for() }));
            (bare.await.unwrap(), with.await.unwrap())
        })
        .await;

        assert_eq!((bare, with), (None, Some(ActsFor::User(anna))));
        assert_eq!(tokio::spawn(carried(async { acts_for() })).await.unwrap(), None);
    }
}
