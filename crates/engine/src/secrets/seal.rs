//! Sealing secrets: an exchange that holds one goes, whole, to the user's sealed collection, and the rest of the session stays
//! where it is.
//!
//! What is sealed stands in a session of its own, [`beside`] the one it was said in: a session that is sealed would draw all
//! that is said next into the sealed collection too.

use std::collections::BTreeSet;

use skymem_core::conversation::BadName;
use skymem_core::{Collection, ExchangeKind, Role, SessionId, Source, UserId};
use skymem_store::{Append, Appended, AppendedTurn, NewTurn, SecretPolicy, SessionChange};
use uuid::Uuid;

use super::Screened;
use crate::error::EngineError;
use crate::memory::Memory;
use crate::record::Pace;

/// What of an append is sealed, and where.
pub(crate) struct Apart {
    collection: Collection,
    session: SessionId,
    /// The places of the turns.
    places: BTreeSet<usize>,
}

impl Memory {
    /// What of `append` is to be sealed, given what was met in it, which is put back into it whole; `None` when nothing is.
    pub(crate) async fn apart(
        &self,
        user: UserId,
        append: &mut Append,
        screened: Screened,
    ) -> Result<Option<Apart>, EngineError> {
        let Screened { turns, whole, met } = screened;
        append.turns = turns;
        if append.kind == ExchangeKind::Stated {
            // Facts are kept in the clear; what they must not say was left out before.
            return Ok(None);
        }
        // An answer may come by itself, later than its question.
        let answers =
            append.kind == ExchangeKind::Said && append.turns.first().is_some_and(|turn| turn.role != Role::User);
        if whole.is_empty() && !answers {
            return Ok(None);
        }
        let collection = match met.collection {
            Some(collection) => Some(collection),
            None => match self.secret_policy(user).await? {
                (SecretPolicy::Seal, collection) => collection,
                _ => None,
            },
        };
        let Some(collection) = collection else { return Ok(None) };
        let journal = &self.inner.journal;
        let kept = match append.settings.memory {
            Some(memory) => Some(memory),
            None => journal.session(user, &append.session).await?.map(|session| session.memory),
        };
        if kept.is_some_and(|memory| !memory.writes()) {
            return Ok(None);
        }
        let held: BTreeSet<usize> = whole.keys().copied().collect();
        if let Some(home) = journal.sealed_home_of_append(user, append).await? {
            put_back(&mut append.turns, whole);
            let places = (0..append.turns.len()).collect();
            return Ok((!held.is_empty()).then(|| Apart { collection: home, session: append.session.clone(), places }));
        }
        let session = beside(&append.session)?;
        let follows = answers && journal.sealed_since(user, &collection, &session, &append.session).await?;
        put_back(&mut append.turns, whole);
        let places = places(append.kind, &append.turns, &held, follows);
        Ok((!places.is_empty()).then_some(Apart { collection, session, places }))
    }

    /// Appends what is sealed, then the rest; what became of each turn, in the order of `append`. When the second fails, the
    /// same append may be sent again: what was written is known again.
    pub(crate) async fn append_apart(
        &self,
        pace: Pace,
        user: UserId,
        mut append: Append,
        apart: Apart,
    ) -> Result<Appended, EngineError> {
        let Apart { collection, session, places } = apart;
        let turns = std::mem::take(&mut append.turns);
        let (sealed, open): (Vec<_>, Vec<_>) =
            turns.into_iter().enumerate().partition(|(place, _)| places.contains(place));
        let of = |turns: Vec<(usize, NewTurn)>| turns.into_iter().map(|(_, turn)| turn).collect();
        let sealing = Append {
            session,
            turns: of(sealed),
            settings: SessionChange::default(),
            collection: None,
            ..append.clone()
        };
        let mut sealed = self.journal().append_sealed_only(user, &collection, sealing).await?;
        append.turns = of(open);
        if append.turns.is_empty() {
            return Ok(sealed);
        }
        let open = self.append_to_journal(pace, user, append).await?;
        sealed.exchanges.extend(open.exchanges);
        let (mut of_sealed, mut of_open) = (sealed.turns.into_iter(), open.turns.into_iter());
        let mut turns: Vec<AppendedTurn> = Vec::new();
        for place in 0..of_sealed.len() + of_open.len() {
            let of = if places.contains(&place) { &mut of_sealed } else { &mut of_open };
            turns.extend(of.next());
        }
        Ok(Appended { turns, exchanges: sealed.exchanges })
    }

    /// Writes notes into a sealed collection, beside a session.
    pub(crate) async fn seal_notes(
        &self,
        user: UserId,
        collection: &Collection,
        session: &SessionId,
        notes: Vec<String>,
    ) -> Result<(), EngineError> {
        let note = |text: String| NewTurn {
            client_id: Some(format!("note:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()))),
            ..NewTurn::new(Role::User, text)
        };
        let append = Append {
            session: beside(session)?,
            collection: None,
            kind: ExchangeKind::Asserted,
            source: Source::default(),
            turns: notes.into_iter().map(note).collect(),
            recorded_at: self.now(),
            settings: SessionChange::default(),
        };
        self.journal().append_sealed_only(user, collection, append).await?;
        Ok(())
    }
}

/// The session that what is sealed of `session` stands in.
fn beside(session: &SessionId) -> Result<SessionId, EngineError> {
    let named = format!("secrets:{session}").parse();
    // A name that has become too long is replaced by one that stands for it.
    let short = || format!("secrets:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, session.as_str().as_bytes())).parse();
    named.or_else(|_| short()).map_err(|bad: BadName| EngineError::Refused(bad.0))
}

fn put_back(turns: &mut [NewTurn], whole: impl IntoIterator<Item = (usize, NewTurn)>) {
    for (place, turn) in whole {
        if let Some(slot) = turns.get_mut(place) {
            *slot = turn;
        }
    }
}

/// The places of the turns that are sealed: those of exchanges in which something is `held`, and, when the first ones follow
/// what is sealed, theirs. Rather one turn too many than one too few: of two questions in a row both go.
fn places(kind: ExchangeKind, turns: &[NewTurn], held: &BTreeSet<usize>, follows: bool) -> BTreeSet<usize> {
    let mut sealed = BTreeSet::new();
    let mut from = 0;
    while from < turns.len() {
        let alone = kind != ExchangeKind::Said;
        let length = turns.get(from..).map_or(1, |rest| if alone { 1 } else { exchange(rest) });
        let here = from..from + length.max(1);
        let answers = from == 0 && follows && turns.first().is_some_and(|turn| turn.role != Role::User);
        if answers || held.range(here.clone()).next().is_some() {
            sealed.extend(here.clone());
        }
        from = here.end;
    }
    sealed
}

/// How many turns at the beginning belong together: up to the first of a user that comes after an answer.
fn exchange(turns: &[NewTurn]) -> usize {
    let mut answered = false;
    let end = turns.iter().position(|turn| {
        let begins = turn.role == Role::User && answered;
        answered = answered || matches!(turn.role, Role::Assistant | Role::Tool);
        begins
    });
    end.unwrap_or(turns.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `turns` are words: `u`, `a`, `s`, `t` for the roles, in capitals where they hold a secret; what is sealed of them is
    /// marked in `expected`.
    fn check(turns: &str, follows: bool, expected: &str) {
        let (mut said, mut held) = (Vec::new(), BTreeSet::new());
        for (place, letter) in turns.chars().enumerate() {
            let role = match letter.to_ascii_lowercase() {
                'u' => Role::User,
                'a' => Role::Assistant,
                's' => Role::System,
                _ => Role::Tool,
            };
            said.push(NewTurn::new(role, "x"));
            if letter.is_ascii_uppercase() {
                held.insert(place);
            }
        }
        let sealed = places(ExchangeKind::Said, &said, &held, follows);
        let marks: String = (0..said.len()).map(|place| if sealed.contains(&place) { '#' } else { '.' }).collect();
        assert_eq!(marks, expected, "{turns}");
    }

    #[test]
    fn the_whole_exchange_goes_with_a_secret_and_its_neighbours_stay() {
        check("ua", false, "..");
        check("Ua", false, "##");
        check("uA", false, "##");
        check("uaUaua", false, "..##..");
        check("suTaua", false, "####..");
        check("uUaua", false, "###..");
        check("uauA", false, "..##");
    }

    #[test]
    fn an_answer_follows_its_question() {
        check("a", true, "#");
        check("taua", true, "##..");
        check("a", false, ".");
        check("A", false, "#");
        check("u", true, ".");
    }

    #[test]
    fn notes_stand_alone() {
        let notes = [NewTurn::new(Role::User, "a"), NewTurn::new(Role::User, "b")];
        assert_eq!(places(ExchangeKind::Asserted, &notes, &BTreeSet::from([1]), false), BTreeSet::from([1]));
    }

    #[test]
    fn there_is_a_session_beside_every_session() {
        assert_eq!(beside(&"chat".parse().unwrap()).unwrap().as_str(), "secrets:chat");
        let long: SessionId = "x".repeat(200).parse().unwrap();
        assert!(beside(&long).unwrap().as_str().starts_with("secrets:"));
    }
}
