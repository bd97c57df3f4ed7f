//! Which turns belong together: pure.
//!
//! A user's turn begins an exchange; what follows it joins, up to the next user's turn. So an unanswered question is an
//! exchange of its own when the next one comes. Besides:
//!
//! - Instructions and tool results that stand first wait for the user's turn, and it joins them.
//! - An assistant's turn that stands first (a greeting) is an exchange of its own.
//! - Between named people each turn has a speaker: a user's turn joins the single turn of another named speaker, so
//!   that pairs of turns form exchanges although all of them are users.
//! - What is told to memory directly stands alone.
//! - An exchange holds at most [`MOST_TURNS`]; it is observed whole each time it grows.
//! - An answer to a forgotten question joins it and stays hidden with it; a user's turn never does.

use skymem_core::{Collection, ExchangeId, ExchangeKind, Role};

/// A run of tool calls longer than this is continued in an exchange of its own.
const MOST_TURNS: usize = 100;

/// An exchange that may still grow.
#[derive(Debug, Clone)]
pub(super) struct Open {
    pub(super) id: ExchangeId,
    pub(super) collection: Collection,
    pub(super) forgotten: bool,
    turns: usize,
    voices: Voices,
}

/// Who was heard in an exchange so far, leaving out instructions and tools.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Voices {
    Nobody,
    OneUser { speaker: Option<String> },
    More,
}

impl Open {
    /// A new exchange, without turns yet.
    pub(super) fn new(id: ExchangeId, collection: Collection) -> Self {
        Self { id, collection, forgotten: false, turns: 0, voices: Voices::Nobody }
    }

    /// One of which only so much is known: how many turns it has, and who was heard in it, without names.
    pub(super) fn resumed(id: ExchangeId, collection: Collection, turns: usize, voices: &str) -> Self {
        let voices = match voices {
            "nobody" => Voices::Nobody,
            "one_user" => Voices::OneUser { speaker: None },
            _ => Voices::More,
        };
        Self { id, collection, forgotten: false, turns, voices }
    }

    /// How many turns it has.
    pub(super) fn turns(&self) -> usize {
        self.turns
    }

    /// Who was heard in it, as [`Open::resumed`] takes it.
    pub(super) fn voices(&self) -> &'static str {
        match self.voices {
            Voices::Nobody => "nobody",
            Voices::OneUser { .. } => "one_user",
            Voices::More => "more",
        }
    }

    /// Hears one more turn of it.
    pub(super) fn hear(&mut self, role: Role, speaker: Option<&str>) {
        self.turns += 1;
        self.voices = match (&self.voices, role) {
            (_, Role::System | Role::Tool) => return,
            (Voices::Nobody, Role::User) => Voices::OneUser { speaker: speaker.map(str::to_owned) },
            _ => Voices::More,
        };
    }

    /// Whether the next turn is part of it.
    pub(super) fn takes(
        &self,
        kind: ExchangeKind,
        role: Role,
        speaker: Option<&str>,
        collection: Option<&Collection>,
    ) -> bool {
        let same_shelf = collection.is_none_or(|collection| *collection == self.collection);
        if kind != ExchangeKind::Said || !same_shelf || self.turns >= MOST_TURNS {
            return false;
        }
        match (role, &self.voices) {
            (Role::User, _) if self.forgotten => false,
            (Role::User, Voices::Nobody) => true,
            (Role::User, Voices::OneUser { speaker: Some(other) }) => speaker.is_some_and(|name| name != other),
            (Role::User, _) => false,
            (Role::Assistant | Role::System | Role::Tool, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// `turns` and `exchanges` are words: `u`, `a`, `s`, `t` for the roles, `u:anna` with a speaker; `|` is a border.
    fn check(expected: &str) {
        let mut open: Option<Open> = None;
        let mut borders = Vec::new();
        for word in expected.split_whitespace().filter(|word| *word != "|") {
            let (role, speaker) = said(word);
            let joins = open.as_ref().is_some_and(|open| open.takes(ExchangeKind::Said, role, speaker, None));
            if !joins {
                if open.is_some() {
                    borders.push("|");
                }
                open = Some(Open::new(ExchangeId(Uuid::nil()), Collection::default()));
            }
            if let Some(open) = &mut open {
                open.hear(role, speaker);
            }
            borders.push(word);
        }
        assert_eq!(borders.join(" "), expected);
    }

    fn said(word: &str) -> (Role, Option<&str>) {
        let (role, speaker) = word.split_once(':').map_or((word, None), |(role, speaker)| (role, Some(speaker)));
        let role = match role {
            "u" => Role::User,
            "a" => Role::Assistant,
            "s" => Role::System,
            "t" => Role::Tool,
            other => panic!("no role {other}"),
        };
        (role, speaker)
    }

    #[test]
    fn an_exchange_is_a_users_turn_and_what_follows_it() {
        check("u a | u a | u a");
        check("u a t t a | u a s | u");
    }

    #[test]
    fn an_unanswered_question_is_an_exchange_of_its_own() {
        check("u | u a");
        check("u | u | u");
    }

    #[test]
    fn instructions_that_stand_first_wait_for_the_user() {
        check("s u a | u a");
        check("s s t u a | u");
    }

    #[test]
    fn a_greeting_is_an_exchange_of_its_own() {
        check("a | u a");
        check("s a | u a");
    }

    #[test]
    fn pairs_of_turns_of_named_people_form_exchanges() {
        check("u:anna u:ben | u:anna u:ben");
        check("u:anna | u:anna u:ben | u:cem u:anna");
        check("u:anna a:ben | u:anna a:ben");
        check("u:anna a | u:ben");
        check("u | u:ben | u");
    }

    #[test]
    fn a_long_run_of_tool_results_is_continued_in_another_exchange() {
        let full = format!("u{}", " t".repeat(MOST_TURNS - 1));
        check(&format!("{full} | t t a"));
    }

    #[test]
    fn an_answer_to_a_forgotten_question_stays_hidden_with_it_and_the_next_question_does_not() {
        let mut open = Open::new(ExchangeId(Uuid::nil()), Collection::default());
        open.hear(Role::System, None);
        open.forgotten = true;

        assert!(!open.takes(ExchangeKind::Said, Role::User, None, None));
        open.hear(Role::User, None);
        assert!(open.takes(ExchangeKind::Said, Role::Assistant, None, None));
    }

    #[test]
    fn another_shelf_is_another_exchange() {
        let mut open = Open::new(ExchangeId(Uuid::nil()), Collection::default());
        open.hear(Role::User, None);
        let work: Collection = "work".parse().unwrap();

        assert!(!open.takes(ExchangeKind::Said, Role::Assistant, None, Some(&work)));
        assert!(open.takes(ExchangeKind::Said, Role::Assistant, None, Some(&Collection::default())));
        for told in [ExchangeKind::Asserted, ExchangeKind::Stated] {
            assert!(!open.takes(told, Role::Assistant, None, None));
        }
    }
}
