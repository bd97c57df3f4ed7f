//! The last exchanges of a session, word for word. Read from the journal, so that they are the same after a restart.

use skymem_core::{Exchange, ExchangeId, ExchangeKind, Message, Role, Seq, SessionId, Tokens, Turn, UserId};
use skymem_store::StoreError;

use super::ClientHistory;
use super::meter::Meter;
use super::sanitise::sanitise;
use crate::memory::Memory;

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
    /// Exchanges that the client itself puts before the assistant.
    pub(crate) elsewhere: Vec<ExchangeId>,
    /// The turns before the question, oldest first, for understanding it.
    pub(crate) before: Vec<Message>,
}

/// One exchange, word for word but harmless.
#[derive(Debug)]
pub(crate) struct Verbatim {
    pub(crate) exchange: ExchangeId,
    /// The place of its last turn.
    pub(crate) last: Seq,
    pub(crate) messages: Vec<Message>,
    /// Nothing, until [`Window::price`] sets it.
    pub(crate) price: Tokens,
}

/// The last exchanges of a session, at most [`MOST_EXCHANGES`].
pub(crate) async fn read(
    memory: &Memory,
    user: UserId,
    session: &SessionId,
    question: &str,
) -> Result<Window, StoreError> {
    // One more than wanted: the last may be the question.
    let mut exchanges = memory.inner.journal.window(user, session, MOST_EXCHANGES + 1).await?;
    if exchanges.is_empty() {
        // A session of a sealed collection is none to the journal. While it is locked there is no window, and a gap says so.
        let sealed = memory.sealed_session(user, session).await.ok().flatten();
        exchanges = sealed.map(|(_, said)| said).unwrap_or_default();
        exchanges.retain(|exchange| exchange.kind == ExchangeKind::Said);
    }
    let question = exchanges.pop_if(|last| asks(last, question)).map(|exchange| exchange.id);
    let last = exchanges.get(exchanges.len().saturating_sub(MOST_EXCHANGES)..).unwrap_or_default();
    let exchanges: Vec<Verbatim> = last.iter().map(Verbatim::of).collect();
    let before = exchanges.iter().flat_map(|verbatim| verbatim.messages.iter().cloned()).collect();
    Ok(Window { exchanges, question, before, ..Window::default() })
}

impl Window {
    /// The conversation as the client sends it: nothing has to be put into the messages.
    pub(crate) fn elsewhere(history: &ClientHistory) -> Self {
        let message = |message: &Message| Message::new(message.role, sanitise(&message.content));
        Self {
            elsewhere: history.exchanges.clone(),
            before: history.messages.iter().map(message).collect(),
            ..Self::default()
        }
    }

    /// Keeps the last `most` exchanges, and older ones that no account of the session stands in for yet.
    pub(crate) fn keep(&mut self, most: usize, accounted_for: Option<Seq>) {
        let beyond = self.exchanges.len().saturating_sub(most);
        let accounted = match accounted_for {
            Some(seq) => self.exchanges.iter().take(beyond).take_while(|verbatim| verbatim.last <= seq).count(),
            None => beyond,
        };
        self.exchanges.drain(..accounted);
    }

    /// Sets what each exchange costs.
    pub(crate) fn price(&mut self, meter: &Meter) {
        for verbatim in &mut self.exchanges {
            verbatim.price = meter.messages(&verbatim.messages);
        }
    }

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
        let own = self.exchanges.iter().map(|verbatim| verbatim.exchange).chain(self.question);
        own.chain(self.elsewhere.iter().copied()).collect()
    }
}

impl Verbatim {
    fn of(exchange: &Exchange) -> Self {
        let messages = messages(&exchange.turns);
        let last = exchange.turns.last().map_or(Seq(0), |turn| turn.seq);
        Self { exchange: exchange.id, last, messages, price: Tokens(0) }
    }
}

/// Whether an exchange is nothing but `question`, not answered yet.
fn asks(exchange: &Exchange, question: &str) -> bool {
    matches!(exchange.turns.as_slice(), [turn] if turn.role == Role::User && turn.text.trim() == question.trim())
}

/// Turns as messages that every chat model takes. Instructions of the past are left out: the client sends its own. A
/// tool's result becomes part of what the assistant said, for without the call that it answers it may not stand alone.
pub(super) fn messages(turns: &[Turn]) -> Vec<Message> {
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
            Some(speaker) if turn.role != Role::Tool => format!("{speaker}: {content}"),
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
    // Whole, so that nothing is put together from harmless pieces.
    messages.into_iter().map(|message| Message::new(message.role, sanitise(&message.content))).collect()
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use skymem_core::Seq;

    use super::*;

    fn turn(role: Role, speaker: Option<&str>, text: &str) -> Turn {
        let speaker = speaker.map(str::to_owned);
        Turn {
            seq: Seq(1),
            role,
            speaker,
            text: text.into(),
            occurred_at: DateTime::UNIX_EPOCH,
            recorded_at: DateTime::UNIX_EPOCH,
            statement: None,
        }
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

    fn verbatim(last: i64, price: usize) -> Verbatim {
        Verbatim {
            exchange: ExchangeId(uuid::Uuid::nil()),
            last: Seq(last),
            messages: Vec::new(),
            price: Tokens(price),
        }
    }

    #[test]
    fn the_window_reaches_back_to_what_is_accounted_for() {
        let kept = |most, accounted_for: Option<i64>| {
            let exchanges = (1..=8).map(|last| verbatim(last, 1)).collect();
            let mut window = Window { exchanges, ..Window::default() };
            window.keep(most, accounted_for.map(Seq));
            window.exchanges.iter().map(|verbatim| verbatim.last.0).collect::<Vec<_>>()
        };
        assert_eq!(kept(4, None), [5, 6, 7, 8], "nobody accounts for anything: the window is the window");
        assert_eq!(kept(4, Some(0)), [1, 2, 3, 4, 5, 6, 7, 8], "nothing is accounted for yet");
        assert_eq!(kept(4, Some(2)), [3, 4, 5, 6, 7, 8]);
        assert_eq!(kept(4, Some(7)), [5, 6, 7, 8], "an account that goes further shortens nothing");
    }

    #[test]
    fn the_oldest_exchanges_go_when_there_is_no_room() {
        let mut window =
            Window { exchanges: vec![verbatim(1, 1), verbatim(2, 10), verbatim(3, 5)], ..Window::default() };

        window.cut(Tokens(9));

        assert_eq!(window.exchanges.len(), 1);
        assert_eq!(window.cut.iter().map(|verbatim| verbatim.price.0).collect::<Vec<_>>(), [1, 10]);
    }
}
