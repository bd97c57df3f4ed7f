//! Taking over facts from a file of another program, piece by piece.

use std::collections::BTreeMap;
use std::io::BufRead;

use skymem_core::{Collection, SessionId, Source, UserId};

use super::again;
use super::import::{self, ImportError, ImportFormat, Says, Stated};
use super::state::Told;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::{Pace, TurnFate};

/// So many statements are written down at a time: those who talk meanwhile need not wait.
const PIECE: usize = 200;

/// So many lines that cannot be read are told one by one.
const MOST_TOLD: usize = 1_000;

/// Where facts are taken over from, and to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// What the file is.
    pub format: ImportFormat,
    /// The session they are told in; `None` for the session `facts`.
    pub session: Option<SessionId>,
    /// The shelf they stand on; `None` for the session's own.
    pub collection: Option<Collection>,
    /// Where they come from: `import:<file>`; `None` for `import`.
    pub source: Option<Source>,
}

/// What came of taking facts over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactsImported {
    /// How many statements are written down by this: facts, and what kind an entity is.
    pub recorded: usize,
    /// How many were written down before.
    pub already: usize,
    /// How many are not kept: their session says so, or they were purged once.
    pub not_kept: usize,
    /// Lines that say nothing memory is to be told, by the reason.
    pub left_out: BTreeMap<&'static str, usize>,
    /// The first lines that cannot be accepted.
    pub refused: Vec<RefusedLine>,
    /// How many there are.
    pub refused_count: usize,
}

/// A line that cannot be accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLine {
    /// Its number, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl Memory {
    /// Writes down what the lines of `file` say, in pieces that give way to those who talk. A line that cannot be accepted
    /// is named and keeps no other out. Idempotent: a line that was taken over before is known, so that an import that
    /// broke off is run again. What was forgotten since comes back.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when the file is not what it is said to be; [`EngineError::Off`] when no layer keeps facts.
    /// After any error what came before stays.
    pub async fn import_facts(
        &self,
        request: ImportRequest,
        file: impl BufRead + Send,
    ) -> Result<FactsImported, EngineError> {
        self.fact_graph()?;
        let ImportRequest { user, format, session, collection, source } = request;
        let source =
            source.map_or_else(|| "import".parse(), Ok).map_err(|bad| EngineError::Refused(bad.to_string()))?;
        let told = Told::new(session, collection, Some(source))?;
        let mut imported = FactsImported::default();
        let mut piece: Vec<Stated> = Vec::with_capacity(PIECE);
        for line in import::read(format, file)? {
            let line = line?;
            match line.says {
                Says::Statements(statements) => {
                    for stated in statements {
                        match stated.check() {
                            Ok(()) => piece.push(stated),
                            Err(bad) => imported.refuse(line.number, bad),
                        }
                    }
                }
                Says::Nothing(why) => *imported.left_out.entry(why).or_default() += 1,
                Says::Unreadable(why) => imported.refuse(line.number, why),
            }
            if piece.len() >= PIECE {
                imported.note(self.take_over(user, &told, std::mem::take(&mut piece)).await?);
            }
        }
        if !piece.is_empty() {
            imported.note(self.take_over(user, &told, piece).await?);
        }
        Ok(imported)
    }

    async fn take_over(&self, user: UserId, told: &Told, stated: Vec<Stated>) -> Result<Vec<TurnFate>, EngineError> {
        let (statements, times): (Vec<_>, Vec<_>) =
            stated.into_iter().map(|stated| (stated.statement, stated.occurred_at)).unzip();
        let (statements, secrets) = self.statements_without_secrets(user, told.session(), statements).await?;
        let named = statements.into_iter().zip(times).map(|(statement, occurred_at)| {
            let id = again::imported_id(&statement, occurred_at);
            (Stated { statement, occurred_at }, id)
        });
        let mut recorded = self.write_down(Pace::GivingWay, user, told.clone(), named).await?;
        recorded.meet(secrets);
        Ok(recorded.turns)
    }
}

impl FactsImported {
    fn refuse(&mut self, line: u64, reason: String) {
        self.refused_count += 1;
        if self.refused.len() < MOST_TOLD {
            self.refused.push(RefusedLine { line, reason });
        }
    }

    fn note(&mut self, fates: Vec<TurnFate>) {
        for fate in fates {
            match fate {
                TurnFate::Stored { .. } => self.recorded += 1,
                TurnFate::Known { .. } | TurnFate::Differs { .. } => self.already += 1,
                TurnFate::NotKept | TurnFate::Purged | TurnFate::Injected => self.not_kept += 1,
            }
        }
    }
}

impl From<ImportError> for EngineError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Refused(why) => EngineError::Refused(why),
            ImportError::Broken(source) => {
                EngineError::Unavailable { what: "the file broke off".into(), source: Box::new(source) }
            }
        }
    }
}
