//! The rolling summary of each session: what left the window, in short.
//!
//! When enough exchanges stand beyond those that are kept word for word, they are *folded*: a new version of the summary
//! takes in the one before and what they say. A chat model writes it; without one, or when it gives no answer that will
//! do, the most telling sentences are picked. Key decisions stand in a list of their own before it, which only grows at
//! its end; identifiers that the summary lost are named behind it. All of it happens in the background.
//!
//! Reading order: [`SummariesLayer::observe`], `fold.rs` (how a version comes to be), `plan.rs` (when), `ask.rs` (the
//! model), `said.rs`, `extract.rs`, `decisions.rs`, `names.rs` (the thinking), `account.rs` (what is recalled), `sql.rs`.
//!
//! What is forgotten is gone at once: the database drops every version that knew of it, and what follows is folded anew.
//!
//! ```toml
//! [layers.summaries]
//! keep_exchanges = 4            # so many of the newest exchanges are never folded: as many as the window has
//! fold_exchanges = 4            # so many exchanges are folded together ...
//! fold_tokens = 1500            # ... or fewer, that cost this together
//! summary_tokens = 400          # what the summary may cost ...
//! decision_tokens = 300         # ... the list of decisions ...
//! name_tokens = 300             # ... and the identifiers that are remembered; the oldest go first
//! model_deadline_seconds = 60   # what a chat model may take for one summary
//! ```

mod account;
mod ask;
mod decisions;
mod extract;
mod fold;
mod names;
mod plan;
mod said;
mod sql;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use skymem_core::facts::Seen;
use skymem_core::wall::acting_for;
use skymem_core::{
    Considered, Embedder, Exchange, ExchangeId, ExchangeKind, Fate, Filter, Host, Layer, LayerError, LayerName,
    LayerStats, Plugin, Priority, Pruned, Query, Recall, RecallId, Section, Seq, SessionId, SharedChatModel, Tokens,
    UserId,
};
use sqlx::PgPool;

pub use crate::account::{EXTRACTIVE, Version};
use crate::fold::MOST_FOLDS;
use crate::plan::Pace;
use crate::sql::Observed;

const NAME: LayerName = LayerName::of("summaries");

/// So many exchanges a recall names as its origin, the newest; `seqs` tells the rest.
const MOST_ROOTS: i64 = 256;

/// Whoever forgets something waits for so many folds; the rest is made later.
const FOLDS_WHILE_FORGETTING: usize = 2;

/// How many sessions upkeep sees to at a time.
const SESSIONS_IN_UPKEEP: i64 = 50;

/// How many versions an explanation lists.
const VERSIONS_EXPLAINED: i64 = 5;

/// Opens the layer of summaries.
#[derive(Debug, Clone, Copy, Default)]
pub struct SummariesPlugin;

#[async_trait]
impl Plugin for SummariesPlugin {
    fn name(&self) -> LayerName {
        NAME
    }

    async fn open(&self, host: Host) -> Result<Arc<dyn Layer>, LayerError> {
        let settings = Settings::of(host.config)?;
        sqlx::migrate!("../../migrations/summaries").run(&host.db).await?;
        Ok(Arc::new(SummariesLayer { db: host.db, embedder: host.embedder, chat: host.chat, settings }))
    }
}

/// The last `limit` versions of a session's summary, newest first: what each says and covers, and who made it.
///
/// # Errors
///
/// When the database gives no answer.
pub async fn versions(db: &PgPool, user: UserId, session: &SessionId, limit: u32) -> Result<Vec<Version>, LayerError> {
    Ok(sql::versions(db, user, session.as_str(), Seen::default(), i64::from(limit)).await?)
}

/// `[layers.summaries]`, as the head of this file describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    keep_exchanges: usize,
    fold_exchanges: usize,
    fold_tokens: Tokens,
    summary_tokens: Tokens,
    decision_tokens: Tokens,
    name_tokens: Tokens,
    model_deadline_seconds: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keep_exchanges: 4,
            fold_exchanges: 4,
            fold_tokens: Tokens(1_500),
            summary_tokens: Tokens(400),
            decision_tokens: Tokens(300),
            name_tokens: Tokens(300),
            model_deadline_seconds: 60,
        }
    }
}

impl Settings {
    fn of(table: toml::Table) -> Result<Self, LayerError> {
        let settings: Settings =
            table.try_into().map_err(|error: toml::de::Error| LayerError::Settings(error.message().to_owned()))?;
        let within = |tokens: Tokens, least: usize| (least..=4_000).contains(&tokens.0);
        let rules: [(bool, &str); 8] = [
            ((1..=7).contains(&settings.keep_exchanges), "keep_exchanges must be from 1 to 7"),
            ((1..=7).contains(&settings.fold_exchanges), "fold_exchanges must be from 1 to 7"),
            (
                settings.keep_exchanges + settings.fold_exchanges <= 8,
                "keep_exchanges and fold_exchanges must not be more than 8 together: no more exchanges stand word for \
                 word, and what is neither there nor folded would be missing",
            ),
            ((100..=100_000).contains(&settings.fold_tokens.0), "fold_tokens must be from 100 to 100000"),
            (within(settings.summary_tokens, 100), "summary_tokens must be from 100 to 4000"),
            (within(settings.decision_tokens, 0), "decision_tokens must be from 0 to 4000"),
            (within(settings.name_tokens, 0), "name_tokens must be from 0 to 4000"),
            ((1..=600).contains(&settings.model_deadline_seconds), "model_deadline_seconds must be from 1 to 600"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(LayerError::Settings(format!("[layers.summaries] {rule}"))),
            None => Ok(settings),
        }
    }

    fn pace(&self) -> Pace {
        Pace { keep: self.keep_exchanges, exchanges: self.fold_exchanges, tokens: self.fold_tokens }
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(self.model_deadline_seconds)
    }
}

/// The layer of summaries.
pub(crate) struct SummariesLayer {
    db: PgPool,
    embedder: Arc<dyn Embedder>,
    chat: Option<SharedChatModel>,
    settings: Settings,
}

#[async_trait]
impl Layer for SummariesLayer {
    fn name(&self) -> LayerName {
        NAME
    }

    fn priority(&self) -> Priority {
        Priority::Account
    }

    async fn observe(&self, exchanges: &[Exchange]) -> Result<(), LayerError> {
        let Some(user) = exchanges.first().map(|exchange| exchange.user) else { return Ok(()) };
        // What was told to memory directly is no part of a conversation: it never stands in the window.
        let said = exchanges.iter().filter(|exchange| exchange.kind == ExchangeKind::Said);
        let observed: Vec<Observed<'_>> = said
            .map(|exchange| Observed {
                session: exchange.session.as_str(),
                exchange: exchange.id.0,
                first_seq: exchange.first_seq().0,
                digest: said::digest(&exchange.turns),
            })
            .collect();
        sql::drop_stale(&self.db, user, &observed).await?;
        let sessions: BTreeSet<String> = observed.iter().map(|one| one.session.to_owned()).collect();
        self.fold_due(user, &sessions.into_iter().collect::<Vec<_>>(), MOST_FOLDS, true).await
    }

    async fn recall(&self, query: &Query) -> Result<Vec<Recall>, LayerError> {
        let Some(session) = &query.session else { return Ok(Vec::new()) };
        let version = sql::versions(&self.db, query.user, session.as_str(), query.seen(), 1).await?.pop();
        let Some(version) = version else { return Ok(Vec::new()) };
        if !self.may_come_back(query, session, &version).await? {
            return Ok(Vec::new());
        }
        let roots = sql::roots(&self.db, query.user, session.as_str(), version.number, MOST_ROOTS).await?;
        let mut recalls = account::recalls(&NAME, session, &version, roots);
        recalls.truncate(query.limit);
        Ok(recalls)
    }

    async fn accounts_for(&self, user: UserId, session: &SessionId) -> Result<Option<Seq>, LayerError> {
        Ok(sql::covered_until(&self.db, user, session.as_str()).await?.map(Seq))
    }

    /// The last versions of the session's summary, the newest being the one that is recalled; or why there is none. About
    /// one exchange: whether the summary covers it.
    async fn explain(&self, query: &Query, about: Option<ExchangeId>) -> Result<Vec<Considered>, LayerError> {
        match (&query.session, about) {
            (_, Some(exchange)) => self.why_not(query, exchange).await,
            (Some(session), None) => self.history(query, session).await,
            (None, None) => Ok(Vec::new()),
        }
    }

    fn render(&self, chosen: &[Recall]) -> Section {
        account::section(self, chosen)
    }

    /// What knew of it is gone already. Some of what follows is folded anew at once, without a model: somebody waits.
    async fn forget(&self, user: UserId, exchanges: &[ExchangeId]) -> Result<(), LayerError> {
        let ids: Vec<uuid::Uuid> = exchanges.iter().map(|exchange| exchange.0).collect();
        let sessions = sql::sessions_of(&self.db, user, &ids).await?;
        self.fold_due(user, &sessions, FOLDS_WHILE_FORGETTING, false).await
    }

    /// Folds what was left over when something was forgotten.
    async fn prune(&self, _now: DateTime<Utc>) -> Result<Pruned, LayerError> {
        let due = self.settings.keep_exchanges + self.settings.fold_exchanges;
        let behind = sql::behind(&self.db, due, SESSIONS_IN_UPKEEP).await?;
        for (user, session, _) in &behind {
            acting_for(*user, self.fold_due(*user, std::slice::from_ref(session), MOST_FOLDS, false)).await?;
        }
        let left = if behind.is_empty() { Vec::new() } else { sql::behind(&self.db, due, SESSIONS_IN_UPKEEP).await? };
        // What stays as it was waits for something else than another call.
        Ok(Pruned { unfinished: !left.is_empty() && left != behind, ..Pruned::default() })
    }

    async fn stats(&self, user: UserId) -> Result<LayerStats, LayerError> {
        let (counts, bytes) = sql::stats(&self.db, user).await?;
        Ok(LayerStats { counts, bytes: Some(bytes) })
    }
}

impl SummariesLayer {
    /// Whether all that a version covers may come back: a summary cannot be told in part.
    async fn may_come_back(&self, query: &Query, session: &SessionId, version: &Version) -> Result<bool, LayerError> {
        let filter = &query.filter;
        if *filter == Filter::default() {
            return Ok(true);
        }
        let here = filter.sessions.is_empty() || filter.sessions.contains(session);
        let then = filter.time.is_none_or(|time| time.contains(version.said_from) && time.contains(version.said_until));
        Ok(here && then && sql::may_come_back(&self.db, query.user, session.as_str(), version.number, filter).await?)
    }

    async fn history(&self, query: &Query, session: &SessionId) -> Result<Vec<Considered>, LayerError> {
        let considered = |id, excerpt: &str, version: Option<&Version>, fate| Considered {
            id,
            exchange: None,
            excerpt: excerpt.to_owned(),
            scores: version.map(scores).unwrap_or_default(),
            fate,
        };
        let versions = sql::versions(&self.db, query.user, session.as_str(), query.seen(), VERSIONS_EXPLAINED).await?;
        let Some(newest) = versions.first() else {
            let later = !sql::versions(&self.db, query.user, session.as_str(), Seen::default(), 1).await?.is_empty();
            let fate = if later { Fate::Filtered } else { Fate::NotYetLearned };
            let there = sql::is_there(&self.db, query.user, session).await?;
            let none = considered(account::summary_id(session), "", None, fate);
            return Ok(there.then_some(none).into_iter().collect());
        };
        let fate = if self.may_come_back(query, session, newest).await? { Fate::Recalled } else { Fate::Filtered };
        let mut explained = Vec::new();
        if !newest.decisions.is_empty() {
            let excerpt = said::clipped(&newest.decisions.join("; "), EXCERPT);
            explained.push(considered(account::decisions_id(session), &excerpt, Some(newest), fate));
        }
        explained.push(considered(account::summary_id(session), &excerpt(newest), Some(newest), fate));
        let older = versions.iter().skip(1);
        explained.extend(older.map(|version| {
            let id = RecallId(format!("{}#{}", account::summary_id(session).0, version.number));
            considered(id, &excerpt(version), Some(version), Fate::Superseded)
        }));
        Ok(explained)
    }

    async fn why_not(&self, query: &Query, exchange: ExchangeId) -> Result<Vec<Considered>, LayerError> {
        let Some(about) = sql::about(&self.db, query.user, exchange).await? else { return Ok(Vec::new()) };
        let Ok(session) = about.session.parse::<SessionId>() else { return Ok(Vec::new()) };
        let asks = query.session.as_ref() == Some(&session);
        let version = sql::versions(&self.db, query.user, session.as_str(), query.seen(), 1).await?.pop();
        let covering = version.filter(|version| about.number.is_some_and(|number| number <= version.number));
        let fate = match (&covering, about.number) {
            _ if about.forgotten => Fate::Forgotten,
            // Only the session that asks is accounted for, and only what was said in it.
            _ if !asks || !about.said => Fate::Filtered,
            (Some(version), _) if self.may_come_back(query, &session, version).await? => Fate::Recalled,
            (Some(_), _) | (None, Some(_)) => Fate::Filtered,
            (None, None) if query.window.contains(&exchange) => Fate::InWindow,
            (None, None) => Fate::NotYetLearned,
        };
        Ok(vec![Considered {
            id: account::summary_id(&session),
            exchange: Some(exchange),
            excerpt: about.excerpt,
            scores: covering.as_ref().map(scores).unwrap_or_default(),
            fate,
        }])
    }
}

const EXCERPT: Tokens = Tokens(60);

/// How a version begins, and who made it.
fn excerpt(version: &Version) -> String {
    let until = version.said_until.format("%Y-%m-%d %H:%M");
    format!("({}, until {until}) {}", version.made_by, said::clipped(&version.text, EXCERPT))
}

/// What a version is measured by.
fn scores(version: &Version) -> Vec<(String, f32)> {
    [("version", i64::from(version.number)), ("exchanges", i64::from(version.exchanges)), ("tokens", version.tokens)]
        .map(|(name, value)| (name.to_owned(), value as f32))
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(config: &str, expected: &str) {
        let refused = Settings::of(toml::from_str(config).unwrap()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{config}: {refused}");
    }

    #[test]
    fn settings_that_cannot_be_are_refused_with_what_they_may_be() {
        check("keep_exchanges = 0", "keep_exchanges must be from 1 to 7");
        check("fold_exchanges = 0", "fold_exchanges must be from 1 to 7");
        check("keep_exchanges = 5", "not be more than 8 together");
        check("fold_tokens = 5", "fold_tokens must be from 100 to 100000");
        check("summary_tokens = 10", "summary_tokens must be from 100 to 4000");
        check("decision_tokens = 4001", "decision_tokens must be from 0 to 4000");
        check("name_tokens = 4001", "name_tokens must be from 0 to 4000");
        check("model_deadline_seconds = 0", "model_deadline_seconds must be from 1 to 600");
        check("summary_tokens = -1", "integer");
        check("keep_exchanges = \"four\"", "invalid type");
        check("keep = 4", "unknown field");
    }

    #[test]
    fn the_settings_of_a_new_installation_are_right() {
        assert_eq!(Settings::of(toml::Table::new()).unwrap(), Settings::default());
    }
}
