//! What was changed in a user's memory, by whom and when: a log that is only added to, never with a word of what was said.
//!
//! An entry is written in the transaction of the change itself, so that there is none without the other. Entries of a user
//! are chained by hashes, and the chain's end is kept beside them: whoever alters, takes out or puts in a row, or cuts the
//! end off, is noticed by [`Audit::verify`]. Someone who may write the whole database could make the whole chain anew:
//! against that, note an [`Entry::hash`] elsewhere and hand it to the verification.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgPool, PgTransaction};
use uuid::Uuid;

use skymem_core::UserId;
use skymem_core::conversation::BadName;

use crate::error::StoreError;
use crate::journal::digest;
use crate::keys::KeyId;

/// So many ids are named in one entry; of more, the rest is only counted.
const MOST_IDS: usize = 200;

/// So many entries are read at a time when a chain is checked.
const PIECE: i64 = 5_000;

/// Whose the server's own chain is: users made and removed.
pub const SERVER: UserId = UserId(Uuid::nil());

/// Who changed something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// Whoever has this key.
    #[must_use]
    pub fn key(id: &KeyId) -> Self {
        Self(id.to_string())
    }

    /// Whoever comes, where no key is asked for.
    #[must_use]
    pub fn anyone() -> Self {
        Self("anyone".into())
    }

    /// Somebody at the server's own machine, with a command that works on the database.
    #[must_use]
    pub fn command() -> Self {
        Self("command".into())
    }

    /// The server, by itself: upkeep.
    #[must_use]
    pub fn server() -> Self {
        Self("server".into())
    }

    /// Whoever is so named in the log.
    #[must_use]
    pub fn named(word: &str) -> Self {
        Self(word.to_owned())
    }

    /// The word in the log.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who changes something now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acting {
    /// Who.
    pub actor: Actor,
    /// When.
    pub at: DateTime<Utc>,
}

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident = $word:literal),+ $(,)?) => {
        /// What was done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Verb {
            $($(#[$doc])* $name),+
        }

        impl Verb {
            /// All there are.
            pub const ALL: &[Verb] = &[$(Verb::$name),+];

            /// The word in the log.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Verb::$name => $word),+
                }
            }
        }
    };
}

verbs! {
    /// Exchanges were forgotten.
    Forgot = "forgot",
    /// Exchanges were taken back out of the trash.
    Restored = "restored",
    /// Exchanges were removed for good.
    Purged = "purged",
    /// A key was made.
    KeyMade = "key_made",
    /// A key was taken back.
    KeyRevoked = "key_revoked",
    /// A key was made in place of another.
    KeyRotated = "key_rotated",
    /// A user was made.
    UserMade = "user_made",
    /// A user was removed with all that was kept of them.
    UserRemoved = "user_removed",
    /// What is set about a user was changed.
    UserSet = "user_set",
    /// What is set about a collection was changed.
    CollectionSet = "collection_set",
    /// An empty collection was removed.
    CollectionRemoved = "collection_removed",
    /// For how long, or whether, a session is remembered was changed.
    SessionSet = "session_set",
    /// A memory file was edited through a door.
    FileEdited = "file_edited",
    /// Facts were told, corrected or taken back.
    FactsStated = "facts_stated",
    /// Turns were taken over from elsewhere.
    Imported = "imported",
    /// A collection was sealed, or its recipients or keys were changed.
    Sealed = "sealed",
    /// A sealed collection was opened for a while.
    Unlocked = "unlocked",
    /// A sealed collection was closed.
    Locked = "locked",
}

impl FromStr for Verb {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        Self::ALL.iter().copied().find(|verb| verb.as_str() == word).ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|verb| verb.as_str()).collect();
            BadName(format!("the verb of an entry is one of {}", all.join(", ")))
        })
    }
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place in the chain, from 1, without gaps.
    pub number: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// The id of the key, or one of `anyone`, `command`, `server`.
    pub actor: String,
    /// What was done.
    pub verb: String,
    /// To what: ids, names of settings, counts.
    pub what: Value,
    /// SHA-256 over this entry and all before it.
    pub hash: Hash,
}

/// Which entries are asked for: every condition that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// Only of this kind.
    pub verb: Option<Verb>,
    /// Only since then.
    pub from: Option<DateTime<Utc>>,
    /// Only before then.
    pub until: Option<DateTime<Utc>>,
}

/// What a look at a whole chain came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// How many entries are sound, from the first on.
    pub sound: i64,
    /// The hash of the last of them: noted elsewhere, it tells later whether all up to here is still the same.
    pub head: Option<Hash>,
    /// Where the chain breaks first, and how; `None` when it is whole.
    pub broken: Option<Break>,
}

/// Where a chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The number of the entry that is not as it was, or not there.
    pub number: i64,
    /// How, in words.
    pub how: &'static str,
}

/// SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hash(Vec<u8>);

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl FromStr for Hash {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match hex::decode(text) {
            Ok(bytes) if bytes.len() == 32 => Ok(Self(bytes)),
            _ => Err(BadName("the hash of an entry is 64 digits and letters from a to f".into())),
        }
    }
}

/// The logs of all users. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Audit {
    db: PgPool,
}

impl Audit {
    /// The logs in `db`, whose tables are up to date.
    #[must_use]
    pub fn new(db: PgPool) -> Self {
        Self { db }
    }

    /// Writes down a change that has no transaction in this database.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn note(&self, user: UserId, acting: &Acting, verb: Verb, what: Value) -> Result<(), StoreError> {
        let mut tx = self.db.begin().await?;
        note(&mut tx, user, Some(acting), verb, || what).await?;
        tx.commit().await?;
        Ok(())
    }

    /// A page of a user's log, newest first, from before `before`, at most `limit` entries.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn entries(
        &self,
        user: UserId,
        filter: &EntryFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let rows = sqlx::query_as!(
            EntryRow,
            r#"
            select number, at, actor, verb, what::text as "what!", hash
            from journal.audit
            where user_id = $1
              and ($2::text is null or verb = $2)
              and ($3::timestamptz is null or at >= $3)
              and ($4::timestamptz is null or at < $4)
              and ($5::bigint is null or number < $5)
            order by number desc
            limit $6
            "#,
            user.0,
            filter.verb.map(Verb::as_str),
            filter.from,
            filter.until,
            before,
            i64::try_from(limit).unwrap_or(i64::MAX)
        )
        .fetch_all(&self.db)
        .await?;
        Ok(rows.into_iter().map(Entry::from).collect())
    }

    /// Goes through the whole log of a user and names the first place at which it is not as it was written. With a `known`
    /// hash that was noted once, that must be among those of the chain.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub async fn verify(&self, user: UserId, known: Option<&Hash>) -> Result<Verified, StoreError> {
        // One moment of the database: nothing is added between the entries and the end that is kept.
        let mut tx = self.db.begin().await?;
        sqlx::query("set transaction isolation level repeatable read, read only").execute(&mut *tx).await?;
        let (mut sound, mut last): (i64, Option<Hash>) = (0, None);
        let mut is_known = known.is_none();
        let broken = |number, how| Some(Break { number, how });
        loop {
            let rows = sqlx::query_as!(
                EntryRow,
                r#"
                select number, at, actor, verb, what::text as "what!", hash
                from journal.audit
                where user_id = $1
                  and number > $2
                order by number
                limit $3
                "#,
                user.0,
                sound,
                PIECE
            )
            .fetch_all(&mut *tx)
            .await?;
            let is_last = rows.len() < usize::try_from(PIECE).unwrap_or(usize::MAX);
            for row in rows {
                if row.number != sound + 1 {
                    return Ok(Verified { sound, head: last, broken: broken(sound + 1, "is missing") });
                }
                if hash(last.as_ref(), user, &row) != row.hash {
                    return Ok(Verified { sound, head: last, broken: broken(row.number, "was altered") });
                }
                is_known = is_known || known.is_some_and(|known| known.0 == row.hash);
                (sound, last) = (row.number, Some(Hash(row.hash)));
            }
            if is_last {
                break;
            }
        }
        let head = sqlx::query!("select number, hash from journal.audit_head where user_id = $1", user.0)
            .fetch_optional(&mut *tx)
            .await?;
        let (number, hash) = head.map(|head| (head.number, head.hash)).unwrap_or_default();
        let how = match () {
            () if number > sound => Some((sound + 1, "is missing: the end of the log was cut off")),
            () if number < sound => Some((number + 1, "was put behind the end of the log")),
            () if last.as_ref().is_some_and(|last| last.0 != hash) => {
                Some((sound, "is not the end that was noted: the log was made anew"))
            }
            () if !is_known => Some((sound, "comes from another log: the hash that was noted elsewhere is not in it")),
            () => None,
        };
        Ok(Verified { sound, head: last, broken: how.map(|(number, how)| Break { number, how }) })
    }
}

/// Adds an entry to a user's log, within the transaction of the change. Last of all: the log's end is locked until the
/// transaction ends. Does nothing when nobody is said to act, which is so in tests alone.
pub(crate) async fn note(
    tx: &mut PgTransaction<'_>,
    user: UserId,
    acting: Option<&Acting>,
    verb: Verb,
    what: impl FnOnce() -> Value,
) -> Result<(), StoreError> {
    let Some(Acting { actor, at }) = acting else { return Ok(()) };
    // The update changes nothing, but locks the row and has it returned.
    let head = sqlx::query!(
        r#"
        insert into journal.audit_head (user_id, number, hash)
        values ($1, 0, '')
        on conflict (user_id) do update set number = audit_head.number
        returning number, hash
        "#,
        user.0
    )
    .fetch_one(&mut **tx)
    .await?;
    let previous = (head.number > 0).then_some(Hash(head.hash));
    let mut row = EntryRow {
        number: head.number + 1,
        // As Postgres will give it back.
        at: DateTime::from_timestamp_micros(at.timestamp_micros()).unwrap_or(*at),
        actor: actor.0.clone(),
        verb: verb.as_str().to_owned(),
        what: what().to_string(),
        hash: Vec::new(),
    };
    row.hash = hash(previous.as_ref(), user, &row);
    sqlx::query!(
        r#"
        with entry as (
            insert into journal.audit (user_id, number, at, actor, verb, what, hash)
            values ($1, $2, $3, $4, $5, ($6::text)::json, $7)
        )
        update journal.audit_head
        set number = $2, hash = $7
        where user_id = $1
        "#,
        user.0,
        row.number,
        row.at,
        row.actor,
        row.verb,
        row.what,
        row.hash
    )
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Ids for an entry: as many as are named, and how many there are.
pub(crate) fn named(ids: impl ExactSizeIterator<Item = Uuid>) -> Value {
    let count = ids.len();
    let ids: Vec<String> = ids.take(MOST_IDS).map(|id| id.to_string()).collect();
    serde_json::json!({ "count": count, "ids": ids })
}

/// A name of the client's own for an entry: its SHA-256, since such a name may say something.
pub(crate) fn unnamed(name: &str) -> String {
    format!("sha256:{}", hex::encode(digest(&[Some(name)])))
}

/// SHA-256 over an entry and the hash before it, in fields that cannot run into each other.
fn hash(previous: Option<&Hash>, user: UserId, row: &EntryRow) -> Vec<u8> {
    let previous = previous.map(Hash::to_string);
    let (user, number, at) = (user.to_string(), row.number.to_string(), row.at.timestamp_micros().to_string());
    let fields = [&user, &number, &at, &row.actor, &row.verb, &row.what].map(|field| Some(field.as_str()));
    let mut all = vec![previous.as_deref()];
    all.extend(fields);
    digest(&all)
}

struct EntryRow {
    number: i64,
    at: DateTime<Utc>,
    actor: String,
    verb: String,
    what: String,
    hash: Vec<u8>,
}

impl From<EntryRow> for Entry {
    fn from(row: EntryRow) -> Self {
        let EntryRow { number, at, actor, verb, what, hash } = row;
        // What was tampered with may be no JSON that we would write; it is shown as it stands.
        let what = serde_json::from_str(&what).unwrap_or(Value::String(what));
        Self { number, at, actor, verb, what, hash: Hash(hash) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_read_back() {
        for verb in Verb::ALL {
            assert_eq!(verb.as_str().parse::<Verb>().unwrap(), *verb);
        }
        assert!("frobbed".parse::<Verb>().unwrap_err().0.contains("forgot"));
    }

    #[test]
    fn a_hash_covers_every_field() {
        let row = |number, actor: &str, what: &str| EntryRow {
            number,
            at: DateTime::UNIX_EPOCH,
            actor: actor.into(),
            verb: "forgot".into(),
            what: what.into(),
            hash: Vec::new(),
        };
        let one = hash(None, SERVER, &row(1, "a", "{}"));
        let others = [
            hash(None, SERVER, &row(2, "a", "{}")),
            hash(None, SERVER, &row(1, "b", "{}")),
            hash(None, SERVER, &row(1, "a", "{ }")),
            hash(None, UserId(Uuid::from_u128(1)), &row(1, "a", "{}")),
            hash(Some(&Hash(one.clone())), SERVER, &row(1, "a", "{}")),
        ];
        assert!(others.iter().all(|other| *other != one));
        assert_eq!(one, hash(None, SERVER, &row(1, "a", "{}")));
    }
}
