//! A chat request as it came: what it says, and where in its text it stands, so that what memory adds changes nothing
//! else. Pure.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use skymem_core::Role;
use skymem_engine::{Content, HeardTurn, own_words};

use super::answer::call_part;

/// A chat request, read without a change.
#[derive(Debug)]
pub(crate) struct Chat<'a> {
    /// The body as it came.
    pub(crate) text: &'a str,
    /// Its messages, in order.
    pub(crate) messages: Vec<Said>,
    /// The model that is asked for, and where that stands.
    pub(crate) model: Option<Piece>,
    /// Whether the model is offered tools.
    pub(crate) has_tools: bool,
    /// What else may say whose conversation it is, and what memory may do.
    pub(crate) about: About,
}

/// Members of a chat request that are about the conversation.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct About {
    #[serde(default)]
    pub(crate) user: Option<Value>,
    #[serde(default)]
    pub(crate) safety_identifier: Option<Value>,
    #[serde(default)]
    pub(crate) user_id: Option<Value>,
    #[serde(default)]
    pub(crate) conversation: Option<Value>,
    #[serde(default)]
    pub(crate) run_id: Option<Value>,
    #[serde(default)]
    pub(crate) metadata: Option<Value>,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Said {
    /// Where it stands in the body.
    pub(crate) place: Range<usize>,
    /// As it came: `user`, `developer`, ...; empty when it cannot be read.
    pub(crate) role: String,
    /// Its texts: the content, or the text of each part.
    pub(crate) texts: Vec<Piece>,
    /// Whether its content is plain text, not parts.
    pub(crate) is_plain: bool,
    /// Where the first of its content parts is to stand, when it has some.
    pub(crate) parts_from: Option<usize>,
    name: Option<String>,
    parts: Vec<Value>,
    calls: Vec<Value>,
    call_id: Option<String>,
}

/// A text and where its JSON stands in the body.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// The JSON text, quotes included.
    pub(crate) place: Range<usize>,
    /// What it says.
    pub(crate) text: String,
}

impl<'a> Chat<'a> {
    /// Reads a body; `None` when it is no chat request that can be understood, which is then the upstream's to judge.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            #[serde(borrow)]
            messages: Vec<&'a RawValue>,
            #[serde(borrow, default)]
            model: Option<&'a RawValue>,
            #[serde(borrow, default)]
            tools: Option<&'a RawValue>,
        }
        let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
        let about: About = serde_json::from_str(text).ok()?;
        let messages = envelope.messages.iter().map(|raw| Said::read(text, raw)).collect::<Option<Vec<_>>>()?;
        let model = envelope.model.and_then(|raw| Piece::read(text, raw));
        Some(Self { text, messages, model, has_tools: envelope.tools.is_some(), about })
    }

    /// The place of the last message of the user in [`Chat::messages`].
    pub(crate) fn asks_at(&self) -> Option<usize> {
        self.messages.iter().rposition(|message| message.role == "user")
    }

    /// The client's own words in the last message of the user; when that has none, being a picture, in the last that has.
    pub(crate) fn question(&self) -> Option<String> {
        let users = self.messages.iter().rev().filter(|message| message.role == "user");
        users.map(Said::own_words).find(|words| !words.trim().is_empty())
    }

    /// How many messages stand at the beginning that instruct the model.
    pub(crate) fn leading(&self) -> usize {
        self.messages.iter().take_while(|message| message.instructs()).count()
    }

    /// The conversation without instructions, as it may be remembered: the turns, and how many of them come before the
    /// last one of the user.
    pub(crate) fn turns(&self) -> (Vec<HeardTurn>, usize) {
        let asks_at = self.asks_at().unwrap_or(self.messages.len());
        let mut turns = Vec::new();
        let mut before = 0;
        for (place, message) in self.messages.iter().enumerate() {
            if place == asks_at {
                before = turns.len();
            }
            turns.extend(message.turn());
        }
        (turns, before)
    }
}

impl Said {
    fn read(text: &str, raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Message<'a> {
            role: String,
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
            #[serde(default)]
            name: Option<Value>,
            #[serde(default)]
            tool_calls: Option<Value>,
            #[serde(default)]
            tool_call_id: Option<Value>,
        }
        let place = place(text, raw.get())?;
        let mut said = Self {
            place,
            role: String::new(),
            texts: Vec::new(),
            is_plain: false,
            parts_from: None,
            name: None,
            parts: Vec::new(),
            calls: Vec::new(),
            call_id: None,
        };
        let Ok(message) = serde_json::from_str::<Message<'_>>(raw.get()) else { return Some(said) };
        said.role = message.role;
        let word = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        said.name = word(message.name);
        said.call_id = word(message.tool_call_id);
        if let Some(Value::Array(calls)) = message.tool_calls {
            said.calls = calls;
        }
        if let Some(content) = message.content {
            said.read_content(text, content);
        }
        Some(said)
    }

    fn read_content(&mut self, text: &str, content: &RawValue) {
        if content.get().starts_with('"') {
            self.texts.extend(Piece::read(text, content));
            self.is_plain = true;
            return;
        }
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(rename = "type", default)]
            kind: Option<Value>,
            #[serde(borrow, default)]
            text: Option<&'a RawValue>,
        }
        let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content.get()) else { return };
        self.parts_from = place(text, content.get()).map(|place| place.start + 1).filter(|_| !parts.is_empty());
        for part in parts {
            if let Ok(value) = serde_json::from_str::<Value>(part.get()) {
                self.parts.push(value);
            }
            let Ok(Part { kind, text: Some(said) }) = serde_json::from_str::<Part<'_>>(part.get()) else { continue };
            if kind.is_none_or(|kind| matches!(kind.as_str(), Some("text" | "input_text" | "output_text"))) {
                self.texts.extend(Piece::read(text, said));
            }
        }
    }

    /// Whether it instructs the model.
    pub(crate) fn instructs(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    /// Its text without what skymem had put there, a line for each part.
    pub(crate) fn own_words(&self) -> String {
        let own: Vec<String> = self.texts.iter().map(|piece| own_words(&piece.text).into_owned()).collect();
        own.join("\n")
    }

    /// Whether it says nothing but what skymem had put there.
    pub(crate) fn is_injected(&self) -> bool {
        let some = self.texts.iter().any(|piece| !piece.text.trim().is_empty());
        some && self.parts.len() <= self.texts.len() && self.own_words().trim().is_empty()
    }

    /// The turn it is in a conversation; `None` for instructions, and for what says nothing.
    fn turn(&self) -> Option<HeardTurn> {
        let role: Role = self.role.parse().ok()?;
        if role == Role::System {
            return None;
        }
        let calls: Vec<(String, Value)> = self.calls.iter().map(read_call).collect();
        let content = if self.is_plain && calls.is_empty() {
            Content::Text(self.texts.first().map(|piece| piece.text.clone()).unwrap_or_default())
        } else {
            let plain = self.texts.first().filter(|piece| self.is_plain && !piece.text.is_empty());
            let text = plain.map(|piece| serde_json::json!({ "type": "text", "text": piece.text }));
            let parts = text.into_iter().chain(self.parts.iter().cloned());
            Content::Parts(parts.chain(calls.iter().map(|(_, part)| part.clone())).collect())
        };
        let says_nothing = match &content {
            Content::Text(text) => text.trim().is_empty(),
            Content::Parts(parts) => parts.is_empty(),
        };
        let mut ids: Vec<&str> = calls.iter().map(|(id, _)| id.as_str()).filter(|id| !id.is_empty()).collect();
        ids.extend(self.call_id.as_deref());
        let call = (!ids.is_empty()).then(|| ids.join(" "));
        (!says_nothing).then(|| HeardTurn {
            role,
            speaker: self.name.clone().filter(|_| role == Role::User),
            content,
            call,
        })
    }
}

fn read_call(call: &Value) -> (String, Value) {
    let word = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let id = word(call.get("id"));
    let function = call.get("function");
    let name = word(function.and_then(|function| function.get("name")));
    let arguments = word(function.and_then(|function| function.get("arguments")));
    let part = call_part(&id, &name, &arguments);
    (id, part)
}

impl Piece {
    fn read(text: &str, raw: &RawValue) -> Option<Self> {
        let said: String = serde_json::from_str(raw.get()).ok()?;
        Some(Self { place: place(text, raw.get())?, text: said })
    }
}

/// Where `part`, which was borrowed from `text`, stands in it.
fn place(text: &str, part: &str) -> Option<Range<usize>> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start.checked_add(part.len())?;
    (text.get(start..end)? == part).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_where_is_known_to_the_byte() {
        let body = "{ \"model\" : \"m\\u00e4x\", \"messages\": [ {\"role\":\"user\",\"content\":\"hé\\n\"} ,\n\
                    {\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"image_url\"}],\"role\":\"user\"} ]}";

        let chat = Chat::read(body).unwrap();

        assert_eq!(chat.model.as_ref().unwrap().text, "mäx");
        assert_eq!(&body[chat.messages[0].place.clone()], "{\"role\":\"user\",\"content\":\"hé\\n\"}");
        assert_eq!(&body[chat.messages[0].texts[0].place.clone()], "\"hé\\n\"");
        assert_eq!(chat.messages[0].texts[0].text, "hé\n");
        assert_eq!(&body[chat.messages[1].texts[0].place.clone()], "\"a\"");
        assert_eq!(&body[chat.messages[1].parts_from.unwrap()..][..2], "{\"");
        assert_eq!((chat.asks_at(), chat.question().as_deref()), (Some(1), Some("a")));
    }

    #[test]
    fn what_is_no_chat_is_not_read() {
        for body in [
            "",
            "nonsense",
            "[]",
            "{}",
            r#"{"messages": 7}"#,
            r#"{"messages": [], "messages": []}"#,
            "{\"messages\": [}",
        ] {
            assert!(Chat::read(body).is_none(), "{body}");
        }
        let odd =
            Chat::read(r#"{"messages": [7, {"role": 1}, {"role": "user"}, {"role": "user", "content": "\ud800"}]}"#);
        assert_eq!(odd.unwrap().turns().0, []);
    }

    #[test]
    fn a_picture_alone_is_asked_about_in_the_words_before_it() {
        let chat = Chat::read(
            r#"{"messages": [{"role": "user", "content": "What is this?"}, {"role": "assistant", "content": "Show me."},
               {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:x"}}]}]}"#,
        );
        let chat = chat.unwrap();

        assert_eq!(chat.question().as_deref(), Some("What is this?"));
        assert_eq!(chat.turns().1, 2);
    }

    #[test]
    fn a_conversation_is_its_turns_without_instructions() {
        let chat = Chat::read(
            r#"{"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Rain?", "name": "Anna"},
               {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
                "function": {"name": "weather", "arguments": "{}"}}]},
               {"role": "tool", "tool_call_id": "c1", "content": "yes"}, {"role": "assistant", "content": ""}]}"#,
        );

        let (turns, before) = chat.unwrap().turns();

        assert_eq!(before, 0);
        let told: Vec<(Role, Option<&str>, Option<&str>)> =
            turns.iter().map(|turn| (turn.role, turn.speaker.as_deref(), turn.call.as_deref())).collect();
        assert_eq!(
            told,
            [(Role::User, Some("Anna"), None), (Role::Assistant, None, Some("c1")), (Role::Tool, None, Some("c1")),]
        );
        assert_eq!(turns[1].content, Content::Parts(vec![call_part("c1", "weather", "{}")]));
    }
}
