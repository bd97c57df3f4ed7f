//! The name of a turn by its place in a conversation: a hash of all that the user said up to there. Pure.
//!
//! The words of an assistant are not in it: clients strip and wrap them before they send them back. So a message that
//! was edited is a new turn, and an answer that was asked for again stands beside the first one.

use sha2::{Digest, Sha256};
use skymem_core::Role;
use skymem_store::NewTurn;

/// What the client ids of such turns begin with.
pub(super) const MARK: &str = "heard:";

/// A place in a conversation: after everything that the user said so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link([u8; LINK_BYTES]);

const LINK_BYTES: usize = 16;

/// A turn as it is compared: without what skymem had put into it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Own {
    /// What is written down, without an id yet.
    pub(super) turn: NewTurn,
    /// The ids of the tool calls it makes or answers.
    pub(super) call: Option<String>,
    /// With its secrets, when they are to be sealed.
    pub(super) whole: Option<NewTurn>,
}

impl Link {
    /// Before anything was said.
    pub(super) const BEGINNING: Self = Self([0; LINK_BYTES]);

    /// The place after the user said this as well.
    pub(super) fn after(self, own: &Own) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(said(&own.turn));
        Self(first_bytes(hash))
    }

    /// The id of the user's turn that leads here.
    pub(super) fn client_id(self) -> String {
        format!("{MARK}{}", hex::encode(self.0))
    }

    /// The place that a user's turn of that id leads to.
    pub(super) fn of_client_id(client_id: &str) -> Option<Self> {
        let mut link = [0; LINK_BYTES];
        hex::decode_to_slice(client_id.strip_prefix(MARK)?, &mut link).ok()?;
        Some(Self(link))
    }

    /// The id of what follows at place `index` before the user speaks again. A call of a tool and its result are known
    /// by the ids of the calls, everything else by its words.
    fn client_id_of(self, index: usize, own: &Own) -> String {
        let letter = match own.turn.role {
            Role::User => 'u',
            Role::Assistant => 'a',
            Role::System => 's',
            Role::Tool => 't',
        };
        let mut hash = Sha256::new();
        match &own.call {
            Some(call) => hash.update(call),
            None => hash.update(said(&own.turn)),
        }
        let words: [u8; 8] = first_bytes(hash);
        format!("{MARK}{}:{letter}{index}:{}", hex::encode(self.0), hex::encode(words))
    }
}

/// The client id of each turn of a conversation that goes on from `link`.
pub(super) fn client_ids(turns: &[Own], mut link: Link) -> Vec<String> {
    let mut index = 0;
    let id = |own: &Own| {
        if own.turn.role == Role::User {
            (link, index) = (link.after(own), 0);
            return link.client_id();
        }
        index += 1;
        link.client_id_of(index - 1, own)
    };
    turns.iter().map(id).collect()
}

/// SHA-256 of a turn's text, as the journal compares it.
pub(super) fn text_hash(own: &Own) -> Vec<u8> {
    Sha256::digest(&own.turn.text).to_vec()
}

/// The longest run of turns that ends in both at the last of `mine`, and in `theirs` as late as possible: how long it
/// is, and where it ends in `theirs`.
pub(super) fn longest_common_end<T: PartialEq>(theirs: &[T], mine: &[T]) -> Option<(usize, usize)> {
    let run = |end: usize| {
        let theirs = theirs.get(..=end).unwrap_or_default();
        theirs.iter().rev().zip(mine.iter().rev()).take_while(|(theirs, mine)| theirs == mine).count()
    };
    (0..theirs.len()).map(|end| (run(end), end)).filter(|(length, _)| *length > 0).max()
}

/// What was said: the words, or, where there are none, the content itself.
fn said(turn: &NewTurn) -> Vec<u8> {
    match (turn.text.trim(), &turn.parts) {
        ("", Some(parts)) => parts.to_string().into_bytes(),
        (text, _) => text.as_bytes().to_vec(),
    }
}

fn first_bytes<const N: usize>(hash: Sha256) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.iter_mut().zip(hash.finalize()).for_each(|(byte, hashed)| *byte = hashed);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn own(role: Role, text: &str) -> Own {
        Own { turn: NewTurn::new(role, text), call: None, whole: None }
    }

    fn ids(turns: &[(Role, &str)]) -> Vec<String> {
        let turns: Vec<Own> = turns.iter().map(|(role, text)| own(*role, text)).collect();
        client_ids(&turns, Link::BEGINNING)
    }

    #[test]
    fn the_same_words_at_another_place_are_another_turn() {
        use Role::{Assistant, User};

        let first = ids(&[(User, "hi"), (Assistant, "hello"), (User, "yes"), (Assistant, "ok"), (User, "yes")]);

        assert_ne!(first[2], first[4]);
        let rewrapped = ids(&[(User, "hi"), (Assistant, "Hello!!"), (User, " yes\n")]);
        assert_eq!(rewrapped[2], first[2], "an answer that comes back otherwise changes no question");
        assert_ne!(rewrapped[1], first[1], "but is another answer");
        let edited = ids(&[(User, "hey"), (Assistant, "hello"), (User, "yes")]);
        assert!(edited.iter().all(|id| !first.contains(id)), "what follows an edit is new");
    }

    #[test]
    fn a_call_of_a_tool_is_known_by_its_id_however_it_is_written() {
        let call = |text: &str, call: &str| Own { call: Some(call.into()), ..own(Role::Assistant, text) };
        let id = |own: Own| client_ids(&[own], Link::BEGINNING).remove(0);

        assert_eq!(id(call("{}", "c1")), id(call("{ }", "c1")));
        assert_ne!(id(call("{}", "c1")), id(call("{}", "c2")));
    }

    #[test]
    fn a_place_is_found_again_from_its_id() {
        let link = Link::BEGINNING.after(&own(Role::User, "hi"));

        assert_eq!(Link::of_client_id(&link.client_id()), Some(link));
        for other in ["heard:", "heard:00", "mine", &format!("{}:a0:00", link.client_id())] {
            assert_eq!(Link::of_client_id(other), None, "{other}");
        }
    }

    #[test]
    fn the_longest_run_that_ends_both_is_found() {
        let find = |theirs: &str, mine: &str| {
            longest_common_end(&theirs.chars().collect::<Vec<_>>(), &mine.chars().collect::<Vec<_>>())
        };
        assert_eq!(find("abcd", "cd"), Some((2, 3)));
        assert_eq!(find("abcdabc", "bc"), Some((2, 6)), "the later one of two");
        assert_eq!(find("abcd", "xbc"), Some((2, 2)));
        assert_eq!(find("abcd", "x"), None);
        assert_eq!(find("", "x"), None);
        assert_eq!(find("a", ""), None);
    }

    proptest! {
        #[test]
        fn a_longer_conversation_keeps_the_ids_of_the_shorter(
            turns in prop::collection::vec((any::<bool>(), "[a-c]{0,3}"), 0..12),
            cut in 0_usize..12,
        ) {
            let role = |user: bool| if user { Role::User } else { Role::Assistant };
            let turns: Vec<Own> = turns.iter().map(|(user, text)| own(role(*user), text)).collect();
            let cut = cut.min(turns.len());

            let whole = client_ids(&turns, Link::BEGINNING);

            prop_assert_eq!(&client_ids(&turns[..cut], Link::BEGINNING)[..], &whole[..cut]);
            let distinct: std::collections::HashSet<&String> = whole.iter().collect();
            prop_assert_eq!(distinct.len(), whole.len());
        }
    }
}
