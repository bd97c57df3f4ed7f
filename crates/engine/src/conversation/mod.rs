//! A conversation as chat clients send it, whole with every message: where it stands in the journal, and what is new.
//!
//! A turn is known again by its place in the conversation (see [`chain`]), in whichever session that is. So a shared
//! beginning is written down once, a retry once, answers to the same question stand beside each other, and an edited
//! message begins anew from where it differs. What was forgotten is still known; what was purged stays gone.

mod chain;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use chrono::TimeDelta;
use serde_json::Value;
use sha2::{Digest, Sha256};
use skymem_core::{Collection, ExchangeId, ExchangeKind, Role, SessionId, UserId};
use skymem_store::{Append, Heard, MemoryMode, SessionChange};
use uuid::Uuid;

use crate::context::without_injected;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::{Content, NewTurn, Pace, TurnFate};
use crate::secrets::Screened;

use chain::{Link, MARK, Own};

/// For so long the same first words are a retry, and an answer need not be quoted to be known.
const IDLE_MINUTES: i64 = 30;

/// `text` without what skymem had put there.
#[must_use]
pub fn own_words(text: &str) -> Cow<'_, str> {
    without_injected(text)
}

/// A conversation as a client sends it.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// Whose memory it is.
    pub user: UserId,
    /// The session it belongs to, where the client says so.
    pub session: Option<SessionId>,
    /// Its turns without instructions, oldest first; the question is the last one of the user.
    pub turns: Vec<HeardTurn>,
}

/// A turn of a conversation that passes by.
#[derive(Debug, Clone, PartialEq)]
pub struct HeardTurn {
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people.
    pub speaker: Option<String>,
    /// What was said.
    pub content: Content,
    /// The ids of the tool calls that it makes or answers; they name it, however it is written.
    pub call: Option<String>,
}

/// Where a conversation stands in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Its session: the client's, the one in which it was heard before, or one with a name of its own.
    pub session: SessionId,
    /// The exchanges of the journal that the client itself sends.
    pub exchanges: Vec<ExchangeId>,
    /// Whether what the client sends goes back to the beginning of the session.
    pub whole: bool,
    /// The client id of each turn.
    ids: Vec<String>,
    /// The last turn of the user that is in the journal, or the first turn of all.
    from: usize,
    /// Whether that one is in the journal with an answer.
    answered: bool,
}

/// A conversation and the answer to its question, to be written down as far as they are new.
#[derive(Debug, Clone, PartialEq)]
pub struct HearRequest {
    /// What the client sent.
    pub conversation: Conversation,
    /// Where it stands, if that is known already.
    pub placed: Option<Placed>,
    /// What was answered.
    pub answer: HeardTurn,
    /// The shelf that new turns stand on; `None` for the session's own.
    pub collection: Option<Collection>,
    /// What memory may do; `None` for what the session says, which is never exceeded.
    pub memory: Option<MemoryMode>,
    /// Of a conversation that was not heard from its beginning, at most so many of its last turns are written down.
    pub most_turns: usize,
    /// [`Conversation::marks`] of what was said while memory was off: that is not made up for.
    pub passed_by: HashSet<String>,
}

impl Conversation {
    /// A name for each turn of the user by what the user said up to there.
    #[must_use]
    pub fn marks(&self) -> Vec<String> {
        let own = self.own();
        let ids = chain::client_ids(&own, Link::BEGINNING);
        own.iter().zip(ids).filter(|(own, _)| own.turn.role == Role::User).map(|(_, id)| id).collect()
    }

    /// The turns as they are compared and written down; what says nothing of its own is left out.
    fn own(&self) -> Vec<Own> {
        self.turns.iter().filter_map(HeardTurn::own).collect()
    }
}

impl HeardTurn {
    fn own(&self) -> Option<Own> {
        let turn = NewTurn {
            role: self.role,
            speaker: self
                .speaker
                .clone()
                .filter(|name| (1..=200).contains(&name.chars().count()) && !name.contains('\0')),
            content: self.content.clone(),
            occurred_at: None,
            client_id: None,
        };
        let mut turn = turn.into_own_words()?;
        // The journal cannot hold it, and nobody means anything by it.
        if turn.text.contains('\0') {
            turn.text = turn.text.replace('\0', "\u{FFFD}");
        }
        if let Some(parts) = &mut turn.parts {
            without_nul(parts);
        }
        (!turn.text.trim().is_empty() || turn.parts.is_some()).then(|| Own {
            turn,
            call: self.call.clone(),
            whole: None,
        })
    }
}

fn without_nul(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{FFFD}"),
        Value::Array(items) => items.iter_mut().for_each(without_nul),
        Value::Object(fields) => {
            if fields.keys().any(|name| name.contains('\0')) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, value)| (name.replace('\0', "\u{FFFD}"), value))
                    .collect();
            }
            fields.values_mut().for_each(without_nul);
        }
        _ => {}
    }
}

impl Memory {
    /// Where a conversation stands in the journal. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`EngineError::Refused`] when no user says anything in it.
    pub async fn place(&self, conversation: &Conversation) -> Result<Placed, EngineError> {
        let own = self.clean(conversation.user, conversation.own()).await?;
        let users: Vec<usize> = (0..own.len()).filter(|&turn| own.get(turn).is_some_and(is_users)).collect();
        if users.is_empty() {
            return Err(EngineError::Refused("there is no message of a user".into()));
        }
        let talk = Talk { user: conversation.user, own: &own, users: &users };
        let (known, new) = match &conversation.session {
            Some(session) => (self.known_in(&talk, session).await?, None),
            // What begins is most likely new.
            None if talk.is_alone() => {
                let (known, new) = tokio::try_join!(self.known_anywhere(&talk), self.session_for(&talk))?;
                (known, Some(new))
            }
            None => (self.known_anywhere(&talk).await?, None),
        };
        let Some(known) = known else {
            let (session, whole) = match (&conversation.session, new) {
                (Some(session), _) => {
                    let begins_with = self.inner.journal.begins_with(talk.user, session).await?;
                    (session.clone(), begins_with.is_none())
                }
                // Nothing was said there yet.
                (None, Some(new)) => (new, true),
                (None, None) => (self.session_for(&talk).await?, true),
            };
            let ids = chain::client_ids(&own, Link::BEGINNING);
            return Ok(Placed { session, exchanges: Vec::new(), whole, ids, from: 0, answered: false });
        };
        let begins_with = self.inner.journal.begins_with(talk.user, &known.session).await?;
        let whole = begins_with.is_none_or(|first| known.exchanges.contains(&first));
        let Known { session, exchanges, ids, from, answered } = known;
        Ok(Placed { session, exchanges, whole, ids, from, answered })
    }

    /// Writes down what is new of a conversation, and the answer to its question; returns after commit.
    ///
    /// # Errors
    ///
    /// As [`Memory::record`]. The same may be sent again.
    pub async fn hear(&self, request: HearRequest) -> Result<Vec<TurnFate>, EngineError> {
        let HearRequest { conversation, placed, answer, collection, memory, most_turns, passed_by } = request;
        if memory.is_some_and(|memory| !memory.writes()) {
            return Ok(Vec::new());
        }
        let placed = match placed {
            Some(placed) => placed,
            None => self.place(&conversation).await?,
        };
        let own = conversation.own();
        let marks = chain::client_ids(&own, Link::BEGINNING);
        let mut own = self.clean(conversation.user, own).await?;
        let mut ids = placed.ids;
        let mut answer = answer.own();
        // A client may begin the answer itself and have it continued.
        if let Some(begun) = own.pop_if(|last| last.turn.role == Role::Assistant && last.call.is_none()) {
            ids.truncate(own.len());
            if let Some(answer) = answer.as_mut().filter(|answer| answer.turn.parts.is_none()) {
                answer.turn.text.insert_str(0, &begun.whole.unwrap_or(begun.turn).text);
            }
        }
        own.extend(self.clean(conversation.user, answer.into_iter().collect()).await?);
        ids.push(id_of_last(&own, &ids));

        let users: Vec<skymem_store::NewTurn> =
            own.iter().filter(|own| is_users(own)).map(|own| own.turn.clone()).collect();
        let mut purged = self.inner.journal.purged(conversation.user, &placed.session, &users).await?.into_iter();
        let last_user = own.iter().rposition(is_users).unwrap_or(0);
        let mut turns = Vec::new();
        // Whether the answers that follow are to be written down.
        let mut wanted = true;
        // What is sealed is told apart by its secrets too, in a name that is sealed with it: an edit may change them alone.
        let mut held: Option<Uuid> = None;
        for (place, (own, id)) in own.into_iter().zip(ids).enumerate() {
            if let Some(whole) = &own.whole {
                let said = format!("{}{}", held.unwrap_or_default(), whole.text);
                held = Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, said.as_bytes()));
            } else if is_users(&own) {
                held = None;
            }
            if is_users(&own) {
                let gone =
                    purged.next().unwrap_or(false) || marks.get(place).is_some_and(|mark| passed_by.contains(mark));
                // What the client sends back of an answer may not be what was answered.
                let answered = place == placed.from && placed.answered && place != last_user;
                wanted = !gone && !answered;
                if gone {
                    continue;
                }
            } else if !wanted {
                continue;
            }
            if place >= placed.from {
                let id = held.map_or(id.clone(), |held| format!("{id}:{held}"));
                turns.push(skymem_store::NewTurn { client_id: Some(id), ..own.whole.unwrap_or(own.turn) });
            }
        }
        // One more for the answer.
        let spare = turns.len().saturating_sub(most_turns + 1);
        turns.drain(..spare);
        let append = Append {
            collection,
            kind: ExchangeKind::Said,
            settings: SessionChange::default(),
            ..Append::said(placed.session, turns, self.now())
        };
        Ok(self.append_at(Pace::AtOnce, conversation.user, append).await?.turns)
    }

    /// Turns without their secrets, before they are named by hashes of what they say: a short secret could be guessed from
    /// those.
    async fn clean(&self, user: UserId, own: Vec<Own>) -> Result<Vec<Own>, EngineError> {
        let (turns, calls): (Vec<_>, Vec<_>) = own.into_iter().map(|own| (own.turn, own.call)).unzip();
        let Screened { turns, mut whole, .. } = self.screen(user, turns).await?;
        let own = turns.into_iter().zip(calls).enumerate();
        Ok(own.map(|(place, (turn, call))| Own { turn, call, whole: whole.remove(&place) }).collect())
    }

    /// What is known of a conversation in the session that its client names; `None` when nothing was heard there.
    async fn known_in(&self, talk: &Talk<'_>, session: &SessionId) -> Result<Option<Known>, EngineError> {
        let plain = chain::client_ids(talk.own, Link::BEGINNING);
        let heard = self.inner.journal.heard(talk.user, Some(session), &plain).await?;
        let depth = talk.depth(&plain, &heard);
        if depth > 0 && depth + 1 >= talk.users.len() && (talk.users.len() > 1 || !talk.is_alone()) {
            return Ok(Some(talk.known(session.clone(), plain, &heard)));
        }
        let lately = self.inner.journal.heard_lately(talk.user, Some(session), MARK).await?;
        if let Some(known) = talk.aligned(&lately, |run, covers| run >= 2 || covers, self.now()) {
            return Ok(Some(known));
        }
        if depth > 0 && !talk.is_alone() {
            return Ok(Some(talk.known(session.clone(), plain, &heard)));
        }
        // Something was said there before: this comes after it.
        Ok(lately.last().and_then(|(last, _)| Link::of_client_id(&last.client_id)).map(|link| Known {
            session: session.clone(),
            exchanges: Vec::new(),
            ids: chain::client_ids(talk.own, link),
            from: 0,
            answered: false,
        }))
    }

    /// What is known of a conversation in the session in which it was most likely heard; `None` when it is new.
    async fn known_anywhere(&self, talk: &Talk<'_>) -> Result<Option<Known>, EngineError> {
        let journal = &self.inner.journal;
        let plain = chain::client_ids(talk.own, Link::BEGINNING);
        let lately = self.now() - TimeDelta::minutes(IDLE_MINUTES);
        if talk.is_alone() {
            // Everybody says hello: only at once is it a retry.
            let Some(first) = talk.users.first().and_then(|&user| plain.get(user)) else { return Ok(None) };
            let heard = journal.heard_alone(talk.user, first, lately).await?;
            return Ok(heard.map(|heard| talk.known(heard.session.clone(), plain, std::slice::from_ref(&heard))));
        }
        let heard = journal.heard(talk.user, None, &plain).await?;
        let mut sessions: HashMap<&SessionId, Vec<Heard>> = HashMap::new();
        for one in &heard {
            sessions.entry(&one.session).or_default().push(one.clone());
        }
        let depth = |heard: &[Heard]| talk.depth(&plain, heard);
        let deepest = sessions.values().map(|heard| depth(heard)).max().unwrap_or(0);
        // The question itself may have been asked elsewhere as well: what stands before it says more.
        let before = deepest.min((talk.users.len() - 1).max(1));
        let quotes_of =
            |heard: &[Heard]| heard.iter().filter(|one| Link::of_client_id(&one.client_id).is_none()).count();
        let mut candidates: Vec<(&SessionId, &Vec<Heard>)> = sessions
            .iter()
            .filter(|(_, heard)| deepest > 0 && depth(heard) >= before)
            .map(|(session, heard)| (*session, heard))
            .collect();
        candidates.sort_by_key(|(_, heard)| {
            std::cmp::Reverse((quotes_of(heard), depth(heard), heard.iter().map(|one| one.seq).max()))
        });

        let mut chosen = candidates.first().copied().filter(|(_, heard)| quotes_of(heard) > 0);
        if chosen.is_none() && (before == 1 || candidates.len() > 1) {
            let at: Vec<ExchangeId> =
                candidates.iter().filter_map(|(_, heard)| talk.exchange_at(&plain, heard, before)).collect();
            let answers = journal.answers(talk.user, &at).await?;
            let theirs = talk.answer_to(before);
            chosen = candidates.iter().copied().find(|(_, heard)| {
                let answer = talk.exchange_at(&plain, heard, before).and_then(|exchange| answers.get(&exchange));
                answer.is_some_and(|answer| quotes(&theirs, answer))
            });
        }
        let fresh = |heard: &[Heard]| heard.iter().any(|one| one.last_at >= lately);
        let chosen = chosen.or_else(|| candidates.iter().copied().find(|(_, heard)| before > 1 || fresh(heard)));
        if let Some((session, heard)) = chosen
            && deepest + 1 >= talk.users.len()
        {
            return Ok(Some(talk.known((*session).clone(), plain.clone(), heard)));
        }
        // The client may have left the beginning out: then its first message is in the middle of what was heard.
        let recent = journal.heard_lately(talk.user, None, MARK).await?;
        let by_session = recent.chunk_by(|(one, _), (next, _)| one.session == next.session);
        let aligned = by_session.filter_map(|heard| talk.aligned(heard, |run, _| run >= 2, self.now())).next();
        Ok(aligned.or_else(|| chosen.map(|(session, heard)| talk.known((*session).clone(), plain.clone(), heard))))
    }

    /// A session of its own for a conversation that was never heard, or is purged.
    async fn session_for(&self, talk: &Talk<'_>) -> Result<SessionId, EngineError> {
        let users: Vec<skymem_store::NewTurn> =
            talk.users.iter().filter_map(|&user| talk.own.get(user)).map(|own| own.turn.clone()).collect();
        let first = talk.users.first().and_then(|&user| talk.own.get(user)).map(chain::text_hash).unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(talk.user.0);
        hash.update(first);
        let digest = hex::encode(hash.finalize());
        let stem = format!("chat-{}-", digest.get(..12).unwrap_or_default());
        Ok(self.inner.journal.free_session(talk.user, &stem, &users, !talk.is_alone()).await?)
    }
}

fn is_users(own: &Own) -> bool {
    own.turn.role == Role::User
}

/// The client id of the last of `own`, which has none in `ids` yet.
fn id_of_last(own: &[Own], ids: &[String]) -> String {
    let (before, from) = match own.iter().rposition(is_users) {
        Some(user) => (ids.get(user).and_then(|id| Link::of_client_id(id)), user + 1),
        None => (None, 0),
    };
    let rest = own.get(from..).unwrap_or_default();
    chain::client_ids(rest, before.unwrap_or(Link::BEGINNING)).pop().unwrap_or_default()
}

/// A conversation as it is looked for.
struct Talk<'a> {
    user: UserId,
    own: &'a [Own],
    /// The turns of the user among them.
    users: &'a [usize],
}

/// What is known of a conversation.
struct Known {
    session: SessionId,
    exchanges: Vec<ExchangeId>,
    ids: Vec<String>,
    from: usize,
    answered: bool,
}

impl Talk<'_> {
    /// Whether nothing was answered yet, as far as the client tells.
    fn is_alone(&self) -> bool {
        self.users.len() == 1 && self.users.first() == Some(&(self.own.len() - 1))
    }

    /// How many of the user's turns there are up to the last one that was heard.
    fn depth(&self, ids: &[String], heard: &[Heard]) -> usize {
        let known: HashSet<&str> = heard.iter().map(|one| one.client_id.as_str()).collect();
        let is_known = |user: &usize| ids.get(*user).is_some_and(|id| known.contains(id.as_str()));
        self.users.iter().rposition(is_known).map_or(0, |place| place + 1)
    }

    /// The exchange in which the user's turn number `depth` was heard.
    fn exchange_at(&self, ids: &[String], heard: &[Heard], depth: usize) -> Option<ExchangeId> {
        let id = ids.get(*self.users.get(depth.checked_sub(1)?)?)?;
        heard.iter().find(|one| one.client_id == *id).map(|one| one.exchange)
    }

    /// What the client sends as the answer to the user's turn number `depth`.
    fn answer_to(&self, depth: usize) -> String {
        let from = depth.checked_sub(1).and_then(|place| self.users.get(place)).map_or(0, |user| user + 1);
        let until = self.users.get(depth).copied().unwrap_or(self.own.len());
        let answers = self.own.get(from..until).unwrap_or_default();
        let texts = answers.iter().filter(|own| own.turn.role == Role::Assistant).map(|own| own.turn.text.as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    fn known(&self, session: SessionId, ids: Vec<String>, heard: &[Heard]) -> Known {
        let depth = self.depth(&ids, heard);
        let from = depth.checked_sub(1).and_then(|place| self.users.get(place)).copied().unwrap_or(0);
        let last = ids.get(from).and_then(|id| heard.iter().find(|one| one.client_id == *id));
        let mut exchanges: Vec<ExchangeId> = heard.iter().map(|one| one.exchange).collect();
        exchanges.sort_unstable();
        exchanges.dedup();
        Known { session, exchanges, from, answered: last.is_some_and(|last| last.answered), ids }
    }

    /// The conversation laid along what was heard in one session, by its words: for a client that leaves the beginning
    /// out. `enough` says whether a run of so many turns counts, and one that covers all that the client sends.
    fn aligned(
        &self,
        heard: &[(Heard, Vec<u8>)],
        enough: impl Fn(usize, bool) -> bool,
        now: chrono::DateTime<chrono::Utc>,
    ) -> Option<Known> {
        let theirs: Vec<&[u8]> = heard.iter().map(|(_, hash)| hash.as_slice()).collect();
        let hashes: Vec<Vec<u8>> =
            self.users.iter().filter_map(|&user| self.own.get(user)).map(chain::text_hash).collect();
        let mine: Vec<&[u8]> = hashes.iter().map(Vec::as_slice).collect();
        let (last, before) = (mine.len(), mine.len().saturating_sub(1));
        // Up to the question itself, when it is asked again, or up to the one before it.
        let runs = [last, before].into_iter().filter_map(|count| {
            let (run, end) = chain::longest_common_end(&theirs, mine.get(..count)?)?;
            let (one, _) = heard.get(end)?;
            // The last words alone may well be said twice; at once, and with nothing in between, they are a retry.
            let again = count == last && run == 1;
            let retried = end + 1 == heard.len() && one.last_at >= now - TimeDelta::minutes(IDLE_MINUTES);
            // From beginning to beginning it is known by its place, or it is another with the same words.
            let whole = !again && run == count && end + 1 == run;
            let counts = if whole {
                false
            } else if again {
                last == 1 && retried && enough(run, true)
            } else {
                enough(run, run == count)
            };
            counts.then_some((run, count, end))
        });
        let (run, count, end) = runs.max()?;
        let (one, _) = heard.get(end)?;
        let link = Link::of_client_id(&one.client_id)?;
        let from = *self.users.get(count - 1)?;
        let mut ids = chain::client_ids(self.own.get(..from)?, Link::BEGINNING);
        ids.push(one.client_id.clone());
        ids.extend(chain::client_ids(self.own.get(from + 1..)?, link));
        let quoted = heard.get((end + 1).saturating_sub(run)..=end)?;
        Some(Known {
            session: one.session.clone(),
            exchanges: quoted.iter().map(|(one, _)| one.exchange).collect(),
            ids,
            from,
            answered: one.answered,
        })
    }
}

/// Whether a client sends back what was answered, in its own wrapping or without what it strips.
fn quotes(sent: &str, answered: &str) -> bool {
    const ENOUGH: usize = 200;
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (sent, answered) = (plain(sent), plain(answered));
    let (short, long) = if sent.len() <= answered.len() { (&sent, &answered) } else { (&answered, &sent) };
    let beginning = short.get(..short.floor_char_boundary(ENOUGH)).unwrap_or_default();
    !beginning.is_empty() && long.contains(beginning)
}

#[cfg(test)]
mod tests;
