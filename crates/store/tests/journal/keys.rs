use chrono::TimeDelta;
use skymem_core::UserId;
use skymem_store::{Journal, Keys, Scope, StoreError};
use tokio::task::JoinSet;

use crate::scratch::*;

async fn with_keys<F>(test: impl FnOnce(Keys, UserId, UserId) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    in_a_database(|db| async move {
        let journal = Journal::new(db.clone());
        let (anna, ben) = (a_user(&journal, "anna").await, a_user(&journal, "ben").await);
        test(Keys::new(db), anna, ben).await;
    })
    .await;
}

#[tokio::test]
async fn a_key_opens_its_users_memory_and_says_what_it_is_good_for() {
    with_keys(|keys, anna, _| async move {
        let made = keys.make(anna, "laptop", &[Scope::Write, Scope::Read], minute(0), None).await.unwrap();
        let text = made.secret.reveal();
        assert!(text.starts_with("skm_"));

        let key = keys.verify(text, minute(1)).await.unwrap().unwrap();

        assert_eq!((key.user, key.name.as_str(), &key.scopes), (anna, "laptop", &vec![Scope::Read, Scope::Write]));
        assert!(key.allows(Scope::Read) && key.allows(Scope::Write) && !key.allows(Scope::Admin));
        for end in 1..text.len() {
            assert_eq!(keys.verify(&text[..end], minute(1)).await.unwrap(), None, "{end}");
        }
        let other = if text.ends_with('0') { '1' } else { '0' };
        let wrong = format!("{}{other}", &text[..text.len() - 1]);
        assert_eq!(keys.verify(&wrong, minute(1)).await.unwrap(), None);
        assert_eq!(keys.verify("skm_\0_\0", minute(1)).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_secret_is_nowhere_in_the_database() {
    in_a_database(|db| async move {
        let anna = a_user(&Journal::new(db.clone()), "anna").await;
        let made = Keys::new(db.clone()).make(anna, "k", &[Scope::Admin], minute(0), None).await.unwrap();
        let secret = made.secret.reveal().rsplit('_').next().unwrap().to_owned();

        let row: String = sqlx::query_scalar("select it::text from journal.key as it").fetch_one(&db).await.unwrap();

        assert!(row.contains(made.key.id.as_str()));
        assert!(!row.contains(&secret));
    })
    .await;
}

#[tokio::test]
async fn a_key_that_expired_or_was_revoked_opens_nothing() {
    with_keys(|keys, anna, ben| async move {
        let short = keys.make(anna, "short", &[Scope::Read], minute(0), Some(minute(5))).await.unwrap();
        let long = keys.make(anna, "long", &[Scope::Read], minute(0), None).await.unwrap();

        assert!(keys.verify(short.secret.reveal(), minute(4)).await.unwrap().is_some());
        assert!(keys.verify(short.secret.reveal(), minute(5)).await.unwrap().is_none());
        assert!(!keys.revoke(ben, &long.key.id, minute(6)).await.unwrap());
        assert!(keys.verify(long.secret.reveal(), minute(6)).await.unwrap().is_some());
        assert!(keys.revoke(anna, &long.key.id, minute(6)).await.unwrap());
        assert!(!keys.revoke(anna, &long.key.id, minute(7)).await.unwrap());
        assert!(keys.verify(long.secret.reveal(), minute(6)).await.unwrap().is_none());
        assert_eq!(keys.list(anna).await.unwrap().len(), 2);
        assert_eq!(keys.list(ben).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn a_rotated_key_leaves_the_old_one_a_while() {
    with_keys(|keys, anna, _| async move {
        let old = keys.make(anna, "app", &[Scope::Write], minute(0), Some(minute(100))).await.unwrap();

        let new = keys.rotate(anna, &old.key.id, minute(50), minute(60)).await.unwrap().unwrap();

        assert_eq!((new.key.name.as_str(), &new.key.scopes), ("app", &vec![Scope::Write]));
        assert_eq!(new.key.expires_at, Some(minute(150)));
        assert!(keys.verify(old.secret.reveal(), minute(59)).await.unwrap().is_some());
        assert!(keys.verify(old.secret.reveal(), minute(60)).await.unwrap().is_none());
        assert!(keys.verify(new.secret.reveal(), minute(60)).await.unwrap().is_some());
        assert!(keys.rotate(anna, &old.key.id, minute(61), minute(70)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_last_use_is_noted_once_a_minute() {
    with_keys(|keys, anna, _| async move {
        let made = keys.make(anna, "k", &[Scope::Read], minute(0), None).await.unwrap();
        for (seconds, expected) in [(0, 0), (59, 0), (60, 60), (90, 60)] {
            let now = minute(1) + TimeDelta::seconds(seconds);
            keys.verify(made.secret.reveal(), now).await.unwrap();

            let used = keys.list(anna).await.unwrap()[0].last_used_at;
            assert_eq!(used, Some(minute(1) + TimeDelta::seconds(expected)), "{seconds}");
        }
    })
    .await;
}

#[tokio::test]
async fn however_many_servers_start_at_once_there_is_one_first_key() {
    with_keys(|keys, anna, ben| async move {
        let mut servers = JoinSet::new();
        for _ in 0..8 {
            let keys = keys.clone();
            servers.spawn(async move { keys.first_key(anna, minute(0)).await.unwrap() });
        }

        let made: Vec<_> = servers.join_all().await.into_iter().flatten().collect();

        assert_eq!(made.len(), 1);
        assert!(made[0].key.allows(Scope::Admin) && made[0].key.allows(Scope::Read));
        assert!(keys.first_key(ben, minute(0)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_key_without_a_name_a_scope_or_a_user_is_not_made() {
    with_keys(|keys, anna, _| async move {
        let long = "x".repeat(101);
        for (name, scopes, expires) in [
            ("", vec![Scope::Read], None),
            ("a\0b", vec![Scope::Read], None),
            (long.as_str(), vec![Scope::Read], None),
            ("k", vec![], None),
            ("k", vec![Scope::Read], Some(minute(0))),
        ] {
            let refused = keys.make(anna, name, &scopes, minute(0), expires).await;
            assert!(matches!(refused, Err(StoreError::Refused(_))), "{name:?} {scopes:?}");
        }
        let nobody = keys.make(UserId(worker()), "k", &[Scope::Read], minute(0), None).await;
        assert!(matches!(nobody, Err(StoreError::NoUser)));
    })
    .await;
}
