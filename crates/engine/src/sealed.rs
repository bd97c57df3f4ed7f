//! Sealed collections: unlocking, who can unlock, and what can be read directly while they are unlocked.
//!
//! The engine holds no key. What needs one is asked of the layer that keeps the vault.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use skymem_core::vault::{SecretText, UnlockWith, Unlocked, VaultError, WrapTo};
use skymem_core::wall::carried;
use skymem_core::{Collection, Exchange, ExchangeId, Filter, Gap, GapReason, Query, Seq, SessionId, UserId, Vault};
use skymem_store::{Among, JournalTurn, MemoryMode, NewVersion, SealedCollection, Session, Target, Verb, Wrapping};

use crate::error::EngineError;
use crate::memory::Memory;
use crate::purge::Aim;

/// How long a collection stays unlocked at most, in minutes, when it is for a time.
pub const MOST_MINUTES: u32 = 60 * 24 * 7;

/// A sealed collection, and whether it is unlocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedView {
    /// What can be seen while it is locked.
    pub sealed: SealedCollection,
    /// What can be seen while it is unlocked; `None` while it is locked.
    pub unlocked: Option<Unlocked>,
}

impl Memory {
    /// Unlocks a collection for so many minutes, or until it is locked when they are 0.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when `with` does not open it.
    pub async fn unlock(
        &self,
        user: UserId,
        collection: &Collection,
        with: &UnlockWith,
        minutes: Option<u32>,
    ) -> Result<SealedView, EngineError> {
        let minutes = minutes.unwrap_or(self.inner.settings.vault.unlock_minutes);
        if minutes > MOST_MINUTES {
            return Err(EngineError::Refused(format!("minutes is from 0 to {MOST_MINUTES}")));
        }
        let until = (minutes > 0).then(|| self.now() + TimeDelta::minutes(i64::from(minutes)));
        self.vault()?.unlock(user, collection, with, until).await?;
        self.note_sealed(user, Verb::Unlocked, collection, "unlocked").await;
        let view = self.sealed_one(user, collection).await?;
        if view.sealed.behind > 0 {
            self.reseal_behind(user, collection);
        }
        Ok(view)
    }

    /// Locks a collection, or all: what was read of it is overwritten. Which were unlocked.
    ///
    /// # Errors
    ///
    /// [`EngineError::Off`] when the vault is not switched on.
    pub async fn lock(&self, user: UserId, collection: Option<&Collection>) -> Result<Vec<Collection>, EngineError> {
        let locked = self.vault()?.lock(user, collection);
        for collection in &locked {
            self.note_sealed(user, Verb::Locked, collection, "locked").await;
        }
        Ok(locked)
    }

    /// The user's sealed collections, by name.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn sealed(&self, user: UserId) -> Result<Vec<SealedView>, EngineError> {
        let unlocked = self.vault().map(|vault| vault.unlocked(user)).unwrap_or_default();
        let sealed = self.inner.journal.sealed_collections(user).await?;
        let view = |sealed: SealedCollection| SealedView {
            unlocked: unlocked.iter().find(|unlocked| unlocked.collection == sealed.collection).cloned(),
            sealed,
        };
        Ok(sealed.into_iter().map(view).collect())
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when the collection is not sealed.
    pub async fn sealed_one(&self, user: UserId, collection: &Collection) -> Result<SealedView, EngineError> {
        let mut all = self.sealed(user).await?.into_iter();
        all.find(|view| view.sealed.collection == *collection).ok_or_else(|| not_sealed(collection))
    }

    /// Lets one more recipient unlock a collection, or sets its passphrase. It must be unlocked.
    ///
    /// # Errors
    ///
    /// [`EngineError::Locked`]; [`EngineError::Refused`] for what is no recipient.
    pub async fn add_recipient(
        &self,
        user: UserId,
        collection: &Collection,
        to: WrapTo,
    ) -> Result<SealedView, EngineError> {
        let (recipient, wrapped) = self.vault()?.wrap(user, collection, to).await?;
        let wrappings: Vec<Wrapping> = wrapped
            .into_iter()
            .map(|(version, wrapped)| Wrapping { version, recipient: recipient.clone(), wrapped })
            .collect();
        self.journal().add_wrappings(user, collection, &wrappings, self.now()).await?;
        self.sealed_one(user, collection).await
    }

    /// Removes a recipient, or `passphrase`. What they have read already they know; rotate the key so that they cannot read
    /// what comes with a copy of it.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when it is none; [`EngineError::Conflict`] when it is the last.
    pub async fn remove_recipient(
        &self,
        user: UserId,
        collection: &Collection,
        recipient: &str,
    ) -> Result<SealedView, EngineError> {
        // age writes recipients in lower case.
        let recipient = recipient.trim().to_ascii_lowercase();
        if !self.journal().remove_recipient(user, collection, &recipient).await? {
            return Err(EngineError::NotFound(format!("recipient {recipient} of collection {collection}")));
        }
        self.sealed_one(user, collection).await
    }

    /// Writes with a new key from now on, wrapped to the same recipients; a passphrase has to be told again. What was written
    /// before is still read with the old key.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when the collection has a passphrase and it is not given, or the other way round.
    pub async fn rotate(
        &self,
        user: UserId,
        collection: &Collection,
        passphrase: Option<WrapTo>,
    ) -> Result<SealedView, EngineError> {
        let view = self.sealed_one(user, collection).await?;
        let has_passphrase = view.sealed.recipients.iter().any(|recipient| recipient == PASSPHRASE);
        if has_passphrase != passphrase.is_some() {
            return Err(EngineError::Refused(match has_passphrase {
                true => "the collection has a passphrase: give it, or remove it first".into(),
                false => "the collection has no passphrase: add it as a recipient first".into(),
            }));
        }
        let vault = self.vault()?;
        if let Some(WrapTo::Passphrase(text)) = &passphrase {
            // Another one than before would open the new key alone, and nothing that was written before.
            let told_again = UnlockWith::Passphrase(SecretText::new(text.expose().to_owned()));
            vault.opens(user, collection, &told_again).await?;
        }
        let recipients = view.sealed.recipients.into_iter().filter(|recipient| recipient != PASSPHRASE);
        let to: Vec<WrapTo> = recipients.map(WrapTo::Recipient).chain(passphrase).collect();
        let version = view.sealed.key_version.saturating_add(1);
        let key = vault.new_key(user, collection, version, to).await?;
        let new =
            NewVersion { version, public: key.public.clone(), wrappings: wrappings(version, key.wrappings.clone()) };
        self.journal().rotate_key(user, collection, &new, self.now()).await?;
        vault.keep_key(user, collection, version, key);
        self.reseal_behind(user, collection);
        self.sealed_one(user, collection).await
    }

    /// Encrypts what was written with an older key anew, behind the caller's back. It ends when the collection is locked, and
    /// goes on when it is unlocked again.
    fn reseal_behind(&self, user: UserId, collection: &Collection) {
        let (memory, collection) = (self.clone(), collection.clone());
        tokio::spawn(carried(async move {
            match memory.reseal(user, &collection).await {
                Ok(turns) => {
                    tracing::info!(%user, %collection, turns, "What was sealed with an older key has the newest one")
                }
                Err(EngineError::Locked(_)) => {
                    tracing::info!(%user, %collection, "Locked: the rest keeps its older key so far")
                }
                Err(error) => tracing::warn!(%error, %user, %collection, "The rest keeps its older key so far"),
            }
        }));
    }

    /// Encrypts what was written with an older key anew, with the newest one, and removes the keys that nothing needs any
    /// more; how many turns. May be broken off and begun again at any time.
    ///
    /// # Errors
    ///
    /// [`EngineError::Locked`] when the collection is locked, or is meanwhile.
    pub async fn reseal(&self, user: UserId, collection: &Collection) -> Result<usize, EngineError> {
        let (mut after, mut turns) = (Seq(0), 0);
        loop {
            let resealed = self.vault()?.reseal(user, collection, after, RESEALED_TOGETHER).await?;
            self.inner.journal.reseal(user, resealed.version, &resealed.turns).await?;
            turns += resealed.turns.len();
            match resealed.reached {
                Some(reached) => after = reached,
                None => break,
            }
        }
        self.inner.journal.drop_old_keys(user, collection).await?;
        Ok(turns)
    }

    /// Removes a sealed collection for good, with its keys: no copy of it can be read any more. How many exchanges.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when the collection is not sealed.
    pub async fn shred(&self, user: UserId, collection: &Collection) -> Result<i64, EngineError> {
        self.lock(user, Some(collection)).await?;
        self.journal().shred(user, collection).await?.ok_or_else(|| not_sealed(collection))
    }

    /// Locks what was unlocked for a time that is over.
    pub(crate) fn lock_what_is_over(&self) {
        // Looking for the vault does it; without one there is nothing to lock.
        let _ = self.vault();
    }

    /// The vault, in which what was unlocked for a time that is over is locked now.
    pub(crate) fn vault(&self) -> Result<&dyn Vault, EngineError> {
        let vault = self.inner.layers.iter().find_map(|layer| layer.vault()).ok_or_else(|| {
            EngineError::Off("the layer `vault`, which keeps sealed collections, is not switched on".into())
        })?;
        for (user, collection) in vault.expire(self.now()) {
            tracing::info!(user = %user, %collection, "A collection was unlocked for a time, which is over: it is locked");
        }
        Ok(vault)
    }

    /// The gap of what is sealed and locked that the query would have found something in, maybe.
    pub(crate) async fn locked_gap(&self, query: &Query) -> Option<Gap> {
        let gap = |reason, detail| Some(Gap { of: "vault".into(), reason, detail });
        match self.vault().ok()?.locked(query.user).await {
            Ok(locked) => {
                let Filter { collections, .. } = &query.filter;
                let asked = |name: &&Collection| collections.is_empty() || collections.contains(name);
                let names: Vec<&str> = locked.iter().filter(asked).map(Collection::as_str).collect();
                if names.is_empty() {
                    return None;
                }
                gap(GapReason::Locked, format!("sealed and locked: {}", names.join(", ")))
            }
            Err(error) => gap(GapReason::Failed, error.to_string()),
        }
    }

    /// The sealed exchanges that are aimed at: by what stands in the clear of them. Who forgets by a text or an entity, of
    /// which a locked server knows nothing, forgets what is open.
    pub(crate) async fn sealed_meant(
        &self,
        user: UserId,
        aim: &Aim,
        among: Among,
    ) -> Result<Vec<ExchangeId>, EngineError> {
        let target = match aim {
            Aim::Exchanges(ids) => Some(Target::Exchanges(ids.clone())),
            Aim::Session(session) => Some(Target::Session(session.clone())),
            Aim::Collection(collection) => Some(Target::Collection(collection.clone())),
            Aim::Everything => None,
            Aim::Entity(_) | Aim::Text(_) => return Ok(Vec::new()),
        };
        let forgotten = match among {
            Among::Remembered => Some(false),
            Among::Trash => Some(true),
            Among::All => None,
        };
        Ok(self.inner.journal.sealed_meant(user, target.as_ref(), forgotten).await?)
    }

    /// A sealed exchange that is not forgotten; `None` when there is no such.
    pub(crate) async fn sealed_exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<Exchange>, EngineError> {
        let Some(home) = self.inner.journal.sealed_home(user, id).await? else { return Ok(None) };
        Ok(self.open_vault(user, &home)?.exchange(user, id).await?)
    }

    /// What was said in a session of a sealed collection, oldest first; `None` when it is no such session.
    pub(crate) async fn sealed_session(
        &self,
        user: UserId,
        session: &SessionId,
    ) -> Result<Option<(Collection, Vec<Exchange>)>, EngineError> {
        let Some(home) = self.inner.journal.sealed_home_of_session(user, session).await? else { return Ok(None) };
        let said = self.open_vault(user, &home)?.session(user, session).await?;
        Ok(Some((home, said)))
    }

    /// The vault, when a collection is unlocked.
    fn open_vault(&self, user: UserId, collection: &Collection) -> Result<&dyn Vault, EngineError> {
        let vault = self.vault()?;
        let is_open = vault.unlocked(user).iter().any(|unlocked| unlocked.collection == *collection);
        if is_open { Ok(vault) } else { Err(VaultError::Locked(collection.clone()).into()) }
    }

    pub(crate) async fn note_sealed(&self, user: UserId, verb: Verb, collection: &Collection, what: &str) {
        self.note(user, verb, json!({ "collection": collection, "what": what })).await;
    }
}

/// So many turns are encrypted anew at a time.
const RESEALED_TOGETHER: usize = 200;

/// What stands for a passphrase in the place of a recipient.
const PASSPHRASE: &str = "passphrase";

pub(crate) fn wrappings(version: u32, wrapped: Vec<(String, Vec<u8>)>) -> Vec<Wrapping> {
    wrapped.into_iter().map(|(recipient, wrapped)| Wrapping { version, recipient, wrapped }).collect()
}

fn not_sealed(collection: &Collection) -> EngineError {
    EngineError::NotFound(format!("sealed collection {collection}"))
}

/// What is known of a session of a sealed collection, from what was said in it.
pub(crate) fn session_of(id: &SessionId, collection: Collection, said: &[Exchange]) -> Option<Session> {
    let times = || said.iter().flat_map(|exchange| exchange.turns.iter().map(|turn| turn.occurred_at));
    let (created_at, last_at): (DateTime<Utc>, DateTime<Utc>) = (times().min()?, times().max()?);
    Some(Session {
        id: id.clone(),
        collection,
        title: None,
        memory: MemoryMode::ReadWrite,
        max_turns: None,
        max_age_hours: None,
        created_at,
        last_at,
        exchanges: i64::try_from(said.len()).unwrap_or(i64::MAX),
    })
}

/// The turns of exchanges, as the journal shows its own.
pub(crate) fn turns_of(said: Vec<Exchange>) -> Vec<JournalTurn> {
    let turns = |exchange: Exchange| {
        let id = exchange.id;
        exchange.turns.into_iter().map(move |turn| JournalTurn {
            exchange: id,
            parts: None,
            client_id: None,
            recorded_at: turn.recorded_at,
            turn,
        })
    };
    said.into_iter().flat_map(turns).collect()
}

impl From<VaultError> for EngineError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Refused(why) => EngineError::Refused(why),
            VaultError::Locked(collection) => EngineError::Locked(format!(
                "collection {collection} is sealed and locked: unlock it with `skymem vault unlock {collection}`"
            )),
            VaultError::NotSealed(collection) => not_sealed(&collection),
            VaultError::Layer(error) => EngineError::from(error),
        }
    }
}
