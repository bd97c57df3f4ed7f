//! The layer of facts: who, what, since when, how we know.
//!
//! What is stored are *claims*: what an exchange, or a line of a memory file, says. Facts are computed from them, and so no
//! fact is without evidence, history cannot be rewritten, forgetting removes what nothing else supports, and restoring
//! brings it back: by construction.
//!
//! Reading order: [`FactsLayer::observe`], `learn.rs` and `sources/` (how claims come to be), `timeline/` (claims become
//! facts), `resolve.rs` (whose facts), `view/` (all of it in memory), `graph/` (walks), `question.rs` and `recall/` (what
//! bears on a question), `doors.rs` (what doors read), `sql/`.
//!
//! ```toml
//! [layers.facts]
//! patterns = true               # facts are found in what people say by patterns, in English and German
//! extract_with_model = false    # the chat model reads every exchange for facts: a call for each
//! model_per_upkeep = 20         # how many exchanges it reads at a time
//! model_deadline_seconds = 60   # what it may take for one
//! users_in_memory = 100         # the facts of so many users ...
//! claims_in_memory = 500000     # ... and of so many claims together are held in memory
//!
//! [layers.facts.predicates.mentor]   # what differs from what is known of a predicate, or a new one
//! single = true                      # a subject has one value of it at a time
//! relation = true                    # it says who somebody is to somebody: "my mentor"
//! sentence = "{s} is guided by {o}"  # how a fact reads
//! inverse = "{o} guides {s}"
//! words = ["mentor*", "guide*"]      # words of questions that ask for it
//! ```

mod claim;
mod doors;
pub mod graph;
mod learn;
mod predicates;
mod question;
mod readings;
mod recall;
mod resolve;
mod settings;
mod sources;
mod sql;
mod timeline;
mod view;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use skymem_core::facts::{EntityName, FactGraph, Origin, Statement};
use skymem_core::files::FileName;
use skymem_core::{
    Considered, Exchange, ExchangeId, Host, Layer, LayerError, LayerName, LayerStats, Plugin, Pruned, Query, Recall,
    SetAside, SharedChatModel, UserId,
};
use sqlx::PgPool;

use crate::claim::{Claim, Place};
use crate::settings::Settings;
use crate::sql::learn::ToRead;
use crate::view::{Shelf, Sight};

const NAME: LayerName = LayerName::of("facts");

/// What `speaker` says of themselves and their work in `text`, as patterns find it: for the bench, which measures them
/// without a server.
#[must_use]
pub fn said_in_passing(text: &str, speaker: &EntityName, said_at: DateTime<Utc>) -> Vec<Statement> {
    sources::patterns::find(text, speaker, said_at).into_iter().map(|found| found.statement).collect()
}

/// Opens the layer of facts.
#[derive(Debug, Clone, Copy, Default)]
pub struct FactsPlugin;

#[async_trait]
impl Plugin for FactsPlugin {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError> {
        let (settings, predicates) = Settings::of(host.config)?;
        sqlx::migrate!("../../migrations/facts").run(&host.db).await?;
        let shelf = Shelf::new(host.db.clone(), predicates, settings.room());
        let model = host.chat.filter(|_| settings.extract_with_model);
        Ok(Arc::new(FactsLayer { db: host.db, model, settings, shelf }))
    }
}

/// The layer of facts.
pub(crate) struct FactsLayer {
    db: PgPool,
    /// Reads exchanges for facts, where that is wanted.
    model: Option<SharedChatModel>,
    settings: Settings,
    shelf: Shelf,
}

#[async_trait]
impl Layer for FactsLayer {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn observe(&self, exchanges: &[Exchange]) -> Result<(), LayerError> {
        let last = exchanges.iter().flat_map(|exchange| &exchange.turns).map(|turn| turn.recorded_at).max();
        let Some((user, at)) = exchanges.first().map(|exchange| exchange.user).zip(last) else { return Ok(()) };
        let claims: Vec<Claim> =
            exchanges.iter().flat_map(|exchange| learn::claims_of(exchange, self.settings.patterns)).collect();
        let to_read: Vec<ToRead> = exchanges
            .iter()
            .map(|exchange| ToRead {
                exchange: exchange.id,
                digest: learn::digest(exchange),
                wanted: self.model.is_some() && learn::is_worth_reading(exchange),
            })
            .collect();
        Ok(sql::learn::replace(&self.db, user, &claims, &to_read, at).await?)
    }

    async fn read_file(
        &self,
        user: UserId,
        file: &FileName,
        text: &str,
        read_at: DateTime<Utc>,
    ) -> Result<(), LayerError> {
        let found = sources::markdown::find(text);
        let claims = found.into_iter().enumerate().filter_map(|(number, (line, found))| {
            found.statement.check().ok()?;
            let number = u32::try_from(number).ok()?;
            Some(Claim {
                statement: found.statement,
                confidence: found.confidence,
                origin: Origin::Markdown,
                place: Place::Line { file: file.to_string(), line, number, withdrawn_at: None },
                said_at: read_at,
                recorded_at: read_at,
            })
        });
        Ok(sql::lines::replace(&self.db, user, &file.to_string(), &claims.collect::<Vec<_>>(), read_at).await?)
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        self.find(query).await
    }

    async fn explain(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        self.why(query, about).await
    }

    /// What the database forgot is forgotten by the view at its next reading; it need not stay in memory until then.
    async fn forget(&self, user: UserId, _exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        self.shelf.drop(user);
        Ok(())
    }

    /// Has the model read exchanges that wait for it.
    async fn prune(&self, now: DateTime<Utc>) -> Result<Pruned, LayerError> {
        self.read_some(now).await
    }

    /// What a model could not read.
    async fn set_aside(&self, user: UserId) -> Result<Vec<SetAside>, LayerError> {
        Ok(sql::readings::parked(&self.db, user).await?)
    }

    async fn retry(&self, user: UserId) -> Result<usize, LayerError> {
        Ok(usize::try_from(sql::readings::retry(&self.db, user).await?).unwrap_or(usize::MAX))
    }

    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError> {
        let (claims, waiting, parked, bytes) = sql::ask::stats(&self.db, user).await?;
        let view = self.shelf.view(user).await?;
        let glance = view.glance(Sight::default());
        let holds = glance.all().filter(|sighted| sighted.holds(None) && sighted.held.to.is_none()).count();
        let entities = (0..glance.entities()).filter(|entity| glance.head(*entity).is_some()).count();
        let known = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let counts = [
            ("facts", known(holds)),
            ("facts of the past", known(glance.all().count().saturating_sub(holds))),
            ("entities", known(entities)),
            ("claims", claims),
            ("waiting for a model", waiting),
            ("a model could not read", parked),
        ];
        let counts = counts.map(|(name, count)| (name.to_owned(), count)).to_vec();
        Ok(LayerStats { counts, bytes: Some(bytes) })
    }

    fn facts(&self) -> Option<&dyn FactGraph> {
        Some(self)
    }
}
