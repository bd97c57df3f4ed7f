//! Writing down what was said, and what memory is told directly.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skymem_core::conversation::BadName;
use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, Seq, SessionId, Source, UserId};
use skymem_store::{Append, Appended, AppendedTurn, MemoryMode, SessionChange};
use uuid::Uuid;

use crate::context::without_injected;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::secrets::{Screened, SecretsMet};

/// Some turns of one session, to be written down in order.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// The conversation; made when it is new.
    pub session: SessionId,
    /// The turns, oldest first: one or many.
    pub turns: Vec<NewTurn>,
    /// The shelf they stand on; `None` for the session's own.
    pub collection: Option<Collection>,
    /// Where they come from; `None` when they are said now.
    pub source: Option<Source>,
    /// What memory may do with them; `None` for what the session says, which is never exceeded.
    pub memory: Option<MemoryMode>,
}

/// A turn that is to be written down.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTurn {
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people or agents.
    pub speaker: Option<String>,
    /// What was said: a text, or OpenAI content parts as they came.
    pub content: Content,
    /// When it was said; `None` for now.
    pub occurred_at: Option<DateTime<Utc>>,
    /// The client's own id for it: the same id in the same session is stored once.
    pub client_id: Option<String>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Plain text.
    Text(String),
    /// OpenAI content parts. The text ones are read; all are kept as they came.
    Parts(Vec<Value>),
}

/// What became of the turns of a [`RecordRequest`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded {
    /// What became of each turn, in the order of the request.
    pub turns: Vec<TurnFate>,
    /// What secrets were in them.
    pub secrets: SecretsMet,
}

/// What became of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate")]
pub enum TurnFate {
    /// Written down.
    Stored {
        /// Its place in the user's journal.
        seq: Seq,
        /// The exchange it belongs to.
        exchange: ExchangeId,
    },
    /// It was written down before: same client id, or same words at the same place.
    Known {
        /// Its place in the user's journal.
        seq: Seq,
        /// The exchange it belongs to.
        exchange: ExchangeId,
    },
    /// Not written down: its client id belongs to a turn that says something else, which stays.
    Differs {
        /// The place of the turn that stays.
        seq: Seq,
        /// The exchange that turn belongs to.
        exchange: ExchangeId,
    },
    /// Not written down: the session or the request says so.
    NotKept,
    /// Not written down: it was purged once, and what is purged stays gone.
    Purged,
    /// Not written down: nothing is left of it without what skymem itself had put into the prompt.
    Injected,
}

/// Something memory is told directly: "remember this".
#[derive(Debug, Clone, PartialEq)]
pub struct RememberRequest {
    /// Whose memory it is.
    pub user: UserId,
    /// What to remember.
    pub text: String,
    /// The shelf it stands on; `None` for that of its session, or the default one when it names no session.
    pub collection: Option<Collection>,
    /// The session it came up in; `None` for the session `notes`.
    pub session: Option<SessionId>,
    /// Where it comes from; `None` for `remember`.
    pub source: Option<Source>,
    /// When it was so; `None` for now.
    pub occurred_at: Option<DateTime<Utc>>,
    /// Pinned from the start: does not decay, is spared by pruning.
    pub pinned: bool,
}

impl Memory {
    /// Writes turns down and returns after commit: what was answered here survives a crash. All or none, idempotent.
    /// Layers learn of them soon after.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] for an empty, overlong or contradictory request; nothing was written.
    pub async fn record(&self, request: RecordRequest) -> Result<Recorded, EngineError> {
        self.record_at(Pace::AtOnce, request).await
    }

    /// As [`Memory::record`], for a piece of an import: it lets those go first who wait for an answer.
    ///
    /// # Errors
    ///
    /// As [`Memory::record`].
    pub async fn record_piece(&self, request: RecordRequest) -> Result<Recorded, EngineError> {
        self.record_at(Pace::GivingWay, request).await
    }

    async fn record_at(&self, pace: Pace, request: RecordRequest) -> Result<Recorded, EngineError> {
        if request.turns.is_empty() {
            return Err(EngineError::Refused("there are no turns to record".into()));
        }
        if request.memory.is_some_and(|memory| !memory.writes()) {
            let turns = vec![TurnFate::NotKept; request.turns.len()];
            return Ok(Recorded { turns, secrets: SecretsMet::default() });
        }
        let turns: Vec<Option<skymem_store::NewTurn>> =
            request.turns.into_iter().map(NewTurn::into_own_words).collect();
        let injected: Vec<bool> = turns.iter().map(Option::is_none).collect();
        let append = Append {
            session: request.session,
            collection: request.collection,
            kind: ExchangeKind::Said,
            source: request.source.unwrap_or_default(),
            turns: turns.into_iter().flatten().collect(),
            recorded_at: self.now(),
            settings: SessionChange::default(),
        };
        let Recorded { turns: fates, secrets } = self.append_at(pace, request.user, append).await?;
        let mut fates = fates.into_iter();
        let turns = injected.into_iter().map(|injected| match injected {
            true => TurnFate::Injected,
            false => fates.next().unwrap_or(TurnFate::NotKept),
        });
        Ok(Recorded { turns: turns.collect(), secrets })
    }

    /// Writes a note down that was told to memory directly. Idempotent: the same text in the same session is one note.
    ///
    /// # Errors
    ///
    /// As [`Memory::record`].
    pub async fn remember(&self, request: RememberRequest) -> Result<Recorded, EngineError> {
        if request.text.trim().is_empty() {
            return Err(EngineError::Refused("there is nothing to remember: the text is empty".into()));
        }
        let named = |error: BadName| EngineError::Refused(error.0);
        let note = skymem_store::NewTurn {
            occurred_at: request.occurred_at,
            ..skymem_store::NewTurn::new(Role::User, request.text)
        };
        // Before the note is named by a hash of its words: a short secret could be guessed from that.
        let Screened { mut turns, mut whole, met } = self.screen(request.user, vec![note]).await?;
        for (place, note) in turns.iter_mut().enumerate() {
            // What is to be sealed is sealed with its name.
            *note = whole.remove(&place).unwrap_or_else(|| note.clone());
            note.client_id = Some(format!("note:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, note.text.as_bytes())));
        }
        // A note that names nothing does not follow another one, under a lock perhaps.
        let unnamed = request.session.is_none().then(Collection::default);
        let append = Append {
            session: request.session.map_or_else(|| "notes".parse(), Ok).map_err(named)?,
            collection: request.collection.or(unnamed),
            kind: ExchangeKind::Asserted,
            source: request.source.map_or_else(|| "remember".parse(), Ok).map_err(named)?,
            turns,
            recorded_at: self.now(),
            settings: SessionChange::default(),
        };
        let mut recorded = self.append_at(Pace::AtOnce, request.user, append).await?;
        recorded.meet(met);
        let fate = recorded.turns.first().copied().unwrap_or(TurnFate::NotKept);
        if let TurnFate::Known { exchange, .. } = fate {
            // Told again after it was forgotten: then it is to be known again.
            self.restore(request.user, &[exchange]).await?;
        }
        if let TurnFate::Stored { exchange, .. } | TurnFate::Known { exchange, .. } = fate
            && request.pinned
        {
            self.inner.journal.pin(request.user, &[exchange], true).await?;
        }
        Ok(recorded)
    }

    /// Every turn that goes into the journal goes through here, and leaves its secrets at the door.
    pub(crate) async fn append_at(
        &self,
        pace: Pace,
        user: UserId,
        mut append: Append,
    ) -> Result<Recorded, EngineError> {
        if append.turns.is_empty() {
            return Ok(Recorded { turns: Vec::new(), secrets: SecretsMet::default() });
        }
        let screened = self.screen(user, std::mem::take(&mut append.turns)).await?;
        let secrets = screened.met.clone();
        let appended = match self.apart(user, &mut append, screened).await? {
            Some(apart) => self.append_apart(pace, user, append, apart).await?,
            None => self.append_to_journal(pace, user, append).await?,
        };
        let fates: Vec<TurnFate> = appended.turns.into_iter().map(TurnFate::from).collect();
        let stored = fates.iter().filter(|fate| matches!(fate, TurnFate::Stored { .. })).count();
        metrics::counter!("skymem_turns_recorded_total").increment(u64::try_from(stored).unwrap_or(u64::MAX));
        secrets.count();
        Ok(Recorded { turns: fates, secrets })
    }

    /// Appends turns as they are.
    pub(crate) async fn append_to_journal(
        &self,
        pace: Pace,
        user: UserId,
        append: Append,
    ) -> Result<Appended, EngineError> {
        Ok(match pace {
            Pace::AtOnce => self.journal().append(user, append).await?,
            Pace::GivingWay => self.journal().append_piece(user, append).await?,
        })
    }
}

impl Recorded {
    /// Adds secrets that were met, and counted by nobody yet, before the turns were written down.
    pub(crate) fn meet(&mut self, secrets: SecretsMet) {
        // Where they stay in, they were met again on the way.
        if self.secrets.found.is_empty() {
            secrets.count();
            self.secrets.add(secrets);
        }
    }
}

/// Whether somebody waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Somebody does.
    AtOnce,
    /// A piece of an import: those go first who talk.
    GivingWay,
}

impl TurnFate {
    /// The exchange of what was written down before.
    pub(crate) fn known(&self) -> Option<ExchangeId> {
        match self {
            TurnFate::Known { exchange, .. } => Some(*exchange),
            _ => None,
        }
    }
}

impl NewTurn {
    /// The turn without what skymem itself had put into the prompt; `None` when nothing else was said.
    pub(crate) fn into_own_words(self) -> Option<skymem_store::NewTurn> {
        let (text, parts) = match self.content {
            Content::Text(text) => {
                let own = without_injected(&text);
                if own.trim().is_empty() && !text.trim().is_empty() {
                    return None;
                }
                (own.into_owned(), None)
            }
            Content::Parts(parts) => own_parts(parts)?,
        };
        Some(skymem_store::NewTurn {
            role: self.role,
            speaker: self.speaker,
            text,
            parts,
            occurred_at: self.occurred_at,
            client_id: self.client_id,
        })
    }
}

/// The text of content parts, a line each, and the parts, both without what skymem itself had put in; `None` when
/// nothing else was in them.
fn own_parts(mut parts: Vec<Value>) -> Option<(String, Option<Value>)> {
    let some = !parts.is_empty();
    let mut texts = Vec::new();
    parts.retain_mut(|part| {
        let Some(Value::String(text)) = part.get_mut("text") else { return true };
        let own = without_injected(text);
        if own.trim().is_empty() && !text.trim().is_empty() {
            return false;
        }
        *text = own.into_owned();
        texts.push(text.clone());
        true
    });
    (!some || !parts.is_empty()).then(|| (texts.join("\n"), Some(Value::Array(parts))))
}

impl From<AppendedTurn> for TurnFate {
    fn from(turn: AppendedTurn) -> Self {
        use skymem_store::Recorded;
        match (turn.recorded, turn.seq, turn.exchange) {
            (Recorded::New, Some(seq), Some(exchange)) => TurnFate::Stored { seq, exchange },
            (Recorded::Already, Some(seq), Some(exchange)) => TurnFate::Known { seq, exchange },
            (Recorded::Differs, Some(seq), Some(exchange)) => TurnFate::Differs { seq, exchange },
            (Recorded::Tombstoned, ..) => TurnFate::Purged,
            // A turn without a place was not written down.
            (Recorded::New | Recorded::Already | Recorded::Differs | Recorded::Off, ..) => TurnFate::NotKept,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(content: Content, text: Option<&str>) {
        let turn = NewTurn { role: Role::User, speaker: None, content, occurred_at: None, client_id: None };
        assert_eq!(turn.into_own_words().map(|turn| turn.text).as_deref(), text);
    }

    #[test]
    fn what_skymem_put_into_a_prompt_is_not_remembered_when_it_comes_back() {
        check(Content::Text("hello".into()), Some("hello"));
        check(
            Content::Text(
                "<<<CONTEXT>>>\nRemembered from earlier conversations and documents. Old.\n<<<END CONTEXT>>>\n\nhello"
                    .into(),
            ),
            Some("hello"),
        );
        check(
            Content::Text(
                "<<<CONTEXT>>>\nRemembered from earlier conversations and documents. Old.\n<<<END CONTEXT>>>\n".into(),
            ),
            None,
        );
        check(Content::Text(String::new()), Some(""));
    }

    #[test]
    fn the_text_ones_of_content_parts_are_read_a_line_each() {
        let image = json!({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}});
        let text = |text: &str| json!({"type": "text", "text": text});
        check(Content::Parts(vec![text("one"), image.clone(), text("two")]), Some("one\ntwo"));
        check(Content::Parts(vec![image]), Some(""));
        let injected = "<<<CONTEXT>>>\nRemembered from earlier conversations and documents.\n<<<END CONTEXT>>>";
        check(Content::Parts(vec![text(injected), text("hi")]), Some("hi"));
        check(Content::Parts(vec![text(injected)]), None);
    }
}
