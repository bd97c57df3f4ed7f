//! What was said: users, sessions, turns and exchanges.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::facts::Statement;

/// Some turns that belong together: a user turn and what follows it up to the next user turn.
///
/// This is what layers observe, what is forgotten, and what a recall points at. It is observed when it appears and
/// again, whole, when it grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Whose memory it is.
    pub user: UserId,
    /// Its name for ever; stays the same while it grows.
    pub id: ExchangeId,
    /// The conversation it was said in.
    pub session: SessionId,
    /// The shelf it stands on.
    pub collection: Collection,
    /// Said in a conversation, or told to memory directly.
    pub kind: ExchangeKind,
    /// Where it came from: `session`, `import:<file>`, ...
    pub source: Source,
    /// Pinned exchanges do not decay and are spared by pruning.
    pub pinned: bool,
    /// Its turns, oldest first; never empty.
    pub turns: Vec<Turn>,
}

impl Exchange {
    /// Place of its first turn in the journal of its user; zero for an exchange without turns.
    #[must_use]
    pub fn first_seq(&self) -> Seq {
        self.turns.first().map_or(Seq(0), |turn| turn.seq)
    }

    /// Place of its last turn in the journal of its user; zero for an exchange without turns.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.turns.last().map_or(Seq(0), |turn| turn.seq)
    }

    /// When its first turn was said; `None` for an exchange without turns.
    #[must_use]
    pub fn occurred_at(&self) -> Option<DateTime<Utc>> {
        self.turns.first().map(|turn| turn.occurred_at)
    }
}

/// One message: who said what, when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Place in the journal of its user; grows in commit order, with gaps.
    pub seq: Seq,
    /// The part its speaker plays.
    pub role: Role,
    /// The speaker's name, in a conversation between named people or agents.
    pub speaker: Option<String>,
    /// What was said, as plain text. Of OpenAI content parts, the text ones, a line each.
    pub text: String,
    /// When it was said.
    pub occurred_at: DateTime<Utc>,
    /// When it was written down here.
    pub recorded_at: DateTime<Utc>,
    /// What it says as a statement, of an exchange that is [`ExchangeKind::Stated`]; `text` is the same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<Box<Statement>>,
}

/// The part a speaker plays in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The language model.
    Assistant,
    /// Instructions; stored, does not break the pairing of exchanges.
    System,
    /// A tool's result; stored, does not break the pairing of exchanges.
    Tool,
}

impl Role {
    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Tool => "tool",
        }
    }
}

impl FromStr for Role {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "user" => Ok(Role::User),
            "assistant" => Ok(Role::Assistant),
            // OpenAI's newer name for instructions.
            "system" | "developer" => Ok(Role::System),
            "tool" | "function" => Ok(Role::Tool),
            _ => Err(BadName("a role is one of user, assistant, system, tool".into())),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How an exchange came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeKind {
    /// Said in a conversation.
    Said,
    /// Told to memory directly ("remember this").
    Asserted,
    /// Told to memory as a statement about facts: for the layer that keeps them alone.
    Stated,
}

impl ExchangeKind {
    /// The word used in SQL and on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ExchangeKind::Said => "said",
            ExchangeKind::Asserted => "asserted",
            ExchangeKind::Stated => "stated",
        }
    }
}

impl FromStr for ExchangeKind {
    type Err = BadName;

    fn from_str(word: &str) -> Result<Self, BadName> {
        match word {
            "said" => Ok(ExchangeKind::Said),
            "asserted" => Ok(ExchangeKind::Asserted),
            "stated" => Ok(ExchangeKind::Stated),
            _ => Err(BadName("a kind of exchange is one of said, asserted, stated".into())),
        }
    }
}

/// Someone whose memory is kept here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// In every key of every table.
    pub id: UserId,
    /// The name of their folder, and what people call them by.
    pub name: UserName,
}

/// Place in a user's journal, increasing in commit order, with gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub i64);

/// Names a user for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub Uuid);

/// Names an exchange for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExchangeId(pub Uuid);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ExchangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A name from outside that cannot be one; says what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadName(pub String);

/// A short text from outside that names something: parsed once, trusted afterwards.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $longest:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text itself.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                let allowed: fn(&str) -> Result<(), &'static str> = $allowed;
                if text.is_empty() {
                    return Err(BadName(concat!($what, " must not be empty").into()));
                }
                if text.chars().count() > $longest {
                    return Err(BadName(format!(concat!($what, " has at most {} characters"), $longest)));
                }
                allowed(text).map_err(|why| BadName(format!(concat!($what, " {}"), why)))?;
                Ok(Self(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadName;

            fn try_from(text: String) -> Result<Self, BadName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// Names one conversation; the client chooses it. Up to 200 printable characters.
    SessionId, "a session id", 200, printable
);
name!(
    /// Names a shelf of exchanges that are kept, recalled and pruned together.
    Collection, "a collection's name", 64, plain
);
name!(
    /// Where an exchange came from: `session`, `import:chat.jsonl`, `remember`, ...
    Source, "a source", 200, printable
);
name!(
    /// The name of a user, which is the name of their folder too: lower-case letters, digits, `-` and `_`.
    UserName, "a user's name", 64, plain
);

impl Default for Collection {
    /// The shelf that everything stands on unless told otherwise.
    fn default() -> Self {
        Self("default".into())
    }
}

impl Default for Source {
    /// Said in a session.
    fn default() -> Self {
        Self("session".into())
    }
}

fn printable(text: &str) -> Result<(), &'static str> {
    if text.chars().any(char::is_control) { Err("has no control characters") } else { Ok(()) }
}

/// Safe as a folder name on every system, in a URL and in a log.
fn plain(text: &str) -> Result<(), &'static str> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let all_well = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_');
    if starts_well && all_well {
        Ok(())
    } else {
        Err("is made of lower-case letters, digits, '-' and '_', and begins with a letter or digit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_leave_its_folder_is_no_user_name() {
        for bad in ["", "..", "a/b", "A", "a b", "-a", "ä", "a\0", &"x".repeat(65)] {
            assert!(bad.parse::<UserName>().is_err(), "{bad:?}");
        }
        assert!("anna-2_b".parse::<UserName>().is_ok());
    }

    #[test]
    fn a_session_id_is_the_clients_own_text_within_reason() {
        assert!("chat 17 / 昨天".parse::<SessionId>().is_ok());
        for bad in ["", "a\nb", "a\0b", &"x".repeat(201)] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad:?}");
        }
    }
}
