//! Unlocking, locking, and what can be read of what is unlocked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::vault::{NewKey, Resealed, UnlockWith, Unlocked, VaultError, WrapTo};
use skymem_core::wall::carried;
use skymem_core::{Collection, Exchange, ExchangeId, LayerError, Seq, SessionId, UserId, Vault};
use skymem_seal::{
    HandleKey, Identities, Opener, Passphrase, Place, Recipient, SealError, SealedTurn, SecretKey, Wrapped,
};

use crate::room::Door;
use crate::{VaultLayer, sql};

/// What is recorded of a passphrase in the place of a recipient.
const PASSPHRASE: &str = "passphrase";

/// Unlocking waits for the vectors of what was written meanwhile when they are no more than these: more take long anyway, and
/// words alone must do for a while.
const FEW_VECTORS: usize = 200;

/// So long it waits for them.
const WAIT_FOR_VECTORS: Duration = Duration::from_secs(2);

#[async_trait]
impl Vault for VaultLayer {
    async fn unlock(
        &self,
        user: UserId,
        collection: &Collection,
        with: &UnlockWith,
        until: Option<DateTime<Utc>>,
    ) -> Result<Unlocked, VaultError> {
        let keys = self.keys(user, collection, with).await?;
        let was_open = {
            let mut rooms = self.0.rooms();
            let room = rooms.entry(user).or_default();
            match room.doors.get(collection) {
                Some(door) if door.keys.keys().eq(keys.keys()) => true,
                _ => {
                    room.doors.insert(collection.clone(), Door::new(keys, until));
                    false
                }
            }
        };
        let read = self.0.current(user).await;
        if read.is_err() && !was_open {
            self.0.shut(user, collection);
        }
        let lacking = read?.without_vector();
        if let Some(door) = self.0.rooms().get_mut(&user).and_then(|room| room.doors.get_mut(collection)) {
            door.until = until;
        }
        let rooms = Arc::clone(&self.0);
        let learning = tokio::spawn(carried(async move {
            if let Err(error) = rooms.learn(user).await {
                tracing::warn!(%error, "What was unlocked is searched by words alone until the embedder answers");
            }
        }));
        if (1..=FEW_VECTORS).contains(&lacking) {
            // It goes on when nobody waits for it any longer.
            let _ = tokio::time::timeout(WAIT_FOR_VECTORS, learning).await;
        }
        let unlocked = self.unlocked(user).into_iter().find(|unlocked| unlocked.collection == *collection);
        unlocked.ok_or_else(|| VaultError::Locked(collection.clone()))
    }

    fn lock(&self, user: UserId, collection: Option<&Collection>) -> Vec<Collection> {
        let open: Vec<Collection> = self.unlocked(user).into_iter().map(|unlocked| unlocked.collection).collect();
        let asked = open.into_iter().filter(|name| collection.is_none_or(|asked| asked == name));
        asked.filter(|name| self.0.shut(user, name)).collect()
    }

    fn expire(&self, now: DateTime<Utc>) -> Vec<(UserId, Collection)> {
        let over: Vec<(UserId, Collection)> = self
            .0
            .rooms()
            .iter()
            .flat_map(|(user, room)| room.doors.iter().map(|(collection, door)| (*user, collection, door.until)))
            .filter(|(_, _, until)| until.is_some_and(|until| until <= now))
            .map(|(user, collection, _)| (user, collection.clone()))
            .collect();
        over.into_iter().filter(|(user, collection)| self.0.shut(*user, collection)).collect()
    }

    fn unlocked(&self, user: UserId) -> Vec<Unlocked> {
        let rooms = self.0.rooms();
        let doors = rooms.get(&user).into_iter().flat_map(|room| &room.doors);
        doors
            .map(|(collection, door)| Unlocked {
                collection: collection.clone(),
                until: door.until,
                exchanges: door.exchanges(),
                unreadable: door.unreadable(),
            })
            .collect()
    }

    async fn locked(&self, user: UserId) -> Result<Vec<Collection>, VaultError> {
        let sealed = sql::sealed(self.0.db(), user).await?;
        let rooms = self.0.rooms();
        let doors = rooms.get(&user).map(|room| &room.doors);
        let names = sealed.into_iter().filter_map(|(name, _)| name.parse::<Collection>().ok());
        Ok(names.filter(|name| doors.is_none_or(|doors| !doors.contains_key(name))).collect())
    }

    async fn exchange(&self, user: UserId, id: ExchangeId) -> Result<Option<Exchange>, VaultError> {
        Ok(self.0.current(user).await?.exchange(id).cloned())
    }

    async fn session(&self, user: UserId, session: &SessionId) -> Result<Vec<Exchange>, VaultError> {
        Ok(self.0.current(user).await?.session(session))
    }

    async fn opens(&self, user: UserId, collection: &Collection, with: &UnlockWith) -> Result<(), VaultError> {
        self.keys(user, collection, with).await.map(drop)
    }

    async fn new_key(
        &self,
        user: UserId,
        collection: &Collection,
        version: u32,
        to: Vec<WrapTo>,
    ) -> Result<NewKey, VaultError> {
        if to.is_empty() {
            return Err(VaultError::Refused("give a recipient or a passphrase: nobody could unlock it".into()));
        }
        let secret = SecretKey::generate();
        let wrapped = self.wrapped(user, collection, vec![(version, secret.clone())], to).await?;
        let wrapped = wrapped.into_iter().map(|(name, keys)| keys.into_iter().map(move |(_, key)| (name.clone(), key)));
        let wrappings = wrapped.flatten().collect();
        let public = secret.public().map_err(refused)?;
        let handles = HandleKey::generate().map_err(refused)?;
        Ok(NewKey {
            public: public.as_bytes().to_vec(),
            handles: handles.as_bytes().to_vec(),
            wrappings,
            secret: secret.to_bytes(),
        })
    }

    fn keep_key(&self, user: UserId, collection: &Collection, version: u32, key: NewKey) {
        let Ok(secret) = SecretKey::from_bytes(&key.secret) else { return };
        if let Some(door) = self.0.rooms().get_mut(&user).and_then(|room| room.doors.get_mut(collection)) {
            door.keys.insert(version, secret);
        }
    }

    async fn reseal(
        &self,
        user: UserId,
        collection: &Collection,
        after: Seq,
        most: usize,
    ) -> Result<Resealed, VaultError> {
        let keys = self.0.rooms().get(&user).and_then(|room| Some(room.doors.get(collection)?.keys.clone()));
        let keys = keys.ok_or_else(|| VaultError::Locked(collection.clone()))?;
        let Some((&version, newest)) = keys.last_key_value() else { return Ok(Resealed::default()) };
        let public = newest.public().map_err(refused)?;
        let number = i32::try_from(version).unwrap_or(i32::MAX);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = sql::turns_behind(self.0.db(), user, collection, number, after.0, most).await?;
        let mut resealed = Resealed { version, reached: rows.last().map(|row| Seq(row.seq)), ..Resealed::default() };
        for row in rows {
            let place = |version| Place { user, collection, row: row.id, column: "", version };
            let old = u32::try_from(row.key_version).unwrap_or(0);
            let turn = keys.get(&old).and_then(|key| SealedTurn::open(key, place(old), &row.ciphertext).ok());
            match turn.map(|turn| turn.seal(&public, place(version))) {
                Some(sealed) => resealed.turns.push((row.id, sealed.map_err(refused)?)),
                None => resealed.unreadable += 1,
            }
        }
        Ok(resealed)
    }

    async fn wrap(
        &self,
        user: UserId,
        collection: &Collection,
        to: WrapTo,
    ) -> Result<(String, Vec<(u32, Vec<u8>)>), VaultError> {
        let keys = self.0.rooms().get(&user).and_then(|room| Some(room.doors.get(collection)?.keys.clone()));
        let keys = keys.ok_or_else(|| VaultError::Locked(collection.clone()))?;
        let mut wrapped = self.wrapped(user, collection, keys.into_iter().collect(), vec![to]).await?;
        wrapped.pop().ok_or_else(|| VaultError::Locked(collection.clone()))
    }
}

/// Who can open a key that is wrapped.
enum Owner {
    Recipient(Recipient),
    Passphrase(Passphrase),
}

impl Owner {
    fn of(to: WrapTo) -> Result<Self, SealError> {
        Ok(match to {
            WrapTo::Recipient(text) => Self::Recipient(text.parse()?),
            WrapTo::Passphrase(text) => Self::Passphrase(Passphrase::new(text.expose().to_owned())?),
        })
    }

    /// What is recorded of them: a recipient in one way of writing, however it was typed.
    fn name(&self) -> String {
        match self {
            Self::Recipient(recipient) => recipient.to_string(),
            Self::Passphrase(_) => PASSPHRASE.to_owned(),
        }
    }
}

impl VaultLayer {
    /// Versions of a collection's key, wrapped for each of `to`, by what is recorded of them.
    async fn wrapped(
        &self,
        user: UserId,
        collection: &Collection,
        keys: Vec<(u32, SecretKey)>,
        to: Vec<WrapTo>,
    ) -> Result<Vec<(String, Vec<(u32, Vec<u8>)>)>, VaultError> {
        let owners = to.into_iter().map(Owner::of).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        let costs_much = owners.iter().any(|owner| matches!(owner, Owner::Passphrase(_)));
        let (collection, work) = (collection.clone(), self.0.settings.passphrase_work);
        let wrap = move || {
            let one = |owner: &Owner, version, key| {
                let of = (user, &collection, version);
                let wrapped = match owner {
                    Owner::Recipient(recipient) => Wrapped::to_recipient(key, recipient, of)?,
                    Owner::Passphrase(passphrase) => Wrapped::to_passphrase(key, passphrase, work, of)?,
                };
                Ok((version, wrapped.0))
            };
            let all = |owner: Owner| {
                let keys = keys.iter().map(|(version, key)| one(&owner, *version, key));
                Ok((owner.name(), keys.collect::<Result<_, SealError>>()?))
            };
            owners.into_iter().map(all).collect::<Result<Vec<_>, SealError>>()
        };
        self.aside(user, costs_much, wrap).await?.map_err(refused)
    }

    /// Does what takes long aside from whatever else goes on. What `costs_much` waits for its turn: a passphrase takes a second
    /// and much memory, on purpose. A user has one turn at a time, so that nobody keeps all others waiting.
    async fn aside<T: Send + 'static>(
        &self,
        user: UserId,
        costs_much: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, VaultError> {
        let broke_down = || VaultError::Layer(LayerError::Database(sqlx::Error::WorkerCrashed));
        let turn = if costs_much {
            let own = Arc::clone(&self.0.rooms().entry(user).or_default().trying);
            let own = own.lock_owned().await;
            Some((own, Arc::clone(&self.0.slow).acquire_owned().await.map_err(|_| broke_down())?))
        } else {
            None
        };
        let work = move || {
            let done = work();
            drop(turn);
            done
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => Ok(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program stops.
                Err(_) => Err(broke_down()),
            },
        }
    }

    /// The keys of a collection, of every version there is.
    async fn keys(
        &self,
        user: UserId,
        collection: &Collection,
        with: &UnlockWith,
    ) -> Result<BTreeMap<u32, SecretKey>, VaultError> {
        let wrappings = sql::wrappings(self.0.db(), user, collection).await?;
        if wrappings.is_empty() {
            return Err(VaultError::NotSealed(collection.clone()));
        }
        let (opener, by_passphrase) = match with {
            UnlockWith::Identity(text) => {
                (Opener::Identities(text.expose().parse::<Identities>().map_err(refused)?), false)
            }
            UnlockWith::Passphrase(text) => (Opener::Passphrase(Passphrase::to_try(text.expose().to_owned())), true),
        };
        if by_passphrase && wrappings.iter().all(|wrapping| wrapping.recipient != PASSPHRASE) {
            return Err(VaultError::Refused(format!("collection {collection} has no passphrase: use an identity")));
        }
        let name = collection.clone();
        let open = move || {
            let mut keys = BTreeMap::new();
            let mut fault = None;
            for wrapping in wrappings.iter().filter(|wrapping| (wrapping.recipient == PASSPHRASE) == by_passphrase) {
                let version = u32::try_from(wrapping.version).unwrap_or(0);
                if keys.contains_key(&version) {
                    continue;
                }
                match Wrapped(wrapping.wrapped.clone()).open(&opener, (user, &name, version)) {
                    Ok(key) => drop(keys.insert(version, key)),
                    // Of another recipient: theirs alone says nothing. What is damaged says more.
                    Err(SealError::WrongIdentity) => drop(fault.get_or_insert(SealError::WrongIdentity)),
                    Err(error) => fault = Some(error),
                }
            }
            let newest = wrappings.iter().map(|wrapping| u32::try_from(wrapping.version).unwrap_or(0)).max();
            match newest {
                Some(newest) if keys.contains_key(&newest) => Ok(keys),
                _ => Err(fault.unwrap_or(SealError::WrongIdentity)),
            }
        };
        self.aside(user, by_passphrase, open).await?.map_err(refused)
    }
}

fn refused(error: SealError) -> VaultError {
    VaultError::Refused(error.to_string())
}
