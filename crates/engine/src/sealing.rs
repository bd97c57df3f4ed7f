//! Sealing a collection, with what stands in it in the clear.

use skymem_core::vault::WrapTo;
use skymem_core::wall::carried;
use skymem_core::{Collection, UserId};
use skymem_store::{Among, NewSeal, NewVersion, TakenIn};

use crate::audit::acting_as;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::purge::{Aim, SignedReceipt, Traces, carried_through};
use crate::sealed::{SealedView, wrappings};

/// What sealing a collection came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    /// The collection.
    pub view: SealedView,
    /// What stood in it in the clear, and is sealed now.
    pub taken: TakenIn,
    /// What was found when it was looked for in the clear; `None` when nothing stood there.
    pub receipt: Option<SignedReceipt>,
}

impl Memory {
    /// Seals a collection, which is made when it is new: whoever is in `to` can unlock it, and nobody else, also not who runs
    /// this server. What stands in it in the clear is sealed with it, and it is looked whether anything is left of that; a
    /// receipt says so. Goes on when nobody waits for it any more. Of one that is sealed, of which nobody has looked yet, that
    /// look is done.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] without recipients, or for what is none; [`EngineError::Conflict`] when it is sealed.
    pub async fn seal(&self, user: UserId, collection: &Collection, to: Vec<WrapTo>) -> Result<Sealed, EngineError> {
        if *collection == Collection::default() {
            return Err(EngineError::Refused(
                "the default collection stays open: notes and sessions that name none stand in it".into(),
            ));
        }
        let seal = match self.sealed_one(user, collection).await {
            Ok(view) if view.sealed.unchecked => None,
            // Making a key for nothing would cost time.
            Ok(_) if !to.is_empty() => {
                return Err(EngineError::Conflict(format!("collection {collection} is sealed already")));
            }
            Ok(_) | Err(EngineError::NotFound(_)) => {
                let key = self.vault()?.new_key(user, collection, 1, to).await?;
                let first = NewVersion { version: 1, public: key.public, wrappings: wrappings(1, key.wrappings) };
                Some(NewSeal { handles: key.handles, first })
            }
            Err(error) => return Err(error),
        };
        let (memory, collection, actor) = (self.clone(), collection.clone(), self.acting().actor);
        carried_through(tokio::spawn(carried(acting_as(actor, async move {
            let (taken, receipt) = match seal {
                Some(seal) => memory.take_in(user, &collection, &seal).await?,
                None => (TakenIn::default(), Some(memory.look_after_sealing(user, &collection).await?)),
            };
            Ok(Sealed { view: memory.sealed_one(user, &collection).await?, taken, receipt })
        }))))
        .await
    }

    async fn take_in(
        &self,
        user: UserId,
        collection: &Collection,
        seal: &NewSeal,
    ) -> Result<(TakenIn, Option<SignedReceipt>), EngineError> {
        let clear = self.aimed_at(user, &Aim::Collection(collection.clone()), Among::All).await?;
        let traces = self.traces_of(user, &clear).await?;
        tracing::info!(%user, %collection, exchanges = clear.len(), "Sealing what stands in a collection");
        let taken = self.journal().seal_collection(user, collection, seal, self.now()).await?;
        if taken.exchanges.is_empty() {
            return Ok((taken, None));
        }
        tracing::info!(%user, %collection, exchanges = taken.exchanges.len(), turns = taken.turns, "They are sealed");
        self.tell_layers(user, &taken.exchanges).await;
        // What was said while the traces were taken is in none of them.
        let rewrite = taken.exchanges.iter().any(|exchange| !clear.contains(exchange));
        let receipt = self.look_for_sealed(user, taken.exchanges.len(), traces, rewrite).await?;
        self.inner.journal.note_checked(user, collection).await?;
        Ok((taken, Some(receipt)))
    }

    /// Looks for what is left in the clear of a collection that was sealed when the server was stopped before it could look.
    pub(crate) async fn look_after_sealing(
        &self,
        user: UserId,
        collection: &Collection,
    ) -> Result<SignedReceipt, EngineError> {
        // What was sealed nobody here can read: all tables are written anew, so that nothing stays in their pages.
        let receipt = self.look_for_sealed(user, 0, Traces::default(), true).await?;
        self.inner.journal.note_checked(user, collection).await?;
        Ok(receipt)
    }
}
