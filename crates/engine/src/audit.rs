//! Who changed what: the audit log, and who is acting in the present request.

use chrono::{DateTime, Utc};
use serde_json::Value;
use skymem_core::UserId;
use skymem_core::wall::acting_for;
use skymem_store::{Acting, Actor, Break, Entry, EntryFilter, Hash, Journal, Keys, SERVER, Verb};

use crate::error::EngineError;
use crate::journal::{Page, PageRequest};
use crate::memory::Memory;

tokio::task_local! {
    /// Set by the doors around a whole request: so no handler can forget to say who it acts for.
    static ACTOR: Actor;
}

/// Runs what somebody asked for. What it changes is written down in the audit log as theirs; what the server does without
/// this is written down as its own.
pub async fn acting_as<T>(actor: Actor, request: impl Future<Output = T>) -> T {
    ACTOR.scope(actor, request).await
}

/// Whose log is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOf {
    /// A user's.
    User(UserId),
    /// The server's own: users made and removed.
    Server,
}

/// Which entries of a log are asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Only of this kind.
    pub verb: Option<Verb>,
    /// Only since then.
    pub from: Option<DateTime<Utc>>,
    /// Only before then.
    pub until: Option<DateTime<Utc>>,
}

/// What a look at a whole log came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChecked {
    /// How many entries are as they were written, from the first on.
    pub sound: u64,
    /// The hash of the last of them, in hex; `None` when there is none.
    pub head: Option<String>,
    /// The number of the first entry that is not as it was written, and how that is; `None` when the log is whole.
    pub broken: Option<(i64, &'static str)>,
}

impl LogOf {
    fn user(self) -> UserId {
        match self {
            LogOf::User(user) => user,
            LogOf::Server => SERVER,
        }
    }
}

impl Memory {
    /// A page of a log, newest first.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a page that cannot be.
    pub async fn audit_log(
        &self,
        of: LogOf,
        filter: LogFilter,
        page: &PageRequest,
    ) -> Result<Page<Entry>, EngineError> {
        let before = page.seq()?.map(|seq| seq.0);
        let LogFilter { verb, from, until } = filter;
        let filter = EntryFilter { verb, from, until };
        let entries = self.inner.audit.entries(of.user(), &filter, before, page.limit + 1);
        let entries = acting_for(of.user(), entries).await?;
        Ok(Page::cut(entries, page.limit, |entry| entry.number.to_string()))
    }

    /// Goes through a whole log and names the first place at which it is not as it was written. A `known` hash that was
    /// noted elsewhere once must be in it.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for what is no hash.
    pub async fn check_audit_log(&self, of: LogOf, known: Option<&str>) -> Result<LogChecked, EngineError> {
        let known: Option<Hash> = known
            .map(str::parse)
            .transpose()
            .map_err(|bad: skymem_core::conversation::BadName| EngineError::Refused(bad.0))?;
        let checked = acting_for(of.user(), self.inner.audit.verify(of.user(), known.as_ref())).await?;
        Ok(LogChecked {
            sound: checked.sound.unsigned_abs(),
            head: checked.head.map(|hash| hash.to_string()),
            broken: checked.broken.map(|Break { number, how }| (number, how)),
        })
    }

    /// Writes down a change that is not one of the journal: a file that was edited, a collection that was unlocked. `what`
    /// holds ids, names of settings and counts, never a word of what is remembered. A log that cannot be written is a
    /// fault that is told in the server's own log; what was done is done.
    pub async fn note(&self, user: UserId, verb: Verb, what: Value) {
        if let Err(error) = self.inner.audit.note(user, &self.acting(), verb, what).await {
            tracing::error!(%error, %user, verb = verb.as_str(), "A change could not be written into the audit log");
        }
    }

    /// The journal, in the hands of whoever acts.
    pub(crate) fn journal(&self) -> Journal {
        self.inner.journal.by(self.acting())
    }

    /// The keys, in the hands of whoever acts.
    pub(crate) fn keys_by(&self) -> Keys {
        self.inner.keys.by(self.acting())
    }

    pub(crate) fn acting(&self) -> Acting {
        let actor = ACTOR.try_with(Clone::clone).unwrap_or_else(|_| Actor::server());
        Acting { actor, at: self.now() }
    }
}
