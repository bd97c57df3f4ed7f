//! Puts what memory knows into a chat request: nothing but its messages is touched, and of those no more than has to be.
//! Pure.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::json;
use skymem_engine::{Blocks, ItemsPlace, own_words};

use super::request::{Chat, Said};
use super::settings::MemoryPlace;

/// Where what memory knows stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    /// The memory files.
    pub(crate) memory: MemoryPlace,
    /// What was recalled.
    pub(crate) items: ItemsPlace,
}

/// The request with `blocks` in its messages, and without blocks of before that the client sent back; without `suffix`
/// at the end of its model's name. `None` when it is to be forwarded as it came.
///
/// Stable parts come first: the client's own instructions, the memory files, the account of earlier turns. What was
/// recalled stands right before the last message of the user, so that a call of a tool and its result stay together.
pub(crate) fn inject(chat: &Chat<'_>, blocks: &Blocks, suffix: Option<&str>, places: Places) -> Option<String> {
    let mut edits = Edits::default();
    if let (Some(model), Some(suffix)) = (&chat.model, suffix)
        && let Some(name) = model.text.strip_suffix(suffix)
    {
        edits.replace(model.place.clone(), json!(name).to_string());
    }
    // The texts as they are to be, where that is not as they were: by message and text.
    let mut said: Vec<Vec<Option<String>>> = chat.messages.iter().map(own_texts).collect();
    let gone: Vec<bool> = chat.messages.iter().map(|message| message.instructs() && message.is_injected()).collect();

    let asks_at = chat.asks_at();
    if let Some(asks_at) = asks_at {
        let stays = |place: usize| !gone.get(place).copied().unwrap_or(false);
        let leading = chat.leading();
        let role =
            chat.messages.first().filter(|first| first.instructs()).map_or("system", |first| first.role.as_str());
        let at = |place: usize| chat.messages.get(place).map_or(0, |message| message.place.start);
        let message = |text: &str| format!("{},", json!({ "role": role, "content": text }));
        let in_question = places.items == ItemsPlace::Question;

        // Where a system message may stand only at the beginning, it is the one message for all of them.
        let of_files = [blocks.memory.as_deref(), blocks.account.as_deref().filter(|_| in_question)];
        let files: Vec<&str> = of_files.into_iter().flatten().collect();
        if !files.is_empty() {
            let files = files.join("\n\n");
            let own =
                (0..leading).find(|&place| stays(place) && chat.messages.get(place).is_some_and(|it| it.is_plain));
            match own.filter(|_| places.memory == MemoryPlace::System || in_question) {
                Some(place) => {
                    let text = text_of(chat, &said, place);
                    set(&mut said, place, 0, if text.is_empty() { files } else { format!("{text}\n\n{files}") });
                }
                None => edits.insert(at(leading), message(&files)),
            }
        }
        if let Some(account) = blocks.account.as_deref().filter(|_| !in_question) {
            edits.insert(at(leading), message(account));
        }
        if let Some(found) = &blocks.found {
            match chat.messages.get(asks_at).filter(|_| in_question) {
                Some(question) if question.is_plain => {
                    let text = text_of(chat, &said, asks_at);
                    set(&mut said, asks_at, 0, format!("{found}\n\n{text}"));
                }
                Some(Said { parts_from: Some(from), .. }) => {
                    edits.insert(*from, format!("{},", json!({ "type": "text", "text": found })));
                }
                _ => edits.insert(at(asks_at), message(found)),
            }
        }
    }

    // What goes takes the comma that follows along; at the end, the comma before.
    let kept = gone.iter().rposition(|gone| !gone);
    if let (Some(kept), Some(last)) = (kept.and_then(|kept| chat.messages.get(kept)), chat.messages.last())
        && kept.place != last.place
    {
        edits.replace(kept.place.end..last.place.end, String::new());
    }
    for (place, (message, texts)) in chat.messages.iter().zip(said).enumerate().take(kept.map_or(0, |kept| kept + 1)) {
        if gone.get(place).copied().unwrap_or(false) {
            let next = chat.messages.get(place + 1).map_or(message.place.end, |next| next.place.start);
            edits.replace(message.place.start..next, String::new());
            continue;
        }
        for (piece, text) in message.texts.iter().zip(texts) {
            if let Some(text) = text {
                edits.replace(piece.place.clone(), json!(text).to_string());
            }
        }
    }
    edits.apply(chat.text)
}

/// The texts of a message where they hold what skymem had put there, without it. A message is never left without words:
/// it may be nothing but that, and some providers refuse an empty one.
fn own_texts(message: &Said) -> Vec<Option<String>> {
    let own = |text: &str| match own_words(text) {
        Cow::Owned(own) if own != text && !own.trim().is_empty() => Some(own),
        _ => None,
    };
    message.texts.iter().map(|piece| own(&piece.text)).collect()
}

fn text_of(chat: &Chat<'_>, said: &[Vec<Option<String>>], place: usize) -> String {
    let changed = said.get(place).and_then(|texts| texts.first()).and_then(Clone::clone);
    let own = || chat.messages.get(place).and_then(|message| message.texts.first()).map(|piece| piece.text.clone());
    changed.or_else(own).unwrap_or_default()
}

fn set(said: &mut [Vec<Option<String>>], place: usize, piece: usize, text: String) {
    if let Some(slot) = said.get_mut(place).and_then(|texts| texts.get_mut(piece)) {
        *slot = Some(text);
    }
}

/// Changes of a text, that do not overlap.
#[derive(Debug, Default)]
struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    fn insert(&mut self, at: usize, text: String) {
        self.0.push((at..at, text));
    }

    fn replace(&mut self, place: Range<usize>, text: String) {
        self.0.push((place, text));
    }

    /// The changed text; `None` when nothing changes.
    fn apply(mut self, text: &str) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        // Stable: what is inserted at one place stands in the order in which it was inserted.
        self.0.sort_by_key(|(place, _)| (place.start, place.end));
        let mut changed = String::with_capacity(text.len() + self.0.iter().map(|(_, new)| new.len()).sum::<usize>());
        let mut copied = 0;
        for (place, new) in self.0 {
            changed.push_str(text.get(copied..place.start)?);
            changed.push_str(&new);
            copied = copied.max(place.end);
        }
        changed.push_str(text.get(copied..)?);
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const MEMORY: &str = "<<<MEMORY>>>\nWhat this person keeps for you to know at all times, in their own words:\n\nI live in Berlin.\n<<<END MEMORY>>>";
    const FOUND: &str =
        "<<<CONTEXT>>>\nRemembered from earlier conversations and documents.\n\n[S: 2026-02-06] tea\n<<<END CONTEXT>>>";
    const DEFAULT: Places = Places { memory: MemoryPlace::System, items: ItemsPlace::Message };

    fn blocks() -> Blocks {
        Blocks { memory: Some(MEMORY.into()), account: Some("SUM".into()), found: Some(FOUND.into()) }
    }

    fn injected(body: &str, blocks: &Blocks, places: Places) -> Value {
        let chat = Chat::read(body).unwrap();
        let text = inject(&chat, blocks, None, places).unwrap_or_else(|| body.to_owned());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Role and content of every message, in short.
    fn check(messages: &str, blocks: &Blocks, places: Places, expected: &[&str]) {
        let body = injected(&format!(r#"{{"messages": {messages}}}"#), blocks, places);
        let short = |content: &Value| {
            let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
            text.replace(MEMORY, "MEM").replace(FOUND, "FOUND").replace('\n', "|")
        };
        let told: Vec<String> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| format!("{} {}", message["role"].as_str().unwrap_or_default(), short(&message["content"])))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn stable_parts_follow_the_clients_instructions_and_what_was_found_stands_before_the_question() {
        let chat = r#"[{"role":"system","content":"Be kind."},{"role":"user","content":"hi"},
                       {"role":"assistant","content":"hello"},{"role":"user","content":"tea?"}]"#;
        check(
            chat,
            &blocks(),
            DEFAULT,
            &["system Be kind.||MEM", "system SUM", "user hi", "assistant hello", "system FOUND", "user tea?"],
        );
        check(
            chat,
            &blocks(),
            Places { memory: MemoryPlace::Message, ..DEFAULT },
            &["system Be kind.", "system MEM", "system SUM", "user hi", "assistant hello", "system FOUND", "user tea?"],
        );
        check(
            chat,
            &blocks(),
            Places { items: ItemsPlace::Question, ..DEFAULT },
            &["system Be kind.||MEM||SUM", "user hi", "assistant hello", "user FOUND||tea?"],
        );
        check(chat, &Blocks::default(), DEFAULT, &["system Be kind.", "user hi", "assistant hello", "user tea?"]);
    }

    #[test]
    fn without_instructions_of_the_client_memory_has_a_message_of_its_own() {
        check(
            r#"[{"role":"user","content":"tea?"}]"#,
            &blocks(),
            DEFAULT,
            &["system MEM", "system SUM", "system FOUND", "user tea?"],
        );
        check(
            r#"[{"role":"developer","content":[{"type":"text","text":"Be kind."}]},{"role":"user","content":"tea?"}]"#,
            &blocks(),
            DEFAULT,
            &[
                r#"developer [{"text":"Be kind.","type":"text"}]"#,
                "developer MEM",
                "developer SUM",
                "developer FOUND",
                "user tea?",
            ],
        );
        check(
            r#"[{"role":"user","content":[{"type":"image_url"}]}]"#,
            &Blocks { found: Some(FOUND.into()), ..Blocks::default() },
            Places { items: ItemsPlace::Question, ..DEFAULT },
            &[&format!(r#"user [{{"text":{},"type":"text"}},{{"type":"image_url"}}]"#, json!(FOUND))],
        );
    }

    #[test]
    fn a_call_of_a_tool_and_its_result_stay_together() {
        check(
            r#"[{"role":"user","content":"Rain?"},{"role":"assistant","content":"","tool_calls":[{"id":"1"}]},
                {"role":"tool","tool_call_id":"1","content":"yes"}]"#,
            &Blocks { found: Some(FOUND.into()), ..Blocks::default() },
            DEFAULT,
            &["system FOUND", "user Rain?", "assistant ", "tool yes"],
        );
    }

    #[test]
    fn what_comes_back_of_earlier_blocks_is_not_forwarded_again() {
        let stale = json!([
            { "role": "system", "content": format!("Be kind.\n\n{MEMORY}") },
            { "role": "system", "content": FOUND },
            { "role": "user", "content": format!("{FOUND}\n\nhi") },
            { "role": "assistant", "content": FOUND },
            { "role": "user", "content": "tea?" },
            { "role": "system", "content": MEMORY },
        ]);
        check(
            &stale.to_string(),
            &Blocks { memory: Some(MEMORY.into()), ..Blocks::default() },
            DEFAULT,
            &["system Be kind.||MEM", "user hi", "assistant FOUND", "user tea?"],
        );
    }

    #[test]
    fn everything_but_the_messages_stays_to_the_byte() {
        let body = "{\"temperature\": 1e-7,\n \"seed\":12345678901234567890, \"messages\" :[{\"role\":\"user\",\"content\":\"tea?\", \"x\":1.0}]\t,\
                    \"model\":\"m:nomem\",\"tools\":[ ],\"a\":\"\\u00e9\"}";
        let chat = Chat::read(body).unwrap();

        let text =
            inject(&chat, &Blocks { found: Some("F".into()), ..Blocks::default() }, Some(":nomem"), DEFAULT).unwrap();

        let expected =
            body.replace("[{\"role\"", "[{\"content\":\"F\",\"role\":\"system\"},{\"role\"").replace("m:nomem", "m");
        assert_eq!(text, expected);
        assert_eq!(inject(&chat, &Blocks::default(), None, DEFAULT), None, "as it came");
    }

    proptest! {
        #[test]
        fn whatever_the_conversation_it_stays_json_and_keeps_its_messages(
            roles in prop::collection::vec(prop::sample::select(vec!["system", "developer", "user", "assistant", "tool"]), 0..7),
            texts in prop::collection::vec(prop::sample::select(vec!["", "hé \"x\"", MEMORY, FOUND, "a <<<CONTEXT>>>"]), 7),
            as_parts in prop::collection::vec(any::<bool>(), 7),
            items in prop::sample::select(vec![ItemsPlace::Message, ItemsPlace::Question]),
            memory in prop::sample::select(vec![MemoryPlace::System, MemoryPlace::Message]),
            which in 0_u8..8,
        ) {
            let messages: Vec<Value> = roles.iter().zip(texts).zip(as_parts).map(|((role, text), as_parts)| {
                let content = if as_parts { json!([{ "type": "text", "text": text }]) } else { json!(text) };
                json!({ "role": role, "content": content })
            }).collect();
            let body = json!({ "messages": messages, "n": 1 }).to_string();
            let all = blocks();
            let some = Blocks {
                memory: all.memory.filter(|_| which & 1 > 0),
                account: all.account.filter(|_| which & 2 > 0),
                found: all.found.filter(|_| which & 4 > 0),
            };

            let after = injected(&body, &some, Places { memory, items });

            let kept = after["messages"].as_array().unwrap();
            let of = |all: &[Value], role: &str| all.iter().filter(|message| message["role"] == role).count();
            for role in ["user", "assistant", "tool"] {
                prop_assert_eq!(of(kept, role), of(&messages, role));
            }
            prop_assert_eq!(&after["n"], 1);
        }
    }
}
