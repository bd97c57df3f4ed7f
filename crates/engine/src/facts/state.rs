//! Telling memory about facts and entities: each statement is an entry of the journal.

use chrono::{DateTime, Utc};
use skymem_core::conversation::BadName;
use skymem_core::facts::{
    EntityId, EntityKind, EntityName, Evidence, FactId, FactObject, MOST_EXCHANGES_APART, Object, Seen, Statement,
};
use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, SessionId, Source, UserId};
use skymem_store::{Append, NewTurn, SessionChange};

use super::again;
use super::import::Stated;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::{Pace, Recorded, TurnFate};

/// So many statements come in one request.
pub const MOST_STATEMENTS: usize = 1_000;

/// The session of statements that name none.
const SESSION: &str = "facts";
/// The source of statements that name none.
const SOURCE: &str = "facts";

/// Statements about facts and entities, to be written down in order.
#[derive(Debug, Clone, PartialEq)]
pub struct StateRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// What is stated: one or many.
    pub statements: Vec<Statement>,
    /// The session it came up in; `None` for the session `facts`.
    pub session: Option<SessionId>,
    /// The shelf it stands on; `None` for the session's own.
    pub collection: Option<Collection>,
    /// Where it comes from; `None` for `facts`.
    pub source: Option<Source>,
    /// When it was said; `None` for now.
    pub occurred_at: Option<DateTime<Utc>>,
}

/// How a fact is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retraction {
    /// It never held.
    NeverHeld,
    /// It did, until now.
    EndedNow,
    /// It did, until then.
    EndedAt(DateTime<Utc>),
}

impl StateRequest {
    /// One statement, made now.
    #[must_use]
    pub fn new(user: UserId, statement: Statement) -> Self {
        let statements = vec![statement];
        Self { user, statements, session: None, collection: None, source: None, occurred_at: None }
    }
}

impl Memory {
    /// Writes statements down and returns after commit, all or none; the layer that keeps facts learns of them soon after.
    ///
    /// Idempotent: the same statement twice in a session is one entry, and one that was forgotten comes back. Unless
    /// something told in between says otherwise: then it is true again, and a new entry.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for a statement that cannot be one; nothing was written. [`EngineError::Off`] when no
    /// layer keeps facts.
    pub async fn state(&self, request: StateRequest) -> Result<Recorded, EngineError> {
        let StateRequest { user, statements, session, collection, source, occurred_at } = request;
        let graph = self.fact_graph()?;
        if statements.is_empty() || statements.len() > MOST_STATEMENTS {
            return Err(EngineError::Refused(format!("one request states 1 to {MOST_STATEMENTS} things")));
        }
        for (index, statement) in statements.iter().enumerate() {
            statement.check().map_err(|bad| EngineError::Refused(format!("statement {}: {bad}", index + 1)))?;
        }
        let told = Told::new(session, collection, source)?;
        let (statements, secrets) = self.statements_without_secrets(user, &told.session, statements).await?;
        let about: Vec<String> = statements.iter().map(again::beginning).collect();
        let earlier = self.inner.journal.stated(user, &told.session, &about, statements.len()).await?;
        let ids = again::client_ids(&statements, occurred_at, &earlier, |predicate| graph.is_single(predicate));
        let stated = statements.into_iter().map(|statement| Stated { statement, occurred_at });
        let mut recorded = self.write_down(Pace::AtOnce, user, told, stated.zip(ids)).await?;
        recorded.meet(secrets);
        Ok(recorded)
    }

    /// Takes a fact back. Answers what became of the statement that says so; to undo it, forget that exchange.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such fact; [`EngineError::Refused`] when it would end before it began.
    pub async fn retract(&self, user: UserId, fact: FactId, how: Retraction) -> Result<TurnFate, EngineError> {
        let fact = self.fact_graph()?.fact(user, fact).await?;
        let (ended_at, at) = match how {
            Retraction::NeverHeld => (None, None),
            Retraction::EndedNow => (Some(self.now()), None),
            Retraction::EndedAt(at) => (Some(at), Some(at)),
        };
        if ended_at.is_some_and(|at| at <= fact.valid_from) {
            let began = fact.valid_from.to_rfc3339();
            return Err(EngineError::Refused(format!("the fact holds since {began}: it cannot end before or then")));
        }
        let (subject, predicate) = (fact.subject.name, fact.predicate);
        let object = Some(match fact.object {
            FactObject::Entity(entity) => Object::Entity(entity.name),
            FactObject::Literal(text) => Object::Literal(text),
        });
        let statement = match how {
            Retraction::NeverHeld => Statement::NeverHeld { subject, predicate, object, from: Some(fact.valid_from) },
            Retraction::EndedNow | Retraction::EndedAt(_) => Statement::Ends { subject, predicate, object, at },
        };
        self.state_one(user, statement).await
    }

    /// Makes two entities one, which is called `name` from here on; `alias` may also be a name that nobody bears yet.
    /// Names, aliases and ids are understood. To undo it, forget the exchange that is answered.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when neither is there, or an id names none.
    pub async fn merge_entities(
        &self,
        user: UserId,
        name: &EntityName,
        alias: &EntityName,
    ) -> Result<TurnFate, EngineError> {
        let (kept, joined) = (self.name_to_state(user, name).await?, self.name_to_state(user, alias).await?);
        if kept.is_none() && joined.is_none() {
            return Err(EngineError::NotFound(format!("entity {name}, nor {alias}")));
        }
        let (name, alias) = (kept.unwrap_or_else(|| name.clone()), joined.unwrap_or_else(|| alias.clone()));
        self.state_one(user, Statement::Same { name, alias }).await
    }

    /// Tells two entities apart that bear one name: what `exchanges` and the evidence of `facts` say of `name` is about
    /// `other` from here on. To undo it, forget the exchange that is answered.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity, exchange or fact; [`EngineError::Refused`] when nothing
    /// said in a conversation or stated supports the facts.
    pub async fn split_entity(
        &self,
        user: UserId,
        name: &EntityName,
        other: &EntityName,
        mut exchanges: Vec<ExchangeId>,
        facts: &[FactId],
    ) -> Result<TurnFate, EngineError> {
        let graph = self.fact_graph()?;
        let entity = graph.entity(user, name, Seen::default()).await?;
        for exchange in &exchanges {
            if self.inner.journal.exchange(user, *exchange).await?.is_none() {
                return Err(EngineError::NotFound(format!("exchange {exchange}")));
            }
        }
        for id in facts {
            let fact = graph.fact(user, *id).await?;
            let evidence = fact.evidence.iter().filter_map(|Evidence { exchange, .. }| *exchange);
            exchanges.extend(evidence);
        }
        exchanges.sort_unstable();
        exchanges.dedup();
        if exchanges.is_empty() {
            let what = "only memory files say so: edit the file to tell the two apart, or name exchanges";
            return Err(EngineError::Refused(what.into()));
        }
        if exchanges.len() > MOST_EXCHANGES_APART {
            return Err(EngineError::Refused(format!(
                "at most {MOST_EXCHANGES_APART} exchanges are told apart at once"
            )));
        }
        self.state_one(user, Statement::Apart { name: entity.head.name, other: other.clone(), exchanges }).await
    }

    /// Says what an entity is. Names, aliases and ids are understood.
    ///
    /// # Errors
    ///
    /// [`EngineError::NotFound`] when there is no such entity.
    pub async fn set_entity_kind(
        &self,
        user: UserId,
        name: &EntityName,
        kind: EntityKind,
    ) -> Result<TurnFate, EngineError> {
        let entity = self.fact_graph()?.entity(user, name, Seen::default()).await?;
        self.state_one(user, Statement::Kind { name: entity.head.name, kind }).await
    }

    /// What an entity is to be called in a statement: as it was named, or its own name when an id named it. `None` when
    /// there is none of that name yet.
    async fn name_to_state(&self, user: UserId, name: &EntityName) -> Result<Option<EntityName>, EngineError> {
        let by_id = name.as_str().parse::<EntityId>().is_ok();
        match self.fact_graph()?.entity(user, name, Seen::default()).await {
            Ok(entity) => Ok(Some(if by_id { entity.head.name } else { name.clone() })),
            Err(skymem_core::facts::FactError::NotFound(_)) if !by_id => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn state_one(&self, user: UserId, statement: Statement) -> Result<TurnFate, EngineError> {
        let recorded = self.state(StateRequest::new(user, statement)).await?;
        Ok(recorded.turns.into_iter().next().unwrap_or(TurnFate::NotKept))
    }

    /// Appends statements under their client ids, and takes those back out of the trash that are told again.
    pub(super) async fn write_down(
        &self,
        pace: Pace,
        user: UserId,
        told: Told,
        stated: impl Iterator<Item = (Stated, String)>,
    ) -> Result<Recorded, EngineError> {
        let turns = stated.map(|(stated, id)| turn(&stated, id)).collect::<Result<_, _>>()?;
        let append = Append {
            session: told.session,
            collection: told.collection,
            kind: ExchangeKind::Stated,
            source: told.source,
            turns,
            recorded_at: self.now(),
            settings: SessionChange::default(),
        };
        let recorded = self.append_at(pace, user, append).await?;
        let known: Vec<ExchangeId> = recorded.turns.iter().filter_map(TurnFate::known).collect();
        if !known.is_empty() {
            self.restore(user, &known).await?;
        }
        Ok(recorded)
    }
}

/// Where statements are told.
#[derive(Clone)]
pub(super) struct Told {
    session: SessionId,
    collection: Option<Collection>,
    source: Source,
}

impl Told {
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// In the usual session and from the usual source where none is given.
    pub(super) fn new(
        session: Option<SessionId>,
        collection: Option<Collection>,
        source: Option<Source>,
    ) -> Result<Self, EngineError> {
        let session = session.map_or_else(|| SESSION.parse(), Ok).map_err(refused)?;
        let source = source.map_or_else(|| SOURCE.parse(), Ok).map_err(refused)?;
        Ok(Self { session, collection, source })
    }
}

/// A statement as a turn: in words for people, and as it is for the layer that keeps facts.
fn turn(stated: &Stated, client_id: String) -> Result<NewTurn, EngineError> {
    let Stated { statement, occurred_at } = stated;
    let parts = serde_json::to_value(statement).map_err(|error| EngineError::Refused(error.to_string()))?;
    Ok(NewTurn {
        parts: Some(parts),
        client_id: Some(client_id),
        occurred_at: *occurred_at,
        ..NewTurn::new(Role::User, statement.to_string())
    })
}

fn refused(bad: BadName) -> EngineError {
    EngineError::Refused(bad.0)
}
