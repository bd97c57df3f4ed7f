//! Keeps views in memory, as many as there is room for, and reads one anew when what it was made of has changed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use skymem_core::wall::carried;
use skymem_core::{LayerError, UserId};
use sqlx::PgPool;

use super::{Sight, View};
use crate::predicates::Predicates;
use crate::sql;

/// So many views of what was known earlier are kept, of all users together.
const PASTS: usize = 4;

/// The views that are in memory.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    db: PgPool,
    predicates: Arc<Predicates>,
    room: Room,
    views: Mutex<LruCache<UserId, Kept>>,
    pasts: Mutex<LruCache<(UserId, Sight), Kept>>,
    /// Who is being read: a user's claims are read by one at a time.
    reading: Mutex<HashMap<UserId, Arc<tokio::sync::Mutex<()>>>>,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) users: usize,
    pub(crate) claims: usize,
}

/// A view, and the version of what it was made of.
#[derive(Debug, Clone)]
struct Kept {
    version: i64,
    view: Arc<View>,
}

impl Shelf {
    pub(crate) fn new(db: PgPool, predicates: Predicates, room: Room) -> Self {
        let (views, pasts) = (Mutex::new(LruCache::unbounded()), Mutex::new(LruCache::unbounded()));
        let (reading, predicates) = (Mutex::default(), Arc::new(predicates));
        Self { inner: Arc::new(Inner { db, predicates, room, views, pasts, reading }) }
    }

    /// What is known of predicates.
    pub(crate) fn predicates(&self) -> &Predicates {
        &self.inner.predicates
    }

    /// What is known of a user now.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub(crate) async fn view(&self, user: UserId) -> Result<Arc<View>, LayerError> {
        let version = sql::version(&self.inner.db, user).await?;
        if let Some(view) = self.inner.kept(user, version) {
            return Ok(view);
        }
        // A task of its own: whoever asked may give up, and the next one finds it read.
        let inner = Arc::clone(&self.inner);
        read(tokio::spawn(carried(async move { inner.read(user).await }))).await
    }

    /// What can be seen of a user from a moment: the view to glance at. It is the view of all that is known, unless names
    /// meant others then.
    ///
    /// # Errors
    ///
    /// When the database gives no answer.
    pub(crate) async fn seen(&self, user: UserId, sight: Sight) -> Result<Arc<View>, LayerError> {
        let view = self.view(user).await?;
        if sight == Sight::default() || !view.misnames(sight) {
            return Ok(view);
        }
        let version = sql::version(&self.inner.db, user).await?;
        let kept = lock(&self.inner.pasts).get(&(user, sight)).filter(|kept| kept.version == version).cloned();
        if let Some(kept) = kept {
            return Ok(kept.view);
        }
        let inner = Arc::clone(&self.inner);
        read(tokio::spawn(carried(async move { inner.read_past(user, sight).await }))).await
    }

    /// Forgets what is in memory of a user.
    pub(crate) fn drop(&self, user: UserId) {
        lock(&self.inner.views).pop(&user);
        let mut pasts = lock(&self.inner.pasts);
        let gone: Vec<(UserId, Sight)> = pasts.iter().map(|(key, _)| *key).filter(|(of, _)| *of == user).collect();
        for key in gone {
            pasts.pop(&key);
        }
    }
}

impl Inner {
    fn kept(&self, user: UserId, version: i64) -> Option<Arc<View>> {
        lock(&self.views).get(&user).filter(|kept| kept.version == version).map(|kept| Arc::clone(&kept.view))
    }

    async fn read(&self, user: UserId) -> Result<Arc<View>, LayerError> {
        let turn = Arc::clone(lock(&self.reading).entry(user).or_default());
        let outcome = {
            let _turn = turn.lock().await;
            self.read_in_turn(user).await
        };
        let mut reading = lock(&self.reading);
        // Nobody else waits for this turn: one is held here, one there.
        if Arc::strong_count(&turn) == 2 {
            reading.remove(&user);
        }
        outcome
    }

    async fn read_in_turn(&self, user: UserId) -> Result<Arc<View>, LayerError> {
        // The version first: what changes meanwhile is read anew next time.
        let version = sql::version(&self.db, user).await?;
        if let Some(view) = self.kept(user, version) {
            return Ok(view);
        }
        let view = self.build(user, Sight::default()).await?;
        let mut views = lock(&self.views);
        views.put(user, Kept { version, view: Arc::clone(&view) });
        let mut claims: usize = views.iter().map(|(_, kept)| kept.view.size()).sum();
        while views.len() > 1 && (views.len() > self.room.users || claims > self.room.claims) {
            claims -= views.pop_lru().map_or(0, |(_, kept)| kept.view.size());
        }
        Ok(view)
    }

    async fn read_past(&self, user: UserId, sight: Sight) -> Result<Arc<View>, LayerError> {
        let version = sql::version(&self.db, user).await?;
        let view = self.build(user, sight).await?;
        let mut pasts = lock(&self.pasts);
        pasts.put((user, sight), Kept { version, view: Arc::clone(&view) });
        while pasts.len() > PASTS {
            pasts.pop_lru();
        }
        Ok(view)
    }

    async fn build(&self, user: UserId, sight: Sight) -> Result<Arc<View>, LayerError> {
        let claims = sql::claims(&self.db, user, sight.known_at, sight.said_by).await?;
        let predicates = Arc::clone(&self.predicates);
        let view = tokio::task::spawn_blocking(move || View::build(user, claims, &predicates));
        view.await.map(Arc::new).map_err(|_| broke_down())
    }
}

async fn read(task: tokio::task::JoinHandle<Result<Arc<View>, LayerError>>) -> Result<Arc<View>, LayerError> {
    task.await.unwrap_or_else(|_| Err(broke_down()))
}

/// A reading that ended before its end: the program stops, or has a fault that the log tells.
fn broke_down() -> LayerError {
    LayerError::Database(sqlx::Error::WorkerCrashed)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
