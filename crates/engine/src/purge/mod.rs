//! Removing for good, and making sure of it: after a purge every table, memory file and folder is looked through for what
//! was purged, and what was found is written into a signed receipt.

mod aim;
mod folders;
mod go_on;
mod receipt;
mod traces;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use skymem_core::files::{FileName, MemoryFiles, Revision};
use skymem_core::wall::{acting_for, acting_for_everyone, carried};
use skymem_core::{ExchangeId, User, UserId, UserName};
use skymem_store::{Among, BegunPurge, Place, SERVER, Target};
use uuid::Uuid;

use crate::audit::acting_as;
use crate::error::EngineError;
use crate::forget::Changed;
use crate::memory::Memory;

pub use aim::Aim;
pub use folders::Folders;
use folders::{LOG, PAGES};
pub(crate) use receipt::Signer;
pub use receipt::{Checked, Receipt, SignedReceipt};
use receipt::{UNKNOWN, UNREACHABLE, UNREACHABLE_LOG};
pub(crate) use traces::Traces;

/// So many exchanges are purged in one transaction.
const BATCH: usize = 200;

/// Tables in which ids of what was purged stand on purpose: tombstones keep it from coming back, the log says that it is
/// gone, and a statement of somebody's may name an exchange that is no more.
const KEEP_IDS: [&str; 4] = ["journal.tombstone", "journal.audit", "journal.receipt", "journal.turn"];

/// What says which purges are under way, until each has its receipt.
const UNDER_WAY: &str = "journal.purge";

/// What is to be removed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// What is aimed at.
    pub aim: Aim,
    /// Whether what is still remembered is forgotten first. Otherwise only what is in the trash goes.
    pub remembered_too: bool,
    /// Whether tables are written anew, so that nothing stays behind in their pages either. Others wait meanwhile.
    pub rewrite: bool,
}

/// What a purge came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Purged {
    /// The exchanges that are gone.
    pub exchanges: Vec<ExchangeId>,
    /// What was found afterwards; `None` when nothing was there to purge.
    pub receipt: Option<SignedReceipt>,
}

/// What else there is to say in a receipt.
struct Done {
    user: UserId,
    kept_for: UserId,
    aim: String,
    exchanges: usize,
    revisions: usize,
    rewrite: bool,
}

impl Memory {
    /// What [`Memory::purge_for_good`] would remove, removing nothing.
    ///
    /// # Errors
    ///
    /// As [`Memory::purge_for_good`].
    pub async fn would_purge(&self, request: &PurgeRequest) -> Result<Changed, EngineError> {
        Ok(Changed { exchanges: self.aimed_at(request.user, &request.aim, request.among()).await? })
    }

    /// Removes exchanges for good with all that was learned from them and the revisions of memory files that hold what only
    /// they said, looks whether anything of it is left, and makes a receipt. Goes on when nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// When the database gave no answer. What is purged by then stays purged; the rest goes when the server starts again, or
    /// when something else is purged.
    pub async fn purge_for_good(&self, request: PurgeRequest) -> Result<Purged, EngineError> {
        let (memory, actor) = (self.clone(), self.acting().actor);
        carried_through(tokio::spawn(carried(acting_as(actor, async move { memory.purge_all(request).await })))).await
    }

    async fn purge_all(&self, request: PurgeRequest) -> Result<Purged, EngineError> {
        let PurgeRequest { user, aim, remembered_too, rewrite } = &request;
        let (user, rewrite) = (*user, *rewrite);
        // Without it nothing could be signed, and what is purged stays purged.
        self.signer()?;
        self.go_on_purging(user, self.now()).await?;
        let exchanges = self.aimed_at(user, aim, request.among()).await?;
        if exchanges.is_empty() {
            return Ok(Purged { exchanges, receipt: None });
        }
        let begun = BegunPurge {
            id: Uuid::new_v4(),
            user,
            removes: None,
            aim: aim.kind().to_owned(),
            actor: self.acting().actor.as_str().to_owned(),
            exchanges,
            begun_at: self.now(),
        };
        self.inner.purger.begin(&begun).await?;
        if *remembered_too {
            self.forget(user, &Target::Exchanges(begun.exchanges.clone())).await?;
        }
        self.carry_out(begun, rewrite).await
    }

    /// Purges what a purge was begun for, as far as it is still there, and makes its receipt.
    async fn carry_out(&self, begun: BegunPurge, rewrite: bool) -> Result<Purged, EngineError> {
        let (user, exchanges) = (begun.user, &begun.exchanges);
        let mut traces = self.traces_of(user, exchanges).await?;
        self.leave_to_others(user, &mut traces, exchanges).await?;
        // While the turns are there: from what they said it is known which revisions go.
        let revisions = self.purge_revisions(user, &traces).await?;
        let mut purged = Vec::with_capacity(exchanges.len());
        for batch in exchanges.chunks(BATCH) {
            purged.extend(self.journal().purge(user, batch, self.now()).await?);
        }
        self.tell_layers(user, &purged).await;
        self.inner.frozen.thaw_all_of(user);
        let aim = begun.aim.clone();
        let done = Done { user, kept_for: user, aim, exchanges: exchanges.len(), revisions, rewrite };
        let receipt = self.made_sure(done, traces).await?;
        self.inner.purger.end(&begun).await?;
        Ok(Purged { exchanges: purged, receipt: Some(receipt) })
    }

    /// What exchanges are known again by.
    pub(crate) async fn traces_of(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<Traces, EngineError> {
        Ok(Traces::of(exchanges, &self.inner.purger.said(user, exchanges).await?))
    }

    /// Removes a user with everything that is kept of them, the folder of their memory files too; the receipt, or `None`
    /// when there is no such user. It is the server's: theirs is gone.
    ///
    /// # Errors
    ///
    /// When the database or the disk gave no answer. Asked again, the rest goes.
    pub async fn remove_user(&self, name: &UserName, rewrite: bool) -> Result<Option<SignedReceipt>, EngineError> {
        let Some(user) = self.user_named(name).await? else { return Ok(None) };
        let (memory, actor) = (self.clone(), self.acting().actor);
        // Of tables that know nothing of the user, and in the server's own log.
        let removed = acting_for_everyone(acting_as(actor, async move { memory.remove(user, rewrite).await }));
        carried_through(tokio::spawn(removed)).await.map(Some)
    }

    async fn remove(&self, user: User, rewrite: bool) -> Result<SignedReceipt, EngineError> {
        let User { id, name } = user;
        self.signer()?;
        let begun = BegunPurge {
            id: Uuid::new_v4(),
            user: id,
            removes: Some(name),
            aim: "user".to_owned(),
            actor: self.acting().actor.as_str().to_owned(),
            exchanges: self.aimed_at(id, &Aim::Everything, Among::All).await?,
            begun_at: self.now(),
        };
        self.inner.purger.begin(&begun).await?;
        self.carry_out_removal(begun, rewrite).await
    }

    /// Removes the user whose removal was begun, as far as they are still there, and makes the receipt.
    async fn carry_out_removal(&self, begun: BegunPurge, rewrite: bool) -> Result<SignedReceipt, EngineError> {
        let (id, exchanges) = (begun.user, &begun.exchanges);
        let traces = self.traces_of(id, exchanges).await?;
        // Also the keys of a collection in which nothing was said yet.
        if let Ok(vault) = self.vault() {
            vault.lock(id, None);
        }
        self.inner.purger.remove_user(id, &self.acting()).await?;
        self.tell_layers(id, exchanges).await;
        self.inner.frozen.thaw_all_of(id);
        if let Some(folder) = self.folder_of_removed(&begun).await? {
            let removed = tokio::fs::remove_dir_all(&folder).await;
            if let Err(source) = removed.or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }) {
                let what = format!("the user is removed, but not the folder {}", folder.display());
                return Err(EngineError::Unavailable { what, source: Box::new(source) });
            }
        }
        let aim = begun.aim.clone();
        let done = Done { user: id, kept_for: SERVER, aim, exchanges: exchanges.len(), revisions: 0, rewrite };
        let receipt = self.made_sure(done, traces).await?;
        self.inner.purger.end(&begun).await?;
        Ok(receipt)
    }

    /// The folder of the memory files of a user who is removed; `None` when somebody new has their name by now.
    async fn folder_of_removed(&self, begun: &BegunPurge) -> Result<Option<PathBuf>, EngineError> {
        let (Some(name), Some(files)) = (&begun.removes, self.folders().memory_files) else { return Ok(None) };
        let is_taken = self.user_named(name).await?.is_some();
        Ok((!is_taken).then(|| files.join(name.as_str())))
    }

    /// Looks whether anything is left in the clear of exchanges that were sealed, as after a purge, and removes the revisions
    /// of memory files that hold what only they said.
    pub(crate) async fn look_for_sealed(
        &self,
        user: UserId,
        exchanges: usize,
        mut traces: Traces,
        rewrite: bool,
    ) -> Result<SignedReceipt, EngineError> {
        self.inner.frozen.thaw_all_of(user);
        self.leave_to_others(user, &mut traces, &[]).await?;
        let revisions = self.purge_revisions(user, &traces).await?;
        let done = Done { user, kept_for: user, aim: "sealed".to_owned(), exchanges, revisions, rewrite };
        self.made_sure(done, traces).await
    }

    /// The receipts of a user, newest first, at most `limit`; with `None`, the server's own: of users that were removed.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn receipts(&self, user: Option<UserId>, limit: usize) -> Result<Vec<SignedReceipt>, EngineError> {
        let whose = user.unwrap_or(SERVER);
        let kept = acting_for(whose, self.inner.purger.receipts(whose, limit)).await?;
        kept.into_iter().map(read).collect()
    }

    /// One receipt of a user's, or with `None` of the server's own; `None` when there is none of that id.
    ///
    /// # Errors
    ///
    /// When the database gave no answer.
    pub async fn receipt(&self, user: Option<UserId>, id: Uuid) -> Result<Option<SignedReceipt>, EngineError> {
        let whose = user.unwrap_or(SERVER);
        acting_for(whose, self.inner.purger.receipt(whose, id)).await?.map(read).transpose()
    }

    /// Why a receipt is not one of this server's as it was made; `None` when it is.
    ///
    /// # Errors
    ///
    /// When this server's key cannot be read.
    pub fn receipt_fault(&self, receipt: &Value, signature: &str) -> Result<Option<&'static str>, EngineError> {
        Ok(self.signer()?.fault(receipt, signature))
    }

    /// Takes out of the traces what others still say: exchanges that are not `going`, what people call their sessions, and
    /// the memory files as they are.
    async fn leave_to_others(
        &self,
        user: UserId,
        traces: &mut Traces,
        going: &[ExchangeId],
    ) -> Result<(), EngineError> {
        let going: HashSet<String> = going.iter().map(ToString::to_string).collect();
        for place in self.inner.purger.places().await? {
            if ["journal.turn", "journal.session", "journal.collection"].contains(&place.full_name().as_str()) {
                let look = |fields: &[String]| {
                    // Of a turn, the id of its exchange is a field of its own.
                    if !fields.iter().any(|field| going.contains(field)) {
                        fields.iter().for_each(|field| traces.without(field));
                    }
                };
                self.inner.purger.look_through(&place, user, look).await?;
            }
        }
        let Some(files) = self.files_if_any() else { return Ok(()) };
        for head in files.list(user).await? {
            traces.without(&files.read(user, &head.name).await?.text);
        }
        Ok(())
    }

    /// Removes the revisions of memory files that hold what only the purged said; how many.
    async fn purge_revisions(&self, user: UserId, traces: &Traces) -> Result<usize, EngineError> {
        let Some(files) = self.files_if_any() else { return Ok(0) };
        let mut names: Vec<FileName> = files.list(user).await?.into_iter().map(|head| head.name).collect();
        names.extend(files.gone(user).await?);
        let mut removed = 0;
        for name in names {
            let mut holding: Vec<Revision> = Vec::new();
            for head in files.history(user, &name).await? {
                if !holding.contains(&head.revision)
                    && traces.look(&files.revision(user, &name, &head.revision).await?).said > 0
                {
                    holding.push(head.revision);
                }
            }
            if !holding.is_empty() {
                removed += files.purge_revisions(user, &name, &holding).await?;
            }
        }
        Ok(removed)
    }

    /// Makes room, looks everywhere, and keeps a receipt.
    async fn made_sure(&self, done: Done, traces: Traces) -> Result<SignedReceipt, EngineError> {
        let purger = &self.inner.purger;
        let mut places = purger.places().await?;
        places.retain(|place| place.full_name() != UNDER_WAY);
        let theirs: Vec<Place> = places.iter().filter(|place| place.has_user).cloned().collect();
        let mut rewritten = done.rewrite;
        let has_own = self.folders().database.is_some();
        purger.make_room(&theirs, done.rewrite).await?;
        let traces = Arc::new(traces);
        let mut looked = Vec::new();
        for place in &places {
            let mut here = Checked::at(place.full_name());
            let look = |fields: &[String]| {
                let found = fields.iter().map(|field| traces.look(field));
                let (words, ids) =
                    found.fold((false, false), |(words, ids), found| (words || found.said > 0, ids || found.ids > 0));
                here.items += 1;
                here.words += usize::from(words);
                here.ids += usize::from(ids);
            };
            purger.look_through(place, done.user, look).await?;
            looked.push(here);
        }
        let mut on_disk = self.look_on_disk(&traces).await?;
        let in_pages = |on_disk: &[Checked]| on_disk.iter().any(|here| here.place == PAGES && here.words > 0);
        if !rewritten && in_pages(&on_disk) {
            // What is gone from the tables still stands in the gaps of their pages: only writing them anew helps.
            purger.make_room(&theirs, true).await?;
            rewritten = true;
            on_disk = self.look_on_disk(&traces).await?;
        }
        if has_own {
            purger.turn_the_log().await;
            on_disk = self.look_on_disk(&traces).await?;
        }
        let mut unreachable = UNREACHABLE.map(str::to_owned).to_vec();
        let log_is_clean = on_disk.iter().any(|here| here.place == LOG && here.items > 0 && here.words == 0);
        if !log_is_clean {
            unreachable.push(UNREACHABLE_LOG.to_owned());
        }
        if on_disk.iter().any(|here| here.place == PAGES && here.items == 0) {
            unreachable.push("the pages of the database's files, which this server's account may not read".to_owned());
        }
        if traces.len() == 0 && done.rewrite {
            unreachable.push(UNKNOWN.to_owned());
        }
        looked.extend(on_disk);

        let (mut kept_ids, mut found) = (Vec::new(), false);
        for here in &mut looked {
            let on_purpose = KEEP_IDS.contains(&here.place.as_str()) || [PAGES, LOG].contains(&here.place.as_str());
            if on_purpose && here.ids > 0 {
                kept_ids.push(Checked { words: 0, ..here.clone() });
                here.ids = 0;
            }
            // What its log yet holds is named as what cannot be reached.
            found |= here.place != LOG && here.words > 0 || here.ids > 0;
        }
        let receipt = Receipt {
            id: Uuid::new_v4(),
            user: done.user.0,
            made_at: self.now(),
            actor: self.acting().actor.as_str().to_owned(),
            aim: done.aim,
            exchanges: done.exchanges,
            revisions: done.revisions,
            traces: traces.len(),
            looked,
            kept_ids,
            clean: !found,
            rewritten,
            unreachable,
        };
        if found {
            tracing::warn!(receipt = %receipt.id, "A purge left something behind: the receipt says where");
        }
        let (signed, body) = self.signer()?.sign(receipt);
        let kept = skymem_store::Receipt {
            id: signed.receipt.id,
            made_at: signed.receipt.made_at,
            body,
            signature: hex::decode(&signed.signature).unwrap_or_default(),
            public_key: hex::decode(&signed.public_key).unwrap_or_default(),
        };
        purger.keep_receipt(done.kept_for, &kept).await?;
        Ok(signed)
    }

    async fn look_on_disk(&self, traces: &Arc<Traces>) -> Result<Vec<Checked>, EngineError> {
        let (folders, traces) = (self.folders(), Arc::clone(traces));
        let unread = |source: std::io::Error| EngineError::Unavailable {
            what: "all is purged, but the data folder cannot be looked through".into(),
            source: Box::new(source),
        };
        let looked = tokio::task::spawn_blocking(move || folders.look_through(&traces)).await;
        looked.map_err(|error| unread(error.into()))?.map_err(unread)
    }

    fn signer(&self) -> Result<&Signer, EngineError> {
        if let Some(signer) = self.inner.signer.get() {
            return Ok(signer);
        }
        let signer = Signer::of(self.folders().data.as_deref())?;
        Ok(self.inner.signer.get_or_init(|| signer))
    }

    /// Says where things lie on the disk, so that a purge looks there too. Once, before doors are opened.
    pub fn lives_in(&self, folders: Folders) {
        // Said twice, the first holds.
        let _ = self.inner.folders.set(folders);
    }

    fn folders(&self) -> Folders {
        self.inner.folders.get().cloned().unwrap_or_default()
    }

    fn files_if_any(&self) -> Option<&dyn MemoryFiles> {
        self.inner.layers.iter().find_map(|layer| layer.memory_files())
    }
}

impl PurgeRequest {
    fn among(&self) -> Among {
        if self.remembered_too { Among::All } else { Among::Trash }
    }
}

/// What a task came to that goes on by itself.
pub(crate) async fn carried_through<T>(
    task: tokio::task::JoinHandle<Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let broken = |source| EngineError::Unavailable { what: "the purge broke off".into(), source: Box::new(source) };
    task.await.map_err(broken)?
}

fn read(kept: skymem_store::Receipt) -> Result<SignedReceipt, EngineError> {
    let unreadable = |source| EngineError::Unavailable {
        what: "a receipt in the database cannot be understood".into(),
        source: Box::new(source),
    };
    Ok(SignedReceipt {
        receipt: serde_json::from_str(&kept.body).map_err(unreadable)?,
        signature: hex::encode(kept.signature),
        public_key: hex::encode(kept.public_key),
    })
}
