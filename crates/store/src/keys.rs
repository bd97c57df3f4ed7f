//! Who may come in: keys that are shown once and kept as a hash.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, TimeDelta, Utc};
use rand::RngCore;
use serde_json::json;
use sha2::{Digest, Sha256};
use sqlx::{PgPool, PgTransaction};
use subtle::ConstantTimeEq;

use skymem_core::UserId;
use skymem_core::conversation::BadName;

use crate::audit::{self, Acting, Verb};
use crate::error::StoreError;

/// What every key begins with, so that a leaked one is recognised.
const PREFIX: &str = "skm";

const ID_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// A key's name has at most this many characters.
const LONGEST_NAME: usize = 100;

/// A use is noted at most this often: a busy key must not write with every request.
const USE_NOTED_EVERY: TimeDelta = TimeDelta::minutes(1);

/// All keys of all users. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keys {
    db: PgPool,
    /// Who changes something, for the audit log.
    acting: Option<Acting>,
}

/// What is known of a key; its secret is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Names the key, also in logs.
    pub id: KeyId,
    /// Whose memory it opens.
    pub user: UserId,
    /// What people call it.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// From when on it is no longer good.
    pub expires_at: Option<DateTime<Utc>>,
    /// Since when it is no longer good, because someone said so.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl Key {
    /// Whether the key is good for `scope`: `admin` is good for everything.
    #[must_use]
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// A key that was just made: the one moment at which its secret is known.
#[derive(Debug)]
pub struct NewKey {
    /// What is known of it from now on.
    pub key: Key,
    /// The whole text that a client sends.
    pub secret: Secret,
}

/// The text of a key, `skm_<id>_<secret>`. Debugging does not show it.
pub struct Secret(String);

impl Secret {
    /// The text, to be shown to its owner once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Names a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(String);

impl KeyId {
    /// The id that the text of a key names, whether there is such a key or not; `None` for what has not its form.
    #[must_use]
    pub fn named_by(text: &str) -> Option<Self> {
        parse(text).map(|(id, _)| id)
    }

    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let well = text.len() == 2 * ID_BYTES && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        well.then(|| Self(text.to_owned()))
            .ok_or_else(|| BadName(format!("a key's id is {} digits and letters from a to f", 2 * ID_BYTES)))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Recall and read.
    Read,
    /// Record and change.
    Write,
    /// Everything, keys too.
    Admin,
}

impl Scope {
    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "admin" => Ok(Self::Admin),
            _ => Err(BadName("a scope is one of read, write, admin".into())),
        }
    }
}

impl Keys {
    /// The keys in `db`, whose tables are up to date.
    #[must_use]
    pub fn new(db: PgPool) -> Self {
        Self { db, acting: None }
    }

    /// The same keys for somebody who makes or takes back some: that is written down in the audit log.
    #[must_use]
    pub fn by(&self, acting: Acting) -> Self {
        Self { acting: Some(acting), ..self.clone() }
    }

    /// Makes a key for a user.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] for a name or scopes that cannot be, [`StoreError::NoUser`] when there is no such user.
    pub async fn make(
        &self,
        user: UserId,
        name: &str,
        scopes: &[Scope],
        at: DateTime<Utc>,
        expires_at: Option<DateTime<Utc>>,
    ) -> Result<NewKey, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user).await?;
        let made = make(&mut tx, user, name, scopes, at, expires_at).await?;
        self.note(&mut tx, Verb::KeyMade, &made.key, None).await?;
        tx.commit().await?;
        Ok(made)
    }

    /// An admin key for `user`, if there is no key for anyone yet; however many servers ask for it, one gets it.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn first_key(&self, user: UserId, at: DateTime<Utc>) -> Result<Option<NewKey>, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user).await?;
        let any =
            sqlx::query_scalar!(r#"select exists (select from journal.key) as "any!""#).fetch_one(&mut *tx).await?;
        if any {
            return Ok(None);
        }
        let made = make(&mut tx, user, "first", &[Scope::Admin], at, None).await?;
        self.note(&mut tx, Verb::KeyMade, &made.key, None).await?;
        tx.commit().await?;
        Ok(Some(made))
    }

    /// The key that `text` is, if it is one and is good at `now`.
    ///
    /// # Errors
    ///
    /// When the database gives no answer. Nobody comes in then.
    pub async fn verify(&self, text: &str, now: DateTime<Utc>) -> Result<Option<Key>, StoreError> {
        let Some((id, secret)) = parse(text) else { return Ok(None) };
        let row = sqlx::query!(
            r#"
            select id, user_id, name, scopes, created_at, expires_at, revoked_at, last_used_at, secret_hash
            from journal.key
            where id = $1
            "#,
            id.as_str()
        )
        .fetch_optional(&self.db)
        .await?;
        // Whether there is a key of that id shall not be told from how long the answer takes.
        let presented = hash(secret);
        let Some(row) = row else { return Ok(None) };
        let right: bool = presented.ct_eq(row.secret_hash.as_slice()).into();
        let past = |at: Option<DateTime<Utc>>| at.is_some_and(|at| at <= now);
        if !right || past(row.revoked_at) || past(row.expires_at) {
            return Ok(None);
        }
        if row.last_used_at.is_none_or(|used| used + USE_NOTED_EVERY <= now) {
            let noted = sqlx::query!("update journal.key set last_used_at = $2 where id = $1", row.id, now);
            // A database that can only be read, its disk being full, still lets in whoever wants to read.
            if let Err(error) = noted.execute(&self.db).await {
                tracing::debug!(%error, key = %id, "The use of a key could not be noted");
            }
        }
        let row = KeyRow {
            id: row.id,
            user_id: row.user_id,
            name: row.name,
            scopes: row.scopes,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
        };
        row.try_into().map(Some)
    }

    /// The keys of a user, oldest first, those that are no longer good included.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn list(&self, user: UserId) -> Result<Vec<Key>, StoreError> {
        let rows = sqlx::query_as!(
            KeyRow,
            r#"
            select id, user_id, name, scopes, created_at, expires_at, revoked_at, last_used_at
            from journal.key
            where user_id = $1
            order by created_at, id
            "#,
            user.0
        )
        .fetch_all(&self.db)
        .await?;
        rows.into_iter().map(Key::try_from).collect()
    }

    /// Makes a key good for nothing, at once and for ever. Whether it was good before.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn revoke(&self, user: UserId, key: &KeyId, at: DateTime<Utc>) -> Result<bool, StoreError> {
        let mut tx = self.db.begin().await?;
        let revoked = sqlx::query!(
            r#"
            update journal.key
            set revoked_at = $3
            where user_id = $1
              and id = $2
              and revoked_at is null
              and (expires_at is null or expires_at > $3)
            "#,
            user.0,
            key.as_str(),
            at
        )
        .execute(&mut *tx)
        .await?;
        let was_good = revoked.rows_affected() > 0;
        if was_good {
            let what = || json!({ "key": key.as_str() });
            audit::note(&mut tx, user, self.acting.as_ref(), Verb::KeyRevoked, what).await?;
        }
        tx.commit().await?;
        Ok(was_good)
    }

    /// Makes a key in place of another, which is good until `old_until` at most: same name, same scopes, and as long a
    /// life as the other was given. `None` when there is no such key, or it is no longer good.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoUser`] when there is no such user.
    pub async fn rotate(
        &self,
        user: UserId,
        key: &KeyId,
        at: DateTime<Utc>,
        old_until: DateTime<Utc>,
    ) -> Result<Option<NewKey>, StoreError> {
        let mut tx = self.db.begin().await?;
        lock(&mut tx, user).await?;
        let old = sqlx::query_as!(
            KeyRow,
            r#"
            select id, user_id, name, scopes, created_at, expires_at, revoked_at, last_used_at
            from journal.key
            where user_id = $1
              and id = $2
              and revoked_at is null
              and (expires_at is null or expires_at > $3)
            "#,
            user.0,
            key.as_str(),
            at
        )
        .fetch_optional(&mut *tx)
        .await?;
        let Some(old) = old.map(Key::try_from).transpose()? else { return Ok(None) };
        sqlx::query!(
            "update journal.key set expires_at = least(expires_at, $3) where user_id = $1 and id = $2",
            user.0,
            key.as_str(),
            old_until
        )
        .execute(&mut *tx)
        .await?;
        let expires_at = old.expires_at.map(|end| at + (end - old.created_at));
        let made = make(&mut tx, user, &old.name, &old.scopes, at, expires_at).await?;
        self.note(&mut tx, Verb::KeyRotated, &made.key, Some(key)).await?;
        tx.commit().await?;
        Ok(Some(made))
    }

    /// Writes down a key that was made, in place of `old` if there was one. Its name is not: people write things there.
    async fn note(
        &self,
        tx: &mut PgTransaction<'_>,
        verb: Verb,
        key: &Key,
        old: Option<&KeyId>,
    ) -> Result<(), StoreError> {
        let what = || {
            json!({
                "key": key.id.as_str(),
                "scopes": key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>(),
                "expires_at": key.expires_at,
                "instead_of": old.map(KeyId::as_str),
            })
        };
        audit::note(tx, key.user, self.acting.as_ref(), verb, what).await
    }
}

/// One change of a user's keys at a time.
async fn lock(tx: &mut PgTransaction<'_>, user: UserId) -> Result<(), StoreError> {
    sqlx::query_scalar!("select id from journal.users where id = $1 for no key update", user.0)
        .fetch_optional(&mut **tx)
        .await?
        .map(|_| ())
        .ok_or(StoreError::NoUser)
}

async fn make(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    name: &str,
    scopes: &[Scope],
    at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
) -> Result<NewKey, StoreError> {
    let length = name.chars().count();
    if length == 0 || length > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(StoreError::Refused(format!("a key's name has 1 to {LONGEST_NAME} printable characters")));
    }
    if scopes.is_empty() {
        return Err(StoreError::Refused("a key has at least one scope: read, write or admin".into()));
    }
    if expires_at.is_some_and(|end| end <= at) {
        return Err(StoreError::Refused("a key expires after it is made, not before".into()));
    }
    let id = KeyId(random::<ID_BYTES>());
    let secret = random::<SECRET_BYTES>();
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    let words: Vec<String> = scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    sqlx::query!(
        r#"
        insert into journal.key (id, user_id, name, secret_hash, scopes, created_at, expires_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        "#,
        id.as_str(),
        user.0,
        name,
        hash(&secret),
        &words,
        at,
        expires_at
    )
    .execute(&mut **tx)
    .await?;
    let text = Secret(format!("{PREFIX}_{id}_{secret}"));
    let key = Key {
        id,
        user,
        name: name.to_owned(),
        scopes,
        created_at: at,
        expires_at,
        revoked_at: None,
        last_used_at: None,
    };
    Ok(NewKey { key, secret: text })
}

/// The id and the secret in the text of a key, if it has the form of one.
fn parse(text: &str) -> Option<(KeyId, &str)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.strip_prefix('_')?.split_once('_')?;
    (secret.len() == 2 * SECRET_BYTES).then_some((id.parse().ok()?, secret))
}

fn random<const BYTES: usize>() -> String {
    let mut bytes = [0; BYTES];
    rand::rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}

// The secret is 256 random bits: no slow hash is needed to keep it from being guessed.
fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

struct KeyRow {
    id: String,
    user_id: uuid::Uuid,
    name: String,
    scopes: Vec<String>,
    created_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    revoked_at: Option<DateTime<Utc>>,
    last_used_at: Option<DateTime<Utc>>,
}

impl TryFrom<KeyRow> for Key {
    type Error = StoreError;

    fn try_from(row: KeyRow) -> Result<Self, StoreError> {
        Ok(Self {
            id: row.id.parse()?,
            user: UserId(row.user_id),
            name: row.name,
            scopes: row.scopes.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            created_at: row.created_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_a_key_is_looked_up() {
        let secret = "0".repeat(64);
        let good = format!("skm_0123456789abcdef_{secret}");
        assert_eq!(
            parse(&good).map(|(id, secret)| (id.to_string(), secret.len())),
            Some(("0123456789abcdef".into(), 64))
        );
        for bad in ["", "skm", "skm_", "skm__", "sk-abc", "skm_0123456789abcdef_", "skm_0123456789ABCDEF_", "skm_0_1"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert!(parse(&good.replace("skm", "skn")).is_none());
        assert!(parse(&format!("{good}0")).is_none());
    }

    #[test]
    fn debugging_does_not_show_a_secret() {
        assert_eq!(format!("{:?}", Secret("skm_1_2".into())), "Secret(hidden)");
    }
}
