//! OpenAI-style JSONL: each line is a conversation (`{"messages": [...]}`) or one message (`{"role": ..., "content": ...}`).

use std::collections::HashMap;
use std::io::BufRead;
use std::ops::ControlFlow;

use anyhow::{Result, bail};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use skymem_core::Role;
use skymem_engine::reading::{Line, next_line};

use super::{Found, ImportedTurn, LONGEST_LINE, Place, Problem, Sink, times};

/// Reads every line; messages that name no session belong to one called `stem`.
pub(super) fn read(mut reader: Box<dyn BufRead + Send>, stem: &str, sink: &mut Sink<'_>) -> Result<()> {
    let mut file = Reading { stem, sessions: HashMap::new(), sink };
    let mut buffer = Vec::new();
    let (mut number, mut good) = (0_u64, 0_u64);
    loop {
        number += 1;
        let place = Place::Line(number);
        let read = match next_line(&mut *reader, &mut buffer, LONGEST_LINE)? {
            Line::End => break,
            Line::Read if buffer.trim_ascii().is_empty() => continue,
            Line::Read => parse(&buffer),
            Line::TooLong(bytes) => {
                Err(format!("has {bytes} bytes; a line has at most {} MB", LONGEST_LINE / (1024 * 1024)))
            }
        };
        let flow = match read {
            Ok(object) => {
                good += 1;
                file.line(object, place)
            }
            Err(reason) => (file.sink)(Found::Problem(Problem { place, reason })),
        };
        if flow.is_break() {
            return Ok(());
        }
    }
    if good == 0 {
        bail!("no line of it is a JSON object (for a file that is one large JSON value: `jq -c . FILE > FILE.jsonl`)");
    }
    Ok(())
}

fn parse(line: &[u8]) -> Result<Map<String, Value>, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("is not UTF-8 (byte {})", error.valid_up_to() + 1))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("is not a JSON object".into()),
        // serde_json counts lines as well; here there is always one.
        Err(error) => Err(format!("is not JSON: {} at column {}", words(&error), error.column())),
    }
}

fn words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

struct Reading<'a, 'b> {
    stem: &'a str,
    sessions: HashMap<String, Session>,
    sink: &'a mut Sink<'b>,
}

/// What must be known of a session to name its turns the same way whenever the file is read.
#[derive(Default)]
struct Session {
    /// How often each turn was said so far, by the hash of who said what when.
    said: HashMap<[u8; 12], u32>,
    last_at: Option<DateTime<Utc>>,
}

impl Reading<'_, '_> {
    fn line(&mut self, line: Map<String, Value>, place: Place) -> ControlFlow<()> {
        match line.get("messages") {
            Some(Value::Array(messages)) => self.conversation(&line, messages, place),
            Some(_) => self.problem(place, "`messages` is not a list".into()),
            None if line.contains_key("role") || line.contains_key("content") => {
                let session = match word(&line, &SESSION_KEYS) {
                    Ok(session) => session.unwrap_or_else(|| self.stem.to_owned()),
                    Err(reason) => return self.problem(place, reason),
                };
                self.message(&line, &line, &session, place, "")
            }
            None => self.problem(place, "has neither `messages` nor `role` and `content`".into()),
        }
    }

    fn conversation(&mut self, line: &Map<String, Value>, messages: &[Value], place: Place) -> ControlFlow<()> {
        let session = match word(line, &[&SESSION_KEYS[..], &["id"]].concat()) {
            Ok(Some(session)) => session,
            // Made of its content: the same conversation is the same session in whatever file it comes.
            Ok(None) => format!("{}-{}", self.stem, short_hash(&[Value::from(messages).to_string().as_bytes()])),
            Err(reason) => return self.problem(place, reason),
        };
        if messages.is_empty() {
            return self.problem(place, "`messages` is empty".into());
        }
        for (index, message) in messages.iter().enumerate() {
            let which = format!("message {}: ", index + 1);
            match message {
                Value::Object(message) => self.message(line, message, &session, place, &which)?,
                _ => self.problem(place, format!("{which}is not a JSON object"))?,
            }
        }
        ControlFlow::Continue(())
    }

    /// `line` has what holds for all its messages.
    fn message(
        &mut self,
        line: &Map<String, Value>,
        message: &Map<String, Value>,
        session: &str,
        place: Place,
        which: &str,
    ) -> ControlFlow<()> {
        let found = match turn(line, message, place) {
            Ok(Some(mut turn)) => {
                turn.session = session.to_owned();
                self.sessions.entry(session.to_owned()).or_default().name(&mut turn);
                Found::Turn(Box::new(turn))
            }
            Ok(None) => Found::LeftOut("without text"),
            Err(reason) => Found::Problem(Problem { place, reason: format!("{which}{reason}") }),
        };
        (self.sink)(found)
    }

    fn problem(&mut self, place: Place, reason: String) -> ControlFlow<()> {
        (self.sink)(Found::Problem(Problem { place, reason }))
    }
}

impl Session {
    /// Gives the turn its client id, and the time of the turn before it when it has none of its own.
    ///
    /// The id is made of what was said and of how often that was said before in the session, not of its place in the
    /// file: when a broken line is mended, the turns after it keep their ids.
    fn name(&mut self, turn: &mut ImportedTurn) {
        let hash = hash(&[
            turn.role.as_str().as_bytes(),
            turn.speaker.as_deref().unwrap_or_default().as_bytes(),
            turn.content.to_string().as_bytes(),
            turn.occurred_at.map(|at| at.to_rfc3339()).unwrap_or_default().as_bytes(),
        ]);
        let said = self.said.entry(hash).or_default();
        if turn.client_id.is_empty() {
            turn.client_id = format!("import-{}-{said}", hex::encode(hash));
        }
        *said += 1;
        turn.occurred_at = turn.occurred_at.or(self.last_at);
        self.last_at = turn.occurred_at;
    }
}

const SESSION_KEYS: [&str; 6] = ["session", "session_id", "conversation_id", "conversation", "thread_id", "chat_id"];
const TIME_KEYS: [&str; 6] = ["occurred_at", "created_at", "timestamp", "create_time", "created", "date"];
const OWN_ID_KEYS: [&str; 3] = ["client_id", "message_id", "id"];

/// The turn that `message` holds, still without session; `None` when it has no text, like a call of a tool.
fn turn(line: &Map<String, Value>, message: &Map<String, Value>, place: Place) -> Result<Option<ImportedTurn>, String> {
    let speaker = word(message, &["speaker", "name"])?;
    let role = match (word(message, &["role"])?, &speaker) {
        (Some(role), _) => role.parse::<Role>().map_err(|bad| format!("role {role:?}: {bad}"))?,
        // A conversation between named people.
        (None, Some(_)) => Role::User,
        (None, None) => return Err("has no `role`".into()),
    };
    let content = match message.get("content") {
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::Array(parts)) if parts.is_empty() => return Ok(None),
        Some(content @ (Value::String(_) | Value::Array(_))) => content.clone(),
        None | Some(Value::Null) if message.contains_key("tool_calls") || message.contains_key("function_call") => {
            return Ok(None);
        }
        None | Some(Value::Null) => return Err("has no `content`".into()),
        Some(_) => return Err("`content` is neither a text nor a list of parts".into()),
    };
    let occurred_at = match first(message, &TIME_KEYS).or_else(|| first(line, &TIME_KEYS)) {
        Some(value) => Some(times::moment(value)?),
        None => None,
    };
    Ok(Some(ImportedTurn {
        session: String::new(),
        title: word(line, &["title"])?,
        collection: match word(message, &["collection"])? {
            Some(collection) => Some(collection),
            None => word(line, &["collection"])?,
        },
        role,
        speaker,
        content,
        occurred_at,
        client_id: word(message, &OWN_ID_KEYS)?.unwrap_or_default(),
        place,
    }))
}

/// The first of `keys` that is there and not null.
fn first<'a>(object: &'a Map<String, Value>, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().filter_map(|key| object.get(*key)).find(|value| !value.is_null())
}

/// The first of `keys` that is there, as a text; numbers are taken for ids.
fn word(object: &Map<String, Value>, keys: &[&str]) -> Result<Option<String>, String> {
    for key in keys {
        match object.get(*key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => return Ok(Some(text.clone())),
            Some(Value::Number(number)) => return Ok(Some(number.to_string())),
            Some(_) => return Err(format!("`{key}` is not a text")),
        }
    }
    Ok(None)
}

fn hash(parts: &[&[u8]]) -> [u8; 12] {
    let mut sha = Sha256::new();
    for part in parts {
        // The length keeps "ab" + "c" apart from "a" + "bc".
        sha.update((part.len() as u64).to_le_bytes());
        sha.update(part);
    }
    let mut short = [0; 12];
    short.iter_mut().zip(sha.finalize()).for_each(|(to, from)| *to = from);
    short
}

fn short_hash(parts: &[&[u8]]) -> String {
    hex::encode(hash(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(text: impl AsRef<[u8]>) -> Vec<Found> {
        let mut all = Vec::new();
        let reader: Box<dyn BufRead + Send> = Box::new(std::io::Cursor::new(text.as_ref().to_vec()));
        read(reader, "chats", &mut |found| {
            all.push(found);
            ControlFlow::Continue(())
        })
        .unwrap();
        all
    }

    fn turns_in(text: &str) -> Vec<ImportedTurn> {
        found_in(text)
            .into_iter()
            .map(|found| match found {
                Found::Turn(turn) => *turn,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[track_caller]
    fn check_problem(line: impl AsRef<[u8]>, expected: &str) {
        let mut text = line.as_ref().to_vec();
        text.extend_from_slice(b"\n{\"role\":\"user\",\"content\":\"fine\"}\n");
        match &found_in(text)[..] {
            [Found::Problem(problem), Found::Turn(_)] => {
                assert_eq!(problem.place, Place::Line(1));
                assert!(problem.reason.contains(expected), "{problem}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_may_be_a_whole_conversation() {
        let turns = turns_in(concat!(
            r#"{"id":"c1","title":"Trip","collection":"travel","created_at":"2024-05-01T10:00:00Z","messages":["#,
            r#"{"role":"system","content":"Be kind."},{"role":"user","content":"Where to?","timestamp":1714557700},"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"Rome"}]}]}"#
        ));

        let roles: Vec<_> = turns.iter().map(|turn| turn.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
        assert!(turns.iter().all(|turn| turn.session == "c1" && turn.title.as_deref() == Some("Trip")));
        assert!(turns.iter().all(|turn| turn.collection.as_deref() == Some("travel")));
        assert_eq!(turns[1].occurred_at.unwrap().to_rfc3339(), "2024-05-01T10:01:40+00:00");
        assert!(turns[2].content.is_array(), "parts stay as they came");
    }

    #[test]
    fn a_line_may_be_one_message_and_then_lines_of_a_session_belong_together() {
        let turns = turns_in(concat!(
            "{\"role\":\"user\",\"content\":\"hi\",\"session\":\"a\",\"occurred_at\":\"2024-05-01T10:00:00Z\"}\n",
            "\n",
            "{\"role\":\"assistant\",\"content\":\"hello\",\"session\":\"a\"}\n",
            "{\"role\":\"user\",\"content\":\"no session\"}\n",
        ));

        assert_eq!(turns[1].occurred_at, turns[0].occurred_at, "no time of its own: that of the turn before");
        assert_eq!(turns[2].session, "chats");
        assert_eq!(turns[2].occurred_at, None);
        assert_eq!(turns[2].place, Place::Line(4));
    }

    #[test]
    fn people_with_names_keep_them() {
        let turns = turns_in(concat!(
            r#"{"session":7,"messages":[{"role":"user","name":"Caroline","content":"Hey Mel!"},"#,
            r#"{"speaker":"Melanie","content":"Hey Caroline!"}]}"#
        ));

        assert_eq!(turns[0].session, "7");
        assert_eq!(turns[0].speaker.as_deref(), Some("Caroline"));
        assert_eq!((turns[1].role, turns[1].speaker.as_deref()), (Role::User, Some("Melanie")));
    }

    #[test]
    fn the_same_file_gives_the_same_ids_and_no_two_turns_share_one() {
        let text = concat!(
            "{\"role\":\"user\",\"content\":\"ok\",\"session\":\"a\"}\n",
            "{\"role\":\"user\",\"content\":\"ok\",\"session\":\"a\"}\n",
            "{\"role\":\"assistant\",\"content\":\"ok\",\"session\":\"a\"}\n",
            "{\"role\":\"user\",\"content\":\"mine\",\"session\":\"a\",\"id\":\"msg_1\"}\n",
        );

        let ids = |text| turns_in(text).into_iter().map(|turn| turn.client_id).collect::<Vec<_>>();

        let first = ids(text);
        assert_eq!(first, ids(text));
        assert_eq!(first[3], "msg_1");
        assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn a_mended_line_does_not_rename_the_turns_after_it() {
        let before = found_in("{\"role\":\"user\",\"content\":\"a\"}\n{oops\n{\"role\":\"user\",\"content\":\"b\"}\n");
        let after = turns_in(
            "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"!\"}\n{\"role\":\"user\",\"content\":\"b\"}\n",
        );

        let Found::Turn(last) = &before[2] else { panic!() };
        assert_eq!(last.client_id, after[2].client_id);
    }

    #[test]
    fn a_conversation_without_an_id_is_named_by_what_was_said() {
        let one = r#"{"messages":[{"role":"user","content":"one"}]}"#;
        let two = r#"{"messages":[{"role":"user","content":"two"}]}"#;

        let turns = turns_in(&format!("{one}\n{two}\n{one}\n"));

        assert!(turns[0].session.starts_with("chats-"));
        assert_ne!(turns[0].session, turns[1].session);
        assert_eq!(turns[0].session, turns[2].session);
    }

    #[test]
    fn a_bad_line_is_reported_with_its_reason_and_the_next_one_is_read() {
        check_problem("{oops", "is not JSON: key must be a string at column 2");
        check_problem("[1,2]", "not a JSON object");
        check_problem(b"{\"role\":\"user\",\"content\":\"\xff\"}", "is not UTF-8 (byte 27)");
        check_problem("{\"text\":\"hello\"}", "neither `messages`");
        check_problem("{\"messages\":{}}", "`messages` is not a list");
        check_problem("{\"messages\":[]}", "`messages` is empty");
        check_problem("{\"messages\":[5]}", "message 1: is not a JSON object");
        check_problem("{\"messages\":[{\"content\":\"x\"}]}", "message 1: has no `role`");
        check_problem("{\"role\":\"wizard\",\"content\":\"x\"}", "role \"wizard\": a role is one of user");
        check_problem("{\"role\":\"user\"}", "has no `content`");
        check_problem("{\"role\":\"user\",\"content\":5}", "neither a text nor a list");
        check_problem("{\"role\":\"user\",\"content\":\"x\",\"created_at\":\"soon\"}", "\"soon\" is not a time");
        check_problem("{\"role\":\"user\",\"content\":\"x\",\"session\":{}}", "`session` is not a text");
        check_problem("[".repeat(100_000), "is not JSON: recursion limit exceeded");
    }

    #[test]
    fn what_has_no_text_is_left_out() {
        for line in [
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}"#,
            r#"{"role":"assistant","content":"  "}"#,
            r#"{"role":"user","content":[]}"#,
        ] {
            assert_eq!(found_in(line), [Found::LeftOut("without text")], "{line}");
        }
    }

    #[test]
    fn a_file_without_a_single_json_object_is_the_wrong_file() {
        let reader: Box<dyn BufRead + Send> =
            Box::new(std::io::Cursor::new(b"{\n  \"messages\": [\n  ]\n}\n".to_vec()));

        let error = read(reader, "chats", &mut |_| ControlFlow::Continue(())).unwrap_err();

        assert!(error.to_string().contains("jq -c"), "{error}");
    }
}
