//! What a search reads of every passage of a user, held in memory between two questions: reading it from the database
//! for each question costs more than all the rest of a search. The database says at each search whether it is current.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use skymem_core::UserId;
use skymem_core::wall::carried;
use sqlx::PgPool;
use tokio::sync::watch;

use crate::bm25::Sheet;
use crate::contents::{Contents, Lacking};
use crate::places::PassageId;
use crate::sql::{self, Change};

/// So many passages may be new for a question to wait until they are read. It does not wait for more, and has the database
/// search meanwhile.
const FEW: usize = 512;

/// About what the words of a passage take.
const BYTES_OF_WORDS: usize = 400;

/// What is known of the passages of the users who asked last, as far as there is room.
#[derive(Debug, Clone)]
pub(crate) struct Held(Arc<Shared>);

/// The space that vectors are in: the embedder's id in the database, and how many numbers a vector has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) embedder: i16,
    pub(crate) dimensions: usize,
}

#[derive(Debug)]
struct Shared {
    users: Mutex<LruCache<UserId, Slot>>,
    most_bytes: usize,
    /// Of users with more passages only the sheet is held.
    most_passages: usize,
}

#[derive(Debug, Default)]
struct Slot {
    known: Option<Arc<Known>>,
    /// Tells whether it will take long, while somebody reads what is missing, and closes when that is done.
    filling: Option<watch::Receiver<bool>>,
}

impl Held {
    pub(crate) fn new(most_bytes: usize, most_passages: usize) -> Self {
        Self(Arc::new(Shared { users: Mutex::new(LruCache::unbounded()), most_bytes, most_passages }))
    }

    /// What is known of a user's passages, which have changed `version` times by now: as it is held, or read as far as it
    /// has changed.
    pub(crate) async fn of(
        &self,
        db: &PgPool,
        user: UserId,
        space: Option<Space>,
        version: i64,
    ) -> sqlx::Result<Arc<Known>> {
        let id = space.map(|space| space.embedder);
        loop {
            let old = self.users().get(&user).and_then(|slot| slot.known.clone());
            // What somebody else has read meanwhile may be newer than what was asked for.
            if let Some(old) = old
                && old.embedder == id
                && old.version >= version
            {
                return Ok(old);
            }
            match Filling::begin(self, user) {
                Ok(filling) => {
                    let bare = Known::bare(sql::sheet(db, user).await?, id);
                    return self.filled(filling, bare, db, user, space).await;
                }
                // A little while is shorter than a search in the database.
                Err(mut other) => {
                    if other.wait_for(|takes_long| *takes_long).await.is_ok() {
                        return Ok(Arc::new(Known::bare(sql::sheet(db, user).await?, id)));
                    }
                }
            }
        }
    }

    /// `bare` once what is missing is read; when that is much, what there is until then.
    async fn filled(
        &self,
        filling: Filling,
        bare: Known,
        db: &PgPool,
        user: UserId,
        space: Option<Space>,
    ) -> sqlx::Result<Arc<Known>> {
        let id = bare.embedder;
        let passages = bare.sheet.passages();
        if passages > self.0.most_passages {
            filling.takes_long();
            return Ok(filling.keep(bare));
        }
        let bytes = passages * (space.map_or(0, |space| 2 * space.dimensions) + BYTES_OF_WORDS);
        if bytes > self.0.most_bytes {
            filling.takes_long();
            return Ok(Arc::new(bare));
        }
        let contents = match filling.take().filter(|old| old.embedder == id).map(Arc::unwrap_or_clone) {
            Some(Known { sheet: old, contents: Some(contents), .. }) => contents.carried_over(&old, &bare.sheet),
            _ => Contents::default(),
        };
        let lacking = contents.lacking(&bare.sheet);
        let few = lacking.words.len() <= FEW && (id.is_none() || lacking.vectors.len() <= FEW);
        if !few {
            filling.takes_long();
        }
        // In a task of its own, which ends also when the question waits no longer.
        let filled = tokio::spawn(carried({
            let db = db.clone();
            let Known { version, sheet, .. } = bare.clone();
            async move {
                let contents = with_what_is_missing(contents, lacking, &db, user, id, &sheet).await?;
                let known = filling.keep(Known { version, embedder: id, sheet, contents: Some(contents) });
                drop(filling);
                Ok(known)
            }
        }));
        if !few {
            return Ok(Arc::new(bare));
        }
        filled.await.unwrap_or_else(|_| Ok(Arc::new(bare)))
    }

    /// Reads what a `change` brought to a user who asks, before they ask again.
    pub(crate) async fn freshen(
        &self,
        db: &PgPool,
        user: UserId,
        space: Option<Space>,
        change: &Change,
    ) -> sqlx::Result<()> {
        let is_held = self.users().contains(&user);
        if !is_held {
            return Ok(());
        }
        // All that was ever said need not be gone through for what was said last.
        if let Ok(filling) = Filling::begin(self, user)
            && let Some(bare) = filling.after(change, space)
        {
            self.filled(filling, bare, db, user, space).await?;
            return Ok(());
        }
        self.of(db, user, space, change.version).await.map(drop)
    }

    /// Holds nothing more of a user.
    pub(crate) fn let_go(&self, user: UserId) {
        self.users().pop(&user);
    }

    fn keep(&self, user: UserId, known: Known) -> Arc<Known> {
        let known = Arc::new(known);
        let mut users = self.users();
        users.get_or_insert_mut(user, Slot::default).known = Some(Arc::clone(&known));
        let mut bytes: usize = users.iter().map(|(_, slot)| slot.bytes()).sum();
        while bytes > self.0.most_bytes
            && let Some((_, oldest)) = users.pop_lru()
        {
            bytes -= oldest.bytes();
        }
        known
    }

    fn users(&self) -> MutexGuard<'_, LruCache<UserId, Slot>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn bytes(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.bytes())
    }
}

/// The right to read what is missing of a user, which one has at a time.
struct Filling {
    held: Held,
    user: UserId,
    takes_long: watch::Sender<bool>,
}

impl Filling {
    /// The right, or how long whoever has it is going to take.
    fn begin(held: &Held, user: UserId) -> Result<Self, watch::Receiver<bool>> {
        let mut users = held.users();
        let slot = users.get_or_insert_mut(user, Slot::default);
        // Whoever has it no longer has let go of its end.
        if let Some(other) = slot.filling.as_ref().filter(|other| other.has_changed().is_ok()) {
            return Err(other.clone());
        }
        let (takes_long, other) = watch::channel(false);
        slot.filling = Some(other);
        Ok(Self { held: held.clone(), user, takes_long })
    }

    /// Holds what was read, unless the user was let go of meanwhile.
    fn keep(&self, known: Known) -> Arc<Known> {
        let mine = self.takes_long.subscribe();
        let is_mine = |slot: &Slot| slot.filling.as_ref().is_some_and(|filling| filling.same_channel(&mine));
        let is_awaited = self.held.users().peek(&self.user).is_some_and(is_mine);
        if is_awaited { self.held.keep(self.user, known) } else { Arc::new(known) }
    }

    /// What is held, but for its contents, as it is after a `change`: when that was the only one since it was read.
    fn after(&self, change: &Change, space: Option<Space>) -> Option<Known> {
        let users = self.held.users();
        let known = users.peek(&self.user)?.known.as_ref()?;
        let embedder = space.map(|space| space.embedder);
        let is_next = known.version + 1 == change.version && known.embedder == embedder;
        let known = is_next.then(|| Arc::clone(known))?;
        drop(users);
        let sheet = Arc::new(known.sheet.changed(&change.gone, &change.new));
        Some(Known { version: change.version, embedder, sheet, contents: None })
    }

    /// Lets nobody wait for it.
    fn takes_long(&self) {
        self.takes_long.send_replace(true);
    }

    /// What is held so far; nobody else has it then, so that it need not be copied.
    fn take(&self) -> Option<Arc<Known>> {
        self.held.users().get_mut(&self.user)?.known.take()
    }
}

/// What is known of all passages of a user.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    version: i64,
    embedder: Option<i16>,
    pub(crate) sheet: Arc<Sheet>,
    /// `None` where the database must search: too many passages, or not read yet.
    pub(crate) contents: Option<Contents>,
}

impl Known {
    fn bare((version, sheet): (i64, Sheet), embedder: Option<i16>) -> Self {
        Self { version, embedder, sheet: Arc::new(sheet), contents: None }
    }

    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        let contents = self.contents.as_ref().map_or(0, Contents::bytes);
        contents + 40 * self.sheet.passages()
    }
}

/// `contents` with what the database has of the passages on `sheet`, and is not in it.
async fn with_what_is_missing(
    mut contents: Contents,
    lacking: Lacking,
    db: &PgPool,
    user: UserId,
    embedder: Option<i16>,
    sheet: &Sheet,
) -> sqlx::Result<Contents> {
    let some = |ids: &[PassageId]| (ids.len() < sheet.passages()).then(|| ids.to_vec());
    if let Some(embedder) = embedder
        && !lacking.vectors.is_empty()
    {
        let read = sql::vectors(db, user, embedder, some(&lacking.vectors).as_deref()).await?;
        contents.add_vectors(read.iter().map(|(id, vector)| (*id, vector.as_slice())), sheet);
    }
    if !lacking.words.is_empty() {
        let read = sql::postings(db, user, some(&lacking.words).as_deref()).await?;
        contents.add_words(read.iter().map(|posting| (posting.term.as_str(), posting.hits(sheet))), sheet);
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bm25::Measure;

    fn sheet(ids: &[PassageId]) -> Arc<Sheet> {
        let measure = |id: PassageId| Measure { words: (id % 100) as f32, weight: 1.0 };
        Arc::new(Sheet::new(ids.iter().map(|&id| (id, None, measure(id))).collect()))
    }

    #[test]
    fn the_users_who_asked_last_are_held_as_far_as_there_is_room() {
        let known = |passages: PassageId| {
            let sheet = sheet(&(0..passages).collect::<Vec<_>>());
            let contents = Some(Contents::of(sheet.passages(), 8));
            Known { version: 1, embedder: Some(1), sheet, contents }
        };
        let held = Held::new(3 * known(10).bytes(), 100);
        let users: Vec<UserId> = (0..4).map(|n| UserId(uuid::Uuid::from_u128(n))).collect();

        for &user in &users {
            held.keep(user, known(10));
        }
        held.keep(users[0], known(1_000));

        assert!(held.users().is_empty(), "what fits in no way is not held");
        for &user in &users {
            held.keep(user, known(10));
        }
        assert_eq!(held.users().iter().map(|(user, _)| *user).collect::<Vec<_>>(), [users[3], users[2], users[1]]);
        held.let_go(users[2]);
        assert_eq!(held.users().len(), 2);
    }

    #[test]
    fn one_at_a_time_reads_what_is_missing_of_a_user() {
        let held = Held::new(0, 100);
        let (anna, berta) = (UserId(uuid::Uuid::from_u128(1)), UserId(uuid::Uuid::from_u128(2)));

        let first = Filling::begin(&held, anna);

        assert!(first.is_ok() && Filling::begin(&held, anna).is_err());
        assert!(Filling::begin(&held, berta).is_ok());
        drop(first);
        assert!(Filling::begin(&held, anna).is_ok());
    }

    #[test]
    fn what_is_held_goes_on_from_the_very_next_change_alone() {
        let held = Held::new(1 << 20, 100);
        let anna = UserId(uuid::Uuid::from_u128(1));
        let space = |embedder| Some(Space { embedder, dimensions: 8 });
        let measure = Measure { words: 3.0, weight: 1.0 };
        let change = |version| Change { version, gone: vec![1], new: vec![(7, Some(2), measure)] };
        let Ok(filling) = Filling::begin(&held, anna) else { panic!("somebody else reads") };
        assert!(filling.after(&change(1), space(4)).is_none(), "nothing is held");
        let contents = Some(Contents::of(2, 8));
        filling.keep(Known { version: 5, embedder: Some(4), sheet: sheet(&[1, 2]), contents });

        let next = filling.after(&change(6), space(4)).unwrap();

        assert_eq!((next.version, next.embedder, next.contents.is_none()), (6, Some(4), true));
        assert_eq!(next.sheet.ids(), [2, 7]);
        for (version, space) in [(5, space(4)), (7, space(4)), (6, space(3)), (6, None)] {
            assert!(filling.after(&change(version), space).is_none(), "{version}, {space:?}");
        }
        held.let_go(anna);
        assert!(filling.after(&change(6), space(4)).is_none(), "let go of");
    }

    #[test]
    fn what_is_read_of_a_user_who_was_let_go_of_meanwhile_is_not_held() {
        let held = Held::new(1 << 20, 100);
        let anna = UserId(uuid::Uuid::from_u128(1));
        let known = || Known::bare((1, Sheet::new(Vec::new())), None);
        let is_held = || held.users().peek(&anna).is_some_and(|slot| slot.known.is_some());

        let Ok(first) = Filling::begin(&held, anna) else { panic!("somebody else reads") };
        held.let_go(anna);
        first.keep(known());
        assert!(!is_held());
        let Ok(second) = Filling::begin(&held, anna) else { panic!("somebody else reads") };
        first.keep(known());
        assert!(!is_held(), "another one reads now");
        second.keep(known());
        assert!(is_held());
    }
}
