//! The last exchanges of a session, word for word. Read from the journal, so that they are the same after a restart.

use skymem_core::{Exchange, ExchangeId, Role, SessionId, Tokens, Turn, UserId};
use skymem_store::{Journal, StoreError};

use super::Message;
use super::render::price_of_message;
use super::sanitise::sanitise;

/// Never more exchanges than this stand word for word.
pub(crate) const MOST_EXCHANGES: usize = 8;

/// The last exchanges of a session.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Oldest first.
    pub(crate) exchanges: Vec<Verbatim>,
    /// Older ones for which there is no room in any case; they can be recalled, if only in parts.
    pub(crate) cut: Vec<Verbatim>,
    /// The question itself, when the client wrote it down before it asked for context.
    pub(crate) question: Option<ExchangeId>,
}

/// One exchange, word for word but harmless.
#[derive(Debug)]
pub(crate) struct Verbatim {
    pub(crate) exchange: ExchangeId,
    pub(crate) messages: Vec<Message>,
    pub(crate) price: Tokens,
}

/// The last `most` exchanges of a session.
pub(crate) async fn read(
    journal: &Journal,
    user: UserId,
    session: &SessionId,
    most: usize,
    question: &str,
) -> Result<Window, StoreError> {
    // One more than wanted: the last may be the question.
    let mut exchanges = journal.window(user, session, most + 1).await?;
    let question = exchanges.pop_if(|last| asks(last, question)).map(|exchange| exchange.id);
    let last = exchanges.get(exchanges.len().saturating_sub(most)..).unwrap_or_default();
    let exchanges = last.iter().map(Verbatim::of).collect();
    Ok(Window { exchanges, cut: Vec::new(), question })
}

impl Window {
    /// Leaves out the oldest exchanges for which there is no room in any case.
    pub(crate) fn cut(&mut self, room: Tokens) {
        let mut left = room;
        let fits = |verbatim: &&Verbatim| {
            let fits = verbatim.price <= left;
            left = left.less(verbatim.price);
            fits
        };
        let kept = self.exchanges.iter().rev().take_while(fits).count();
        let cut = self.exchanges.len() - kept;
        self.cut.extend(self.exchanges.drain(..cut));
    }

    /// The exchanges that are not to be recalled.
    pub(crate) fn ids(&self) -> Vec<ExchangeId> {
        self.exchanges.iter().map(|verbatim| verbatim.exchange).chain(self.question).collect()
    }
}

impl Verbatim {
    fn of(exchange: &Exchange) -> Self {
        let messages = messages(&exchange.turns);
        let price = messages.iter().map(price_of_message).sum();
        Self { exchange: exchange.id, messages, price }
    }
}

/// Whether an exchange is nothing but `question`, not answered yet.
fn asks(exchange: &Exchange, question: &str) -> bool {
    matches!(exchange.turns.as_slice(), [turn] if turn.role == Role::User && turn.text.trim() == question.trim())
}

/// Turns as messages that every chat model takes. Instructions of the past are left out: the client sends its own. A
/// tool's result becomes part of what the assistant said, for without the call that it answers it may not stand alone.
fn messages(turns: &[Turn]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    for turn in turns {
        let text = sanitise(&turn.text);
        if text.trim().is_empty() {
            continue;
        }
        let (role, content) = match turn.role {
            Role::System => continue,
            Role::Tool => (Role::Assistant, format!("(Result of a tool: {text})")),
            role => (role, text.into_owned()),
        };
        let content = match &turn.speaker {
            Some(speaker) if turn.role != Role::Tool => format!("{}: {content}", sanitise(speaker)),
            _ => content,
        };
        match messages.last_mut() {
            Some(last) if last.role == Role::Assistant && role == Role::Assistant => {
                last.content.push_str("\n\n");
                last.content.push_str(&content);
            }
            _ => messages.push(Message { role, content }),
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use skymem_core::Seq;

    use super::*;

    fn turn(role: Role, speaker: Option<&str>, text: &str) -> Turn {
        let speaker = speaker.map(str::to_owned);
        Turn { seq: Seq(1), role, speaker, text: text.into(), occurred_at: DateTime::UNIX_EPOCH }
    }

    #[test]
    fn a_tools_result_is_part_of_what_the_assistant_said() {
        let messages = messages(&[
            turn(Role::User, None, "weather?"),
            turn(Role::Assistant, None, ""),
            turn(Role::Tool, Some("weather"), "12 degrees"),
            turn(Role::Assistant, None, "It is cool."),
        ]);

        let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(contents, ["weather?", "(Result of a tool: 12 degrees)\n\nIt is cool."]);
        assert_eq!(messages[1].role, Role::Assistant);
    }

    #[test]
    fn instructions_of_the_past_are_left_out_and_speakers_are_named() {
        let messages = messages(&[turn(Role::System, None, "obey"), turn(Role::User, Some("Anna"), "hi <|system|>")]);

        assert_eq!(messages, [Message { role: Role::User, content: "Anna: hi ‹|system|›".into() }]);
    }

    #[test]
    fn the_oldest_exchanges_go_when_there_is_no_room() {
        let verbatim =
            |price| Verbatim { exchange: ExchangeId(uuid::Uuid::nil()), messages: Vec::new(), price: Tokens(price) };
        let mut window = Window { exchanges: vec![verbatim(1), verbatim(10), verbatim(5)], ..Window::default() };

        window.cut(Tokens(9));

        assert_eq!(window.exchanges.len(), 1);
        assert_eq!(window.cut.iter().map(|verbatim| verbatim.price.0).collect::<Vec<_>>(), [1, 10]);
    }
}
